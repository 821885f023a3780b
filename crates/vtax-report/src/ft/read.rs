//! From the stored run to what the section shows.

use vtax_plan::model::{Cell, EnvironmentKind, FaultKind, FaultTarget, FtMode, MeasureKind};
use vtax_store::RunDir;
use vtax_store::failover::{FailoverOutcome, FaultRecord, ProtectionRecord, Recovery, Spell};
use vtax_store::record::{Outcome, TrialRecord, Validity};
use vtax_units::Nanos;

use super::around::overlays;
use super::figures::QUANTITIES;
use super::protects::Mode;
use super::words::happened;
use super::{Costs, Counts, End, Environment, Failover, Ft, Group, Span, Times};
use crate::data::RunData;
use crate::metric::Value;
use crate::summarise::invalid;

/// Faults of one trial and spells without protection that are looked at: a run may hold anything.
const MOST_FAULTS: usize = 1000;
const MOST_SPELLS: usize = 1000;

/// Reads what a run has about fault tolerance.
pub(crate) fn read(run: &RunDir, data: &RunData) -> Ft {
    let mut ft = Ft::default();
    for group in data.groups() {
        let of_group = |t: &&TrialRecord| group.cells.iter().any(|c| c.id == t.cell);
        let trials: Vec<&TrialRecord> = data.trials.iter().filter(of_group).collect();
        let told = |t: &&TrialRecord| t.protection.is_some() || failover(t).is_some();
        if !trials.iter().any(told) {
            continue;
        }
        let prefix = match ft.groups.len() {
            0 => "ft".to_owned(),
            n => format!("ft{}", n + 1),
        };
        let costs_of = costs_measure(data, &trials);
        let cells = group.cells.iter().enumerate();
        let environments = cells
            .map(|(position, cell)| {
                let own: Vec<&TrialRecord> = trials.iter().copied().filter(|t| t.cell == cell.id).collect();
                environment(run, data, cell, position, &own, costs_of.as_deref(), &mut ft.damage)
            })
            .collect();
        ft.groups.push(Group { prefix, label: group.label.clone(), environments, costs_of });
    }
    ft
}

/// What a trial with faults found.
pub(crate) fn failover(record: &TrialRecord) -> Option<&FailoverOutcome> {
    match &record.outcome {
        Some(Outcome::Failover(found)) => Some(found),
        _ => None,
    }
}

/// The measure whose trials say what protection costs: one at a load that is the same for all.
fn costs_measure(data: &RunData, trials: &[&TrialRecord]) -> Option<String> {
    let rank = |kind: &MeasureKind| match kind {
        MeasureKind::Latency(_) => 0,
        MeasureKind::Failover(_) => 1,
        MeasureKind::Throughput(_) => 2,
        MeasureKind::Ims(_) => 3,
        MeasureKind::Capacity(_) => 4,
        MeasureKind::Network(_) => 5,
    };
    let with = |name: &str| trials.iter().any(|t| t.measure == name && t.protection.is_some());
    let measures = data.plan.measures.iter().filter(|m| with(&m.name));
    measures.min_by_key(|m| rank(&m.kind)).map(|m| m.name.clone())
}

/// How a cell's system under test is protected: mode, interval, whether it has a disk that is replicated.
fn mode(cell: &Cell) -> (Mode, Option<Nanos>, bool) {
    let EnvironmentKind::Vm(vm) = &cell.environment.kind else { return (Mode::Native, None, false) };
    let Some(ft) = &vm.fault_tolerance else { return (Mode::None, None, false) };
    let mode = match ft.mode {
        FtMode::None => Mode::None,
        FtMode::Kemari => Mode::Kemari,
        FtMode::Remus { .. } => Mode::Remus,
        FtMode::Colo => Mode::Colo,
        FtMode::Restart => Mode::Restart,
        FtMode::Snapshot { .. } => Mode::Snapshot,
    };
    (mode, ft.mode.interval(), ft.disk.is_some())
}

