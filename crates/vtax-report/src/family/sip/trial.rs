//! What one trial of the IMS benchmark comes to: its capacity, or the response times at a given rate.

use vtax_plan::model::{Scenario, SipMetric};
use vtax_store::ims::{ImsOutcome, ImsPhase, ImsPhaseKind};
use vtax_store::record::{Finding, TrialRecord};
use vtax_units::metric::{DOC, PMM1_P50, REG2_P50, SES1_P50};

use crate::format::{fixed, whole};
use crate::metric::{HISTOGRAM_RESOLUTION, Info, Value, exact, higher, lower};

/// The metrics of this family, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher(DOC.name, DOC.label, "SAPS", 2),
    lower(SES1_P50.name, SES1_P50.label, "ns", 2),
    lower("ses2_p50", "INVITE traversal (SES2), median", "ns", 1),
    lower("ses3_p50", "re-INVITE (SES3), median", "ns", 1),
    lower("rel1_p50", "call release (REL1), median", "ns", 1),
    lower(PMM1_P50.name, PMM1_P50.label, "ns", 2),
    lower("pmm2_p50", "message to nobody (PMM2), median", "ns", 1),
    lower("reg1_p50", "first REGISTER (REG1), median", "ns", 1),
    lower(REG2_P50.name, REG2_P50.label, "ns", 2),
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
    /// At a rate that the plan gives, which has no limit: there is no verdict.
    Unlimited,
}

impl Standing {
    /// Class of its colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Prepared | Self::Unlimited => "prepared",
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
        (true, ImsPhaseKind::Fixed) => Standing::Unlimited,
        (true, _) => Standing::Passed,
    }
}

/// The phases that aren't preparation.
fn measured(o: &ImsOutcome) -> impl Iterator<Item = &ImsPhase> {
    let prepares = |p: &ImsPhase| matches!(p.kind, ImsPhaseKind::PreRegistration | ImsPhaseKind::Stir);
    o.phases.iter().filter(move |p| !prepares(p))
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
    Some(Value { metric: DOC.name, value, resolution, censored: ims.failed.is_none() })
}

/// Each SIP metric in the scenario that is its usual one.
const SIP_METRICS: [(SipMetric, Scenario, &str); 9] = [
    (SipMetric::Ses1, Scenario::Calling, SES1_P50.name),
    (SipMetric::Ses2, Scenario::Calling, "ses2_p50"),
    (SipMetric::Ses3, Scenario::ReInvite, "ses3_p50"),
    (SipMetric::Rel1, Scenario::Calling, "rel1_p50"),
    (SipMetric::Pmm1, Scenario::Messaging, PMM1_P50.name),
    (SipMetric::Pmm2, Scenario::MessageUnregistered, "pmm2_p50"),
    (SipMetric::Reg1, Scenario::Registration, "reg1_p50"),
    (SipMetric::Reg2, Scenario::Registration, REG2_P50.name),
    (SipMetric::Reg4, Scenario::ReRegistration, "reg4_p50"),
];

/// A mix at a given rate. At the capacity each environment carries another load, where medians
/// compare nothing: the benchmark's own tables have them. So it is with two rates of two runs: what was offered tells them apart.
fn of_mix(ims: &ImsOutcome) -> Vec<Value> {
    let Some(phase) = ims.decisive().filter(|p| p.kind == ImsPhaseKind::Fixed) else { return Vec::new() };
    let medians = SIP_METRICS.iter().filter_map(|(metric, scenario, name)| {
        let median = ims.median_at_given_rate(*metric, *scenario)?;
        let (value, censored) = (median.ns as f64, median.at_least);
        Some(Value { metric: name, value, resolution: HISTOGRAM_RESOLUTION, censored })
    });
    medians.chain([exact("ihs", phase.ihs), exact("offered", phase.requested.0)]).collect()
}

/// What a trial found, in a few words.
pub(crate) fn describe_outcome(o: &ImsOutcome) -> String {
    match (o.doc, o.failed) {
        (Some(d), Some(f)) => format!(
            "design objective capacity {} SAPS (requested {}), {} SAPS broke a limit",
            fixed(d.effective.0),
            whole(d.requested.0),
            whole(f.0)
        ),
        // Of a staircase whose next step broke a limit, but not for the service's sake.
        (Some(d), None) if measured(o).any(|p| !p.passed && p.requested.0 > d.requested.0) => format!(
            "{} SAPS kept to the limits; why the next step broke one is in doubt, so there is no capacity",
            whole(d.requested.0)
        ),
        (Some(d), None) => format!(
            "design objective capacity at least {} SAPS (requested {}): no step broke a limit",
            fixed(d.effective.0),
            whole(d.requested.0)
        ),
        (None, _) => match o.decisive() {
            Some(p) => {
                let (rate, asked) = (fixed(p.effective.0), whole(p.requested.0));
                format!("{rate} SAPS at the plan's rate of {asked}, IHS {:.2} %", p.ihs * 100.0)
            }
            None => without_capacity(o),
        },
    }
}

