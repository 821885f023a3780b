//! What a SIP session found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_plan::model::{Scenario, SipMetric};
use vtax_units::{Nanos, Rate};

use super::{PhaseKind, SipConnections, SipProfile};
use crate::{Doubt, GeneratorUse, LatencyHistogram};

/// What one profile found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SipResult {
    /// The phases that were begun, in order.
    pub phases: Vec<PhaseResult>,
    /// Why the profile ended before its last phase, where it did.
    pub stopped: Option<String>,
    /// Messages that belonged to nothing or could not be used, by kind (`malformed`,
    /// `unknown-transaction`, `unexpected-request`, ...).
    pub stray: BTreeMap<String, u64>,
    /// Subscribers by pool when it ended.
    pub pools: Pools,
    /// Its connections; `None` over UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<SipConnections>,
}

/// Subscribers by pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// Free and not registered.
    pub unregistered: u64,
    /// Free and registered.
    pub registered: u64,
    /// In a scenario.
    pub busy: u64,
}

/// One phase. A scenario belongs to the phase and the second in which it was meant to start;
/// everything but `seconds` leaves the transient out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// As in the profile.
    pub name: String,
    /// Scenario attempts per second asked for.
    pub requested: Rate,
    /// Attempts per second really made.
    pub effective: Rate,
    /// Start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Its length, transient included.
    pub duration: Nanos,
    /// Time at its start that doesn't count.
    pub transient: Nanos,
    /// By scenario; those of the mix, in the order of [`Scenario::ALL`].
    pub scenarios: Vec<ScenarioResult>,
    /// By metric and scenario, those with at least one value.
    pub metrics: Vec<MetricResult>,
    /// Second by second from the start of the phase, transient included.
    pub seconds: Vec<Second>,
    /// Actual minus intended start of scenarios: how late the generator was.
    pub lateness: LatencyHistogram,
    /// Everything by itself, in order of time, where the session keeps that
    /// ([`SipSpec::moments`](super::SipSpec::moments)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
    /// What the generator itself used.
    pub generator: GeneratorUse,
}

/// How one scenario fared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// The scenario.
    pub scenario: Scenario,
    /// Attempts meant to start.
    pub attempts: u64,
    /// Handled adequately.
    pub succeeded: u64,
    /// Inadequately handled, by cause: `timeout`, `over-limit PX_TRT-SES1`, `status 503`, `no-free-subscriber`, ...
    pub inadequate: BTreeMap<String, u64>,
    /// Not ended when the profile was over.
    pub unfinished: u64,
    /// Requests and responses sent again by the generator.
    pub retransmissions: u64,
}

impl SipResult {
    /// Why the load of this profile doesn't count, where it doesn't: no attempt of its steps succeeded, or the generator was too
    /// slow in one of them.
    #[must_use]
    pub fn doubt(&self, profile: &SipProfile) -> Option<Doubt> {
        let phases = self.phases.iter().zip(&profile.phases);
        let steps = phases.filter(|(_, asked)| matches!(asked.kind, PhaseKind::Mix { .. }));
        let steps: Vec<&PhaseResult> = steps.map(|(phase, _)| phase).collect();
        let scenarios: Vec<ScenarioResult> = steps.iter().flat_map(|step| step.scenarios.clone()).collect();
        let nothing = match &self.stopped {
            _ if scenarios.iter().any(|s| s.succeeded > 0) => None,
            Some(why) if scenarios.is_empty() => Some(format!("no load was made: {why}")),
            _ => Some(format!("no attempt succeeded: {}", causes(&scenarios))),
        };
        let limited = || steps.iter().find_map(|step| step.generator.limited.clone());
        nothing.map(Doubt::NothingSucceeded).or_else(|| limited().map(Doubt::GeneratorLimited))
    }
}

