//! What virtual machines of a plan boot: QEMU, and a root that all of them share.

use std::collections::BTreeSet;
use std::sync::Arc;

use vtax_lab::pair_qemu::choose_qemu;
use vtax_plan::model::{BALLOON, Cell, EnvironmentKind, FaultKind, Measure, Plan, TopologyFault, Vhost};
use vtax_service::installed_files;
use vtax_sys::chain;
use vtax_topology::event::ALL;
use vtax_vm::ft::PairQemu;
use vtax_vm::{Cache, GuestRoot, GuestTemplate, GuestTemplateOptions, ImageContents, RootImage, root_image};

use crate::failover::tolerance;
use crate::observe::{Observer, RunEvent};
use crate::provision::Provisions;

/// The QEMU for protected virtual machines, or why there is none. Found out before the controller is
/// started, as it may take a test in a controller of its own.
#[derive(Debug, Clone, Default)]
pub struct PairSupport(Option<Result<PairQemu, String>>);

impl PairSupport {
    /// Finds out what a plan needs. Call it before this process starts its first thread.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        if !plan.cells.iter().any(|cell| tolerance(cell).is_some()) {
            return Self(None);
        }
        Self(Some(choose_qemu(&Cache::of_user(), false).map_err(|e| chain(&e))))
    }
}

/// What guests boot, or why there are none.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    pub(crate) template: Option<Arc<GuestTemplate>>,
    /// Why there is none, where the plan needs one.
    pub(crate) missing: Option<String>,
    pub(crate) notes: Vec<String>,
    /// Ids of cells in which a link between routers loses a part of its packets at times.
    lossy: BTreeSet<String>,
    /// Kept, so that no other run removes it from the cache.
    image: Option<RootImage>,
}

