//! What FRR's routers are told: one `frr.conf` and the daemons that read it, for each router.
//!
//! Interfaces have their addresses from the kernel, so none is in the file. Where a line is not obvious, its reason
//! stands beside the code that writes it; how it all fits together was tried with FRR 8.4.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::address::Prefix;
use crate::bfd::{Bfd, BfdInterval};
use crate::model::{Bgp, Edge, LinkEnd, Router, Sham, Topology, Vrf};
use crate::options::Timers;

/// Networks that routers make up begin here.
pub const MADE_UP: Prefix = Prefix::new([10, 128, 0, 0], 9);

/// A daemon of FRR's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Daemon {
    /// Tells the kernel; all others need it.
    Zebra,
    /// Static routes.
    Staticd,
    /// OSPF.
    Ospfd,
    /// LDP.
    Ldpd,
    /// BGP.
    Bgpd,
    /// BFD.
    Bfdd,
    /// OSPF for IPv6.
    Ospf6d,
    /// RIP.
    Ripd,
    /// IS-IS.
    Isisd,
}

impl Daemon {
    /// All of them, in the order in which they are started.
    pub const ALL: [Self; 9] = [
        Self::Zebra,
        Self::Staticd,
        Self::Ospfd,
        Self::Ldpd,
        Self::Bgpd,
        Self::Bfdd,
        Self::Ospf6d,
        Self::Ripd,
        Self::Isisd,
    ];

    /// The program's name.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Zebra => "zebra",
            Self::Staticd => "staticd",
            Self::Ospfd => "ospfd",
            Self::Ldpd => "ldpd",
            Self::Bgpd => "bgpd",
            Self::Bfdd => "bfdd",
            Self::Ospf6d => "ospf6d",
            Self::Ripd => "ripd",
            Self::Isisd => "isisd",
        }
    }

    /// The daemon of this name; `None` for one that vtax doesn't start.
    #[must_use]
    pub fn of(program: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|daemon| daemon.program() == program)
    }
}

/// The daemons that a router needs, in the order in which they are started.
#[must_use]
pub fn daemons(topology: &Topology, router: &Router) -> Vec<Daemon> {
    let needed = |daemon: Daemon| match daemon {
        Daemon::Zebra => true,
        Daemon::Staticd => router.made_up.is_some(),
        Daemon::Ospfd => router.ospf || !router.vrfs.is_empty(),
        Daemon::Ldpd => router.ldp,
        Daemon::Bgpd => router.bgp.is_some(),
        Daemon::Bfdd => topology.bfd != Bfd::Off,
        Daemon::Ospf6d | Daemon::Ripd | Daemon::Isisd => false,
    };
    Daemon::ALL.into_iter().filter(|daemon| needed(*daemon)).collect()
}

/// The router's `frr.conf`.
#[must_use]
pub fn configuration(topology: &Topology, router: &Router) -> String {
    let mut file = File(String::new());
    file.line(0, "frr defaults traditional");
    file.line(0, format!("hostname {}", router.name));
    file.line(0, "log timestamp precision 6");
    file.line(0, "service integrated-vtysh-config");
    file.line(0, "!");
    let writer = Writer { topology, router };
    writer.made_up(&mut file);
    // Before who names them, or FRR remarks that they aren't there.
    writer.filters(&mut file);
    writer.interfaces(&mut file);
    writer.ospf(&mut file);
    writer.ldp(&mut file);
    writer.bgp(&mut file);
    writer.bfd(&mut file);
    file.line(0, "line vty");
    file.end();
    file.0
}

/// A configuration file; each level is indented by one space.
struct File(String);

impl File {
    fn line(&mut self, level: usize, text: impl AsRef<str>) {
        // Writing to a text doesn't fail.
        let _ = writeln!(self.0, "{:level$}{}", "", text.as_ref());
    }

    /// Ends a block. Without `exit` the next block at the top level would be read as part of some blocks: `mpls ldp`
    /// after `router ospf` is one.
    fn end(&mut self) {
        self.line(0, "exit");
        self.line(0, "!");
    }
}

struct Writer<'a> {
    topology: &'a Topology,
    router: &'a Router,
}

impl<'a> Writer<'a> {
    fn fast(&self) -> bool {
        self.topology.timers == Timers::Fast
    }

