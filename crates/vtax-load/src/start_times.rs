//! When an open loop's requests start.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1};
use vtax_units::Nanos;

use crate::{ArrivalProcess, Segment};

/// The intended starts of one worker's share of an open loop, in order.
///
/// The profile's integral Λ(t) says how many starts are expected until t. A process with rate 1
/// is laid along it: its n-th event at s becomes a start at Λ⁻¹(s) (time rescaling; Brown et al.
/// 2002), which is exact for ramps and steps alike. Of `workers` workers each takes every
/// `workers`-th start of the constant process, or an independent Poisson process with its
/// share of the rate; together they are again the process asked for.
#[derive(Debug, Clone)]
pub struct StartTimes {
    process: ArrivalProcess,
    pieces: Vec<Piece>,
    /// The piece the next start is looked for in.
    at: usize,
    /// Λ at the next start.
    position: f64,
    workers: f64,
    rng: Xoshiro256PlusPlus,
}

/// A stretch of the profile, in seconds and starts.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: f64,
    integral: f64,
    integral_end: f64,
    rate: f64,
    slope: f64,
}

impl StartTimes {
    /// The starts of worker number `worker` of `workers`.
    #[must_use]
    pub fn new(
        process: ArrivalProcess,
        profile: &[Segment],
        seed: u64,
        worker: usize,
        workers: usize,
    ) -> Self {
        let mut pieces = Vec::with_capacity(profile.len() + 1);
        let (mut start, mut integral) = (0.0, 0.0);
        for segment in profile {
            let (length, from, to) = (segment.duration.as_secs_f64(), segment.from.0, segment.to.0);
            if length > 0.0 {
                let integral_end = integral + (from + to) / 2.0 * length;
                pieces.push(Piece { start, integral, integral_end, rate: from, slope: (to - from) / length });
                (start, integral) = (start + length, integral_end);
            }
        }
        let last = profile.last().map_or(0.0, |segment| segment.to.0);
        pieces.push(Piece { start, integral, integral_end: f64::INFINITY, rate: last, slope: 0.0 });
        // Neighbouring seeds give unrelated streams: the generator hashes the seed.
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add((worker as u64) << 32));
        let mut arrivals =
            Self { process, pieces, at: 0, position: worker as f64, workers: workers as f64, rng };
        if process == ArrivalProcess::Poisson {
            arrivals.position = 0.0;
            arrivals.advance();
        }
        arrivals
    }

    fn advance(&mut self) {
        self.position += self.workers
            * match self.process {
                ArrivalProcess::Poisson => Exp1.sample(&mut self.rng),
                ArrivalProcess::Constant => 1.0,
            };
    }
}

impl Iterator for StartTimes {
    type Item = Nanos;

