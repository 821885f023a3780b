//! A protected virtual machine as a testbed's system under test.

use std::collections::BTreeMap;

use vtax_plan::model::{FaultTolerance, FtMode, VmOptions};
use vtax_sys::sched;
use vtax_units::{CpuSet, fact};
use vtax_vm::ft::Mode;
use vtax_vm::ft::heartbeat::DetectorSettings;

use crate::agent_program::DIRECTORY;
use crate::attachment::Attachment;
use crate::budget::{Allocation, Enforced};
use crate::error::{Result, While};
use crate::fabric::{Fabric, Switch};
use crate::ft::{FtPair, PairBase, PairMode, PairSpec, PairTask};
use crate::link::LinkProperties;
use crate::node::{Host, Node};
use crate::spec::NodeSpec;

/// The link for checkpoints where the plan gives it no rate: the pages of a checkpoint go in large pieces.
const LINK_MTU: u32 = 1500;

/// What the lab calls a plan's technique.
const fn mode(mode: FtMode) -> PairMode {
    match mode {
        FtMode::None => PairMode::None,
        FtMode::Kemari => PairMode::Checkpoints(Mode::Kemari),
        FtMode::Remus { interval } => PairMode::Checkpoints(Mode::Remus { interval }),
        FtMode::Colo => PairMode::Checkpoints(Mode::Colo),
        FtMode::Restart => PairMode::Restart,
        FtMode::Snapshot { interval } => PairMode::Snapshot { interval },
    }
}

/// The pair that a plan's options ask for; its hosts have no CPUs yet.
fn spec_of(name: &str, vm: &VmOptions, ft: &FaultTolerance) -> PairSpec {
    let mut spec = PairSpec::new(name, mode(ft.mode), PairTask::Agent);
    spec.nic = vm.nic;
    spec.memory = vm.memory;
    spec.disk = ft.disk;
    spec.link = LinkProperties { mtu: LINK_MTU, rate: ft.link, ..LinkProperties::default() };
    spec.cards = ft.cards;
    spec.detector = DetectorSettings { interval: ft.heartbeat, timeout: ft.patience };
    spec.hosts = vec![CpuSet::default(); usize::try_from(ft.hosts).unwrap_or(2).clamp(2, 3)];
    if let Some(memory) = ft.secondary_memory {
        let needed = spec.memory_needed();
        spec.host_memory = std::iter::once(needed).chain(vec![memory; spec.hosts.len() - 1]).collect();
    }
    spec
}

/// Why a pair with these options can't protect its guest, with the way out; `None` where it can.
#[must_use]
pub fn unprotectable(vm: &VmOptions, ft: &FaultTolerance) -> Option<String> {
    let needed = spec_of("sut", vm, ft).memory_needed();
    let memory = ft.secondary_memory.filter(|memory| *memory < needed)?;
    Some(format!(
        "the other host has {memory} of memory; to keep a guest of {} in mode `{}` it needs {needed}: raise \
         `secondary_memory` or lower the guest's `memory`",
        vm.memory,
        ft.mode.word()
    ))
}

/// CPUs of the other hosts: those that neither side has; `None` where there are none left.
fn spare_cpus(allowed: &CpuSet, allocation: &Allocation) -> Option<CpuSet> {
    let free =
        allowed.iter().filter(|cpu| !allocation.sut.contains(*cpu) && !allocation.client.contains(*cpu));
    Some(CpuSet::of(free)).filter(|cpus| !cpus.is_empty())
}

/// What a protected virtual machine is built from.
pub(crate) struct ProtectedVm<'a> {
    pub(crate) base: PairBase<'a>,
    pub(crate) node: &'a NodeSpec,
    pub(crate) vm: &'a VmOptions,
    pub(crate) ft: &'a FaultTolerance,
    pub(crate) allocation: &'a Allocation,
    /// Of the service's network.
    pub(crate) link: LinkProperties,
}

