//! From a run to `summary.json`.

use std::collections::BTreeMap;

use vtax_plan::is_smoke_test;
use vtax_plan::model::{Cell, TrialKind};
use vtax_stats::MIN_TRIALS;
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::{
    CellSummary, Comparison, Doubt, MetricSummary, SUMMARY_VERSION, Summary, TrialSummary,
};
use vtax_units::counted;

use crate::chapter::Chapter;
use crate::data::{OneSide, RunData};
use crate::families::{cautions, metrics};
use crate::format::long;
use crate::headline;
use crate::judged::{comparisons, group};
use crate::metric::{Info, enough};
use crate::rows::{is_of_first_table, leads};
use crate::sockets;
use crate::words::{invalid, reason_word};

/// Percentiles stored of merged histograms.
const PERCENTILES: [(&str, f64); 7] =
    [("50", 0.5), ("75", 0.75), ("90", 0.9), ("95", 0.95), ("99", 0.99), ("99.9", 0.999), ("99.99", 0.9999)];

pub(crate) fn summary(data: &RunData, chapters: &[Box<dyn Chapter>]) -> Summary {
    let comparisons = comparisons(data);
    let mut summary = Summary {
        version: SUMMARY_VERSION,
        plan: data.plan.name.clone(),
        complete: data.complete,
        headline: String::new(),
        cells: cells(data),
        trials: data.trials.iter().map(trial).collect(),
        notes: notes(data, &comparisons),
        comparisons,
    };
    summary.headline = headline::headline(data, &summary.comparisons, chapters);
    summary
}

fn cells(data: &RunData) -> Vec<CellSummary> {
    let mut summaries = Vec::new();
    for cell in &data.plan.cells {
        for measure in data.measures() {
            let metrics: BTreeMap<String, MetricSummary> = metrics()
                .filter_map(|m| Some((m.name.to_owned(), metric(data, cell, measure, m)?)))
                .collect();
            if metrics.is_empty() {
                continue;
            }
            summaries.push(CellSummary {
                cell: cell.id.clone(),
                environment: cell.environment.name.clone(),
                accelerator: data.accelerator(cell),
                parameters: cell.parameters.clone(),
                measure: measure.to_owned(),
                metrics,
            });
        }
    }
    summaries
}

fn metric(data: &RunData, cell: &Cell, measure: &str, info: &Info) -> Option<MetricSummary> {
    let mut found = figures(info, data.side(&cell.id, measure, info.name, None))?;
    let merged = data.latency.get(&(cell.id.clone(), measure.to_owned()));
    if let Some(h) = merged.filter(|h| info.name == "latency_mean" && !h.is_empty()) {
        // With fewer answers beyond it, chance decides what a percentile is.
        let known = PERCENTILES.into_iter().filter(|(_, q)| enough(h.len(), *q));
        found.percentiles.extend(known.map(|(name, q)| (name.to_owned(), h.value_at_quantile(q) as f64)));
        found.percentiles.insert("100".to_owned(), h.max() as f64);
    }
    Some(found)
}

/// The figures of one side, without percentiles; `None` where nothing was found.
pub(crate) fn figures(info: &Info, side: OneSide) -> Option<MetricSummary> {
    let OneSide { found, trials, .. } = side;
    let values: Vec<f64> = found.iter().map(|v| v.value).collect();
    let group = group(&values, &[], &found);
    let estimate = if info.is_count() { vtax_stats::estimate_counts } else { vtax_stats::estimate };
    let estimate = estimate(&group)?.within(info.possible());
    let described = vtax_stats::describe(&values)?;
    Some(MetricSummary {
        unit: info.unit.to_owned(),
        better: info.better,
        n: u32::try_from(values.len()).unwrap_or(u32::MAX),
        center: estimate.center,
        mean: described.mean,
        sd: described.sd,
        median: described.median,
        // The upper end of lower bounds is not known.
        interval: estimate.interval.filter(|_| !group.censored),
        at_least: group.censored,
        values,
        trials,
        percentiles: BTreeMap::new(),
    })
}

fn trial(record: &TrialRecord) -> TrialSummary {
    TrialSummary {
        index: record.index,
        cell: record.cell.clone(),
        measure: record.measure.clone(),
        repetition: record.repetition,
        valid: record.validity == Validity::Valid,
        reason: invalid(&record.validity),
    }
}

