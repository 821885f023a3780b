//! Plans whose HTTP is HTTP/2: what their keys mean, and what is refused.

use vtax_plan::model::{HttpWorkload, Plan, ServiceKind, WebOptions, Workload};
use vtax_plan::{PlanErrors, parse};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: native
services: nginx
workload: {http: {target: /100b, connections: 4}}
measure: [throughput]
";

fn plan(overrides: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(overrides: &[&str]) -> String {
    match parse("p", PLAN.as_bytes(), overrides) {
        Err(errors @ PlanErrors::Invalid(_)) => errors.to_string(),
        other => panic!("{overrides:?} is refused: {other:?}"),
    }
}

fn cells(plan: &Plan) -> Vec<(&HttpWorkload, &WebOptions)> {
    plan.cells
        .iter()
        .map(|cell| match (&cell.workload, &cell.service.kind) {
            (Workload::Http(http), ServiceKind::Nginx(web)) => (http, web),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn the_version_is_that_of_service_and_load() {
    let told = |overrides: &[&str]| {
        let plan = plan(overrides);
        let all = cells(&plan).into_iter().map(|(http, web)| (http.http2_streams, web.http2, web.tls));
        all.collect::<Vec<_>>()
    };
    assert_eq!(told(&[]), [(None, false, false)]);
    assert_eq!(told(&["workload.http.version=1.1"]), [(None, false, false)]);
    assert_eq!(told(&["workload.http.version=2"]), [(Some(1), true, false)]);
    assert_eq!(
        told(&["workload.http.version=2", "workload.http.streams=10", "workload.http.tls=tls13"]),
        [(Some(10), true, true)]
    );
    // Streams make no cells of HTTP/1.1.
    assert_eq!(
        told(&["workload.http.version=[1.1, 2]", "workload.http.streams=[1, 10]"]),
        [(None, false, false), (Some(1), true, false), (Some(10), true, false)]
    );
    let both = plan(&["workload.http.version=[1.1, 2]", "workload.http.tls=[none, any]"]);
    let ids: Vec<&str> = both.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (overrides, word) in [
        (&["workload.http.version=3"][..], "`1.1` and `2`"),
        (&["workload.http.streams=10"], "add `version: 2`"),
        (&["workload.http.version=2", "workload.http.streams=0"], "a connection needs a stream"),
        (&["workload.http.version=2", "workload.http.streams=2000"], "1000"),
        (
            &["workload.http.version=2", "workload.http.streams=1000", "workload.http.connections=50000"],
            "streams at once",
        ),
        (&["workload.http.version=2", "workload.http.alpn=false"], "ALPN"),
        (
            &["workload.http.version=2", "services=http", "workload.http.target=/bytes/9"],
            "`http` speaks HTTP/1.1 alone",
        ),
    ] {
        let told = refused(overrides);
        assert!(told.contains(word), "{overrides:?}: {told}");
    }
    let session = "workload={http: {version: 2, requests: {steps: [/100b, /10k]}}}";
    assert!(refused(&[session]).contains("need HTTP/1.1"), "{}", refused(&[session]));
    plan(&["workload={http: {version: 2, requests: [/100b, {target: /10k, weight: 3}]}}"]);
}
