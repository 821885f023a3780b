//! How often a steady trial is refused, and how often one that isn't is found: fixed seeds, forty values as
//! a trial has them.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use vtax_stats::settled;

const VALUES: usize = 40;
const EACH: u32 = 600;
/// The usual margin of a plan.
const TOLERANCE: f64 = 0.05;

fn normal(rng: &mut StdRng) -> f64 {
    StandardNormal.sample(rng)
}

/// Multiplicative scatter of `sigma` that remembers `r` of its last value.
fn scatter(rng: &mut StdRng, sigma: f64, r: f64) -> Vec<f64> {
    let innovation = (1.0 - r * r).sqrt();
    let mut state = normal(rng);
    let mut next = || {
        state = r * state + innovation * normal(rng);
        (sigma * state).exp()
    };
    (0..VALUES).map(|_| next()).collect()
}

/// Median sojourn times of `each` customers per interval in a queue with Poisson arrivals.
fn queue(rng: &mut StdRng, load: f64, each: usize, constant_service: bool) -> Vec<f64> {
    let exponential = |rng: &mut StdRng| -> f64 { Exp1.sample(rng) };
    let mut wait = 0.0f64;
    let mut customer = || {
        let service = if constant_service { 1.0 } else { exponential(rng) };
        let sojourn = wait + service;
        wait = (sojourn - exponential(rng) / load).max(0.0);
        sojourn
    };
    for _ in 0..500 {
        customer();
    }
    let mut interval = || {
        let mut sojourns: Vec<f64> = (0..each).map(|_| customer()).collect();
        sojourns.sort_by(f64::total_cmp);
        sojourns[each / 2]
    };
    (0..VALUES).map(|_| interval()).collect()
}

/// Shares of series refused and of series cut, in percent.
fn shares(mut make: impl FnMut(&mut StdRng) -> Vec<f64>) -> (f64, f64) {
    let mut rng = StdRng::seed_from_u64(11);
    let (mut refused, mut cut) = (0, 0);
    for _ in 0..EACH {
        match settled(&make(&mut rng), TOLERANCE) {
            Ok(found) => cut += u32::from(found.from > 0),
            Err(_) => refused += 1,
        }
    }
    let percent = |n: u32| f64::from(n) / f64::from(EACH) * 100.0;
    (percent(refused), percent(cut))
}

#[test]
fn steady_trials_are_rarely_refused() {
    for r in [0.0, 0.3, 0.5, 0.7] {
        for sigma in [0.02, 0.1, 0.3] {
            let (refused, cut) = shares(|rng| scatter(rng, sigma, r));
            assert!(refused < 2.0, "r {r}, sigma {sigma}: {refused} % refused");
            assert!(cut < 5.0, "r {r}, sigma {sigma}: {cut} % cut");
        }
    }
    for (load, each) in [(0.3, 20), (0.5, 50), (0.5, 500), (0.8, 200)] {
        for constant in [false, true] {
            let (refused, cut) = shares(|rng| queue(rng, load, each, constant));
            assert!(refused < 2.0, "load {load}, {each} each: {refused} % refused");
            // Where most medians are the service time to the digit, a queue at the start stands out: cutting
            // it costs some data, no more.
            let bound = if constant && each == 20 { 25.0 } else { 6.0 };
            assert!(cut < bound, "load {load}, {each} each: {cut} % cut");
        }
    }
}

#[test]
fn bursts_of_noise_are_no_change_of_level() {
    for (every, longest, height) in [(0.05, 3, 1.3), (0.02, 3, 1.5), (0.02, 6, 1.3)] {
        let (refused, cut) = shares(|rng| {
            let mut left = 0;
            let mut series = scatter(rng, 0.03, 0.0);
            for value in &mut series {
                if left == 0 && rng.random::<f64>() < every {
                    left = rng.random_range(1..=longest);
                }
                if left > 0 {
                    left -= 1;
                    *value *= height;
                }
            }
            series
        });
        let bound = if longest > 3 { 9.0 } else { 4.0 };
        assert!(refused < bound, "bursts of up to {longest}: {refused} % refused");
        assert!(cut < 14.0, "bursts of up to {longest}: {cut} % cut");
    }
}

#[test]
fn warm_up_is_cut_and_what_never_settles_is_refused() {
    let shaped = |sigma: f64, shape: &'static dyn Fn(f64) -> f64| {
        move |rng: &mut StdRng| -> Vec<f64> {
            let at = |i: usize| shape(i as f64 / VALUES as f64);
            scatter(rng, sigma, 0.0).into_iter().enumerate().map(|(i, v)| v * at(i)).collect()
        }
    };
    let (_, cut) = shares(shaped(0.02, &|t| if t < 0.25 { 1.2 } else { 1.0 }));
    assert!(cut > 95.0, "a first quarter 20 % slower: {cut} % cut");
    let (_, cut) = shares(shaped(0.02, &|t| 1.0 + (-t / 0.1).exp()));
    assert!(cut > 90.0, "a decay: {cut} % cut");
    let never: [(&str, &dyn Fn(f64) -> f64); 4] = [
        ("a last fifth 20 % slower", &|t| if t > 0.8 { 1.2 } else { 1.0 }),
        ("a last sixth 30 % faster", &|t| if t > 0.85 { 0.7 } else { 1.0 }),
        ("a climb by 40 %", &|t| 1.0 + 0.4 * t),
        ("a slow decay", &|t| 1.0 + (-t / 0.5).exp()),
    ];
    for (name, shape) in never {
        let shape: &'static dyn Fn(f64) -> f64 = Box::leak(Box::new(shape));
        let (refused, _) = shares(shaped(0.02, shape));
        assert!(refused > 90.0, "{name}: {refused} % refused");
    }
    // Small beside the margin: not worth a trial.
    let (refused, _) = shares(shaped(0.005, &|t| if t > 0.8 { 1.03 } else { 1.0 }));
    assert!(refused < 1.0, "a last fifth 3 % slower: {refused} % refused");
}

#[test]
fn any_series_has_an_answer() {
    let mut rng = StdRng::seed_from_u64(3);
    for n in 0..60 {
        for zeros in [0.0, 0.3, 0.9, 1.0] {
            let series: Vec<f64> =
                (0..n).map(|_| if rng.random::<f64>() < zeros { 0.0 } else { rng.random::<f64>() }).collect();
            if let Ok(found) = settled(&series, TOLERANCE) {
                assert!(found.from < n && found.level.is_finite());
            }
        }
    }
}
