//! Run directories of somebody who means harm: their reports are bounded, and do none.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use vtax_fixture::{Options, create, hostile};
use vtax_report::{Format, Report, write_all};
use vtax_store::record::{InvalidReason, JournalEntry, TrialRecord, Validity};
use vtax_store::{RunDir, StoreError};

/// One trial of each cell and measure.
fn small(dir: &Path) -> RunDir {
    let options = Options { repetitions: 2, seconds: 1, rate: 100, ..Options::default() };
    create(&dir.join("run"), &options).unwrap()
}

fn page(run: &RunDir) -> String {
    fs::read_to_string(run.path().join("report.html")).unwrap()
}

#[test]
fn every_text_of_a_run_stays_text_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let run = small(dir.path());
    let changed = hostile::texts(run.path()).unwrap();
    assert!(changed > 100, "{changed} texts");
    let report = write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = page(&run);
    assert!(page.contains("&lt;img src=x onerror"), "they are shown");
    assert!(!page.contains("<img src=x") && !page.contains('\u{1b}'));
    assert!(!page.contains('\u{202e}'), "the text behind it isn't turned around");
    assert_eq!((page.matches("<script>").count(), page.matches("</script>").count()), (1, 1));
    crate::support::balanced(&page);
    assert!(!report.table().contains('\u{1b}'), "a terminal's cursor isn't moved");
    for file in fs::read_dir(run.path().join("csv")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains('\u{1b}') || text.contains('"'), "it is quoted");
    }
}

#[test]
fn whatever_numbers_say_there_is_a_report_without_nan() {
    let numbers = [
        json!(0),
        json!(1),
        json!(-1),
        json!(1e308),
        json!(-1e308),
        json!(5e-324),
        json!(u64::MAX),
        json!(i64::MIN),
    ];
    for number in numbers {
        let dir = tempfile::tempdir().unwrap();
        let run = small(dir.path());
        assert!(hostile::numbers(run.path(), &number).unwrap() > 0, "{number}");
        let run = RunDir::open(run.path()).unwrap();
        // What can't be told is left out; no number may make a report fail.
        let report = write_all(&run).unwrap_or_else(|e| panic!("{number}: {e}"));
        let page = page(&run);
        crate::support::balanced(&page);
        let body = page.split("<script>").next().unwrap();
        for wrong in ["NaN", ">inf", "\"inf", "-inf"] {
            assert!(!body.contains(wrong), "{number} gives {wrong}");
        }
        assert!(serde_json::from_str::<Value>(&report.json()).is_ok(), "{number}");
        assert!(run.summary().is_ok(), "{number}: it is read back");
        assert!(page.len() < 16 << 20, "{number}: {} bytes", page.len());
    }
}

/// What a wire carried, without what it was asked for, is told alone.
#[test]
fn a_proof_without_what_was_asked_is_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let run = vtax_fixture::network::create(&dir.path().join("run"), &Default::default()).unwrap();
    let journal = run.path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let (asked, other) = ("path.proof.goodput_bits_asked", "path.proof.nothing");
    assert!(text.contains(asked));
    fs::write(&journal, text.replace(asked, other)).unwrap();
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = page(&run);
    assert!(page.contains("941.8 Mbit/s") && !page.contains("% off)"));
}

/// Trials beyond those that a report takes in cost their reading alone.
#[test]
#[allow(clippy::print_stdout, reason = "what so many take is told to whoever asks for more of them")]
fn of_very_many_trials_a_report_takes_in_some_and_says_so() {
    // `VTAX_TRIALS=1000000` takes a minute.
    let trials: u32 = std::env::var("VTAX_TRIALS").map_or(21_000, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let run = small(dir.path());
    let plan = run.plan().unwrap();
    let found = run.trials().unwrap();
    let journal = run.path().join("journal.jsonl");
    let first = fs::read_to_string(&journal).unwrap().lines().next().unwrap().to_owned();
    let mut file = std::io::BufWriter::new(fs::File::create(&journal).unwrap());
    writeln!(file, "{first}").unwrap();
    for index in 0..trials {
        let like = &found[index as usize % found.len()];
        let validity = match index % 3 {
            0 => Validity::Invalid { reason: InvalidReason::Disturbed, detail: format!("<b>{index}</b>") },
            _ => Validity::Valid,
        };
        let cell = plan.cells[index as usize % plan.cells.len()].id.clone();
        // A capacity alone: it takes few bytes, so that the number is what counts.
        let observations = like.observations.iter().filter(|_| like.measure == "capacity").cloned().collect();
        let (measure, host) = (like.measure.clone(), format!("host-{index}"));
        let record = TrialRecord {
            index,
            cell,
            measure,
            host,
            validity,
            observations,
            repetition: index,
            ..TrialRecord::default()
        };
        let entry = JournalEntry::TrialEnded(Box::new(record));
        writeln!(file, "{}", serde_json::to_string(&entry).unwrap()).unwrap();
        let note = JournalEntry::Note {
            at_unix_ms: 1,
            cell: None,
            text: format!("note {index}"),
            forecast_of: None,
        };
        writeln!(file, "{}", serde_json::to_string(&note).unwrap()).unwrap();
    }
    file.into_inner().unwrap();
    let started = Instant::now();
    let report = write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let (page, took) = (page(&run), started.elapsed());
    let length = page.len();
    println!("{trials} trials: {took:?}, page of {length} bytes, peak {}", peak());
    assert!(length < 32 << 20, "{length} bytes");
    let note = format!(
        "{} trials after the first 20000, {} notes after the first 1000",
        trials - 20_000,
        trials - 1_000
    );
    assert!(page.contains(&note), "{:?}", report.summary().notes.first());
    assert!(page.contains("These are the first 2000 of 20000"));
}

/// The most memory this process had, as the kernel tells it.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned()
}

