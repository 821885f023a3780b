//! Systems behind a host that publishes them: their ports are reached at its address, which the kernel's nftables translates,
//! as container engines have it do.
//!
//! The host is a network namespace of the testbed's own. Its side of the client's cable is an interface of it, and the
//! systems are on a bridge in it, as containers are on their engine's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use vtax_agent::message::Route;
use vtax_plan::model::{NatOptions, NetPath};
use vtax_sys::netlink::{Netlink, add_address};
use vtax_sys::spawn::Spawn;
use vtax_sys::{Context as _, NetNs};

use super::hosts;
use super::passage::{Passage, Passed};
use super::path_builder::{PathBuilder, no_routers};
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::{LabError, Result, While};
use crate::fabric::Fabric;
use crate::lab::Lab;
use crate::naming::{HOP_PREFIX, PREFIX, address, hop_address, network};
use crate::program::Program;
use crate::spec::TestbedSpec;

/// The program that has the kernel translate.
pub(super) const NFT: Program = Program { name: "nft", package: "nftables" };
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How many systems can be published: each has an address of its own on the client's network.
const MOST_SYSTEMS: usize = 250;

/// Published systems.
pub(super) struct Nat(pub(super) NatOptions);

/// Whether something can be published on this host. Tried in a namespace of its own.
pub(super) fn tried() -> Result<()> {
    let ports = Ports { outer: "lo", inner: "lo" };
    Host::create()?.load(&rules(NatOptions { masquerade: true }, &ports, &[(network(), network())]))
}

impl PathBuilder for Nat {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        if spec.suts.len() > MOST_SYSTEMS {
            return Err(format!("`nat` publishes {MOST_SYSTEMS} systems, not {}", spec.suts.len()));
        }
        no_routers(spec, "its host is one")
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        tried().err().map(|e| vtax_sys::chain(&e))
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let host = Host::create()?;
        let fabric = site.fabric_in(&host.inside)?;
        let mut inner = String::new();
        let mut built = switched::build_on(site, site.path(), fabric, |_, fabric, path| {
            let bridge = fabric.add_switch(path.mtu)?;
            inner = bridge.name().to_owned();
            Ok(Switches { far: Some(bridge), ..Switches::one(Fabric::add_door()) })
        })?;
        let fabric = built.network()?;
        let gateway = address(fabric.take_host());
        let outer = fabric.own_door()?.to_owned();
        let ports = Ports { outer: &outer, inner: &inner };
        let slot = site.slot.number();
        let systems = built.suts.iter().enumerate();
        let published: Vec<_> = systems.map(|(number, sut)| (public(slot, number), sut.address)).collect();
        host.address(&ports, &published, gateway)?;
        host.load(&rules(self.0, &ports, &published))?;
        // The client and the host are on one network; the systems reach everything by way of the host.
        for setup in built.client.attachment.interfaces.iter_mut().flatten() {
            setup.addresses = vec![(hop_address(slot, 0, CLIENT), HOP_PREFIX)];
        }
        let everywhere = Route::new([0, 0, 0, 0].into(), 0, Some(gateway));
        for sut in &mut built.suts {
            sut.node.attachment.add_route(0, everywhere.clone());
        }
        built.parts.published = published.into_iter().map(|(public, _)| public).collect();
        built.parts.passage = Some(Box::new(host));
        Ok(built)
    }

    fn facts(&self, path: &NetPath) -> Vec<(String, String)> {
        vec![
            ("path.kind".to_owned(), path.kind.word().to_owned()),
            ("path.mtu".to_owned(), path.mtu.to_string()),
            ("path.nat.masquerade".to_owned(), self.0.masquerade.to_string()),
        ]
    }
}

/// The client's last octet on the network that it shares with the host.
const CLIENT: u8 = 254;

/// Where a system is published.
fn public(slot: u16, number: usize) -> IpAddr {
    hop_address(slot, 0, u8::try_from(number + 1).unwrap_or(u8::MAX))
}

/// Interfaces of the host.
struct Ports<'a> {
    /// Towards the client.
    outer: &'a str,
    /// Towards the systems.
    inner: &'a str,
}

/// What nft(8) is told: connections to a public address go to its system, what systems begin themselves has the host's
/// address, and nothing else is forwarded. Each packet that passes is counted, by its connection's direction.
fn rules(options: NatOptions, ports: &Ports<'_>, published: &[(IpAddr, IpAddr)]) -> String {
    let Ports { outer, inner } = ports;
    let map: Vec<String> = published.iter().map(|(public, system)| format!("{public} : {system}")).collect();
    let map = map.join(", ");
    let hidden = if options.masquerade { format!("oifname \"{inner}\" masquerade") } else { String::new() };
    format!(
        "table ip vtax {{
    counter up {{ }}
    counter down {{ }}
    chain published {{
        type nat hook prerouting priority -100; policy accept;
        iifname \"{outer}\" dnat to ip daddr map {{ {map} }}
    }}
    chain leaving {{
        type nat hook postrouting priority 100; policy accept;
        oifname \"{outer}\" masquerade
        {hidden}
    }}
    chain passing {{
        type filter hook forward priority 0; policy drop;
        ct status dnat ct direction original counter name \"up\" accept
        ct status dnat ct direction reply counter name \"down\" accept
        iifname \"{inner}\" accept
        ct state established,related accept
    }}
}}
"
    )
}

/// The host that publishes: a network namespace with the rules in it.
#[derive(Debug)]
struct Host {
    inside: Arc<NetNs>,
}

impl Host {
    /// A network namespace that forwards.
    fn create() -> Result<Self> {
        let inside = hosts::create()?;
        hosts::forward(&inside)?;
        Ok(Self { inside: Arc::new(inside) })
    }

