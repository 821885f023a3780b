//! iSCSI PDUs, text and logins: any bytes, torn anywhere, give the same answer and never a panic.
//!
//! The first byte says in pieces of what size the rest is fed, the second which digests there are.
#![no_main]

#[path = "../../../crates/vtax-wire/tests/bodies/iscsi.rs"]
mod iscsi;

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::body(data));
