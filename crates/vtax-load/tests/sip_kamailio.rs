//! SIP sessions against real Kamailio with real MariaDB.

#[path = "sip_support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::*;
use vtax_load::sip::*;
use vtax_load::{Control, LoadResult};
use vtax_plan::model::{
    KamailioOptions, LocationMode, MediaRelay, Scenario, Service, ServiceKind, SipMetric, SipTls,
    SipTransport, TlsVersion, VoiceLaw,
};
use vtax_service::{RunningService, StartContext, missing};
use vtax_sys::require::again_until;
use vtax_units::{Bytes, Nanos};

const SUBSCRIBERS: u32 = 400;
/// The usual one at both ends: what a busy Kamailio loses is sent again soon.
const T1: Nanos = Nanos::from_millis(500);

/// Kamailio with its private directory, for as long as a test lasts; `None`, with the reason, where
/// it isn't installed.
fn kamailio() -> Option<(RunningService, tempfile::TempDir)> {
    start(None, false)
}

fn start(media_relay: Option<MediaRelay>, tls: bool) -> Option<(RunningService, tempfile::TempDir)> {
    let service = Service {
        name: "kamailio".to_owned(),
        kind: ServiceKind::Kamailio(KamailioOptions {
            port: vtax_sys::free_port(),
            children: Some(4),
            shared_memory: Bytes::from_mib(64),
            t1: T1,
            location: LocationMode::WriteBack,
            media_relay,
            tls,
        }),
        ready_timeout: Nanos::from_secs(60),
        stop_timeout: Nanos::from_secs(20),
    };
    if !vtax_sys::require::complete(missing(&service)) {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let context = StartContext {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        directory: directory.path().join("kamailio"),
        cpus: 1,
        vtax: PathBuf::from("/proc/self/exe"),
        die_with_starter: false,
        prepared: None,
        disk: None,
        call_off: None,
    };
    let running = RunningService::start(&service, Some(&subscribers(SUBSCRIBERS)), &context, |_| ()).unwrap();
    Some((running, directory))
}

fn every_scenario(transport: SipTransport) {
    let Some((server, _directory)) = start(None, transport == SipTransport::Tls) else { return };
    let mut spec = spec(server.address(), SUBSCRIBERS);
    spec.workload.transport = transport;
    spec.workload.t1 = T1;
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let result = run(&mut session, &profile(vec![registration(200.0), mix("step 1", 100.0, 3_000)]));
    assert_eq!(result.stopped, None, "{result:?}");
    for scenario in result.phases.iter().flat_map(|p| &p.scenarios) {
        assert_eq!(scenario.attempts, scenario.succeeded, "{scenario:?}");
        assert!(scenario.succeeded > 5, "{scenario:?}");
    }
    // A nonce is good for more than one request: nobody who registers again is challenged again.
    let again = (SipMetric::Reg1, Scenario::ReRegistration);
    assert!(!result.phases[1].metrics.iter().any(|m| (m.metric, m.scenario) == again));
    assert_eq!(result.pools.busy, 0);
    // One connection for each worker, over which calls come too, and no other.
    if let Some(connections) = &result.connections {
        let workers = u64::from(result.phases[0].generator.workers);
        assert_eq!(connections.connect.len(), workers, "{connections:?}");
        let handshakes = connections.tls.as_ref().map(|tls| (tls.done(), tls.failed));
        assert_eq!(handshakes, (transport == SipTransport::Tls).then_some((workers, 0)));
    }
    server.stop().unwrap();
}

#[test]
fn every_scenario_succeeds_with_kamailio() {
    every_scenario(SipTransport::Udp);
}

#[test]
fn every_scenario_succeeds_with_kamailio_over_tcp() {
    every_scenario(SipTransport::Tcp);
}

#[test]
fn every_scenario_succeeds_with_kamailio_over_tls() {
    every_scenario(SipTransport::Tls);
}

#[test]
fn each_call_has_its_handshake_with_kamailio_where_that_is_wanted() {
    let Some((server, _directory)) = start(None, true) else { return };
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let mut spec = asking(server.address(), SipTransport::Tls, true);
        spec.tls = SipTls { version: Some(version), resume: false, ..SipTls::default() };
        let figures = ask(&spec);
        let tls = figures.connections.unwrap().tls.unwrap();
        assert_eq!((tls.full.len(), tls.resumed.len(), tls.failed), (figures.calls, 0, 0), "{tls:?}");
        let name = if version == TlsVersion::V12 { "TLS 1.2 " } else { "TLS 1.3 " };
        assert!(tls.agreed.as_ref().is_some_and(|agreed| agreed.starts_with(name)), "{tls:?}");
    }
    server.stop().unwrap();
}

/// What is wrong on the generator's side has the same names as with the embedded server.
#[test]
fn kamailio_refuses_a_wrong_password() {
    let Some((server, _directory)) = kamailio() else { return };
    let mut spec = spec(server.address(), SUBSCRIBERS);
    spec.workload.subscribers.password = "guess%d".to_owned();
    spec.workload.t1 = T1;
    let mut session = SipSession::open(&spec).unwrap();
    let mut open = registration(400.0);
    open.ihs_limit = None;
    let result = run(&mut session, &profile(vec![open]));
    let registered = &result.phases[0].scenarios[0];
    assert_eq!((registered.succeeded, registered.attempts), (0, 320), "{registered:?}");
    assert_eq!(registered.inadequate.get("status 401"), Some(&320), "{registered:?}");
    server.stop().unwrap();
}

