//! HPACK, the compression of header fields (RFC 7541).
//!
//! A [`Decoder`] has a table that its peer fills; its size, the list of fields and each number are bounded. Blocks are
//! written field by field ([`Writer`]), beforehand: there is no table of the writer's own but what the caller knows of it.

mod decoder;
mod huffman;
mod integer;
mod table;
mod write;

pub use decoder::{Decoder, Field};
pub use huffman::{decode as huffman_decode, encode as huffman_encode};
pub(crate) use write::static_field;
pub use write::{Indexing, Name, Writer};

/// Bytes of the decoder's table, as SETTINGS_HEADER_TABLE_SIZE has it without being told otherwise.
pub const TABLE_BYTES: u32 = 4096;

/// What a field takes in a table and in a list beside its bytes (RFC 7541 section 4.1).
pub const FIELD_OVERHEAD: u32 = 32;

/// Why a header block can't be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HpackError {
    /// It ends in the middle of a field.
    #[error("it is cut short")]
    Short,
    /// A number doesn't fit.
    #[error("a number in it is too large")]
    Number,
    /// There is nothing in the tables at an index.
    #[error("it names what isn't in the table")]
    Index,
    /// Huffman code ends wrongly, or holds the symbol of the end.
    #[error("its Huffman code is wrong")]
    Huffman,
    /// The table's size changes where it can't, or to more than is allowed (section 4.2).
    #[error("it changes the table's size where it can't, or beyond what is allowed")]
    Resize,
    /// The list of fields is longer than allowed.
    #[error("its fields are too long together")]
    List,
}
