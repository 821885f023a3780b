//! The reading side (RFC 7541 sections 3 and 6).

use super::table::Table;
use super::{FIELD_OVERHEAD, HpackError, TABLE_BYTES, huffman, integer};

/// A field of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// It was in a table: a field with this name and value was looked at before.
    pub known: bool,
}

/// Reads header blocks; one for each direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What the table's size may be changed to.
    allowed: u32,
    /// Name and value of a field as they are read.
    field: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(TABLE_BYTES)
    }
}

impl Decoder {
    /// With a table of so many bytes, which SETTINGS_HEADER_TABLE_SIZE has told the peer.
    #[must_use]
    pub fn new(allowed: u32) -> Self {
        Self { table: Table::new(allowed), allowed, field: Vec::new() }
    }

    /// The table's size as the standard counts it (section 4.1).
    #[must_use]
    pub const fn table_size(&self) -> u32 {
        self.table.size()
    }

    /// Reads a block; its fields, in their order, go to `sink`. Together they are at most `most` bytes, 32 more for each.
    ///
    /// # Errors
    /// What is wrong with it; no other block can be read then, as the tables of both ends differ.
    pub fn decode(
        &mut self,
        block: &[u8],
        most: u32,
        mut sink: impl FnMut(Field<'_>),
    ) -> Result<(), HpackError> {
        let mut rest = block;
        let mut left = most;
        let mut begun = false;
        while let Some(first) = rest.first().copied() {
            if first & 0xe0 == 0x20 {
                // Section 4.2: before all fields.
                let (size, used) = integer::read(rest, 5)?;
                if begun || size > self.allowed {
                    return Err(HpackError::Resize);
                }
                self.table.resize(size);
                rest = &rest[used..];
                continue;
            }
            begun = true;
            let mut count = |name: usize, value: usize| {
                let size = u32::try_from(name + value).ok().and_then(|size| size.checked_add(FIELD_OVERHEAD));
                left = size.and_then(|size| left.checked_sub(size)).ok_or(HpackError::List)?;
                Ok(())
            };
            if first & 0x80 != 0 {
                let (index, used) = integer::read(rest, 7)?;
                let (name, value) = self.table.get(index).ok_or(HpackError::Index)?;
                count(name.len(), value.len())?;
                sink(Field { name, value, known: true });
                rest = &rest[used..];
                continue;
            }
            // With incremental indexing six bits are left for the index, else four (section 6.2).
            let indexing = first & 0x40 != 0;
            let (index, mut used) = integer::read(rest, if indexing { 6 } else { 4 })?;
            self.field.clear();
            if index == 0 {
                used += string(&rest[used..], &mut self.field)?;
            } else {
                let (name, _) = self.table.get(index).ok_or(HpackError::Index)?;
                self.field.extend_from_slice(name);
            }
            let name = self.field.len();
            used += string(&rest[used..], &mut self.field)?;
            count(name, self.field.len() - name)?;
            if indexing {
                self.table.insert(&self.field, name);
            }
            let (name, value) = self.field.split_at(name);
            sink(Field { name, value, known: false });
            rest = &rest[used..];
        }
        Ok(())
    }
}

/// Reads a text (section 5.2) and appends it; the bytes it takes.
fn string(input: &[u8], out: &mut Vec<u8>) -> Result<usize, HpackError> {
    let coded = input.first().is_some_and(|first| first & 0x80 != 0);
    let (length, used) = integer::read(input, 7)?;
    let length = usize::try_from(length).map_err(|_| HpackError::Number)?;
    let text = input[used..].get(..length).ok_or(HpackError::Short)?;
    if coded {
        huffman::decode(text, out)?;
    } else {
        out.extend_from_slice(text);
    }
    Ok(used + length)
}
