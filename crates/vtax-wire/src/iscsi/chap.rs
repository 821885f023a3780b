//! CHAP (RFC 1994, RFC 7143 section 12.1): each side proves that it knows a secret.

use std::fmt;

use md5::Md5;
use sha2::{Digest as _, Sha256};

use super::text::{binary, hex, push};

/// Longest challenge that is answered (RFC 7143 section 12.1.3).
const CHALLENGE_BYTES_MAX: usize = 1024;
/// Bytes of an own challenge.
pub(super) const CHALLENGE_BYTES: usize = 24;

/// A name and the secret that goes with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Sent openly.
    pub name: String,
    /// Never sent, nor shown.
    pub secret: Vec<u8>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {{ name: {:?}, .. }}", self.name)
    }
}

/// Who proves what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// The initiator proves this.
    pub own: Secret,
    /// The target proves this, where it must.
    pub target: Option<Secret>,
}

/// What went wrong with the proofs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChapError {
    /// A key is missing or isn't what it must be.
    #[error("its {0} is missing or malformed")]
    Malformed(&'static str),
    /// A hash that wasn't offered.
    #[error("it chose a hash that was not offered")]
    Hash,
    /// Its challenge is ours: it wants us to answer for it.
    #[error("it sent our own challenge back")]
    Reflected,
    /// It doesn't know the secret.
    #[error("it doesn't know its secret")]
    WrongProof,
    /// It calls itself otherwise.
    #[error("it has another name than was asked for")]
    WrongName,
}

/// The hashes that are offered: MD5, which every target knows, and SHA-256 for those that want it. In the other
/// order, tgt would take 7 for SHA-1, as it was before numbers were assigned.
pub(super) const OFFER: &str = "5,7";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Md5,
    Sha256,
}

impl Hash {
    fn response(self, id: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        match self {
            Self::Md5 => {
                Md5::new().chain_update([id]).chain_update(secret).chain_update(challenge).finalize().to_vec()
            }
            Self::Sha256 => {
                let hash = Sha256::new().chain_update([id]).chain_update(secret);
                hash.chain_update(challenge).finalize().to_vec()
            }
        }
    }
}

/// What a target said of CHAP.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    pub(super) algorithm: Option<String>,
    pub(super) id: Option<String>,
    pub(super) challenge: Option<String>,
    pub(super) name: Option<String>,
    pub(super) response: Option<String>,
}

/// What is expected of the target's own proof.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    hash: Hash,
    id: u8,
    challenge: [u8; CHALLENGE_BYTES],
}

/// Answers the target's challenge, and challenges it where it is to prove itself.
///
/// `challenge` must be random.
pub(super) fn answer(
    chap: &Chap,
    heard: &Heard,
    challenge: [u8; CHALLENGE_BYTES],
    out: &mut Vec<u8>,
) -> Result<Option<Expected>, ChapError> {
    let hash = match heard.algorithm.as_deref() {
        Some("5") => Hash::Md5,
        Some("7") => Hash::Sha256,
        _ => return Err(ChapError::Hash),
    };
    let id: u8 = heard.id.as_deref().and_then(|id| id.parse().ok()).ok_or(ChapError::Malformed("CHAP_I"))?;
    let theirs = heard.challenge.as_deref().and_then(|c| binary(c, CHALLENGE_BYTES_MAX));
    let theirs = theirs.filter(|c| !c.is_empty()).ok_or(ChapError::Malformed("CHAP_C"))?;
    push(out, "CHAP_N", &chap.own.name);
    push(out, "CHAP_R", &hex(&hash.response(id, &chap.own.secret, &theirs)));
    if chap.target.is_none() {
        return Ok(None);
    }
    if theirs == challenge {
        return Err(ChapError::Reflected);
    }
    let own_id = id.wrapping_add(1);
    push(out, "CHAP_I", &own_id.to_string());
    push(out, "CHAP_C", &hex(&challenge));
    Ok(Some(Expected { hash, id: own_id, challenge }))
}

