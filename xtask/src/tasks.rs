//! Building, checking and testing.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};

use crate::place::root;

/// The binary that `make build` leaves.
pub(crate) fn vtax() -> PathBuf {
    root().join("target/vtax")
}

/// The cargo that runs this program, without the variables in which it describes this program. ring's build script looks at
/// such variables: after each change from `cargo` to `cargo xtask` ring and all that depends on it would be built again.
pub(crate) fn cargo_command() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let said = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(said) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs cargo in the workspace's root.
pub(crate) fn cargo(args: &[&str]) -> Result<()> {
    run(cargo_command().args(args))
}

/// Runs a program in the workspace's root.
///
/// # Errors
///
/// Where it can't be started, or fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

fn status(command: &mut Command) -> Result<ExitStatus> {
    command.current_dir(root()).status().with_context(|| format!("starting {command:?}"))
}

/// `DIRECTORY/TRIPLE/FILE`; the triple is the host's, whatever it is.
pub(crate) fn newest(directory: &Path, file: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|e| e.path().join(file)).filter(|p| p.is_file()).collect();
    found.sort_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    found.pop().with_context(|| format!("cargo built no {file}"))
}

/// Formatting, licences, lints.
pub(crate) fn check() -> Result<()> {
    check_text()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

/// What of [`check`] compiles nothing.
pub(crate) fn check_text() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    crate::licences::check()
}

/// The exit code of `vtax setup` where something is missing that can't be had here.
const NOT_ALL: i32 = 3;

/// Installs the services and peers that tests and benchmarks run for real.
pub(crate) fn setup(vtax: &Path) -> Result<()> {
    setup_by(&mut Command::new(vtax))
}

/// The same, by a command that starts vtax. It says what is still missing, and each test that needs that says so too: an ordinary
/// user, who may install nothing, has all other tests.
pub(crate) fn setup_by(vtax: &mut Command) -> Result<()> {
    let status = status(vtax.args(["setup", "--tests"]))?;
    ensure!(status.success() || status.code() == Some(NOT_ALL), "{vtax:?} ended with {status}");
    Ok(())
}

/// What tests look at pages with, and no user gets: into `target`, as nothing that it runs by itself.
pub(crate) fn test_tools() -> Result<()> {
    let tools = root().join("target/test-tools");
    std::fs::create_dir_all(&tools).with_context(|| format!("creating {}", tools.display()))?;
    if tools.join("node_modules/axe-core/axe.min.js").is_file() {
        return Ok(());
    }
    if Command::new("npm").arg("--version").output().is_err() {
        println!("no npm: pages aren't looked at by axe-core");
        return Ok(());
    }
    let options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
    let mut npm = Command::new("npm");
    npm.arg("install").arg("--prefix").arg(&tools).args(options).arg("axe-core@4.10.3");
    // A machine that no registry can be reached from has all other tests.
    if let Err(e) = run(&mut npm) {
        println!("npm doesn't install axe-core, so pages aren't looked at by it: {e:#}");
    }
    Ok(())
}

/// Runs a benchmark or a proof: a package of its own, whose dependencies `check` and `test` don't have to build first.
pub(crate) fn measure(args: &[&str]) -> Result<()> {
    cargo(&[&["run", "--quiet", "--package", "vtax-bench", "--"], args].concat())
}

/// What only tests and developers need, and no registry gets.
const BESIDE: [&str; 4] = ["vtax-bench", "vtax-fixture", "vtax-testkit", "xtask"];

/// Packs every crate as a registry would get it, without asking one. Nothing is published.
///
/// # Errors
///
/// Where a crate needs what isn't part of it.
pub(crate) fn package() -> Result<()> {
    let excluded = BESIDE.into_iter().flat_map(|name| ["--exclude", name]);
    let args = ["package", "--workspace", "--offline", "--no-verify"].into_iter().chain(excluded);
    cargo(&args.collect::<Vec<_>>())
}

/// The time of the last commit, seconds since 1970: what is packed has it, so that two builds give the same bytes. 0 without git.
pub(crate) fn source_time() -> u64 {
    let git = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output();
    let said = git.ok().filter(|out| out.status.success()).and_then(|out| String::from_utf8(out.stdout).ok());
    said.and_then(|time| time.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_a_user_may_not_install_keeps_no_test_from_running() {
        let set_up = |exit: &str| setup_by(Command::new("sh").args(["-c", exit]));
        // The arguments of vtax are the script's.
        assert!(set_up("test \"$0 $1\" = 'setup --tests'").is_ok());
        assert!(set_up("exit 3").is_ok());
        assert!(set_up("exit 2").is_err_and(|error| error.to_string().contains("exit status: 2")));
    }

    /// Else cargo packs no crate that needs another one of the workspace.
    #[test]
    fn what_a_registry_gets_may_be_published_and_nothing_else() {
        let mut cargo = cargo_command();
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(root());
        let output = cargo.output().unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let may_be = |package: &&Value| package["publish"].is_null();
        let name = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
        let kept: Vec<String> = packages.iter().filter(|package| !may_be(package)).map(name).collect();
        assert!(
            packages.len() > BESIDE.len() && BESIDE.iter().all(|beside| kept.iter().any(|k| k == beside))
        );
        assert_eq!(kept.len(), BESIDE.len(), "{kept:?}");
        // Who gets a package gets its licences' texts.
        for package in packages.iter().filter(may_be) {
            let manifest = package["manifest_path"].as_str().unwrap();
            for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
                let text = std::fs::read(Path::new(manifest).with_file_name(name));
                assert_eq!(text.unwrap(), std::fs::read(root().join(name)).unwrap(), "{manifest}: {name}");
            }
        }
    }
}
