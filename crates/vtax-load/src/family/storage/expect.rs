//! Whether what was read is what was written last.

use super::generations::Expected;
use super::pattern::{Pattern, Place, Sector};
use super::result::Verified;
use crate::requests::Outcome;

/// Compares a record with what it must hold. Counts what was found in `verified`.
pub(super) fn compare(
    pattern: &Pattern,
    record: &[u8],
    place: Place,
    expected: Expected,
    verified: &mut Verified,
) -> Outcome {
    verified.records += 1;
    let mut found = Found::default();
    for sector in pattern.sectors(record, place) {
        found.note(sector);
    }
    let (outcome, count) = match (found.worst(), expected) {
        (Worst::Elsewhere, _) => (Outcome::Corrupt, &mut verified.misplaced),
        (Worst::Damaged, _) => (Outcome::Corrupt, &mut verified.corrupt),
        (_, Expected::Any) => (Outcome::Ok, &mut verified.uncertain),
        (
            Worst::None { zero, least, most },
            Expected::Between { acknowledged: oldest, newest } | Expected::Overtaken { oldest, newest },
        ) => match between((zero, least, most), oldest, newest) {
            Outcome::Ok => (Outcome::Ok, &mut verified.uncertain),
            Outcome::Lost => (Outcome::Lost, &mut verified.lost),
            Outcome::Stale => (Outcome::Stale, &mut verified.stale),
            _ => (Outcome::Corrupt, &mut verified.torn),
        },
        (Worst::None { least: 0, most: 0, .. }, Expected::Nothing) => return Outcome::Ok,
        (_, Expected::Nothing) => (Outcome::Corrupt, &mut verified.corrupt),
        (Worst::None { zero: true, least: 0, most: 0 }, Expected::Generation(_)) => {
            (Outcome::Lost, &mut verified.lost)
        }
        (Worst::None { zero, least, most }, Expected::Generation(generation)) => {
            if least == most && !zero && (least == generation || found.shared_only()) {
                return Outcome::Ok;
            }
            if least == generation && most == generation {
                // Some of its sectors are zeros.
                (Outcome::Corrupt, &mut verified.torn)
            } else if least == most && !zero {
                (Outcome::Stale, &mut verified.stale)
            } else {
                (Outcome::Corrupt, &mut verified.torn)
            }
        }
    };
    *count += 1;
    outcome
}

/// Whether a record with writes that were not acknowledged holds nothing older than the oldest that may be there: the last one that
/// was acknowledged, or one that may have come after it. Such a write may be there in part: each sector by itself must be right.
fn between((zero, least, most): (bool, u32, u32), oldest: u32, newest: u32) -> Outcome {
    let all_zero = zero && most == 0;
    let older = least > 0 && least < oldest;
    if oldest > 0 && all_zero {
        Outcome::Lost
    } else if (older && !zero && most < oldest) || least > newest {
        Outcome::Stale
    } else if older || (zero && oldest > 0) || most > newest {
        Outcome::Corrupt
    } else {
        Outcome::Ok
    }
}

/// What the sectors of a record turned out to be.
#[derive(Debug, Default)]
struct Found {
    elsewhere: bool,
    damaged: bool,
    zero: bool,
    /// Sectors whose contents others share have generation 0.
    shared: bool,
    /// Least and most generation of the others.
    range: Option<(u32, u32)>,
}

enum Worst {
    Elsewhere,
    Damaged,
    /// Nothing is wrong with any sector by itself. Generations are 0 where no sector has one.
    None {
        zero: bool,
        least: u32,
        most: u32,
    },
}

impl Found {
    fn note(&mut self, sector: Sector) {
        match sector {
            Sector::Elsewhere => self.elsewhere = true,
            Sector::Damaged => self.damaged = true,
            Sector::Zero => self.zero = true,
            Sector::Of(0) => self.shared = true,
            Sector::Of(generation) => {
                let (least, most) = self.range.unwrap_or((generation, generation));
                self.range = Some((least.min(generation), most.max(generation)));
            }
        }
    }

    /// All sectors have contents that others share: their generation can't be told.
    fn shared_only(&self) -> bool {
        self.shared && self.range.is_none() && !self.zero
    }

