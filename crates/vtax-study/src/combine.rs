//! From ratios with their intervals to a word: the rules of docs/studies.md, one function each.
//!
//! A study's own figures, and figures judged as it judged them, have intervals without width: the same rules then always decide.

use vtax_stats::Margin;

use crate::judge::Word;

/// Both ends of what a ratio may be, each above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    /// One that is known exactly.
    pub(crate) fn exact(ratio: f64) -> Self {
        Self { low: ratio, high: ratio }
    }

    /// One of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self { low: 0.0, high: f64::INFINITY }
    }

    /// The other way round.
    pub(crate) fn inverse(self) -> Self {
        Self { low: 1.0 / self.high, high: 1.0 / self.low }
    }

    /// How large a step is, whichever way it goes: 1 or more.
    fn size(self) -> Self {
        if self.low >= 1.0 {
            self
        } else if self.high <= 1.0 {
            self.inverse()
        } else {
            Self { low: 1.0, high: self.high.max(1.0 / self.low) }
        }
    }

    /// Wholly within 1 ± the margin.
    fn is_equal(self, margin: f64) -> bool {
        Margin::new(margin).contains((self.low, self.high))
    }
}

/// The first is higher than the second.
pub(crate) fn higher(ratio: Range, margin: f64) -> Word {
    if ratio.low > 1.0 {
        Word::Held
    } else if ratio.high < 1.0 || ratio.is_equal(margin) {
        Word::Contradicted
    } else {
        Word::CantTell
    }
}

/// Both are as high as each other.
pub(crate) fn equal(ratio: Range, margin: f64) -> Word {
    if ratio.is_equal(margin) {
        Word::Held
    } else if Margin::new(margin).excludes((ratio.low, ratio.high)) {
        Word::Contradicted
    } else {
        Word::CantTell
    }
}

/// All of them: one that is contradicted is enough.
pub(crate) fn all(words: impl IntoIterator<Item = Word>) -> Word {
    let mut found = Word::Held;
    for word in words {
        match word {
            Word::CantRun => return Word::CantRun,
            Word::Contradicted => found = Word::Contradicted,
            Word::CantTell if found == Word::Held => found = Word::CantTell,
            Word::CantTell | Word::Held => {}
        }
    }
    found
}

/// The last is higher than the first, and no step goes down; each step is a point over the one before it.
pub(crate) fn rising(steps: &[Range], whole: Range, margin: f64) -> Word {
    let (least, _) = Margin::new(margin).bounds();
    let falls = steps.iter().any(|step| step.high < least);
    match higher(whole, margin) {
        _ if falls => Word::Contradicted,
        word => word,
    }
}

/// The last step lies within the margin. That it is smaller than those before it isn't enough: the ratios of 1, 2, 3, 4 are, too.
pub(crate) fn levels_off(steps: &[Range], margin: f64) -> Word {
    steps.last().map_or(Word::CantTell, |last| equal(*last, margin))
}

/// The step `at` is larger than all others, and one at all.
pub(crate) fn knee(steps: &[Range], at: usize, margin: f64) -> Word {
    let sizes: Vec<Range> = steps.iter().map(|step| step.size()).collect();
    let Some(own) = sizes.get(at).copied() else { return Word::CantTell };
    let others = || sizes.iter().enumerate().filter(move |(place, _)| *place != at).map(|(_, size)| size);
    let (_, most) = Margin::new(margin).bounds();
    if own.low > most && others().all(|other| other.high < own.low) {
        Word::Held
    } else if own.is_equal(margin) || others().any(|other| other.low > own.high) {
        Word::Contradicted
    } else {
        Word::CantTell
    }
}

/// A value is at most that.
pub(crate) fn at_most(value: Range, most: f64) -> Word {
    if value.high <= most {
        Word::Held
    } else if value.low > most {
        Word::Contradicted
    } else {
        Word::CantTell
    }
}

/// A value is at least that.
pub(crate) fn at_least(value: Range, least: f64) -> Word {
    if value.low >= least {
        Word::Held
    } else if value.high < least {
        Word::Contradicted
    } else {
        Word::CantTell
    }
}

