//! Desktop workloads.

pub mod limits;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;

use vtax_units::{Bytes, Nanos, Rate};

use super::{Misfit, WorkloadModel};
use crate::assumptions::{Assumptions, searching};
use crate::model::{
    Budget, Cell, DesktopActions, DesktopOptions, DesktopWorkload, EnvironmentKind, MeasureKind, Protocol,
    ServiceKind,
};

/// An answer on a screen takes about as much of a CPU as this many requests to a small web service.
const REQUESTS_OF_ONE: f64 = 25.0;

/// What a desktop takes of memory, a program that draws included, beside what each of its pixels takes: TigerVNC 1.12 with a client that
/// works, and how much more it is where x11vnc serves it.
const MEMORY_OF_ONE: u64 = 22 << 20;
const MEMORY_OF_X11VNC: u64 = 4 << 20;
const MEMORY_OF_PIXEL: u64 = 12;

impl ServiceKind {
    /// Desktops that it has, each on a port of its own; `None`: it is something else.
    pub(crate) const fn desktops(&self) -> Option<u32> {
        match self {
            Self::Tigervnc(options) | Self::X11vnc(options) => Some(options.sessions),
            _ => None,
        }
    }
}

/// Where the desktops of a system take more memory than it may have, so that they don't start, or only work slowly.
pub(crate) fn too_little_memory(cell: &Cell, budget: &Budget) -> Option<String> {
    cell.services().zip(cell.environments()).find_map(|(service, environment)| {
        let (options, more) = match &service.kind {
            ServiceKind::Tigervnc(options) => (options, 0),
            ServiceKind::X11vnc(options) => (options, MEMORY_OF_X11VNC),
            _ => return None,
        };
        let (takes, has) = (memory(options, more), cell.memory_of(environment, budget));
        let more = match &environment.kind {
            EnvironmentKind::Vm(_) => "memory (`budget.sut_memory`, or the `memory` of the `vm`)",
            EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => "`budget.sut_memory`",
        };
        (takes > has).then(|| {
            format!(
                "`{}`: {} desktops of {} by {} pixels take about {takes} of memory, and `{}` has {has}: fewer `sessions`, or \
                 more {more}",
                service.name,
                options.sessions,
                options.width,
                options.height,
                environment.name
            )
        })
    })
}

/// What all of them take, where each takes so much more than one of TigerVNC's.
fn memory(options: &DesktopOptions, more: u64) -> Bytes {
    let pixels = u64::from(options.width) * u64::from(options.height);
    let all = u64::from(options.sessions) * (MEMORY_OF_ONE + more + MEMORY_OF_PIXEL * pixels);
    // Whole MiB are said.
    Bytes::from_mib(all >> 20)
}

impl WorkloadModel for DesktopWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Desktop
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        Misfit::unless_of_requests(measure)
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        match measure {
            MeasureKind::Capacity(search) => {
                searching(search, Rate(host.capacity(environment).0 / REQUESTS_OF_ONE))
            }
            other => other.timing().least(),
        }
    }

    fn is_of_requests(&self) -> bool {
        true
    }

    fn asked(&self) -> Option<String> {
        let users = &self.users;
        let DesktopActions { typing, scroll, drag, film } = users.actions;
        let kinds = [("type", typing), ("scroll", scroll), ("drag", drag), ("watch a film", film)];
        let kinds: Vec<&str> =
            kinds.into_iter().filter(|(_, often)| *often > 0).map(|(kind, _)| kind).collect();
        Some(format!("users who {}, each {}", kinds.join(", "), users.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn desktops_that_take_more_memory_than_there_is_are_told() {
        let plan = |server: &str, sessions: u32| {
            let text = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: {{{server}: {{sessions: {sessions}, width: 800, \
                 height: 600}}}}\nworkload: {{desktop: {{}}}}\nmeasure: throughput\n"
            );
            crate::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"))
        };
        let told = |server, sessions| {
            let plan = plan(server, sessions);
            too_little_memory(&plan.cells[0], &plan.budget)
        };
        assert_eq!(told("tigervnc", 10), None);
        assert_eq!(
            told("tigervnc", 40).as_deref(),
            Some(
                "`tigervnc`: 40 desktops of 800 by 600 pixels take about 1099MiB of memory, and `native` has 512MiB: fewer \
                 `sessions`, or more `budget.sut_memory`"
            )
        );
        let in_vm = "vtax: 1\nname: t\nbaseline: vm\nenvironments: vm\nservices: {tigervnc: {sessions: 40}}\n\
                     workload: {desktop: {}}\nmeasure: throughput\n";
        let in_vm = crate::parse("t", in_vm.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let found = too_little_memory(&in_vm.cells[0], &in_vm.budget).unwrap_or_default();
        assert!(found.ends_with("or the `memory` of the `vm`)"), "{found}");
        // As many of TigerVNC's fit, and those of x11vnc don't: the 4 MiB that each takes more were forgotten.
        assert_eq!((told("tigervnc", 17), told("x11vnc", 15)), (None, None));
        let found = told("x11vnc", 17).unwrap_or_default();
        assert!(
            found.starts_with("`x11vnc`: 17 desktops") && found.contains("about 535MiB of memory"),
            "{found}"
        );
    }
}
