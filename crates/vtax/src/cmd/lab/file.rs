//! What a lab is made of: a containerlab file, or a cell of a plan.

use std::path::PathBuf;

use anyhow::Context;
use vtax_plan::model::{Cell, Plan};
use vtax_topology::Blueprint;
use vtax_topology::builtin::topology;
use vtax_topology::containerlab::blueprint;

use crate::exit::{Classify, Failure};

/// A containerlab file, or a plan and one of its cells.
#[derive(clap::Args)]
pub(super) struct LabSource {
    /// A containerlab file (`*.clab.yml`), or a plan.
    file: PathBuf,
    /// The cell of the plan, by its id as `vtax check` prints it; without it, the first with routers.
    #[arg(long, value_name = "ID")]
    cell: Option<String>,
    /// Change a value of the plan. May be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
}

/// What was read.
pub(super) enum Loaded {
    /// Of a containerlab file.
    Clab {
        /// Its name.
        name: String,
        /// What is built of it.
        blueprint: Box<Blueprint>,
    },
    /// A cell of a plan.
    Cell {
        /// The plan.
        plan: Box<Plan>,
        /// The cell.
        cell: Box<Cell>,
    },
}

impl Loaded {
    /// What it is called.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Clab { name, .. } => name,
            Self::Cell { cell, .. } => &cell.id,
        }
    }

    /// What is inside the node that holds routers; `None` for a path without any.
    pub(super) fn blueprint(&self) -> Option<Blueprint> {
        match self {
            Self::Clab { blueprint, .. } => Some((**blueprint).clone()),
            Self::Cell { cell, .. } => {
                let options = cell.path.kind.routed()?;
                Some(Blueprint::of(&topology(&options.topology), cell.path.mtu))
            }
        }
    }
}

impl LabSource {
    /// Reads the file, and finds the cell where it is a plan.
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        let name = self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.ends_with(".clab.yml") || name.ends_with(".clab.yaml") {
            return self.clab();
        }
        let plan = vtax_plan::load(&self.file, &self.overrides)?;
        let cell = self.find(&plan)?;
        Ok(Loaded::Cell { plan: Box::new(plan), cell: Box::new(cell) })
    }

    fn clab(&self) -> Result<Loaded, Failure> {
        let (clab, texts) = vtax_plan::containerlab::load(&self.file)?;
        let blueprint = blueprint(&clab, &texts).bad_input()?;
        Ok(Loaded::Clab { name: clab.name, blueprint: Box::new(blueprint) })
    }

    fn find(&self, plan: &Plan) -> Result<Cell, Failure> {
        let found = match &self.cell {
            Some(id) => plan.cells.iter().find(|cell| cell.id == *id),
            None => plan.cells.iter().find(|cell| cell.path.kind.routed().is_some()).or(plan.cells.first()),
        };
        let wanted = self.cell.as_deref().unwrap_or_default();
        let some: Vec<&str> = plan.cells.iter().take(10).map(|cell| cell.id.as_str()).collect();
        found
            .cloned()
            .with_context(|| format!("the plan has no cell `{wanted}`; it has {}", some.join(", ")))
            .bad_input()
    }
}