fn notes(data: &RunData, comparisons: &[Comparison]) -> Vec<String> {
    let mut notes = Vec::new();
    if !data.complete {
        // A smoke test isn't gone on with.
        let on = if is_smoke_test(&data.plan) { "" } else { ", and --resume goes on with them" };
        notes.push(format!("The run is not complete: trials are missing{on}."));
    }
    notes.extend(data.too_many());
    notes.extend(interrupted(data));
    notes.extend(too_few_rounds(data, comparisons));
    if data.plan.cells.iter().any(|c| data.accelerator(c).as_deref() == Some("tcg")) {
        let reason = data.provenance.accelerator.as_ref().map_or("", |a| a.reason.as_str());
        // The run notes it without what QEMU said, which is among the facts of the host.
        let what = reason.split(" (").next().unwrap_or_default();
        let known = reason.is_empty() || data.notes.iter().any(|(_, text)| text.contains(what));
        let because = if known { String::new() } else { format!(": {reason}") };
        let emulated = match comparisons.iter().any(|c| is_of_first_table(data, c)) {
            true => "taxes are those of emulation, far above what hardware virtualization (KVM) costs",
            false => "times are those of emulation, far above those of hardware virtualization (KVM)",
        };
        notes.push(format!("VMs ran under software emulation (TCG){because}. Their {emulated}."));
    }
    notes.extend(sockets::note(data));
    notes.extend(rejected(data));
    notes.extend(without_percentiles(data));
    notes.extend(cautions(&data.plan, &data.trials));
    notes.extend(crate::routed::neighbours::notes(data));
    for (cell, text) in &data.notes {
        notes.push(match cell {
            Some(cell) => format!("{cell}: {text}"),
            None => text.clone(),
        });
    }
    if !data.complete {
        notes.extend(data.forecasts.iter().cloned());
    }
    notes
}

/// That a plan of so few rounds could give no verdict, and what would. One of duets says so in a mapping, which stays.
fn too_few_rounds(data: &RunData, comparisons: &[Comparison]) -> Option<String> {
    let repeat = &data.plan.repeat;
    // A smoke test makes each trial once whatever is asked for, and is no measurement.
    let few = (repeat.max as usize) < MIN_TRIALS
        && !is_smoke_test(&data.plan)
        && comparisons.iter().any(|c| c.doubt == Some(Doubt::TooFew));
    let change = match repeat.trials {
        TrialKind::Single => format!("`--set repeat={MIN_TRIALS}`"),
        TrialKind::Duet => format!("`--set repeat.min={MIN_TRIALS} --set repeat.max={MIN_TRIALS}`"),
    };
    few.then(|| {
        let rounds = counted(repeat.max as usize, "round");
        format!("The plan asks for {rounds}, and a verdict takes {MIN_TRIALS}: run it again with {change}.")
    })
}

/// That trials were made at different times, which a reader must know where the machine may have changed meanwhile.
fn interrupted(data: &RunData) -> Option<String> {
    let all: u64 =
        data.interruptions.iter().map(|(from, to)| to.saturating_sub(*from)).fold(0, u64::saturating_add);
    let times = match data.interruptions.len() {
        0 => return None,
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    Some(format!(
        "The run was interrupted and resumed {times}; {} passed meanwhile, in which the machine may have changed.",
        long(all)
    ))
}

/// Cells that a note names one by one.
const MOST_NAMES: usize = 4;

/// Percentiles of the first table that no trial of an environment has, each with the reason.
fn without_percentiles(data: &RunData) -> Vec<String> {
    let mut notes = Vec::new();
    for measure in data.measures() {
        for info in metrics().filter(|m| m.primary && leads(data, measure, m.name)) {
            let why = |cell: &Cell| data.too_few(&cell.id, measure, info.name);
            let cells: Vec<&Cell> = data.plan.cells.iter().filter(|c| why(c).is_some()).collect();
            // Their numbers of answers hardly differ.
            if let Some(text) = cells.first().and_then(|cell| why(cell)) {
                let names: Vec<&str> = cells.iter().map(|c| c.id.as_str()).collect();
                let whom = if names.len() > MOST_NAMES {
                    format!("{} of {} cells", names.len(), data.plan.cells.len())
                } else {
                    names.join(", ")
                };
                notes.push(format!("{} ({measure}) is missing for {whom}: {text}.", info.label));
            }
        }
    }
    notes
}

/// How many trials don't count, by reason: a reader must not have to count them.
pub(crate) fn rejected(data: &RunData) -> Option<String> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for trial in &data.trials {
        let Validity::Invalid { reason, .. } = &trial.validity else { continue };
        match reasons.iter_mut().find(|r| r.0 == reason_word(*reason)) {
            Some(known) => known.1 += 1,
            None => reasons.push((reason_word(*reason), 1)),
        }
    }
    let all = data.trials.len();
    if let [(word, 1)] = reasons.as_slice() {
        return Some(format!("1 of {} doesn't count ({word}).", counted(all, "trial")));
    }
    let total: usize = reasons.iter().map(|r| r.1).sum();
    let list: Vec<String> = reasons.iter().map(|(word, n)| format!("{n} {word}")).collect();
    (total > 0).then(|| format!("{total} of {all} trials don't count: {}.", list.join(", ")))
}

