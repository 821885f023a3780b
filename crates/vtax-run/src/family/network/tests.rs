//! The course of a trial and its judgement, on a ground that isn't there.

use std::collections::BTreeMap;

use vtax_agent::AgentError;
use vtax_load::network::{
    ConnectionFacts, FailureKind, NetworkFailure, NetworkResult, NetworkSpec, NetworkTestKind as Kind,
    TcpFlow, TcpResult, TcpSide, UdpReceiver, UdpResult, UdpSender, VoiceDirection, VoiceEnd, VoicePackets,
    VoiceResult,
};
use vtax_plan::model::{NetworkMeasure, Plan, Workload};
use vtax_store::network::CountedBy;
use vtax_store::record::{InvalidReason, Observation, SteadyState, Validity};
use vtax_sys::netlink::LinkStats;
use vtax_units::{Nanos, Share};

use super::ends::{Captured, Ends, MadeTest};
use super::measure;
use crate::guests::modules;
use crate::observe::Silent;
use crate::trial_request::TrialRequest;

const PLAN: &str = "
vtax: 1
name: test
baseline: native
environments: native
paths: direct
workload:
  - tcp: {window: [4K, 64K], congestion: bbr}
  - udp
measure:
  - network: {warmup: 0s, duration: 2s}
repeat: 1
";

fn plan(changes: &[&str]) -> Plan {
    vtax_plan::parse("test", PLAN.as_bytes(), changes).unwrap_or_else(|e| panic!("{e}"))
}

/// Answers as a healthy path does; `change` makes it something else.
struct Fake<F> {
    specs: Vec<NetworkSpec>,
    change: F,
}

impl<F: FnMut(&NetworkSpec, &mut MadeTest)> Ends for Fake<F> {
    fn make(&mut self, spec: &NetworkSpec, _: &NetworkMeasure, what: &str) -> Result<MadeTest, AgentError> {
        assert!(what.contains(" of 3)"), "{what}");
        self.specs.push(spec.clone());
        let mut made = match &spec.test {
            Kind::Tcp(_) => transfer(),
            Kind::Voice(_) => streams(),
            _ => datagrams(),
        };
        (self.change)(spec, &mut made);
        Ok(made)
    }
}

fn made(result: NetworkResult, stats: LinkStats) -> MadeTest {
    let turned = LinkStats {
        received_bytes: stats.sent_bytes,
        received_packets: stats.sent_packets,
        ..LinkStats::default()
    };
    MadeTest { answer: Ok(result), counted: Some([stats, turned]), captured: None, cpu: None, uncut: None }
}

const TRANSFERRED: u64 = 40_000_000;

/// Forty megabytes in two seconds, ten segments sent again.
fn transfer() -> MadeTest {
    let side = |retransmissions| TcpSide {
        total_bytes: TRANSFERRED,
        counted_bytes: TRANSFERRED,
        counted_time: Nanos::from_secs(2),
        intervals: vec![TRANSFERRED / 40; 40],
        connections: vec![ConnectionFacts { retransmissions, mss: 1448, ..ConnectionFacts::default() }],
        ..TcpSide::default()
    };
    let up = TcpFlow { sender: side(10), receiver: side(0), disagreement: None };
    let packets = TRANSFERRED / 1448 + 10;
    let sent_bytes = packets * (1448 + 66);
    let stats = LinkStats { sent_bytes, sent_packets: packets, ..LinkStats::default() };
    made(NetworkResult::Tcp(TcpResult { up: Some(up), down: None }), stats)
}

fn datagrams() -> MadeTest {
    let sender = UdpSender { sent: 1000, total: 1000, ..UdpSender::default() };
    let receiver = UdpReceiver { received: 990, total: 990, bytes: 990 * 1448, ..UdpReceiver::default() };
    let stats = LinkStats { sent_bytes: 1000 * (1448 + 42), sent_packets: 1000, ..LinkStats::default() };
    made(NetworkResult::Udp(UdpResult { sender, receiver }), stats)
}

/// Two streams each way for two seconds.
fn streams() -> MadeTest {
    let packets = VoicePackets { intended: 200, sent: 200, received: 200, ..VoicePackets::default() };
    let way = VoiceDirection { packets, ..VoiceDirection::default() };
    let end = VoiceEnd { sent: 200, total_sent: 200, total_received: 200, ..VoiceEnd::default() };
    let result = VoiceResult {
        streams: 2,
        up: way.clone(),
        down: way,
        client: end.clone(),
        server: end,
        ..VoiceResult::default()
    };
    let bytes = 200 * (14 + 20 + 8 + 12 + 160);
    let stats = LinkStats {
        sent_bytes: bytes,
        received_bytes: bytes,
        sent_packets: 200,
        received_packets: 200,
        ..LinkStats::default()
    };
    MadeTest { counted: Some([stats, stats]), ..made(NetworkResult::Voice(Box::new(result)), stats) }
}

