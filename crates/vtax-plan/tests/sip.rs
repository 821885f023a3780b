//! SIP in plans: defaults, lists, what is refused and how it is said.

use vtax_plan::estimate::{Assumptions, cautions, estimate};
use vtax_plan::model::{
    ImsMeasure, LocationMode, MeasureKind, Plan, Ramp, Scenario, ServiceKind, SipMetric, SipTransport,
    SipWorkload, Spread, Workload,
};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Bytes, Nanos, Rate, Share};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, vm]
services: kamailio
workload: sip
measure: ims
";

fn plan(set: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), set).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
}

fn errors(set: &[&str]) -> Vec<String> {
    match parse("p", PLAN.as_bytes(), set) {
        Ok(_) => panic!("no error with {set:?}"),
        Err(PlanErrors::Invalid(all)) => {
            all.iter().map(|d| format!("{} [{}]", d.message, d.help.unwrap_or(""))).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

fn sip(plan: &Plan) -> &SipWorkload {
    let Workload::Sip(workload) = &plan.cells[0].workload else { panic!("not SIP") };
    workload
}

fn ims(plan: &Plan) -> &ImsMeasure {
    let MeasureKind::Ims(ims) = &plan.measures[0].kind else { panic!("not IMS") };
    ims
}

#[test]
fn the_defaults_are_the_studys() {
    let plan = plan(&[]);
    let workload = sip(&plan);
    assert_eq!(workload.subscribers.count, 100_000);
    assert_eq!((&*workload.subscribers.public, &*workload.subscribers.domain), ("subs%06d", "open-ims.test"));
    assert_eq!(workload.registered, Share(0.8));
    let mix: Vec<(Scenario, f64)> = workload.mix.iter().map(|p| (p.scenario, p.share.0)).collect();
    assert_eq!(
        mix,
        [
            (Scenario::Calling, 0.5),
            (Scenario::Messaging, 0.3),
            (Scenario::ReRegistration, 0.15),
            (Scenario::Registration, 0.025),
            (Scenario::DeRegistration, 0.025),
        ]
    );
    assert_eq!(workload.ring_time, Spread::Exponential(Nanos::from_secs(5)));
    assert_eq!(workload.hold_time, Spread::Exponential(Nanos::from_secs(30)));
    assert_eq!(workload.message_bytes, (Bytes(1), Bytes(279)));
    assert_eq!(workload.expires, Nanos::from_secs(1_000_000));
    assert_eq!((workload.t1, workload.addresses), (Nanos::from_millis(500), 1));
    assert_eq!(workload.limits.len(), SipMetric::ALL.len());
    assert_eq!(workload.transport, SipTransport::Udp);
    assert!(matches!(ims(&plan).ramp, Ramp::Search { .. }));
    assert_eq!((ims(&plan).ihs_limit, ims(&plan).stir), (Share(0.1), Nanos::ZERO));
    let ServiceKind::Kamailio(kamailio) = &plan.cells[0].service.kind else { panic!("not Kamailio") };
    assert_eq!((kamailio.port, kamailio.location), (5060, LocationMode::WriteBack));
}

#[test]
fn the_staircase_has_the_studys_lengths() {
    let plan = plan(&["measure={ims: {ramp: {steps: {initial: 50/s}}}}"]);
    let ims = ims(&plan);
    assert_eq!(ims.ramp, Ramp::Steps { initial: Rate(50.0), increase: Rate(10.0), count: 100 });
    assert_eq!((ims.step, ims.transient), (Nanos::from_secs(1800), Nanos::from_secs(30)));
    assert_eq!((ims.stir, ims.stir_steps), (Nanos::from_secs(300), 3));
}

#[test]
fn lists_make_cells() {
    let plan = plan(&[
        "workload={sip: {transport: [udp, tcp], subscribers: {count: [1000, 2000]}, hold_time: [1s, {constant: 2s}]}}",
        "services={kamailio: {location: [memory, write-back]}}",
        "environments=native",
    ]);
    assert_eq!(plan.cells.len(), 16);
    assert_eq!(
        plan.cells[0].id,
        "native.bridge.kamailio.location-memory.subscribers-1000.transport-udp.hold_time-1s"
    );
    assert_eq!(plan.cells[1].parameters["hold_time"], "constant 2s", "{}", plan.cells[1].id);
}

#[test]
fn a_mix_is_ordered_as_reports_are() {
    let plan = plan(&["workload={sip: {mix: {messaging: {share: 60%, ihs_limit: 2%}, calling: 40%}}}"]);
    let parts: Vec<_> = sip(&plan).mix.iter().map(|p| (p.scenario, p.share.0, p.ihs_limit.0)).collect();
    assert_eq!(parts, [(Scenario::Calling, 0.4, 0.1), (Scenario::Messaging, 0.6, 0.02)]);
}

#[test]
fn what_cannot_be_is_said_with_the_way_out() {
    for (set, part) in [
        ("workload={sip: {mix: {caling: 100%}}}", "did you mean `calling`?"),
        ("workload={sip: {mix: {calling: 90%}}}", "the shares of `calling` add up to 90%, not 100%"),
        ("workload={sip: {mix: [calling]}}", "a mix is a mapping of scenarios to shares"),
        ("workload={sip: {transport: sctp}}", "unknown transport: `sctp`"),
        ("workload={sip: {cipher: TLS_AES_128_GCM_SHA256}}", "`cipher` means nothing without TLS"),
        ("workload={sip: {transport: tls, cipher: rot13}}", "`rot13` is no cipher suite"),
        ("workload={sip: {subscribers: 0}}", "there must be at least 1"),
        ("workload={sip: {subscribers: {public: alice}}}", "would share it"),
        ("workload={sip: {subscribers: {password: \"%s\"}}}", "is no number"),
        ("workload={sip: {hold_time: 2h}}", "`ring_time and hold_time` must be"),
        ("workload={sip: {message_bytes: 300B to 100B}}", "the smaller size first"),
        ("workload={sip: {t1: 0s}}", "`t1` must be at least 1ms"),
        ("workload={sip: {addresses: 5000}}", "5000 is too many: at most 100"),
        ("workload={sip: {registered: 120%}}", "`registered` must be above 0% and at most 100%"),
        ("measure={ims: {ihs_limit: 100%}}", "`ihs_limit` must be at least 0% and below 100%"),
        ("workload={sip: {limits: {ses4: 1s}}}", "unknown key in `limits`: `ses4` [did you mean `ses1`?"),
        ("measure=capacity", "write `ims` instead of `capacity`"),
        ("measure=throughput", "measure `ims`, or `latency` at a rate"),
        ("measure=network", "`rr` or `voice` [measure `ims`, or `latency` at a rate"),
        ("measure=storage", "of a workload `storage` [measure `ims`, or `latency` at a rate"),
        ("measure={latency: {load: 10/s, samples: true}}", "leave `samples` out"),
        ("measure={ims: {step: 5s}}", "a step of 5s leaves nothing to count after its transient of 10s"),
        ("measure={ims: {ramp: {search: {start: 10/s, max: 5/s}}}}", "above its `max` of 5/s"),
        ("measure={ims: {ramp: {stpes: {}}}}", "unknown ramp: `stpes` [did you mean `steps`?"),
        ("services=http", "`http` does not speak what the workload `sip` speaks [its workload is `http`]"),
        ("workload={http: {target: /}}", "`kamailio` does not speak what the workload `http` speaks"),
    ] {
        let errors = errors(&[set]);
        assert!(errors.iter().any(|e| e.contains(part)), "{set}: {part:?} is not in {errors:#?}");
    }
}

#[test]
fn a_share_that_cannot_be_read_is_told_once() {
    let told = errors(&["workload={sip: {mix: {calling: 1.0}}}"]);
    assert!(told.len() == 1 && told[0].contains("`1.0` is not a share"), "{told:#?}");
}

#[test]
fn a_capacity_from_the_benchmark_can_be_a_load() {
    let plan = plan(&["measure=[ims, {latency: {load: 50% of capacity}}]"]);
    assert_eq!(plan.measures.len(), 2);
}

#[test]
fn the_time_counts_registration_and_steps() {
    let sized = |set: &[&str]| {
        let plan = plan(set);
        estimate(&plan, &Assumptions::KVM).trials[0].time.as_secs_f64()
    };
    // 80,000 registrations at 100/s alone are 800 s.
    let one_step = "measure={ims: {ramp: {steps: {count: 1}}}}";
    let whole = sized(&[one_step]);
    assert!(whole > 800.0, "{whole}");
    let few = sized(&["workload={sip: {subscribers: 1000}}", one_step]);
    assert!((whole - few - 792.0).abs() < 1.0, "{whole} {few}");
    // From 50/s by 10/s to the 2,000/s taken for granted: 196 steps, but at most 100.
    let staircase = sized(&["measure={ims: {ramp: steps}}"]);
    assert!((180_000.0..182_000.0).contains(&staircase), "{staircase}");
    // What is too much for the service leaves transactions without an answer: 32 s each time, or 6.4 s.
    let search = |t1: &str| {
        let workload = format!("workload={{sip: {{ring_time: 100ms, hold_time: 300ms, t1: {t1}}}}}");
        sized(&[&workload, "measure={ims: {ramp: {search: {start: 50/s, precision: 25%}}}}"])
    };
    let [slow, quick] = ["500ms", "100ms"].map(search);
    assert!((slow - quick - 2.0 * 25.6).abs() < 1.0, "{slow} {quick}");
}

#[test]
fn a_search_takes_no_longer_than_there_are_subscribers_for() {
    let time = |subscribers: u32, max: &str| {
        let plan = plan(&[
            &format!("workload={{sip: {{subscribers: {subscribers}, ring_time: 100ms, hold_time: 300ms}}}}"),
            &format!("measure={{ims: {{ramp: {{search: {{start: 10/s, max: {max}}}}}}}}}"),
        ]);
        estimate(&plan, &Assumptions::KVM).trials[0].time.as_secs_f64()
    };
    // 1,000/s keep half of the 800 that are registered in calls. 8 s of registrations, eight steps of 30 s and a confirmation of
    // 120 s; after each the last call takes 2 s.
    for max in ["5000/s", "1000/s"] {
        let found = time(1000, max);
        assert!((found - 8.0 - 8.0 * 32.0 - 122.0).abs() < 1.0, "{max}: {found}");
    }
    // Fewer are enough for less than the first step, which is made all the same.
    let found = time(5, "5000/s");
    assert!((found - 32.0 - 122.0).abs() < 1.0, "{found}");
}

#[test]
fn too_few_subscribers_are_pointed_out() {
    let plan = plan(&["workload={sip: {subscribers: 1000}}"]);
    let cautions = cautions(&plan, &estimate(&plan, &Assumptions::KVM));
    // 25 calls/s of 35 s keep 1,750 subscribers busy.
    assert!(
        cautions.iter().any(|c| c.contains("about 1750 subscribers are in calls at a time, of 800")),
        "{cautions:?}"
    );
}

#[test]
fn a_search_that_ends_for_want_of_subscribers_is_pointed_out() {
    let told = |max: &str| {
        let measure = format!("measure={{ims: {{ramp: {{search: {{start: 10/s, max: {max}}}}}}}}}");
        let workload = "workload={sip: {subscribers: 1000, ring_time: 100ms, hold_time: 300ms}}";
        let plan = plan(&[workload, &measure]);
        cautions(&plan, &estimate(&plan, &Assumptions::KVM))
    };
    // 1,000/s of 0.4 s keep 400 subscribers in calls, half of the 800 that are registered.
    let (far, near) = (told("5000/s"), told("1000/s"));
    assert!(far.iter().any(|c| c.contains("the search goes to 1000/s and not to 5000/s")), "{far:?}");
    assert!(!near.iter().any(|c| c.contains("the search goes to")), "{near:?}");
}
