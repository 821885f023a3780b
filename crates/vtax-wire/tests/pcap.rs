//! Captures as hostile input: whatever bytes, the reader ends, stays within them and doesn't panic.

use etherparse::{PacketBuilder, TcpHeader, VlanId};
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

/// A frame of this content as the crate `etherparse` makes it.
fn made(ipv6: bool, vlan: bool, tcp: Option<(u32, u8)>, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let (v4, v6) = ([[10, 0, 0, 1], [10, 0, 0, 2]], [[0xfd; 16], [0xfe; 16]]);
    let network = match (vlan, ipv6) {
        (false, false) => link.ipv4(v4[0], v4[1], 64),
        (false, true) => link.ipv6(v6[0], v6[1], 64),
        (true, false) => link.single_vlan(VlanId::ZERO).ipv4(v4[0], v4[1], 64),
        (true, true) => link.single_vlan(VlanId::ZERO).ipv6(v6[0], v6[1], 64),
    };
    let mut frame = Vec::new();
    match tcp {
        Some((sequence, options)) => {
            let mut header = TcpHeader::new(ports[0], ports[1], sequence, 1000);
            header.set_options_raw(&vec![1; usize::from(options) * 4]).unwrap();
            network.tcp_header(header).write_to_vec(&mut frame, payload).unwrap();
        }
        None => network.udp(ports[0], ports[1]).write_to_vec(&mut frame, payload).unwrap(),
    }
    frame
}

proptest! {
    /// What another implementation put into a frame is found in it, however short it is cut behind its headers.
    #[test]
    fn frames_of_another_implementation(
        (ipv6, vlan) in any::<(bool, bool)>(),
        tcp in prop::option::of((any::<u32>(), 0..=10_u8)),
        ports in any::<[u16; 2]>(),
        payload in prop::collection::vec(any::<u8>(), 0..1400),
        cut in 0..1500_usize,
    ) {
        let frame = made(ipv6, vlan, tcp, ports, &payload);
        let headers = frame.len() - payload.len();
        let captured = &frame[..cut.clamp(headers, frame.len())];
        let carried = carried(captured, frame.len() as u32).expect("TCP or UDP");
        prop_assert_eq!(carried.payload as usize, payload.len());
        prop_assert_eq!(carried.sequence, tcp.map(|(sequence, _)| sequence));
        prop_assert_eq!((carried.sender, carried.flow.ports), ([2, 0, 0, 0, 0, 1], ports));
        let from = carried.flow.addresses[0];
        let right = if ipv6 { from == [0xfd; 16] } else { from[..4] == [10, 0, 0, 1] };
        prop_assert!(right, "{:?}", from);
    }

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
