//! What nodes and testbeds are built from.

use std::path::PathBuf;

use vtax_plan::model::{Budget, Environment, EnvironmentKind, NetPath, StartOrder, VirtualDisk};
use vtax_units::{Bytes, CpuSet};

/// A node to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name: also host name and name of its control group.
    pub name: String,
    /// CPUs it runs on; empty: as the controller.
    pub cpus: CpuSet,
    /// Memory it may use; for a virtual machine the guest's memory.
    pub memory: Option<Bytes>,
    /// A place for files on a disk of the host's; in a virtual machine a disk of its own.
    pub disk: Option<DiskSpec>,
    /// Directory of the host for the file that holds a virtual machine's memory, where all such share
    /// [`TestbedSpec::shared_memory`]; `None`: its memory is its own, and nothing is behind it.
    pub memory_in: Option<PathBuf>,
    /// Whether a virtual machine has a balloon, by which memory can be taken from it.
    pub balloon: bool,
}

/// Where a node's disk is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpec {
    /// Directory of the host, in whose file system it is.
    pub directory: PathBuf,
    /// What a virtual machine sees.
    pub shape: VirtualDisk,
}

impl NodeSpec {
    /// A node without limits.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cpus: CpuSet::default(),
            memory: None,
            disk: None,
            memory_in: None,
            balloon: false,
        }
    }
}

/// Memory that virtual machines have together, whatever each was promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMemorySpec {
    /// So much, without what their QEMUs have of their own.
    pub memory: Bytes,
    /// Directory of the host for the files that hold what there is no room for.
    pub directory: PathBuf,
}

/// What a trial needs.
#[derive(Debug, Clone, PartialEq)]
pub struct TestbedSpec {
    /// The systems under test, at least one.
    pub suts: Vec<SutSpec>,
    /// In which order they start, where there are several.
    pub start: StartOrder,
    /// How many routers stand in a row between the client and the path. They are joined by cables of the
    /// path's rate and MTU and run on the client's CPUs, as switches do.
    pub routers: usize,
    /// The network between the client, or the last router, and the systems under test.
    pub path: NetPath,
    /// What each side gets.
    pub budget: Budget,
    /// Directory of the host in which each system under test has a disk; `None`: they need none.
    pub disk: Option<PathBuf>,
    /// Memory that all virtual machines under test have together; `None`: each has what it was promised.
    pub shared_memory: Option<SharedMemorySpec>,
    /// Whether virtual machines under test have balloons ([`Testbed::resize_balloons`](crate::Testbed::resize_balloons)).
    pub balloons: bool,
    /// Memory of the client where it is to be a virtual machine, so that it has a kernel of its own.
    pub guest_client: Option<Bytes>,
    /// Whether links between the path's routers are to lose a part of their packets at times, beside what they always lose.
    pub lossy_links: bool,
}

impl TestbedSpec {
    /// One system under test and no routers.
    #[must_use]
    pub fn of_one(environment: Environment, path: NetPath, budget: Budget) -> Self {
        Self {
            suts: vec![SutSpec::new(environment)],
            start: StartOrder::Together,
            routers: 0,
            path,
            budget,
            disk: None,
            shared_memory: None,
            balloons: false,
            guest_client: None,
            lossy_links: false,
        }
    }
}

/// One system under test.
#[derive(Debug, Clone, PartialEq)]
pub struct SutSpec {
    /// How it is hosted.
    pub environment: Environment,
    /// Its part of the CPUs that the budget gives systems under test.
    pub cpus: SutCpus,
    /// The port of its service, which some paths publish; `None`: there is none.
    pub port: Option<u16>,
    /// Its memory; `None`: the budget's, and for a virtual machine its environment's.
    pub memory: Option<Bytes>,
}

impl SutSpec {
    /// With an equal part of the CPUs and the budget's memory.
    #[must_use]
    pub const fn new(environment: Environment) -> Self {
        Self { environment, cpus: SutCpus::Equal, port: None, memory: None }
    }

    /// Its memory in this budget.
    pub(crate) const fn memory_of(&self, budget: &Budget) -> Bytes {
        match (self.memory, &self.environment.kind) {
            (Some(memory), _) => memory,
            (None, EnvironmentKind::Vm(vm)) => vm.memory,
            (None, EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml) => {
                budget.sut_memory
            }
        }
    }
}

/// A system under test's part of the CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SutCpus {
    /// CPUs of its own: an equal part of those that [`Own`](Self::Own) leaves.
    #[default]
    Equal,
    /// So many CPUs of its own.
    Own(u32),
    /// All CPUs of the systems under test, shared with the others.
    All,
}

/// Which of the testbeds that stand at the same time one is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Slot {
    /// It is the only one and has all CPUs of the budget.
    #[default]
    Alone,
    /// One of two; each side has half of its CPUs, or shares the only one.
    Paired {
        /// True for the second, whose nodes and switch have names of their own.
        second: bool,
        /// Which half of the CPUs it gets. A comparison of the two changes halves from pair to pair, as no two CPUs are
        /// quite the same.
        half: CpuHalf,
    },
}

/// One of two halves of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuHalf {
    /// The CPUs with the lower numbers.
    Lower,
    /// The CPUs with the higher numbers.
    Upper,
}

impl CpuHalf {
    /// The half that this one isn't.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Lower => Self::Upper,
            Self::Upper => Self::Lower,
        }
    }
}

impl Slot {
    /// 0 for the first, 1 for the second.
    pub(crate) const fn number(self) -> u16 {
        match self {
            Self::Alone | Self::Paired { second: false, .. } => 0,
            Self::Paired { second: true, .. } => 1,
        }
    }

    /// Name of the node of this role and number, from 0: `sut`, `sut-2`; in the second slot `sut-b`, `sut-2-b`.
    pub(crate) fn node_name(self, role: &str, number: usize) -> String {
        let which = if number == 0 { String::new() } else { format!("-{}", number + 1) };
        let suffix = if self.number() == 0 { "" } else { "-b" };
        format!("{role}{which}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_two_testbeds_have_names_of_their_own() {
        let second = Slot::Paired { second: true, half: CpuHalf::Lower };
        let names = |slot: Slot| [slot.node_name("sut", 0), slot.node_name("sut", 1)];
        assert_eq!(names(Slot::Alone), ["sut", "sut-2"]);
        assert_eq!(names(second), ["sut-b", "sut-2-b"]);
    }

    #[test]
    fn a_guests_memory_is_its_environments_unless_told_otherwise() {
        let budget = Budget { sut_cpus: None, sut_memory: Bytes::from_mib(128), client_cpus: None };
        let options = vtax_plan::model::VmOptions::new(Bytes::from_mib(256));
        let of = |kind| SutSpec::new(Environment::new("e", kind));
        assert_eq!(of(EnvironmentKind::Native).memory_of(&budget), Bytes::from_mib(128));
        assert_eq!(of(EnvironmentKind::Vm(options)).memory_of(&budget), Bytes::from_mib(256));
        let own = SutSpec { memory: Some(Bytes::from_mib(64)), ..of(EnvironmentKind::Native) };
        assert_eq!(own.memory_of(&budget), Bytes::from_mib(64));
    }
}
