//! Where CPU time went: the stacked breakdown by layer.
//!
//! The rules, and why the layers never overlap, are in docs/probes.md.

use serde::{Deserialize, Serialize};
use vtax_units::{CpuSet, Nanos};

use crate::delta::{self, Interval};
use crate::types::TaskTimes;

/// CPU time spent while `requests` were answered, by layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuBreakdown {
    /// Successful requests over the same time.
    pub requests: u64,
    /// Length of that time.
    pub duration: Nanos,
    /// Layers, innermost first. They never overlap: their sum is the CPU time of the SUT's side.
    pub layers: Vec<LayerTime>,
    /// What a reader must know about these figures: clocks that disagreed, threads not recognised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl CpuBreakdown {
    /// CPU time of the SUT's side, all layers together.
    #[must_use]
    pub fn total(&self) -> Nanos {
        Nanos(add(self.layers.iter().map(|l| l.time.0)))
    }

    /// CPU time of one layer; zero where it doesn't occur.
    #[must_use]
    pub fn time(&self, layer: Layer) -> Nanos {
        self.layers.iter().find(|l| l.layer == layer).map_or(Nanos::ZERO, |l| l.time)
    }
}

/// CPU time of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerTime {
    /// The layer.
    pub layer: Layer,
    /// CPU time.
    pub time: Nanos,
}

/// Where CPU time can go, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The service in user mode.
    ServiceUser,
    /// The kernel on behalf of the service (inside the guest for a VM).
    ServiceSystem,
    /// Interrupts of the guest's kernel; without a guest they are [`Layer::HostInterrupts`].
    ServiceInterrupts,
    /// Anything else inside the guest: its kernel threads and the agent.
    GuestOther,
    /// vCPU threads beyond what the guest accounted: emulation and exits.
    Vcpu,
    /// The hypervisor's other threads: devices, tap, event loop.
    HypervisorIo,
    /// The agent's own share, the container runtime's, and that of a network in user space.
    Supervisor,
    /// The host's interrupts on the SUT's CPUs.
    HostInterrupts,
}

/// How the system under test was hosted, with what the probes saw.
#[derive(Debug, Clone, Copy)]
pub enum Hosting<'a> {
    /// Processes on the host's kernel: native or in a container.
    Processes {
        /// The agent's probe inside the node ([`crate::Scope::Node`]); its `/proc/stat` is the host's.
        node: Interval<'a>,
        /// Processes of the container runtime that stay, such as a network in user space.
        runtime: Option<Interval<'a>>,
    },
    /// A virtual machine.
    Guest {
        /// The agent's probe inside the guest ([`crate::Scope::Node`]).
        guest: Interval<'a>,
        /// The controller's probe of QEMU's threads ([`crate::Scope::Threads`]) on the host.
        hypervisor: Interval<'a>,
        /// Thread ids of the vCPUs (QMP `query-cpus-fast`); empty: recognised by name.
        vcpus: &'a [u32],
    },
}

/// Splits the SUT's CPU time into layers.
///
/// `sut_cpus` are the CPUs whose interrupts count as the SUT's; `requests` is stored as given.
#[must_use]
pub fn break_down(hosting: &Hosting<'_>, sut_cpus: &CpuSet, requests: u64) -> CpuBreakdown {
    match *hosting {
        Hosting::Processes { node, runtime } => processes(node, runtime, sut_cpus, requests),
        Hosting::Guest { guest, hypervisor, vcpus } => {
            virtual_machine(guest, hypervisor, vcpus, sut_cpus, requests)
        }
    }
}

