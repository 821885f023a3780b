//! Paths in words, and what they need.

use std::collections::BTreeSet;

use vtax_topology::RoutedOptions;
use vtax_topology::bfd::Bfd;
use vtax_topology::options::{Backdoor, Choice, RouterHost};
use vtax_units::{Nanos, counted};

use super::requirement::Requirement;
use crate::model::{
    Addressing, CardSharing, Controller, Datapath, ETHERNET_MTU, MininetSwitch, NatOptions, NetPath,
    NicOptions, PathKind, SdnMode, SdnOptions, UserNetwork, VirtualSwitch, Wiring,
};

/// What a path needs of the host.
pub(super) fn require(path: &NetPath, needed: &mut BTreeSet<Requirement>) {
    if path.rate.is_some() {
        needed.insert(Requirement::Tbf);
    }
    if path.addresses == Addressing::Dhcp {
        needed.insert(Requirement::Dhcp);
    }
    if path.kind.ovs().is_some() {
        needed.insert(Requirement::OpenVSwitch);
    }
    match &path.kind {
        PathKind::Sdn(SdnOptions { controller: Controller::Testcontroller, .. }) => {
            needed.insert(Requirement::Testcontroller);
        }
        PathKind::Sdn(SdnOptions { controller: Controller::OsKen, .. }) => {
            needed.insert(Requirement::OsKen);
        }
        PathKind::Mininet(_) => {
            needed.insert(Requirement::Mininet);
        }
        PathKind::Nic(nic) if !nic.given => {
            needed.insert(Requirement::Ssh);
        }
        PathKind::Routed(options) => {
            needed.insert(Requirement::Routers);
            match options.place {
                RouterHost::Host => {}
                RouterHost::Auto | RouterHost::Guest => needed.extend([Requirement::Vm, Requirement::Kvm]),
            }
        }
        PathKind::Nat(_) => {
            needed.insert(Requirement::Nat);
        }
        PathKind::Shared(CardSharing::Macvlan) => {
            needed.insert(Requirement::Macvlan);
        }
        PathKind::Shared(CardSharing::Ipvlan) => {
            needed.insert(Requirement::Ipvlan);
        }
        PathKind::Rootless(UserNetwork::Pasta) => {
            needed.insert(Requirement::Pasta);
        }
        PathKind::Rootless(UserNetwork::Slirp4netns) => {
            needed.insert(Requirement::Slirp4netns);
        }
        PathKind::Wireguard => {
            needed.insert(Requirement::Wireguard);
        }
        PathKind::Vxlan => {
            needed.insert(Requirement::Vxlan);
        }
        PathKind::Direct
        | PathKind::Bridge
        | PathKind::Ovs(_)
        | PathKind::Bridged(_)
        | PathKind::VmVm(_)
        | PathKind::Nic(_) => {}
    }
}

