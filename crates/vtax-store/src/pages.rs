//! What the heads of a Parquet file's pages say, looked at before any page is decoded.
//!
//! The crate `parquet` makes as much room as a head says: 2 GiB for a page that is compressed, and more for a dictionary, however small the
//! file is. A run of equal values takes a few bytes whatever its length, so a file may also have more rows than anyone can read. Files may
//! come from others, so all heads are held to what vtax writes. A head is a struct in Thrift's compact
//! protocol (`PageHeader` of `parquet.thrift`). This reader takes less than that of the crate, and what it takes it reads alike.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

/// The most bytes that a page may have, compressed or not; those of vtax have 1 MiB and a few rows.
const MOST_BYTES: u32 = 8 << 20;
/// The most values that a page may have; those of vtax end behind 20,000.
const MOST_VALUES: u32 = 1 << 20;
/// The most rows for each byte of a file.
///
/// What vtax writes has fewer. In `samples.parquet` delta packing takes at least 5 bytes for each 256 starts, and as many for the latencies:
/// that makes 26 rows for each byte, where all requests are alike. In `probes.parquet` each snapshot has a time of its own, of 8 bytes,
/// and the metrics of a snapshot differ, which takes at least 4 bits for each row where there are many: Snappy packs those 21 to 1 at best,
/// so that there are 43 rows for each byte of that column alone.
const MOST_ROWS: u64 = 64;
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
const SHARED: &str = "its columns are together longer than the file";
const SURPLUS: &str = "the pages of a column have more values than the column";
const MANY: &str = "it has more rows than vtax puts into a file of its length";

/// Or why it isn't believed.
type Checked<T> = Result<T, &'static str>;

/// Looks at the heads of all pages.
///
/// # Errors
///
/// Where one isn't as vtax writes it or can't be read, and where they tell of more rows than a file of that length may have.
pub(crate) fn check(file: &File, metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    let length = file.metadata()?.len();
    let (mut stored, mut rows) = (0u64, 0u64);
    for group in metadata.row_groups() {
        let mut longest = 0;
        for column in group.columns() {
            let (start, bytes) = column.byte_range();
            // Columns in the same bytes would be read again and again.
            stored = stored.saturating_add(bytes);
            if stored > length {
                return Err(refused(SHARED));
            }
            let values = values_of(file, start, bytes)?;
            if u64::try_from(column.num_values()).is_ok_and(|said| values <= said) {
                longest = values.max(longest);
            } else {
                return Err(refused(SURPLUS));
            }
        }
        rows = rows.saturating_add(longest);
        if rows > length.saturating_mul(MOST_ROWS) {
            return Err(refused(MANY));
        }
    }
    Ok(())
}

/// How many values the pages have that begin there and are together of that length.
fn values_of(file: &File, mut at: u64, mut left: u64) -> Result<u64, ParquetError> {
    let mut all = 0u64;
    while left > 0 {
        let mut bytes = [0; LONGEST_HEAD];
        let there = file.read_at(&mut bytes, at)?;
        let (page, values) = page_length(&bytes[..there]).map_err(refused)?;
        left = left.checked_sub(page).ok_or_else(|| refused(CUT))?;
        at += page;
        all = all.saturating_add(u64::from(values));
    }
    Ok(all)
}