#[cfg(test)]
mod tests {
    use vtax_fixture::{Options, create};

    use super::*;
    use crate::families::named;
    use crate::metric::exact;

    /// A trial's value is the median over its faults, which of an even number of them may end in a half. By hand for 2, 3.5 and 76: roots
    /// of 1.541104, 1.968502 and 8.739279, their mean 4.082962, their sd 4.038148, so that the upper root is 14.114277.
    #[test]
    fn medians_of_counts_are_counts_and_scores_are_none() {
        let of = |metric: &str, values: [f64; 3]| {
            let info = named(metric).unwrap();
            let found = values.map(|value| exact(info.name, value)).to_vec();
            figures(info, OneSide { found, ..OneSide::default() }).unwrap()
        };
        let lost = of("requests_lost", [2.0, 76.0, 3.5]);
        let (low, high) = lost.interval.unwrap();
        assert!(lost.center == 3.5 && low == 0.0 && (high - 198.837_8).abs() < 1e-3, "{lost:?}");
        let counted = metrics().filter(|info| info.is_count()).map(|info| info.name);
        let expected = [
            "client_timo",
            "connrefused",
            "connreset",
            "fd_unavail",
            "unexpected",
            "http2_resets",
            "http2_again",
            "requests_lost",
            "requests_delayed",
            "writes_wrong",
        ];
        assert_eq!(counted.collect::<Vec<_>>(), expected);
        for score in ["voice_mos", "voice_mos_worst", "call_sent_again"] {
            assert!(!named(score).unwrap().is_count(), "{score}");
        }
    }

    #[test]
    fn a_plan_of_too_few_rounds_says_how_to_have_enough() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { repetitions: 2, seconds: 1, rate: 10, ..Options::default() };
        let mut data = RunData::read(&create(&directory.path().join("run"), &options).unwrap()).unwrap();
        let few = [Comparison { doubt: Some(Doubt::TooFew), ..Comparison::default() }];
        let told = |change: &str| {
            Some(format!("The plan asks for 2 rounds, and a verdict takes 3: run it again with `{change}`."))
        };
        assert_eq!(too_few_rounds(&data, &few), told("--set repeat=3"));
        assert_eq!(too_few_rounds(&data, &[]), None);
        data.plan.repeat.trials = TrialKind::Duet;
        assert_eq!(too_few_rounds(&data, &few), told("--set repeat.min=3 --set repeat.max=3"));
        data.plan.repeat.max = 3;
        assert_eq!(too_few_rounds(&data, &few), None);
        (data.plan.repeat.max, data.plan.name) = (1, "quick-smoke-test".to_owned());
        assert_eq!(too_few_rounds(&data, &few), None);
        data.complete = false;
        let incomplete = |data: &RunData| notes(data, &[]).swap_remove(0);
        assert_eq!(incomplete(&data), "The run is not complete: trials are missing.");
        data.complete = true;
        // Where the first table has no tax, none is spoken of.
        let emulated = |compared: &[Comparison]| {
            let notes = notes(&data, compared);
            notes.into_iter().find(|note| note.starts_with("VMs ran under software emulation")).unwrap()
        };
        assert!(emulated(&comparisons(&data)).contains("Their taxes are those of emulation"));
        assert!(emulated(&[]).contains("Their times are those of emulation"));
        assert_eq!(rejected(&data).unwrap(), "1 of 18 trials doesn't count (generator-limited).");
    }
}