/// What rtpengine answers to a question up to what `found` finds in it.
fn ask_relay<T>(port: u16, question: &str, found: impl Fn(&str) -> Option<T>) -> T {
    let mut control = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    control.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    control.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    loop {
        let mut bytes = [0; 4_096];
        let length = control.read(&mut bytes).unwrap();
        assert!(length > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        if let Some(found) = found(&answer) {
            return found;
        }
    }
}

/// What rtpengine says that it has relayed in calls that are over.
fn relayed_packets(port: u16) -> u64 {
    // Not the cookie of another question, which would be answered with its answer.
    ask_relay(port, "relayed d7:command10:statisticse\n", |answer| {
        let (_, rest) = answer.split_once("14:relayedpacketsi")?;
        rest.split_once('e')?.0.parse().ok()
    })
}

/// Whether rtpengine has no call; each question has a number of its own.
fn has_no_call(port: u16, number: u32) -> bool {
    let whole = |answer: &str| answer.contains("6:result2:ok").then(|| answer.contains("5:callsle"));
    ask_relay(port, &format!("list{number} d7:command4:liste\n"), whole)
}

/// Refuses calls, each time that it is asked, until all are over.
fn refuse(callee: &UdpSocket, over: &AtomicBool) {
    callee.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    while !over.load(Ordering::Relaxed) {
        let mut bytes = [0; 4_096];
        let Ok((length, from)) = callee.recv_from(&mut bytes) else { continue };
        let text = std::str::from_utf8(&bytes[..length]).unwrap();
        if !text.starts_with("INVITE ") {
            continue;
        }
        let of = |name: &'static str| text.lines().filter(move |line| line.starts_with(name));
        let copied: Vec<&str> = ["Via:", "From:", "Call-ID:", "CSeq:"].into_iter().flat_map(of).collect();
        let to = of("To:").next().unwrap();
        let answer = format!(
            "SIP/2.0 486 Busy Here\r\n{}\r\n{to};tag=busy\r\nContent-Length: 0\r\n\r\n",
            copied.join("\r\n")
        );
        callee.send_to(answer.as_bytes(), from).unwrap();
    }
}

/// They kept them for a minute, in which the calls after them found none.
#[test]
fn refused_calls_give_the_relays_ports_back() {
    let Some((server, _directory)) = start(Some(MediaRelay::Rtpengine), false) else { return };
    let callee = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let scenario = include_str!("../../../plans/voice-relay.xml");
    let spec = ScriptSpec {
        scenario: scenario.replace("[callee]", &callee.local_addr().unwrap().to_string()),
        ..asking(server.address(), SipTransport::Udp, false)
    };
    let step = steady(10.0, Nanos::from_secs(1));
    let over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| refuse(&callee, &over));
        let once = || ScriptSession::open(&spec).and_then(|session| session.run_step(&step, &Control::new()));
        // A busy machine may begin fewer than are due.
        let all = |found: &Result<LoadResult, _>| found.as_ref().is_ok_and(|found| found.counts.sent == 10);
        let result = again_until(once, all);
        over.store(true, Ordering::Relaxed);
        result.unwrap()
    });
    let figures = result.details.as_ref().and_then(|details| details.script.as_deref()).unwrap();
    assert!(figures.succeeded == 0 && figures.failed.values().sum::<u64>() == 10, "{figures:?}");
    let port = server.address().port() + 3;
    // Far less than the minute after which it forgets silent calls.
    let is_free = (0..100).any(|number| {
        let free = has_no_call(port, number);
        std::thread::sleep(Duration::from_millis(if free { 0 } else { 100 }));
        free
    });
    assert!(is_free, "rtpengine keeps calls that were refused");
    server.stop().unwrap();
}

/// The plan's own scenario: every packet goes to rtpengine, and from there to this end again.
#[test]
fn sound_goes_through_rtpengine() {
    let Some((server, _directory)) = start(Some(MediaRelay::Rtpengine), false) else { return };
    let media = MediaOptions {
        law: VoiceLaw::Mu,
        packet: Nanos::from_millis(20),
        // Nothing that comes at all is late, however busy the machine is.
        jitter_buffer: Nanos::from_secs(10),
    };
    let spec = ScriptSpec {
        settings: ScriptSettings {
            media: Some(media),
            callees: true,
            media_port: 10_000,
            pause: Nanos::from_millis(700),
            ..ScriptSettings::default()
        },
        scenario: include_str!("../../../plans/voice-relay.xml").to_owned(),
        ..asking(server.address(), SipTransport::Udp, false)
    };
    let step = steady(10.0, Nanos::from_secs(2));
    let result = ScriptSession::open(&spec).unwrap().run_step(&step, &Control::new()).unwrap();
    let figures = result.details.as_ref().and_then(|details| details.script.as_deref()).unwrap();
    assert!(figures.failed.is_empty() && result.counts.ok >= 19, "{:?} {figures:?}", result.counts);
    let sound = figures.sound.as_deref().unwrap();
    assert_eq!((sound.calls, sound.untold), (figures.succeeded, 0), "{sound:?}");
    for direction in [&sound.up, &sound.down] {
        let packets = direction.packets;
        // 700 ms have 35 packets, of which the last ten may be under way.
        assert!(packets.received >= 24 * sound.calls && packets.damaged == 0, "{packets:?}");
        assert_eq!((direction.silent, direction.ratings.calls()), (0, sound.calls));
    }
    // Both ends pace, and the relay says that it has had their packets.
    assert!(
        !sound.pace.round_trip.is_empty() && sound.pace.sent >= 48 * sound.calls,
        "{:?}",
        sound.pace.sent
    );
    let relayed = relayed_packets(server.address().port() + 3);
    assert!(relayed >= sound.up.packets.received + sound.down.packets.received, "{relayed} {sound:?}");
    server.stop().unwrap();
}