fn refused(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

/// The length of a page with its head, and how many values it has, where that may be believed. A dictionary has none.
fn page_length(bytes: &[u8]) -> Checked<(u64, u32)> {
    let mut head = Thrift { bytes, at: 0 };
    let (mut last, mut plain, mut stored, mut entries, mut values) = (0, None, None, 0, 0);
    while let Some((id, kind)) = head.field(last)? {
        match (id, kind) {
            (1 | 4, I32) => {
                head.varint()?;
            }
            (2, I32) => plain = Some(head.number()?),
            (3, I32) => stored = Some(head.number()?),
            // One that has both is read by one of them.
            (5, STRUCT) => values = head.values(4, 2)?.max(values),
            (7, STRUCT) => entries = head.values(2, 2)?,
            (8, STRUCT) => values = head.values(6, 4)?.max(values),
            (0..=8, _) => return Err(ODD),
            (_, kind) => head.skip(kind, 0)?,
        }
        last = id;
    }
    let (Some(plain), Some(stored)) = (plain, stored) else { return Err(ODD) };
    if plain > MOST_BYTES || stored > MOST_BYTES || entries > plain / LEAST_VALUE || values > MOST_VALUES {
        return Err(LARGE);
    }
    Ok((head.at as u64 + u64::from(stored), values))
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
    use std::sync::Arc;

    use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, RowGroupMetaData};
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;
    use proptest::prelude::*;

    use super::*;

    /// How many values a page of these tests has.
    const VALUES: u32 = 20_000;

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
        data_of(VALUES, plain, stored, encoding)
    }

    /// The head of a page with so many values.
    fn data_of(values: u32, plain: u32, stored: u32, encoding: u32) -> Vec<u8> {
        let own = [number(values), number(encoding), number(3), number(3), vec![0]].concat();
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
        let data = |encoding| (data(1 << 20, 100, encoding), VALUES);
        for (head, values) in [data(5), data(0), (dictionary(1 << 20, 1000), 0)] {
            assert_eq!(page_length(&head), Ok((head.len() as u64 + 100, values)), "{head:?}");
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
        assert_eq!(page_length(&data_of(MOST_VALUES + 1, 100, 100, 0)), Err(LARGE), "a run without an end");
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

    /// A footer with one column in each group: where it begins, how long it is, and how many values it is said to have.
    fn footer(columns: &[(usize, usize, u32)]) -> ParquetMetaData {
        let schema = parse_message_type("message m { required int64 a; }").unwrap();
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
        let group = |&(start, bytes, values): &(usize, usize, u32)| {
            let column = ColumnChunkMetaData::builder(schema.column(0))
                .set_data_page_offset(i64::try_from(start).unwrap())
                .set_total_compressed_size(i64::try_from(bytes).unwrap())
                .set_num_values(i64::from(values))
                .build()
                .unwrap();
            RowGroupMetaData::builder(Arc::clone(&schema)).set_column_metadata(vec![column]).build().unwrap()
        };
        let groups = columns.iter().map(group).collect();
        ParquetMetaData::new(FileMetaData::new(1, 0, None, None, Arc::clone(&schema), None), groups)
    }

    /// Runs of equal values take no room, and a footer may name the same pages again and again.
    #[test]
    fn a_file_has_no_more_rows_than_its_length_allows() {
        use std::io::Write as _;
        let head = data(100, 1000, 0);
        let page = head.len() + 1000;
        let mut file = tempfile::tempfile().unwrap();
        for _ in 0..2 {
            file.write_all(&head).unwrap();
            file.write_all(&[0; 1000]).unwrap();
        }
        let checked = |columns: &[(usize, usize, u32)]| {
            check(&file, &footer(columns)).map_err(|error| error.to_string())
        };
        assert_eq!(checked(&[(0, page, VALUES), (page, page, VALUES)]), Ok(()));
        assert_eq!(checked(&[(0, 2 * page, 2 * VALUES)]), Ok(()));
        let why = |columns: &[(usize, usize, u32)]| checked(columns).unwrap_err();
        assert!(why(&[(0, page, VALUES - 1)]).contains(SURPLUS));
        assert!(why(&[(0, page, VALUES); 3]).contains(SHARED));
        // The same pages with next to nothing in them.
        let head = data(100, 1, 0);
        let page = head.len() + 1;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&head).unwrap();
        file.write_all(&[0]).unwrap();
        let error = check(&file, &footer(&[(0, page, VALUES)])).unwrap_err().to_string();
        assert!(error.contains(MANY), "{error}");
    }

    proptest! {
        #[test]
        fn whatever_is_there_has_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..LONGEST_HEAD)) {
            let _ = page_length(&bytes);
        }
    }
}
