//! What a trial on several systems tells of each, and of how they differ.

use std::collections::BTreeMap;

use vtax_store::record::{Observation, TrialRecord, Validity};
use vtax_units::fact;

use crate::metric::{Info, Unanswered, Value, exact, higher, lower, percentiles};

/// The metrics of several systems, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher("fairness", "fairness between systems (Jain)", "1", 0),
    higher("rate_slowest", "rate of the slowest system", "req/s", 0),
    lower("latency_p99_slowest", "p99 of the slowest system", "ns", 0),
    lower("boot_slowest", "last system up", "ns", 0),
];

/// What a system is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// One of those that the cell measures.
    System,
    /// Beside them, and of interest.
    Measured,
    /// Beside them, to disturb.
    Neighbour,
}

impl Role {
    fn of(observation: &Observation) -> Self {
        match observation.facts.get(fact::ROLE).map(String::as_str) {
            Some(fact::ROLE_NEIGHBOUR) => Self::Neighbour,
            Some(fact::ROLE_MEASURED) => Self::Measured,
            _ => Self::System,
        }
    }

    /// Its word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::System => fact::ROLE_SYSTEM,
            Self::Measured => fact::ROLE_MEASURED,
            Self::Neighbour => fact::ROLE_NEIGHBOUR,
        }
    }
}

/// What one system of a valid trial did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SystemFound {
    pub(crate) cell: String,
    pub(crate) measure: String,
    pub(crate) trial: u32,
    /// `sut`, `sut-2`.
    pub(crate) member: String,
    pub(crate) role: Role,
    /// What the plan calls it, where it does.
    pub(crate) name: Option<String>,
    /// Requests that were to be sent to it, per second.
    pub(crate) asked: f64,
    /// Successful answers per second.
    pub(crate) rate: f64,
    /// Requests that failed or were missed.
    pub(crate) failed: u64,
    /// Percentiles of all that was asked of it, in nanoseconds; `None` where too few answers tell it.
    pub(crate) p50: Option<Value>,
    pub(crate) p99: Option<Value>,
    /// Of answers alone.
    pub(crate) mean: f64,
    /// CPU time per answer, in nanoseconds.
    pub(crate) cpu: Option<f64>,
    pub(crate) memory: Option<f64>,
    pub(crate) steal: Option<f64>,
    /// Its own boot, without its wait for others.
    pub(crate) boot: Option<f64>,
    /// From the first system's start until it was up.
    pub(crate) up: Option<f64>,
    /// Part of its boot: from its first DHCP message until it had its address, where it asked for it.
    pub(crate) lease: Option<f64>,
}

/// Which percentiles are read.
const PERCENTILES: [(&str, f64); 2] = [("latency_p50", 0.5), ("latency_p99", 0.99)];

/// Each system of a valid trial; none where there is but one.
pub(crate) fn read(record: &TrialRecord) -> Vec<SystemFound> {
    if record.validity != Validity::Valid {
        return Vec::new();
    }
    record.members().filter_map(|(member, observation)| system(record, member, observation)).collect()
}

fn system(record: &TrialRecord, member: &str, observation: &Observation) -> Option<SystemFound> {
    let load = observation.result.as_ref()?.load()?;
    let seconds = load.duration.as_secs_f64().max(1e-9);
    let asked = load.counts.intended.max(load.counts.sent);
    let known: Vec<Value> = percentiles(&load.latency, Unanswered::of(load), &PERCENTILES).collect();
    let percentile = |metric: &str| known.iter().find(|value| value.metric == metric).copied();
    let own = |name: &str| figure(&observation.facts, name);
    let cpu = observation.cpu.as_ref().filter(|cpu| cpu.requests > 0);
    let of_node = |name: &str| figure(&record.facts, &fact::of_node(member, name));
    Some(SystemFound {
        cell: record.cell.clone(),
        measure: record.measure.clone(),
        trial: record.index,
        member: member.to_owned(),
        role: Role::of(observation),
        name: observation.facts.get(fact::NAME).cloned(),
        asked: asked as f64 / seconds,
        rate: load.counts.ok as f64 / seconds,
        failed: asked.saturating_sub(load.counts.ok),
        p50: percentile("latency_p50"),
        p99: percentile("latency_p99"),
        mean: load.latency.mean().0 as f64,
        cpu: cpu.map(|cpu| cpu.total().0 as f64 / cpu.requests as f64),
        memory: own(fact::MEMORY),
        steal: own(fact::STEAL_SHARE),
        boot: of_node(fact::BOOT),
        // Runs of former versions had the wait for the others in the one time.
        up: of_node(fact::UP).or_else(|| of_node(fact::BOOT)),
        lease: of_node(fact::LEASE_TIME),
    })
}

/// A fact that is a number. The text of a file may also be `NaN` or `inf`, which no figure is.
fn figure(facts: &BTreeMap<String, String>, name: &str) -> Option<f64> {
    facts.get(name)?.parse().ok().filter(|value: &f64| value.is_finite())
}

/// How the systems of a trial differ; nothing where the cell measures but one.
pub(crate) fn values(record: &TrialRecord) -> Vec<Value> {
    let systems: Vec<SystemFound> = read(record).into_iter().filter(|s| s.role == Role::System).collect();
    if systems.len() < 2 {
        return Vec::new();
    }
    let rates: Vec<f64> = systems.iter().map(|system| system.rate).collect();
    let mut values = vec![exact("rate_slowest", rates.iter().copied().fold(f64::INFINITY, f64::min))];
    values.extend(fairness(&rates).map(|fairness| exact("fairness", fairness)));
    // Only where it is known of all: else the slowest may be one that it isn't known of.
    let p99: Option<Vec<Value>> = systems.iter().map(|system| system.p99).collect();
    let slowest = p99.and_then(|p99| p99.into_iter().reduce(longer));
    values.extend(slowest.map(|p99| Value { metric: "latency_p99_slowest", ..p99 }));
    let up: Option<Vec<f64>> = systems.iter().map(|system| system.up).collect();
    values.extend(up.map(|up| exact("boot_slowest", up.into_iter().fold(0.0, f64::max))));
    values
}

/// The longer of two percentiles. One that is a bound may be longer than any answer, so with it this is a bound as well.
fn longer(a: Value, b: Value) -> Value {
    Value { value: a.value.max(b.value), censored: a.censored || b.censored, ..a }
}

/// Jain's index of some rates; `None` where all are zero.
fn fairness(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_among_the_slowest_makes_a_bound() {
        let [answered, bound] = [3e6, 2e6].map(|ns| exact("latency_p99", ns));
        let bound = Value { censored: true, ..bound };
        assert_eq!(longer(answered, answered), answered);
        assert_eq!(longer(answered, bound), Value { censored: true, ..answered });
        assert_eq!(longer(bound, answered), Value { censored: true, ..answered });
    }

    #[test]
    fn what_is_no_number_is_no_figure() {
        let of = |text: &str| figure(&BTreeMap::from([("memory".to_owned(), text.to_owned())]), "memory");
        assert_eq!((of("4.5"), of("-1e3")), (Some(4.5), Some(-1e3)));
        for text in ["NaN", "nan", "inf", "-infinity", "1e999", "", "4 B"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(figure(&BTreeMap::new(), "memory"), None);
    }

    #[test]
    fn fairness_is_one_for_equals_and_least_where_one_has_everything() {
        assert_eq!(fairness(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(fairness(&[9.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!(fairness(&[0.0, 0.0]), None);
    }
}
