//! RFB: any bytes of a server, torn anywhere, give the same desktop, within bounds, and never a panic.
//!
//! The first byte says in pieces of what size the rest is fed, the second whether it is an opening.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::rfb::{Decoder, Event, Handshake, Limits, Login, MOST_UNREAD, Reached, RfbError, Security};

/// What was said, whether an error came, and the desktop where none did: how far one is drawn before an error in compressed data
/// depends on the pieces, and so may which error it is.
fn desktop(input: &[u8], piece: usize) -> (Vec<Event>, Option<Vec<u32>>) {
    let limits = Limits { pixels: 1 << 16, ..Limits::default() };
    let mut decoder = Decoder::new(100, 100, limits).unwrap();
    let (mut events, mut unread) = (Vec::new(), Vec::new());
    for part in input.chunks(piece) {
        unread.extend_from_slice(part);
        let mut at = 0;
        loop {
            match decoder.read(&unread[at..]) {
                Ok((used, event)) => {
                    at += used;
                    let Some(event) = event else { break };
                    events.push(event);
                }
                Err(_) => return (events, None),
            }
        }
        unread.drain(..at);
        assert!(unread.len() < MOST_UNREAD);
    }
    (events, Some(decoder.screen().pixels().to_vec()))
}

fn opening(input: &[u8], piece: usize, security: Security) -> Option<RfbError> {
    let login = Login { security, password: Some("x".to_owned()), shared: true };
    let (mut handshake, mut out, mut unread) = (Handshake::new(login), Vec::new(), Vec::new());
    for part in input.chunks(piece) {
        unread.extend_from_slice(part);
        match handshake.read(&unread, &mut out) {
            Ok((used, Reached::More)) => drop(unread.drain(..used)),
            Ok(_) => return None,
            Err(error) => return Some(error),
        }
        assert!(unread.len() < MOST_UNREAD && out.len() < 64);
    }
    None
}

fuzz_target!(|data: &[u8]| {
    let [piece, kind, input @ ..] = data else { return };
    let (piece, whole) = (usize::from(*piece) + 1, input.len().max(1));
    match kind % 4 {
        0 => drop(opening(input, piece, Security::Vnc)),
        1 => drop(opening(input, piece, Security::X509Vnc)),
        _ => assert_eq!(desktop(input, piece), desktop(input, whole)),
    }
});
