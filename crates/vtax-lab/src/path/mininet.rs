//! Mininet's own network as a path.

use vtax_plan::model::MininetSwitch;

use super::parts::PathParts;
use super::path_builder::{PathBuilder, no_routers, one_system};
use super::site::newest_end;
use super::{Built, Cable, Placed, Site};
use crate::error::{Result, While};
use crate::lab::Lab;
use crate::mininet::{self, Network};
use crate::naming::address;
use crate::nodes::Network::Made;
use crate::spec::TestbedSpec;

/// Both agents in hosts of one Mininet.
pub(super) struct Mininet(pub(super) MininetSwitch);

impl PathBuilder for Mininet {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        one_system(spec, "its network has two hosts")?;
        no_routers(spec, "its network has two hosts")
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        mininet::obstacle(self.0)
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let path = site.path();
        let network = Network::start(self.0, path, &site.allocation.client)?;
        let hold = |which: usize| {
            network.hosts[which].try_clone().during(|| "hold the network of Mininet's hosts".to_owned())
        };
        let mut client = site.lab.add_node(Made(hold(0)?), &site.client)?;
        let mut sut = site.lab.add_node(Made(hold(1)?), &site.suts[0])?;
        let numbers = [1, 2].map(|n| n + site.slot.number() * 256);
        client.attachment.interfaces = Some(vec![network.setup(0, numbers[0], path.mtu)]);
        sut.attachment.interfaces = Some(vec![network.setup(1, numbers[1], path.mtu)]);
        let (client_end, ends) = (Some(newest_end(&client)?), vec![newest_end(&sut)?]);
        let (root, port) = network.switch.clone();
        let mut parts = PathParts::default();
        parts.mininet = Some(network);
        let cable = Some(Cable { inside: Some(root), interface: port });
        let suts = vec![Placed { node: sut, address: address(numbers[1]), ends }];
        Ok(Built {
            client,
            client_end,
            generators: Vec::new(),
            routers: Vec::new(),
            suts,
            cable,
            parts,
            fabric: None,
        })
    }
}
