//! What clients saw around faults: each trial's requests or scenarios, by their distance from its faults.

use std::collections::BTreeMap;

use vtax_load::Sample;
use vtax_store::failover::{FailoverLoad, FailoverOutcome};
use vtax_store::record::TrialRecord;
use vtax_store::{RunDir, StoreError, TrialDir};

use super::course::{Kind, Window, overlay};
use super::failover::Failover;
use super::failovers::{Environment, Overlay, What};
use super::found::{Found, Recorder, put};
use super::sip;
use super::trial::failover;

/// Failovers of a kind that are laid over each other: more change neither median nor range by much.
const MOST_COURSES: usize = 200;

/// Seconds shown before a fault.
const BEFORE: f64 = 1.0;
/// Shortest and longest time shown after it.
const AFTER: (f64, f64) = (2.0, 60.0);
/// Columns are at least this long, and there are at most about as many.
const BIN: f64 = 0.05;
const COLUMNS: f64 = 80.0;

/// How much of the time after a fault tells something, in columns for counts and in longer ones for means.
fn windows(failovers: &[&Failover]) -> [Window; 2] {
    let end = |f: &&Failover| f.times.normal.or(f.times.answered).filter(|t| t.is_finite());
    let after = failovers.iter().filter_map(end).fold(0.0, f64::max) * 1.4;
    let after = after.clamp(AFTER.0, AFTER.1);
    let bin = BIN.max((BEFORE + after) / COLUMNS);
    [bin, 2.0 * bin].map(|bin| Window::new(BEFORE, after, bin))
}

/// The faults of a kind, laid over each other; trials are read once.
pub(super) fn overlays(
    run: &RunDir,
    e: &Environment,
    trials: &[&TrialRecord],
    damage: &mut Vec<String>,
) -> Vec<Overlay> {
    let mut all: Vec<Overlay> = Vec::new();
    for series in e.series() {
        let windows = windows(&series.failovers);
        let mut found: Found = BTreeMap::new();
        let mut taken = 0;
        for record in trials {
            let of_trial = series.failovers.iter().filter(|f| f.trial == record.index);
            let mut at: Vec<f64> = of_trial.map(|f| f.at).take(MOST_COURSES - taken).collect();
            at.sort_by(f64::total_cmp);
            let Some(outcome) = failover(record).filter(|_| !at.is_empty()) else { continue };
            taken += at.len();
            let recorder = Recorder::new(windows, at, outcome.duration.as_secs_f64());
            let trial = run.trial(record.index);
            let read = match &outcome.load {
                FailoverLoad::Requests(_) | FailoverLoad::Storage(_) => {
                    requests(&trial, outcome, &recorder, &mut found)
                }
                FailoverLoad::Scenarios(ims) => {
                    sip::scenarios(&trial, outcome, &ims.phases, &recorder, &mut found)
                }
            };
            if let Err(e) = read {
                damage.push(e.to_string());
            }
        }
        let fault = series.fault.to_owned();
        all.extend(found.into_values().map(|(what, courses)| Overlay {
            fault: fault.clone(),
            what,
            window: windows[usize::from(what.kind() == Kind::Mean)],
            courses,
        }));
    }
    // Something that happened once or twice has no course.
    let drawn = |o: &Overlay| overlay(o.window, &o.courses).iter().filter(|c| c.median.is_finite()).count();
    all.retain(|o| drawn(o) > 2);
    all
}

const FAILED: What = What { name: "failed", title: "Failed requests", axis: "failed, per second", unit: "" };
const DELAYED: What =
    What { name: "delayed", title: "Delayed requests", axis: "delayed, per second", unit: "" };
const LATENCY: What = What { name: "latency", title: "Latency", axis: "mean latency of answers", unit: "ms" };
const ANSWERED: What = What { name: "answered", title: "Answers", axis: "answered, per second", unit: "" };

fn requests(
    trial: &TrialDir,
    outcome: &FailoverOutcome,
    recorder: &Recorder,
    found: &mut Found,
) -> Result<(), StoreError> {
    let [mut failed, mut delayed, mut answered] = [(); 3].map(|()| recorder.courses(Kind::Rate));
    let mut latency = recorder.courses(Kind::Mean);
    trial.for_each_sample(|s: Sample| {
        let (start, took) = (s.start_ns as f64 / 1e9, s.latency_ns as f64);
        if s.outcome != 0 {
            return recorder.add(&mut failed, start, 1.0, 1.0);
        }
        recorder.add(&mut latency, start, took / 1e6, 1.0);
        // When it was answered, not when it was asked: this one shows the outage itself.
        recorder.add(&mut answered, start + took / 1e9, 1.0, 1.0);
        if took > outcome.delayed_beyond.0 as f64 {
            recorder.add(&mut delayed, start, 1.0, 1.0);
        }
    })?;
    let all = [(FAILED, failed), (DELAYED, delayed), (LATENCY, latency), (ANSWERED, answered)];
    for (order, (what, courses)) in all.into_iter().enumerate() {
        put(found, order, what, courses);
    }
    Ok(())
}
