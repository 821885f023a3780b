//! A run in OpenTelemetry's protocol: OTLP 1 in its JSON form, as `/v1/metrics` and `/v1/traces` of a receiver take it.
//!
//! In that form names are in lower camel case, 64-bit integers are strings, enumerations are numbers, and identities of
//! traces and spans are hexadecimal (OpenTelemetry Protocol Specification 1.5, "JSON Protobuf Encoding").

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vtax_report::pages::invalid;
use vtax_report::{FigureRow, Report};
use vtax_store::record::TrialRecord;
use vtax_store::summary::{Comparison, Verdict};
use vtax_units::Nanos;

use crate::identity::{hex, run_id};

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u32 = 1;
/// `STATUS_CODE_OK`.
const OK: u32 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u32 = 2;

/// The body of an `ExportMetricsServiceRequest`: a gauge for each metric with a point for each trial that counts, and the
/// taxes with their intervals.
#[must_use]
pub fn metrics(report: &Report) -> Value {
    let mut gauges: BTreeMap<&str, (&str, Vec<Value>)> = BTreeMap::new();
    let trials: BTreeMap<u32, &TrialRecord> = report.trials().iter().map(|t| (t.index, t)).collect();
    for row in report.figures() {
        let Some(trial) = trials.get(&row.trial) else { continue };
        let (_, points) = gauges.entry(row.metric).or_insert((row.unit, Vec::new()));
        points.push(figure_point(&row, trial));
    }
    let mut all: Vec<Value> = gauges
        .into_iter()
        .map(|(name, (unit, points))| gauge(&format!("vtax.{name}"), &ucum(unit), points))
        .collect();
    all.extend(taxes(report));
    json!({"resourceMetrics": [{
        "resource": resource(report),
        "scopeMetrics": [{"scope": scope(), "metrics": all}],
    }]})
}

/// The body of an `ExportTraceServiceRequest`: a span for the run, one for each trial, one for each part of a trial.
#[must_use]
pub fn traces(report: &Report) -> Value {
    let trace = run_id(report);
    let root = span_id(&trace, "run");
    let provenance = report.provenance();
    let last =
        report.trials().iter().map(TrialRecord::ended_unix_ms).max().unwrap_or(provenance.started_unix_ms);
    let ended = provenance.ended_unix_ms.unwrap_or(last).max(provenance.started_unix_ms);
    let run = Span {
        trace: &trace,
        id: &root,
        parent: "",
        name: &format!("run {}", report.plan().name),
        start: nanos(provenance.started_unix_ms),
        end: nanos(ended),
        attributes: vec![text("vtax.headline", &report.summary().headline)],
        status: Status { code: OK, message: "" },
    };
    let mut spans = vec![run.json()];
    for trial in report.trials() {
        spans.extend(trial_spans(report, &trace, &root, trial));
    }
    json!({"resourceSpans": [{
        "resource": resource(report),
        "scopeSpans": [{"scope": scope(), "spans": spans}],
    }]})
}

fn trial_spans(report: &Report, trace: &str, root: &str, trial: &TrialRecord) -> Vec<Value> {
    let own = span_id(trace, &format!("trial {}", trial.index));
    let reason = invalid(&trial.validity);
    let ok = Status { code: OK, message: "" };
    let status = reason.as_deref().map_or(ok, |message| Status { code: ERROR, message });
    let started = nanos(trial.started_unix_ms);
    let mut attributes = about(report, trial);
    attributes.push(flag("vtax.valid", status.code == OK));
    let name = format!("{} {}", trial.cell, trial.measure);
    let ended = nanos(trial.ended_unix_ms());
    let whole =
        Span { trace, id: &own, parent: root, name: &name, start: started, end: ended, attributes, status };
    let mut spans = vec![whole.json()];
    let t = &trial.timings;
    let mut from = started;
    for (part, took) in
        [("testbed", t.testbed), ("service", t.service), ("measure", t.measure), ("teardown", t.teardown)]
    {
        let to = from.saturating_add(took.0);
        if took > Nanos::ZERO {
            let id = span_id(trace, &format!("trial {} {part}", trial.index));
            let attributes = Vec::new();
            let span = Span {
                trace,
                id: &id,
                parent: &own,
                name: part,
                start: from,
                end: to,
                attributes,
                status: ok,
            };
            spans.push(span.json());
        }
        from = to;
    }
    spans
}

/// A span before it is JSON.
struct Span<'a> {
    trace: &'a str,
    id: &'a str,
    /// The span that it is a part of; empty for the run's, which has none.
    parent: &'a str,
    name: &'a str,
    /// In nanoseconds since 1970, as is the end.
    start: u64,
    end: u64,
    attributes: Vec<Value>,
    status: Status<'a>,
}

#[derive(Clone, Copy)]
struct Status<'a> {
    code: u32,
    message: &'a str,
}

impl Span<'_> {
    fn json(self) -> Value {
        let Self { trace, id, parent, name, start, end, attributes, status } = self;
        json!({
            "traceId": trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": INTERNAL,
            "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.max(start).to_string(),
            "attributes": attributes, "status": {"code": status.code, "message": status.message},
        })
    }
}

