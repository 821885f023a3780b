//! The 49 messages of RFC 4475: the valid ones mean what the RFC says, the others are refused, or
//! tolerated where the RFC lets a liberal element do so.
//!
//! `torture/messages.txt` has them in the RFC's own notation (its section 2): a line of the file
//! is a line of the message, and `<hex>`, `<repeat>` and `<allOneLine>` stand for what can't be
//! written so. `multi01` ends with an empty line, without which its body would be shorter than it
//! says.

use vtax_wire::sip::{
    Contact, Credentials, Framed, Framer, Message, Method, Name, Scheme, SipError, StartLine, Transport, Uri,
    Via, Writer,
};

const FILE: &str = include_str!("torture/messages.txt");

/// Replaces `<hex>` and `<repeat>` in a line.
fn expand(line: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find('<') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        if let Some((hex, after)) = rest.strip_prefix("<hex>").and_then(|r| r.split_once("</hex>")) {
            let digits: Vec<char> = hex.chars().collect();
            out.extend(
                digits.chunks(2).map(|c| u8::from_str_radix(&c.iter().collect::<String>(), 16).unwrap()),
            );
            rest = after;
        } else if let Some(inner) = rest.strip_prefix("<repeat count=") {
            let (count, inner) = inner.split_once('>').unwrap();
            let (text, after) = inner.split_once("</repeat>").unwrap();
            out.extend_from_slice(text.repeat(count.parse().unwrap()).as_bytes());
            rest = after;
        } else {
            out.push(b'<');
            rest = &rest[1..];
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// The bytes of the message of that name.
fn message(name: &str) -> Vec<u8> {
    let mut sections = FILE.split("== ").skip(1);
    let section = sections.find(|s| s.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("no {name}"));
    let mut out = Vec::new();
    let mut joined: Option<String> = None;
    for line in section.lines().skip(1) {
        match (line, &mut joined) {
            ("<allOneLine>", _) => joined = Some(String::new()),
            ("</allOneLine>", Some(text)) => {
                out.extend(expand(text));
                out.extend_from_slice(b"\r\n");
                joined = None;
            }
            (line, Some(text)) => text.push_str(line),
            (line, None) => {
                out.extend(expand(line));
                out.extend_from_slice(b"\r\n");
            }
        }
    }
    out
}

fn names() -> Vec<&'static str> {
    FILE.split("== ").skip(1).map(|s| s.split(' ').next().unwrap()).collect()
}

/// Parses and checks; panics where either fails.
fn valid(bytes: &[u8]) -> Message<'_> {
    let message = Message::parse(bytes).unwrap();
    message.check().unwrap();
    message
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn there_are_49_and_all_are_asked_about() {
    assert_eq!(names().len(), 49);
}

#[test]
fn what_is_wrong_is_refused() {
    for (name, error) in [
        ("badinv01", SipError::Value(Name::Via)),
        ("clerr", SipError::BodyTruncated),
        ("ncl", SipError::ContentLength),
        ("scalar02", SipError::Value(Name::CSeq)),
        ("scalarlg", SipError::Value(Name::CSeq)),
        ("quotbal", SipError::Value(Name::To)),
        ("ltgtruri", SipError::Uri),
        ("lwsruri", SipError::StartLine),
        ("lwsstart", SipError::StartLine),
        ("trws", SipError::StartLine),
        ("regbadct", SipError::Value(Name::Contact)),
        ("badaspec", SipError::Value(Name::To)),
        ("baddn", SipError::Value(Name::From)),
        ("badvers", SipError::Version),
        ("mismatch01", SipError::MethodMismatch),
        ("mismatch02", SipError::MethodMismatch),
        ("bigcode", SipError::StatusCode),
        ("insuf", SipError::Missing(Name::From)),
        ("multi01", SipError::Repeated(Name::From)),
        ("mcl01", SipError::ContentLength),
    ] {
        let bytes = message(name);
        let found = Message::parse(&bytes).and_then(|m| m.check());
        assert_eq!(found, Err(error), "{name}");
    }
}

#[test]
fn overlarge_numbers_each_for_itself() {
    let bytes = message("scalar02");
    let message = Message::parse(&bytes).unwrap();
    assert_eq!(message.max_forwards(), Err(SipError::Value(Name::MaxForwards)));
    // More seconds than can be counted are as many as can be.
    assert_eq!(message.expires(), Ok(Some(u32::MAX)));
    let Some(Ok(Contact::Address(contact))) = message.contacts().next() else { panic!() };
    assert_eq!(contact.expires(), Some(u32::MAX));
}

#[test]
fn wsinv() {
    let bytes = message("wsinv");
    let message = valid(&bytes);
    assert_eq!(text(message.request_uri().unwrap().params), "unknownparam");
    assert_eq!(message.to().unwrap().tag.map(text), Some("1918181833n"));
    let from = message.from().unwrap();
    assert_eq!((text(from.display), from.tag.map(text)), (r#"J Rosenberg \\\""#, Some("98asjd8")));
    assert_eq!(message.max_forwards(), Ok(Some(68)));
    assert_eq!(message.cseq().unwrap().number, 9);
    let vias: Vec<Via<'_>> = message.values(Name::Via).map(|v| Via::parse(v).unwrap()).collect();
    let seen: Vec<_> = vias.iter().map(|v| (v.transport, text(v.host), text(v.branch.unwrap()))).collect();
    assert_eq!(
        seen,
        [
            (Transport::Udp, "192.0.2.2", "390skdjuw"),
            (Transport::Tcp, "spindle.example.com", "z9hG4bK9ikj8"),
            (Transport::Udp, "192.168.255.111", "z9hG4bK30239"),
        ]
    );
    assert_eq!(message.header_named(b"s"), Some(&b""[..]));
    assert_eq!(message.header_named(b"UNKNOWNHEADERWITHUNUSUALVALUE").map(text), Some(";;,,;;,;"));
    let folded = message.header_named(b"NewFangledHeader").map(text);
    assert_eq!(folded, Some("newfangled value\r\n continued newfangled value"));
    let route = message.addresses(Name::Route).next().unwrap().unwrap().parse_uri().unwrap();
    assert_eq!((route.param(b"lr"), route.param(b"unknown-no-value")), (Some(None), Some(None)));
    let Some(Ok(Contact::Address(contact))) = message.contacts().next() else { panic!() };
    assert_eq!(text(contact.display), r#"Quoted string \"\""#);
    let param = |name: &str| contact.params().get(name.as_bytes()).map(|v| v.map(text));
    assert_eq!(param("newparam"), Some(Some("newvalue")));
    assert_eq!((param("secondparam"), param("q")), (Some(None), Some(Some("0.33"))));
    assert_eq!(message.body().len(), 150);
}

#[test]
fn intmeth() {
    let bytes = message("intmeth");
    let message = valid(&bytes);
    let StartLine::Request { method, method_text, .. } = message.start() else { panic!() };
    assert_eq!((method, text(method_text)), (Method::Other, "!interesting-Method0123456789_*+`.%indeed'~"));
    let uri = message.request_uri().unwrap();
    assert_eq!(uri.user.map(text), Some("1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"));
    assert_eq!(uri.password.map(text), Some("&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"));
    assert_eq!(message.to().unwrap().display, b"BEL:\\\x07 NUL:\\\x00 DEL:\\\x7f");
    let from = message.from().unwrap();
    assert_eq!(text(from.display), "token1~` token2'+_ token3*%!.-");
    assert_eq!(from.tag.map(text), Some("_token~1'+`*%!-."));
    assert_eq!(from.params().get(b"fromParam''~+*_!.-%").flatten().map(text), Some("работающий"));
    assert_eq!(text(message.call_id().unwrap()), "intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}{");
    assert_eq!(message.max_forwards(), Ok(Some(255)));
    let extension = message.header_named(b"extensionHeader-!.%*+_`'~");
    assert_eq!(extension.map(text), Some("\u{feff}大停電"));
}

#[test]
fn escapes() {
    let bytes = message("esc01");
    let message_1 = valid(&bytes);
    let mut buffer = [0; 64];
    let unescaped =
        |uri: Uri<'_>, buffer: &mut [u8; 64]| text(uri.unescaped_user(buffer).unwrap()).to_owned();
    assert_eq!(unescaped(message_1.request_uri().unwrap(), &mut buffer), "sips:user@example.com");
    assert_eq!(unescaped(message_1.to().unwrap().parse_uri().unwrap(), &mut buffer), "user");
    assert_eq!(unescaped(message_1.from().unwrap().parse_uri().unwrap(), &mut buffer), "I have spaces");
    let Some(Ok(Contact::Address(contact))) = message_1.contacts().next() else { panic!() };
    let uri = contact.parse_uri().unwrap();
    assert_eq!(unescaped(uri, &mut buffer), "caller");
    assert_eq!(text(uri.params), "%6C%72;n%61me=v%61lue%25%34%31");
    let bytes = message("escnull");
    let null = valid(&bytes);
    assert_eq!(unescaped(null.to().unwrap().parse_uri().unwrap(), &mut buffer), "null-\0-null");
    let users: Vec<_> = null
        .contacts()
        .map(|c| match c.unwrap() {
            Contact::Address(a) => unescaped(a.parse_uri().unwrap(), &mut buffer),
            Contact::Star => panic!(),
        })
        .collect();
    assert_eq!(users, ["\0", "\0\0"]);
    let bytes = message("esc02");
    let not_register = valid(&bytes);
    assert_eq!(not_register.method(), Some(Method::Other));
    assert_eq!(text(not_register.to().unwrap().display), "%Z%45");
    assert_eq!(not_register.contacts().count(), 2);
    assert!(not_register.header_named(b"C%6Fntact").is_some());
}

#[test]
fn longreq() {
    let bytes = message("longreq");
    let message = valid(&bytes);
    let to = message.to().unwrap();
    assert_eq!(to.display.len(), "I have a user name of  proportion".len() + 70);
    let uri = to.parse_uri().unwrap();
    assert_eq!((uri.port, uri.params.split(|b| *b == b';').count()), (Some(6000), 3));
    assert_eq!(message.from().unwrap().tag.unwrap().len(), 2 + 150 + 3);
    let vias: Vec<Via<'_>> = message.values(Name::Via).map(|v| Via::parse(v).unwrap()).collect();
    assert_eq!(vias.len(), 34);
    for (at, via) in vias.iter().take(33).enumerate() {
        assert_eq!(text(via.host), format!("sip{}.example.com", 33 - at));
    }
    assert_eq!(
        (vias[33].received.map(text), vias[33].branch.unwrap().len()),
        (Some("192.0.2.5"), 4 + 200 + 11)
    );
    assert_eq!(message.body().len(), 150);
}

#[test]
fn other_valid_messages() {
    let bytes = message("lwsdisp");
    assert_eq!(text(valid(&bytes).from().unwrap().display), "caller");
    let bytes = message("dblreq");
    let register = valid(&bytes);
    assert_eq!((register.method(), register.body()), (Some(Method::Register), &b""[..]));
    assert!(register.bytes().len() < bytes.len(), "what follows is not part of it");
    let bytes = message("semiuri");
    let uri = valid(&bytes).request_uri().unwrap();
    let mut buffer = [0; 64];
    assert_eq!(text(uri.unescaped_user(&mut buffer).unwrap()), "user;par=u@example.net");
    assert_eq!(text(uri.host), "example.com");
    let bytes = message("transports");
    let transports: Vec<_> =
        valid(&bytes).values(Name::Via).map(|v| Via::parse(v).unwrap().transport).collect();
    let expected = [Transport::Udp, Transport::Other, Transport::Tls, Transport::Other, Transport::Tcp];
    assert_eq!(transports, expected);
    let bytes = message("mpart01");
    let multipart = valid(&bytes);
    assert_eq!(multipart.body().len(), 553);
    assert!(multipart.body().ends_with(b"\x99\xd0\x05\r\n--7a9cbec02ceef655--\r\n"));
    assert_eq!(multipart.via().unwrap().rport, Some(None));
    let bytes = message("unreason");
    let StartLine::Status { code, reason } = valid(&bytes).start() else { panic!() };
    assert_eq!((code, text(reason)), (200, "= 2**3 * 5**2 но сто девяносто девять - простое"));
    let bytes = message("noreason");
    assert_eq!(valid(&bytes).start(), StartLine::Status { code: 100, reason: b"" });
}

#[test]
fn what_only_the_layers_above_can_judge() {
    let bytes = message("escruri");
    assert_eq!(text(valid(&bytes).request_uri().unwrap().headers), "Route=%3Csip:example.com%3E");
    let bytes = message("baddate");
    assert_eq!(valid(&bytes).header_named(b"date").map(text), Some("Fri, 01 Jan 2010 16:00:00 EST"));
    let bytes = message("badbranch");
    let via = valid(&bytes).via().unwrap();
    assert_eq!((via.branch.map(text), via.is_branch_unique()), (Some("z9hG4bK"), false));
    for name in ["unkscm", "novelsc"] {
        let bytes = message(name);
        assert_eq!(valid(&bytes).request_uri().unwrap().scheme, Scheme::Other);
    }
    let bytes = message("unksm2");
    let register = valid(&bytes);
    assert_eq!(text(register.to().unwrap().uri), "isbn:2983792873");
    assert_eq!(text(register.from().unwrap().uri), "http://www.example.com");
    let bytes = message("bext01");
    let options = valid(&bytes);
    assert_eq!((options.values(Name::Require).count(), options.values(Name::ProxyRequire).count()), (2, 2));
    let bytes = message("invut");
    assert_eq!(valid(&bytes).body().len(), 40);
    let bytes = message("regaut01");
    let credentials = valid(&bytes).lines(Name::Authorization).map(Credentials::parse).collect::<Vec<_>>();
    assert_eq!(credentials, [Err(SipError::DigestUnsupported)]);
    let bytes = message("bcast");
    let vias: Vec<_> = valid(&bytes).values(Name::Via).map(|v| Via::parse(v).unwrap()).collect();
    assert_eq!((vias[1].address(), vias[1].port), (Some("255.255.255.255".parse().unwrap()), None));
    let bytes = message("zeromf");
    assert_eq!(valid(&bytes).max_forwards(), Ok(Some(0)));
    for (name, of_header) in [("cparam01", true), ("cparam02", false)] {
        let bytes = message(name);
        let Some(Ok(Contact::Address(contact))) = valid(&bytes).contacts().next() else { panic!() };
        assert_eq!(contact.params().get(b"unknownparam").is_some(), of_header);
        assert_eq!(contact.parse_uri().unwrap().param(b"unknownparam").is_some(), !of_header);
    }
    let bytes = message("regescrt");
    let Some(Ok(Contact::Address(contact))) = valid(&bytes).contacts().next() else { panic!() };
    assert_eq!(text(contact.parse_uri().unwrap().headers), "Route=%3Csip:sip.example.com%3E");
    let bytes = message("sdp01");
    assert_eq!(valid(&bytes).header_named(b"accept").map(text), Some("text/nobodyKnowsThis"));
    let bytes = message("inv2543");
    let old = valid(&bytes);
    assert_eq!((old.from().unwrap().tag, old.via().unwrap().branch), (None, None));
    assert_eq!((old.max_forwards(), old.content_length()), (Ok(None), Ok(None)));
    assert!(old.body().ends_with(b"m=audio 49217 RTP/AVP 0\r\n"));
}

#[test]
fn all_of_them_cut_anywhere_are_survived() {
    for name in names() {
        let bytes = message(name);
        for end in 0..bytes.len() {
            let Ok(message) = Message::parse(&bytes[..end]) else { continue };
            let _ = message.check();
            let mut out = Vec::new();
            Writer::respond(&mut out, &message, 400, "Bad Request", Some(b"x")).end();
        }
        // What a stream of them is cut into is what a datagram of them holds.
        let framed = Framer::new().scan(&bytes);
        if let (Ok(message), Ok(Framed::Message(length))) = (Message::parse(&bytes), framed) {
            assert_eq!(length, message.bytes().len(), "{name}");
        }
    }
}
