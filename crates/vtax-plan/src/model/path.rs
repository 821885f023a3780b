//! The network between client and system under test.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use vtax_topology::RoutedOptions;
use vtax_units::random::SplitMix64;
use vtax_units::{BitRate, Nanos, Share};

use super::environment::EnvironmentKind;

/// The most network cards that a system has.
pub const MOST_CARDS: u32 = 8;

/// MTU of Ethernet in bytes.
pub const ETHERNET_MTU: u32 = 1500;

/// The network between client and system under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetPath {
    /// Name in the plan.
    pub name: String,
    /// The kind, with its options.
    pub kind: PathKind,
    /// Rate of the emulated wire at each port, preamble and gaps included, where limited.
    pub rate: Option<BitRate>,
    /// Whose wires have the rate, where several systems are at the far end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wires: Wiring,
    /// Network cards of each system at the far end.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cards: NonZeroU32,
    /// Maximum transmission unit of every interface on the path, in bytes.
    pub mtu: u32,
    /// Time a frame is held back in each direction, beside what the path takes anyway.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay: Nanos,
    /// Share of frames lost in each direction, each independently of the others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loss: Share,
    /// The longest a frame waits for its turn at a port with a rate; `None`: 10 ms.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue: Option<Nanos>,
    /// MTU of the system under test's own interface, where it differs: a mismatch made on purpose.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sut_mtu: Option<u32>,
    /// Whether interfaces may leave segmentation and checksums to others.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub offloads: bool,
    /// Who gives the systems under test their addresses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub addresses: Addressing,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_one(value: &NonZeroU32) -> bool {
    value.get() == 1
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_yes(value: &bool) -> bool {
    *value
}

impl NetPath {
    /// A path as fast as the host can, with Ethernet's MTU.
    pub fn new(name: impl Into<String>, kind: PathKind) -> Self {
        Self {
            name: name.into(),
            kind,
            rate: None,
            wires: Wiring::Shared,
            cards: one(),
            mtu: ETHERNET_MTU,
            delay: Nanos::ZERO,
            loss: Share(0.0),
            queue: None,
            sut_mtu: None,
            offloads: true,
            addresses: Addressing::Static,
        }
    }

    /// MTU of the ends in bytes, where a tunnel takes its part.
    #[must_use]
    pub const fn inner_mtu(&self) -> u32 {
        self.mtu.saturating_sub(self.kind.overhead())
    }

    /// Whether packets are delayed or lost on purpose.
    #[must_use]
    pub fn has_wire(&self) -> bool {
        self.delay > Nanos::ZERO || self.loss.0 > 0.0
    }

    /// Whether a wire is emulated, which then has to prove itself before it is used.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.rate.is_some() || self.has_wire()
    }
}

/// The kinds of path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// One virtual cable; a VM's tap is bridged to its end.
    Direct,
    /// Both ends on a software bridge. With a rate of 1 Gbit/s, `gigabit`.
    Bridge,
    /// Both ends on Open vSwitch.
    Ovs(OvsOptions),
    /// Both ends on an Open vSwitch that an OpenFlow controller steers.
    Sdn(SdnOptions),
    /// The client behind an emulated physical switch, the system under test a virtual machine on a
    /// virtual switch behind it. The rate is that of the physical switch's ports.
    Bridged(VirtualSwitch),
    /// The client a virtual machine as well, both on one virtual switch.
    VmVm(VirtualSwitch),
    /// Two hosts and a switch of Mininet's.
    Mininet(MininetSwitch),
    /// A real interface to a remote host, where the agent is started over ssh.
    Nic(NicOptions),
    /// Routers between client and system under test.
    Routed(Box<RoutedOptions>),
    /// Systems behind a host that publishes them: it translates addresses, as container engines have it do.
    Nat(NatOptions),
    /// The client on one host's bridge and the systems on another's, joined by a VXLAN tunnel.
    Vxlan,
    /// Systems whose interfaces share the host's card, which the client is on the other end of.
    Shared(CardSharing),
    /// A network in user space, as containers without root have it: a process passes on what one port of its host gets.
    Rootless(UserNetwork),
    /// A WireGuard tunnel between two hosts, an end of which is the only interface of each side.
    Wireguard,
}

