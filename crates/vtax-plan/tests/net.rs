//! Network tests in plans: what lists make, what is refused, how long it takes.

use std::path::Path;

use vtax_plan::estimate::{Assumptions, estimate};
use vtax_plan::model::{
    Cut, Direction, MeasureKind, NetworkTestKind, NetworkWorkload, Plan, ServiceKind, VoiceLaw, VoiceTest,
    Workload,
};
use vtax_plan::parse;
use vtax_units::{Bytes, Nanos};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, {vm: {memory: 1GiB}}]
paths: direct
workload:
  - tcp: {window: [4K, 64K, auto], congestion: [default, bbr]}
  - udp: {rate: [10mbit, max]}
  - ping: {probe: [icmp, udp]}
  - rr
measure:
  - network: {warmup: 0s, duration: 2s}
repeat: 2
";

fn plan(overrides: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn workload(plan: &Plan) -> &NetworkWorkload {
    let Workload::Network(workload) = &plan.cells[0].workload else { panic!("no network workload") };
    workload
}

fn refused(overrides: &[&str]) -> String {
    parse("p", PLAN.as_bytes(), overrides).expect_err("refused").to_string()
}

#[test]
fn lists_make_tests_and_not_cells() {
    let plan = plan(&[]);
    assert_eq!(
        plan.cells.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(),
        ["native.direct.peer", "vm.direct.peer"]
    );
    let names: Vec<&str> = workload(&plan).tests.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "tcp.congestion-default.window-4K",
            "tcp.congestion-default.window-64K",
            "tcp.congestion-default.window-auto",
            "tcp.congestion-bbr.window-4K",
            "tcp.congestion-bbr.window-64K",
            "tcp.congestion-bbr.window-auto",
            "udp.rate-10mbit",
            "udp.rate-max",
            "ping.probe-icmp",
            "ping.probe-udp",
            "rr",
        ]
    );
    let test = workload(&plan).test("tcp.congestion-bbr.window-64K").expect("is there");
    assert_eq!(test.parameters["window"], "64K");
    let NetworkTestKind::Tcp(tcp) = &test.kind else { panic!("{test:?}") };
    assert_eq!((tcp.socket.window, tcp.socket.congestion.as_deref()), (Some(Bytes(65_536)), Some("bbr")));
    let NetworkTestKind::Udp(udp) = &workload(&plan).tests[7].kind else { panic!("not UDP") };
    assert_eq!((udp.rate, udp.direction), (None, Direction::Up));
    assert!(matches!(&plan.cells[0].service.kind, ServiceKind::Peer(peer) if peer.port == 5202));
}

#[test]
fn voice_is_a_test_for_each_number_of_streams() {
    let plan = plan(&["workload=[{voice: {streams: [10, 500], codec: pcma}}, ping]"]);
    let names: Vec<&str> = workload(&plan).tests.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["voice.streams-10", "voice.streams-500", "ping"]);
    let NetworkTestKind::Voice(voice) = &workload(&plan).tests[1].kind else { panic!("no voice") };
    let millis = Nanos::from_millis;
    let expected = VoiceTest {
        streams: 500,
        packet: millis(20),
        law: VoiceLaw::A,
        jitter_buffer: millis(60),
        bundled: false,
    };
    assert_eq!(*voice, expected);
}

#[test]
fn the_path_can_be_cut() {
    let cut = |text: &str| match &plan(&[&format!("measure.network.cut={text}")]).measures[0].kind {
        MeasureKind::Network(network) => network.cut,
        other => panic!("{other:?}"),
    };
    let at = Nanos::from_millis(500);
    assert_eq!(cut("500ms"), Some(Cut { at, lasting: None }));
    assert_eq!(cut("{at: 500ms, lasting: 1s}"), Some(Cut { at, lasting: Some(Nanos::from_secs(1)) }));
    assert!(refused(&["measure.network.cut=2s"]).contains("would be cut after the test"));
}

