//! Several network cards of one system under test.
//!
//! All of its cards are on the path's switch, each with an address that only routes name, and the service listens at one that is no
//! card's: newer kernels take the card whose address a packet comes from, where it has one. The client reaches the service by all of them, and the system answers by all of them: each connection
//! keeps to one in each direction, which its ports decide (equal-cost multipath, RFC 2992). So any service and any load can use them,
//! and none has to know.

use std::net::IpAddr;

use vtax_agent::message::{Hop, InterfaceSetup, Route};
use vtax_agent::network::{BY_PORTS, SEVERAL_CARDS};
use vtax_sys::sysctl;

use super::Placed;
use crate::attachment::Attachment;
use crate::fabric::Fabric;
use crate::naming;

/// Prefix length of an address that is a host's alone.
const ALONE: u8 = 32;

/// Names the cards of a system that has several, keeps each to addresses of its own, and returns the address where its service is to
/// listen; `None` where it has one card, and listens at its. Only the first is on the network as it is for others: two ways to one
/// network would be one way and one that is never taken.
pub(super) fn tell_apart(sut: &mut Attachment, fabric: &mut Fabric) -> Option<IpAddr> {
    let cards = sut.interfaces.as_deref_mut().filter(|cards| cards.len() > 1)?;
    for (number, card) in cards.iter_mut().enumerate() {
        card.name = format!("eth{number}");
        card.own_arp = true;
        if number > 0 {
            card.addresses.iter_mut().for_each(|(_, prefix)| *prefix = ALONE);
        }
    }
    let service = naming::address(fabric.take_host());
    cards[0].addresses.push((service, ALONE));
    if let Some(inside) = &sut.netns {
        // In a container its agent can't. Where this is refused, that is the agent's to say.
        let _ = inside.run(|| {
            for (setting, value) in SEVERAL_CARDS.into_iter().chain([BY_PORTS]) {
                let _ = sysctl::set(&format!("ipv4/{setting}"), value);
            }
            Ok(())
        });
    }
    Some(service)
}

/// Has the client and each system with several cards use all of them.
pub(super) fn join(client: &mut Attachment, suts: &mut [Placed]) {
    for sut in suts {
        let cards = sut.node.attachment.interfaces.as_deref().unwrap_or_default();
        let Some((first, others)) = cards.split_first().filter(|(_, others)| !others.is_empty()) else {
            continue;
        };
        let Some((there, from)) =
            client.interfaces.iter().flatten().last().and_then(|own| Some((own.name.clone(), address(own)?)))
        else {
            continue;
        };
        let by_card = |card: &InterfaceSetup| Hop { interface: there.clone(), gateway: address(card) };
        let to = Route {
            others: others.iter().map(by_card).collect(),
            ..Route::new(sut.address, ALONE, address(first))
        };
        let by_own = |card: &InterfaceSetup| Hop { interface: card.name.clone(), gateway: None };
        let back = Route { others: others.iter().map(by_own).collect(), ..Route::new(from, ALONE, None) };
        sut.node.attachment.add_route(0, back);
        let newest = client.interfaces.as_ref().map_or(0, Vec::len).saturating_sub(1);
        client.add_route(newest, to);
    }
}

/// The address that an interface has.
fn address(interface: &InterfaceSetup) -> Option<IpAddr> {
    interface.addresses.first().map(|(address, _)| *address)
}
