//! What runs in a container.

use std::path::Path;

use vtax_units::{Bytes, CpuSet};

/// Where the agent's program is seen inside a container.
pub(super) const AGENT: &str = "/.vtax";

/// What runs in a container.
#[derive(Debug, Clone)]
pub(crate) struct ContainerSpec<'a> {
    pub(crate) name: &'a str,
    pub(crate) args: Vec<String>,
    pub(crate) cpus: &'a CpuSet,
    pub(crate) memory: Option<Bytes>,
    /// Whether the limit of memory is one of swap too: a runtime refuses that where the kernel doesn't count swap.
    pub(crate) limits_swap: bool,
    /// For the runtime's `cgroupsPath`; `None`: no control groups here.
    pub(crate) group: Option<String>,
    /// A directory of the host that it sees under the same path and may write to.
    pub(crate) writable: Option<&'a Path>,
}
