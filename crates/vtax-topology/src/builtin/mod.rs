//! From what a plan says to the topology that it means.

mod custom;
mod leaf_spine;
mod mpls_vpn;

use std::net::Ipv4Addr;

use crate::address::Prefix;
use crate::model::{LinkEnd, Topology};
use crate::options::Choice;

/// OSPF's cost of a link that has no other.
pub(crate) const USUAL_COST: u16 = 10;
/// MTU of Ethernet.
const ETHERNET: u32 = 1500;
/// MTU of links whose packets carry labels: room for several besides a full packet.
pub(crate) const LABELLED: u32 = 1600;
/// Networks of the client and of the systems under test; the router has the first address.
const EDGES: [Prefix; 2] = [Prefix::new([10, 96, 0, 1], 16), Prefix::new([10, 95, 0, 1], 16)];

/// The topology that these options mean. It has not been [checked](crate::check::check): of options that were
/// written out in a plan anything may be wrong.
#[must_use]
pub fn topology(choice: &Choice) -> Topology {
    match choice {
        Choice::MplsVpn(options) => mpls_vpn::topology(options),
        Choice::LeafSpine(options) => leaf_spine::topology(options),
        Choice::Custom(options) => custom::topology(options),
    }
}

/// Network `number`, from 0, of those with 30 bits from `first` on.
fn small_network(first: [u8; 4], number: u32) -> [Prefix; 2] {
    let base = u32::from_be_bytes(first).wrapping_add(number.wrapping_mul(4));
    let end = |n: u32| Prefix { address: Ipv4Addr::from_bits(base.wrapping_add(n)), length: 30 };
    [end(1), end(2)]
}

/// The end of a link without labels or routing.
fn plain_end(router: &str, interface: &str, address: Prefix) -> LinkEnd {
    LinkEnd {
        router: router.to_owned(),
        interface: interface.to_owned(),
        address,
        vrf: None,
        ospf_cost: None,
        labels: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::options::{Backdoor, LeafSpine, MplsVpn, VpnPlace};

    #[test]
    fn every_choice_of_what_comes_with_vtax_is_sound() {
        for core in [1, 3, 10] {
            for backdoor in [Backdoor::ShamLink, Backdoor::Plain, Backdoor::None] {
                for sut in [VpnPlace::Pe1, VpnPlace::Pe2, VpnPlace::Ce2] {
                    let customers = if core == 3 { 8 } else { 1 };
                    let options = MplsVpn { core, backdoor, sut, customers, ..MplsVpn::default() };
                    assert_eq!(check(&topology(&Choice::MplsVpn(options.clone()))), [], "{options:?}");
                }
            }
        }
        for (leaves, spines) in [(2, 1), (2, 2), (8, 8)] {
            let options = LeafSpine { leaves, spines, ..LeafSpine::default() };
            assert_eq!(check(&topology(&Choice::LeafSpine(options.clone()))), [], "{options:?}");
        }
    }

    #[test]
    fn the_studys_vpn_is_what_it_drew() {
        let vpn = topology(&Choice::MplsVpn(MplsVpn::default()));
        let names: Vec<_> = vpn.routers.iter().map(|router| router.name.as_str()).collect();
        assert_eq!(names, ["ce1", "pe1", "p1", "pe2", "ce2"]);
        let links: Vec<_> = vpn.links.iter().map(crate::model::Link::name).collect();
        assert_eq!(links, ["pe1-p1", "p1-pe2", "ce1-pe1", "ce2-pe2", "ce1-ce2"]);
        assert_eq!((vpn.client.router.as_str(), vpn.sut.router.as_str()), ("ce1", "pe2"));
        assert_eq!(vpn.sut.vrf.as_deref(), Some("customer"));
        assert!(vpn.links.iter().flat_map(|link| &link.ends).any(|end| end.labels));
        assert!(vpn.routers.iter().any(|router| !router.vrfs.is_empty()));
    }
}