/// Splits the CPU time of several systems that run on the same CPUs at the same time.
///
/// The interrupts of these CPUs are counted once and divided in proportion to what each system used, so that the sum of
/// all is what the host says of the CPUs. Each system comes with the requests that it answered; `others` is what the [tasks](time_of_tasks)
/// of systems that somebody else looks at took of these CPUs meanwhile.
#[must_use]
pub fn break_down_shared(systems: &[(Hosting<'_>, u64)], cpus: &CpuSet, others: Nanos) -> Vec<CpuBreakdown> {
    let mut all: Vec<CpuBreakdown> = systems.iter().map(tasks).collect();
    let host = match systems.first() {
        Some((Hosting::Processes { node, .. }, _)) => *node,
        Some((Hosting::Guest { hypervisor, .. }, _)) => *hypervisor,
        None => return all,
    };
    let used: Vec<u64> = all.iter().map(|system| system.total().0).collect();
    let whole = add(used.iter().copied().chain([others.0]));
    let interrupts = Interrupts::of(host, Some(cpus));
    let overlap = interrupts.overlap(whole);
    for (system, used) in all.iter_mut().zip(used) {
        charge(system, part(overlap, used, whole), part(interrupts.time, used, whole));
    }
    all
}

/// The breakdown of a system's tasks alone: without CPUs to look at there are no interrupts in it.
fn tasks((hosting, requests): &(Hosting<'_>, u64)) -> CpuBreakdown {
    break_down(hosting, &CpuSet::default(), *requests)
}

/// What the tasks of these systems took together, interrupts that were charged to them included.
#[must_use]
pub fn time_of_tasks(systems: &[(Hosting<'_>, u64)]) -> Nanos {
    Nanos(add(systems.iter().map(|system| tasks(system).total().0)))
}

/// `used` of `whole`'s part of something.
fn part(of: u64, used: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(of) * u128::from(used) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// Takes interrupts that a system's tasks were charged for out of its layers, and gives it its part of them.
fn charge(system: &mut CpuBreakdown, mut overlap: u64, interrupts: u64) {
    // As for a system alone: what serves devices first, then kernels, then the service itself.
    let order = [
        Layer::HypervisorIo,
        Layer::Vcpu,
        Layer::ServiceSystem,
        Layer::Supervisor,
        Layer::GuestOther,
        Layer::ServiceInterrupts,
        Layer::ServiceUser,
    ];
    for layer in order {
        if let Some(own) = system.layers.iter_mut().find(|own| own.layer == layer) {
            let taken = overlap.min(own.time.0);
            own.time.0 -= taken;
            overlap -= taken;
        }
    }
    if let Some(own) = system.layers.iter_mut().find(|own| own.layer == Layer::HostInterrupts) {
        own.time = Nanos(interrupts);
    }
}

/// The sum of several systems' CPU time, layer by layer, and of their requests.
#[must_use]
pub fn sum(systems: &[&CpuBreakdown]) -> CpuBreakdown {
    let mut whole = CpuBreakdown::default();
    for system in systems {
        whole.requests = whole.requests.saturating_add(system.requests);
        whole.duration = whole.duration.max(system.duration);
        for more in &system.layers {
            match whole.layers.iter_mut().find(|own| own.layer == more.layer) {
                Some(own) => own.time.0 = own.time.0.saturating_add(more.time.0),
                None => whole.layers.push(more.clone()),
            }
        }
        for note in &system.notes {
            if !whole.notes.contains(note) {
                whole.notes.push(note.clone());
            }
        }
    }
    whole.layers.sort_by_key(|own| own.layer);
    whole
}

fn processes(
    node: Interval<'_>,
    runtime: Option<Interval<'_>>,
    sut_cpus: &CpuSet,
    requests: u64,
) -> CpuBreakdown {
    let service = delta::service_time(node);
    let mut supervisor = delta::own_time(&node.start.supervisors, &node.end.supervisors).total().0;
    if let Some(runtime) = runtime {
        supervisor =
            add([supervisor, delta::family_time(&runtime.start.tasks, &runtime.end.tasks).total().0]);
    }
    let mut layers = [service.user.0, service.system.0, supervisor];
    let interrupts = Interrupts::of(node, Some(sut_cpus));
    // Kernel time first: interrupts hide in it on kernels that charge them to whom they met.
    let mut overlap = interrupts.overlap(add(layers));
    for place in [1, 2, 0] {
        let take = overlap.min(layers[place]);
        layers[place] -= take;
        overlap -= take;
    }
    let named = [
        (Layer::ServiceUser, layers[0]),
        (Layer::ServiceSystem, layers[1]),
        (Layer::Supervisor, layers[2]),
        (Layer::HostInterrupts, interrupts.time),
    ];
    breakdown(requests, node, &named, Vec::new())
}

fn virtual_machine(
    guest: Interval<'_>,
    hypervisor: Interval<'_>,
    vcpus: &[u32],
    sut_cpus: &CpuSet,
    requests: u64,
) -> CpuBreakdown {
    let mut notes = Vec::new();
    let (mut vcpu_total, mut io) = hypervisor_times(hypervisor, vcpus, &mut notes);
    let interrupts = Interrupts::of(hypervisor, Some(sut_cpus));
    let overlap = interrupts.overlap(add([vcpu_total, io]));
    // Packets to the tap are handled in the event loop's context, so its share goes first.
    let from_io = overlap.min(io);
    io -= from_io;
    vcpu_total -= (overlap - from_io).min(vcpu_total);

    let mut inner = guest_times(guest);
    // Wider, because a guest may say anything.
    let inside: u128 = inner.iter().copied().map(u128::from).sum();
    let got = u128::from(vcpu_total);
    if inside > got {
        // A guest's clock runs on while its vCPU waits for the host's CPU, and a guest that isn't
        // told of stolen time accounts that wait as its own work.
        for part in &mut inner {
            *part = u64::try_from(u128::from(*part) * got / inside).unwrap_or(u64::MAX);
        }
        // What rounding down left over goes where it is least of all, so that it makes no layer of its own.
        let over = vcpu_total.saturating_sub(add(inner));
        if let Some(largest) = inner.iter_mut().max() {
            *largest = add([*largest, over]);
        }
        // Ticks alone make a difference of a few.
        if inside - got > got / 100 {
            let seconds = |ns: u128| ns as f64 / 1e9;
            notes.push(format!(
                "the guest accounted {:.2} s of CPU time, but its vCPU threads got {:.2} s; its parts are scaled down to that",
                seconds(inside),
                seconds(got)
            ));
        }
    }
    let vcpu = vcpu_total.saturating_sub(add(inner));
    let named = [
        (Layer::ServiceUser, inner[0]),
        (Layer::ServiceSystem, inner[1]),
        (Layer::ServiceInterrupts, inner[2]),
        (Layer::GuestOther, inner[3]),
        (Layer::Vcpu, vcpu),
        (Layer::HypervisorIo, io),
        (Layer::HostInterrupts, interrupts.time),
    ];
    breakdown(requests, hypervisor, &named, notes)
}

/// CPU time of vCPU threads and of all other threads of the hypervisor.
fn hypervisor_times(hypervisor: Interval<'_>, vcpus: &[u32], notes: &mut Vec<String>) -> (u64, u64) {
    let is_vcpu = |t: &&TaskTimes| match vcpus {
        [] => named_vcpu(&t.name),
        ids => ids.contains(&t.id),
    };
    let (start, end) = (&hypervisor.start.tasks, &hypervisor.end.tasks);
    let all = delta::own_time(start, end).total().0;
    if !end.iter().any(|t| is_vcpu(&t)) {
        notes
            .push("no vCPU thread was recognised; the hypervisor's own work counts as the vCPUs'".to_owned());
        return (all, 0);
    }
    let vcpu = delta::own_time(start.iter().filter(is_vcpu), end.iter().filter(is_vcpu)).total().0.min(all);
    (vcpu, all - vcpu)
}

/// QEMU's names with `-name debug-threads=on`: `CPU 0/KVM`, `CPU 0/TCG`, `ALL CPUs/TCG`.
fn named_vcpu(name: &str) -> bool {
    name.starts_with("CPU ") || name.starts_with("ALL CPUs")
}

/// Service user, service system, interrupts, everything else, as the guest accounts them.
fn guest_times(guest: Interval<'_>) -> [u64; 4] {
    let service = delta::service_time(guest);
    let interrupts = Interrupts::of(guest, None);
    let (user, mut system) = (service.user.0, service.system.0);
    system -= interrupts.overlap(add([user, system])).min(system);
    let rest = interrupts.busy.saturating_sub(add([user, system, interrupts.time]));
    [user, system, interrupts.time, rest]
}

/// Interrupt time and all busy time of some CPUs.
struct Interrupts {
    time: u64,
    busy: u64,
}

impl Interrupts {
    /// Over `cpus`, or over all CPUs of that kernel.
    fn of(interval: Interval<'_>, cpus: Option<&CpuSet>) -> Self {
        let mut this = Self { time: 0, busy: 0 };
        for cpu in delta::cpu_times(interval) {
            if cpus.is_none_or(|set| set.contains(cpu.cpu as usize)) {
                let interrupts = add([cpu.irq.0, cpu.softirq.0]);
                this.time = add([this.time, interrupts]);
                this.busy = add([this.busy, interrupts, cpu.user.0, cpu.system.0, cpu.guest.0]);
            }
        }
        this
    }

    /// How much interrupt time `tasks` already contains: kernels without
    /// `CONFIG_IRQ_TIME_ACCOUNTING` charge interrupts to the task they met, and there tasks and
    /// interrupts together exceed what the CPUs were busy.
    fn overlap(&self, tasks: u64) -> u64 {
        add([tasks, self.time]).saturating_sub(self.busy).min(self.time)
    }
}

/// A sum that stays at the largest number where a guest sends figures that no clock can show.
fn add(times: impl IntoIterator<Item = u64>) -> u64 {
    times.into_iter().fold(0, u64::saturating_add)
}

fn breakdown(
    requests: u64,
    interval: Interval<'_>,
    named: &[(Layer, u64)],
    notes: Vec<String>,
) -> CpuBreakdown {
    let layers = named.iter().map(|&(layer, time)| LayerTime { layer, time: Nanos(time) }).collect();
    CpuBreakdown { requests, duration: interval.elapsed(), layers, notes }
}
