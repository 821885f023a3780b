//! What the heads of a Parquet file's pages say, looked at before any page is decoded.
//!
//! The crate `parquet` makes as much room as a head says: 2 GiB for a page that is compressed, and more for a dictionary, however small the
//! file is. Files may come from others, so all heads are held to what vtax writes. A head is a struct in Thrift's compact
//! protocol (`PageHeader` of `parquet.thrift`). This reader takes less than that of the crate, and what it takes it reads alike.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

/// The most bytes that a page may have, compressed or not; those of vtax have 1 MiB and a few rows.
const MOST_BYTES: u32 = 8 << 20;
/// The fewest bytes of a value in a dictionary: of a text, its length.
const LEAST_VALUE: u32 = 4;
/// The longest head; those of vtax have a few dozen bytes.
const LONGEST_HEAD: usize = 1 << 10;
/// PLAIN, PLAIN_DICTIONARY, DELTA_BINARY_PACKED and RLE_DICTIONARY. For others, room is made for as much as is said inside of the page.
const ENCODINGS: [u32; 4] = [0, 2, 5, 8];

/// Types of fields, as Thrift numbers them.
const I32: u8 = 5;
const STRUCT: u8 = 12;
/// Structs in each other.
const DEEPEST: usize = 4;

const CUT: &str = "the head of a page is cut off";
const ODD: &str = "the head of a page isn't one of vtax's";
const LARGE: &str = "a page says that it is larger than any of vtax's";

/// Or why it isn't believed.
type Checked<T> = Result<T, &'static str>;

/// Looks at the heads of all pages.
///
/// # Errors
///
/// Where one isn't as vtax writes it, or can't be read.
pub(crate) fn check(file: &File, metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (mut at, mut left) = column.byte_range();
        while left > 0 {
            let mut bytes = [0; LONGEST_HEAD];
            let there = file.read_at(&mut bytes, at)?;
            let page = page_length(&bytes[..there]).map_err(|why| ParquetError::General(why.to_owned()))?;
            left = left.checked_sub(page).ok_or_else(|| ParquetError::General(CUT.to_owned()))?;
            at += page;
        }
    }
    Ok(())
}

/// The length of a page with its head, where that may be believed.
fn page_length(bytes: &[u8]) -> Checked<u64> {
    let mut head = Thrift { bytes, at: 0 };
    let (mut last, mut plain, mut stored, mut entries) = (0, None, None, 0);
    while let Some((id, kind)) = head.field(last)? {
        match (id, kind) {
            (1 | 4, I32) => {
                head.varint()?;
            }
            (2, I32) => plain = Some(head.number()?),
            (3, I32) => stored = Some(head.number()?),
            (5, STRUCT) => {
                head.values(4, 2)?;
            }
            (7, STRUCT) => entries = head.values(2, 2)?,
            (8, STRUCT) => {
                head.values(6, 4)?;
            }
            (0..=8, _) => return Err(ODD),
            (_, kind) => head.skip(kind, 0)?,
        }
        last = id;
    }
    let (Some(plain), Some(stored)) = (plain, stored) else { return Err(ODD) };
    if plain > MOST_BYTES || stored > MOST_BYTES || entries > plain / LEAST_VALUE {
        return Err(LARGE);
    }
    Ok(head.at as u64 + u64::from(stored))
}

