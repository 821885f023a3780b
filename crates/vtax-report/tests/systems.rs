//! Made-up runs on several systems, from the store to every form of the report.

use std::fs;

use vtax_fixture::systems::{create, neighbour};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{Finding, JournalEntry};
use vtax_store::summary::{Summary, Verdict};

fn summary(path: &std::path::Path) -> Summary {
    serde_json::from_slice(&fs::read(path.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn the_knee_is_found_and_what_it_was_made_of_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    for place in ["consolidation", "systems", "consolidation-study"] {
        assert!(page.contains(&format!("id=\"{place}\"")), "no section {place}");
    }
    assert!(page.contains("the knee lies between 2 and 3 systems: with 3 the median latency is"), "no knee");
    assert!(
        page.contains("CPU: the systems&#39; CPUs were 98.0 % busy")
            || page.contains("CPUs were 98.0 % busy")
    );
    assert!(page.contains("1536MiB of 512MiB"), "memory promised beside the budget");
    assert!(
        page.contains("; booting took ") && page.contains(" times the CPU time."),
        "a boot storm's CPU time"
    );
    assert!(page.contains("Study, table IV") && page.contains("This run, vm (TCG)"));
    let start = page.find("id=\"consolidation\"").unwrap();
    let tables = &page[start..start + page[start..].find("</section>").unwrap()];
    assert!(
        tables.contains("<table class=\"figures\">") && !tables.contains("bleed"),
        "within the text's width"
    );
    let table = fs::read_to_string(run.path().join("csv/systems.csv")).unwrap();
    // Two, three, four and six systems in five trials; of one there is only the whole.
    assert_eq!(table.lines().count(), 1 + (2 + 3 + 4 + 6) * 5);
    let table = fs::read_to_string(run.path().join("csv/consolidation.csv")).unwrap();
    assert!(
        table
            .lines()
            .any(|line| line.starts_with("vm (TCG),latency") && line.trim_end().ends_with(",2,3,no")),
        "{table}"
    );
}

const FTP: &str = "
vtax: 1
name: ftp
baseline: native
environments: native
services: ftp
workload: ftp
measure: throughput
";

/// The study printed figures of web servers alone, and runs of FTP were shown beside them.
#[test]
fn tables_of_web_servers_are_not_beside_ftp() {
    let directory = tempfile::tempdir().unwrap();
    let web = create(&directory.path().join("web")).unwrap();
    let ftp = vtax_plan::parse("ftp", FTP.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    let mut plan = web.plan().unwrap();
    for cell in &mut plan.cells {
        cell.workload = ftp.cells[0].workload.clone();
    }
    let provenance = web.provenance().unwrap();
    let mut run = RunDir::create(directory.path().join("ftp"), &plan, &provenance).unwrap();
    for line in fs::read_to_string(web.path().join("journal.jsonl")).unwrap().lines() {
        if let JournalEntry::TrialEnded(record) = serde_json::from_str(line).unwrap() {
            let trial = run.begin_trial(&record.cell, &record.measure, record.repetition).unwrap();
            run.finish_trial(trial, *record).unwrap();
        }
    }
    run.completed().unwrap();
    write_all(run.run()).unwrap();
    let page = fs::read_to_string(run.run().path().join("report.html")).unwrap();
    let start = page.find("id=\"consolidation-study\"").expect("what the study says of FTP");
    let section = &page[start..start + page[start..].find("</section>").unwrap()];
    assert!(section.contains("Tables VI and VII (FTP with curl-loader"), "{section}");
    assert!(!section.contains("<table") && !section.contains("httperf"), "{section}");
    assert!(page.contains("the knee lies between 2 and 3 systems"), "the run's own figures are there");
}

/// Percentiles that lie among what had no answer are bounds, and files say so as the page does.
#[test]
fn bounds_are_told_as_such_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    let path = run.path().join("journal.jsonl");
    let mut lines = String::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let mut entry: JournalEntry = serde_json::from_str(line).unwrap();
        if let JournalEntry::TrialEnded(record) = &mut entry {
            // Of two systems the second left a tenth without an answer, and so a twentieth of all was left.
            let of_two = record.cell.ends_with("count-2");
            for observation in record.observations.iter_mut().filter(|_| of_two) {
                let left = match observation.member.as_deref() {
                    Some("sut") => continue,
                    Some(_) => 10,
                    None => 20,
                };
                let load = observation.result.as_mut().and_then(Finding::load_mut).unwrap();
                load.counts.ok -= load.counts.ok / left;
            }
        }
        lines.push_str(&(serde_json::to_string(&entry).unwrap() + "\n"));
    }
    fs::write(&path, lines).unwrap();
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let bounds = |file: &str| -> Vec<String> {
        let table = fs::read_to_string(run.path().join("csv").join(file)).unwrap();
        assert!(table.lines().next().unwrap().trim_end().ends_with(",at_least"), "{table}");
        table.lines().filter(|line| line.trim_end().ends_with(",yes")).map(str::to_owned).collect()
    };
    let systems = bounds("systems.csv");
    let of_second = |line: &String| line.contains("count-2,") && line.contains(",sut-2,");
    assert!(systems.len() == 5 && systems.iter().all(of_second), "{systems:?}");
    let consolidation = bounds("consolidation.csv");
    assert!(consolidation.len() == 1 && consolidation[0].contains("count-2,"), "{consolidation:?}");
}

#[test]
fn what_differs_between_systems_is_a_metric() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let summary = summary(run.path());
    let six = summary.cells.iter().find(|c| c.cell.ends_with("count-6")).unwrap();
    let value = |metric: &str| six.metrics.get(metric).unwrap_or_else(|| panic!("no {metric}")).center;
    assert!((value("fairness") - 1.0).abs() < 1e-9, "all answered as many");
    assert!((value("rate_slowest") - 100.0).abs() < 1e-9);
    assert!((value("goodput") - 600.0).abs() < 1e-9, "the whole is the sum");
    assert!(value("latency_p99_slowest") >= value("latency_p50"));
    assert!((value("boot_slowest") - 18e9).abs() < 1.0, "all six boots, one after the other");
    assert!((value("cpu_per_request") - 3e6).abs() < 1.0);
    let one = summary.cells.iter().find(|c| c.cell.ends_with("count-1")).unwrap();
    assert!(!one.metrics.contains_key("fairness"), "one system is fair to itself");
}

#[test]
fn a_neighbours_cost_is_a_tax_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let run = neighbour(&directory.path().join("run")).unwrap();
    write_all(&run).unwrap();
    let summary = summary(run.path());
    let found = summary.comparisons.iter().find(|c| c.metric == "latency_p50").unwrap();
    assert_eq!((found.cell.as_str(), found.verdict), ("vm.bridge.http.busy", Verdict::Worse));
    assert!((found.tax.unwrap() - 2.0).abs() < 0.1, "{:?}", found.tax);
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("id=\"neighbours\"") && page.contains("beside busy"));
    assert!(page.contains(", neighbour</td>"), "what a system beside others is there for");
    assert!(page.contains("busiest worker used 20.0 % of its CPU."), "whose doing it may be");
    let table = fs::read_to_string(run.path().join("csv/systems.csv")).unwrap();
    assert!(table.lines().any(|line| line.contains(",sut-2,neighbour,")), "{table}");
    // What disturbs is no part of what is measured.
    let busy = summary.cells.iter().find(|c| c.cell == "vm.bridge.http.busy").unwrap();
    assert!((busy.metrics["goodput"].center - 100.0).abs() < 1e-9);
}
