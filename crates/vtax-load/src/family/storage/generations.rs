//! Which generation each record of a file has: what a read must find.

/// Records of a piece. A piece whose records all have one generation takes no table, so that a sweep over a terabyte doesn't either.
const PIECE: usize = 4096;
/// Bits of a value for the generation that was begun last. Those above count the writes since the last acknowledged one: each of
/// them failed or is under way, so that the record may hold it or not.
const BITS: u32 = 11;
/// Generations begin again after this.
const LAST: u16 = (1 << BITS) - 1;
/// So many writes that were not acknowledged can't be told apart from more.
const MANY: u16 = u16::MAX >> BITS;

/// In place of a generation: one that isn't known.
const UNKNOWN: u16 = u16::MAX;

/// Words of a bit for each record of a piece.
const WORDS: usize = PIECE / u64::BITS as usize;

/// What a record may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// It was never written.
    Nothing,
    /// Exactly this.
    Generation(u32),
    /// This, which was acknowledged (0: it was never written), or any of those begun since, which were not.
    Between {
        /// Acknowledged last.
        acknowledged: u32,
        /// Begun last.
        newest: u32,
    },
    /// A write that nobody answered may still come after a later one that was acknowledged: it, or any of those begun since. What is
    /// older was overwritten by one that was acknowledged.
    Overtaken {
        /// The first of those that nobody answered.
        oldest: u32,
        /// Begun last.
        newest: u32,
    },
    /// Any: too many writes failed one after the other to know, or it isn't known which one nobody answered.
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
    /// Only where writes were left without an answer.
    unanswered: Option<Box<Unanswered>>,
}

/// Writes that were left without an answer: the far end may carry them out at any time.
#[derive(Debug, Clone)]
struct Unanswered {
    /// Of each record the first such write, [`UNKNOWN`], or 0: none.
    oldest: [u16; PIECE],
    /// Those of them with a write that was acknowledged although it began later: it may be overwritten by the older one.
    overtaken: [u64; WORDS],
}

impl Unanswered {
    const NONE: Self = Self { oldest: [0; PIECE], overtaken: [0; WORDS] };

    const fn bit(place: usize) -> (usize, u64) {
        (place / u64::BITS as usize, 1 << (place % u64::BITS as usize))
    }
}

impl Piece {
    /// The first write that nobody answered, where it may come after one that was acknowledged.
    fn overtaken(&self, place: usize) -> Option<u16> {
        let (word, bit) = Unanswered::bit(place);
        let unanswered = self.unanswered.as_ref()?;
        (unanswered.overtaken[word] & bit != 0).then_some(unanswered.oldest[place])
    }

    /// A write was acknowledged: whatever had no answer before may come after it.
    fn overtake(&mut self, place: usize) {
        let (word, bit) = Unanswered::bit(place);
        if let Some(unanswered) = self.unanswered.as_mut().filter(|unanswered| unanswered.oldest[place] != 0)
        {
            unanswered.overtaken[word] |= bit;
        }
    }

    /// A write of this generation is left without an answer.
    fn leave(&mut self, place: usize, generation: u16) {
        let unanswered = self.unanswered.get_or_insert_with(|| Box::new(Unanswered::NONE));
        let oldest = &mut unanswered.oldest[place];
        *oldest = match *oldest {
            0 => generation,
            before if before == UNKNOWN || generation == UNKNOWN => UNKNOWN,
            before => before.min(generation),
        };
    }

