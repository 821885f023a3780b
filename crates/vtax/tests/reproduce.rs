//! `vtax reproduce` as its users meet it: what is listed, what is refused, and a small study of one's own run to its report.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use vtax_sys::require::{Need, need};
use vtax_testkit::programs::{Killed, family, goes_on};
use vtax_testkit::runs::until_measuring;

fn vtax(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vtax")).args(arguments).output().expect("vtax starts")
}

fn expect(output: &Output, code: i32, words: &[&str]) {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
}

const STUDY: &str = r#"
version: 1
name: mine
source: {title: Two of a kind, authors: [A. Nobody], publisher: none, year: 2026, kind: report}
question: Is a server as fast as itself?
items:
  - {id: table 1, title: Rates, content: printed, claims: [same, faster]}
tables:
  - {id: "1", item: table 1, unit: /s, columns: [rate], rows: [{name: one, values: [50]}, {name: other, values: [49]}]}
experiments:
  - {id: rates, title: The same rate for both, quick: plan.yaml, full: plan.yaml, trials: 1, trials_from: told}
claims:
  - id: same
    text: Both answer as often.
    place: table 1
    said: quoted
    figures: printed
    test:
      experiment: rates
      is: equal
      margin: 0.5
      of: {measure: latency@50, metric: goodput}
      points:
        - {name: one, study: {table: "1", row: one, column: rate}, ours: {environment: native}}
        - {name: other, study: {table: "1", row: other, column: rate}, ours: {environment: other}}
  - id: faster
    text: A faster machine is faster.
    place: table 1
    said: inferred
    figures: printed
    why_not: There is no other machine.
rules:
  - {id: alike, text: Both rates are the same., equals: [{cell: {table: "1", row: one, column: rate}}, {cell: {table: "1", row: other, column: rate}}]}
"#;

const PLAN: &str = "vtax: 1\nname: mine\nbaseline: native\nenvironments: [native, native: {name: other}]\n\
                    services: http\nworkload:\n  http: {target: /bytes/100, connections: 2}\n\
                    measure:\n  - latency: {load: 50/s, warmup: 0s, duration: 400ms}\nrepeat: {min: 3, max: 3, budget: 1s}\n";

fn mine(folder: &Path) {
    std::fs::write(folder.join("claims.yaml"), STUDY).expect("written");
    std::fs::write(folder.join("plan.yaml"), PLAN).expect("written");
}

/// The folder of a study that can be run here, and where its runs go.
fn runnable() -> Option<(tempfile::TempDir, PathBuf)> {
    if !need(&[Need::Ns]) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a directory");
    mine(folder.path());
    let out = folder.path().join("out");
    Some((folder, out))
}

#[test]
fn studies_are_listed_and_others_are_refused() {
    expect(&vtax(&["reproduce"]), 0, &["virtual-links", "virtualized-ims", "virtual-nas", "rules broken"]);
    let list = vtax(&["reproduce", "consolidated-servers", "--list"]);
    expect(&list, 0, &["response-knee", "plans/web-quick.yaml", "ratio-is-the-quotient", "can't be run"]);
    expect(&vtax(&["reproduce", "no-such-study"]), 2, &["no-such-study", "virtual-links"]);
    let only = vtax(&["reproduce", "virtual-links", "--only", "nothing", "--report"]);
    expect(&only, 2, &["no experiment `nothing`", "links"]);
    expect(&vtax(&["reproduce", "--full"]), 2, &["STUDY"]);
}

#[test]
fn a_study_of_ones_own_is_checked() {
    let folder = tempfile::tempdir().expect("a directory");
    mine(folder.path());
    let name = folder.path().to_str().expect("UTF-8");
    expect(&vtax(&["check", name]), 0, &["mine: 1 item, 2 claims", "1 are broken"]);
    let wrong = PLAN.replace("name: other", "name: another");
    std::fs::write(folder.path().join("plan.yaml"), wrong).expect("written");
    expect(&vtax(&["check", name]), 2, &["claim `same`, `other`", "no such cell"]);
    std::fs::write(folder.path().join("plan.yaml"), PLAN.replace("repeat:", "repeet:")).expect("written");
    let checked = vtax(&["check", name]);
    expect(&checked, 2, &["plan.yaml:", "did you mean `repeat`?"]);
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(said.starts_with("error: ") && !said.contains(": error: "), "{said}");
    std::fs::write(folder.path().join("claims.yaml"), "version: 1\n").expect("written");
    expect(&vtax(&["check", name]), 2, &["claims.yaml"]);
    std::fs::remove_file(folder.path().join("claims.yaml")).expect("removed");
    let plan = format!("no claims.yaml): name a plan in it, such as {name}/plan.yaml");
    expect(&vtax(&["check", name]), 2, &["is a directory, and no study", &plan]);
}

