//! The index: many runs at once, and only what changed anew.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Site, make, summarised};

/// Runs as a list sees them: the files it reads, and no trials.
fn many(root: &Path, count: usize) {
    let made = make(&root.join("model"));
    summarised(&made);
    let files = ["journal.jsonl", "provenance.json", "summary.json"];
    let texts = files.map(|name| fs::read(made.path().join(name)).expect("a file"));
    // The first and the last line of a journal are what a list reads of it.
    let journal = String::from_utf8_lossy(&texts[0]).into_owned();
    let lines: Vec<&str> = journal.lines().collect();
    let short = format!("{}\n{}\n", lines[0], lines[lines.len() - 1]);
    fs::remove_dir_all(root.join("model")).expect("removed");
    for i in 0..count {
        let run = root.join(format!("{:02}", i % 100)).join(format!("run-{i:05}"));
        fs::create_dir_all(&run).expect("a directory");
        fs::write(run.join("journal.jsonl"), &short).expect("written");
        fs::write(run.join("provenance.json"), &texts[1]).expect("written");
        fs::write(run.join("summary.json"), &texts[2]).expect("written");
    }
}

#[test]
fn many_runs_are_listed_and_kept() {
    const COUNT: usize = 1000;
    let site = Site::new(|root| many(root, COUNT));
    site.list(COUNT);
    let page = site.get("/?page=3");
    assert_eq!(page.body.matches("data-href=").count(), 100);
    assert!(page.body.contains("Page 3 of 10"), "pages");
    assert!(site.get("/?plan=quick&state=complete").body.contains("1000 of 1000 runs."));
    assert!(site.get("/?plan=other").body.contains("0 of 1000 runs."));
    // What is known is kept for the next start.
    let kept = site.root().parent().expect("its parent").join("cache/serve");
    let deadline = Instant::now() + PATIENCE;
    let lines = loop {
        let files = kept.read_dir().into_iter().flatten().flatten().map(|file| file.path());
        let mut files = files.filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
        if let Some(path) = files.next() {
            break fs::read_to_string(path).expect("an index").lines().count();
        }
        assert!(Instant::now() < deadline, "nothing is kept");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(lines, COUNT + 1);
}

/// A run that is copied has its journal before what it is read with, and its journal doesn't change any more.
#[test]
fn a_run_whose_files_come_late_is_read_then() {
    let site = Site::new(|root| {
        make(&root.join("a"));
        fs::rename(root.join("a/provenance.json"), root.join("../late")).expect("moved");
    });
    assert!(site.list(1).contains("data-state=\"unreadable\""));
    fs::rename(site.root().join("../late"), site.root().join("a/provenance.json")).expect("moved");
    let deadline = Instant::now() + PATIENCE;
    while site.get("/").body.contains("data-state=\"unreadable\"") {
        assert!(Instant::now() < deadline, "it stays unreadable");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(site.list(1).contains("data-state=\"complete\""));
}

#[test]
fn what_changes_is_seen() {
    let site = Site::new(|root| drop(make(&root.join("a"))));
    site.list(1);
    make(&site.root().join("deeper/b"));
    site.list(2);
    fs::remove_dir_all(site.root().join("a")).expect("removed");
    site.list(1);
    assert!(site.get("/").body.contains("deeper/b"));
}
