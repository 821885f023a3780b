//! What network tests come to, each a measure of its own.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vtax_load::LatencyHistogram;
use vtax_load::network::{NetworkResult, TcpFlow};
use vtax_plan::model::{Measure, MeasureKind, Plan, Workload};
use vtax_store::record::{Finding, Observation, TrialRecord, Validity};
use vtax_units::Nanos;
use vtax_units::metric::{RR_RATE, RTT_P50, TCP_GOODPUT, UDP_GOODPUT, VOICE_MOS};

use crate::metric::{Info, Observed, Unanswered, Value, exact, higher, lower, measure_of_test, percentiles};

/// The metrics of this family, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher(TCP_GOODPUT.name, TCP_GOODPUT.label, "bit/s", 2),
    lower(RTT_P50.name, RTT_P50.label, "ns", 2),
    lower("rtt_p95", "round trip, p95", "ns", 1),
    lower("rtt_p99", "round trip, p99", "ns", 1),
    higher(RR_RATE.name, RR_RATE.label, "/s", 2),
    lower("ping_loss", "probes lost", "1", 0),
    lower("udp_jitter", "UDP jitter", "ns", 1),
    lower("udp_loss", "UDP loss", "1", 0),
    higher(UDP_GOODPUT.name, UDP_GOODPUT.label, "bit/s", 0),
    higher(VOICE_MOS.name, VOICE_MOS.label, "", 2),
    lower("voice_jitter", "voice, jitter", "ns", 1),
    lower("voice_loss", "voice, lost", "1", 0),
    lower("voice_unheard", "voice, lost or late", "1", 0),
    lower("cpu_per_byte", "CPU time per byte, SUT's side", "ns/B", 1),
    lower("cpu_per_datagram", "CPU time per datagram, SUT's side", "ns", 1),
];

/// Percentiles that are metrics.
pub(crate) const PERCENTILES: [(&str, f64); 3] = [(RTT_P50.name, 0.5), ("rtt_p95", 0.95), ("rtt_p99", 0.99)];

/// The most telling of these transfers, as measures are called: that with the study's largest window, else the last.
pub(crate) fn telling<'a>(measures: &[&'a str]) -> Option<&'a str> {
    measures.iter().find(|m| m.split('.').any(|part| part == "window-64K")).or(measures.last()).copied()
}

/// Reasons that have a caution each, the most frequent, and tests that one names.
const MOST_REASONS: usize = 2;
const MOST_NAMES: usize = 3;

/// Why tests have no figure in trials that count: a kernel may lack what they ask for.
pub(crate) fn cautions(trials: &[TrialRecord]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let counted = trials.iter().filter(|trial| trial.validity == Validity::Valid);
    for test in counted.flat_map(|trial| &trial.observations).filter(|test| !test.name.is_empty()) {
        let Validity::Invalid { detail, .. } = &test.validity else { continue };
        // Either end may be the first to find out.
        let why = detail.strip_prefix("the server refuses: ").unwrap_or(detail);
        reasons.entry(why).or_default().push(&test.name);
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, tests)| Reverse(tests.len()));
    let rest = reasons.split_off(reasons.len().min(MOST_REASONS));
    let mut cautions: Vec<String> =
        reasons.into_iter().map(|(why, tests)| without_figure(why, tests)).collect();
    let others: usize = rest.iter().map(|(_, tests)| tests.len()).sum();
    if others > 0 {
        cautions.push(others_without_figure(others, rest.len()));
    }
    cautions
}

/// That so many more tests have no figure, for so many reasons that aren't told.
fn others_without_figure(tests: usize, reasons: usize) -> String {
    let tests = match tests {
        1 => "1 more test of trials that count has".to_owned(),
        n => format!("{n} more tests of trials that count have"),
    };
    let reasons = match reasons {
        1 => "another reason".to_owned(),
        n => format!("{n} other reasons"),
    };
    format!("{tests} no figure, for {reasons}.")
}

fn without_figure(why: &str, mut tests: Vec<&str>) -> String {
    let times = tests.len();
    tests.sort_unstable();
    tests.dedup();
    let more = tests.len().saturating_sub(MOST_NAMES);
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    tests.truncate(MOST_NAMES);
    let times = match times {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    };
    format!("Without a figure in trials that count, {times}: {}{others}: {why}.", tests.join(", "))
}