    /// The next start, from the start of the load; `None` where the rate is zero from here on.
    fn next(&mut self) -> Option<Nanos> {
        while self.position >= self.pieces[self.at].integral_end {
            self.at += 1;
        }
        let piece = self.pieces[self.at];
        let beyond = self.position - piece.integral;
        // The root of rate·t + slope/2·t² = beyond in the form that doesn't cancel.
        let root = (piece.rate * piece.rate + 2.0 * piece.slope * beyond).max(0.0).sqrt();
        let denominator = piece.rate + root;
        let time = if beyond > 0.0 { 2.0 * beyond / denominator } else { 0.0 };
        if denominator <= 0.0 && piece.integral_end.is_infinite() {
            return None;
        }
        self.advance();
        Some(Nanos::from_secs_f64(piece.start + time))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use vtax_units::Rate;

    use super::*;

    fn segment(from: f64, to: f64, secs: f64) -> Segment {
        Segment { from: Rate(from), to: Rate(to), duration: Nanos::from_secs_f64(secs) }
    }

    fn until(arrivals: StartTimes, secs: f64) -> Vec<f64> {
        arrivals.map(Nanos::as_secs_f64).take_while(|t| *t < secs).collect()
    }

    /// Kolmogorov-Smirnov statistic times √n against the uniform distribution on 0..1.
    pub(crate) fn ks_uniform(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let distance = |(i, v): (usize, &f64)| (v - i as f64 / n).abs().max(((i + 1) as f64 / n - v).abs());
        values.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
    }

    /// Critical value of √n·D at significance 0.001.
    pub(crate) const KS_LIMIT: f64 = 1.95;

    #[test]
    fn constant_is_evenly_spaced_over_any_number_of_workers() {
        for workers in [1, 3] {
            let mut all: Vec<f64> = (0..workers)
                .flat_map(|w| {
                    until(
                        StartTimes::new(
                            ArrivalProcess::Constant,
                            &[segment(100.0, 100.0, 1.0)],
                            1,
                            w,
                            workers,
                        ),
                        2.0,
                    )
                })
                .collect();
            all.sort_by(f64::total_cmp);
            assert_eq!(all.len(), 200);
            for (i, t) in all.iter().enumerate() {
                assert!((t - i as f64 / 100.0).abs() < 1e-8, "{i} {t}");
            }
        }
    }

    #[test]
    fn poisson_passes_dispersion_and_ks() {
        for (rate, workers) in [(1_000.0, 1), (5_000.0, 2), (20_000.0, 4), (50_000.0, 1), (50_000.0, 2)] {
            let profile = [segment(rate, rate, 1.0)];
            let mut all: Vec<f64> = (0..workers)
                .flat_map(|w| until(StartTimes::new(ArrivalProcess::Poisson, &profile, 42, w, workers), 20.0))
                .collect();
            all.sort_by(f64::total_cmp);
            let n = all.len() as f64;
            assert!((n - 20.0 * rate).abs() < 4.0 * (20.0 * rate).sqrt(), "{n} starts at {rate}");
            // Times of a Poisson process are uniform, given their number; gaps are exponential.
            assert!(ks_uniform(all.iter().map(|t| t / 20.0).collect()) < KS_LIMIT);
            let gaps = all.windows(2).map(|w| 1.0 - (-(w[1] - w[0]) * rate).exp()).collect();
            assert!(ks_uniform(gaps) < KS_LIMIT, "gaps at {rate}");
            // Index of dispersion of counts in 2,000 windows: 1 ± 4·sqrt(2/1999).
            let mut counts = vec![0.0_f64; 2_000];
            for t in &all {
                counts[(t * 100.0) as usize] += 1.0;
            }
            let mean = n / 2_000.0;
            let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 1_999.0;
            assert!((variance / mean - 1.0).abs() < 0.127, "dispersion {} at {rate}", variance / mean);
        }
    }

    #[test]
    fn poisson_follows_a_ramp_and_a_step() {
        let profile = [segment(0.0, 2_000.0, 10.0), segment(0.0, 0.0, 5.0), segment(500.0, 500.0, 10.0)];
        let all = until(StartTimes::new(ArrivalProcess::Poisson, &profile, 7, 0, 1), 25.0);
        let ramp: Vec<f64> = all.iter().copied().filter(|t| *t < 10.0).collect();
        assert!((ramp.len() as f64 - 10_000.0).abs() < 400.0, "{}", ramp.len());
        assert!(ks_uniform(ramp.iter().map(|t| (t / 10.0).powi(2)).collect()) < KS_LIMIT);
        assert_eq!(all.iter().filter(|t| (10.0..15.0).contains(*t)).count(), 0);
        let step = all.iter().filter(|t| **t >= 15.0).count() as f64;
        assert!((step - 5_000.0).abs() < 290.0, "{step}");
    }

    #[test]
    fn a_rate_of_zero_never_comes() {
        for profile in [vec![], vec![segment(0.0, 0.0, 1.0)]] {
            assert_eq!(StartTimes::new(ArrivalProcess::Poisson, &profile, 1, 0, 1).next(), None);
            assert_eq!(StartTimes::new(ArrivalProcess::Constant, &profile, 1, 0, 1).next(), None);
        }
        let down = StartTimes::new(ArrivalProcess::Constant, &[segment(10.0, 0.0, 2.0)], 1, 0, 1);
        assert_eq!(down.count(), 10);
    }

    #[test]
    fn the_seed_decides() {
        let of = |seed, worker| {
            until(StartTimes::new(ArrivalProcess::Poisson, &[segment(1e3, 1e3, 1.0)], seed, worker, 2), 1.0)
        };
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(2, 0));
        assert_ne!(of(1, 0), of(1, 1));
    }

    proptest! {
        #[test]
        fn starts_never_go_back(
            rates in proptest::collection::vec((0.0_f64..1e5, 0.0_f64..1e5, 0_u64..2_000), 1..6),
            poisson in any::<bool>(),
        ) {
            let profile: Vec<Segment> = rates
                .iter()
                .map(|(from, to, ms)| Segment { from: Rate(*from), to: Rate(*to), duration: Nanos::from_millis(*ms) })
                .collect();
            let process = if poisson { ArrivalProcess::Poisson } else { ArrivalProcess::Constant };
            let mut last = Nanos::ZERO;
            for start in StartTimes::new(process, &profile, 3, 0, 1).take(2_000) {
                prop_assert!(start >= last);
                last = start;
            }
        }
    }
}
