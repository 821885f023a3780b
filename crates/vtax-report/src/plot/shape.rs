//! Forms of a distribution and of a course over time, small enough to draw.

use hdrhistogram::Histogram;

/// Bins per decade: neighbours are 10 % apart.
const PER_DECADE: f64 = 24.0;
/// Lower edge of the first bin: 1 µs in milliseconds.
const LOWEST_MS: f64 = 1e-3;
/// Bins up to an hour.
const BINS: usize = 230;

/// How many values fell into each of fixed bins of equal factors, from 1 µs to an hour.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogBins {
    counts: Vec<u64>,
    total: u64,
}

impl LogBins {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BINS], total: 0 }
    }

    /// Adds a histogram of nanoseconds.
    pub(crate) fn add(&mut self, histogram: &Histogram<u64>) {
        for v in histogram.iter_recorded() {
            let ms = histogram.median_equivalent(v.value_iterated_to()) as f64 / 1e6;
            let bin = ((ms / LOWEST_MS).log10() * PER_DECADE).clamp(0.0, (BINS - 1) as f64) as usize;
            let count = v.count_since_last_iteration();
            self.counts[bin] = self.counts[bin].saturating_add(count);
            self.total = self.total.saturating_add(count);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Lower edge of a bin in milliseconds.
    fn edge(bin: usize) -> f64 {
        LOWEST_MS * 10f64.powf(bin as f64 / PER_DECADE)
    }

    /// The used bins with the empty ones between them: lower edge, upper edge, count; `merge`
    /// neighbours become one.
    pub(crate) fn bars(&self, merge: usize) -> Vec<(f64, f64, u64)> {
        let merge = merge.max(1);
        let Some(first) = self.counts.iter().position(|c| *c > 0) else { return Vec::new() };
        let last = self.counts.iter().rposition(|c| *c > 0).unwrap_or(first);
        (first / merge..=last / merge)
            .map(|i| {
                let (from, to) = (i * merge, ((i + 1) * merge).min(BINS));
                (Self::edge(from), Self::edge(to), self.counts[from..to].iter().sum())
            })
            .collect()
    }

    /// Share of values above each bin's upper edge; falls from 1 to 0.
    pub(crate) fn exceedance(&self) -> Vec<(f64, f64)> {
        let Some(first) = self.counts.iter().position(|c| *c > 0) else { return Vec::new() };
        let mut above = self.total;
        let mut points = vec![(Self::edge(first), 1.0)];
        for (bin, count) in self.counts.iter().enumerate().skip(first) {
            above = above.saturating_sub(*count);
            points.push((Self::edge(bin + 1), above as f64 / self.total as f64));
            if above == 0 {
                break;
            }
        }
        points
    }
}

/// Whole numbers with how often each occurred, as bars of equal width: at most about `most` of them.
pub(crate) fn count_bars(values: impl IntoIterator<Item = f64>, most: usize) -> Vec<(f64, f64, u64)> {
    let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite() && *v >= 0.0).collect();
    let (Some(low), Some(high)) =
        (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max))
    else {
        return Vec::new();
    };
    let width = ((high - low + 1.0) / most.max(1) as f64).ceil().max(1.0);
    let first = (low / width).floor();
    let bins = ((high / width).floor() - first) as usize + 1;
    let mut counts = vec![0u64; bins];
    for v in &values {
        counts[(((v / width).floor() - first) as usize).min(bins - 1)] += 1;
    }
    let edge = |i: usize| (first + i as f64) * width;
    counts.iter().enumerate().map(|(i, c)| (edge(i), edge(i + 1), *c)).collect()
}

/// Share of values above each of them; falls from 1 to 0. At most about `most` points.
pub(crate) fn exceedance(values: impl IntoIterator<Item = f64>, most: usize) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(&first), n) = (sorted.first(), sorted.len()) else { return Vec::new() };
    let mut points = vec![(first, 1.0)];
    let every = n.div_ceil(most.max(1)).max(1);
    for i in 0..n {
        // The last of equal values; the tail, which is what the picture is for, is kept whole.
        let last_of_equals = i + 1 == n || sorted[i + 1] > sorted[i];
        if last_of_equals && (i % every == 0 || n - i <= 40 || every == 1) {
            points.push((sorted[i], (n - 1 - i) as f64 / n as f64));
        }
    }
    points
}

/// Share of seconds in which a Poisson process of this rate has between `from` and `to - 1` events.
pub(crate) fn poisson_share(rate: f64, from: f64, to: f64) -> f64 {
    if !(rate > 0.0 && rate.is_finite()) {
        return 0.0;
    }
    // Forty deviations away there is nothing; between them there may be billions of numbers.
    let reach = 40.0 * rate.sqrt() + 40.0;
    let from = from.max(rate - reach).clamp(0.0, 1e9).ceil() as u64;
    let to = to.min(rate + reach).clamp(0.0, 1e9).ceil() as u64;
    // In logarithms: e^-rate alone is nothing for a rate of a thousand.
    let log_at = |k: u64| k as f64 * rate.ln() - rate - log_factorial(k);
    (from..to).map(|k| log_at(k).exp()).sum()
}

