//! Paths as written.

use vtax_units::{BitRate, Nanos, Share};

use super::routed::{PlaceRaw, TopologyRaw};
use crate::decode::Many;
use crate::model;
use crate::source::Spanned;

/// Declares the options of kinds of path: those that every path of vtax's own has, and more. `wires`
/// says what the rate is where none is given.
macro_rules! paths {
    ($(
        $(#[doc = $doc:literal])*
        struct $name:ident = $title:literal, rate $mode:ident $(= $rate:literal)? {
            $( $(#[doc = $field_doc:literal])* default $field:ident: $type:ty = $default:literal, )*
        }
    )*) => { raw! { $(
        $(#[doc = $doc])*
        struct $name = $title {
            /// Name in reports; without it, the kind's.
            optional name: String,
            $( $(#[doc = $field_doc])* default $field: $type = $default, )*
            /// Rate of the emulated wire at each port, preamble and gaps included. A list makes a cell for each.
            $mode rate: Many<BitRate> $(= $rate)?,
            /// Time a packet is held back in each direction. A list makes a cell for each.
            optional delay: Many<Nanos>,
            /// Share of packets lost in each direction. A list makes a cell for each.
            optional loss: Many<Share>,
            /// The longest a packet waits at a port with a rate before packets are dropped; without
            /// it, 10 ms. A list makes a cell for each.
            optional queue: Many<Nanos>,
            /// Maximum transmission unit in bytes. A list makes a cell for each.
            default mtu: Many<u32> = "1500",
            /// MTU of the service's own interface, where it is to differ.
            optional sut_mtu: u32,
            /// Whether interfaces may leave segmentation and checksums to others. A list makes a
            /// cell for each.
            default offloads: Many<bool> = "true",
        }
    )* } };
}

paths! {
    /// Options of `direct`.
    struct DirectRaw = "`direct`", rate optional {}

    /// Options of `bridge`.
    struct BridgeRaw = "`bridge`", rate optional {
        /// Whose wires have the rate where there are several systems: one that all share (`shared`), or one to each (`own`). A list
        /// makes a cell for each.
        default wires: Many<WiringRaw> = "shared",
        /// Network cards of each system, which share its connections. A list makes a cell for each.
        default cards: Many<u32> = "1",
        /// Who gives the systems their addresses: `static` (the testbed) or `dhcp` (a DHCP server on their switch). A list makes a
        /// cell for each.
        default addresses: Many<AddressingRaw> = "static",
    }

    /// Options of `gigabit`.
    struct GigabitRaw = "`gigabit`", rate default = "1gbit" {
        /// Whose wires have the rate where there are several systems: one that all share (`shared`), or one to each (`own`). A list
        /// makes a cell for each.
        default wires: Many<WiringRaw> = "shared",
        /// Network cards of each system, which share its connections. A list makes a cell for each.
        default cards: Many<u32> = "1",
        /// Who gives the systems their addresses: `static` (the testbed) or `dhcp` (a DHCP server on their switch). A list makes a
        /// cell for each.
        default addresses: Many<AddressingRaw> = "static",
    }

    /// Options of `ovs`.
    struct OvsRaw = "`ovs`", rate optional {
        /// Whose wires have the rate where there are several systems: one that all share (`shared`), or one to each (`own`). A list
        /// makes a cell for each.
        default wires: Many<WiringRaw> = "shared",
        /// Network cards of each system, which share its connections. A list makes a cell for each.
        default cards: Many<u32> = "1",
        /// Where packets are forwarded: `auto`, `kernel` or `user`. A list makes a cell for each.
        default datapath: Many<DatapathRaw> = "auto",
        /// Who gives the systems their addresses: `static` (the testbed) or `dhcp` (a DHCP server on their switch). A list makes a
        /// cell for each.
        default addresses: Many<AddressingRaw> = "static",
    }

    /// Options of `sdn`.
    struct SdnRaw = "`sdn`", rate optional {
        /// Where packets are forwarded: `auto`, `kernel` or `user`. A list makes a cell for each.
        default datapath: Many<DatapathRaw> = "auto",
        /// `testcontroller` or `os-ken`. A list makes a cell for each.
        default controller: Many<ControllerRaw> = "testcontroller",
        /// `reactive` (the controller installs flows) or `every-packet` (it is asked about each). A
        /// list makes a cell for each.
        default mode: Many<SdnModeRaw> = "reactive",
        /// What the switch does when its controller is gone: `secure` or `standalone`.
        default when_lost: WhenLostRaw = "secure",
        /// Who gives the systems their addresses: `static` (the testbed) or `dhcp` (a DHCP server on their switch). A list makes a
        /// cell for each.
        default addresses: Many<AddressingRaw> = "static",
    }

    /// Options of `bridged`.
    struct BridgedRaw = "`bridged`", rate default = "1gbit" {
        /// Whose wires have the rate where there are several systems: one that all share (`shared`), or one to each (`own`). A list
        /// makes a cell for each.
        default wires: Many<WiringRaw> = "shared",
        /// Network cards of each system, which share its connections. A list makes a cell for each.
        default cards: Many<u32> = "1",
        /// The virtual switch behind the emulated one: `bridge` or `ovs`. A list makes a cell for each.
        default switch: Many<VirtualSwitchRaw> = "bridge",
        /// Who gives the systems their addresses: `static` (the testbed) or `dhcp` (a DHCP server on their switch). A list makes a
        /// cell for each.
        default addresses: Many<AddressingRaw> = "static",
    }

    /// Options of `routed`.
    struct RoutedRaw = "`routed`", rate optional {
        /// Routers and links: `mpls-vpn`, `leaf-spine`, each with options, or `custom`.
        default topology: TopologyRaw = "mpls-vpn",
        /// Where the routers run: `auto`, `host` or `guest`. A list makes a cell for each.
        default place: Many<PlaceRaw> = "auto",
        /// Whether captures at both ends of every hop tell where packets spend their time. A list makes a cell for each.
        default hops: Many<bool> = "false",
    }

    /// Options of `nat`.
    struct NatRaw = "`nat`", rate optional {
        /// Whose wires have the rate where there are several systems: one that all share (`shared`), or one to each (`own`). A list
        /// makes a cell for each.
        default wires: Many<WiringRaw> = "shared",
        /// Whether the service sees the host's address in place of the client's. A list makes a cell for each.
        default masquerade: Many<bool> = "false",
    }

    /// Options of `vxlan`. The MTU is that of the network that carries the tunnel.
    struct VxlanRaw = "`vxlan`", rate optional {
        /// Whose wires have the rate where there are several systems: one that all share (`shared`), or one to each (`own`). A list
        /// makes a cell for each.
        default wires: Many<WiringRaw> = "shared",
    }

    /// Options of `macvlan`.
    struct MacvlanRaw = "`macvlan`", rate optional {}

    /// Options of `ipvlan`.
    struct IpvlanRaw = "`ipvlan`", rate optional {}

    /// Options of `pasta`. Without `sut_mtu`, the service's own interface has 65520, as container engines give it.
    struct PastaRaw = "`pasta`", rate optional {}

    /// Options of `slirp4netns`. Without `sut_mtu`, the service's own interface has 65520, as container engines give it.
    struct Slirp4netnsRaw = "`slirp4netns`", rate optional {}

    /// Options of `vm-vm`.
    struct VmVmRaw = "`vm-vm`", rate optional {
        /// The switch of both: `bridge` or `ovs`. A list makes a cell for each.
        default switch: Many<VirtualSwitchRaw> = "bridge",
        /// Who gives the systems their addresses: `static` (the testbed) or `dhcp` (a DHCP server on their switch). A list makes a
        /// cell for each.
        default addresses: Many<AddressingRaw> = "static",
    }
}

raw! {
    /// Options of `mininet`.
    struct MininetRaw = "`mininet`" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// The switch between the hosts: `linux-bridge` or `ovs-user`. A list makes a cell for each.
        default switch: Many<MininetSwitchRaw> = "linux-bridge",
        /// Maximum transmission unit in bytes. A list makes a cell for each.
        default mtu: Many<u32> = "1500",
    }

    /// Options of `wireguard`.
    struct WireguardRaw = "`wireguard`" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// Maximum transmission unit, in bytes, of the network that carries the tunnel. A list makes a cell for each.
        default mtu: Many<u32> = "1500",
    }

    /// Options of `nic`.
    struct NicRaw = "`nic`" {
        /// Name in reports; without it, the kind's.
        optional name: String,
        /// Where ssh connects to: `user@host` or a name of `~/.ssh/config`.
        optional host: String,
        /// So many hosts of those that `vtax run --on` gives, in place of `host` and `generators`: the first has the service, the others
        /// make the load.
        optional hosts: u32,
        /// Address or name of the remote host on the network to be measured, in which `{host}` stands for the host's name; without it,
        /// the host's.
        optional address: String,
        /// Interface of this host that leads there; without it, what the route says.
        optional interface: String,
        /// Where vtax is on the remote hosts; without it, this program is copied there for the time
        /// of the trial.
        optional vtax: String,
        /// Hosts that the load comes from, each with an equal part of it, as ssh connects to them; without it, it comes from
        /// this host.
        optional generators: Many<String>,
        /// Whether each round draws anew which of all these hosts has the service; the others make the load then.
        default draw: bool = "false",
    }
}

words! {
    /// Whose wires have a path's rate.
    WiringRaw(model::Wiring) = "choice", "choices" {
        "shared": Shared, "One to the client, which all systems share.";
        "own": Own, "One to each system; the client's side has no limit.";
    }
    /// Who gives systems under test their addresses.
    AddressingRaw(model::Addressing) = "choice", "choices" {
        "static": Static, "The testbed.";
        "dhcp": Dhcp, "A DHCP server on their switch.";
    }
    /// Where Open vSwitch forwards packets.
    DatapathRaw(model::Datapath) = "datapath", "datapaths" {
        "auto": Auto, "In the kernel where it has the module, else in user space.";
        "kernel": Kernel, "In the kernel (module `openvswitch`).";
        "user": User, "In the switch's own process.";
    }
    /// OpenFlow controller.
    ControllerRaw(model::Controller) = "controller", "controllers" {
        "testcontroller": Testcontroller, "`ovs-testcontroller`, in C.";
        "os-ken": OsKen, "os-ken, in Python, with a learning switch of vtax's own.";
    }
    /// What a controller does with a packet it is asked about.
    SdnModeRaw(model::SdnMode) = "mode", "modes" {
        "reactive": Reactive, "It installs a flow, so that the next packets pass by themselves.";
        "every-packet": EveryPacket, "It sends this one on and will be asked about the next as well.";
    }
    /// What a switch does when its controller is gone.
    WhenLostRaw(model::WhenLost) = "choice", "choices" {
        "secure": Secure, "It keeps the flows it has and sets up no new ones.";
        "standalone": Standalone, "It becomes a plain learning switch.";
    }
    /// The switch that virtual machines are plugged into.
    VirtualSwitchRaw(model::VirtualSwitch) = "virtual switch", "switches" {
        "bridge": Bridge, "The kernel's software bridge.";
        "ovs": Ovs, "Open vSwitch.";
    }
    /// The switch between Mininet's hosts.
    MininetSwitchRaw(model::MininetSwitch) = "switch of Mininet's", "switches" {
        "linux-bridge": LinuxBridge, "Mininet's `LinuxBridge`.";
        "ovs-user": OvsUser, "Mininet's `OVSSwitch` with the user space datapath.";
    }
}
