//! When a service was silent: somebody had asked, and no answer came. Pure.
//!
//! A time in which nobody asks is no silence. At a small load most of the time between two answers is of that kind, and the
//! longest such time looks like an outage.

/// A silence begins within this time of the fault that it is an outage of, where the lab doesn't know when the guest did
/// not run.
const AT_ONCE: u64 = 1_000_000_000;
/// Silences without which nothing can be said about what is usual.
const LEAST_SILENCES: usize = 20;
/// An outage is longer than this many times the longest silence before.
const CLEARLY: u64 = 2;

/// Around an outage: the last answer before it, and the first after it.
pub(super) type Around = (Option<u64>, Option<u64>);

/// The stretch of a load that belongs to one fault. Nanoseconds on the clock of the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// When what broke before was over.
    pub(crate) before: u64,
    /// What was asked earlier belongs to what broke before.
    pub(crate) asked_from: u64,
    /// When it happened.
    pub(crate) at: u64,
    /// When it was mended before anybody noticed; `u64::MAX` where it wasn't.
    pub(crate) mended: u64,
    /// When the next thing broke; `u64::MAX` where nothing did.
    pub(crate) next: u64,
}

/// A time from which on somebody waited, and the answer that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Silence {
    /// The answer before.
    last: Option<u64>,
    from: u64,
    to: Option<u64>,
}

/// The silences of a load.
#[derive(Debug, Default)]
pub(super) struct Silences {
    all: Vec<Silence>,
    /// When answers came, in order.
    came: Vec<u64>,
    /// To where silence is known.
    end: u64,
}

impl Silences {
    /// Of answers in the order in which they came, attempts that failed, both as begin and end, and the length of the
    /// load.
    pub(super) fn of(answers: &[(u64, u64)], failed: &[(u64, u64)], duration: u64) -> Self {
        // The earliest begin of this one and all that end later.
        let earliest = |ends: &[(u64, u64)]| -> Vec<u64> {
            let mut earliest: Vec<u64> = ends.iter().map(|(asked, _)| *asked).collect();
            for i in (1..earliest.len()).rev() {
                earliest[i - 1] = earliest[i - 1].min(earliest[i]);
            }
            earliest
        };
        let mut failed = failed.to_vec();
        failed.sort_unstable_by_key(|(_, ended)| *ended);
        let (asked, tried) = (earliest(answers), earliest(&failed));
        let mut all = Vec::with_capacity(answers.len() + 1);
        for next in 0..=answers.len() {
            let last = next.checked_sub(1).map(|last| answers[last].1);
            let begin = last.unwrap_or(0);
            let trying = tried.get(failed.partition_point(|(_, ended)| *ended <= begin));
            let waiting = asked.get(next).into_iter().chain(trying).min();
            let to = answers.get(next).map(|(_, came)| *came);
            // Answers of one moment have nothing between them.
            if let Some(waiting) = waiting.filter(|_| last.is_none() || last != to) {
                all.push(Silence { last, from: begin.max(*waiting), to });
            }
        }
        let came: Vec<u64> = answers.iter().map(|(_, came)| *came).collect();
        let end = failed.last().map_or(0, |(_, ended)| *ended).max(duration);
        Self { all, came, end }
    }

    /// The outage that a fault made, where the lab doesn't know when the guest did not run: the longest silence that
    /// begins within a second of the fault and before that was mended, where it is clearly longer than every silence
    /// before; also one that the next thing cut short, where it was longer than all before, if not clearly so. `None`: no
    /// silence stands out. `otherwise` is what counts as long where there was too little before to compare with.
    pub(super) fn outage(&self, stretch: &Stretch, usual_from: u64, otherwise: u64) -> Option<Around> {
        let Stretch { at, mended, next, .. } = *stretch;
        let length = |s: &Silence| s.to.unwrap_or(self.end).min(next).saturating_sub(s.from);
        let latest = at.saturating_add(AT_ONCE).min(mended).min(next.saturating_sub(1));
        let near = self.all.iter().filter(|s| s.from <= latest && s.to.is_none_or(|to| to > at));
        let longest = near.max_by_key(|s| length(s));
        let usual = self.all.iter().filter(|s| s.from >= usual_from && s.to.is_some_and(|to| to <= at));
        let usual: Vec<u64> = usual.map(length).collect();
        let (usual, long) = match usual.iter().max() {
            Some(longest) if usual.len() >= LEAST_SILENCES => (*longest, longest.saturating_mul(CLEARLY)),
            _ => (otherwise, otherwise),
        };
        let cut_short =
            |s: &Silence| next < u64::MAX && s.to.is_none_or(|to| to >= next) && length(s) > usual;
        let outage = longest.filter(|s| length(s) > long || cut_short(s))?;
        Some((outage.last, outage.to.filter(|came| *came < next)))
    }

