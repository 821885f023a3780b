//! A cell of the matrix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::families::{Service, Workload};
use super::path::NetPath;
use super::systems::Systems;

/// One combination of environment, path, service and parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique in the plan, stable across runs, safe in file names: `vm.bridge.nginx.target-100`.
    pub id: String,
    /// How the system under test is hosted.
    pub environment: Environment,
    /// The network between client and system under test.
    pub path: NetPath,
    /// The software under test.
    pub service: Service,
    /// What the generator does.
    pub workload: Workload,
    /// What its systems under test share where there are several, and who stands beside them.
    #[serde(default, skip_serializing_if = "Systems::is_usual")]
    pub systems: Systems,
    /// The parameters that vary in this plan, for labels: name to value as written.
    pub parameters: BTreeMap<String, String>,
    /// Id of the cell this one is compared with; `None` for a baseline cell.
    pub baseline: Option<String>,
}
