use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

use vtax_plan::model::{MediaOptions, SipTls, SipTransport, VoiceLaw};
use vtax_units::{CpuSet, Nanos};

use super::*;
use crate::family::sip::scripted::answer_script;
use crate::family::sip::scripted::spec::{ScriptSettings, ScriptSpec};
use crate::{ConnectionPool, Part, Verify};

/// A line that keeps what is sent.
#[derive(Default)]
struct Kept(Vec<String>);

impl Port for Kept {
    fn send(&mut self, _line: u32, _to: Option<SocketAddr>, _flow: u32, message: &[u8]) {
        self.0.push(String::from_utf8(message.to_vec()).unwrap());
    }

    fn local(&self, _line: u32) -> SocketAddr {
        ([127, 0, 0, 1], 5061).into()
    }
}

fn spec(commands: &str, injections: &[(&str, &str)]) -> ScriptSpec {
    ScriptSpec {
        pool: ConnectionPool {
            target: ([127, 0, 0, 1], 5060).into(),
            connections: 10,
            timeout: Nanos::from_secs(2),
            cpus: CpuSet::default(),
        },
        settings: ScriptSettings::default(),
        password: ScriptSpec::PASSWORD.to_owned(),
        scenario: format!("<scenario name=\"test\">{commands}</scenario>"),
        injections: injections.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
        local: vec![IpAddr::from([127, 0, 0, 1])],
        transport: SipTransport::Udp,
        tls: SipTls::default(),
        verify: Verify::Nothing,
        connection_per_call: false,
        seed: 1,
        part: Part::default(),
    }
}

fn shared(commands: &str, injections: &[(&str, &str)]) -> Shared {
    Shared::new(&spec(commands, injections)).unwrap()
}

fn send(head: &str, attributes: &str, more: &str) -> String {
    format!(
        "<send {attributes}><![CDATA[\n{head}\nVia: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\n\
         From: <sip:a@b>;tag=[call_number]\nTo: <sip:c@d>[peer_tag_param]\nCall-ID: [call_id]\n{more}\nContent-Length: 0\n]]></send>"
    )
}

fn invite(attributes: &str) -> String {
    send("INVITE sip:c@[remote_ip] SIP/2.0", attributes, "CSeq: [cseq] INVITE")
}

const RECV: &str = "<recv response=\"200\" rtd=\"true\"/>";

fn machine(shared: &Shared) -> Machine<'_> {
    Machine::new(shared, 7, (0, 1), 1, (1_000 * MILLI, 16), None)
}

/// The value of a header of what was sent last.
fn header<'k>(kept: &'k Kept, name: &str) -> &'k str {
    let last = kept.0.last().unwrap();
    let line = last.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {last}"))
}

/// An answer to what was sent last.
fn answer(kept: &Kept, status: &str, more: &str) -> String {
    let [via, from, call_id, cseq] = ["Via", "From", "Call-ID", "CSeq"].map(|name| header(kept, name));
    format!(
        "SIP/2.0 {status}\r\nVia: {via}\r\nFrom: {from}\r\nTo: <sip:c@d>;tag=far\r\nCall-ID: {call_id}\r\nCSeq: {cseq}\r\n{more}\
         Content-Length: 0\r\n\r\n"
    )
}

fn give(machine: &mut Machine<'_>, kept: &mut Kept, message: &str, at: u64) {
    machine.now = at;
    let message = Message::parse(message.as_bytes()).unwrap();
    let slot = machine.find(message.call_id().unwrap()).expect("a call");
    machine.receive(slot, &message, at, kept);
}

fn pass(machine: &mut Machine<'_>, kept: &mut Kept, to: u64) {
    machine.now = to;
    let mut due = Vec::new();
    machine.wheel.advance(to, &mut due);
    due.into_iter().for_each(|timer| machine.timer(timer, kept));
}

