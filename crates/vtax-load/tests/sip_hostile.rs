//! SIP sessions against peers that are absent, refuse, lose, double, forge and babble: every attempt
//! ends, and what happened has a name.

#[path = "sip_support/mod.rs"]
mod support;

#[path = "sip_support/peer.rs"]
mod peer;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use peer::*;
use support::*;
use vtax_load::sip::*;
use vtax_plan::model::{Scenario, Spread};
use vtax_units::Nanos;
use vtax_wire::sip::{Credentials, Message, Method, Name};

/// T1 of these tests: a transaction is given up after 64 times as much.
const T1: Nanos = Nanos::from_millis(10);

fn hasty(target: SocketAddr, count: u32) -> SipSpec {
    let mut spec = spec(target, count);
    spec.workload.t1 = T1;
    spec
}

/// Registers 16 subscribers with the peer; returns the result and the only scenario's.
fn register(target: SocketAddr) -> (SipResult, ScenarioResult) {
    let mut session = SipSession::open(&hasty(target, 20)).unwrap();
    let mut phase = registration(200.0);
    phase.ihs_limit = None;
    let result = run(&mut session, &profile(vec![phase]));
    let scenario = result.phases[0].scenarios[0].clone();
    assert_eq!((scenario.attempts, scenario.unfinished), (16, 0), "{scenario:?}");
    assert_eq!(session.pools().busy, 0);
    (result, scenario)
}

fn times(result: &SipResult, kind: &str) -> u64 {
    result.stray.get(kind).copied().unwrap_or(0)
}

#[test]
fn nobody_is_there() {
    let nobody = ([127, 0, 0, 1], vtax_sys::free_port()).into();
    let (result, scenario) = register(nobody);
    assert_eq!(scenario.inadequate.get("timeout"), Some(&16));
    assert!(times(&result, "refused") >= 16, "{:?}", result.stray);
    // RFC 3261 section 17.1.2.2: sent again ten times until 64·T1; on a busy machine, less often.
    assert!((16 * 2..=16 * 10).contains(&scenario.retransmissions), "{scenario:?}");
}

#[test]
fn nobody_is_there_over_tcp() {
    let nobody = ([127, 0, 0, 1], vtax_sys::free_port()).into();
    let mut spec = hasty(nobody, 20);
    spec.workload.transport = vtax_plan::model::SipTransport::Tcp;
    let mut session = SipSession::open(&spec).unwrap();
    let mut phase = registration(200.0);
    phase.ihs_limit = None;
    let result = run(&mut session, &profile(vec![phase]));
    assert_eq!(result.phases[0].scenarios[0].inadequate.get("timeout"), Some(&16));
    assert!(times(&result, "refused") > 0, "{:?}", result.stray);
}

#[test]
fn a_peer_that_refuses_is_quoted() {
    let peer = Peer::start(|socket, bytes, from| {
        if let Some(out) = answer(bytes, 503, "") {
            socket.send_to(&out, from).unwrap();
        }
    });
    let (result, scenario) = register(peer.address);
    assert_eq!(scenario.inadequate.get("status 503"), Some(&16));
    // What was sent again for a slow peer is answered again.
    assert_eq!(result.stray.keys().filter(|kind| *kind != "late").count(), 0, "{:?}", result.stray);
    assert!(times(&result, "late") <= scenario.retransmissions, "{scenario:?} {:?}", result.stray);
}

#[test]
fn a_silent_peer_costs_time_alone() {
    let peer = Peer::start(|_, _, _| {});
    let (result, scenario) = register(peer.address);
    assert_eq!(scenario.inadequate.get("timeout"), Some(&16));
    assert!(result.stray.is_empty(), "{:?}", result.stray);
}

#[test]
fn babble_is_counted_by_kind() {
    let peer = Peer::start(|socket, bytes, from| {
        // What it says to the request below is no request.
        let Some(good) = answer(bytes, 200, "") else { return };
        let text = String::from_utf8(good.clone()).unwrap();
        let mut long = good.clone();
        long.resize(65_000, b'x');
        let torn = good[..good.len() / 2].to_vec();
        let forged_cseq = text.replace(" REGISTER", "9 REGISTER");
        let foreign = text.replace("branch=z9hG4bK", "branch=z9hG4bKforeign");
        let unasked = text.replace("SIP/2.0 200 As Told", "INVITE sip:nobody@127.0.0.1 SIP/2.0");
        for bad in [
            b"\x00\xff\x17 what is this".to_vec(),
            torn,
            long,
            forged_cseq.into_bytes(),
            foreign.into_bytes(),
            unasked.into_bytes(),
            b"\r\n\r\n".to_vec(),
        ] {
            socket.send_to(&bad, from).unwrap();
        }
        socket.send_to(&good, from).unwrap();
        socket.send_to(&good, from).unwrap();
    });
    let (result, scenario) = register(peer.address);
    assert_eq!(scenario.succeeded, 16, "{scenario:?}");
    for (kind, least) in [
        ("malformed", 32),
        ("oversize", 16),
        ("wrong-cseq", 16),
        ("unknown-transaction", 16),
        ("unexpected-request", 16),
        ("late", 16),
    ] {
        assert!(times(&result, kind) >= least, "{kind}: {:?}", result.stray);
    }
}