#[test]
fn links_lead_nowhere_out_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = small(dir.path());
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["secret.log", "victim.csv", "0.tmp"] {
        fs::write(outside.join(name), "it is secret\n").unwrap();
    }
    // A service's log that is somebody's secret, and a directory of logs that is somebody's.
    let failed = run.trials().unwrap().into_iter().map(|t| t.index).collect::<Vec<_>>();
    let journal = run.path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let text = text.replace(
        "\"validity\":\"valid\"",
        "\"validity\":\"invalid\",\"reason\":\"service-failed\",\"detail\":\"x\"",
    );
    fs::write(&journal, text).unwrap();
    for index in failed {
        let trial = run.trial(index).path().to_owned();
        let logs = trial.join("logs");
        let _ = fs::remove_dir_all(&logs);
        if index % 2 == 0 {
            symlink(&outside, &logs).unwrap();
        } else {
            fs::create_dir_all(&logs).unwrap();
            symlink(outside.join("secret.log"), logs.join("sut.log")).unwrap();
        }
    }
    // Where the report would be written.
    for name in ["report.html", "report.html.tmp", "summary.json"] {
        let path = run.path().join(name);
        let _ = fs::remove_file(&path);
        symlink(outside.join("secret.log"), path).unwrap();
    }
    let report = write_all(&run).unwrap();
    assert!(!page(&run).contains("it is secret"));
    assert!(fs::symlink_metadata(run.path().join("report.html")).unwrap().is_file(), "the link was replaced");
    // Tables would be written elsewhere.
    fs::remove_dir_all(run.path().join("csv")).unwrap();
    symlink(&outside, run.path().join("csv")).unwrap();
    let refused = report.write(Format::Csv, run.path()).unwrap_err().to_string();
    assert!(refused.contains("csv") && refused.contains("symbolic link"), "{refused}");
    // Going on with it would sweep elsewhere.
    fs::rename(run.path().join("trials"), dir.path().join("trials")).unwrap();
    symlink(&outside, run.path().join("trials")).unwrap();
    for refused in [RunDir::open(run.path()).map(drop), RunDir::resume(run.path()).map(drop)] {
        assert!(
            matches!(&refused, Err(StoreError::Damaged { path, .. }) if path.ends_with("trials")),
            "{refused:?}"
        );
    }
    for file in fs::read_dir(&outside).unwrap() {
        assert_eq!(fs::read_to_string(file.unwrap().path()).unwrap(), "it is secret\n");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 3, "nothing went, nothing came");
    // A journal that isn't the run's own.
    fs::rename(&journal, dir.path().join("journal")).unwrap();
    symlink(dir.path().join("journal"), &journal).unwrap();
    assert!(Report::read(&run).unwrap_err().to_string().contains("symbolic link"));
}

/// Power was lost: any file may end anywhere. There is a report or a clear refusal, and `--resume` goes on or says why not.
#[test]
fn a_run_cut_at_any_byte_is_reported_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = small(dir.path());
    let files = ["journal.jsonl", "provenance.json", "plan.yaml"];
    let whole = files.map(|name| fs::read(run.path().join(name)).unwrap());
    let all = run.trials().unwrap().len();
    let (mut reported, mut refused) = (0, 0);
    for (name, bytes) in files.iter().zip(&whole) {
        // Every byte of the first and last line, and a thousand between.
        let step = (bytes.len() / 400).max(1);
        let cuts = (0..bytes.len()).filter(|at| at % step == 0 || *at < 100 || bytes.len() - at < 100);
        for at in cuts {
            fs::write(run.path().join(name), &bytes[..at]).unwrap();
            match RunDir::open(run.path()).map_err(Into::into).and_then(|run| Report::read(&run)) {
                Ok(report) => {
                    let ended = whole[0][..if *name == "journal.jsonl" { at } else { whole[0].len() }]
                        .split_inclusive(|b| *b == b'\n')
                        .filter(|line| {
                            line.ends_with(b"\n") && line.starts_with(b"{\"event\":\"trial-ended\"")
                        })
                        .count();
                    assert_eq!(report.trials().len(), ended, "{name} cut at {at}");
                    reported += 1;
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains(run.path().to_str().unwrap()), "{name} cut at {at}: {told}");
                    refused += 1;
                }
            }
        }
        fs::write(run.path().join(name), bytes).unwrap();
    }
    assert!(reported > 300 && refused > 300, "{reported} reported, {refused} refused");
    assert_eq!(run.trials().unwrap().len(), all);
}
