//! Builds every test by cargo, and reads which programs came of it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::program::Program;
use crate::place::root;
use crate::tasks::cargo_command;

/// Which compiler builds the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    Plain,
    /// One that lints what it compiles, where a warning is an error: to lint and to build apart reads everything twice.
    Linting,
}

/// What cargo has built for the tests.
#[derive(Default)]
pub(super) struct Built {
    pub(super) programs: Vec<Program>,
    /// Whether the compiler had something to say.
    warned: bool,
}

/// All targets: no documentation has examples, and looking for them would read each library once more. Once vtax is built,
/// `with_vtax` has its path, while the others are compiled.
pub(super) fn build(compiler: Compiler, mut with_vtax: impl FnMut(PathBuf)) -> Result<Built> {
    let mut cargo = cargo_command();
    cargo.args(["test", "--workspace", "--all-targets", "--no-run"]);
    cargo.arg("--message-format=json").current_dir(root()).stdout(Stdio::piped());
    if compiler == Compiler::Linting {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver());
    }
    let mut building = cargo.spawn().context("starting cargo")?;
    let output = building.stdout.take().context("cargo has no output")?;
    let mut built = Built::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("reading what cargo says")?;
        let Ok(message) = serde_json::from_str(&line) else { continue };
        if let Some(diagnostic) = diagnostic(&message) {
            println!("{diagnostic}");
            built.warned = true;
        }
        built.programs.extend(program(&message));
        if let Some(vtax) = vtax(&message) {
            with_vtax(vtax);
        }
    }
    let status = building.wait().context("waiting for cargo")?;
    ensure!(status.success(), "building the tests ended with {status}");
    ensure!(compiler == Compiler::Plain || !built.warned, "each warning is an error here");
    built.programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(built)
}

/// The compiler that lints: the one beside cargo, as `cargo clippy` has it, since `PATH` may lead to none.
fn clippy_driver() -> PathBuf {
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("clippy-driver"));
    beside.filter(|driver| driver.is_file()).unwrap_or_else(|| "clippy-driver".into())
}

/// What the compiler says in a message of cargo's, for people.
fn diagnostic(message: &Value) -> Option<&str> {
    let of_compiler = message["reason"] == "compiler-message";
    of_compiler.then(|| message["message"]["rendered"].as_str()).flatten()
}

/// The vtax that a message of cargo's is about.
fn vtax(message: &Value) -> Option<PathBuf> {
    let target = &message["target"];
    let is_vtax =
        target["name"] == "vtax" && target["kind"][0] == "bin" && message["profile"]["test"] == false;
    is_vtax.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

/// The test program that a message of cargo's is about.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?.to_owned();
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let source = source.strip_prefix(&folder).unwrap_or(source).display();
    let filter = Vec::new();
    Some(Program { name: format!("{package} {source}"), package, folder, executable, filter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_told_from_what_else_cargo_builds() {
        let message = |test, executable| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/crates/vtax-load/Cargo.toml",
                "target": {"src_path": "/w/crates/vtax-load/tests/net.rs"},
                "profile": {"test": test},
                "executable": executable,
            })
        };
        let found = program(&message(true, Value::from("/w/target/net-1"))).expect("a test");
        assert_eq!((found.package.as_str(), found.name.as_str()), ("vtax-load", "vtax-load tests/net.rs"));
        assert_eq!(found.folder, Path::new("/w/crates/vtax-load"));
        assert_eq!(program(&message(false, Value::from("/w/target/vtax"))), None);
        assert_eq!(program(&message(true, Value::Null)), None);
        assert_eq!(program(&serde_json::json!({"reason": "build-finished"})), None);
    }

    #[test]
    fn the_vtax_that_the_tests_run_is_told_from_its_own_tests() {
        let message = |kind, test| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "target": {"name": "vtax", "kind": [kind]},
                "profile": {"test": test},
                "executable": "/w/target/debug/vtax",
            })
        };
        assert_eq!(vtax(&message("bin", false)), Some(PathBuf::from("/w/target/debug/vtax")));
        assert_eq!(vtax(&message("bin", true)), None);
        assert_eq!(vtax(&message("lib", false)), None);
    }

    #[test]
    fn what_the_compiler_says_is_passed_on() {
        let warning =
            serde_json::json!({"reason": "compiler-message", "message": {"rendered": "warning: x"}});
        assert_eq!(diagnostic(&warning), Some("warning: x"));
        assert_eq!(diagnostic(&serde_json::json!({"reason": "compiler-artifact"})), None);
    }
}
