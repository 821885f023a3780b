//! SCSI commands of block devices and what they answer (SPC-4, SBC-3), as far as a client that reads and
//! writes needs them.

/// Longest answer that is asked for.
pub const ANSWER_BYTES_MAX: u32 = 4096;

/// A command's sixteen bytes.
pub type Cdb = [u8; 16];

/// Statuses of a command (SAM-5).
pub mod status {
    /// Done.
    pub const GOOD: u8 = 0x00;
    /// Not done; sense data says why.
    pub const CHECK_CONDITION: u8 = 0x02;
    /// The unit is busy.
    pub const BUSY: u8 = 0x08;
    /// Another initiator has reserved the unit.
    pub const RESERVATION_CONFLICT: u8 = 0x18;
    /// The unit's queue is full.
    pub const TASK_SET_FULL: u8 = 0x28;
}

const fn cdb(bytes: &[u8]) -> Cdb {
    let mut cdb = [0; 16];
    let mut at = 0;
    while at < bytes.len() {
        cdb[at] = bytes[at];
        at += 1;
    }
    cdb
}

/// TEST UNIT READY.
#[must_use]
pub const fn test_unit_ready() -> Cdb {
    [0; 16]
}

/// INQUIRY, 252 bytes of the standard data.
#[must_use]
pub const fn inquiry() -> Cdb {
    cdb(&[0x12, 0, 0, 0, 252])
}

/// REPORT LUNS, [`ANSWER_BYTES_MAX`].
#[must_use]
pub const fn report_luns() -> Cdb {
    let length = ANSWER_BYTES_MAX.to_be_bytes();
    cdb(&[0xa0, 0, 0, 0, 0, 0, length[0], length[1], length[2], length[3]])
}

/// READ CAPACITY(10).
#[must_use]
pub const fn read_capacity_10() -> Cdb {
    cdb(&[0x25])
}

/// READ CAPACITY(16), 32 bytes.
#[must_use]
pub const fn read_capacity_16() -> Cdb {
    cdb(&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32])
}

/// MODE SENSE(6) of the caching page, 252 bytes.
#[must_use]
pub const fn mode_sense_caching() -> Cdb {
    cdb(&[0x1a, 0x08, 0x08, 0, 252])
}

/// SYNCHRONIZE CACHE(10) of the whole unit.
#[must_use]
pub const fn synchronize_cache() -> Cdb {
    cdb(&[0x35])
}

/// READ of so many blocks: READ(10) where that is enough, else READ(16).
#[must_use]
pub fn read(block: u64, blocks: u32) -> Cdb {
    transfer((0x28, 0x88), block, blocks, false)
}

/// WRITE alike; `durable` (FUA): it isn't done before it is on the medium.
#[must_use]
pub fn write(block: u64, blocks: u32, durable: bool) -> Cdb {
    transfer((0x2a, 0x8a), block, blocks, durable)
}

fn transfer((short, long): (u8, u8), block: u64, blocks: u32, durable: bool) -> Cdb {
    let flags = u8::from(durable) << 3;
    let mut cdb = [0; 16];
    if let (Ok(block), Ok(blocks)) = (u32::try_from(block), u16::try_from(blocks)) {
        cdb[0] = short;
        cdb[1] = flags;
        cdb[2..6].copy_from_slice(&block.to_be_bytes());
        cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    } else {
        cdb[0] = long;
        cdb[1] = flags;
        cdb[2..10].copy_from_slice(&block.to_be_bytes());
        cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    }
    cdb
}

/// How large a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Blocks; for READ CAPACITY(10) of a larger unit, `None`: ask with READ CAPACITY(16).
    pub blocks: Option<u64>,
    /// Bytes of each.
    pub block_bytes: u32,
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Reads the answer to READ CAPACITY(10); `None` where it is none.
#[must_use]
pub fn capacity_10(data: &[u8]) -> Option<Capacity> {
    let (last, block_bytes) = (word(data, 0)?, word(data, 4)?);
    let blocks = last.checked_add(1).map(u64::from);
    usable(block_bytes).then_some(Capacity { blocks, block_bytes })
}

