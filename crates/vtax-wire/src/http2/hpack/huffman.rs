//! HPACK's Huffman code (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and shorter ones come first.
//! So the lengths are all that has to be written down.

use super::HpackError;

/// The symbol that ends the code; nothing may contain it.
const END: usize = 256;
const SYMBOLS: usize = 257;
/// The longest code.
const LONGEST: usize = 30;

/// Bits of each symbol's code.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, // controls
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, // space to ?
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14,
    6, // @ to _
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13,
    28, // ` to DEL
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21,
    22, 23, 22, 23, 23, 24, // 0x80
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22,
    22, 22, 23, 22, 22, 23, // 0xa0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21,
    26, 26, 28, 27, 27, 27, // 0xc0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, // 0xe0
    30,
];

/// The code as it is read and written.
struct Code {
    /// By symbol.
    codes: [u32; SYMBOLS],
    /// Symbols in the order of their codes.
    sorted: [u16; SYMBOLS],
    /// By length: the first code, the place of its symbol in `sorted`, and what all codes up to this length are below, filled up to
    /// 32 bits.
    first: [u32; LONGEST + 1],
    place: [usize; LONGEST + 1],
    limit: [u64; LONGEST + 1],
    /// By the next eight bits: symbol and length; length 0 where the code is longer.
    short: [(u8, u8); 256],
}

static CODE: Code = Code::new();

impl Code {
    const fn new() -> Self {
        let mut own = Self {
            codes: [0; SYMBOLS],
            sorted: [0; SYMBOLS],
            first: [0; LONGEST + 1],
            place: [0; LONGEST + 1],
            limit: [0; LONGEST + 1],
            short: [(0, 0); 256],
        };
        let (mut code, mut place, mut length) = (0_u32, 0, 1);
        while length <= LONGEST {
            code <<= 1;
            own.first[length] = code;
            own.place[length] = place;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    own.codes[symbol] = code;
                    own.sorted[place] = symbol as u16;
                    place += 1;
                    if length <= 8 {
                        let mut below = 0;
                        while below < 1 << (8 - length) {
                            own.short[((code << (8 - length)) + below) as usize] =
                                (symbol as u8, length as u8);
                            below += 1;
                        }
                    }
                    code += 1;
                }
                symbol += 1;
            }
            own.limit[length] = (code as u64) << (32 - length);
            length += 1;
        }
        own
    }

    /// The symbol that the bits begin with, the first bit at the top, and the length of its code.
    #[inline]
    fn symbol(&self, bits: u64) -> (usize, u32) {
        let (symbol, length) = self.short[(bits >> 56) as usize];
        if length > 0 {
            return (usize::from(symbol), u32::from(length));
        }
        let top = bits >> 32;
        let length = (9..LONGEST).find(|length| top < self.limit[*length]).unwrap_or(LONGEST);
        // The code is complete: each 30 bits begin with some symbol's.
        let code = (top >> (32 - length)) as usize;
        let place = self.place[length] + code - self.first[length] as usize;
        (usize::from(self.sorted[place.min(SYMBOLS - 1)]), length as u32)
    }
}

/// Appends what the code stands for.
///
/// # Errors
/// It holds the symbol of the end, or ends with something else than fewer than eight ones.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let (mut bits, mut count, mut at) = (0_u64, 0_u32, 0);
    loop {
        while count <= 56 && at < input.len() {
            bits |= u64::from(input[at]) << (56 - count);
            count += 8;
            at += 1;
        }
        let (symbol, length) = CODE.symbol(bits);
        if length > count {
            break;
        }
        if symbol == END {
            return Err(HpackError::Huffman);
        }
        // Below 256.
        out.push(symbol as u8);
        bits <<= length;
        count -= length;
    }
    // The rest is the beginning of the end's code, which has but ones.
    let ones = !(u64::MAX.checked_shr(count).unwrap_or(0));
    if count < 8 && bits == ones { Ok(()) } else { Err(HpackError::Huffman) }
}

/// Appends the code of a text.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0_u32);
    for byte in text {
        let symbol = usize::from(*byte);
        let length = u32::from(LENGTHS[symbol]);
        bits = bits << length | u64::from(CODE.codes[symbol]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}

/// Bytes that the code of a text takes.
pub(super) fn length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Some codes of appendix B: the first of each length, and the last of the longest.
    #[test]
    fn the_code_is_that_of_the_standard() {
        let sum: u64 = LENGTHS.iter().map(|length| 1 << (LONGEST - usize::from(*length))).sum();
        assert_eq!(sum, 1 << LONGEST, "the code is complete");
        for (symbol, code) in [
            (usize::from(b'0'), 0x0),
            (usize::from(b't'), 0x9),
            (usize::from(b' '), 0x14),
            (usize::from(b'u'), 0x2d),
            (usize::from(b':'), 0x5c),
            (usize::from(b'&'), 0xf8),
            (usize::from(b'!'), 0x3f8),
            (usize::from(b'\''), 0x7fa),
            (usize::from(b'#'), 0xffa),
            (0, 0x1ff8),
            (usize::from(b'^'), 0x3ffc),
            (usize::from(b'<'), 0x7ffc),
            (usize::from(b'\\'), 0x7fff0),
            (128, 0xfffe6),
            (153, 0x1f_ffdc),
            (129, 0x3f_ffd2),
            (1, 0x7f_ffd8),
            (9, 0xff_ffea),
            (199, 0x1ff_ffec),
            (192, 0x3ff_ffe0),
            (203, 0x7ff_ffde),
            (2, 0xfff_ffe2),
            (249, 0xfff_fffe),
            (10, 0x3fff_fffc),
            (END, 0x3fff_ffff),
        ] {
            assert_eq!(CODE.codes[symbol], code, "symbol {symbol}");
        }
    }

    #[test]
    fn what_ends_wrongly_is_refused() {
        let refused = |input: &[u8]| decode(input, &mut Vec::new()) == Err(HpackError::Huffman);
        // Eight ones; zeros at the end; the end's symbol.
        assert!(refused(&[0xff]));
        assert!(refused(&[0b0000_0000]));
        assert!(refused(&[0xff, 0xff, 0xff, 0xff]));
        assert!(refused(&[0b0011_1111, 0xff]));
        assert!(!refused(&[0b0000_0111]) && !refused(&[]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(text in proptest::collection::vec(any::<u8>(), 0..100)) {
            let (mut coded, mut back) = (Vec::new(), Vec::new());
            encode(&text, &mut coded);
            prop_assert_eq!(coded.len(), length(&text));
            prop_assert_eq!(decode(&coded, &mut back), Ok(()));
            prop_assert_eq!(back, text);
        }
    }
}
