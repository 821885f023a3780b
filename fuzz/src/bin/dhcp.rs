//! Answers of DHCP servers: any bytes give an answer that can be used, or none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::dhcp::{AnswerKind, Asker, LONGEST};

fuzz_target!(|bytes: &[u8]| {
    // What an answer must repeat is taken from the bytes, so that more than the header's first fields is reached.
    let exchange = bytes.get(4..8).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
    let mac = bytes.get(28..34).and_then(|b| b.try_into().ok()).unwrap_or_default();
    if let Some(found) = (Asker { exchange, mac }).read(bytes) {
        assert!(bytes.len() <= LONGEST);
        assert!(found.prefix.is_none_or(|prefix| prefix <= 32));
        assert_eq!(found.address.is_unspecified(), found.kind == AnswerKind::Nak);
    }
});
