//! Whether a test counts, and whether its trial does.

use vtax_load::network::{FailureKind, NetworkFailure, NetworkResult};
use vtax_plan::model::{Direction, NetworkMeasure, NetworkTest, NetworkTestKind};
use vtax_stats::settled;
use vtax_store::network::NetworkFinding;
use vtax_store::record::{Finding, InvalidReason, Observation, SteadyState, Validity, WarmUp};
use vtax_units::{Nanos, Share};

use super::count;
use super::ends::MadeTest;

/// Share of the datagrams that the receiving program may miss for want of room: beyond, the loss found
/// would be the instrument's where that is this end.
const NO_ROOM: f64 = 0.005;
/// Datagrams that a path of the smallest MTU allowed (RFC 791) can't carry whole.
const LARGE: u32 = 576 - 28;
/// Fewer intervals than this can't tell a change from scatter.
const LEAST_INTERVALS: usize = 20;

/// What became of one test.
pub(super) fn observe(
    test: &NetworkTest,
    measure: &NetworkMeasure,
    made: MadeTest,
    started_unix_ms: u64,
    tolerance: Share,
) -> Observation {
    let mut observation =
        Observation { name: test.name.clone(), started_unix_ms, cpu: made.cpu, ..Observation::default() };
    let mut checks = Vec::new();
    if let Some(why) = made.uncut {
        observation.facts.insert("cut.failed".to_owned(), why);
    }
    let mut result = match made.answer {
        Ok(result) => result,
        Err(failure) => {
            observation.validity = failed(&failure, measure);
            return observation;
        }
    };
    if let Some(counted) = &made.counted {
        checks = count::at_interfaces(&test.kind, &result, counted);
    }
    match made.captured {
        Some(Ok(captured)) => match count::in_capture(&test.kind, &result, &captured) {
            Some(more) => checks.extend(more),
            None => note(&mut observation, "capture.dropped", captured.dropped.to_string()),
        },
        Some(Err(why)) => note(&mut observation, "capture.failed", why),
        None => {}
    }
    observation.validity = judge(&test.kind, &result);
    if let Some((key, what)) = far_end_could_not(&test.kind, &result) {
        note(&mut observation, key, what);
    }
    if let (Validity::Valid, Some(why)) = (&observation.validity, count::disagreement(&checks)) {
        observation.validity = invalid(InvalidReason::CountsDisagree, why);
    }
    if measure.cut.is_some() {
        let silence = longest_silence(&result, measure.duration);
        note(&mut observation, "cut.silence_ns", silence.0.to_string());
    } else if observation.validity == Validity::Valid {
        observation.warm_up = cut_warm_up(&test.kind, &mut result, tolerance);
    }
    observation.result = Some(Finding::Network(Box::new(NetworkFinding { result, checks })));
    observation
}

fn note(observation: &mut Observation, key: &str, value: String) {
    observation.facts.insert(key.to_owned(), value);
}

fn invalid(reason: InvalidReason, detail: impl Into<String>) -> Validity {
    Validity::Invalid { reason, detail: detail.into() }
}

fn failed(failure: &NetworkFailure, measure: &NetworkMeasure) -> Validity {
    let reason = match failure.kind {
        FailureKind::PeerLost if measure.cut.is_some() => InvalidReason::PathCut,
        FailureKind::PeerLost => InvalidReason::PeerLost,
        FailureKind::MtuMismatch => InvalidReason::MtuMismatch,
        FailureKind::Impossible | FailureKind::Cancelled => InvalidReason::MeasureFailed,
    };
    invalid(reason, failure.detail.clone())
}

/// What a test's own figures say about whether it counts.
fn judge(kind: &NetworkTestKind, result: &NetworkResult) -> Validity {
    if let Some(why) = result.doubt(kind) {
        let reason = match result {
            NetworkResult::Udp(_) | NetworkResult::Voice(_) => InvalidReason::GeneratorLimited,
            _ => InvalidReason::CountsDisagree,
        };
        return invalid(reason, why);
    }
    if let Some(why) = result.nothing_succeeded() {
        // A sender that couldn't send says nothing about the path.
        let sent = !matches!(result, NetworkResult::Udp(udp) if udp.sender.sent == 0);
        return match kind {
            // The first, small one that greets the far end did arrive, or there would be no test.
            NetworkTestKind::Udp(test) if sent && test.size >= LARGE => invalid(
                InvalidReason::MtuMismatch,
                format!(
                    "{why}, of {} bytes each, while small ones do: an MTU on the path is smaller",
                    test.size
                ),
            ),
            _ => invalid(InvalidReason::NothingSucceeded, why),
        };
    }
    match result {
        // What finds no room at the far end is a part of what its environment does to datagrams and to voice.
        NetworkResult::Udp(udp) if far_end_sends(kind) => room(udp.sender.sent, udp.receiver.no_room),
        NetworkResult::Voice(voice) => room(voice.down.packets.sent, voice.down.packets.no_room),
        _ => Validity::Valid,
    }
}

/// Whether datagrams come from the system under test.
fn far_end_sends(kind: &NetworkTestKind) -> bool {
    matches!(kind, NetworkTestKind::Udp(test) if test.direction == Direction::Down)
}

