//! Virtual machine nodes: the agent as /init of a QEMU guest.

use std::collections::BTreeMap;
use std::sync::Arc;

use vtax_plan::model::{NicModel, NicTuning, Vhost};
use vtax_sys::cgroup::{NodeGroup, RunGroups};
use vtax_units::{Bytes, fact};
use vtax_vm::{GuestTemplate, Vm, VmConfig, VmNic, VmNicModel, VmNicOptions};

use crate::agent_program::{DIRECTORY, group_for};
use crate::attachment::Attachment;
use crate::budget::{Enforced, QEMU_OVERHEAD};
use crate::disk::{A_DISK, Disk};
use crate::error::{LabError, Result, While};
use crate::fabric::VmPort;
use crate::node::{Host, Node};
use crate::spec::NodeSpec;

/// What a guest sees where a plan asks for this card.
pub(crate) const fn card(model: NicModel) -> VmNicModel {
    match model {
        NicModel::Virtio => VmNicModel::Virtio,
        NicModel::E1000e => VmNicModel::E1000e,
        NicModel::E1000 => VmNicModel::E1000,
        NicModel::Rtl8139 => VmNicModel::Rtl8139,
    }
}

/// Facts about the card of a system under test, which replace what is so of all guests of the run.
pub(crate) fn card_facts(model: NicModel, facts: &mut BTreeMap<String, String>) {
    facts.insert(fact::VM_NIC.to_owned(), model.word().to_owned());
    if !card(model).suits_vhost() {
        facts.insert(fact::VM_VHOST_NET.to_owned(), "false".to_owned());
    }
}

/// What QEMU is told of a tuned card.
const fn options(tuning: NicTuning) -> VmNicOptions {
    let vhost = match tuning.vhost {
        Vhost::Auto => None,
        Vhost::On => Some(true),
        Vhost::Off => Some(false),
    };
    VmNicOptions { ring: tuning.ring, vhost }
}

/// Facts about what is unusual about a card.
fn tuning_facts(tuning: NicTuning, facts: &mut BTreeMap<String, String>) {
    if !tuning.is_usual() {
        facts.insert(fact::VM_NIC_TUNING.to_owned(), tuning.words());
    }
    if let Some(vhost) = options(tuning).vhost {
        facts.insert(fact::VM_VHOST_NET.to_owned(), vhost.to_string());
    }
}

/// Before which Linux threads of the kernel that move a guest's packets (vhost) may run on CPUs that its QEMU may not.
///
/// They have QEMU's affinity only since they are threads of QEMU (Linux 6.4, its commit 6e890c5d5021). Before that they joined
/// QEMU's groups, of cgroup v2 since 5.16 (0061270307f2).
const fn vhost_strays_before(by_group: bool, v2: bool) -> (u32, u32) {
    match (by_group, v2) {
        (false, _) => (6, 4),
        (true, true) => (5, 16),
        (true, false) => (0, 0),
    }
}

/// Whether a kernel's release is of before such a version; one that isn't understood is none.
fn is_before(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|own| own < version)
}

/// What has to be said where the host's kernel moves a guest's packets in threads that aren't held to the guest's CPUs; `None`
/// where it doesn't, and of other nodes.
pub(crate) fn vhost_strays(node: &Node) -> Option<String> {
    let by_kernel = node.facts().get(fact::VM_VHOST_NET).is_some_and(|moved| moved == "true");
    let v2 = node.group.as_ref().is_some_and(NodeGroup::holds_cpus_by_v2);
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let strays = is_before(&release, vhost_strays_before(node.enforced().cpus_by_group, v2));
    (node.vm().is_some() && by_kernel && strays).then(|| {
        format!(
            "node {}: the threads of Linux {release} that move its packets (vhost) may run on any CPU, the load generator's \
             too, so nobody can say whose a CPU's time is; with `nic_vhost: off` QEMU moves them (docs/privileges.md)",
            node.name()
        )
    })
}

/// Starts one virtual machine node.
pub(crate) fn start(
    template: &Arc<GuestTemplate>,
    groups: Option<&RunGroups>,
    spec: &NodeSpec,
    vcpus: u32,
    ports: Vec<VmPort>,
) -> Result<Node> {
    let node = || spec.name.clone();
    let what = || format!("build node {}", spec.name);
    let memory = spec.memory.unwrap_or(Bytes::from_mib(256));
    let limit = NodeSpec { memory: Some(Bytes(memory.0 + QEMU_OVERHEAD.0)), ..spec.clone() };
    let group = group_for(groups, &limit)?;
    let control_groups = group.as_ref().map_or(Ok(Vec::new()), |g| g.procs_files()).during(what)?;
    let cards: Vec<(NicModel, NicTuning)> = ports.iter().map(|port| (port.card, port.tuning)).collect();
    let nic = |p: VmPort| {
        (VmNic { taps: p.taps, mac: p.mac.0, model: card(p.card), options: options(p.tuning) }, p.setup)
    };
    let (nics, interfaces): (Vec<VmNic>, Vec<_>) = ports.into_iter().map(nic).unzip();
    let disk = spec.disk.as_ref().map(|disk| Disk::image(disk, A_DISK)).transpose()?;
    let memory_file =
        spec.memory_in.as_deref().map(|directory| Disk::of_memory(directory, memory)).transpose()?;
    let config = VmConfig {
        name: node(),
        memory,
        vcpus,
        nics,
        cpus: spec.cpus.clone(),
        control_groups,
        root: "/".into(),
        disk: disk.as_ref().map(Disk::for_guest).transpose()?,
        memory_file,
        balloon: spec.balloon,
    };
    let started = Vm::start(template, config).and_then(|vm| Ok((vm.agent_stream()?, vm)));
    let (channel, vm) = started.map_err(|source| {
        // The first error tells more than a group that can't be removed.
        let _ = group.as_ref().map(NodeGroup::remove);
        LabError::vm(&node(), source)
    })?;
    let mut facts = template.facts();
    facts.insert(fact::VM_COMMAND.to_owned(), vm.command().join(" "));
    for (model, tuning) in cards {
        card_facts(model, &mut facts);
        tuning_facts(tuning, &mut facts);
    }
    facts.extend(disk.as_ref().map(|disk| (fact::VM_DISK.to_owned(), disk.words())));
    facts.insert(fact::VM_MEMORY_OVERHEAD_ALLOWED.to_owned(), QEMU_OVERHEAD.to_string());
    let mut node = Node {
        attachment: Attachment { name: node(), netns: None, interfaces: Some(interfaces) },
        enforced: Enforced::default(),
        host: Some(Host::Vm(Box::new(vm))),
        channel: Some(channel.into()),
        group,
        output: None,
        directory: DIRECTORY.into(),
        facts,
        on_host: None,
        disk,
    };
    node.read_back_limits()?;
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_vhosts_threads_run_depends_on_the_kernel_and_the_group() {
        let strays = |release, by_group, v2| is_before(release, vhost_strays_before(by_group, v2));
        for (release, alone, in_v2) in [
            ("5.15.0-91-generic", true, true),
            ("5.16.1", true, false),
            ("6.1.0-42-amd64", true, false),
            ("6.3.13", true, false),
            ("6.4-rc1", false, false),
            ("6.12.38+deb13-amd64", false, false),
            ("10.0.1", false, false),
            ("what?", false, false),
            ("", false, false),
        ] {
            assert_eq!(strays(release, false, false), alone, "{release}");
            assert_eq!(strays(release, true, true), in_v2, "{release}");
            assert!(!strays(release, true, false), "{release}: a group of cgroup v1 has always held them");
        }
    }
}
