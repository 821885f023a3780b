//! Challenges that were met, and what each user can answer without being asked again.

use vtax_wire::sip::{Algorithm, Challenge};

/// A challenge with the count of requests that have answered it.
#[derive(Debug, Default)]
pub(crate) struct Auth {
    /// Realm, nonce and opaque, one after the other.
    text: Vec<u8>,
    realm_end: u16,
    nonce_end: u16,
    has_opaque: bool,
    algorithm: Option<Algorithm>,
    qop: bool,
    /// The answer goes into Proxy-Authorization.
    pub(crate) proxy: bool,
    /// The nonce count of the request under way; 0: there is no challenge.
    pub(crate) count: u32,
}

/// No challenge is longer.
const TEXT_MAX: usize = 4_096;

impl Auth {
    /// Forgets the challenge, keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.count = 0;
    }

    /// Takes a challenge for the next request; `None` where it is too long to be true.
    pub(crate) fn meet(&mut self, challenge: &Challenge<'_>, proxy: bool) -> Option<()> {
        let opaque = challenge.opaque.unwrap_or_default();
        if challenge.realm.len() + challenge.nonce.len() + opaque.len() > TEXT_MAX {
            return None;
        }
        self.text.clear();
        self.text.extend_from_slice(challenge.realm);
        self.realm_end = self.text.len() as u16;
        self.text.extend_from_slice(challenge.nonce);
        self.nonce_end = self.text.len() as u16;
        self.text.extend_from_slice(opaque);
        self.has_opaque = challenge.opaque.is_some();
        (self.algorithm, self.qop) = (challenge.algorithm, challenge.qop_auth);
        (self.proxy, self.count) = (proxy, 1);
        Some(())
    }

    /// Another request answers the same challenge, where there is one: its count is that of the requests sent with this nonce
    /// (RFC 7616 section 3.4). One that is only sent again is the same request.
    pub(crate) fn answer_again(&mut self) {
        self.count += u32::from(self.count > 0);
    }

    pub(crate) fn realm(&self) -> &[u8] {
        &self.text[..usize::from(self.realm_end)]
    }

    pub(crate) fn nonce(&self) -> &[u8] {
        &self.text[usize::from(self.realm_end)..usize::from(self.nonce_end)]
    }

    pub(crate) fn opaque(&self) -> Option<&[u8]> {
        self.has_opaque.then(|| &self.text[usize::from(self.nonce_end)..])
    }

    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.algorithm
    }

    pub(crate) fn qop(&self) -> bool {
        self.qop
    }
}

/// Bytes of nonce and opaque kept for each user. Longer ones aren't; their users are challenged
/// each time.
const KEPT_BYTES: usize = 64;

/// The last challenge of each user that may be answered again.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Realm of all that is kept here.
    realm: Vec<u8>,
    text: Vec<u8>,
    users: Vec<Known>,
}

/// What is in a user's part of `text`.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    nonce: u8,
    opaque: u8,
    /// Bits: see below.
    flags: u8,
    count: u16,
}

const HAS_OPAQUE: u8 = 1;
const QOP: u8 = 2;
const NAMED: u8 = 4;
const SHA256: u8 = 8;

impl Kept {
    pub(crate) fn new(users: u32, realm: &str) -> Self {
        Self {
            realm: realm.as_bytes().to_vec(),
            // Zeroed by the kernel when touched: memory is used for users who have registered.
            text: vec![0; users as usize * KEPT_BYTES],
            users: vec![Known::default(); users as usize],
        }
    }

