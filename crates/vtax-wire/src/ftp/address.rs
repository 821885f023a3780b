//! What the texts of replies say: where a data connection goes, how long a file is.

use std::net::Ipv4Addr;

/// The port in the text of a 229 reply: `Entering Extended Passive Mode (|||6446|)` (RFC 2428 section 3).
#[must_use]
pub fn extended_passive(text: &[u8]) -> Option<u16> {
    let open = text.iter().rposition(|byte| *byte == b'(')?;
    let inside = &text[open + 1..];
    let delimiter = *inside.first().filter(|byte| (33..=126).contains(*byte) && !byte.is_ascii_digit())?;
    let digits = inside.strip_prefix(&[delimiter, delimiter, delimiter])?;
    let end = digits.iter().position(|byte| *byte == delimiter)?;
    (digits.get(end + 1) == Some(&b')')).then_some(())?;
    number(&digits[..end]).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// The address and port in the text of a 227 reply: six numbers, wherever they are in it (RFC 1123 section 4.1.2.6).
#[must_use]
pub fn passive(text: &[u8]) -> Option<(Ipv4Addr, u16)> {
    (0..text.len()).filter(|at| begins_a_number(text, *at)).find_map(|at| six(&text[at..]))
}

fn begins_a_number(text: &[u8], at: usize) -> bool {
    text[at].is_ascii_digit() && (at == 0 || !text[at - 1].is_ascii_digit())
}

fn six(text: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let mut numbers = [0_u8; 6];
    let mut rest = text;
    for (place, value) in numbers.iter_mut().enumerate() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *value = number(&rest[..digits]).and_then(|n| u8::try_from(n).ok())?;
        rest = &rest[digits..];
        if place < 5 {
            rest = rest.strip_prefix(b",")?;
        }
    }
    let [a, b, c, d, high, low] = numbers;
    let port = u16::from_be_bytes([high, low]);
    (port > 0).then_some((Ipv4Addr::new(a, b, c, d), port))
}

/// The number that the text of a 213 reply to SIZE is (RFC 3659 section 4).
#[must_use]
pub fn size(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii())
}

/// A decimal number of digits alone.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits
        .iter()
        .try_fold(0_u64, |sum, byte| byte.is_ascii_digit().then(|| 10 * sum + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_addresses_are_read() {
        assert_eq!(extended_passive(b"Entering Extended Passive Mode (|||6446|)"), Some(6446));
        assert_eq!(extended_passive(b"ok (!!!1!)."), Some(1));
        for wrong in
            ["", "(|||0|)", "(|||65536|)", "(||6446|)", "(|||6446)", "|||6446|", "(|||6446|", "(1112111)"]
        {
            assert_eq!(extended_passive(wrong.as_bytes()), None, "{wrong}");
        }
        let there = Some((Ipv4Addr::new(127, 0, 0, 1), 256 * 7 + 3));
        for text in ["Entering Passive Mode (127,0,0,1,7,3).", "127,0,0,1,7,3", "in 5 s =127,0,0,1,7,3"] {
            assert_eq!(passive(text.as_bytes()), there, "{text}");
        }
        for wrong in ["", "127,0,0,1,7", "(127,0,0,1,0,0)", "(127,0,0,256,1,1)", "(127, 0,0,1,1,1)"] {
            assert_eq!(passive(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_are_numbers_and_nothing_else() {
        assert_eq!(size(b"102400"), Some(102_400));
        assert_eq!(size(b" 7 "), Some(7));
        for wrong in ["", "-1", "1k", "99999999999999999999"] {
            assert_eq!(size(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
