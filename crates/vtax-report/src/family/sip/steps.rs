//! The table of steps: a column per phase, a row per figure, as in the study's tables 4-2 to 4-4.

use vtax_plan::model::Scenario;
use vtax_store::ims::{ImsOutcome, ImsPhase, ImsPhaseKind};

use super::detail::Detail;
use super::trial::{Standing, standing};
use super::what::{What, old_scenario};

/// Steps side by side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Steps {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) standing: Standing,
    /// Which limit it broke, or what it was for.
    pub(crate) remark: String,
    /// It is the one whose load is the capacity.
    pub(crate) decisive: bool,
}

/// One figure of all phases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// `SAPS`, `%`, `MiB`, `/s`, `s`.
    pub(crate) unit: &'static str,
    /// Name of its scenario in the study's tool.
    pub(crate) old: &'static str,
    /// By phase; `None` where it doesn't apply or isn't known.
    pub(crate) values: Vec<Option<f64>>,
    /// It decides, and stands out.
    pub(crate) strong: bool,
}

/// Makes the table; CPU and memory come from `detail`, where there is one.
pub(crate) fn steps(outcome: &ImsOutcome, detail: Option<&Detail>) -> Steps {
    let phases = &outcome.phases;
    let scenarios = scenarios(outcome);
    let mut rows = Vec::new();
    let mut put = |name: &str, unit, old, strong, of: &dyn Fn(usize, &ImsPhase) -> Option<f64>| {
        let values: Vec<Option<f64>> = phases.iter().enumerate().map(|(i, p)| of(i, p)).collect();
        if values.iter().any(Option::is_some) {
            rows.push(Row { name: name.to_owned(), unit, old, values, strong });
        }
    };
    put("Requested load", "SAPS", "", true, &|_, p| Some(p.requested.0));
    put("Effective load", "SAPS", "", true, &|_, p| Some(p.effective.0));
    for s in &scenarios {
        let old = old_scenario(*s).unwrap_or_default();
        put(&format!("Ratio {}", s.name()), "%", old, false, &|_, p| Some(ratio(p, *s)));
    }
    let usage = [
        ("CPU SUT", "%", What::SutCpu),
        ("CPU SUT, seen from the host", "%", What::HypervisorCpu),
        ("Memory SUT, available", "MiB", What::SutMemory),
        ("Memory SUT, in use", "MiB", What::SutUsed),
        ("Memory generator, available", "MiB", What::GeneratorMemory),
    ];
    for (name, unit, what) in usage {
        if what == What::GeneratorMemory {
            put("CPU generator", "%", "", false, &|i, _| workers(detail?, i));
        }
        put(name, unit, "", false, &|i, _| mean(detail?, what, i));
    }
    for s in &scenarios {
        let old = old_scenario(*s).unwrap_or_default();
        put(&format!("IHS {}", s.name()), "%", old, false, &|_, p| ihs(p, *s));
    }
    put("global IHS", "%", "", true, &|_, p| Some(p.ihs * 100.0));
    put("Retransmissions", "/s", "", false, &|_, p| {
        let seconds = p.duration.as_secs_f64() - p.transient.as_secs_f64();
        let all: u64 = p.scenarios.iter().map(|s| s.retransmissions).sum();
        (seconds > 0.0).then(|| all as f64 / seconds)
    });
    put("Duration", "s", "", false, &|_, p| Some(p.duration.as_secs_f64()));
    put("Transient left out", "s", "", false, &|_, p| Some(p.transient.as_secs_f64()));
    rows.iter_mut().for_each(|r| r.values.iter_mut().for_each(|v| *v = v.filter(|v| v.is_finite())));
    let decisive = outcome.doc.map(|d| d.phase as usize);
    let column = |(i, p): (usize, &ImsPhase)| Column {
        name: p.name.clone(),
        standing: standing(p),
        remark: p.reason.clone().unwrap_or_else(|| purpose(p).to_owned()),
        decisive: decisive == Some(i),
    };
    Steps { columns: phases.iter().enumerate().map(column).collect(), rows }
}

/// The scenarios of all phases, in the order of reports.
pub(crate) fn scenarios(outcome: &ImsOutcome) -> Vec<Scenario> {
    let in_use = |s: &Scenario| outcome.phases.iter().any(|p| p.scenarios.iter().any(|r| r.scenario == *s));
    Scenario::ALL.into_iter().filter(in_use).collect()
}

/// Share of a phase's attempts that are this scenario's, in percent.
pub(crate) fn ratio(phase: &ImsPhase, scenario: Scenario) -> f64 {
    let of = |only: Option<Scenario>| {
        let own = phase.scenarios.iter().filter(|s| only.is_none_or(|o| s.scenario == o));
        own.map(|s| s.attempts as f64).sum::<f64>()
    };
    let all = of(None);
    // Adding zero turns the -0 of an empty sum into 0.
    if all > 0.0 { of(Some(scenario)) / all * 100.0 + 0.0 } else { 0.0 }
}

/// Inadequately handled attempts of one scenario in percent of those that ended, as steps are judged;
/// `None` where none ended.
pub(crate) fn ihs(phase: &ImsPhase, scenario: Scenario) -> Option<f64> {
    let own = phase.scenarios.iter().find(|s| s.scenario == scenario)?;
    let inadequate = own.inadequate_total();
    let ended = own.succeeded.saturating_add(inadequate);
    (ended > 0).then(|| inadequate as f64 / ended as f64 * 100.0)
}

fn mean(detail: &Detail, what: What, phase: usize) -> Option<f64> {
    let found = detail.measurements.iter().find(|m| m.what == what)?;
    Some((*found.steps.get(phase)?)?.mean)
}

/// What the generator's workers used of their CPUs, in percent.
fn workers(detail: &Detail, phase: usize) -> Option<f64> {
    let r = &detail.phases.get(phase)?.result;
    let g = &r.generator;
    let most = r.duration.as_secs_f64() * f64::from(g.workers);
    let used = g.cpu_user.as_secs_f64() + g.cpu_system.as_secs_f64();
    (most > 0.0).then(|| used / most * 100.0)
}

fn purpose(phase: &ImsPhase) -> &'static str {
    match phase.kind {
        ImsPhaseKind::PreRegistration | ImsPhaseKind::Stir => "preparation",
        ImsPhaseKind::Step | ImsPhaseKind::Search => "kept",
        ImsPhaseKind::Fixed => "no limit: the plan's rate",
        ImsPhaseKind::Confirmation => "kept: confirmed",
    }
}
