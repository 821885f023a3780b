//! How long measurements with HTTP requests take.

use vtax_units::{Nanos, Rate};

use crate::assumptions::searching;
use crate::model::{Budget, Cell, EnvironmentKind, MeasureKind, ServiceKind, Split, WebOptions, Workload};

/// Time of a measurement on a service of this capacity.
pub(super) fn measuring(measure: &MeasureKind, capacity: Rate) -> Nanos {
    match measure {
        MeasureKind::Capacity(search) => searching(search, capacity),
        other => other.timing().least(),
    }
}

/// Connections of each of nginx's workers, as its configuration has them (catalogue/nginx.rs of vtax-service).
const NGINX_CONNECTIONS: u32 = 16_384;

/// Connections that nginx has room for with so many CPUs; `None` where it isn't known. A page of PHP takes a second one, to PHP.
fn most_of_nginx(web: &WebOptions, cpus: Option<u32>) -> Option<u32> {
    let each = if web.php { NGINX_CONNECTIONS / 2 } else { NGINX_CONNECTIONS };
    Some(web.workers.or(cpus)?.saturating_mul(each))
}

/// Warns of connections that would wait until others end, as each holds a thread or a process of Apache's, or that nginx would close, as
/// its workers have no room for them.
pub(crate) fn waiting(cell: &Cell, budget: &Budget) -> Option<String> {
    let Workload::Http(http) = &cell.workload else { return None };
    let cpus = match &cell.environment.kind {
        EnvironmentKind::Vm(vm) => vm.vcpus.or(budget.sut_cpus),
        _ => budget.sut_cpus,
    };
    let name = &cell.service.name;
    // Of several systems, those of the one that has the most.
    let connections = match cell.systems.load {
        Split::Total => http.connections.div_ceil(cell.environment.count.max(1)),
        Split::Each => http.connections,
    };
    let (most, server, others) = match &cell.service.kind {
        ServiceKind::Apache(web) => (
            web.most_held(cpus)?,
            format!("`{name}` with `mpm: {}`", web.mpm.word()),
            "wait until they time out",
        ),
        ServiceKind::Nginx(web) => (most_of_nginx(web, cpus)?, format!("`{name}`"), "be closed"),
        _ => return None,
    };
    (connections > most && http.requests_per_connection.is_none()).then(|| {
        format!(
            "{server} serves {most} connections at once: of {connections} that stay, the others would {others}; raise `workers`, or \
             say `requests_per_connection`"
        )
    })
}
