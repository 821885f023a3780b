//! PDUs as they arrive.

use super::pdu::{Fields, TargetPdu};
use super::{DATA_BEFORE_LOGIN, HEADER_BYTES, IscsiError};

/// What one call of [`PduScanner::scan`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// Bytes of the input that it took.
    pub consumed: usize,
    /// What they are.
    pub item: Item<'a>,
}

/// What bytes of a PDU are. A PDU is its head, its data in pieces, and its end, each an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A part of a PDU that is to be continued; the input is used up.
    Incomplete,
    /// The header, with how many bytes of data follow.
    Head(TargetPdu, u32),
    /// Bytes of the data segment, in order. Their digest isn't known before the end.
    Data(&'a [u8]),
    /// The PDU is whole, and its digests are right.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the basic header; bytes kept.
    Header,
    /// In additional header segments or the header's digest; bytes left of the segments, digest bytes kept.
    AfterHeader { segments: u16, digest: u8 },
    /// The head is to be told.
    Head,
    /// In the data; bytes left.
    Data(u32),
    /// In the padding; bytes left.
    Padding(u8),
    /// In the data's digest; bytes kept.
    DataDigest(u8),
    /// The end is to be told.
    End,
}

/// What is followed by its CRC32C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digests {
    /// Every header.
    pub header: bool,
    /// Every data segment.
    pub data: bool,
}

/// Scans the PDUs on one connection, one after another.
///
/// Call [`PduScanner::scan`] with what is left of the input until it says [`Item::Incomplete`]: the end of
/// a PDU takes no bytes of its own.
#[derive(Debug, Clone)]
pub struct PduScanner {
    state: State,
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that are kept.
    kept: u8,
    digest: [u8; 4],
    /// Of the part that a digest covers, so far.
    crc: u32,
    header_digest: bool,
    data_digest: bool,
    most_data: u32,
}

