//! The parts of a path that are neither switches' ports nor cables.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use vtax_sys::NetNs;
use vtax_units::fact;

use super::passage::{self, Passage};
use super::routed::RoutedSetup;
use crate::dhcp::DhcpServer;
use crate::link::{self, LinkEmulator};
use crate::mininet::Network;
use crate::ovs::Ovs;

/// The port that a proof asks for where any will do: discard (RFC 863), where nobody listens.
const ANY_PORT: u16 = 9;

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
    /// Where the client reaches the systems, in their order; empty where that is where they listen.
    pub(crate) published: Vec<IpAddr>,
    /// What stands in its middle, where that has to prove itself.
    pub(crate) passage: Option<Box<dyn Passage>>,
    /// Threads of the kernel work for it on any CPU of the host.
    pub(crate) on_any_cpu: bool,
    facts: BTreeMap<String, String>,
}

impl PathParts {
    /// What there is to say about them now.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.extend(self.emulator.iter().flat_map(link::facts));
        facts.extend(self.ovs.iter().flat_map(|ovs| ovs.facts()));
        facts.extend(self.dhcp.iter().flat_map(DhcpServer::facts));
        facts.extend(self.passage.iter().flat_map(|passage| passage.facts()));
        if let Some(network) = &self.mininet {
            facts.extend(network.facts.iter().cloned());
            facts.insert("path.mininet.alive".to_owned(), network.alive().to_string());
        }
        facts
    }

    /// Processes that carry the packets of the first system on its CPUs.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.passage.iter().flat_map(|passage| passage.processes()).collect()
    }

    /// Where the client reaches what the system with this number has at an address of its own.
    pub(crate) fn reached_at(&self, number: usize, own: SocketAddr) -> SocketAddr {
        self.published.get(number).map_or(own, |public| SocketAddr::new(*public, own.port()))
    }

    /// Has what stands in its middle prove that it is between this client and these places; says what was found.
    ///
    /// # Errors
    ///
    /// Why it isn't, in words for the user.
    pub(crate) fn prove(&mut self, client: &NetNs, targets: &[SocketAddr]) -> Result<(), String> {
        let Some(passage) = &self.passage else { return Ok(()) };
        let mut passed = passage::Passed::default();
        for target in targets {
            let port = if passage.asks_the_service() { target.port() } else { ANY_PORT };
            let found = passage::prove(&**passage, client, SocketAddr::new(target.ip(), port))?;
            passed.up += found.up;
            passed.down += found.down;
        }
        let facts = [("passed_up", passed.up), ("passed_down", passed.down)];
        self.add_facts(facts.map(|(key, packets)| (fact::proved(key), packets.to_string())));
        Ok(())
    }

    /// Adds what stays as it is.
    pub(crate) fn add_facts(&mut self, facts: impl IntoIterator<Item = (String, String)>) {
        self.facts.extend(facts);
    }
}
