//! What `vtax load` prints.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use vtax_load::search::{Bracket, Ending};
use vtax_load::{ConnectionPool, Errors, LatencyHistogram, LoadResult, Model, RequestStep, Sample};
use vtax_units::{Nanos, Share};

use super::end::{End, Ended};
use super::request_load::{RequestLoad, RequestSpec};
use super::{desktop, ftp, http, sip};
use crate::exit::Failure;
use crate::out;

/// Quantiles that are printed.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// The file for `--samples-out`.
pub(super) struct Samples {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Samples {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    pub(super) fn write(mut self, samples: &[Sample]) -> Result<()> {
        self.put(samples).with_context(|| format!("writing {}", self.path.display()))
    }

    fn put(&mut self, samples: &[Sample]) -> io::Result<()> {
        let failures = Errors::default().classes().map(|(class, _)| class);
        let outcomes: Vec<&str> = std::iter::once("ok").chain(failures).collect();
        writeln!(self.file, "start_ns,latency_ns,outcome")?;
        for sample in samples {
            let outcome = outcomes.get(usize::from(sample.outcome)).copied().unwrap_or("other");
            writeln!(self.file, "{},{},{outcome}", sample.start_ns, sample.latency_ns)?;
        }
        self.file.flush()
    }
}

/// The result with the figures a script wants without decoding histograms.
#[derive(Serialize)]
struct Report<'a, R> {
    url: &'a str,
    spec: Asked<'a, R>,
    #[serde(flatten)]
    end: &'a End,
    /// Successful answers per second.
    rate: Option<f64>,
    latency_ns: Option<Summary>,
    lateness_ns: Option<Summary>,
    /// `None` where the load was interrupted before anything was measured.
    result: Option<&'a LoadResult>,
}

/// What was asked for, as one object.
#[derive(Serialize)]
struct Asked<'a, R> {
    #[serde(flatten)]
    pool: &'a ConnectionPool,
    protocol: Protocol<'a, R>,
    #[serde(flatten)]
    step: &'a RequestStep,
}

#[derive(Serialize)]
struct Protocol<'a, R> {
    kind: &'static str,
    #[serde(flatten)]
    requests: &'a R,
}

#[derive(Serialize)]
struct Summary {
    mean: u64,
    p50: u64,
    p90: u64,
    p95: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl Summary {
    /// Nothing where nothing was recorded.
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

pub(super) fn json<S: RequestSpec>(
    load: &RequestLoad<S>,
    result: Option<&LoadResult>,
    end: &End,
) -> Result<(), Failure> {
    out::json(&Report {
        url: &load.target,
        spec: Asked {
            pool: load.spec.pool(),
            protocol: Protocol { kind: S::FAMILY, requests: load.spec.requests() },
            step: &load.step,
        },
        end,
        rate: result.map(|result| result.throughput().0),
        latency_ns: result.and_then(|result| Summary::of(&result.latency)),
        lateness_ns: result.and_then(|result| Summary::of(&result.lateness)),
        result,
    })
}

/// A duration as people read latencies.
pub(super) fn millis(duration: Nanos) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1e3)
}

/// A figure of what was recorded, or a dash where nothing was.
pub(super) fn figure(recorded: &LatencyHistogram, figure: String) -> String {
    if recorded.is_empty() { "-".to_owned() } else { figure }
}

pub(super) fn table<S: RequestSpec>(
    load: &RequestLoad<S>,
    result: &LoadResult,
    end: &End,
) -> Result<(), Failure> {
    let mut text = String::new();
    put_table(&mut text, load, result).context("writing the result")?;
    out::text(&(text + &end.lines()))
}

fn put_table<S: RequestSpec>(out: &mut String, load: &RequestLoad<S>, result: &LoadResult) -> fmt::Result {
    let open = matches!(load.step.model, Model::Open { .. });
    let model = if open { "open loop" } else { "closed loop" };
    writeln!(
        out,
        "{}  {model}, {} connections, {:.1} s",
        load.target,
        load.spec.pool().connections,
        result.duration.as_secs_f64()
    )?;
    writeln!(out, "\nanswered  {:.1}/s", result.throughput().0)?;
    if open {
        let offered = result.counts.intended as f64 / result.duration.as_secs_f64();
        writeln!(out, "offered   {offered:.1}/s, {:.3} % lost", 100.0 * result.counts.loss())?;
    }
    put_counts(out, result, S::FAMILY)?;
    if let Some(details) = &result.details {
        if let Some(found) = &details.ftp {
            ftp::put_details(out, found, result.duration)?;
        }
        if let Some(found) = &details.http {
            http::put_details(out, found, result.duration)?;
        }
        if let Some(found) = &details.desktop {
            desktop::put_details(out, found)?;
        }
        if let Some(found) = &details.script {
            sip::script::put_details(out, found)?;
        }
    }
    write!(out, "\n{:<10}", "")?;
    for (name, _) in QUANTILES {
        write!(out, "{name:>11}")?;
    }
    writeln!(out, "{:>11}{:>11}", "max", "mean")?;
    put_quantiles(out, "latency", &result.latency)?;
    if open {
        put_quantiles(out, "lateness", &result.lateness)?;
    }
    let generator = &result.generator;
    writeln!(
        out,
        "\ngenerator {} workers, busiest {:.0} % of its CPU, {:.2} s user + {:.2} s system",
        generator.workers,
        100.0 * generator.busiest,
        generator.cpu_user.as_secs_f64(),
        generator.cpu_system.as_secs_f64()
    )
}

