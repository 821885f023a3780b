//! HTTP/2: any frames mean the same torn anywhere; streams end once, and replies are bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../crates/vtax-wire/tests/bodies/http2.rs"]
#[allow(dead_code, reason = "two targets share it")]
mod body;

fuzz_target!(|data: &[u8]| body::frames(data));
