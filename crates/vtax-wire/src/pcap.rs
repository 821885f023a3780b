//! Packet captures: the file format of libpcap, and what a captured frame carries.
//!
//! Written and read in the form with nanoseconds, read in the one with microseconds too, in either byte
//! order (draft-ietf-opsawg-pcap). Frames are Ethernet; of those, IPv4 and IPv6 with TCP or UDP are
//! understood.

/// Bytes of the header of a file.
pub const FILE_HEADER: usize = 24;
/// Bytes of the header of a packet.
pub const PACKET_HEADER: usize = 16;
/// Most bytes of one packet that a reader takes (libpcap's own limit).
pub const MOST_CAPTURED: u32 = 262_144;

const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const ETHERNET: u32 = 1;

/// The header of a file whose packets are cut to `most` bytes.
#[must_use]
pub fn file_header(most: u32) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..4].copy_from_slice(&MAGIC_NANOS.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&most.to_le_bytes());
    header[20..].copy_from_slice(&ETHERNET.to_le_bytes());
    header
}

/// The header of a packet that came `at_ns` nanoseconds after 1970, of which `captured` bytes follow.
#[must_use]
pub fn packet_header(at_ns: u64, captured: u32, length: u32) -> [u8; PACKET_HEADER] {
    let mut header = [0; PACKET_HEADER];
    // The format's seconds have 32 bits.
    header[..4].copy_from_slice(&((at_ns / 1_000_000_000) as u32).to_le_bytes());
    header[4..8].copy_from_slice(&((at_ns % 1_000_000_000) as u32).to_le_bytes());
    header[8..12].copy_from_slice(&captured.to_le_bytes());
    header[12..].copy_from_slice(&length.to_le_bytes());
    header
}

/// Why a capture can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PcapError {
    /// It doesn't begin as one.
    #[error("no packet capture: it begins with {magic:#010x}")]
    Magic {
        /// What it begins with.
        magic: u32,
    },
    /// Its frames are not Ethernet.
    #[error("a capture of link type {link}; only Ethernet (1) is read")]
    LinkType {
        /// Their type.
        link: u32,
    },
    /// It ends in the middle of something.
    #[error("the capture ends in the middle of {what}, at byte {at}")]
    Short {
        /// What is cut short.
        what: &'static str,
        /// Where that begins.
        at: usize,
    },
    /// A packet says of itself what can't be.
    #[error("packet at byte {at}: {captured} bytes captured of {length}")]
    Packet {
        /// Where it begins.
        at: usize,
        /// Bytes captured, as it says.
        captured: u32,
        /// Bytes it had.
        length: u32,
    },
}

/// A captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it came, in nanoseconds after 1970.
    pub at_ns: u64,
    /// How long it was.
    pub length: u32,
    /// Its beginning.
    pub bytes: &'a [u8],
}

/// Reads a capture's packets one after the other; an error is the last item.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    little: bool,
    unit_ns: u64,
}

impl<'a> Reader<'a> {
    /// Opens a capture.
    ///
    /// # Errors
    ///
    /// Where it is none, or none of Ethernet.
    pub fn new(bytes: &'a [u8]) -> Result<Self, PcapError> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Err(PcapError::Short { what: "its header", at: 0 });
        };
        let (little, unit_ns) = match (u32::from_le_bytes(*magic), u32::from_be_bytes(*magic)) {
            (MAGIC_NANOS, _) => (true, 1),
            (MAGIC_MICROS, _) => (true, 1_000),
            (_, MAGIC_NANOS) => (false, 1),
            (_, MAGIC_MICROS) => (false, 1_000),
            (magic, _) => return Err(PcapError::Magic { magic }),
        };
        let mut reader = Self { bytes, at: 0, little, unit_ns };
        let header = reader.part(FILE_HEADER, "its header")?;
        // The upper bits say how long the check sums of frames are.
        let link = reader.number(header, 20) & 0xffff;
        if link == ETHERNET { Ok(reader) } else { Err(PcapError::LinkType { link }) }
    }

    fn part(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], PcapError> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..count));
        let taken = taken.ok_or(PcapError::Short { what, at: self.at })?;
        self.at += count;
        Ok(taken)
    }

    fn number(&self, header: &[u8], at: usize) -> u32 {
        let four = header.get(at..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
        if self.little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) }
    }

    fn read(&mut self) -> Result<Packet<'a>, PcapError> {
        let at = self.at;
        let header = self.part(PACKET_HEADER, "a packet's header")?;
        let [seconds, fraction, captured, length] = [0, 4, 8, 12].map(|at| self.number(header, at));
        if captured > MOST_CAPTURED || captured > length {
            return Err(PcapError::Packet { at, captured, length });
        }
        let bytes = self.part(captured as usize, "a packet")?;
        let at_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit_ns;
        Ok(Packet { at_ns, length, bytes })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Packet<'a>, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.at = self.bytes.len();
        }
        Some(read)
    }
}

