//! What `vtax load` prints.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use vtax_load::search::{Bracket, Ending};
use vtax_load::{ConnectionPool, Errors, LatencyHistogram, LoadResult, Model, RequestStep, Sample};
use vtax_units::{Nanos, Rate, Share, counted};

use super::end::{Completion, LoadEnd};
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
    spec: RequestedLoad<'a, R>,
    #[serde(flatten)]
    end: &'a LoadEnd,
    /// Successful answers per second; of an open loop those that came within the recorded time.
    rate: Option<f64>,
    latency_ns: Option<Summary>,
    lateness_ns: Option<Summary>,
    /// `None` where the load was interrupted before anything was measured.
    result: Option<&'a LoadResult>,
}

/// What was asked for, as one object.
#[derive(Serialize)]
struct RequestedLoad<'a, R> {
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
    end: &LoadEnd,
) -> Result<(), Failure> {
    out::json(&Report {
        url: &load.target,
        spec: RequestedLoad {
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
    end: &LoadEnd,
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
        "{}  {model}, {}, {:.1} s",
        load.target,
        carried_by(S::FAMILY, open, load.spec.pool().connections),
        result.duration.as_secs_f64()
    )?;
    writeln!(out, "\nsucceeded {:.1}/s", result.throughput().0)?;
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
        "\ngenerator {}, busiest {:.0} % of its CPU, {:.2} s user + {:.2} s system",
        counted(generator.workers, "worker"),
        100.0 * generator.busiest,
        generator.cpu_user.as_secs_f64(),
        generator.cpu_system.as_secs_f64()
    )
}

/// What carries a load: an open loop takes no more connections than it needs.
fn carried_by(family: &str, open: bool, count: u32) -> String {
    match (family, open) {
        ("sip", _) => format!("at most {} at once", counted(count, "call")),
        ("desktop", _) => counted(count, "desktop"),
        (_, true) => format!("at most {}", counted(count, "connection")),
        (_, false) => counted(count, "connection"),
    }
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
        "transfer  {:.3} MB/s received, {:.3} MB/s sent, {} opened after the warm-up",
        per_second(counts.bytes_received),
        per_second(counts.bytes_sent),
        counted(counts.connects, "connection")
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

pub(super) fn search_json(target: &str, bracket: &Bracket, ended: Completion) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct SearchOutput<'a> {
        url: &'a str,
        ended: Completion,
        capacity: &'a Bracket,
    }
    out::json(&SearchOutput { url: target, ended, capacity: bracket })
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
    let steps = counted(bracket.steps.len(), "step");
    out::text(&format!("capacity ({limits}): {}; {steps}\n", known(bracket)))
}

/// What a search knows of the capacity, in words.
pub(super) fn known(bracket: &Bracket) -> String {
    let [lower, upper] = [bracket.lower, bracket.upper].map(|rate| rate.map(per_second));
    match (bracket.ending, lower, upper) {
        (Ending::Found, Some(lower), Some(upper)) => format!("between {lower} and {upper}"),
        (Ending::AtMax, Some(lower), _) => format!("at least {lower}, the highest rate allowed (--max)"),
        (Ending::GeneratorLimited, Some(lower), _) => {
            format!("at least {lower}; the generator can't offer more")
        }
        (Ending::GeneratorLimited, None, _) => "not known: the generator can't offer any rate".to_owned(),
        (Ending::NothingPassed, _, Some(upper)) => format!("none; even {upper} was too much"),
        (Ending::NothingPassed, _, None) => "none".to_owned(),
        (_, Some(lower), Some(upper)) => {
            format!("between {lower} and {upper} so far; the search did not end")
        }
        (_, Some(lower), None) => format!("at least {lower} so far; the search did not end"),
        (_, None, Some(upper)) => format!("below {upper} so far; the search did not end"),
        (_, None, None) => "nothing is known yet; the search did not end".to_owned(),
    }
}

/// A rate with three significant digits; a larger one is whole: `0.750/s`, `4.13/s`, `41235/s`.
pub(super) fn per_second(rate: Rate) -> String {
    let decimals: usize = match rate.0 {
        r if r >= 99.95 => 0,
        r if r >= 9.995 => 1,
        r if r >= 0.9995 => 2,
        _ => 3,
    };
    format!("{:.decimals$}/s", rate.0)
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
    use super::*;

    #[test]
    fn connections_of_before_the_recorded_time_are_not_said_to_be_missing() {
        let mut text = String::new();
        let result = LoadResult { duration: Nanos::from_secs(1), ..LoadResult::default() };
        put_counts(&mut text, &result, "redis").unwrap();
        assert!(text.ends_with("0 connections opened after the warm-up\n"), "{text}");
        let mut result = result;
        result.counts.connects = 1;
        text.clear();
        put_counts(&mut text, &result, "redis").unwrap();
        assert!(text.ends_with(" 1 connection opened after the warm-up\n"), "{text}");
    }

    #[test]
    fn what_carries_a_load_is_called_what_it_is() {
        assert_eq!(carried_by("http", true, 1024), "at most 1024 connections");
        assert_eq!(carried_by("redis", false, 1), "1 connection");
        assert_eq!(carried_by("sip", true, 10_000), "at most 10000 calls at once");
        assert_eq!(carried_by("desktop", true, 4), "4 desktops");
    }

    #[test]
    fn a_search_tells_what_it_knows_and_no_more() {
        let text = |ending: Ending, lower: Option<f64>, upper: Option<f64>| {
            let (lower, upper) = (lower.map(Rate), upper.map(Rate));
            known(&Bracket { lower, upper, ending, steps: Vec::new() })
        };
        assert_eq!(text(Ending::Found, Some(4.0), Some(4.13)), "between 4.00/s and 4.13/s");
        assert_eq!(
            text(Ending::GeneratorLimited, Some(0.5), None),
            "at least 0.500/s; the generator can't offer more"
        );
        assert_eq!(text(Ending::NothingPassed, None, Some(12.5)), "none; even 12.5/s was too much");
        let unfinished = |lower, upper| text(Ending::Unfinished, lower, upper);
        let end = "so far; the search did not end";
        assert_eq!(unfinished(Some(4000.0), None), format!("at least 4000/s {end}"));
        assert_eq!(unfinished(Some(4000.0), Some(5000.4)), format!("between 4000/s and 5000/s {end}"));
        assert_eq!(unfinished(None, Some(50.0)), format!("below 50.0/s {end}"));
        assert_eq!(unfinished(None, None), "nothing is known yet; the search did not end");
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