impl PathKind {
    /// The word in plans. A `gigabit` is a `bridge` with a rate.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Bridge => "bridge",
            Self::Ovs(_) => "ovs",
            Self::Sdn(_) => "sdn",
            Self::Bridged(_) => "bridged",
            Self::VmVm(_) => "vm-vm",
            Self::Mininet(_) => "mininet",
            Self::Nic(_) => "nic",
            Self::Routed(_) => "routed",
            Self::Nat(_) => "nat",
            Self::Vxlan => "vxlan",
            Self::Shared(sharing) => sharing.word(),
            Self::Rootless(network) => network.word(),
            Self::Wireguard => "wireguard",
        }
    }

    /// Bytes of each packet that a tunnel takes: so much smaller is what its ends may send than what its network carries.
    #[must_use]
    pub const fn overhead(&self) -> u32 {
        match self {
            // IPv4, UDP, VXLAN (RFC 7348, section 5) and the Ethernet header inside.
            Self::Vxlan => 20 + 8 + 8 + 14,
            // IPv6, UDP and WireGuard's own (its paper, section 5.4.6), as wg-quick(8) reckons whatever carries it.
            Self::Wireguard => 40 + 8 + 32,
            Self::Direct
            | Self::Bridge
            | Self::Ovs(_)
            | Self::Sdn(_)
            | Self::Bridged(_)
            | Self::VmVm(_)
            | Self::Mininet(_)
            | Self::Nic(_)
            | Self::Routed(_)
            | Self::Nat(_)
            | Self::Shared(_)
            | Self::Rootless(_) => 0,
        }
    }

    /// Whether the client meets systems at another address than they know of.
    #[must_use]
    pub const fn translates(&self) -> bool {
        matches!(self, Self::Nat(_) | Self::Rootless(_))
    }

    /// Whether the client may be a virtual machine on it.
    #[must_use]
    pub const fn takes_guest_client(&self) -> bool {
        !matches!(
            self,
            Self::Mininet(_)
                | Self::Nic(_)
                | Self::Nat(_)
                | Self::Vxlan
                | Self::Shared(_)
                | Self::Rootless(_)
                | Self::Wireguard
        )
    }

    /// Whether several systems under test can be at its far end.
    #[must_use]
    pub const fn joins_several(&self) -> bool {
        match self {
            Self::Bridge
            | Self::Ovs(_)
            | Self::Sdn(_)
            | Self::Bridged(_)
            | Self::VmVm(_)
            | Self::Nat(_)
            | Self::Vxlan
            | Self::Shared(_) => true,
            Self::Direct
            | Self::Mininet(_)
            | Self::Nic(_)
            | Self::Routed(_)
            | Self::Rootless(_)
            | Self::Wireguard => false,
        }
    }

    /// Whether an environment can be at the far end of such a path; combinations that can't make no cell.
    #[must_use]
    pub const fn suits(&self, environment: &EnvironmentKind) -> bool {
        match self {
            Self::Direct | Self::Bridge => true,
            // Cards of protected guests are plugged into the kernel's bridge, now this one, now that.
            Self::Bridged(VirtualSwitch::Bridge) => matches!(environment, EnvironmentKind::Vm(_)),
            _ if environment.is_pair() => false,
            Self::Ovs(_) | Self::Sdn(_) | Self::Routed(_) | Self::Nat(_) | Self::Vxlan => true,
            Self::Bridged(_) | Self::VmVm(_) => matches!(environment, EnvironmentKind::Vm(_)),
            Self::Shared(_) | Self::Rootless(_) | Self::Wireguard => {
                matches!(environment, EnvironmentKind::Native | EnvironmentKind::Container)
            }
            Self::Mininet(_) | Self::Nic(_) => matches!(environment, EnvironmentKind::Native),
        }
    }

    /// Whether two testbeds can have such a path at the same time. Two Open vSwitches of one network would
    /// share their datapath, and a remote host has one port for the service.
    #[must_use]
    pub const fn may_stand_twice(&self) -> bool {
        self.ovs().is_none() && !matches!(self, Self::Nic(_))
    }

    /// Hosts that the load comes from, where these are others than this one.
    #[must_use]
    pub fn generators(&self) -> &[String] {
        match self {
            Self::Nic(nic) => &nic.generators,
            _ => &[],
        }
    }

    /// As it is in this round of a plan with this seed: roles of hosts may be drawn anew.
    #[must_use]
    pub fn in_round(&self, seed: u64, round: u32) -> Self {
        match self {
            Self::Nic(nic) => Self::Nic(nic.in_round(seed, round)),
            other => other.clone(),
        }
    }

    /// As it is on hosts that were given, in their order, each with what other hosts call it.
    #[must_use]
    pub fn on_hosts(&self, names: &[(&str, &str)]) -> Self {
        match self {
            Self::Nic(nic) => Self::Nic(nic.on_hosts(names)),
            other => other.clone(),
        }
    }

    /// How many hosts it is to be given; 0 where it names its own, or needs none.
    #[must_use]
    pub fn hosts_asked(&self) -> usize {
        match self {
            Self::Nic(nic) if nic.given => nic.hosts().count(),
            _ => 0,
        }
    }

    /// Whether the client is a virtual machine too.
    #[must_use]
    pub const fn has_client_vm(&self) -> bool {
        matches!(self, Self::VmVm(_))
    }

    /// The routers on the path, where there are any.
    #[must_use]
    pub fn routed(&self) -> Option<&RoutedOptions> {
        match self {
            Self::Routed(options) => Some(options),
            _ => None,
        }
    }

    /// The Open vSwitch on the path, where there is one of vtax's own.
    #[must_use]
    pub const fn ovs(&self) -> Option<OvsOptions> {
        match self {
            Self::Ovs(ovs) | Self::Sdn(SdnOptions { ovs, .. }) => Some(*ovs),
            Self::Bridged(VirtualSwitch::Ovs) | Self::VmVm(VirtualSwitch::Ovs) => {
                Some(OvsOptions { datapath: Datapath::Auto })
            }
            _ => None,
        }
    }
}

