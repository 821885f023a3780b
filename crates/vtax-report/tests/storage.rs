//! A made-up run of storage, from the store to every form of the report.

use std::fs;

use vtax_fixture::storage::create;
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