/// Looks at the target's proof.
pub(super) fn verify(target: &Secret, expected: &Expected, heard: &Heard) -> Result<(), ChapError> {
    let response = heard.response.as_deref().and_then(|r| binary(r, 64));
    let response = response.ok_or(ChapError::Malformed("CHAP_R"))?;
    let name = heard.name.as_deref().ok_or(ChapError::Malformed("CHAP_N"))?;
    if response != expected.hash.response(expected.id, &target.secret, &expected.challenge) {
        return Err(ChapError::WrongProof);
    }
    if name == target.name { Ok(()) } else { Err(ChapError::WrongName) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, secret: &str) -> Secret {
        Secret { name: name.into(), secret: secret.into() }
    }

    fn heard() -> Heard {
        Heard {
            algorithm: Some("5".into()),
            id: Some("210".into()),
            challenge: Some("0x6bb7d8a2c5".into()),
            ..Heard::default()
        }
    }

    #[test]
    fn the_response_is_the_hash_of_id_secret_and_challenge() {
        let chap = Chap { own: secret("joe", "example_secret"), target: None };
        let mut out = Vec::new();
        assert!(answer(&chap, &heard(), [1; CHALLENGE_BYTES], &mut out).unwrap().is_none());
        let by_hand: Vec<u8> = [&[210][..], b"example_secret", &[0x6b, 0xb7, 0xd8, 0xa2, 0xc5]].concat();
        let expected = format!("CHAP_N=joe\0CHAP_R={}\0", hex(&Md5::digest(&by_hand)));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(!format!("{chap:?}").contains("example_secret"), "secrets are not shown");
    }

    #[test]
    fn a_target_must_prove_itself_where_it_is_asked_to() {
        let chap = Chap { own: secret("joe", "ours"), target: Some(secret("disk", "theirs")) };
        let mut out = Vec::new();
        let expected = answer(&chap, &heard(), [7; CHALLENGE_BYTES], &mut out).unwrap().unwrap();
        let target = chap.target.as_ref().unwrap();
        let prove = |name: &str, secret: &str| Heard {
            name: Some(name.into()),
            response: Some(hex(&Hash::Md5.response(211, secret.as_bytes(), &[7; CHALLENGE_BYTES]))),
            ..Heard::default()
        };
        assert_eq!(verify(target, &expected, &prove("disk", "theirs")), Ok(()));
        assert_eq!(verify(target, &expected, &prove("disk", "ours")), Err(ChapError::WrongProof));
        assert_eq!(verify(target, &expected, &prove("other", "theirs")), Err(ChapError::WrongName));
        assert_eq!(verify(target, &expected, &Heard::default()), Err(ChapError::Malformed("CHAP_R")));
    }

    #[test]
    fn a_reflected_challenge_is_not_answered() {
        let chap = Chap { own: secret("joe", "ours"), target: Some(secret("disk", "theirs")) };
        let heard = Heard { challenge: Some(hex(&[7; CHALLENGE_BYTES])), ..heard() };
        let answer = answer(&chap, &heard, [7; CHALLENGE_BYTES], &mut Vec::new());
        assert_eq!(answer.unwrap_err(), ChapError::Reflected);
    }

    #[test]
    fn what_is_malformed_is_named() {
        let chap = Chap { own: secret("joe", "ours"), target: None };
        let ask = |heard: Heard| answer(&chap, &heard, [7; CHALLENGE_BYTES], &mut Vec::new()).unwrap_err();
        assert_eq!(ask(Heard { algorithm: Some("6".into()), ..heard() }), ChapError::Hash);
        assert_eq!(ask(Heard { id: Some("256".into()), ..heard() }), ChapError::Malformed("CHAP_I"));
        assert_eq!(ask(Heard { challenge: Some("0x".into()), ..heard() }), ChapError::Malformed("CHAP_C"));
    }
}
