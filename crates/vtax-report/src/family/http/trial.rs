//! What an HTTP trial comes to: the capacity that a search found, the throughput of a closed loop, and what was seen of
//! connections, handshakes and replies.

use vtax_load::http::HttpDetails;
use vtax_load::{LatencyHistogram, LoadResult};
use vtax_store::record::{CapacityOutcome, CapacityStep, Finding, TrialRecord};
use vtax_units::metric::{CAPACITY, THROUGHPUT};
use vtax_units::{Nanos, counted};

use crate::format::{quantity, range};
use crate::metric::{HISTOGRAM_RESOLUTION, Info, Value, exact, higher, lower};

/// The metrics of this family, in the order of tables. The last ones have httperf's names.
pub(crate) const METRICS: &[Info] = &[
    higher(CAPACITY.name, CAPACITY.label, "req/s", 2),
    higher(THROUGHPUT.name, THROUGHPUT.label, "req/s", 2),
    higher("tls_full_rate", "full TLS handshakes", "1/s", 1),
    higher("tls_resumed_rate", "resumed TLS handshakes", "1/s", 1),
    lower("tls_full", "full TLS handshake, mean", "ns", 1),
    lower("tls_resumed", "resumed TLS handshake, mean", "ns", 1),
    lower("connection_time", "connection time, mean", "ns", 0),
    lower("reply_time", "reply time until the first byte, mean", "ns", 0),
    lower("reply_transfer", "reply time from there, mean", "ns", 0),
    higher("reply_rate", "replies of any status", "1/s", 0),
    lower("client_timo", "requests that timed out (client-timo)", "", 0),
    lower("connrefused", "connections refused", "", 0),
    lower("connreset", "connections reset", "", 0),
    lower("fd_unavail", "requests without a descriptor (fd-unavail)", "", 0),
    lower("unexpected", "answers that weren't what the plan expects", "", 0),
    lower("http2_resets", "HTTP/2 streams that the server ended with an error", "", 0),
    lower("http2_again", "HTTP/2 requests that were sent again, as the server hadn't looked at them", "", 0),
];

/// What a load of HTTP found of connections, handshakes and replies; none where nobody looked at them.
pub(crate) fn of_load(record: &TrialRecord) -> Vec<Value> {
    let Some((load, http)) = found(record) else { return Vec::new() };
    let mean = |metric, times: &LatencyHistogram| {
        (!times.is_empty())
            .then(|| Value { resolution: HISTOGRAM_RESOLUTION, ..exact(metric, times.0.mean()) })
    };
    // What was cut off as warm-up is in the details.
    let cut = record.warm_up().map_or(0.0, |warm_up| warm_up.cut.as_secs_f64());
    let seconds = (load.duration.as_secs_f64() + cut).max(1e-9);
    let mut values = Vec::new();
    if let Some(tls) = &http.tls {
        if matches!(record.finding(), Some(Finding::Throughput { .. })) {
            values.push(exact("tls_full_rate", tls.full.len() as f64 / seconds));
            values.push(exact("tls_resumed_rate", tls.resumed.len() as f64 / seconds));
        }
        values.extend(mean("tls_full", &tls.full));
        values.extend(mean("tls_resumed", &tls.resumed));
    }
    values.extend(mean("connection_time", &http.connect));
    if let Some(exchanges) = &http.exchanges {
        values.extend(mean("reply_time", &exchanges.response));
        values.extend(mean("reply_transfer", &exchanges.transfer));
    }
    values.push(exact("reply_rate", reply_rate(load, http, seconds)));
    let errors = &load.counts.errors;
    for (metric, count) in [
        ("client_timo", errors.client_timeout),
        ("connrefused", errors.refused),
        ("connreset", errors.reset),
        ("fd_unavail", errors.no_descriptors),
        ("unexpected", errors.unexpected),
    ] {
        values.push(exact(metric, count as f64));
    }
    if let Some(http2) = &http.http2 {
        values.push(exact("http2_resets", http2.resets.values().sum::<u64>() as f64));
        values.push(exact("http2_again", http2.again as f64));
    }
    values.retain(|value| value.value.is_finite());
    values
}

/// Answers of any status per second that came within the recorded time, which is `seconds` long for what is in the details. Older versions
/// wrote down those of requests that began within it alone, some of which are waited for after it.
fn reply_rate(load: &LoadResult, http: &HttpDetails, seconds: f64) -> f64 {
    if let Some(replies) = http.replies_in_time {
        return replies as f64 / seconds;
    }
    let errors = &load.counts.errors;
    let replies = load.counts.ok + errors.status + errors.unexpected;
    replies as f64 / load.duration.as_secs_f64().max(1e-9)
}

