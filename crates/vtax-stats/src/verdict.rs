//! From an interval to a word.

use crate::center::ENCLOSING;
use crate::interval::MIN_TRIALS;
use crate::margin::Margin;
use crate::multiple::widened;
use crate::ratio::{Bound, Direction, Ratio};
use crate::uncertainty::Uncertainty;

/// How often a single 95 % interval misses the truth, and the chance of any false claim in a family.
pub const ALPHA: f64 = 0.05;

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate costs less.
    Better,
    /// The candidate costs more.
    Worse,
    /// Any difference is within the margin.
    Equivalent,
    /// The data can't tell.
    Inconclusive,
}

/// Kinds of reasons why a ratio can't be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Fewer than [`MIN_TRIALS`] trials of a side, or fewer than [`ENCLOSING`] that all agree.
    TooFew,
    /// The interval holds both equality and a difference beyond the margin.
    TooWide,
    /// A side is known from below only: it was never driven to its limit, or too much of it had no answer.
    NotAtLimit,
    /// It would count alone, but not in its family.
    ManyComparisons,
}

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The word.
    pub verdict: Verdict,
    /// Why, for people.
    pub reason: String,
    /// Why it can't be told; `None` where it can.
    pub doubt: Option<Doubt>,
    /// The interval that the verdict was read off.
    pub interval: Option<(f64, f64)>,
    /// How often that interval misses the truth: 0.05, or less in a family.
    pub level: f64,
}

/// Judges a tax; `margin` 0.05 lets anything between 1/1.05 and 1.05 count as equal.
///
/// - *equivalent*: the whole interval lies within the margin, even where it excludes 1. Two
///   one-sided tests at 2.5 % each (Schuirmann 1987, as an interval).
/// - *worse* (*better*): the whole interval lies above (below) 1 and reaches beyond the margin.
/// - *inconclusive*: anything else, or no interval.
#[must_use]
pub fn judge(ratio: &Ratio, margin: f64) -> Judgement {
    judge_at(ratio, margin, Levels { interval: ALPHA, difference: ALPHA, equality: ALPHA, beyond: ALPHA })
}

/// What the interval of a ratio says by itself, by the rules of [`judge`]; nothing is known of whether it is a bound only.
#[must_use]
pub fn verdict_of(interval: (f64, f64), margin: Margin) -> Verdict {
    match interval {
        _ if margin.contains(interval) => Verdict::Equivalent,
        (low, _) if low > 1.0 => Verdict::Worse,
        (_, high) if high < 1.0 => Verdict::Better,
        _ => Verdict::Inconclusive,
    }
}

/// How often intervals miss the truth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Levels {
    /// The one there is.
    pub(crate) interval: f64,
    /// One that a difference is claimed by.
    pub(crate) difference: f64,
    /// One that equality is claimed by.
    pub(crate) equality: f64,
    /// One that a difference beyond the margin is claimed by.
    pub(crate) beyond: f64,
}

/// Judges a ratio whose interval is of another level.
pub(crate) fn judge_at(ratio: &Ratio, margin: f64, levels: Levels) -> Judgement {
    let (verdict, doubt, reason) = word(ratio, margin, levels);
    Judgement { verdict, reason, doubt, interval: ratio.interval, level: levels.interval }
}