/// Makes one trial of the plan; what came of it, and the specifications in their order.
fn trial(
    plan: &Plan,
    seed: u64,
    change: impl FnMut(&NetworkSpec, &mut MadeTest),
) -> (Vec<Observation>, Validity, Vec<NetworkSpec>) {
    let request = TrialRequest {
        cell: &plan.cells[0],
        measure: &plan.measures[0],
        repetition: 0,
        round: 0,
        seed,
        round_seed: seed,
        offered: None,
        capacity_hint: None,
        tolerance: Share(0.05),
    };
    let Workload::Network(workload) = &plan.cells[0].workload else { panic!("no network workload") };
    let mut ends = Fake { specs: Vec::new(), change };
    let target = "10.97.0.2:5202".parse().unwrap();
    let measured = measure(&mut ends, &request, workload, target, &Silent).unwrap();
    (measured.observations, measured.validity, ends.specs)
}

/// The observation of the test of that name, where it counts.
fn valid<'a>(tests: &'a [Observation], name: &str) -> Option<&'a Observation> {
    tests.iter().find(|test| test.name == name && test.validity == Validity::Valid)
}

fn reason(validity: &Validity) -> Option<InvalidReason> {
    match validity {
        Validity::Valid => None,
        Validity::Invalid { reason, .. } => Some(*reason),
    }
}

#[test]
fn all_tests_are_made_in_an_order_of_the_trials_own() {
    let plan = plan(&[]);
    let names = |seed| {
        let (tests, validity, specs) = trial(&plan, seed, |_, _| {});
        assert_eq!((validity, specs.len()), (Validity::Valid, 3));
        tests.iter().map(|test| test.name.clone()).collect::<Vec<_>>()
    };
    let orders: BTreeMap<Vec<String>, u64> = (0..40).map(|seed| (names(seed), seed)).collect();
    assert_eq!(orders.len(), 6, "three tests have six orders");
    assert_eq!(names(7), names(7), "a seed makes the same order");
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(names(1)), ["tcp.window-4K", "tcp.window-64K", "udp"]);
    assert_eq!(modules(&plan), ["tcp_bbr"]);
}

#[test]
fn a_test_is_made_for_its_own_time() {
    let plan = plan(&["workload.udp={duration: 500ms, warmup: 100ms}"]);
    let (.., specs) = trial(&plan, 1, |_, _| {});
    for spec in specs {
        let expected = if matches!(spec.test, Kind::Udp(_)) { (100, 500) } else { (0, 2_000) };
        assert_eq!((spec.warmup.0 / 1_000_000, spec.duration.0 / 1_000_000), expected);
        assert!(spec.interval < spec.duration);
    }
}

#[test]
fn counts_of_the_kernel_are_compared_with_those_of_the_ends() {
    let plan = plan(&[]);
    let (tests, ..) = trial(&plan, 1, |_, _| {});
    let tcp = tests.iter().find(|test| test.name == "tcp.window-4K").unwrap();
    let checks = &tcp.network().unwrap().checks;
    let [client, sut] = checks.as_slice() else { panic!("{checks:?}") };
    assert_eq!((client.by, sut.by), (CountedBy::ClientInterface, CountedBy::SutInterface));
    assert_eq!((client.least, client.apart()), (TRANSFERRED, 0.0));

    // A hundredth of the packets that the ends counted never passed the interface.
    let (tests, validity, _) = trial(&plan, 1, |spec, made| {
        if let (Kind::Tcp(_), Some([client, _])) = (&spec.test, &mut made.counted) {
            client.sent_bytes -= client.sent_bytes / 100;
            client.sent_packets -= client.sent_packets / 100;
        }
    });
    assert_eq!(reason(&validity), Some(InvalidReason::CountsDisagree));
    let told = tests.iter().find(|test| test.name.starts_with("tcp")).unwrap();
    let Validity::Invalid { detail, .. } = &told.validity else { panic!("{told:?}") };
    assert!(detail.contains("the client's interface counted") && detail.contains("% apart"), "{detail}");
}

