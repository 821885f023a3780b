//! What the fuzz target of WebSockets does, also fed by a property test on stable compilers.

use vtax_wire::websocket::{Event, Receiver, Role, Upgrade, UpgradeScanner, WebSocketError};

/// What was heard, pieces of a message as one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Messages that have begun: whether each is text, its bytes, whether it has ended.
    pub(crate) messages: Vec<(bool, Vec<u8>, bool)>,
    pub(crate) pings: Vec<Vec<u8>>,
    pub(crate) pongs: Vec<Vec<u8>>,
    pub(crate) closes: Vec<Option<u16>>,
    pub(crate) error: Option<WebSocketError>,
}

/// Feeds one end in pieces of this size.
pub(crate) fn feed(role: Role, most: u64, input: &[u8], piece: usize) -> Heard {
    let (mut receiver, mut heard) = (Receiver::new(role, most), Heard::default());
    for part in input.chunks(piece.max(1)) {
        let mut rest = part;
        while !rest.is_empty() {
            let scanned = match receiver.scan(rest) {
                Ok(scanned) => scanned,
                Err(error) => {
                    heard.error = Some(error);
                    return heard;
                }
            };
            assert!(scanned.event.is_some() || scanned.consumed == rest.len());
            let done = &rest[..scanned.consumed];
            rest = &rest[scanned.consumed..];
            match scanned.event {
                None => {}
                Some(Event::Data { length, mut mask, text, first, last }) => {
                    let mut bytes = done[done.len() - length..].to_vec();
                    mask.apply(&mut bytes);
                    if first {
                        heard.messages.push((text, Vec::new(), false));
                    }
                    let (own, whole, ended) = heard.messages.last_mut().expect("it has begun");
                    assert!(*own == text && !*ended);
                    whole.extend_from_slice(&bytes);
                    *ended = last;
                    assert!(whole.len() as u64 <= most);
                }
                Some(Event::Ping(control)) => heard.pings.push(control.bytes().to_vec()),
                Some(Event::Pong(control)) => heard.pongs.push(control.bytes().to_vec()),
                Some(Event::Close(status)) => heard.closes.push(status),
            }
        }
    }
    heard
}

/// Any bytes: torn anywhere they mean the same to either end. The first byte is the size of pieces, the second tells the end.
pub(crate) fn frames(data: &[u8]) {
    let [piece, role, rest @ ..] = data else { return };
    let role = if role % 2 == 0 { Role::Client } else { Role::Server };
    let whole = feed(role, 100_000, rest, rest.len());
    let torn = feed(role, 100_000, rest, usize::from(*piece) + 1);
    assert_eq!(whole, torn);
}

/// Any heads: torn anywhere they ask for the same.
pub(crate) fn heads(data: &[u8]) {
    let [piece, rest @ ..] = data else { return };
    let found = |piece: usize| {
        let mut scanner = UpgradeScanner::default();
        rest.chunks(piece.max(1)).for_each(|part| scanner.take(part));
        scanner.found()
    };
    let whole = found(rest.len());
    assert_eq!(whole, found(usize::from(*piece) + 1));
    if let Upgrade::Asked(key) = whole {
        assert!(rest.windows(key.len()).any(|window| window == key));
    }
}
