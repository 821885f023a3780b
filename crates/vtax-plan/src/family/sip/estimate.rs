//! How long SIP benchmarks take, and what of them is probably not meant.

use vtax_units::{Nanos, Rate};

use crate::assumptions::search_steps;
use crate::model::{
    CapacityMeasure, ImsMeasure, Measure, MeasureKind, MixPart, Ramp, Scenario, SipWorkload, Spread, Timing,
};

/// Confirmations of a search: one usually holds.
const CONFIRMATIONS: u64 = 1;
/// Registrations per second that a service takes, in scenarios: in an emulated guest Kamailio with its database takes some 150/s, and
/// carries some 100 scenarios/s.
const REGISTRATIONS: f64 = 1.5;
/// After what time, in T1, a transaction without an answer is over (RFC 3261, timers B and F).
const UNANSWERED: f64 = 64.0;

/// Time of a measurement on a service that carries this many scenarios per second.
pub(super) fn measuring(measure: &MeasureKind, workload: &SipWorkload, capacity: Rate) -> Nanos {
    let seconds = match (measure, measure.timing()) {
        (MeasureKind::Ims(ims), _) => benchmark(ims, workload, capacity),
        (_, Timing::Fixed { warmup, duration }) => {
            registering(workload, SipWorkload::REGISTRATION_RATE, capacity)
                + warmup.as_secs_f64()
                + duration.as_secs_f64()
                + drain(workload).as_secs_f64()
        }
        // Not accepted with a SIP workload.
        (_, Timing::Search { .. } | Timing::Suite { .. }) => 0.0,
    };
    Nanos::from_secs_f64(seconds.min(1e9))
}

/// Seconds of the IMS benchmark.
fn benchmark(ims: &ImsMeasure, workload: &SipWorkload, capacity: Rate) -> f64 {
    let ends = drain(workload).as_secs_f64();
    let step = ims.step.as_secs_f64();
    let load = match ims.ramp {
        Ramp::Steps { initial, increase, count } => {
            // The step that breaks a limit is made too.
            let above = ((capacity.0 - initial.0) / increase.0).max(0.0).ceil() + 1.0;
            step * above.min(f64::from(count)) + ends
        }
        Ramp::Search { start, max, precision, step: of_search } => {
            // It goes no higher than there are subscribers for, but makes its first step.
            let max = Rate(max.0.min(workload.most_rate().0).max(start.0).max(CapacityMeasure::LEAST_RATE.0));
            let steps = search_steps(start, max, precision, capacity) as f64;
            // Half of the steps that halve the bracket ask too much of the service, and so does the one before them. Each
            // of these waits for requests that are never answered.
            let beyond = if max > capacity { 1.0 + (1.0 / precision.0).log2().max(0.0) / 2.0 } else { 0.0 };
            let unanswered = beyond * UNANSWERED * workload.t1.as_secs_f64();
            (of_search.as_secs_f64() + ends) * steps + unanswered + (step + ends) * CONFIRMATIONS as f64
        }
    };
    registering(workload, ims.registration_rate, capacity) + ims.stir.as_secs_f64() + load
}

/// Seconds until the plan's share of subscribers is registered: a service is given the time it needs.
fn registering(workload: &SipWorkload, rate: Rate, capacity: Rate) -> f64 {
    workload.registered_count() / rate.0.min(capacity.0 * REGISTRATIONS)
}

/// Time in which the last calls of a step end: of exponential times, the longest among some hundreds.
fn drain(workload: &SipWorkload) -> Nanos {
    let longest = |spread: Spread| match spread {
        Spread::Constant(time) => time.0,
        Spread::Exponential(mean) => mean.0.saturating_mul(5),
    };
    let calls = |part: &MixPart| {
        matches!(part.scenario, Scenario::Calling | Scenario::ReInvite) && part.share.0 > 0.0
    };
    if workload.mix.iter().any(calls) {
        Nanos(longest(workload.ring_time).saturating_add(longest(workload.hold_time)))
    } else {
        Nanos::ZERO
    }
}

/// Where a load keeps more of the registered subscribers in calls than it may, or a search ends for that.
pub(super) fn caution(measure: &Measure, workload: &SipWorkload) -> Option<String> {
    let (rate, name) = (measure.kind.first_rate()?, &measure.name);
    let (most, registered) = (workload.most_rate(), workload.registered_count());
    if rate > most {
        let busy = workload.busy_at(rate);
        return Some(format!(
            "`{name}`: at {rate} about {busy:.0} subscribers are in calls at a time, of {registered:.0} that are registered"
        ));
    }
    let MeasureKind::Ims(ImsMeasure { ramp: Ramp::Search { max, .. }, .. }) = measure.kind else {
        return None;
    };
    (max > most).then(|| {
        format!(
            "`{name}`: the search goes to {:.0}/s and not to {max}, where more than half of the {registered:.0} registered \
             subscribers would be in calls; register more, or shorten calls",
            most.0
        )
    })
}
