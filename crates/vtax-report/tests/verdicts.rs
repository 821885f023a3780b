//! What keeps a comparison from its verdict, from the journal to the page: runs made up, then bent.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};
use vtax_fixture::{Options, create};
use vtax_report::{Report, write_all};
use vtax_store::RunDir;
use vtax_store::summary::{Comparison, Doubt, Verdict};

/// One made-up run of eight rounds for all tests here: its plan, provenance and journal.
static MADE: LazyLock<[(&str, String); 3]> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 8, seconds: 1, rate: 50, ..Options::default() };
    let run = create(&dir.path().join("run"), &options).unwrap();
    ["plan.yaml", "provenance.json", "journal.jsonl"]
        .map(|name| (name, fs::read_to_string(run.path().join(name)).unwrap()))
});

/// The run with its finished trials changed by `bend`; without the trials' own files, which verdicts don't need.
fn bent(dir: &Path, bend: impl Fn(&mut Value)) -> RunDir {
    let path = dir.join("run");
    fs::create_dir(&path).unwrap();
    for (name, text) in MADE.iter() {
        fs::write(path.join(name), text).unwrap();
    }
    let lines: Vec<String> = MADE[2]
        .1
        .lines()
        .map(|line| {
            let mut entry: Value = serde_json::from_str(line).unwrap();
            if entry["event"] == "trial-ended" {
                // The fixture's own invalid trials would make holes in the rounds.
                entry["validity"] = json!({"validity": "valid"});
                bend(&mut entry);
            }
            entry.to_string() + "\n"
        })
        .collect();
    fs::write(path.join("journal.jsonl"), lines.concat()).unwrap();
    RunDir::open(path).unwrap()
}

/// Sets a capacity trial's bracket to 1 % around `rate`.
fn set_capacity(entry: &mut Value, rate: f64) {
    entry["observations"][0]["result"]["lower"] = json!(format!("{rate}/s"));
    entry["observations"][0]["result"]["upper"] = json!(format!("{}/s", rate * 1.01));
}

fn is(entry: &Value, environment: &str) -> bool {
    entry["measure"] == "capacity" && entry["cell"].as_str().unwrap().starts_with(environment)
}

/// The round, with a scatter of its own that has no trend: three tenths of a percent.
fn wobble(entry: &Value) -> (f64, f64) {
    let round = entry["repetition"].as_f64().unwrap();
    (round, 1.0 + 0.003 * [0.0, 1.0, -1.0, 0.5, -0.5, 1.0, 0.0, -1.0][round as usize % 8])
}

fn container(report: &Report) -> Comparison {
    let mut all = report.summary().comparisons.iter();
    all.find(|c| c.metric == "capacity" && c.cell.starts_with("container")).unwrap().clone()
}

/// Native at 20,000/s in every round, the container at 20,000/s over `tax` of the round.
fn judged(tax: impl Fn(f64) -> f64) -> Comparison {
    let dir = tempfile::tempdir().unwrap();
    let run = bent(dir.path(), |entry| {
        let (round, wobble) = wobble(entry);
        if is(entry, "native") {
            set_capacity(entry, 20_000.0);
        } else if is(entry, "container") {
            set_capacity(entry, 20_000.0 * wobble / tax(round));
        }
    });
    container(&Report::read(&run).unwrap())
}

#[test]
fn a_steady_difference_is_called_one() {
    let c = judged(|_| 1.2);
    assert_eq!((c.verdict, c.doubt, c.rounds), (Verdict::Worse, None, Some(8)));
    assert!((c.tax.unwrap() - 1.2).abs() < 0.005, "{c:?}");
    assert!(
        c.explanation.contains("in 8 rounds") && c.explanation.contains("17 % lower"),
        "{}",
        c.explanation
    );
    let c = judged(|_| 1.0);
    assert_eq!(c.verdict, Verdict::Equivalent);
    assert!(c.explanation.contains("equal for its purpose"), "{}", c.explanation);
}

