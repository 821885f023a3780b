//! The tax: what a candidate costs in units of its baseline.

use crate::describe::sorted;
use crate::interval::{Group, MIN_TRIALS, Part, Spread};
use crate::student::t_quantile;

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More is better: the tax is baseline over candidate.
    Higher,
    /// Less is better: the tax is candidate over baseline.
    Lower,
}

/// Which side of a ratio is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Both.
    Exact,
    /// The tax is at least what was found: the baseline was never driven to its limit.
    AtLeast,
    /// The tax is at most what was found: the candidate was never driven to its limit.
    AtMost,
    /// Neither side was driven to its limit.
    Unknown,
}

/// A tax with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Ratio of typical values, above 1 where the candidate is worse.
    pub tax: f64,
    /// 95 % interval; `None` where a group has fewer than [`MIN_TRIALS`] trials.
    pub interval: Option<(f64, f64)>,
    /// Which side of it is known.
    pub bound: Bound,
    /// Smallest true tax that as many trials with this much scatter would tell from 1 with a
    /// probability of 80 %; `None` where there is no interval.
    pub detectable: Option<f64>,
    /// Effective degrees of freedom of the interval; infinite where trials don't scatter.
    pub df: f64,
    /// Trials of the candidate.
    pub candidate_trials: usize,
    /// Trials of the baseline.
    pub baseline_trials: usize,
}

/// Why there is no ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRatio {
    /// The candidate has no valid trial.
    #[error("no valid trial of this environment gave a figure")]
    NoCandidate,
    /// The baseline has no valid trial.
    #[error("no valid trial of the baseline gave a figure")]
    NoBaseline,
    /// A value is zero or negative.
    #[error("a ratio with zero means nothing")]
    NotPositive,
}

/// The tax of a candidate over a baseline.
///
/// The same seed gives the same result, whatever the order of trials; exchanging candidate and
/// baseline turns it into its inverse (for fewer than 6 trials exactly, else up to resampling).
pub fn tax(
    candidate: &Group<'_>,
    baseline: &Group<'_>,
    better: Direction,
    seed: u64,
) -> Result<Ratio, NoRatio> {
    let c = sorted(candidate.values).ok_or(NoRatio::NoCandidate)?;
    let b = sorted(baseline.values).ok_or(NoRatio::NoBaseline)?;
    if c[0] <= 0.0 || b[0] <= 0.0 {
        return Err(NoRatio::NotPositive);
    }
    let (cp, bp) = (Part::of_logs(&c, candidate.resolution), Part::of_logs(&b, baseline.resolution));
    let sign = match better {
        Direction::Higher => -1.0,
        Direction::Lower => 1.0,
    };
    let log = sign * (cp.mean - bp.mean);
    let spread = Spread::of(&[(sign, &cp), (-sign, &bp)], seed);
    let bound = match (baseline.censored, candidate.censored) {
        (false, false) => Bound::Exact,
        (true, true) => Bound::Unknown,
        (base, _) if base == (better == Direction::Higher) => Bound::AtLeast,
        _ => Bound::AtMost,
    };
    debug_assert!(spread.is_none() || c.len().min(b.len()) >= MIN_TRIALS);
    Ok(Ratio {
        tax: log.exp(),
        interval: spread.map(|s| ((log + s.low).exp(), (log + s.high).exp())),
        bound,
        detectable: spread.and_then(|s| detectable(&s)),
        df: spread.map_or(f64::INFINITY, |s| s.df),
        candidate_trials: c.len(),
        baseline_trials: b.len(),
    })
}

/// The tax from pairs of one candidate and one baseline trial of the same round, or of the same time
/// (duet): what disturbs both cancels out, and a disturbance that lasts over rounds is no longer taken
/// for the scatter of either.
///
/// Pairs are (candidate, baseline), both driven to their limit. `resolution` is that of one value, as
/// in [`Group`]. Student's t on the logarithms of ratios, which are symmetric where both sides scatter
/// alike (Bulej et al., "Duet benchmarking", ICPE 2020; Box, Hunter and Hunter, blocking).
///
/// # Errors
/// [`NoRatio`] without pairs, or where a value is zero or negative.
pub fn tax_in_rounds(pairs: &[(f64, f64)], resolution: f64, better: Direction) -> Result<Ratio, NoRatio> {
    let usable = |v: f64| v > 0.0 && v.is_finite();
    if pairs.is_empty() {
        return Err(NoRatio::NoCandidate);
    }
    if !pairs.iter().all(|(c, b)| usable(*c) && usable(*b)) {
        return Err(NoRatio::NotPositive);
    }
    let sign = match better {
        Direction::Higher => -1.0,
        Direction::Lower => 1.0,
    };
    let mut logs: Vec<f64> = pairs.iter().map(|(c, b)| sign * (c.ln() - b.ln())).collect();
    logs.sort_by(f64::total_cmp);
    // Both sides of a pair may err, and independently.
    let part = Part::new(logs, resolution * std::f64::consts::SQRT_2);
    let spread = Spread::student(&part);
    Ok(Ratio {
        tax: part.mean.exp(),
        interval: spread.map(|s| ((part.mean + s.low).exp(), (part.mean + s.high).exp())),
        bound: Bound::Exact,
        detectable: spread.and_then(|s| detectable(&s)),
        df: spread.map_or(f64::INFINITY, |s| s.df),
        candidate_trials: pairs.len(),
        baseline_trials: pairs.len(),
    })
}

/// The smallest true tax told from 1 with a probability of 80 %.
fn detectable(spread: &Spread) -> Option<f64> {
    let least = ((t_quantile(0.975, spread.df) + t_quantile(0.8, spread.df)) * spread.error).exp();
    Some(least).filter(|d| d.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_take_out_what_both_sides_share() {
        // The machine doubles its pace halfway; the candidate always takes 10 % longer.
        let baseline = [10.0, 10.1, 9.9, 20.0, 20.2, 19.8];
        let candidate = [11.0, 11.2, 10.8, 22.0, 22.1, 21.9];
        let pairs: Vec<(f64, f64)> = candidate.into_iter().zip(baseline).collect();
        let paired = tax_in_rounds(&pairs, 0.0, Direction::Lower).unwrap();
        let apart = tax(&Group::exact(&candidate), &Group::exact(&baseline), Direction::Lower, 1).unwrap();
        assert!((paired.tax - apart.tax).abs() < 1e-12);
        let (low, high) = paired.interval.unwrap();
        assert!(low > 1.09 && high < 1.11, "{low} {high}");
        assert!(apart.interval.unwrap().0 < 0.8 && paired.detectable < apart.detectable);
        let inverse = tax_in_rounds(&pairs, 0.0, Direction::Higher).unwrap();
        assert!((inverse.tax * paired.tax - 1.0).abs() < 1e-12);
        assert_eq!(tax_in_rounds(&pairs[..2], 0.0, Direction::Lower).unwrap().interval, None);
        assert_eq!(tax_in_rounds(&[], 0.0, Direction::Lower), Err(NoRatio::NoCandidate));
        assert_eq!(tax_in_rounds(&[(1.0, 0.0)], 0.0, Direction::Lower), Err(NoRatio::NotPositive));
        // Pairs that agree to the digit are known to no more than their resolution.
        let (low, high) = tax_in_rounds(&[(2.0, 1.0); 5], 0.05, Direction::Lower).unwrap().interval.unwrap();
        assert!(low < 1.93 && high > 2.07, "{low} {high}");
    }
}
