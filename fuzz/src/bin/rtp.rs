//! RTP: any bytes are refused or understood, and a receiver's counts add up whatever comes.
//!
//! The first byte is the length of packets that the rest is cut into; before each its time is in two bytes, as milliseconds since the one before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::rtp::{CLOCK, Came, HEADER_BYTES, Packet, Receiver, Voice};

fuzz_target!(|data: &[u8]| {
    let [length, rest @ ..] = data else { return };
    let mut receiver = Receiver::new(CLOCK, 60_000_000);
    let (mut at, mut taken, mut again, mut stray) = (0_u64, 0, 0, 0);
    for piece in rest.chunks(usize::from(*length) + 3) {
        let [high, low, bytes @ ..] = piece else { break };
        at += 1_000_000 * u64::from(u16::from_be_bytes([*high, *low]));
        let Ok(packet) = Packet::parse(bytes) else { continue };
        assert!(packet.payload.len() + HEADER_BYTES <= bytes.len());
        let mut written = Vec::new();
        packet.header.write(&mut written);
        assert_eq!(Packet::parse(&written).map(|own| own.header), Ok(packet.header));
        match receiver.receive(packet.header.sequence, packet.header.timestamp, at) {
            Came::Again => again += 1,
            Came::Stray => stray += 1,
            Came::InOrder | Came::Reordered | Came::Late => taken += 1,
        }
    }
    let disorder = receiver.disorder();
    assert_eq!((receiver.received(), disorder.1, disorder.3), (taken, again, stray));
    let voice = Voice { delay_ms: 80.0, unheard: receiver.unheard(), burst: 1.0 };
    assert!((1.0..=4.5).contains(&voice.mos()));
});