#[test]
fn what_makes_no_sense_is_refused_where_it_is_written() {
    for (change, expected) in [
        ("workload.tcp.window=0", "`window` is at least 1B"),
        ("workload.tcp.window=64Q", "is not a window such as `64K`, or `auto`"),
        ("workload.tcp.congestion=a;b", "is no congestion control"),
        ("workload.tcp.mss=40", "`mss` is 88 to 32767"),
        ("workload.tcp.streams=0", "bytes need a connection"),
        ("workload.tcp.window=[4K, 4K]", "is in the list twice"),
        ("workload.udp.direction=both", "UDP goes `up` or `down`"),
        ("workload.udp.size=8", "`size` is 32 to 65507"),
        ("workload.udp.rate=1bit", "a rate is 8kbit"),
        ("workload.ping.rate=0/s", "a rate is above 0/s"),
        ("workload.rr.request=0", "a request has at least one byte"),
        ("workload={voice: {streams: 5001}}", "at most 5000"),
        ("workload={voice: {packet: 25ms}}", "a packet of voice has no 25ms of sound"),
        ("workload={voice: {codec: opus}}", "`pcmu`"),
        ("workload={voice: {jitter_buffer: 11s}}", "`jitter_buffer` is at most 10s"),
        ("workload={voice: {duration: 100ms}}", "`duration` must be at least 200ms"),
        ("workload.udp.duration=10ms", "`duration` must be at least 50ms"),
        ("workload.rr={warmup: 25h}", "`warmup` must be at most 86400s"),
        ("workload=[tcp, tcp]", "test `tcp` is in the plan twice"),
        ("workload=[tcp, {http: {target: /}}]", "only network tests"),
        ("services=http", "does not speak"),
        ("measure=[throughput]", "write `network` instead"),
    ] {
        let told = refused(&[change]);
        assert!(told.contains(expected), "{change}: {told}");
    }
    let told = refused(&["workload=voice", "measure={network: {duration: 100ms}}"]);
    assert!(told.contains("`duration` must be at least 200ms"), "{told}");
    let http = PLAN.replace("measure:\n", "services: http\nmeasure:\n");
    let told = parse("p", http.as_bytes(), &["workload={http: {target: /page/1}}"]).expect_err("refused");
    assert!(told.to_string().contains("`network` makes the tests of a workload"), "{told}");
    let told = parse("p", PLAN.as_bytes(), &["workload={http: {target: /page/1}}", "measure=capacity"]);
    assert!(told.expect_err("refused").to_string().contains("needs the key `services`"));
}

#[test]
fn time_is_that_of_all_tests() {
    let one = |changes: &[&str]| estimate(&plan(changes), &Assumptions::KVM).trials[0].time;
    let (two, three) = (one(&[]), one(&["measure.network.duration=3s"]));
    assert_eq!(three.0 - two.0, Nanos::from_secs(11).0);
}

#[test]
fn a_test_may_have_times_of_its_own() {
    let quick = &["workload.udp.duration=500ms", "workload.udp.warmup=100ms"];
    let with = plan(quick);
    let MeasureKind::Network(measure) = &with.measures[0].kind else { panic!("not a network measure") };
    let times = |name: &str| {
        let own = measure.of(workload(&with).test(name).expect("is there"));
        (own.warmup.0 / 1_000_000, own.duration.0 / 1_000_000)
    };
    assert_eq!((times("udp.rate-10mbit"), times("udp.rate-max")), ((100, 500), (100, 500)));
    assert_eq!(times("rr"), (0, 2_000));
    let time = |changes: &[&str]| estimate(&plan(changes), &Assumptions::KVM).trials[0].time;
    assert_eq!(time(&[]).0 - time(quick).0, Nanos::from_millis(2 * 1_400).0);

    // A cut must fall into each test's time, whoever gives it.
    let told = refused(&["measure.network.cut=1s", quick[0]]);
    assert!(told.contains("the path is cut after 1s, when this test is over"), "{told}");
    plan(&["workload=[{udp: {duration: 3s}}]", "measure.network.cut=2500ms"]);
    // So must a budget cover the longest test, and no more.
    plan(&["workload=[{udp: {duration: 500ms}}]", "repeat={min: 2, max: 2, budget: 1s}"]);
    let told = refused(&["workload=[{udp: {duration: 9s}}, rr]", "repeat={min: 2, max: 2, budget: 5s}"]);
    assert!(told.contains("takes at least 9s"), "{told}");
}

#[test]
fn the_plans_of_the_study_resolve_and_take_what_they_say() {
    let load = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans").join(name);
        vtax_plan::load(&path, &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"))
    };
    let quick = load("links-quick.yaml");
    let time = estimate(&quick, &Assumptions::TCG).time_max;
    assert!(time <= Nanos::from_secs(9 * 60), "links-quick takes {} s", time.as_secs_f64());
    let study = load("../studies/virtual-links/whole/links.yaml");
    for path in ["direct", "bridge", "gigabit", "ovs", "sdn", "bridged", "vm-vm", "mininet"] {
        for plan in [&quick, &study] {
            assert!(plan.cells.iter().any(|c| c.path.kind.word() == path || c.path.name == path), "{path}");
        }
    }
    let MeasureKind::Network(measure) = &study.measures[0].kind else { panic!("not a network measure") };
    assert_eq!((measure.duration, study.repeat.min), (Nanos::from_secs(30), 10));
    assert_eq!(workload(&study).tests.len(), 9);
    let hour = load("links.yaml");
    assert_eq!((hour.cells.len(), workload(&hour).tests.len()), (study.cells.len(), 7));
    for stacks in ["tcp-stacks.yaml", "../studies/virtual-links/whole/tcp-stacks.yaml"] {
        assert_eq!(workload(&load(stacks)).tests.len(), 20);
    }
}
