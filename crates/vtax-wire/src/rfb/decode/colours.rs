//! Pixels as encodings send them beside the four bytes that were asked for: of three bytes, or as places in a palette.

use super::super::screen::KNOWN;

/// Bytes of a pixel: those of its colours.
pub(super) const COLOUR: usize = 3;
/// Pixels that are taken at once, and the word that holds them: two more of its bytes are the next one's.
const TWO: usize = 2;
const WORD: usize = 8;

/// A pixel of which the byte for blue comes first.
pub(super) fn blue_first(bytes: &[u8; COLOUR]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) | KNOWN
}

/// A pixel of which the byte for red comes first.
pub(super) fn red_first(bytes: &[u8; COLOUR]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) | KNOWN
}

/// Pixels of which the bytes for blue come first; there are as many as there is room for.
pub(super) fn all_blue_first(to: &mut [u32], from: &[u8]) {
    // What is above the colours is overwritten by the mark of a known pixel.
    let two = |word| {
        let word = u64::from_le_bytes(word);
        [word as u32, (word >> 24) as u32]
    };
    all(to, from, two, blue_first);
}

/// Pixels of which the bytes for red come first; there are as many as there is room for.
pub(super) fn all_red_first(to: &mut [u32], from: &[u8]) {
    let two = |word| {
        let word = u64::from_be_bytes(word);
        [(word >> 40) as u32, (word >> 16) as u32]
    };
    all(to, from, two, red_first);
}

#[inline]
fn all(
    to: &mut [u32],
    from: &[u8],
    two: impl Fn([u8; WORD]) -> [u32; TWO],
    one: impl Fn(&[u8; COLOUR]) -> u32,
) {
    // The last two are no whole word.
    let (twos, last) = to.split_at_mut(to.len().saturating_sub(TWO) / TWO * TWO);
    let words = from.windows(WORD).step_by(TWO * COLOUR);
    for (to, word) in twos.as_chunks_mut::<TWO>().0.iter_mut().zip(words) {
        if let Some(word) = word.first_chunk() {
            *to = two(*word).map(|pixel| pixel | KNOWN);
        }
    }
    let done = from.len().min(twos.len() * COLOUR);
    for (to, from) in last.iter_mut().zip(from[done..].as_chunks::<COLOUR>().0) {
        *to = one(from);
    }
}

/// Pixels by their places in a palette, of so many bits each, the first in a byte's highest. Where there is no such place, the palette
/// has 0, which [`are_known`] finds.
pub(super) fn places<const BITS: usize, const COLOURS: usize>(
    to: &mut [u32],
    from: &[u8],
    palette: &[u32; COLOURS],
) {
    const { assert!(BITS < 8 && COLOURS >= 1 << BITS) };
    for (to, byte) in to.chunks_mut(8 / BITS).zip(from) {
        let mut byte = *byte;
        for to in to {
            *to = palette[usize::from(byte >> (8 - BITS))];
            byte <<= BITS;
        }
    }
}

/// True where all pixels have a colour.
pub(super) fn are_known(pixels: &[u32]) -> bool {
    pixels.iter().fold(KNOWN, |known, pixel| known & pixel) == KNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pixels_are_what_each_is() {
        let bytes: Vec<u8> = (0..99).map(|i: u32| (i * 77 % 256) as u8).collect();
        for count in 0..=33 {
            let bytes = &bytes[..count * COLOUR];
            let (mut blue, mut red) = (vec![0; count], vec![0; count]);
            all_blue_first(&mut blue, bytes);
            all_red_first(&mut red, bytes);
            let each = bytes.as_chunks::<COLOUR>().0;
            assert_eq!(blue, each.iter().map(blue_first).collect::<Vec<_>>());
            assert_eq!(red, each.iter().map(red_first).collect::<Vec<_>>());
            assert!(are_known(&blue) && are_known(&red));
        }
        assert_eq!(blue_first(&[1, 2, 3]), 0xff_03_02_01);
        assert_eq!(red_first(&[1, 2, 3]), 0xff_01_02_03);
    }

    #[test]
    fn places_are_read_from_the_highest_bit_on() {
        let palette: [u32; 16] = std::array::from_fn(|place| KNOWN | place as u32);
        let of = |pixels: &[u32]| pixels.iter().map(|pixel| pixel & 15).collect::<Vec<_>>();
        let mut pixels = [0; 11];
        places::<1, 16>(&mut pixels, &[0b1010_0110, 0b0110_0000], &palette);
        assert_eq!(of(&pixels), [1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
        places::<2, 16>(&mut pixels[..5], &[0b1110_0100, 0b0100_0000], &palette);
        assert_eq!(of(&pixels[..5]), [3, 2, 1, 0, 1]);
        places::<4, 16>(&mut pixels[..3], &[0xa7, 0xf0], &palette);
        assert_eq!(of(&pixels[..3]), [10, 7, 15]);
        assert!(are_known(&pixels));
        let mut few = palette;
        few[7] = 0;
        places::<4, 16>(&mut pixels[..3], &[0xa7, 0xf0], &few);
        assert!(!are_known(&pixels));
    }
}
