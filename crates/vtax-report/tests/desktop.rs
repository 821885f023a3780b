//! A made-up run of remote desktops, from the store to every form of the report.

use std::fs;

use vtax_fixture::desktop::create;
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{Finding, JournalEntry};
use vtax_store::summary::{CellSummary, Summary};
use vtax_units::Nanos;

#[test]
fn what_users_felt_is_told_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    for place in ["desktops", "desktops-study", "desktops-users", "desktops-screens"] {
        assert!(page.contains(&format!("id=\"{place}\"")), "no section {place}");
    }
    // Both tables of the study, and rows of the run's own.
    assert!(page.contains("Table 4, two sessions, row 4") && page.contains("Table 9, connecting, row 10"));
    assert!(page.contains("this run: native, ") && page.contains("this run: vm (TCG), "));
    assert_eq!(page.matches("data:image/png;base64,iVBORw0KGgo").count(), 2, "a picture of each cell");
    let table = fs::read_to_string(run.path().join("csv/desktops.csv")).unwrap();
    // Two environments, two loads, three trials.
    assert_eq!(table.lines().count(), 1 + 2 * 2 * 3);
    let summary: Summary =
        serde_json::from_slice(&fs::read(run.path().join("summary.json")).unwrap()).unwrap();
    let value = |environment: &str, load: &str, metric: &str| {
        let found =
            summary.cells.iter().find(|c| c.environment == environment && c.measure.ends_with(load)).unwrap();
        found.metrics.get(metric).unwrap_or_else(|| panic!("no {metric}")).center
    };
    // Four actions per second of each user, 2 ms of CPU time for each natively.
    assert!((value("native", "@40", "desktop_cpu_per_session") - 0.008).abs() < 1e-6);
    assert!((value("vm", "@8", "desktop_cpu_per_session") - 0.024).abs() < 1e-6);
    assert!((value("native", "@8", "desktop_bytes_per_pixel") - 0.2).abs() < 1e-9);
    assert!((value("native", "@8", "desktop_updates") - 8.0).abs() < 1e-9);
    assert!(value("vm", "@8", "desktop_drag_p50") > 2.9 * value("native", "@8", "desktop_drag_p50"));
}

#[test]
fn a_study_is_shown_only_where_the_plan_names_it_and_a_picture_only_where_it_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    let plan = run.path().join("plan.yaml");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("study: virtual-servers\n", "")).unwrap();
    let journal = run.path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace("iVBORw0KGgo", "<b>not</b>")).unwrap();
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("id=\"desktops\"") && !page.contains("desktops-study"));
    assert!(!page.contains("desktops-screens") && !page.contains("<b>not"));
}

/// Actions without an answer were left out of percentiles and medians here, while the table of verdicts told bounds.
#[test]
fn what_had_no_answer_counts_as_slower_than_every_answer() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    let path = run.path().join("journal.jsonl");
    let mut lines = String::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let mut entry: JournalEntry = serde_json::from_str(line).unwrap();
        if let JournalEntry::TrialEnded(record) = &mut entry {
            // Of ten users' actions natively six in ten had no answer, in the virtual machine one in ten.
            let lost = if record.cell.starts_with("native") { 6 } else { 1 };
            let of_ten = record.measure.ends_with("@40");
            for observation in record.observations.iter_mut().filter(|_| of_ten) {
                let load = observation.result.as_mut().and_then(Finding::load_mut).unwrap();
                load.counts.ok -= load.counts.ok * lost / 10;
                load.timeout = Nanos::from_secs(2);
            }
        }
        lines.push_str(&(serde_json::to_string(&entry).unwrap() + "\n"));
    }
    fs::write(&path, lines).unwrap();
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let bounds = |place: &str| {
        let start = page.find(&format!("id=\"{place}\"")).unwrap();
        let section = &page[start..start + page[start..].find("</section>").unwrap()];
        section.matches(">≥ 2.00 s</td>").count()
    };
    // All three percentiles and the medians of four kinds natively, p95 and p99 in the virtual machine.
    assert_eq!(bounds("desktops"), 3 + 4 + 2);
    assert_eq!(bounds("desktops-study"), 2, "p95 of both");
    assert!(page.contains("its point is at the time for which an answer was waited"), "in the picture");
    let summary: Summary =
        serde_json::from_slice(&fs::read(run.path().join("summary.json")).unwrap()).unwrap();
    for (environment, bound) in [("native", true), ("vm", false)] {
        let of = |c: &&CellSummary| c.environment == environment && c.measure.ends_with("@40");
        let found = summary.cells.iter().find(of).unwrap();
        for metric in ["desktop_type_p50", "desktop_film_p50", "latency_p50"] {
            assert_eq!(found.metrics[metric].at_least, bound, "{environment}, {metric}");
        }
    }
}