/// Runs as published come last, hours after the others: what is wrong with them is told before anything is run.
#[test]
fn what_is_wrong_as_published_is_told_first() {
    let folder = tempfile::tempdir().expect("a directory");
    mine(folder.path());
    let published = |set: &str| {
        let told = format!("trials_from: told, as_published: [{set}]}}");
        std::fs::write(folder.path().join("claims.yaml"), STUDY.replace("trials_from: told}", &told))
            .expect("written");
    };
    let name = folder.path().to_str().expect("UTF-8");
    let out = folder.path().join("out");
    let reproduce = || vtax(&["reproduce", name, "--as-published", "--out", out.to_str().expect("UTF-8")]);
    published("measure.latency.duratoin=1s");
    let words = ["duratoin", "did you mean `duration`?"];
    expect(&vtax(&["check", name]), 2, &words);
    expect(&reproduce(), 2, &words);
    assert!(!out.exists(), "something was begun");
    published("environments=native");
    expect(&vtax(&["check", name]), 2, &["as published: claim `same`, `other`", "no such cell"]);
    published("measure.latency.duration=300ms");
    expect(&vtax(&["check", name]), 0, &["mine: 1 item, 2 claims"]);
}

#[test]
fn a_report_of_nothing_says_what_was_not_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    let made = vtax(&["reproduce", "virtual-nas", "--report", "--out", out]);
    expect(&made, 0, &["can't be run here", "Experiment nas wasn't run"]);
    for file in ["report.html", "report.md", "claims.json", "CITATION.cff"] {
        assert!(Path::new(out).join(file).is_file(), "{file}");
    }
}

#[test]
fn a_study_is_tried_before_it_is_run() {
    let Some((folder, out)) = runnable() else { return };
    let (name, out) = (folder.path().to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    let tried = || vtax(&["reproduce", name, "--smoke-test", "--out", out]);
    expect(&tried(), 0, &["2 of 2 trials work", "smoke tests\n  rates  works\n"]);
    assert!(!Path::new(out).join("rates").exists() && !Path::new(out).join("report.html").exists());
    let ends =
        PLAN.replace("services: http", "services: {command: {name: ends, run: [\"false\"], port: 8000}}");
    std::fs::write(folder.path().join("plan.yaml"), ends).expect("written");
    std::thread::sleep(std::time::Duration::from_secs(1));
    expect(&tried(), 1, &["0 of 2 trials work", "rates  fails: "]);
}

#[test]
fn a_run_ends_with_the_reproduce_that_is_killed() {
    let Some((folder, out)) = runnable() else { return };
    // Longer than the test.
    let long = PLAN.replace("400ms", "300s").replace("budget: 1s", "budget: 301s");
    std::fs::write(folder.path().join("plan.yaml"), long).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vtax"));
    command.arg("reproduce").arg(folder.path()).arg("--out").arg(&out);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let reproduce = Killed::new(command.spawn().expect("vtax starts"));
    until_measuring(&out.join("rates"));
    let started = family(reproduce.id());
    assert!(started.len() > 2, "{started:?}");
    // By SIGKILL, of which it hears nothing.
    drop(reproduce);
    let until = Instant::now() + Duration::from_secs(60);
    while started.iter().any(|process| goes_on(*process)) {
        assert!(Instant::now() < until, "the run goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Run, judged, not run again, and reported anew. The verdict itself is the machine's: only that there is one is looked at.
#[test]
fn a_small_study_runs_to_its_report_and_is_not_run_again() {
    let Some((folder, out)) = runnable() else { return };
    let (name, out) = (folder.path().to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    expect(&vtax(&["reproduce", name, "--out", out]), 0, &["rates: The same rate for both", "same"]);
    let json = std::fs::read_to_string(Path::new(out).join("claims.json")).expect("written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    // On a busy machine no trial may count.
    let state = &json["experiments"]["rates"];
    assert!(state == "complete" || state == "empty", "{state}");
    assert_eq!(json["claims"][1]["properly"]["verdict"], "can't be run here");
    assert_eq!(json["claims"][0]["printed"]["verdict"], "held");
    assert!(Path::new(out).join("rates/report.html").is_file());
    assert!(Path::new(out).join("plans/rates.yaml").is_file());
    expect(&vtax(&["reproduce", name, "--out", out]), 0, &["rates: finished before"]);
    let published = vtax(&["reproduce", name, "--out", out, "--as-published"]);
    expect(&published, 0, &["rates: finished before", "as-published/rates"]);
    assert!(Path::new(out).join("as-published/rates/report.html").is_file());
}
