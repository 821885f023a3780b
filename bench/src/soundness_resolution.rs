//! Do intervals hold the truth, and do families keep their promise, where values are known to a bracket only?

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use vtax_stats::{ALPHA, Direction, Group, Ratio, Verdict, estimate, judge_family, moderated, prior, tax};

use crate::soundness_row::Row;

const EXPERIMENTS: u64 = 5_000;
const FAMILIES: u64 = 2_000;
const TRIALS: [usize; 5] = [3, 5, 6, 8, 20];
const MEMBERS: [usize; 4] = [2, 6, 9, 30];

/// Scatter between trials, and the width of brackets: those of the shipped plans, and beside a scatter that is smaller, as large, larger.
const KINDS: [(f64, f64); 5] = [(0.02, 0.05), (0.05, 0.05), (0.1, 0.05), (0.1, 0.08), (0.4, 0.3)];

/// What is hidden is the same for all trials where they scatter little, so an interval may be wider, but not narrower.
const GOAL: (f64, f64) = (93.0, 100.0);

/// The rows of this suite.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (place, (scatter, width)) in KINDS.into_iter().enumerate() {
        let name = format!("scatter {:.0} %, brackets of {:.0} %", scatter * 100.0, width * 100.0);
        let world = World { scatter, width };
        for n in TRIALS {
            let mut rng = StdRng::seed_from_u64((place * 64 + n) as u64);
            let row = |what: &str, found| {
                Row::share(format!("coverage, {name}, {n} trials, {what}"), found, EXPERIMENTS, GOAL)
            };
            rows.push(row("value", world.values(n, &mut rng)?));
            rows.push(row("tax, in rounds", world.taxes(n, true, &mut rng)?));
            rows.push(row("tax of two runs", world.taxes(n, false, &mut rng)?));
        }
        for rounds in [3, 5] {
            let mut worst = 0.0f64;
            for members in MEMBERS {
                let mut rng = StdRng::seed_from_u64((1000 + place * 64 + rounds * 8 + members) as u64);
                worst = worst.max(world.families(members, rounds, &mut rng)?);
            }
            // With three standard errors of the simulation: it is the worst of several.
            let limit = 100.0 * (ALPHA + 3.0 * (ALPHA * (1.0 - ALPHA) / FAMILIES as f64).sqrt());
            let text = format!("any of 2 to 30 equals called different, {name}, {rounds} rounds, worst size");
            rows.push(Row::at_most(&text, worst, "%", (limit * 100.0).round() / 100.0));
        }
    }
    Ok(rows)
}

#[derive(Debug, Clone, Copy)]
struct World {
    /// Standard deviation of the logarithms of trials whose true value is 1.
    scatter: f64,
    /// Of brackets, as a logarithm.
    width: f64,
}

impl World {
    /// What searches find: the middles of the brackets that values are in. Each search begins somewhere else.
    fn trials(self, n: usize, rng: &mut StdRng) -> Vec<f64> {
        let mut search = || {
            let (z, from): (f64, f64) = (StandardNormal.sample(rng), rng.random());
            let brackets = (self.scatter * z / self.width - from).floor() + from + 0.5;
            (self.width * brackets).exp()
        };
        (0..n).map(|_| search()).collect()
    }

    fn ratio(self, n: usize, in_rounds: bool, rng: &mut StdRng) -> Result<Ratio> {
        let rounds: Vec<u32> = if in_rounds { (0..n as u32).collect() } else { Vec::new() };
        let (c, b) = (self.trials(n, rng), self.trials(n, rng));
        let group = |values| Group { resolution: self.width, ..Group::in_rounds(values, &rounds) };
        Ok(tax(&group(&c), &group(&b), Direction::Lower, 1)?)
    }

    /// Percent of the intervals of values that hold the true one.
    fn values(self, n: usize, rng: &mut StdRng) -> Result<f64> {
        let mut hits = 0;
        for _ in 0..EXPERIMENTS {
            let values = self.trials(n, rng);
            let found = estimate(&Group { resolution: self.width, ..Group::exact(&values) });
            hits += held(found.and_then(|e| e.interval))?;
        }
        Ok(percent(hits, EXPERIMENTS))
    }

    /// Percent of the intervals of a tax of 1 that hold it.
    fn taxes(self, n: usize, in_rounds: bool, rng: &mut StdRng) -> Result<f64> {
        let mut hits = 0;
        for _ in 0..EXPERIMENTS {
            hits += held(self.ratio(n, in_rounds, rng)?.interval)?;
        }
        Ok(percent(hits, EXPERIMENTS))
    }

    /// Percent of families of equals with any claim of a difference, judged as a report judges them.
    fn families(self, members: usize, rounds: usize, rng: &mut StdRng) -> Result<f64> {
        let mut wrong = 0;
        for _ in 0..FAMILIES {
            let alone: Vec<Ratio> =
                (0..members).map(|_| self.ratio(rounds, true, rng)).collect::<Result<_>>()?;
            let shared = prior(&alone);
            let family: Vec<Ratio> = alone.iter().map(|r| shared.map_or(*r, |p| moderated(r, &p))).collect();
            let judged = judge_family(&family, 0.0, ALPHA);
            wrong += u64::from(judged.iter().any(|j| matches!(j.verdict, Verdict::Better | Verdict::Worse)));
        }
        Ok(percent(wrong, FAMILIES))
    }
}

fn held(interval: Option<(f64, f64)>) -> Result<u64> {
    let (low, high) = interval.context("no interval")?;
    Ok(u64::from(low <= 1.0 && 1.0 <= high))
}

fn percent(count: u64, of: u64) -> f64 {
    count as f64 * 100.0 / of as f64
}