fn environment(
    run: &RunDir,
    data: &RunData,
    cell: &Cell,
    position: usize,
    trials: &[&TrialRecord],
    costs_of: Option<&str>,
    damage: &mut Vec<String>,
) -> Environment {
    let (mode, interval, has_disk) = mode(cell);
    let mut costs = Costs::default();
    let measured = trials.iter().filter(|t| costs_of == Some(t.measure.as_str()));
    for protection in measured.filter(|t| t.validity == Validity::Valid).filter_map(|t| t.protection.as_ref())
    {
        add_costs(&mut costs, protection);
    }
    let (mut failovers, mut spans, mut loaded) = (Vec::new(), Vec::new(), 0.0);
    for (record, outcome) in trials.iter().filter_map(|t| Some((*t, failover(t)?))) {
        let faults = outcome.faults.iter().filter(|f| !f.fault.kind.mends()).take(MOST_FAULTS);
        failovers.extend((1..).zip(faults).map(|(number, f)| one(record, number, f)));
        let length = seconds(outcome.duration);
        loaded += length;
        let spells = [(&outcome.unprotected, false), (&outcome.down, true)];
        for (spell, down) in spells.into_iter().flat_map(|(s, down)| s.iter().map(move |s| (s, down))) {
            if spans.len() < MOST_SPELLS {
                spans.push(span(record.index, spell, down, length));
            }
        }
    }
    let mut environment = Environment {
        cell: cell.id.clone(),
        label: data.environment_label(cell),
        position,
        mode,
        interval_ns: interval.map(|i| i.0 as f64),
        has_disk,
        failovers,
        spans,
        loaded,
        costs,
        overlays: Vec::new(),
    };
    environment.overlays = overlays(run, &environment, trials, damage);
    environment
}

fn seconds(nanos: Nanos) -> f64 {
    nanos.as_secs_f64()
}

fn span(trial: u32, spell: &Spell, down: bool, length: f64) -> Span {
    let ended = spell.to.is_some_and(|to| seconds(to) < length);
    let to = spell.to.map_or(length, seconds).min(length);
    Span { trial, from: seconds(spell.from).min(length), to, ended, reason: spell.reason.clone(), down }
}

/// Time between two moments, where they are in order.
fn between(from: Option<Nanos>, to: Option<Nanos>) -> Option<f64> {
    Some(to?.0.checked_sub(from?.0)? as f64)
}

fn one(record: &TrialRecord, number: usize, f: &FaultRecord) -> Failover {
    let since = |at: Option<Nanos>| between(f.injected, at).map(|ns| ns / 1e9);
    let recovered = f.recovered.as_ref();
    let host_failed = matches!(
        f.fault.kind,
        FaultKind::Kill(FaultTarget::PrimaryHost | FaultTarget::Sut)
            | FaultKind::Hang(FaultTarget::PrimaryHost | FaultTarget::Sut)
    );
    let planned = recovered.is_some_and(|r| r.how == Recovery::HandedOver)
        || matches!(f.fault.kind, FaultKind::Failover(_));
    let seen = f.seen.as_ref();
    let excluded = match (&record.validity, &f.discounted, f.injected) {
        (Validity::Valid, None, Some(_)) => None,
        (Validity::Valid, Some(why), _) => Some(why.clone()),
        (Validity::Valid, None, None) => Some("it could not be done".to_owned()),
        (validity, ..) => Some(format!("its trial doesn't count: {}", invalid(validity).unwrap_or_default())),
    };
    let end = match (&f.lost, seen) {
        (Some(why), _) => End::Lost(why.clone()),
        (None, Some(seen)) if seen.first_answer.is_none() => {
            End::Lost("nobody answered until the end of the trial or the next fault".to_owned())
        }
        _ => End::Survived,
    };
    let connections = seen.and_then(|s| s.connections);
    let running = recovered.map(|r| r.at);
    Failover {
        trial: record.index,
        measure: record.measure.clone(),
        number,
        fault: f.fault.kind.words(),
        happened: happened(f.fault.kind),
        host_failed,
        planned,
        at: seconds(f.injected.unwrap_or(f.fault.at)),
        end,
        excluded,
        times: Times {
            detected: since(f.detected),
            fenced: since(f.fenced),
            promoted: since(running),
            answered: since(seen.and_then(|s| s.first_answer)),
            normal: since(seen.and_then(|s| s.normal_again)),
            rearmed: since(f.armed),
        },
        fencing_ns: between(f.detected, f.fenced),
        takeover_ns: match recovered.and_then(|r| r.stopped) {
            Some(stopped) => Some(stopped.0 as f64),
            None => between(f.fenced.or(f.detected), running),
        },
        rearm_ns: between(running.or(f.fenced).or(f.detected), f.armed),
        silence_arming_ns: seen.and_then(|s| s.silence_arming).map(|silence| silence.0 as f64),
        forgotten_ns: recovered
            .filter(|r| r.how == Recovery::Restored)
            .and_then(|r| r.age)
            .map(|age| age.0 as f64),
        counts: Counts {
            open: connections.map(|c| c.open),
            kept: connections.map(|c| c.kept),
            lost: connections.map(|c| c.lost),
            attempted: seen.map(|s| s.attempts),
            failed: seen.map(|s| s.failed),
            delayed: seen.map(|s| s.delayed),
            retransmissions: seen.map(|s| s.retransmissions),
        },
    }
}

