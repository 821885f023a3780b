//! A run is written, read, interrupted, damaged and resumed.

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use support::{load, plan, record};
use vtax_load::storage::{CacheEvidence, Facts, IoCounters, StorageResult, Verified};
use vtax_plan::model::{CommandService, Plan, Ready, ServiceKind};
use vtax_probe::{CpuTimes, InterfaceCounters, Snapshot, TaskTimes};
use vtax_store::record::{CapacityOutcome, Finding, InvalidReason, JournalEntry, Observation, Validity};
use vtax_store::storage::StorageFinding;
use vtax_store::{
    CALIBRATION_VERSION, CalibratedEffect, Calibration, JOURNAL_MINOR, PROVENANCE_VERSION, Provenance,
    RunDir, RunWriter, StoreError, TrialEvent,
};
use vtax_units::{Nanos, Rate};

fn provenance() -> Provenance {
    Provenance { version: PROVENANCE_VERSION, vtax_version: "0.1.0".to_owned(), ..Provenance::default() }
}

fn create(path: &Path) -> RunWriter {
    RunDir::create(path, &plan(), &provenance()).unwrap()
}

fn snapshot(at: u64) -> Snapshot {
    Snapshot {
        at: Nanos(at),
        cpus: vec![CpuTimes { user: Nanos(at / 2), ..CpuTimes::default() }],
        tasks: vec![TaskTimes {
            id: 7,
            name: "nginx\n\u{1F980}".to_owned(),
            resident_bytes: 1,
            ..TaskTimes::default()
        }],
        interfaces: vec![InterfaceCounters {
            name: "eth0".to_owned(),
            rx_bytes: at,
            ..InterfaceCounters::default()
        }],
        ..Snapshot::default()
    }
}

/// The journal of a run with one trial, which nobody writes to any more.
fn journal_of_one_trial(path: &Path) -> PathBuf {
    let mut run = create(path);
    one_trial(&mut run);
    path.join("journal.jsonl")
}

fn one_trial(run: &mut RunWriter) {
    let mut trial = run.begin_trial("native.bridge.http", "latency", 0).unwrap();
    trial.snapshot("sut", &snapshot(1_000)).unwrap();
    trial.snapshot("sut", &snapshot(2_000)).unwrap();
    let event = TrialEvent {
        at: Nanos(5),
        node: "sut".to_owned(),
        kind: "service-ready".to_owned(),
        text: "\u{7}<b>\n".to_owned(),
    };
    trial.event(&event).unwrap();
    trial.log("sut.nginx.stderr", "first").unwrap();
    trial.log("../../../etc/passwd", "second").unwrap();
    run.finish_trial(trial, record()).unwrap();
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/run");
    let mut run = create(&path);
    run.note(Some("vm.bridge.http"), "software emulation").unwrap();
    one_trial(&mut run);
    run.completed().unwrap();

    let run = RunDir::open(&path).unwrap();
    assert_eq!(run.plan().unwrap(), plan());
    let stored = run.provenance().unwrap();
    assert_eq!(stored, Provenance { run_id: stored.run_id.clone(), ..provenance() });
    let entries: Vec<_> = run.journal().unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), 5);
    assert!(matches!(&entries[1], JournalEntry::Note { text, .. } if text == "software emulation"));
    assert!(matches!(entries[4], JournalEntry::Completed { .. }));

    let trials = run.trials().unwrap();
    let Some(Finding::Latency { load: stored, .. }) = trials[0].finding() else { panic!("{trials:?}") };
    assert_eq!(stored.latency, load().latency);
    assert_eq!(stored.lateness, load().lateness);
    assert!(stored.intervals.is_empty());

    let trial = run.trial(0);
    let mut samples = Vec::new();
    assert_eq!(trial.for_each_sample(|s| samples.push(s)).unwrap(), 1000);
    assert_eq!(samples, load().samples);
    let mut intervals = Vec::new();
    trial.for_each_interval(|i| intervals.push(i)).unwrap();
    assert_eq!(intervals.len(), 3);
    for (read, written) in intervals.iter().zip(load().intervals) {
        assert_eq!((read.start, &read.counts), (written.start, &written.counts));
        assert_eq!(read.latency.0, written.latency.0);
    }
    let mut rows = Vec::new();
    trial
        .for_each_probe_row(|r| {
            rows.push(format!("{} {} {} {} {}", r.at_ns, r.node, r.source, r.metric, r.value))
        })
        .unwrap();
    assert!(rows.contains(&"2000 sut cpu0 user 1000".to_owned()), "{rows:?}");
    assert!(rows.contains(&"1000 sut if:eth0 rx_bytes 1000".to_owned()));
    assert!(rows.contains(&"1000 sut task:7:nginx\n\u{1F980} resident 1".to_owned()));
    assert_eq!(trial.events().unwrap()[0].text, "\u{7}<b>\n");
    let logs = trial.logs().unwrap();
    let names: Vec<_> = logs.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["_.._.._etc_passwd", "sut.nginx.stderr"]);
    assert_eq!(trial.log_tail(&logs[1].1, 100).unwrap(), "first\n");
}

