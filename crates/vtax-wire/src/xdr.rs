//! XDR (RFC 4506): numbers are big-endian, everything is padded to four bytes.

/// What is read isn't there, or is longer than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XdrError {
    /// The input ends too early.
    #[error("it ends too early")]
    Cut,
    /// A length is beyond its limit.
    #[error("a length is beyond its limit")]
    Long,
    /// A value that isn't one of its type's.
    #[error("a value is none of its type's")]
    Value,
}

/// Reads values one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the beginning of these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes that are left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.0.len()
    }

    /// An unsigned number of 32 bits.
    ///
    /// # Errors
    /// The input ends too early.
    pub fn word(&mut self) -> Result<u32, XdrError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(XdrError::Cut)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    /// An unsigned number of 64 bits.
    ///
    /// # Errors
    /// The input ends too early.
    pub fn long(&mut self) -> Result<u64, XdrError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(XdrError::Cut)?;
        self.0 = rest;
        Ok(u64::from_be_bytes(*bytes))
    }

    /// True or false.
    ///
    /// # Errors
    /// The input ends too early, or it is neither.
    pub fn flag(&mut self) -> Result<bool, XdrError> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(XdrError::Value),
        }
    }

    /// So many bytes, and their padding.
    ///
    /// # Errors
    /// The input ends too early.
    pub fn fixed(&mut self, length: usize) -> Result<&'a [u8], XdrError> {
        let padded = length.checked_next_multiple_of(4).ok_or(XdrError::Cut)?;
        let (bytes, rest) = self.0.split_at_checked(padded).ok_or(XdrError::Cut)?;
        self.0 = rest;
        Ok(&bytes[..length])
    }

    /// An array of so many bytes.
    ///
    /// # Errors
    /// The input ends too early.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], XdrError> {
        let bytes = self.fixed(N)?;
        bytes.try_into().map_err(|_| XdrError::Cut)
    }

    /// Bytes behind their length, at most so many.
    ///
    /// # Errors
    /// The input ends too early, or they are more.
    pub fn opaque(&mut self, most: usize) -> Result<&'a [u8], XdrError> {
        let length = self.word()? as usize;
        if length > most {
            return Err(XdrError::Long);
        }
        self.fixed(length)
    }

    /// The number of items that follow, each of at least `least` bytes: more than there can be are refused.
    ///
    /// # Errors
    /// The input ends too early, or has no room for so many.
    pub fn count(&mut self, least: usize) -> Result<usize, XdrError> {
        let count = self.word()? as usize;
        if count > self.0.len() / least.max(1) { Err(XdrError::Cut) } else { Ok(count) }
    }
}

/// Appends a number of 32 bits.
pub fn word(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a number of 64 bits.
pub fn long(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends bytes of a known length, and their padding.
pub fn fixed(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(padding(bytes.len()));
}

/// Appends bytes behind their length, and their padding.
pub fn opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    word(out, bytes.len() as u32);
    fixed(out, bytes);
}

/// The padding behind so many bytes.
#[must_use]
pub fn padding(length: usize) -> &'static [u8] {
    &[0; 3][..length.wrapping_neg() & 3]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_come_back(a: u32, b: u64, bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut out = Vec::new();
            word(&mut out, a);
            opaque(&mut out, &bytes);
            long(&mut out, b);
            prop_assert_eq!(out.len() % 4, 0);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.word(), Ok(a));
            prop_assert_eq!(reader.opaque(50), Ok(&bytes[..]));
            prop_assert_eq!(reader.long(), Ok(b));
            prop_assert_eq!(reader.word(), Err(XdrError::Cut));
            if !bytes.is_empty() {
                let mut reader = Reader::new(&out[4..]);
                prop_assert_eq!(reader.opaque(bytes.len() - 1), Err(XdrError::Long));
            }
        }

        #[test]
        fn lengths_are_not_believed(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(count) = reader.count(4) {
                prop_assert!(count <= bytes.len() / 4);
            }
            let _ = Reader::new(&bytes).opaque(usize::MAX);
            let _ = Reader::new(&bytes).fixed(usize::MAX);
        }
    }
}
