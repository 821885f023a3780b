//! Challenges and credentials of the Digest scheme (RFC 3261 section 22, RFC 8760).

use super::SipError;
use super::digest::{Algorithm, Answer, Hex, QopAuth};
use super::scan::{is_space, split_quoted, split_token, trim, trim_start};

/// The value of WWW-Authenticate or Proxy-Authenticate.
///
/// Quoted values are kept without their quotes and with their escapes: so they are hashed by
/// everyone, and so they are written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// The realm.
    pub realm: &'a [u8],
    /// The nonce.
    pub nonce: &'a [u8],
    /// What the credentials have to repeat.
    pub opaque: Option<&'a [u8]>,
    /// The algorithm, where it is given.
    pub algorithm: Option<Algorithm>,
    /// qop=auth is offered.
    pub qop_auth: bool,
    /// The credentials were right but for their nonce, which is too old.
    pub stale: bool,
}

impl<'a> Challenge<'a> {
    /// Takes a challenge to pieces. Of several in one message the caller takes the first that
    /// parses.
    ///
    /// # Errors
    /// It is malformed, is not a Digest's, or asks for what this codec can't do.
    pub fn parse(value: &'a [u8]) -> Result<Self, SipError> {
        let mut challenge =
            Self { realm: b"", nonce: b"", opaque: None, algorithm: None, qop_auth: false, stale: false };
        let (mut has_realm, mut qop) = (false, None);
        for pair in Pairs::of_digest(value)? {
            let (name, value) = pair?;
            if name.eq_ignore_ascii_case(b"realm") {
                (challenge.realm, has_realm) = (value, true);
            } else if name.eq_ignore_ascii_case(b"nonce") {
                challenge.nonce = value;
            } else if name.eq_ignore_ascii_case(b"opaque") {
                challenge.opaque = Some(value);
            } else if name.eq_ignore_ascii_case(b"algorithm") {
                challenge.algorithm = Some(Algorithm::of(value).ok_or(SipError::DigestUnsupported)?);
            } else if name.eq_ignore_ascii_case(b"stale") {
                challenge.stale = value.eq_ignore_ascii_case(b"true");
            } else if name.eq_ignore_ascii_case(b"qop") {
                qop = Some(value);
            }
        }
        if !has_realm || challenge.nonce.is_empty() {
            return Err(SipError::Digest);
        }
        if let Some(qop) = qop {
            challenge.qop_auth = qop.split(|b| *b == b',').any(|q| trim(q).eq_ignore_ascii_case(b"auth"));
            if !challenge.qop_auth {
                return Err(SipError::DigestUnsupported);
            }
        }
        Ok(challenge)
    }

    /// Appends the value, without name and line end.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut pairs = PairWriter::begin(out);
        pairs.quoted("realm", self.realm);
        pairs.quoted("nonce", self.nonce);
        if let Some(opaque) = self.opaque {
            pairs.quoted("opaque", opaque);
        }
        if let Some(algorithm) = self.algorithm {
            pairs.plain("algorithm", algorithm.text().as_bytes());
        }
        if self.qop_auth {
            pairs.quoted("qop", b"auth");
        }
        if self.stale {
            pairs.plain("stale", b"true");
        }
    }
}

/// The value of Authorization or Proxy-Authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user's private name.
    pub username: &'a [u8],
    /// The realm.
    pub realm: &'a [u8],
    /// The server's nonce.
    pub nonce: &'a [u8],
    /// The digest-uri.
    pub uri: &'a [u8],
    /// The response, as many digits as the algorithm makes.
    pub response: &'a [u8],
    /// The algorithm, where it is given.
    pub algorithm: Option<Algorithm>,
    /// The challenge's opaque.
    pub opaque: Option<&'a [u8]>,
    /// Nonce count and client nonce of qop=auth.
    pub qop: Option<QopAuth<'a>>,
}

impl<'a> Credentials<'a> {
    /// Takes credentials to pieces.
    ///
    /// # Errors
    /// They are malformed, incomplete, or of another scheme, algorithm or qop.
    pub fn parse(value: &'a [u8]) -> Result<Self, SipError> {
        let mut found = Self {
            username: b"",
            realm: b"",
            nonce: b"",
            uri: b"",
            response: b"",
            algorithm: None,
            opaque: None,
            qop: None,
        };
        let (mut qop, mut nc, mut cnonce) = (None, None, None);
        for pair in Pairs::of_digest(value)? {
            let (name, value) = pair?;
            // By length first: eight names are told apart with about one comparison each.
            match name.len() {
                8 if name.eq_ignore_ascii_case(b"username") => found.username = value,
                8 if name.eq_ignore_ascii_case(b"response") => found.response = value,
                5 if name.eq_ignore_ascii_case(b"realm") => found.realm = value,
                5 if name.eq_ignore_ascii_case(b"nonce") => found.nonce = value,
                3 if name.eq_ignore_ascii_case(b"uri") => found.uri = value,
                3 if name.eq_ignore_ascii_case(b"qop") => qop = Some(value),
                2 if name.eq_ignore_ascii_case(b"nc") => nc = Some(value),
                6 if name.eq_ignore_ascii_case(b"cnonce") => cnonce = Some(value),
                6 if name.eq_ignore_ascii_case(b"opaque") => found.opaque = Some(value),
                9 if name.eq_ignore_ascii_case(b"algorithm") => {
                    found.algorithm = Some(Algorithm::of(value).ok_or(SipError::DigestUnsupported)?);
                }
                _ => {}
            }
        }
        if [found.username, found.nonce, found.uri, found.response].iter().any(|v| v.is_empty()) {
            return Err(SipError::Digest);
        }
        found.qop = match (qop, nc, cnonce) {
            (None, _, _) => None,
            (Some(qop), _, _) if !qop.eq_ignore_ascii_case(b"auth") => {
                return Err(SipError::DigestUnsupported);
            }
            (Some(_), Some(nc), Some(cnonce)) if is_nonce_count(nc) => Some(QopAuth { nc, cnonce }),
            _ => return Err(SipError::Digest),
        };
        Ok(found)
    }

