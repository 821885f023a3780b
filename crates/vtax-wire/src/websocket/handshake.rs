//! The key of a handshake and the answer to it (RFC 6455 sections 1.3, 4.1 and 4.2.2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// Bytes of a key as it is written.
pub const KEY_BYTES: usize = 24;
/// Bytes of the answer to a key as it is written.
pub const ACCEPT_BYTES: usize = 28;

/// What makes an answer one of a server that knows WebSockets.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A nonce as a key is written.
#[must_use]
pub fn key_of(nonce: [u8; 16]) -> [u8; KEY_BYTES] {
    let mut key = [b'='; KEY_BYTES];
    // Sixteen bytes are these twenty-four.
    let _ = STANDARD.encode_slice(nonce, &mut key);
    key
}

/// The answer to a key.
#[must_use]
pub fn accept_for(key: &[u8; KEY_BYTES]) -> [u8; ACCEPT_BYTES] {
    let digest = Sha1::new().chain_update(key).chain_update(MAGIC).finalize();
    let mut accept = [b'='; ACCEPT_BYTES];
    // Twenty bytes are these twenty-eight.
    let _ = STANDARD.encode_slice(digest, &mut accept);
    accept
}

/// What became of a client's wish for a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgrade {
    /// It is asked for, with this key.
    Asked([u8; KEY_BYTES]),
    /// It is asked for in another version than 13.
    Version,
    /// It isn't asked for, or not as it must be.
    None,
}

/// Longest line that is looked at; the fields of an upgrade are shorter.
const LINE_MAX: usize = 128;

/// Looks at a request's head for the wish for a WebSocket (RFC 6455 section 4.2.1). Whether it is a valid head otherwise, another
/// scanner says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeScanner {
    line: [u8; LINE_MAX],
    /// The line's true length, as long as that is needed.
    length: u8,
    upgrade: bool,
    connection: bool,
    version: bool,
    key: Option<[u8; KEY_BYTES]>,
    keys: u8,
}

impl Default for UpgradeScanner {
    fn default() -> Self {
        Self {
            line: [0; LINE_MAX],
            length: 0,
            upgrade: false,
            connection: false,
            version: false,
            key: None,
            keys: 0,
        }
    }
}

impl UpgradeScanner {
    /// Takes a part of the head, from anywhere in its first line on.
    pub fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.line_ends();
                self.length = 0;
            } else {
                if let Some(slot) = self.line.get_mut(usize::from(self.length)) {
                    *slot = *byte;
                }
                self.length = self.length.saturating_add(1);
            }
        }
    }

    fn line_ends(&mut self) {
        let Some(line) = self.line.get(..usize::from(self.length)) else { return };
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let lists =
            |word: &[u8]| value.split(|b| *b == b',').any(|own| own.trim_ascii().eq_ignore_ascii_case(word));
        if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade |= lists(b"websocket");
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.connection |= lists(b"upgrade");
        } else if name.eq_ignore_ascii_case(b"sec-websocket-version") {
            self.version |= value == b"13";
        } else if name.eq_ignore_ascii_case(b"sec-websocket-key") {
            self.keys = self.keys.saturating_add(1);
            // Of which sixteen are a nonce.
            let mut nonce = [0; KEY_BYTES];
            let whole = STANDARD.decode_slice(value, &mut nonce).is_ok_and(|length| length == 16);
            self.key = value.try_into().ok().filter(|_| whole);
        }
    }

    /// What the head has said.
    #[must_use]
    pub fn found(&self) -> Upgrade {
        match self.key {
            _ if !self.upgrade || !self.connection => Upgrade::None,
            _ if !self.version => Upgrade::Version,
            Some(key) if self.keys == 1 => Upgrade::Asked(key),
            _ => Upgrade::None,
        }
    }
}
