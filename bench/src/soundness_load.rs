//! Do histograms and the open loop say what theory says?

use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use vtax_load::{ArrivalProcess, LatencyHistogram, Segment, StartTimes};
use vtax_units::{Nanos, Rate};

use crate::soundness_row::Row;

const SETS: u32 = 400;

const SECOND: u64 = 1_000_000_000;
/// The frozen server: 1 s of every 10, 100 µs a request, one at a time.
const PERIOD: u64 = 10 * SECOND;
const FREEZE: u64 = SECOND;
const SERVICE: u64 = 100_000;
const RATE: f64 = 1000.0;
const CYCLES: u64 = 20;
/// Connections of the closed loop.
const CLOSED: usize = 10;

/// The rows of this suite.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let mut rng = StdRng::seed_from_u64(9);
    let crossed = (0..SETS).filter(|_| crosses(&mut rng)).count();
    let mut other_merges = 0;
    for _ in 0..SETS / 5 {
        other_merges += u32::from(!merges_alike(&mut rng)?);
    }
    let (open, closed) = (open_loop(), closed_loop());
    // An arrival u seconds into the freeze waits for its end, and for what came before it: 1 - u (1 - ρ)
    // with the load ρ. That is evenly spread between 1 s and 0 over 1/(1 - ρ) of every 10 s, so the
    // slowest hundredth, 0.1 s of arrivals, begins at 1 - 0.1 (1 - ρ).
    let load = RATE * SERVICE as f64 / SECOND as f64;
    let theory = |q: f64| 1.0 - (1.0 - q) * (PERIOD / SECOND) as f64 * (1.0 - load);
    let found = |h: &LatencyHistogram, q: f64| h.quantile(q).as_secs_f64();
    let off = |q: f64| (found(&open, q) / theory(q) - 1.0).abs() * 100.0;
    Ok(vec![
        Row::at_most("percentiles that cross, of 400 sets of values", crossed as f64, "", 0.0),
        Row::at_most(
            "histograms that depend on the order of merging, of 80",
            f64::from(other_merges),
            "",
            0.0,
        ),
        Row::at_most("frozen server, open loop: p99 off theory (0.91 s)", off(0.99), "%", 1.0),
        Row::at_most("frozen server, open loop: p95 off theory (0.55 s)", off(0.95), "%", 1.0),
        Row::at_least(
            "frozen server: p99 of the open over the closed loop (why)",
            found(&open, 0.99) / found(&closed, 0.99),
            "x",
            100.0,
        ),
    ])
}

/// Durations of any size, from many scales.
fn values(rng: &mut StdRng) -> Vec<u64> {
    let n = rng.random_range(1..200);
    (0..n).map(|_| rng.random_range(0..u64::MAX) >> rng.random_range(0..63)).collect()
}

fn histogram(values: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    values.iter().for_each(|v| histogram.record(Nanos(*v)));
    histogram
}

/// True where a higher percentile of the same values is lower.
fn crosses(rng: &mut StdRng) -> bool {
    let values = values(rng);
    let histogram = histogram(&values);
    let floats: Vec<f64> = values.iter().map(|v| *v as f64).collect();
    let steps = || (0..=100).map(|i| f64::from(i) / 100.0);
    let counted: Vec<Nanos> = steps().map(|q| histogram.quantile(q)).collect();
    let exact: Vec<Option<f64>> = steps().map(|q| vtax_stats::quantile(&floats, q)).collect();
    !counted.is_sorted() || !exact.is_sorted()
}

/// True where histograms merged in two random orders are the same to the byte.
fn merges_alike(rng: &mut StdRng) -> Result<bool> {
    let mut parts: Vec<LatencyHistogram> = (0..8).map(|_| histogram(&values(rng))).collect();
    let mut merged = || -> Result<String> {
        parts.shuffle(rng);
        let mut all = LatencyHistogram::new();
        parts.iter().for_each(|p| all.add(p));
        all.to_base64().map_err(anyhow::Error::msg)
    };
    Ok(merged()? == merged()?)
}

/// When a request that the server could take up at `at` is answered.
fn answered(at: u64) -> u64 {
    let frozen = PERIOD - FREEZE;
    // Time stands still for the server from the 9th to the 10th second.
    let begin = if at % PERIOD >= frozen { at - at % PERIOD + PERIOD } else { at };
    let end = begin + SERVICE;
    if end % PERIOD >= frozen { end + FREEZE } else { end }
}

/// Latency from the intended start, as the load engine counts it.
fn open_loop() -> LatencyHistogram {
    let end = CYCLES * PERIOD;
    let segment = Segment { from: Rate(RATE), to: Rate(RATE), duration: Nanos(end) };
    let starts = StartTimes::new(ArrivalProcess::Constant, &[segment], 1, 0, 1);
    let mut histogram = LatencyHistogram::new();
    let mut free = 0;
    for start in starts.take_while(|s| s.0 < end) {
        free = answered(start.0.max(free));
        histogram.record(Nanos(free - start.0));
    }
    histogram
}

/// Each connection sends its next request when it has its answer: while the server stands still, so
/// does the clock of what is measured.
fn closed_loop() -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    let mut starts = [0u64; CLOSED];
    let mut free = 0;
    let mut next = 0;
    while free < CYCLES * PERIOD {
        free = answered(starts[next].max(free));
        histogram.record(Nanos(free - starts[next]));
        starts[next] = free;
        next = (next + 1) % CLOSED;
    }
    histogram
}
