//! Calls with sound after a scenario: vtax's own other end, SIPp as the other end, and one that says nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use vtax_load::sip::{
    MediaOptions, ScriptFigures, ScriptSession, ScriptSettings, ScriptSpec, answer_script, answering,
};
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, LoadResult, Model, Part, RequestStep, Segment, Verify,
};
use vtax_plan::model::{SipTls, SipTransport, VoiceLaw};
use vtax_units::{CpuSet, Nanos, Rate};

/// A caller that offers both laws and hangs up after half a second.
const CALLER: &str = "<scenario name=\"caller\">
<send retrans=\"500\"><![CDATA[
INVITE sip:service@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]>;tag=[call_number]
To: <sip:service@[remote_ip]>
Call-ID: [call_id]
CSeq: 1 INVITE
Contact: <sip:caller@[local_ip]:[local_port]>
Content-Type: application/sdp
Content-Length: [len]

v=0
o=caller 1 1 IN IP[local_ip_type] [local_ip]
s=-
c=IN IP[media_ip_type] [media_ip]
t=0 0
m=audio [auto_media_port] RTP/AVP 0 8
]]></send>
<recv response=\"180\" optional=\"true\"/>
<recv response=\"200\" rtd=\"1\"/>
<send><![CDATA[
ACK sip:service@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]>;tag=[call_number]
To: <sip:service@[remote_ip]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 1 ACK
Content-Length: 0
]]></send>
<pause milliseconds=\"500\"/>
<send retrans=\"500\"><![CDATA[
BYE sip:service@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]>;tag=[call_number]
To: <sip:service@[remote_ip]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 2 BYE
Content-Length: 0
]]></send>
<recv response=\"200\"/>
</scenario>
";

fn options() -> MediaOptions {
    // Nothing that comes at all is late, however busy the machine is.
    MediaOptions { law: VoiceLaw::A, packet: Nanos::from_millis(20), jitter_buffer: Nanos::from_secs(10) }
}

fn spec(target: SocketAddr, scenario: &str, media_port: u16) -> ScriptSpec {
    ScriptSpec {
        pool: ConnectionPool {
            target,
            connections: 200,
            timeout: Nanos::from_secs(10),
            cpus: CpuSet::default(),
        },
        settings: ScriptSettings { media_port, media: Some(options()), ..ScriptSettings::default() },
        scenario: scenario.to_owned(),
        password: ScriptSpec::PASSWORD.to_owned(),
        injections: Vec::new(),
        local: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        transport: SipTransport::Udp,
        tls: SipTls::default(),
        verify: Verify::Nothing,
        connection_per_call: false,
        seed: 1,
        part: Part::default(),
    }
}

fn call(target: SocketAddr) -> (LoadResult, ScriptFigures) {
    let duration = Nanos::from_secs(1);
    let rate = Rate(40.0);
    let step = RequestStep {
        model: Model::Open {
            arrivals: ArrivalProcess::Constant,
            profile: vec![Segment { from: rate, to: rate, duration }],
        },
        warmup: Nanos::ZERO,
        duration,
        seed: 1,
        samples: false,
        interval: duration,
        drain: Nanos::ZERO,
    };
    let result =
        ScriptSession::open(&spec(target, CALLER, 20_000)).unwrap().run_step(&step, &Control::new()).unwrap();
    let figures = result.details.as_ref().and_then(|details| details.script.as_deref()).unwrap().clone();
    (result, figures)
}

/// Calls somebody who answers after that scenario; what both found.
fn answered_by(server: &ScriptSpec) -> ((LoadResult, ScriptFigures), ScriptFigures) {
    let (stop, (sender, receiver)) = (AtomicBool::new(false), mpsc::channel());
    thread::scope(|scope| {
        let stop = &stop;
        let answering =
            scope.spawn(move || answer_script(server, stop, |address| sender.send(address).unwrap()));
        let target = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
        let found = call(target);
        stop.store(true, Relaxed);
        (found, answering.join().unwrap().unwrap())
    })
}

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[test]
fn calls_are_heard_at_both_ends() {
    let server = spec(ANY_PORT, &answering(&options()), 30_000);
    let ((result, figures), far) = answered_by(&server);
    assert!(figures.failed.is_empty() && result.counts.ok >= 39, "{:?} {figures:?}", result.counts);
    let sound = figures.sound.unwrap();
    assert_eq!((sound.calls, sound.untold), (figures.succeeded, 0), "{sound:?}");
    for direction in [&sound.up, &sound.down] {
        let packets = direction.packets;
        // Half a second has 25 packets, of which the last ten may be under way.
        assert!(packets.received >= 14 * sound.calls && packets.damaged == 0, "{packets:?}");
        assert_eq!((direction.silent, direction.ratings.calls()), (0, sound.calls));
    }
    assert!(sound.mos().is_some_and(|mos| mos > 1.0) && sound.ratings.calls() == sound.calls);
    assert!(!sound.pace.round_trip.is_empty() && sound.pace.sent > 0);
    // What the other end counts itself is what it told.
    let far = far.sound.unwrap();
    assert_eq!((far.calls, far.down.ratings.calls()), (sound.calls, sound.calls));
}

/// One that answers without a description, and never speaks.
#[test]
fn who_is_not_described_is_not_heard() {
    let text = answering(&options()).replace("Content-Type: application/sdp\n", "");
    let ((result, figures), _) = answered_by(&spec(ANY_PORT, &text, 30_000));
    assert!(result.counts.ok >= 39, "{figures:?}");
    let sound = figures.sound.unwrap();
    assert_eq!((sound.calls, sound.pace.sent, sound.mos()), (0, 0, None));
}

/// One whose port is nobody's: every call is silent in one direction, and nothing is known of the other.
#[test]
fn calls_without_sound_are_counted() {
    let text = answering(&options()).replace("[media_port]", "9");
    let server = ScriptSpec {
        settings: ScriptSettings { media: None, ..spec(ANY_PORT, "", 0).settings },
        ..spec(ANY_PORT, &text, 30_000)
    };
    let ((_, figures), far) = answered_by(&server);
    let sound = figures.sound.unwrap();
    assert!(far.sound.is_none() && sound.calls >= 39, "{sound:?}");
    assert_eq!((sound.untold, sound.down.silent, sound.up.ratings.calls()), (sound.calls, sound.calls, 0));
    assert!(sound.ratings.quantile(1.0) < 5.0 && sound.mos().is_some_and(|mos| mos < 1.1));
}
