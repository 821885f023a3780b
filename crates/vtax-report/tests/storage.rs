//! A made-up run of storage, from the store to every form of the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vtax_fixture::storage::{create, create_served};
use vtax_load::storage::Process;
use vtax_plan::model::{StorageCache, StorageTest};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{Finding, Observation, TrialRecord};
use vtax_store::summary::Verdict;
use vtax_units::Nanos;

use crate::support::part_of_workbook;

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
    let path = "the 125 MB/s that its path `gigabit` carries";
    let warned: Vec<&String> = summary.notes.iter().filter(|note| note.contains(path)).collect();
    assert_eq!(warned.len(), 2, "{:?}", summary.notes);
    // The most of three trials, which isn't what the table has.
    assert!(
        warned[0].contains("in its fastest trial read.processes-1 moved 1.66 GB/s, more than"),
        "{}",
        warned[0]
    );
    assert!(warned[0].ends_with(" The same holds for 5 other tests."), "{}", warned[0]);
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let top = page.split("</h1>").nth(1).unwrap().split("<table").next().unwrap();
    assert!(top.contains("<li>The server&#39;s memory answered all reads.</li>"), "{top}");
    // The disks of the other run are behind no path.
    let run = create(&directory.path().join("disks")).unwrap();
    write_all(&run).unwrap();
    assert!(
        !fs::read_to_string(run.path().join("summary.json")).unwrap().contains("a cache before the path")
    );
}

/// Kilobytes of a process.
const KILOBYTES: u64 = 100 * 1024;

/// Of five processes the fastest takes 1 s, each other one a second more, all three times as long cold; reads of one process take 1 s,
/// and 2 s when they are made again.
fn observation(like: &Observation, test: &StorageTest) -> Observation {
    let mut observation = Observation { name: test.name.clone(), ..like.clone() };
    let Some(Finding::Storage(found)) = &mut observation.result else { panic!("{like:?}") };
    let slower = if test.cache == StorageCache::Cold { 3 } else { 1 };
    let again = u64::from(test.name.ends_with("again-1"));
    let process = |place: u64| Process {
        bytes: KILOBYTES * 1024,
        last: Nanos::from_secs((1 + place + again) * slower),
        ..Process::default()
    };
    found.result.processes = (0..u64::from(test.shape.processes)).map(process).collect();
    observation
}

