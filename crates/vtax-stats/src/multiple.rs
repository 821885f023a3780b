//! Verdicts on several comparisons at once.
//!
//! Of twenty comparisons of equals one is called different at 95 %. Hommel's procedure ("A stagewise rejective multiple
//! test procedure based on a modified Bonferroni test", Biometrika 75, 1988) keeps the chance of even one false claim in
//! the family at the level asked for. It is the closed test whose parts are Simes's (Biometrika 73, 1986), which holds for
//! independent comparisons and for those that share a baseline (Sarkar, Annals of Statistics 26, 1998), and claims
//! whatever Holm's does and more: where most comparisons are plain, the others are few, and judged as few.

use crate::ratio::{Bound, Ratio};
use crate::verdict::{Doubt, Judgement, Levels, Verdict, judge, judge_at};

/// The level at which each of these p values may be judged, so that the family's is `alpha`: `alpha` over the number
/// of comparisons that may all be equals for all that the p values say. What isn't a number counts as 1.
#[must_use]
pub(crate) fn hommel(p: &[f64], alpha: f64) -> f64 {
    let mut p: Vec<f64> = p.iter().map(|p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) }).collect();
    p.sort_by(f64::total_cmp);
    let n = p.len();
    // The largest i whose i largest values Simes's test doesn't reject.
    let equals = |i: usize| (1..=i).all(|k| p[n - i + k - 1] > alpha * k as f64 / i as f64);
    alpha / (1..=n).rev().find(|i| equals(*i)).unwrap_or(1) as f64
}

/// Of what a family may err, the share of claims of a difference; the rest is left for claims of equality.
const DIFFERENCES: f64 = 0.8;

/// Judges comparisons that are read together, each as [`judge`] would, but with intervals widened so
/// that all conclusive verdicts of the family hold at once with 1 - `alpha`.
///
/// Differences are claimed at the one level that Hommel's procedure finds for their p values at 4/5 of `alpha`, equality at the
/// level that it finds for those at 2/5, of which a wrong claim takes half, being one-sided. Two levels are needed: a tax
/// just beyond the margin is a plain difference, and must not make room for calling it equal. A family of one is judged as
/// ever, as it can't be both. A comparison without an interval takes no part: no claim can come of it.
#[must_use]
pub fn judge_family(ratios: &[Ratio], margin: f64, alpha: f64) -> Vec<Judgement> {
    let able: Vec<&Ratio> = ratios.iter().filter(|r| claimable(r)).collect();
    let level = |claim: &dyn Fn(&Ratio) -> f64, share: f64| {
        let share = if able.len() > 1 { share } else { 1.0 };
        hommel(&able.iter().map(|r| claim(r)).collect::<Vec<f64>>(), share * alpha)
    };
    let different = level(&difference, DIFFERENCES);
    let equal = level(&|r| equality(r, margin), 2.0 * (1.0 - DIFFERENCES));
    // That a difference is beyond the margin is more than a difference: those at the margin's edge aren't, and count as many as they are.
    let beyond = level(&|r| excess(r, margin), DIFFERENCES);
    let judged = |ratio: &Ratio| {
        let alone = judge(ratio, margin);
        if !claimable(ratio) {
            return alone;
        }
        let at = |interval: f64| {
            judge_at(
                &widened(ratio, interval),
                margin,
                Levels { interval, difference: different, equality: equal, beyond },
            )
        };
        let same = at(equal);
        if same.verdict == Verdict::Equivalent {
            return same;
        }
        let corrected = at(different);
        match (corrected.verdict, alone.verdict) {
            (Verdict::Worse | Verdict::Better, _) => corrected,
            // Not equal at the level for that, but different it may be: the interval excludes 1 within the margin.
            (Verdict::Equivalent, _) if excludes_one(&corrected) => {
                let verdict = if ratio.tax > 1.0 { Verdict::Worse } else { Verdict::Better };
                let reason = "a real difference, though within the margin as far as it is known".to_owned();
                Judgement { verdict, reason, ..corrected }
            }
            // What would tell has to be enough for the interval that it is judged by.
            (_, Verdict::Inconclusive) if corrected.doubt == Some(Doubt::TooWide) => corrected,
            // It couldn't be told alone either: the reason for that is the better one.
            (_, Verdict::Inconclusive) => {
                Judgement { level: different, interval: corrected.interval, ..alone }
            }
            // Alone it is among no others: what would tell is the better reason.
            _ if able.len() == 1 => corrected,
            _ => {
                // An interval that fits into the margin would look like equality: what equality is claimed by is shown.
                let shown = if corrected.verdict == Verdict::Equivalent { same } else { corrected };
                // What would tell, or that more trials would not, holds here as well.
                let what = shown.reason.rsplit_once("; ").filter(|_| shown.doubt == Some(Doubt::TooWide));
                let reason = by_chance(alone.verdict, able.len())
                    + &what.map_or_else(String::new, |(_, what)| format!("; {what}"));
                let doubt = Some(Doubt::ManyComparisons);
                Judgement { verdict: Verdict::Inconclusive, doubt, reason, ..shown }
            }
        }
    };
    ratios.iter().map(judged).collect()
}

