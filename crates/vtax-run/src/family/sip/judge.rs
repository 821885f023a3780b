//! Whether a phase kept to its limits.

use vtax_load::sip::{PhaseResult, ScenarioResult};
use vtax_plan::model::{MixPart, Scenario, SipWorkload};
use vtax_store::ims::{ImsMetric, ImsPhase, ImsPhaseKind};
use vtax_units::{Nanos, Share};

use super::benchmark::GIVEN_UP_AFTER;
use crate::requests::percent_above;

/// A scenario's own limit is judged where so many failures would be within it: with fewer attempts
/// a single one could break it. They count towards all scenarios' limit in any case.
const FEWEST_FAILURES: f64 = 2.0;
/// Cause of an attempt for which no subscriber was free.
const NO_SUBSCRIBER: &str = "no-free-subscriber";

/// What a phase must keep.
pub(super) struct Limits {
    /// All scenarios together.
    all: Option<Share>,
    each: Vec<(Scenario, Share)>,
}

impl Limits {
    pub(super) fn of(all: Share, mix: &[MixPart]) -> Self {
        Self { all: Some(all), each: mix.iter().map(|p| (p.scenario, p.ihs_limit)).collect() }
    }

    pub(super) fn only(all: Option<Share>) -> Self {
        Self { all, each: Vec::new() }
    }

    pub(super) fn none() -> Self {
        Self::only(None)
    }
}

/// Attempts whose end is known, and how many of them were inadequately handled.
fn ended(scenarios: &[ScenarioResult]) -> (u64, u64) {
    scenarios.iter().fold((0, 0), |(ended, inadequate), s| {
        let failed = s.inadequate_total();
        (ended + s.succeeded + failed, inadequate + failed)
    })
}

fn share((ended, inadequate): (u64, u64)) -> f64 {
    if ended == 0 { 0.0 } else { inadequate as f64 / ended as f64 }
}

/// What a phase came to, for who watches the run.
pub(super) fn in_short(phase: &ImsPhase) -> String {
    let mark = if phase.passed { "passed" } else { "failed" };
    format!("{} {:.1}/s IHS {:.2} % {mark}", phase.name, phase.effective.0, phase.ihs * 100.0)
}

/// The phase in short, with the limit it broke, where it broke one.
pub(super) fn judge(
    kind: ImsPhaseKind,
    detail: &PhaseResult,
    limits: &Limits,
    workload: &SipWorkload,
) -> ImsPhase {
    let ihs = share(ended(&detail.scenarios));
    let reason = broken(detail, ihs, limits, workload);
    let waited = Nanos(workload.t1.0.saturating_mul(GIVEN_UP_AFTER));
    let metrics = detail.metrics.iter().map(|of| ImsMetric::of(of, &detail.scenarios, waited));
    ImsPhase {
        name: detail.name.clone(),
        kind,
        requested: detail.requested,
        effective: detail.effective,
        started_unix_ms: detail.started_unix_ms,
        duration: detail.duration,
        transient: detail.transient,
        ihs,
        passed: reason.is_none(),
        reason,
        scenarios: detail.scenarios.clone(),
        metrics: metrics.collect(),
    }
}

fn broken(detail: &PhaseResult, ihs: f64, limits: &Limits, workload: &SipWorkload) -> Option<String> {
    if let Some(limit) = limits.all {
        let attempts: u64 = detail.scenarios.iter().map(|s| s.attempts).sum();
        if attempts > 0 && ended(&detail.scenarios).0 == 0 {
            let all = workload.t1.as_secs_f64() * 64.0;
            return Some(format!(
                "none of {attempts} scenarios ended within {all:.0} s and their own length"
            ));
        }
        if ihs > limit.0 {
            let why = want_of_subscribers(detail, limit, workload).unwrap_or_default();
            return Some(format!("IHS {}, over the limit of {limit}{why}", percent_above(ihs, limit)));
        }
    }
    limits.each.iter().find_map(|(scenario, limit)| {
        let result = detail.scenarios.iter().find(|s| s.scenario == *scenario)?;
        let counts = ended(std::slice::from_ref(result));
        let judged = counts.0 as f64 * limit.0 >= FEWEST_FAILURES;
        (judged && share(counts) > limit.0).then(|| {
            let ihs = percent_above(share(counts), *limit);
            format!("IHS of {} {ihs}, over its limit of {limit}", scenario.name())
        })
    })
}

/// Says so where most of what went wrong is that no subscriber was free: the plan has too few for the step, or
/// an overloaded service kept them waiting.
fn want_of_subscribers(detail: &PhaseResult, limit: Share, workload: &SipWorkload) -> Option<String> {
    let without = without_subscriber(detail);
    let (all, inadequate) = ended(&detail.scenarios);
    (without * 2 > inadequate).then(|| {
        let why = match Crowd::of(detail, workload) {
            crowd if !crowd.is_the_plans => {
                format!(", as they wait for the service: the plan's calls alone keep {:.0} busy", crowd.busy)
            }
            _ if share((all - without, inadequate - without)) <= limit.0 => {
                ", and the others kept to it: register more subscribers".to_owned()
            }
            _ => String::new(),
        };
        format!("; {without} of these {inadequate} attempts found no free subscriber{why}")
    })
}

/// Says so where most of what went wrong is that no subscriber was free, and the plan is why: an
/// overloaded service keeps its subscribers busy as well, which is its own failure.
pub(super) fn too_few_subscribers(detail: &PhaseResult, workload: &SipWorkload) -> Option<String> {
    let without = without_subscriber(detail);
    let (_, all) = ended(&detail.scenarios);
    let crowd = Crowd::of(detail, workload);
    (all > 0 && without * 2 > all && crowd.is_the_plans).then(|| {
        format!(
            "too few subscribers for {:.0}/s: {without} attempts of {} found no subscriber free; at that rate about {:.0} \
             are in calls, of {:.0} that are registered; provision more, or shorten calls",
            detail.requested.0, detail.name, crowd.busy, crowd.registered
        )
    })
}

/// Attempts for which no subscriber was free.
fn without_subscriber(detail: &PhaseResult) -> u64 {
    detail.scenarios.iter().filter_map(|s| s.inadequate.get(NO_SUBSCRIBER)).sum()
}

/// How many of the registered subscribers a phase's calls keep busy on a service that takes no time.
struct Crowd {
    busy: f64,
    registered: f64,
    /// Whether that is so many that the plan, not the service, may be why none is free.
    is_the_plans: bool,
}

impl Crowd {
    fn of(detail: &PhaseResult, workload: &SipWorkload) -> Self {
        let rate = detail.requested;
        let (busy, registered) = (workload.busy_at(rate), workload.registered_count());
        Self { busy, registered, is_the_plans: rate > workload.most_rate() }
    }
}
