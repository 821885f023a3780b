//! How throughput grows with load or with the number of machines, and where it ends.
//!
//! Gunther's Universal Scalability Law, X(N) = λN / (1 + σ(N - 1) + κN(N - 1)): what is shared
//! (contention σ) bends the curve, what must be kept in agreement (coherency κ) turns it down
//! (*Guerrilla Capacity Planning*, Springer 2007; "A general theory of computational scalability
//! based on rational functions", arXiv:0808.1431).

use crate::describe::{at, moments};
use crate::rng::Rng;
use crate::student::{normal_tail, t_quantile};

/// Three parameters, and something left over to see whether they fit.
const MIN_LEVELS: usize = 5;

/// Four degrees of freedom: with fewer, Student's t goes further out than resamples have anything to show, and intervals that end
/// at the outermost of them hold the truth in 87 to 89 of 100 cases.
const MIN_LOADS: usize = 7;

/// Largest over smallest N: below this, curves of very different parameters look alike.
const MIN_SPAN: f64 = 4.0;

/// Relative scatter around the curve above which the law is no description of the data.
const MAX_SCATTER: f64 = 0.15;

/// A peak is predicted up to this multiple of the largest N measured.
const REACH: f64 = 2.0;

const RESAMPLES: usize = 1000;

/// One measurement: throughput, in any unit, at a load or size of N >= 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Concurrency, load generators, machines.
    pub n: f64,
    /// Throughput.
    pub throughput: f64,
}

/// A parameter with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// The fit's.
    pub value: f64,
    /// From the bootstrap.
    pub interval: (f64, f64),
}

/// Where throughput is largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Peak {
    /// At this N; its upper end is infinite where the data allow that there is no peak.
    At {
        /// N at the peak.
        n: Parameter,
        /// Throughput there.
        throughput: f64,
    },
    /// Beyond twice the largest N measured, if anywhere: not known.
    Beyond,
}

/// A fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalability {
    /// Throughput of one.
    pub lambda: Parameter,
    /// Contention, 0 or more.
    pub sigma: Parameter,
    /// Coherency, 0 or more.
    pub kappa: Parameter,
    /// The predicted peak.
    pub peak: Peak,
    /// Standard deviation of the relative distances from the curve.
    pub scatter: f64,
}

impl Scalability {
    /// Throughput that the law gives for `n` >= 1.
    #[must_use]
    pub fn at(&self, n: f64) -> f64 {
        let law = Law { lambda: self.lambda.value, sigma: self.sigma.value, kappa: self.kappa.value };
        law.ln_at(n).exp()
    }
}

/// Why the data don't support a law.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoScalability {
    /// Too few different N.
    #[error("{0} different loads are too few, at least {MIN_LEVELS} are needed")]
    TooFewLevels(usize),
    /// Too few measurements for an interval.
    #[error(
        "{0} measurements are too few, at least {MIN_LOADS} are needed: more rounds, or more different loads"
    )]
    TooFewLoads(usize),
    /// N doesn't vary enough.
    #[error("the largest load is only {0:.1} times the smallest, at least {MIN_SPAN} times is needed")]
    TooNarrow(f64),
    /// An N below 1, or a throughput that isn't positive.
    #[error("a load is below 1 or a throughput is not above 0")]
    OutOfRange,
    /// The curve doesn't describe the data.
    #[error("measurements are {:.0} % off the best curve", .0 * 100.0)]
    DoesNotFit(f64),
    /// Intervals of σ span everything.
    #[error("contention could be anything from {0:.2} to {1:.2}")]
    Undetermined(f64, f64),
}