/// Reads the answer to READ CAPACITY(16); `None` where it is none.
#[must_use]
pub fn capacity_16(data: &[u8]) -> Option<Capacity> {
    let last = u64::from(word(data, 0)?) << 32 | u64::from(word(data, 4)?);
    let block_bytes = word(data, 8)?;
    usable(block_bytes).then_some(Capacity { blocks: Some(last.checked_add(1)?), block_bytes })
}

/// Block sizes that exist: powers of two from 512 to 64 KiB.
const fn usable(block_bytes: u32) -> bool {
    block_bytes >= 512 && block_bytes <= 65_536 && block_bytes.is_power_of_two()
}

/// What a unit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// 0: a unit is there; else there is none at this number.
    pub qualifier: u8,
    /// 0: a disk.
    pub kind: u8,
    /// Its maker, without what a terminal would take for more than text.
    pub vendor: String,
    /// What it calls itself.
    pub product: String,
    /// In which version.
    pub revision: String,
}

/// Reads the answer to INQUIRY; `None` where it is cut.
#[must_use]
pub fn inquired(data: &[u8]) -> Option<Inquiry> {
    let text = |at: usize, length: usize| {
        let bytes = data.get(at..at + length)?;
        let text: String =
            bytes.iter().map(|b| char::from(*b)).filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        Some(text.trim().to_owned())
    };
    Some(Inquiry {
        qualifier: data.first()? >> 5,
        kind: data.first()? & 0x1f,
        vendor: text(8, 8)?,
        product: text(16, 16)?,
        revision: text(32, 4)?,
    })
}

/// Reads the answer to REPORT LUNS: the units' addresses, as many as came.
pub fn luns(data: &[u8]) -> impl Iterator<Item = u64> {
    let listed = word(data, 0).unwrap_or(0) as usize;
    let entries = data.get(8..).unwrap_or_default();
    let entries = &entries[..entries.len().min(listed)];
    entries.chunks_exact(8).map(|entry| entry.iter().fold(0, |lun, byte| lun << 8 | u64::from(*byte)))
}

/// The address of the unit with this number (SAM-5 section 4.7): the peripheral form up to 255, the flat
/// form up to 16383; `None` beyond.
#[must_use]
pub const fn lun_address(number: u16) -> Option<u64> {
    match number {
        0..=255 => Some((number as u64) << 48),
        256..=16383 => Some((0x4000 | number as u64) << 48),
        _ => None,
    }
}

/// The number behind an address; `None` for forms that [`lun_address`] doesn't write.
#[must_use]
pub const fn lun_number(address: u64) -> Option<u16> {
    let first = (address >> 48) as u16;
    match first >> 14 {
        _ if address << 16 != 0 => None,
        0 if first <= 255 => Some(first),
        1 => Some(first & 0x3fff),
        _ => None,
    }
}

/// What a unit says of its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachingPage {
    /// Writes are acknowledged before they are on the medium.
    pub write_cache: bool,
    /// Reads are never answered from its cache.
    pub read_cache_off: bool,
    /// Nothing may be written.
    pub write_protected: bool,
    /// It knows FUA.
    pub fua: bool,
}

/// Reads the answer to MODE SENSE(6) of the caching page; `None` where the page isn't in it.
#[must_use]
pub fn caching(data: &[u8]) -> Option<CachingPage> {
    let (device, descriptors) = (*data.get(2)?, usize::from(*data.get(3)?));
    let page = data.get(4 + descriptors..)?;
    if page.first()? & 0x3f != 0x08 {
        return None;
    }
    let flags = *page.get(2)?;
    Some(CachingPage {
        write_cache: flags & 0x04 != 0,
        read_cache_off: flags & 0x01 != 0,
        write_protected: device & 0x80 != 0,
        fua: device & 0x10 != 0,
    })
}

/// Why a command was not done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sense {
    /// Sense key.
    pub key: u8,
    /// Additional sense code.
    pub code: u8,
    /// Its qualifier.
    pub qualifier: u8,
}

