//! Text: `key=value` pairs, each ended by a zero byte (RFC 7143 section 6.1).

use super::IscsiError;

/// Longest name of a key (RFC 7143 section 6.1).
const KEY_BYTES_MAX: usize = 63;

/// The pairs of a text.
#[derive(Debug, Clone)]
pub struct Pairs<'a>(&'a [u8]);

impl<'a> Pairs<'a> {
    /// The pairs of a whole text.
    #[must_use]
    pub const fn of(text: &'a [u8]) -> Self {
        Self(text)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a str, &'a str), IscsiError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Some targets end a text with more zero bytes than one.
        while let [0, rest @ ..] = self.0 {
            self.0 = rest;
        }
        if self.0.is_empty() {
            return None;
        }
        let found = pair(self.0);
        self.0 = match &found {
            Ok((_, rest)) => rest,
            Err(_) => &[],
        };
        Some(found.map(|(pair, _)| pair))
    }
}

type Found<'a> = ((&'a str, &'a str), &'a [u8]);

fn pair(text: &[u8]) -> Result<Found<'_>, IscsiError> {
    let end = memchr::memchr(0, text).ok_or(IscsiError::Text)?;
    let line = std::str::from_utf8(&text[..end]).map_err(|_| IscsiError::Text)?;
    let (key, value) = line.split_once('=').ok_or(IscsiError::Text)?;
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(IscsiError::Text);
    }
    Ok(((key, value), &text[end + 1..]))
}

/// Appends one pair.
pub(super) fn push(out: &mut Vec<u8>, key: &str, value: &str) {
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

/// A target that a discovery found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// Its name.
    pub name: String,
    /// Where it may be reached: address and port, and the portal group behind a comma.
    pub addresses: Vec<String>,
}

/// The targets in an answer to `SendTargets=All`.
///
/// # Errors
/// It isn't text, or an address comes before any name.
pub fn discovered(text: &[u8]) -> Result<Vec<Discovered>, IscsiError> {
    let mut found: Vec<Discovered> = Vec::new();
    for pair in Pairs::of(text) {
        match pair? {
            ("TargetName", name) => found.push(Discovered { name: name.to_owned(), addresses: Vec::new() }),
            ("TargetAddress", address) => {
                found.last_mut().ok_or(IscsiError::Text)?.addresses.push(address.to_owned());
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Bytes as text has them: `0x` and hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    "0x".chars().chain(digits.map(char::from)).collect()
}

/// Reads what [`hex`] writes, or base64 behind `0b`; `None` where it is neither, or longer than `most` bytes.
pub(super) fn binary(text: &str, most: usize) -> Option<Vec<u8>> {
    let prefix = text.get(..2)?;
    let digits = &text.as_bytes()[2..];
    if prefix.eq_ignore_ascii_case("0x") {
        let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
        if digits.len() > 2 * most {
            return None;
        }
        // An odd number of digits: the first byte has one.
        let (first, pairs) = digits.split_at(digits.len() % 2);
        let first = first.iter().map(|b| digit(*b));
        let pairs = pairs.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
        return first.chain(pairs).collect();
    }
    if prefix.eq_ignore_ascii_case("0b") && digits.len() <= most.div_ceil(3) * 4 {
        return base64(digits);
    }
    None
}

fn base64(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |b: u8| {
        Some(match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    let padding = digits.iter().rev().take_while(|b| **b == b'=').count();
    if !digits.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for b in &digits[..digits.len() - padding] {
        bits = bits << 6 | u32::from(value(*b)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn binary_values_are_hexadecimal_or_base64() {
        assert_eq!(hex(&[0, 0xab, 15]), "0x00ab0f");
        assert_eq!(binary("0x00aB0f", 3), Some(vec![0, 0xab, 15]));
        assert_eq!(binary("0Xabc", 3), Some(vec![0xa, 0xbc]));
        assert_eq!(binary("0bAKsP", 3), Some(vec![0, 0xab, 15]));
        assert_eq!(binary("0bAKs=", 3), Some(vec![0, 0xab]));
        for wrong in ["", "0", "0x0g", "0bA", "0b====", "0x01020304", "0bAKsPAA==", "17", "é0"] {
            assert_eq!(binary(wrong, 3), None, "{wrong}");
        }
    }

    #[test]
    fn a_discovery_lists_targets_and_their_addresses() {
        let text = b"TargetName=iqn.a\0TargetAddress=10.0.0.1:3260,1\0TargetAddress=[::1]:99,1\0\
                     TargetName=iqn.b\0\0\0";
        let found = discovered(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].addresses, ["10.0.0.1:3260,1", "[::1]:99,1"]);
        assert_eq!((found[1].name.as_str(), found[1].addresses.len()), ("iqn.b", 0));
        assert_eq!(discovered(b"TargetAddress=10.0.0.1\0"), Err(IscsiError::Text));
        assert_eq!(discovered(b"TargetName=cut"), Err(IscsiError::Text));
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 1..100)) {
            prop_assert_eq!(binary(&hex(&bytes), 100), Some(bytes));
        }

        #[test]
        fn any_text_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in ".{0,50}") {
            prop_assert!(Pairs::of(&bytes).count() <= bytes.len());
            let _ = binary(&text, 20);
        }
    }
}
