//! The proxy under a clock of the tests' own.

use std::net::SocketAddr;

use vtax_plan::model::Subscribers;

use super::*;
use crate::embedded::sip::registrar::Registration;
use crate::embedded::sip::{NONCE_LIFE, Options};

const HOME: &str = "127.0.0.1:5060";
const CALLER: &str = "127.0.0.1:7001";
const CALLEE: &str = "127.0.0.1:7002";

fn shared(authenticate_calls: bool) -> Shared {
    let subscribers = Subscribers {
        count: 10,
        public: "u%d".into(),
        private: "u%d".into(),
        password: "secret".into(),
        realm: "r".into(),
        domain: "d.test".into(),
    };
    let options = Options {
        listen: address(HOME),
        workers: 1,
        subscribers,
        authenticate_calls,
        nonce_life: NONCE_LIFE,
        certificate: None,
    };
    let shared = Shared::new(&options, options.listen, None).unwrap();
    let text = format!("REGISTER sip:d.test SIP/2.0\r\nContact: <sip:phone@{CALLEE}>;expires=9999\r\n\r\n");
    let of = Registration { subscriber: 2, now_s: 0, call_id: 1, cseq: 1, flow: None };
    let message = Message::parse(text.as_bytes()).unwrap();
    shared.registrar.update(&message, &of, |_| false).unwrap();
    shared
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn request(method: &str, extra: &str) -> String {
    format!(
        "{method} sip:u2@d.test SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
         From: <sip:u1@d.test>;tag=a\r\nTo: <sip:u2@d.test>\r\nCall-ID: c\r\nCSeq: 1 {method}\r\n{extra}\r\n"
    )
}

/// What a callee answers to what it got.
fn answer(request: &str, code: u16) -> String {
    let lines = request.split_inclusive("\r\n").skip(1);
    let kept = lines
        .filter(|line| !line.starts_with("Max-") && !line.starts_with("Content-Length") && *line != "\r\n");
    let lines: String = kept.collect();
    let lines = lines.replace("<sip:u2@d.test>\r\n", "<sip:u2@d.test>;tag=b\r\n");
    format!("SIP/2.0 {code} X\r\n{lines}Content-Length: 0\r\n\r\n")
}

/// A proxy, its clock, and what it sends.
struct Bench<'s> {
    proxy: Proxy<'s>,
    output: Output,
    now_ms: u64,
    is_busy: bool,
}

impl<'s> Bench<'s> {
    fn new(shared: &'s Shared) -> Self {
        Self { proxy: Proxy::new(shared, 0), output: Output::unsent(), now_ms: 0, is_busy: false }
    }

    /// What is sent because of a message.
    fn send(&mut self, from: &str, text: &str) -> Vec<(String, String)> {
        let peer = Peer::Udp(address(from));
        self.proxy.message(self.now_ms, text.as_bytes(), &peer, &mut self.output);
        self.take()
    }

    fn take(&mut self) -> Vec<(String, String)> {
        let sent = self.output.take().into_iter();
        sent.map(|(to, bytes)| (to.to_string(), String::from_utf8(bytes).unwrap())).collect()
    }

    /// The INVITE as it goes to the callee.
    fn invite(&mut self) -> String {
        let [trying, invite] = self.send(CALLER, &request("INVITE", "")).try_into().expect("two messages");
        // Answers to the INVITE go through another thread: what is sent behind it, they could overtake.
        assert!(trying.0 == CALLER && trying.1.starts_with("SIP/2.0 100 Trying\r\n"), "{trying:?}");
        assert_eq!(invite.0, CALLEE);
        invite.1
    }

    /// Start lines that are sent up to a time, with when and to whom.
    fn until(&mut self, end_ms: u64) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        while self.now_ms < end_ms {
            self.now_ms += 20;
            self.is_busy = self.proxy.tick(self.now_ms, 1, &mut self.output);
            for (to, text) in self.take() {
                let start = text.split(" sip:").next().unwrap().lines().next().unwrap();
                found.push((self.now_ms, format!("{start} > {to}")));
            }
        }
        found
    }
}

