//! HTTP archives as plans.

use proptest::prelude::*;
use vtax_plan::har::{HarError, Options, import};
use vtax_plan::model::{HttpBody, HttpCompression, HttpScript, Workload};
use vtax_plan::parse;
use vtax_units::Nanos;

const ARCHIVE: &str = r##"{"log": {"version": "1.2", "entries": [
  {"startedDateTime": "2026-01-02T03:04:05.000Z", "time": 100.0,
   "request": {"method": "GET", "url": "https://shop.example/start?a=1#top",
     "headers": [{"name": "Host", "value": "shop.example"}, {"name": "Accept-Encoding", "value": "gzip, br"},
                 {"name": ":path", "value": "/"}, {"name": "Accept", "value": "text/html"}]},
   "response": {"status": 200}},
  {"startedDateTime": "2026-01-02T04:04:06.600+01:00", "time": 50,
   "request": {"method": "POST", "url": "https://shop.example/buy",
     "headers": [{"name": "Cookie", "value": "sid=1"}, {"name": "Content-Type", "value": "application/json"}],
     "postData": {"mimeType": "application/json", "text": "{\"n\": \"1: 'x'\\n\"}"}},
   "response": {"status": 201}},
  {"startedDateTime": "2026-01-02T03:04:05.020Z", "time": 10,
   "request": {"method": "GET", "url": "https://cdn.example/x.js", "headers": []}, "response": {"status": 200}},
  {"startedDateTime": "2026-01-02T03:04:05.050Z", "time": 10,
   "request": {"method": "GET", "url": "https://shop.example/a b", "headers": []}, "response": {"status": 200}},
  {"startedDateTime": "2026-01-02T03:04:05.060Z", "time": 10,
   "request": {"method": "GET", "url": "data:text/plain,x", "headers": []}}
]}}"##;

fn options(expect: bool) -> Options {
    Options { name: "shop".to_owned(), expect }
}

fn script(plan: &str) -> HttpScript {
    let plan = parse("imported", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{plan}\n{e}"));
    let Workload::Http(http) = &plan.cells[0].workload else { panic!("not HTTP") };
    http.script.as_ref().expect("requests").as_ref().clone()
}

#[test]
fn an_archive_becomes_a_session_and_the_rest_is_told() {
    let imported = import(ARCHIVE.as_bytes(), &options(true)).expect("a plan");
    assert_eq!((imported.host.as_str(), imported.requests), ("shop.example", 2));
    assert!(imported.plan.contains("# vtax load http http://HOST --plan THIS-FILE --connections 16\n"));
    let told = imported.left_out.join("\n");
    for part in ["entry 5: `data:text/plain,x`", "1 request to cdn.example", "entry 4: its target"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let script = script(&imported.plan);
    assert!(script.cookies && script.compression == HttpCompression::Decode);
    let [first, second] = script.sessions[0].steps.as_slice() else { panic!("{:?}", script.sessions) };
    assert_eq!((first.target.as_str(), first.method.as_str()), ("/start?a=1", "GET"));
    assert_eq!(first.headers, [("Accept".to_owned(), "text/html".to_owned())]);
    assert_eq!(first.expect.status, [200]);
    // 1.6 s after the first began, which took 0.1 s.
    assert_eq!((first.think, second.think), (Nanos::ZERO, Nanos::from_millis(1_500)));
    assert_eq!(second.body, HttpBody::Text("{\"n\": \"1: 'x'\\n\"}".to_owned()));
    assert_eq!(second.expect.status, [201]);
    let without = import(ARCHIVE.as_bytes(), &options(false)).expect("a plan");
    assert!(self::script(&without.plan).sessions[0].steps.iter().all(|step| step.expect.status.is_empty()));
}

#[test]
fn credentials_are_no_part_of_a_plan() {
    let archive = r##"{"log": {"entries": [
      {"startedDateTime": "2026-01-02T03:04:05Z",
       "request": {"method": "GET", "url": "https://h/a?access_token=open",
         "headers": [{"name": "Authorization", "value": "Bearer hidden"}, {"name": "X-API-Key", "value": "hidden"},
                     {"name": "Accept", "value": "text/html"}, {"name": "cookie", "value": "hidden"}]}},
      {"startedDateTime": "2026-01-02T03:04:06Z",
       "request": {"method": "POST", "url": "https://h/login",
         "headers": [{"name": "authorization", "value": "Bearer hidden"}, {"name": "X-CSRF-Token", "value": "hidden"},
                     {"name": "Proxy-Authorization", "value": "hidden"}],
         "postData": {"text": "user=a"}}}
    ]}}"##;
    let imported = import(archive.as_bytes(), &options(false)).expect("a plan");
    assert!(!imported.plan.contains("hidden") && imported.plan.contains("text/html"), "{}", imported.plan);
    assert_eq!(
        imported.left_out,
        ["header fields that may hold credentials: `authorization` of 2 requests, `cookie` of 1 request, \
          `proxy-authorization` of 1 request, `x-api-key` of 1 request, `x-csrf-token` of 1 request"]
    );
    assert_eq!(imported.warnings.len(), 2, "{:?}", imported.warnings);
    assert!(imported.warnings[0].starts_with("a body of 1 request may hold"), "{:?}", imported.warnings);
    assert!(imported.warnings[1].starts_with("a query of 1 request may hold"), "{:?}", imported.warnings);
}