    /// Gives it its addresses.
    fn address(&self, ports: &Ports<'_>, published: &[(IpAddr, IpAddr)], gateway: IpAddr) -> Result<()> {
        let what = || "address the host that publishes".to_owned();
        let mut netlink = Netlink::open_in(&self.inside).during(what)?;
        let outer = netlink.link(ports.outer).during(what)?.index;
        let inner = netlink.link(ports.inner).during(what)?.index;
        let public = published.iter().map(|(public, _)| add_address(outer, *public, HOP_PREFIX));
        let requests: Vec<_> = public.chain([add_address(inner, gateway, PREFIX)]).collect();
        netlink.send_all(requests).during(what)
    }

    /// Has its kernel go by these rules.
    fn load(&self, rules: &str) -> Result<()> {
        NFT.run_on(self.nft(&["-f", "-"])?, rules, WITHIN).map(drop)
    }

    /// nft(8) in it.
    fn nft(&self, arguments: &[&str]) -> Result<Spawn> {
        let inside = self.inside.try_clone().during(|| "hold the host that publishes".to_owned())?;
        Ok(NFT.command(arguments)?.join_net(inside.into()))
    }

    /// What its kernel counts of connections that it tracks.
    fn tracked(&self) -> Result<BTreeMap<String, u64>> {
        let read = || {
            let file = "/proc/thread-self/net/stat/nf_conntrack";
            std::fs::read_to_string(file).context("read", file)
        };
        Ok(tracked(&self.inside.run(read).during(|| "look at tracked connections".to_owned())?))
    }
}

impl Passage for Host {
    fn passed(&self) -> Result<Passed> {
        let list = self.nft(&["-j", "list", "counters", "table", "ip", "vtax"])?;
        let told = NFT.run(list, WITHIN)?;
        counted(&told).ok_or_else(|| LabError::Tool {
            tool: NFT.name.to_owned(),
            how: "it lists no counters of both directions".to_owned(),
            output: told.chars().take(500).collect(),
        })
    }

    fn facts(&self) -> Vec<(String, String)> {
        let passed = self.passed().ok();
        let passed = passed.into_iter().flat_map(|passed| {
            [("up.packets", passed.up), ("down.packets", passed.down)].map(|(key, n)| (key.to_owned(), n))
        });
        let tracked = self.tracked().unwrap_or_default();
        // A table that is full drops what would begin a connection.
        let kept = ["entries", "insert_failed", "drop", "early_drop"];
        let tracked = kept.iter().filter_map(|key| Some((format!("tracked.{key}"), *tracked.get(*key)?)));
        passed.chain(tracked).map(|(key, number)| (format!("path.nat.{key}"), number.to_string())).collect()
    }
}

/// What nft(8) prints as JSON.
#[derive(Deserialize)]
struct Listing {
    nftables: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    counter: Option<Counter>,
}

#[derive(Deserialize)]
struct Counter {
    name: String,
    packets: u64,
}

/// The counters of both directions in what nft(8) prints.
fn counted(json: &str) -> Option<Passed> {
    let listing: Listing = serde_json::from_str(json).ok()?;
    let of = |name: &str| {
        let counters = listing.nftables.iter().filter_map(|listed| listed.counter.as_ref());
        counters.into_iter().find(|counter| counter.name == name).map(|counter| counter.packets)
    };
    Some(Passed { up: of("up")?, down: of("down")? })
}

/// The kernel's counters of connections: a line of names, then a line of hexadecimal numbers for each CPU. What isn't of this
/// form is left out. `entries` is of all CPUs in each line.
fn tracked(text: &str) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let mut all = BTreeMap::new();
    for line in lines {
        for (name, word) in names.iter().zip(line.split_whitespace()) {
            let Ok(number) = u64::from_str_radix(word, 16) else { continue };
            let sum = all.entry((*name).to_owned()).or_insert(0_u64);
            *sum = if *name == "entries" { number } else { sum.saturating_add(number) };
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rules_name_each_system_once() {
        let ports = Ports { outer: "p1", inner: "br0" };
        let of = |number| (public(1, number), address(257 + u16::try_from(number).unwrap_or(0)));
        let text = rules(NatOptions::default(), &ports, &[of(0), of(1)]);
        assert!(text.contains("map { 10.99.128.1 : 10.97.1.1, 10.99.128.2 : 10.97.1.2 }"), "{text}");
        assert_eq!(text.matches("masquerade").count(), 1, "{text}");
        let hidden = rules(NatOptions { masquerade: true }, &ports, &[of(0)]);
        assert!(hidden.contains("oifname \"br0\" masquerade"), "{hidden}");
        assert_ne!(public(0, MOST_SYSTEMS - 1), hop_address(0, 0, CLIENT));
    }

    #[test]
    fn counters_are_read_from_what_nft_prints() {
        let json = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
            {"counter": {"family": "ip", "name": "up", "table": "vtax", "handle": 1, "packets": 7, "bytes": 420}},
            {"counter": {"family": "ip", "name": "down", "table": "vtax", "handle": 2, "packets": 5, "bytes": 300}}]}"#;
        assert_eq!(counted(json), Some(Passed { up: 7, down: 5 }));
        assert_eq!(counted(r#"{"nftables": []}"#), None);
        assert_eq!(counted("nft: no"), None);
    }

    #[test]
    fn connections_are_added_over_cpus() {
        let text = "entries  searched found drop\n00000003 00 0000000a 1\n00000003 00 00000006 2\ntorn zz\n";
        let all = tracked(text);
        assert_eq!((all["entries"], all["found"], all["drop"]), (3, 16, 3));
        assert!(tracked("").is_empty());
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".{0,200}") {
            let _ = (counted(&text), tracked(&text));
        }
    }
}