    /// The answers around a fault without an outage: how far apart they are only says how often somebody asked.
    pub(super) fn answers(&self, at: u64, next: u64) -> Around {
        let after = self.came.partition_point(|came| *came <= at);
        let last = after.checked_sub(1).map(|last| self.came[last]);
        (last, self.came.get(after).copied().filter(|came| *came < next))
    }

    /// The outage around a time in which the guest did not run: the longest time without an answer that reaches into it.
    /// What the lab notes is a little later than what it is about, so an answer may lie between.
    pub(super) fn around(&self, (from, to): (u64, u64), next: u64) -> Around {
        let came = || self.came.iter().copied();
        let gaps = std::iter::once(None).chain(came().map(Some)).zip(came().map(Some).chain([None]));
        let reaches = |(last, first): &Around| {
            last.is_none_or(|last| last <= to) && first.is_none_or(|first| first >= from)
        };
        let length =
            |(last, first): &Around| first.unwrap_or(self.end.max(to)).saturating_sub(last.unwrap_or(0));
        let (last, first) = gaps.filter(reaches).max_by_key(length).unwrap_or_default();
        (last, first.filter(|came| *came < next))
    }

    /// The longest time between two answers that begins within this time.
    pub(super) fn longest(&self, from: u64, to: u64) -> Option<u64> {
        let within = |came: u64| (from..=to).contains(&came);
        self.came.windows(2).filter(|pair| within(pair[0])).map(|pair| pair[1] - pair[0]).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stretch(at: u64, next: u64) -> Stretch {
        let next = next.saturating_mul(MS);
        Stretch { before: 0, asked_from: 0, at: at * MS, mended: u64::MAX, next }
    }

    /// Answers after 3 ms to requests at these times, in milliseconds.
    fn answers(asked: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        asked.into_iter().map(|ms| (ms * MS, (ms + 3) * MS)).collect()
    }

    #[test]
    fn a_time_in_which_nobody_asks_is_no_outage() {
        // One request every 20 ms, and none for 585 ms soon after a fault that harms nobody.
        let asked = (0..500).map(|i| i * 20).filter(|ms| !(5_020..5_600).contains(ms));
        let silences = Silences::of(&answers(asked), &[], 10_000 * MS);
        assert_eq!(silences.outage(&stretch(5_001, u64::MAX), 0, 100 * MS), None);
        let found = silences.answers(5_001 * MS, u64::MAX);
        assert_eq!(found, (Some(4_983 * MS), Some(5_003 * MS)), "asked at 5000");
    }

    #[test]
    fn an_outage_is_a_silence_that_clearly_differs_from_those_before() {
        for (stalled, outage) in [(5, false), (50, true)] {
            let mut answers = answers((0..500).map(|i| i * 20));
            for (asked, came) in answers.iter_mut().filter(|(asked, _)| *asked == 5_000 * MS) {
                *came = *asked + stalled * MS;
            }
            answers.sort_unstable_by_key(|(_, came)| *came);
            let silences = Silences::of(&answers, &[], 10_000 * MS);
            let found = silences.outage(&stretch(4_990, u64::MAX), 0, 100 * MS);
            assert_eq!(found.is_some(), outage, "{stalled}");
            let (last, first) = found.unwrap_or_else(|| silences.answers(4_990 * MS, u64::MAX));
            assert_eq!(last, Some(4_983 * MS));
            // The stalled one ends it, or the next one's answer where that comes before.
            let over = if outage { 5_023 } else { 5_005 };
            assert_eq!(first, Some(over * MS), "{stalled}");
        }
    }

    #[test]
    fn an_answer_on_its_way_is_no_end_of_an_outage_that_was_cut_short() {
        // Answers until 4983 ms, one more at 5003 ms, and none from then on; usually somebody waits for 3 ms.
        let answered = answers((0..=250).map(|i| i * 20));
        let failed: Vec<(u64, u64)> = (251..500).map(|i| (i * 20 * MS, (i * 20 + 1_000) * MS)).collect();
        let silences = Silences::of(&answered, &failed, 10_000 * MS);
        let found = |next| silences.outage(&stretch(5_001, next), 0, 100 * MS);
        // Somebody has waited since 5020 ms: for 3 ms, which is usual, for 5 ms, and for 50 ms.
        assert_eq!((found(5_023), silences.answers(5_001 * MS, 5_023 * MS).1), (None, Some(5_003 * MS)));
        let cut_short = Some((Some(5_003 * MS), None));
        assert_eq!((found(5_025), found(5_070)), (cut_short, cut_short));
    }

    #[test]
    fn what_comes_after_a_fault_was_mended_is_none_of_its() {
        // Hung from 5000 to 5040 ms, which nobody noticed; what is asked at 5500 ms is answered at 5800 ms.
        let mut all = answers((0..500).map(|i| i * 20));
        for (asked, came) in &mut all {
            match *asked / MS {
                5_000..5_040 => *came = 5_041 * MS + *asked / MS,
                5_500..5_800 => *came = 5_800 * MS + *asked / MS,
                _ => {}
            }
        }
        all.sort_unstable_by_key(|(_, came)| *came);
        let silences = Silences::of(&all, &[], 10_000 * MS);
        let found = |mended| silences.outage(&Stretch { mended, ..stretch(5_000, u64::MAX) }, 0, 100 * MS);
        let first = |mended| Some(found(mended)?.1? / MS);
        assert_eq!(first(u64::MAX), Some(5_800), "it may be the hang's");
        assert_eq!(first(5_040 * MS), Some(5_041));
    }

    #[test]
    fn who_is_refused_waits_as_well() {
        let asked = (0..500).map(|i| i * 20).filter(|ms| !(5_000..5_900).contains(ms));
        let refused: Vec<_> = (250..295).map(|i| (i * 20 * MS, i * 20 * MS + 1)).collect();
        let silences = Silences::of(&answers(asked), &refused, 10_000 * MS);
        let found = silences.outage(&stretch(4_990, u64::MAX), 0, 100 * MS);
        assert_eq!(found, Some((Some(4_983 * MS), Some(5_903 * MS))));
    }

    #[test]
    fn an_answer_after_the_next_fault_is_none_of_this_one() {
        let mut stalled = answers((0..500).map(|i| i * 20).filter(|ms| !(5_000..6_000).contains(ms)));
        stalled.push((5_000 * MS, 6_000 * MS));
        stalled.sort_unstable_by_key(|(_, came)| *came);
        let silences = Silences::of(&stalled, &[], 10_000 * MS);
        let found = |next| silences.outage(&stretch(4_990, next), 0, 100 * MS);
        assert_eq!(found(5_500), Some((Some(4_983 * MS), None)));
        assert_eq!(found(6_001), Some((Some(4_983 * MS), Some(6_000 * MS))));
        assert_eq!(silences.around((5_100 * MS, 5_130 * MS), 5_500 * MS), (Some(4_983 * MS), None));
    }

    #[test]
    fn a_short_time_after_the_fault_a_next_one_does_not_lengthen_its_outage() {
        // Nobody answers from 1000 to 1113 ms, and not from 1900 ms to 2100 ms.
        let all = (0..600).map(|i| {
            let asked = i * 5 * MS;
            let down = |from: u64, to: u64| (from * MS..to * MS).contains(&asked).then_some(to * MS + i);
            (asked, down(1_000, 1_113).or(down(1_900, 2_100)).unwrap_or(asked + MS))
        });
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(_, came)| *came);
        let silences = Silences::of(&all, &[], 3_000 * MS);
        let first = |stretch: &Stretch, from: u64| Some(silences.outage(stretch, from, 100 * MS)?.1? / MS);
        assert_eq!(first(&stretch(1_000, 1_900), 0), Some(1_113));
        let second = Stretch { before: 1_200 * MS, ..stretch(1_900, u64::MAX) };
        assert_eq!(first(&second, second.before), Some(2_100));
    }

