//! The parts of a path that are neither switches' ports nor cables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::routed::RoutedSetup;
use crate::dhcp::DhcpServer;
use crate::link::{self, LinkEmulator};
use crate::mininet::Network;
use crate::ovs::Ovs;

/// What ends with the path.
#[derive(Debug, Default)]
pub(crate) struct PathParts {
    pub(crate) emulator: Option<LinkEmulator>,
    pub(crate) ovs: Option<Arc<Ovs>>,
    pub(crate) mininet: Option<Network>,
    /// What gives the systems their addresses, where the testbed doesn't.
    pub(crate) dhcp: Option<DhcpServer>,
    /// What its routers are to be.
    pub(crate) routed: Option<RoutedSetup>,
    facts: BTreeMap<String, String>,
}

impl PathParts {
    /// What there is to say about them now.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.extend(self.emulator.iter().flat_map(link::facts));
        facts.extend(self.ovs.iter().flat_map(|ovs| ovs.facts()));
        facts.extend(self.dhcp.iter().flat_map(DhcpServer::facts));
        if let Some(network) = &self.mininet {
            facts.extend(network.facts.iter().cloned());
            facts.insert("path.mininet.alive".to_owned(), network.alive().to_string());
        }
        facts
    }

    /// Adds what stays as it is.
    pub(crate) fn add_facts(&mut self, facts: impl IntoIterator<Item = (String, String)>) {
        self.facts.extend(facts);
    }
}
