//! Pixels as encodings send them beside the four bytes that were asked for: of three bytes, or as places in a palette.

use super::super::screen::KNOWN;

/// Bytes of a pixel: those of its colours.
pub(super) const COLOUR: usize = 3;
/// Pixels that are taken at once, which are three words.
const FOUR: usize = 4;
const TWELVE: usize = FOUR * COLOUR;

/// A pixel of which the byte for blue comes first.
pub(super) fn blue_first(bytes: &[u8; COLOUR]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) | KNOWN
}

/// A pixel of which the byte for red comes first.
pub(super) fn red_first(bytes: &[u8; COLOUR]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) | KNOWN
}

/// Pixels of which the bytes for blue come first, as many as there is room for.
pub(super) fn all_blue_first(to: &mut [u32], from: &[u8]) {
    // What is above the colours is overwritten by the mark of a known pixel.
    let four = |from: &[u8; TWELVE]| {
        let [a, b, c] = [word::<0>(from), word::<4>(from), word::<8>(from)].map(u32::from_le_bytes);
        [a, a >> 24 | b << 8, b >> 16 | c << 16, c >> 8]
    };
    all(to, from, four, blue_first);
}

/// Pixels of which the bytes for red come first, as many as there is room for.
pub(super) fn all_red_first(to: &mut [u32], from: &[u8]) {
    let four = |from: &[u8; TWELVE]| {
        let [a, b, c] = [word::<0>(from), word::<4>(from), word::<8>(from)].map(u32::from_be_bytes);
        [a >> 8, a << 16 | b >> 16, b << 8 | c >> 24, c]
    };
    all(to, from, four, red_first);
}

#[inline]
fn word<const AT: usize>(from: &[u8; TWELVE]) -> [u8; 4] {
    [from[AT], from[AT + 1], from[AT + 2], from[AT + 3]]
}

#[inline]
fn all(
    to: &mut [u32],
    from: &[u8],
    four: impl Fn(&[u8; TWELVE]) -> [u32; FOUR],
    one: impl Fn(&[u8; COLOUR]) -> u32,
) {
    let (fours, rest) = to.as_chunks_mut::<FOUR>();
    let (begin, end) = from.split_at(from.len().min(fours.len() * TWELVE));
    for (to, from) in fours.iter_mut().zip(begin.as_chunks::<TWELVE>().0) {
        *to = four(from).map(|pixel| pixel | KNOWN);
    }
    for (to, from) in rest.iter_mut().zip(end.as_chunks::<COLOUR>().0) {
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