    #[test]
    fn a_known_death_is_found_where_the_note_of_it_is_late() {
        let silences = Silences::of(&answers([4_990, 4_996, 5_140, 5_141, 5_150]), &[], 10_000 * MS);
        // The pair noted at 5150 ms that the copy ran, and it had answered at 5143 ms.
        let found = silences.around((5_100 * MS, 5_150 * MS), u64::MAX);
        assert_eq!(found, (Some(4_999 * MS), Some(5_143 * MS)));
        assert_eq!(silences.longest(5_100 * MS, 5_144 * MS), Some(9 * MS));
        assert_eq!(silences.longest(6_000 * MS, 7_000 * MS), None);
        assert_eq!(Silences::default().around((1, 2), 9), (None, None));
        assert_eq!(Silences::default().outage(&stretch(1, 2), 0, 1), None);
        assert_eq!(Silences::default().answers(1, 2), (None, None));
    }

    /// Nobody is told of an outage by gaps between requests, however they fall.
    #[test]
    fn chance_makes_no_outage() {
        let mut random = 1_u64;
        for _ in 0..50 {
            let mut asked = 0;
            let all: Vec<_> = (0..200)
                .map(|_| {
                    // Knuth's generator; its upper bits are the random ones.
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    asked += (random >> 33) % 2_000 * MS;
                    (asked, asked + 3 * MS)
                })
                .collect();
            let at = all[30 + (random >> 33) as usize % 60].0 + 1;
            let silences = Silences::of(&all, &[], asked + 1);
            let stretch = Stretch { at, ..stretch(0, u64::MAX) };
            let first = all.iter().map(|(_, came)| *came).filter(|came| *came > at).min();
            assert_eq!(silences.outage(&stretch, 0, 100 * MS), None);
            assert_eq!(silences.answers(at, u64::MAX).1, first);
        }
    }
}