#[test]
fn a_call_is_timed_from_its_intended_start() {
    let shared = shared(
        &format!(
            "{}<recv response=\"100\" optional=\"true\"/>{RECV}{}",
            invite(""),
            send("ACK sip:c@d SIP/2.0", "", "CSeq: [cseq] ACK")
        ),
        &[],
    );
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    machine.now = 1_003 * MILLI;
    machine.begin(1_001 * MILLI, 0, &mut kept);
    assert_eq!(header(&kept, "CSeq"), "1 INVITE");
    assert_eq!(header(&kept, "From"), "<sip:a@b>;tag=1");
    let (trying, ok) = (answer(&kept, "100 Trying", ""), answer(&kept, "200 OK", ""));
    give(&mut machine, &mut kept, &trying, 1_005 * MILLI);
    assert_eq!((kept.0.len(), machine.live()), (1, 1));
    give(&mut machine, &mut kept, &ok, 1_011 * MILLI);
    assert_eq!(header(&kept, "CSeq"), "1 ACK");
    assert_eq!(header(&kept, "To"), "<sip:c@d>;tag=far");
    let [ended] = machine.ended[..] else { panic!("{:?}", machine.ended) };
    assert_eq!((ended.start, ended.end, ended.outcome), (1_001 * MILLI, 1_011 * MILLI, Outcome::Ok));
    assert_eq!(machine.live(), 0);
    let figures = machine.figures();
    assert_eq!((figures.calls, figures.succeeded, figures.timers[0].times.len()), (1, 1, 1));
    assert_eq!(figures.commands.iter().map(|c| c.done).collect::<Vec<_>>(), [1, 1, 1, 1]);
}

/// Calls whose callers had gone kept their places for as long as the load waits for a message.
#[test]
fn who_has_waited_longest_can_be_given_up() {
    const LONG: u64 = 32_000 * MILLI;
    let shared = shared(&format!("{}{RECV}", invite("")), &[]);
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    for begun in [2_000, 1_000, 30_000] {
        machine.now = begun * MILLI;
        machine.begin(begun * MILLI, 0, &mut kept);
    }
    machine.now = 34_500 * MILLI;
    let waiting = machine.waiting_longer_than(LONG);
    let generation = waiting[0].1;
    assert_eq!(waiting, [(0, generation), (1, generation)], "the oldest last, and not the new one");
    assert!(machine.give_up(1, generation, LONG) && !machine.give_up(1, generation, LONG));
    assert!(!machine.give_up(0, generation + 1, LONG), "another call by now");
    assert_eq!((machine.live(), machine.ended[0].outcome), (2, Outcome::ClientTimeout));
}

#[test]
fn what_is_lost_is_sent_again_and_given_up_in_the_end() {
    let shared = shared(
        &format!("{}{RECV}", send("REGISTER sip:b SIP/2.0", "retrans=\"500\"", "CSeq: [cseq] REGISTER")),
        &[],
    );
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    machine.begin(1_000 * MILLI, 0, &mut kept);
    for (at, sent) in [(1_499, 1), (1_502, 2), (2_400, 2), (2_510, 3)] {
        pass(&mut machine, &mut kept, at * MILLI);
        assert_eq!(kept.0.len(), sent, "{at}");
    }
    assert!(kept.0.iter().all(|message| *message == kept.0[0]));
    // The load's timeout is 2 s.
    pass(&mut machine, &mut kept, 3_010 * MILLI);
    assert_eq!(machine.ended[0].outcome, Outcome::ClientTimeout);
    assert!(machine.figures().failed.keys().next().unwrap().starts_with("timeout (recv 200, line "));
}