#[test]
fn what_all_rounds_share_is_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    // The machine slows to half: both sides with it.
    let run = bent(dir.path(), |entry| {
        let (round, wobble) = wobble(entry);
        if is(entry, "native") || is(entry, "container") {
            let scatter = if is(entry, "native") { 1.0 } else { wobble };
            set_capacity(entry, 20_000.0 * scatter * (1.0 - 0.06 * round));
        }
    });
    let c = container(&Report::read(&run).unwrap());
    assert_eq!((c.verdict, c.rounds), (Verdict::Equivalent, Some(8)), "{c:?}");
}

#[test]
fn a_tax_that_drifts_across_the_margin_is_none() {
    let c = judged(|round| 0.95 + 0.03 * round);
    assert_eq!((c.verdict, c.doubt), (Verdict::Inconclusive, Some(Doubt::Drifted)), "{c:?}");
    assert!(c.reason.contains("the environment drifted"), "{}", c.reason);
    // A difference that is one from the first trial to the last stays one.
    let c = judged(|round| 3.0 + 0.05 * round);
    assert_eq!((c.verdict, c.doubt), (Verdict::Worse, None), "{c:?}");
}

#[test]
fn no_verdict_below_what_the_testbed_can_tell() {
    let dir = tempfile::tempdir().unwrap();
    let run = bent(dir.path(), |entry| {
        let (_, wobble) = wobble(entry);
        if is(entry, "native") {
            set_capacity(entry, 20_000.0);
        } else if is(entry, "container") {
            set_capacity(entry, 20_000.0 * wobble / 1.2);
        }
    });
    let with = |trials: u32, tax: f64, half: f64, detectable: f64| {
        let effect = json!({"cell": "native.bridge.http", "measure": "capacity", "metric": "capacity",
            "trials": trials, "tax": tax, "interval": [1.0 / half, half], "detectable": detectable,
            "told_apart": false});
        let calibration = json!({"version": 1, "key": "k", "conditions": [], "made_unix_ms": 0,
            "vtax_version": "0", "plan": "quick", "run": "r", "effects": [effect]});
        fs::write(run.path().join("calibration.json"), calibration.to_string()).unwrap();
        container(&Report::read(&run).unwrap())
    };
    let at = |detectable| with(8, 1.0, 1.1, detectable);
    let c = at(1.1);
    assert_eq!((c.verdict, c.minimum_detectable), (Verdict::Worse, Some(1.1)));
    let c = at(1.3);
    assert_eq!((c.verdict, c.doubt), (Verdict::Inconclusive, Some(Doubt::BelowDetectable)));
    assert!(c.reason.contains("1.30x"), "{}", c.reason);
    // Eight rounds tell less than the three of a calibration: (2.364624 + 0.896030) ln 1.16 / 4.302653 sqrt(3 / 8) = 0.068877.
    let c = with(3, 1.0, 1.16, 1.3);
    assert_eq!((c.verdict, c.doubt), (Verdict::Worse, None), "{c:?}");
    assert!((c.minimum_detectable.unwrap().ln() - 0.068_877).abs() < 1e-5, "{c:?}");
    // But never less than its equals were apart, nor more than it found.
    assert_eq!(with(3, 1.25, 1.16, 1.3).doubt, Some(Doubt::BelowDetectable));
    assert_eq!(with(3, 1.0, 9.0, 1.1).minimum_detectable, Some(1.1));
    // Fewer rounds than it had are held to what it found.
    assert_eq!(with(20, 1.0, 1.01, 1.3).minimum_detectable, Some(1.3));
}

