//! A made-up run whose load came from two hosts of its own.

use std::fs;
use std::path::Path;

use vtax_fixture::{Options, create};
use vtax_load::{Counts, GeneratorUse, LatencyHistogram, LoadResult, merged};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{Finding, GeneratorRecord, Observation, TrialRecord};
use vtax_units::Nanos;

const PLAN: &str = "\
vtax: 1
name: roles
baseline: native
environments: native
services: http
workload: {http: {target: /bytes/100, connections: 8}}
measure: [throughput]
paths: {nic: {host: lab1, generators: [lab2, lab3]}}
";
const BEGAN: u64 = 1_700_000_000_000_000_000;

/// So many requests that take so long.
fn load(requests: u64, each: Nanos) -> LoadResult {
    let mut latency = LatencyHistogram::new();
    (0..requests).for_each(|_| latency.record(each));
    let generator = GeneratorUse {
        workers: 1,
        busiest: 0.25,
        cpu_user: Nanos::from_millis(250),
        ..GeneratorUse::default()
    };
    let counts = Counts { sent: requests, ok: requests, intended: requests, ..Counts::default() };
    LoadResult { duration: Nanos::from_secs(1), counts, latency, generator, ..merged(&[]) }
}

fn generators() -> Vec<GeneratorRecord> {
    let of = |node: &str, host: &str, began: u64, offset, load| GeneratorRecord {
        node: node.to_owned(),
        host: host.to_owned(),
        steps: 1,
        clock_offset_ns: offset,
        clock_within_ns: 40_000,
        clock_moved_ns: -1_000,
        began_unix_ns: began,
        load: Some(load),
    };
    vec![
        of("client", "lab2", BEGAN + 700_000, -5_000_000, load(1_000, Nanos::from_millis(1))),
        of("client-2", "lab3", BEGAN, 3_000, load(1_200, Nanos::from_millis(3))),
    ]
}

fn made(directory: &Path) -> RunDir {
    let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
    let provenance = create(&directory.join("other"), &options).unwrap().provenance().unwrap();
    let plan = vtax_plan::parse("roles", PLAN.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    let mut run = RunDir::create(directory.join("run"), &plan, &provenance).unwrap();
    for repetition in 0..2 {
        let trial = run.begin_trial(&plan.cells[0].id, &plan.measures[0].name, repetition).unwrap();
        let generators = generators();
        let parts: Vec<&LoadResult> = generators.iter().filter_map(|g| g.load.as_ref()).collect();
        let load = merged(&parts);
        let record = TrialRecord {
            cell: plan.cells[0].id.clone(),
            measure: plan.measures[0].name.clone(),
            repetition,
            observations: vec![Observation::whole(0, Finding::Throughput { load })],
            generators,
            ..TrialRecord::default()
        };
        run.finish_trial(trial, record).unwrap();
    }
    run.completed().unwrap();
    run.run().clone()
}

#[test]
fn each_generator_has_its_row_and_the_sum_is_what_is_judged() {
    let directory = tempfile::tempdir().unwrap();
    let run = made(directory.path());
    let kept = run.trials().unwrap();
    assert_eq!(kept[0].generators, generators(), "they are kept as they were");
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let section = page.split("id=\"generators\"").nth(1).expect("a section");
    for told in [
        "from 2 hosts other than",
        "began 700 µs apart at most",
        "known to 80.0 µs",
        "lab2",
        "lab3",
        "-5.00 ms",
    ] {
        assert!(
            section.replace('\u{2212}', "-").replace('\u{a0}', " ").contains(told),
            "no {told} in {section}"
        );
    }
    crate::support::balanced(&page);
    let csv = fs::read_to_string(run.path().join("csv/generators.csv")).unwrap();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 1 + 2 * 2, "{csv}");
    assert!(rows[1].contains(",client,lab2,1,700000,-5000000,40000,-1000,1000,1000,"), "{}", rows[1]);
    crate::support::stays_text(&run, &[("\"lab2\"", "\"<img src=x>\"")]);
}

#[test]
fn other_runs_say_nothing_of_generators() {
    let directory = tempfile::tempdir().unwrap();
    let run =
        create(&directory.path().join("run"), &Options { repetitions: 1, seconds: 1, ..Options::default() })
            .unwrap();
    write_all(&run).unwrap();
    assert!(!run.path().join("csv/generators.csv").exists());
    assert!(!fs::read_to_string(run.path().join("report.html")).unwrap().contains("id=\"generators\""));
}
