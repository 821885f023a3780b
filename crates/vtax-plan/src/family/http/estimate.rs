//! How long measurements with HTTP requests take.

use vtax_units::{Nanos, Rate};

use crate::assumptions::searching;
use crate::model::{Budget, Cell, EnvironmentKind, MeasureKind, ServiceKind, Workload};

/// Time of a measurement on a service of this capacity.
pub(super) fn measuring(measure: &MeasureKind, capacity: Rate) -> Nanos {
    match measure {
        MeasureKind::Capacity(search) => searching(search, capacity),
        other => other.timing().least(),
    }
}

/// Warns of connections that would wait until others end, as each holds a thread or a process of Apache's.
pub(crate) fn waiting(cell: &Cell, budget: &Budget) -> Option<String> {
    let (ServiceKind::Apache(web), Workload::Http(http)) = (&cell.service.kind, &cell.workload) else {
        return None;
    };
    let cpus = match &cell.environment.kind {
        EnvironmentKind::Vm(vm) => vm.vcpus.or(budget.sut_cpus),
        _ => budget.sut_cpus,
    };
    let most = web.most_held(cpus).filter(|most| http.connections > *most)?;
    http.requests_per_connection.is_none().then(|| {
        let (name, mpm, connections) = (&cell.service.name, web.mpm.word(), http.connections);
        format!(
            "`{name}` with `mpm: {mpm}` serves {most} connections at once: of {connections} that stay, the others would wait until \
             they time out; raise `workers`, or say `requests_per_connection`"
        )
    })
}
