//! What all workers of a session share and never change.

use vtax_plan::model::{Scenario, SipMetric, SipTransport, SubscriberFormats};
use vtax_units::Nanos;

use super::SipSpec;
use crate::LoadError;

/// T2 over T1 and the life of a transaction over T1, as with the usual T1 of 500 ms (RFC 3261
/// section 17.1).
const T2_OVER_T1: u64 = 8;
const LIFE_OVER_T1: u64 = 64;
/// Shortest T1: the timers tick in milliseconds.
const T1_MIN: Nanos = Nanos::from_millis(1);
const T1_MAX: Nanos = Nanos::from_secs(60);
/// Longest ring and hold time: beyond it a typing error is likelier.
const SPREAD_MAX: Nanos = Nanos::from_secs(24 * 3600);
/// The text of a page-mode message (RFC 3428 section 8: a request is at most 1300 bytes).
const TEXT_MAX: u64 = 1_300;
/// More source addresses than any host is given for this.
const ADDRESSES_MAX: usize = 1_024;

/// The session's constants.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) spec: SipSpec,
    pub(crate) formats: SubscriberFormats,
    /// Calls go to the target itself, which answers them; no subscriber registers.
    pub(crate) direct: bool,
    pub(crate) workers: u32,
    /// Timers in nanoseconds.
    pub(crate) t1: u64,
    pub(crate) t2: u64,
    pub(crate) life: u64,
    /// Whether lost messages are sent again: not over TCP.
    pub(crate) repeats: bool,
    /// By position in [`SipMetric::ALL`].
    pub(crate) limits: [u64; SipMetric::ALL.len()],
    /// Host of the addresses of record.
    pub(crate) domain: Vec<u8>,
    /// Seconds asked for in REGISTER.
    pub(crate) expires: u32,
}

impl Setup {
    pub(crate) fn new(spec: &SipSpec, direct: bool, workers: u32) -> Result<Self, LoadError> {
        check(spec, direct)?;
        let refuse = |e: vtax_plan::model::SubscribersError| LoadError::Spec {
            field: "workload.subscribers",
            reason: e.to_string(),
        };
        let workload = &spec.workload;
        let t1 = workload.t1.0;
        let limit = |metric| workload.limits.get(&metric).map_or(u64::MAX, |limit| limit.0);
        let domain = if direct { spec.target.to_string() } else { workload.subscribers.domain.clone() };
        Ok(Self {
            formats: workload.subscribers.formats().map_err(refuse)?,
            direct,
            workers,
            t1,
            t2: T2_OVER_T1 * t1,
            life: LIFE_OVER_T1 * t1,
            repeats: workload.transport == SipTransport::Udp,
            limits: SipMetric::ALL.map(limit),
            domain: domain.into_bytes(),
            expires: u32::try_from(workload.expires.0 / 1_000_000_000).unwrap_or(u32::MAX).max(1),
            spec: spec.clone(),
        })
    }

    /// Subscribers of one worker: each takes every `workers`-th.
    pub(crate) fn users_of(&self, worker: u32) -> u32 {
        let count = self.spec.workload.subscribers.count;
        count / self.workers + u32::from(worker < count % self.workers)
    }
}

fn check(spec: &SipSpec, direct: bool) -> Result<(), LoadError> {
    let refuse = |field, reason: String| Err(LoadError::Spec { field, reason });
    let workload = &spec.workload;
    if spec.local.is_empty() || spec.local.len() > ADDRESSES_MAX {
        return refuse("local", format!("{} addresses; 1 to {ADDRESSES_MAX} will do", spec.local.len()));
    }
    if let Some(other) = spec.local.iter().find(|a| a.is_ipv4() != spec.target.is_ipv4()) {
        return refuse("local", format!("{other} is of another kind than the target {}", spec.target));
    }
    if !(T1_MIN..=T1_MAX).contains(&workload.t1) {
        return refuse("workload.t1", format!("{} is not between {T1_MIN} and {T1_MAX}", workload.t1));
    }
    for (field, spread) in
        [("workload.ring_time", workload.ring_time), ("workload.hold_time", workload.hold_time)]
    {
        let (vtax_plan::model::Spread::Exponential(mean) | vtax_plan::model::Spread::Constant(mean)) = spread;
        if mean > SPREAD_MAX {
            return refuse(field, format!("{mean} is longer than {SPREAD_MAX}"));
        }
    }
    let (least, most) = workload.message_bytes;
    if least > most || most.0 > TEXT_MAX {
        return refuse("workload.message_bytes", format!("must be ascending and at most {TEXT_MAX} bytes"));
    }
    let shares: f64 = workload.mix.iter().map(|part| part.share.0).sum();
    if !(shares > 0.0 && shares.is_finite()) {
        return refuse("workload.mix", "no scenario has a share above 0".to_owned());
    }
    let plain = |part: &&vtax_plan::model::MixPart| part.scenario != Scenario::Calling && part.share.0 > 0.0;
    if direct && let Some(part) = workload.mix.iter().find(plain) {
        return refuse("workload.mix", format!("{} needs a registrar", part.scenario.name()));
    }
    Ok(())
}