/// What became of the requests, and what went over the network.
fn put_counts(out: &mut String, result: &LoadResult, family: &str) -> fmt::Result {
    let counts = &result.counts;
    writeln!(
        out,
        "requests  {} intended, {} sent, {} ok, {} failed, {} missed, {} unfinished",
        counts.intended,
        counts.sent,
        counts.ok,
        counts.errors.total(),
        counts.missed,
        counts.unfinished
    )?;
    let failures = counts.errors.classes().into_iter().filter(|(_, n)| *n > 0);
    let failures: Vec<String> = failures.map(|(class, n)| format!("{n} {class}")).collect();
    if !failures.is_empty() {
        writeln!(out, "failures  {}", failures.join(", "))?;
    }
    let status = (1..).zip(counts.status).filter(|(_, n)| *n > 0);
    let status: Vec<String> = status.map(|(class, n)| format!("{n} x {class}xx")).collect();
    // Only HTTP has a status for each answer.
    if !status.is_empty() || family == "http" {
        writeln!(out, "answers   {}", if status.is_empty() { "none".to_owned() } else { status.join(", ") })?;
    }
    let per_second = |bytes: u64| bytes as f64 / result.duration.as_secs_f64() / 1e6;
    writeln!(
        out,
        "transfer  {:.3} MB/s received, {:.3} MB/s sent, {} connections opened after the warm-up",
        per_second(counts.bytes_received),
        per_second(counts.bytes_sent),
        counts.connects
    )
}

fn put_quantiles(out: &mut String, name: &str, histogram: &LatencyHistogram) -> fmt::Result {
    write!(out, "{name:<10}")?;
    let quantiles = QUANTILES.map(|(_, q)| histogram.quantile(q));
    for duration in quantiles.into_iter().chain([histogram.max(), histogram.mean()]) {
        write!(out, "{:>11}", figure(histogram, format!("{:.3}", duration.as_secs_f64() * 1e3)))?;
    }
    writeln!(out, "  ms")
}

pub(super) fn search_json(target: &str, bracket: &Bracket, ended: Ended) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Found<'a> {
        url: &'a str,
        ended: Ended,
        capacity: &'a Bracket,
    }
    out::json(&Found { url: target, ended, capacity: bracket })
}

/// `latency` are the limits of its 95th and 99th percentiles.
pub(super) fn search_text(
    bracket: &Bracket,
    latency: (Option<Nanos>, Option<Nanos>),
    loss: Share,
) -> Result<(), Failure> {
    let of =
        |name: &str, limit: Option<Nanos>| limit.map(|limit| format!("{name} at most {}, ", millis(limit)));
    let limits: String = [of("p95", latency.0), of("p99", latency.1)].into_iter().flatten().collect();
    let limits = format!("{limits}loss at most {loss}");
    let lower = bracket.lower.map_or(0.0, |rate| rate.0);
    let upper = bracket.upper.map_or(f64::INFINITY, |rate| rate.0);
    let found = match bracket.ending {
        Ending::Found => format!("between {lower:.0}/s and {upper:.0}/s"),
        Ending::AtMax => format!("at least {lower:.0}/s, the highest rate allowed (--max)"),
        Ending::GeneratorLimited => format!("at least {lower:.0}/s; the generator can't offer more"),
        Ending::NothingPassed => format!("none; even {upper:.1}/s was too much"),
        Ending::StepsSpent | Ending::Unfinished => {
            format!("between {lower:.0}/s and {upper:.0}/s so far; the search did not end")
        }
    };
    let steps = bracket.steps.len();
    out::text(&format!("capacity ({limits}): {found}; {steps} steps\n"))
}

/// Mean and p99 of times.
pub(super) fn times(histogram: &LatencyHistogram) -> String {
    if histogram.is_empty() {
        return "-".to_owned();
    }
    let p99 = histogram.quantile(0.99);
    format!("{} (p99 {})", millis(histogram.mean()), millis(p99))
}

#[cfg(test)]
mod tests {
    use vtax_load::{Counts, GeneratorUse};

    use super::*;

    #[test]
    fn connections_of_before_the_recorded_time_are_not_said_to_be_missing() {
        let mut text = String::new();
        let result = LoadResult {
            duration: Nanos::from_secs(1),
            started_unix_ns: 0,
            counts: Counts::default(),
            latency: LatencyHistogram::new(),
            lateness: LatencyHistogram::new(),
            intervals: Vec::new(),
            connections: Vec::new(),
            generator: GeneratorUse::default(),
            samples: Vec::new(),
            details: None,
        };
        put_counts(&mut text, &result, "redis").unwrap();
        assert!(text.ends_with("0 connections opened after the warm-up\n"), "{text}");
    }

    #[test]
    fn the_95th_percentile_stands_beside_the_99th() {
        let mut histogram = LatencyHistogram::new();
        (1..=1_000).for_each(|ms| histogram.record(Nanos::from_millis(ms)));
        let mut text = String::new();
        put_quantiles(&mut text, "latency", &histogram).unwrap();
        let columns: Vec<&str> = text.split_whitespace().collect();
        let of = |name: &str| {
            let place = 1 + QUANTILES.iter().position(|(quantile, _)| *quantile == name).unwrap();
            columns[place].parse::<f64>().unwrap().round()
        };
        // Within the histogram's three digits.
        assert!((of("p95") - 950.0).abs() <= 1.0 && (of("p99") - 990.0).abs() <= 1.0, "{text}");
        assert!(Summary::of(&histogram).is_some_and(|s| s.p95 < s.p99));
    }
}
