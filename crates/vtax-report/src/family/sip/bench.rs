//! The IMS benchmark: what its section of the context, its sheets and its CSV files show.

use vtax_plan::model::{Cell, EnvironmentKind, MeasureKind};
use vtax_store::RunDir;
use vtax_store::ims::{ImsOutcome, ImsPhase, ImsPhaseKind};
use vtax_store::record::{TrialRecord, Validity};
use vtax_units::{CpuSet, fact};

use super::detail::{Detail, Reduction};
use super::trial::outcome;
use super::usage::{self, Site};
use crate::data::{Group, RunData};

/// Every IMS benchmark of a run: one per group of compared cells and measure.
#[derive(Debug, Default)]
pub(crate) struct Benches {
    pub(crate) benches: Vec<Bench>,
    /// What couldn't be read.
    pub(crate) damage: Vec<String>,
}

/// One measure in the cells that are compared with each other.
#[derive(Debug)]
pub(crate) struct Bench {
    /// What the addresses of its parts begin with.
    pub(crate) prefix: String,
    /// What tells it from others; empty where there is one only.
    pub(crate) label: String,
    pub(crate) measure: String,
    /// The plan gives the load; no capacity is looked for.
    pub(crate) at_given_rate: bool,
    /// Baseline first; those with a trial.
    pub(crate) environments: Vec<Environment>,
}

/// One cell with its trials.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) cell: String,
    pub(crate) label: String,
    /// Position in its group; 0 is the baseline.
    pub(crate) position: usize,
    /// Indices of its trials in the run's list of records.
    pub(crate) trials: Vec<usize>,
    /// The trial that stands for all: the one of the median capacity, or rate.
    pub(crate) shown: Shown,
}

/// A trial in full.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Index of its record in the run's list.
    pub(crate) record: usize,
    pub(crate) outcome: ImsOutcome,
    /// Without phases where its file is missing.
    pub(crate) detail: Detail,
}

impl Shown {
    /// The phases with their places.
    pub(crate) fn measured(&self) -> impl Iterator<Item = (usize, &ImsPhase)> {
        let prepared = |p: &ImsPhase| matches!(p.kind, ImsPhaseKind::PreRegistration | ImsPhaseKind::Stir);
        self.outcome.phases.iter().enumerate().filter(move |(_, p)| !prepared(p))
    }

    /// Length of all phases in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        let first = self.outcome.phases.first().map_or(0, |p| p.started_unix_ms);
        let end =
            |p: &ImsPhase| p.started_unix_ms.saturating_sub(first) as f64 / 1000.0 + p.duration.as_secs_f64();
        self.outcome.phases.iter().map(end).fold(0.0, f64::max)
    }
}

/// Reads what the run has of IMS benchmarks; one trial of each cell in full.
pub(crate) fn read(run: &RunDir, data: &RunData) -> Benches {
    let mut ims = Benches::default();
    let groups = data.groups();
    for group in &groups {
        for measure in data.plan.measures.iter().filter(|m| matters(&m.kind)) {
            let environments = environments(run, data, group, &measure.name, &mut ims.damage);
            if environments.is_empty() {
                continue;
            }
            let prefix = match ims.benches.len() {
                0 => "ims".to_owned(),
                n => format!("ims{}", n + 1),
            };
            let label = group.label.clone();
            let at_given_rate = matches!(measure.kind, MeasureKind::Latency(_));
            let measure = measure.name.clone();
            ims.benches.push(Bench { prefix, label, measure, at_given_rate, environments });
        }
    }
    ims
}

fn matters(kind: &MeasureKind) -> bool {
    // A given rate is measured with the same phases.
    matches!(kind, MeasureKind::Ims(_) | MeasureKind::Latency(_))
}

