//! Addresses of From, To, Contact, Route and the like: name-addr or addr-spec with parameters.

use super::scan::{is_space, is_token, seconds, split_quoted, trim, trim_end, trim_start};
use super::{Params, SipError, Uri};

/// An address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// The display name as it is written; without its quotes, but with its escapes.
    pub display: &'a [u8],
    /// The URI.
    pub uri: &'a [u8],
    /// What follows the URI: `;name=value`.
    params: &'a [u8],
    /// The tag parameter.
    pub tag: Option<&'a [u8]>,
}

impl<'a> Address<'a> {
    /// Takes an address to pieces.
    ///
    /// # Errors
    /// It is not an address, or its parameters are malformed. The URI is not looked into.
    pub fn parse(value: &'a [u8]) -> Result<Self, SipError> {
        let value = trim(value);
        let (display, uri, params) = if value.first() == Some(&b'"') {
            let (display, rest) = split_quoted(value).ok_or(SipError::Address)?;
            let [b'<', rest @ ..] = trim_start(rest) else { return Err(SipError::Address) };
            let (uri, params) = split_brackets(rest)?;
            (display, uri, params)
        } else if let Some(at) = bracket(value) {
            let display = trim_end(&value[..at]);
            if !display.iter().all(|b| is_token(*b) || is_space(*b)) {
                return Err(SipError::Address);
            }
            let (uri, params) = split_brackets(&value[at + 1..])?;
            (display, uri, params)
        } else {
            let end = memchr::memchr(b';', value).unwrap_or(value.len());
            let uri = trim_end(&value[..end]);
            // RFC 3261 section 20: a URI with a comma, question mark or semicolon needs brackets.
            if memchr::memchr2(b'?', b',', uri).is_some() {
                return Err(SipError::Address);
            }
            (&b""[..], uri, &value[end..])
        };
        if uri.is_empty() || uri.iter().any(|b| *b <= b' ') {
            return Err(SipError::Address);
        }
        let mut tag = None;
        for param in Params::new(params) {
            let param = param?;
            if param.name.eq_ignore_ascii_case(b"tag") {
                tag = Some(param.value.filter(|v| !v.is_empty()).ok_or(SipError::Address)?);
            }
        }
        Ok(Self { display, uri, params, tag })
    }

    /// The URI, taken to pieces.
    ///
    /// # Errors
    /// It is not a URI.
    pub fn parse_uri(&self) -> Result<Uri<'a>, SipError> {
        Uri::parse(self.uri)
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> Params<'a> {
        Params::new(self.params)
    }

    /// The expires parameter of a Contact, in seconds; one that is not a number counts as not
    /// given (RFC 3261 section 10.2.1.1 has the registrar choose then).
    #[must_use]
    pub fn expires(&self) -> Option<u32> {
        self.params().get(b"expires").flatten().and_then(seconds)
    }
}

/// Where the opening bracket is; not one in a parameter.
fn bracket(value: &[u8]) -> Option<usize> {
    let at = memchr::memchr(b'<', value)?;
    memchr::memchr2(b';', b'"', &value[..at]).is_none().then_some(at)
}

fn split_brackets(rest: &[u8]) -> Result<(&[u8], &[u8]), SipError> {
    let end = memchr::memchr(b'>', rest).ok_or(SipError::Address)?;
    Ok((&rest[..end], &rest[end + 1..]))
}

/// One value of Contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact<'a> {
    /// `*`: every binding.
    Star,
    /// One address.
    Address(Address<'a>),
}

impl<'a> Contact<'a> {
    /// Takes one value of Contact to pieces.
    ///
    /// # Errors
    /// It is not an address.
    pub fn parse(value: &'a [u8]) -> Result<Self, SipError> {
        let value = trim(value);
        if value == b"*" { Ok(Self::Star) } else { Address::parse(value).map(Self::Address) }
    }
}
