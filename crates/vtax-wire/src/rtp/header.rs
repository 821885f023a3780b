//! Packets.

/// Bytes of a header without sources and extension.
pub const HEADER_BYTES: usize = 12;

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RtpError {
    /// It ends before what its header says is there.
    #[error("an RTP packet is cut off")]
    Truncated,
    /// It isn't version 2.
    #[error("not RTP version 2")]
    Version,
    /// Its padding is longer than it is, or has no length.
    #[error("the padding of an RTP packet is malformed")]
    Padding,
}

/// The fixed header (RFC 3550 section 5.1), without what a mixer adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether a talk spurt begins.
    pub marker: bool,
    /// What the payload is: 0 PCMU, 8 PCMA (RFC 3551 section 6). 7 bits.
    pub payload_type: u8,
    /// One more than that of the packet before it.
    pub sequence: u16,
    /// When the first sample was taken, in ticks of the clock.
    pub timestamp: u32,
    /// The stream.
    pub ssrc: u32,
}

impl Header {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_as(2 << 6, out);
    }

    /// Appends it with an extension of that kind, of so many words of four bytes.
    pub fn write_extended<const WORDS: usize>(
        &self,
        kind: u16,
        extension: &[[u8; 4]; WORDS],
        out: &mut Vec<u8>,
    ) {
        const { assert!(WORDS <= u16::MAX as usize) }
        self.write_as(2 << 6 | 0x10, out);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&(WORDS as u16).to_be_bytes());
        out.extend_from_slice(extension.as_flattened());
    }

    fn write_as(&self, flags: u8, out: &mut Vec<u8>) {
        out.push(flags);
        out.push(u8::from(self.marker) << 7 | (self.payload_type & 0x7f));
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.ssrc.to_be_bytes());
    }
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its fixed header.
    pub header: Header,
    /// Its payload, without padding.
    pub payload: &'a [u8],
    /// The extension of its header (RFC 3550 section 5.3.1): what kind it is, and what is in it.
    pub extension: Option<(u16, &'a [u8])>,
}

impl<'a> Packet<'a> {
    /// Views a datagram.
    ///
    /// # Errors
    /// It is no packet of RTP version 2, or is cut off.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, RtpError> {
        let (fixed, rest) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(RtpError::Truncated)?;
        let [flags, kind, s0, s1, t0, t1, t2, t3, c0, c1, c2, c3] = *fixed;
        if flags >> 6 != 2 {
            return Err(RtpError::Version);
        }
        let sources = 4 * usize::from(flags & 0x0f);
        let mut payload = rest.get(sources..).ok_or(RtpError::Truncated)?;
        let mut extension = None;
        if flags & 0x10 != 0 {
            let ([k0, k1, w0, w1], after) = payload.split_first_chunk::<4>().ok_or(RtpError::Truncated)?;
            let bytes = 4 * usize::from(u16::from_be_bytes([*w0, *w1]));
            let (own, after) = after.split_at_checked(bytes).ok_or(RtpError::Truncated)?;
            (extension, payload) = (Some((u16::from_be_bytes([*k0, *k1]), own)), after);
        }
        if flags & 0x20 != 0 {
            let padding = usize::from(*payload.last().ok_or(RtpError::Padding)?);
            let length =
                payload.len().checked_sub(padding).filter(|_| padding > 0).ok_or(RtpError::Padding)?;
            payload = &payload[..length];
        }
        let header = Header {
            marker: kind & 0x80 != 0,
            payload_type: kind & 0x7f,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([c0, c1, c2, c3]),
        };
        Ok(Self { header, payload, extension })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sources_extension_and_padding_are_no_payload() {
        let fixed = [0xb1, 0x80, 0, 7, 0, 0, 0, 160, 0, 0, 0, 9];
        let rest = [1, 1, 1, 1, 0xbe, 0xde, 0, 1, 2, 2, 2, 2, b'a', b'b', 0, 2];
        let bytes = [&fixed[..], &rest].concat();
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.payload, packet.extension), (&b"ab"[..], Some((0xbede, &[2; 4][..]))));
        let header = Header { marker: true, payload_type: 0, sequence: 7, timestamp: 160, ssrc: 9 };
        assert_eq!(packet.header, header);
        for (length, error) in
            [(11, RtpError::Truncated), (15, RtpError::Truncated), (19, RtpError::Truncated)]
        {
            assert_eq!(Packet::parse(&bytes[..length]), Err(error), "{length}");
        }
        assert_eq!(Packet::parse(&bytes[..24]), Err(RtpError::Padding));
        assert_eq!(Packet::parse(&[0; 12]), Err(RtpError::Version));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(marker: bool, payload_type in 0_u8..128, sequence: u16, timestamp: u32, ssrc: u32, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let header = Header { marker, payload_type, sequence, timestamp, ssrc };
            let mut bytes = Vec::new();
            header.write(&mut bytes);
            prop_assert_eq!(bytes.len(), HEADER_BYTES);
            bytes.extend_from_slice(&payload);
            prop_assert_eq!(Packet::parse(&bytes), Ok(Packet { header, payload: &payload, extension: None }));
            let mut bytes = Vec::new();
            header.write_extended(7, &[[1; 4], [2; 4]], &mut bytes);
            bytes.extend_from_slice(&payload);
            let extension = Some((7, &[1, 1, 1, 1, 2, 2, 2, 2][..]));
            prop_assert_eq!(Packet::parse(&bytes), Ok(Packet { header, payload: &payload, extension }));
        }

        #[test]
        fn any_bytes_are_refused_or_understood(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload.len() + HEADER_BYTES <= bytes.len());
            }
        }
    }
}
