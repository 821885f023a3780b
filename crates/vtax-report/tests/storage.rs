//! A made-up run of storage, from the store to every form of the report.

use std::fs;

use vtax_fixture::storage::{create, create_served};
use vtax_report::write_all;
use vtax_store::summary::Verdict;

#[test]
fn sizes_and_records_are_told_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    let report = write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    for place in ["storage", "storage-lines", "storage-tests"] {
        assert!(page.contains(&format!("id=\"{place}\"")), "no section {place}");
    }
    for told in ["<small>", "badge worse", "thin faint", "4.0x", "CPU time per GiB by layer"] {
        assert!(page.contains(told), "no {told}");
    }
    assert!(!page.contains("id=\"storage-steady\""), "nothing was made in rounds");
    // A heat map: more with larger records, natively more than in a virtual machine.
    assert!(page.contains("records of 64KiB") && page.contains("heat5") && page.contains("heat0"));
    assert!(page.contains("behind it, the host&#39;s page cache"), "who answered");
    let table = fs::read_to_string(run.path().join("csv/storage_tests.csv")).unwrap();
    // Three operations, two sizes, two records, two environments, three trials.
    assert_eq!(table.lines().count(), 1 + 3 * 2 * 2 * 2 * 3);
    let summary = serde_json::from_slice::<vtax_store::summary::Summary>(
        &fs::read(run.path().join("summary.json")).unwrap(),
    );
    let summary = summary.unwrap();
    let of = |metric: &str, test: &str| {
        let found = summary.comparisons.iter().find(|c| c.metric == metric && c.measure.ends_with(test));
        found.unwrap_or_else(|| panic!("no comparison of {metric} in {test}"))
    };
    let write = of("storage_throughput", "write.size-16MiB.record-4KiB");
    assert!((write.tax.unwrap() - 4.0).abs() < 0.01, "{:?}", write.tax);
    assert_eq!(write.verdict, Verdict::Worse);
    assert!((of("storage_rate", "random-read.size-1MiB.record-64KiB").tax.unwrap() - 4.0).abs() < 0.01);
    assert!(report.table().contains("storage"), "{}", report.table());
}

#[test]
fn rounds_are_steady_or_have_no_figure() {
    let directory = tempfile::tempdir().unwrap();
    let run = create_served(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("id=\"storage-steady\""));
    // The last five rounds average the level; the first two are left out.
    assert!(
        page.contains("steady after 7 rounds: over the last 5") && page.contains("range 4.00 % of that"),
        "window"
    );
    assert!(page.contains("best linear fit") && page.contains("average ± 10.0 %"));
    assert!(page.contains("no steady state after 8 rounds: over the last 5"));
    let rounds = fs::read_to_string(run.path().join("csv/storage_rounds.csv")).unwrap();
    // Six tests in two environments and three trials; of random writes in the virtual machine eight rounds, of the others seven.
    assert_eq!(rounds.lines().count(), 1 + 3 * (10 * 7 + 2 * 8));
    let summary: vtax_store::summary::Summary =
        serde_json::from_slice(&fs::read(run.path().join("summary.json")).unwrap()).unwrap();
    let figure = |cell: &str, measure: &str, metric: &str| {
        let found = summary.cells.iter().find(|c| c.cell.starts_with(cell) && c.measure == measure)?;
        Some(found.metrics.get(metric)?.center)
    };
    let native = figure("native", "storage/random-write.processes-1", "storage_rate").unwrap();
    // 400 MB/s with records of 4 KiB, four times that with 64 KiB, the median of three trials 2 % more; in operations.
    let expected = 400e6 * 4.0 * 1.02 / 65_536.0;
    assert!((native / expected - 1.0).abs() < 1e-3, "{native} {expected}");
    assert_eq!(figure("vm", "storage/random-write.processes-1", "storage_rate"), None, "it was never steady");
    let of_write = figure("native", "storage/write.processes-2", "storage_throughput").unwrap();
    let durable = 400e6 * 4.0 * 1.02 / 1.25;
    assert!((of_write / durable - 1.0).abs() < 1e-3, "{of_write} {durable}");
}

#[test]
fn more_than_the_path_carries_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let run = create_served(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let summary: vtax_store::summary::Summary =
        serde_json::from_slice(&fs::read(run.path().join("summary.json")).unwrap()).unwrap();
    let warned: Vec<&String> =
        summary.notes.iter().filter(|note| note.contains("carries 125 MB/s at most")).collect();
    assert_eq!(warned.len(), 2, "{:?}", summary.notes);
    assert!(
        warned[0].contains("other tests") && warned[0].contains("a cache before it answered"),
        "{}",
        warned[0]
    );
    // The disks of the other run are behind no path.
    let run = create(&directory.path().join("disks")).unwrap();
    write_all(&run).unwrap();
    assert!(!fs::read_to_string(run.path().join("summary.json")).unwrap().contains("at most: not all"));
}
