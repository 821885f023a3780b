//! The disk fills up in the middle of a run: the error names the file, finished trials stay.

mod support;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{load, plan, record};
use vtax_load::Sample;
use vtax_store::{JOURNAL_MINOR, Provenance, RunDir, StoreError};
use vtax_sys::require::{Need, need};

/// Set for the copy of this test that runs with the small file system mounted.
const INNER: &str = "VTAX_TEST_SMALL_DISK";

#[test]
fn finished_trials_survive_a_full_disk() {
    if let Some(path) = std::env::var_os(INNER) {
        return fill(&PathBuf::from(path));
    }
    if !need(&[Need::Ns]) {
        return;
    }
    // The mount lives in a namespace of its own and ends with it.
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["-Urm", "sh", "-c", "mount -t tmpfs -o size=2m none \"$0\" && exec \"$@\""])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "finished_trials_survive_a_full_disk", "--nocapture"])
        .env(INNER, dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// On a full disk a run doesn't begin, and leaves nothing in the way of one that does.
fn fill_before_it_begins(disk: &Path, path: &Path) {
    let filler = disk.join("filler");
    let full = std::fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let begin = || RunDir::create(path, &plan(), &Provenance::default());
    assert!(matches!(begin(), Err(StoreError::Full { .. })));
    assert!(!path.exists(), "it was made for the run");
    std::fs::create_dir(path).unwrap();
    assert!(matches!(begin(), Err(StoreError::Full { .. })));
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
    std::fs::remove_file(&filler).unwrap();
}

fn fill(disk: &Path) {
    let path = disk.join("run");
    fill_before_it_begins(disk, &path);
    let mut run = RunDir::create(&path, &plan(), &Provenance::default()).unwrap();
    let mut finished = 0;
    let error = loop {
        match one_trial(&mut run) {
            Ok(()) => finished += 1,
            Err(e) => break e,
        }
        assert!(finished < 1000);
    };
    assert!(finished > 0);
    let text = error.to_string();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(text.contains(path.to_str().unwrap()) && text.contains("--resume RUN"), "{text}");
    drop(run);

    let read = RunDir::open(&path).unwrap();
    assert_eq!(read.trials().unwrap().len(), finished);
    for trial in read.trials().unwrap() {
        assert!(read.trial(trial.index).for_each_sample(|_| ()).unwrap() > 0);
    }
    fill_an_older_run(disk, &path);
    assert_eq!(read.trials().unwrap().len(), finished);
    // Some space again: the run goes on.
    std::fs::remove_dir_all(read.trial(0).path()).unwrap();
    let mut run = RunDir::resume(&path).unwrap();
    run.note(None, "disk was full").unwrap();
}

/// No space for today's journal in place of an older one: the older one stays, and nothing beside it.
fn fill_an_older_run(disk: &Path, path: &Path) {
    // What the unfinished trial left is removed first, and would make space. The disk may be too full to go on.
    drop(RunDir::resume(path));
    let journal = path.join("journal.jsonl");
    make_older(&journal);
    let before = std::fs::read(&journal).unwrap();
    let filler = disk.join("filler");
    let full = std::fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert!(matches!(RunDir::resume(path), Err(StoreError::Full { .. })));
    assert!(!path.join("journal.jsonl.tmp").exists());
    assert_eq!(std::fs::read(&journal).unwrap(), before);
    std::fs::remove_file(&filler).unwrap();
}

/// Has the journal name an older minor version, in place: there may be no space for another.
fn make_older(journal: &Path) {
    let todays = format!("\"minor\":{JOURNAL_MINOR},");
    let digits = JOURNAL_MINOR.to_string().len();
    let older = format!("\"minor\":{:>digits$},", 1);
    let at = std::fs::read_to_string(journal).unwrap().find(&todays).unwrap();
    let file = OpenOptions::new().write(true).open(journal).unwrap();
    file.write_all_at(older.as_bytes(), at as u64).unwrap();
}

fn one_trial(run: &mut vtax_store::RunWriter) -> Result<(), StoreError> {
    let mut trial = run.begin_trial("native.bridge.http", "latency", 0)?;
    let noise = |i: u32| i.wrapping_mul(2_654_435_761);
    let samples: Vec<Sample> = (0..20_000)
        .map(|i| Sample { start_ns: u64::from(noise(i)), latency_ns: noise(i + 1).into(), outcome: 0 })
        .collect();
    trial.samples(&samples)?;
    let mut record = record();
    if let Some(vtax_store::record::Finding::Latency { load: l, .. }) = record.finding_mut() {
        *l = load();
    }
    run.finish_trial(trial, record).map(drop)
}
