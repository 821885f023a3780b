//! Routed topologies as written.

use vtax_topology::bfd::Bfd;
use vtax_topology::options::{Backdoor, RouterHost, Timers, VpnPlace};
use vtax_units::{BitRate, Nanos, Share};

use crate::decode::{Decode, Many, scalar};
use crate::diagnose::Report;
use crate::source::Spanned;
use crate::tree::Node;

kinds! {
    /// Routers and links between client and service.
    enum TopologyRaw = "topology" {
        /// An MPLS layer-3 VPN: customers' edges, providers' edges and a core of P routers.
        mpls_vpn = "mpls-vpn": MplsVpn(MplsVpnRaw),
        /// A fabric of leaves and spines with BGP and equal-cost paths.
        leaf_spine = "leaf-spine": LeafSpine(LeafSpineRaw),
        /// Routers and links that are written out.
        custom: Custom(CustomRaw),
    }
}

raw! {
    /// Options of `mpls-vpn`.
    struct MplsVpnRaw = "`mpls-vpn`" {
        /// P routers between the providers' edges, 1 to 10. A list makes a cell for each.
        default core: Many<u32> = "1",
        /// Customers, each with a VRF and two sites, 1 to 8; the first is measured. A list makes a cell for each.
        default customers: Many<u32> = "1",
        /// Routes that the VPN carries besides its sites', up to 10,000. A list makes a cell for each.
        default routes: Many<u32> = "0",
        /// What joins the sites besides the VPN: `sham-link`, `plain` or `none`. A list makes a cell for each.
        default backdoor: Many<BackdoorRaw> = "sham-link",
        /// Where the client is: `ce1`, `ce2`, `pe1` or `pe2`.
        default client: VpnPlaceRaw = "ce1",
        /// Where the service is: `ce1`, `ce2`, `pe1` or `pe2`.
        default sut: VpnPlaceRaw = "pe2",
        /// Whether neighbours watch each other by BFD: `false`, `true` (a packet every 50 ms) or the time between two
        /// packets. A list makes a cell for each.
        default bfd: Many<BfdRaw> = "false",
        /// How soon routers notice and tell: `fast` or `standard`. A list makes a cell for each.
        default timers: Many<TimersRaw> = "fast",
        /// Rate of the core's links. A list makes a cell for each.
        optional core_rate: Many<BitRate>,
        /// How long each end of the core's links holds a packet back. A list makes a cell for each.
        optional core_delay: Many<Nanos>,
        /// Share of packets that each end of the core's links loses. A list makes a cell for each.
        optional core_loss: Many<Share>,
    }

    /// Options of `leaf-spine`.
    struct LeafSpineRaw = "`leaf-spine`" {
        /// Leaves, 2 to 8: the client is at the first, the service at the last. A list makes a cell for each.
        default leaves: Many<u32> = "2",
        /// Spines, 1 to 8, each joined to every leaf. A list makes a cell for each.
        default spines: Many<u32> = "2",
        /// Whether neighbours watch each other by BFD: `false`, `true` (a packet every 50 ms) or the time between two
        /// packets. A list makes a cell for each.
        default bfd: Many<BfdRaw> = "false",
        /// How soon routers notice and tell: `fast` or `standard`. A list makes a cell for each.
        default timers: Many<TimersRaw> = "fast",
        /// Rate of each link. A list makes a cell for each.
        optional link_rate: Many<BitRate>,
        /// How long each end of a link holds a packet back. A list makes a cell for each.
        optional link_delay: Many<Nanos>,
        /// Share of packets that each end of a link loses. A list makes a cell for each.
        optional link_loss: Many<Share>,
    }

    /// A topology that is written out.
    struct CustomRaw = "`custom`" {
        /// Routers: names, or mappings with more about them.
        required routers: Many<RouterRaw>,
        /// Links between routers.
        optional links: Many<LinkRaw>,
        /// The router at which the client is.
        required client: String,
        /// The router at which the service is.
        required sut: String,
        /// Whether neighbours watch each other by BFD: `false`, `true` (a packet every 50 ms) or the time between two
        /// packets.
        default bfd: BfdRaw = "false",
        /// How soon routers notice and tell: `fast` or `standard`.
        default timers: TimersRaw = "fast",
    }

    /// A router.
    struct RouterRaw = "a router", short [String; name] {
        /// Its name: 1 to 12 lower-case letters, digits and hyphens.
        required name: String,
        /// How it learns routes: `ospf` (area 0 on every link) or `bgp` (to the router at the other end of every link).
        default speaks: SpeaksRaw = "ospf",
        /// Number of its autonomous system, with `speaks: bgp`.
        optional system: u32,
        /// Its loopback address and router id, such as `10.0.0.1`; without it, one of 10.255.0.0/16.
        optional loopback: String,
        /// Whether it labels packets (LDP) on every link to another that does.
        default mpls: bool = "false",
    }

    /// A link.
    struct LinkRaw = "a link" {
        /// The two routers that it joins.
        required between: Many<String>,
        /// Addresses of its two ends, such as `[10.0.1.1/30, 10.0.1.2/30]`; without them, a network of 10.254.0.0/16.
        optional addresses: Many<String>,
        /// Rate of each end.
        optional rate: BitRate,
        /// How long each end holds a packet back.
        optional delay: Nanos,
        /// Share of packets that each end loses.
        optional loss: Share,
        /// Maximum transmission unit in bytes.
        default mtu: u32 = "1500",
        /// OSPF's cost at both ends; without it, 10.
        optional cost: u16,
    }
}

