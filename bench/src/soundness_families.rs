//! How often is anything in a family called what it isn't, where scatter differs between its members by factors, and how
//! many real differences are found?
//!
//! Methods were chosen on other seeds than these ([`SEED`]): those of the rows are used for nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, anyhow};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal, StudentT};
use vtax_stats::{
    ALPHA, Direction, Family, Group, Ratio, Verdict, after_looking, allowing, further, judge_family,
    left_after_looks, levels, moderated, narrow, plain, prior, tax,
};

use crate::soundness_row::Row;

/// First of the seeds of this suite.
const SEED: u64 = 20_261_123;
/// Families of each kind.
const FAMILIES: u64 = 2000;
/// Families of differences, of which each has many.
const WITH_TAXES: u64 = 300;
const MEMBERS: [usize; 4] = [3, 8, 14, 60];
const ROUNDS: [usize; 3] = [3, 5, 8];
/// Scatter between trials of a typical member.
const SCATTER: f64 = 0.08;
/// Standard deviation of the logarithm of the members' scatters.
const SPREADS: [f64; 3] = [0.2, 0.6, 1.0];
/// Rounds from which on two levels of bimodal trials are seen.
const LEVELS_SEEN: usize = 5;
/// Precision at which rounds end.
const UNTIL: f64 = 0.03;
/// What may be wrong, in percent.
const GOAL: f64 = 5.0;

/// How a trial's logarithm is distributed; all with a standard deviation of one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Normal,
    /// Student's t with 3 degrees of freedom.
    HeavyTail,
    /// Three of ten trials are slower, by seven times the scatter of the others.
    Bimodal,
    /// Each trial inherits 0.3 of the one before, whichever side it was.
    Autocorrelated,
}

const SHAPES: [(Shape, &str); 4] = [
    (Shape::Normal, "normal"),
    (Shape::HeavyTail, "t3"),
    (Shape::Bimodal, "bimodal"),
    (Shape::Autocorrelated, "autocorrelated"),
];

/// What members have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shared {
    /// Nothing: each has a baseline of its own.
    Nothing,
    /// All are compared with the same baseline.
    Baseline,
    /// Nothing, and each baseline has a scatter of its own.
    Unequal,
    /// Five at a time are metrics of the same trials, correlated by 0.8.
    Trials,
}

const SHARED: [Shared; 4] = [Shared::Nothing, Shared::Baseline, Shared::Unequal, Shared::Trials];

#[derive(Debug, Clone, Copy)]
struct World {
    members: usize,
    rounds: usize,
    /// Standard deviation of the logarithms of a typical member's trials.
    scatter: f64,
    spread: f64,
    shape: Shape,
    shared: Shared,
}

impl Shape {
    fn draw(self, rng: &mut StdRng) -> f64 {
        let normal: f64 = StandardNormal.sample(rng);
        match self {
            Self::Normal | Self::Autocorrelated => normal,
            Self::HeavyTail => StudentT::new(3.0).map_or(0.0, |t: StudentT<f64>| t.sample(rng)) / 3f64.sqrt(),
            Self::Bimodal => {
                let slower = if rng.random_bool(0.3) { 0.2 } else { 0.0 };
                (0.03 * normal + slower - 0.06) / (0.03f64.powi(2) + 0.21 * 0.2f64.powi(2)).sqrt()
            }
        }
    }
}

/// One side of all members: its scatter, and its trials' logarithms by round.
struct Sides {
    candidates: Vec<Vec<f64>>,
    baselines: Vec<Vec<f64>>,
}

impl World {
    fn scatter(self, rng: &mut StdRng) -> f64 {
        let z: f64 = StandardNormal.sample(rng);
        self.scatter * (self.spread * z).exp()
    }