/// Addresses and ports of one direction of a conversation, IPv4 addresses in the first four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Sender and receiver.
    pub addresses: [[u8; 16]; 2],
    /// Their ports; 0 where they aren't told, as in all fragments of a datagram but the first.
    pub ports: [u16; 2],
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// MAC address of who sent it.
    pub sender: [u8; 6],
    /// The conversation.
    pub flow: Flow,
    /// Bytes of payload of TCP or UDP; of a large segment that is cut later, all of it, and of a fragment its own.
    pub payload: u32,
    /// TCP: number of the first byte of payload.
    pub sequence: Option<u32>,
}

/// What a frame carries, where that is TCP or UDP. Each fragment of a datagram over IPv4 carries its own part, all but the
/// first without ports. `None` for everything else, later fragments of TCP and all of IPv6 included, and for what was
/// captured too short to tell. `length` is that of the whole frame.
#[must_use]
pub fn carried(frame: &[u8], length: u32) -> Option<Carried> {
    let sender = *frame.get(6..)?.first_chunk::<6>()?;
    let (mut kind, mut at) = (two(frame, 12)?, 14);
    // Tags of VLANs (IEEE 802.1Q, 802.1ad), one within another.
    while matches!(kind, 0x8100 | 0x88a8) && at < 22 {
        (kind, at) = (two(frame, at + 2)?, at + 4);
    }
    let network = frame.get(at..)?;
    let rest = u64::from(length).saturating_sub(at as u64);
    let Network { protocol, addresses, headers, total, is_later } = match kind {
        0x0800 => ipv4(network, rest)?,
        0x86dd => ipv6(network, rest)?,
        _ => return None,
    };
    if is_later {
        // What would be the header of UDP is in the first fragment.
        let payload = u32::try_from(total.checked_sub(headers as u64)?).ok()?;
        let flow = Flow { addresses, ports: [0, 0] };
        return (protocol == 17).then_some(Carried { sender, flow, payload, sequence: None });
    }
    let transport = network.get(headers..)?;
    let flow = Flow { addresses, ports: [two(transport, 0)?, two(transport, 2)?] };
    let (own, sequence) = match protocol {
        6 => {
            let sequence = u32::from_be_bytes(*transport.get(4..)?.first_chunk()?);
            (usize::from(transport.get(12)? >> 4) * 4, Some(sequence))
        }
        17 => (8, None),
        _ => return None,
    };
    if protocol == 6 && own < 20 {
        return None;
    }
    let payload = total.checked_sub((headers + own) as u64)?;
    Some(Carried { sender, flow, payload: u32::try_from(payload).ok()?, sequence })
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// What a packet says of itself.
struct Network {
    protocol: u8,
    addresses: [[u8; 16]; 2],
    /// Bytes of its header, and of all of it.
    headers: usize,
    total: u64,
    /// It is a fragment, and not the first.
    is_later: bool,
}

fn ipv4(packet: &[u8], rest: u64) -> Option<Network> {
    let first = *packet.first()?;
    let header = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header < 20 {
        return None;
    }
    // RFC 791: the fragment's offset in units of 8 bytes.
    let is_later = two(packet, 6)? & 0x1fff != 0;
    // Segments beyond 64 KiB can't say how long they are (BIG TCP).
    let total = match two(packet, 2)? {
        0 => rest,
        total => u64::from(total),
    };
    let address = |at: usize| -> Option<[u8; 16]> {
        let mut wide = [0; 16];
        wide[..4].copy_from_slice(packet.get(at..at + 4)?);
        Some(wide)
    };
    let addresses = [address(12)?, address(16)?];
    Some(Network { protocol: *packet.get(9)?, addresses, headers: header, total: total.min(rest), is_later })
}

fn ipv6(packet: &[u8], rest: u64) -> Option<Network> {
    if packet.first()? >> 4 != 6 {
        return None;
    }
    let total = match two(packet, 4)? {
        0 => rest,
        payload => u64::from(payload) + 40,
    };
    let address = |at: usize| -> Option<[u8; 16]> { packet.get(at..)?.first_chunk::<16>().copied() };
    let addresses = [address(8)?, address(24)?];
    Some(Network {
        protocol: *packet.get(6)?,
        addresses,
        headers: 40,
        total: total.min(rest),
        is_later: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP segment over IPv4, as it would be captured with 128 bytes at most.
    fn segment(sequence: u32, payload: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0]);
        frame.extend((40 + payload).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x13, 0x88, 0x14, 0x52]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        frame.extend(std::iter::repeat_n(b'x', usize::from(payload)));
        frame
    }

    #[test]
    fn what_was_written_is_read() {
        let frame = segment(7, 1000);
        let mut file = file_header(128).to_vec();
        file.extend(packet_header(1_700_000_000_123_456_789, 128, frame.len() as u32));
        file.extend(&frame[..128]);
        let packets: Vec<_> = Reader::new(&file).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(packets.len(), 1);
        assert_eq!((packets[0].at_ns, packets[0].length), (1_700_000_000_123_456_789, 1054));
        let carried = carried(packets[0].bytes, packets[0].length).unwrap();
        assert_eq!((carried.payload, carried.sequence), (1000, Some(7)));
        assert_eq!((carried.flow.ports, carried.sender), ([5000, 5202], [2, 0, 0, 0, 0, 1]));
    }

    #[test]
    fn other_byte_orders_and_units_are_understood() {
        let mut file = Vec::new();
        for word in [MAGIC_MICROS, 0x0002_0004, 0, 0, 65_535, ETHERNET, 1, 5, 0, 0] {
            file.extend(word.to_be_bytes());
        }
        let packets: Vec<_> = Reader::new(&file).unwrap().map(Result::unwrap).collect();
        assert_eq!(packets, [Packet { at_ns: 1_000_005_000, length: 0, bytes: &[] }]);
    }

    #[test]
    fn padding_is_no_payload_and_later_fragments_of_tcp_are_nobodys() {
        let mut frame = segment(1, 0);
        frame.extend([0; 6]);
        assert_eq!(carried(&frame, 60).unwrap().payload, 0, "Ethernet's least frame has 60 bytes");
        frame[20] = 0;
        frame[21] = 1;
        assert_eq!(carried(&frame, 60), None);
    }

    /// A fragment of a datagram over IPv4, `offset` bytes behind its beginning.
    fn fragment(offset: u16, bytes: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0]);
        frame.extend((20 + bytes).to_be_bytes());
        frame.extend([0, 7]);
        frame.extend((0x2000 | (offset / 8)).to_be_bytes());
        frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(std::iter::repeat_n(b'x', usize::from(bytes)));
        frame
    }

    #[test]
    fn fragments_of_a_datagram_carry_its_payload_together() {
        // 4,000 bytes behind the eight of UDP, over frames of 1,500.
        let fragments = [(0, 1_480), (1_480, 1_480), (2_960, 1_048)].map(|(at, bytes)| fragment(at, bytes));
        let carried = fragments.map(|frame| carried(&frame, frame.len() as u32).unwrap());
        assert_eq!(carried.map(|c| c.payload), [1_472, 1_480, 1_048]);
        assert!(carried.iter().all(|c| c.sequence.is_none() && c.sender == [2, 0, 0, 0, 0, 1]));
        assert!(carried.iter().all(|c| c.flow.addresses == carried[0].flow.addresses));
        // A capture that kept the headers alone knows as much.
        let short = super::carried(&fragment(1_480, 1_480)[..34], 1_514).unwrap();
        assert_eq!((short.flow.ports, short.payload), ([0, 0], 1_480));
    }

    #[test]
    fn tagged_frames_are_understood() {
        let mut frame = segment(1, 10);
        frame.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
        assert_eq!(carried(&frame, frame.len() as u32).unwrap().payload, 10);
    }

    #[test]
    fn broken_captures_say_where() {
        assert_eq!(Reader::new(b"GIF8").unwrap_err(), PcapError::Magic { magic: 0x3846_4947 });
        let mut file = file_header(128).to_vec();
        file.extend(packet_header(0, 10, 10));
        let last = Reader::new(&file).unwrap().last().unwrap();
        assert_eq!(last, Err(PcapError::Short { what: "a packet", at: 40 }));
        let mut file = file_header(128).to_vec();
        file.extend(packet_header(0, u32::MAX, u32::MAX));
        file.extend([0; 64]);
        let all: Vec<_> = Reader::new(&file).unwrap().collect();
        assert!(matches!(all[..], [Err(PcapError::Packet { at: 24, .. })]), "{all:?}");
    }
}