fn word(ratio: &Ratio, margin: f64, levels: Levels) -> (Verdict, Option<Doubt>, String) {
    let unknown = |doubt, reason: String| (Verdict::Inconclusive, Some(doubt), reason);
    let margin = Margin::new(margin);
    let edge = margin.bounds().1;
    let Some((low, high)) = ratio.interval else {
        return match why_bound(ratio) {
            // More trials would agree as well.
            Some(why) if ratio.bound == Bound::Unknown && pairs(ratio) >= MIN_TRIALS => {
                unknown(Doubt::NotAtLimit, why.to_owned())
            }
            _ => unknown(Doubt::TooFew, too_few(ratio)),
        };
    };
    let known = |verdict, reason: &str| (verdict, None, reason.to_owned());
    if let Some(why) = why_bound(ratio) {
        return match ratio.bound {
            Bound::AtLeast if low > 1.0 => known(Verdict::Worse, &format!("a lower bound: {why}")),
            Bound::AtMost if high < 1.0 => known(Verdict::Better, &format!("an upper bound: {why}")),
            _ => unknown(Doubt::NotAtLimit, why.to_owned()),
        };
    }
    let within = percent(margin.share());
    let verdict = verdict_of((low, high), margin);
    // Seen from the side where the cost is, so that better and worse mirror each other.
    let surely = || widened(ratio, levels.beyond).interval.unwrap_or((low, high));
    let near = match verdict {
        Verdict::Equivalent => return known(verdict, &format!("within the margin of {within}")),
        Verdict::Worse => surely().0,
        Verdict::Better => 1.0 / surely().1,
        Verdict::Inconclusive => {
            return unknown(Doubt::TooWide, undecided(ratio, (low, high), edge, levels));
        }
    };
    let reason = if near > edge {
        format!("beyond the margin of {within}")
    } else {
        format!("a real difference, though perhaps within the margin of {within}")
    };
    known(verdict, &reason)
}

/// Rounds, or trials of the side that has fewer.
fn pairs(ratio: &Ratio) -> usize {
    ratio.rounds.unwrap_or(ratio.candidate_trials.min(ratio.baseline_trials))
}

/// Why there is no interval.
fn too_few(ratio: &Ratio) -> String {
    let (n, whose) = match (ratio.candidate_trials, ratio.baseline_trials) {
        (c, b) if b < c => (b, " of the baseline"),
        (c, _) => (c, ""),
    };
    match pairs(ratio) {
        all if all >= MIN_TRIALS => format!(
            "too few trials: all {all} agree to the digit, maybe by chance; at least {ENCLOSING} are needed"
        ),
        _ => format!("too few trials{whose}: {n} of {MIN_TRIALS}"),
    }
}

/// Which side is known from below only, and why; `None` where both are known. More than is known makes the tax larger where it
/// is the baseline's capacity, or the candidate's latency.
fn why_bound(ratio: &Ratio) -> Option<&'static str> {
    match (ratio.better, ratio.bound) {
        (_, Bound::Exact) => None,
        (Direction::Higher, Bound::AtLeast) => Some("the baseline was never driven to its limit"),
        (Direction::Higher, Bound::AtMost) => Some("this environment was never driven to its limit"),
        (Direction::Higher, Bound::Unknown) => Some("neither side was driven to its limit"),
        (Direction::Lower, Bound::AtLeast) => Some("too much of this environment had no answer"),
        (Direction::Lower, Bound::AtMost) => Some("too much of the baseline had no answer"),
        (Direction::Lower, Bound::Unknown) => Some("too much of both sides had no answer"),
    }
}

/// Most trials that a text asks for.
const MOST_NEEDED: usize = 200;

/// What helps where a measurement's resolution is all that is in the way.
const FINER_SEARCH: &str =
    "more trials would not tell, a finer search in the plan may (precision, or smaller steps)";

/// What it takes to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needed {
    /// So many trials of each side.
    Trials(usize),
    /// More than [`MOST_NEEDED`].
    TooMany,
    /// No number of trials, but a better resolution.
    Resolution,
    /// No number of trials, as these come out on two levels.
    Levels,
    /// Nothing would do.
    Nothing,
}

/// The number of trials with which an interval of a level ends within `target` four times of five, where new ones scatter as those
/// there are; what they don't cure stays as it is. That is what `detectable` and forecasts promise too: with as many as make an
/// interval just narrow enough, every other run would tell.
fn needed(ratio: &Ratio, (target, level): (f64, f64)) -> Needed {
    let Some(known) = ratio.uncertainty.filter(|_| target > 0.0) else { return Needed::Nothing };
    let trials = ratio.rounds.unwrap_or(ratio.candidate_trials.min(ratio.baseline_trials)).max(1);
    // More trials have more degrees of freedom as well, which counts most where there are few.
    let tells = |n: usize| known.after(n as f64 / trials as f64).told(level) <= target;
    let endless = |u: Uncertainty| Uncertainty { scatter: 0.0, ..u }.told(level);
    if endless(known) >= target {
        let resolved = endless(Uncertainty { unseen: 0.0, ..known }) < target;
        return match known.levels > 0.0 {
            _ if resolved => Needed::Resolution,
            true => Needed::Levels,
            false => Needed::Nothing,
        };
    }
    let (mut least, mut most) = (trials, MOST_NEEDED);
    if !tells(most) {
        return Needed::TooMany;
    }
    while least < most {
        let middle = usize::midpoint(least, most);
        if tells(middle) { most = middle } else { least = middle + 1 }
    }
    Needed::Trials(most)
}

