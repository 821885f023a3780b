//! Does the interval over several hosts hold the truth, and is the host named that is different?

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use vtax_stats::{HostLogs, OverHosts, over_hosts};

use crate::soundness_row::Row;

const EXPERIMENTS: u64 = 5_000;
const HOSTS: [usize; 5] = [3, 5, 8, 20, 100];
/// Rounds of each host, and how they scatter there.
const ROUNDS: usize = 4;
const ROUND: f64 = 0.05;
/// The true tax, as a logarithm.
const TRUTH: f64 = 0.2;

const GOAL: (f64, f64) = (93.0, 97.0);
/// What hosts that lean to one side leave of it where they are few: no method knows a tail that it hasn't seen.
const LEAST_LEANING: f64 = 87.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Between {
    /// All hosts have the same tax.
    Alike,
    /// Their logarithms scatter twice as much as rounds.
    Normal,
    /// Most a little cheaper, few much dearer.
    Leaning,
}

impl Between {
    fn draw(self, rng: &mut StdRng) -> f64 {
        match self {
            Self::Alike => 0.0,
            Self::Normal => {
                let z: f64 = StandardNormal.sample(rng);
                2.0 * ROUND * z
            }
            Self::Leaning => {
                let e: f64 = Exp1.sample(rng);
                2.0 * ROUND * (e - 1.0)
            }
        }
    }
}

/// The rows of this suite.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let kinds = [(Between::Alike, "alike"), (Between::Normal, "different"), (Between::Leaning, "leaning")];
    for (between, name) in kinds {
        for hosts in HOSTS {
            let (mut hits, mut odd) = (0, 0);
            for seed in 0..EXPERIMENTS {
                let found = simulated(hosts, between, 0.0, seed)?;
                let (low, high) = found.interval.context("no interval over hosts")?;
                hits += u32::from(low <= TRUTH && TRUTH <= high);
                odd += u32::from(!found.odd.is_empty());
            }
            let percent = |count: u32| f64::from(count) * 100.0 / EXPERIMENTS as f64;
            let goal = if between == Between::Leaning { (LEAST_LEANING, GOAL.1) } else { GOAL };
            let title = format!("coverage over hosts, {name}, {hosts} hosts of {ROUNDS} rounds");
            rows.push(Row::share(title, percent(hits), EXPERIMENTS, goal));
            if between == Between::Alike {
                let title = format!("a host named although all are alike, {hosts} hosts");
                rows.push(Row::share(title, percent(odd), EXPERIMENTS, (0.0, 5.0)));
            }
        }
    }
    rows.push(named()?);
    Ok(rows)
}

/// How often one host of eight is named whose tax is six standard deviations of a round away.
fn named() -> Result<Row> {
    let mut hits = 0;
    for seed in 0..EXPERIMENTS {
        hits += u32::from(simulated(8, Between::Alike, 6.0 * ROUND, seed)?.odd == [0]);
    }
    let found = f64::from(hits) * 100.0 / EXPERIMENTS as f64;
    Ok(Row::share(
        "the host that is different is named, 8 hosts".to_owned(),
        found,
        EXPERIMENTS,
        (90.0, 100.0),
    ))
}

/// `apart` is added to the first host.
fn simulated(hosts: usize, between: Between, apart: f64, seed: u64) -> Result<OverHosts> {
    let mut rng = StdRng::seed_from_u64(seed);
    let logs: Vec<[f64; ROUNDS]> = (0..hosts)
        .map(|host| {
            let own = TRUTH + between.draw(&mut rng) + if host == 0 { apart } else { 0.0 };
            std::array::from_fn(|_| {
                let z: f64 = StandardNormal.sample(&mut rng);
                own + ROUND * z
            })
        })
        .collect();
    let parts: Vec<HostLogs<'_>> = logs.iter().map(|logs| HostLogs { logs, resolution: 0.0 }).collect();
    over_hosts(&parts, seed).context("rounds without a figure")
}
