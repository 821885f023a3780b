//! Kubernetes for the tests with a real one: built from its published modules, then the tests are run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::place::root;
use crate::tasks::{cargo_command, run, setup_by};

/// Where the modules are whose go.mod and go.sum say which versions are built, and of what bytes: Kubernetes' own, and those of what
/// makes containers, which need other versions of what both are made of.
const KUBERNETES: &str = "crates/vtax/tests/many/kubernetes";
const CONTAINERS: &str = "crates/vtax/tests/many/kubernetes/containers";

/// The programs: what each is called, the module that has its version, and its package.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("etcd", KUBERNETES, "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubelet", KUBERNETES, "k8s.io/kubernetes/cmd/kubelet"),
    ("kubectl", KUBERNETES, "k8s.io/kubernetes/cmd/kubectl"),
    ("containerd", CONTAINERS, "github.com/containerd/containerd/v2/cmd/containerd"),
    (
        "containerd-shim-runc-v2",
        CONTAINERS,
        "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    ),
    ("ctr", CONTAINERS, "github.com/containerd/containerd/v2/cmd/ctr"),
    ("runc", CONTAINERS, "github.com/opencontainers/runc"),
];

/// Builds what isn't built yet and runs the tests, or those whose names have a word of `filter`.
///
/// # Errors
///
/// Where something doesn't build or install, and where a test fails.
pub(crate) fn test(filter: &[&str]) -> Result<()> {
    setup_by(cargo_command().args(["run", "--quiet", "--package", "vtax", "--"]))?;
    let programs = build()?;
    let mut tests = cargo_command();
    tests.args(["test", "--package", "vtax", "--test", "many", "--", "--ignored", "--test-threads=1"]);
    if filter.is_empty() {
        tests.arg("kubernetes::");
    }
    // A test that can't run is no test that passed.
    run(tests.args(filter).env("VTAX_KUBERNETES", programs).env("VTAX_REQUIRE", "root"))
}

/// The version of Kubernetes that a go.mod asks for.
fn version(module: &str) -> Option<&str> {
    // A comment may follow.
    module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v")?.split_whitespace().next())
}

/// Builds the programs and returns their folder. What didn't change takes a moment each: Go keeps what it compiled.
fn build() -> Result<PathBuf> {
    let text = std::fs::read_to_string(root().join(KUBERNETES).join("go.mod"))
        .context("reading go.mod of the tests")?;
    let Some(version) = version(&text) else {
        bail!("go.mod of the tests names no version of k8s.io/kubernetes")
    };
    let place = root().join("target/kubernetes");
    std::fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    for (name, module, package) in PROGRAMS {
        let began = Instant::now();
        compile(module, package, version, &place.join(name))?;
        println!("built {name} in {} s", began.elapsed().as_secs());
    }
    Ok(place)
}

fn compile(module: &str, package: &str, version: &str, program: &Path) -> Result<()> {
    // Without its version an apiserver is none that others work with.
    let named = format!("-s -w -X k8s.io/component-base/version.gitVersion=v{version}");
    let mut go = Command::new("go");
    go.args(["build", "-C"]).arg(root().join(module)).args(["-mod=readonly", "-trimpath", "-tags=seccomp"]);
    go.args(["-ldflags", &named, "-o"]).arg(program).arg(package);
    // runc enters namespaces before Go has threads, which takes C.
    go.env("CGO_ENABLED", if package.ends_with("/runc") { "1" } else { "0" });
    run(&mut go).with_context(|| format!("building {package} (takes Go, as new as {module}/go.mod says)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_module() {
        let text = std::fs::read_to_string(root().join(KUBERNETES).join("go.mod")).expect("go.mod");
        let version = version(&text).expect("a version");
        // Its parts are modules of their own, and are replaced by theirs of the same version.
        let parts = version.replacen("1.", "0.", 1);
        let replaced: Vec<&str> = text.lines().filter(|line| line.contains(" => ")).collect();
        assert!(
            replaced.len() > 20 && replaced.iter().all(|line| line.ends_with(&parts)),
            "{parts}: {replaced:?}"
        );
        for (_, module, package) in PROGRAMS {
            let text = std::fs::read_to_string(root().join(module).join("go.mod")).expect("go.mod");
            assert!(text.contains(package), "{package} is no tool of {module}/go.mod");
        }
    }
}