#[test]
fn missing_trials_say_what_kept_them_away() {
    let reasons = [
        ("generator-limited", Doubt::GeneratorLimited),
        ("no-steady-state", Doubt::NoSteadyState),
        ("overloaded", Doubt::Overloaded),
        ("disturbed", Doubt::Disturbed),
    ];
    for (word, doubt) in reasons {
        let dir = tempfile::tempdir().unwrap();
        let run = bent(dir.path(), |entry| {
            if is(entry, "container") {
                entry["validity"] = json!({"validity": "invalid", "reason": word, "detail": "made up"});
            }
        });
        let report = write_all(&run).unwrap();
        let c = container(&report);
        assert_eq!((c.verdict, c.doubt), (Verdict::Inconclusive, Some(doubt)), "{c:?}");
        let page = fs::read_to_string(run.path().join("report.html")).unwrap();
        let section = page.split("<section id=\"left-out\"").nth(1).unwrap();
        assert_eq!(section.split("</section>").next().unwrap().matches("made up").count(), 8);
    }
}

/// A container of which only the calm trials count may seem as good as it isn't.
#[test]
fn what_was_left_out_for_its_outcome_is_told_beside_the_verdict() {
    let said = |word: &str, without: u64| {
        let dir = tempfile::tempdir().unwrap();
        let run = bent(dir.path(), |entry| {
            if is(entry, "container") && entry["repetition"].as_u64().unwrap() < without {
                entry["validity"] = json!({"validity": "invalid", "reason": word, "detail": "made up"});
            }
        });
        let c = container(&Report::read(&run).unwrap());
        assert!(c.interval.is_some(), "{c:?}");
        c.explanation
    };
    let better = "those that count may be its better ones";
    let beyond = "That is more than of native, beyond chance";
    let two = said("no-steady-state", 2);
    let sentence = format!("Of 8 trials of container, 2 that never became steady were left out: {better}.");
    assert!(two.ends_with(&sentence) && !two.contains(beyond), "{two}");
    // Of eight and of eight: 5 and none are so far apart in 26 of 1000 cases, 2 and none in 467.
    let five = said("service-failed", 5);
    assert!(five.contains("5 in which the service failed were left out") && five.contains(beyond), "{five}");
    assert!(!said("no-steady-state", 1).contains(better), "one of eight is few");
    assert!(!said("disturbed", 4).contains(better), "that is the machine's doing");
}

/// What every trial tells is lost with each of them, whichever measure it was for.
#[test]
fn missing_trials_are_told_of_the_lifecycle_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = bent(dir.path(), |entry| {
        if entry["cell"].as_str().unwrap().starts_with("container") {
            entry["validity"] = json!({"validity": "invalid", "reason": "disturbed", "detail": "made up"});
        }
    });
    let report = Report::read(&run).unwrap();
    let all = report.summary().comparisons.iter();
    let found: Vec<&Comparison> =
        all.filter(|c| c.measure == "lifecycle" && c.cell.starts_with("container")).collect();
    assert_eq!(found.len(), 2);
    for c in found {
        assert_eq!((c.verdict, c.doubt), (Verdict::Inconclusive, Some(Doubt::Disturbed)), "{c:?}");
        // Eight rounds of three measures.
        assert!(c.reason.starts_with("too few trials: 24 were disturbed"), "{}", c.reason);
    }
}

/// What may be measured in pairs at the same time can live with a busy machine.
#[test]
fn duets_are_advised_where_they_help() {
    let dir = tempfile::tempdir().unwrap();
    let run = bent(dir.path(), |entry| {
        if entry["cell"].as_str().unwrap().starts_with("container") {
            entry["validity"] = json!({"validity": "invalid", "reason": "disturbed", "detail": "made up"});
        }
    });
    let report = write_all(&run).unwrap();
    let advised = |metric: &str| {
        let mut all = report.summary().comparisons.iter();
        let found = all.find(|c| c.cell.starts_with("container") && c.metric == metric);
        found.unwrap().reason.contains("`repeat: {trials: duet}`")
    };
    assert_eq!((advised("latency_p50"), advised("capacity")), (true, false));
}