fn log_factorial(k: u64) -> f64 {
    if k < 64 {
        return (2..=k).map(|i| (i as f64).ln()).sum();
    }
    // Stirling with two terms of its series: below 1e-9 from 64 on.
    let k = k as f64;
    k * k.ln() - k + 0.5 * (std::f64::consts::TAU * k).ln() + 1.0 / (12.0 * k) - 1.0 / (360.0 * k.powi(3))
}

/// Values of one column of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bin {
    pub(crate) low: f64,
    pub(crate) mean: f64,
    pub(crate) high: f64,
}

/// A value over time: when, lowest, mean and highest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moment {
    pub(crate) at: f64,
    pub(crate) low: f64,
    pub(crate) mean: f64,
    pub(crate) high: f64,
}

impl Moment {
    /// One value.
    pub(crate) fn of(at: f64, value: f64) -> Self {
        Self { at, low: value, mean: value, high: value }
    }
}

/// Reduces a course over `seconds` to `columns`: each holds the extremes and the mean of its part.
///
/// An empty column between two that belong together is filled in where `gap` seconds bridge it.
pub(crate) fn bands(
    moments: impl IntoIterator<Item = Moment>,
    seconds: f64,
    columns: usize,
) -> Vec<Option<Bin>> {
    let columns = columns.max(1);
    let mut sums = vec![0.0f64; columns];
    let mut counts = vec![0u32; columns];
    let mut bins: Vec<Option<Bin>> = vec![None; columns];
    for m in moments {
        if ![m.at, m.low, m.mean, m.high].iter().all(|v| v.is_finite()) || m.at < 0.0 || seconds <= 0.0 {
            continue;
        }
        let i = ((m.at / seconds * columns as f64) as usize).min(columns - 1);
        sums[i] += m.mean;
        counts[i] += 1;
        let bin = bins[i].get_or_insert(Bin { low: m.low, mean: m.mean, high: m.high });
        bin.low = bin.low.min(m.low);
        bin.high = bin.high.max(m.high);
        bin.mean = (sums[i] / f64::from(counts[i])).clamp(bin.low, bin.high);
    }
    bins
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_poisson_distribution_adds_up() {
        for rate in [0.5, 3.0, 50.0, 100.0, 2500.0] {
            let all = poisson_share(rate, 0.0, rate * 3.0 + 60.0);
            assert!((all - 1.0).abs() < 1e-6, "{rate}: {all}");
        }
        assert!((poisson_share(100.0, 100.0, 101.0) - 0.039_861).abs() < 1e-6);
        assert_eq!(poisson_share(f64::NAN, 0.0, 9.0), 0.0);
        // However wide a hostile bar is, it takes no time.
        assert!((poisson_share(100.0, 0.0, 1e18) - 1.0).abs() < 1e-6);
        assert_eq!(poisson_share(1e300, 0.0, 1e300), 0.0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_in_bins(values in proptest::collection::vec(0u64..4_000_000_000_000, 1..200), merge in 1usize..9) {
            let mut h = vtax_load::LatencyHistogram::new();
            values.iter().for_each(|v| h.record(vtax_units::Nanos(*v)));
            let mut bins = LogBins::new();
            bins.add(&h.0);
            let bars = bins.bars(merge);
            prop_assert_eq!(bars.iter().map(|b| b.2).sum::<u64>(), values.len() as u64);
            prop_assert!(bars.windows(2).all(|w| (w[0].1 / w[1].0 - 1.0).abs() < 1e-9));
            falls(&bins.exceedance());
        }

        #[test]
        fn counted_values_stay(values in proptest::collection::vec(0u32..5000, 0..300), most in 1usize..60) {
            let values = || values.iter().map(|v| f64::from(*v));
            let bars = count_bars(values(), most);
            prop_assert_eq!(bars.iter().map(|b| b.2).sum::<u64>() as usize, values().count());
            prop_assert!(bars.len() <= most + 1);
            if values().count() > 0 {
                falls(&exceedance(values(), most));
            }
        }

        #[test]
        fn a_band_holds_its_mean(values in proptest::collection::vec(any::<f64>(), 0..300), columns in 1usize..60) {
            let n = values.len() as f64;
            let moments = values.iter().enumerate().map(|(i, v)| Moment::of(i as f64, v % 1e100));
            for bin in bands(moments, n, columns).into_iter().flatten() {
                prop_assert!(bin.low <= bin.mean && bin.mean <= bin.high, "{:?}", bin);
            }
        }
    }

    fn falls(points: &[(f64, f64)]) {
        assert_eq!(points.first().map(|p| p.1), Some(1.0));
        assert_eq!(points.last().map(|p| p.1), Some(0.0));
        assert!(points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 >= w[1].1), "{points:?}");
    }
}
