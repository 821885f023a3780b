//! Requests whose header blocks are written beforehand.

use super::hpack::{FIELD_OVERHEAD, Indexing, Name, TABLE_BYTES, Writer, static_field};

/// The first index of the dynamic table (RFC 7541 section 2.3.3).
const DYNAMIC: u32 = 62;

/// A request's header block, written for each state that the peer's table may be in. All requests of a connection must have
/// the same `shared` fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// For a table that is empty: the shared fields go into it.
    filling: Vec<u8>,
    /// For one that has the shared fields and no others.
    filled: Vec<u8>,
    /// For one that isn't used.
    plain: Vec<u8>,
    /// Its answer has no body, whatever its fields say: HEAD.
    pub bodiless: bool,
}

/// What is known of the peer's table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum PeerTable {
    /// Nothing was written.
    #[default]
    Empty,
    /// The shared fields are in it.
    Filled,
    /// It is smaller than was assumed, and the peer is to be told that it isn't used (RFC 7541 section 4.2).
    Shrunk,
    /// It isn't used.
    Unused,
}

impl Prepared {
    /// A request with its fields in their order: the method, the scheme, the target, `shared` (`:authority` first, without which
    /// there is no request) and `fields`. Names must be in lower case.
    #[must_use]
    pub fn new(
        (method, scheme, target): (&str, &str, &str),
        shared: &[(&str, &str)],
        fields: &[(&str, &str)],
    ) -> Self {
        let block = |table: PeerTable| {
            let mut out = Vec::new();
            let mut writer = Writer { out: &mut out, huffman: true };
            for (name, value) in [(":method", method), (":scheme", scheme), (":path", target)] {
                put(&mut writer, name, value, Indexing::Without);
            }
            for (number, (name, value)) in (0..).zip(shared) {
                match table {
                    // The last that went in has the lowest index.
                    PeerTable::Filled => writer.indexed(DYNAMIC + shared.len() as u32 - 1 - number),
                    PeerTable::Empty => {
                        writer.literal(Indexing::Incremental, Name::of(name), value.as_bytes())
                    }
                    PeerTable::Shrunk | PeerTable::Unused => put(&mut writer, name, value, Indexing::Without),
                }
            }
            for (name, value) in fields {
                put(&mut writer, name, value, Indexing::Without);
            }
            out
        };
        // Where the shared fields don't fit, they aren't in the table after all.
        let size: usize = shared.iter().map(|(n, v)| n.len() + v.len() + FIELD_OVERHEAD as usize).sum();
        let fits = size <= TABLE_BYTES as usize;
        let plain = block(PeerTable::Unused);
        Self {
            filling: if fits { block(PeerTable::Empty) } else { plain.clone() },
            filled: if fits { block(PeerTable::Filled) } else { plain.clone() },
            plain,
            bodiless: method == "HEAD",
        }
    }

    /// The block for a peer whose table is this, which is as it says afterwards.
    pub(super) fn block(&self, table: &mut PeerTable) -> &[u8] {
        match table {
            PeerTable::Empty => {
                *table = PeerTable::Filled;
                &self.filling
            }
            PeerTable::Filled => &self.filled,
            PeerTable::Shrunk | PeerTable::Unused => &self.plain,
        }
    }
}

/// A field that no table gets.
fn put(writer: &mut Writer<'_>, name: &str, value: &str, indexing: Indexing) {
    match static_field(name, value) {
        Some(index) => writer.indexed(index),
        None => writer.literal(indexing, Name::of(name), value.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::Decoder;

    #[test]
    fn a_request_is_the_same_in_each_state_of_the_table() {
        let shared = [(":authority", "host"), ("user-agent", "vtax")];
        let one = Prepared::new(("GET", "http", "/a"), &shared, &[("x-own", "1")]);
        let other = Prepared::new(("HEAD", "https", "/"), &shared, &[]);
        assert!(other.bodiless && !one.bodiless);
        let mut decoder = Decoder::default();
        let mut read = |block: &[u8]| {
            let mut text = String::new();
            let mut sink = |name: &[u8], value: &[u8]| {
                text += &format!("{}={} ", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            };
            decoder.decode(block, 1000, |field| sink(field.name, field.value)).unwrap();
            text
        };
        let told = ":method=GET :scheme=http :path=/a :authority=host user-agent=vtax x-own=1 ";
        let mut table = PeerTable::Empty;
        assert_eq!(read(one.block(&mut table)), told);
        assert_eq!(table, PeerTable::Filled);
        assert_eq!(read(one.block(&mut table)), told);
        assert_eq!(
            read(other.block(&mut table)),
            ":method=HEAD :scheme=https :path=/ :authority=host user-agent=vtax "
        );
        let mut table = PeerTable::Unused;
        assert_eq!(read(one.block(&mut table)), told);
        // A request is a few bytes once the table is filled.
        assert!(other.filled.len() < 12, "{}", other.filled.len());
    }
}
