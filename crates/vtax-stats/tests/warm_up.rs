//! Is warm-up found where it is? Labelled synthetic series of eight kinds, with fixed seeds.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use vtax_stats::steady;

/// Series of each kind.
const EACH: u32 = 200;

/// What a series is made of: its values without scatter, and from where it is steady, if ever.
struct Labelled {
    truth: Vec<f64>,
    sigma: f64,
    steady_from: Option<usize>,
}

const KINDS: [&str; 8] =
    ["flat", "step", "decay", "slow decay", "ramp", "oscillating", "late jump", "spikes"];

fn make(kind: &str, rng: &mut StdRng) -> Labelled {
    let n: usize = rng.random_range(16..=200);
    let level = 100.0;
    let sigma = rng.random_range(0.3..3.0);
    // The disturbance is large enough to matter: 6 to 30 standard deviations, either way.
    let size = sigma * rng.random_range(6.0..30.0) * if rng.random() { 1.0 } else { -1.0 };
    let length = n as f64;
    let of = |f: &dyn Fn(f64) -> f64| (0..n).map(|i| level + size * f(i as f64)).collect::<Vec<f64>>();
    let (truth, steady_from) = match kind {
        "step" => {
            let at = (length * rng.random_range(0.1..0.6)).ceil().max(2.0);
            (of(&|t| if t < at { 1.0 } else { 0.0 }), Some(at as usize))
        }
        "decay" => {
            let tau = length * rng.random_range(0.02..0.1);
            // Steady where less than half a standard deviation is left.
            let from = tau * (size.abs() / (0.5 * sigma)).ln();
            (of(&|t| (-t / tau).exp()), Some(from as usize))
        }
        "slow decay" => {
            let tau = length * rng.random_range(0.6..2.0);
            (of(&|t| (-t / tau).exp()), None)
        }
        "ramp" => (of(&|t| t / length), None),
        "oscillating" => {
            let period = (length / rng.random_range(2.5..10.0)).max(6.0);
            (of(&|t| (t / period * std::f64::consts::TAU).sin()), None)
        }
        "late jump" => {
            let at = (length * rng.random_range(0.82..0.93)).floor().min(length - 2.0);
            (of(&|t| if t < at { 0.0 } else { 1.0 }), None)
        }
        "spikes" => {
            let every = rng.random_range(6..20);
            (of(&|t| if t as usize % every == every / 2 { 1.0 } else { 0.0 }), Some(0))
        }
        _ => (vec![level; n], Some(0)),
    };
    Labelled { truth, sigma, steady_from }
}

/// Right: "none" where there is none; else what is kept is at the level (to half a standard deviation
/// or 1 %), and at least three quarters of what was steady is kept.
fn right(series: &Labelled, kind: &str, rng: &mut StdRng) -> bool {
    let noise = |rng: &mut StdRng| -> f64 { StandardNormal.sample(rng) };
    let values: Vec<f64> = series.truth.iter().map(|t| t + series.sigma * noise(rng)).collect();
    match (steady(&values), series.steady_from) {
        (Err(_), None) => true,
        (Ok(found), Some(from)) => {
            let n = values.len();
            let kept = &series.truth[found.from..];
            let bias = if kind == "spikes" {
                0.0
            } else {
                kept.iter().map(|t| t - 100.0).sum::<f64>().abs() / kept.len() as f64
            };
            bias <= (0.5 * series.sigma).max(1.0) && n - found.from >= (n - from) * 3 / 4
        }
        _ => false,
    }
}

#[test]
fn nine_of_ten_labelled_series_are_right() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut all = 0;
    for kind in KINDS {
        let hits = (0..EACH)
            .filter(|_| {
                let series = make(kind, &mut rng);
                right(&series, kind, &mut rng)
            })
            .count();
        println!("{kind}: {hits} of {EACH}");
        assert!(hits * 10 >= EACH as usize * 9, "{kind}: {hits} of {EACH}");
        all += hits;
    }
    let share = all as f64 / f64::from(EACH * KINDS.len() as u32);
    assert!(share >= 0.95, "{share}");
}

#[test]
fn short_series_too() {
    // Five to fifteen values, as of a trial of some seconds: a step of 10 standard deviations.
    let mut rng = StdRng::seed_from_u64(2);
    let hits = (0..EACH)
        .filter(|_| {
            let n: usize = rng.random_range(5..16);
            let at = rng.random_range(0..=n / 2);
            let truth = (0..n).map(|i| if i < at { 80.0 } else { 100.0 }).collect();
            let series = Labelled { truth, sigma: 2.0, steady_from: Some(at) };
            right(&series, "step", &mut rng)
        })
        .count();
    println!("short: {hits} of {EACH}");
    assert!(hits * 10 >= EACH as usize * 9, "{hits} of {EACH}");
}
