//! `vtax compare` as its users meet it: exit codes, files, words.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vtax_fixture::{Options, create};
use vtax_store::record::Finding;
use vtax_store::{Provenance, RunDir};
use vtax_units::Rate;

fn vtax(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vtax")).args(arguments).output().expect("vtax starts")
}

fn expect(output: &Output, code: i32, words: &[&str]) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = format!("{out}{err}");
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
}

/// A made-up run, and one with this share of its container's capacity and another budget if asked for.
fn runs(directory: &Path, share: f64, sut_cpus: u32) -> [String; 2] {
    let options = Options { repetitions: 4, seconds: 1, rate: 200, ..Options::default() };
    let (a, b) = (directory.join("a"), directory.join("b"));
    let run = create(&a, &options).expect("a run");
    let mut plan = run.plan().expect("its plan");
    plan.budget.sut_cpus = Some(sut_cpus);
    // It gets an identity of its own.
    let provenance = Provenance { run_id: String::new(), ..run.provenance().expect("provenance") };
    let mut other = RunDir::create(&b, &plan, &provenance).expect("another run");
    for mut record in run.trials().expect("trials") {
        if record.cell == "container.bridge.http"
            && let Some(Finding::Capacity(c)) = record.finding_mut()
        {
            c.lower = Rate(c.lower.0 * share);
            c.upper = c.upper.map(|u| Rate(u.0 * share));
        }
        let trial = other.begin_trial(&record.cell, &record.measure, record.repetition).expect("begun");
        other.finish_trial(trial, record).expect("finished");
    }
    other.completed().expect("completed");
    [a, b].map(|path: PathBuf| path.to_str().expect("UTF-8").to_owned())
}

#[test]
fn a_gate_for_ci() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = runs(directory.path(), 0.5, 1);
    let file = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (junit, markdown, html) = (file("junit.xml"), file("summary.md"), file("page.html"));
    let gate = ["compare", &a, &b, "--max-tax", "10%", "--metric", "capacity"];
    let output = vtax(&[&gate[..], &["--junit", &junit, "--markdown", &markdown, "--html", &html]].concat());
    expect(&output, 1, &["FAIL: a tax above 10% is shown in 1.", "▲ worse", "B against A"]);
    let junit = std::fs::read_to_string(junit).expect("JUnit XML");
    assert!(junit.contains("tests=\"3\" failures=\"1\""), "{junit}");
    let markdown = std::fs::read_to_string(markdown).expect("Markdown");
    assert!(markdown.contains("| **FAIL** |") && markdown.contains("quick: fail"), "{markdown}");
    let html = std::fs::read_to_string(html).expect("a page");
    assert!(html.contains("a tax above 10% is shown in 1.") && html.contains("badge worse"), "{html}");
    // The other way round it is a gain; and one run keeps to any limit that its scatter lets be seen.
    expect(&vtax(&["compare", &b, &a, "--max-tax", "10%", "--metric", "capacity"]), 0, &["PASS", "▼ better"]);
    expect(&vtax(&["compare", &a, &a, "--max-tax", "0%"]), 0, &["A and B are the same run", "can't tell"]);
    expect(&vtax(&["compare", &a, &a, "--max-tax", "0%", "--strict"]), 1, &["FAIL", "--strict"]);
    // Without a limit there is no gate.
    let output = vtax(&["compare", &a, &b, "--json"]);
    expect(&output, 0, &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["version"], &json["gate"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(json["rows"][1]["verdict"], "worse");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = runs(directory.path(), 1.0, 2);
    let words = ["can't be compared", "other plan: budget.sut_cpus is 1 in A, 2 in B", "to compare them"];
    expect(&vtax(&["compare", &a, &b, "--max-tax", "10%"]), 2, &words);
    expect(&vtax(&["compare", &a, "/nowhere"]), 2, &["/nowhere", "not a run directory"]);
    expect(&vtax(&["compare", &a, &a, "--metric", "speed"]), 2, &["no metric `speed`", "`vtax explain`"]);
    let spaced: [&str; 5] = ["compare", &a, &a, "--metric", "capacity, latncy_p50"];
    expect(&vtax(&spaced), 2, &["no metric `latncy_p50`", "did you mean `latency_p50`"]);
    expect(&vtax(&["compare", &a, &a, "--metric", "capacity, latency_p50"]), 0, &["latency"]);
    expect(&vtax(&["compare", &a, &a, "--junit", "/nowhere/x.xml"]), 2, &["cannot write /nowhere/x.xml"]);
    expect(&vtax(&["compare", &a, &a, "--strict"]), 2, &["--max-tax"]);
    // It would let a tax of 1000 % pass.
    expect(&vtax(&["compare", &a, &b, "--max-tax", "10"]), 2, &["did you mean `10%`?"]);
}

/// Directories of runs: each run is a session, and counts once.
#[test]
fn several_runs_of_each_side() {
    let directory = tempfile::tempdir().expect("a directory");
    let session = |side: &str, number: u32, share: f64| {
        let scratch = tempfile::tempdir().expect("a directory");
        let [_, made] = runs(scratch.path(), share, 1);
        let place = directory.path().join(side);
        std::fs::create_dir_all(&place).expect("created");
        std::fs::rename(made, place.join(number.to_string())).expect("moved");
    };
    for (number, share) in [(1, 1.0), (2, 0.97), (3, 1.02)] {
        session("main", number, share);
        session("branch", number, share * 0.5);
    }
    let side = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (main, branch) = (side("main"), side("branch"));
    let gate = ["compare", &main, &branch, "--max-tax", "10%", "--metric", "capacity"];
    expect(
        &vtax(&gate),
        1,
        &["FAIL: a tax above 10% is shown in 1.", "Intervals are of 3 runs of A and 3 of B"],
    );
    let json = vtax(&[&gate[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let more = json["b"]["more"].as_array().expect("the other runs");
    assert_eq!((more.len(), &json["rows"][1]["a"]["n"]), (2, &3.into()));
    // One run is no match for three.
    let one = format!("{branch}/1");
    expect(&vtax(&["compare", &main, &one]), 2, &["too few runs: 3 in A, 1 in B", "at least three runs"]);
    expect(
        &vtax(&["compare", &main, directory.path().to_str().expect("UTF-8")]),
        2,
        &["not a run directory"],
    );
}
