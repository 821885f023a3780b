//! Do 95 % intervals hold the truth 95 times of 100? Simulated, with fixed seeds.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Gamma, LogNormal, Normal};
use vtax_stats::{Direction, Group, tax};

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
