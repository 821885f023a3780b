//! SIPp's scenarios in plans: files beside the plan, what is refused and where, and that a stored plan keeps them.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use vtax_plan::model::{Plan, ScriptFile, ScriptWorkload, ServiceKind, SipTransport, Workload};
use vtax_plan::{PlanErrors, load, parse};
use vtax_units::Nanos;

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, vm]
services: uas
workload: {sip: {scenario_file: deep/call.xml}}
measure: {latency: {load: 10/s}}
";

/// A client's scenario with `more` in it.
fn client(more: &str) -> String {
    format!(
        "<scenario name=\"t\">\n<send><![CDATA[\nINVITE sip:[service]@[remote_ip] SIP/2.0\nCall-ID: [call_id]\nCSeq: 1 INVITE\n{more}\n]]></send>\n\
         <recv response=\"200\" rtd=\"1\"/>\n</scenario>\n"
    )
}

const SERVER: &str = "<scenario name=\"s\">\n<recv request=\"INVITE\"/>\n</scenario>\n";

/// A folder with a plan and files beside it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.path("deep")).unwrap();
        for (name, text) in files {
            std::fs::write(place.path(name), text).unwrap();
        }
        std::fs::write(place.path("plan.yaml"), PLAN).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn load(&self, set: &[&str]) -> Result<Plan, PlanErrors> {
        load(&self.path("plan.yaml"), set)
    }

    fn plan(&self, set: &[&str]) -> Plan {
        self.load(set).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
    }

    /// `file:line message [help]` of each error; the plan's own file is left out.
    fn errors(&self, set: &[&str]) -> Vec<String> {
        match self.load(set) {
            Ok(_) => panic!("no error with {set:?}"),
            Err(PlanErrors::Invalid(all)) => all
                .iter()
                .map(|d| {
                    let file = if Path::new(d.file).is_absolute() { "" } else { d.file };
                    format!("{file}:{} {} [{}]", d.line, d.message, d.help.unwrap_or(""))
                })
                .collect(),
            Err(other) => panic!("{other}"),
        }
    }
}

fn script(plan: &Plan, cell: usize) -> &ScriptWorkload {
    let Workload::Script(script) = &plan.cells[cell].workload else { panic!("{:?}", plan.cells[cell]) };
    script
}

#[test]
fn a_scenario_beside_the_plan_becomes_part_of_it() {
    let text = client("");
    let place = Place::new(&[("deep/call.xml", &text)]);
    let plan = place.plan(&[]);
    let found = script(&plan, 0);
    assert_eq!(found.scenario, ScriptFile { name: "deep/call.xml".to_owned(), text });
    assert_eq!(found.scenario.base(), "call.xml");
    assert_eq!((found.transport, found.addresses, found.calls), (SipTransport::Udp, 1, 10_000));
    assert_eq!((found.recv_timeout, found.drain), (Nanos::from_secs(10), Nanos::from_secs(5)));
    assert_eq!(
        (&*found.service, &*found.auth_user, &*found.auth_password),
        ("service", "service", "password")
    );
    let ServiceKind::Uas(uas) = &plan.cells[0].service.kind else { panic!("not a user agent") };
    assert_eq!((uas.port, uas.scenario.as_ref()), (5060, None));
}

#[test]
fn scenarios_of_a_list_make_a_cell_for_each() {
    let texts = [client("A: 1"), client("B: 2")];
    let place = Place::new(&[("a.xml", &texts[0]), ("b.xml", &texts[1])]);
    let plan = place.plan(&["workload={sip: {scenario_file: [a.xml, b.xml], calls: [5, 6]}}"]);
    assert_eq!(plan.cells.len(), 2 * 2 * 2);
    for (cell, found) in plan.cells.iter().enumerate() {
        let wanted = usize::from(found.parameters["scenario_file"] == "b.xml");
        assert_eq!(script(&plan, cell).scenario.text, texts[wanted]);
    }
}

#[test]
fn what_a_scenario_has_that_isnt_supported_is_told_with_its_line() {
    let text = "<scenario>\n  <sendCmd/>\n  <nop>\n    <action><exec rtp_stream=\"x.wav\"/></action>\n  </nop>\n</scenario>\n";
    let place = Place::new(&[("deep/call.xml", text)]);
    let errors = place.errors(&[]);
    assert!(errors.iter().any(|e| e.starts_with("deep/call.xml:2 ") && e.contains("sendCmd")), "{errors:#?}");
    assert!(errors.iter().any(|e| e.starts_with("deep/call.xml:4 ")), "{errors:#?}");
    let shown = place.load(&[]).unwrap_err().to_text(false);
    assert!(shown.contains("--> deep/call.xml:2:3\n") && shown.contains("<sendCmd/>"), "{shown}");
    let errors = place.errors(&["workload={sip: {scenario: '<scenario><wrong/></scenario>'}}"]);
    assert!(errors[0].starts_with("the plan's scenario:1 "), "{errors:#?}");
}

