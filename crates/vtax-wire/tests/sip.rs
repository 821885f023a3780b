//! The SIP codec: values, framing, writing.

use proptest::prelude::*;
use vtax_wire::sip::{
    Address, Contact, Framed, Framer, MESSAGE_BYTES_MAX, Message, Method, Name, Scheme, SipError, StartLine,
    Transport, Uri, Values, Via, Writer,
};

const INVITE: &[u8] = b"INVITE sip:bob@biloxi.example.com SIP/2.0\r\n\
    Via: SIP/2.0/TCP client.atlanta.example.com:5060;branch=z9hG4bK74bf9\r\n\
    Via: SIP/2.0/UDP 192.0.2.4;received=192.0.2.5;rport=99;branch=z9hG4bKa, SIP/2.0/UDP [2001:db8::1]:5070\r\n\
    Max-Forwards: 70\r\n\
    f: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl\r\n\
    To: \"Bob, \\\"the\\\" one\" <sip:bob@biloxi.example.com;user=phone>\r\n\
    Call-ID: 3848276298220188511@atlanta.example.com\r\n\
    CSeq: 1 INVITE\r\n\
    Contact: <sip:alice@client.atlanta.example.com;transport=tcp>;expires=60;q=0.5, sip:x@192.0.2.1\r\n\
    Record-Route: <sip:a.example;lr>,\r\n <sip:b.example;lr=on>\r\n\
    X-Own: folded\r\n\tvalue\r\n\
    Expires: 3600\r\n\
    Content-Type: application/sdp\r\n\
    Content-Length: 4\r\n\
    \r\n\
    v=0\nand more";