#[test]
fn a_directory_of_runs_is_opened_as_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let refused = |path: &Path| RunDir::open_all(path).unwrap_err().to_string();
    assert!(refused(dir.path()).contains("it has no journal.jsonl"));
    assert!(refused(&place("nowhere")).contains("it does not exist"));
    for name in ["b", "a"] {
        drop(create(&place(name)));
    }
    fs::create_dir(place("notes")).unwrap();
    fs::write(place("c"), "no directory").unwrap();
    let names = |path: &Path| -> Vec<PathBuf> {
        RunDir::open_all(path).unwrap().iter().map(|run| run.path().to_owned()).collect()
    };
    assert_eq!(names(dir.path()), [place("a"), place("b")]);
    assert_eq!(names(&place("a")), [place("a")]);
    // One that can't be read is not left out.
    fs::create_dir(place("d")).unwrap();
    fs::write(place("d/journal.jsonl"), "").unwrap();
    assert!(refused(dir.path()).contains("its journal is empty"));
    // A run on several hosts has another way to be taken together.
    fs::write(dir.path().join("hosts.json"), "{}").unwrap();
    assert!(refused(dir.path()).contains("one for each host"));
}

#[test]
fn one_writer_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let writer = create(&path);
    assert!(matches!(RunDir::create(&path, &plan(), &provenance()), Err(StoreError::Exists { .. })));
    assert!(matches!(RunDir::resume(&path), Err(StoreError::Locked { .. })));
    RunDir::open(&path).unwrap();
    drop(writer);
    RunDir::resume(&path).unwrap();
}

#[test]
fn a_killed_writer_loses_only_what_it_was_at() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut run = create(&path);
    one_trial(&mut run);
    let trial = run.begin_trial("vm.bridge.http", "latency", 0).unwrap();
    std::mem::forget(trial);
    drop(run);
    fs::write(path.join("summary.json.tmp"), "{").unwrap();
    // A report is being written meanwhile.
    let written = fs::File::create(path.join("report.html.0a1b2c3d.tmp")).unwrap();
    written.try_lock().unwrap();
    let journal = path.join("journal.jsonl");
    let whole = fs::metadata(&journal).unwrap().len();
    let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(b"{\"event\":\"trial-en").unwrap();

    // A report may read it as it is.
    assert_eq!(RunDir::open(&path).unwrap().trials().unwrap().len(), 1);
    let mut run = RunDir::resume(&path).unwrap();
    assert_eq!(run.next_index(), 2);
    assert!(!path.join("trials/001.tmp").exists() && !path.join("summary.json.tmp").exists());
    assert!(path.join("report.html.0a1b2c3d.tmp").exists());
    one_trial(&mut run);
    assert_eq!(run.run().trials().unwrap().iter().map(|t| t.index).collect::<Vec<_>>(), [0, 2]);
    assert!(fs::metadata(&journal).unwrap().len() > whole);
}

#[test]
fn a_dropped_trial_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = create(&dir.path().join("run"));
    let mut trial = run.begin_trial("native.bridge.http", "latency", 0).unwrap();
    trial.log("x", "y").unwrap();
    let path = trial.path().to_owned();
    assert!(path.exists());
    drop(trial);
    assert!(!path.exists());
}

#[test]
fn a_number_json_lacks_is_refused_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = create(&dir.path().join("run"));
    let trial = run.begin_trial("native.bridge.http", "latency", 0).unwrap();
    let mut bad = record();
    let nan = CapacityOutcome { lower: Rate(f64::NAN), upper: None, steps: Vec::new() };
    bad.observations = vec![Observation::whole(0, Finding::Capacity(nan))];
    assert!(matches!(run.finish_trial(trial, bad), Err(StoreError::Unwritable { .. })));
    one_trial(&mut run);
    assert_eq!(run.run().trials().unwrap().len(), 1);
}

