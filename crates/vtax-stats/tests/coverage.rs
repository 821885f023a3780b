//! Do 95 % intervals hold the truth 95 times of 100? Simulated, with fixed seeds.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Gamma, LogNormal, Normal, StandardNormal};
use vtax_stats::{ALPHA, Direction, Group, Ratio, Verdict, estimate, judge_family, moderated, prior, tax};

/// One standard error of a share of 0.95 is then 1.1 %; the limits below leave more than two.
const SIMULATIONS: u32 = 400;

/// Share of simulated comparisons whose interval holds the true ratio of typical values.
fn coverage(
    n: usize,
    m: usize,
    truth: f64,
    mut candidate: impl FnMut() -> f64,
    mut baseline: impl FnMut() -> f64,
) -> f64 {
    let hits = (0..SIMULATIONS)
        .filter(|&i| {
            let c: Vec<f64> = (0..n).map(|_| candidate()).collect();
            let b: Vec<f64> = (0..m).map(|_| baseline()).collect();
            let ratio = tax(&Group::exact(&c), &Group::exact(&b), Direction::Lower, u64::from(i)).unwrap();
            let (low, high) = ratio.interval.unwrap();
            low <= truth && truth <= high
        })
        .count();
    hits as f64 / f64::from(SIMULATIONS)
}

#[test]
fn normal_scatter() {
    // 5 % scatter: the typical value is the mean up to a tenth of a percent.
    let normal = |mean: f64| Normal::new(mean, mean * 0.05).unwrap();
    for (n, m) in [(3, 3), (4, 5), (5, 5), (6, 6), (8, 8), (3, 8)] {
        let mut rng = StdRng::seed_from_u64(1);
        let mut other = StdRng::seed_from_u64(2);
        let (c, b) = (normal(20.0), normal(10.0));
        let share = coverage(n, m, 2.0, || c.sample(&mut rng), || b.sample(&mut other));
        assert!((0.925..=0.985).contains(&share), "{n} and {m} trials: {share}");
    }
}

#[test]
fn log_normal_scatter_of_unequal_width() {
    for (n, m) in [(3, 3), (5, 5), (6, 6), (8, 8)] {
        let mut rng = StdRng::seed_from_u64(3);
        let mut other = StdRng::seed_from_u64(4);
        let (c, b) = (LogNormal::new(1.0, 0.3).unwrap(), LogNormal::new(0.0, 0.1).unwrap());
        let share = coverage(n, m, 1f64.exp(), || c.sample(&mut rng), || b.sample(&mut other));
        assert!((0.925..=0.985).contains(&share), "{n} and {m} trials: {share}");
    }
}

#[test]
fn skewed_scatter() {
    // Gamma with shape 4: the logarithm leans to the left. Both sides alike, so the truth is 1.
    for n in [3, 5, 6, 8] {
        let mut rng = StdRng::seed_from_u64(5);
        let mut other = StdRng::seed_from_u64(6);
        let g = Gamma::new(4.0, 1.0).unwrap();
        let share = coverage(n, n, 1.0, || g.sample(&mut rng), || g.sample(&mut other));
        assert!((0.925..=0.99).contains(&share), "{n} trials: {share}");
    }
}

#[test]
fn one_group_with_a_tail() {
    // The logarithm is exponential: Student's t for its mean holds 89 of 100.
    for n in [3, 5, 8, 12, 20] {
        let mut rng = StdRng::seed_from_u64(7);
        let truth = (0.05 * 2f64.ln()).exp();
        let hits = (0..SIMULATIONS)
            .filter(|_| {
                let values: Vec<f64> = (0..n)
                    .map(|_| {
                        let log: f64 = Exp1.sample(&mut rng);
                        (0.05 * log).exp()
                    })
                    .collect();
                let (low, high) = estimate(&Group::exact(&values)).unwrap().interval.unwrap();
                low <= truth && truth <= high
            })
            .count();
        let share = hits as f64 / f64::from(SIMULATIONS);
        assert!((0.925..=0.995).contains(&share), "{n} trials: {share}");
    }
}

