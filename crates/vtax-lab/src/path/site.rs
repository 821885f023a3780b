//! What a path is built from, and what is there when it was built.

use std::net::IpAddr;
use std::sync::Arc;

use vtax_plan::model::NetPath;
use vtax_sys::NetNs;
use vtax_units::CpuSet;

use super::counters::End;
use super::cut::Cable;
use super::parts::PathParts;
use crate::budget::Allocation;
use crate::error::{LabError, Result, While};
use crate::fabric::Fabric;
use crate::lab::Lab;
use crate::link::{self, Proof};
use crate::node::Node;
use crate::spec::{NodeSpec, Slot, TestbedSpec};

/// The nodes that a path is to join, none of which runs yet.
pub(crate) struct Site<'a> {
    pub(crate) lab: &'a mut Lab,
    pub(crate) spec: &'a TestbedSpec,
    pub(crate) slot: Slot,
    pub(crate) allocation: &'a Allocation,
    pub(crate) client: NodeSpec,
    /// From the client to the path.
    pub(crate) routers: Vec<NodeSpec>,
    /// One for each of the specification's.
    pub(crate) suts: Vec<NodeSpec>,
    /// What has to be said in a report about this testbed.
    pub(crate) notes: Vec<String>,
}

impl<'a> Site<'a> {
    /// The path of the plan.
    pub(crate) const fn path(&self) -> &'a NetPath {
        &self.spec.path
    }

    /// CPUs of the client's side and of the systems under test.
    pub(crate) const fn cpus(&self) -> [&'a CpuSet; 2] {
        [&self.allocation.client, &self.allocation.sut]
    }

    /// Switches and cables of this testbed.
    pub(crate) fn fabric(&mut self) -> Result<Fabric> {
        Ok(self.lab.fabric()?.for_slot(self.slot.number()))
    }

    /// Switches and cables of this testbed, inside this network namespace.
    pub(crate) fn fabric_in(&mut self, inside: &Arc<NetNs>) -> Result<Fabric> {
        Ok(self.lab.fabric_in(Some(Arc::clone(inside)))?.for_slot(self.slot.number()))
    }

    /// What this path's emulated link really does; measured where that wasn't done before.
    pub(crate) fn prove(&mut self, path: &NetPath) -> Result<Proof> {
        if !path.is_emulated() {
            return Ok(Proof::default());
        }
        if let Some(proof) = self.lab.proofs.find(path) {
            return Ok(proof.clone());
        }
        // Names and addresses that neither slot has.
        let fabric = self.lab.fabric()?.for_slot(2);
        let proof = link::prove(path, fabric, self.cpus())?;
        self.lab.proofs.add(path, proof.clone());
        Ok(proof)
    }

    /// An error about its path.
    pub(crate) fn refuse(&self, reason: impl Into<String>) -> LabError {
        LabError::Path { path: self.path().name.clone(), reason: reason.into() }
    }
}

/// A path that stands, and the nodes that it joins.
pub(crate) struct Built {
    pub(crate) client: Node,
    /// The client's end; `None` where it can't be seen from here.
    pub(crate) client_end: Option<End>,
    /// Others that the load comes from beside the client, each on a host of its own.
    pub(crate) generators: Vec<Node>,
    pub(crate) routers: Vec<Node>,
    pub(crate) suts: Vec<Placed>,
    /// What is cut to cut the path; `None` where it isn't the lab's to cut.
    pub(crate) cable: Option<Cable>,
    pub(crate) parts: PathParts,
    pub(crate) fabric: Option<Fabric>,
}

impl Built {
    /// The network that its nodes are plugged into.
    ///
    /// # Errors
    ///
    /// [`LabError::Defect`] where it was built without.
    pub(crate) fn network(&mut self) -> Result<&mut Fabric> {
        let missing = || LabError::Defect { what: "a path was built without its network".to_owned() };
        self.fabric.as_mut().ok_or_else(missing)
    }
}

/// A node at its end of a path.
pub(crate) struct Placed {
    pub(crate) node: Node,
    pub(crate) address: IpAddr,
    /// One for each of its cards; none where they can't be seen from here.
    pub(crate) ends: Vec<End>,
}

/// The newest interface of a node of namespaces.
pub(crate) fn newest_end(node: &Node) -> Result<End> {
    let missing = || LabError::Defect { what: format!("node {} has no interface on its path", node.name()) };
    let netns = node.attachment.own_netns()?;
    let interface = node.interfaces().and_then(|all| all.last()).ok_or_else(missing)?.name.clone();
    let netns = netns.try_clone().during(|| format!("look into node {}", node.name()))?;
    Ok(End::Inside { netns, interface })
}
