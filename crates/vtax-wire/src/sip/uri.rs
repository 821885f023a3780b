//! URIs (RFC 3261 section 19.1).

use std::net::IpAddr;

use super::SipError;
use super::scan::{host_address, split_host_port};

/// A URI's scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
    /// Any other; only [`Uri::text`] says more.
    Other,
}

/// A URI, its parts as they are written, escapes and all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uri<'a> {
    /// The whole of it.
    pub text: &'a [u8],
    /// Its scheme.
    pub scheme: Scheme,
    /// The user part, its own parameters included.
    pub user: Option<&'a [u8]>,
    /// The password.
    pub password: Option<&'a [u8]>,
    /// Name or address; an IPv6 address is in brackets. Empty for [`Scheme::Other`].
    pub host: &'a [u8],
    /// The port.
    pub port: Option<u16>,
    /// The parameters without the first semicolon.
    pub params: &'a [u8],
    /// The headers without the question mark.
    pub headers: &'a [u8],
}

impl<'a> Uri<'a> {
    /// Takes a URI to pieces; one of another scheme is only checked for characters that no URI
    /// can have.
    ///
    /// # Errors
    /// It is not a URI.
    pub fn parse(text: &'a [u8]) -> Result<Self, SipError> {
        if !text.iter().all(|b| is_uri(*b)) {
            return Err(SipError::Uri);
        }
        let colon = memchr::memchr(b':', text).ok_or(SipError::Uri)?;
        let (scheme, rest) = (&text[..colon], &text[colon + 1..]);
        let scheme = if scheme.eq_ignore_ascii_case(b"sip") {
            Scheme::Sip
        } else if scheme.eq_ignore_ascii_case(b"sips") {
            Scheme::Sips
        } else if is_scheme(scheme) && !rest.is_empty() {
            Scheme::Other
        } else {
            return Err(SipError::Uri);
        };
        let empty = Self {
            text,
            scheme,
            user: None,
            password: None,
            host: b"",
            port: None,
            params: b"",
            headers: b"",
        };
        if scheme == Scheme::Other {
            return Ok(empty);
        }
        Self::parse_sip(empty, rest)
    }

    fn parse_sip(mut uri: Self, rest: &'a [u8]) -> Result<Self, SipError> {
        // Neither host, parameters nor headers can hold an unescaped @, but a user part can hold
        // semicolons and question marks.
        let rest = match memchr::memchr(b'@', rest) {
            None => rest,
            Some(at) => {
                let info = &rest[..at];
                let (user, password) = match memchr::memchr(b':', info) {
                    Some(colon) => (&info[..colon], Some(&info[colon + 1..])),
                    None => (info, None),
                };
                if user.is_empty() || !is_escaped(info) || memchr::memchr2(b'[', b']', info).is_some() {
                    return Err(SipError::Uri);
                }
                (uri.user, uri.password) = (Some(user), password);
                &rest[at + 1..]
            }
        };
        let (host, port, rest) = split_host_port(rest).ok_or(SipError::Uri)?;
        (uri.host, uri.port) = (host, port);
        let (params, headers) = match memchr::memchr(b'?', rest) {
            Some(mark) => (&rest[..mark], &rest[mark + 1..]),
            None => (rest, &b""[..]),
        };
        uri.headers = headers;
        uri.params = match params {
            [] => params,
            [b';', inner @ ..] => inner,
            _ => return Err(SipError::Uri),
        };
        if memchr::memchr(b'@', rest).is_some() || !is_escaped(rest) {
            return Err(SipError::Uri);
        }
        Ok(uri)
    }

    /// The parameter of that name: `None` where there is none, `Some(None)` where it has no value.
    #[must_use]
    pub fn param(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        if self.params.is_empty() {
            return None;
        }
        self.params.split(|b| *b == b';').find_map(|part| match memchr::memchr(b'=', part) {
            Some(at) if part[..at].eq_ignore_ascii_case(name) => Some(Some(&part[at + 1..])),
            None if part.eq_ignore_ascii_case(name) => Some(None),
            _ => None,
        })
    }

    /// The host as an address; `None` where it is a name.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        host_address(self.host)
    }

    /// The user part with its escapes undone, in `buffer` where there are any.
    /// `None` where there is no user or `buffer` is too short for it.
    #[must_use]
    pub fn unescaped_user<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let user = self.user?;
        if memchr::memchr(b'%', user).is_none() {
            return Some(user);
        }
        let mut length = 0;
        for byte in Unescaped(user) {
            *buffer.get_mut(length)? = byte;
            length += 1;
        }
        Some(&buffer[..length])
    }
}

/// Bytes with `%41` read as `A`.
#[derive(Debug, Clone, Copy)]
struct Unescaped<'a>(&'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if let (b'%', [high, low, rest @ ..]) = (*first, rest)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            self.0 = rest;
            return Some(high << 4 | low);
        }
        self.0 = rest;
        Some(*first)
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Each % is followed by two hexadecimal digits.
fn is_escaped(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text)
        .all(|at| matches!(text.get(at + 1..at + 3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()))
}

fn is_scheme(text: &[u8]) -> bool {
    matches!(text, [first, rest @ ..] if first.is_ascii_alphabetic()
        && rest.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))
}

/// A character that some part of some URI may hold.
const fn is_uri(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | b'<' | b'>' | b'"' | 0x7f..)
}