#[test]
fn a_machine_that_remembers() {
    // Each trial inherits 0.4 of the one before, whichever side it was. The order within a
    // round is drawn: were it ABBA, what a round's end hands on would favour one side twice in a row.
    for n in [5, 8, 12, 20] {
        let mut rng = StdRng::seed_from_u64(8);
        let mut order = StdRng::seed_from_u64(9);
        let mut state: f64 = 0.0;
        let mut trial = || {
            let news: f64 = StandardNormal.sample(&mut rng);
            state = 0.4 * state + news;
            (0.05 * state).exp()
        };
        let (mut rounds_hit, mut value_hit) = (0, 0);
        let numbers: Vec<u32> = (0..n).collect();
        for _ in 0..SIMULATIONS {
            let (candidate, baseline): (Vec<f64>, Vec<f64>) = (0..n)
                .map(|_| {
                    let (first, second) = (trial(), trial());
                    if order.random() { (first, second) } else { (second, first) }
                })
                .unzip();
            let (c, b) = (Group::in_rounds(&candidate, &numbers), Group::in_rounds(&baseline, &numbers));
            let (low, high) = tax(&c, &b, Direction::Lower, 1).unwrap().interval.unwrap();
            rounds_hit += u32::from(low <= 1.0 && 1.0 <= high);
            let (low, high) = estimate(&c).unwrap().interval.unwrap();
            value_hit += u32::from(low <= 1.0 && 1.0 <= high);
        }
        let share = |hits: u32| f64::from(hits) / f64::from(SIMULATIONS);
        let (rounds, value) = (share(rounds_hit), share(value_hit));
        assert!((0.925..=0.98).contains(&rounds), "{n} rounds: {rounds}");
        assert!((0.92..=0.99).contains(&value), "{n} values: {value}");
    }
}

/// What a search finds: the middle of the bracket that a value is in. Each begins somewhere else.
fn searched(log: f64, width: f64, rng: &mut StdRng) -> f64 {
    let from = width * rng.random::<f64>();
    (((log - from) / width).floor() * width + width / 2.0 + from).exp()
}

/// The tax of equals, of which both sides are known to a bracket, in rounds or not.
fn bracketed(n: u32, scatter: f64, width: f64, in_rounds: bool, rng: &mut StdRng) -> Ratio {
    let mut side = || -> Vec<f64> {
        let logs: Vec<f64> = (0..n)
            .map(|_| {
                let z: f64 = StandardNormal.sample(rng);
                scatter * z
            })
            .collect();
        logs.into_iter().map(|log| searched(log, width, rng)).collect()
    };
    let (c, b) = (side(), side());
    let rounds: Vec<u32> = if in_rounds { (0..n).collect() } else { Vec::new() };
    let group = |values| Group { resolution: width, ..Group::in_rounds(values, &rounds) };
    tax(&group(&c), &group(&b), Direction::Lower, 1).unwrap()
}

#[test]
fn values_known_to_a_bracket() {
    let mut rng = StdRng::seed_from_u64(10);
    for in_rounds in [true, false] {
        for n in [3, 5, 6, 8] {
            for (scatter, width) in [(0.02, 0.05), (0.05, 0.05), (0.1, 0.05), (0.2, 0.3)] {
                let holds = |_: &u32| {
                    let found = bracketed(n, scatter, width, in_rounds, &mut rng);
                    found.interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high)
                };
                let share = f64::from((0..SIMULATIONS).filter(holds).count() as u32) / f64::from(SIMULATIONS);
                assert!(share >= 0.925, "{n} trials, rounds {in_rounds}, {scatter} in {width}: {share}");
            }
        }
    }
}

/// Were the degrees of freedom of a bracket's width added to those of the rounds, 7 to 15 of 100 such families would be claimed to
/// differ somewhere: rounds that agree by chance would count as many.
#[test]
fn families_known_to_a_bracket() {
    const FAMILIES: u32 = 1500;
    let mut rng = StdRng::seed_from_u64(11);
    for (members, rounds, scatter) in [(2, 3, 0.1), (6, 3, 0.1), (9, 3, 0.1), (9, 5, 0.05)] {
        let mut wrong = 0;
        for _ in 0..FAMILIES {
            let alone: Vec<Ratio> =
                (0..members).map(|_| bracketed(rounds, scatter, 0.05, true, &mut rng)).collect();
            let shared = prior(&alone);
            let family: Vec<Ratio> = alone.iter().map(|r| shared.map_or(*r, |p| moderated(r, &p))).collect();
            let judged = judge_family(&family, 0.0, ALPHA);
            let differs = |v: Verdict| matches!(v, Verdict::Better | Verdict::Worse);
            wrong += u32::from(judged.iter().any(|j| differs(j.verdict)));
        }
        // 5 % and two standard errors of the simulation.
        let share = f64::from(wrong) / f64::from(FAMILIES);
        assert!(share <= 0.061, "{members} members, {rounds} rounds: {share}");
    }
}