#[test]
fn injection_files_are_found_by_their_names() {
    let text = client("A: [field0] [field1 file=\"b.csv\"]");
    let csv = "SEQUENTIAL\nanne;1\nbert;2\n";
    let place =
        Place::new(&[("deep/call.xml", &text), ("a.csv", csv), ("deep/b.csv", csv), ("bad.csv", "UP\n1\n")]);
    let with =
        |files: &str| format!("workload={{sip: {{scenario_file: deep/call.xml, injection_files: {files}}}}}");
    let plan = place.plan(&[&with("[a.csv, deep/b.csv]")]);
    assert_eq!(script(&plan, 0).injections[1].text, csv);
    assert!(place.errors(&[])[0].contains("needs an injection file [name it in `injection_files`]"));
    assert!(place.errors(&[&with("a.csv")])[0].contains("needs an injection file `b.csv`"));
    let server = "<scenario name=\"s\">\n<recv request=\"INVITE\"/>\n<send><![CDATA[\nSIP/2.0 200 OK\nCall-ID: [call_id]\nCSeq: 1 INVITE\nA: [field0]\n]]></send>\n</scenario>\n";
    let served = Place::new(&[("deep/call.xml", &client("")), ("server.xml", server)]);
    let told = served.errors(&["services={uas: {scenario_file: server.xml}}"]);
    let way_out = "[`uas` has no injection files: leave `[fieldN]` out of its scenario]";
    assert!(told.iter().any(|one| one.ends_with(way_out)), "{told:?}");
    assert!(place.errors(&[&with("[bad.csv, deep/b.csv]")])[0].contains("`bad.csv`"));
    let errors = place.errors(&[&with("[none.csv]")]);
    assert!(errors.iter().any(|error| error.contains("cannot read `none.csv`")), "{errors:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::new(&[("deep/call.xml", &client("")), ("server.xml", SERVER)]);
    let of = |set: &[&str]| place.errors(set).remove(0);
    let file = |name: &str| format!("workload={{sip: {{scenario_file: {name}}}}}");
    assert!(of(&[&file("server.xml")]).contains("answers calls and makes none [a scenario that answers"));
    assert!(of(&[&file("../x.xml")]).contains("isn't in the plan's folder"));
    assert!(of(&[&file("/etc/passwd")]).contains("isn't in the plan's folder"));
    assert!(of(&["services={uas: {scenario_file: deep/call.xml}}"]).contains("makes calls and answers none"));
    assert!(
        of(&["services=kamailio"]).contains("must know who may register [give the workload `subscribers`")
    );
    assert!(of(&["workload=sip", "measure=ims"]).contains("answers calls and registers nobody"));
    assert!(of(&["measure=ims"]).contains("or leave the scenario out"));
    for measure in ["measure=network", "measure=storage"] {
        let told = place.errors(&[measure]);
        assert!(told.iter().any(|one| one.ends_with("[measure `capacity` or `latency`]")), "{told:?}");
    }
    assert!(of(&["measure=throughput"]).contains("no closed loop"));
    let both = format!("workload.sip.scenario='{}'", "<scenario/>");
    assert!(of(&[&both]).contains("given twice"));
    assert!(of(&["workload.sip.keys={'a b': c}"]).contains("`a b` can't be a keyword"));
    assert!(
        of(&["workload.sip.mix={calling: 100%}"]).contains("unknown key in `sip` with a scenario: `mix`")
    );
    place.plan(&["services={uas: {scenario_file: server.xml}}"]);
    place.plan(&["services=kamailio", "workload.sip.subscribers=10"]);
    // From memory there is no folder, but a scenario may be in the plan itself.
    let error = parse("p", PLAN.as_bytes(), &[] as &[&str]).unwrap_err().to_text(false);
    assert!(error.contains("comes without the files beside it"), "{error}");
    let inline = serde_json::json!({ "sip": { "scenario": client("") } });
    let plan = parse("p", PLAN.as_bytes(), &[format!("workload={inline}")]).unwrap();
    assert_eq!(script(&plan, 0).scenario.name, "");
}

/// Kamailio's rule lets them through to the address that they come from alone. Calls to a subscriber who is registered there are none
/// of its business.
#[test]
fn calls_to_callees_from_several_addresses_are_refused_where_nobody_is_registered() {
    let call = client("").replace("[service]@[remote_ip]", "callee@[callee]");
    let register = "<send><![CDATA[\nREGISTER sip:[remote_ip] SIP/2.0\nCall-ID: [call_id]\nCSeq: 1 REGISTER\n\
                    Contact: <sip:[service]@[callee]>\n]]></send>\n<recv response=\"200\"/>\n<send>";
    let registering = client("").replacen("<send>", register, 1);
    let place = Place::new(&[("call.xml", &call), ("registering.xml", &registering)]);
    let calls = |file: &str, more: &str| {
        let options = format!("subscribers: 10, media: {{}}, callees: true{more}");
        format!("workload={{sip: {{scenario_file: {file}, {options}}}}}")
    };
    let relay = "services={kamailio: {media_relay: rtpengine}}";
    for file in ["call.xml", "[registering.xml, call.xml]"] {
        let refused = place.errors(&[relay, &calls(file, ", addresses: [1, 2]")]).remove(0);
        assert!(refused.contains("only to the address that they come from"), "{refused}");
        assert!(refused.contains("[leave `addresses` out"), "{refused}");
    }
    place.plan(&[relay, &calls("call.xml", "")]);
    place.plan(&["services=sip", &calls("call.xml", ", addresses: 2")]);
    place.plan(&[relay, &calls("registering.xml", ", addresses: 2")]);
}

/// SIPp's own scenarios have such a pause, and calls without a length had no figures of sound.
#[test]
fn calls_with_sound_and_without_a_length_are_told() {
    let paused = |more: &str, pause: &str| {
        client(more).replace("</scenario>", &format!("<pause{pause}/>\n</scenario>"))
    };
    let place = Place::new(&[
        ("usual.xml", &paused("", "")),
        ("timed.xml", &paused("", " milliseconds=\"500\"")),
        ("callee.xml", &paused("A: [callee]", "")),
    ]);
    let told = |file: &str, options: &str| {
        let workload = format!("workload={{sip: {{scenario_file: {file}, {options}}}}}");
        let plan = place.plan(&["services={uas: {media: {}}}", &workload]);
        plan.cells[0].workload.model().caution(&plan.measures[0])
    };
    for (file, options) in [("usual.xml", "media: {}"), ("callee.xml", "media: {}, callees: true")] {
        let caution = told(file, options).unwrap_or_default();
        assert!(caution.contains("`pause` is 0s") && caution.contains("no figures of sound"), "{caution}");
    }
    assert_eq!(told("usual.xml", "media: {}, pause: 2s"), None);
    assert_eq!(told("timed.xml", "media: {}"), None);
    assert_eq!(told("usual.xml", "calls: 5"), None);
}

/// It was so with subscribers alone; calls after a scenario all failed.
#[test]
fn a_suite_that_the_service_has_no_certificate_for_is_refused() {
    let place = Place::new(&[("deep/call.xml", &client(""))]);
    let workload = |key: &str| {
        let cipher = format!("TLS_ECDHE_{key}_WITH_AES_128_GCM_SHA256");
        let tls = format!("transport: tls, cipher: {cipher}");
        format!("workload={{sip: {{scenario_file: deep/call.xml, subscribers: 10, {tls}}}}}")
    };
    let [rsa, ecdsa] = ["RSA", "ECDSA"].map(workload);
    let told = place.errors(&["services=kamailio", &rsa]).join("\n");
    assert!(told.contains("needs a certificate with an RSA key, and `kamailio`"), "{told}");
    place.plan(&["services=kamailio", &ecdsa]);
    // Which certificate a program of the user's own has is its own business.
    place.plan(&["services={command: {run: [a], port: 5061}}", &rsa]);
}

#[test]
fn files_too_large_for_so_many_cells_are_refused() {
    let csv = format!("SEQUENTIAL\n{}", "0123456789;0123456789\n".repeat(90_000));
    let place = Place::new(&[("deep/call.xml", &client("A: [field0]")), ("a.csv", &csv)]);
    let set = [
        "workload.sip.injection_files=a.csv",
        "workload.sip.calls=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]",
    ];
    assert!(place.errors(&set)[0].contains("too large for 26 cells"), "{:?}", place.errors(&set));
}

/// A run keeps its plan as YAML.
fn stored(plan: &Plan) -> Plan {
    serde_saphyr::from_str(&serde_saphyr::to_string(plan).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stored_plan_keeps_its_texts_to_the_letter(text in "(?s)[ -~\t\n\u{e9}\u{2028}#:|>'\"-]{0,200}") {
        let place = Place::new(&[("deep/call.xml", &client("")), ("a.csv", &format!("RANDOM\nx;{text}\ny\n"))]);
        if let Ok(plan) = place.load(&["workload.sip.injection_files=a.csv"]) {
            prop_assert_eq!(stored(&plan), plan);
        }
    }

    #[test]
    fn any_file_is_a_scenario_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let place = Place::new(&[]);
        std::fs::write(place.path("deep/call.xml"), bytes).unwrap();
        prop_assert!(place.load(&[]).is_err());
    }
}
