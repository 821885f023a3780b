//! What keys hold, so that every answer can be told from a wrong one.
//!
//! A value names its key, its version and its length in its first sixteen bytes; the rest is cut from a pool of
//! random bytes, at a place that key and version give. So a value that is read back tells by itself whether it is
//! whole, and which write it is of. Random bytes don't compress.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Bytes of a value's head: version and key and length, little-endian.
pub(super) const HEAD_BYTES: usize = 16;

/// Bytes of the pool: few enough to stay in a CPU's cache.
const POOL_BYTES: usize = 1 << 16;

/// The pool that values are cut from.
#[derive(Debug)]
pub(super) struct Pool(Box<[u8]>);

/// Which value: of which key, by which write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// Number of the key.
    pub(super) key: u64,
    /// Writes of this key up to this one.
    pub(super) version: u32,
    /// Length of the value in bytes, head included.
    pub(super) length: u32,
}

impl Identity {
    fn head(self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&self.version.to_le_bytes());
        head[4..12].copy_from_slice(&self.key.to_le_bytes());
        head[12..].copy_from_slice(&self.length.to_le_bytes());
        head
    }

    fn of_head(head: &[u8; HEAD_BYTES]) -> Self {
        let [v0, v1, v2, v3, k0, k1, k2, k3, k4, k5, k6, k7, l0, l1, l2, l3] = *head;
        Self {
            version: u32::from_le_bytes([v0, v1, v2, v3]),
            key: u64::from_le_bytes([k0, k1, k2, k3, k4, k5, k6, k7]),
            length: u32::from_le_bytes([l0, l1, l2, l3]),
        }
    }

    /// Where in the pool the bytes after the head begin (a multiplicative hash, Knuth, TAOCP 6.4).
    const fn place(self) -> usize {
        let mixed = (self.key ^ (self.version as u64) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 48) as usize % POOL_BYTES
    }
}

impl Pool {
    pub(super) fn new(seed: u64) -> Self {
        let mut bytes = vec![0; POOL_BYTES].into_boxed_slice();
        StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        Self(bytes)
    }

    /// Appends the value.
    pub(super) fn write(&self, out: &mut Vec<u8>, value: Identity) {
        out.extend_from_slice(&value.head());
        let mut left = (value.length as usize).saturating_sub(HEAD_BYTES);
        let mut at = value.place();
        while left > 0 {
            let piece = left.min(POOL_BYTES - at);
            out.extend_from_slice(&self.0[at..at + piece]);
            (left, at) = (left - piece, 0);
        }
    }
}

/// Reads one value back, in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    head: [u8; HEAD_BYTES],
    /// Bytes seen.
    seen: u32,
    /// What is to come differs, or came differently.
    differs: bool,
    /// Where in the pool the next byte is.
    at: u16,
}

impl Reading {
    pub(super) const fn new() -> Self {
        Self { head: [0; HEAD_BYTES], seen: 0, differs: false, at: 0 }
    }

    /// Takes the next bytes of the value.
    pub(super) fn take(&mut self, pool: &Pool, mut bytes: &[u8]) {
        if (self.seen as usize) < HEAD_BYTES {
            let at = self.seen as usize;
            let piece = bytes.len().min(HEAD_BYTES - at);
            self.head[at..at + piece].copy_from_slice(&bytes[..piece]);
            self.seen += piece as u32;
            bytes = &bytes[piece..];
            if self.seen as usize == HEAD_BYTES {
                self.at = Identity::of_head(&self.head).place() as u16;
            }
        }
        // What a server sends beyond any length that was written differs anyway.
        self.seen = self.seen.saturating_add(bytes.len() as u32);
        while !bytes.is_empty() {
            let at = usize::from(self.at);
            let piece = bytes.len().min(POOL_BYTES - at);
            self.differs |= pool.0[at..at + piece] != bytes[..piece];
            self.at = ((at + piece) % POOL_BYTES) as u16;
            bytes = &bytes[piece..];
        }
    }

    /// The value that was read; `None` where no write can have made it.
    pub(super) fn end(&self) -> Option<Identity> {
        self.claimed().filter(|_| !self.differs)
    }

    /// What the value that was read says it is, of whatever pool its bytes are; `None` where it is longer or shorter than it says.
    pub(super) fn claimed(&self) -> Option<Identity> {
        let value = Identity::of_head(&self.head);
        (self.seen as usize >= HEAD_BYTES && value.length == self.seen).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pool: &Pool, bytes: &[u8], piece: usize) -> Option<Identity> {
        let mut reading = Reading::new();
        bytes.chunks(piece).for_each(|part| reading.take(pool, part));
        reading.end()
    }

    proptest! {
        #[test]
        fn a_value_is_read_back_wherever_it_is_torn(
            key in any::<u64>(), version in any::<u32>(), length in 16u32..200_000, piece in 1usize..70_000,
        ) {
            let (pool, value) = (Pool::new(7), Identity { key, version, length });
            let mut bytes = Vec::new();
            pool.write(&mut bytes, value);
            prop_assert_eq!(bytes.len(), length as usize);
            prop_assert_eq!(read(&pool, &bytes, piece), Some(value));
        }

        #[test]
        fn a_changed_value_is_not_taken_for_the_same(
            length in 16u32..3_000, place in any::<prop::sample::Index>(), change in 1u8..=255, cut in 1usize..3_000,
        ) {
            let (pool, value) = (Pool::new(7), Identity { key: 5, version: 3, length });
            let mut bytes = Vec::new();
            pool.write(&mut bytes, value);
            let short = bytes.len().saturating_sub(cut);
            prop_assert_eq!(read(&pool, &bytes[..short], 100), None);
            bytes[place.index(length as usize)] ^= change;
            prop_assert_ne!(read(&pool, &bytes, 100), Some(value));
        }
    }
}