/// Fits the law to measurements, several per N if there are.
///
/// The start is the linear least squares of N/X = (1 + σ(N - 1) + κN(N - 1)) / λ; Gauss and Newton's
/// steps on ln X then give every measurement the same say in relative terms. Negative σ or κ mean
/// nothing and are held at 0. Intervals: residual bootstrap with residuals enlarged by
/// √(n / (n - 3)), its percentiles expanded to Student's t as for trials.
///
/// # Errors
/// [`NoScalability`] where the data don't support a fit.
pub fn scalability(loads: &[Load], seed: u64) -> Result<Scalability, NoScalability> {
    check(loads)?;
    let fit = fit(loads);
    let logs: Vec<f64> = loads.iter().map(|l| fit.ln_at(l.n)).collect();
    let residuals: Vec<f64> = loads.iter().zip(&logs).map(|(l, m)| l.throughput.ln() - m).collect();
    let n = loads.len() as f64;
    let scatter = (residuals.iter().map(|r| r * r).sum::<f64>() / (n - 3.0)).sqrt();
    if scatter > MAX_SCATTER {
        return Err(NoScalability::DoesNotFit(scatter));
    }
    let enlarged = (n / (n - 3.0)).sqrt();
    let center = moments(&residuals).0;
    let mut rng = Rng::new(seed);
    let mut resample = loads.to_vec();
    let fits: Vec<Law> = (0..RESAMPLES)
        .map(|_| {
            for (r, m) in resample.iter_mut().zip(&logs) {
                r.throughput = (m + enlarged * (residuals[rng.below(residuals.len())] - center)).exp();
            }
            self::fit(&resample)
        })
        .collect();
    let tail = normal_tail(t_quantile(0.975, n - 3.0));
    let parameter = |of: fn(&Law) -> f64| {
        let mut all: Vec<f64> = fits.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        // Interpolating beside an infinite peak would give NaN.
        let end = |q: f64| if all[all.len() - 1].is_finite() { at(&all, q) } else { nearest(&all, q) };
        let value = of(&fit);
        Parameter { value, interval: (end(tail).min(value), end(1.0 - tail).max(value)) }
    };
    let sigma = parameter(|f| f.sigma);
    if sigma.interval.1 - sigma.interval.0 > 0.5 {
        return Err(NoScalability::Undetermined(sigma.interval.0, sigma.interval.1));
    }
    let n = parameter(Law::peak);
    let largest = loads.iter().map(|l| l.n).fold(0.0, f64::max);
    let peak = match n.value {
        p if p <= REACH * largest => Peak::At { n, throughput: fit.ln_at(p).exp() },
        _ => Peak::Beyond,
    };
    Ok(Scalability { lambda: parameter(|f| f.lambda), sigma, kappa: parameter(|f| f.kappa), peak, scatter })
}

fn check(loads: &[Load]) -> Result<(), NoScalability> {
    let usable = |l: &Load| l.n >= 1.0 && l.n.is_finite() && l.throughput > 0.0 && l.throughput.is_finite();
    if !loads.iter().all(usable) {
        return Err(NoScalability::OutOfRange);
    }
    let mut levels: Vec<f64> = loads.iter().map(|l| l.n).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    if levels.len() < MIN_LEVELS {
        return Err(NoScalability::TooFewLevels(levels.len()));
    }
    if loads.len() < MIN_LOADS {
        return Err(NoScalability::TooFewLoads(loads.len()));
    }
    let span = levels[levels.len() - 1] / levels[0];
    if span < MIN_SPAN { Err(NoScalability::TooNarrow(span)) } else { Ok(()) }
}

fn nearest(sorted: &[f64], q: f64) -> f64 {
    sorted[(q * (sorted.len() - 1) as f64).round() as usize]
}

/// The law with its parameters.
#[derive(Debug, Clone, Copy)]
struct Law {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl Law {
    fn denominator(&self, n: f64) -> f64 {
        1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0)
    }

    fn ln_at(&self, n: f64) -> f64 {
        (self.lambda * n / self.denominator(n)).ln()
    }

    /// N of the largest throughput: where the derivative is zero, √((1 - σ) / κ).
    fn peak(&self) -> f64 {
        if self.sigma >= 1.0 {
            return 1.0;
        }
        if self.kappa > 0.0 { ((1.0 - self.sigma) / self.kappa).sqrt().max(1.0) } else { f64::INFINITY }
    }
}

