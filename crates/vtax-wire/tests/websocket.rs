//! WebSockets: the examples of the standard, what either end may send, and what hostile ones do.

use proptest::prelude::*;
use vtax_wire::http::{HttpError, ResponseScanner};
use vtax_wire::websocket::{
    Event, FrameHead, Mask, Opcode, Receiver, Role, Upgrade, UpgradeScanner, WebSocketError, accept_for,
    key_of, write_close, write_control,
};

#[path = "bodies/websocket.rs"]
mod body;

use body::{feed, frames, heads};

const KEY: &[u8; 24] = b"dGhlIHNhbXBsZSBub25jZQ==";

/// RFC 6455 section 1.3.
#[test]
fn the_key_of_the_standard_is_answered() {
    assert_eq!(key_of(*b"the sample nonce"), *KEY);
    assert_eq!(accept_for(KEY), *b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/// RFC 6455 section 5.7.
#[test]
fn frames_of_the_standard_are_read() {
    let hello = vec![(true, b"Hello".to_vec(), true)];
    let of_server = feed(Role::Client, 9, &[0x81, 5, b'H', b'e', b'l', b'l', b'o'], 99);
    assert_eq!((of_server.messages, of_server.error), (hello.clone(), None));
    let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(feed(Role::Server, 9, &masked, 99).messages, hello);
    let in_parts = [1, 3, b'H', b'e', b'l', 0x80, 2, b'l', b'o'];
    assert_eq!(feed(Role::Client, 9, &in_parts, 99).messages, hello);
    let ping = feed(Role::Client, 9, &[0x89, 5, b'H', b'e', b'l', b'l', b'o'], 99);
    assert_eq!(ping.pings, [b"Hello".to_vec()]);
    let pong = [0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(feed(Role::Server, 9, &pong, 99).pongs, [b"Hello".to_vec()]);
    for (length, head) in
        [(256_usize, vec![0x82, 0x7e, 1, 0]), (65536, vec![0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0])]
    {
        let input = [head, vec![7; length]].concat();
        assert_eq!(feed(Role::Client, 65536, &input, 1000).messages, [(false, vec![7; length], true)]);
    }
}

#[test]
fn what_breaks_the_standard_is_refused() {
    use WebSocketError as E;
    let cases: [(&[u8], Role, E); 17] = [
        (&[0xc1, 0], Role::Client, E::Reserved),
        (&[0x83, 0], Role::Client, E::Opcode),
        (&[0x8b, 0], Role::Client, E::Opcode),
        (&[0x81, 0x80, 1, 2, 3, 4], Role::Client, E::Masking),
        (&[0x81, 0], Role::Server, E::Masking),
        (&[0x82, 126, 0, 125], Role::Client, E::Length),
        (&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], Role::Client, E::Length),
        (&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], Role::Client, E::Length),
        (&[0x89, 126], Role::Client, E::Control),
        (&[0x09, 0], Role::Client, E::Control),
        (&[0x80, 0], Role::Client, E::Fragment),
        (&[0x01, 0, 0x81, 0], Role::Client, E::Fragment),
        (&[0x82, 11], Role::Client, E::TooLong),
        (&[0x02, 6, 1, 2, 3, 4, 5, 6, 0x80, 5], Role::Client, E::TooLong),
        (&[0x88, 1, 3], Role::Client, E::Close),
        (&[0x88, 2, 3, 0xed], Role::Client, E::Close),
        (&[0x88, 2, 0, 1], Role::Client, E::Close),
    ];
    for (input, role, error) in cases {
        for piece in [1, 2, input.len()] {
            assert_eq!(feed(role, 10, input, piece).error, Some(error), "{input:x?}");
        }
    }
    assert_eq!((E::TooLong.status(), E::Masking.status()), (1009, 1002));
}

#[test]
fn control_frames_come_within_messages() {
    let mut input = Vec::new();
    FrameHead { last: false, opcode: Opcode::Text, key: None, length: 2 }.write(&mut input);
    input.extend_from_slice(b"ab");
    write_control(Opcode::Ping, None, b"there?", &mut input);
    FrameHead { last: true, opcode: Opcode::Continuation, key: None, length: 1 }.write(&mut input);
    input.extend_from_slice(b"c");
    write_close(1001, None, &mut input);
    for piece in 1..input.len() {
        let heard = feed(Role::Client, 3, &input, piece);
        assert_eq!(heard.messages, [(true, b"abc".to_vec(), true)]);
        assert_eq!((heard.pings, heard.closes), (vec![b"there?".to_vec()], vec![Some(1001)]));
        assert_eq!(heard.error, None);
    }
    // What is too long for a control frame is cut.
    let mut long = Vec::new();
    write_control(Opcode::Pong, Some([1, 2, 3, 4]), &[9; 200], &mut long);
    assert_eq!(feed(Role::Server, 0, &long, 7).pongs, [vec![9; 125]]);
}

#[test]
fn an_end_knows_whether_it_is_between_messages() {
    let mut receiver = Receiver::new(Role::Client, 9);
    assert!(receiver.is_between());
    let scanned = receiver.scan(&[0x81]).unwrap();
    assert!(scanned.event.is_none() && !receiver.is_between());
    let scanned = receiver.scan(&[1, b'x', 0x8a]).unwrap();
    assert_eq!(scanned.consumed, 2);
    assert!(
        matches!(scanned.event, Some(Event::Data { length: 1, last: true, .. })) && receiver.is_between()
    );
}

/// A head that asks for a WebSocket, with something else in one place.
fn head(changed: &str, by: &str) -> String {
    let head = "GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    assert!(head.contains(changed));
    head.replace(changed, by)
}

#[test]
fn heads_ask_for_a_websocket_or_do_not() {
    let found = |changed: &str, by: &str| {
        let mut scanner = UpgradeScanner::default();
        scanner.take(head(changed, by).as_bytes());
        scanner.found()
    };
    assert_eq!(found("", ""), Upgrade::Asked(*KEY));
    assert_eq!(found("WebSocket\r\n", "h2c, websocket\r\n"), Upgrade::Asked(*KEY));
    assert_eq!(found("WebSocket\r\n", "h2c\r\n"), Upgrade::None);
    assert_eq!(found("keep-alive, Upgrade", "keep-alive"), Upgrade::None);
    assert_eq!(found("Version: 13", "Version: 8"), Upgrade::Version);
    assert_eq!(found("dGhl", "dGh"), Upgrade::None);
    assert_eq!(found("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=!"), Upgrade::None);
    assert_eq!(found("Host: a", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), Upgrade::None);
    let long = format!("Host: {}", "a".repeat(1000));
    assert_eq!(found("Host: a", &long), Upgrade::Asked(*KEY));
}

#[test]
fn a_scanner_of_answers_stops_where_another_protocol_begins() {
    let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x00";
    let mut scanner = ResponseScanner::new();
    assert_eq!(scanner.scan(answer), Err(HttpError::Upgrade));
    for torn in [1, 30, answer.len()] {
        let mut scanner = ResponseScanner::new();
        scanner.expect_upgrade();
        let (mut consumed, mut response) = (0, None);
        while response.is_none() {
            let end = answer.len().min(consumed + torn);
            let scanned = scanner.scan(&answer[consumed..end]).unwrap();
            consumed += scanned.consumed;
            response = scanned.response;
        }
        assert_eq!(response.map(|response| (response.status, response.keep_alive)), Some((101, true)));
        assert_eq!(answer.len() - consumed, 2);
        // Only the next one may be.
        assert_eq!(scanner.scan(answer), Err(HttpError::Upgrade));
    }
}

fn opcode() -> impl Strategy<Value = Opcode> {
    prop_oneof![Just(Opcode::Text), Just(Opcode::Binary), Just(Opcode::Ping), Just(Opcode::Pong)]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        frames in prop::collection::vec((opcode(), any::<[u8; 4]>(), 0_usize..2000, any::<u8>()), 0..6),
        piece in 1_usize..3000,
        masked in any::<bool>(),
    ) {
        let (mut input, mut messages, mut pings, mut pongs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let role = if masked { Role::Server } else { Role::Client };
        for (opcode, key, length, fill) in frames {
            let key = masked.then_some(key);
            let payload: Vec<u8> = (0..length).map(|at| fill.wrapping_add(at as u8)).collect();
            if opcode.is_control() {
                write_control(opcode, key, &payload, &mut input);
                let said = payload[..length.min(125)].to_vec();
                if opcode == Opcode::Ping { pings.push(said) } else { pongs.push(said) }
                continue;
            }
            // In two parts.
            let cut = length / 3;
            for (part, opcode, last) in
                [(&payload[..cut], opcode, false), (&payload[cut..], Opcode::Continuation, true)]
            {
                FrameHead { last, opcode, key, length: part.len() as u64 }.write(&mut input);
                let start = input.len();
                input.extend_from_slice(part);
                Mask::new(key.unwrap_or_default()).apply(&mut input[start..]);
            }
            messages.push((opcode == Opcode::Text, payload, true));
        }
        let heard = feed(role, 2000, &input, piece);
        prop_assert_eq!(heard.error, None);
        prop_assert_eq!((heard.messages, heard.pings, heard.pongs), (messages, pings, pongs));
    }

    #[test]
    fn masks_go_on_where_they_were(key in any::<[u8; 4]>(), bytes in prop::collection::vec(any::<u8>(), 0..40), cut in 0_usize..40) {
        let (mut whole, mut torn) = (bytes.clone(), bytes.clone());
        Mask::new(key).apply(&mut whole);
        let (first, second) = torn.split_at_mut(cut.min(bytes.len()));
        let mut mask = Mask::new(key);
        mask.apply(first);
        mask.apply(second);
        prop_assert_eq!(&whole, &torn);
        Mask::new(key).apply(&mut whole);
        prop_assert_eq!(whole, bytes);
    }

    #[test]
    fn any_bytes_mean_the_same_torn_anywhere(data in prop::collection::vec(any::<u8>(), 0..300)) {
        frames(&data);
        heads(&data);
    }

    /// Mostly frames, so that more than the first byte is looked at.
    #[test]
    fn frames_that_are_nearly_right_mean_the_same_torn_anywhere(
        piece in any::<u8>(),
        heads_of in prop::collection::vec((0_u8..16, any::<bool>(), 0_u8..128, any::<u8>()), 0..20),
    ) {
        let mut data = vec![piece, 0];
        for (opcode, last, length, fill) in heads_of {
            data.extend_from_slice(&[u8::from(last) << 7 | opcode, length]);
            data.resize(data.len() + usize::from(length), fill);
        }
        frames(&data);
    }

    #[test]
    fn heads_that_are_nearly_right_ask_for_the_same_torn_anywhere(piece in any::<u8>(), at in 0_usize..200, byte in any::<u8>()) {
        let mut data = [&[piece], head("", "").as_bytes()].concat();
        if let Some(slot) = data.get_mut(at + 1) {
            *slot = byte;
        }
        heads(&data);
    }
}
