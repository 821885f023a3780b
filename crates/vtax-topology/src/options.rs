//! What a plan says about a routed path. Stored in runs, so names are forever.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use vtax_units::{BitRate, Nanos, Share};

use crate::address::Prefix;
use crate::bfd::Bfd;

/// Most routers of a topology that is written out in a plan.
pub const MOST_ROUTERS: usize = 64;
/// Most links of such a topology.
pub const MOST_LINKS: usize = 256;
/// Most P routers of `mpls-vpn`.
pub const MOST_CORE: u32 = 10;
/// Most customers of `mpls-vpn`.
pub const MOST_CUSTOMERS: u32 = 8;
/// Most routes that `mpls-vpn` carries besides its sites'.
pub const MOST_ROUTES: u32 = 10_000;
/// Most leaves, and most spines, of `leaf-spine`.
pub const MOST_OF_A_FABRIC: u32 = 8;

/// What a link does to packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wire {
    /// Rate of each end, where limited.
    pub rate: Option<BitRate>,
    /// How long each end holds a packet back, where it does.
    pub delay: Option<Nanos>,
    /// How many of a million packets each end loses, where it does.
    pub loss: Option<u32>,
}

impl Wire {
    /// Whether it holds packets back, or loses some.
    #[must_use]
    pub const fn is_emulated(&self) -> bool {
        self.delay.is_some() || self.loss.is_some()
    }

    /// For pictures: `10mbit, 5ms, 1% lost`; empty for a plain cable.
    #[must_use]
    pub fn words(&self) -> String {
        let rate = self.rate.map(|rate| rate.to_string());
        let delay = self.delay.map(|delay| delay.to_string());
        let loss = self.loss.map(|loss| format!("{} lost", Share(f64::from(loss) / 1e6)));
        rate.into_iter().chain(delay).chain(loss).collect::<Vec<_>>().join(", ")
    }
}

/// A path through routers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutedOptions {
    /// Which routers and links.
    pub topology: Choice,
    /// Where the routers run.
    #[serde(default)]
    pub place: RouterHost,
    /// Whether captures at both ends of every hop tell where packets spend their time. They take time of the routers'
    /// CPUs, so it is another path than one without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hops: bool,
}

/// Which topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// An MPLS layer-3 VPN: customers' edges, providers' edges and a core.
    MplsVpn(MplsVpn),
    /// A fabric of leaves and spines with equal-cost paths.
    LeafSpine(LeafSpine),
    /// Written out in the plan.
    Custom(Custom),
}

impl Choice {
    /// Its word in plans.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::MplsVpn(_) => "mpls-vpn",
            Self::LeafSpine(_) => "leaf-spine",
            Self::Custom(_) => "custom",
        }
    }
}

/// Where the routers run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouterHost {
    /// On the host where its kernel has what the topology needs, else in a guest; the trial says which.
    #[default]
    Auto,
    /// On the host.
    Host,
    /// In one guest of their own.
    Guest,
}

/// How soon routers notice and tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timers {
    /// As operators who care about convergence set them: OSPF's dead interval one second with four hellos in it,
    /// SPF after 10 ms, BGP 3 and 9 s, LDP's hellos 1 and 5 s, its sessions 5 and 15 s.
    #[default]
    Fast,
    /// The protocols' own: OSPF 10 and 40 s, BGP 60 and 180 s, LDP 5 and 15 s.
    Standard,
}

/// Options of `mpls-vpn`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MplsVpn {
    /// P routers in a row between the providers' edges, 1 to [`MOST_CORE`].
    pub core: u32,
    /// Customers, each with a VRF and two sites of its own, 1 to [`MOST_CUSTOMERS`]; the first is measured.
    pub customers: u32,
    /// Routes that the VPN carries besides its sites', at most [`MOST_ROUTES`].
    pub routes: u32,
    /// What joins the first customer's sites besides the VPN.
    pub backdoor: Backdoor,
    /// Where the client is.
    pub client: VpnPlace,
    /// Where the system under test is.
    pub sut: VpnPlace,
    /// Whether neighbours watch each other by BFD.
    pub bfd: Bfd,
    /// Timers of the routing protocols.
    pub timers: Timers,
    /// Rate of the links in the core, where limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_rate: Option<BitRate>,
    /// How long each end of these links holds a packet back, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_delay: Option<Nanos>,
    /// How many of a million packets each end of these links loses, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_loss: Option<u32>,
}

