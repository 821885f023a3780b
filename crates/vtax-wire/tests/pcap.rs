//! Captures as hostile input: whatever bytes, the reader ends, stays within them and doesn't panic.

use proptest::prelude::*;
use vtax_wire::pcap::{PACKET_HEADER, Reader, carried, file_header, packet_header};

/// What must hold of any bytes; the fuzz target `pcap` asks the same.
fn check(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else { return };
    let mut errors = 0;
    let mut packets = 0;
    for packet in reader {
        match packet {
            Ok(packet) => {
                packets += 1;
                assert!(packet.bytes.len() <= bytes.len() && packet.bytes.len() <= packet.length as usize);
                if let Some(carried) = carried(packet.bytes, packet.length) {
                    assert!(carried.payload <= packet.length, "more payload than frame");
                }
            }
            Err(_) => errors += 1,
        }
    }
    assert!(errors <= 1 && packets <= bytes.len() / PACKET_HEADER);
}

proptest! {
    #[test]
    fn any_bytes_after_a_header(rest in prop::collection::vec(any::<u8>(), 0..400), big in any::<bool>()) {
        let mut file = file_header(128).to_vec();
        if big {
            file[..4].reverse();
            file[20..].reverse();
        }
        file.extend(rest);
        check(&file);
    }

    #[test]
    fn any_frames(frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..160), any::<u16>(), 0..4_u8), 0..20)) {
        let mut file = file_header(160).to_vec();
        for (mut frame, more, kind) in frames {
            // Most random frames are of no known kind: steer some to where there is something to parse.
            if frame.len() > 40 && kind > 0 {
                let header: &[u8] = if kind == 1 { &[8, 0, 0x45] } else { &[0x86, 0xdd, 0x60] };
                frame[12..15].copy_from_slice(header);
                frame[if kind == 1 { 23 } else { 20 }] = if kind == 3 { 17 } else { 6 };
            }
            let captured = frame.len() as u32;
            file.extend(packet_header(1, captured, captured + u32::from(more)));
            file.extend(frame);
        }
        check(&file);
    }

    #[test]
    fn any_beginning_of_a_capture(cut in 0..80_usize) {
        let mut file = file_header(64).to_vec();
        file.extend(packet_header(1, 40, 40));
        file.extend([0; 40]);
        check(&file[..cut.min(file.len())]);
    }
}