fn excludes_one(judgement: &Judgement) -> bool {
    judgement.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
}

/// The ratio with its interval at 1 - `alpha` instead of 95 %. Where a bootstrap made it lean, both ends go out by the same
/// multiple: it has too few resamples to go further out itself.
#[must_use]
pub fn widened(ratio: &Ratio, alpha: f64) -> Ratio {
    Ratio { interval: ratio.uncertainty.map(|u| u.interval(ratio.tax, alpha)), ..*ratio }
}

/// Which of these taxes are above `limit`, so that any false claim of it has half the chance of `alpha`, as one alone has.
///
/// A level found for differences from 1 is none for this claim: taxes just below the limit may all be plain differences.
#[must_use]
pub fn above(ratios: &[Ratio], limit: f64, alpha: f64) -> Vec<bool> {
    let of = |ratio: &Ratio| match ratio.bound {
        Bound::Exact | Bound::AtLeast => beyond(ratio, ratio.tax.ln() - limit.ln(), true),
        Bound::AtMost | Bound::Unknown => 1.0,
    };
    let able = ratios.iter().filter(|r| claimable(r));
    let level = hommel(&able.map(of).collect::<Vec<f64>>(), alpha);
    ratios.iter().map(|r| claimable(r) && of(r) <= level).collect()
}

/// The most that a family of so many members, judged at `alpha`, errs in claims of a difference, and in claims of equality.
#[must_use]
pub fn shares(members: usize, alpha: f64) -> (f64, f64) {
    match members {
        0 | 1 => (alpha, alpha / 2.0),
        _ => (DIFFERENCES * alpha, (1.0 - DIFFERENCES) * alpha),
    }
}

fn claimable(ratio: &Ratio) -> bool {
    ratio.interval.is_some() && ratio.bound != Bound::Unknown
}

/// The p value of a difference from 1 in the direction that was seen, two-sided.
fn difference(ratio: &Ratio) -> f64 {
    let tax = ratio.tax.ln();
    match ratio.bound {
        Bound::Exact => beyond(ratio, tax, true).min(beyond(ratio, -tax, false)),
        Bound::AtLeast => beyond(ratio, tax, true),
        Bound::AtMost => beyond(ratio, -tax, false),
        Bound::Unknown => 1.0,
    }
}

/// The p value of equality within the margin: of two one-sided tests the larger, twice, as each claim is made at half the level.
fn equality(ratio: &Ratio, margin: f64) -> f64 {
    let (tax, edge) = (ratio.tax.ln(), margin.max(0.0).ln_1p());
    match ratio.bound {
        Bound::Exact => beyond(ratio, tax + edge, true).max(beyond(ratio, edge - tax, false)),
        _ => 1.0,
    }
}

/// The p value of a tax beyond the margin, in the direction that was seen, two-sided.
fn excess(ratio: &Ratio, margin: f64) -> f64 {
    let (tax, edge) = (ratio.tax.ln(), margin.max(0.0).ln_1p());
    match ratio.bound {
        Bound::Exact => beyond(ratio, tax - edge, true).min(beyond(ratio, -tax - edge, false)),
        _ => 1.0,
    }
}

