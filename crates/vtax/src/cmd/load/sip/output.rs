//! What `vtax load sip` prints.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::net::SocketAddr;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use vtax_load::search::Bracket;
use vtax_load::sip::{PhaseResult, SipConnections, SipProfile, SipResult, SipSpec, Traffic};
use vtax_units::{Share, counted};

use crate::cmd::load::end::{Completion, LoadEnd};
use crate::cmd::load::output::{figure, known, millis, times};
use crate::cmd::load::tls::put_handshakes;
use crate::exit::Failure;
use crate::out;

/// Quantiles that are printed.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// Share of the counted attempts that were inadequately handled.
pub(super) fn ihs(phase: &PhaseResult) -> f64 {
    let attempts: u64 = phase.scenarios.iter().map(|s| s.attempts).sum();
    let failed: u64 = phase.scenarios.iter().map(|s| s.inadequate_total()).sum();
    failed as f64 / attempts.max(1) as f64
}

/// A phase in one line.
pub(super) fn step_line(phase: &PhaseResult) -> String {
    let why = phase.generator.limited.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!(
        "{:>12}  asked {:.1}/s, made {:.1}/s, {:.2} % inadequate{why}",
        phase.name,
        phase.requested.0,
        phase.effective.0,
        100.0 * ihs(phase)
    )
}

pub(super) fn listening(address: SocketAddr) {
    // Whoever waits for this line may be gone; the calls are answered nevertheless.
    let _ = writeln!(io::stdout(), "answering calls at sip:{address}");
}

/// A load that is shown.
pub(super) struct Shown<'a> {
    pub(super) result: &'a SipResult,
    pub(super) traffic: &'a Traffic,
    pub(super) end: &'a LoadEnd,
}

#[derive(Serialize)]
struct Report<'a> {
    spec: Value,
    profile: &'a SipProfile,
    #[serde(flatten)]
    end: &'a LoadEnd,
    phases: Vec<Summary<'a>>,
    traffic: &'a Traffic,
    result: &'a SipResult,
}

/// What is there in place of a password: results are kept and passed on.
const NOT_SHOWN: &str = "(not shown)";

/// What was asked for, but for the subscribers' password.
fn without_password(spec: &SipSpec) -> serde_json::Result<Value> {
    let mut spec = serde_json::to_value(spec)?;
    if let Some(password) = spec.pointer_mut("/workload/subscribers/password") {
        *password = Value::from(NOT_SHOWN);
    }
    Ok(spec)
}

/// The figures that a script wants without decoding histograms.
#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    requested: f64,
    effective: f64,
    ihs: f64,
    metrics: Vec<Metric>,
}

#[derive(Serialize)]
struct Metric {
    metric: &'static str,
    scenario: &'static str,
    count: u64,
    mean_ns: f64,
    sd_ns: f64,
    min_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

fn summary(phase: &PhaseResult) -> Summary<'_> {
    let metric = |m: &vtax_load::sip::MetricResult| {
        let [p50_ns, p90_ns, p95_ns, p99_ns, p999_ns] = QUANTILES.map(|(_, q)| m.histogram.quantile(q).0);
        Metric {
            metric: m.metric.name(),
            scenario: m.scenario.name(),
            count: m.histogram.len(),
            mean_ns: m.mean_ns,
            sd_ns: m.variance_ns2.sqrt(),
            min_ns: m.min.0,
            p50_ns,
            p90_ns,
            p95_ns,
            p99_ns,
            p999_ns,
            max_ns: m.max.0,
        }
    };
    Summary {
        name: &phase.name,
        requested: phase.requested.0,
        effective: phase.effective.0,
        ihs: ihs(phase),
        metrics: phase.metrics.iter().map(metric).collect(),
    }
}

impl Shown<'_> {
    pub(super) fn json(&self, spec: &SipSpec, profile: &SipProfile) -> Result<(), Failure> {
        let phases = self.result.phases.iter().map(summary).collect();
        let Self { result, traffic, end } = *self;
        let spec = without_password(spec).context("writing what was asked for")?;
        out::json(&Report { spec, profile, end, phases, traffic, result })
    }

    pub(super) fn table(&self, target: SocketAddr) -> Result<(), Failure> {
        let mut text = String::new();
        put_table(&mut text, target, self.result, self.traffic).context("writing the result")?;
        out::text(&(text + &self.end.lines()))
    }
}

