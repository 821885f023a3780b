//! What is written, so that whatever is read tells where and when it was written.
//!
//! Each sector of 512 bytes is a function of seed, process, file, place and generation. It begins with a head: a mark, the place,
//! seed and generation, and a checksum of these, from which the rest follows. So a sector that is damaged, of another
//! place, or older than the last one acknowledged is told apart.

use vtax_units::Share;
use vtax_units::random::spread_bits;

/// Bytes of a sector: what is verified by itself.
pub(super) const SECTOR: usize = 512;
/// The first bytes of every sector: what is vtax's own begins with them.
pub(super) const MARK: u64 = u64::from_le_bytes(*b"vtaxdata");
/// Words of a sector, and of its head.
const WORDS: usize = SECTOR / 8;
const HEAD: usize = 4;
/// Sectors of a block of 4 KiB, by which storage finds equal contents.
const BLOCK: u64 = 8;
/// Contents that equal blocks share.
const CONTENTS: u64 = 64;

/// The contents of a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    seed: u64,
    /// Blocks below this in the order of their hashes have the contents of others; 0: none.
    shared_below: u64,
    /// Words of a sector that are not zero.
    random: usize,
}

/// Where a sector belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) worker: usize,
    pub(super) file: u32,
    /// Its number in the file.
    pub(super) sector: u64,
}

/// What a sector turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sector {
    /// Of this place, whole, of this generation; 0 where many places share the contents.
    Of(u32),
    /// Of another place.
    Elsewhere,
    /// All zeros: never written.
    Zero,
    /// Damaged.
    Damaged,
}

impl Pattern {
    /// With this share of equal blocks, and this share of zeros in each.
    pub(super) fn new(seed: u64, dedupe: Share, compressible: Share) -> Self {
        let body = (WORDS - HEAD) as f64;
        let zeros = (compressible.0.clamp(0.0, 1.0) * WORDS as f64).min(body) as usize;
        let shared_below =
            if dedupe.0 >= 1.0 { u64::MAX } else { (dedupe.0.max(0.0) * u64::MAX as f64) as u64 };
        Self { seed: spread_bits(seed) >> 32, shared_below, random: WORDS - zeros }
    }

    /// The head of a sector.
    fn head(&self, place: Place, generation: u32) -> [u64; HEAD] {
        let block = place.sector / BLOCK;
        let address = ((place.worker as u64) << 52) ^ (u64::from(place.file) << 32) ^ block;
        let draw = spread_bits(self.seed ^ spread_bits(address));
        let shared = self.shared_below > 0 && draw <= self.shared_below;
        let (at, generation) = if shared {
            ((u64::MAX << 16) | ((draw % CONTENTS) << 8) | (place.sector % BLOCK), 0)
        } else {
            let worker = (place.worker as u64) << 52;
            (worker | (u64::from(place.file) << 32) | place.sector, generation)
        };
        let when = (self.seed << 32) | u64::from(generation);
        [MARK, at, when, checksum(at, when)]
    }

    /// Fills a record that begins at `place`.
    pub(super) fn fill(&self, record: &mut [u8], place: Place, generation: u32) {
        for (i, sector) in record.chunks_exact_mut(SECTOR).enumerate() {
            let head = self.head(Place { sector: place.sector + i as u64, ..place }, generation);
            let (words, _) = sector.as_chunks_mut::<8>();
            let (first, rest) = words.split_at_mut(HEAD);
            for (word, value) in first.iter_mut().zip(head) {
                *word = value.to_le_bytes();
            }
            let (random, zeros) = rest.split_at_mut(self.random - HEAD);
            for (word, i) in random.iter_mut().zip(1..) {
                *word = body(head[3], i).to_le_bytes();
            }
            zeros.fill([0; 8]);
        }
    }

