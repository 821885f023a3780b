//! Who someone is: digest authentication without state (RFC 3261 section 22).
//!
//! A nonce is the second it was made in and a MAC over it, so any number of challenges costs no
//! memory. What that gives up is a count of each nonce's uses: within its life, who overhears
//! credentials can replay them for the same method and URI.

use std::hash::{BuildHasher as _, RandomState};

use vtax_units::Nanos;
use vtax_wire::sip::{Algorithm, Challenge, Credentials, Message, Name, SipError, StartLine, ha1};

use super::users::Users;

/// Eight digits of time and sixteen of MAC: with qop=auth the response is then two blocks of MD5.
const NONCE_BYTES: usize = 24;

/// Why someone isn't let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    /// No credentials for this realm: challenge.
    Missing,
    /// The nonce is too old, or not of this process: challenge with `stale`.
    Stale,
    /// Credentials that can't be read: 400.
    Malformed,
    /// Wrong user or password: challenge again, as RFC 3261 section 22.1 has it.
    Wrong,
}

#[derive(Debug)]
pub(super) struct Guard {
    secret: [u8; 32],
    /// How long a nonce is accepted, in seconds.
    life_s: u32,
}

impl Guard {
    pub(super) fn new(nonce_life: Nanos) -> Self {
        // Each RandomState is keyed by the system's random bytes, and its hash shows none of them.
        let mut secret = [0; 32];
        for (at, part) in secret.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&RandomState::new().hash_one(at).to_ne_bytes());
        }
        let life_s = u32::try_from(nonce_life.0 / 1_000_000_000).unwrap_or(u32::MAX).max(1);
        Self { secret, life_s }
    }

    fn nonce(&self, second: u32) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        let time = vtax_wire::sip::nonce_count(second);
        nonce[..8].copy_from_slice(&time);
        // A prefix as key is sound here: the message has one length, and the hash is cut.
        let mac = Algorithm::Sha256.hash(&[&self.secret, &time]);
        nonce[8..].copy_from_slice(&mac.bytes()[..NONCE_BYTES - 8]);
        nonce
    }

    /// Appends a challenge's value.
    pub(super) fn challenge(&self, realm: &[u8], now_s: u32, stale: bool, out: &mut Vec<u8>) {
        let nonce = self.nonce(now_s);
        let algorithm = Some(Algorithm::Md5);
        Challenge { realm, nonce: &nonce, opaque: None, algorithm, qop_auth: true, stale }.write(out);
    }

    /// The subscriber whose credentials for this realm a request holds, in headers of that name.
    pub(super) fn identify(
        &self,
        users: &Users,
        request: &Message<'_>,
        header: Name,
        now_s: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<u32, Denial> {
        let StartLine::Request { method_text, .. } = request.start() else { return Err(Denial::Missing) };
        for line in request.lines(header) {
            let credentials = match Credentials::parse(line) {
                Ok(credentials) => credentials,
                // Of another scheme or algorithm: not for us.
                Err(SipError::DigestUnsupported) => continue,
                Err(_) => return Err(Denial::Malformed),
            };
            if credentials.realm != users.realm {
                continue;
            }
            return self.verify(users, &credentials, method_text, now_s, scratch);
        }
        Err(Denial::Missing)
    }

    fn verify(
        &self,
        users: &Users,
        credentials: &Credentials<'_>,
        method: &[u8],
        now_s: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<u32, Denial> {
        let time = credentials.nonce.get(..8).and_then(|digits| std::str::from_utf8(digits).ok());
        let made = time.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let is_valid = made.is_some_and(|made| {
            made <= now_s && now_s - made <= self.life_s && self.nonce(made)[..] == *credentials.nonce
        });
        let Some(index) = users.private(credentials.username) else {
            return Err(if is_valid { Denial::Wrong } else { Denial::Stale });
        };
        if !is_valid {
            return Err(Denial::Stale);
        }
        scratch.clear();
        users.formats.password.write(index, scratch);
        let algorithm = credentials.algorithm.unwrap_or_default();
        let secret = ha1(algorithm, credentials.username, &users.realm, scratch);
        if credentials.is_answer_of(&secret, method) { Ok(index) } else { Err(Denial::Wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_has_the_life_it_is_given() {
        let users = Users {
            formats: subscribers().formats().unwrap(),
            count: 10,
            realm: b"r".to_vec(),
            domain: b"d".to_vec(),
        };
        let identify = |guard: &Guard, made: u32, now_s: u32| {
            let nonce = guard.nonce(made);
            let secret = ha1(Algorithm::Md5, b"u1", b"r", b"p");
            let uri = b"sip:d";
            let algorithm = Algorithm::Md5;
            let answer = vtax_wire::sip::Answer {
                algorithm,
                ha1: &secret,
                method: b"REGISTER",
                uri,
                nonce: &nonce,
                qop: None,
            };
            let response = answer.response();
            let credentials = Credentials {
                username: b"u1",
                realm: b"r",
                nonce: &nonce,
                uri,
                response: response.bytes(),
                algorithm: None,
                opaque: None,
                qop: None,
            };
            guard.verify(&users, &credentials, b"REGISTER", now_s, &mut Vec::new())
        };
        let guard = Guard::new(Nanos::from_secs(60));
        assert_eq!(identify(&guard, 100, 160), Ok(1));
        assert_eq!(identify(&guard, 100, 161), Err(Denial::Stale));
        // A nonce of the future was not made here.
        assert_eq!(identify(&guard, 100, 99), Err(Denial::Stale));
        // Shorter than the clock's step.
        assert_eq!(identify(&Guard::new(Nanos(1)), 100, 101), Ok(1));
    }

    fn subscribers() -> vtax_plan::model::Subscribers {
        vtax_plan::model::Subscribers {
            count: 10,
            public: "u%d".into(),
            private: "u%d".into(),
            password: "p".into(),
            realm: "r".into(),
            domain: "d".into(),
        }
    }
}
