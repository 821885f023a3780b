//! The path of a testbed: what stands between its two ends, and what can be done to it.

mod capture;
mod counters;
mod packages;
mod proof;
mod switch;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use vtax_plan::model::{Controller, Datapath, NetPath, PathKind, SdnMode, VirtualSwitch};
use vtax_units::CpuSet;

use crate::error::{LabError, Result};
use crate::fabric::{Fabric, Switch};
use crate::lab::Lab;
use crate::mininet::Network;
use crate::ovs::{self, Ovs, OvsSpec};
use crate::shape::Shape;

pub use capture::{Capture, CaptureCounts, CaptureSide};
pub(crate) use counters::End;
pub use counters::{EndCounters, PathCounters};
pub use packages::{PathPackage, checks, packages};
pub(crate) use proof::{Key, Proof};
pub(crate) use switch::Cable;
pub use switch::PathSwitch;
use wire::{Wire, WireSpec};

/// What the wire of this path does, where it does anything but limit the rate.
fn wire_of(path: &NetPath) -> Option<WireSpec> {
    // The same frames are lost in every trial, as far as the same ones come.
    path.has_wire().then_some(WireSpec { delay: path.delay, loss: path.loss.0, seed: 1 })
}

/// The options of a path as they are built. A packet that goes by way of a controller comes back as it is:
/// without what a card would have filled in, and in a message of OpenFlow of at most 64 KiB. The kernel's
/// datapath fills it in before it asks; in user space nothing may be left to others.
fn effective(path: &NetPath) -> NetPath {
    let mut path = path.clone();
    if let PathKind::Sdn(sdn) = &path.kind {
        let in_kernel = sdn.ovs.datapath != Datapath::User && ovs::kernel_has_datapath();
        path.offloads &= in_kernel && sdn.mode == SdnMode::Reactive;
    }
    path
}

/// What stands between the two ends.
#[derive(Debug)]
pub(crate) struct Between {
    /// Where the client is plugged in.
    pub(crate) near: Switch,
    /// Where the system under test is; `None`: on the same switch.
    pub(crate) far: Option<Switch>,
    /// Shape of the client's cable, and of the system under test's.
    pub(crate) shapes: [Shape; 2],
    pub(crate) inner: Inner,
}

/// The parts of a path that are neither switches' ports nor cables.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    wire: Option<Wire>,
    pub(crate) ovs: Option<Arc<Ovs>>,
    mininet: Option<Network>,
    facts: BTreeMap<String, String>,
}

impl Inner {
    /// Those of a Mininet.
    pub(crate) fn of(mininet: Network) -> Self {
        Self { mininet: Some(mininet), ..Self::default() }
    }

    /// What there is to say about them now.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.extend(self.wire.iter().flat_map(wire::facts));
        facts.extend(self.ovs.iter().flat_map(|ovs| ovs.facts()));
        if let Some(network) = &self.mininet {
            facts.extend(network.facts.iter().cloned());
            facts.insert("path.mininet.alive".to_owned(), network.alive().to_string());
        }
        facts
    }

    pub(crate) fn add_facts(&mut self, facts: impl IntoIterator<Item = (String, String)>) {
        self.facts.extend(facts);
    }
}

impl Between {
    pub(crate) fn far(&mut self) -> &mut Switch {
        self.far.as_mut().unwrap_or(&mut self.near)
    }

    /// Has all of it forward from now on.
    pub(crate) fn start(&self, fabric: &mut Fabric) -> Result<()> {
        fabric.start(&self.near)?;
        self.far.as_ref().map_or(Ok(()), |far| fabric.start(far))
    }
}

impl Lab {
    /// Why a path can't be built on this host, with the way out; `None` where it can.
    #[must_use]
    pub fn path_obstacle(&self, path: &NetPath) -> Option<String> {
        let networked = !matches!(path.kind, PathKind::Direct | PathKind::Bridge) || wire_of(path).is_some();
        if networked && !self.has_namespaces() {
            let word = path.kind.word();
            return Some(format!("path {}: `{word}` needs namespaces, which are refused here", path.name));
        }
        let found = match &path.kind {
            PathKind::Nic(nic) => crate::remote::obstacle(self, nic),
            PathKind::Mininet(switch) => crate::mininet::obstacle(*switch),
            PathKind::Sdn(sdn) => ovs::controller_obstacle(sdn.controller),
            _ => None,
        };
        let ovs = || path.kind.ovs().and_then(ovs::obstacle);
        found.or_else(ovs).map(|reason| format!("path {}: {reason}", path.name))
    }

