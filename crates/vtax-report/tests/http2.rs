//! A made-up run of both versions of HTTP: what the second costs, and what is known of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vtax_fixture::{Options, create};
use vtax_load::http::{Http2Details, HttpDetails};
use vtax_load::{Counts, Details, GeneratorUse, LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, Workload};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{Finding, Observation, TrialRecord};
use vtax_units::Nanos;

/// Streams are a list too: each of their cells stands beside the one of HTTP/1.1.
const PLAN: &str = "\
vtax: 1
name: http2
baseline: native
environments: [native, container]
services: nginx
workload: {http: {target: /100b, version: [1.1, 2], streams: [1, 10]}}
measure: [throughput]
";
const REQUESTS: u64 = 2000;
const ROUNDS: u32 = 3;

/// A request takes 1 ms with HTTP/1.1, 1.2 ms with one stream and 1.5 ms with ten.
fn load(cell: &Cell) -> LoadResult {
    let Workload::Http(http) = &cell.workload else { panic!("{:?}", cell.workload) };
    let time = match http.http2_streams {
        None => 1_000_000,
        Some(1) => 1_200_000,
        Some(_) => 1_500_000,
    };
    let http2 = http.http2_streams.map(|most_streams| Http2Details {
        by: "prior knowledge".to_owned(),
        streams: REQUESTS,
        most_streams,
        resets: BTreeMap::from([("CANCEL".to_owned(), 7)]),
        again: 3,
        ..Http2Details::default()
    });
    let mut latency = LatencyHistogram::new();
    (0..REQUESTS).for_each(|_| latency.record(Nanos(time)));
    LoadResult {
        duration: Nanos::from_secs(10),
        started_unix_ns: 0,
        counts: Counts { sent: REQUESTS, ok: REQUESTS, ..Counts::default() },
        latency,
        lateness: LatencyHistogram::new(),
        intervals: Vec::new(),
        connections: Vec::new(),
        generator: GeneratorUse::default(),
        samples: Vec::new(),
        details: http2.map(|http2| Details {
            http: Some(Box::new(HttpDetails { http2: Some(http2), ..HttpDetails::default() })),
            ..Details::default()
        }),
    }
}

fn made(directory: &Path) -> RunDir {
    let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
    let provenance = create(&directory.join("other"), &options).unwrap().provenance().unwrap();
    let plan = vtax_plan::parse("http2", PLAN.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.cells.len(), 6);
    let mut run = RunDir::create(directory.join("run"), &plan, &provenance).unwrap();
    let measure = &plan.measures[0].name;
    for repetition in 0..ROUNDS {
        for cell in &plan.cells {
            let trial = run.begin_trial(&cell.id, measure, repetition).unwrap();
            let record = TrialRecord {
                cell: cell.id.clone(),
                measure: measure.clone(),
                repetition,
                observations: vec![Observation::whole(0, Finding::Throughput { load: load(cell) })],
                ..TrialRecord::default()
            };
            run.finish_trial(trial, record).unwrap();
        }
    }
    run.completed().unwrap();
    run.run().clone()
}

#[test]
fn each_cell_of_http_2_stands_beside_its_like() {
    let directory = tempfile::tempdir().unwrap();
    let run = made(directory.path());
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let section = page.split("id=\"http-2\"").nth(1).expect("a section");
    let section = section.split("</table>").next().unwrap();
    for told in ["+20 %", "+50 %", "in the clear", "time of a request, mean", "throughput"] {
        assert!(section.contains(told), "no {told} in {section}");
    }
    // Two environments, two numbers of streams, time and throughput.
    assert_eq!(section.matches("<tr").count(), 1 + 2 * 2 * 2, "{section}");
    crate::support::balanced(&page);
    let summary = fs::read_to_string(run.path().join("summary.json")).unwrap();
    for metric in ["\"http2_resets\"", "\"http2_again\""] {
        assert!(summary.contains(metric), "no {metric}");
    }
}
