//! Systems on their host's card itself: their interfaces share it (`macvlan`, `ipvlan`), and the client is at the other end of
//! its cable.

use vtax_plan::model::CardSharing;
use vtax_sys::NetNs;
use vtax_sys::netlink::{Child, Mac, Netlink, Sharing, create_child};

use super::hosts;
use super::passage::{Passage, Passed};
use super::path_builder::{PathBuilder, no_routers};
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::{Result, While};
use crate::fabric::Fabric;
use crate::lab::Lab;
use crate::spec::TestbedSpec;

/// Interfaces that share a card.
pub(super) struct Shared(pub(super) CardSharing);

/// As the kernel has it.
const fn kernel(sharing: CardSharing) -> Sharing {
    match sharing {
        CardSharing::Macvlan => Sharing::Macvlan,
        CardSharing::Ipvlan => Sharing::Ipvlan,
    }
}

/// Why no interfaces can share a card on this host; `None` where they can. Tried in namespaces of their own.
pub(super) fn obstacle(sharing: CardSharing) -> Option<String> {
    let tried = hosts::create().and_then(|inside| {
        let what = || format!("make an interface of kind {}", sharing.word());
        let mut netlink = Netlink::open_in(&inside).during(what)?;
        netlink.send(hosts::cable()).during(what)?;
        let parent = netlink.link(hosts::TRIED).during(what)?.index;
        let child =
            Child { name: "shared0", mac: Mac([2, 0, 0, 0, 0, 9]), namespace: None, parent, mtu: 1500 };
        netlink.send(create_child(kernel(sharing), &child)).during(what)
    });
    tried.err().map(|e| vtax_sys::chain(&e))
}

impl PathBuilder for Shared {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        no_routers(spec, "its client is at the other end of the card's cable")
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        obstacle(self.0)
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let path = site.path();
        let mut built = switched::build(site, path, |_, _, _| {
            let card = Fabric::share_door(kernel(self.0));
            Ok(Switches { far: Some(card), ..Switches::one(Fabric::add_door()) })
        })?;
        let parent = built.network()?.own_door()?.to_owned();
        let hold = |netns: &NetNs| netns.try_clone().during(|| "hold a system's network".to_owned());
        let systems = built.suts.iter().map(|sut| hold(sut.node.attachment.own_netns()?));
        let systems = systems.collect::<Result<Vec<_>>>()?;
        built.parts.passage = Some(Box::new(Card { sharing: self.0, parent, systems }));
        Ok(built)
    }
}

/// A card and the systems whose interfaces share it.
#[derive(Debug)]
struct Card {
    sharing: CardSharing,
    /// The card, in the lab's network namespace.
    parent: String,
    systems: Vec<NetNs>,
}

impl Passage for Card {
    /// What the card passed, no more than what the systems' interfaces of this kind did.
    fn passed(&self) -> Result<Passed> {
        let what = || format!("read the counters of {}", self.parent);
        let card = Netlink::open().and_then(|mut n| n.link(&self.parent)).during(what)?.stats;
        let [mut up, mut down] = [0, 0];
        for system in &self.systems {
            let links = Netlink::open_in(system).and_then(|mut n| n.links()).during(what)?;
            for link in links.iter().filter(|link| link.kind == self.sharing.word()) {
                up += link.stats.received_packets;
                down += link.stats.sent_packets;
            }
        }
        Ok(Passed { up: up.min(card.received_packets), down: down.min(card.sent_packets) })
    }

    fn facts(&self) -> Vec<(String, String)> {
        let passed =
            self.passed().ok().into_iter().flat_map(|passed| [("up", passed.up), ("down", passed.down)]);
        let word = self.sharing.word();
        passed.map(|(way, packets)| (format!("path.{word}.{way}.packets"), packets.to_string())).collect()
    }
}
