//! Bytes that have arrived, and how many of them are used.

/// Bytes that have arrived.
#[derive(Debug)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, used: 0 }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// What is there.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.used..]
    }

    /// The next `N` bytes, where they are there.
    pub(super) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let array = self.rest().first_chunk()?;
        self.used += N;
        Some(array)
    }

    /// The next bytes, where they are there.
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.rest().get(..length)?;
        self.used += length;
        Some(taken)
    }

    /// Up to so many bytes, of those that are there.
    pub(super) fn up_to(&mut self, most: usize) -> &'a [u8] {
        let taken = &self.rest()[..self.rest().len().min(most)];
        self.used += taken.len();
        taken
    }

    /// Passes over up to so many bytes; how many are left to pass over.
    pub(super) fn skip(&mut self, left: u64) -> u64 {
        let passed = self.up_to(usize::try_from(left).unwrap_or(usize::MAX)).len();
        left - passed as u64
    }
}

/// Two bytes, most significant first.
pub(super) const fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes, most significant first.
pub(super) const fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
