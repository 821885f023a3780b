//! Histograms from bytes of others: looked through before the library, which believes the lengths in them, sees them.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::LONGEST_NS;

/// What the V2 format begins with.
const COOKIE: u32 = 0x1c84_9313;
/// What the V2 compressed format begins with: a length and the other format, by zlib, follow.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
/// Bytes of the V2 format before its counts: cookie, length of the counts, offset, digits, lowest and highest value, ratio.
const HEADER: usize = 40;
/// Most bytes without compression. A histogram up to [`HIGHEST`] has 33 792 buckets, of at most nine bytes each.
const MOST_BYTES: u64 = 1 << 20;
/// Most significant digits. Five would be 50 MB of counts.
const MOST_DIGITS: u32 = 3;
/// The highest value that may be told apart: buckets end below powers of two, so those for [`LONGEST_NS`] end here.
const HIGHEST: u64 = LONGEST_NS.next_power_of_two() - 1;
/// More buckets than a histogram has.
const MOST_BUCKETS: u64 = 1 << 16;
/// More than is ever counted. The library adds counts without a look at overflow, and a million such histograms don't reach one.
const MOST_COUNTED: u64 = 1 << 44;

const CUT: &str = "its bytes are cut off";

/// Reads the V2 format, compressed or not.
pub(super) fn decode(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    let plain = uncompressed(bytes)?;
    check(&plain)?;
    Deserializer::new().deserialize(&mut &*plain).map_err(|e| e.to_string())
}

/// The bytes of a histogram without compression.
fn uncompressed(bytes: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    match u32_at(bytes, 0) {
        Some(COOKIE) => Ok(Cow::Borrowed(bytes)),
        Some(COMPRESSED_COOKIE) => {
            let length = u32_at(bytes, 4).and_then(|length| usize::try_from(length).ok());
            let packed = length.and_then(|length| bytes.get(8..)?.get(..length)).ok_or(CUT)?;
            let mut plain = Vec::new();
            let mut unpacked = ZlibDecoder::new(packed).take(MOST_BYTES + 1);
            unpacked.read_to_end(&mut plain).map_err(|_| "its compressed bytes are damaged")?;
            if plain.len() as u64 > MOST_BYTES {
                return Err("it is longer than any of its kind");
            }
            Ok(Cow::Owned(plain))
        }
        _ => Err("it doesn't begin as one"),
    }
}

/// Whether the uncompressed bytes are of a size that vtax makes, and have what they say.
fn check(plain: &[u8]) -> Result<(), &'static str> {
    if u32_at(plain, 0) != Some(COOKIE) {
        return Err("it doesn't begin as one");
    }
    let length = u32_at(plain, 4).and_then(|length| usize::try_from(length).ok());
    let counts = length.and_then(|length| plain.get(HEADER..)?.get(..length)).ok_or(CUT)?;
    if u32_at(plain, 12).is_none_or(|digits| digits > MOST_DIGITS) {
        return Err("it has more than 3 significant digits");
    }
    if u64_at(plain, 24).is_none_or(|highest| highest > HIGHEST) {
        return Err("it is for longer durations than an hour");
    }
    check_counts(counts)
}

/// Counts are numbers; an odd one says how many buckets in a row have none.
fn check_counts(mut counts: &[u8]) -> Result<(), &'static str> {
    let mut total = 0_u64;
    while !counts.is_empty() {
        let number = varint(&mut counts).ok_or(CUT)?;
        let value = number >> 1;
        if number & 1 == 0 {
            total = total.saturating_add(value);
        } else if value > MOST_BUCKETS {
            return Err("it has more buckets than any of its kind");
        }
    }
    if total > MOST_COUNTED { Err("it counts more than anything happens") } else { Ok(()) }
}

/// Takes a number of seven bits a byte, the least ones first, of which a ninth byte has eight (LEB128-64b9B).
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for place in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let is_last = place == 8;
        value |= u64::from(if is_last { *byte } else { *byte & 0x7f }) << (7 * place);
        if is_last || *byte < 0x80 {
            break;
        }
    }
    Some(value)
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().map(|number| u32::from_be_bytes(*number))
}

fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    bytes.get(place..)?.first_chunk().map(|number| u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use hdrhistogram::serialization::{Serializer as _, V2Serializer};
    use proptest::prelude::*;
    use vtax_units::Nanos;

    use super::super::LatencyHistogram;
    use super::*;

    /// The V2 format with these fields.
    fn v2(length: u32, digits: u32, highest: u64, counts: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [COOKIE, length, 0, digits] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(1_u64.to_be_bytes());
        bytes.extend(highest.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(counts);
        bytes
    }

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        let packed = encoder.finish().unwrap();
        let length = u32::try_from(packed.len()).unwrap();
        [&COMPRESSED_COOKIE.to_be_bytes()[..], &length.to_be_bytes(), &packed].concat()
    }

    /// A real one in the V2 format.
    fn real() -> Vec<u8> {
        let mut histogram = LatencyHistogram::new();
        for time in [0, 5_000, 5_000, 7_000_000, LONGEST_NS] {
            histogram.record(Nanos(time));
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram.0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_made_here_is_read_with_and_without_compression() {
        let plain = real();
        for bytes in [plain.clone(), packed(&plain)] {
            let read = decode(&bytes).unwrap();
            assert_eq!((read.len(), read.sigfig(), read.low()), (5, 3, 1));
        }
    }

    #[test]
    fn sizes_that_no_bytes_follow_are_refused() {
        let (one, hour) = ([2_u8], LONGEST_NS);
        assert_eq!(decode(&v2(1, 3, hour, &one)).unwrap().len(), 1);
        for (bytes, why) in [
            (v2(u32::MAX, 3, hour, &one), "cut off"),
            (v2(2, 3, hour, &one), "cut off"),
            (v2(1, 5, hour, &one), "significant digits"),
            (v2(1, 3, u64::MAX, &one), "longer durations"),
            // A number that goes on, the shortest number of no count there is, and counts whose sum has no room.
            (v2(1, 3, hour, &[0x80]), "cut off"),
            (v2(9, 3, hour, &[0xff; 9]), "more buckets"),
            (v2(9, 3, hour, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), "counts more"),
        ] {
            for bytes in [bytes.clone(), packed(&bytes)] {
                let refused = decode(&bytes).unwrap_err();
                assert!(refused.contains(why), "{why}: {refused}");
            }
        }
        let bomb = packed(&v2(4 << 20, 3, hour, &vec![0; 4 << 20]));
        assert!(decode(&bomb).unwrap_err().contains("longer than any"));
        assert!(decode(&packed(&packed(&real()))).unwrap_err().contains("doesn't begin"));
    }

    /// So is what a run directory has: a text of 56 characters that had a reader make room for 4 GiB.
    #[test]
    fn a_short_text_is_not_believed() {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(v2(u32::MAX, 3, LONGEST_NS, &[]));
        assert_eq!(text.len(), 56);
        let refused = LatencyHistogram::from_base64(&text).unwrap_err();
        assert!(refused.contains("the histogram is damaged: its bytes are cut off"), "{refused}");
    }

    /// What can be asked of a histogram, whatever it was read from.
    fn use_it(read: &LatencyHistogram) {
        assert!(read.quantile(0.99) <= read.max());
        let mut sum = read.clone();
        sum.merge(read).unwrap();
        assert_eq!(sum.len(), 2 * read.len());
        assert!(read.mean() <= read.max());
        let again = LatencyHistogram::from_base64(&read.to_base64().unwrap()).unwrap();
        assert_eq!(again.len(), read.len());
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_refused_or_can_be_used(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut bytes = real();
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())], &packed(&bytes)] {
                if let Ok(read) = LatencyHistogram::from_bytes(bytes) {
                    use_it(&read);
                }
            }
        }

        #[test]
        fn any_counts_are_refused_or_can_be_used(
            counts in proptest::collection::vec(any::<u8>(), 0..200),
            digits in 0_u32..5,
            highest in any::<u64>(),
        ) {
            let length = u32::try_from(counts.len()).unwrap();
            for highest in [highest, highest % (2 * HIGHEST)] {
                if let Ok(read) = LatencyHistogram::from_bytes(&v2(length, digits, highest, &counts)) {
                    use_it(&read);
                }
            }
        }
    }
}