    /// What a sector is that should belong to `place`.
    fn look(&self, sector: &[u8], place: Place) -> Sector {
        let (words, _) = sector.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let (at, when) = (word(1), word(2));
        if word(0) != MARK || word(3) != checksum(at, when) {
            return if sector.iter().all(|byte| *byte == 0) { Sector::Zero } else { Sector::Damaged };
        }
        let generation = when as u32;
        let head = self.head(place, generation);
        if head[1] != at || when >> 32 != self.seed {
            return Sector::Elsewhere;
        }
        let random = &words[HEAD..self.random];
        let wrong = random
            .iter()
            .zip(1..)
            .fold(0, |wrong, (word, i)| wrong | (u64::from_le_bytes(*word) ^ body(head[3], i)));
        let zeros = words[self.random..].iter().fold(0, |any, word| any | u64::from_le_bytes(*word));
        if wrong | zeros == 0 { Sector::Of(head[2] as u32) } else { Sector::Damaged }
    }

    /// Every sector of a record that begins at `place`.
    pub(super) fn sectors<'a>(&'a self, record: &'a [u8], place: Place) -> impl Iterator<Item = Sector> + 'a {
        let each = record.chunks_exact(SECTOR).enumerate();
        each.map(move |(i, sector)| self.look(sector, Place { sector: place.sector + i as u64, ..place }))
    }
}

const fn checksum(at: u64, when: u64) -> u64 {
    spread_bits(MARK ^ spread_bits(at) ^ spread_bits(when).rotate_left(17))
}

/// The n-th word after the head.
const fn body(checksum: u64, n: u64) -> u64 {
    let x = checksum.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain() -> Pattern {
        Pattern::new(7, Share(0.0), Share(0.0))
    }

    const AT: Place = Place { worker: 3, file: 5, sector: 1_000 };

    fn record(pattern: &Pattern, generation: u32) -> Vec<u8> {
        let mut record = vec![0xff; 4096];
        pattern.fill(&mut record, AT, generation);
        record
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let pattern = plain();
        let good = record(&pattern, 9);
        let all = |record: &[u8], place| pattern.sectors(record, place).collect::<Vec<_>>();
        assert_eq!(all(&good, AT), [Sector::Of(9); 8]);
        assert_eq!(all(&good, Place { sector: 1_001, ..AT })[0], Sector::Elsewhere);
        assert_eq!(all(&good, Place { worker: 4, ..AT })[0], Sector::Elsewhere);
        let others = Pattern::new(8, Share(0.0), Share(0.0));
        assert_eq!(others.sectors(&good, AT).next(), Some(Sector::Elsewhere), "another load's");
        assert_eq!(all(&[0; 4096], AT), [Sector::Zero; 8]);
        let mut torn = good.clone();
        torn[2048..].copy_from_slice(&record(&pattern, 8)[2048..]);
        assert_eq!((all(&torn, AT)[3], all(&torn, AT)[4]), (Sector::Of(9), Sector::Of(8)));
    }

    #[test]
    fn equal_blocks_are_as_many_as_asked_for() {
        let pattern = Pattern::new(7, Share(0.25), Share(0.0));
        let mut seen = std::collections::BTreeMap::<Vec<u8>, u32>::new();
        let mut block = vec![0; 4096];
        for number in 0..4_000 {
            let place = Place { sector: number * 8, ..AT };
            pattern.fill(&mut block, place, 1);
            assert!(pattern.sectors(&block, place).all(|sector| matches!(sector, Sector::Of(0 | 1))));
            *seen.entry(block.clone()).or_default() += 1;
        }
        let shared: u32 = seen.values().filter(|count| **count > 1).sum();
        assert!((800..1_200).contains(&shared), "{shared} of 4000");
    }

    #[test]
    fn zeros_are_as_many_as_asked_for() {
        for (share, least, most) in [(0.0, 0, 150), (0.5, 2_000, 2_250), (1.0, 3_800, 4_000)] {
            let pattern = Pattern::new(7, Share(0.0), Share(share));
            let record = record(&pattern, 1);
            let zeros = record.iter().filter(|byte| **byte == 0).count();
            assert!((least..=most).contains(&zeros), "{zeros} at {share}");
            assert!(pattern.sectors(&record, AT).all(|sector| sector == Sector::Of(1)));
        }
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_seen(at in 0_usize..4096, change in 1_u8..) {
            let pattern = plain();
            let mut record = record(&pattern, 3);
            record[at] ^= change;
            let bad = pattern.sectors(&record, AT).filter(|sector| *sector != Sector::Of(3)).count();
            prop_assert_eq!(bad, 1);
        }
    }
}
