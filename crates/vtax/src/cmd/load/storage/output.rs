//! What `vtax load storage` prints.

use std::fmt::Write as _;

use serde::Serialize;
use vtax_load::LatencyHistogram;
use vtax_load::storage::{StorageResult, StorageStep};
use vtax_units::Nanos;

use super::Ran;
use crate::cmd::load::end::LoadEnd;
use crate::exit::Failure;
use crate::out;

/// What the columns of amounts are.
const COLUMNS: &str = "sum: what each process had while it was busy, added up (iozone's children); whole: all bytes until the last process \
                       ended, its sync included (iozone's parent)\n";

/// One operation with the figures a script wants without decoding histograms.
#[derive(Serialize)]
struct Report<'a> {
    operation: String,
    step: &'a StorageStep,
    /// Operations per second over the recorded time.
    iops: f64,
    /// Bytes per second: the sum of what each process had for itself, and over all until durable.
    children: f64,
    parent: f64,
    until_durable_ns: Option<Nanos>,
    latency_ns: Option<Quantiles>,
    lateness_ns: Option<Quantiles>,
    /// CPU time of the generator, and operations per second of it.
    cpu_seconds: f64,
    invalid: Option<&'a str>,
    result: &'a StorageResult,
}

#[derive(Serialize)]
struct Quantiles {
    mean: u64,
    p50: u64,
    p90: u64,
    p95: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl Quantiles {
    fn of(histogram: &LatencyHistogram) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            mean: histogram.mean().0,
            p50: histogram.quantile(0.5).0,
            p90: histogram.quantile(0.9).0,
            p95: histogram.quantile(0.95).0,
            p99: histogram.quantile(0.99).0,
            p999: histogram.quantile(0.999).0,
            max: histogram.max().0,
        })
    }
}

fn cpu_seconds(result: &StorageResult) -> f64 {
    let generator = &result.load.generator;
    generator.cpu_user.as_secs_f64() + generator.cpu_system.as_secs_f64()
}

pub(super) fn json(target: &str, ran: &[Ran], end: &LoadEnd) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct All<'a> {
        target: &'a str,
        #[serde(flatten)]
        end: &'a LoadEnd,
        operations: Vec<Report<'a>>,
    }
    let operations = ran.iter().map(|ran| Report {
        operation: ran.step.operation.word(),
        step: &ran.step,
        iops: ran.result.iops(),
        children: ran.result.children(),
        parent: ran.result.parent(),
        until_durable_ns: ran.result.until_durable(),
        latency_ns: Quantiles::of(&ran.result.load.latency),
        lateness_ns: Quantiles::of(&ran.result.load.lateness),
        cpu_seconds: cpu_seconds(&ran.result),
        invalid: ran.invalid.as_deref(),
        result: &ran.result,
    });
    out::json(&All { target, end, operations: operations.collect() })
}

pub(super) fn table(target: &str, ran: &[Ran], end: &LoadEnd) -> Result<(), Failure> {
    let mut text = String::new();
    if let Some(first) = ran.first() {
        let shape = &first.step.shape;
        let _ = writeln!(
            text,
            "{target}  {} x {} in records of {}, depth {}, {}",
            shape.processes, shape.file, shape.record, shape.depth, first.result.facts.what
        );
    }
    let _ = writeln!(
        text,
        "\n{:<14}{:>10}{:>12}{:>12}{:>10}{:>10}{:>10}{:>10}{:>9}",
        "", "/s", "sum", "whole", "durable", "p50", "p99", "max", "CPU"
    );
    let _ = writeln!(
        text,
        "{:<14}{:>10}{:>12}{:>12}{:>10}{:>10}{:>10}{:>10}{:>9}",
        "", "", "MB/s", "MB/s", "ms", "ms", "ms", "ms", "s"
    );
    for ran in ran {
        put_row(&mut text, ran);
    }
    text += COLUMNS;
    for ran in ran {
        put_notes(&mut text, ran);
    }
    out::text(&(text + &end.lines()))
}

fn put_row(text: &mut String, ran: &Ran) {
    let result = &ran.result;
    let latency = &result.load.latency;
    let millis =
        |time: Nanos| super::super::output::figure(latency, format!("{:.3}", time.as_secs_f64() * 1e3));
    let data = |bytes: f64| if result.bytes() == 0 { "-".to_owned() } else { format!("{:.1}", bytes / 1e6) };
    let durable =
        result.until_durable().map_or_else(|| "-".to_owned(), |t| format!("{:.1}", t.as_secs_f64() * 1e3));
    let _ = writeln!(
        text,
        "{:<14}{:>10.0}{:>12}{:>12}{durable:>10}{:>10}{:>10}{:>10}{:>9.2}",
        ran.step.operation.word(),
        result.iops(),
        data(result.children()),
        data(result.parent()),
        millis(latency.quantile(0.5)),
        millis(latency.quantile(0.99)),
        millis(latency.max()),
        cpu_seconds(result),
    );
}

/// What is worth a line of its own.
fn put_notes(text: &mut String, ran: &Ran) {
    let (result, word) = (&ran.result, ran.step.operation.word());
    let lateness = &result.load.lateness;
    if !lateness.is_empty() {
        let counts = &result.load.counts;
        let offered = counts.intended as f64 / result.load.duration.as_secs_f64();
        let _ = writeln!(
            text,
            "{word}: offered {offered:.1}/s, {:.3} % lost, lateness p50 {:.3} ms, p99 {:.3} ms",
            100.0 * counts.loss(),
            lateness.quantile(0.5).as_secs_f64() * 1e3,
            lateness.quantile(0.99).as_secs_f64() * 1e3,
        );
    }
    if let Some(answered) = result.answered_by_cache() {
        let _ = writeln!(text, "{word}: {answered}");
    }
    if result.verified.records > 0 {
        let _ = writeln!(
            text,
            "{word}: {} records compared, {} wrong, {} uncertain",
            result.verified.records,
            result.verified.wrong(),
            result.verified.uncertain
        );
    }
    if let Some(why) = &ran.invalid {
        let _ = writeln!(text, "{word} doesn't count: {why}");
    }
}