/// Twice the one-sided p value of a distance that has to be above 0: below the tax, with what its interval has below it, or
/// above.
fn beyond(ratio: &Ratio, distance: f64, below: bool) -> f64 {
    ratio.uncertainty.map_or(1.0, |u| u.p_value(distance, below))
}

/// Why what has this verdict alone has none among so many.
fn by_chance(alone: Verdict, family: usize) -> String {
    let what = if alone == Verdict::Equivalent { "equal" } else { "a difference" };
    format!("on its own it would count as {what}, but among {family} comparisons it may be chance")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::margin::Margin;
    use crate::ratio::{Direction, tax};
    use crate::rng::Rng;
    use crate::student::t_quantile;
    use crate::uncertainty::Uncertainty;
    use crate::verdict::verdict_of;
    use proptest::prelude::*;

    fn ratio(tax: f64, half: f64) -> Ratio {
        let error = half.ln_1p() / t_quantile(0.975, 10.0);
        let ratio = Ratio {
            tax,
            interval: None,
            better: Direction::Lower,
            bound: Bound::Exact,
            detectable: None,
            candidate_trials: 8,
            baseline_trials: 8,
            rounds: None,
            scatter: None,
            uncertainty: None,
        };
        ratio.with(Some(Uncertainty::symmetric(error * error, 10.0, 0.0)))
    }

    #[test]
    fn hommel_by_hand() {
        // No i passes: 0.005 isn't above 0.05/4, nor 0.01 above 0.05/3, nor 0.04 above 0.05. Then the two largest do.
        assert_eq!(hommel(&[0.01, 0.04, 0.03, 0.005], 0.05), 0.05);
        assert_eq!(hommel(&[0.01, 0.06, 0.03, 0.005], 0.05), 0.025);
        // Holm stops at the first: 0.02 is above 0.05 / 3.
        assert_eq!(hommel(&[0.02, 0.03, 0.04], 0.05), 0.05);
        assert_eq!(hommel(&[f64::NAN, 0.8], 0.05), 0.025);
        assert_eq!(hommel(&[], 0.05), 0.05);
    }

    #[test]
    fn a_strong_case_stays_and_a_weak_one_goes() {
        let family = [ratio(1.5, 0.05), ratio(1.0, 0.2), ratio(1.11, 0.1), ratio(1.0, 0.3)];
        assert_eq!(judge(&family[2], 0.02).verdict, Verdict::Worse);
        let judged = judge_family(&family, 0.02, 0.05);
        assert_eq!(judged[0].verdict, Verdict::Worse);
        assert_eq!(judged[2].verdict, Verdict::Inconclusive);
        let (chance, what) = judged[2].reason.split_once("; ").unwrap();
        assert!(chance.contains("count as a difference, but among 4 comparisons"), "{chance}");
        assert!(what.contains("trials each would"), "what would tell: {what}");
        // Without an interval nothing can be claimed, so the others needn't pay for it.
        let none = ratio(1.0, 0.1).with(None);
        let judged = judge_family(&[none, family[2], none], 0.02, 0.05);
        assert_eq!(judged[1].verdict, Verdict::Worse);
    }

    /// What is judged alone at less than 5 % isn't doubted for the sake of others.
    #[test]
    fn one_alone_is_told_what_would_tell() {
        let found = ratio(1.0995, 0.095);
        assert_eq!(judge(&found, 0.0).verdict, Verdict::Worse);
        let judged = judge_family(&[found], 0.0, 0.01);
        assert_eq!((judged[0].verdict, judged[0].doubt), (Verdict::Inconclusive, Some(Doubt::TooWide)));
        assert!(judged[0].reason.ends_with("trials each would tell"), "{judged:?}");
    }

    /// Two plain differences leave two comparisons for which a difference is claimed at 0.02; equality is claimed at 0.005.
    #[test]
    fn what_is_not_called_equal_is_not_shown_within_the_margin() {
        let family = [ratio(5.0, 0.05), ratio(6.0, 0.05), ratio(0.97, 0.05), ratio(0.995, 0.034)];
        assert_eq!(judge(&family[3], 0.05).verdict, Verdict::Equivalent);
        let judged = judge_family(&family, 0.05, 0.05);
        let last = &judged[3];
        assert_eq!((last.verdict, last.doubt), (Verdict::Inconclusive, Some(Doubt::ManyComparisons)));
        assert!(!Margin::new(0.05).contains(last.interval.unwrap()), "{last:?}");
        assert!(last.reason.ends_with("trials each would tell"), "{last:?}");
        // Beside a tax of 1.00x, that it would count said the opposite of what it meant.
        assert!(last.reason.starts_with("on its own it would count as equal, but among 4"), "{last:?}");
    }

    #[test]
    fn what_would_tell_is_enough_for_the_family() {
        let family = [ratio(1.0, 0.1), ratio(1.0, 0.11), ratio(1.0, 0.12)];
        let (alone, judged) = (judge(&family[0], 0.05), judge_family(&family, 0.05, 0.05));
        let needed = |judgement: &Judgement| -> u32 {
            let trials = judgement.reason.split("about ").nth(1).and_then(|rest| rest.split(' ').next());
            trials.and_then(|trials| trials.parse().ok()).unwrap_or_else(|| panic!("{}", judgement.reason))
        };
        assert_eq!((alone.doubt, judged[0].doubt), (Some(Doubt::TooWide), Some(Doubt::TooWide)));
        // Equality is claimed at 0.02/3 here: 49 trials a side are as narrow as the margin.
        assert!(
            needed(&judged[0]) > needed(&alone) && needed(&judged[0]) >= 49,
            "{} | {}",
            alone.reason,
            judged[0].reason
        );
        let (low, high) = judged[0].interval.unwrap();
        let span = format!("from {:.0} % less to {:.0} % more", 100.0 * (1.0 - low), 100.0 * (high - 1.0));
        assert!(judged[0].reason.contains(&span), "{span} | {}", judged[0].reason);
    }

    #[test]
    fn widening_follows_t() {
        let wide = widened(&ratio(1.0, 0.1), 0.01).interval.unwrap();
        // t(0.995, 10) / t(0.975, 10) = 3.169273 / 2.228139.
        assert!((wide.1.ln() - 1.1f64.ln() * 3.169_273 / 2.228_139).abs() < 1e-6);
        let same = widened(&ratio(1.0, 0.1), 0.05).interval.unwrap();
        assert!((same.0 - 1.0 / 1.1).abs() < 1e-12 && (same.1 - 1.1).abs() < 1e-12);
    }

    /// Twenty builds whose taxes are all just at the limit, 2 % of scatter, eight trials a side.
    #[test]
    fn taxes_at_a_limit_are_rarely_above_it() {
        let mut rng = Rng::new(3);
        let mut side = |log: f64| -> Vec<f64> {
            let mut normal =
                || (0..12).map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0;
            (0..8).map(|_| (log + 0.02 * normal()).exp()).collect()
        };
        let (mut any, mut told) = (0, 0);
        for seed in 0..400 {
            let mut of = |tax: f64| {
                let (c, b) = (side(tax.ln()), side(0.0));
                tax_of(&c, &b, seed)
            };
            let at_limit: Vec<Ratio> = (0..20).map(|_| of(1.1)).collect();
            any += u32::from(above(&at_limit, 1.1, 0.05).contains(&true));
            told += u32::from(above(&[of(1.2), of(1.1), of(1.0)], 1.1, 0.05)[0]);
        }
        // 2.5 % of 400 and three standard errors.
        assert!(any <= 20 && told >= 380, "{any} {told}");
    }

    fn tax_of(c: &[f64], b: &[f64], seed: u64) -> Ratio {
        tax(&Group::exact(c), &Group::exact(b), Direction::Lower, seed).unwrap()
    }

    #[test]
    fn only_what_is_known_from_below_is_above_a_limit() {
        let of = |bound| above(&[Ratio { bound, ..ratio(1.5, 0.05) }], 1.1, 0.05);
        assert_eq!([of(Bound::Exact), of(Bound::AtLeast)], [[true], [true]]);
        assert_eq!([of(Bound::AtMost), of(Bound::Unknown)], [[false], [false]]);
        assert_eq!(above(&[ratio(1.5, 0.05).with(None)], 1.1, 0.05), [false]);
        assert_eq!(above(&[], 1.1, 0.05), [false; 0]);
    }

    /// That equals are equal is no reason to judge what is beyond the margin as one of few.
    #[test]
    fn beyond_the_margin_is_a_claim_of_its_own() {
        let family = vec![ratio(1.12, 0.05); 8];
        let judged = judge_family(&family, 0.05, 0.05);
        assert!(judged.iter().all(|j| j.verdict == Verdict::Worse), "{judged:?}");
        assert!(judge(&family[0], 0.05).reason.starts_with("beyond"));
        let few = judge_family(&[ratio(1.12, 0.05), ratio(1.0, 0.01), ratio(1.0, 0.01)], 0.05, 0.05);
        assert!(few[0].reason.starts_with("a real difference"), "{few:?}");
    }

    /// Twelve equal groups against one shared baseline, 400 times: how often is any called different?
    #[test]
    fn a_family_of_equals_is_rarely_called_different() {
        let mut rng = Rng::new(1);
        let mut group = || -> Vec<f64> {
            // The sum of twelve uniform values: normal enough, sd 1.
            let mut normal =
                || (0..12).map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0;
            (0..5).map(|_| (0.02 * normal()).exp()).collect()
        };
        let differs = |j: &Judgement| matches!(j.verdict, Verdict::Better | Verdict::Worse);
        let (mut corrected, mut plain) = (0, 0);
        for seed in 0..400 {
            let baseline = group();
            let ratios: Vec<Ratio> = (0..12)
                .map(|_| {
                    tax(&Group::exact(&group()), &Group::exact(&baseline), Direction::Lower, seed).unwrap()
                })
                .collect();
            plain += u32::from(ratios.iter().any(|r| differs(&judge(r, 0.005))));
            corrected += u32::from(judge_family(&ratios, 0.005, 0.05).iter().any(differs));
        }
        // 5 % of 400 and two standard errors.
        assert!(corrected <= 29 && plain > 60, "{corrected} {plain}");
    }

    proptest! {
        #[test]
        fn a_family_claims_no_more_than_its_members(
            v in prop::collection::vec((0.8..1.25f64, 0.01..0.3f64), 1..10),
            margin in 0.0..0.1f64,
        ) {
            let ratios: Vec<Ratio> = v.iter().map(|(t, h)| ratio(*t, *h)).collect();
            let family = judge_family(&ratios, margin, 0.05);
            for (r, j) in ratios.iter().zip(&family) {
                let alone = judge(r, margin);
                // An "equivalent" that excludes 1 is a difference once it no longer fits the margin.
                prop_assert!(j.verdict == alone.verdict || j.verdict == Verdict::Inconclusive
                    || alone.verdict == Verdict::Equivalent, "{:?} {:?}", alone, j);
                let shown = verdict_of(j.interval.unwrap(), Margin::new(margin));
                prop_assert!(j.verdict != Verdict::Inconclusive || shown == Verdict::Inconclusive, "{:?}", j);
                if ratios.len() == 1 {
                    prop_assert_eq!(j, &alone);
                }
            }
        }

        #[test]
        fn hommel_claims_what_holm_does(p in prop::collection::vec(0.0..0.2f64, 1..20)) {
            let level = hommel(&p, 0.05);
            let mut sorted = p.clone();
            sorted.sort_by(f64::total_cmp);
            let open = |(rank, p): (usize, &f64)| *p <= 0.05 / (sorted.len() - rank) as f64;
            let holm = sorted.iter().enumerate().take_while(|case| open(*case)).count();
            prop_assert!(p.iter().filter(|p| **p <= level).count() >= holm);
            prop_assert!(level <= 0.05 && level >= 0.05 / p.len() as f64 - 1e-12);
        }
    }
}