/// Why an interval around 1 that is wider than the margin decides nothing, and what would.
fn undecided(ratio: &Ratio, (low, high): (f64, f64), edge: f64, levels: Levels) -> String {
    let distance = ratio.tax.ln().abs();
    // Narrow enough is what either excludes 1 or fits into the margin, whichever comes first.
    let ways = [(distance, levels.difference), (edge.ln() - distance, levels.equality)];
    let needed = ways.into_iter().map(|way| needed(ratio, way)).min().unwrap_or(Needed::Nothing);
    // In the metric's own terms: 10 % less capacity, where the cost is 11 % more.
    let (least, most) = ratio.better.own((low, high));
    let what = match needed {
        Needed::Trials(needed) => format!("about {needed} trials each would tell"),
        Needed::TooMany => format!("more than {MOST_NEEDED} trials each would be needed to tell"),
        Needed::Resolution => FINER_SEARCH.to_owned(),
        Needed::Levels => "more trials would not tell, as they come out on two levels".to_owned(),
        Needed::Nothing => "more trials would not tell".to_owned(),
    };
    if least < 1.0 / FAR && most > FAR {
        return format!("anything is possible, as the trials differ too much; {what}");
    }
    // What would read like an end of the margin has a digit more: it must not look as if it were within.
    let is_at_edge = |ratio: f64| [1.0 / edge, edge].into_iter().any(|end| change(end) == change(ratio));
    let told = |ratio| if is_at_edge(ratio) { finely(ratio) } else { change(ratio) };
    format!("anything from {} to {} is possible; {what}", told(least), told(most))
}

/// [`change`] with a digit more.
fn finely(ratio: f64) -> String {
    let percent = (ratio - 1.0).abs() * 100.0;
    format!("{percent:.2} % {}", if ratio >= 1.0 { "more" } else { "less" })
}

/// A ratio above this, or below its inverse, is told as beyond it where it is an end of an interval: the trials differ too much for a number.
pub const FAR: f64 = 10_000.0;

/// `12 % more`, `3.1x as much`, `4 % less`.
fn change(ratio: f64) -> String {
    match ratio {
        r if r > FAR => format!("more than {FAR}x as much"),
        r if r < 1.0 / FAR => format!("less than 1/{FAR} as much"),
        r if r >= 9.95 => format!("{r:.0}x as much"),
        r if r >= 2.0 => format!("{r:.1}x as much"),
        r if r <= 0.1 => format!("1/{:.0} as much", 1.0 / r),
        r if r >= 1.0 => format!("{} more", percent(r - 1.0)),
        r => format!("{} less", percent(1.0 - r)),
    }
}

fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p >= 9.95 || (p - p.round()).abs() < 0.05 { format!("{p:.0} %") } else { format!("{p:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::ratio::{Direction, NoRatio, tax};
    use crate::student::t_quantile;
    use crate::uncertainty::hidden;
    use proptest::prelude::*;

    fn ratio(low: f64, high: f64) -> Ratio {
        let error = (high / low).ln() / 2.0 / t_quantile(0.975, 8.0);
        let ratio = Ratio {
            tax: (low * high).sqrt(),
            interval: None,
            better: Direction::Lower,
            bound: Bound::Exact,
            detectable: None,
            candidate_trials: 5,
            baseline_trials: 5,
            rounds: None,
            scatter: None,
            uncertainty: None,
        };
        ratio.with(Some(Uncertainty::symmetric(error * error, 8.0, 0.0)))
    }

    fn trials(needed: Needed) -> usize {
        match needed {
            Needed::Trials(n) => n,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trials_that_are_needed_shorten_the_interval_as_they_will() {
        // Five trials a side, an interval of 0.9 to 1.1: to tell 5 % takes t(0.975) and t(0.8) standard errors within that.
        let found = ratio(0.9, 1.1);
        let half = (1.1_f64 / 0.9).ln() / 2.0;
        let alone = trials(needed(&found, (0.05, ALPHA)));
        let error = half / t_quantile(0.975, 8.0);
        let errors = |df: f64| t_quantile(0.975, df) + t_quantile(0.8, df);
        let reach = |n: usize| errors(8.0 * n as f64 / 5.0) * error * (5.0 / n as f64).sqrt();
        assert_eq!((Some(alone), alone), ((5..200).find(|n| reach(*n) <= 0.05), 31));
        assert_eq!(trials(needed(&found, (0.05, 0.01))), 47);
        assert_eq!(needed(&found, (1e-4, ALPHA)), Needed::TooMany);
        assert_eq!(needed(&found, (-0.1, ALPHA)), Needed::Nothing);
    }

    /// Rounds whose ratios scatter by a tenth: as many as are asked for tell a tax of 1.1 in four runs of five.
    #[test]
    fn as_many_trials_as_are_asked_for_tell_four_times_of_five() {
        const RUNS: u64 = 2000;
        let found = Uncertainty::symmetric(0.01 / 5.0, 4.0, 0.0);
        let five = Ratio { rounds: Some(5), ..ratio(0.9, 1.1) }.with(Some(found));
        let distance = 1.1_f64.ln();
        let n = trials(needed(&five, (distance, ALPHA)));
        // By an interval that just fits it would be 7: (t(0.975, 5.6) = 2.490) 0.1 / sqrt(7) = 0.0941.
        assert_eq!(n, 11);
        let mut rng = crate::rng::Rng::new(3);
        // The sum of twelve uniform values: normal enough, sd 1.
        let mut normal = || (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        let (rounds, ones) = ((0..n as u32).collect::<Vec<u32>>(), vec![1.0; n]);
        let told = (0..RUNS).filter(|_| {
            let values: Vec<f64> = (0..n).map(|_| (distance + 0.1 * normal()).exp()).collect();
            let (c, b) = (Group::in_rounds(&values, &rounds), Group::in_rounds(&ones, &rounds));
            tax(&c, &b, Direction::Lower, 1).unwrap().interval.is_some_and(|(low, _)| low > 1.0)
        });
        let share = told.count() as f64 / RUNS as f64;
        assert!((0.78..0.86).contains(&share), "{share}");
    }

    /// Two brackets of 8 %, a tax of 1.02 and a margin of 5 %: no number of trials comes to less than 6.3 % on either side.
    #[test]
    fn what_trials_dont_cure_is_not_counted_on() {
        let found = ratio(0.94, 1.107);
        let with =
            |unseen, levels| found.with(found.uncertainty.map(|u| Uncertainty { unseen, levels, ..u }));
        let wide = with(2.0 * hidden(0.08), 0.0);
        assert_eq!(needed(&wide, (0.05, ALPHA)), Needed::Resolution);
        assert_eq!(needed(&with(2.0 * hidden(0.08), 0.06), (0.05, ALPHA)), Needed::Levels);
        assert_eq!(needed(&with(0.0, 0.06), (0.05, ALPHA)), Needed::Levels);
        let fine = trials(needed(&with(2.0 * hidden(0.02), 0.0), (0.05, ALPHA)));
        assert!(fine > trials(needed(&found, (0.05, ALPHA))), "{fine}");
        let said = judge(&wide, 0.05).reason;
        assert!(said.ends_with(&format!("is possible; {FINER_SEARCH}")), "{said}");
    }

    #[test]
    fn the_four_words() {
        for (low, high, expected) in [
            (0.99, 1.02, Verdict::Equivalent),
            (1.01, 1.04, Verdict::Equivalent),
            (1.01, 1.08, Verdict::Worse),
            (1.2, 1.3, Verdict::Worse),
            (0.7, 0.8, Verdict::Better),
            (0.9, 0.99, Verdict::Better),
            (0.9, 1.1, Verdict::Inconclusive),
            (0.99, 1.2, Verdict::Inconclusive),
        ] {
            assert_eq!(judge(&ratio(low, high), 0.05).verdict, expected, "{low} {high}");
        }
    }

    #[test]
    fn what_is_possible_is_said_of_the_metric_itself() {
        let said = |better| judge(&Ratio { better, ..ratio(0.9, 1.25) }, 0.05).reason;
        let starts = |better, text: &str| assert!(said(better).starts_with(text), "{}", said(better));
        starts(Direction::Lower, "anything from 10 % less to 25 % more is possible");
        starts(Direction::Higher, "anything from 20 % less to 11 % more is possible");
    }

    #[test]
    fn what_is_beyond_the_margin_does_not_read_as_if_it_were_within() {
        let said = judge(&ratio(0.97, 1.0503), 0.05).reason;
        assert!(said.starts_with("anything from 3 % less to 5.03 % more is possible"), "{said}");
    }

    #[test]
    fn ends_that_are_absurd_are_not_told() {
        let reason = |low, high| judge(&ratio(low, high), 0.05).reason;
        let starts = |said: String, text: &str| assert!(said.starts_with(text), "{said}");
        starts(reason(2.5e-14, 1.2e13), "anything is possible, as the trials differ too much; ");
        starts(reason(0.5, 1e7), "anything from 50 % less to more than 10000x as much is possible; ");
        starts(reason(1e-9, 2.0), "anything from less than 1/10000 as much to 2.0x as much is possible; ");
    }

    #[test]
    fn bounds_decide_only_their_side() {
        let at = |bound, low, high| judge(&Ratio { bound, ..ratio(low, high) }, 0.05).verdict;
        assert_eq!(at(Bound::AtLeast, 3.0, 4.0), Verdict::Worse);
        assert_eq!(at(Bound::AtLeast, 0.99, 1.01), Verdict::Inconclusive);
        assert_eq!(at(Bound::AtLeast, 0.3, 0.4), Verdict::Inconclusive);
        assert_eq!(at(Bound::AtMost, 0.3, 0.4), Verdict::Better);
        assert_eq!(at(Bound::AtMost, 3.0, 4.0), Verdict::Inconclusive);
        assert_eq!(at(Bound::Unknown, 3.0, 4.0), Verdict::Inconclusive);
    }

    /// A capacity is known from below where nothing drove the system to its limit, a latency where too much had no answer.
    #[test]
    fn a_bound_says_which_side_made_it_and_why() {
        let said =
            |better, bound, (low, high)| judge(&Ratio { better, bound, ..ratio(low, high) }, 0.05).reason;
        let (above, below) = ((3.0, 4.0), (0.3, 0.4));
        let driven = "was never driven to its limit";
        let higher = |bound, interval| said(Direction::Higher, bound, interval);
        assert_eq!(higher(Bound::AtLeast, above), format!("a lower bound: the baseline {driven}"));
        assert_eq!(higher(Bound::AtLeast, below), format!("the baseline {driven}"));
        assert_eq!(higher(Bound::AtMost, below), format!("an upper bound: this environment {driven}"));
        assert_eq!(higher(Bound::AtMost, above), format!("this environment {driven}"));
        assert_eq!(higher(Bound::Unknown, above), "neither side was driven to its limit");
        let lower = |bound, interval| said(Direction::Lower, bound, interval);
        let unanswered = |side: &str| format!("too much of {side} had no answer");
        let (candidate, baseline) = (unanswered("this environment"), unanswered("the baseline"));
        assert_eq!(lower(Bound::AtLeast, above), format!("a lower bound: {candidate}"));
        assert_eq!(lower(Bound::AtLeast, below), candidate);
        assert_eq!(lower(Bound::AtMost, below), format!("an upper bound: {baseline}"));
        assert_eq!(lower(Bound::AtMost, above), baseline);
        assert_eq!(lower(Bound::Unknown, above), unanswered("both sides"));
    }

    #[test]
    fn censored_groups_give_bounds() {
        let values = [10.0, 11.0, 10.5];
        let open = Group { censored: true, ..Group::exact(&values) };
        let exact = Group::exact(&values);
        let bound = |c: &Group<'_>, b: &Group<'_>, better| tax(c, b, better, 1).unwrap().bound;
        let (more, less) = (Direction::Higher, Direction::Lower);
        assert_eq!([bound(&exact, &open, more), bound(&open, &exact, less)], [Bound::AtLeast; 2]);
        assert_eq!([bound(&open, &exact, more), bound(&exact, &open, less)], [Bound::AtMost; 2]);
        assert_eq!([bound(&open, &open, more), bound(&open, &open, less)], [Bound::Unknown; 2]);
        assert_eq!(tax(&Group::exact(&[]), &exact, Direction::Lower, 1), Err(NoRatio::NoCandidate));
        assert_eq!(tax(&exact, &Group::exact(&[0.0]), Direction::Lower, 1), Err(NoRatio::NotPositive));
    }

    #[test]
    fn too_few_trials_say_so() {
        let r = tax(&Group::exact(&[2.0, 2.1]), &Group::exact(&[1.0; 4]), Direction::Lower, 1).unwrap();
        let j = judge(&r, 0.05);
        assert_eq!(j.verdict, Verdict::Inconclusive);
        assert_eq!(j.reason, "too few trials: 2 of 3");
        let r = tax(&Group::exact(&[2.0, 2.1, 2.2]), &Group::exact(&[1.0]), Direction::Lower, 1).unwrap();
        assert_eq!(judge(&r, 0.05).reason, "too few trials of the baseline: 1 of 3");
        let same = tax(&Group::exact(&[2.0; 4]), &Group::exact(&[1.0; 3]), Direction::Lower, 1).unwrap();
        let j = judge(&same, 0.05);
        assert_eq!((j.verdict, j.doubt), (Verdict::Inconclusive, Some(Doubt::TooFew)));
        let said = "too few trials: all 3 agree to the digit, maybe by chance; at least 6 are needed";
        assert_eq!(j.reason, said);
        // Of two that were never driven to their limits more trials would agree as well.
        let open = |values| Group { censored: true, ..Group::exact(values) };
        let most = tax(&open(&[9.0; 3]), &open(&[9.0; 3]), Direction::Higher, 1).unwrap();
        let j = judge(&most, 0.05);
        assert_eq!(
            (j.doubt, j.reason.as_str()),
            (Some(Doubt::NotAtLimit), "neither side was driven to its limit")
        );
        let two = tax(&open(&[9.0; 2]), &open(&[9.0; 2]), Direction::Higher, 1).unwrap();
        assert_eq!(judge(&two, 0.05).reason, "too few trials: 2 of 3");
    }

    proptest! {
        #[test]
        fn exchanging_sides_mirrors_the_verdict(
            c in prop::collection::vec(1.0..3.0f64, 3..6),
            b in prop::collection::vec(1.0..3.0f64, 3..6),
        ) {
            let (c, b) = (Group::exact(&c), Group::exact(&b));
            let there = tax(&c, &b, Direction::Lower, 1).unwrap();
            let back = tax(&b, &c, Direction::Lower, 1).unwrap();
            prop_assert!((there.tax * back.tax - 1.0).abs() < 1e-9);
            let mirrored = match judge(&back, 0.05).verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                other => other,
            };
            prop_assert_eq!(judge(&there, 0.05).verdict, mirrored);
        }

        #[test]
        fn more_margin_never_finds_more_difference(low in 0.5..1.5f64, width in 1.0..1.5f64, a in 0.0..0.3f64, b in 0.0..0.3f64) {
            let r = ratio(low, low * width);
            let (small, large) = (judge(&r, a.min(b)).verdict, judge(&r, a.max(b)).verdict);
            prop_assert!(small == large || large == Verdict::Equivalent, "{:?} {:?}", small, large);
        }
    }
}