#[test]
fn every_verdict_is_explained_and_a_closed_loop_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let run = bent(dir.path(), |_| {});
    let report = write_all(&run).unwrap();
    for c in &report.summary().comparisons {
        assert!(c.explanation.len() > 60, "{c:?}");
        assert_eq!(c.doubt.is_some(), c.verdict == Verdict::Inconclusive, "{c:?}");
        assert!(c.family.is_some_and(|n| n > 1) && c.level.is_some_and(|l| l <= 0.05), "{c:?}");
    }
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("<section id=\"why\"") && page.contains("coordinated"));
}

/// A sweep of six values of one parameter, with throughputs by a law whose peak is at 20.
#[test]
fn a_sweep_gets_its_law_or_the_reason_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let targets = ["1", "2", "4", "8", "16", "32"].map(str::to_owned).to_vec();
    let options = Options { repetitions: 2, seconds: 1, rate: 20, targets, ..Options::default() };
    let run = create(&dir.path().join("run"), &options).unwrap();
    let path = run.path().join("journal.jsonl");
    let original = fs::read_to_string(&path).unwrap();
    let section = |bend: &dyn Fn(f64, usize) -> f64| {
        let mut lines = String::new();
        for (i, line) in original.lines().enumerate() {
            let mut entry: Value = serde_json::from_str(line).unwrap();
            if entry["event"] == "trial-ended" && entry["measure"] == "throughput" {
                let n: f64 = entry["cell"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap();
                entry["validity"] = json!({"validity": "valid"});
                let noise = 1.0 + 0.004 * ((i * 7) % 5) as f64;
                entry["observations"][0]["result"]["load"]["counts"]["ok"] =
                    json!((bend(n, i) * noise) as u64);
            }
            lines.push_str(&(entry.to_string() + "\n"));
        }
        fs::write(&path, lines).unwrap();
        write_all(&run).unwrap();
        let page = fs::read_to_string(run.path().join("report.html")).unwrap();
        let part = page.split("<section id=\"scalability\"").nth(1).expect("a section").to_owned();
        part.split("</section>").next().unwrap().to_owned()
    };
    // sqrt((1 - 0.04) / 0.0024) = 20.
    let law = section(&|n, _| 1e5 * n / (1.0 + 0.04 * (n - 1.0) + 0.0024 * n * (n - 1.0)));
    assert!(
        law.contains("predicted to peak at 20 target") || law.contains("predicted to peak at 19 target"),
        "{law}"
    );
    let chance = section(&|_, i| if i * 37 % 11 < 5 { 1e5 } else { 3e5 });
    assert!(chance.contains("support a law"), "{chance}");
}

