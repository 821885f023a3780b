//! What an estimate takes for granted about the host and its services.

use serde::Serialize;
use vtax_topology::options::Choice;
use vtax_units::{Nanos, Rate, Share};

use crate::model::{CapacityMeasure, Cell, EnvironmentKind};

/// What an estimate takes for granted about the host, as the plan can't know it.
///
/// The figures were measured on two cores of a server CPU and are orders of magnitude.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assumptions {
    /// Building and tearing down a native testbed.
    pub native: Nanos,
    /// Building and tearing down a testbed with a container.
    pub container: Nanos,
    /// Building and tearing down a testbed with a VM, until its agent answers.
    pub vm: Nanos,
    /// Start of a service, natively or in a container.
    pub service: Nanos,
    /// Start of a service in a VM.
    pub service_in_vm: Nanos,
    /// Bringing routers up until they agree: a handful of them.
    pub routers: Nanos,
    /// What each router more adds to that.
    pub router: Nanos,
    /// What each route that they carry adds to that.
    pub route: Nanos,
    /// Protecting a guest: starting the second QEMU and copying the first one's memory.
    pub arm: Nanos,
    /// Capacity of a small web service, natively or in a container.
    pub capacity: Rate,
    /// Capacity of the same in a VM.
    pub capacity_in_vm: Rate,
    /// SIP scenarios per second of a registrar and proxy, natively or in a container.
    pub scenarios: Rate,
    /// SIP scenarios per second of a registrar and proxy in a VM.
    pub scenarios_in_vm: Rate,
    /// Bytes per second of a disk in a VM.
    pub disk_in_vm: f64,
    /// Bytes per second of files of a server that a VM's kernel has mounted.
    pub mounted_in_vm: f64,
    /// What each record of them takes beside that.
    pub mounted_record_in_vm: Nanos,
}

impl Assumptions {
    /// VMs with hardware virtualization.
    pub const KVM: Self = Self {
        native: Nanos::from_millis(100),
        container: Nanos::from_millis(300),
        vm: Nanos::from_millis(2_000),
        service: Nanos::from_millis(50),
        service_in_vm: Nanos::from_millis(100),
        routers: Nanos::from_millis(10_000),
        // Not measured: a tenth of what emulation takes.
        router: Nanos::from_millis(400),
        route: Nanos::from_millis(2),
        arm: Nanos::from_millis(1_000),
        capacity: Rate(20_000.0),
        capacity_in_vm: Rate(10_000.0),
        scenarios: Rate(2_000.0),
        scenarios_in_vm: Rate(1_000.0),
        // Not measured: as natively.
        disk_in_vm: 100e6,
        mounted_in_vm: 100e6,
        mounted_record_in_vm: Nanos::ZERO,
    };

    /// VMs under software emulation.
    pub const TCG: Self = Self {
        vm: Nanos::from_millis(4_000),
        routers: Nanos::from_millis(30_000),
        router: Nanos::from_millis(4_000),
        route: Nanos::from_millis(18),
        service_in_vm: Nanos::from_millis(500),
        capacity_in_vm: Rate(1_000.0),
        scenarios_in_vm: Rate(100.0),
        disk_in_vm: 25e6,
        mounted_in_vm: 60e6,
        mounted_record_in_vm: Nanos(170_000),
        ..Self::KVM
    };

    /// Building and tearing down the cell's testbed, service included.
    pub(crate) fn build(&self, cell: &Cell) -> u64 {
        // A client that is a virtual machine boots beside the others, on CPUs that are busy already.
        let client = if cell.has_client_vm() { self.vm.0 } else { 0 };
        // On a host whose kernel has what they need they are as fast as with KVM; the plan can't know.
        let routers = cell.path.kind.routed().map_or(0, |options| match &options.topology {
            Choice::MplsVpn(vpn) => {
                // A P router and the edges of one customer are in the smallest; each customer has two.
                let more =
                    u64::from(vpn.core.saturating_sub(1)) + 2 * u64::from(vpn.customers.saturating_sub(1));
                self.routers.0 + self.router.0 * more + self.route.0 * u64::from(vpn.routes)
            }
            Choice::LeafSpine(_) | Choice::Custom(_) => self.routers.0,
        });
        // Several guests boot on the same CPUs, so that together they take about as long as one after the other.
        let suts = cell.environments().map(|environment| self.build_sut(&environment.kind));
        client + routers + suts.fold(0, u64::saturating_add)
    }

    fn build_sut(&self, environment: &EnvironmentKind) -> u64 {
        match environment {
            EnvironmentKind::Native => self.native.0 + self.service.0,
            EnvironmentKind::Container => self.container.0 + self.service.0,
            EnvironmentKind::Uml => UML_BOOT.0 + self.service.0,
            EnvironmentKind::Vm(vm) => {
                let protected = vm.fault_tolerance.as_ref().is_some_and(|ft| ft.mode.has_secondary());
                self.vm.0 + self.service_in_vm.0 + if protected { self.arm.0 } else { 0 }
            }
        }
    }