#[test]
fn a_capture_is_a_third_count_unless_it_missed_packets() {
    let plan = plan(&[]);
    let captured = |up, dropped| {
        trial(&plan, 1, |spec, made| {
            let udp = matches!(spec.test, Kind::Udp(_));
            let up = if udp { 1000 * 1448 } else { up };
            made.captured = Some(Ok(Captured { up, down: 0, dropped }));
        })
    };
    let (tests, validity, _) = captured(TRANSFERRED + 1448 * 10, 0);
    assert_eq!(validity, Validity::Valid);
    assert!(
        tests.iter().all(|test| test
            .network()
            .unwrap()
            .checks
            .iter()
            .any(|check| check.by == CountedBy::Capture))
    );
    let (_, validity, _) = captured(TRANSFERRED / 2, 0);
    assert_eq!(reason(&validity), Some(InvalidReason::CountsDisagree));
    let (tests, validity, _) = captured(TRANSFERRED / 2, 3);
    assert_eq!((validity, tests[0].facts["capture.dropped"].as_str()), (Validity::Valid, "3"));
}

#[test]
fn what_a_test_fails_of_decides_whether_its_trial_counts() {
    let plan = plan(&[]);
    let failing = |kind| {
        trial(&plan, 1, |spec, made| {
            if matches!(spec.test, Kind::Udp(_)) {
                made.answer = Err(NetworkFailure { kind, detail: "so".to_owned() });
            }
        })
    };
    // A kernel lacks something: the other tests count.
    let (tests, validity, _) = failing(FailureKind::Impossible);
    let udp = tests.iter().find(|test| test.name == "udp").unwrap();
    assert_eq!((reason(&udp.validity), validity), (Some(InvalidReason::MeasureFailed), Validity::Valid));
    assert!(valid(&tests, "udp").is_none() && valid(&tests, "tcp.window-4K").is_some());
    // A peer that went away casts doubt on all.
    let (_, validity, _) = failing(FailureKind::PeerLost);
    assert_eq!(validity, Validity::Invalid { reason: InvalidReason::PeerLost, detail: "udp: so".to_owned() });
    let (_, validity, _) = failing(FailureKind::MtuMismatch);
    assert_eq!(reason(&validity), Some(InvalidReason::MtuMismatch));
    // With nothing that counts, nothing counts.
    let (_, validity, _) = trial(&plan, 1, |_, made| {
        made.answer = Err(NetworkFailure { kind: FailureKind::Impossible, detail: "so".to_owned() });
    });
    assert_eq!(reason(&validity), Some(InvalidReason::MeasureFailed));
}

#[test]
fn a_cut_is_named_and_its_silence_told() {
    let plan = plan(&["measure.network.cut={at: 500ms, lasting: 500ms}"]);
    let (tests, validity, _) = trial(&plan, 1, |_, made| {
        if let Ok(NetworkResult::Tcp(tcp)) = &mut made.answer {
            tcp.up.as_mut().unwrap().receiver.intervals[10..24].fill(0);
        }
    });
    assert_eq!(validity, Validity::Valid);
    let tcp = valid(&tests, "tcp.window-64K").unwrap();
    assert_eq!((tcp.facts["cut.silence_ns"].as_str(), &tcp.warm_up), ("700000000", &None));
    let (_, validity, _) = trial(&plan, 1, |_, made| {
        made.answer = Err(NetworkFailure { kind: FailureKind::PeerLost, detail: "silence".to_owned() });
    });
    assert_eq!(reason(&validity), Some(InvalidReason::PathCut));
}

#[test]
fn a_slow_start_is_cut_off_a_transfer_and_a_standstill_is_not() {
    let plan = plan(&[]);
    let with = |intervals: Vec<u64>| {
        let (tests, ..) = trial(&plan, 1, |_, made| {
            if let Ok(NetworkResult::Tcp(tcp)) = &mut made.answer {
                tcp.up.as_mut().unwrap().receiver.intervals.clone_from(&intervals);
            }
        });
        let tcp = valid(&tests, "tcp.window-4K").unwrap().clone();
        let NetworkResult::Tcp(result) = &tcp.network().unwrap().result else { panic!("no transfer") };
        (tcp.warm_up.clone().unwrap(), result.up.clone().unwrap().receiver)
    };
    let scattered = |i: u64| 1_000_000 + (i * 37) % 11 * 1_000;
    let (warm_up, receiver) = with((0..40).map(|i| if i < 8 { 1_000 } else { scattered(i) }).collect());
    assert_eq!((warm_up.state, warm_up.cut), (SteadyState::Steady, Nanos::from_millis(400)));
    assert_eq!(receiver.counted_time, Nanos::from_millis(1_600));
    assert_eq!(receiver.counted_bytes, (8..40).map(scattered).sum::<u64>());
    let (warm_up, receiver) = with((0..40).map(|i| if i < 8 { scattered(i) } else { 0 }).collect());
    assert_eq!((warm_up.state, warm_up.cut), (SteadyState::Never, Nanos::ZERO));
    assert_eq!(receiver.counted_time, Nanos::from_secs(2));
}