#[test]
fn challenges_without_end_are_given_up() {
    for (challenge, cause) in [
        ("WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\", stale=true", "status 401"),
        ("WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=SHA-256, opaque=\"o\"", "status 401"),
        ("WWW-Authenticate: Basic realm=\"r\"", "unusable-challenge"),
        ("WWW-Authenticate: Digest realm=\"r", "unusable-challenge"),
        ("", "status 401"),
    ] {
        let peer = Peer::start(move |socket, bytes, from| {
            if let Some(out) = answer(bytes, 401, challenge) {
                socket.send_to(&out, from).unwrap();
            }
        });
        let (_, scenario) = register(peer.address);
        assert_eq!(scenario.inadequate.get(cause), Some(&16), "{challenge}: {scenario:?}");
    }
}

/// Every scenario over a proxy; returns the result, of which nothing may be left open.
fn all_scenarios(target: SocketAddr, rate: f64, millis: u64) -> SipResult {
    let mut spec = hasty(target, 300);
    // A lost answer takes a while to be given again; stateless proxies don't send 100.
    spec.workload.t1 = Nanos::from_millis(40);
    spec.workload.ring_time = Spread::Constant(Nanos::from_millis(20));
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let mut open = mix("step 1", rate, millis);
    open.ihs_limit = None;
    let mut first = registration(500.0);
    first.ihs_limit = None;
    let result = run(&mut session, &profile(vec![first, open]));
    assert_eq!(session.pools().busy, 0);
    result
}

#[test]
fn what_is_lost_is_sent_again() {
    let mut number = 0_u64;
    let mut proxy = Proxy::new(false, move |_| {
        // A fixed sequence that has nothing to do with the order of the messages.
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (number >> 33).is_multiple_of(10) { Fate::Lose } else { Fate::Pass }
    });
    let peer = Peer::start(move |socket, bytes, from| proxy.act(socket, bytes, from));
    let result = all_scenarios(peer.address, 100.0, 2_000);
    for phase in &result.phases {
        for scenario in &phase.scenarios {
            assert_eq!(scenario.succeeded, scenario.attempts, "{scenario:?} {:?}", result.stray);
        }
    }
    let sent_again: u64 = result.phases[1].scenarios.iter().map(|s| s.retransmissions).sum();
    assert!(sent_again > 20, "{sent_again}");
    // The end of a phase may come before that of its last attempts.
    let by_second: u64 =
        result.phases[1].seconds.iter().flat_map(|s| &s.retransmissions).map(|n| u64::from(*n)).sum();
    assert!(by_second > 0 && by_second <= sent_again, "{by_second} of {sent_again}");
}

#[test]
fn what_comes_twice_counts_once() {
    let mut proxy = Proxy::new(false, |_: &[u8]| Fate::Double);
    let peer = Peer::start(move |socket, bytes, from| proxy.act(socket, bytes, from));
    let result = all_scenarios(peer.address, 100.0, 1_000);
    for scenario in result.phases.iter().flat_map(|p| &p.scenarios) {
        assert_eq!(scenario.succeeded, scenario.attempts, "{scenario:?} {:?}", result.stray);
    }
    assert!(times(&result, "late") + times(&result, "repeated-response") > 100, "{:?}", result.stray);
    assert_eq!(times(&result, "malformed") + times(&result, "unknown-transaction"), 0, "{:?}", result.stray);
}

