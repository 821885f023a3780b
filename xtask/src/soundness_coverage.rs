//! Do 95 % intervals hold the truth 95 times of 100?

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};
use vtax_stats::{Direction, Group, estimate, estimate_in_order, tax, tax_in_rounds};

use crate::soundness::Row;

/// Experiments per distribution and number of trials.
const EXPERIMENTS: u64 = 10_000;
const TRIALS: [usize; 5] = [3, 5, 8, 12, 20];

/// Goal from 8 trials up; below, an interval may be wider but not narrower.
const GOAL: (f64, f64) = (93.0, 97.0);
const GOAL_OF_FEW: (f64, f64) = (93.0, 100.0);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scatter {
    /// 5 % around the mean.
    Normal,
    /// The same, with the interval that heeds order where there is nothing to heed.
    Independent,
    /// Logarithms with a standard deviation of 0.3.
    LogNormal,
    /// Three of ten trials are a fifth slower: two memory layouts, or two kinds of neighbour.
    Bimodal,
    /// Student's t with 3 degrees of freedom on logarithms: no fourth moment.
    HeavyTail,
    /// Pareto with shape 20, whose logarithm is exponential: skewed even there.
    Pareto,
    /// The machine remembers: noise with an autocorrelation of 0.3 from trial to trial, the trials of
    /// both sides in rounds of random order.
    Autocorrelated,
}

use Scatter::{Autocorrelated, Bimodal, HeavyTail, Independent, LogNormal, Normal, Pareto};

const ALL: [(Scatter, &str); 7] = [
    (Normal, "normal"),
    (Independent, "normal, order heeded"),
    (LogNormal, "log-normal"),
    (Bimodal, "bimodal"),
    (HeavyTail, "heavy tail (t3)"),
    (Pareto, "heavy tail (Pareto)"),
    (Autocorrelated, "autocorrelated"),
];

impl Scatter {
    fn ordered(self) -> bool {
        matches!(self, Independent | Autocorrelated)
    }

    fn draw(self, rng: &mut StdRng) -> f64 {
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        match self {
            Normal | Independent => 1.0 + 0.05 * normal(),
            LogNormal => (0.3 * normal()).exp(),
            Bimodal => {
                let within = 0.03 * normal();
                (within + if rng.random_bool(0.3) { 0.2 } else { 0.0 }).exp()
            }
            HeavyTail => StudentT::new(3.0).map_or(1.0, |t| (0.05f64 * t.sample(rng)).exp()),
            Pareto => {
                let log: f64 = Exp1.sample(rng);
                (0.05 * log).exp()
            }
            Autocorrelated => (0.05 * normal()).exp(),
        }
    }

    /// Logarithm of the true typical value, the geometric mean.
    fn truth(self) -> f64 {
        match self {
            // E ln(1 + s z) = -s²/2 - 3 s⁴/4 - ...
            Normal | Independent => -0.05f64.powi(2) / 2.0 - 0.75 * 0.05f64.powi(4),
            Bimodal => 0.3 * 0.2,
            Pareto => 0.05,
            LogNormal | HeavyTail | Autocorrelated => 0.0,
        }
    }

    /// Rounds of one candidate and one baseline trial, in the order of time.
    fn rounds(self, n: usize, rng: &mut StdRng) -> Vec<(f64, f64)> {
        if self != Autocorrelated {
            return (0..n).map(|_| (self.draw(rng), self.draw(rng))).collect();
        }
        let memory = 0.3f64;
        let mut state: f64 = StandardNormal.sample(rng);
        let mut rounds = Vec::with_capacity(n);
        for _ in 0..n {
            let mut round = [0.0; 2];
            let mut order = [0, 1];
            order.shuffle(rng);
            for side in order {
                let news: f64 = StandardNormal.sample(rng);
                state = memory * state + (1.0 - memory * memory).sqrt() * news;
                round[side] = (0.05f64 * state).exp();
            }
            rounds.push((round[0], round[1]));
        }
        rounds
    }
}

/// The rows of this suite: for each kind of scatter and number of trials what every interval covers.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (scatter, name) in ALL {
        for n in TRIALS {
            let [one, both, paired] = coverage(scatter, n)?;
            let goal = if n < 8 { GOAL_OF_FEW } else { GOAL };
            let mut row = |what: &str, found| {
                rows.push(Row::within(format!("coverage, {name}, {n} trials, {what}"), found, "%", goal));
            };
            row(if scatter.ordered() { "value, in order" } else { "value" }, one);
            row("tax", both);
            row("tax, in rounds", paired);
        }
    }
    Ok(rows)
}

/// Percent of intervals that hold the truth: of a value, of a tax, of a tax in rounds.
fn coverage(scatter: Scatter, n: usize) -> Result<[f64; 3]> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    let typical = scatter.truth().exp();
    let mut hits = [0u32; 3];
    for seed in 0..EXPERIMENTS {
        let rounds = scatter.rounds(n, &mut rng);
        let (candidate, baseline): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
        let (c, b) = (Group::exact(&candidate), Group::exact(&baseline));
        let value = if scatter.ordered() { estimate_in_order(&c, seed) } else { estimate(&c, seed) };
        let intervals = [
            (value.and_then(|e| e.interval), typical),
            (tax(&c, &b, Direction::Lower, seed)?.interval, 1.0),
            (tax_in_rounds(&rounds, 0.0, Direction::Lower)?.interval, 1.0),
        ];
        for (hit, (interval, truth)) in hits.iter_mut().zip(intervals) {
            let (low, high) = interval.context("no interval")?;
            *hit += u32::from(low <= truth && truth <= high);
        }
    }
    Ok(hits.map(|h| f64::from(h) * 100.0 / EXPERIMENTS as f64))
}
