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
    let detectable = spread.map(|s| ((t_quantile(0.975, s.df) + t_quantile(0.8, s.df)) * s.error).exp());
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
        detectable: detectable.filter(|d| d.is_finite()),
        df: spread.map_or(f64::INFINITY, |s| s.df),
        candidate_trials: c.len(),
        baseline_trials: b.len(),
    })
}