/// Whose wires have a path's rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// One to the client, which all systems share: a card of the host's for all.
    #[default]
    Shared,
    /// One to each system, and none to the client: a card of the host's for each.
    Own,
}

/// Who gives systems under test their addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addressing {
    /// The testbed.
    #[default]
    Static,
    /// A DHCP server on their switch: the lease is part of the time until a system is up.
    Dhcp,
}

/// The switch that virtual machines are plugged into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VirtualSwitch {
    /// The kernel's software bridge.
    #[default]
    Bridge,
    /// Open vSwitch, in the kernel where it has the module.
    Ovs,
}

/// Options of Open vSwitch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OvsOptions {
    /// Where packets are forwarded.
    pub datapath: Datapath,
}

/// Where Open vSwitch forwards packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Datapath {
    /// In the kernel where it has the module, else in user space; the trial says which.
    #[default]
    Auto,
    /// In the kernel (module `openvswitch`).
    Kernel,
    /// In the switch's own process.
    User,
}

/// Options of a path with an OpenFlow controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SdnOptions {
    /// The switch.
    pub ovs: OvsOptions,
    /// Which controller.
    pub controller: Controller,
    /// What it does with a packet it is asked about.
    pub mode: SdnMode,
    /// What the switch does when its controller is gone.
    pub when_lost: WhenLost,
}

/// OpenFlow controllers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// `ovs-testcontroller`, in C.
    #[default]
    Testcontroller,
    /// os-ken, in Python, with a learning switch of vtax's own.
    OsKen,
}