    /// Generations begin again: which of them is the first isn't known any more.
    fn begin_again(&mut self, place: usize) {
        if let Some(unanswered) = self.unanswered.as_mut().filter(|unanswered| unanswered.oldest[place] != 0)
        {
            unanswered.oldest[place] = UNKNOWN;
        }
    }

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
        } else if value <= LAST {
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
        let value = self.pieces[piece].get(place);
        let (newest, since) = (value & LAST, value >> BITS);
        if let Some(oldest) = self.pieces[piece].overtaken(place) {
            return match oldest {
                UNKNOWN => Expected::Any,
                _ => Expected::Overtaken { oldest: oldest.into(), newest: newest.into() },
            };
        }
        match since {
            0 if newest == 0 => Expected::Nothing,
            0 => Expected::Generation(newest.into()),
            MANY => Expected::Any,
            _ => {
                Expected::Between { acknowledged: newest.saturating_sub(since).into(), newest: newest.into() }
            }
        }
    }

    /// The generation that the next write of the record has, where no other [begins](Self::begin) before it.
    pub(super) fn following(&self, record: u64) -> u32 {
        let (piece, place, _) = self.place(record);
        let newest = self.pieces[piece].get(place) & LAST;
        if newest == LAST { 1 } else { u32::from(newest) + 1 }
    }

    /// A write of the record begins; the generation that it is to have. Until it is [acknowledged](Self::acknowledged) the record
    /// may hold it or what was there before.
    pub(super) fn begin(&mut self, record: u64) -> u32 {
        let (piece, place, length) = self.place(record);
        let value = self.pieces[piece].get(place);
        let (newest, since) = (value & LAST, value >> BITS);
        // Where generations begin again, none is before the first: until it is acknowledged, nothing is known.
        let (next, since) = if newest == LAST { (1, MANY) } else { (newest + 1, (since + 1).min(MANY)) };
        self.pieces[piece].set(place, since << BITS | next, length);
        if newest == LAST {
            self.pieces[piece].begin_again(place);
        }
        next.into()
    }

    /// The write of that generation was never sent: the record is as it was before it [began](Self::begin), unless another has begun
    /// meanwhile, or too many are open to know.
    pub(super) fn withdrawn(&mut self, record: u64, generation: u32) {
        let (piece, place, length) = self.place(record);
        let value = self.pieces[piece].get(place);
        let (newest, since) = (value & LAST, value >> BITS);
        if generation > 0 && generation == u32::from(newest) && (1..MANY).contains(&since) {
            self.pieces[piece].set(place, (since - 1) << BITS | (newest - 1), length);
        }
    }

    /// The write of that generation was acknowledged.
    pub(super) fn acknowledged(&mut self, record: u64, generation: u32) {
        let (piece, place, length) = self.place(record);
        let value = self.pieces[piece].get(place);
        let (newest, since) = (value & LAST, value >> BITS);
        // Another may have begun meanwhile. Generations that began again are below those before.
        let begun_since = newest.checked_sub(generation as u16).unwrap_or(MANY).min(MANY);
        if begun_since <= since {
            self.pieces[piece].set(place, begun_since << BITS | newest, length);
            self.pieces[piece].overtake(place);
        }
    }

    /// The write of that generation (0: which isn't known) is left without an answer: the far end may carry it out at any time, also
    /// after one that begins later. From the next one on that is acknowledged, the record may hold it or anything newer until the file
    /// is empty; anything at all where it isn't known which it was.
    pub(super) fn unanswered(&mut self, record: u64, generation: u32) {
        let (piece, place, _) = self.place(record);
        let value = self.pieces[piece].get(place);
        let (newest, since) = (value & LAST, value >> BITS);
        let piece = &mut self.pieces[piece];
        // Where generations have begun again, it isn't known which is older.
        let is_known = generation > 0 && generation <= u32::from(newest);
        piece.leave(place, if is_known { generation as u16 } else { UNKNOWN });
        // Where too many are open, the record may hold anything until the next one is acknowledged.
        let is_open = since >= MANY
            || newest.checked_sub(since).is_some_and(|acknowledged| u32::from(acknowledged) < generation);
        if !is_known || !is_open {
            piece.overtake(place);
        }
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
                let between = Expected::Between { acknowledged: pass - 1, newest: pass };
                assert_eq!((generation, file.expected(record)), (pass, between));
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
            // By record: acknowledged last, begun last.
            let mut model: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
            // Few records get many writes, others few.
            for (record, is_acknowledged) in writes.into_iter().map(|(record, ok)| (record % (1 + record / 40), ok)) {
                let generation = file.begin(record);
                let (acknowledged, newest) = model.entry(record).or_default();
                *newest += 1;
                prop_assert_eq!(generation, *newest);
                if is_acknowledged {
                    file.acknowledged(record, generation);
                    *acknowledged = generation;
                }
            }
            for record in 0..5_000 {
                let expected = match model.get(&record).copied().unwrap_or_default() {
                    (0, 0) => Expected::Nothing,
                    (acknowledged, newest) if acknowledged == newest => Expected::Generation(newest),
                    (acknowledged, newest) if newest - acknowledged >= u32::from(MANY) => Expected::Any,
                    (acknowledged, newest) => Expected::Between { acknowledged, newest },
                };
                prop_assert_eq!(file.expected(record), expected);
            }
        }
    }

    /// Two writes of one record at once: either may be the last.
    #[test]
    fn a_write_that_began_meanwhile_stays_possible() {
        let mut file = Generations::new(1);
        let (first, second) = (file.begin(0), file.begin(0));
        file.acknowledged(0, first);
        assert_eq!(file.expected(0), Expected::Between { acknowledged: first, newest: second });
        file.acknowledged(0, second);
        file.acknowledged(0, first);
        assert_eq!(file.expected(0), Expected::Generation(second), "a late answer takes nothing back");
    }

    #[test]
    fn a_terabyte_of_small_records_takes_a_few_megabytes() {
        let file = Generations::new((1 << 40) / 4096);
        assert!(file.pieces.len() * size_of::<Piece>() < 8 << 20);
    }

    /// It came after the later one, and what was acknowledged was told to be lost.
    #[test]
    fn a_write_without_an_answer_may_come_after_a_later_one() {
        let mut file = Generations::new(5_000);
        file.written(1);
        let late = file.begin(4_500);
        file.unanswered(4_500, late);
        let between = Expected::Between { acknowledged: 1, newest: late };
        assert_eq!(file.expected(4_500), between, "nothing older than before");
        let later = file.begin(4_500);
        assert_eq!(file.expected(4_500), Expected::Between { acknowledged: 1, newest: later });
        file.acknowledged(4_500, later);
        let either = Expected::Overtaken { oldest: late, newest: later };
        assert_eq!(file.expected(4_500), either, "either may be the last");
        let next = file.begin(4_500);
        file.acknowledged(4_500, next);
        let still = Expected::Overtaken { oldest: late, newest: next };
        assert_eq!(file.expected(4_500), still, "it may still come");
        assert_eq!(file.expected(4_499), Expected::Generation(1), "others are as they were");
        // The later one's answer came first; and one whose place among the others isn't known.
        let (first, second) = (file.begin(7), file.begin(7));
        file.acknowledged(7, second);
        file.unanswered(7, first);
        file.unanswered(8, 0);
        let either = Expected::Overtaken { oldest: first, newest: second };
        assert_eq!((file.expected(7), file.expected(8)), (either, Expected::Any));
        file.emptied();
        assert!([7, 8, 4_500].map(|record| file.expected(record)) == [Expected::Nothing; 3]);
    }

    #[test]
    fn of_several_writes_without_an_answer_the_first_may_come_last() {
        let mut file = Generations::new(1);
        file.written(u32::from(LAST) - 2);
        let (first, acknowledged) = (file.begin(0), file.begin(0));
        file.unanswered(0, first);
        file.acknowledged(0, acknowledged);
        assert_eq!(file.expected(0), Expected::Overtaken { oldest: first, newest: acknowledged });
        let again = file.begin(0);
        assert_eq!((again, file.expected(0)), (1, Expected::Any), "older ones have greater numbers");
        file.acknowledged(0, again);
        assert_eq!(file.expected(0), Expected::Any);
        file.emptied();
        let [first, second, third] = [(); 3].map(|()| file.begin(0));
        file.unanswered(0, second);
        file.unanswered(0, first);
        assert_eq!(file.expected(0), Expected::Between { acknowledged: 0, newest: third });
        file.acknowledged(0, third);
        assert_eq!(file.expected(0), Expected::Overtaken { oldest: first, newest: third });
    }

    /// More of them than can be told apart may have failed since the acknowledged one.
    #[test]
    fn one_of_too_many_without_an_answer_proves_nothing_until_one_is_acknowledged() {
        let mut file = Generations::new(1);
        file.written(1);
        let open: Vec<u32> = (0..u32::from(MANY) + 5).map(|_| file.begin(0)).collect();
        file.unanswered(0, open[3]);
        assert_eq!(file.expected(0), Expected::Any);
        let last = file.begin(0);
        file.acknowledged(0, last);
        assert_eq!(file.expected(0), Expected::Overtaken { oldest: open[3], newest: last });
    }

    #[test]
    fn a_write_that_was_never_sent_is_taken_back() {
        let mut file = Generations::new(2);
        for _ in 0..3 {
            let never = file.begin(0);
            file.withdrawn(0, never);
            assert_eq!((never, file.expected(0)), (1, Expected::Nothing));
        }
        file.written(1);
        let (first, second) = (file.begin(0), file.begin(0));
        file.withdrawn(0, first);
        let both = Expected::Between { acknowledged: 1, newest: second };
        assert_eq!(file.expected(0), both, "the second is in its place among them");
        file.withdrawn(0, second);
        assert_eq!(file.expected(0), Expected::Between { acknowledged: 1, newest: first });
        file.withdrawn(0, 0);
        assert_eq!(file.expected(0), Expected::Between { acknowledged: 1, newest: first });
    }

    #[test]
    fn generations_begin_again() {
        let mut file = Generations::new(1);
        file.written(u32::from(LAST) - 1);
        let last = file.begin(0);
        let first = file.begin(0);
        assert_eq!((last, first, file.expected(0)), (u32::from(LAST), 1, Expected::Any));
        file.acknowledged(0, last);
        assert_eq!(file.expected(0), Expected::Any);
        file.acknowledged(0, first);
        assert_eq!(file.expected(0), Expected::Generation(1));
        let second = file.begin(0);
        assert_eq!(file.expected(0), Expected::Between { acknowledged: 1, newest: second });
    }
}
