//! The embedded SIP server over loopback: clients written out by hand, so that what is tested is
//! what goes over the wire.

mod sip_client;

use std::time::{Duration, Instant};

use sip_client::{Client, Server};

/// After which the server asks again, where it has no answer.
const T1: Duration = Duration::from_millis(500);
/// In which comes what comes at all.
const SOON: Duration = Duration::from_millis(50);

/// Alice calls Bob: the flow of RFC 3665 section 3.2, with one proxy.
#[test]
fn a_call_goes_through() {
    let server = Server::start(1);
    let (alice, bob) = (Client::new(&server), Client::new(&server));
    alice.register(1, 60);
    bob.register(2, 60);
    let invite = alice.request("INVITE", 2, "c1", 1, "Contact: <sip:subs000001@{local}>\r\n", "v=0\r\n");
    alice.send(&invite);
    assert_eq!(alice.status(), 100);
    let offered = bob.receive();
    assert!(offered.starts_with(&format!("INVITE sip:subs000002@{} SIP/2.0\r\n", bob.local)), "{offered}");
    assert!(
        offered.contains("\r\nMax-Forwards: 69\r\n") && offered.ends_with("\r\n\r\nv=0\r\n"),
        "{offered}"
    );
    assert_eq!(offered.matches("Via: SIP/2.0/UDP ").count(), 2);
    let route = sip_client::header(&offered, "Record-Route").unwrap().to_owned();
    assert!(route.starts_with(&format!("<sip:{};lr;k=", server.address)), "{route}");
    bob.answer(&offered, 180, "Ringing", "");
    assert_eq!(alice.status(), 180);
    bob.answer(&offered, 200, "OK", &format!("Contact: <sip:subs000002@{}>\r\n", bob.local));
    let answer = alice.receive();
    assert!(answer.starts_with("SIP/2.0 200 OK\r\n") && answer.matches("Via:").count() == 1, "{answer}");
    let to = sip_client::header(&answer, "To").unwrap().to_owned();
    let target = format!("sip:subs000002@{}", bob.local);
    alice.send(&alice.in_dialog("ACK", &target, &route, &to, "c1", 1));
    let ack = bob.receive_other(&[&offered]);
    assert!(ack.starts_with(&format!("ACK {target} SIP/2.0\r\n")) && !ack.contains("Route:"), "{ack}");
    // A re-INVITE, whose 2xx is acknowledged under its own branch: some clients do.
    let again = alice.in_dialog("INVITE", &target, &route, &to, "c1", 2);
    alice.send(&again);
    assert_eq!(alice.status(), 100);
    let offered = bob.receive();
    assert!(!offered.contains("Record-Route"), "{offered}");
    bob.answer(&offered, 200, "OK", "");
    assert_eq!(alice.status(), 200);
    alice.send(&again.replacen("INVITE", "ACK", 1).replace("2 INVITE", "2 ACK"));
    assert!(bob.receive_other(&[&offered]).starts_with("ACK "));
    // And the callee hangs up, by the same route.
    let (from, to) = (to, sip_client::header(&invite, "From").unwrap().to_owned());
    let target = format!("sip:subs000001@{}", alice.local);
    let bye = bob.in_dialog("BYE", &target, &route, &to, "c1", 7);
    let own = sip_client::header(&bye, "From").unwrap().to_owned();
    bob.send(&bye.replace(&own, &from));
    let bye = alice.receive();
    assert!(bye.starts_with(&format!("BYE {target} SIP/2.0\r\n")), "{bye}");
    alice.answer(&bye, 200, "OK", "");
    assert_eq!(bob.status(), 200);
    alice.expect_nothing_but(&[&bye], SOON);
    bob.expect_silence();
}