/// Builds a pair whose guest is a node with an agent, plugged into a switch. It isn't protected yet. What people must know of it is
/// added to `notes`.
pub(crate) fn start(
    asked: ProtectedVm<'_>,
    fabric: &mut Fabric,
    switch: &mut Switch,
    notes: &mut Vec<String>,
) -> Result<Node> {
    let ProtectedVm { base, node, vm, ft, allocation, link } = asked;
    let mut spec = spec_of(&node.name, vm, ft);
    spec.memory = node.memory.unwrap_or(vm.memory);
    spec.mtu = link.mtu;
    spec.service_rate = link.rate;
    spec.vcpus = vm.vcpus.unwrap_or_else(|| u32::try_from(node.cpus.len()).unwrap_or(1)).max(1);
    let allowed = sched::allowed_cpus().during(|| "find this host's CPUs".to_owned())?;
    let spare = spare_cpus(&allowed, allocation);
    if spare.is_none() && ft.mode.has_secondary() {
        notes.push(format!(
            "the hosts of a pair share CPUs {}, so the copy's upkeep takes time from the guest: the others have CPUs \
             of their own only where `budget.sut_cpus` and `budget.client_cpus` leave some",
            node.cpus
        ));
    }
    let others = spare.unwrap_or_else(|| node.cpus.clone());
    for (number, cpus) in spec.hosts.iter_mut().enumerate() {
        *cpus = if number == 0 { node.cpus.clone() } else { others.clone() };
    }
    let mut guest_facts = base.template.facts();
    super::vm::card_facts(spec.nic, &mut guest_facts);
    // QEMU moves a pair's packets itself: they wait for checkpoints.
    guest_facts.insert(fact::VM_VHOST_NET.to_owned(), "false".to_owned());
    let pair = FtPair::start(base, fabric, switch, spec)?;
    node_of(node.name.clone(), guest_facts, pair)
}

fn node_of(name: String, mut facts: BTreeMap<String, String>, mut pair: FtPair) -> Result<Node> {
    let (channel, interfaces) = (pair.take_channel(), pair.interfaces().to_vec());
    if let Some(primary) = pair.primary() {
        facts.insert(fact::VM_COMMAND.to_owned(), primary.command().join(" "));
    }
    let held = pair.enforced()?;
    for (host, enforced) in &held {
        facts.insert(format!("ft.{host}"), enforced.describe());
    }
    let enforced = held.into_iter().next().map_or_else(Enforced::default, |(_, enforced)| enforced);
    Ok(Node {
        attachment: Attachment { name, netns: None, interfaces: Some(interfaces) },
        host: Some(Host::Pair(Box::new(pair))),
        channel,
        group: None,
        output: None,
        directory: DIRECTORY.into(),
        enforced,
        facts,
        on_host: None,
        disk: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtax_plan::model::NicModel;
    use vtax_units::{Bytes, Nanos};

    fn vm() -> VmOptions {
        VmOptions { nic: NicModel::E1000, ..VmOptions::new(Bytes::from_mib(256)) }
    }

    #[test]
    fn a_plans_options_become_a_pair() {
        let remus = FtMode::Remus { interval: Nanos::from_millis(25) };
        let mut ft = FaultTolerance { hosts: 3, ..FaultTolerance::new(remus) };
        ft.patience = Nanos::from_millis(300);
        let spec = spec_of("sut", &vm(), &ft);
        assert_eq!(spec.mode, PairMode::Checkpoints(Mode::Remus { interval: Nanos::from_millis(25) }));
        assert_eq!((spec.hosts.len(), spec.memory), (3, Bytes::from_mib(256)));
        assert_eq!(spec.nic, NicModel::E1000);
        assert_eq!(spec.detector.timeout, Nanos::from_millis(300));
        assert!(spec.host_memory.is_empty());
    }

    #[test]
    fn a_host_that_is_too_small_is_told_before_it_is_built() {
        let mut ft = FaultTolerance::new(FtMode::Kemari);
        assert_eq!(unprotectable(&vm(), &ft), None);
        ft.secondary_memory = Some(Bytes::from_mib(128));
        let why = unprotectable(&vm(), &ft).expect("too small");
        assert!(why.contains("128MiB") && why.contains("raise `secondary_memory`"), "{why}");
        ft.secondary_memory = Some(Bytes::from_mib(4096));
        assert_eq!(unprotectable(&vm(), &ft), None);
    }

    #[test]
    fn the_other_host_gets_the_cpus_that_are_left() {
        let set = |text: &str| text.parse::<CpuSet>().expect("a set");
        let allocation = |client: &str| Allocation {
            sut: set("2-3"),
            client: set(client),
            shared: false,
            notes: Vec::new(),
        };
        assert_eq!(spare_cpus(&set("0-3"), &allocation("0")), Some(set("1")));
        assert_eq!(spare_cpus(&set("0-3"), &allocation("0-1")), None);
    }
}
