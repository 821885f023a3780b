//! One result from what all workers have written down.

use std::collections::BTreeMap;

use vtax_plan::model::Scenario;
use vtax_units::{Nanos, Rate};

use super::recorder::{Count, Moments, Record, SecondValues};
use super::unmatched::Kind;
use super::user_agents::UserAgents;
use super::{
    MetricResult, Moment, PhaseResult, Pools, ScenarioResult, Second, SecondMetric, SipConnections,
    SipProfile, SipResult,
};
use crate::drive::Used;
use crate::histogram::bounded;
use crate::limit::{Evidence, FLOOR_BESIDE, judge};
use crate::{GeneratorUse, LatencyHistogram};

/// Share of a profile's messages that the kernel may drop before the generator counts as too slow.
const DROPPED_SHARE: f64 = 0.001;
const SECOND: u64 = 1_000_000_000;

/// What is known besides the records.
pub(crate) struct Merge<'a> {
    pub(crate) profile: &'a SipProfile,
    /// Begin and end of phases that ended.
    pub(crate) times: Vec<(u64, u64)>,
    pub(crate) stopped: Option<String>,
    /// By worker and phase.
    pub(crate) uses: Vec<Vec<Used>>,
    /// Milliseconds since 1970 minus those of CLOCK_MONOTONIC.
    pub(crate) unix_offset_ms: i64,
    pub(crate) epoch: u64,
}

/// Puts the workers' records together.
pub(crate) fn merge(with: Merge<'_>, agents: &mut [UserAgents]) -> SipResult {
    let mut unmatched = BTreeMap::new();
    let mut pools = Pools::default();
    let (mut dropped, mut received) = (0, 0);
    let mut connections: Option<SipConnections> = None;
    for agents in agents.iter() {
        if let Some(settings) = &agents.connections {
            connections.get_or_insert_default().add(settings.take());
        }
        agents.unmatched.add_to(&mut unmatched);
        dropped += agents.unmatched.of(Kind::ReceiveBufferOverflow);
        received += agents.received();
        let own = agents.pools();
        pools.unregistered += own.unregistered;
        pools.registered += own.registered;
        pools.busy += own.busy;
    }
    let begun = agents.iter().map(|s| s.records.len()).max().unwrap_or(0);
    let overflow = dropped as f64 > DROPPED_SHARE * received.max(1) as f64;
    let phases = (0..begun)
        .map(|number| {
            let records: Vec<&Record> = agents.iter().filter_map(|s| s.records.get(number)).collect();
            let uses: Vec<Used> = with.uses.iter().filter_map(|u| u.get(number).copied()).collect();
            let ended = with.times.get(number).copied();
            // A phase that was cancelled lasted until then.
            let (start, end) = ended.unwrap_or_else(|| {
                let start = agents.iter().map(|s| s.present.start).max().unwrap_or(with.epoch);
                (start, agents.iter().map(|s| s.now).max().unwrap_or(start))
            });
            let mut result = phase(&with, number, (start, end), &records, &uses);
            if overflow && result.generator.limited.is_none() {
                let why =
                    format!("the kernel dropped {dropped} datagrams that the generator did not take in time");
                result.generator.limited = Some(why);
            }
            result
        })
        .collect();
    SipResult { phases, stopped: with.stopped, stray: unmatched, pools, connections }
}

fn phase(
    with: &Merge<'_>,
    number: usize,
    (start, end): (u64, u64),
    records: &[&Record],
    uses: &[Used],
) -> PhaseResult {
    let asked = &with.profile.phases[number];
    let layout = &records[0].layout;
    let duration = Nanos(end.saturating_sub(start));
    let mut lateness = bounded(SECOND);
    for record in records {
        // Both grow as needed.
        let _ = lateness.add(&record.lateness);
    }
    let scenarios: Vec<ScenarioResult> = layout
        .scenarios
        .iter()
        .enumerate()
        .map(|(i, scenario)| scenario_result(*scenario, records.iter().map(|r| &r.counts[i])))
        .collect();
    let (pairs, metrics): (Vec<usize>, Vec<MetricResult>) =
        (0..layout.pairs.len()).filter_map(|pair| Some((pair, metric(records, pair)?))).unzip();
    let attempts: u64 = scenarios.iter().map(|s| s.attempts).sum();
    let counted = duration.saturating_sub(asked.transient).as_secs_f64();
    let lateness = LatencyHistogram(lateness);
    let mut all = LatencyHistogram::new();
    metrics.iter().for_each(|m| all.add(&m.histogram));
    let limited = judge(&Evidence {
        open: true,
        busy: uses.iter().map(|u| u.busy).collect(),
        displaced: uses.iter().map(|u| u.displaced).collect(),
        intended: attempts,
        floor: FLOOR_BESIDE,
        latency_p99: all.quantile(0.99),
        lateness_p99: lateness.quantile(0.99),
        own_lateness_p99: lateness.quantile(0.99),
        ..Evidence::default()
    });
    PhaseResult {
        name: asked.name.clone(),
        requested: asked.rate,
        effective: Rate(if counted > 0.0 { attempts as f64 / counted } else { 0.0 }),
        started_unix_ms: (with.unix_offset_ms + (start / 1_000_000) as i64).max(0).unsigned_abs(),
        duration,
        transient: asked.transient,
        seconds: seconds(records, duration, &pairs),
        moments: moments(records, start),
        scenarios,
        metrics,
        lateness,
        generator: GeneratorUse {
            workers: uses.len() as u32,
            cpu_user: Nanos(uses.iter().map(|u| u.cpu.user.0).sum()),
            cpu_system: Nanos(uses.iter().map(|u| u.cpu.system.0).sum()),
            busiest: uses.iter().map(|u| u.busy).fold(0.0, f64::max),
            limited,
        },
    }
}