fn gauge(name: &str, unit: &str, points: Vec<Value>) -> Value {
    json!({"name": name, "unit": unit, "gauge": {"dataPoints": points}})
}

fn figure_point(row: &FigureRow<'_>, trial: &TrialRecord) -> Value {
    let mut attributes = vec![
        text("vtax.cell", row.cell),
        text("vtax.measure", row.measure),
        number("vtax.trial", u64::from(row.trial)),
        number("vtax.round", u64::from(trial.round.unwrap_or(trial.repetition))),
        flag("vtax.at_least", row.at_least),
    ];
    attributes.extend(row.member.map(|member| text("vtax.member", member)));
    point(trial.ended_unix_ms(), row.value, attributes)
}

fn point(at_unix_ms: u64, value: f64, attributes: Vec<Value>) -> Value {
    json!({"timeUnixNano": nanos(at_unix_ms).to_string(), "asDouble": value, "attributes": attributes})
}

/// The taxes as three gauges: the tax and both ends of its interval.
fn taxes(report: &Report) -> Vec<Value> {
    let last = report
        .trials()
        .iter()
        .map(TrialRecord::ended_unix_ms)
        .max()
        .unwrap_or(report.provenance().started_unix_ms);
    let of = |name: &str, value: fn(&Comparison) -> Option<f64>| {
        let points: Vec<Value> = report
            .summary()
            .comparisons
            .iter()
            .filter_map(|c| Some(point(last, value(c).filter(|v| v.is_finite())?, compared(c))))
            .collect();
        (!points.is_empty()).then(|| gauge(name, "1", points))
    };
    let gauges = [
        of("vtax.tax", |c| c.tax),
        of("vtax.tax.low", |c| c.interval.map(|i| i.0)),
        of("vtax.tax.high", |c| c.interval.map(|i| i.1)),
    ];
    gauges.into_iter().flatten().collect()
}

fn compared(c: &Comparison) -> Vec<Value> {
    let verdict = match c.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
    };
    vec![
        text("vtax.cell", &c.cell),
        text("vtax.baseline", &c.baseline),
        text("vtax.measure", &c.measure),
        text("vtax.metric", &c.metric),
        text("vtax.verdict", verdict),
    ]
}

/// What a span of a trial says of it.
fn about(report: &Report, trial: &TrialRecord) -> Vec<Value> {
    let cell = report.plan().cells.iter().find(|c| c.id == trial.cell);
    let mut attributes = vec![
        text("vtax.cell", &trial.cell),
        text("vtax.measure", &trial.measure),
        number("vtax.trial", u64::from(trial.index)),
        number("vtax.round", u64::from(trial.round.unwrap_or(trial.repetition))),
    ];
    attributes.extend(cell.map(|cell| text("vtax.environment", &cell.environment.name)));
    attributes.extend(trial.accelerator.as_ref().map(|a| text("vtax.accelerator", a)));
    attributes
}

fn resource(report: &Report) -> Value {
    let provenance = report.provenance();
    json!({"attributes": [
        text("service.name", "vtax"),
        text("service.version", &provenance.vtax_version),
        text("host.name", &provenance.host.name),
        text("host.arch", &provenance.host.architecture),
        text("vtax.plan", &report.plan().name),
        text("vtax.run_id", &provenance.run_id),
    ]})
}

fn scope() -> Value {
    json!({"name": "vtax", "version": env!("CARGO_PKG_VERSION")})
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn flag(key: &str, value: bool) -> Value {
    json!({"key": key, "value": {"boolValue": value}})
}

fn nanos(unix_ms: u64) -> u64 {
    unix_ms.saturating_mul(1_000_000)
}

/// A unit as OpenTelemetry wants it: the case-sensitive code of UCUM. What isn't a unit there becomes an annotation.
fn ucum(unit: &str) -> String {
    let code = |unit: &str| match unit {
        "" | "1" => String::new(),
        "B" => "By".to_owned(),
        "req" => "{request}".to_owned(),
        "ns" | "s" | "bit" => unit.to_owned(),
        other => format!("{{{other}}}"),
    };
    match unit.split_once('/') {
        Some((of, by)) => format!("{}/{}", code(of), code(by)),
        None if matches!(unit, "" | "1") => "1".to_owned(),
        None => code(unit),
    }
}

fn span_id(trace: &str, name: &str) -> String {
    hex(&format!("{trace} {name}"), 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_ucum() {
        for (ours, theirs) in [
            ("req/s", "{request}/s"),
            ("ns/req", "ns/{request}"),
            ("ns", "ns"),
            ("B/s", "By/s"),
            ("bit/s", "bit/s"),
            ("ns/B", "ns/By"),
            ("B/px", "By/{px}"),
            ("px/s", "{px}/s"),
            ("/s", "/s"),
            ("1/s", "/s"),
            ("SAPS", "{SAPS}"),
            ("1", "1"),
            ("", "1"),
        ] {
            assert_eq!(ucum(ours), theirs, "{ours}");
        }
    }
}
