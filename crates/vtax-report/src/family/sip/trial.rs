//! What one trial of the IMS benchmark comes to: its capacity, or the response times at a given rate.

use vtax_plan::model::{Scenario, SipMetric};
use vtax_store::ims::{ImsOutcome, ImsPhase, ImsPhaseKind};
use vtax_store::record::{Finding, TrialRecord};

use crate::format::{fixed, whole};
use crate::metric::{HISTOGRAM_RESOLUTION, Info, Value, exact, higher, lower};

/// The metrics of this family, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher("doc", "design objective capacity", "SAPS", 2),
    lower("ses1_p50", "session setup (SES1), median", "ns", 2),
    lower("ses2_p50", "INVITE traversal (SES2), median", "ns", 1),
    lower("ses3_p50", "re-INVITE (SES3), median", "ns", 1),
    lower("rel1_p50", "call release (REL1), median", "ns", 1),
    lower("pmm1_p50", "message (PMM1), median", "ns", 2),
    lower("pmm2_p50", "message to nobody (PMM2), median", "ns", 1),
    lower("reg1_p50", "first REGISTER (REG1), median", "ns", 1),
    lower("reg2_p50", "second REGISTER (REG2), median", "ns", 2),
    lower("reg4_p50", "re-registration (REG4), median", "ns", 1),
    lower("ihs", "inadequately handled scenarios", "1", 0),
];

/// How a phase stands to its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Preparation that kept to its limits: pre-registration, stir.
    Prepared,
    /// Within the limits.
    Passed,
    /// Beyond a limit.
    Failed,
}

impl Standing {
    /// Class of its colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Passed => "passed",
            Self::Failed => "failed",
        }
    }
}

/// How a phase stands to its limits.
pub(crate) fn standing(phase: &ImsPhase) -> Standing {
    match (phase.passed, phase.kind) {
        (false, _) => Standing::Failed,
        (true, ImsPhaseKind::PreRegistration | ImsPhaseKind::Stir) => Standing::Prepared,
        (true, _) => Standing::Passed,
    }
}

/// What a trial found, where it is an IMS benchmark's.
pub(crate) fn outcome(record: &TrialRecord) -> Option<&ImsOutcome> {
    match record.finding() {
        Some(Finding::Ims(ims)) => Some(ims),
        _ => None,
    }
}

/// The figures of a valid trial.
pub(crate) fn values(ims: &ImsOutcome) -> Vec<Value> {
    doc(ims).into_iter().chain(of_mix(ims)).filter(|v| v.value.is_finite()).collect()
}

/// The effective load of the last step within the limits; the next step's request bounds it from above.
fn doc(ims: &ImsOutcome) -> Option<Value> {
    let doc = ims.doc?;
    let value = doc.effective.0;
    if !(value.is_finite() && value > 0.0) {
        return None;
    }
    let width = ims.failed.map_or(0.0, |failed| (failed.0 / doc.requested.0).max(1.0).ln());
    let resolution = if width.is_finite() { width } else { 0.0 };
    Some(Value { metric: "doc", value, resolution, censored: ims.failed.is_none() })
}

/// Each SIP metric in the scenario that is its usual one.
const SIP_METRICS: [(SipMetric, Scenario, &str); 9] = [
    (SipMetric::Ses1, Scenario::Calling, "ses1_p50"),
    (SipMetric::Ses2, Scenario::Calling, "ses2_p50"),
    (SipMetric::Ses3, Scenario::ReInvite, "ses3_p50"),
    (SipMetric::Rel1, Scenario::Calling, "rel1_p50"),
    (SipMetric::Pmm1, Scenario::Messaging, "pmm1_p50"),
    (SipMetric::Pmm2, Scenario::MessageUnregistered, "pmm2_p50"),
    (SipMetric::Reg1, Scenario::Registration, "reg1_p50"),
    (SipMetric::Reg2, Scenario::Registration, "reg2_p50"),
    (SipMetric::Reg4, Scenario::ReRegistration, "reg4_p50"),
];

/// A mix at a given rate. At the capacity each environment carries another load, where medians
/// compare nothing: the benchmark's own tables have them.
fn of_mix(ims: &ImsOutcome) -> Vec<Value> {
    let Some(phase) = ims.decisive().filter(|p| p.kind == ImsPhaseKind::Fixed) else { return Vec::new() };
    let medians = SIP_METRICS.iter().filter_map(|(metric, scenario, name)| {
        let of = phase.metrics.iter().find(|m| m.metric == *metric && m.scenario == *scenario)?;
        // As for every percentile: at least ten values beyond it.
        let median = of.percentiles_ns.get("50").filter(|_| of.count >= 20)?;
        Some(Value { resolution: HISTOGRAM_RESOLUTION, ..exact(name, *median as f64) })
    });
    medians.chain([exact("ihs", phase.ihs)]).collect()
}

/// What a trial found, in a few words.
pub(crate) fn told(o: &ImsOutcome) -> String {
    match (o.doc, o.failed) {
        (Some(d), Some(f)) => format!(
            "design objective capacity {} SAPS (requested {}), {} SAPS broke a limit",
            fixed(d.effective.0),
            whole(d.requested.0),
            whole(f.0)
        ),
        (Some(d), None) => format!(
            "design objective capacity at least {} SAPS (requested {}): no step broke a limit",
            fixed(d.effective.0),
            whole(d.requested.0)
        ),
        (None, Some(f)) => format!("no step kept to the limits, not even {} SAPS", whole(f.0)),
        (None, None) => match o.decisive() {
            Some(p) => {
                format!("{} SAPS at the plan's rate of {}", fixed(p.effective.0), whole(p.requested.0))
            }
            None => match o.phases.iter().any(|p| standing(p) == Standing::Passed) {
                true => "it ended before a capacity was found".to_owned(),
                false => "it didn't get beyond its preparation".to_owned(),
            },
        },
    }
}