    /// Builds the switches of a path. `number` tells two of one lab apart.
    pub(crate) fn build_between(
        &mut self,
        path: &NetPath,
        fabric: &mut Fabric,
        number: u16,
        [client, sut]: [&CpuSet; 2],
    ) -> Result<Between> {
        let path = &effective(path);
        let shape = Shape::of(path);
        let proof = self.prove(path, [client, sut])?;
        let sut_shape = match path.kind {
            // The virtual switch's ports are as fast as it is; only the physical one's are limited.
            PathKind::Bridged(_) => shape.unlimited(),
            _ => shape,
        };
        let mut inner = Inner::default();
        inner.add_facts(proof.facts());
        inner.facts.insert("path.kind".to_owned(), path.kind.word().to_owned());
        inner.facts.insert("path.offloads".to_owned(), path.offloads.to_string());
        let mut near = match &path.kind {
            PathKind::Ovs(_) | PathKind::Sdn(_) | PathKind::VmVm(VirtualSwitch::Ovs) => {
                let (ovs, switch) = self.open_vswitch(path, fabric, number, client)?;
                inner.ovs = Some(ovs);
                switch
            }
            _ => fabric.add_switch(path.mtu)?,
        };
        let mut far = None;
        if let PathKind::Bridged(virtual_switch) = path.kind {
            let mut behind = match virtual_switch {
                VirtualSwitch::Bridge => fabric.add_switch(path.mtu)?,
                VirtualSwitch::Ovs => {
                    let (ovs, switch) = self.open_vswitch(path, fabric, number, client)?;
                    inner.ovs = Some(ovs);
                    switch
                }
            };
            fabric.uplink(&mut near, &mut behind, shape)?;
            fabric.start(&behind)?;
            far = Some(behind);
        }
        if let Some(spec) = wire_of(path) {
            // The client on a switch of its own, the wire between that and what would have been its.
            let mut outer = fabric.add_switch(path.mtu)?;
            let taps = fabric.taps([&mut outer, &mut near], shape, spec.loss == 0.0)?;
            inner.wire = Some(Wire::start(taps.map(|(tap, _)| tap), spec, client)?);
            fabric.start(&near)?;
            let middle = std::mem::replace(&mut near, outer);
            far.get_or_insert(middle);
        }
        let sut_shape = Shape { mtu: path.sut_mtu.unwrap_or(path.mtu), ..sut_shape };
        Ok(Between { near, far, shapes: [shape, sut_shape], inner })
    }

    /// Starts an Open vSwitch for a path, with its controller where it has one.
    fn open_vswitch(
        &mut self,
        path: &NetPath,
        fabric: &Fabric,
        number: u16,
        cpus: &CpuSet,
    ) -> Result<(Arc<Ovs>, Switch)> {
        if number > 0 {
            let reason = "two Open vSwitches of one lab would have the same datapath, so it can't be part of a \
                          duet; leave `trials: duet` out";
            return Err(LabError::Path { path: path.name.clone(), reason: reason.to_owned() });
        }
        let options = path.kind.ovs().unwrap_or_default();
        let scratch = self.scratch()?;
        let ovs = Ovs::start(OvsSpec { number, scratch, cpus, options, offloads: path.offloads })?;
        if let PathKind::Sdn(sdn) = &path.kind {
            ovs.obey(sdn)?;
        }
        let ovs = Arc::new(ovs);
        let switch = fabric.add_ovs(&ovs);
        Ok((ovs, switch))
    }

    /// What this path's wire really does; measured where that wasn't done before.
    pub(crate) fn prove(&mut self, path: &NetPath, cpus: [&CpuSet; 2]) -> Result<Proof> {
        if !path.is_emulated() {
            return Ok(Proof::default());
        }
        let key = Key::of(path);
        if let Some(proof) = self.proofs.iter().find(|(k, _)| *k == key).map(|(_, proof)| proof) {
            return Ok(proof.clone());
        }
        // Names and addresses of a seat that nobody has.
        let fabric = self.fabric()?.for_seat(2);
        let proof = proof::prove(path, fabric, cpus)?;
        self.proofs.push((key, proof.clone()));
        Ok(proof)
    }
}

/// The way out where a controller was asked for that isn't there.
pub(crate) fn no_controller(path: &str) -> LabError {
    let reason = format!(
        "it has no controller to kill; a path of kind `sdn` has one ({} or {})",
        word(Controller::Testcontroller),
        word(Controller::OsKen)
    );
    LabError::Path { path: path.to_owned(), reason }
}

const fn word(controller: Controller) -> &'static str {
    match controller {
        Controller::Testcontroller => "testcontroller",
        Controller::OsKen => "os-ken",
    }
}
