//! Every file of the kept runs of journal version 2 can be read.

use std::fs;
use std::path::Path;

use vtax_store::record::{Finding, JournalEntry, Validity};
use vtax_store::{JOURNAL_VERSION, RunDir};

fn kept(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal2").join(name)
}

/// A run with the journal of a kept one, changed; without files of trials.
fn changed(name: &str, to: &Path, change: impl Fn(String) -> String) -> RunDir {
    fs::create_dir_all(to.join("trials")).unwrap();
    for file in ["plan.yaml", "provenance.json"] {
        fs::copy(kept(name).join(file), to.join(file)).unwrap();
    }
    let journal = fs::read_to_string(kept(name).join("journal.jsonl")).unwrap();
    fs::write(to.join("journal.jsonl"), change(journal)).unwrap();
    RunDir::open(to).unwrap()
}

#[test]
fn one_outcome_becomes_one_observation_and_tests_become_a_suite() {
    let web = RunDir::open(kept("web")).unwrap().trials().unwrap();
    for trial in &web {
        assert_eq!(trial.observations.len(), 1);
        let whole = trial.whole().unwrap();
        assert_eq!((&whole.validity, whole.started_unix_ms), (&trial.validity, trial.started_unix_ms));
        match trial.finding() {
            Some(Finding::Latency { load, .. }) => {
                assert!(load.latency.len() > 400 && trial.cpu().is_some() && trial.warm_up().is_some());
            }
            Some(Finding::Capacity(found)) => assert!(found.lower.0 > 1.0 && trial.cpu().is_none()),
            Some(Finding::Throughput { load }) => assert!(load.counts.ok > 1_000),
            other => panic!("{other:?}"),
        }
    }
    for trial in RunDir::open(kept("network")).unwrap().trials().unwrap() {
        assert!(trial.observations.len() == 4 && trial.whole().is_none());
        let mut names: Vec<&str> = trial.observations.iter().map(|o| o.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["ping", "tcp.window-16K", "tcp.window-64K", "udp"]);
        assert!(trial.observations.iter().all(|o| o.network().is_some() && o.cpu.is_some()));
    }
}

#[test]
fn a_run_of_the_first_version_reads() {
    let dir = tempfile::tempdir().unwrap();
    let run = changed("web", dir.path(), |journal| {
        let journal = journal.replacen("\"version\":2", "\"version\":1", 1);
        ["\"round\":0,", "\"partner\":null,"].iter().fold(journal, |text, field| text.replace(field, ""))
    });
    let record = &run.trials().unwrap()[0];
    assert_eq!((record.round, &record.partner), (None, &None));
    assert_eq!(run.calibration().unwrap(), None);
}

#[test]
fn going_on_with_an_older_run_brings_its_journal_up_to_date() {
    let dir = tempfile::tempdir().unwrap();
    let old = changed("network", dir.path(), |journal| journal);
    let before = old.trials().unwrap();
    let writer = RunDir::resume(dir.path()).unwrap();
    let id = old.provenance().unwrap().run_id;
    assert_eq!((id.len(), writer.next_index()), (32, before.iter().map(|r| r.index + 1).max().unwrap()));
    assert!(RunDir::resume(dir.path()).is_err(), "the lock is on the new journal");
    drop(writer);
    let mut journal = RunDir::open(dir.path()).unwrap().journal().unwrap();
    let first = journal.next().unwrap().unwrap();
    assert!(
        matches!(&first, JournalEntry::Opened { version, run_id, .. } if (*version, run_id) == (JOURNAL_VERSION, &id))
    );
    let mut after = old.trials().unwrap();
    for record in &mut after {
        assert_eq!(std::mem::take(&mut record.run_id), id);
    }
    assert_eq!(before, after);
    let kept_text = fs::read_to_string(kept("network").join("journal.jsonl")).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("journal.old.jsonl")).unwrap(), kept_text);
    drop(RunDir::resume(dir.path()).unwrap());
}

#[test]
fn every_file_can_be_read() {
    for (name, trials) in [("web", 19), ("network", 7), ("sip", 13)] {
        let run = RunDir::open(kept(name)).unwrap();
        assert!(run.plan().unwrap().cells.len() == 2 && run.provenance().unwrap().host.cpus == 2);
        let records = run.trials().unwrap();
        assert_eq!(records.len(), trials, "{name}");
        assert_eq!(records.iter().filter(|r| r.validity != Validity::Valid).count(), 1, "{name}");
        let (mut samples, mut probes, mut intervals, mut phases, mut logs) = (0, 0, 0, 0, 0);
        for record in &records {
            let trial = run.trial(record.index);
            // They are of the first version, whose latencies are half as wide.
            let mut latencies = Vec::new();
            samples += trial.for_each_sample(|sample| latencies.push(sample.latency_ns)).unwrap();
            assert!(latencies.iter().all(|ns| (10_000..1_000_000_000).contains(ns)), "{latencies:?}");
            trial.for_each_probe_row(|_| probes += 1).unwrap();
            trial.for_each_interval(|_| intervals += 1).unwrap();
            trial.for_each_phase(|_| phases += 1).unwrap();
            logs += trial.logs().unwrap().len();
        }
        assert!(probes > 100, "{name}: {probes}");
        match name {
            "web" => assert!(samples > 900 && intervals > 100 && logs > 0),
            "sip" => assert!(phases > 5 && logs > 0),
            _ => assert_eq!((samples, phases, intervals), (0, 0, 0)),
        }
    }
}