    fn worst(&self) -> Worst {
        if self.damaged {
            Worst::Damaged
        } else if self.elsewhere {
            Worst::Elsewhere
        } else {
            let (least, most) = self.range.unwrap_or((0, 0));
            Worst::None { zero: self.zero, least, most }
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_units::Share;

    use super::*;

    const AT: Place = Place { worker: 0, file: 0, sector: 64 };

    /// What is counted where a record of 4 KiB holds sectors of these generations (0: zeros).
    fn judged(generations: [u32; 8], expected: Expected) -> (Outcome, Verified) {
        let pattern = Pattern::new(1, Share(0.0), Share(0.0));
        let mut record = vec![0; 4096];
        for (i, generation) in generations.into_iter().enumerate().filter(|(_, generation)| *generation > 0) {
            let place = Place { sector: AT.sector + i as u64, ..AT };
            pattern.fill(&mut record[i * 512..(i + 1) * 512], place, generation);
        }
        let mut verified = Verified::default();
        let outcome = compare(&pattern, &record, AT, expected, &mut verified);
        assert_eq!(verified.records, 1);
        (outcome, Verified { records: 0, ..verified })
    }

    #[test]
    fn lost_stale_and_torn_are_told_apart() {
        let of = Verified::default;
        let third = Expected::Generation(3);
        assert_eq!(judged([3; 8], third), (Outcome::Ok, of()));
        assert_eq!(judged([2; 8], third), (Outcome::Stale, Verified { stale: 1, ..of() }));
        assert_eq!(judged([0; 8], third), (Outcome::Lost, Verified { lost: 1, ..of() }));
        let torn = Verified { torn: 1, ..of() };
        assert_eq!(judged([3, 3, 3, 3, 2, 2, 2, 2], third), (Outcome::Corrupt, torn));
        assert_eq!(judged([3, 3, 3, 3, 0, 0, 0, 0], third), (Outcome::Corrupt, torn));
        assert_eq!(judged([2, 2, 0, 0, 2, 2, 2, 2], third), (Outcome::Corrupt, torn));
        assert_eq!(judged([0; 8], Expected::Nothing), (Outcome::Ok, of()));
        assert_eq!(judged([1; 8], Expected::Nothing), (Outcome::Corrupt, Verified { corrupt: 1, ..of() }));
        let uncertain = Verified { uncertain: 1, ..of() };
        assert_eq!(judged([3, 3, 3, 3, 2, 2, 2, 2], Expected::Any), (Outcome::Ok, uncertain));
    }

    #[test]
    fn a_write_without_an_answer_may_be_there_but_the_acknowledged_one_must() {
        let of = Verified::default;
        let since = Expected::Between { acknowledged: 3, newest: 5 };
        let uncertain = (Outcome::Ok, Verified { uncertain: 1, ..of() });
        for held in [[3; 8], [5; 8], [3, 3, 4, 4, 5, 5, 3, 3]] {
            assert_eq!(judged(held, since), uncertain, "{held:?}");
        }
        assert_eq!(judged([0; 8], since), (Outcome::Lost, Verified { lost: 1, ..of() }));
        assert_eq!(judged([2; 8], since), (Outcome::Stale, Verified { stale: 1, ..of() }));
        let torn = (Outcome::Corrupt, Verified { torn: 1, ..of() });
        for held in [[2, 3, 3, 3, 3, 3, 3, 3], [0, 3, 3, 3, 3, 3, 3, 3], [2, 0, 2, 2, 2, 2, 2, 2]] {
            assert_eq!(judged(held, since), torn, "{held:?}");
        }
        assert_eq!(judged([6; 8], since).0, Outcome::Stale, "nobody wrote that");
        let first = Expected::Between { acknowledged: 0, newest: 1 };
        for held in [[0; 8], [1; 8], [0, 0, 0, 0, 1, 1, 1, 1]] {
            assert_eq!(judged(held, first), uncertain, "{held:?}");
        }
    }

    /// Zeros passed, and so did what had been overwritten.
    #[test]
    fn a_write_that_may_come_late_excuses_nothing_older_than_itself() {
        let of = Verified::default;
        let late = Expected::Overtaken { oldest: 2, newest: 3 };
        for held in [[2; 8], [3; 8], [3, 3, 3, 3, 2, 2, 2, 2]] {
            assert_eq!(judged(held, late), (Outcome::Ok, Verified { uncertain: 1, ..of() }), "{held:?}");
        }
        assert_eq!(judged([0; 8], late), (Outcome::Lost, Verified { lost: 1, ..of() }));
        assert_eq!(judged([1; 8], late), (Outcome::Stale, Verified { stale: 1, ..of() }));
        for held in [[3, 3, 3, 3, 1, 1, 1, 1], [3, 3, 3, 3, 0, 0, 0, 0]] {
            assert_eq!(judged(held, late), (Outcome::Corrupt, Verified { torn: 1, ..of() }), "{held:?}");
        }
    }

    #[test]
    fn damage_and_other_places_are_told_apart() {
        let pattern = Pattern::new(1, Share(0.0), Share(0.0));
        let mut record = vec![0; 4096];
        pattern.fill(&mut record, Place { file: 1, ..AT }, 3);
        let mut verified = Verified::default();
        let expected = Expected::Generation(3);
        assert_eq!(compare(&pattern, &record, AT, expected, &mut verified), Outcome::Corrupt);
        record[512 + 24] ^= 1;
        compare(&pattern, &record, AT, expected, &mut verified);
        assert_eq!((verified.misplaced, verified.corrupt, verified.records), (1, 1, 2));
    }

    #[test]
    fn shared_contents_have_no_generation() {
        let pattern = Pattern::new(1, Share(1.0), Share(0.0));
        let mut record = vec![0; 4096];
        pattern.fill(&mut record, AT, 3);
        let mut verified = Verified::default();
        assert_eq!(compare(&pattern, &record, AT, Expected::Generation(5), &mut verified), Outcome::Ok);
        assert_eq!(verified.wrong(), 0);
    }
}
