//! The tax of each host, and over hosts.

use std::collections::BTreeMap;

use vtax_load::{LatencyHistogram, UnlikeHistograms};
use vtax_plan::model::Cell;
use vtax_stats::{
    ALPHA, Bound, Direction, HostLogs, HostTax, MIN_HOSTS, OverHosts, Ratio, judge_family, logs_by_round,
};
use vtax_store::summary::{Better, Comparison};

use super::{MergeOptions, MergedLatency, MergedRow, TaxOnHost};
use crate::Report;
use crate::compare::is_asked_for;
use crate::data::{OneSide, RunData};
use crate::families::metrics;
use crate::judged::{direction, group, sides, verdict};
use crate::metric::{Info, Value, enough};

/// A host by its name, with its runs.
pub(super) type Host<'a> = (String, Vec<&'a Report>);

/// Percentiles of merged histograms, by the names that `summary.json` gives them.
const PERCENTILES: [(&str, f64); 6] =
    [("50", 0.5), ("90", 0.9), ("95", 0.95), ("99", 0.99), ("99.9", 0.999), ("99.99", 0.9999)];

/// A row on its way to a verdict.
struct PendingRow {
    row: MergedRow,
    over: OverHosts,
    ratio: Ratio,
}

/// One row per candidate, measure and chosen metric that a host has figures of. They are read together, so they are judged as one
/// family.
pub(super) fn rows(hosts: &[Host<'_>], options: &MergeOptions) -> Vec<MergedRow> {
    let Some(first) = hosts.first().and_then(|(_, runs)| runs.first()) else { return Vec::new() };
    let data = &first.context.data;
    let mut family: Vec<PendingRow> = Vec::new();
    for cells in data.groups() {
        for measure in data.measures() {
            for info in metrics().filter(|m| is_asked_for(&options.metrics, data, measure, m)) {
                for cell in cells.cells.iter().filter(|c| c.baseline.is_some()) {
                    let pending = row(hosts, cell, measure, info, data.plan.seed);
                    family.extend(pending.map(|pending| PendingRow {
                        row: MergedRow {
                            group: cells.label.clone(),
                            environment: data.environment_label(cell),
                            ..pending.row
                        },
                        ..pending
                    }));
                }
            }
        }
    }
    close(family, data.plan.margin.0)
}

/// What a host found of one comparison.
struct Found {
    logs: Vec<f64>,
    resolution: f64,
    /// Of baseline and candidate, where only a lower bound is known.
    censored: (bool, bool),
    /// Values of both.
    values: (Vec<f64>, Vec<f64>),
}

/// `None` where no host has a round with both sides.
fn row(hosts: &[Host<'_>], cell: &Cell, measure: &str, info: &Info, seed: u64) -> Option<PendingRow> {
    let baseline = cell.baseline.as_deref()?;
    let (mut names, mut found, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for (name, runs) in hosts {
        let of_host = found_on(runs, [&cell.id, baseline, measure], info);
        if !of_host.logs.is_empty() {
            names.push(name.clone());
            own.push(own_comparison(runs, [&cell.id, measure, info.name], of_host.logs.len()));
            found.push(of_host);
        }
    }
    let logs: Vec<HostLogs<'_>> =
        found.iter().map(|f| HostLogs { logs: &f.logs, resolution: f.resolution }).collect();
    let over = vtax_stats::over_hosts(&logs, seed)?;
    let any = |of: fn(&Found) -> bool| found.iter().any(of);
    let bound = bound(any(|f| f.censored.0), any(|f| f.censored.1), info.better);
    let taxes = names.iter().zip(own).zip(&over.hosts).zip(&found);
    let taxes = taxes.map(|(((host, own), tax), found)| on_host(host, own, tax, (found, info.better)));
    let ratio = over.ratio(direction(info), bound);
    let exactly = bound == Bound::Exact;
    // How far a bound lies from a figure, or from another bound, says nothing of how far the taxes do.
    let odd = over.odd.iter().filter(|_| exactly).filter_map(|host| names.get(*host).cloned()).collect();
    let row = MergedRow {
        group: String::new(),
        environment: String::new(),
        label: info.label.to_owned(),
        cell: cell.id.clone(),
        baseline: baseline.to_owned(),
        measure: measure.to_owned(),
        metric: info.name.to_owned(),
        unit: info.unit.to_owned(),
        hosts: taxes.collect(),
        tax: exactly.then_some(ratio.tax),
        interval: ratio.interval.filter(|_| exactly),
        at_least: ratio.interval.filter(|_| bound == Bound::AtLeast).map(|i| i.0),
        at_most: ratio.interval.filter(|_| bound == Bound::AtMost).map(|i| i.1),
        corrected: None,
        detectable: ratio.detectable.filter(|_| exactly),
        verdict: vtax_store::summary::Verdict::Inconclusive,
        reason: String::new(),
        spread: over.spread.filter(|_| exactly).map(f64::exp),
        another: over.another.filter(|_| exactly).map(exp),
        same: over.same.filter(|_| exactly),
        odd,
    };
    Some(PendingRow { row, over, ratio })
}

fn exp((low, high): (f64, f64)) -> (f64, f64) {
    (low.exp(), high.exp())
}

/// What a host found, with the intervals of its own report where that has some; of a bound the end that is known.
fn on_host(
    host: &str,
    own: Option<&Comparison>,
    tax: &HostTax,
    (found, better): (&Found, Better),
) -> TaxOnHost {
    let (baseline_at_least, candidate_at_least) = found.censored;
    let bound = bound(baseline_at_least, candidate_at_least, better);
    let interval = tax.interval.map(exp);
    let median = |values: &[f64]| vtax_stats::quantile(values, 0.5).unwrap_or_default();
    TaxOnHost {
        host: host.to_owned(),
        tax: (bound == Bound::Exact).then(|| tax.center.exp()),
        interval: own.and_then(|c| c.interval).or(interval).filter(|_| bound == Bound::Exact),
        at_least: own.and_then(|c| c.at_least).or(interval.map(|i| i.0)).filter(|_| bound == Bound::AtLeast),
        at_most: own.and_then(|c| c.at_most).or(interval.map(|i| i.1)).filter(|_| bound == Bound::AtMost),
        rounds: tax.rounds,
        baseline: median(&found.values.0),
        baseline_at_least,
        candidate: median(&found.values.1),
        candidate_at_least,
    }
}

/// What a host's own report says of the tax; `None` where it has several runs, or where its report isn't of these rounds.
fn own_comparison<'a>(
    runs: &[&'a Report],
    [cell, measure, metric]: [&str; 3],
    rounds: usize,
) -> Option<&'a Comparison> {
    let &[run] = runs else { return None };
    let mut all = run.context.summary.comparisons.iter();
    let own = all.find(|c| c.cell == cell && c.measure == measure && c.metric == metric)?;
    (own.rounds == Some(rounds as u32)).then_some(own)
}

fn found_on(runs: &[&Report], [cell, baseline, measure]: [&str; 3], info: &Info) -> Found {
    let sign = match direction(info) {
        Direction::Higher => -1.0,
        Direction::Lower => 1.0,
    };
    let mut all =
        Found { logs: Vec::new(), resolution: 0.0, censored: (false, false), values: Default::default() };
    for run in runs {
        // Rounds of two runs have nothing to do with each other, so each gives its own ratios.
        let (candidate, base) = sides(&run.context.data, cell, baseline, measure, info.name);
        let values = |side: &OneSide, of: fn(&Value) -> f64| side.found.iter().map(of).collect::<Vec<f64>>();
        let (cv, bv) = (values(&candidate, Value::for_tax), values(&base, Value::for_tax));
        let c = group(&cv, &candidate.rounds, &candidate.found);
        let b = group(&bv, &base.rounds, &base.found);
        all.logs.extend(logs_by_round(&c, &b).unwrap_or_default().into_iter().map(|log| sign * log));
        // Both sides of a pair may err, and independently.
        all.resolution = all.resolution.max(c.resolution.hypot(b.resolution));
        all.censored = (all.censored.0 || b.censored, all.censored.1 || c.censored);
        all.values.0.extend(values(&base, |v| v.value));
        all.values.1.extend(values(&candidate, |v| v.value));
    }
    all
}

/// Which side of the tax is known, where of baselines or of candidates a lower bound is all that is known on some host.
fn bound(base: bool, candidate: bool, better: Better) -> Bound {
    match (base, candidate) {
        (false, false) => Bound::Exact,
        (true, true) => Bound::Unknown,
        (base, _) if base == (better == Better::Higher) => Bound::AtLeast,
        _ => Bound::AtMost,
    }
}

/// Gives each row its verdict.
fn close(family: Vec<PendingRow>, margin: f64) -> Vec<MergedRow> {
    let ratios: Vec<Ratio> = family.iter().map(|pending| pending.ratio).collect();
    let judged = judge_family(&ratios, margin, ALPHA);
    let rows = family.into_iter().zip(judged).map(|(pending, judgement)| {
        let hosts = pending.over.hosts.len();
        let few = hosts < MIN_HOSTS;
        let corrected = judgement.interval.filter(|_| pending.ratio.bound != Bound::Unknown);
        MergedRow {
            verdict: verdict(judgement.verdict),
            reason: match few {
                true => format!(
                    "too few hosts: {hosts}, at least {MIN_HOSTS} are needed to say anything of hosts like these"
                ),
                false => for_hosts(&judgement.reason),
            },
            corrected,
            ..pending.row
        }
    });
    rows.collect()
}

/// The statistics speak of trials; here these are hosts.
fn for_hosts(reason: &str) -> String {
    let words = [
        (
            "this environment was never driven to its limit",
            "this environment was not driven to its limit on every host",
        ),
        (
            "the baseline was never driven to its limit",
            "the baseline was not driven to its limit on every host",
        ),
        ("neither side was driven to its limit", "neither side was driven to its limit on every host"),
        ("had no answer", "had no answer on some host"),
        ("trials each", "hosts in all"),
        ("trials", "hosts"),
    ];
    words.iter().fold(reason.to_owned(), |text, (trials, hosts)| text.replace(trials, hosts))
}

/// Latency over hosts by cell and measure.
///
/// # Errors
///
/// [`UnlikeHistograms`] where two can't be added exactly.
pub(super) fn latency(hosts: &[Host<'_>]) -> Result<Vec<MergedLatency>, UnlikeHistograms> {
    let Some(first) = hosts.first().and_then(|(_, runs)| runs.first()) else { return Ok(Vec::new()) };
    let data = &first.context.data;
    let mut merged = Vec::new();
    for cell in &data.plan.cells {
        for measure in data.measures() {
            let own: Vec<LatencyHistogram> = hosts
                .iter()
                .map(|(_, runs)| summed(runs.iter().map(|run| &run.context.data), &cell.id, measure))
                .collect::<Result<_, _>>()?;
            let own: Vec<&LatencyHistogram> = own.iter().filter(|h| !h.is_empty()).collect();
            if own.is_empty() {
                continue;
            }
            let mut all = LatencyHistogram::new();
            for histogram in &own {
                all.merge(histogram)?;
            }
            merged.push(MergedLatency {
                cell: cell.id.clone(),
                environment: data.environment_label(cell),
                measure: measure.to_owned(),
                hosts: own.len(),
                answers: all.len(),
                percentiles: percentiles(&all, &own),
                histogram: all,
            });
        }
    }
    Ok(merged)
}

fn summed<'a>(
    runs: impl Iterator<Item = &'a RunData>,
    cell: &str,
    measure: &str,
) -> Result<LatencyHistogram, UnlikeHistograms> {
    let mut sum = LatencyHistogram::new();
    for data in runs {
        if let Some(histogram) = data.latency.get(&(cell.to_owned(), measure.to_owned())) {
            sum.merge(&LatencyHistogram(histogram.clone()))?;
        }
    }
    Ok(sum)
}

/// Those that all answers together tell; the lowest and the highest of hosts that tell them on their own.
fn percentiles(all: &LatencyHistogram, own: &[&LatencyHistogram]) -> BTreeMap<String, (f64, f64, f64)> {
    let mut found = BTreeMap::new();
    for (name, q) in PERCENTILES {
        if !enough(all.len(), q) {
            continue;
        }
        let value = all.quantile(q).0 as f64;
        let hosts = own.iter().filter(|h| enough(h.len(), q)).map(|h| h.quantile(q).0 as f64);
        let (low, high) = hosts.fold((value, value), |(low, high), v| (low.min(v), high.max(v)));
        found.insert(name.to_owned(), (value, low, high));
    }
    found
}
