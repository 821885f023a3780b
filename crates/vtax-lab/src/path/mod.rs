//! The path of a testbed: what joins the client and the systems under test, and what can be done to it.
//!
//! Each kind of path is one file with a [`PathBuilder`]; [`builder`] is the only place that knows them all.

mod bridge;
mod bridged;
mod capture;
mod cards;
mod counters;
mod cut;
mod direct;
mod hosts;
mod mininet;
mod nat;
mod nic;
mod ovs;
mod packages;
mod parts;
mod passage;
mod path_builder;
mod rootless;
mod routed;
mod routers;
mod sdn;
mod shared;
mod site;
mod switched;
mod vm_vm;
mod vxlan;
mod wireguard;

use vtax_plan::model::{Addressing, NetPath, PathKind};

use crate::dhcp;
use crate::error::{LabError, Result};
use crate::lab::Lab;
use crate::spec::TestbedSpec;

pub use capture::{Capture, CaptureCounts, CaptureSide};
pub(crate) use counters::End;
pub use counters::EndCounters;
pub(crate) use cut::Cable;
pub use cut::PathSwitch;
pub use packages::{PathPackage, checks, lab_packages, packages};
pub(crate) use packages::{kernel_checks, program_of};
pub(crate) use parts::PathParts;
use path_builder::PathBuilder;
pub use routed::{RoutedSetup, needs_guest, routers_obstacle};
pub(crate) use site::{Built, Placed, Site};

/// The builder of a kind of path.
fn builder(kind: &PathKind) -> Box<dyn PathBuilder + '_> {
    match kind {
        PathKind::Direct => Box::new(direct::Direct),
        PathKind::Bridge => Box::new(bridge::Bridge),
        PathKind::Ovs(options) => Box::new(ovs::OpenVSwitch(*options)),
        PathKind::Sdn(options) => Box::new(sdn::Sdn(*options)),
        PathKind::Bridged(switch) => Box::new(bridged::Bridged(*switch)),
        PathKind::VmVm(switch) => Box::new(vm_vm::VmVm(*switch)),
        PathKind::Mininet(switch) => Box::new(mininet::Mininet(*switch)),
        PathKind::Nic(options) => Box::new(nic::Nic(options)),
        PathKind::Routed(options) => Box::new(routed::Routed(options)),
        PathKind::Wireguard => Box::new(wireguard::Wireguard),
        PathKind::Vxlan => Box::new(vxlan::Vxlan),
        PathKind::Shared(sharing) => Box::new(shared::Shared(*sharing)),
        PathKind::Rootless(network) => Box::new(rootless::Rootless(*network)),
        PathKind::Nat(options) => Box::new(nat::Nat(*options)),
    }
}

/// Why a path can't be built on this host, with the way out; `None` where it can.
pub(crate) fn obstacle(lab: &Lab, path: &NetPath) -> Option<String> {
    let leased = path.addresses == Addressing::Dhcp;
    let networked = !matches!(path.kind, PathKind::Direct | PathKind::Bridge) || path.has_wire() || leased;
    if networked && !lab.has_namespaces() && !is_elsewhere(&path.kind) {
        let word = path.kind.word();
        return Some(format!("path {}: `{word}` needs namespaces, which are refused here", path.name));
    }
    let dhcp = || leased.then(dhcp::obstacle).flatten();
    builder(&path.kind).obstacle(lab).or_else(dhcp).map(|reason| format!("path {}: {reason}", path.name))
}

/// Whether nothing of it is on this host, so that it needs no namespaces here.
pub(crate) fn is_elsewhere(kind: &PathKind) -> bool {
    !kind.generators().is_empty()
}

/// Builds the path of a testbed with the nodes that it joins.
///
/// # Errors
///
/// Where the path can't join them, or something is refused.
pub(crate) fn build(site: &mut Site<'_>) -> Result<Built> {
    let path = site.path();
    let builder = builder(&path.kind);
    let refused = |reason| LabError::Path { path: path.name.clone(), reason };
    suits_environments(site.spec).map_err(refused)?;
    suits_client(site.spec).map_err(refused)?;
    builder.suits(site.spec).map_err(refused)?;
    let mut built = builder.build(site)?;
    built.parts.add_facts(builder.facts(path));
    built.parts.on_any_cpu = builder.is_on_any_cpu();
    routers::add_routes(&mut built, site.slot);
    Ok(built)
}

/// Whether the client can be what it is to be.
fn suits_client(spec: &TestbedSpec) -> Result<(), String> {
    let alone = !spec.path.kind.takes_guest_client() || spec.routers > 0;
    match spec.guest_client {
        Some(_) if alone => Err(format!(
            "a client that is a virtual machine can't be on `{}`, nor behind routers",
            spec.path.kind.word()
        )),
        _ if spec.routers > 0 && spec.path.cards.get() > 1 => {
            Err("behind routers, a system has one network card".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether each system under test can be at the far end of such a path.
fn suits_environments(spec: &TestbedSpec) -> Result<(), String> {
    let kind = &spec.path.kind;
    let unsuited = spec.suts.iter().map(|sut| &sut.environment).find(|e| !kind.suits(&e.kind));
    unsuited.map_or(Ok(()), |environment| {
        Err(format!("`{}` doesn't suit environment {}", kind.word(), environment.name))
    })
}
