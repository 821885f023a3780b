//! Agent frames: any bytes, cut at any place, give frames or are skipped.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_agent::{Decoder, MAX_PAYLOAD};

fuzz_target!(|input: (Vec<u8>, u8)| {
    let (bytes, cut) = input;
    let mut whole = Decoder::default();
    whole.push(&bytes);
    let mut expected = Vec::new();
    while let Some(frame) = whole.next_frame() {
        assert!(frame.payload.len() <= MAX_PAYLOAD);
        expected.push(frame);
    }
    let mut pieces = Decoder::default();
    let mut got = Vec::new();
    for piece in bytes.chunks(usize::from(cut).max(1)) {
        pieces.push(piece);
        while let Some(frame) = pieces.next_frame() {
            got.push(frame);
        }
    }
    assert_eq!(got, expected);
    assert_eq!(pieces.skipped(), whole.skipped());
});