/// Readers refuse a run with such a line as a whole, its other trials with it.
#[test]
fn a_line_that_is_too_long_to_read_is_refused_before_it_is_written() {
    const LIMIT: usize = 16 << 20;
    let dir = tempfile::tempdir().unwrap();
    let mut run = create(&dir.path().join("run"));
    let with = |bytes: usize| {
        let mut record = record();
        record.facts.insert("text".to_owned(), "a".repeat(bytes));
        record
    };
    let trial = run.begin_trial("native.bridge.http", "latency", 0).unwrap();
    let error = run.finish_trial(trial, with(LIMIT)).unwrap_err();
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("less than 16 MiB can be read; a shorter measurement"), "{error}");
    // Where the rest of the line is some KiB, a little less fits.
    let trial = run.begin_trial("native.bridge.http", "latency", 0).unwrap();
    run.finish_trial(trial, with(LIMIT - (64 << 10))).unwrap();
    one_trial(&mut run);
    assert_eq!(run.run().trials().unwrap().len(), 2);
}

/// The courses of hours of tests made lines that were too long to be read.
#[test]
fn the_course_of_a_test_of_storage_is_not_in_the_journal() {
    let result = StorageResult {
        load: load(),
        record: 4096,
        processes: Vec::new(),
        verified: Verified::default(),
        failures: Vec::new(),
        first_failure: None,
        cache: CacheEvidence::default(),
        io: IoCounters::default(),
        facts: Facts::default(),
        read_back: None,
        beside: Vec::new(),
    };
    let found = StorageFinding {
        result,
        host: None,
        server: None,
        server_cache: None,
        client: None,
        steady_state: None,
    };
    let mut written = record();
    written.observations = vec![Observation::whole(0, Finding::Storage(Box::new(found)))];
    let dir = tempfile::tempdir().unwrap();
    let mut run = create(&dir.path().join("run"));
    let trial = run.begin_trial("native.bridge.http", "latency", 0).unwrap();
    run.finish_trial(trial, written).unwrap();
    let trials = run.run().trials().unwrap();
    let stored = &trials[0].observations[0].storage().unwrap().result.load;
    assert!(stored.intervals.is_empty() && stored.samples.is_empty());
    // What it found in all is there.
    assert_eq!((&stored.latency, &stored.counts), (&load().latency, &load().counts));
}