#[test]
fn call_ids_may_change_on_the_way() {
    let mut proxy = Proxy::new(true, |_: &[u8]| Fate::Pass);
    let peer = Peer::start(move |socket, bytes, from| proxy.act(socket, bytes, from));
    let result = all_scenarios(peer.address, 100.0, 1_000);
    for scenario in result.phases.iter().flat_map(|p| &p.scenarios) {
        assert_eq!(scenario.succeeded, scenario.attempts, "{scenario:?} {:?}", result.stray);
    }
    let foreign = ["malformed", "unknown-transaction", "wrong-cseq"];
    assert_eq!(foreign.map(|kind| times(&result, kind)), [0; 3], "{:?}", result.stray);
    // On a busy machine something is sent again, and may come after the end of its attempt: nothing in it
    // then tells whose it was.
    let sent_again: u64 =
        result.phases.iter().flat_map(|p| &p.scenarios).map(|scenario| scenario.retransmissions).sum();
    assert!(times(&result, "unexpected-request") <= sent_again, "{sent_again} {:?}", result.stray);
}

/// A proxy's look at the credentials of calls: nobody calls without any.
struct Doorman {
    /// Each method has a nonce of its own, so that a call is challenged twice; otherwise a call has one.
    by_method: bool,
    /// The count and CSeq of the last request with each nonce.
    counts: HashMap<String, (u32, u32)>,
    /// The credentials of each INVITE that was let in, by Call-ID and CSeq.
    invites: HashMap<(String, u32), Vec<u8>>,
    /// What should not have been.
    wrong: Arc<Mutex<Vec<String>>>,
}

/// What becomes of a message.
enum Look {
    Passes,
    Ends,
    Refused(Vec<u8>),
}

impl Doorman {
    fn look_at(&mut self, bytes: &[u8]) -> Look {
        let Ok(message) = Message::parse(bytes) else { return Look::Passes };
        let Some(method @ (Method::Invite | Method::Ack | Method::Bye)) = message.method() else {
            return Look::Passes;
        };
        let call = String::from_utf8_lossy(message.call_id().unwrap()).into_owned();
        let cseq = message.cseq().unwrap().number;
        let line = message.header(Name::ProxyAuthorization);
        if method == Method::Ack {
            // To the doorman's own answer.
            if message.to().unwrap().tag == Some(&b"peer"[..]) {
                return Look::Ends;
            }
            if line != self.invites.get(&(call, cseq)).map(Vec::as_slice) {
                self.tell(format!("an ACK has {line:?}"));
            }
            return Look::Passes;
        }
        let nonce = if self.by_method { format!("{call}-{}", method.text()) } else { call.clone() };
        let credentials = line.and_then(|line| Credentials::parse(line).ok());
        let Some(credentials) = credentials.filter(|own| own.nonce == nonce.as_bytes()) else {
            let challenge = format!("Digest realm=\"r\", nonce=\"{nonce}\", qop=\"auth\"");
            let refusal = answer(bytes, 407, &format!("Proxy-Authenticate: {challenge}"));
            return refusal.map_or(Look::Ends, Look::Refused);
        };
        let now = (credentials.nonce_count().unwrap_or(0), cseq);
        let before = self.counts.insert(nonce, now).unwrap_or_default();
        // What is sent again has the count that it had.
        if now != before && now.0 != before.0 + 1 {
            self.tell(format!("{} {cseq} has the count {}, after {before:?}", method.text(), now.0));
        }
        if method == Method::Invite {
            self.invites.insert((call, cseq), line.unwrap_or_default().to_vec());
        }
        Look::Passes
    }

    fn tell(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }
}

/// Each request of a call had the count 1, a call that was challenged a second time failed, and ACKs had no credentials.
#[test]
fn calls_prove_themselves_as_often_as_they_are_asked_to() {
    for by_method in [false, true] {
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let (counts, invites) = (HashMap::new(), HashMap::new());
        let mut doorman = Doorman { by_method, counts, invites, wrong: Arc::clone(&wrong) };
        let mut proxy = Proxy::new(false, |_: &[u8]| Fate::Pass);
        let peer = Peer::start(move |socket, bytes, from| match doorman.look_at(bytes) {
            Look::Passes => proxy.act(socket, bytes, from),
            Look::Ends => {}
            Look::Refused(out) => {
                socket.send_to(&out, from).unwrap();
            }
        });
        let mut spec = spec(peer.address, 200);
        spec.workload.mix = vec![part(Scenario::Calling, 0.5), part(Scenario::ReInvite, 0.5)];
        let mut session = SipSession::open(&spec).unwrap();
        let (mut first, mut calls) = (registration(500.0), mix("calls", 100.0, 500));
        (first.ihs_limit, calls.ihs_limit) = (None, None);
        let result = run(&mut session, &profile(vec![first, calls]));
        for scenario in &result.phases[1].scenarios {
            assert!(scenario.attempts > 0, "{scenario:?}");
            assert_eq!(scenario.succeeded, scenario.attempts, "{scenario:?} {:?}", result.stray);
        }
        assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
    }
}
