//! Plans with web servers and what is asked of them: Apache's MPMs, PHP, WebSockets, files with targets and bodies.

use std::path::Path;

use vtax_plan::estimate::{Assumptions, cautions, estimate};
use vtax_plan::model::{HttpBody, HttpScript, HttpWebSocket, Mpm, Plan, ServiceKind, WebOptions, Workload};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Bytes, Nanos};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: native
services: apache
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

fn web(plan: &Plan) -> Vec<&WebOptions> {
    let of = |kind| match kind {
        &ServiceKind::Apache(ref web) | &ServiceKind::Nginx(ref web) => web,
        other => panic!("{other:?}"),
    };
    plan.cells.iter().map(|cell| of(&cell.service.kind)).collect()
}

fn script(plan: &Plan) -> &HttpScript {
    match &plan.cells[0].workload {
        Workload::Http(http) => http.script.as_ref().expect("requests"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_mpm_makes_a_cell() {
    assert_eq!(*web(&plan(&[]))[0], WebOptions::on(8080));
    let all = plan(&["services={apache: {mpm: [event, worker, prefork], workers: [1, 2]}}"]);
    let found: Vec<(Mpm, Option<u32>)> = web(&all).iter().map(|web| (web.mpm, web.workers)).collect();
    let expected =
        [Mpm::Event, Mpm::Worker, Mpm::Prefork].map(|mpm| [(mpm, Some(1)), (mpm, Some(2))]).concat();
    assert!(found.len() == 6 && expected.iter().all(|one| found.contains(one)), "{found:?}");
    let words = |service: &str| plan(&[service]).cells[0].service.kind.facts().words.into_owned();
    assert_eq!(words("services=apache"), "Apache httpd, event MPM, private configuration");
    let prefork = words("services={apache: {mpm: prefork, php: true}}");
    assert_eq!(prefork, "Apache httpd, prefork MPM, PHP-FPM, private configuration");
    // What plans had before is stored as before.
    let stored = serde_json::to_string(&plan(&[]).cells[0].service.kind).unwrap();
    assert_eq!(stored, r#"{"kind":"apache","port":8080,"workers":null}"#);
    assert!(refused(&["services={apache: {mpm: perchild}}"]).contains("prefork"));
    assert!(refused(&["services={nginx: {mpm: event}}"]).contains("mpm"));
}

#[test]
fn pages_need_php() {
    let page = "workload.http.target=/page/10";
    for server in ["apache", "nginx"] {
        let with = format!("services={{{server}: {{php: true}}}}");
        let with = plan(&[&with, page]);
        let facts = with.cells[0].service.kind.facts();
        assert_eq!(facts.packages.last(), Some(&"php-fpm"));
        assert!(web(&with)[0].php && facts.words.contains("PHP-FPM"), "{}", facts.words);
        let without = refused(&[&format!("services={server}"), page]);
        assert!(without.contains("with `php: true` it would"), "{without}");
    }
    assert!(!plan(&[]).cells[0].service.kind.facts().packages.contains(&"php-fpm"));
    let more = refused(&["services={nginx: {php: true}}", "workload.http.target=/page/100001"]);
    assert!(more.contains("does not serve"), "{more}");
}

#[test]
fn connections_that_would_wait_are_warned_of() {
    let told = |overrides: &[&str]| {
        let plan = plan(overrides);
        cautions(&plan, &estimate(&plan, &Assumptions::KVM))
            .into_iter()
            .find(|text| text.contains("connections at once"))
    };
    let many = "workload.http.connections=200";
    let prefork = "services={apache: {mpm: prefork}}";
    assert!(
        told(&[prefork, many]).is_some_and(|text| text.contains("serves 150") && text.contains("of 200"))
    );
    assert_eq!(told(&[prefork]), None);
    assert_eq!(told(&[many]), None);
    assert_eq!(told(&[prefork, many, "workload.http.requests_per_connection=10"]), None);
    assert_eq!(told(&["services={apache: {mpm: prefork, workers: 200}}", many]), None);
    // Of two systems each has half of them, unless they are of each.
    let two = "environments=[{native: {count: 2}}]";
    assert_eq!(told(&[prefork, many, two]), None);
    let more = "workload.http.connections=301";
    assert!(told(&[prefork, more, two]).is_some_and(|text| text.contains("of 151 that stay")));
    let each = "consolidation={load: each}";
    assert!(told(&[prefork, many, two, each]).is_some_and(|text| text.contains("of 200 that stay")));
    let worker = "services={apache: {mpm: worker}}";
    assert!(told(&[worker, many, "budget={sut_cpus: 1}"]).is_some_and(|text| text.contains("serves 128")));
    assert_eq!(told(&[worker, many, "budget={sut_cpus: 2}"]), None);
    // nginx: 16,384 of each worker, and with PHP two for each.
    let (most, more) = ("workload.http.connections=32768", "workload.http.connections=32769");
    let nginx = "services={nginx: {workers: 2}}";
    assert!(told(&[nginx, more]).is_some_and(|text| text.contains("`nginx` serves 32768")
        && text.contains("of 32769 that stay, the others would be closed")));
    assert_eq!(told(&[nginx, most]), None);
    assert_eq!(told(&[nginx, more, "workload.http.requests_per_connection=10"]), None);
    assert_eq!(told(&["services={nginx: {workers: 3}}", more]), None);
    assert!(
        told(&["services=nginx", more, "budget={sut_cpus: 1}"])
            .is_some_and(|text| text.contains("serves 16384"))
    );
    let php = "services={nginx: {workers: 4, php: true}}";
    assert!(told(&[php, more]).is_some_and(|text| text.contains("serves 32768")));
    assert_eq!(told(&[php, most]), None);
}

#[test]
fn prefork_has_no_http_2() {
    let version = "workload.http.version=2";
    plan(&["services={apache: {mpm: [event, worker]}}", version]);
    let told = refused(&["services={apache: {mpm: [event, prefork]}}", version]);
    assert!(told.contains("`apache` with `mpm: prefork` speaks HTTP/1.1 alone"), "{told}");
}

#[test]
fn a_step_opens_a_websocket() {
    let http = |more: &str| format!("workload={{http: {{{more}}}}}");
    let session = "requests: {steps: [/page/1, {target: /echo?a=1, websocket: {messages: 20, size: 1KB, think: 5ms, text: true}}]}";
    let found = plan(&["services=http", &http(session)]);
    let steps = &script(&found).sessions[0].steps;
    let websocket =
        HttpWebSocket { messages: 20, size: Bytes(1000), think: Nanos::from_millis(5), text: true };
    assert_eq!((&steps[0].websocket, &steps[1].websocket), (&None, &Some(websocket)));
    let short = plan(&["services=http", &http("requests: {target: /echo, websocket: 3}")]);
    let own = script(&short).sessions[0].steps[0].websocket.as_ref().unwrap();
    assert_eq!((own.messages, own.size, own.think, own.text), (3, Bytes(100), Nanos::ZERO, false));
    for (service, requests, word) in [
        ("http", "requests: {target: /page/1, websocket: 3}", "answers WebSockets at `/echo`"),
        ("http", "requests: [/echo]", "does not serve `/echo`"),
        ("nginx", "requests: {target: /echo, websocket: 3}", "has no WebSockets"),
        ("http", "requests: {target: /echo, websocket: 0}", "1 to 1000000 messages"),
        ("http", "requests: {target: /echo, websocket: 3, method: POST}", "opened by GET"),
        ("http", "requests: {target: /echo, websocket: 3}, requests_per_connection: 10", "for itself"),
        ("nginx", "requests: {target: /echo, websocket: 3}, version: 2", "need HTTP/1.1"),
    ] {
        let told = refused(&[&format!("services={service}"), &http(requests)]);
        assert!(told.contains(word), "{requests}: {told}");
    }
}

#[test]
fn what_a_session_has_beside_its_steps_is_refused() {
    let with = |key: &str, value: &str| {
        format!("workload={{http: {{requests: {{steps: [/100b, /10k], {key}: {value}}}}}}}")
    };
    let weight = with("weight", "3");
    assert_eq!(script(&plan(&[weight.as_str()])).sessions[0].weight, 3);
    for (key, value) in [
        ("method", "POST"),
        ("headers", "{a: b}"),
        ("body", "a=1"),
        ("body_file", "a.txt"),
        ("body_size", "9"),
        ("chunked", "true"),
        // What it would be anyway is passed over, too.
        ("expect_continue", "false"),
        ("capture", "{t: {json: /t}}"),
        ("expect", "{status: 204}"),
        ("websocket", "2"),
    ] {
        let set = with(key, value);
        let told = refused(&[set.as_str()]);
        assert!(told.contains(&format!("`{key}` belongs into the steps")), "{told}");
        assert!(told.matches("error: ").count() == 1, "{told}");
    }
}

#[test]
fn keys_of_tls_need_tls() {
    for (key, value) in [
        ("cipher", "TLS_AES_128_GCM_SHA256"),
        ("group", "x25519"),
        ("resume", "[true, false]"),
        ("sni", "a.example"),
        ("alpn", "false"),
    ] {
        let set = format!("workload.http.{key}={value}");
        let told = refused(&[set.as_str()]);
        assert!(told.contains(&format!("`{key}` means nothing without TLS")), "{told}");
        assert!(told.contains("write `tls: any`"), "{told}");
        plan(&[set.as_str(), "workload.http.tls=[none, tls13]"]);
    }
    plan(&["workload.http.resume=true", "workload.http.alpn=true"]);
}

#[test]
fn what_the_embedded_server_always_refuses_is_told() {
    let read = |service: &str, request: &str| {
        let set = [format!("services={service}"), format!("workload={{http: {{requests: {request}}}}}")];
        parse("p", PLAN.as_bytes(), &set)
    };
    let post = "{target: /page/1, method: POST, body: a=1}";
    for (request, words) in [
        (post, "`http` answers `POST` with 405"),
        ("{steps: [/page/1, {target: /page/2, method: PUT}]}", "`http` answers `PUT` with 405"),
        ("{target: /page/1, body: a=1}", "`http` takes no bodies"),
        ("{target: /page/1, body_size: 9, chunked: true}", "`http` takes no bodies"),
    ] {
        let told = read("http", request).err().map(|errors| errors.to_string()).unwrap_or_default();
        assert!(told.contains(words), "{request}: {told}");
    }
    for (service, request) in [
        ("http", "{target: /page/1, method: HEAD}"),
        ("http", "{target: /page/1, body: ''}"),
        ("http", "{target: /page/1, method: POST, expect: {status: 405}}"),
        ("http", "{target: /page/1, body: a=1, expect: {status: 413}}"),
        ("{command: {run: [serve], port: 1}}", post),
    ] {
        assert!(read(service, request).is_ok(), "{service}: {request}");
    }
}

/// Every trial of such a plan failed, and `check` had nothing to say.
#[test]
fn what_nginx_always_refuses_is_told() {
    let read = |service: &str, request: &str| {
        let set = [format!("services={service}"), format!("workload={{http: {{requests: {request}}}}}")];
        parse("p", PLAN.as_bytes(), &set)
    };
    let php = "{nginx: {php: true}}";
    for (service, request, words) in [
        ("nginx", "{target: /100b, method: POST, body: a=1}", "`nginx` answers `POST` with 405: files are"),
        ("nginx", "{target: '/10k?a=1', method: OPTIONS}", "or use `apache`"),
        ("nginx", "{steps: [/100b, {target: /1m, method: PUT, body: a}]}", "`nginx` answers `PUT` with 405"),
        ("[apache, nginx]", "{target: /100b, method: POST, body: a=1}", "or use `apache`"),
        (php, "{target: /100b, method: POST, body: a=1}", "`nginx` answers `POST` with 405"),
        ("nginx", "{target: /page/1, method: POST, body: a=1}", "with `php: true` it would"),
        (php, "{target: /login, method: POST, body: a=1}", "`nginx` does not serve `/login`"),
        (php, "{target: /login, method: POST, body: a=1}", "`/page/ROWS` takes this method"),
        ("nginx", "{target: /login, method: POST, body: a=1}", "with `php: true`, `/page/ROWS` takes"),
        (php, "{target: /page/1, method: TRACE}", "`nginx` answers `TRACE` with 405"),
        ("nginx", "{target: /100b, method: get}", "`nginx` answers `get` with 400"),
    ] {
        let told = read(service, request).err().map(|errors| errors.to_string()).unwrap_or_default();
        assert!(told.contains(words) && told.matches("error: ").count() == 1, "{request}: {told}");
    }
    for (service, request) in [
        ("nginx", "{target: /100b, method: HEAD}"),
        ("nginx", "{target: /100b, method: POST, body: a=1, expect: {status: 405}}"),
        ("apache", "{target: /100b, method: POST, body: a=1}"),
        (php, "{target: '/page/1?a=1', method: POST, body: a=1}"),
        (
            php,
            "{steps: [{target: /page/1, capture: {n: {regex: '[0-9]'}}}, {target: '/page/${n}', method: POST}]}",
        ),
    ] {
        let read = read(service, request);
        assert!(read.is_ok(), "{service}: {request}: {read:?}");
    }
}

/// A plan beside these files.
fn beside(files: &[(&str, &str)], workload: &str) -> Result<Plan, PlanErrors> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let path: &Path = &folder.path().join("plan.yaml");
    std::fs::write(path, PLAN.replace("{http: {target: /100b, connections: 4}}", workload)).unwrap();
    vtax_plan::load(path, &[] as &[&str])
}

#[test]
fn targets_and_bodies_come_from_files_beside_the_plan() {
    let targets = ("targets.txt", "# ours\n/100b\n3 /10k\n");
    let found = beside(&[targets], "{http: {targets_file: targets.txt, zipf: 1.1}}").unwrap();
    let sessions = |plan: &Plan| -> Vec<(u32, String)> {
        script(plan)
            .sessions
            .iter()
            .map(|session| (session.weight, session.steps[0].target.clone()))
            .collect()
    };
    assert_eq!(sessions(&found), [(1, "/100b".to_owned()), (3, "/10k".to_owned())]);
    let both = beside(&[targets], "{http: {requests: /1m, targets_file: targets.txt}}").unwrap();
    assert_eq!(sessions(&both)[0].1, "/1m");
    assert_eq!(sessions(&both).len(), 3);
    let post = "{http: {requests: {target: /x, method: POST, body_file: form.txt, expect: {status: 404}}}}";
    let body = beside(&[("form.txt", "a=1&b=2")], post).unwrap();
    assert_eq!(script(&body).sessions[0].steps[0].body, HttpBody::Text("a=1&b=2".to_owned()));
    let long = "x".repeat(1_000_000);
    let one = "{target: /, method: POST, body_file: long.txt}";
    let connections = (1..=60).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let in_many_cells = format!("{{http: {{requests: {one}, connections: [{connections}]}}}}");
    let many = format!("{{http: {{requests: [{}]}}}}", [one; 7].join(", "));
    for (files, workload, word) in [
        (&[][..], "{http: {targets_file: targets.txt}}", "cannot read `targets.txt`"),
        (&[("targets.txt", "\n# none\n")], "{http: {targets_file: targets.txt}}", "has no targets"),
        (&[("targets.txt", "/a\nx /b\n")], "{http: {targets_file: targets.txt}}", "line 2 of `targets.txt`"),
        (&[("targets.txt", "nowhere\n")], "{http: {targets_file: targets.txt}}", "`target`"),
        (&[], "{http: {targets_file: ../targets.txt}}", "plan's folder"),
        (&[targets], "{http: {target: /100b, targets_file: targets.txt}}", "not both"),
        (&[], "{http: {requests: {target: /, body: a, body_size: 1}}}", "not several"),
        (
            &[("targets.txt", &"/a\n".repeat(50_000))],
            "{http: {targets_file: targets.txt}}",
            "more than 6 MiB",
        ),
        (&[("long.txt", &long)], &many, "more than 6 MiB"),
        (&[("long.txt", &long)], &in_many_cells, "too large for 60 cells"),
    ] {
        let told = beside(files, workload).err().map(|errors| errors.to_string()).unwrap_or_default();
        assert!(told.contains(word), "{word}: {told}");
    }
}