/// What a trial's faults come to: medians over those that count, as a trial gives one value of a metric.
pub(crate) fn of_trial(record: &TrialRecord) -> Vec<Value> {
    let faults = failover(record).map_or(&[][..], |o| o.faults.as_slice());
    let broken = faults.iter().filter(|f| !f.fault.kind.mends()).take(MOST_FAULTS);
    let counted: Vec<Failover> =
        broken.map(|f| one(record, 0, f)).filter(|f| f.excluded.is_none() && !f.planned).collect();
    let survived: Vec<&Failover> = counted.iter().filter(|f| f.end == End::Survived).collect();
    let mut values = Vec::new();
    let mut put = |metric, value: Option<f64>| {
        values.extend(value.map(|value| Value { metric, value, resolution: 0.0, censored: false }));
    };
    let share = survived.len() as f64 / counted.len() as f64;
    put("survived", (!counted.is_empty()).then_some(share));
    for (metric, name) in [
        ("detection", "detection"),
        ("takeover", "takeover"),
        ("first_answer", "first_answer"),
        ("requests_lost", "failed"),
        ("requests_delayed", "delayed"),
    ] {
        let of = QUANTITIES.iter().find(|q| q.name == name).map(|q| q.of);
        let found: Vec<f64> = survived.iter().filter_map(|f| of.and_then(|of| of(f))).collect();
        put(metric, vtax_stats::quantile(&found, 0.5));
    }
    values
}