    /// Trials whose true tax is 1.
    fn trials(self, rng: &mut StdRng) -> Sides {
        let scatters: Vec<f64> = (0..self.members).map(|_| self.scatter(rng)).collect();
        let common = self.scatter(rng);
        let others: Vec<f64> = match self.shared {
            Shared::Unequal => (0..self.members).map(|_| self.scatter(rng)).collect(),
            Shared::Nothing | Shared::Baseline | Shared::Trials => scatters.clone(),
        };
        let mut sides =
            Sides { candidates: vec![Vec::new(); self.members], baselines: vec![Vec::new(); self.members] };
        let mut state: f64 = StandardNormal.sample(rng);
        for _ in 0..self.rounds {
            let mut noise = self.noise(&mut state, rng);
            let bases = noise.split_off(self.members);
            for (i, scatter) in scatters.iter().enumerate() {
                let base =
                    if self.shared == Shared::Baseline { common * bases[0] } else { others[i] * bases[i] };
                sides.candidates[i].push(scatter * noise[i]);
                sides.baselines[i].push(base);
            }
        }
        sides
    }

    /// One round's noise: the candidates', then the baselines'.
    fn noise(self, state: &mut f64, rng: &mut StdRng) -> Vec<f64> {
        let sides = 2 * self.members;
        if self.shape == Shape::Autocorrelated {
            let mut order: Vec<usize> = (0..sides).collect();
            order.shuffle(rng);
            let mut noise = vec![0.0; sides];
            for place in order {
                let news: f64 = StandardNormal.sample(rng);
                *state = 0.3 * *state + (1.0f64 - 0.09).sqrt() * news;
                noise[place] = *state;
            }
            return noise;
        }
        let mut noise: Vec<f64> = (0..sides).map(|_| self.shape.draw(rng)).collect();
        if self.shared == Shared::Trials {
            for side in noise.chunks_mut(self.members) {
                for metrics in side.chunks_mut(5) {
                    let trial = self.shape.draw(rng);
                    metrics.iter_mut().for_each(|n| *n = 0.2f64.sqrt() * *n + 0.8f64.sqrt() * trial);
                }
            }
        }
        noise
    }
}

/// The taxes of a family after so many rounds, as a report has them before they are judged.
fn ratios(sides: &Sides, rounds: usize, truth: f64) -> Result<Vec<Ratio>> {
    (0..sides.candidates.len()).map(|member| ratio(sides, member, rounds, truth)).collect()
}

/// The tax of one member after so many rounds.
fn ratio(sides: &Sides, member: usize, rounds: usize, truth: f64) -> Result<Ratio> {
    let numbers: Vec<u32> = (0..rounds as u32).collect();
    let values = |logs: &[f64], shift: f64| -> Vec<f64> {
        logs.iter().take(rounds).map(|l| (l + shift).exp()).collect()
    };
    let (c, b) = (values(&sides.candidates[member], truth.ln()), values(&sides.baselines[member], 0.0));
    let (c, b) = (Group::in_rounds(&c, &numbers), Group::in_rounds(&b, &numbers));
    Ok(tax(&c, &b, Direction::Lower, 1)?)
}

/// With what the others say of each one's scatter, and of levels of its trials, as a report judges them.
fn with_others(alone: &[Ratio], sides: &Sides, min: usize) -> Vec<Ratio> {
    let (shared, apart) = (prior(alone), apart(sides, alone));
    let judged = |r: &Ratio| {
        let looked = after_looking(&shared.map_or(*r, |p| moderated(r, &p)), min);
        apart.map_or(looked, |apart| allowing(&looked, apart))
    };
    alone.iter().map(judged).collect()
}

