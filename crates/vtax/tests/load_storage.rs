//! `vtax load storage`: what it prints against its schema, and how it ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use vtax_testkit::programs::Killed;

#[path = "../../vtax-plan/tests/validate.rs"]
mod validate;
use validate::validate;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

/// A directory on the disk of the build, as `/tmp` may be memory.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn load(target: &Path, arguments: &[&str]) -> Output {
    let target = format!("file:{}", target.display());
    let mut command = Command::new(VTAX);
    command.args(["load", "storage", &target, "--quiet"]).args(arguments);
    command.stdin(Stdio::null()).output().expect("vtax starts")
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_it_prints_fits_its_schema_and_counts_every_operation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/load.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let directory = directory();
    let words = ["write", "read", "mix-50"];
    let output = load(
        directory.path(),
        &[
            "--engine",
            "psync",
            "--size",
            "256KiB",
            "--processes",
            "2",
            "--operations",
            &words.join(","),
            "--json",
        ],
    );
    assert!(output.status.success(), "{}", stderr_text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    validate(&schema, &schema, &report).unwrap();
    let operations = report["operations"].as_array().unwrap();
    let found: Vec<&str> = operations.iter().filter_map(|o| o["operation"].as_str()).collect();
    assert_eq!(found, words);
    assert!(operations.iter().all(|o| o["result"]["load"]["counts"]["ok"] == 128), "{report}");
    assert_eq!(operations[1]["result"]["verified"]["records"], 128);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "its files are removed");
}

#[test]
fn one_that_is_interrupted_before_its_first_operation_has_none() {
    let directory = directory();
    let mut command = Command::new(VTAX);
    command.args(["load", "storage", &format!("file:{}", directory.path().display()), "--json"]);
    command.args(["--engine", "psync", "--size", "2GiB", "--operations", "read"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map(Killed::new).expect("vtax starts");
    // The file is laid out before it is read.
    while fs::read_dir(directory.path()).unwrap().next().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it made its file: are 2 GiB free?");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.output().expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let ended = (&report["ended"], output.status.code());
    assert_eq!(ended, (&Value::from("interrupted"), Some(130)));
    assert_eq!(report["operations"].as_array().map(Vec::len), Some(0), "{report}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "its file is removed");
}

#[test]
fn the_table_has_a_row_for_each_operation() {
    let directory = directory();
    let output =
        load(directory.path(), &["--engine", "psync", "--size", "64KiB", "--operations", "write,re-read"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && stderr_text(&output).is_empty(), "{}", stderr_text(&output));
    assert!(table.lines().any(|line| line.starts_with("write ")), "{table}");
    assert!(table.contains("re-read: 16 records compared, 0 wrong"), "{table}");
}

#[test]
fn what_can_not_be_ends_with_its_exit_code() {
    let directory = directory();
    let foreign = directory.path().join("foreign");
    fs::write(&foreign, [b'x'; 4096]).unwrap();
    for (target, arguments, code, words) in [
        (foreign.as_path(), &["--size", "64KiB"][..], 2, "--overwrite"),
        (Path::new("/no/such/place"), &["--size", "64KiB"], 3, "/no/such"),
        (directory.path(), &["--size", "1TiB", "--processes", "256"], 3, "are free"),
        (directory.path(), &["--size", "5000"], 2, "whole records"),
        (directory.path(), &["--operations", "fly"], 2, "random-read"),
        (directory.path(), &["--engine", "psync", "--depth", "4"], 2, "psync"),
    ] {
        let output = load(target, &[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr_text(&output));
        assert!(stderr_text(&output).contains(words), "{arguments:?}: {}", stderr_text(&output));
    }
    assert_eq!(fs::read(&foreign).unwrap(), [b'x'; 4096]);
}