/// The cells of a group that have trials, a few at a time: decoding is all there is to do.
fn environments(
    run: &RunDir,
    data: &RunData,
    group: &Group<'_>,
    measure: &str,
    damage: &mut Vec<String>,
) -> Vec<Environment> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let cells: Vec<(usize, &Cell)> = group.cells.iter().copied().enumerate().collect();
    let mut all = Vec::new();
    for some in cells.chunks(threads) {
        let read = |(position, cell): (usize, &Cell)| {
            let mut damage = Vec::new();
            (environment(run, data, cell, position, measure, &mut damage), damage)
        };
        let results = std::thread::scope(|scope| {
            // A host that is short of memory gives no threads: what they would have done is done here.
            let other = |job| std::thread::Builder::new().spawn_scoped(scope, move || read(job)).ok();
            let others: Vec<_> = some.iter().map(|job| (job, other(*job))).collect();
            let failed =
                |cell: &Cell| (None, vec![format!("the IMS trials of {} could not be shown", cell.id)]);
            let done = others.into_iter().map(|(job, other)| match other {
                Some(other) => other.join().unwrap_or_else(|_| failed(job.1)),
                None => read(*job),
            });
            done.collect::<Vec<_>>()
        });
        for (environment, damaged) in results {
            all.extend(environment);
            damage.extend(damaged);
        }
    }
    all
}

fn environment(
    run: &RunDir,
    data: &RunData,
    cell: &Cell,
    position: usize,
    measure: &str,
    damage: &mut Vec<String>,
) -> Option<Environment> {
    let own = |t: &TrialRecord| t.cell == cell.id && t.measure == measure && outcome(t).is_some();
    let trials: Vec<usize> = (0..data.trials.len()).filter(|i| own(&data.trials[*i])).collect();
    let record = representative(data, &trials)?;
    let outcome = outcome(&data.trials[record])?.clone();
    let detail = detail(run, data, cell, &data.trials[record], &outcome, damage);
    let shown = Shown { record, outcome, detail };
    Some(Environment { cell: cell.id.clone(), label: data.environment_label(cell), position, trials, shown })
}

/// The valid trial of the median capacity or rate (the lower one of two); without one, the last.
fn representative(data: &RunData, trials: &[usize]) -> Option<usize> {
    let figure = |i: usize| outcome(&data.trials[i]).and_then(|o| Some(o.decisive()?.effective.0));
    let mut valid: Vec<(usize, f64)> = trials
        .iter()
        .filter(|i| data.trials[**i].validity == Validity::Valid)
        .map(|i| (*i, figure(*i).unwrap_or(0.0)))
        .collect();
    valid.sort_by(|a, b| a.1.total_cmp(&b.1));
    let middle = valid.len().saturating_sub(1) / 2;
    valid.get(middle).map(|v| v.0).or_else(|| trials.last().copied())
}

/// The host's CPUs that a node was given: a fact of the trial, else the first words of its limits,
/// `CPUs 0-1 (...)`.
pub(crate) fn cpus(record: &TrialRecord, node: &str) -> Option<CpuSet> {
    let own = record.facts.get(&fact::cpus_of(node)).map(String::as_str);
    let limits = record.facts.get(&fact::of_node(node, fact::LIMITS)).map(String::as_str);
    let within = limits.and_then(|l| l.strip_prefix("CPUs ")?.split(" (").next());
    own.or(within)?.parse::<CpuSet>().ok().filter(|set| !set.is_empty())
}

fn detail(
    run: &RunDir,
    data: &RunData,
    cell: &Cell,
    record: &TrialRecord,
    outcome: &ImsOutcome,
    damage: &mut Vec<String>,
) -> Detail {
    let trial = run.trial(record.index);
    let mut reduction = Reduction::new();
    if let Err(e) = trial.for_each_phase(|phase| reduction.add(phase)) {
        damage.push(e.to_string());
    }
    let sut_cpus = cpus(record, "sut");
    let site = Site {
        guest: matches!(cell.environment.kind, EnvironmentKind::Vm(_)),
        sut_count: match &sut_cpus {
            Some(set) => set.len() as f64,
            None => f64::from(data.plan.budget.sut_cpus.unwrap_or(1).max(1)),
        },
        sut_cpus,
        client_cpus: cpus(record, "client"),
        clocks: outcome.probe_clocks.clone(),
        first_unix_ms: outcome.phases.first().map_or(record.started_unix_ms, |p| p.started_unix_ms),
    };
    let probes = usage::read(&trial, &site).unwrap_or_else(|e| {
        damage.push(e.to_string());
        Vec::new()
    });
    reduction.finish(probes)
}