#[test]
fn the_headers_of_an_invite() {
    let message = Message::parse(INVITE).unwrap();
    message.check().unwrap();
    assert_eq!(
        message.start(),
        StartLine::Request {
            method: Method::Invite,
            method_text: b"INVITE",
            uri: b"sip:bob@biloxi.example.com"
        }
    );
    let via = message.via().unwrap();
    assert_eq!(
        (via.transport, via.host, via.port),
        (Transport::Tcp, &b"client.atlanta.example.com"[..], Some(5060))
    );
    assert_eq!(via.branch, Some(&b"z9hG4bK74bf9"[..]));
    assert_eq!((via.address(), via.received), (None, None));
    let vias: Vec<Via<'_>> = message.values(Name::Via).map(|v| Via::parse(v).unwrap()).collect();
    assert_eq!(vias.len(), 3);
    assert_eq!((vias[1].received, vias[1].rport), (Some(&b"192.0.2.5"[..]), Some(Some(99))));
    assert_eq!((vias[2].address(), vias[2].port), (Some("2001:db8::1".parse().unwrap()), Some(5070)));
    assert!(vias[1].is_branch_unique() && !vias[2].is_branch_unique());
    assert_eq!(message.from().unwrap().tag, Some(&b"9fxced76sl"[..]));
    let to = message.to().unwrap();
    assert_eq!((to.display, to.tag), (&br#"Bob, \"the\" one"#[..], None));
    assert_eq!(to.parse_uri().unwrap().param(b"USER"), Some(Some(&b"phone"[..])));
    assert_eq!(message.cseq().unwrap().number, 1);
    assert_eq!(message.max_forwards(), Ok(Some(70)));
    assert_eq!(message.expires(), Ok(Some(3600)));
    let contacts: Vec<_> = message.contacts().map(Result::unwrap).collect();
    let [Contact::Address(first), Contact::Address(second)] = contacts[..] else { panic!("{contacts:?}") };
    assert_eq!((first.expires(), second.expires()), (Some(60), None));
    assert_eq!(first.params().get(b"q"), Some(Some(&b"0.5"[..])));
    let routes: Vec<_> =
        message.addresses(Name::RecordRoute).map(|r| r.unwrap().parse_uri().unwrap()).collect();
    let loose: Vec<_> = routes.iter().map(|route| route.param(b"lr")).collect();
    assert_eq!(loose, [Some(None), Some(Some(&b"on"[..]))]);
    assert_eq!(message.header_named(b"x-own"), Some(&b"folded\r\n\tvalue"[..]));
    assert_eq!(message.body(), b"v=0\n");
    assert_eq!(message.header_lines().count(), 13);
    let raw: Vec<u8> = message.raw_lines().flat_map(|(_, raw, _)| raw).copied().collect();
    assert_eq!([message.raw_start(), &raw, b"\r\n", message.body()].concat(), message.bytes());
    assert_eq!([message.raw_start(), message.tail(0)].concat(), message.bytes());
    assert_eq!(message.tail(13), b"\r\nv=0\n");
    let add = |via: &str, source: &str| {
        let mut out = Vec::new();
        Via::parse(via.as_bytes()).unwrap().write_received(source.parse().unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    };
    let source = "192.0.2.9:4711";
    assert_eq!(add("SIP/2.0/UDP 192.0.2.9:5060;branch=b", source), "SIP/2.0/UDP 192.0.2.9:5060;branch=b");
    assert_eq!(
        add("SIP/2.0/UDP h;branch=b ; x=\"y\"", source),
        "SIP/2.0/UDP h;branch=b; x=\"y\";received=192.0.2.9"
    );
    let both = "SIP/2.0/UDP 192.0.2.9;branch=b;received=192.0.2.9;rport=4711";
    assert_eq!(add("SIP/2.0/UDP 192.0.2.9;rport;received=1.1.1.1;branch=b", source), both);
}

#[test]
fn uris_are_taken_to_pieces() {
    let uri =
        Uri::parse(b"sips:al%69ce;x=1?:pa:ss@[2001:db8::9]:5061;transport=tcp;lr?subject=a&to=b").unwrap();
    assert_eq!(
        (uri.scheme, uri.user, uri.password),
        (Scheme::Sips, Some(&b"al%69ce;x=1?"[..]), Some(&b"pa:ss"[..]))
    );
    assert_eq!((uri.host, uri.port), (&b"[2001:db8::9]"[..], Some(5061)));
    assert_eq!(uri.param(b"transport"), Some(Some(&b"tcp"[..])));
    assert_eq!(uri.param(b"lr"), Some(None));
    assert_eq!(uri.headers, b"subject=a&to=b");
    let mut buffer = [0; 16];
    assert_eq!(uri.unescaped_user(&mut buffer), Some(&b"alice;x=1?"[..]));
    assert_eq!(uri.unescaped_user(&mut [0; 3]), None);
    assert_eq!(Uri::parse(b"tel:+358-9-123").unwrap().scheme, Scheme::Other);
    let bad: [&[u8]; 14] = [
        b"",
        b"sip:",
        b"sip",
        b"sip:@host",
        b"sip:a@",
        b"sip:a@b@c",
        b"sip:a b@c",
        b"sip:a@b:x",
        b"sip:a@b:65536",
        b"sip:%4@b",
        b"sip:a@[::1",
        b"sip:a@b;c@d",
        b"sip:a@b c",
        b"<sip:a@b>",
    ];
    for text in bad {
        assert!(Uri::parse(text).is_err(), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let head =
        |lines: &str| format!("INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\n{lines}\r\n");
    let rest = "From: <sip:a@b>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n";
    for (lines, error) in [
        ("", SipError::Missing(Name::From)),
        ("From: <sip:a@b>;tag=1\r\nFrom: <sip:a@b>;tag=1\r\n", SipError::Repeated(Name::From)),
        ("No colon\r\n", SipError::HeaderName),
        (": x\r\n", SipError::HeaderName),
        ("A: b\rc\r\n", SipError::LineEnd),
        ("l: 1\r\n", SipError::BodyTruncated),
        ("l: -1\r\n", SipError::ContentLength),
        ("l: 0\r\nContent-Length: 0\r\n", SipError::ContentLength),
        (&rest.replace("1 INVITE", "1 ACK"), SipError::MethodMismatch),
        (&rest.replace("1 INVITE", "4294967296 INVITE"), SipError::Value(Name::CSeq)),
        (&rest.replace("1 INVITE", "1INVITE"), SipError::Value(Name::CSeq)),
        (&rest.replace("tag=1", "tag="), SipError::Value(Name::From)),
        (&rest.replace("Call-ID: x", "Call-ID:"), SipError::Value(Name::CallId)),
        (&format!("{rest}Max-Forwards: 256\r\n"), SipError::Value(Name::MaxForwards)),
        (&"A: b\r\n".repeat(128), SipError::TooManyHeaders),
    ] {
        let text = head(lines);
        let found = Message::parse(text.as_bytes()).and_then(|m| m.check());
        assert_eq!(found, Err(error), "{text}");
    }
    Message::parse(head(rest).as_bytes()).unwrap().check().unwrap();
    assert_eq!(Message::parse(&vec![b'x'; MESSAGE_BYTES_MAX + 1]).unwrap_err(), SipError::TooLarge);
    assert_eq!(Message::parse(b"INVITE sip:a@b SIP/2.0\r\nA: b\r\n").unwrap_err(), SipError::Unended);
    assert_eq!(Message::parse(b"INVITE sip:a@b SIP/3.0\r\n\r\n").unwrap_err(), SipError::Version);
    assert_eq!(Message::parse(b"SIP/2.0 99 x\r\n\r\n").unwrap_err(), SipError::StatusCode);
}

#[test]
fn a_response_copies_what_it_has_to() {
    let request = Message::parse(INVITE).unwrap();
    let mut out = Vec::new();
    Writer::respond(&mut out, &request, 180, "Ringing", Some(b"t1")).end();
    let response = Message::parse(&out).unwrap();
    response.check().unwrap();
    assert_eq!(response.status(), Some(180));
    assert!(response.values(Name::Via).eq(request.values(Name::Via)));
    assert!(response.values(Name::RecordRoute).eq(request.values(Name::RecordRoute)));
    assert_eq!(response.to().unwrap().tag, Some(&b"t1"[..]));
    assert_eq!(response.from(), request.from());
    out.clear();
    let top = |out: &mut Vec<u8>| out.extend_from_slice(b"SIP/2.0/UDP h;received=192.0.2.9");
    Writer::respond_with(&mut out, &request, 404, "Not Found", None, top).end();
    let response = Message::parse(&out).unwrap();
    assert_eq!(response.values(Name::Via).count(), 3);
    assert_eq!(response.via().unwrap().received, Some(&b"192.0.2.9"[..]));
    assert_eq!(response.header(Name::RecordRoute), None);
    assert_eq!(response.to().unwrap().tag, None);
}

#[test]
fn a_stream_is_framed() {
    let mut stream = b"\r\n\r\n".to_vec();
    let message = &INVITE[..INVITE.len() - b"and more".len()];
    stream.extend_from_slice(message);
    stream.extend_from_slice(b"\r\n");
    stream.extend_from_slice(message);
    let mut framer = Framer::new();
    // Byte by byte, as torn as it gets.
    let (mut held, mut found) = (Vec::new(), Vec::new());
    for byte in &stream {
        held.push(*byte);
        while !held.is_empty() {
            match framer.scan(&held).unwrap() {
                Framed::Empty(length) => drop(held.drain(..length)),
                Framed::Message(length) => found.push(held.drain(..length).collect::<Vec<u8>>()),
                Framed::Incomplete => break,
            }
        }
    }
    assert_eq!(found, [message, message]);
    let error = |bytes: &[u8]| Framer::new().scan(bytes).unwrap_err();
    assert_eq!(error(b"INVITE x SIP/2.0\r\nA: b\r\n\r\n"), SipError::NoContentLength);
    assert_eq!(error(b"INVITE x SIP/2.0\r\nl: 70000\r\n\r\n"), SipError::ContentLength);
    assert_eq!(error(b"INVITE x SIP/2.0\r\nl: 65535\r\n\r\n"), SipError::TooLarge);
    assert_eq!(error(b"INVITE x SIP/2.0\r\nl: 1\r\nContent-Length: 1\r\n\r\n"), SipError::ContentLength);
    assert_eq!(error(&vec![b'x'; MESSAGE_BYTES_MAX + 1]), SipError::TooLarge);
}

#[test]
fn lists_are_split_at_the_right_commas() {
    let parts: Vec<_> = Values::new(br#""a, \", b" <sip:a@b;x=1,2>;q=1 , <sip:c@d>,e"#).collect();
    assert_eq!(parts, [&br#""a, \", b" <sip:a@b;x=1,2>;q=1"#[..], b"<sip:c@d>", b"e"]);
    for open in [&b"\"a, b"[..], b"<a, b", b"a, \"b\\"] {
        assert!(Values::new(open).count() <= 2);
    }
}

/// Everything the codec can be asked about a message.
fn ask_all(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else { return };
    let _ = message.check();
    let _ = (message.request_uri(), message.body(), message.header_named(b"subject"));
    for (name, _, value) in message.header_lines() {
        assert!(message.lines(name).count() <= 128);
        let _ = (Via::parse(value), Address::parse(value), Contact::parse(value), Uri::parse(value));
        for part in Values::new(value) {
            assert!(part.len() <= value.len());
        }
    }
    let mut out = Vec::new();
    Writer::respond(&mut out, &message, 200, "OK", Some(b"x")).end();
    if message.check().is_ok() && message.method().is_some() && out.len() <= MESSAGE_BYTES_MAX {
        Message::parse(&out).unwrap().check().unwrap();
    }
}

#[test]
fn every_truncation_is_survived() {
    for end in 0..INVITE.len() {
        ask_all(&INVITE[..end]);
        let mut framer = Framer::new();
        let _ = framer.scan(&INVITE[..end]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        ask_all(&bytes);
        let _ = Framer::new().scan(&bytes);
    }

    #[test]
    fn any_damage_is_survived(
        damage in proptest::collection::vec((0..INVITE.len(), any::<u8>()), 1..8),
        cut in 0..INVITE.len(),
    ) {
        let mut bytes = INVITE.to_vec();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        ask_all(&bytes);
        bytes.remove(cut);
        ask_all(&bytes);
    }

    #[test]
    fn what_is_written_is_read(
        user in "[a-z0-9.~*+%&=]{1,12}", host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}", port in any::<u16>(),
        branch in "[a-zA-Z0-9]{1,16}", tag in "[a-z0-9]{1,8}", number in 0u32..1 << 31,
        body in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let user = user.replace('%', "%25");
        let uri = format!("sip:{user}@{host}:{port}");
        let branch = format!("z9hG4bK{branch}");
        let mut out = b"before".to_vec();
        Writer::request(&mut out, Method::Message, uri.as_bytes())
            .via(Transport::Udp, host.as_bytes(), branch.as_bytes())
            .header_of(Name::From, &[b"<", uri.as_bytes(), b">;tag=", tag.as_bytes()])
            .header_of(Name::To, &[b"<", uri.as_bytes(), b">"])
            .header(Name::CallId, b"c1")
            .cseq(number, Method::Message)
            .number(Name::MaxForwards, 70)
            .line(b"X-Own", &[b"a", b"b"])
            .body(b"text/plain", &body);
        let message = Message::parse(&out[6..]).unwrap();
        message.check().unwrap();
        let read = message.request_uri().unwrap();
        prop_assert_eq!((read.user, read.host, read.port), (Some(user.as_bytes()), host.as_bytes(), Some(port)));
        prop_assert_eq!(message.via().unwrap().branch, Some(branch.as_bytes()));
        prop_assert_eq!(message.via().unwrap().rport, Some(None));
        prop_assert_eq!(message.from().unwrap().tag, Some(tag.as_bytes()));
        prop_assert_eq!(message.cseq().unwrap().number, number);
        prop_assert_eq!(message.header_named(b"x-own"), Some(&b"ab"[..]));
        prop_assert_eq!(message.body(), &body[..]);
        prop_assert_eq!(Framer::new().scan(&out[6..]), Ok(Framed::Message(out.len() - 6)));
    }
}
