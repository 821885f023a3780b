//! Packet captures: any bytes give packets within them and at most one error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::pcap::{PACKET_HEADER, Reader, carried};

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = Reader::new(bytes) else { return };
    let (mut packets, mut errors) = (0, 0);
    for packet in reader {
        match packet {
            Ok(packet) => {
                packets += 1;
                if let Some(carried) = carried(packet.bytes, packet.length) {
                    assert!(carried.payload <= packet.length);
                }
            }
            Err(_) => errors += 1,
        }
    }
    assert!(errors <= 1 && packets <= bytes.len() / PACKET_HEADER);
});
