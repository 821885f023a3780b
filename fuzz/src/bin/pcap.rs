//! Packet captures: any bytes give packets within them and at most one error, and each is some packet or none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::packet_id::packet_id;
use vtax_wire::pcap::{PACKET_HEADER, Reader, carried};

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = Reader::new(bytes) else { return };
    let (mut packets, mut errors) = (0, 0);
    for packet in reader {
        match packet {
            Ok(packet) => {
                packets += 1;
                let _ = packet_id(packet.bytes);
                if let Some(carried) = carried(packet.bytes, packet.length) {
                    assert!(carried.payload <= packet.length);
                }
            }
            Err(_) => errors += 1,
        }
    }
    assert!(errors <= 1 && packets <= bytes.len() / PACKET_HEADER);
});