fn times(found: &[(u64, String)], what: &str) -> Vec<u64> {
    found.iter().filter(|(_, text)| text.starts_with(what)).map(|(at, _)| *at).collect()
}

#[test]
fn an_invite_nobody_answers_times_out() {
    let shared = shared(false);
    let mut bench = Bench::new(&shared);
    let sent = bench.send(CALLER, &request("INVITE", ""));
    assert_eq!(sent.len(), 2);
    assert!(sent[0].0 == CALLER && sent[0].1.starts_with("SIP/2.0 100 Trying\r\n"), "{sent:?}");
    assert!(!sent[0].1.contains("To: <sip:u2@d.test>;tag"), "{sent:?}");
    assert!(sent[1].0 == CALLEE && sent[1].1.starts_with(&format!("INVITE sip:phone@{CALLEE} SIP/2.0\r\n")));
    // RFC 3261 figure 5: timer A doubles, timer B ends it.
    let found = bench.until(60_000);
    assert_eq!(times(&found, "INVITE > 127.0.0.1:7002"), [500, 1_500, 3_500, 7_500, 15_500, 31_500]);
    let refused = times(&found, "SIP/2.0 408 Request Timeout > 127.0.0.1:7001");
    assert_eq!(refused, [32_000, 32_500, 33_500, 35_500, 39_500, 43_500, 47_500, 51_500, 55_500, 59_500]);
    // Its ACK ends that too.
    assert_eq!(bench.send(CALLER, &request("ACK", "")), []);
    assert_eq!(bench.until(70_000), []);
    assert!(!bench.is_busy);
}