/// Thrift's compact protocol, as far as heads of pages need it.
struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Thrift<'_> {
    fn byte(&mut self) -> Checked<u8> {
        let byte = *self.bytes.get(self.at).ok_or(CUT)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Checked<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ODD)
    }

    /// A number of 32 bits that isn't negative: zigzag makes those even.
    fn number(&mut self) -> Checked<u32> {
        let zigzag = self.varint()?;
        let number = i32::try_from(zigzag / 2).ok().filter(|_| zigzag.is_multiple_of(2));
        number.map(i32::cast_unsigned).ok_or(ODD)
    }

    /// Id and type of the next field; `None` at the end of a struct. Ids rise, so that no field is there twice.
    fn field(&mut self, last: u16) -> Checked<Option<(u16, u8)>> {
        let head = self.byte()?;
        match (head >> 4, head & 0xf) {
            (_, 0) => Ok(None),
            // The long form of an id, which may be any.
            (0, _) => Err(ODD),
            // A head of so few bytes has no ids that are too large for this.
            (step, kind) => Ok(Some((last + u16::from(step), kind))),
        }
    }

    /// The part of a head that only one kind of page has: its number of values. Its first fields are numbers, one of which is the encoding.
    fn values(&mut self, numbers: u16, encoding: u16) -> Checked<u32> {
        let (mut last, mut values) = (0, None);
        while let Some((id, kind)) = self.field(last)? {
            match (id <= numbers, kind) {
                (true, I32) if id == 1 => values = Some(self.number()?),
                (true, I32) if id == encoding => {
                    if !ENCODINGS.contains(&self.number()?) {
                        return Err(ODD);
                    }
                }
                (true, I32) => {
                    self.varint()?;
                }
                (true, _) => return Err(ODD),
                (false, kind) => self.skip(kind, 0)?,
            }
            last = id;
        }
        values.ok_or(ODD)
    }

    /// Passes over the value of a field. Lists and maps aren't in heads.
    fn skip(&mut self, kind: u8, depth: usize) -> Checked<()> {
        match kind {
            // Booleans are in their type.
            1 | 2 => {}
            3 => {
                self.byte()?;
            }
            4..=6 => {
                self.varint()?;
            }
            7 => self.at += 8,
            8 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ODD)?;
                self.at = self.at.saturating_add(length);
            }
            STRUCT if depth < DEEPEST => {
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    self.skip(kind, depth + 1)?;
                    last = id;
                }
            }
            _ => return Err(ODD),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A field of the next id with a number of 32 bits.
    fn number(value: u32) -> Vec<u8> {
        let (mut bytes, mut zigzag) = (vec![0x10 | I32], u64::from(value) * 2);
        while zigzag > 0x7f {
            bytes.push(zigzag.to_le_bytes()[0] | 0x80);
            zigzag >>= 7;
        }
        bytes.push(zigzag.to_le_bytes()[0]);
        bytes
    }

    /// The head of a page with data.
    fn data(plain: u32, stored: u32, encoding: u32) -> Vec<u8> {
        let own = [number(20_000), number(encoding), number(3), number(3), vec![0]].concat();
        // Field 5 behind field 3.
        [number(0), number(plain), number(stored), vec![0x20 | STRUCT], own, vec![0]].concat()
    }

    /// The head of a dictionary, which says whether it is sorted.
    fn dictionary(plain: u32, entries: u32) -> Vec<u8> {
        let own = [number(entries), number(0), vec![0x12, 0]].concat();
        // Field 7 behind field 3.
        [number(2), number(plain), number(100), vec![0x40 | STRUCT], own, vec![0]].concat()
    }

    #[test]
    fn what_vtax_writes_is_passed_over() {
        for head in [data(1 << 20, 100, 5), data(1 << 20, 100, 0), dictionary(1 << 20, 1000)] {
            assert_eq!(page_length(&head), Ok(head.len() as u64 + 100), "{head:?}");
            for cut in 0..head.len() {
                assert_eq!(page_length(&head[..cut]), Err(CUT));
            }
        }
    }

    #[test]
    fn a_head_that_asks_for_too_much_is_refused() {
        assert_eq!(page_length(&data(2 << 30, 100, 0)), Err(ODD), "negative as 32 bits");
        assert_eq!(page_length(&data((2 << 30) - 1, 100, 0)), Err(LARGE));
        assert_eq!(page_length(&data(100, MOST_BYTES + 1, 0)), Err(LARGE));
        assert_eq!(page_length(&dictionary(100, 26)), Err(LARGE), "more texts than bytes");
        for encoding in [3, 6, 7, 9] {
            assert_eq!(page_length(&data(100, 100, encoding)), Err(ODD), "{encoding}");
        }
        // A field of another type is read as one of its own by the crate; an id in its long form may come twice.
        let odd: [&[u8]; 5] =
            [&[0x18, 0], &[0x15, 0, 0x05, 4, 0], &[0x15, 0, 0x1c, 0, 0], &[0x15, 0, 0x15, 1, 0], &[0]];
        for odd in odd {
            assert_eq!(page_length(odd), Err(ODD), "{odd:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_there_has_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..LONGEST_HEAD)) {
            let _ = page_length(&bytes);
        }
    }
}
