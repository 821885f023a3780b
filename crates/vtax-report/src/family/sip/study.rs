//! The study whose experiment this is, and the names that its test tool gave to parameters.

use vtax_plan::model::{Cell, EnvironmentKind, Scenario, ServiceKind, SipWorkload, Workload};

/// Design objective capacities of the study, in SAPS: natively, in a VM, in a fault-tolerant VM.
pub(crate) const NATIVE: f64 = 139.0;
pub(crate) const VM: f64 = 100.0;
pub(crate) const FAULT_TOLERANT: f64 = 34.0;

/// The study's mix.
const MIX: [(Scenario, f64); 5] = [
    (Scenario::Calling, 0.5),
    (Scenario::Messaging, 0.3),
    (Scenario::ReRegistration, 0.15),
    (Scenario::Registration, 0.025),
    (Scenario::DeRegistration, 0.025),
];

/// What the study found in an environment like this one, where its experiment is the same.
pub(crate) fn capacity(cell: &Cell) -> Option<f64> {
    let Workload::Sip(workload) = &cell.workload else { return None };
    // It measured a proxy with a database.
    if !is_its_mix(workload) || !matches!(cell.service.kind, ServiceKind::Kamailio(_)) {
        return None;
    }
    match &cell.environment.kind {
        EnvironmentKind::Native => Some(NATIVE),
        EnvironmentKind::Vm(vm) if vm.fault_tolerance.as_ref().is_some_and(|ft| ft.mode.keeps_state()) => {
            Some(FAULT_TOLERANT)
        }
        EnvironmentKind::Vm(_) => Some(VM),
        EnvironmentKind::Container => None,
    }
}

fn is_its_mix(workload: &SipWorkload) -> bool {
    let share = |s: Scenario| workload.mix.iter().filter(|p| p.scenario == s).map(|p| p.share.0).sum::<f64>();
    workload.mix.iter().all(|p| MIX.iter().any(|(s, _)| *s == p.scenario) || p.share.0 == 0.0)
        && MIX.iter().all(|(s, expected)| (share(*s) - expected).abs() < 1e-9)
}
