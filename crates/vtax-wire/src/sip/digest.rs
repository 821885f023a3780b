//! Digest computation (RFC 2617 section 3.2.2, RFC 7616 section 3.4).

use md5::Md5;
use sha2::{Digest as _, Sha256};

/// The hash of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// MD5, also where no algorithm is given.
    #[default]
    Md5,
    /// SHA-256 (RFC 8760 for SIP).
    Sha256,
}

impl Algorithm {
    /// The algorithm that is written so, in any case.
    #[must_use]
    pub fn of(text: &[u8]) -> Option<Self> {
        if text.eq_ignore_ascii_case(b"MD5") {
            Some(Self::Md5)
        } else if text.eq_ignore_ascii_case(b"SHA-256") {
            Some(Self::Sha256)
        } else {
            None
        }
    }

    /// How it is written.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }

    /// The hash of the parts joined by colons.
    #[must_use]
    pub fn hash(self, parts: &[&[u8]]) -> Hex {
        match self {
            Self::Md5 => Hex::of(&joined(Md5::new(), parts)),
            Self::Sha256 => Hex::of(&joined(Sha256::new(), parts)),
        }
    }
}

fn joined<D: sha2::Digest>(mut hash: D, parts: &[&[u8]]) -> sha2::digest::Output<D> {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            hash.update(b":");
        }
        hash.update(part);
    }
    hash.finalize()
}

/// A hash in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hex {
    digits: [u8; 64],
    length: u8,
}

impl Hex {
    /// Of at most 32 bytes; what is beyond them is left out.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 64];
        let bytes = &bytes[..bytes.len().min(32)];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self { digits, length: 2 * bytes.len() as u8 }
    }

    /// The digits.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.digits[..usize::from(self.length)]
    }

    /// The digits as text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

/// H(A1) of a user: `user:realm:password`, hashed. All that a client or server has to keep of a
/// password for one realm.
#[must_use]
pub fn ha1(algorithm: Algorithm, user: &[u8], realm: &[u8], password: &[u8]) -> Hex {
    algorithm.hash(&[user, realm, password])
}

/// What qop=auth adds to a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QopAuth<'a> {
    /// The nonce count as its eight digits.
    pub nc: &'a [u8],
    /// The client's nonce.
    pub cnonce: &'a [u8],
}

/// What a digest answers, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The hash.
    pub algorithm: Algorithm,
    /// H(A1) of the user, by the same hash.
    pub ha1: &'a Hex,
    /// The request's method.
    pub method: &'a [u8],
    /// The digest-uri.
    pub uri: &'a [u8],
    /// The server's nonce.
    pub nonce: &'a [u8],
    /// qop=auth; `None` where the challenge has no qop.
    pub qop: Option<QopAuth<'a>>,
}

impl Answer<'_> {
    /// The response: two hashes, together three or four blocks of them.
    #[must_use]
    pub fn response(&self) -> Hex {
        let ha2 = self.algorithm.hash(&[self.method, self.uri]);
        let ha1 = self.ha1.bytes();
        match self.qop {
            Some(qop) => self.algorithm.hash(&[ha1, self.nonce, qop.nc, qop.cnonce, b"auth", ha2.bytes()]),
            None => self.algorithm.hash(&[ha1, self.nonce, ha2.bytes()]),
        }
    }
}