/// So many groups have to hold.
pub(crate) fn enough(words: &[Word], needed: usize) -> Word {
    let count = |word: Word| words.iter().filter(|w| **w == word).count();
    if count(Word::Held) >= needed {
        Word::Held
    } else if count(Word::CantRun) > words.len() - needed.min(words.len()) {
        Word::CantRun
    } else if count(Word::Contradicted) > words.len() - needed.min(words.len()) {
        Word::Contradicted
    } else {
        Word::CantTell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(low: f64, high: f64) -> Range {
        Range { low, high }
    }

    #[test]
    fn a_direction_is_held_contradicted_or_open() {
        for (low, high, word) in [
            (1.01, 1.3, Word::Held),
            (0.5, 0.9, Word::Contradicted),
            (0.95, 1.05, Word::Contradicted),
            (0.8, 1.3, Word::CantTell),
        ] {
            assert_eq!(higher(range(low, high), 0.1), word, "{low} {high}");
        }
    }

    #[test]
    fn equality_needs_an_interval_within_the_margin() {
        for (low, high, word) in [
            (0.95, 1.05, Word::Held),
            (1.02, 1.08, Word::Held),
            (1.12, 1.3, Word::Contradicted),
            (0.5, 0.8, Word::Contradicted),
            (1.05, 1.2, Word::CantTell),
            (0.5, 2.0, Word::CantTell),
        ] {
            assert_eq!(equal(range(low, high), 0.1), word, "{low} {high}");
        }
    }

    #[test]
    fn the_knee_of_the_study_of_consolidation() {
        let steps: Vec<Range> = [4.0 / 0.4, 3534.0 / 4.0, 3925.0 / 3534.0].map(Range::exact).to_vec();
        assert_eq!(
            [0, 1, 2].map(|at| knee(&steps, at, 0.1)),
            [Word::Contradicted, Word::Held, Word::Contradicted]
        );
        let flat = [1.0, 1.01, 0.99].map(Range::exact);
        assert_eq!(knee(&flat, 1, 0.1), Word::Contradicted, "no step at all");
        let wide = [range(0.5, 20.0), range(1.5, 30.0), range(0.9, 1.1)];
        assert_eq!(knee(&wide, 1, 0.1), Word::CantTell);
    }

    #[test]
    fn a_course_rises_where_nothing_falls() {
        let up = [1.2, 1.02, 1.5].map(Range::exact);
        assert_eq!(rising(&up, Range::exact(1.8), 0.1), Word::Held);
        let dip = [1.2, 0.7, 2.0].map(Range::exact);
        assert_eq!(rising(&dip, Range::exact(1.7), 0.1), Word::Contradicted);
        assert_eq!(rising(&up, range(0.9, 3.0), 0.1), Word::CantTell);
    }

    #[test]
    fn a_course_levels_off_where_its_last_step_is_none() {
        for (steps, word) in [
            // Of the study of consolidation.
            ([3925.0 / 3534.0, 8132.0 / 3925.0, 8399.0 / 8132.0], Word::Held),
            // 1, 2, 3, 4: it grows as much in each step.
            ([2.0, 1.5, 4.0 / 3.0], Word::Contradicted),
            ([1.1, 1.2, 1.9], Word::Contradicted),
            ([2.0, 1.5, 0.7], Word::Contradicted),
            ([1.0, 1.0, 1.0], Word::Held),
        ] {
            assert_eq!(levels_off(&steps.map(Range::exact), 0.1), word, "{steps:?}");
        }
        assert_eq!(levels_off(&[range(2.0, 3.0), range(1.0, 1.3)], 0.1), Word::CantTell);
        assert_eq!(levels_off(&[], 0.1), Word::CantTell);
    }

    #[test]
    fn groups_hold_where_enough_of_them_do() {
        use Word::{CantRun, CantTell, Contradicted, Held};
        for (words, needed, word) in [
            (vec![Held, Held, Contradicted], 2, Held),
            (vec![Held, Held, Contradicted], 3, Contradicted),
            (vec![Held, CantTell, Contradicted], 2, CantTell),
            (vec![Held, CantRun], 2, CantRun),
            (vec![Held, CantRun], 1, Held),
        ] {
            assert_eq!(enough(&words, needed), word, "{words:?} {needed}");
        }
        assert_eq!(all([Held, CantTell, Contradicted]), Contradicted);
        assert_eq!(all([Held, Held]), Held);
        assert_eq!(all([CantRun, Contradicted]), CantRun);
    }

    #[test]
    fn what_is_not_known_decides_nothing() {
        let unknown = Range::unknown();
        assert_eq!(unknown.inverse(), unknown);
        assert_eq!((higher(unknown, 0.1), equal(unknown, 0.1)), (Word::CantTell, Word::CantTell));
        assert_eq!(rising(&[unknown], unknown, 0.1), Word::CantTell);
        assert_eq!(levels_off(&[unknown], 0.1), Word::CantTell);
        assert_eq!(knee(&[unknown, unknown], 0, 0.1), Word::CantTell);
        // Another step is certainly larger than the one that is claimed.
        let known = [unknown, Range::exact(1.3), Range::exact(2.0)];
        assert_eq!(knee(&known, 1, 0.1), Word::Contradicted);
    }

    fn ranges() -> impl Strategy<Value = Range> {
        (0.1..10.0f64, 1.0..5.0f64).prop_map(|(low, width)| range(low, low * width))
    }

    proptest! {
        /// What is exact is always decided.
        #[test]
        fn exact_figures_leave_nothing_open(ratio in 0.01..100.0f64, margin in 0.01..0.5f64) {
            prop_assert_ne!(higher(Range::exact(ratio), margin), Word::CantTell);
            prop_assert_ne!(equal(Range::exact(ratio), margin), Word::CantTell);
            prop_assert_ne!(at_most(Range::exact(ratio), 1.0), Word::CantTell);
            prop_assert_ne!(at_least(Range::exact(ratio), 1.0), Word::CantTell);
        }

        /// An interval within another never says the opposite of it.
        #[test]
        fn more_knowledge_never_turns_a_verdict(outer in ranges(), a in 0.0..1.0f64, b in 0.0..1.0f64, margin in 0.01..0.5f64) {
            let at = |share: f64| outer.low + share * (outer.high - outer.low);
            let inner = range(at(a.min(b)), at(a.max(b)));
            for (wide, narrow) in [
                (equal(outer, margin), equal(inner, margin)),
                (at_most(outer, 1.0), at_most(inner, 1.0)),
                (at_least(outer, 1.0), at_least(inner, 1.0)),
            ] {
                prop_assert!(wide == Word::CantTell || wide == narrow, "{:?} {:?}", wide, narrow);
            }
            // A difference within the margin contradicts a claimed one, unless it is known to be there.
            let (wide, narrow) = (higher(outer, margin), higher(inner, margin));
            prop_assert!(wide != Word::Held || narrow == Word::Held);
            prop_assert!(!(wide == Word::Contradicted && outer.high < 1.0) || narrow == Word::Contradicted);
        }

        /// Exchanging sides can't hold both ways.
        #[test]
        fn a_direction_and_its_opposite_are_never_both_held(ratio in ranges(), margin in 0.01..0.5f64) {
            let both = (higher(ratio, margin), higher(ratio.inverse(), margin));
            prop_assert_ne!(both, (Word::Held, Word::Held));
            prop_assert_eq!(equal(ratio, margin), equal(ratio.inverse(), margin));
        }

        /// At most one step is the knee.
        #[test]
        fn there_is_one_knee_at_most(steps in prop::collection::vec(ranges(), 2..7), margin in 0.01..0.5f64) {
            let held = (0..steps.len()).filter(|at| knee(&steps, *at, margin) == Word::Held).count();
            prop_assert!(held <= 1);
        }
    }
}