#[test]
fn registration_needs_the_password() {
    let server = Server::start(2);
    let client = Client::new(&server);
    client.send(&client.register_request(5, 1, "Contact: <sip:a@{local}>\r\n", None));
    let challenge = client.receive();
    assert!(challenge.starts_with("SIP/2.0 401 Unauthorized\r\n"), "{challenge}");
    let challenge = sip_client::header(&challenge, "WWW-Authenticate").unwrap().to_owned();
    assert!(challenge.contains("algorithm=MD5") && challenge.contains("qop=\"auth\""), "{challenge}");
    let with = |subscriber: u32, user: u32, password: &str, challenge: &str, contact: &str| {
        let credentials = sip_client::credentials(challenge, user, password, "REGISTER", true);
        client.send(&client.register_request(subscriber, 2, contact, Some(&credentials)));
        client.receive()
    };
    let contact = "Contact: <sip:a@{local}>;expires=100\r\n";
    assert!(with(5, 5, "wrong", &challenge, contact).starts_with("SIP/2.0 401 "));
    assert!(with(5, 6, "pw6", &challenge, contact).starts_with("SIP/2.0 403 "));
    let forged = challenge.replace("nonce=\"0", "nonce=\"f");
    let stale = with(5, 5, "pw5", &forged, contact);
    assert!(stale.starts_with("SIP/2.0 401 ") && stale.contains("stale=true"), "{stale}");
    let registered = Instant::now();
    let ok = with(5, 5, "pw5", &challenge, contact);
    assert!(ok.starts_with("SIP/2.0 200 OK\r\n"), "{ok}");
    assert!(ok.contains(&format!("\r\nContact: <sip:a@{}>;expires=100\r\n", client.local)), "{ok}");
    // Without qop, as RFC 2069 has it, and as a query.
    let credentials = sip_client::credentials(&challenge, 5, "pw5", "REGISTER", false);
    client.send(&client.register_request(5, 3, "", Some(&credentials)));
    let bindings = client.receive();
    let left = bindings.split(";expires=").nth(1).and_then(|rest| rest.split("\r\n").next());
    let left: u64 = left.and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{bindings}"));
    // Less what has passed since, in the server's whole seconds.
    let passed = registered.elapsed().as_secs() + 1;
    assert!(bindings.starts_with("SIP/2.0 200 ") && left <= 100 && left + passed >= 100, "{bindings}");
    // All at once, and nothing is left; but not where it came too late.
    client.send(&client.register_request(5, 3, contact, Some(&credentials)));
    assert_eq!(client.status(), 200);
    let gone = with(5, 5, "pw5", &challenge, "Contact: *\r\nExpires: 0\r\n");
    assert!(gone.starts_with("SIP/2.0 500 "), "an older CSeq: {gone}");
    client.send(&client.register_request(5, 4, "Contact: *\r\nExpires: 0\r\n", Some(&credentials)));
    let gone = client.receive();
    assert!(gone.starts_with("SIP/2.0 200 ") && !gone.contains("Contact"), "{gone}");
    // One who isn't a subscriber.
    client.send(&client.register_request(1_000, 1, contact, None));
    assert_eq!(client.status(), 404);
}

#[test]
fn who_is_not_there_is_not_found() {
    let server = Server::start(1);
    let (alice, bob) = (Client::new(&server), Client::new(&server));
    for (method, callee) in [("INVITE", 999_999), ("INVITE", 3), ("MESSAGE", 3)] {
        let request = alice.request(method, callee, &format!("n{method}{callee}"), 1, "", "hello");
        alice.send(&request);
        let answer = alice.receive();
        assert!(answer.starts_with("SIP/2.0 404 Not Found\r\n"), "{answer}");
        if method == "INVITE" {
            // The refusal is not remembered, and its ACK must not go anywhere.
            let to = sip_client::header(&answer, "To").unwrap();
            let plain = sip_client::header(&request, "To").unwrap();
            let ack = request.replace("INVITE", "ACK").replace(&format!("To: {plain}"), &format!("To: {to}"));
            alice.send(&ack);
        }
    }
    bob.register(3, 60);
    alice.send(&alice.request("MESSAGE", 3, "m1", 1, "", "hello"));
    let message = bob.receive();
    assert!(message.starts_with("MESSAGE ") && message.ends_with("\r\n\r\nhello"), "{message}");
    bob.answer(&message, 200, "OK", "");
    assert_eq!(alice.status(), 200);
    let carol = Client::new(&server);
    carol.register(4, 1);
    std::thread::sleep(Duration::from_millis(2_100));
    alice.send(&alice.request("MESSAGE", 4, "m2", 1, "", "hello"));
    assert_eq!(alice.status(), 404, "the binding has expired");
    carol.expect_silence();
    bob.expect_nothing_but(&[&message], SOON);
}

