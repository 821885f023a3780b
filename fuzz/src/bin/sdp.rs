//! Session descriptions: any bytes are refused or understood, and what is understood can be sent to and written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::sdp::Audio;

fuzz_target!(|data: &[u8]| {
    let Ok(audio) = Audio::parse(data) else { return };
    assert!(audio.address.port() > 0 && !audio.address.ip().is_unspecified());
    assert!(!audio.address.ip().is_multicast());
    let mut written = Vec::new();
    audio.write(&mut written);
    assert_eq!(Audio::parse(&written), Ok(audio));
});