fn found(record: &TrialRecord) -> Option<(&LoadResult, &HttpDetails)> {
    let load = record.finding()?.load()?;
    Some((load, load.details.as_ref()?.http.as_deref()?))
}

/// Empties the histograms of connections, handshakes and replies.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    for load in record.observations.iter_mut().filter_map(|o| o.result.as_mut()?.load_mut()) {
        let Some(http) = load.details.as_mut().and_then(|details| details.http.as_deref_mut()) else {
            continue;
        };
        let tls = http.tls.iter_mut().flat_map(|tls| [&mut tls.full, &mut tls.resumed]);
        let exchanges = http.exchanges.iter_mut().flat_map(|found| {
            let of_requests = found.requests.iter_mut().map(|request| &mut request.times);
            of_requests.chain([&mut found.response, &mut found.transfer])
        });
        for times in tls.chain(exchanges).chain([&mut http.connect, &mut http.lifetime]) {
            *times = LatencyHistogram::new();
        }
    }
}

/// The geometric middle of the bracket: the error is then the same factor either way, which is what a ratio needs.
/// The bracket's width becomes the value's resolution.
pub(crate) fn values(found: &CapacityOutcome) -> Option<Value> {
    let lower = found.lower.0;
    if !(lower.is_finite() && lower > 0.0) {
        return None;
    }
    Some(match found.upper.map(|u| u.0).filter(|u| u.is_finite() && *u >= lower) {
        Some(upper) => {
            Value { resolution: (upper / lower).ln(), ..exact(CAPACITY.name, (lower * upper).sqrt()) }
        }
        None => Value { censored: true, ..exact(CAPACITY.name, lower) },
    })
}

/// In requests per second, without the unit: `23.1k–24.2k`, `below 500`, `≥ 8000`.
pub(crate) fn bracket(found: &CapacityOutcome) -> String {
    let text = match found.upper {
        Some(upper) if found.lower.0 > 0.0 => range(found.lower.0, (found.lower.0, upper.0), "req/s"),
        Some(upper) => format!("below {}", quantity(upper.0, "req/s")),
        None => format!("≥ {}", quantity(found.lower.0, "req/s")),
    };
    text.strip_suffix(" req/s").map_or_else(|| text.clone(), str::to_owned)
}

/// The 99th percentile of a step, in nanoseconds; `None` where nothing was answered, for which a step has 0.
pub(crate) fn p99(step: &CapacityStep) -> Option<f64> {
    (step.p99 > Nanos::ZERO).then_some(step.p99.0 as f64)
}

/// What a search found, in a few words.
pub(crate) fn describe_capacity(found: &CapacityOutcome) -> String {
    format!("{} req/s, {}", bracket(found), counted(found.steps.len(), "step"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtax_load::{Counts, Details};
    use vtax_store::record::Observation;
    use vtax_units::Rate;

    /// A service that answered 1000/s and was asked 1200/s was said to reply 1200/s, as what was left came after the end.
    #[test]
    fn replies_after_the_end_are_no_part_of_their_rate() {
        let rate = |replies_in_time: Option<u64>| {
            let http = HttpDetails { replies_in_time, ..HttpDetails::default() };
            let load = LoadResult {
                duration: Nanos::from_secs(10),
                counts: Counts { sent: 12_000, ok: 12_000, ..Counts::default() },
                details: Some(Details { http: Some(Box::new(http)), ..Details::default() }),
                ..LoadResult::default()
            };
            let observations = vec![Observation::whole(0, Finding::Throughput { load })];
            let values = of_load(&TrialRecord { observations, ..TrialRecord::default() });
            values.iter().find(|value| value.metric == "reply_rate").map(|value| value.value)
        };
        assert_eq!((rate(Some(10_000)), rate(None)), (Some(1_000.0), Some(1_200.0)));
    }

    #[test]
    fn what_a_search_found_has_its_unit_once() {
        let found = |lower: f64, upper: Option<f64>| CapacityOutcome {
            lower: Rate(lower),
            upper: upper.map(Rate),
            steps: Vec::new(),
        };
        for (outcome, text) in [
            (found(23_100.0, Some(24_200.0)), "23.1k–24.2k"),
            (found(0.0, Some(500.0)), "below 500"),
            (found(8000.0, None), "≥ 8000"),
        ] {
            assert_eq!(bracket(&outcome), text);
            assert_eq!(describe_capacity(&outcome), format!("{text} req/s, 0 steps"));
        }
    }
}
