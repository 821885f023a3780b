//! RESP2 replies: any bytes, torn anywhere, give the same answer and never a panic.
//!
//! The first byte says in pieces of what size the rest is fed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::resp::{Item, Reply, ReplyScanner, RespError};

type Found = (Vec<(Reply, Vec<u8>)>, Option<RespError>);

fn replies(input: &[u8], piece: usize) -> Found {
    let mut scanner = ReplyScanner::new();
    let (mut found, mut value) = (Vec::new(), Vec::new());
    for mut part in input.chunks(piece) {
        while !part.is_empty() {
            match scanner.scan(part) {
                Ok(scanned) => {
                    match scanned.item {
                        Item::Incomplete => {}
                        Item::Bytes(bytes) => value.extend_from_slice(bytes),
                        Item::End(reply) => found.push((reply, std::mem::take(&mut value))),
                    }
                    part = &part[scanned.consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fuzz_target!(|data: &[u8]| {
    let [piece, input @ ..] = data else { return };
    assert_eq!(replies(input, usize::from(*piece) + 1), replies(input, input.len().max(1)));
});