#[test]
fn a_cancelled_call_ends() {
    let server = Server::start(1);
    let (alice, bob) = (Client::new(&server), Client::new(&server));
    bob.register(2, 60);
    let invite = alice.request("INVITE", 2, "c2", 1, "", "");
    let cancel = invite.replace("INVITE", "CANCEL");
    alice.send(&cancel);
    assert_eq!(alice.status(), 481, "nothing to cancel yet");
    alice.send(&invite);
    assert_eq!(alice.status(), 100);
    let offered = bob.receive();
    alice.send(&cancel);
    let answer = alice.receive();
    assert!(answer.starts_with("SIP/2.0 200 ") && answer.contains("1 CANCEL"), "{answer}");
    // Only once the callee has shown that it is there.
    bob.expect_nothing_but(&[&offered], Duration::from_millis(100));
    bob.answer(&offered, 180, "Ringing", "");
    assert_eq!(alice.status(), 180);
    let cancelled = bob.receive_other(&[&offered]);
    assert!(cancelled.starts_with("CANCEL ") && cancelled.contains("CSeq: 1 CANCEL\r\n"), "{cancelled}");
    assert_eq!(cancelled.matches("Via:").count(), 1);
    let branch = |text: &str| sip_client::header(text, "Via").unwrap().to_owned();
    assert_eq!(branch(&cancelled), branch(&offered));
    bob.answer(&cancelled, 200, "OK", "");
    bob.answer(&offered, 487, "Request Terminated", "");
    // The proxy acknowledges downstream; upstream it wants the caller's ACK.
    let ack = bob.receive_other(&[&cancelled]);
    assert!(ack.starts_with("ACK ") && ack.contains(";tag=bob"), "{ack}");
    let terminated = alice.receive();
    assert!(terminated.starts_with("SIP/2.0 487 "), "{terminated}");
    assert_eq!(alice.status(), 487, "sent again until it is acknowledged");
    alice.send(&invite.replace("INVITE", "ACK"));
    alice.expect_no_more("SIP/2.0 487 ");
    bob.expect_nothing_but(&[&cancelled], SOON);
}

#[test]
fn retransmissions_are_absorbed_and_made() {
    let server = Server::start(2);
    let (alice, bob, carol) = (Client::new(&server), Client::new(&server), Client::new(&server));
    bob.register(2, 60);
    let invite = alice.request("INVITE", 2, "c3", 1, "", "");
    alice.send(&invite);
    assert_eq!(alice.status(), 100);
    alice.send(&invite);
    assert_eq!(alice.status(), 100);
    let first = bob.receive();
    // After T1 once more, by the proxy.
    assert_eq!(bob.receive(), first);
    bob.answer(&first, 486, "Busy Here", "");
    assert!(bob.receive_other(&[&first]).starts_with("ACK "));
    assert_eq!(alice.status(), 486);
    alice.send(&invite);
    assert_eq!(alice.status(), 486);
    bob.answer(&first, 486, "Busy Here", "");
    assert!(bob.receive_other(&[&first]).starts_with("ACK "));
    alice.send(&invite.replace("INVITE", "ACK"));
    alice.expect_no_more("SIP/2.0 486 ");
    // The callee's 200 to a MESSAGE is lost for the caller, who asks again.
    let message = carol.request("MESSAGE", 2, "m3", 1, "", "x");
    let began = Instant::now();
    carol.send(&message);
    let offered = bob.receive();
    carol.send(&message);
    carol.expect_silence();
    bob.answer(&offered, 200, "OK", "");
    assert_eq!(carol.status(), 200);
    let in_time = began.elapsed() < T1;
    carol.send(&message);
    assert_eq!(carol.status(), 200);
    // Where this machine was that slow, the server has asked again by itself.
    let again = [offered.as_str()];
    bob.expect_nothing_but(if in_time { &[] } else { &again }, SOON);
    carol.expect_silence();
}

