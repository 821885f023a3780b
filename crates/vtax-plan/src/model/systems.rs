//! Several systems under test at the same time: what each gets, and who stands beside them.

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos, Rate};

use super::Budget;
use super::cell::Cell;
use super::environment::{Environment, EnvironmentKind};
use super::families::{Service, Workload};

/// Most systems that stand at the same time.
pub const MOST_SYSTEMS: u32 = 64;

/// What the systems of a cell share, and who stands beside them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Systems {
    /// Name of the set in the plan; empty where the plan names none.
    #[serde(default)]
    pub name: String,
    /// Whether the plan's budget is for all systems together, or for each.
    #[serde(default)]
    pub budget: Split,
    /// Whether rates and connections of the plan are of all systems together, or of each. What is recorded is
    /// always of all.
    #[serde(default)]
    pub load: Split,
    /// What becomes of memory that virtual machines were promised and the budget doesn't have.
    #[serde(default)]
    pub memory: MemoryHold,
    /// In which order they start.
    #[serde(default)]
    pub start: StartOrder,
    /// Systems with a service and a load of their own, which stand beside those that the cell measures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
}

impl Systems {
    /// Whether it says nothing beyond what holds without it.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether something is for all systems together, or for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// For all together.
    #[default]
    Total,
    /// For each.
    Each,
}

/// What becomes of memory that virtual machines were promised and the plan's budget doesn't have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryHold {
    /// They get what they were promised.
    #[default]
    Promised,
    /// All together they are held to the budget while they are measured: what there is no room for goes to a disk.
    Limited,
    /// Each one's balloon takes what was promised beyond its part of the budget, before it is measured.
    Ballooned,
}

/// In which order systems and their services start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartOrder {
    /// All at once.
    #[default]
    Together,
    /// Each when the one before is up.
    OneByOne,
    /// So long after the one before, whether that is up or not.
    Gap(Nanos),
}

/// A system beside those that a cell measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Name in reports.
    pub name: String,
    /// Whether its figures are shown beside the others'.
    pub role: Role,
    /// How it is hosted; `None`: as the systems that the cell measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Its software.
    pub service: Service,
    /// What the generator asks of it.
    pub workload: Workload,
    /// How much.
    pub load: BesideLoad,
}

/// What a system beside others is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Its figures are of interest.
    Measured,
    /// It only disturbs; its figures prove that it did.
    #[default]
    Neighbour,
}

/// Load of a system beside others, from the start of a measurement to its end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BesideLoad {
    /// None: it stands and its service runs.
    Idle,
    /// A closed loop: as much as it answers.
    Closed,
    /// An open loop at this rate.
    Rate(Rate),
}

/// What the systems of a cell are promised, beside what the plan's budget has for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promised {
    /// Memory of all systems.
    pub memory: Bytes,
    /// Memory in the budget.
    pub memory_budget: Bytes,
    /// Virtual CPUs of all virtual machines; `None` where it depends on the host.
    pub vcpus: Option<u32>,
    /// CPUs in the budget; `None` where it depends on the host.
    pub cpus: Option<u32>,
}

impl Promised {
    /// Memory promised in relation to the budget: above 1 it is overcommitted.
    #[must_use]
    pub fn memory_ratio(&self) -> f64 {
        self.memory.0 as f64 / self.memory_budget.0.max(1) as f64
    }

    /// In words, with the numbers.
    #[must_use]
    pub fn words(&self) -> String {
        let (memory, budget, ratio) = (self.memory, self.memory_budget, self.memory_ratio());
        let mut words = format!("{memory} of memory promised of {budget} ({ratio:.2} times)");
        if let (Some(vcpus), Some(cpus)) = (self.vcpus, self.cpus) {
            let ratio = f64::from(vcpus) / f64::from(cpus.max(1));
            words += &format!(", {vcpus} vCPUs of {cpus} CPUs ({ratio:.2} times)");
        }
        words
    }
}

/// Memory of each of so many that share it: whole MiB, as virtual machines have it.
pub(crate) const fn equal_part(memory: Bytes, count: u32) -> Bytes {
    match count {
        0 | 1 => memory,
        _ => Bytes::from_mib((memory.0 / count as u64) >> 20),
    }
}

/// Linux's module of the balloon.
pub const BALLOON: &str = "virtio_balloon";

impl Cell {
    /// How many systems stand at the same time, those beside included.
    #[must_use]
    pub fn system_count(&self) -> u32 {
        let beside = u32::try_from(self.systems.beside.len()).unwrap_or(MOST_SYSTEMS);
        self.environment.count.saturating_add(beside)
    }

    /// Whether there is more than one.
    #[must_use]
    pub fn is_several(&self) -> bool {
        self.system_count() > 1
    }