/// Whether neighbours watch each other by BFD.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BfdRaw(pub(crate) Bfd);

/// What that looks like, for messages and the schema.
const BFD: &str = "`true`, `false`, or the time between two packets such as `300ms`";

impl Decode for BfdRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        match scalar(node, BFD, report)? {
            "false" => Some(Self(Bfd::Off)),
            "true" => Some(Self(Bfd::USUAL)),
            text => {
                let Ok(interval) = text.parse() else {
                    report.error(node.span, format!("{} is not {BFD}", node.describe()));
                    return None;
                };
                let bfd = Bfd::every(interval).map(Self);
                bfd.map_err(|error| report.error(node.span, error.to_string())).ok()
            }
        }
    }
}

scalar_schema! { BfdRaw: "Bfd", ["boolean", "string"], BFD, [true, false, "300ms"] }

/// How a router learns routes, without its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpeaksWord {
    Ospf,
    Bgp,
}

words! {
    /// Where routers run.
    PlaceRaw(RouterHost) = "place", "places" {
        "auto": Auto, "On the host where its kernel has what the topology needs, else in a guest.";
        "host": Host, "On the host.";
        "guest": Guest, "In one guest of their own.";
    }
    /// What joins a customer's sites besides the VPN.
    BackdoorRaw(Backdoor) = "backdoor", "backdoors" {
        "sham-link": ShamLink, "A link that the VPN is preferred to.";
        "plain": Plain, "A link that OSPF always prefers.";
        "none": None, "Nothing.";
    }
    /// Where an end of the path is.
    VpnPlaceRaw(VpnPlace) = "router of `mpls-vpn`", "routers" {
        "ce1": Ce1, "The first site.";
        "ce2": Ce2, "The second site.";
        "pe1": Pe1, "The provider's edge at the first site, inside the customer's VRF.";
        "pe2": Pe2, "The provider's edge at the second site, inside the customer's VRF.";
    }
    /// How soon routers notice and tell.
    TimersRaw(Timers) = "kind of timers", "kinds" {
        "fast": Fast, "OSPF's dead interval 1 s, BGP 3 and 9 s, LDP's hellos 1 and 5 s, its sessions 5 and 15 s.";
        "standard": Standard, "The protocols' own: OSPF 10 and 40 s, BGP 60 and 180 s, LDP 5 and 15 s.";
    }
    /// How a router learns routes.
    SpeaksRaw(SpeaksWord) = "routing protocol", "protocols" {
        "ospf": Ospf, "OSPF in area 0 on every link.";
        "bgp": Bgp, "BGP to the router at the other end of every link.";
    }
}
