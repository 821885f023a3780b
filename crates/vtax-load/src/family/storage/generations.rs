//! Which generation each record of a file has: what a read must find.

/// Records of a piece. A piece whose records all have one generation takes no table, so that a sweep over a terabyte doesn't either.
const PIECE: usize = 4096;
/// A write of the record failed or is under way: it may have the generation before, too.
const UNCERTAIN: u16 = 0x8000;
/// Generations begin again after this.
const LAST: u16 = 0x7fff;

/// What a record may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// It was never written.
    Nothing,
    /// Exactly this.
    Generation(u32),
    /// Any: a write failed, so that nobody knows.
    Any,
}

/// The generations of one file's records.
#[derive(Debug, Clone, Default)]
pub(super) struct Generations {
    pieces: Vec<Piece>,
    records: u64,
}

#[derive(Debug, Clone, Default)]
struct Piece {
    /// Of all records, where there is no table.
    all: u16,
    table: Option<Box<[u16]>>,
    /// Records in the table that have `newest`; all of them: no table is needed.
    newest: u16,
    with_newest: usize,
}

impl Piece {
    fn get(&self, place: usize) -> u16 {
        self.table.as_ref().map_or(self.all, |table| table[place])
    }

    fn set(&mut self, place: usize, value: u16, length: usize) {
        if self.get(place) == value {
            return;
        }
        let all = self.all;
        let table = self.table.get_or_insert_with(|| vec![all; length].into_boxed_slice());
        let before = std::mem::replace(&mut table[place], value);
        if before == self.newest {
            self.with_newest = self.with_newest.saturating_sub(1);
        }
        if value == self.newest {
            self.with_newest += 1;
        } else if value & UNCERTAIN == 0 {
            self.newest = value;
            self.with_newest = table.iter().filter(|other| **other == value).count();
        }
        if self.with_newest == length {
            (self.all, self.table) = (self.newest, None);
        }
    }
}

impl Generations {
    /// Of a file with so many records that was never written.
    pub(super) fn new(records: u64) -> Self {
        let pieces = records.div_ceil(PIECE as u64) as usize;
        Self { pieces: vec![Piece::default(); pieces], records }
    }

    /// All records were written at once.
    pub(super) fn written(&mut self, generation: u32) {
        let value = generation as u16 & LAST;
        self.pieces.fill(Piece { all: value, newest: value, ..Piece::default() });
    }

    /// The file is empty again.
    pub(super) fn emptied(&mut self) {
        self.pieces.fill(Piece::default());
    }

    /// Whether every record was written.
    pub(super) fn complete(&self) -> bool {
        self.pieces.iter().all(|piece| match &piece.table {
            None => piece.all != 0,
            Some(table) => table.iter().all(|value| *value != 0),
        })
    }

    fn place(&self, record: u64) -> (usize, usize, usize) {
        let (piece, place) = ((record / PIECE as u64) as usize, (record % PIECE as u64) as usize);
        let length = (self.records - piece as u64 * PIECE as u64).min(PIECE as u64) as usize;
        (piece, place, length)
    }

    /// What a read of the record must find.
    pub(super) fn expected(&self, record: u64) -> Expected {
        let (piece, place, _) = self.place(record);
        match self.pieces[piece].get(place) {
            0 => Expected::Nothing,
            value if value & UNCERTAIN != 0 => Expected::Any,
            value => Expected::Generation(u32::from(value)),
        }
    }

    /// A write of the record begins; the generation that it is to have. Until it is [acknowledged](Self::acknowledged) nobody knows
    /// what the record holds.
    pub(super) fn begin(&mut self, record: u64) -> u32 {
        let (piece, place, length) = self.place(record);
        let last = self.pieces[piece].get(place) & LAST;
        let next = if last >= LAST { 1 } else { last + 1 };
        self.pieces[piece].set(place, next | UNCERTAIN, length);
        u32::from(next)
    }

    /// The write of that generation was acknowledged.
    pub(super) fn acknowledged(&mut self, record: u64, generation: u32) {
        let (piece, place, length) = self.place(record);
        self.pieces[piece].set(place, generation as u16, length);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sweep_takes_no_table() {
        let mut file = Generations::new(10_000);
        assert!(!file.complete());
        for pass in 1..=2 {
            for record in 0..10_000 {
                let generation = file.begin(record);
                assert_eq!((generation, file.expected(record)), (pass, Expected::Any));
                file.acknowledged(record, generation);
            }
            assert!(file.complete() && file.pieces.iter().all(|piece| piece.table.is_none()), "pass {pass}");
        }
        assert_eq!(file.expected(9_999), Expected::Generation(2));
        file.emptied();
        assert_eq!(file.expected(0), Expected::Nothing);
        file.written(7);
        assert_eq!(file.expected(5_000), Expected::Generation(7));
    }

    proptest! {
        #[test]
        fn it_knows_what_was_acknowledged_last(writes in proptest::collection::vec((0_u64..5_000, any::<bool>()), 0..500)) {
            let mut file = Generations::new(5_000);
            let mut model = BTreeMap::new();
            for (record, acknowledged) in writes {
                let generation = file.begin(record);
                if acknowledged {
                    file.acknowledged(record, generation);
                }
                model.insert(record, if acknowledged { Expected::Generation(generation) } else { Expected::Any });
            }
            for record in 0..5_000 {
                let expected = model.get(&record).copied().unwrap_or(Expected::Nothing);
                prop_assert_eq!(file.expected(record), expected);
            }
        }
    }

    #[test]
    fn a_terabyte_of_small_records_takes_a_few_megabytes() {
        let file = Generations::new((1 << 40) / 4096);
        assert!(file.pieces.len() * size_of::<Piece>() < 8 << 20);
    }

    #[test]
    fn generations_begin_again() {
        let mut file = Generations::new(1);
        file.written(u32::from(LAST));
        let generation = file.begin(0);
        file.acknowledged(0, generation);
        assert_eq!(file.expected(0), Expected::Generation(1));
    }
}
