//! A node as the network sees it: a name, a network namespace, and the interfaces its agent must bring up.

use vtax_agent::message::{InterfaceSetup, Route};
use vtax_sys::NetNs;

use crate::error::{LabError, Result};

/// What is plugged into a switch or joined by a cable.
#[derive(Debug)]
pub struct Attachment {
    pub(crate) name: String,
    /// `None`: a virtual machine, or a process that shares the host's network.
    pub(crate) netns: Option<NetNs>,
    /// What the agent must bring up; `None` where there is nothing it could.
    pub(crate) interfaces: Option<Vec<InterfaceSetup>>,
}

impl Attachment {
    /// The network namespace that a path is built in.
    ///
    /// # Errors
    ///
    /// [`LabError::NoNetwork`] where it has none here.
    pub(crate) fn own_netns(&self) -> Result<&NetNs> {
        self.netns.as_ref().ok_or_else(|| LabError::NoNetwork { node: self.name.clone() })
    }

    /// The name the next interface gets: `eth0`, `eth1`, ...
    pub(crate) fn next_interface(&self) -> String {
        format!("eth{}", self.interfaces.as_ref().map_or(0, Vec::len))
    }

    pub(crate) fn add_interface(&mut self, setup: InterfaceSetup) {
        self.interfaces.get_or_insert_default().push(setup);
    }

    /// Has its agent add a route by way of interface `interface`, counted from 0.
    pub(crate) fn add_route(&mut self, interface: usize, route: Route) {
        if let Some(setup) = self.interfaces.as_mut().and_then(|all| all.get_mut(interface)) {
            setup.routes.push(route);
        }
    }
}

impl AsRef<Self> for Attachment {
    fn as_ref(&self) -> &Self {
        self
    }
}
