//! From a stored run to the figures that claims are judged by.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::Cell as PlanCell;
use vtax_store::provenance::Provenance;
use vtax_study::{Cell, Experiment, Figure, Host, State};

use crate::Report;
use crate::data::RunData;
use crate::families::{metrics, named};
use crate::metric::Value;

/// The figures of a run.
#[must_use]
pub fn experiment(report: &Report) -> Experiment {
    let data = &report.context.data;
    let repeat = &data.plan.repeat;
    let cells: Vec<Cell> = data.plan.cells.iter().map(|cell| cell_of(data, cell)).collect();
    let state = match (data.complete, cells.iter().all(|cell| cell.figures.is_empty())) {
        (true, false) => State::Complete,
        (true, true) => State::Empty,
        (false, _) => State::Incomplete,
    };
    Experiment {
        state,
        cells,
        at_least: (repeat.max > repeat.min).then_some(repeat.min as usize),
        seed: data.plan.seed,
    }
}

fn cell_of(data: &RunData, cell: &PlanCell) -> Cell {
    let mut figures = BTreeMap::new();
    for measure in data.measures() {
        for info in metrics() {
            let side = data.side(&cell.id, measure, info.name, None);
            if side.found.is_empty() {
                continue;
            }
            let figure = Figure {
                values: side.found.iter().map(|value| value.value).collect(),
                for_ratios: side.found.iter().map(Value::for_tax).collect(),
                rounds: side.rounds,
                resolution: side.found.iter().map(|value| value.resolution).fold(0.0, f64::max),
                at_least: side.found.iter().any(|value| value.censored),
                unit: info.unit.to_owned(),
            };
            figures.insert((measure.to_owned(), info.name.to_owned()), figure);
        }
    }
    let left_out = data.left_out(&cell.id).map(str::to_owned);
    Cell {
        id: cell.id.clone(),
        environment: cell.environment.name.clone(),
        path: cell.path.name.clone(),
        service: cell.service.name.clone(),
        parameters: cell.parameters.clone(),
        emulated: data.accelerator(cell).as_deref() == Some("tcg"),
        left_out: left_out.filter(|_| figures.is_empty()),
        figures,
    }
}

/// The machine of a run.
#[must_use]
pub fn host(report: &Report) -> Host {
    let Provenance { vtax_version, vtax_commit, host, accelerator, .. } = &report.context.data.provenance;
    let commit = vtax_commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    Host {
        text: format!("{}, {} CPUs, Linux {}", host.cpu_model, host.cpus, host.kernel),
        accelerator: accelerator.as_ref().map(|accelerator| accelerator.kind.clone()),
        vtax: format!("{vtax_version}{commit}"),
    }
}

/// What took part in a run: services, QEMU and the kernels of its nodes, each with its version.
#[must_use]
pub fn products(report: &Report) -> Vec<String> {
    let facts = &report.context.data.provenance;
    let programs = facts.services.values().chain(&facts.container_runtime);
    let programs = programs.map(|program| program.version.trim().to_owned());
    let qemu = facts.qemu.iter().map(|qemu| format!("QEMU {}", qemu.version.trim()));
    let kernels = facts.nodes.values().map(|node| format!("Linux {}", node.kernel.trim()));
    let all: BTreeSet<String> = programs.chain(qemu).chain(kernels).filter(|text| !text.is_empty()).collect();
    all.into_iter().collect()
}

/// Whether reports have a metric of that name.
#[must_use]
pub fn is_metric(name: &str) -> bool {
    named(name).is_some()
}