#[test]
fn datagrams_that_never_came_or_found_no_room_are_told_apart() {
    let plan = plan(&[]);
    let udp = |change: fn(&mut UdpResult)| {
        let (tests, ..) = trial(&plan, 1, |_, made| {
            if let Ok(NetworkResult::Udp(udp)) = &mut made.answer {
                change(udp);
            }
        });
        reason(&tests.iter().find(|test| test.name == "udp").unwrap().validity)
    };
    assert_eq!(udp(|_| {}), None);
    assert_eq!(udp(|udp| udp.receiver.received = 0), Some(InvalidReason::MtuMismatch));
    // What the far end had no room for is its environment's.
    assert_eq!(udp(|udp| udp.receiver.no_room = 50), None);
    let limited = udp(|udp| udp.sender.limited = Some("too slow".to_owned()));
    assert_eq!(limited, Some(InvalidReason::GeneratorLimited));
}

#[test]
fn what_the_system_under_test_cannot_send_or_take_is_told_of_it_and_counts() {
    let of = |direction: &str, change: fn(&mut UdpResult)| {
        let tests = format!("workload=[{{tcp: {{}}}}, {{tcp: {{name: other}}}}, {{udp: {{{direction}}}}}]");
        let (tests, ..) = trial(&plan(&[&tests]), 1, |spec, made| {
            if let (Kind::Udp(_), Ok(NetworkResult::Udp(udp))) = (&spec.test, &mut made.answer) {
                change(udp);
                made.counted = None;
            }
        });
        let test = tests.iter().find(|test| test.name == "udp").unwrap();
        let keys = ["sut.limited", "sut.no_room"].into_iter();
        (reason(&test.validity), keys.filter(|key| test.facts.contains_key(*key)).collect::<Vec<_>>())
    };
    let limited = |udp: &mut UdpResult| udp.sender.limited = Some("too slow".to_owned());
    let no_room = |udp: &mut UdpResult| udp.receiver.no_room = 50;
    let generator = Some(InvalidReason::GeneratorLimited);
    assert_eq!(of("direction: up", limited), (generator, Vec::new()));
    assert_eq!(of("direction: down", limited), (None, vec!["sut.limited"]));
    // Nothing was sent that the path could have refused for its size.
    let silent = |udp: &mut UdpResult| {
        (udp.sender.sent, udp.receiver.received) = (0, 0);
        udp.sender.limited = Some("too slow".to_owned());
    };
    let nothing = Some(InvalidReason::NothingSucceeded);
    assert_eq!(of("direction: down", silent), (nothing, vec!["sut.limited"]));
    assert_eq!(of("direction: up", no_room), (None, vec!["sut.no_room"]));
    assert_eq!(of("direction: down", no_room), (generator, Vec::new()));
}

#[test]
fn voice_counts_unless_this_end_was_too_slow_or_counts_disagree() {
    let plan = plan(&["workload=[{voice: {streams: 2}}, {voice: {name: other}}, udp]"]);
    let voice = |change: fn(&mut VoiceResult, &mut [LinkStats; 2])| {
        let (tests, ..) = trial(&plan, 1, |_, made| {
            if let (Ok(NetworkResult::Voice(voice)), Some(counted)) = (&mut made.answer, &mut made.counted) {
                change(voice, counted);
            }
        });
        reason(&tests.iter().find(|test| test.name == "voice").unwrap().validity)
    };
    assert_eq!(voice(|_, _| {}), None);
    let limited = voice(|voice, _| voice.limited = Some("too slow".to_owned()));
    assert_eq!(limited, Some(InvalidReason::GeneratorLimited));
    assert_eq!(voice(|voice, _| voice.down.packets.no_room = 50), Some(InvalidReason::GeneratorLimited));
    // What the far end had no room for is its environment's.
    assert_eq!(voice(|voice, _| voice.up.packets.no_room = 50), None);
    assert_eq!(voice(|voice, _| voice.up.packets.received = 0), Some(InvalidReason::NothingSucceeded));
    let disagree = voice(|_, counted| counted[1].sent_bytes /= 2);
    assert_eq!(disagree, Some(InvalidReason::CountsDisagree));
}
