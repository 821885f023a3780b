//! What tells a packet from others, the same wherever on its way through routers it is seen.
//!
//! Labels are put on and taken off on the way, the time to live falls and check sums follow it: none of these are looked
//! at. What is: addresses, protocol and identification of IPv4 (RFC 791), and of what it carries the first bytes without
//! their check sum.

use std::net::Ipv4Addr;

use crate::mpls;

/// Ethernet's header.
const ETHERNET: usize = 14;
/// One entry of a label stack.
const LABEL: usize = 4;
/// Bytes of what IPv4 carries that are looked at: a header of TCP, and the first of what UDP carries.
const LOOKED_AT: usize = 24;

/// A packet of IPv4 in a frame, perhaps with labels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketId {
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub destination: Ipv4Addr,
    /// A digest of all that is looked at.
    pub digest: u64,
}

/// Which packet is in an Ethernet frame; `None` where it is none of IPv4, one that was cut too short to tell, or a part of
/// one without its beginning.
#[must_use]
pub fn packet_id(frame: &[u8]) -> Option<PacketId> {
    let labels = mpls::stack(frame).count();
    let kind = u16::from_be_bytes(*frame.get(12..)?.first_chunk()?);
    if labels == 0 && kind != 0x0800 {
        return None;
    }
    let packet = frame.get(ETHERNET + LABEL * labels..)?;
    let first = *packet.first()?;
    let header = usize::from(first & 0xf) * 4;
    let offset = u16::from_be_bytes(*packet.get(6..)?.first_chunk()?) & 0x1fff;
    if first >> 4 != 4 || header < 20 || offset != 0 {
        return None;
    }
    let (source, destination) =
        (packet.get(12..)?.first_chunk::<4>()?, packet.get(16..)?.first_chunk::<4>()?);
    let carried = packet.get(header..)?;
    let carried = &carried[..carried.len().min(LOOKED_AT)];
    let mut digest = Digest::default();
    // Of a segment that is cut up on the way, the first part stands for it, so its length and flags are left out.
    digest.add(packet.get(4..6)?);
    digest.add(packet.get(9..10)?);
    digest.add(source);
    digest.add(destination);
    match packet[9] {
        // Ports, number of the first byte, number of the next one that is expected.
        6 => digest.add(carried.get(..12)?),
        // Ports; after length and check sum, what it carries.
        17 => {
            digest.add(carried.get(..4)?);
            digest.add(carried.get(8..)?);
        }
        // Of ICMP's echoes: kind and code, then identifier and number.
        _ => {
            digest.add(carried.get(..2)?);
            digest.add(carried.get(4..)?);
        }
    }
    let (source, destination) = (Ipv4Addr::from(*source), Ipv4Addr::from(*destination));
    Some(PacketId { source, destination, digest: digest.0 })
}

/// FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo): a few dozen bytes that nobody chooses to collide.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with these labels, this time to live, and what IPv4 carries.
    fn frame(labels: &[u32], ttl: u8, protocol: u8, carried: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend(if labels.is_empty() { [8, 0] } else { [0x88, 0x47] });
        for (number, label) in labels.iter().enumerate() {
            let bottom = u32::from(number + 1 == labels.len()) << 8;
            bytes.extend(((label << 12) | bottom | u32::from(ttl)).to_be_bytes());
        }
        // Length and check sum differ too.
        bytes.extend([
            0x45, 0, 0, ttl, 0x12, 0x34, 0x40, 0, ttl, protocol, ttl, ttl, 10, 96, 0, 2, 10, 95, 0, 2,
        ]);
        bytes.extend(carried);
        bytes
    }

    const TCP: [u8; 20] = [1, 2, 3, 4, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 0, 0, 1, 2, 0, 0];

    #[test]
    fn a_packet_is_the_same_with_labels_and_without() {
        let plain = packet_id(&frame(&[], 64, 6, &TCP)).unwrap();
        assert_eq!(packet_id(&frame(&[17, 80], 63, 6, &TCP)), Some(plain));
        assert_eq!(packet_id(&frame(&[80], 62, 6, &TCP)), Some(plain));
        assert_eq!(plain.source, Ipv4Addr::new(10, 96, 0, 2));
        let mut next = TCP;
        next[7] = 8;
        assert_ne!(packet_id(&frame(&[], 64, 6, &next)), Some(plain), "another segment");
        let mut summed = TCP;
        summed[16] = 77;
        assert_eq!(packet_id(&frame(&[], 64, 6, &summed)), Some(plain), "another check sum");
    }

    #[test]
    fn datagrams_are_told_apart_by_what_they_carry() {
        let of = |carried: &[u8]| packet_id(&frame(&[], 64, 17, carried)).unwrap();
        let datagram = [1, 2, 3, 4, 0, 12, 9, 9, b'a', b'b', b'c', b'd'];
        let mut other = datagram;
        other[11] = b'e';
        assert_ne!(of(&datagram), of(&other));
        other = datagram;
        other[6] = 1;
        assert_eq!(of(&datagram), of(&other), "another check sum");
    }

    #[test]
    fn what_is_no_whole_packet_is_none() {
        let whole = frame(&[], 64, 6, &TCP);
        assert_eq!(packet_id(&whole[..14 + 20 + 11]), None, "cut short");
        let mut later = whole.clone();
        later[21] = 1;
        assert_eq!(packet_id(&later), None, "a later fragment");
        let mut arp = whole;
        arp[13] = 6;
        assert_eq!(packet_id(&arp), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0_usize..4) {
            if bytes.len() > 14 {
                let kinds = [[8, 0], [0x88, 0x47], [0x86, 0xdd], [bytes[12], bytes[13]]];
                bytes[12..14].copy_from_slice(&kinds[kind]);
            }
            let _ = packet_id(&bytes);
        }
    }
}
