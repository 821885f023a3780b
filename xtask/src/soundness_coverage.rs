//! Do 95 % intervals hold the truth 95 times of 100?

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};
use vtax_stats::{Direction, Estimate, Group, estimate, estimate_in_order, tax, tax_in_rounds};

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
    /// Logarithms with a standard deviation of 0.3.
    LogNormal,
    /// Three of ten trials are a fifth slower: two memory layouts, or two kinds of neighbour.
    Bimodal,
    /// Student's t with 3 degrees of freedom on logarithms: skewness and kurtosis have no limit.
    HeavyTail,
    /// Pareto with shape 20, whose logarithm is exponential: skewed even there.
    Pareto,
    /// The machine remembers: noise with an autocorrelation of 0.3 from trial to trial, the trials of
    /// both sides in rounds of random order.
    Autocorrelated,
}

use Scatter::{Autocorrelated, Bimodal, HeavyTail, LogNormal, Normal, Pareto};

/// With the interval of a value that heeds the trials' order, or the one that doesn't.
const ALL: [(Scatter, bool, &str); 8] = [
    (Normal, false, "normal"),
    (Normal, true, "normal"),
    (LogNormal, false, "log-normal"),
    (Bimodal, false, "bimodal"),
    (HeavyTail, false, "heavy tail (t3)"),
    (Pareto, false, "heavy tail (Pareto)"),
    (Autocorrelated, false, "autocorrelated"),
    (Autocorrelated, true, "autocorrelated"),
];

impl Scatter {
    fn draw(self, rng: &mut StdRng) -> f64 {
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        match self {
            Normal => 1.0 + 0.05 * normal(),
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
            Normal => -0.05f64.powi(2) / 2.0 - 0.75 * 0.05f64.powi(4),
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
    for (scatter, ordered, name) in ALL {
        for n in TRIALS {
            let goal = if n < 8 { GOAL_OF_FEW } else { GOAL };
            let mut row = |what: &str, found| {
                rows.push(Row::within(format!("coverage, {name}, {n} trials, {what}"), found, "%", goal));
            };
            if ordered {
                row("value, order heeded", of_values(scatter, n, estimate_in_order)?);
                continue;
            }
            row("value", of_values(scatter, n, estimate)?);
            let [both, paired] = of_taxes(scatter, n)?;
            row("tax", both);
            row("tax, in rounds", paired);
        }
    }
    Ok(rows)
}

type Interval = Option<(f64, f64)>;

fn holds(interval: Interval, truth: f64) -> Result<u32> {
    let (low, high) = interval.context("no interval")?;
    Ok(u32::from(low <= truth && truth <= high))
}

fn percent(hits: u32) -> f64 {
    f64::from(hits) * 100.0 / EXPERIMENTS as f64
}

/// Percent of the intervals of one side that hold its true typical value.
fn of_values(scatter: Scatter, n: usize, of: fn(&Group<'_>, u64) -> Option<Estimate>) -> Result<f64> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    let truth = scatter.truth().exp();
    let mut hits = 0;
    for seed in 0..EXPERIMENTS {
        let values: Vec<f64> = scatter.rounds(n, &mut rng).iter().map(|r| r.0).collect();
        hits += holds(of(&Group::exact(&values), seed).and_then(|e| e.interval), truth)?;
    }
    Ok(percent(hits))
}

/// Percent of the intervals of a tax of 1 that hold it: of the groups as such, and in rounds.
fn of_taxes(scatter: Scatter, n: usize) -> Result<[f64; 2]> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    let mut hits = [0; 2];
    for seed in 0..EXPERIMENTS {
        let rounds = scatter.rounds(n, &mut rng);
        let (candidate, baseline): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
        let (c, b) = (Group::exact(&candidate), Group::exact(&baseline));
        hits[0] += holds(tax(&c, &b, Direction::Lower, seed)?.interval, 1.0)?;
        hits[1] += holds(tax_in_rounds(&rounds, 0.0, Direction::Lower)?.interval, 1.0)?;
    }
    Ok(hits.map(percent))
}