    /// Keeps what a user has just been let in with.
    pub(crate) fn keep(&mut self, user: u32, auth: &Auth) {
        let opaque = auth.opaque().unwrap_or_default();
        let (nonce, length) = (auth.nonce(), auth.nonce().len() + opaque.len());
        let (Ok(count), true) =
            (u16::try_from(auth.count), length <= KEPT_BYTES && auth.realm() == self.realm)
        else {
            self.forget(user);
            return;
        };
        let to = &mut self.text[user as usize * KEPT_BYTES..][..length];
        to[..nonce.len()].copy_from_slice(nonce);
        to[nonce.len()..].copy_from_slice(opaque);
        let bit = |condition: bool, bit: u8| if condition { bit } else { 0 };
        self.users[user as usize] = Known {
            nonce: nonce.len() as u8,
            opaque: opaque.len() as u8,
            flags: bit(auth.has_opaque, HAS_OPAQUE)
                | bit(auth.qop, QOP)
                | bit(auth.algorithm.is_some(), NAMED)
                | bit(auth.algorithm == Some(Algorithm::Sha256), SHA256),
            count,
        };
    }

    pub(crate) fn forget(&mut self, user: u32) {
        self.users[user as usize].nonce = 0;
    }

    /// Has `auth` answer the user's last challenge once more, if there is one.
    pub(crate) fn recall(&self, user: u32, auth: &mut Auth) {
        let known = self.users[user as usize];
        if known.nonce == 0 {
            return;
        }
        let text = &self.text[user as usize * KEPT_BYTES..];
        let (nonce, rest) = text.split_at(usize::from(known.nonce));
        let algorithm = if known.flags & SHA256 == 0 { Algorithm::Md5 } else { Algorithm::Sha256 };
        let challenge = Challenge {
            realm: &self.realm,
            nonce,
            opaque: (known.flags & HAS_OPAQUE != 0).then(|| &rest[..usize::from(known.opaque)]),
            algorithm: (known.flags & NAMED != 0).then_some(algorithm),
            qop_auth: known.flags & QOP != 0,
            stale: false,
        };
        if auth.meet(&challenge, false).is_some() {
            auth.count = u32::from(known.count) + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge<'a>(nonce: &'a [u8], opaque: Option<&'a [u8]>) -> Challenge<'a> {
        let algorithm = Some(Algorithm::Sha256);
        Challenge { realm: b"r", nonce, opaque, algorithm, qop_auth: true, stale: false }
    }

    #[test]
    fn a_user_answers_the_same_challenge_again() {
        let (mut kept, mut auth, mut again) = (Kept::new(3, "r"), Auth::default(), Auth::default());
        auth.meet(&challenge(b"abc", Some(b"xy")), false).unwrap();
        kept.keep(1, &auth);
        kept.recall(0, &mut again);
        assert_eq!(again.count, 0);
        for count in 2..5 {
            kept.recall(1, &mut again);
            assert_eq!(
                (again.realm(), again.nonce(), again.opaque()),
                (&b"r"[..], &b"abc"[..], Some(&b"xy"[..]))
            );
            assert!(again.qop() && again.algorithm() == Some(Algorithm::Sha256) && again.count == count);
            kept.keep(1, &again);
        }
        kept.forget(1);
        again.clear();
        kept.recall(1, &mut again);
        assert_eq!(again.count, 0);
    }

    #[test]
    fn each_request_with_a_nonce_has_a_count_of_its_own() {
        let mut auth = Auth::default();
        auth.answer_again();
        assert_eq!(auth.count, 0, "there is no challenge");
        for nonce in [b"one", b"two"] {
            auth.meet(&challenge(nonce, None), false).unwrap();
            assert_eq!(auth.count, 1);
            auth.answer_again();
            assert_eq!(auth.count, 2);
        }
    }

    #[test]
    fn what_finds_no_room_is_not_kept() {
        let (mut kept, mut auth, mut again) = (Kept::new(1, "r"), Auth::default(), Auth::default());
        auth.meet(&challenge(&[b'n'; 60], Some(&[b'o'; 5])), false).unwrap();
        kept.keep(0, &auth);
        kept.recall(0, &mut again);
        assert_eq!(again.count, 0);
        assert!(auth.meet(&challenge(&[b'n'; 5_000], None), false).is_none());
        // Another realm than that of the subscribers.
        let mut kept = Kept::new(1, "elsewhere");
        auth.meet(&challenge(b"abc", None), false).unwrap();
        kept.keep(0, &auth);
        kept.recall(0, &mut again);
        assert_eq!(again.count, 0);
    }
}