impl Default for PduScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl PduScanner {
    /// A scanner at the start of a connection: no digests, short data segments.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Header,
            header: [0; HEADER_BYTES],
            kept: 0,
            digest: [0; 4],
            crc: 0,
            header_digest: false,
            data_digest: false,
            most_data: DATA_BEFORE_LOGIN,
        }
    }

    /// From the next PDU on: digests, and the longest data segment that was agreed on.
    pub const fn agree(&mut self, digests: Digests, most_data: u32) {
        self.header_digest = digests.header;
        self.data_digest = digests.data;
        self.most_data = most_data;
    }

    /// Bytes that are data of the present PDU and didn't come yet: they may be read straight to where they
    /// belong, and scanned there.
    #[must_use]
    pub const fn data_left(&self) -> usize {
        match self.state {
            State::Data(left) => left as usize,
            _ => 0,
        }
    }

    /// Bytes that the present part of a PDU lacks: who reads no more than these reads nothing of the next PDU.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.state {
            State::Header => HEADER_BYTES - usize::from(self.kept),
            State::AfterHeader { segments, digest } => {
                usize::from(segments) + if self.header_digest { usize::from(4 - digest) } else { 0 }
            }
            State::Data(left) => left as usize,
            State::Padding(left) => usize::from(left),
            State::DataDigest(kept) => usize::from(4 - kept),
            State::Head | State::End => 0,
        }
    }

    /// True where no byte of a PDU was seen since the last one ended.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.state == State::Header && self.kept == 0
    }

    /// Scans what arrived, up to the end of the input, of a header, of a piece of data, or of a PDU.
    ///
    /// # Errors
    /// The bytes are no PDU of a target; the connection can't be used any more.
    pub fn scan<'a>(&mut self, input: &'a [u8]) -> Result<Scanned<'a>, IscsiError> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.state {
                State::Head => {
                    let fields = Fields(&self.header);
                    let data = fields.data();
                    let pdu = TargetPdu::read(&self.header)?;
                    self.crc = 0;
                    self.state = if data == 0 { State::End } else { State::Data(data) };
                    return Ok(Scanned { consumed: at, item: Item::Head(pdu, data) });
                }
                State::End => {
                    self.state = State::Header;
                    return Ok(Scanned { consumed: at, item: Item::End });
                }
                _ if rest.is_empty() => return Ok(Scanned { consumed: at, item: Item::Incomplete }),
                State::Header => at += self.header(rest)?,
                State::AfterHeader { segments, digest } => at += self.after_header(rest, segments, digest)?,
                State::Data(left) => {
                    let taken = rest.len().min(left as usize);
                    let data = &rest[..taken];
                    self.data(data, left - taken as u32);
                    return Ok(Scanned { consumed: at + taken, item: Item::Data(data) });
                }
                State::Padding(left) => at += self.padding(rest, left),
                State::DataDigest(kept) => {
                    at += self.keep_digest(rest, kept);
                    self.state = match kept as usize + rest.len() {
                        4.. if self.digest != self.crc.to_le_bytes() => return Err(IscsiError::DataDigest),
                        4.. => State::End,
                        kept => State::DataDigest(kept as u8),
                    };
                }
            }
        }
    }

    fn header(&mut self, rest: &[u8]) -> Result<usize, IscsiError> {
        let kept = usize::from(self.kept);
        let taken = rest.len().min(HEADER_BYTES - kept);
        self.header[kept..kept + taken].copy_from_slice(&rest[..taken]);
        self.kept += taken as u8;
        if usize::from(self.kept) < HEADER_BYTES {
            return Ok(taken);
        }
        self.kept = 0;
        let fields = Fields(&self.header);
        // Before anything is believed of a header that a digest covers, the digest is looked at; only how
        // long the header is must be believed, and that is 1 KiB at most.
        let segments = fields.more_header() as u16;
        self.crc = if self.header_digest { crc32c::crc32c(&self.header) } else { 0 };
        self.state = State::AfterHeader { segments, digest: 0 };
        if !self.header_digest {
            match segments {
                0 => self.headed()?,
                // What is no PDU isn't waited for.
                _ => drop(TargetPdu::read(&self.header)?),
            }
        }
        Ok(taken)
    }

    fn after_header(&mut self, rest: &[u8], segments: u16, kept: u8) -> Result<usize, IscsiError> {
        if segments > 0 {
            let taken = rest.len().min(usize::from(segments));
            if self.header_digest {
                self.crc = crc32c::crc32c_append(self.crc, &rest[..taken]);
            }
            let segments = segments - taken as u16;
            self.state = State::AfterHeader { segments, digest: 0 };
            if segments == 0 && !self.header_digest {
                self.headed()?;
            }
            return Ok(taken);
        }
        let taken = self.keep_digest(rest, kept);
        let kept = kept + taken as u8;
        self.state = State::AfterHeader { segments, digest: kept };
        if kept == 4 {
            if self.digest != self.crc.to_le_bytes() {
                return Err(IscsiError::HeaderDigest);
            }
            self.headed()?;
        }
        Ok(taken)
    }

    /// The header is whole and right.
    const fn headed(&mut self) -> Result<(), IscsiError> {
        let (got, most) = (Fields(&self.header).data(), self.most_data);
        if got > most {
            return Err(IscsiError::LongData { got, most });
        }
        self.state = State::Head;
        Ok(())
    }

    fn data(&mut self, data: &[u8], left: u32) {
        if self.data_digest {
            self.crc = crc32c::crc32c_append(self.crc, data);
        }
        if left > 0 {
            self.state = State::Data(left);
            return;
        }
        let padding = Fields(&self.header).data().wrapping_neg() & 3;
        self.state = match padding {
            0 if self.data_digest => State::DataDigest(0),
            0 => State::End,
            padding => State::Padding(padding as u8),
        };
    }

    fn padding(&mut self, rest: &[u8], left: u8) -> usize {
        let taken = rest.len().min(usize::from(left));
        if self.data_digest {
            self.crc = crc32c::crc32c_append(self.crc, &rest[..taken]);
        }
        self.state = match left - taken as u8 {
            0 if self.data_digest => State::DataDigest(0),
            0 => State::End,
            left => State::Padding(left),
        };
        taken
    }

    /// Keeps bytes of a digest, of which `kept` are there.
    fn keep_digest(&mut self, rest: &[u8], kept: u8) -> usize {
        let kept = usize::from(kept);
        let taken = rest.len().min(4 - kept);
        self.digest[kept..kept + taken].copy_from_slice(&rest[..taken]);
        taken
    }
}
