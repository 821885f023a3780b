//! A made-up run of both versions of HTTP: what the second costs, and what is known of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vtax_fixture::{Options, create};
use vtax_load::http::{Http2Details, HttpDetails};
use vtax_load::{Counts, Details, GeneratorUse, LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, HttpWorkload, ServiceKind, Workload};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{CapacityOutcome, Finding, Observation, TrialRecord};
use vtax_store::summary::Summary;
use vtax_units::{Nanos, Rate};

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
/// Of fewer trials that agree to the digit there is no interval.
const ROUNDS: u32 = 6;

/// A request takes 1 ms with HTTP/1.1, 1.2 ms with one stream and 1.5 ms with ten.
fn load(cell: &Cell) -> LoadResult {
    let time = match http(cell).http2_streams {
        None => 1_000_000,
        Some(1) => 1_200_000,
        Some(_) => 1_500_000,
    };
    taking(cell, time)
}

fn http(cell: &Cell) -> &HttpWorkload {
    let Workload::Http(http) = &cell.workload else { panic!("{:?}", cell.workload) };
    http
}

fn taking(cell: &Cell, time: u64) -> LoadResult {
    let http = http(cell);
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
        timeout: Nanos::ZERO,
        answered_in_time: None,
    }
}

fn made(directory: &Path, plan: &str, found: impl Fn(&Cell) -> Finding) -> RunDir {
    let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
    let provenance = create(&directory.join("other"), &options).unwrap().provenance().unwrap();
    let plan = vtax_plan::parse("http2", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    let mut run = RunDir::create(directory.join("run"), &plan, &provenance).unwrap();
    let measure = &plan.measures[0].name;
    for repetition in 0..ROUNDS {
        for cell in &plan.cells {
            let trial = run.begin_trial(&cell.id, measure, repetition).unwrap();
            let record = TrialRecord {
                cell: cell.id.clone(),
                measure: measure.clone(),
                repetition,
                observations: vec![Observation::whole(0, found(cell))],
                ..TrialRecord::default()
            };
            run.finish_trial(trial, record).unwrap();
        }
    }
    run.completed().unwrap();
    run.run().clone()
}

fn both(directory: &Path) -> RunDir {
    let run = made(directory, PLAN, |cell| Finding::Throughput { load: load(cell) });
    assert_eq!(run.plan().unwrap().cells.len(), 6);
    run
}

/// The table of a section.
fn table(page: &str, section: &str) -> String {
    let section = page.split(&format!("id=\"{section}\"")).nth(1).expect("a section");
    section.split("</table>").next().unwrap().to_owned()
}

#[test]
fn each_cell_of_http_2_stands_beside_its_like() {
    let directory = tempfile::tempdir().unwrap();
    let run = both(directory.path());
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let section = table(&page, "http-2");
    for told in ["+20 %", "+50 %", "in the clear", "time of a request, mean", "throughput"] {
        assert!(section.contains(told), "no {told} in {section}");
    }
    // Two environments, two numbers of streams, time and throughput.
    assert_eq!(section.matches("<tr").count(), 1 + 2 * 2 * 2, "{section}");
    crate::support::balanced(&page);
}

/// A share can't be above 1, and what is counted can: the interval of a count must not be cut to that of a share.
#[test]
fn what_is_counted_is_no_share() {
    let directory = tempfile::tempdir().unwrap();
    let run = both(directory.path());
    write_all(&run).unwrap();
    let summary = fs::read_to_string(run.path().join("summary.json")).unwrap();
    let summary: Summary = serde_json::from_str(&summary).unwrap();
    for (name, count) in [("http2_resets", 7.0), ("http2_again", 3.0)] {
        let found: Vec<_> = summary.cells.iter().filter_map(|c| c.metrics.get(name)).collect();
        // Two environments, two numbers of streams.
        assert_eq!(found.len(), 4, "{name}");
        let is_count = |value: f64| (value - count).abs() < 1e-9;
        for metric in found {
            let (low, high) = metric.interval.unwrap();
            assert!(is_count(metric.center) && is_count(low) && is_count(high), "{name}: {metric:?}");
            assert_eq!(metric.unit, "", "{name}");
        }
    }
}

/// Of the options of a service and of who stands beside it none may be taken for what TLS or HTTP/2 costs.
#[test]
fn what_is_put_beside_each_other_has_the_same_server_and_neighbours() {
    let plan = "\
vtax: 1
name: http2
baseline: native
environments: [native, container]
services: {nginx: {workers: [1, 2]}}
systems:
  - {name: quiet, beside: {name: tenant, service: http, workload: {http: {target: /page/100}}, load: idle}}
  - {name: busy, beside: {name: tenant, service: http, workload: {http: {target: /page/100}}, load: closed}}
workload: {http: {target: /100b, version: [1.1, 2], tls: [none, tls13]}}
measure: [throughput]
";
    let directory = tempfile::tempdir().unwrap();
    let run = made(directory.path(), plan, |cell| {
        let ServiceKind::Nginx(nginx) = &cell.service.kind else { panic!("{:?}", cell.service) };
        let mut time = 1e6;
        for (is, factor) in [
            (nginx.workers == Some(2), 0.5),
            (cell.systems.name == "busy", 3.0),
            (http(cell).http2_streams.is_some(), 1.2),
            (http(cell).tls.is_some(), 1.3),
        ] {
            time *= if is { factor } else { 1.0 };
        }
        Finding::Throughput { load: taking(cell, time as u64) }
    });
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    // Two environments, servers and sets of systems, and each of the two that the other table is about.
    let (of_http_2, of_tls) = (table(&page, "http-2"), table(&page, "http-tls"));
    assert_eq!(of_http_2.matches("+20 %").count(), 16, "{of_http_2}");
    assert_eq!(of_tls.matches("+30 %").count(), 16, "{of_tls}");
    for head in ["beside busy, workers 2", "beside quiet, workers 1"] {
        assert_eq!(of_http_2.matches(head).count(), 8, "{head}: {of_http_2}");
    }
    for head in ["beside busy, version 1.1, workers 2", "beside quiet, version 2, workers 1"] {
        assert_eq!(of_tls.matches(head).count(), 2, "{head}: {of_tls}");
    }
    assert!(of_http_2.contains("TLS, 1.3"), "{of_http_2}");
}

/// Of searches that end at the highest rate asked for, nobody knows how much more HTTP/2 would have carried.
#[test]
fn bounds_are_not_compared_between_versions() {
    let plan = PLAN.replace("throughput", "capacity");
    let rows = |upper: Option<Rate>| {
        let directory = tempfile::tempdir().unwrap();
        let run = made(directory.path(), &plan, |cell| {
            let upper = if http(cell).http2_streams == Some(10) { upper } else { Some(Rate(8100.0)) };
            Finding::Capacity(CapacityOutcome { lower: Rate(8000.0), upper, steps: Vec::new() })
        });
        write_all(&run).unwrap();
        let page = fs::read_to_string(run.path().join("report.html")).unwrap();
        table(&page, "http-2").matches("<tr").count() - 1
    };
    assert_eq!((rows(Some(Rate(8200.0))), rows(None)), (4, 2));
}