/// The best law; where σ or κ would be negative, the better of those that hold one or both at 0.
fn fit(loads: &[Load]) -> Law {
    let free = refine(loads, [true, true]);
    if free.sigma >= 0.0 && free.kappa >= 0.0 {
        return free;
    }
    [[true, false], [false, true], [false, false]]
        .map(|use_them| refine(loads, use_them))
        .into_iter()
        .filter(|law| law.sigma >= 0.0 && law.kappa >= 0.0)
        .min_by(|a, b| squares(loads, a).total_cmp(&squares(loads, b)))
        .unwrap_or(free)
}

fn squares(loads: &[Load], law: &Law) -> f64 {
    let all = loads.iter().map(|l| (l.throughput.ln() - law.ln_at(l.n)).powi(2)).sum::<f64>();
    if all.is_finite() { all } else { f64::INFINITY }
}

/// Linear start, then damped Gauss-Newton; `used` says which of σ and κ are free.
fn refine(loads: &[Load], used: [bool; 2]) -> Law {
    // N/X divided by itself: relative errors, so that the start is weighted like the rest.
    let rows = loads.iter().map(|l| {
        let w = l.throughput / l.n;
        ([w, w * (l.n - 1.0), w * l.n * (l.n - 1.0)], 1.0)
    });
    let [a, b, c] = least_squares(rows, used);
    let mut law = Law { lambda: 1.0 / a, sigma: b / a, kappa: c / a };
    let mut best = squares(loads, &law);
    for _ in 0..20 {
        let rows = loads.iter().map(|l| {
            let d = law.denominator(l.n);
            ([1.0, -(l.n - 1.0) / d, -l.n * (l.n - 1.0) / d], l.throughput.ln() - law.ln_at(l.n))
        });
        let step = least_squares(rows, used);
        let Some((next, less)) = halved(loads, law, step, best) else { break };
        let gained = best - less;
        (law, best) = (next, less);
        if gained <= 1e-12 * best {
            break;
        }
    }
    law
}

/// The step, or the first of its halves that comes closer.
fn halved(loads: &[Load], law: Law, step: [f64; 3], best: f64) -> Option<(Law, f64)> {
    (0..8).map(|k| 0.5f64.powi(k)).find_map(|share| {
        let next = Law {
            lambda: law.lambda * (share * step[0]).exp(),
            sigma: law.sigma + share * step[1],
            kappa: law.kappa + share * step[2],
        };
        let less = squares(loads, &next);
        (less < best).then_some((next, less))
    })
}