/// How far a trial got that looked for a capacity and has none.
fn without_capacity(o: &ImsOutcome) -> String {
    let lowest = measured(o).map(|p| p.requested.0).reduce(f64::min);
    match (lowest, measured(o).any(|p| p.passed), o.failed) {
        (None, ..) => "it didn't get beyond its preparation".to_owned(),
        (Some(rate), false, _) => format!("no step kept to the limits, not even {} SAPS", whole(rate)),
        (Some(_), true, Some(_)) => {
            "short steps kept to the limits, but no rate held when it was confirmed".to_owned()
        }
        (Some(_), true, None) => "it ended before a capacity was found".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use vtax_load::sip::ScenarioResult;
    use vtax_store::ims::{Doc, ImsMetric};
    use vtax_units::{Nanos, Rate};

    use super::*;
    use ImsPhaseKind::{Confirmation, Fixed, PreRegistration, Search, Step};

    fn phase(kind: ImsPhaseKind, rate: f64, passed: bool) -> ImsPhase {
        ImsPhase {
            name: String::new(),
            kind,
            requested: Rate(rate),
            effective: Rate(rate),
            started_unix_ms: 0,
            duration: Nanos::from_secs(1),
            transient: Nanos::ZERO,
            ihs: 0.0,
            passed,
            reason: None,
            scenarios: Vec::new(),
            metrics: Vec::new(),
        }
    }

    /// What is told of a trial with these phases behind a preparation, the phase of its capacity and the rate that failed.
    fn described(phases: &[(ImsPhaseKind, f64, bool)], doc: Option<u32>, failed: Option<f64>) -> String {
        let prepared = phase(PreRegistration, 100.0, true);
        let phases: Vec<ImsPhase> =
            [prepared].into_iter().chain(phases.iter().map(|p| phase(p.0, p.1, p.2))).collect();
        let doc = doc.map(|i| {
            let of = &phases[i as usize];
            Doc { requested: of.requested, effective: of.effective, phase: i }
        });
        describe_outcome(&ImsOutcome {
            doc,
            failed: failed.map(Rate),
            phases,
            stray: Default::default(),
            pools: Default::default(),
            connections: None,
            probe_clocks: Default::default(),
        })
    }

    /// A mix at a given rate of which this share of 100 calls had no answer. Half of the others were set up within 1 ms.
    pub(crate) fn mix_at(rate: f64, lost: f64) -> ImsOutcome {
        let bad = (lost * 100.0).round() as u64;
        let calls = ScenarioResult {
            scenario: Scenario::Calling,
            attempts: 100,
            succeeded: 100 - bad,
            inadequate: BTreeMap::from([("timeout".to_owned(), bad)]),
            unfinished: 0,
            retransmissions: 0,
        };
        let setups = ImsMetric {
            metric: SipMetric::Ses1,
            scenario: Scenario::Calling,
            count: 100 - bad,
            mean_ns: 1e6,
            sd_ns: 0.0,
            min_ns: 900_000,
            max_ns: 9_000_000,
            percentiles_ns: BTreeMap::from([("50".to_owned(), 1_000_000), ("90".to_owned(), 5_000_000)]),
            median_of_attempts_ns: None,
        };
        let load =
            ImsPhase { ihs: lost, scenarios: vec![calls], metrics: vec![setups], ..phase(Fixed, rate, true) };
        ImsOutcome {
            doc: None,
            failed: None,
            phases: vec![load],
            stray: Default::default(),
            pools: Default::default(),
            connections: None,
            probe_clocks: Default::default(),
        }
    }

    /// Who lost most calls and answered the rest fast was better.
    #[test]
    fn what_had_no_answer_is_slower_than_every_answer() {
        let median = |lost| {
            let found = values(&mix_at(40.0, lost));
            let median = found.iter().find(|v| v.metric == SES1_P50.name).unwrap();
            (median.value, median.censored)
        };
        assert_eq!(median(0.0), (1e6, false));
        // The 50th of 55 answers: between their 90th percentile, 5 ms, and the slowest, 9 ms.
        let (half_lost, censored) = median(0.45);
        assert!((half_lost / 5.364e6 - 1.0).abs() < 0.001 && !censored, "{half_lost}");
        assert_eq!(median(0.6), (9e6, true));
    }

    #[test]
    fn a_mix_at_a_given_rate_says_what_was_offered() {
        let found = values(&mix_at(40.0, 0.0));
        let of = |name: &str| found.iter().find(|v| v.metric == name).map(|v| v.value);
        assert_eq!((of("offered"), of("ihs")), (Some(40.0), Some(0.0)));
        let info = crate::families::named("offered").unwrap();
        assert!(!info.compared && !info.primary, "it would have a verdict of its own");
    }

    #[test]
    fn a_trial_without_a_capacity_says_how_far_it_got() {
        assert_eq!(described(&[], None, None), "it didn't get beyond its preparation");
        let none = "no step kept to the limits, not even 60 SAPS";
        assert_eq!(described(&[(Step, 60.0, false)], None, None), none);
        assert_eq!(described(&[(Search, 80.0, false), (Search, 60.0, false)], None, None), none);
        let moved = [(Search, 80.0, true), (Search, 90.0, false), (Confirmation, 80.0, false)];
        let text = "short steps kept to the limits, but no rate held when it was confirmed";
        assert_eq!(described(&moved, None, Some(80.0)), text);
        assert_eq!(described(&moved[..2], None, None), "it ended before a capacity was found");
        let fixed = described(&[(Fixed, 300.0, true)], None, None);
        assert_eq!(fixed, "300.00 SAPS at the plan's rate of 300, IHS 0.00 %");
    }

    #[test]
    fn a_limit_that_was_broken_in_doubt_bounds_no_capacity() {
        let doubt =
            "60 SAPS kept to the limits; why the next step broke one is in doubt, so there is no capacity";
        assert_eq!(described(&[(Step, 60.0, true), (Step, 80.0, false)], Some(1), None), doubt);
        let least = described(&[(Step, 60.0, true)], Some(1), None);
        assert!(least.ends_with("at least 60.00 SAPS (requested 60): no step broke a limit"), "{least}");
    }

    #[test]
    fn a_rate_that_the_plan_gives_has_no_verdict() {
        assert_eq!(standing(&phase(Fixed, 300.0, true)), Standing::Unlimited);
        assert_eq!(standing(&phase(Step, 300.0, true)), Standing::Passed);
        assert_eq!(standing(&phase(Fixed, 300.0, false)), Standing::Failed);
    }
}