    /// The nonce count; `None` without qop.
    #[must_use]
    pub fn nonce_count(&self) -> Option<u32> {
        let text = std::str::from_utf8(self.qop?.nc).ok()?;
        u32::from_str_radix(text, 16).ok()
    }

    /// Whether the response is what the holder of `ha1` answers. Compares in constant time.
    #[must_use]
    pub fn is_answer_of(&self, ha1: &Hex, method: &[u8]) -> bool {
        let algorithm = self.algorithm.unwrap_or_default();
        let answer = Answer { algorithm, ha1, method, uri: self.uri, nonce: self.nonce, qop: self.qop };
        let expected = answer.response();
        expected.bytes().len() == self.response.len()
            && expected
                .bytes()
                .iter()
                .zip(self.response)
                .fold(0, |diff, (a, b)| diff | (a ^ b.to_ascii_lowercase()))
                == 0
    }

    /// Appends the value, without name and line end.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut pairs = PairWriter::begin(out);
        pairs.quoted("username", self.username);
        pairs.quoted("realm", self.realm);
        pairs.quoted("nonce", self.nonce);
        pairs.quoted("uri", self.uri);
        pairs.quoted("response", self.response);
        if let Some(algorithm) = self.algorithm {
            pairs.plain("algorithm", algorithm.text().as_bytes());
        }
        if let Some(opaque) = self.opaque {
            pairs.quoted("opaque", opaque);
        }
        if let Some(qop) = self.qop {
            pairs.plain("qop", b"auth");
            pairs.plain("nc", qop.nc);
            pairs.quoted("cnonce", qop.cnonce);
        }
    }
}

fn is_nonce_count(text: &[u8]) -> bool {
    text.len() == 8 && text.iter().all(u8::is_ascii_hexdigit)
}

/// The `name=value` pairs behind the scheme.
#[derive(Debug)]
struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Pairs<'a> {
    fn of_digest(value: &'a [u8]) -> Result<Self, SipError> {
        let (scheme, rest) = split_token(trim(value));
        if scheme.is_empty() {
            return Err(SipError::Digest);
        }
        if !scheme.eq_ignore_ascii_case(b"Digest") {
            return Err(SipError::DigestUnsupported);
        }
        if !rest.first().is_some_and(|b| is_space(*b)) {
            return Err(SipError::Digest);
        }
        Ok(Self { rest })
    }

    fn step(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let (name, rest) = split_token(self.rest);
        let rest = trim_start(trim_start(rest).strip_prefix(b"=")?);
        let (value, rest) = if rest.first() == Some(&b'"') {
            split_quoted(rest)?
        } else {
            let end = rest.iter().position(|b| *b == b',' || is_space(*b)).unwrap_or(rest.len());
            rest.split_at(end)
        };
        let rest = trim_start(rest);
        self.rest = match rest {
            [] => rest,
            [b',', rest @ ..] => rest,
            _ => return None,
        };
        (!name.is_empty()).then_some((name, value))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), SipError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Empty members of a list are passed over (RFC 9110 section 5.6.1).
        self.rest = trim_start(self.rest);
        while let [b',', rest @ ..] = self.rest {
            self.rest = trim_start(rest);
        }
        if self.rest.is_empty() {
            return None;
        }
        let step = self.step().ok_or(SipError::Digest);
        if step.is_err() {
            self.rest = &[];
        }
        Some(step)
    }
}

struct PairWriter<'o> {
    out: &'o mut Vec<u8>,
    separator: &'static [u8],
}

impl<'o> PairWriter<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Self {
        out.extend_from_slice(b"Digest");
        Self { out, separator: b" " }
    }

    fn plain(&mut self, name: &str, value: &[u8]) {
        self.out.extend_from_slice(self.separator);
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'=');
        self.out.extend_from_slice(value);
        self.separator = b", ";
    }

    fn quoted(&mut self, name: &str, value: &[u8]) {
        self.plain(name, b"\"");
        self.out.extend_from_slice(value);
        self.out.push(b'"');
    }
}

/// Formats a nonce count as its eight digits.
#[must_use]
pub fn nonce_count(count: u32) -> [u8; 8] {
    let mut digits = [0; 8];
    digits.copy_from_slice(Hex::of(&count.to_be_bytes()).bytes());
    digits
}