    /// Its ends of links.
    fn ends(&self) -> impl Iterator<Item = &'a LinkEnd> {
        let (topology, name) = (self.topology, self.router.name.as_str());
        topology.ends_of(name).map(|(end, ..)| end)
    }

    /// Edges of the path that are at it.
    fn edges(&self) -> impl Iterator<Item = &'a Edge> {
        let (topology, name) = (self.topology, self.router.name.as_str());
        topology.edges().into_iter().filter(move |edge| edge.router == name)
    }

    fn made_up(&self, file: &mut File) {
        let Some(made_up) = &self.router.made_up else { return };
        file.line(0, format!("vrf {}", made_up.vrf));
        for number in 0..made_up.count {
            // Networks of 24 bits, one after the other.
            let network = Prefix { address: MADE_UP.nth(number << 8).address, length: 24 };
            file.line(1, format!("ip route {network} blackhole"));
        }
        file.line(0, "exit-vrf");
        file.line(0, "!");
    }

    fn interfaces(&self, file: &mut File) {
        if self.router.ospf {
            file.line(0, "interface lo");
            file.line(1, "ip ospf area 0");
            file.end();
        }
        for end in self.ends() {
            if let Some(cost) = end.ospf_cost {
                self.ospf_interface(file, &end.interface, end.vrf.as_deref(), cost);
            }
        }
        for edge in self.edges().filter(|edge| edge.ospf) {
            interface(file, &edge.interface, edge.vrf.as_deref());
            file.line(1, "ip ospf area 0");
            // Nobody answers there: hosts have one router each.
            file.line(1, "ip ospf passive");
            file.end();
        }
        for (vrf, sham) in self.shams() {
            self.ospf_interface(file, &sham.interface, Some(&vrf.name), sham.cost);
        }
    }

    fn shams(&self) -> impl Iterator<Item = (&'a Vrf, &'a Sham)> {
        let router = self.router;
        router.vrfs.iter().filter_map(|vrf| Some((vrf, vrf.sham.as_ref()?)))
    }

    fn ospf_interface(&self, file: &mut File, name: &str, vrf: Option<&str>, cost: u16) {
        interface(file, name, vrf);
        file.line(1, "ip ospf area 0");
        file.line(1, format!("ip ospf cost {cost}"));
        // No designated router: there are two, and its election takes as long as the dead interval.
        file.line(1, "ip ospf network point-to-point");
        if self.fast() {
            file.line(1, "ip ospf dead-interval minimal hello-multiplier 4");
            file.line(1, "ip ospf retransmit-interval 1");
        }
        if self.topology.bfd != Bfd::Off {
            file.line(1, "ip ospf bfd");
            file.line(1, format!("ip ospf bfd profile {BFD_PROFILE}"));
        }
        file.end();
    }

    fn ospf(&self, file: &mut File) {
        let main = self.router.ospf.then_some((None, self.router.id));
        let vrfs = self.router.vrfs.iter().map(|vrf| (Some(vrf), vrf.id));
        for (vrf, id) in main.into_iter().chain(vrfs) {
            match vrf {
                None => file.line(0, "router ospf"),
                Some(vrf) => file.line(0, format!("router ospf vrf {}", vrf.name)),
            }
            file.line(1, format!("ospf router-id {id}"));
            file.line(1, "log-adjacency-changes detail");
            if self.fast() {
                file.line(1, "timers throttle spf 10 50 500");
                file.line(1, "timers throttle lsa all 100");
                // Else a neighbour throws the second of two changes within a second away.
                file.line(1, "timers lsa min-arrival 100");
            }
            if vrf.is_some() {
                file.line(1, format!("redistribute bgp route-map {TO_SITE}"));
            }
            file.end();
        }
    }

    fn ldp(&self, file: &mut File) {
        if !self.router.ldp {
            return;
        }
        let id = self.router.id;
        file.line(0, "mpls ldp");
        file.line(1, format!("router-id {id}"));
        file.line(1, "address-family ipv4");
        file.line(2, format!("discovery transport-address {id}"));
        if self.fast() {
            file.line(2, "discovery hello holdtime 5");
            file.line(2, "discovery hello interval 1");
            // The least that FRR takes; its default is 180 s. So long a session may stand that the other end has closed already, and
            // until then no labels are exchanged.
            file.line(2, "session holdtime 15");
        }
        for end in self.ends().filter(|end| end.labels) {
            file.line(2, format!("interface {}", end.interface));
            file.line(2, "exit");
        }
        file.line(1, "exit-address-family");
        file.end();
    }

    fn bgp(&self, file: &mut File) {
        let Some(bgp) = &self.router.bgp else { return };
        file.line(0, format!("router bgp {}", bgp.system));
        file.line(1, format!("bgp router-id {}", self.router.id));
        file.line(1, "bgp log-neighbor-changes");
        // RFC 8212's policies would filter nothing here.
        file.line(1, "no bgp ebgp-requires-policy");
        file.line(1, "no bgp default ipv4-unicast");
        if bgp.tells_connected {
            // Paths over different autonomous systems of one length are equally good.
            file.line(1, "bgp bestpath as-path multipath-relax");
        }
        for neighbour in &bgp.neighbours {
            self.neighbour(file, neighbour.address, neighbour.system, neighbour.vpn);
        }
        if bgp.neighbours.iter().any(|neighbour| neighbour.vpn) {
            file.line(1, "address-family ipv4 vpn");
            activate(file, bgp, true);
            file.line(1, "exit-address-family");
        }
        if bgp.tells_connected {
            file.line(1, "address-family ipv4 unicast");
            file.line(2, "redistribute connected");
            activate(file, bgp, false);
            file.line(2, "maximum-paths 64");
            file.line(1, "exit-address-family");
        }
        file.end();
        for vrf in &self.router.vrfs {
            self.bgp_vrf(file, bgp.system, vrf);
        }
    }

    fn neighbour(&self, file: &mut File, address: Ipv4Addr, system: u32, vpn: bool) {
        file.line(1, format!("neighbor {address} remote-as {system}"));
        if vpn {
            file.line(1, format!("neighbor {address} update-source {}", self.router.id));
        }
        if self.fast() {
            file.line(1, format!("neighbor {address} timers 3 9"));
            file.line(1, format!("neighbor {address} timers connect 2"));
            file.line(1, format!("neighbor {address} advertisement-interval 0"));
        }
        if self.topology.bfd != Bfd::Off {
            file.line(1, format!("neighbor {address} bfd profile {BFD_PROFILE}"));
        }
    }

    fn bgp_vrf(&self, file: &mut File, system: u32, vrf: &Vrf) {
        file.line(0, format!("router bgp {system} vrf {}", vrf.name));
        file.line(1, format!("bgp router-id {}", vrf.id));
        file.line(1, "address-family ipv4 unicast");
        // Routes of the VPN are preferred to OSPF's (110), so that data never takes the tunnel that stands in for a
        // sham link.
        file.line(2, "distance bgp 20 200 200");
        file.line(2, format!("redistribute ospf route-map {FROM_SITE}-{}", vrf.name));
        file.line(2, format!("redistribute connected route-map {OWN}"));
        if self.router.made_up.as_ref().is_some_and(|made_up| made_up.vrf == vrf.name) {
            file.line(2, "redistribute static");
        }
        file.line(2, "label vpn export auto");
        file.line(2, format!("rd vpn export {}", vrf.distinguisher));
        file.line(2, format!("rt vpn both {}", vrf.target));
        file.line(2, "export vpn");
        file.line(2, "import vpn");
        file.line(1, "exit-address-family");
        file.end();
    }

    /// What goes from one protocol of a VRF to another.
    fn filters(&self, file: &mut File) {
        if self.router.vrfs.is_empty() {
            return;
        }
        let ends = self.shams().flat_map(|(_, sham)| [sham.local, sham.remote]);
        for (number, address) in (1..).zip(ends) {
            prefix_list(file, SHAM_ENDS, number, &Prefix::host(address).to_string());
        }
        prefix_list(file, MADE_UP_LIST, 1, &format!("{MADE_UP} le 24"));
        for (number, edge) in (1..).zip(self.edges().filter(|edge| edge.vrf.is_some())) {
            prefix_list(file, EDGES, number, &edge.address.network().to_string());
        }
        file.line(0, "!");
        // The tunnel's ends must be reached by way of the VPN only; made-up routes are for the edges' tables.
        for (number, list) in [(5, SHAM_ENDS), (6, MADE_UP_LIST)] {
            file.line(0, format!("route-map {TO_SITE} deny {number}"));
            file.line(1, format!("match ip address prefix-list {list}"));
            file.end();
        }
        file.line(0, format!("route-map {TO_SITE} permit 10"));
        file.end();
        for (number, list) in [(10, SHAM_ENDS), (20, EDGES)] {
            file.line(0, format!("route-map {OWN} permit {number}"));
            file.line(1, format!("match ip address prefix-list {list}"));
            file.end();
        }
        for vrf in &self.router.vrfs {
            // What came by way of the tunnel or of another site is the other edge's to tell.
            file.line(0, format!("route-map {FROM_SITE}-{} permit 10", vrf.name));
            file.line(1, format!("match interface {}", vrf.site));
            file.end();
        }
    }

    fn bfd(&self, file: &mut File) {
        let Some(interval) = self.topology.bfd.interval() else { return };
        file.line(0, "bfd");
        file.line(1, format!("profile {BFD_PROFILE}"));
        file.line(2, format!("detect-multiplier {}", BfdInterval::MISSED));
        file.line(2, format!("receive-interval {}", interval.millis()));
        file.line(2, format!("transmit-interval {}", interval.millis()));
        file.line(1, "exit");
        file.end();
    }
}

