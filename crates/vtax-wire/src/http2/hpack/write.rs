//! The writing side (RFC 7541 section 6).

use super::table::STATIC;
use super::{huffman, integer};

/// What a reader does with a field that is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexing {
    /// It goes into the reader's table.
    Incremental,
    /// It doesn't.
    Without,
    /// It doesn't, nor into that of anyone it is passed on to.
    Never,
}

/// The name of a field that is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// The name of the field at an index.
    Index(u32),
    /// As it is, in lower case.
    Text(&'a [u8]),
}

impl<'a> Name<'a> {
    /// By its index where the static table has it.
    #[must_use]
    pub fn of(name: &'a str) -> Self {
        static_name(name).map_or(Self::Text(name.as_bytes()), Name::Index)
    }
}

/// Writes the fields of a block.
#[derive(Debug)]
pub struct Writer<'a> {
    /// Where they are appended.
    pub out: &'a mut Vec<u8>,
    /// Texts are written in Huffman code where that is shorter.
    pub huffman: bool,
}

impl Writer<'_> {
    /// A field that is in one of the tables.
    pub fn indexed(&mut self, index: u32) {
        integer::write(index, 7, 0x80, self.out);
    }

    /// A field that is written out.
    pub fn literal(&mut self, indexing: Indexing, name: Name<'_>, value: &[u8]) {
        let (prefix, first) = match indexing {
            Indexing::Incremental => (6, 0x40),
            Indexing::Without => (4, 0),
            Indexing::Never => (4, 0x10),
        };
        match name {
            Name::Index(index) => integer::write(index, prefix, first, self.out),
            Name::Text(text) => {
                integer::write(0, prefix, first, self.out);
                self.text(text);
            }
        }
        self.text(value);
    }

    /// The reader's table is to have so many bytes; before all fields of a block.
    pub fn resize(&mut self, size: u32) {
        integer::write(size, 5, 0x20, self.out);
    }

    fn text(&mut self, text: &[u8]) {
        // Blocks are far shorter than 4 GiB.
        let coded = huffman::length(text);
        if self.huffman && coded < text.len() {
            integer::write(coded as u32, 7, 0x80, self.out);
            huffman::encode(text, self.out);
        } else {
            integer::write(text.len() as u32, 7, 0, self.out);
            self.out.extend_from_slice(text);
        }
    }
}

/// The index of a field in the static table.
pub(crate) fn static_field(name: &str, value: &str) -> Option<u32> {
    place(|own| *own == (name, value))
}

/// The first index in the static table that has this name.
fn static_name(name: &str) -> Option<u32> {
    place(|(own, _)| *own == name)
}

fn place(is: impl Fn(&(&str, &str)) -> bool) -> Option<u32> {
    STATIC.iter().position(is).map(|at| at as u32 + 1)
}