/// The real network.
fn nic(options: &NicOptions) -> String {
    let count = options.hosts().count();
    let hosts = match options.given {
        true => format!("{count} hosts that --on gives"),
        false => options.hosts().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    if options.draw {
        return format!("network between {hosts}; each round draws which of them has the service");
    }
    if options.given {
        return format!("network between {hosts}; the first has the service, the others make the load");
    }
    let mut text = format!("network to {} (agent by ssh {})", options.address, options.host);
    if !options.generators.is_empty() {
        text += &format!(", load from {}", options.generators.join(", "));
    }
    text
}

/// Paths that users of containers meet.
fn of_containers(path: &NetPath) -> String {
    match &path.kind {
        PathKind::Nat(NatOptions { masquerade: true }) => {
            "published by NAT (nftables), clients hidden behind the host's address".to_owned()
        }
        PathKind::Nat(NatOptions { masquerade: false }) => "published by NAT (nftables)".to_owned(),
        PathKind::Rootless(network) => format!("published by {}, in user space", network.word()),
        PathKind::Vxlan => format!("bridges of two hosts, joined by VXLAN, MTU {} inside", path.inner_mtu()),
        PathKind::Wireguard => format!("WireGuard between two hosts, MTU {} inside", path.inner_mtu()),
        PathKind::Shared(sharing) => format!("the host's card, shared by {}", sharing.word()),
        other => other.word().to_owned(),
    }
}

/// What a kind of path is made of.
fn made_of(path: &NetPath) -> String {
    let ovs = |datapath: Datapath| match datapath {
        Datapath::Auto => "Open vSwitch",
        Datapath::Kernel => "Open vSwitch in the kernel",
        Datapath::User => "Open vSwitch in user space",
    };
    let virtual_switch = |switch: VirtualSwitch| match switch {
        VirtualSwitch::Bridge => "software bridge",
        VirtualSwitch::Ovs => "Open vSwitch",
    };
    match &path.kind {
        PathKind::Direct => "one virtual cable".to_owned(),
        PathKind::Bridge => "software bridge".to_owned(),
        PathKind::Ovs(options) => ovs(options.datapath).to_owned(),
        PathKind::Sdn(options) => {
            format!("{} with {}", ovs(options.ovs.datapath), controller(options))
        }
        PathKind::Bridged(switch) => {
            format!("emulated switch, behind it a {} with the virtual machine", virtual_switch(*switch))
        }
        PathKind::VmVm(switch) => {
            format!("client and service on one {}, both virtual machines", virtual_switch(*switch))
        }
        PathKind::Mininet(MininetSwitch::LinuxBridge) => "Mininet with a Linux bridge".to_owned(),
        PathKind::Mininet(MininetSwitch::OvsUser) => "Mininet with Open vSwitch in user space".to_owned(),
        PathKind::Nic(options) => nic(options),
        PathKind::Routed(options) => routed(options),
        PathKind::Nat(_)
        | PathKind::Rootless(_)
        | PathKind::Vxlan
        | PathKind::Shared(_)
        | PathKind::Wireguard => of_containers(path),
    }
}

/// What stands between the two ends.
pub(super) fn describe(path: &NetPath) -> String {
    let mut text = made_of(path);
    let mut add = |part: String| {
        text.push_str(", ");
        text.push_str(&part);
    };
    if let Some(rate) = path.rate {
        match path.wires {
            Wiring::Shared => add(format!("{rate} per port")),
            Wiring::Own => add(format!("{rate} to each system")),
        }
    }
    if path.cards.get() > 1 {
        add(format!("{} cards in each system", path.cards));
    }
    if path.delay > Nanos::ZERO {
        add(format!("{} of delay each way", path.delay));
    }
    if path.loss.0 > 0.0 {
        add(format!("{} lost each way", path.loss));
    }
    if let Some(queue) = path.queue {
        add(format!("queues of {queue}"));
    }
    if path.mtu != ETHERNET_MTU {
        add(format!("MTU {}", path.mtu));
    }
    if let Some(mtu) = path.sut_mtu {
        add(format!("MTU {mtu} at the service"));
    }
    if path.addresses == Addressing::Dhcp {
        add("addresses by DHCP".to_owned());
    }
    if !path.offloads {
        add("no offloads".to_owned());
    }
    text
}

fn routed(options: &RoutedOptions) -> String {
    let topology = match &options.topology {
        Choice::MplsVpn(vpn) => {
            let backdoor = match vpn.backdoor {
                Backdoor::ShamLink => "a backdoor that the VPN is preferred to",
                Backdoor::Plain => "a backdoor that is always preferred",
                Backdoor::None => "no backdoor",
            };
            let (client, sut) = (vpn.client.router(), vpn.sut.router());
            let mut text = format!(
                "MPLS VPN with {} in the core, {backdoor}, from {client} to {sut}",
                counted(vpn.core, "P router")
            );
            if vpn.customers > 1 {
                text.push_str(&format!(", {}", counted(vpn.customers, "customer")));
            }
            if vpn.routes > 0 {
                text.push_str(&format!(", {} more", counted(vpn.routes, "route")));
            }
            with_bfd(text, vpn.bfd)
        }
        Choice::LeafSpine(fabric) => {
            let (leaves, spines) = (fabric.leaves, counted(fabric.spines, "spine"));
            with_bfd(format!("fabric of {leaves} leaves and {spines}"), fabric.bfd)
        }
        Choice::Custom(written) => {
            let (routers, links) = (written.routers.len() as u32, written.links.len() as u32);
            with_bfd(format!("{} and {}", counted(routers, "router"), counted(links, "link")), written.bfd)
        }
    };
    let placed = match options.place {
        RouterHost::Auto => topology,
        RouterHost::Host => format!("{topology}, on the host"),
        RouterHost::Guest => format!("{topology}, in a guest of their own"),
    };
    if options.hops { format!("{placed}, with captures at every hop") } else { placed }
}

fn with_bfd(text: String, bfd: Bfd) -> String {
    match bfd {
        Bfd::Off => text,
        Bfd::Every(interval) => format!("{text}, watched by BFD every {}", interval.nanos()),
    }
}

fn controller(options: &SdnOptions) -> &'static str {
    match (options.controller, options.mode) {
        (Controller::Testcontroller, SdnMode::Reactive) => "ovs-testcontroller, which installs flows",
        (Controller::Testcontroller, SdnMode::EveryPacket) => {
            "ovs-testcontroller, which is asked about every packet"
        }
        (Controller::OsKen, SdnMode::Reactive) => "os-ken, which installs flows",
        (Controller::OsKen, SdnMode::EveryPacket) => "os-ken, which is asked about every packet",
    }
}