impl Default for MplsVpn {
    fn default() -> Self {
        Self {
            core: 1,
            customers: 1,
            routes: 0,
            backdoor: Backdoor::default(),
            client: VpnPlace::Ce1,
            sut: VpnPlace::Pe2,
            bfd: Bfd::Off,
            timers: Timers::default(),
            core_rate: None,
            core_delay: None,
            core_loss: None,
        }
    }
}

/// What joins a customer's sites besides the VPN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backdoor {
    /// A link between the sites, and a stand-in for OSPF's sham link that keeps it for when the VPN fails.
    #[default]
    ShamLink,
    /// The link alone, which OSPF then always prefers.
    Plain,
    /// None.
    None,
}

/// Where an end of the path is attached to `mpls-vpn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VpnPlace {
    /// The first site.
    Ce1,
    /// The second site.
    Ce2,
    /// The provider's edge at the first site, inside the customer's VRF.
    Pe1,
    /// The provider's edge at the second site, inside the customer's VRF.
    Pe2,
}

impl VpnPlace {
    /// The router.
    #[must_use]
    pub const fn router(self) -> &'static str {
        match self {
            Self::Ce1 => "ce1",
            Self::Ce2 => "ce2",
            Self::Pe1 => "pe1",
            Self::Pe2 => "pe2",
        }
    }
}

/// Options of `leaf-spine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafSpine {
    /// Leaves, 2 to [`MOST_OF_A_FABRIC`]: the client is at the first, the system under test at the last.
    pub leaves: u32,
    /// Spines, 1 to [`MOST_OF_A_FABRIC`], each joined to every leaf.
    pub spines: u32,
    /// Whether neighbours watch each other by BFD.
    pub bfd: Bfd,
    /// Timers of BGP.
    pub timers: Timers,
    /// Rate of each link, where limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_rate: Option<BitRate>,
    /// How long each end of a link holds a packet back, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_delay: Option<Nanos>,
    /// How many of a million packets each end of a link loses, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_loss: Option<u32>,
}

impl Default for LeafSpine {
    fn default() -> Self {
        Self {
            leaves: 2,
            spines: 2,
            bfd: Bfd::Off,
            timers: Timers::default(),
            link_rate: None,
            link_delay: None,
            link_loss: None,
        }
    }
}

/// A topology that is written out in the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Custom {
    /// Its routers, in the plan's order.
    pub routers: Vec<CustomRouter>,
    /// Its links, in the plan's order.
    pub links: Vec<CustomLink>,
    /// The router at which the client is.
    pub client: String,
    /// The router at which the system under test is.
    pub sut: String,
    /// Whether neighbours watch each other by BFD.
    pub bfd: Bfd,
    /// Timers of the routing protocols.
    pub timers: Timers,
}

/// A router of such a topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomRouter {
    /// Its name.
    pub name: String,
    /// Its loopback address, which is also its router id; `None`: one of 10.255.0.0/16 by its place in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback: Option<Ipv4Addr>,
    /// What it speaks.
    pub speaks: Speaks,
    /// Whether it labels packets (LDP) on every link to another that does.
    #[serde(default)]
    pub mpls: bool,
}

/// How a router learns routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaks {
    /// OSPF in area 0 on every link.
    Ospf,
    /// BGP to the router at the other end of every link, with this number of its autonomous system.
    Bgp(u32),
}

/// A link of such a topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomLink {
    /// The routers at its ends.
    pub between: [String; 2],
    /// Addresses of its ends; `None`: a /30 of 10.254.0.0/16 by its place in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<[Prefix; 2]>,
    /// Rate of each end, where limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// How long each end holds a packet back, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// How many of a million packets each end loses, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<u32>,
    /// MTU of both ends in bytes.
    pub mtu: u32,
    /// OSPF's cost at both ends; `None`: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u16>,
}