/// The error of opening a run after `change`, as text.
fn opened_after(change: impl FnOnce(&Path)) -> (StoreError, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut run = create(&path);
    one_trial(&mut run);
    drop(run);
    change(&path);
    let error = RunDir::open(&path).and_then(|r| r.trials()).unwrap_err();
    let text = error.to_string();
    (error, text)
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_newer_run_says_so() {
    for (file, from, to) in [
        ("journal.jsonl", "\"version\":3", "\"version\":9"),
        ("plan.yaml", "version: 1", "version: 9"),
        ("provenance.json", "\"version\": 1", "\"version\": 9"),
    ] {
        let (error, text) = opened_after(|run| edit(&run.join(file), from, to));
        assert!(matches!(error, StoreError::Newer { found: 9, .. }), "{text}");
        assert!(text.contains(file) && text.contains("newer vtax") && error.is_bad_input());
    }
}

#[test]
fn a_damaged_run_names_file_and_line() {
    let (error, text) =
        opened_after(|run| edit(&run.join("journal.jsonl"), "{\"event\":\"trial-started\"", "{"));
    assert!(
        matches!(error, StoreError::Damaged { .. }) && text.contains("journal.jsonl:2: damaged"),
        "{text}"
    );
    let (_, text) = opened_after(|run| fs::write(run.join("plan.yaml"), "\u{0}").unwrap());
    assert!(text.contains("plan.yaml: damaged"), "{text}");
    let (_, text) = opened_after(|run| fs::write(run.join("provenance.json"), [0xff]).unwrap());
    assert!(text.contains("not UTF-8"), "{text}");
    let (_, text) = opened_after(|run| fs::write(run.join("journal.jsonl"), "").unwrap());
    assert!(text.contains("start a new one"), "{text}");
    let (error, _) = opened_after(|run| fs::remove_file(run.join("journal.jsonl")).unwrap());
    assert!(matches!(error, StoreError::NotARun { .. }));
    let (error, text) = opened_after(|run| {
        fs::remove_file(run.join("provenance.json")).unwrap();
        fs::create_dir(run.join("provenance.json")).unwrap();
    });
    assert!(matches!(error, StoreError::Damaged { .. }), "{text}");
    assert!(matches!(RunDir::open("/nonexistent"), Err(StoreError::NotARun { .. })));
    assert!(matches!(RunDir::open("/etc"), Err(StoreError::NotARun { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever a file holds: an error or data, never a panic, and quickly.
    #[test]
    fn damaged_trial_files_are_errors(file in 0usize..5, at in 0.0..1.0f64, bytes in prop::collection::vec(any::<u8>(), 1..20), cut: bool) {
        let dir = tempfile::tempdir().unwrap();
        let mut run = create(&dir.path().join("run"));
        one_trial(&mut run);
        let trial = run.run().trial(0);
        let name = ["samples.parquet", "probes.parquet", "histograms.hlog", "intervals.jsonl", "events.jsonl"][file];
        let path = trial.path().join(name);
        let mut content = fs::read(&path).unwrap();
        let from = (at * content.len() as f64) as usize;
        if cut {
            content.truncate(from);
        } else {
            for (old, new) in content[from..].iter_mut().zip(&bytes) {
                *old = *new;
            }
        }
        fs::write(&path, content).unwrap();
        let mut errors = Vec::new();
        errors.extend(trial.for_each_sample(|_| ()).err());
        errors.extend(trial.for_each_probe_row(|_| ()).err());
        errors.extend(trial.for_each_interval(|_| ()).err());
        errors.extend(trial.events().err());
        for error in errors {
            prop_assert!(error.to_string().contains(name), "{}", error);
        }
    }

    #[test]
    fn any_text_in_a_plan_survives(texts in prop::collection::vec(any::<String>(), 4), odd in "[-?:,\\[\\]{}#&*!|>'\"%@` \t0-9a-z~]{0,12}") {
        let mut plan: Plan = plan();
        let files = [(texts[0].clone(), texts[1].clone())].into();
        plan.cells[0].service.kind = ServiceKind::Command(CommandService {
            command: texts.clone(),
            port: 80,
            ready: Ready::Log(odd.clone()),
            env: [(odd.clone(), odd.clone())].into(),
            files,
        });
        plan.description.clone_from(&odd);
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(dir.path().join("run"), &plan, &provenance()).unwrap();
        prop_assert_eq!(run.run().plan().unwrap(), plan);
    }
}

#[test]
fn a_calibration_is_taken_along() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let run = create(&path);
    let effect = CalibratedEffect {
        cell: "native".into(),
        measure: "latency".into(),
        metric: "latency_p50".into(),
        trials: 5,
        tax: Some(1.01),
        interval: Some((0.98, 1.04)),
        detectable: Some(1.05),
        told_apart: false,
    };
    let calibration = Calibration {
        version: CALIBRATION_VERSION,
        key: "k".into(),
        conditions: vec!["2 CPUs".into()],
        made_unix_ms: 1,
        vtax_version: "0".into(),
        plan: "p".into(),
        run: "runs/p".into(),
        effects: vec![effect],
    };
    run.write_calibration(&calibration).unwrap();
    let read = run.run().calibration().unwrap().unwrap();
    assert_eq!(read, calibration);
    assert!(read.effect("native", "latency", "latency_p50").is_some());
    assert!(read.effect("native", "latency", "latency_p99").is_none());
    edit(&path.join("calibration.json"), "\"version\": 1", "\"version\": 9");
    assert!(matches!(run.run().calibration(), Err(StoreError::Newer { found: 9, known: 1, .. })));
}

#[test]
fn what_a_newer_minor_version_added_is_left_out_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let journal = journal_of_one_trial(&path);
    edit(&journal, &format!("\"minor\":{JOURNAL_MINOR}"), "\"minor\":99");
    edit(
        &journal,
        "{\"event\":\"trial-ended\",",
        "{\"event\":\"coffee\",\"cups\":2}\n{\"event\":\"trial-ended\",\"mood\":\"good\",",
    );
    edit(
        &journal,
        "\"validity\":{\"validity\":\"valid\"}",
        "\"validity\":{\"validity\":\"invalid\",\"reason\":\"meteorite\",\"detail\":\"it hit\"}",
    );
    let run = RunDir::open(&path).unwrap();
    let trials = run.trials().unwrap();
    let expected = Validity::Invalid { reason: InvalidReason::Unknown, detail: "it hit".into() };
    assert_eq!((trials.len(), &trials[0].validity), (1, &expected));
    let notes: Vec<String> = run
        .journal()
        .unwrap()
        .filter_map(|entry| match entry.unwrap() {
            JournalEntry::Note { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    let all = notes.join("\n");
    for part in ["kind `coffee`", "the field `mood`", "`meteorite` of `validity.reason`"] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
    // It can be gone on with, and what is not understood stays where it is.
    drop(RunDir::resume(&path).unwrap());
    assert!(fs::read_to_string(&journal).unwrap().contains("coffee"));
}

/// Its first line kept the minor version that it began with, so that readers of that version left out what they don't know without a
/// word.
#[test]
fn a_run_that_is_gone_on_with_has_todays_minor_version() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let journal = journal_of_one_trial(&path);
    edit(&journal, &format!("\"minor\":{JOURNAL_MINOR}"), "\"minor\":1");
    // Written by a newer vtax that went on with it and left the first line as it was.
    edit(
        &journal,
        "{\"event\":\"trial-ended\",",
        "{\"event\":\"coffee\",\"cups\":2}\n{\"event\":\"trial-ended\",\"mood\":\"good\",",
    );
    let others = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    let before = others(&fs::read_to_string(&journal).unwrap());
    // A crash tore the last line.
    let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(b"{\"event\":\"no").unwrap();
    drop(file);
    let mut run = RunDir::resume(&path).unwrap();
    assert!(
        matches!(RunDir::resume(&path), Err(StoreError::Locked { .. })),
        "the lock is on the new journal"
    );
    run.completed().unwrap();
    assert_eq!(run.next_index(), 1);
    drop(run);
    let text = fs::read_to_string(&journal).unwrap();
    let opened = text.lines().next().unwrap();
    assert!(opened.contains(&format!("\"minor\":{JOURNAL_MINOR},")), "{opened}");
    let after = others(&text);
    let more = after.strip_prefix(&before).unwrap_or_else(|| panic!("{before} isn't in {after}"));
    assert!(more.starts_with("{\"event\":\"resumed\"") && more.lines().count() == 2, "{more}");
    assert!(!path.join("journal.old.jsonl").exists());
    assert_eq!(RunDir::open(&path).unwrap().trials().unwrap().len(), 1);
}

/// Its number was raised without a limit, and the trial after that took the place of the first.
#[test]
fn a_run_whose_trials_are_numbered_too_high_is_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let journal = journal_of_one_trial(&path);
    edit(&journal, "\"index\":0", "\"index\":4294967295");
    let error = RunDir::resume(&path).unwrap_err().to_string();
    assert!(error.contains("a trial numbered 4294967295"), "{error}");
}

#[test]
fn a_run_and_its_trials_have_one_identity() {
    let dir = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for name in ["one", "two"] {
        let path = dir.path().join(name);
        let mut run = create(&path);
        one_trial(&mut run);
        let run = run.run();
        let id = run.provenance().unwrap().run_id;
        assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
        assert_eq!(run.trials().unwrap()[0].run_id, id);
        let opened = run.journal().unwrap().next().unwrap().unwrap();
        assert!(matches!(&opened, JournalEntry::Opened { run_id, .. } if *run_id == id), "{opened:?}");
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_plan_with_many_requests_is_stored_and_read() {
    let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: http\nmeasure: throughput\n\
                workload: {http: {targets_file: targets.txt}}\n";
    let dir = tempfile::tempdir().unwrap();
    let (file, run) = (dir.path().join("plan.yaml"), dir.path().join("run"));
    fs::write(&file, text).unwrap();
    // More nodes of YAML than the parser takes for harmless by itself.
    let targets: String = (0..15_000).map(|n| format!("/bytes/{n}\n")).collect();
    fs::write(dir.path().join("targets.txt"), targets).unwrap();
    let plan = vtax_plan::load(&file, &[] as &[&str]).unwrap();
    let stored = RunDir::create(&run, &plan, &provenance()).unwrap();
    assert_eq!(stored.run().plan().unwrap(), plan);
}