fn put_table(out: &mut String, target: SocketAddr, result: &SipResult, traffic: &Traffic) -> fmt::Result {
    writeln!(out, "sip:{target}")?;
    for phase in &result.phases {
        put_phase(out, phase)?;
    }
    writeln!(out)?;
    if let Some(why) = &result.stopped {
        writeln!(out, "stopped     {why}")?;
    }
    let pools = result.pools;
    writeln!(out, "subscribers {} registered, {} not registered", pools.registered, pools.unregistered)?;
    put_traffic(out, traffic)?;
    if let Some(connections) = &result.connections {
        put_connections(out, connections)?;
    }
    let stray: Vec<String> = result.stray.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    if !stray.is_empty() {
        writeln!(out, "stray       {}", stray.join(", "))?;
    }
    Ok(())
}

/// Connections that were made.
pub(super) fn put_connections(out: &mut String, found: &SipConnections) -> fmt::Result {
    writeln!(out, "connected {} times in {}", found.connect.len(), times(&found.connect))?;
    if let Some(tls) = &found.tls {
        put_handshakes(out, tls)?;
    }
    match &found.first_failure {
        Some(why) => writeln!(out, "          first failure: TLS: {why}"),
        None => Ok(()),
    }
}

fn put_phase(out: &mut String, phase: &PhaseResult) -> fmt::Result {
    writeln!(out, "\n{}, {:.1} s", step_line(phase).trim_start(), phase.duration.as_secs_f64())?;
    for scenario in &phase.scenarios {
        let causes: Vec<String> =
            scenario.inadequate.iter().map(|(cause, n)| format!("{n} {cause}")).collect();
        writeln!(
            out,
            "  {:<20} {:>9} attempts {:>9} ok {:>7} inadequate {:>6} unfinished {:>7} sent again  {}",
            scenario.scenario.name(),
            scenario.attempts,
            scenario.succeeded,
            scenario.inadequate_total(),
            scenario.unfinished,
            scenario.retransmissions,
            causes.join(", ")
        )?;
    }
    if !phase.metrics.is_empty() {
        write!(out, "  {:<34}{:>10}", "ms", "mean")?;
        for name in ["sd", "min"].into_iter().chain(QUANTILES.map(|(name, _)| name)) {
            write!(out, "{name:>10}")?;
        }
        writeln!(out, "{:>10}", "max")?;
    }
    for m in &phase.metrics {
        write!(out, "  {:<13}{:<21}", m.metric.name(), m.scenario.name())?;
        let quantiles = QUANTILES.map(|(_, q)| m.histogram.quantile(q).0 as f64);
        let first = [m.mean_ns, m.variance_ns2.sqrt(), m.min.0 as f64];
        for value in first.into_iter().chain(quantiles).chain([m.max.0 as f64]) {
            write!(out, "{:>10.3}", value / 1e6)?;
        }
        writeln!(out)?;
    }
    let generator = &phase.generator;
    writeln!(
        out,
        "  generator: {} workers, busiest {:.0} % of its CPU, {:.2} s user + {:.2} s system, attempts late by p99 {}",
        generator.workers,
        100.0 * generator.busiest,
        generator.cpu_user.as_secs_f64(),
        generator.cpu_system.as_secs_f64(),
        figure(&phase.lateness, millis(phase.lateness.quantile(0.99)))
    )?;
    if let Some(why) = &generator.limited {
        writeln!(out, "  invalid: generator-limited: {why}")?;
    }
    Ok(())
}

fn put_traffic(out: &mut String, traffic: &Traffic) -> fmt::Result {
    writeln!(
        out,
        "messages    {} requests and {} responses sent, {} of them again; {} requests and {} responses received",
        traffic.requests_sent,
        traffic.responses_sent,
        traffic.retransmissions,
        traffic.requests_received,
        traffic.responses_received
    )
}

pub(super) fn traffic(traffic: &Traffic) -> Result<(), Failure> {
    let mut text = String::new();
    put_traffic(&mut text, traffic).context("writing the result")?;
    out::text(&text)
}

pub(super) fn traffic_json(traffic: &Traffic) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Answered<'a> {
        // A server of this kind always ends with a signal.
        ended: Completion,
        traffic: &'a Traffic,
    }
    out::json(&Answered { ended: Completion::Complete, traffic })
}

pub(super) fn search_json(bracket: &Bracket, ended: Completion) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct SearchOutput<'a> {
        ended: Completion,
        #[serde(flatten)]
        bracket: &'a Bracket,
    }
    out::json(&SearchOutput { ended, bracket })
}

/// `ihs` is the limit of inadequately handled scenarios.
pub(super) fn search_text(bracket: &Bracket, ihs: Share) -> Result<(), Failure> {
    let (found, steps) = (known(bracket), counted(bracket.steps.len(), "step"));
    out::text(&format!("capacity (at most {ihs} inadequately handled): {found}; {steps}\n"))
}