    /// How each system is hosted: those that the cell measures, then those beside.
    pub fn environments(&self) -> impl Iterator<Item = &Environment> {
        let own = &self.environment;
        let beside = self.systems.beside.iter().map(move |beside| beside.environment.as_ref().unwrap_or(own));
        std::iter::repeat_n(own, own.count as usize).chain(beside)
    }

    /// The software of each system, in the same order.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        let beside = self.systems.beside.iter().map(|beside| &beside.service);
        std::iter::repeat_n(&self.service, self.environment.count as usize).chain(beside)
    }

    /// A rate of the plan as a rate of all systems that the cell measures.
    #[must_use]
    pub fn total_rate(&self, rate: Rate) -> Rate {
        match self.systems.load {
            Split::Total => rate,
            Split::Each => Rate(rate.0 * f64::from(self.environment.count)),
        }
    }

    /// An equal part of the budget's memory.
    #[must_use]
    pub fn part_of_memory(&self, budget: &Budget) -> Bytes {
        match self.systems.budget {
            Split::Total => equal_part(budget.sut_memory, self.system_count()),
            Split::Each => budget.sut_memory,
        }
    }

    /// Memory of one system: a virtual machine's own, of others an equal part of the budget's.
    #[must_use]
    pub fn memory_of(&self, environment: &Environment, budget: &Budget) -> Bytes {
        match &environment.kind {
            EnvironmentKind::Vm(vm) => vm.memory,
            EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => {
                self.part_of_memory(budget)
            }
        }
    }

    /// Memory that its virtual machines are held to together; `None` where each gets what it was promised.
    #[must_use]
    pub fn memory_limit(&self, budget: &Budget) -> Option<Bytes> {
        let is_guest = |kind: &EnvironmentKind| matches!(kind, EnvironmentKind::Vm(_)) && !kind.is_pair();
        let guests = self.environments().any(|environment| is_guest(&environment.kind));
        let limited = guests && self.systems.memory == MemoryHold::Limited;
        limited.then(|| self.promised(budget).memory_budget)
    }

    /// Whether some of its virtual machines have balloons.
    #[must_use]
    pub fn has_balloons(&self) -> bool {
        let has = |kind: &EnvironmentKind| matches!(kind, EnvironmentKind::Vm(_)) && !kind.is_pair();
        self.systems.memory == MemoryHold::Ballooned && self.environments().any(|e| has(&e.kind))
    }

    /// Memory that the balloon of one of its virtual machines leaves it: as much of what it was promised as the budget has of what
    /// all were, in whole MiB; `None` where it has no balloon.
    #[must_use]
    pub fn left_by_balloon(&self, environment: &Environment, budget: &Budget) -> Option<Bytes> {
        let EnvironmentKind::Vm(vm) = &environment.kind else { return None };
        if environment.kind.is_pair() || self.systems.memory != MemoryHold::Ballooned {
            return None;
        }
        let Promised { memory, memory_budget, .. } = self.promised(budget);
        if memory <= memory_budget {
            return Some(vm.memory);
        }
        let left = u128::from(vm.memory.0) * u128::from(memory_budget.0) / u128::from(memory.0);
        Some(Bytes::from_mib(u64::try_from(left >> 20).unwrap_or(u64::MAX >> 20)))
    }

    /// What its systems are promised of the budget.
    #[must_use]
    pub fn promised(&self, budget: &Budget) -> Promised {
        let times = match self.systems.budget {
            Split::Total => 1,
            Split::Each => self.system_count(),
        };
        let memory = self.environments().map(|e| self.memory_of(e, budget).0).fold(0, u64::saturating_add);
        let vcpus_of = |e: &Environment| match &e.kind {
            EnvironmentKind::Vm(vm) => vm.vcpus.or(budget.sut_cpus),
            EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => Some(0),
        };
        Promised {
            memory: Bytes(memory),
            memory_budget: Bytes(budget.sut_memory.0.saturating_mul(u64::from(times))),
            vcpus: self.environments().map(vcpus_of).sum(),
            cpus: budget.sut_cpus.map(|cpus| cpus.saturating_mul(times)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_told_with_its_numbers() {
        let promised = Promised {
            memory: Bytes::from_mib(1536),
            memory_budget: Bytes::from_mib(512),
            vcpus: Some(12),
            cpus: Some(2),
        };
        let words = promised.words();
        assert!(words.contains("1536MiB of memory promised of 512MiB (3.00 times)"), "{words}");
        assert!(words.ends_with("12 vCPUs of 2 CPUs (6.00 times)"), "{words}");
    }

    #[test]
    fn the_usual_takes_no_room_in_a_stored_plan() {
        assert!(Systems::default().is_usual());
        let other = Systems { load: Split::Each, ..Systems::default() };
        assert!(!other.is_usual());
        let text = serde_json::to_string(&other).expect("JSON");
        assert_eq!(serde_json::from_str::<Systems>(&text).expect("read"), other);
        assert_eq!(serde_json::from_str::<Systems>("{}").expect("read"), Systems::default());
    }
}
