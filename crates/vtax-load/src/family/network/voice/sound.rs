//! What streams say: a tone, which both ends know at every tick; and where each stream begins.

use vtax_plan::model::network_limits;
use vtax_wire::rtp::{CLOCK, Law, tone};

use super::super::control::Token;

/// A second of it holds whole waves, so that it goes on where it began.
const HERTZ: f64 = 400.0;
/// Ticks of a second.
const SECOND: usize = CLOCK as usize;
/// Bytes of the longest packet's sound: 40 ms.
pub(crate) const SOUND_BYTES_MAX: usize = 320;
/// Bits of an SSRC that are the number of its stream.
const NUMBER_BITS: u32 = 13;
/// All have a number.
const _: () = assert!(network_limits::VOICE_STREAMS <= 1 << NUMBER_BITS);

/// A second of a tone, and the longest packet more.
#[derive(Debug)]
pub(crate) struct Sound {
    bytes: Vec<u8>,
    pub(crate) payload_type: u8,
}

impl Sound {
    pub(crate) fn new(law: Law) -> Self {
        let mut bytes = vec![0; SECOND];
        tone(law, HERTZ, 0, &mut bytes);
        bytes.extend_from_within(..SOUND_BYTES_MAX);
        Self { bytes, payload_type: law.payload_type() }
    }

    /// So many bytes from that tick on.
    pub(crate) fn at(&self, tick: u32, bytes: usize) -> &[u8] {
        let from = tick as usize % SECOND;
        &self.bytes[from..from + bytes.min(SOUND_BYTES_MAX)]
    }
}

/// The streams of one direction of a test, as their SSRCs name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names(u32);

impl Names {
    /// Of the test with that token, in that direction. No two directions share a name (RFC 3550 section 8).
    pub(super) fn new(token: &Token, up: bool) -> Self {
        let [a, b, c, d, ..] = *token;
        let random = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        Self((u32::from(up) << 31 | random) & !((1 << NUMBER_BITS) - 1))
    }

    /// The SSRC of that stream.
    pub(super) fn ssrc(self, stream: usize) -> u32 {
        self.0 | stream as u32
    }

    /// The number of the stream with that SSRC; `None` where it is of none of these.
    pub(super) fn stream(self, ssrc: u32) -> Option<usize> {
        let number = ssrc ^ self.0;
        (number >> NUMBER_BITS == 0).then_some(number as usize)
    }
}

/// Number and tick of a stream's first packet: anything (RFC 3550 section 5.1), but known to both ends. Ticks don't begin anew within two days.
pub(super) fn first_of(ssrc: u32) -> (u16, u32) {
    let mixed = (u64::from(ssrc) ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 16) as u16, (mixed >> 40) as u32 % 200_000 * CLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_goes_on_over_seconds() {
        for law in [Law::Mu, Law::A] {
            let sound = Sound::new(law);
            let over = [sound.at(7_900, 100), sound.at(0, 60)].concat();
            for tick in [7_900, 15_900, 8_000 * 400_000 + 7_900] {
                assert_eq!(sound.at(tick, 160), over, "{law:?} {tick}");
                assert_ne!(sound.at(tick + 1, 160), over, "{law:?} {tick}");
            }
        }
    }

    #[test]
    fn streams_are_known_by_their_names() {
        for token in [[0; 16], [0xff; 16], *b"0123456789abcdef"] {
            let (up, down) = (Names::new(&token, true), Names::new(&token, false));
            for stream in [0, 1, 4_999] {
                assert_eq!(up.stream(up.ssrc(stream)), Some(stream));
                assert_eq!(down.stream(up.ssrc(stream)), None);
                let (_, tick) = first_of(up.ssrc(stream));
                assert!(tick % CLOCK == 0 && tick.checked_add(2 * 86_400 * CLOCK).is_some());
            }
        }
        assert_ne!(first_of(1), first_of(2));
    }
}