#[test]
fn keys_and_signatures_are_credentials_and_other_fields_with_such_names_are_not() {
    let names = ["Ocp-Apim-Subscription-Key", "X-JWT-Assertion", "X-Signature", "x-functions-key"];
    let fields = |names: &[&str], value: &str| -> Vec<serde_json::Value> {
        names.iter().map(|name| serde_json::json!({"name": name, "value": value})).collect()
    };
    let mut headers = fields(&names, "hidden");
    headers.extend(fields(&["Sec-WebSocket-Key"], "of a connection"));
    headers.extend(fields(&["Idempotency-Key", "Accept"], "kept"));
    let entry = |url: &str, headers: &[serde_json::Value]| {
        serde_json::json!({
            "startedDateTime": "2026-01-02T03:04:05Z",
            "request": {"method": "GET", "url": url, "headers": headers},
        })
    };
    let archive = serde_json::json!({"log": {"entries": [
        entry("https://h/a?n=1&KEY=open", &headers),
        entry("https://h/a?sig=open", &[]),
        entry("https://h/back?code=open&state=1", &[]),
        entry("https://h/a?keys=1&signal=2&codec=3", &[]),
    ]}});
    let imported = import(archive.to_string().as_bytes(), &options(false)).expect("a plan");
    assert_eq!(
        imported.left_out,
        ["header fields that may hold credentials: `ocp-apim-subscription-key` of 1 request, \
          `x-functions-key` of 1 request, `x-jwt-assertion` of 1 request, `x-signature` of 1 request"]
    );
    let script = script(&imported.plan);
    let kept: Vec<&str> = script.sessions[0].steps[0].headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(kept, ["Idempotency-Key", "Accept"]);
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
    assert!(imported.warnings[0].starts_with("a query of 3 requests may hold"), "{:?}", imported.warnings);
}

/// Such requests became some without a body, and nobody was told.
#[test]
fn bodies_that_an_archive_lacks_are_told() {
    let entry = |path: &str, size: i64, posted: serde_json::Value| {
        serde_json::json!({
            "startedDateTime": "2026-01-02T03:04:05Z",
            "request": {"method": "POST", "url": format!("https://h{path}"), "bodySize": size, "postData": posted},
        })
    };
    let fields = serde_json::json!([{"name": "a", "value": "1"}]);
    let archive = serde_json::json!({"log": {"entries": [
        entry("/form", 3, serde_json::json!({"mimeType": "application/x-www-form-urlencoded", "params": fields})),
        entry("/upload", 70_000, serde_json::Value::Null),
        entry("/binary", 70_000, serde_json::json!({"mimeType": "image/png", "text": ""})),
        entry("/both", 3, serde_json::json!({"text": "a=1", "params": fields})),
        entry("/none", 0, serde_json::json!({"text": "", "params": []})),
        entry("/unknown", -1, serde_json::Value::Null),
        {"startedDateTime": "2026-01-02T03:04:06Z", "request": {"method": "GET", "url": "https://h/", "bodySize": null}},
    ]}});
    let imported = import(archive.to_string().as_bytes(), &options(false)).expect("a plan");
    assert_eq!(
        imported.left_out,
        [
            "entry 1: its body is there as a form's fields, not as text",
            "entry 2: its body isn't in the archive",
            "entry 3: its body isn't in the archive",
        ]
    );
    let script = script(&imported.plan);
    let steps = &script.sessions[0].steps;
    let found: Vec<(&str, bool)> =
        steps.iter().map(|step| (step.target.as_str(), step.body == HttpBody::None)).collect();
    assert_eq!(found, [("/both", false), ("/none", true), ("/unknown", true), ("/", true)]);
}

