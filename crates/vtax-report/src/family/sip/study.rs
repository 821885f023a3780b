//! The study of virtualized IMS, where the plan names it: capacities and graphs of failovers, in `studies/virtualized-ims/`.

use std::sync::LazyLock;

use serde::Deserialize;
use vtax_plan::model::{Cell, EnvironmentKind, Plan, Study as Name};

/// What the study printed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Study {
    pub(crate) capacities: Capacities,
    /// Kind of the service that it measured.
    service: String,
    /// How many failovers it looked at.
    pub(crate) failovers: usize,
    graphs: Vec<Graph>,
}

/// Design objective capacities, in SAPS.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capacities {
    pub(crate) native: f64,
    /// In a virtual machine on its own.
    #[serde(rename = "virtual")]
    pub(crate) virtualized: f64,
    /// In one that goes on elsewhere with its state.
    pub(crate) fault_tolerant: f64,
}

/// One of its graphs.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Graph {
    pub(crate) number: String,
    pub(crate) title: String,
    /// What it read off it.
    pub(crate) found: String,
    /// The quantity of ours that it shows.
    quantity: String,
}

/// `None` if the file, which is part of the program, couldn't be read; a test reads it.
static STUDY: LazyLock<Option<Study>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../../studies/virtualized-ims/study.yaml")).ok()
});

/// The study, where the plan names it.
pub(crate) fn of(plan: &Plan) -> Option<&'static Study> {
    STUDY.as_ref().filter(|_| plan.study == Some(Name::VirtualizedIms))
}

impl Study {
    /// What it found in an environment like this one, where the service is of the same kind.
    pub(crate) fn capacity(&self, cell: &Cell) -> Option<f64> {
        if cell.service.kind.facts().word != self.service {
            return None;
        }
        match &cell.environment.kind {
            EnvironmentKind::Native => Some(self.capacities.native),
            EnvironmentKind::Vm(vm)
                if vm.fault_tolerance.as_ref().is_some_and(|ft| ft.mode.keeps_state()) =>
            {
                Some(self.capacities.fault_tolerant)
            }
            EnvironmentKind::Vm(_) => Some(self.capacities.virtualized),
            EnvironmentKind::Container | EnvironmentKind::Uml => None,
        }
    }

    /// Its graphs, in order.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.graphs.iter()
    }

    /// The graph that shows a quantity, if one.
    pub(crate) fn graph(&self, quantity: &str) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.quantity == quantity)
    }
}

impl Graph {
    /// Whether it shows that quantity.
    pub(crate) fn shows(&self, quantity: &str) -> bool {
        self.quantity == quantity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read() {
        let study = STUDY.as_ref().unwrap();
        assert_eq!((study.capacities.native, study.failovers, study.graphs().count()), (139.0, 2, 7));
        assert_eq!(study.graph("ihs").map(|g| g.number.as_str()), Some("4-4"));
    }
}