/// The most frequent causes of inadequate handling, in words.
#[must_use]
pub fn causes(scenarios: &[ScenarioResult]) -> String {
    let mut sums: BTreeMap<(Scenario, &str), u64> = BTreeMap::new();
    for scenario in scenarios {
        for (cause, count) in &scenario.inadequate {
            *sums.entry((scenario.scenario, cause)).or_default() += count;
        }
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let texts: Vec<String> = sorted
        .iter()
        .take(4)
        .map(|((scenario, cause), count)| match count {
            1 => format!("{} {cause} once", scenario.name()),
            _ => format!("{} {cause} {count} times", scenario.name()),
        })
        .collect();
    if texts.is_empty() { "no attempt ended".to_owned() } else { texts.join(", ") }
}

impl ScenarioResult {
    /// Inadequately handled attempts, all causes.
    #[must_use]
    pub fn inadequate_total(&self) -> u64 {
        self.inadequate.values().sum()
    }
}

/// One metric in one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// The metric.
    pub metric: SipMetric,
    /// In which scenario it was taken.
    pub scenario: Scenario,
    /// Exact mean in nanoseconds.
    pub mean_ns: f64,
    /// Exact variance of the sample, in nanoseconds squared.
    pub variance_ns2: f64,
    /// Exact smallest value.
    pub min: Nanos,
    /// Exact largest value.
    pub max: Nanos,
    /// The distribution.
    pub histogram: LatencyHistogram,
}

/// One second of a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Attempts by scenario, in the order of [`PhaseResult::scenarios`].
    pub attempts: Vec<u32>,
    /// Of those, inadequately handled.
    pub inadequate: Vec<u32>,
    /// Retransmissions made in this second, by scenario.
    pub retransmissions: Vec<u32>,
    /// Metrics of scenarios meant to start in this second, in the order of [`PhaseResult::metrics`].
    pub metrics: Vec<SecondMetric>,
}

/// One metric over one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondMetric {
    /// Values.
    pub count: u32,
    /// Their mean in microseconds.
    pub mean_us: f32,
    /// The largest, in microseconds.
    pub max_us: f32,
}

/// Something that happened to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// When, from the start of the phase; it may be after its end.
    pub at: Nanos,
    /// When the attempt was meant to start, from the start of the phase.
    pub started: Nanos,
    /// Its scenario, as a position in [`PhaseResult::scenarios`].
    pub scenario: u8,
    /// What happened then.
    pub what: MomentKind,
}

/// What happened to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MomentKind {
    /// An answer, or whatever else ends a metric's time, came: the metric and its value.
    Took(SipMetric, Nanos),
    /// The generator sent something again.
    Repeated,
    /// The attempt ended, adequately handled.
    Succeeded,
    /// The attempt ended, inadequately handled.
    Failed,
}

/// Messages, all workers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests sent, ACKs and retransmissions included.
    pub requests_sent: u64,
    /// Responses sent, retransmissions included.
    pub responses_sent: u64,
    /// Well-formed requests received.
    pub requests_received: u64,
    /// Well-formed responses received.
    pub responses_received: u64,
    /// Requests and responses sent again, ACKs included.
    pub retransmissions: u64,
}

impl Traffic {
    /// Messages received.
    pub(crate) fn received(&self) -> u64 {
        self.requests_received.saturating_add(self.responses_received)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.requests_sent = self.requests_sent.saturating_add(other.requests_sent);
        self.responses_sent = self.responses_sent.saturating_add(other.responses_sent);
        self.requests_received = self.requests_received.saturating_add(other.requests_received);
        self.responses_received = self.responses_received.saturating_add(other.responses_received);
        self.retransmissions = self.retransmissions.saturating_add(other.retransmissions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_once_is_not_counted_in_times() {
        let failed = ScenarioResult {
            scenario: Scenario::Calling,
            attempts: 3,
            succeeded: 0,
            inadequate: BTreeMap::from([("timeout".to_owned(), 1), ("status 503".to_owned(), 2)]),
            unfinished: 0,
            retransmissions: 0,
        };
        assert_eq!(causes(&[failed]), "calling status 503 2 times, calling timeout once");
    }
}
