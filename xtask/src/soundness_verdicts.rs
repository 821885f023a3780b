//! How often are equals called different, and differences found?

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};
use vtax_stats::{Direction, Group, Ratio, Verdict, judge, judge_family, tax};

use crate::soundness::Row;

/// The default plan's: trials per side, precision at which they end, margin.
const MIN: usize = 5;
const MAX: usize = 40;
const UNTIL: f64 = 0.03;
const MARGIN: f64 = 0.05;

/// Scatter between trials of the machines vtax is for.
const SCATTER: f64 = 0.02;

const COMPARISONS: u64 = 1000;
/// Members of a family: four environments with three metrics each.
const FAMILY: usize = 12;

/// What came of comparisons with the same truth.
#[derive(Debug, Default)]
struct Tally {
    different: u32,
    better: u32,
    equivalent: u32,
    beside_truth: u32,
    trials: usize,
}

/// The rows of this suite.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let percent = |count: u32| f64::from(count) * 100.0 / COMPARISONS as f64;
    let equal = compare(1.0, MARGIN, SCATTER)?;
    let strict = compare(1.0, 0.0, SCATTER)?;
    let noisy = compare(1.0, MARGIN, 4.0 * SCATTER)?;
    let more = compare(1.05, MARGIN, SCATTER)?;
    let less = compare(1.0 / 1.05, MARGIN, SCATTER)?;
    let large = compare(1.1, MARGIN, SCATTER)?;
    let trials = |t: &Tally| t.trials as f64 / COMPARISONS as f64;
    let detected = compare(1.05, 0.0, SCATTER)?;
    let (plain, corrected) = families()?;
    Ok(vec![
        Row::at_most("A/A called different, margin 5 %, scatter 2 %", percent(equal.different), "%", 5.0),
        Row::at_most("A/A called different, margin 5 %, scatter 8 %", percent(noisy.different), "%", 5.0),
        Row::at_most("A/A called different, no margin, scatter 2 %", percent(strict.different), "%", 5.0),
        Row::at_least("A/A called equivalent, margin 5 %, scatter 2 %", percent(equal.equivalent), "%", 80.0),
        Row::within(
            "A/A interval holds the truth after the stopping rule".to_owned(),
            100.0 - percent(strict.beside_truth),
            "%",
            (93.0, 97.0),
        ),
        Row::at_least(
            "tax of 5 % found (interval above 1), no margin",
            percent(detected.different),
            "%",
            80.0,
        ),
        Row::at_most("tax of 5 %: trials of each side that this took", trials(&detected), "", MAX as f64),
        Row::at_least(
            "tax of 5 % called worse, margin 5 %",
            percent(more.different - more.better),
            "%",
            80.0,
        ),
        Row::at_least("gain of 5 % called better, margin 5 %", percent(less.better), "%", 80.0),
        Row::at_least(
            "tax of 10 % called worse, margin 5 %",
            percent(large.different - large.better),
            "%",
            80.0,
        ),
        Row::at_most(
            "tax of 10 % called better or equivalent",
            percent(large.better + large.equivalent),
            "%",
            0.1,
        ),
        Row::at_most("any of 12 A/A called different, corrected", corrected, "%", 5.0),
        Row::at_least("any of 12 A/A called different, not corrected (why)", plain, "%", 5.0),
    ])
}

/// Trials are added to both sides until the interval is narrow enough, as `vtax run` does.
fn compare(truth: f64, margin: f64, scatter: f64) -> Result<Tally> {
    let mut rng = StdRng::seed_from_u64(7);
    let mut tally = Tally::default();
    for seed in 0..COMPARISONS {
        let (mut candidate, mut baseline) = (Vec::new(), Vec::new());
        let ratio = loop {
            candidate.push(truth * trial(scatter, &mut rng));
            baseline.push(trial(scatter, &mut rng));
            if candidate.len() < MIN {
                continue;
            }
            let ratio = tax(&Group::exact(&candidate), &Group::exact(&baseline), Direction::Lower, seed)?;
            if candidate.len() == MAX || narrow(&ratio) {
                break ratio;
            }
        };
        let verdict = judge(&ratio, margin).verdict;
        tally.different += u32::from(matches!(verdict, Verdict::Better | Verdict::Worse));
        tally.better += u32::from(verdict == Verdict::Better);
        tally.equivalent += u32::from(verdict == Verdict::Equivalent);
        tally.beside_truth += u32::from(ratio.interval.is_none_or(|(l, h)| truth < l || h < truth));
        tally.trials += candidate.len();
    }
    Ok(tally)
}

fn narrow(ratio: &Ratio) -> bool {
    ratio.interval.is_some_and(|(low, high)| (high / low).ln() / 2.0 <= UNTIL.ln_1p())
}

fn trial(scatter: f64, rng: &mut StdRng) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    (scatter * z).exp()
}

/// Percent of families of equals, all against one baseline, with any difference claimed: without and
/// with correction.
fn families() -> Result<(f64, f64)> {
    let mut rng = StdRng::seed_from_u64(8);
    let mut group = || -> Vec<f64> { (0..MIN).map(|_| trial(SCATTER, &mut rng)).collect() };
    let different = |v: Verdict| matches!(v, Verdict::Better | Verdict::Worse);
    let (mut plain, mut corrected) = (0u32, 0u32);
    for seed in 0..COMPARISONS {
        let baseline = group();
        let mut ratios = Vec::with_capacity(FAMILY);
        for _ in 0..FAMILY {
            ratios.push(tax(&Group::exact(&group()), &Group::exact(&baseline), Direction::Lower, seed)?);
        }
        plain += u32::from(ratios.iter().any(|r| different(judge(r, 0.0).verdict)));
        corrected += u32::from(judge_family(&ratios, 0.0).iter().any(|j| different(j.verdict)));
    }
    let percent = |count: u32| f64::from(count) * 100.0 / COMPARISONS as f64;
    Ok((percent(plain), percent(corrected)))
}