const BFD_PROFILE: &str = "neighbour";
const TO_SITE: &str = "to-site";
const FROM_SITE: &str = "from-site";
const OWN: &str = "own";
const SHAM_ENDS: &str = "sham-ends";
const MADE_UP_LIST: &str = "made-up";
const EDGES: &str = "edges";

fn prefix_list(file: &mut File, name: &str, number: u32, what: &str) {
    file.line(0, format!("ip prefix-list {name} seq {} permit {what}", number * 5));
}

/// Begins the block of an interface.
fn interface(file: &mut File, name: &str, vrf: Option<&str>) {
    match vrf {
        None => file.line(0, format!("interface {name}")),
        Some(vrf) => file.line(0, format!("interface {name} vrf {vrf}")),
    }
}

fn activate(file: &mut File, bgp: &Bgp, vpn: bool) {
    for neighbour in bgp.neighbours.iter().filter(|neighbour| neighbour.vpn == vpn) {
        file.line(2, format!("neighbor {} activate", neighbour.address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::topology;
    use crate::options::{Choice, LeafSpine, MplsVpn};

    fn of(choice: &Choice, router: &str) -> (Vec<&'static str>, String) {
        let topology = topology(choice);
        let router = topology.router(router).unwrap();
        let programs = daemons(&topology, router).into_iter().map(Daemon::program).collect();
        (programs, configuration(&topology, router))
    }

    #[test]
    fn each_router_has_the_daemons_of_what_it_speaks() {
        let vpn = Choice::MplsVpn(MplsVpn { bfd: Bfd::USUAL, routes: 3, ..MplsVpn::default() });
        assert_eq!(of(&vpn, "ce1").0, ["zebra", "ospfd", "bfdd"]);
        assert_eq!(of(&vpn, "p1").0, ["zebra", "ospfd", "ldpd", "bfdd"]);
        assert_eq!(of(&vpn, "pe1").0, ["zebra", "ospfd", "ldpd", "bgpd", "bfdd"]);
        assert_eq!(of(&vpn, "pe2").0, ["zebra", "staticd", "ospfd", "ldpd", "bgpd", "bfdd"]);
        assert_eq!(of(&Choice::LeafSpine(LeafSpine::default()), "leaf1").0, ["zebra", "bgpd"]);
    }

    #[test]
    fn every_block_ends_before_the_next() {
        let vpn = Choice::MplsVpn(MplsVpn { bfd: Bfd::USUAL, routes: 2, customers: 3, ..MplsVpn::default() });
        let all = topology(&vpn);
        for router in &all.routers {
            let text = configuration(&all, router);
            let mut open = false;
            for line in text.lines().filter(|line| !line.starts_with(' ') && *line != "!") {
                let begins = ["interface ", "router ", "mpls ldp", "route-map ", "bfd", "vrf ", "line vty"]
                    .iter()
                    .any(|word| line.starts_with(word));
                assert!(!(open && begins), "{line} begins inside another block:\n{text}");
                open = (open || begins) && !line.starts_with("exit");
            }
            assert!(!open, "{text}");
        }
    }

    #[test]
    fn made_up_routes_are_as_many_as_asked_for_and_different() {
        let (_, text) = of(&Choice::MplsVpn(MplsVpn { routes: 10_000, ..MplsVpn::default() }), "pe2");
        let routes: std::collections::BTreeSet<&str> =
            text.lines().filter(|line| line.starts_with(" ip route ")).collect();
        assert_eq!(routes.len(), 10_000);
        assert!(routes.contains(" ip route 10.128.1.0/24 blackhole"));
        assert!(routes.contains(" ip route 10.167.15.0/24 blackhole"), "the last");
    }
}
