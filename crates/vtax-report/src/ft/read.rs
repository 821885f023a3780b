//! From the stored run to what the section shows.

use vtax_plan::model::{Cell, EnvironmentKind, FtMode, MeasureKind, Workload};
use vtax_store::RunDir;
use vtax_store::failover::{ProtectionRecord, Spell};
use vtax_store::record::{TrialRecord, Validity};
use vtax_units::Nanos;

use super::around::overlays;
use super::failovers::{Costs, Environment, Ft, Group, OfTrials, Span};
use super::protects::Mode;
use super::trial::{broken, failover, one, tell_measures_apart};
use super::writes;
use crate::data::RunData;
use crate::family::sip::study;

/// Spells without protection, and problems, that are looked at: a run may hold anything.
const MOST_SPELLS: usize = 1000;

/// Reads what a run has about fault tolerance.
pub(crate) fn read(run: &RunDir, data: &RunData) -> Ft {
    let mut ft = Ft::default();
    for group in data.groups() {
        let of_group = |t: &&TrialRecord| group.cells.iter().any(|c| c.id == t.cell);
        let trials: Vec<&TrialRecord> = data.trials.iter().filter(of_group).collect();
        let has_faults = |t: &&TrialRecord| t.protections().next().is_some() || failover(t).is_some();
        if !trials.iter().any(has_faults) {
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
        let study = study::of(&data.plan);
        ft.groups.push(Group { prefix, label: group.label.clone(), environments, study, costs_of });
    }
    ft
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
        MeasureKind::Storage(_) => 6,
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
    for trial in measured.filter(|t| t.validity == Validity::Valid) {
        let own = trial.protections().filter(|(name, _)| is_measured(cell, name));
        add_trial(&mut costs, trial.index, own.map(|(_, protection)| protection));
    }
    let (mut failovers, mut spans, mut loaded) = (Vec::new(), Vec::new(), 0.0);
    for (record, outcome) in trials.iter().filter_map(|t| Some((*t, failover(t)?))) {
        failovers.extend((1..).zip(broken(outcome)).map(|(number, f)| one(record, number, f)));
        let length = seconds(outcome.duration);
        loaded += length;
        let spells = [(&outcome.unprotected, false), (&outcome.down, true)];
        for (spell, down) in spells.into_iter().flat_map(|(s, down)| s.iter().map(move |s| (s, down))) {
            if spans.len() < MOST_SPELLS {
                spans.push(span(record.index, spell, down, length));
            }
        }
    }
    tell_measures_apart(&mut failovers);
    failovers.iter_mut().for_each(|f| f.counts.most = connections(cell));
    let problems = trials.iter().flat_map(|t| {
        let of_trial = t.protections().flat_map(|(_, of)| &of.problems);
        of_trial.map(|problem| (t.index, problem.clone()))
    });
    let mut environment = Environment {
        cell: cell.id.clone(),
        label: data.environment_label(cell),
        position,
        mode,
        interval_ns: interval.map(|i| i.0 as f64),
        has_disk,
        failovers,
        spans,
        problems: problems.take(MOST_SPELLS).collect(),
        loaded,
        costs,
        overlays: Vec::new(),
        writes: trials.iter().filter_map(|trial| writes::of_trial(trial)).collect(),
    };
    environment.overlays = overlays(run, &environment, trials, damage);
    environment
}

/// How many connections clients have at most, where the plan says so.
fn connections(cell: &Cell) -> Option<u64> {
    match &cell.workload {
        Workload::Http(http) => Some(u64::from(http.connections)),
        Workload::Redis(redis) => Some(u64::from(redis.connections)),
        Workload::Sip(_)
        | Workload::Script(_)
        | Workload::Network(_)
        | Workload::Storage(_)
        | Workload::Ftp(_)
        | Workload::Desktop(_) => None,
    }
}

/// Whether the system of this name is one that the cell measures: those beside them may be protected in another way.
fn is_measured(cell: &Cell, name: &str) -> bool {
    match name.strip_prefix("sut-") {
        None => true,
        Some(number) => number.parse().is_ok_and(|number: u32| number <= cell.environment.count),
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos.as_secs_f64()
}

fn span(trial: u32, spell: &Spell, down: bool, length: f64) -> Span {
    let ended = spell.to.is_some_and(|to| seconds(to) < length);
    let to = spell.to.map_or(length, seconds).min(length);
    Span { trial, from: seconds(spell.from).min(length), to, ended, reason: spell.reason.clone(), down }
}

/// Adds a trial with these protected systems: what they took together, and the mean of what each has for itself.
fn add_trial<'a>(costs: &mut Costs, trial: u32, systems: impl Iterator<Item = &'a ProtectionRecord>) {
    let mut own = Costs::default();
    systems.for_each(|system| add_costs(&mut own, trial, system));
    let sum =
        |of: &OfTrials| (!of.is_empty()).then(|| (trial, of.iter().map(|(_, value)| value).sum::<f64>()));
    let mean = |of: &OfTrials| sum(of).map(|(trial, sum)| (trial, sum / of.len() as f64));
    costs.checkpoint_rate.extend(mean(&own.checkpoint_rate));
    costs.stopped_share.extend(mean(&own.stopped_share));
    costs.bytes.extend(mean(&own.bytes));
    costs.pages.extend(mean(&own.pages));
    costs.link_rate.extend(sum(&own.link_rate));
    costs.host_cpu.extend(sum(&own.host_cpu));
    costs.supervision.extend(sum(&own.supervision));
    costs.armed_ns.append(&mut own.armed_ns);
    costs.pauses.add(&own.pauses);
}

/// Adds one system's checkpoints in the trial of that index; those of each armed time weigh as much as they lasted.
fn add_costs(costs: &mut Costs, trial: u32, p: &ProtectionRecord) {
    let usable = |v: f64| v.is_finite() && v >= 0.0;
    let (mut count, mut gaps, mut time, mut stopped, mut bytes, mut pages) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    let sound = |c: &&vtax_store::failover::CheckpointRecord| {
        [c.stopped_share, c.bytes_mean, c.pages_mean_at_most].into_iter().all(usable)
    };
    for c in p.checkpoints.iter().filter(sound).filter(|c| c.count > 1) {
        let (n, seconds) = (c.count as f64, seconds(c.time));
        count += n;
        // The time begins with the first.
        gaps += n - 1.0;
        time += seconds;
        stopped += c.stopped_share * seconds;
        bytes += c.bytes_mean * n;
        pages += c.pages_mean_at_most * n;
    }
    if count > 0.0 && time > 0.0 {
        costs.checkpoint_rate.push((trial, gaps / time));
        costs.stopped_share.push((trial, stopped / time));
        costs.bytes.push((trial, bytes / count));
        costs.pages.push((trial, pages / count));
    }
    let length = seconds(p.time);
    if length > 0.0 {
        if count > 0.0 {
            costs.link_rate.push((trial, p.link_bytes as f64 / length));
        }
        if !p.host_cpu.is_empty() {
            let all: f64 = p.host_cpu.values().map(|t| seconds(*t)).sum();
            costs.host_cpu.push((trial, all / length));
        }
        costs.supervision.push((trial, seconds(p.supervision_cpu) / length));
    }
    costs.armed_ns.extend(p.armed_in.iter().take(MOST_SPELLS).map(|t| (trial, t.0 as f64)));
    costs.pauses.add(&p.pauses);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use vtax_load::LatencyHistogram;
    use vtax_store::failover::CheckpointRecord;

    use super::*;

    fn record(checkpoints: Vec<CheckpointRecord>, time: Nanos, count: u64) -> ProtectionRecord {
        ProtectionRecord {
            mode: "kemari".to_owned(),
            time,
            armed_in: vec![time; 3],
            checkpoints,
            pauses: LatencyHistogram::new(),
            link_bytes: count,
            supervision_cpu: time,
            host_cpu: [("a".to_owned(), time)].into(),
            limits: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn the_first_checkpoint_of_an_armed_time_ends_no_interval() {
        let of = |count, seconds, bytes_mean| CheckpointRecord {
            count,
            time: Nanos::from_secs(seconds),
            per_second: 0.0,
            stopped_share: 0.1,
            bytes_mean,
            pages_mean_at_most: 1.0,
        };
        let mut costs = Costs::default();
        add_costs(&mut costs, 4, &record(vec![of(11, 5, 300.0), of(21, 10, 100.0)], Nanos::from_secs(20), 1));
        assert_eq!(costs.checkpoint_rate, [(4, 2.0)], "as each armed time's own rate is");
        assert_eq!(costs.bytes, [(4, (11.0 * 300.0 + 21.0 * 100.0) / 32.0)]);
    }

    /// Three protected systems of one trial were three values, each of one system.
    #[test]
    fn a_trial_is_one_value_however_many_systems_it_has() {
        let of = |count, bytes_mean, link_bytes| {
            let checkpoint = CheckpointRecord {
                count,
                time: Nanos::from_secs(10),
                per_second: 0.0,
                stopped_share: 0.1,
                bytes_mean,
                pages_mean_at_most: bytes_mean / 4.0,
            };
            let cpu = Nanos::from_secs(5);
            ProtectionRecord {
                supervision_cpu: cpu,
                host_cpu: ["a", "b"].map(|host| (host.to_owned(), cpu)).into(),
                ..record(vec![checkpoint], Nanos::from_secs(20), link_bytes)
            }
        };
        let systems = [of(11, 100.0, 2000), of(21, 200.0, 4000), of(31, 600.0, 6000)];
        let mut costs = Costs::default();
        add_trial(&mut costs, 7, systems.iter());
        assert_eq!(
            (&costs.checkpoint_rate, &costs.bytes, &costs.pages),
            (&vec![(7, 2.0)], &vec![(7, 300.0)], &vec![(7, 75.0)])
        );
        assert!(costs.stopped_share.len() == 1 && (costs.stopped_share[0].1 - 0.1).abs() < 1e-12);
        // Together they carried 12,000 bytes in 20 s, and took 30 s of processors and 15 s of supervision.
        assert_eq!(
            (&costs.link_rate, &costs.host_cpu, &costs.supervision),
            (&vec![(7, 600.0)], &vec![(7, 1.5)], &vec![(7, 0.75)])
        );
        assert_eq!(costs.armed_ns.len(), 9, "each time that one was protected");
        assert!(costs.armed_ns.iter().all(|(trial, _)| *trial == 7), "{:?}", costs.armed_ns);
        // A trial without a protected system adds nothing.
        add_trial(&mut costs, 8, std::iter::empty());
        assert_eq!((costs.link_rate.len(), costs.supervision.len()), (1, 1));
        // Indexes are the trials' own, not places in the list.
        add_trial(&mut costs, 12, systems.iter().take(1));
        let trials: Vec<u32> = costs.link_rate.iter().map(|(trial, _)| *trial).collect();
        assert_eq!((trials, costs.armed_ns[9].0), (vec![7, 12], 12));
    }

    proptest! {
        /// Numbers that can't have been measured don't reach a table.
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
                time: Nanos(length),
                ..record(vec![checkpoint; 2], Nanos(time), count)
            };
            let mut costs = Costs::default();
            add_costs(&mut costs, 0, &record);
            let all = [&costs.checkpoint_rate, &costs.stopped_share, &costs.bytes, &costs.pages, &costs.link_rate];
            for (_, v) in all.into_iter().flatten() {
                prop_assert!(*v >= 0.0 && !v.is_nan(), "{v}");
            }
        }
    }
}