#[test]
fn logins_in_addresses_are_no_part_of_a_plan_nor_of_what_is_told() {
    let entry = |url: &str, referer: &str| {
        serde_json::json!({
            "startedDateTime": "2026-01-02T03:04:05Z",
            "request": {"method": "GET", "url": url, "headers": [{"name": "Referer", "value": referer}]},
        })
    };
    let archive = serde_json::json!({"log": {"entries": [
        entry("https://me:hidden@h:8443/a@b", "https://me:hidden@h:8443/from@here?token=hidden#hidden"),
        entry("https://a@hidden@h:8443?x=@", "https://h/plain"),
        entry("https://h:8443/c", ""),
        entry("https://me:hidden@other/", ""),
        entry("wss://me:hidden@h/live?token=hidden", ""),
    ]}});
    let imported = import(archive.to_string().as_bytes(), &options(false)).expect("a plan");
    assert_eq!((imported.host.as_str(), imported.requests), ("h:8443", 3));
    let told = format!("{}{:?}{:?}", imported.plan, imported.left_out, imported.warnings);
    assert!(!told.contains("hidden"), "{told}");
    for part in
        ["entry 5: `wss://h/live` is neither", "1 request to other", "the login in the address of 2 requests"]
    {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let script = script(&imported.plan);
    let steps = &script.sessions[0].steps;
    let found: Vec<(&str, &str)> =
        steps.iter().map(|step| (step.target.as_str(), step.headers[0].1.as_str())).collect();
    assert_eq!(found, [("/a@b", "https://h:8443/from@here"), ("/?x=@", "https://h/plain"), ("/c", "")]);
}

#[test]
fn what_is_no_archive_is_refused() {
    let error = |text: &str| import(text.as_bytes(), &options(false)).unwrap_err();
    assert!(matches!(error("[]"), HarError::Json(_)));
    assert!(matches!(error("{\"log\": {}}"), HarError::Json(_)));
    assert!(matches!(error("{\"log\": {\"entries\": []}}"), HarError::Nothing(_)));
}

proptest! {
    #[test]
    fn whatever_an_archive_holds_the_plan_is_one(
        target in "[ -~]{0,30}", name in "[ -~]{0,12}", value in "\\PC{0,20}", body in "\\PC{0,40}",
    ) {
        let entry = |method: &str, target: &str| serde_json::json!({
            "startedDateTime": "2026-01-02T03:04:05Z", "time": 1,
            "request": {"method": method, "url": format!("http://h/{target}"),
                "headers": [{"name": name, "value": value}], "postData": {"text": body}},
            "response": {"status": 200},
        });
        let archive = serde_json::json!({"log": {"entries": [
            entry("PUT", &target),
            {"startedDateTime": "2026-01-02T03:04:06Z", "request": {"method": "GET", "url": "http://h/"}},
        ]}});
        let imported = import(archive.to_string().as_bytes(), &options(true)).unwrap();
        let script = script(&imported.plan);
        prop_assert_eq!(script.sessions[0].steps.len(), imported.requests);
        if let HttpBody::Text(own) = &script.sessions[0].steps[0].body {
            prop_assert_eq!(own, &body);
        }
    }
}