impl Sense {
    /// Reads sense data of fixed or descriptor format; `None` where it is neither.
    #[must_use]
    pub fn read(data: &[u8]) -> Option<Self> {
        let at = |place: usize| data.get(place).copied();
        match at(0)? & 0x7f {
            0x70 | 0x71 => {
                Some(Self { key: at(2)? & 0x0f, code: at(12).unwrap_or(0), qualifier: at(13).unwrap_or(0) })
            }
            0x72 | 0x73 => Some(Self { key: at(1)? & 0x0f, code: at(2)?, qualifier: at(3)? }),
            _ => None,
        }
    }

    /// Reads what comes with a response of iSCSI: a length of 16 bits and the sense data.
    #[must_use]
    pub fn of_response(data: &[u8]) -> Option<Self> {
        let (length, rest) = data.split_first_chunk()?;
        rest.get(..usize::from(u16::from_be_bytes(*length))).and_then(Self::read)
    }

    /// Its key in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match (self.key, self.code) {
            (_, 0x25) => "there is no such logical unit",
            (_, 0x21) => "the address is out of range",
            (7, 0x27) => "the unit is write-protected",
            (0, _) => "no sense",
            (1, _) => "recovered error",
            (2, _) => "not ready",
            (3, _) => "medium error",
            (4, _) => "hardware error",
            (5, _) => "illegal request",
            (6, _) => "unit attention",
            (7, _) => "data protect",
            (11, _) => "aborted command",
            (13, _) => "volume overflow",
            (14, _) => "miscompare",
            _ => "sense of another kind",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn transfers_take_the_short_form_while_it_is_enough() {
        assert_eq!(read(0x0102_0304, 8)[..10], [0x28, 0, 1, 2, 3, 4, 0, 0, 8, 0]);
        assert_eq!(write(7, 0xffff, true)[..10], [0x2a, 8, 0, 0, 0, 7, 0, 0xff, 0xff, 0]);
        assert_eq!(read(1 << 32, 1), [0x88, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(write(0, 0x1_0000, false), [0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn capacities_are_counted_from_the_last_block() {
        let ten = capacity_10(&[0, 0, 0xff, 0xff, 0, 0, 2, 0]).unwrap();
        assert_eq!(ten, Capacity { blocks: Some(65536), block_bytes: 512 });
        assert_eq!(capacity_10(&[0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]).unwrap().blocks, None);
        let sixteen = capacity_16(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x10, 0]).unwrap();
        assert_eq!(sixteen, Capacity { blocks: Some((1 << 32) + 1), block_bytes: 4096 });
        assert_eq!(capacity_16(&[0xff; 32]), None);
        assert_eq!(capacity_10(&[0, 0, 0, 9, 0, 0, 0, 3]), None);
    }

    #[test]
    fn sense_of_both_formats_is_read() {
        let mut fixed = [0; 20];
        (fixed[1], fixed[2], fixed[4], fixed[14], fixed[15]) = (18, 0x70, 5, 0x25, 1);
        let sense = Sense::of_response(&fixed).unwrap();
        assert_eq!((sense.key, sense.code, sense.qualifier), (5, 0x25, 1));
        assert_eq!(sense.words(), "there is no such logical unit");
        assert_eq!(Sense::read(&[0x72, 0x23, 0x44, 1]), Some(Sense { key: 3, code: 0x44, qualifier: 1 }));
        assert_eq!(Sense::of_response(&[0, 9, 0x70]), None);
    }

    #[test]
    fn the_caching_page_is_behind_the_block_descriptors() {
        let data = [0x23, 0, 0x90, 8, 1, 1, 1, 1, 1, 1, 1, 1, 0x08, 0x12, 0x04, 0];
        let page = caching(&data).unwrap();
        assert!(page.write_cache && page.write_protected && page.fua && !page.read_cache_off);
        assert_eq!(caching(&data[..13]), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (capacity_10(&data), capacity_16(&data), inquired(&data), caching(&data));
            let _ = (Sense::read(&data), Sense::of_response(&data));
            prop_assert!(luns(&data).count() <= data.len() / 8);
        }

        #[test]
        fn numbers_of_units_come_back(number in 0u16..16384) {
            prop_assert_eq!(lun_number(lun_address(number).unwrap()), Some(number));
        }
    }
}