#[test]
fn other_requests_are_given_up_in_silence() {
    let shared = shared(false);
    let mut bench = Bench::new(&shared);
    assert_eq!(bench.send(CALLER, &request("MESSAGE", "")).len(), 1);
    let found = bench.until(40_000);
    let again = times(&found, "MESSAGE");
    assert_eq!(again, [500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!(found.len(), again.len());
    assert!(!bench.is_busy);
}

#[test]
fn ringing_for_too_long_is_cancelled() {
    let shared = shared(false);
    let mut bench = Bench::new(&shared);
    let ringing = answer(&bench.invite(), 180);
    assert_eq!(bench.send(CALLEE, &ringing).len(), 1);
    assert_eq!(bench.until(100_000), []);
    assert_eq!(bench.send(CALLEE, &ringing).len(), 1);
    let found = bench.until(350_000);
    let cancels = times(&found, "CANCEL > 127.0.0.1:7002");
    assert!(cancels.len() > 8 && cancels[..3] == [285_000, 285_500, 286_500], "{cancels:?}");
    assert_eq!(times(&found, "SIP/2.0 487 Request Terminated > 127.0.0.1:7001")[0], 317_000);
    assert!(!bench.is_busy, "given up after 64 T1 without an ACK");
}

#[test]
fn an_accepted_call_is_forgotten_soon() {
    let shared = shared(false);
    let mut bench = Bench::new(&shared);
    let invite = bench.invite();
    let accepted = answer(&invite, 200);
    for _ in 0..3 {
        // Each goes by, as long as the callee has no ACK.
        let passed = bench.send(CALLEE, &accepted);
        assert_eq!(passed.len(), 1);
        assert!(passed[0].1.starts_with("SIP/2.0 200 X\r\n") && passed[0].1.matches("Via: ").count() == 1);
        assert_eq!(bench.until(bench.now_ms + 4_000), []);
    }
    // What a callee says late changes nothing.
    for code in [180, 486] {
        let late = bench.send(CALLEE, &answer(&invite, code));
        assert!(late.iter().all(|(to, _)| to == CALLEE), "{late:?}");
    }
    assert_eq!(bench.until(20_000), []);
    assert!(!bench.is_busy);
    assert_eq!(bench.send(CALLEE, &accepted), [], "a response to nothing");
}

#[test]
fn calls_need_credentials_where_asked_for() {
    let shared = shared(true);
    let mut bench = Bench::new(&shared);
    let sent = bench.send(CALLER, &request("INVITE", ""));
    assert_eq!(sent.len(), 1);
    let challenge = Message::parse(sent[0].1.as_bytes()).unwrap();
    assert_eq!(challenge.status(), Some(407));
    let challenge = challenge.header(Name::ProxyAuthenticate).unwrap();
    let challenge = vtax_wire::sip::Challenge::parse(challenge).unwrap();
    for (password, answers) in [("wrong", 1), ("secret", 2)] {
        let algorithm = vtax_wire::sip::Algorithm::Sha256;
        let ha1 = vtax_wire::sip::ha1(algorithm, b"u1", b"r", password.as_bytes());
        let answer = vtax_wire::sip::Answer {
            algorithm,
            ha1: &ha1,
            method: b"INVITE",
            uri: b"sip:u2@d.test",
            nonce: challenge.nonce,
            qop: None,
        };
        let response = answer.response();
        let credentials = vtax_wire::sip::Credentials {
            username: b"u1",
            realm: b"r",
            nonce: challenge.nonce,
            uri: b"sip:u2@d.test",
            response: response.bytes(),
            algorithm: Some(algorithm),
            opaque: None,
            qop: None,
        };
        let mut value = b"Proxy-Authorization: ".to_vec();
        credentials.write(&mut value);
        let sent =
            bench.send(CALLER, &request("INVITE", &format!("{}\r\n", String::from_utf8(value).unwrap())));
        assert_eq!(sent.len(), answers, "{sent:?}");
        assert!(!sent[answers - 1].1.contains("Proxy-Authorization"), "{sent:?}");
    }
}

#[test]
fn routes_lead_nowhere_without_a_call() {
    let shared = shared(false);
    let mut bench = Bench::new(&shared);
    let invite = bench.invite();
    let route = invite.lines().find_map(|line| line.strip_prefix("Record-Route: ")).unwrap().to_owned();
    let in_dialog = |call: &str, routes: &str, branch: &str| {
        let text = request("BYE", &format!("Route: {routes}\r\n"))
            .replace("sip:u2@d.test SIP", "sip:x@127.0.0.1:9 SIP");
        text.replace("Call-ID: c", &format!("Call-ID: {call}")).replace("z9hG4bK1", branch)
    };
    let first = |sent: Vec<(String, String)>| {
        let (to, text) = sent.into_iter().next().unwrap();
        (to, text.lines().next().unwrap().to_owned())
    };
    let forwarded = bench.send(CALLER, &in_dialog("c", &route, "z9hG4bK2"));
    assert!(!forwarded[0].1.contains("Route:"), "{forwarded:?}");
    assert_eq!(first(forwarded), ("127.0.0.1:9".into(), "BYE sip:x@127.0.0.1:9 SIP/2.0".into()));
    // The proof is of one call.
    let refused = bench.send(CALLER, &in_dialog("other", &route, "z9hG4bK3"));
    assert_eq!(first(refused), (CALLER.into(), "SIP/2.0 403 Forbidden".into()));
    // Twice through here, then on.
    let routes = format!("{route}, {route}, <sip:127.0.0.1:8;lr>");
    let forwarded = bench.send(CALLER, &in_dialog("c", &routes, "z9hG4bK4"));
    assert!(forwarded[0].1.contains("\r\nRoute: <sip:127.0.0.1:8;lr>\r\n"), "{forwarded:?}");
    assert_eq!(first(forwarded).0, "127.0.0.1:8");
    // Back to here.
    let home = in_dialog("c", &route, "z9hG4bK5").replace("127.0.0.1:9 SIP", &format!("{HOME} SIP"));
    assert_eq!(first(bench.send(CALLER, &home)).1, "SIP/2.0 404 Not Found");
}