/// Kernel modules that the plan's workloads need.
pub(crate) fn modules(plan: &Plan) -> Vec<String> {
    let modules = plan.cells.iter().flat_map(Cell::kernel_modules);
    modules.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether a link between a cell's routers loses a part of its packets for a time while one of these is measured. One that loses
/// all takes nothing that a kernel may lack.
pub(crate) fn loses_packets(measures: &[Measure], cell: &Cell) -> bool {
    let failovers = measures.iter().filter_map(|measure| measure.kind.failover());
    let mut faults = failovers.flat_map(|failover| failover.faults_of(cell));
    faults.any(|fault| match fault.kind {
        FaultKind::Topology(TopologyFault::LossyLink(lossy)) => lossy.of_a_million < ALL,
        _ => false,
    })
}

impl Guests {
    /// Whether links between a cell's routers lose a part of their packets in some measure of the plan.
    pub(crate) fn has_lossy_links(&self, cell: &Cell) -> bool {
        self.lossy.contains(&cell.id)
    }

    /// Why links between a cell's routers can't lose a part of their packets, where they are to: neither this kernel has what it
    /// takes, nor is there a guest.
    pub(crate) fn without_lossy_links(&self, cell: &Cell) -> Option<String> {
        let routed = cell.path.kind.routed().filter(|_| self.has_lossy_links(cell))?;
        let why = vtax_lab::path::routers_obstacle(routed, true, self.template.is_some())?;
        Some(format!("path {}: {why}", cell.path.name))
    }

    /// Why the system under test of a cell would have no network: its kernel has no driver for the card, or the host's nothing that
    /// moves its packets.
    pub(crate) fn without_driver(&self, cell: &Cell) -> Option<String> {
        let (card, template) = (cell.environment.kind.nic()?, self.template.as_ref()?);
        if cell.environment.kind.tuning().vhost == Vhost::On && !template.vhost() {
            let why = "`nic_vhost: on` needs `/dev/vhost-net`, which this user may open (`sudo modprobe vhost_net`; \
                       `sudo chmod 666 /dev/vhost-net`), and guests on KVM; `auto` uses them where they are";
            return Some(why.to_owned());
        }
        let kernel = template.kernel();
        let module = card.module().filter(|module| kernel.lacks(module))?;
        Some(format!(
            "the kernel that guests boot, {}, has no module `{module}` for the network card `{}`; a distribution's \
             generic kernel has it (`vtax setup`)",
            kernel.release,
            card.word()
        ))
    }

    /// Why a virtual machine of a cell wouldn't boot: it has to hold vtax twice while it does.
    pub(crate) fn without_memory(&self, cell: &Cell) -> Option<String> {
        let least = self.template.as_ref()?.least_memory();
        let memory = cell.environments().filter_map(|environment| match &environment.kind {
            EnvironmentKind::Vm(vm) => Some(vm.memory),
            EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => None,
        });
        let memory = memory.filter(|memory| *memory < least).min()?;
        Some(format!(
            "a guest needs at least {least} of memory, not {memory}: it unpacks vtax beside its kernel; raise \
             `budget.sut_memory`, or the environment's `memory`"
        ))
    }

    /// Why virtual machines of a cell would have no balloons: their kernel has no driver for them.
    pub(crate) fn without_balloons(&self, cell: &Cell) -> Option<String> {
        let kernel = self.template.as_ref()?.kernel();
        (cell.has_balloons() && kernel.lacks(BALLOON)).then(|| {
            format!(
                "the kernel that guests boot, {}, has no module `{BALLOON}`, which `consolidation: {{memory: ballooned}}` \
                 needs; a distribution's generic kernel has it (`vtax setup`)",
                kernel.release
            )
        })
    }

    /// Prepares what a plan needs.
    pub(crate) fn prepare(
        plan: &Plan,
        pairs: &PairSupport,
        provisions: &mut Provisions,
        observer: &dyn Observer,
    ) -> Self {
        let lossy = plan.cells.iter().filter(|cell| loses_packets(&plan.measures, cell));
        let mut guests = Self { lossy: lossy.map(|cell| cell.id.clone()).collect(), ..Self::default() };
        let needs_guest = |cell: &Cell| {
            let lossy_links = guests.has_lossy_links(cell);
            let routed = cell.path.kind.routed();
            cell.environments().any(|e| matches!(e.kind, EnvironmentKind::Vm(_)))
                || cell.has_client_vm()
                || routed.is_some_and(|routed| vtax_lab::path::needs_guest(routed, lossy_links))
        };
        if !plan.cells.iter().any(needs_guest) {
            return guests;
        }
        let modules = modules(plan);
        let prepared = match &pairs.0 {
            None => Ok(GuestTemplateOptions::of_user()),
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(qemu)) => guests.for_pairs(plan, qemu, provisions, observer),
        };
        let prepared = prepared.and_then(|options| {
            GuestTemplate::prepare(&GuestTemplateOptions { modules, ..options }).map_err(|e| chain(&e))
        });
        match prepared {
            Ok(template) => {
                guests.notes.push(format!("virtual machines: {}", template.proof().line()));
                guests.template = Some(Arc::new(template));
            }
            Err(why) => guests.missing = Some(why),
        }
        guests
    }

    /// A root that doesn't block migration, with everything that the plan's services need.
    fn for_pairs(
        &mut self,
        plan: &Plan,
        qemu: &PairQemu,
        provisions: &mut Provisions,
        observer: &dyn Observer,
    ) -> Result<GuestTemplateOptions, String> {
        let mut contents = ImageContents::default();
        for cell in &plan.cells {
            contents.programs.extend(cell.services().flat_map(installed_files));
            // What can't be provisioned is said when the cell's turn comes.
            let provisioned = provisions.for_cell(cell, observer, &mut self.notes);
            contents.trees.extend(provisioned.ok().and_then(|p| p.prepared));
        }
        contents.programs.sort();
        contents.programs.dedup();
        contents.trees.sort();
        contents.trees.dedup();
        let root = if contents.programs.is_empty() && contents.trees.is_empty() {
            GuestRoot::Nothing
        } else {
            observer.observe(&RunEvent::Phase { what: "making the guests' root image" });
            let image = root_image(&Cache::of_user(), &contents).map_err(|e| chain(&e))?;
            let path = image.path.clone();
            self.image = Some(image);
            GuestRoot::Image(path)
        };
        self.notes.push(format!(
            "all virtual machines of this plan boot the same root on {}, so that those that can't be protected \
             compare with those that are",
            qemu.line()
        ));
        Ok(GuestTemplateOptions { root, qemu: Some(qemu.qemu.clone()), ..GuestTemplateOptions::of_user() })
    }
}

#[cfg(test)]
mod tests {
    use vtax_plan::parse;

    use super::*;

    #[test]
    fn only_a_link_that_loses_a_part_needs_more_than_every_kernel_has() {
        let lossy = |fault: &str| {
            let text = format!(
                "vtax: 1\nname: t\nbaseline: {{environment: native, path: routed}}\nenvironments: native\npaths: \
                 [routed]\nservices: http\nworkload: {{http: {{target: /page/1}}}}\nmeasure: [{{latency: {{load: 90/s}}}}, \
                 {{failover: {{load: 90/s}}}}]\nfaults: [{fault}]\n"
            );
            let plan = parse("p", text.as_bytes(), &[] as &[&str])
                .unwrap_or_else(|e| panic!("{}", e.to_text(false)));
            let of = |measures: &[Measure]| loses_packets(measures, &plan.cells[0]);
            [of(&plan.measures), of(&plan.measures[..1])]
        };
        let share = "{at: 2s, lossy_link: {link: p1-pe2, share: 5%}}";
        assert_eq!(lossy(share), [true, false], "only while things break");
        assert_eq!(lossy("{at: 2s, lossy_link: p1-pe2}"), [false; 2], "all is lost");
        assert_eq!(lossy("{at: 2s, cut_link: p1-pe2}"), [false; 2]);
    }
}
