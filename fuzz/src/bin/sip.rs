//! SIP: any bytes are refused or understood, and what is understood can be written again.
//!
//! The first byte says in pieces of what size a stream of the rest arrives, the second what the
//! rest begins with, so that headers are reached without guessing a whole start line first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::sip::{
    Address, Challenge, Contact, Credentials, Framed, Framer, MESSAGE_BYTES_MAX, Message, Name, SipError,
    Uri, Values, Via, Writer,
};

/// Lengths of the messages of a stream that arrives in pieces, and why it ended.
fn frames(input: &[u8], piece: usize) -> (Vec<usize>, Option<SipError>) {
    let (mut framer, mut held, mut found) = (Framer::new(), Vec::new(), Vec::new());
    for part in input.chunks(piece) {
        held.extend_from_slice(part);
        while !held.is_empty() {
            match framer.scan(&held) {
                Ok(Framed::Message(length)) => {
                    found.push(length);
                    held.drain(..length);
                }
                Ok(Framed::Empty(length)) => drop(held.drain(..length)),
                Ok(Framed::Incomplete) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fn ask(message: &Message<'_>) {
    for (name, raw, value) in message.raw_lines() {
        assert!(raw.len() > value.len());
        let parsed = (Via::parse(value), Address::parse(value), Contact::parse(value), Uri::parse(value));
        if let Ok(uri) = parsed.3 {
            let mut buffer = [0; 64];
            let user = uri.unescaped_user(&mut buffer);
            assert!(user.is_none_or(|user| user.len() <= uri.user.map_or(0, <[u8]>::len)));
        }
        let _ = (Challenge::parse(value), Credentials::parse(value));
        assert!(Values::new(value).all(|part| part.len() <= value.len()));
        assert!(message.lines(name).count() <= message.header_lines().count());
    }
    if message.check().is_err() || message.method().is_none() {
        return;
    }
    let mut out = Vec::new();
    Writer::respond(&mut out, message, 200, "OK", Some(b"tag")).end();
    if out.len() <= MESSAGE_BYTES_MAX {
        let response = Message::parse(&out).expect("a response to a good request");
        response.check().expect("a good response to a good request");
        assert!(response.values(Name::Via).eq(message.values(Name::Via)));
        assert_eq!(response.from(), message.from());
    }
}

const BEGINNINGS: [&[u8]; 4] = [
    b"",
    b"INVITE sip:a@b SIP/2.0\r\n",
    b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bKx\r\n",
    b"REGISTER sip:b SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=x\r\nTo: <sip:a@b>\r\n\
      Call-ID: x\r\nCSeq: 1 REGISTER\r\n",
];

fuzz_target!(|data: &[u8]| {
    let [piece, beginning, rest @ ..] = data else { return };
    let piece = usize::from(*piece) + 1;
    let input = [BEGINNINGS[usize::from(*beginning) % BEGINNINGS.len()], rest].concat();
    if let Ok(message) = Message::parse(&input) {
        ask(&message);
    }
    assert_eq!(frames(&input, piece), frames(&input, input.len().max(1)));
});