/// What the system under test couldn't do in a test of datagrams, with the fact's name: a finding about it, and no fault of the test.
fn far_end_could_not(kind: &NetworkTestKind, result: &NetworkResult) -> Option<(&'static str, String)> {
    let NetworkResult::Udp(udp) = result else { return None };
    if far_end_sends(kind) {
        return udp.sender.limited.clone().map(|why| ("sut.limited", why));
    }
    lacked_room(udp.sender.sent, udp.receiver.no_room).map(|why| ("sut.no_room", why))
}

/// Whether the receiving program of this end kept up.
fn room(sent: u64, no_room: u64) -> Validity {
    lacked_room(sent, no_room)
        .map_or(Validity::Valid, |detail| invalid(InvalidReason::GeneratorLimited, detail))
}

/// What a receiving program missed, where that is more than a little.
fn lacked_room(sent: u64, no_room: u64) -> Option<String> {
    (no_room as f64 > sent as f64 * NO_ROOM)
        .then(|| format!("{no_room} of {sent} datagrams arrived but found no room in the receiver's buffer"))
}

/// Cuts warm-up off a transfer that goes one way. A transfer that never gets steady counts as a whole: what
/// a path carries in this time is the question, and TCP's own pace is part of the answer.
fn cut_warm_up(kind: &NetworkTestKind, result: &mut NetworkResult, tolerance: Share) -> Option<WarmUp> {
    let NetworkResult::Tcp(tcp) = result else { return None };
    let by_bytes = matches!(kind, NetworkTestKind::Tcp(test) if test.bytes.is_some());
    let side = match (&mut tcp.up, &mut tcp.down) {
        (Some(flow), None) | (None, Some(flow)) if !by_bytes => &mut flow.receiver,
        _ => return None,
    };
    let values = side.intervals.len();
    let length = Nanos(side.counted_time.0 / (values.max(1) as u64));
    let found = |state, cut, detail| WarmUp {
        state,
        cut,
        series: "bytes received".to_owned(),
        interval: length,
        values: values as u32,
        detail,
    };
    if values < LEAST_INTERVALS {
        let detail = format!("not judged: {values} intervals, {LEAST_INTERVALS} are needed");
        return Some(found(SteadyState::NotJudged, Nanos::ZERO, detail));
    }
    let series: Vec<f64> = side.intervals.iter().map(|bytes| *bytes as f64).collect();
    match settled(&series, tolerance.0) {
        Ok(steady) if steady.level <= 0.0 => {
            let detail = "no steady state, so all of it counts: it stood still until its end".to_owned();
            Some(found(SteadyState::Never, Nanos::ZERO, detail))
        }
        Ok(steady) if steady.from > 0 => {
            let cut = Nanos(length.0 * steady.from as u64);
            side.counted_bytes = side.intervals[steady.from..].iter().sum();
            side.counted_time = side.counted_time.saturating_sub(cut);
            let detail = format!("the first {:.2} s were still warm-up", cut.as_secs_f64());
            Some(found(SteadyState::Steady, cut, detail))
        }
        Ok(_) => {
            let detail = "steady from the start of the counted time".to_owned();
            Some(found(SteadyState::Steady, Nanos::ZERO, detail))
        }
        Err(why) => {
            let detail =
                format!("no steady state, so all of it counts: by the bytes of each interval, {why}");
            Some(found(SteadyState::Never, Nanos::ZERO, detail))
        }
    }
}

/// The longest time in which nothing arrived, as far as intervals tell.
fn longest_silence(result: &NetworkResult, duration: Nanos) -> Nanos {
    let counts: Vec<u64> = match result {
        NetworkResult::Tcp(tcp) => tcp
            .up
            .as_ref()
            .or(tcp.down.as_ref())
            .map_or_else(Vec::new, |flow| flow.receiver.intervals.clone()),
        NetworkResult::Udp(udp) => udp.receiver.intervals.clone(),
        NetworkResult::Ping(ping) => ping.intervals.iter().map(|i| i.answered).collect(),
        NetworkResult::Rr(rr) => rr.intervals.clone(),
        NetworkResult::Voice(voice) => voice.up.intervals.clone(),
    };
    let longest = counts.split(|count| *count > 0).map(<[u64]>::len).max().unwrap_or(0);
    Nanos(duration.0 / (counts.len().max(1) as u64) * longest as u64)
}

/// Whether a trial with these tests counts: it does where one of them does and none casts doubt on what
/// the others were made on.
pub(super) fn trial(tests: &[Observation]) -> Validity {
    use InvalidReason::{CountsDisagree, MtuMismatch, PathCut, PeerLost};
    let mut first = None;
    let mut counts = false;
    for observation in tests {
        let Validity::Invalid { reason, detail } = &observation.validity else {
            counts = true;
            continue;
        };
        let told = invalid(*reason, format!("{}: {detail}", observation.name));
        if matches!(reason, CountsDisagree | PeerLost | PathCut | MtuMismatch) {
            return told;
        }
        first.get_or_insert(told);
    }
    match (counts, first) {
        (false, Some(first)) => first,
        _ => Validity::Valid,
    }
}