/// Adds a trial's checkpoints; those of each armed time weigh as much as they lasted.
fn add_costs(costs: &mut Costs, p: &ProtectionRecord) {
    let usable = |v: f64| v.is_finite() && v >= 0.0;
    let (mut count, mut time, mut stopped, mut bytes, mut pages) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let sound = |c: &&vtax_store::failover::CheckpointRecord| {
        [c.stopped_share, c.bytes_mean, c.pages_mean_at_most].into_iter().all(usable)
    };
    for c in p.checkpoints.iter().filter(sound).filter(|c| c.count > 1) {
        let (n, seconds) = (c.count as f64, seconds(c.time));
        count += n;
        time += seconds;
        stopped += c.stopped_share * seconds;
        bytes += c.bytes_mean * n;
        pages += c.pages_mean_at_most * n;
    }
    if count > 0.0 && time > 0.0 {
        costs.checkpoint_rate.push(count / time);
        costs.stopped_share.push(stopped / time);
        costs.bytes.push(bytes / count);
        costs.pages.push(pages / count);
    }
    let length = seconds(p.time);
    if length > 0.0 {
        if count > 0.0 {
            costs.link_rate.push(p.link_bytes as f64 / length);
        }
        if !p.host_cpu.is_empty() {
            costs.host_cpu.push(p.host_cpu.values().map(|t| seconds(*t)).sum::<f64>() / length);
        }
        costs.supervision.push(seconds(p.supervision_cpu) / length);
    }
    costs.armed_ns.extend(p.armed_in.iter().take(MOST_SPELLS).map(|t| t.0 as f64));
    costs.pauses.add(&p.pauses);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use vtax_load::LatencyHistogram;
    use vtax_plan::model::Fault;
    use vtax_store::failover::{CheckpointRecord, Connections, Recovered, Seen};

    use super::*;
    use crate::ft::figures::{Figure, QUANTITIES};

    fn trial() -> TrialRecord {
        TrialRecord {
            cell: "vm".to_owned(),
            measure: "failover".to_owned(),
            repetition: 0,
            started_unix_ms: 0,
            validity: Validity::Valid,
            ..TrialRecord::default()
        }
    }

    fn fault(t: &[Option<u64>; 8], counts: [u64; 4]) -> FaultRecord {
        let at = |i: usize| t[i].map(Nanos);
        FaultRecord {
            fault: Fault { at: Nanos(5), kind: FaultKind::Kill(FaultTarget::PrimaryHost) },
            injected: at(0),
            host: None,
            protected: true,
            discounted: None,
            detected: at(1),
            fenced: at(2),
            recovered: at(3).map(|at| Recovered { at, how: Recovery::Promoted, age: None, stopped: None }),
            lost: None,
            armed: at(4),
            seen: Some(Seen {
                last_before: at(5),
                first_answer: at(6),
                until: Nanos(counts[0]),
                attempts: counts[0],
                failed: counts[1],
                delayed: counts[2],
                retransmissions: counts[3],
                connections: Some(Connections { open: counts[1], kept: counts[2], lost: counts[3] }),
                normal: None,
                normal_again: at(7),
                silence_arming: at(6),
            }),
        }
    }

    fn moments() -> impl Strategy<Value = [Option<u64>; 8]> {
        prop::array::uniform8(prop::option::of(prop_oneof![any::<u64>(), 0u64..1000]))
    }

    proptest! {
        /// Whatever the order of moments: no length is negative or not a number, and none of them is lost on the
        /// way into a table.
        #[test]
        fn moments_in_any_order(t in moments(), counts in any::<[u64; 4]>()) {
            let found = one(&trial(), 1, &fault(&t, counts));
            for q in &QUANTITIES {
                let value = (q.of)(&found);
                prop_assert!(value.is_none_or(|v| v.is_finite() && v >= 0.0), "{}: {value:?}", q.name);
                let figure = Figure::new([value; 4]);
                prop_assert!(figure.text(q.unit).len() < 40 && figure.detail(q.unit).len() < 80);
            }
            prop_assert_eq!(found.times.detected.is_some(), matches!((t[0], t[1]), (Some(a), Some(b)) if b >= a));
        }

        /// Numbers that nobody could have measured don't reach a table.
        #[test]
        fn checkpoints_of_any_size(
            count in any::<u64>(), time in any::<u64>(), values in any::<[f64; 3]>(), length in any::<u64>(),
        ) {
            let checkpoint = CheckpointRecord {
                count,
                time: Nanos(time),
                per_second: values[0],
                stopped_share: values[0],
                bytes_mean: values[1],
                pages_mean_at_most: values[2],
            };
            let record = ProtectionRecord {
                mode: "kemari".to_owned(),
                time: Nanos(length),
                armed_in: vec![Nanos(time); 3],
                checkpoints: vec![checkpoint; 2],
                pauses: LatencyHistogram::new(),
                link_bytes: count,
                supervision_cpu: Nanos(time),
                host_cpu: [("a".to_owned(), Nanos(time))].into(),
                limits: BTreeMap::new(),
                problems: Vec::new(),
            };
            let mut costs = Costs::default();
            add_costs(&mut costs, &record);
            let all = [&costs.checkpoint_rate, &costs.stopped_share, &costs.bytes, &costs.pages, &costs.link_rate];
            for v in all.into_iter().flatten() {
                prop_assert!(*v >= 0.0 && !v.is_nan(), "{v}");
            }
        }
    }
}
