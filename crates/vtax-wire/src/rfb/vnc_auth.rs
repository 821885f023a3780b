//! The challenge of VNC authentication (RFC 6143 section 7.2.2): 16 bytes, enciphered by DES with the password as the key.

use des::Des;
use des::cipher::{Array, BlockCipherEncrypt, KeyInit};

/// The response to a challenge. Only the first eight bytes of a password count, and the bits of each are reversed: so the first
/// implementation did it.
#[must_use]
pub fn response(password: &str, challenge: &[u8; 16]) -> [u8; 16] {
    let mut key = [0; 8];
    for (to, from) in key.iter_mut().zip(password.bytes()) {
        *to = from.reverse_bits();
    }
    let cipher = Des::new(&Array(key));
    let mut out = [0; 16];
    for (to, from) in out.chunks_exact_mut(8).zip(challenge.as_chunks::<8>().0) {
        let mut block = Array(*from);
        cipher.encrypt_block(&mut block);
        to.copy_from_slice(&block);
    }
    out
}

/// What servers keep a password as in a file: enciphered with a key that all know, as `vncpasswd` writes it.
#[must_use]
pub fn password_file(password: &str) -> [u8; 8] {
    const KEY: [u8; 8] = [23, 82, 107, 6, 35, 78, 88, 7];
    let mut block = [0; 8];
    for (to, from) in block.iter_mut().zip(password.bytes()) {
        *to = from;
    }
    let mut block = Array(block);
    Des::new(&Array(KEY.map(u8::reverse_bits))).encrypt_block(&mut block);
    block.0
}