/// How far apart levels are in the rounds that each member has.
fn apart(sides: &Sides, family: &[Ratio]) -> Option<f64> {
    let mut values: Vec<Vec<f64>> = Vec::with_capacity(2 * family.len());
    for side in [&sides.candidates, &sides.baselines] {
        for (logs, ratio) in side.iter().zip(family) {
            let own: Vec<f64> = logs.iter().take(ratio.rounds.unwrap_or_default()).map(|l| l.exp()).collect();
            if !values.contains(&own) {
                values.push(own);
            }
        }
    }
    levels(&values.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn different(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

/// What came of families of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    /// Percent of families with any false claim.
    wrong: f64,
    /// Percent of 95 % intervals that hold the truth.
    held: f64,
}

fn equals(world: World, seed: u64) -> Result<Found> {
    let mut rng = StdRng::seed_from_u64(SEED + seed);
    let (mut wrong, mut held) = (0u64, 0u64);
    for _ in 0..FAMILIES {
        let sides = world.trials(&mut rng);
        let family = with_others(&ratios(&sides, world.rounds, 1.0)?, &sides, world.rounds);
        held +=
            family.iter().filter(|r| r.interval.is_some_and(|(l, h)| l <= 1.0 && 1.0 <= h)).count() as u64;
        wrong += u64::from(judge_family(&family, 0.0, ALPHA).iter().any(|j| different(j.verdict)));
    }
    let percent = |n: u64, of: u64| n as f64 * 100.0 / of as f64;
    Ok(Found { wrong: percent(wrong, FAMILIES), held: percent(held, FAMILIES * world.members as u64) })
}

/// Percent of taxes of 2 that are found, in families of nothing else: with what the others lend, and without.
fn found(world: World, seed: u64) -> Result<(f64, f64)> {
    let mut rng = StdRng::seed_from_u64(SEED + seed);
    let (mut with, mut without) = (0, 0);
    for _ in 0..WITH_TAXES {
        let sides = world.trials(&mut rng);
        let alone = ratios(&sides, world.rounds, 2.0)?;
        let told = |family: &[Ratio]| {
            let judged = judge_family(family, 0.05, ALPHA);
            judged.iter().filter(|j| j.verdict == Verdict::Worse).count()
        };
        with += told(&with_others(&alone, &sides, world.rounds));
        without += told(&alone);
    }
    let percent = |n: usize| n as f64 * 100.0 / (WITH_TAXES as usize * world.members) as f64;
    Ok((percent(with), percent(without)))
}

/// Percent of families of equals with any false claim, where members end early: as soon as they are narrow or plain.
fn early(members: usize, (min, max): (usize, usize), spread: f64) -> Result<(f64, f64)> {
    let world = World {
        members,
        rounds: max,
        scatter: SCATTER,
        spread,
        shape: Shape::Normal,
        shared: Shared::Nothing,
    };
    let mut rng = StdRng::seed_from_u64(SEED + 7000 + (members * 64 + max) as u64);
    let (mut wrong, mut held) = (0u64, 0u64);
    for _ in 0..FAMILIES {
        let sides = world.trials(&mut rng);
        let mut ended: Vec<Option<Ratio>> = vec![None; members];
        for n in min..=max {
            for (ended, ratio) in ended.iter_mut().zip(ratios(&sides, n, 1.0)?) {
                let looked = after_looking(&ratio, min);
                let plain = || plain(&looked, 0.0, together(members), (min, max));
                if ended.is_none() && (n == max || narrow(&looked, UNTIL) || plain()) {
                    *ended = Some(ratio);
                }
            }
        }
        let alone: Vec<Ratio> = ended.into_iter().flatten().collect();
        let family = with_others(&alone, &sides, min);
        held +=
            family.iter().filter(|r| r.interval.is_some_and(|(l, h)| l <= 1.0 && 1.0 <= h)).count() as u64;
        let left = left_after_looks(ALPHA, (min, max));
        wrong += u64::from(judge_family(&family, 0.0, left).iter().any(|j| different(j.verdict)));
    }
    let all = (FAMILIES * members as u64) as f64;
    Ok((wrong as f64 * 100.0 / FAMILIES as f64, held as f64 * 100.0 / all))
}

/// So many that are judged together, and nothing else.
fn together(members: usize) -> Family {
    Family { members, alpha: ALPHA }
}

/// Comparisons of one measure, which get their rounds together.
const OF_A_MEASURE: usize = 2;

/// The same where there is time for a few more rounds only, which go to the measure whose comparisons end soonest, and of
/// those out of reach to the one with the fewest: as `vtax run` gives them.
fn directed(members: usize, (min, max): (usize, usize), spread: f64) -> Result<(f64, f64)> {
    let (shape, shared) = (Shape::Normal, Shared::Nothing);
    let world = World { members, rounds: max, scatter: SCATTER, spread, shape, shared };
    let mut rng = StdRng::seed_from_u64(SEED + 8000 + (members * 64 + max) as u64);
    let (mut wrong, mut held) = (0u64, 0u64);
    for _ in 0..FAMILIES {
        let sides = world.trials(&mut rng);
        let mut family = ratios(&sides, min, 1.0)?;
        // Time for one more round of each measure, to be spent on any.
        for _ in 0..members.div_ceil(OF_A_MEASURE) {
            let Some(measure) = nearest(&family, (min, max)) else { break };
            for member in members_of(measure, members)
                .filter(|m| !ended(&family[*m], (min, max), members))
                .collect::<Vec<_>>()
            {
                family[member] = ratio(&sides, member, family[member].rounds.unwrap_or(min) + 1, 1.0)?;
            }
        }
        let family = with_others(&family, &sides, min);
        held +=
            family.iter().filter(|r| r.interval.is_some_and(|(l, h)| l <= 1.0 && 1.0 <= h)).count() as u64;
        let left = left_after_looks(ALPHA, (min, max));
        wrong += u64::from(judge_family(&family, 0.0, left).iter().any(|j| different(j.verdict)));
    }
    let all = (FAMILIES * members as u64) as f64;
    Ok((wrong as f64 * 100.0 / FAMILIES as f64, held as f64 * 100.0 / all))
}

fn members_of(measure: usize, members: usize) -> impl Iterator<Item = usize> {
    measure * OF_A_MEASURE..members.min((measure + 1) * OF_A_MEASURE)
}

fn ended(ratio: &Ratio, (min, max): (usize, usize), members: usize) -> bool {
    let looked = after_looking(ratio, min);
    ratio.rounds.is_none_or(|n| n >= max)
        || narrow(&looked, UNTIL)
        || plain(&looked, 0.0, together(members), (min, max))
}

/// The measure that has the next round.
fn nearest(family: &[Ratio], rounds: (usize, usize)) -> Option<usize> {
    let members = family.len();
    let urgency = |measure: usize| {
        let open = members_of(measure, members).filter(|m| !ended(&family[*m], rounds, members));
        let of = |m: usize| {
            let further = further(&family[m], rounds, UNTIL, 0.0, together(members)).unwrap_or(usize::MAX);
            (further, family[m].rounds)
        };
        open.map(of).min().map(|urgency| (urgency, measure))
    };
    (0..members.div_ceil(OF_A_MEASURE)).filter_map(urgency).min().map(|(_, measure)| measure)
}

/// The goal with three standard errors of the simulation: a row is the worst of six to nine kinds of families.
fn limit() -> f64 {
    let error = 100.0 * (ALPHA * (1.0 - ALPHA) / FAMILIES as f64).sqrt();
    ((GOAL + 3.0 * error) * 100.0).round() / 100.0
}

/// The rows of this suite; jobs take turns at the host's CPUs, each with seeds of its own.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let mut jobs: Vec<(usize, usize, Shape, &str)> = Vec::new();
    for members in MEMBERS {
        for rounds in ROUNDS {
            jobs.extend(SHAPES.map(|(shape, name)| (members, rounds, shape, name)));
        }
    }
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, Vec<Row>)>> {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some((members, rounds, shape, name)) = jobs.get(place) else { return Ok(done) };
            let rows = rows_of(*members, *rounds, (*shape, name), place as u64 * 16)?;
            // It takes long: whoever ends it early knows how far it came.
            rows.iter().for_each(|row| println!("  {}: {:.2} ({})", row.name, row.found, row.goal));
            done.push((place, rows));
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
    parts.sort_by_key(|(place, _)| *place);
    let mut rows: Vec<Row> = parts.into_iter().flat_map(|(_, rows)| rows).collect();
    rows.extend(early_rows()?);
    for members in MEMBERS {
        let name = format!("any of {members} taxes just beyond the margin called equivalent, 3 rounds");
        rows.push(Row::at_most(&name, at_the_edge(members)?, "%", limit()));
    }
    Ok(rows)
}

/// Percent of families with a member that is called equivalent, or better, whose tax lies just beyond the margin.
fn at_the_edge(members: usize) -> Result<f64> {
    let mut worst = 0.0f64;
    for (i, spread) in SPREADS.into_iter().enumerate() {
        let (shape, shared) = (Shape::Normal, Shared::Nothing);
        let world = World { members, rounds: 3, scatter: 0.005, spread, shape, shared };
        let mut rng = StdRng::seed_from_u64(SEED + 6000 + (members * 8 + i) as u64);
        let mut wrong = 0u64;
        for _ in 0..FAMILIES {
            let sides = world.trials(&mut rng);
            let family = with_others(&ratios(&sides, 3, 1.0501)?, &sides, 3);
            let claims = judge_family(&family, 0.05, ALPHA);
            let false_claim = |v: Verdict| matches!(v, Verdict::Equivalent | Verdict::Better);
            wrong += u64::from(claims.iter().any(|j| false_claim(j.verdict)));
        }
        worst = worst.max(wrong as f64 * 100.0 / FAMILIES as f64);
    }
    Ok(worst)
}

/// The worst that families of one size, number of rounds and shape came to, whatever the spread and what they share.
fn rows_of(members: usize, rounds: usize, (shape, name): (Shape, &str), seed: u64) -> Result<Vec<Row>> {
    let (mut wrong, mut held) = (0.0f64, 100.0f64);
    let mut taxes: Vec<Row> = Vec::new();
    for (i, spread) in SPREADS.into_iter().enumerate() {
        for (j, shared) in SHARED.into_iter().enumerate() {
            // Ratios of bimodal sides of unequal scatter lean to one side, and three rounds don't show it: no
            // method's intervals hold then (docs/methodology.md). From five on their two levels are seen.
            let unequal = matches!(shared, Shared::Baseline | Shared::Unequal);
            if shape == Shape::Bimodal && unequal && rounds < LEVELS_SEEN {
                continue;
            }
            let world = World { members, rounds, scatter: SCATTER, spread, shape, shared };
            let came = equals(world, seed + (SHARED.len() * i + j) as u64)?;
            (wrong, held) = (wrong.max(came.wrong), held.min(came.held));
        }
        if shape == Shape::Normal {
            let world = World { members, rounds, scatter: SCATTER, spread, shape, shared: Shared::Nothing };
            let (with, without) = found(world, seed + 12 + i as u64)?;
            let text = format!(
                "taxes of 2 found, {members} members, {rounds} rounds, spread {spread} (alone {without:.0} %)"
            );
            // What allows for two levels takes a little where scatter happens to look so.
            taxes.push(Row::at_least(&text, with, "%", (0.9 * without).floor()));
        }
    }
    let kind = format!("{members} members, {rounds} rounds, {name}");
    let mut rows = vec![
        Row::at_most(&format!("any false claim, {kind}, worst kind"), wrong, "%", limit()),
        Row::at_least(&format!("coverage with borrowed scatter, {kind}, worst kind"), held, "%", 93.0),
    ];
    rows.extend(taxes);
    Ok(rows)
}

fn early_rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for members in [3, 8, 14] {
        for bounds @ (min, max) in [(3, 7), (3, 10), (5, 20)] {
            let kind = format!("{members} members that end early, {min} to {max} rounds");
            rows.extend(worst_of(&kind, |spread| early(members, bounds, spread))?);
        }
        let kind = format!("{members} members, extra rounds where the end is near, 3 to 10 rounds");
        rows.extend(worst_of(&kind, |spread| directed(members, (3, 10), spread))?);
    }
    Ok(rows)
}

/// The worst of small and large differences between members.
fn worst_of(kind: &str, came: impl Fn(f64) -> Result<(f64, f64)>) -> Result<[Row; 2]> {
    let (mut wrong, mut held) = (0.0f64, 100.0f64);
    for spread in [0.2, 1.0] {
        let (any, covered) = came(spread)?;
        (wrong, held) = (wrong.max(any), held.min(covered));
    }
    Ok([
        Row::at_most(&format!("any false claim, {kind}"), wrong, "%", limit()),
        Row::at_least(&format!("coverage, {kind}"), held, "%", 93.0),
    ])
}