#[test]
fn what_comes_again_is_answered_again() {
    let shared = shared(
        &format!(
            "{}{RECV}{}<pause milliseconds=\"100\"/>{}<recv response=\"200\"/>",
            invite(""),
            send("ACK sip:c@d SIP/2.0", "", "CSeq: 1 ACK"),
            send("BYE sip:c@d SIP/2.0", "", "CSeq: [cseq] BYE")
        ),
        &[],
    );
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    machine.begin(1_000 * MILLI, 0, &mut kept);
    let ok = answer(&kept, "200 OK", "");
    give(&mut machine, &mut kept, &ok, 1_010 * MILLI);
    give(&mut machine, &mut kept, &ok, 1_020 * MILLI);
    let methods =
        |kept: &Kept| kept.0.iter().map(|m| m.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(methods(&kept), ["INVITE", "ACK", "ACK"]);
    pass(&mut machine, &mut kept, 1_112 * MILLI);
    give(&mut machine, &mut kept, &ok, 1_115 * MILLI);
    assert_eq!(methods(&kept), ["INVITE", "ACK", "ACK", "BYE", "ACK"]);
    assert_eq!((machine.live(), machine.traffic.retransmissions), (1, 2));
}

#[test]
fn a_refusal_is_acknowledged_and_fails_the_call() {
    let shared = shared(&format!("{}{RECV}", invite("")), &[]);
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    machine.begin(1_000 * MILLI, 0, &mut kept);
    let busy = answer(&kept, "486 Busy Here", "");
    give(&mut machine, &mut kept, &busy, 1_010 * MILLI);
    assert!(kept.0[1].starts_with("ACK sip:c@127.0.0.1 SIP/2.0\r\n"), "{}", kept.0[1]);
    assert_eq!((machine.ended[0].outcome, machine.ended[0].status), (Outcome::Status, 486));
}

#[test]
fn jumps_variables_and_fields() {
    let shared = shared(
        &format!(
            "{}<recv response=\"200\"><action><ereg regexp=\"n=([0-9]+)\" search_in=\"hdr\" header=\"X:\" assign_to=\"all,n\"/>\
             <test assign_to=\"more\" variable=\"n\" compare=\"greater_than\" value=\"4\"/></action></recv>\
             <nop next=\"end\" test=\"more\"/>{}<label id=\"end\"/>{}",
            send("MESSAGE sip:[field0] SIP/2.0", "", "CSeq: [cseq] MESSAGE"),
            send("INFO sip:skipped SIP/2.0", "", "CSeq: [cseq] INFO"),
            send(
                "INFO sip:[field1 file=\"u.csv\"] SIP/2.0",
                "counter=\"infos\"",
                "CSeq: [cseq] INFO\nX: [$n]"
            ),
        ),
        &[("u.csv", "SEQUENTIAL\nanna;x\nbert;y\n")],
    );
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    for (user, number, sent) in [("anna", 5, 2), ("bert", 3, 3)] {
        kept.0.clear();
        machine.begin(1_000 * MILLI, 0, &mut kept);
        assert!(kept.0[0].starts_with(&format!("MESSAGE sip:{user} ")), "{}", kept.0[0]);
        let ok = answer(&kept, "200 OK", &format!("X: n={number}\r\n"));
        give(&mut machine, &mut kept, &ok, 1_010 * MILLI);
        assert_eq!(kept.0.len(), sent);
        assert_eq!(header(&kept, "X"), number.to_string());
    }
    let figures = machine.figures();
    assert_eq!((figures.counters["infos"], figures.succeeded), (2, 2));
}

/// The memory of variables is used again: it told one call what another's text was.
#[test]
fn texts_of_an_earlier_call_are_gone() {
    let shared = shared(
        &format!(
            "{}<recv response=\"200\"><action><ereg regexp=\"n=([0-9]+)\" search_in=\"hdr\" header=\"X:\" assign_to=\"all,n\"/>\
             <strcmp assign_to=\"order\" variable=\"n\" value=\"5\"/>\
             <ereg regexp=\"5\" search_in=\"var\" variable=\"n\" assign_to=\"found\"/></action></recv>{}",
            send("MESSAGE sip:x SIP/2.0", "", "CSeq: [cseq] MESSAGE"),
            send("INFO sip:x SIP/2.0", "", "CSeq: [cseq] INFO\nX: ([$order] [$found])"),
        ),
        &[],
    );
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    for (more, found) in [("X: n=5\r\n", "(0.000000 5)"), ("", "(-1.000000 )")] {
        machine.begin(1_000 * MILLI, 0, &mut kept);
        let ok = answer(&kept, "200 OK", more);
        give(&mut machine, &mut kept, &ok, 1_010 * MILLI);
        assert_eq!(header(&kept, "X"), found);
    }
    assert_eq!(machine.calls.len(), 1, "both calls have the same place");
}

/// The label was ignored without a timeout of its own, and one of 0 failed the call at once.
#[test]
fn what_follows_a_timeout_follows_the_loads_too() {
    for timeout in ["", "timeout=\"0\""] {
        let shared = shared(
            &format!(
                "{}<recv response=\"200\" next=\"end\" ontimeout=\"late\" {timeout}/><label id=\"late\"/>{}<label id=\"end\"/>",
                invite(""),
                send("INFO sip:late SIP/2.0", "", "CSeq: [cseq] INFO")
            ),
            &[],
        );
        let (mut machine, mut kept) = (machine(&shared), Kept::default());
        machine.begin(1_000 * MILLI, 0, &mut kept);
        // The load's timeout is 2 s.
        for (at, sent) in [(1_010, 1), (2_990, 1), (3_010, 2)] {
            pass(&mut machine, &mut kept, at * MILLI);
            assert_eq!(kept.0.len(), sent, "{at} {timeout}");
        }
        assert!(kept.0[1].starts_with("INFO sip:late "), "{}", kept.0[1]);
        assert_eq!(machine.ended[0].outcome, Outcome::Ok);
        assert_eq!(machine.figures().commands[1].timeouts, 1);
    }
}

#[test]
fn a_challenge_is_answered() {
    let register = |more: &str| send("REGISTER sip:b SIP/2.0", "", &format!("CSeq: [cseq] REGISTER\n{more}"));
    let shared = shared(
        &format!(
            "{}<recv response=\"401\" auth=\"true\"/>{}{RECV}",
            register("[authentication]"),
            register("[authentication username=joe password=schmo]")
        ),
        &[],
    );
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    machine.begin(1_000 * MILLI, 0, &mut kept);
    assert!(!kept.0[0].contains("uthorization") && !kept.0[0].contains("\r\n\r\nContent"), "{}", kept.0[0]);
    let challenge = "WWW-Authenticate: Digest realm=\"r\", nonce=\"abc\", qop=\"auth\"\r\n";
    let unauthorised = answer(&kept, "401 Unauthorized", challenge);
    give(&mut machine, &mut kept, &unauthorised, 1_010 * MILLI);
    let credentials = vtax_wire::sip::Credentials::parse(header(&kept, "Authorization").as_bytes()).unwrap();
    assert_eq!(
        (credentials.username, credentials.uri, credentials.nonce_count()),
        (&b"joe"[..], &b"sip:b"[..], Some(1))
    );
    let ha1 = vtax_wire::sip::ha1(vtax_wire::sip::Algorithm::Md5, b"joe", b"r", b"schmo");
    assert!(credentials.is_answer_of(&ha1, b"REGISTER"));
}

#[test]
fn a_server_answers_and_answers_again() {
    let shared = shared(
        "<recv request=\"INVITE\"/><send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:];tag=[call_number]\n[last_Call-ID:]\n\
         [last_CSeq:]\n[last_Record-Route:]\nContent-Length: 0\n]]></send><recv request=\"ACK\"/><timewait milliseconds=\"50\"/>",
        &[],
    );
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    let request = |method: &str| {
        format!(
            "{method} sip:x SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z1\r\nVia: SIP/2.0/UDP g;branch=z2\r\nFrom: <sip:a@b>;tag=t\r\nTo: <sip:x>\r\nCall-ID: one\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let (invite, ack, from) = (request("INVITE"), request("ACK"), ([127, 0, 0, 1], 5099).into());
    let message = Message::parse(invite.as_bytes()).unwrap();
    let slot = machine.answer(&message, from, 1_000 * MILLI, &mut kept).unwrap();
    assert!(machine.is_of(slot, b"one"));
    let expected = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z1\r\nVia: SIP/2.0/UDP g;branch=z2\r\nFrom: <sip:a@b>;tag=t\r\n\
                    To: <sip:x>;tag=1\r\nCall-ID: one\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(kept.0, [expected]);
    machine.receive(slot, &message, 1_010 * MILLI, &mut kept);
    assert_eq!(kept.0, [expected, expected]);
    machine.now = 1_020 * MILLI;
    machine.receive(slot, &Message::parse(ack.as_bytes()).unwrap(), 1_020 * MILLI, &mut kept);
    assert_eq!((machine.ended.len(), machine.live()), (1, 1));
    pass(&mut machine, &mut kept, 1_080 * MILLI);
    assert_eq!(machine.live(), 0);
    let other = request("BYE");
    assert!(
        machine.answer(&Message::parse(other.as_bytes()).unwrap(), from, 1_090 * MILLI, &mut kept).is_none()
    );
}

#[test]
fn a_loop_without_end_fails_the_call() {
    let shared = shared(&format!("{}<label id=\"1\"/><nop next=\"1\"/>{RECV}", invite("")), &[]);
    let (mut machine, mut kept) = (machine(&shared), Kept::default());
    machine.begin(1_000 * MILLI, 0, &mut kept);
    assert_eq!(machine.ended[0].outcome, Outcome::Other);
    assert!(machine.figures().failed.keys().all(|cause| cause.contains("loop without end")));
}

#[test]
fn an_address_that_nobody_can_send_to_is_refused() {
    let mut spec = spec("<recv request=\"INVITE\"/>", &[]);
    for all in ["0.0.0.0:0", "[::]:0"] {
        spec.pool.target = all.parse().unwrap();
        spec.local = vec![spec.pool.target.ip()];
        let answered = answer_script(&spec, &AtomicBool::new(true), |_| panic!("{all}"));
        let error = answered.unwrap_err().to_string();
        assert!(error.contains("give the one address that peers reach it at"), "{error}");
    }
    spec.pool.target = ([127, 0, 0, 1], 0).into();
    spec.local = vec![spec.pool.target.ip()];
    answer_script(&spec, &AtomicBool::new(true), |_| ()).unwrap();
}

/// Calls that had no room were told as what the kernel dropped, and room was that of the callers.
#[test]
fn a_server_without_room_for_a_call_says_so() {
    let mut spec = spec(
        "<recv request=\"INVITE\"/><send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n\
         [last_CSeq:]\nContent-Length: 0\n]]></send><recv request=\"BYE\" timeout=\"86400000\"/>",
        &[],
    );
    spec.pool.target = ([127, 0, 0, 1], 0).into();
    spec.pool.connections = 1;
    let invite = |call: &str| {
        format!(
            "INVITE sip:x SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z1\r\nFrom: <sip:a@b>;tag=t\r\nTo: <sip:x>\r\nCall-ID: {call}\r\n\
             CSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let client = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let patience = std::time::Duration::from_secs(30);
    client.set_read_timeout(Some(patience)).unwrap();
    let (stop, (sender, receiver)) = (AtomicBool::new(false), mpsc::channel());
    let (answered, figures) = thread::scope(|scope| {
        let (spec, stop) = (&spec, &stop);
        let server = scope.spawn(move || answer_script(spec, stop, |address| sender.send(address).unwrap()));
        let answered = receiver.recv_timeout(patience).is_ok_and(|address| {
            let mut bytes = [0; 2_048];
            // Once the first is answered again, the second has been looked at.
            ["one", "two", "one"].into_iter().all(|call| {
                client.send_to(invite(call).as_bytes(), address).is_ok()
                    && (call == "two" || client.recv_from(&mut bytes).is_ok())
            })
        });
        stop.store(true, Relaxed);
        (answered, server.join().unwrap().unwrap())
    });
    assert!(answered, "{figures:?}");
    assert_eq!((figures.calls, figures.stray), (1, BTreeMap::from([("no-room".to_owned(), 1)])));
}

#[test]
fn own_callees_have_room_for_all_calls_there_can_be() {
    let mut spec = spec(RECV, &[]);
    spec.settings.media = Some(MediaOptions {
        law: VoiceLaw::A,
        packet: Nanos::from_millis(20),
        jitter_buffer: Nanos::from_millis(60),
    });
    assert!(spec.callee().is_none());
    spec.settings.callees = true;
    let callee = spec.callee().unwrap();
    callee.check().unwrap();
    assert_eq!((spec.pool.connections, callee.pool.connections), (10, 25_000));
}
