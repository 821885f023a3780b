//! What files hold, how long they are, and what they are called.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use vtax_plan::model::FileSizes;
use vtax_units::Bytes;
use vtax_units::random::SplitMix64;

/// Contents repeat after this many bytes. It is a prime: blocks, pages and records of a server have lengths of powers of two, so that one
/// in the wrong place is seen.
const PERIOD: usize = 65_521;
/// The 90th percentile of the standard normal distribution.
const Z90: f64 = 1.281_551_565_5;
/// Longest file.
const LONGEST: u64 = 1 << 40;

/// The contents of all files: a table of random bytes, which each file begins to read at a place of its own.
#[derive(Debug)]
pub(super) struct Contents {
    /// Twice, so that a piece from anywhere is in one part.
    table: Box<[u8]>,
}

impl Contents {
    pub(super) fn new() -> Self {
        let mut table = vec![0; 2 * PERIOD].into_boxed_slice();
        let (first, second) = table.split_at_mut(PERIOD);
        // The same bytes in every load: files stay from one to the next.
        Xoshiro256PlusPlus::seed_from_u64(0x0066_7470).fill_bytes(first);
        second.copy_from_slice(first);
        Self { table }
    }

    /// A piece of a content from `offset`, at most `most` bytes.
    pub(super) fn piece(&self, content: u32, offset: u64, most: u64) -> &[u8] {
        let at = (content as usize % PERIOD + (offset % PERIOD as u64) as usize) % PERIOD;
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(PERIOD);
        &self.table[at..at + length]
    }

    /// Whether these bytes are what the content has from `offset`.
    pub(super) fn is(&self, content: u32, mut offset: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.piece(content, offset, bytes.len() as u64);
            let (part, rest) = bytes.split_at(expected.len());
            if part != expected {
                return false;
            }
            offset += part.len() as u64;
            bytes = rest;
        }
        true
    }
}

/// Which content the file with this number has.
pub(super) fn content_of_file(file: u32) -> u32 {
    mix(u64::from(file)) as u32
}

/// Which content an upload has: that of the upload before differs.
pub(super) fn content_of_upload(client: u32, upload: u32) -> u32 {
    mix(u64::from(client) << 32 | u64::from(upload) | 1 << 63) as u32
}

/// The length of the file with this number.
pub(super) fn size_of(sizes: FileSizes, file: u32) -> u64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(u64::from(file)));
    match sizes {
        FileSizes::Fixed(Bytes(size)) => size,
        FileSizes::Uniform(Bytes(from), Bytes(to)) => rng.random_range(from.min(to)..=from.max(to)),
        FileSizes::LogNormal(median, ninth) => {
            let sigma = (ninth.0.max(1) as f64 / median.0.max(1) as f64).ln().max(0.0) / Z90;
            let mean = (median.0.max(1) as f64).ln();
            LogNormal::new(mean, sigma).map_or(median.0, |law| (law.sample(&mut rng) as u64).min(LONGEST))
        }
    }
}

/// Begins the names of files that are fetched.
pub(super) const PREFIX: &str = "vtax-r";

/// The name of a file that is fetched.
pub(super) fn file_name(out: &mut String, file: u32) {
    name(out, PREFIX, file);
}

/// The name of what a client stores.
pub(super) fn upload_name(out: &mut String, client: u32) {
    name(out, "vtax-w", client);
}

fn name(out: &mut String, prefix: &str, number: u32) {
    use std::fmt::Write;
    out.clear();
    // Writing to a string doesn't fail.
    let _ = write!(out, "{prefix}{number}");
}

/// The number of a file that is fetched, from its name.
pub(super) fn number_of(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX.as_bytes())?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What follows from a number and looks as if it didn't.
fn mix(value: u64) -> u64 {
    SplitMix64::new(value).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_known_from_anywhere() {
        let contents = Contents::new();
        let content = content_of_file(3);
        let mut whole = Vec::new();
        while whole.len() < 200_000 {
            whole.extend_from_slice(contents.piece(content, whole.len() as u64, 70_000));
        }
        assert!(contents.is(content, 0, &whole));
        assert!(contents.is(content, 66_000, &whole[66_000..150_001]));
        assert!(!contents.is(content, 66_001, &whole[66_000..150_001]));
        assert!(!contents.is(content_of_file(4), 0, &whole));
        whole[150_000] ^= 1;
        assert!(!contents.is(content, 0, &whole));
        assert!(contents.is(content, 0, &whole[..150_000]));
        assert_ne!(content_of_upload(1, 1) as usize % PERIOD, content_of_upload(1, 2) as usize % PERIOD);
    }

    #[test]
    fn files_have_the_contents_that_they_always_had() {
        assert_eq!(mix(3), 0x1d0b_14e4_db01_8fed);
        assert_eq!([0, 3].map(content_of_file), [2_065_550_767, 3_674_312_685]);
    }

    #[test]
    fn sizes_follow_their_law() {
        let sizes = |law| {
            let mut all: Vec<u64> = (0..10_000).map(|file| size_of(law, file)).collect();
            all.sort_unstable();
            all
        };
        assert!(sizes(FileSizes::Fixed(Bytes(7))).iter().all(|size| *size == 7));
        let uniform = sizes(FileSizes::Uniform(Bytes(100), Bytes(200)));
        assert_eq!((uniform[0], uniform[9_999]), (100, 200));
        let normal = sizes(FileSizes::LogNormal(Bytes(10_000), Bytes(100_000)));
        assert!((9_000..11_000).contains(&normal[5_000]), "{}", normal[5_000]);
        assert!((90_000..110_000).contains(&normal[9_000]), "{}", normal[9_000]);
    }

    #[test]
    fn names_tell_their_numbers() {
        let mut name = String::new();
        file_name(&mut name, 12);
        assert_eq!((name.as_str(), number_of(name.as_bytes())), ("vtax-r12", Some(12)));
        assert_eq!(number_of(b"vtax-w12"), None);
    }
}