/// What a controller does with a packet it is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SdnMode {
    /// It learns who is where and installs a flow, so that the next packets pass by themselves.
    #[default]
    Reactive,
    /// It sends this one on and will be asked about the next as well.
    EveryPacket,
}

/// What a switch does when its controller is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenLost {
    /// It keeps the flows it has and sets up no new ones.
    #[default]
    Secure,
    /// It becomes a plain learning switch.
    Standalone,
}

/// The switch between Mininet's two hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MininetSwitch {
    /// Mininet's `LinuxBridge`.
    #[default]
    LinuxBridge,
    /// Mininet's `OVSSwitch` with the user space datapath.
    OvsUser,
}

/// How systems' interfaces share a card of their host's, as containers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardSharing {
    /// Each has a MAC address of its own.
    Macvlan,
    /// All have the card's MAC address, and are told apart by their IP addresses.
    Ipvlan,
}

impl CardSharing {
    /// The word in plans, which is the kernel's.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
        }
    }
}

/// Networks in user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserNetwork {
    /// pasta, of the package passt: Podman's.
    Pasta,
    /// slirp4netns: Podman's before, and that of rootless Docker.
    Slirp4netns,
}

impl UserNetwork {
    /// The MTU that container engines give a system on it, in bytes.
    pub const MTU: u32 = 65_520;

    /// The word in plans, which is the program's name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pasta => "pasta",
            Self::Slirp4netns => "slirp4netns",
        }
    }
}

/// How systems are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatOptions {
    /// Whether the systems see the host's address in place of the client's.
    pub masquerade: bool,
}

/// A remote host and the way there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicOptions {
    /// Where ssh connects to: `user@host` or a name of `~/.ssh/config`.
    pub host: String,
    /// Address or name of the remote host on the network to be measured; `{host}` in it stands for its name where that isn't known yet.
    pub address: String,
    /// Interface of this host that leads there; `None`: the route says.
    pub interface: Option<String>,
    /// Where vtax is on the remote hosts; `None`: this program is copied there.
    pub vtax: Option<String>,
    /// Hosts that the load comes from, each with an equal part of it, as ssh connects to them; none: it comes from this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<String>,
    /// Whether each round draws anew which of all these hosts has the service; the others make the load then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draw: bool,
    /// Whether the hosts are those that `vtax run --on` gives; they are then called `host-1`, `host-2` and so on here, by their places.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,
}

/// Begins what given hosts are called before they are.
const PLACE: &str = "host-";

impl NicOptions {
    /// Stands for a host's name in an address.
    pub(crate) const HOST: &str = "{host}";