fn several(directory: &Path) -> RunDir {
    let plan = "
vtax: 1
name: throughput
baseline: native
environments: [native, vm]
paths: direct
workload:
  storage: {operations: [read, read], size: 100MiB, record: 4KiB, processes: [1, 5], cache: [as-is, cold]}
measure: storage
repeat: 3
";
    let other = create(&directory.join("other")).unwrap();
    let like = &other.trials().unwrap()[0].observations[0];
    let plan = vtax_plan::parse("throughput", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    let mut run = RunDir::create(directory.join("run"), &plan, &other.provenance().unwrap()).unwrap();
    for (repetition, cell) in
        (0..3).flat_map(|repetition| plan.cells.iter().map(move |cell| (repetition, cell)))
    {
        // The virtual machine has none of the first tests.
        let tests = cell.workload.model().storage_tests().iter();
        let tests =
            tests.filter(|test| cell.environment.name == "native" || test.cache == StorageCache::Cold);
        let trial = run.begin_trial(&cell.id, "storage", repetition).unwrap();
        let observations = tests.map(|test| observation(like, test)).collect();
        let record = TrialRecord::begin(&cell.id, "storage", repetition);
        run.finish_trial(trial, TrialRecord { observations, validity: Default::default(), ..record })
            .unwrap();
    }
    run.completed().unwrap();
    run.run().clone()
}

/// Two measures make the same tests: what one found is no part of the other, and each is told by its name.
#[test]
fn measures_of_the_same_tests_are_told_apart() {
    let plan = "
vtax: 1
name: twice
baseline: native
environments: native
paths: direct
workload:
  storage: {operations: [read], size: 100MiB, record: 4KiB}
measure:
  - storage
  - storage: {name: later}
repeat: 3
";
    let directory = tempfile::tempdir().unwrap();
    let other = create_served(&directory.path().join("other")).unwrap();
    let like = &other.trials().unwrap()[0].observations[0];
    let plan = vtax_plan::parse("twice", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    let mut run = RunDir::create(directory.path().join("run"), &plan, &other.provenance().unwrap()).unwrap();
    let cell = &plan.cells[0];
    let test = &cell.workload.model().storage_tests()[0];
    for (measure, more) in [("storage", 1), ("later", 3)] {
        for repetition in 0..3 {
            let mut found = observation(like, test);
            for layer in found.cpu.iter_mut().flat_map(|cpu| &mut cpu.layers) {
                layer.time.0 *= more;
            }
            let record = TrialRecord::begin(&cell.id, measure, repetition);
            let record = TrialRecord { observations: vec![found], validity: Default::default(), ..record };
            let trial = run.begin_trial(&cell.id, measure, repetition).unwrap();
            run.finish_trial(trial, record).unwrap();
        }
    }
    run.completed().unwrap();
    write_all(run.run()).unwrap();
    let page = fs::read_to_string(run.run().path().join("report.html")).unwrap();
    for told in ["<h3>read: storage</h3>", "<h3>read: later</h3>", ">storage/read</th>", ">later/read</th>"] {
        assert!(page.contains(told), "no {told}");
    }
    // Each has rounds of its own, and a plot of them.
    for plot in ["storage/read, native, trial 000", "later/read, native, trial 003"] {
        assert!(page.contains(plot), "no {plot}");
    }
    let cpu = |measure: &str| {
        let row = page.split(&format!(">{measure}/read, native</th>")).nth(1);
        row.unwrap_or_else(|| panic!("no row of {measure}")).split("</tr>").next().unwrap().to_owned()
    };
    assert_ne!(cpu("storage"), cpu("later"));
}

/// The lines of a sheet: what the first column says, with the figures behind it.
fn lines(run: &RunDir, sheet: &str) -> Vec<(String, Vec<u64>)> {
    let book = part_of_workbook(run, "xl/workbook.xml");
    let names = book.split("<sheet name=\"").skip(1).map(|sheet| sheet.split('"').next().unwrap());
    let place = 1 + names.into_iter().position(|name| name == sheet).unwrap();
    let strings = part_of_workbook(run, "xl/sharedStrings.xml");
    let strings: Vec<&str> = strings
        .split("<si>")
        .skip(1)
        .map(|s| s.split("</t>").next().unwrap().rsplit('>').next().unwrap())
        .collect();
    let sheet = part_of_workbook(run, &format!("xl/worksheets/sheet{place}.xml"));
    let mut lines = Vec::new();
    for row in sheet.split("<row ").skip(1) {
        let (mut head, mut figures) = (String::new(), Vec::new());
        for cell in row.split("<c ").skip(1).filter(|cell| cell.contains("<v>")) {
            let value = cell.split("<v>").nth(1).unwrap().split('<').next().unwrap();
            match cell.contains("t=\"s\"") {
                true => head = strings[value.parse::<usize>().unwrap()].to_owned(),
                false => figures.push(value.parse::<f64>().unwrap().round() as u64),
            }
        }
        lines.push((head, figures));
    }
    lines
}

#[test]
fn the_sheet_of_throughput_has_every_test_and_what_processes_had() {
    let directory = tempfile::tempdir().unwrap();
    let run = several(directory.path());
    write_all(&run).unwrap();
    let lines = lines(&run, "iozone throughput");
    let mut reports: BTreeMap<&str, Vec<(&str, &[u64])>> = BTreeMap::new();
    let mut title = "";
    for (head, figures) in &lines {
        if head.contains("file size") {
            title = head;
        }
        reports.entry(title).or_default().push((head, figures));
    }
    let titles: Vec<&str> = reports.keys().copied().filter(|title| !title.is_empty()).collect();
    let of = |environment: &str, cache: &str| {
        format!("{environment}: file size 100MiB, record size = 4KiB, cache {cache}")
    };
    assert_eq!(titles, [of("native", "as-is"), of("native", "cold"), of("vm (TCG)", "cold")]);
    let figures = |report: &str, head: &str| -> Vec<u64> {
        let found = reports[report].iter().find(|(own, _)| *own == head);
        found.unwrap_or_else(|| panic!("no {head} in {report}: {reports:?}")).1.to_vec()
    };
    let native = of("native", "as-is");
    assert_eq!(figures(&native, ""), [1, 5]);
    let whole = KILOBYTES;
    // Five took 5 s together; the slowest 5 s, the fastest 1 s.
    assert_eq!(figures(&native, "Read"), [whole, whole]);
    assert_eq!(figures(&native, "Read, least of a process"), [whole, whole / 5]);
    assert_eq!(figures(&native, "Read, most of a process"), [whole, whole]);
    let average = (whole as f64 * (1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0 + 1.0 / 5.0) / 5.0).round() as u64;
    assert_eq!(figures(&native, "Read, average of a process"), [whole, average]);
    // Five of 2 s to 6 s.
    let five_again = (5.0 * whole as f64 / 6.0).round() as u64;
    assert_eq!(figures(&native, "Read, again"), [whole / 2, five_again]);
    let third = (whole as f64 / 3.0).round() as u64;
    for report in [of("native", "cold"), of("vm (TCG)", "cold")] {
        assert_eq!(figures(&report, "Read"), [third, third], "{report}");
    }
}
