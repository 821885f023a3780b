//! Do 95 % intervals hold the truth 95 times of 100?
//!
//! The truth of a value is the median of the distribution that trials are drawn from; the truth of a tax is
//! the ratio of geometric means, which both sides' medians share where they are of one shape. These are
//! what the report's figures estimate, by the same functions as here.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};
use vtax_stats::{Direction, Group, estimate, tax};

use crate::soundness_row::Row;

/// Experiments per distribution and number of trials.
const EXPERIMENTS: u64 = 10_000;
const TRIALS: [usize; 6] = [3, 5, 6, 8, 12, 20];

/// Goal from 8 trials up; below, an interval may be wider but not narrower.
const GOAL: (f64, f64) = (93.0, 97.0);
const GOAL_OF_FEW: (f64, f64) = (93.0, 100.0);

/// What the interval of a value promises where the machine remembers strongly: few trials can't show how strongly
/// (docs/methodology.md).
const LEAST_STRONGLY: f64 = 91.0;

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
    /// The same, but each side's trials follow each other.
    Alone,
    /// The same with 0.6, in rounds.
    Strongly,
}

use Scatter::{Alone, Autocorrelated, Bimodal, HeavyTail, LogNormal, Normal, Pareto, Strongly};

const ALL: [(Scatter, &str); 8] = [
    (Normal, "normal"),
    (LogNormal, "log-normal"),
    (Bimodal, "bimodal"),
    (HeavyTail, "heavy tail (t3)"),
    (Pareto, "heavy tail (Pareto)"),
    (Autocorrelated, "autocorrelated 0.3, in rounds"),
    (Alone, "autocorrelated 0.3, side by side"),
    (Strongly, "autocorrelated 0.6, in rounds"),
];

/// A candidate's and a baseline's trials, one of each per round.
type Sides = (Vec<f64>, Vec<f64>);

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
            Autocorrelated | Alone | Strongly => (0.05 * normal()).exp(),
        }
    }

    /// The true median.
    fn median(self) -> f64 {
        match self {
            // 0.7 Φ(x / 0.03) + 0.3 Φ((x - 0.2) / 0.03) = 0.5 at x = 0.016978.
            Bimodal => 0.016_978f64.exp(),
            Pareto => (0.05 * std::f64::consts::LN_2).exp(),
            _ => 1.0,
        }
    }

    fn memory(self) -> f64 {
        match self {
            Autocorrelated | Alone => 0.3,
            Strongly => 0.6,
            _ => 0.0,
        }
    }

    /// `n` rounds in the order of time.
    fn rounds(self, n: usize, rng: &mut StdRng) -> Sides {
        match self {
            Alone => (self.series(n, rng), self.series(n, rng)),
            Autocorrelated | Strongly => {
                let series = self.series(2 * n, rng);
                let mut sides = (Vec::with_capacity(n), Vec::with_capacity(n));
                for round in series.chunks_exact(2) {
                    let mut order = [0, 1];
                    order.shuffle(rng);
                    sides.0.push(round[order[0]]);
                    sides.1.push(round[order[1]]);
                }
                sides
            }
            _ => (0..n).map(|_| (self.draw(rng), self.draw(rng))).unzip(),
        }
    }

    /// Trials one after the other.
    fn series(self, n: usize, rng: &mut StdRng) -> Vec<f64> {
        let memory = self.memory();
        if memory == 0.0 {
            return (0..n).map(|_| self.draw(rng)).collect();
        }
        let mut state: f64 = StandardNormal.sample(rng);
        let mut step = || {
            let news: f64 = StandardNormal.sample(rng);
            state = memory * state + (1.0 - memory * memory).sqrt() * news;
            (0.05f64 * state).exp()
        };
        (0..n).map(|_| step()).collect()
    }
}

/// The rows of this suite: for each kind of scatter and number of trials what every interval covers. The
/// kinds take turns at the host's CPUs; each has seeds of its own, so that the figures don't depend on them.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let jobs: Vec<(Scatter, &str, usize)> =
        ALL.iter().flat_map(|(scatter, name)| TRIALS.map(|n| (*scatter, *name, n))).collect();
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, Vec<Row>)>> {
        let mut done = Vec::new();
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some((scatter, name, n)) = jobs.get(position) else { return Ok(done) };
            done.push((position, rows_of(*scatter, name, *n)?));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut parts = std::thread::scope(|scope| -> Result<Vec<_>> {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let mut parts = Vec::new();
        for handle in handles {
            parts.extend(handle.join().map_err(|_| anyhow!("a simulation panicked"))??);
        }
        Ok(parts)
    })?;
    parts.sort_by_key(|(position, _)| *position);
    Ok(parts.into_iter().flat_map(|(_, rows)| rows).collect())
}

fn rows_of(scatter: Scatter, name: &str, n: usize) -> Result<Vec<Row>> {
    let goal = if n < 8 { GOAL_OF_FEW } else { GOAL };
    let goal_of_value = if scatter == Strongly { (LEAST_STRONGLY, goal.1) } else { goal };
    let row = |what: &str, found, goal| {
        Row::share(format!("coverage, {name}, {n} trials, {what}"), found, EXPERIMENTS, goal)
    };
    let mut rows = vec![row("value", of_values(scatter, n)?, goal_of_value)];
    if scatter != Alone {
        rows.push(row("tax, in rounds", of_taxes(scatter, n, true)?, goal));
    }
    // Trials that share the machine's memory are compared in rounds: as groups they would be taken
    // for less certain than they are.
    if scatter.memory() == 0.0 || scatter == Alone {
        rows.push(row("tax of two runs", of_taxes(scatter, n, false)?, goal));
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
fn of_values(scatter: Scatter, n: usize) -> Result<f64> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    let truth = scatter.median();
    let mut hits = 0;
    for _ in 0..EXPERIMENTS {
        let (values, _) = scatter.rounds(n, &mut rng);
        hits += holds(estimate(&Group::exact(&values)).and_then(|e| e.interval), truth)?;
    }
    Ok(percent(hits))
}

/// Percent of the intervals of a tax of 1 that hold it: within rounds, or of the groups as such.
fn of_taxes(scatter: Scatter, n: usize, in_rounds: bool) -> Result<f64> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    let numbers: Vec<u32> = if in_rounds { (0..n as u32).collect() } else { Vec::new() };
    let mut hits = 0;
    for seed in 0..EXPERIMENTS {
        let (candidate, baseline) = scatter.rounds(n, &mut rng);
        let (c, b) = (Group::in_rounds(&candidate, &numbers), Group::in_rounds(&baseline, &numbers));
        hits += holds(tax(&c, &b, Direction::Lower, seed)?.interval, 1.0)?;
    }
    Ok(percent(hits))
}