    /// All hosts: the service's, then the generators.
    pub fn hosts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.host).chain(&self.generators)
    }

    /// These hosts with roles as they are drawn for this round of a plan with this seed. In as many rounds as there are hosts each
    /// has the service once, in an order of chance.
    #[must_use]
    pub fn in_round(&self, seed: u64, round: u32) -> Self {
        let hosts: Vec<&String> = self.hosts().collect();
        let count = u32::try_from(hosts.len()).unwrap_or(1).max(1);
        if !self.draw || count == 1 {
            return self.clone();
        }
        // As many rounds as there are hosts have an order of their own: any odd factor would do.
        let mut random = SplitMix64::new(seed ^ u64::from(round / count).wrapping_mul(0xA24B_AED4_963E_E407));
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        for last in (1..order.len()).rev() {
            let other = random.bits() % (last as u64 + 1);
            order.swap(last, usize::try_from(other).unwrap_or(last));
        }
        let service = order[(round % count) as usize];
        let others = hosts.iter().enumerate().filter(|(number, _)| *number != service);
        let (host, generators) = (hosts[service].clone(), others.map(|(_, host)| (*host).clone()).collect());
        // Of one that isn't given yet only its place is known.
        let address = if self.given { self.address.clone() } else { self.address_of(&host) };
        Self { address, host, generators, ..self.clone() }
    }

    /// What so many given hosts are called before they are.
    pub(crate) fn places(count: u32) -> impl Iterator<Item = String> {
        (1..=count).map(|number| format!("{PLACE}{number}"))
    }

    /// These options with hosts that were given, in their order, each with what other hosts call it. A place for which there is
    /// none stays as it is, and so does what is on its hosts already.
    #[must_use]
    pub fn on_hosts(&self, names: &[(&str, &str)]) -> Self {
        if !self.given {
            return self.clone();
        }
        let given = |place: &String| {
            let number = place.strip_prefix(PLACE).and_then(|number| number.parse::<usize>().ok());
            number.and_then(|number| names.get(number.checked_sub(1)?)).copied()
        };
        let named = |place: &String| given(place).map_or_else(|| place.clone(), |(name, _)| name.to_owned());
        // What is on its hosts already has the address that one of them is known by.
        let address =
            given(&self.host).map_or_else(|| self.address.clone(), |(_, network)| self.address_of(network));
        let generators = self.generators.iter().map(named).collect();
        Self { address, host: named(&self.host), generators, ..self.clone() }
    }

    /// The address of any of the hosts.
    fn address_of(&self, host: &str) -> String {
        let name = host.rsplit('@').next().unwrap_or_default();
        if self.address.contains(Self::HOST) {
            self.address.replace(Self::HOST, name)
        } else {
            name.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_topology::options::{Choice, LeafSpine, MplsVpn, RouterHost};

    use super::*;

    #[test]
    fn runs_of_older_versions_are_still_read() {
        let old = r#"{"name":"gigabit","kind":"bridge","rate":"984400kbit","mtu":1500}"#;
        let path: NetPath = serde_json::from_str(old).unwrap();
        let rate = Some(BitRate(984_400_000));
        assert_eq!(path, NetPath { rate, ..NetPath::new("gigabit", PathKind::Bridge) });
        assert_eq!(serde_json::to_string(&path).unwrap(), old, "and what is plain is written as it was");
        let own = NetPath { wires: Wiring::Own, ..path };
        let text = serde_json::to_string(&own).unwrap();
        assert!(text.contains(r#""wires":"own""#), "{text}");
        assert_eq!(serde_json::from_str::<NetPath>(&text).unwrap(), own);
    }

    #[test]
    fn every_kind_survives_being_stored() {
        let nic = NicOptions {
            host: "a@b".into(),
            address: "192.0.2.1".into(),
            interface: None,
            vtax: Some("/opt/vtax".into()),
            generators: vec!["g1".into(), "root@g2".into()],
            draw: true,
            given: false,
        };
        let kinds = [
            PathKind::Direct,
            PathKind::Ovs(OvsOptions { datapath: Datapath::User }),
            PathKind::Sdn(SdnOptions::default()),
            PathKind::Bridged(VirtualSwitch::Bridge),
            PathKind::VmVm(VirtualSwitch::Ovs),
            PathKind::Mininet(MininetSwitch::OvsUser),
            PathKind::Nic(nic),
            PathKind::Nat(NatOptions { masquerade: true }),
            PathKind::Vxlan,
            PathKind::Wireguard,
            PathKind::Rootless(UserNetwork::Pasta),
            PathKind::Rootless(UserNetwork::Slirp4netns),
            PathKind::Shared(CardSharing::Macvlan),
            PathKind::Shared(CardSharing::Ipvlan),
            PathKind::Routed(Box::new(RoutedOptions {
                topology: Choice::MplsVpn(MplsVpn {
                    core_rate: Some(BitRate(10_000_000)),
                    ..MplsVpn::default()
                }),
                place: RouterHost::Guest,
                hops: true,
            })),
            PathKind::Routed(Box::new(RoutedOptions {
                topology: Choice::LeafSpine(LeafSpine::default()),
                place: RouterHost::Auto,
                hops: false,
            })),
        ];
        for kind in kinds {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(serde_json::from_str::<PathKind>(&text).unwrap(), kind, "{text}");
        }
    }
}
