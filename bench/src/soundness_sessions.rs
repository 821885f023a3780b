//! How often are two versions that are equal called different, where what differs from one session to the next is not in the trials of
//! one? Of one run of each side, which can't know, and of several, which can.

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};
use vtax_stats::{Direction, Group, Verdict, estimate, judge, tax};

use crate::soundness_row::Row;

const EXPERIMENTS: u64 = 10_000;
/// Standard deviation of the logarithms of a session's trials.
const WITHIN: f64 = 0.02;

/// The runs of a side, and how sessions scatter.
#[derive(Debug, Clone, Copy)]
struct World {
    sessions: usize,
    trials: usize,
    /// Standard deviation of the logarithms of sessions.
    between: f64,
    /// Logarithm of the true tax.
    truth: f64,
}

/// The rows of this suite.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // What can't be promised of one run of each side; the documents say how often it is wrong.
    for trials in [5, 10] {
        let world = World { sessions: 1, trials, between: 0.01, truth: 0.0 };
        rows.push(world.row("A/A called different", (0.0, 100.0))?);
    }
    for sessions in [3, 5, 10] {
        for between in [0.0, 0.01, 0.05] {
            let world = World { sessions, trials: 5, between, truth: 0.0 };
            rows.push(world.row("A/A called different", (0.0, 5.0))?);
        }
        let world = World { sessions, trials: 5, between: 0.01, truth: 0.03 };
        rows.push(world.row("tax of 3 % called one", (0.0, 100.0))?);
    }
    Ok(rows)
}

impl World {
    /// How many of all pairs of sides are called different.
    fn row(self, what: &str, goal: (f64, f64)) -> Result<Row> {
        let Self { sessions, trials, between, truth } = self;
        let mut rng = StdRng::seed_from_u64(11);
        let mut different = 0;
        for _ in 0..EXPERIMENTS {
            let (a, b) = (self.side(0.0, &mut rng), self.side(truth, &mut rng));
            let ratio = tax(&Group::exact(&b), &Group::exact(&a), Direction::Lower, 1);
            let verdict = judge(&ratio.context("a side without a figure")?, 0.0).verdict;
            different += u32::from(matches!(verdict, Verdict::Better | Verdict::Worse));
        }
        let (found, percent) = (f64::from(different) * 100.0 / EXPERIMENTS as f64, between * 100.0);
        let name = format!("{what}, {sessions} sessions of {trials} trials that differ by {percent} %");
        Ok(Row::share(name, found, EXPERIMENTS, goal))
    }

    /// The values of one side: those of its trials where it is one session, else one of each.
    fn side(self, truth: f64, rng: &mut StdRng) -> Vec<f64> {
        if self.sessions == 1 {
            return self.session(truth, rng);
        }
        let center = |trials: Vec<f64>| Some(estimate(&Group::exact(&trials))?.center);
        (0..self.sessions).filter_map(|_| center(self.session(truth, rng))).collect()
    }

    fn session(self, truth: f64, rng: &mut StdRng) -> Vec<f64> {
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        let level = truth + self.between * normal();
        (0..self.trials).map(|_| (level + WITHIN * normal()).exp()).collect()
    }
}