/// What the tests of a measure are called as measures, in the plan's order; `None` where it isn't one of tests.
pub(crate) fn names_of_tests(plan: &Plan, measure: &Measure) -> Option<Vec<String>> {
    if !matches!(measure.kind, MeasureKind::Network(_)) {
        return None;
    }
    let mut names = Vec::new();
    for cell in &plan.cells {
        let Workload::Network(workload) = &cell.workload else { continue };
        for test in &workload.tests {
            let name = measure_of_test(&measure.name, &test.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Some(names)
}

/// What a test found, where it came to something.
pub(crate) fn result(observation: &Observation) -> Option<&NetworkResult> {
    observation.network().map(|found| &found.result)
}

/// The transfer of an observation: to the system under test, or from it where that is all.
pub(crate) fn flow(observation: &Observation) -> Option<&TcpFlow> {
    match result(observation) {
        Some(NetworkResult::Tcp(tcp)) => tcp.up.as_ref().or(tcp.down.as_ref()),
        _ => None,
    }
}

/// The tests of a valid trial that count.
pub(crate) fn observed(record: &TrialRecord) -> Vec<Observed<'_>> {
    let tests = record.observations.iter().filter(|o| o.network().is_some());
    let counted = tests.filter(|o| o.validity == Validity::Valid);
    counted
        .map(|o| Observed {
            test: Some(&o.name),
            values: values(o),
            latency: round_trips(o),
            percentiles: &PERCENTILES,
        })
        .collect()
}

fn round_trips(observation: &Observation) -> Option<&LatencyHistogram> {
    match result(observation)? {
        NetworkResult::Tcp(_) | NetworkResult::Udp(_) | NetworkResult::Voice(_) => None,
        NetworkResult::Rr(rr) => Some(&rr.latency),
        NetworkResult::Ping(ping) => Some(&ping.rtt),
    }
}

fn values(observation: &Observation) -> Vec<Value> {
    let spent = observation.cpu.as_ref().filter(|c| c.requests > 0);
    let spent = spent.map(|c| c.layers.iter().map(|l| l.time.0).sum::<u64>() as f64 / c.requests as f64);
    let mut values = Vec::new();
    match result(observation) {
        Some(NetworkResult::Tcp(tcp)) => {
            let flows = [&tcp.up, &tcp.down].into_iter().flatten();
            values.push(exact(TCP_GOODPUT.name, flows.map(TcpFlow::goodput).sum()));
            values.extend(spent.map(|ns| exact("cpu_per_byte", ns)));
        }
        Some(NetworkResult::Udp(udp)) => {
            // Without a rate many leave and arrive together: how they differ is the batches' doing.
            if !udp.sender.lateness.is_empty() {
                values.push(exact("udp_jitter", udp.receiver.jitter_mean.0 as f64));
            }
            values.push(exact("udp_loss", udp.loss()));
            values.push(exact(UDP_GOODPUT.name, udp.goodput()));
            values.extend(spent.map(|ns| exact("cpu_per_datagram", ns)));
        }
        Some(NetworkResult::Rr(rr)) => {
            values.push(exact(RR_RATE.name, rr.transactions as f64 / rr.time.as_secs_f64()));
            values.extend(percentiles(&rr.latency, Unanswered::default(), &PERCENTILES));
        }
        Some(NetworkResult::Ping(ping)) => {
            // A round trip that has no end is longer than any that has one (RFC 2681, 4.1).
            let lost = Unanswered { share: ping.loss(), waited: Nanos::ZERO };
            values.extend(percentiles(&ping.rtt, lost, &PERCENTILES));
            values.push(exact("ping_loss", ping.loss()));
        }
        Some(NetworkResult::Voice(voice)) => {
            values.push(exact(VOICE_MOS.name, voice.mos()));
            values.push(exact("voice_jitter", voice.jitter().0 as f64));
            values.push(exact("voice_loss", voice.loss()));
            values.push(exact("voice_unheard", voice.unheard()));
            values.extend(spent.map(|ns| exact("cpu_per_datagram", ns)));
        }
        None => {}
    }
    values.retain(|v| v.value.is_finite());
    values
}

/// Empties the histograms of tests.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    for observation in &mut record.observations {
        let Some(Finding::Network(found)) = &mut observation.result else { continue };
        match &mut found.result {
            NetworkResult::Udp(udp) => udp.sender.lateness = LatencyHistogram::new(),
            NetworkResult::Rr(rr) => rr.latency = LatencyHistogram::new(),
            NetworkResult::Ping(ping) => {
                (ping.latency, ping.lateness) = (LatencyHistogram::new(), LatencyHistogram::new());
                ping.rtt = LatencyHistogram::new();
            }
            // A handful of values each, which its table shows.
            NetworkResult::Tcp(_) | NetworkResult::Voice(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_load::network::{UdpReceiver, UdpResult, UdpSender};
    use vtax_store::network::NetworkFinding;

    use super::*;

    #[test]
    fn jitter_is_a_figure_where_there_is_a_rate() {
        let has_jitter = |lateness| {
            let sender = UdpSender { sent: 200, time: Nanos::from_secs(1), lateness, ..UdpSender::default() };
            let receiver = UdpReceiver { received: 199, ..UdpReceiver::default() };
            let result = NetworkResult::Udp(UdpResult { sender, receiver });
            let found = NetworkFinding { result, checks: Vec::new() };
            let result = Some(Finding::Network(Box::new(found)));
            let values = values(&Observation { result, ..Observation::default() });
            assert!(values.iter().any(|value| value.metric == "udp_loss"));
            values.iter().any(|value| value.metric == "udp_jitter")
        };
        let mut lateness = LatencyHistogram::new();
        assert!(!has_jitter(lateness.clone()), "many left together");
        lateness.record(Nanos(1));
        assert!(has_jitter(lateness));
    }

    #[test]
    fn one_more_test_is_no_tests() {
        let text = others_without_figure(1, 1);
        assert_eq!(text, "1 more test of trials that count has no figure, for another reason.");
        let text = others_without_figure(5, 2);
        assert_eq!(text, "5 more tests of trials that count have no figure, for 2 other reasons.");
    }
}