/// Where searches end at the highest rate asked for, capacities look alike, and a law would find that nothing grows there.
#[test]
fn lower_bounds_of_capacity_make_no_law() {
    let dir = tempfile::tempdir().unwrap();
    let targets = ["1", "2", "4", "8", "16", "32"].map(str::to_owned).to_vec();
    let options = Options { repetitions: 2, seconds: 1, rate: 20, targets, ..Options::default() };
    let run = create(&dir.path().join("run"), &options).unwrap();
    let path = run.path().join("journal.jsonl");
    let original = fs::read_to_string(&path).unwrap();
    let section = |ends_at: f64| {
        let mut lines = String::new();
        for (i, line) in original.lines().enumerate() {
            let mut entry: Value = serde_json::from_str(line).unwrap();
            if entry["event"] == "trial-ended" {
                entry["validity"] = json!({"validity": "valid"});
                if entry["measure"] == "capacity" {
                    let n: f64 = entry["cell"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap();
                    let noise = 1.0 + 0.004 * ((i * 7) % 5) as f64;
                    let truth = 1e5 * n / (1.0 + 0.04 * (n - 1.0) + 0.0024 * n * (n - 1.0)) * noise;
                    set_capacity(&mut entry, truth.min(ends_at));
                    if truth > ends_at {
                        entry["observations"][0]["result"]["upper"] = Value::Null;
                    }
                } else {
                    let reason = json!({"validity": "invalid", "reason": "disturbed", "detail": "made up"});
                    entry["validity"] = reason;
                }
            }
            lines.push_str(&(entry.to_string() + "\n"));
        }
        fs::write(&path, lines).unwrap();
        write_all(&run).unwrap();
        let page = fs::read_to_string(run.path().join("report.html")).unwrap();
        let part = page.split("<section id=\"scalability\"").nth(1).expect("a section").to_owned();
        part.split("</section>").next().unwrap().to_owned()
    };
    let known = section(1e9);
    assert!(known.contains("predicted to peak at") && !known.contains("lower bounds"), "{known}");
    // 8, 16 and 32 are beyond it.
    let bounds = section(5e5);
    assert!(bounds.contains("6 of 12 trials never came to the limit"), "{bounds}");
    assert!(!bounds.contains("predicted to peak"), "{bounds}");
}

/// A layer in which one of three trials spent nothing: there are no logarithms then, and Student's t reaches below 0.
#[test]
fn intervals_hold_only_what_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let run = bent(dir.path(), |entry| {
        let round = entry["repetition"].as_u64().unwrap();
        if round > 2 {
            entry["validity"] = json!({"validity": "invalid", "reason": "disturbed", "detail": "made up"});
        }
        for layer in entry["observations"][0]["cpu"]["layers"].as_array_mut().unwrap() {
            if round == 0 && layer["layer"] == "supervisor" {
                layer["time"] = json!("0s");
            }
        }
    });
    let report = write_all(&run).unwrap();
    let cells = &report.summary().cells;
    let native = cells.iter().find(|c| c.environment == "native" && c.measure == "latency").unwrap();
    let supervisor = &native.metrics["cpu_per_request.supervisor"];
    let (low, high) = supervisor.interval.unwrap();
    assert!(supervisor.values.contains(&0.0) && low == 0.0 && high > 0.0, "{supervisor:?}");
    for (name, m) in cells.iter().flat_map(|c| &c.metrics) {
        let Some((low, high)) = m.interval else { continue };
        assert!(low >= 0.0 && (m.unit != "1" || high <= 1.0), "{name}: {m:?}");
        assert!(low <= m.center && m.center <= high, "{name}: {m:?}");
    }
    // Three trials: their intervals are Student's and reach beyond them, and the page says so.
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("It reaches beyond all trials where they are fewer than 6"));
}

#[test]
fn what_the_plan_asks_first_is_judged_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let run = bent(dir.path(), |_| {});
    let plan = run.path().join("plan.yaml");
    let primary = "primary:\n  measures: [capacity]\n  metrics: []\n  environments: [container]\n";
    fs::write(&plan, fs::read_to_string(&plan).unwrap() + primary).unwrap();
    let report = Report::read(&RunDir::open(run.path()).unwrap()).unwrap();
    let all = &report.summary().comparisons;
    let first: Vec<&Comparison> = all.iter().filter(|c| c.asked_first).collect();
    assert!(!first.is_empty());
    for c in &first {
        assert!(
            c.cell.starts_with("container") && c.measure == "capacity" && c.metric == "capacity",
            "{c:?}"
        );
        // Four of the five percent that the first table may err, whatever their number.
        assert!(c.level.unwrap() <= 0.04 + 1e-9 && c.family == Some(first.len() as u32), "{c:?}");
    }
    let headline = &report.summary().headline;
    assert!(headline.contains("container") && !headline.contains("vm"), "{headline}");
    // The rest of the first table has the remaining percent, and more where all of that differs, or all of it is equal.
    let told = first.iter().all(|c| c.verdict != Verdict::Inconclusive);
    let vm = all.iter().find(|c| c.metric == "capacity" && c.cell.starts_with("vm")).unwrap();
    assert!(vm.level.unwrap() <= if told { 0.05 } else { 0.01 } + 1e-9, "{vm:?}");
}
