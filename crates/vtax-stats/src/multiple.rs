//! Verdicts on several comparisons at once.
//!
//! Of twenty comparisons of equals one is called different at 95 %. Holm's step-down ("A simple
//! sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979)
//! keeps the chance of even one false claim in the family at 5 %, whatever the dependence
//! between them: environments share their baseline's trials.

use crate::ratio::{Bound, Ratio};
use crate::student::{t_quantile, t_tail};
use crate::verdict::{ALPHA, Doubt, Judgement, Verdict, judge};

/// Holm's adjusted p values, in the order given: each may be compared with the level meant for
/// the whole family. What isn't a number counts as 1.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let p: Vec<f64> = p.iter().map(|p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) }).collect();
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0f64;
    for (rank, i) in by_size(&p).into_iter().enumerate() {
        largest = largest.max(p[i] * (p.len() - rank) as f64).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

/// Judges comparisons that are read together, each as [`judge`] would, but with intervals widened so
/// that all conclusive verdicts of the family hold at once with 95 %.
///
/// The comparison with the strongest case is judged at 5 % / m, the next at 5 % / (m - 1), and so on;
/// once one can't be told, neither can those with weaker cases. A family of one is judged as ever,
/// and a comparison without an interval takes no part in m: no claim can come of it.
#[must_use]
pub fn judge_family(ratios: &[Ratio], margin: f64) -> Vec<Judgement> {
    let mut judgements: Vec<Judgement> = ratios.iter().map(|r| judge(r, margin)).collect();
    let able: Vec<usize> = (0..ratios.len()).filter(|i| claimable(&ratios[*i])).collect();
    let cases: Vec<f64> = able.iter().map(|i| claim(&ratios[*i], margin)).collect();
    let mut level = ALPHA;
    let mut open = true;
    for (rank, k) in by_size(&cases).into_iter().enumerate() {
        if open {
            level = ALPHA / (able.len() - rank) as f64;
        }
        let i = able[k];
        let corrected = Judgement { level, ..judge(&widened(&ratios[i], level), margin) };
        open &= corrected.verdict != Verdict::Inconclusive;
        judgements[i] = match (open, judgements[i].verdict) {
            (true, _) => corrected,
            // It couldn't be told alone either: the reason for that is the better one.
            (false, Verdict::Inconclusive) => {
                Judgement { level, interval: corrected.interval, ..judgements[i].clone() }
            }
            (false, _) => Judgement {
                verdict: Verdict::Inconclusive,
                doubt: Some(Doubt::ManyComparisons),
                reason: by_chance(able.len()),
                ..corrected
            },
        };
    }
    judgements
}

/// The ratio with its interval at 1 - `alpha` instead of 95 %, both ends at the same multiple of
/// their distance: a bootstrap has too few resamples to go further out itself.
#[must_use]
pub fn widened(ratio: &Ratio, alpha: f64) -> Ratio {
    if (alpha - ALPHA).abs() < 1e-12 {
        return *ratio;
    }
    let stretch = t_quantile(1.0 - alpha.clamp(1e-9, 1.0) / 2.0, ratio.df) / t_quantile(0.975, ratio.df);
    let away = |end: f64| ratio.tax * (end / ratio.tax).powf(stretch);
    Ratio { interval: ratio.interval.map(|(low, high)| (away(low), away(high))), ..*ratio }
}

fn claimable(ratio: &Ratio) -> bool {
    ratio.interval.is_some() && ratio.bound != Bound::Unknown
}

/// The level at which a comparison would just be decided, either way.
fn claim(ratio: &Ratio, margin: f64) -> f64 {
    let Some((low, high)) = ratio.interval else { return 1.0 };
    let t = t_quantile(0.975, ratio.df);
    let (below, above) = ((ratio.tax / low).ln() / t, (high / ratio.tax).ln() / t);
    // Twice a one-sided p value, as one-sided claims too are made at 2.5 %.
    let beyond = |distance: f64, error: f64| match distance {
        d if d <= 0.0 => 1.0,
        d if error > 0.0 => 2.0 * t_tail(d / error, ratio.df),
        _ => 0.0,
    };
    let (tax, edge) = (ratio.tax.ln(), margin.max(0.0).ln_1p());
    let (worse, better) = (beyond(tax, below), beyond(-tax, above));
    let equivalent = beyond(tax + edge, below).max(beyond(edge - tax, above));
    match ratio.bound {
        Bound::Exact => worse.min(better).min(equivalent),
        Bound::AtLeast => worse,
        Bound::AtMost => better,
        Bound::Unknown => 1.0,
    }
}

fn by_chance(family: usize) -> String {
    format!("on its own it would count, but among {family} comparisons it may be chance")
}

/// Indices from the smallest value to the largest; equal ones in their order.
fn by_size(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::ratio::{Direction, tax};
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn ratio(tax: f64, half: f64) -> Ratio {
        Ratio {
            tax,
            interval: Some((tax / (1.0 + half), tax * (1.0 + half))),
            bound: Bound::Exact,
            detectable: None,
            df: 10.0,
            candidate_trials: 8,
            baseline_trials: 8,
            rounds: None,
        }
    }

    #[test]
    fn holm_by_hand() {
        // 4 x 0.005, 3 x 0.01, 2 x 0.03, then no less than that.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (a, e) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((a - e).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[f64::NAN, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_strong_case_stays_and_a_weak_one_goes() {
        let family = [ratio(1.5, 0.05), ratio(1.0, 0.2), ratio(1.11, 0.1), ratio(1.0, 0.3)];
        assert_eq!(judge(&family[2], 0.02).verdict, Verdict::Worse);
        let judged = judge_family(&family, 0.02);
        assert_eq!(judged[0].verdict, Verdict::Worse);
        assert_eq!(judged[2].verdict, Verdict::Inconclusive);
        assert!(judged[2].reason.contains("among 4 comparisons"), "{}", judged[2].reason);
        // Without an interval nothing can be claimed, so the others needn't pay for it.
        let none = Ratio { interval: None, ..ratio(1.0, 0.1) };
        let judged = judge_family(&[none, family[2], none], 0.02);
        assert_eq!(judged[1].verdict, Verdict::Worse);
    }

    #[test]
    fn widening_follows_t() {
        let wide = widened(&ratio(1.0, 0.1), 0.01).interval.unwrap();
        // t(0.995, 10) / t(0.975, 10) = 3.169273 / 2.228139.
        assert!((wide.1.ln() - 1.1f64.ln() * 3.169_273 / 2.228_139).abs() < 1e-6);
        let same = widened(&ratio(1.0, 0.1), 0.05).interval.unwrap();
        assert!((same.0 - 1.0 / 1.1).abs() < 1e-12 && (same.1 - 1.1).abs() < 1e-12);
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
            corrected += u32::from(judge_family(&ratios, 0.005).iter().any(differs));
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
            let family = judge_family(&ratios, margin);
            for (r, j) in ratios.iter().zip(&family) {
                let alone = judge(r, margin);
                // An "equivalent" that excludes 1 is a difference once it no longer fits the margin.
                prop_assert!(j.verdict == alone.verdict || j.verdict == Verdict::Inconclusive
                    || alone.verdict == Verdict::Equivalent, "{:?} {:?}", alone, j);
                if ratios.len() == 1 {
                    prop_assert_eq!(j, &alone);
                }
            }
        }

        #[test]
        fn adjusting_keeps_the_order(p in prop::collection::vec(0.0..1.0f64, 1..20)) {
            let adjusted = holm(&p);
            for i in 0..p.len() {
                prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
