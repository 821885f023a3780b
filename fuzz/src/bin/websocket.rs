//! WebSockets: any frames and any heads mean the same torn anywhere, and messages are bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../crates/vtax-wire/tests/bodies/websocket.rs"]
mod body;

fuzz_target!(|data: &[u8]| {
    body::frames(data);
    body::heads(data);
});