#[test]
fn hostile_messages_are_survived() {
    let server = Server::start(1);
    let (alice, bob) = (Client::new(&server), Client::new(&server));
    bob.register(2, 60);
    let good = alice.request("MESSAGE", 2, "h0", 1, "", "x");
    let with = |from: &str, to: &str, id: &str| good.replace("h0", id).replace(from, to);
    let proxy = server.address;
    for (text, status) in [
        (with("Max-Forwards: 70", "Max-Forwards: 0", "h1"), 483),
        (with("Max-Forwards: 70", "Max-Forwards: x", "h2"), 400),
        (with("Max-Forwards: 70", "Proxy-Require: foo", "h3"), 420),
        (with("1 MESSAGE", "1 INVITE", "h4"), 400),
        (with("1 MESSAGE", "99999999999 MESSAGE", "h5"), 400),
        (with("Max-Forwards: 70", "Route: <sip:127.0.0.1:9;lr>", "h6"), 403),
        (with("Max-Forwards: 70", &format!("Route: <sip:{proxy};lr;k=00>, <sip:127.0.0.1:9>"), "h7"), 403),
        (with("sip:subs000002@vtax.test SIP", "sip:x@127.0.0.1:9 SIP", "h8"), 403),
        (with("sip:subs000002@vtax.test SIP", "tel:+1 SIP", "h9"), 416),
        (with("sip:subs000002@vtax.test SIP", "sip:a@b@c SIP", "h10"), 400),
        (with("To: ", "To: <sip:\r\nX: ", "h11"), 400),
    ] {
        alice.send(&text);
        assert_eq!(alice.status(), status, "{text}");
    }
    // Nothing to answer, nothing to pass on.
    for junk in [
        "",
        "\r\n\r\n",
        "x",
        "SIP/2.0 200 OK\r\n\r\n",
        "MESSAGE sip:subs000002@vtax.test SIP/2.0\r\n\r\n",
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK000000000000000000000000\r\nFrom: <sip:a@b>\r\n\
         To: <sip:a@b>\r\nCall-ID: x\r\nCSeq: 1 MESSAGE\r\n\r\n",
    ] {
        alice.send(junk);
    }
    alice.send_bytes(&vec![b'\xff'; 65_000]);
    alice.send(
        &with("1 MESSAGE", "1 ACK", "h12").replace("MESSAGE sip", "ACK sip").replace("Via: ", "Via: ;"),
    );
    let big = good.replace("h0", "h13").replace("\r\nMax", &format!("\r\nX: {}\r\nMax", "y".repeat(60_000)));
    alice.send(&big);
    let offered = bob.receive();
    assert!(offered.contains("yyyy"));
    bob.answer(&offered, 200, "OK", "");
    assert_eq!(alice.status(), 200);
    for cut in (0..good.len()).step_by(7) {
        alice.send(&good[..cut]);
    }
    alice.send(&alice.request("MESSAGE", 2, "h14", 1, "", "x"));
    bob.answer(&bob.receive_other(&[&offered]), 200, "OK", "");
    while alice.status() != 200 {}
}

#[test]
fn it_speaks_tcp_too() {
    let server = Server::start(2);
    let (alice, bob) = (Client::tcp(&server), Client::tcp(&server));
    let carol = Client::new(&server);
    bob.register(2, 60);
    carol.register(3, 60);
    alice.send(&alice.request("MESSAGE", 2, "t1", 1, "", "over tcp"));
    let message = bob.receive();
    assert!(message.contains("Via: SIP/2.0/TCP ") && message.ends_with("over tcp"), "{message}");
    bob.answer(&message, 200, "OK", "");
    assert_eq!(alice.status(), 200);
    // From a stream to a datagram.
    alice.send(&alice.request("INVITE", 3, "t2", 1, "", ""));
    assert_eq!(alice.status(), 100);
    let invite = carol.receive();
    carol.answer(&invite, 486, "Busy Here", "");
    assert!(carol.receive_other(&[&invite]).starts_with("ACK "));
    assert_eq!(alice.status(), 486);
    // And back, torn into single bytes.
    carol.send(&carol.request("MESSAGE", 2, "t3", 1, "", "x"));
    let message = bob.receive();
    bob.answer_torn(&message, 200, "OK");
    assert_eq!(carol.status(), 200);
    // A stream that makes no sense ends.
    let mallory = Client::tcp(&server);
    mallory.send("INVITE sip:a SIP/2.0\r\nContent-Length: nonsense\r\n\r\n");
    mallory.expect_end();
    alice.send(&alice.request("MESSAGE", 2, "t4", 1, "", "still here"));
    assert!(bob.receive().ends_with("still here"));
}

#[test]
fn options_and_bad_listens() {
    let server = Server::start(1);
    let client = Client::new(&server);
    let ping = client
        .request("OPTIONS", 2, "o1", 1, "", "")
        .replace("sip:subs000002@vtax.test SIP", "sip:vtax.test SIP");
    client.send(&ping);
    assert_eq!(client.status(), 200);
    let options = sip_client::options(server.address, 1);
    let stop = std::sync::atomic::AtomicBool::new(true);
    let refused = vtax_service::embedded::sip::serve(&options, &stop, |_| ()).unwrap_err();
    assert!(refused.to_string().contains("listening on"), "{refused}");
    let everywhere = sip_client::options(([0, 0, 0, 0], 0).into(), 1);
    let refused = vtax_service::embedded::sip::serve(&everywhere, &stop, |_| ()).unwrap_err();
    assert!(refused.to_string().contains("the one address"), "{refused}");
}
