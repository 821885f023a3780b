//! Small scans over bytes that every part of the codec uses.

/// A character of a token (RFC 3261 section 25.1).
pub(super) const fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        table[at] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~');
        at += 1;
    }
    table
};

/// White space within a header's value. Line ends belong to it: what is left of them in a value
/// is a fold.
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

pub(super) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes {
        if !is_space(*first) {
            break;
        }
        bytes = rest;
    }
    bytes
}

pub(super) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes {
        if !is_space(*last) {
            break;
        }
        bytes = rest;
    }
    bytes
}

pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

/// Splits off the longest run of token characters, which may be empty.
pub(super) fn split_token(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = bytes.iter().position(|b| !is_token(*b)).unwrap_or(bytes.len());
    bytes.split_at(length)
}

/// Splits a quoted string off, whose opening quote is the first byte: what is between the quotes
/// (escapes and all), and what follows. `None` where it doesn't end.
pub(super) fn split_quoted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = bytes.get(1..)?;
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &inner[at..])?;
        if inner[at] == b'"' {
            return Some((&inner[..at], &inner[at + 1..]));
        }
        at += 2;
        if at > inner.len() {
            return None;
        }
    }
}

/// A number of digits only; `None` where it is not one, or exceeds 2^32-1.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u32, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

/// delta-seconds: digits only, where more than 2^32-1 is as good as forever.
pub(super) fn seconds(bytes: &[u8]) -> Option<u32> {
    if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(number(bytes).unwrap_or(u32::MAX))
}

pub(super) fn port(bytes: &[u8]) -> Option<u16> {
    number(bytes).and_then(|n| u16::try_from(n).ok())
}

/// A host: a name, an IPv4 address, or an IPv6 address in brackets. Underscores are tolerated.
pub(super) fn is_host(bytes: &[u8]) -> bool {
    match bytes {
        [] => false,
        [b'[', inner @ .., b']'] => {
            std::str::from_utf8(inner).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
        }
        _ => bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')),
    }
}

/// Splits `host [":" port]` off the front of something; white space may surround the colon.
pub(super) fn split_host_port(bytes: &[u8]) -> Option<(&[u8], Option<u16>, &[u8])> {
    let end = if bytes.first() == Some(&b'[') {
        memchr::memchr(b']', bytes)? + 1
    } else {
        bytes
            .iter()
            .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')))
            .unwrap_or(bytes.len())
    };
    let (host, rest) = bytes.split_at(end);
    if host.is_empty() || (host[0] == b'[' && !is_host(host)) {
        return None;
    }
    let [b':', after @ ..] = trim_start(rest) else { return Some((host, None, rest)) };
    let after = trim_start(after);
    let end = after.iter().position(|b| !b.is_ascii_digit()).unwrap_or(after.len());
    Some((host, Some(port(&after[..end])?), &after[end..]))
}

/// A host as an address, brackets or not.
pub(super) fn host_address(host: &[u8]) -> Option<std::net::IpAddr> {
    let text = match host {
        [b'[', inner @ .., b']'] => inner,
        // A name, by far the most frequent case that isn't an address.
        [.., last] if !last.is_ascii_digit() && memchr::memchr(b':', host).is_none() => return None,
        _ => host,
    };
    std::str::from_utf8(text).ok()?.parse().ok()
}