fn scenario_result<'a>(scenario: Scenario, counts: impl Iterator<Item = &'a Count>) -> ScenarioResult {
    let mut sum = ScenarioResult {
        scenario,
        attempts: 0,
        succeeded: 0,
        inadequate: BTreeMap::new(),
        unfinished: 0,
        retransmissions: 0,
    };
    for count in counts {
        sum.attempts += count.attempts;
        sum.succeeded += count.succeeded;
        sum.unfinished += count.unfinished;
        sum.retransmissions += count.retransmissions;
        for (cause, times) in &count.inadequate {
            *sum.inadequate.entry(cause.to_string()).or_default() += times;
        }
    }
    sum
}

/// One metric in one scenario; `None` without a value.
fn metric(records: &[&Record], pair: usize) -> Option<MetricResult> {
    let mut moments = Moments::default();
    let mut histogram = bounded(SECOND);
    for values in records.iter().filter_map(|r| r.values[pair].as_ref()) {
        moments.merge(&values.moments);
        // Both grow as needed.
        let _ = histogram.add(&values.histogram);
    }
    let (metric, scenario) = records[0].layout.pairs[pair];
    (moments.count > 0).then(|| MetricResult {
        metric,
        scenario: records[0].layout.scenarios[scenario],
        mean_ns: moments.mean,
        variance_ns2: moments.variance(),
        min: Nanos(moments.min),
        max: Nanos(moments.max),
        histogram: LatencyHistogram(histogram),
    })
}

/// What happened to attempts, in order of time from the start of the phase.
fn moments(records: &[&Record], start: u64) -> Vec<Moment> {
    let mut all: Vec<Moment> = records.iter().flat_map(|r| &r.moments).copied().collect();
    for moment in &mut all {
        moment.at = Nanos(moment.at.0.saturating_sub(start));
    }
    all.sort_by_key(|moment| moment.at);
    all
}

/// The phase second by second, with the metrics of those pairs.
fn seconds(records: &[&Record], duration: Nanos, pairs: &[usize]) -> Vec<Second> {
    let layout = &records[0].layout;
    let (scenarios, all_pairs) = (layout.scenarios.len(), layout.pairs.len());
    let sum = |of: fn(&Record) -> &Vec<u32>, second: usize| -> Vec<u32> {
        let cell = |i| {
            let values = records.iter().filter_map(|r| of(r).get(second * scenarios + i));
            values.sum()
        };
        (0..scenarios).map(cell).collect()
    };
    (0..duration.0.div_ceil(SECOND) as usize)
        .map(|second| Second {
            attempts: sum(|r| &r.attempts, second),
            inadequate: sum(|r| &r.inadequate, second),
            retransmissions: sum(|r| &r.retransmissions, second),
            metrics: pairs
                .iter()
                .map(|pair| {
                    let cells = records.iter().filter_map(|r| r.second_values.get(second * all_pairs + pair));
                    second_metric(cells)
                })
                .collect(),
        })
        .collect()
}

fn second_metric<'a>(cells: impl Iterator<Item = &'a SecondValues>) -> SecondMetric {
    let mut sum = SecondValues::default();
    for cell in cells {
        sum.count += cell.count;
        sum.sum_ns += cell.sum_ns;
        sum.max_ns = sum.max_ns.max(cell.max_ns);
    }
    SecondMetric {
        count: sum.count,
        mean_us: (sum.sum_ns as f64 / f64::from(sum.count.max(1)) / 1e3) as f32,
        max_us: (sum.max_ns as f64 / 1e3) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::user_agents::tests::{agents, record};
    use super::super::{PhaseKind, SipPhase};
    use super::*;
    use crate::ArrivalProcess;

    #[test]
    fn what_the_kernel_dropped_is_a_share_of_what_came_meanwhile() {
        let phase = SipPhase {
            name: "step 9".to_owned(),
            kind: PhaseKind::Mix { duration: Nanos::from_secs(1) },
            rate: Rate(1_000.0),
            transient: Nanos::ZERO,
            ihs_limit: None,
            scenario_limits: false,
        };
        let profile =
            SipProfile { phases: vec![phase], arrivals: ArrivalProcess::Poisson, drain: Nanos::ZERO };
        let limited = |dropped: u64| {
            let mut agents = agents();
            // Those of the steps before say nothing of this one.
            agents.traffic.responses_received = 1_000_000;
            agents.begin_profile();
            agents.records.push(record());
            agents.traffic.responses_received += 900;
            agents.traffic.requests_received += 100;
            agents.unmatched.add(Kind::ReceiveBufferOverflow, dropped);
            let with = Merge {
                profile: &profile,
                times: vec![(0, SECOND)],
                stopped: None,
                uses: Vec::new(),
                unix_offset_ms: 0,
                epoch: 0,
            };
            merge(with, &mut [agents]).phases[0].generator.limited.clone()
        };
        assert_eq!(limited(1), None);
        let why = limited(2).unwrap();
        assert!(why.starts_with("the kernel dropped 2 datagrams"), "{why}");
    }
}