/// Least squares of three columns by normal equations; an unused column gets 0.
fn least_squares(rows: impl Iterator<Item = ([f64; 3], f64)>, used: [bool; 2]) -> [f64; 3] {
    let used = [true, used[0], used[1]];
    let mut m = [[0.0; 4]; 3];
    for (x, y) in rows {
        for i in (0..3).filter(|i| used[*i]) {
            for j in (0..3).filter(|j| used[*j]) {
                m[i][j] += x[i] * x[j];
            }
            m[i][3] += x[i] * y;
        }
    }
    // An unused column is the equation "it is 0".
    (0..3).filter(|i| !used[*i]).for_each(|i| m[i][i] = 1.0);
    for i in 0..3 {
        // Positive definite as N differ, so the diagonal never vanishes.
        for j in (0..3).filter(|j| *j != i) {
            let share = m[j][i] / m[i][i];
            let row = m[i];
            m[j].iter_mut().zip(row).for_each(|(a, b)| *a -= share * b);
        }
    }
    [m[0][3] / m[0][0], m[1][3] / m[1][1], m[2][3] / m[2][2]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    const LEVELS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0];

    fn noise(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0
    }

    fn generated(law: Law, scatter: f64, repeats: usize, rng: &mut Rng) -> Vec<Load> {
        let levels = LEVELS.iter().flat_map(|n| std::iter::repeat_n(*n, repeats));
        levels.map(|n| Load { n, throughput: (law.ln_at(n) + scatter * noise(rng)).exp() }).collect()
    }

    #[test]
    fn exact_data_give_the_parameters_back() {
        let law = Law { lambda: 1000.0, sigma: 0.05, kappa: 0.002 };
        let found = scalability(&generated(law, 0.0, 1, &mut Rng::new(1)), 1).unwrap();
        assert!((found.lambda.value - 1000.0).abs() < 1e-3, "{found:?}");
        assert!((found.sigma.value - 0.05).abs() < 1e-6 && (found.kappa.value - 0.002).abs() < 1e-7);
        let Peak::At { n, throughput } = found.peak else { panic!("{found:?}") };
        assert!((n.value - (0.95f64 / 0.002).sqrt()).abs() < 1e-3);
        assert!((throughput - law.ln_at(n.value).exp()).abs() < 1e-3);
    }

    #[test]
    fn intervals_hold_the_truth() {
        let law = Law { lambda: 500.0, sigma: 0.08, kappa: 0.001 };
        let peak = law.peak();
        let mut rng = Rng::new(2);
        let (mut sigma, mut kappa, mut peaks, rounds) = (0, 0, 0, 60);
        for seed in 0..rounds {
            let found = scalability(&generated(law, 0.02, 3, &mut rng), seed).unwrap();
            let holds = |p: &Parameter, t: f64| u64::from(p.interval.0 <= t && t <= p.interval.1);
            sigma += holds(&found.sigma, law.sigma);
            kappa += holds(&found.kappa, law.kappa);
            if let Peak::At { n, .. } = found.peak {
                peaks += holds(&n, peak);
            }
        }
        println!("{sigma} {kappa} {peaks} of {rounds}");
        // 95 % of 60 is 57; three standard errors below is 52.
        assert!(sigma >= 52 && kappa >= 52 && peaks >= 52, "{sigma} {kappa} {peaks} of {rounds}");
    }

    #[test]
    fn without_a_bend_there_is_no_peak() {
        let linear = Law { lambda: 100.0, sigma: 0.0, kappa: 0.0 };
        let found = scalability(&generated(linear, 0.005, 2, &mut Rng::new(3)), 1).unwrap();
        assert_eq!(found.peak, Peak::Beyond);
        assert!(found.sigma.value >= 0.0 && found.kappa.value >= 0.0 && found.sigma.interval.0 == 0.0);
    }

    #[test]
    fn what_the_data_do_not_support_is_refused() {
        let load = |n: f64, throughput: f64| Load { n, throughput };
        let few = [load(1.0, 1.0), load(2.0, 2.0), load(4.0, 3.0), load(4.0, 3.1), load(8.0, 4.0)];
        assert_eq!(scalability(&few, 1), Err(NoScalability::TooFewLevels(4)));
        let once: Vec<Load> = [1.0, 2.0, 4.0, 8.0, 16.0].map(|n| load(n, n / (1.0 + 0.05 * n))).to_vec();
        assert_eq!(scalability(&once, 1), Err(NoScalability::TooFewLoads(5)));
        let narrow: Vec<Load> = (10..20).map(|n| load(f64::from(n), f64::from(n))).collect();
        assert!(matches!(scalability(&narrow, 1), Err(NoScalability::TooNarrow(_))));
        let wild: Vec<Load> =
            (1..20).map(|n| load(f64::from(n), if n % 2 == 0 { 10.0 } else { 20.0 })).collect();
        assert!(matches!(scalability(&wild, 1), Err(NoScalability::DoesNotFit(_))));
        assert_eq!(scalability(&[load(1.0, 0.0); 6], 1), Err(NoScalability::OutOfRange));
        assert_eq!(scalability(&[load(0.5, 1.0); 6], 1), Err(NoScalability::OutOfRange));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_data_have_an_answer(v in prop::collection::vec((1.0..64.0f64, 1e-3..1e6f64), 0..12)) {
            let loads: Vec<Load> = v.iter().map(|(n, throughput)| Load { n: *n, throughput: *throughput }).collect();
            if let Ok(found) = scalability(&loads, 1) {
                prop_assert!(found.sigma.value >= 0.0 && found.kappa.value >= 0.0 && found.lambda.value > 0.0);
            }
        }
    }
}
