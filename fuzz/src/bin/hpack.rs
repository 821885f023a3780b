//! HPACK: any header blocks are refused or understood, within bounds, and read again as they are written.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../crates/vtax-wire/tests/bodies/http2.rs"]
#[allow(dead_code, reason = "two targets share it")]
mod body;

fuzz_target!(|data: &[u8]| body::hpack(data));