    /// Capacity of a small web service in an environment of this kind.
    pub(crate) fn capacity(&self, environment: &EnvironmentKind) -> Rate {
        match environment {
            EnvironmentKind::Vm(_) => self.capacity_in_vm,
            EnvironmentKind::Uml => Rate(self.capacity.0 / UML_SHARE),
            EnvironmentKind::Native | EnvironmentKind::Container => self.capacity,
        }
    }

    /// SIP scenarios per second in an environment of this kind.
    pub(crate) fn scenarios(&self, environment: &EnvironmentKind) -> Rate {
        match environment {
            EnvironmentKind::Vm(_) => self.scenarios_in_vm,
            EnvironmentKind::Uml => Rate(self.scenarios.0 / UML_SHARE),
            EnvironmentKind::Native | EnvironmentKind::Container => self.scenarios,
        }
    }
}

/// Boot of a user-mode Linux.
const UML_BOOT: Nanos = Nanos::from_millis(2_000);
/// How many times less a small service takes in one than natively.
const UML_SHARE: f64 = 6.0;

/// Time of a search on a service of this capacity.
pub(crate) fn searching(search: &CapacityMeasure, capacity: Rate) -> Nanos {
    let steps = search_steps(search.start, search.max, search.precision, capacity);
    // Those near the capacity are most of them.
    let step = search.settle.0.saturating_add(search.step_at(capacity).0);
    Nanos(step.saturating_mul(steps))
}

/// Steps of a search that doubles the rate until a step fails and then halves the bracket.
pub(crate) fn search_steps(start: Rate, max: Rate, precision: Share, capacity: Rate) -> u64 {
    let doublings = (capacity.0.min(max.0) / start.0).log2().ceil().max(0.0);
    // After the doublings the bracket is as wide as its lower bound. A search whose highest rate passes has none, and ends there.
    let halvings = if max <= capacity { 0.0 } else { (1.0 / precision.0).log2().ceil().max(0.0) };
    1 + doublings as u64 + halvings as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_passes_at_its_highest_rate_ends_there() {
        let steps = |max| search_steps(Rate(1_000.0), Rate(max), Share(0.1), Rate(20_000.0));
        // 20,000/s are found by five doublings and four halvings.
        assert_eq!(steps(1_000_000.0), 1 + 5 + 4);
        assert_eq!((steps(20_000.0), steps(8_000.0), steps(1_000.0)), (1 + 5, 1 + 3, 1));
    }

    #[test]
    fn a_client_that_is_a_virtual_machine_boots_too() {
        let build = |path: &str| {
            let plan = format!(
                "vtax: 1\nname: t\nbaseline: vm\nenvironments: vm\npaths: {path}\nservices: http\n\
                 workload: {{http: {{target: /page/1}}}}\nmeasure: throughput\n"
            );
            let plan = crate::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
            Assumptions::TCG.build(&plan.cells[0])
        };
        assert_eq!(build("vm-vm") - build("bridge"), Assumptions::TCG.vm.0);
    }

    #[test]
    fn each_router_and_each_route_of_a_vpn_takes_its_time() {
        let build = |options: &str| {
            let plan = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nworkload: {{rr: {{}}}}\nmeasure: network\n\
                 paths: {{routed: {{topology: {{mpls-vpn: {{{options}}}}}}}}}\n"
            );
            let plan = crate::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
            Assumptions::TCG.build(&plan.cells[0])
        };
        let (usual, host) = (build("core: 1, customers: 1, routes: 10"), Assumptions::TCG);
        assert_eq!(build("core: 3, customers: 1, routes: 10") - usual, 2 * host.router.0);
        assert_eq!(build("core: 1, customers: 3, routes: 10") - usual, 4 * host.router.0);
        assert_eq!(build("core: 1, customers: 1, routes: 110") - usual, 100 * host.route.0);
    }

    #[test]
    fn a_mounted_file_takes_its_time_by_records_under_emulation() {
        let time = |record: &str, host: &Assumptions| {
            let plan = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: tgt\nmeasure: storage\n\
                 workload: {{storage: {{access: mounted, operations: read, size: 16MiB, record: {record}}}}}\n"
            );
            let plan = crate::parse("t", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
            let cell = &plan.cells[0];
            cell.workload.model().measuring(&plan.measures[0].kind, host, &cell.environment.kind)
        };
        let more = time("4KiB", &Assumptions::TCG).0 - time("64KiB", &Assumptions::TCG).0;
        let records = 4096 - 256;
        assert!(more.abs_diff(records * Assumptions::TCG.mounted_record_in_vm.0) < 1_000, "{more}");
        assert_eq!(time("4KiB", &Assumptions::KVM), time("64KiB", &Assumptions::KVM));
    }
}
