//! Routed topologies.

use std::net::Ipv4Addr;

use vtax_topology::Prefix;
use vtax_topology::builtin::topology;
use vtax_topology::check::{TopologyPart, check};
use vtax_topology::event::ALL;
use vtax_topology::options::{
    Choice, Custom, CustomLink, CustomRouter, LeafSpine, MOST_CORE, MOST_CUSTOMERS, MOST_LINKS,
    MOST_OF_A_FABRIC, MOST_ROUTERS, MOST_ROUTES, MplsVpn, RoutedOptions, Speaks,
};
use vtax_units::{BitRate, Nanos, Share};

use super::variants::Variants;
use crate::decode::{Item, Many};
use crate::diagnose::{Report, shorten};
use crate::model::{NetPath, PathKind};
use crate::raw::{
    CustomRaw, LeafSpineRaw, LinkRaw, MplsVpnRaw, RoutedRaw, RouterRaw, SpeaksWord, TopologyRaw,
};
use crate::source::{Span, Spanned};

/// The kind of path before any of its options.
pub(super) fn kind(raw: &TopologyRaw) -> PathKind {
    let topology = match raw {
        TopologyRaw::MplsVpn(raw) => {
            let (client, sut) = (raw.client.value.0, raw.sut.value.0);
            Choice::MplsVpn(MplsVpn { client, sut, ..MplsVpn::default() })
        }
        TopologyRaw::LeafSpine(_) => Choice::LeafSpine(LeafSpine::default()),
        TopologyRaw::Custom(raw) => Choice::Custom(Custom {
            routers: Vec::new(),
            links: Vec::new(),
            client: raw.client.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
            sut: raw.sut.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
            bfd: raw.bfd.value.0,
            timers: raw.timers.value.0,
        }),
    };
    PathKind::Routed(Box::new(RoutedOptions { topology, place: Default::default(), hops: false }))
}

/// Every combination of its options.
pub(super) fn vary(raw: &RoutedRaw, path: Variants<NetPath>, report: &mut Report) -> Variants<NetPath> {
    let path = match &raw.topology.value {
        TopologyRaw::MplsVpn(vpn) => mpls_vpn(vpn, path, report),
        TopologyRaw::LeafSpine(fabric) => leaf_spine(fabric, path, report),
        TopologyRaw::Custom(written) => custom(written, raw.topology.span, path, report),
    };
    let path = path.vary("place", &raw.place.value, report, |path, place| {
        if let PathKind::Routed(options) = &mut path.kind {
            options.place = place.0;
        }
    });
    path.vary("hops", &raw.hops.value, report, |path, hops| {
        if let PathKind::Routed(options) = &mut path.kind {
            options.hops = hops;
        }
    })
}

fn change_vpn(path: &mut NetPath, change: impl FnOnce(&mut MplsVpn)) {
    if let PathKind::Routed(options) = &mut path.kind
        && let Choice::MplsVpn(vpn) = &mut options.topology
    {
        change(vpn);
    }
}

fn change_fabric(path: &mut NetPath, change: impl FnOnce(&mut LeafSpine)) {
    if let PathKind::Routed(options) = &mut path.kind
        && let Choice::LeafSpine(fabric) = &mut options.topology
    {
        change(fabric);
    }
}

/// Refuses what is not within bounds.
fn within(counts: &Many<u32>, what: &str, least: u32, most: u32, report: &mut Report) {
    for item in counts.items.iter().filter(|item| !(least..=most).contains(&item.value)) {
        report.error(item.span, format!("{what} are {least} to {most}, not {}", item.value));
    }
}

/// Refuses rates at which a packet takes more than a second.
fn check_rates(rates: Option<&Spanned<Many<BitRate>>>, report: &mut Report) {
    for item in rates.into_iter().flat_map(|rates| &rates.value.items) {
        check_rate(item.value, item.span, report);
    }
}

fn check_rate(rate: BitRate, span: Span, report: &mut Report) {
    if rate < super::path::LEAST_RATE {
        report.error(span, "a wire below 8kbit carries no packet in reasonable time");
    }
}

fn check_delays(delays: Option<&Spanned<Many<Nanos>>>, report: &mut Report) {
    for item in delays.into_iter().flat_map(|delays| &delays.value.items) {
        super::path::check_delay(item.value, item.span, report);
    }
}

fn check_losses(losses: Option<&Spanned<Many<Share>>>, report: &mut Report) {
    for item in losses.into_iter().flat_map(|losses| &losses.value.items) {
        super::path::check_loss(item.value, item.span, report);
    }
}

/// As topologies keep it.
fn of_a_million(loss: Share) -> u32 {
    (loss.0.clamp(0.0, 1.0) * f64::from(ALL)).round() as u32
}

fn mpls_vpn(raw: &MplsVpnRaw, path: Variants<NetPath>, report: &mut Report) -> Variants<NetPath> {
    within(&raw.core.value, "P routers in the core", 1, MOST_CORE, report);
    within(&raw.customers.value, "customers", 1, MOST_CUSTOMERS, report);
    within(&raw.routes.value, "routes of the VPN", 0, MOST_ROUTES, report);
    check_rates(raw.core_rate.as_ref(), report);
    check_delays(raw.core_delay.as_ref(), report);
    check_losses(raw.core_loss.as_ref(), report);
    if raw.client.value == raw.sut.value {
        let what = "client and service are at the same router, so no topology is between them";
        report.error(raw.sut.span, what).help("such as `{client: ce1, sut: pe2}`");
    }
    path.vary("core", &raw.core.value, report, |p, core| change_vpn(p, |vpn| vpn.core = core))
        .vary("customers", &raw.customers.value, report, |p, n| change_vpn(p, |vpn| vpn.customers = n))
        .vary("routes", &raw.routes.value, report, |p, n| change_vpn(p, |vpn| vpn.routes = n))
        .vary("backdoor", &raw.backdoor.value, report, |p, b| change_vpn(p, |vpn| vpn.backdoor = b.0))
        .vary("bfd", &raw.bfd.value, report, |p, bfd| change_vpn(p, |vpn| vpn.bfd = bfd.0))
        .vary("timers", &raw.timers.value, report, |p, t| change_vpn(p, |vpn| vpn.timers = t.0))
        .vary_if("core_rate", raw.core_rate.as_ref(), report, |p, rate| {
            change_vpn(p, |vpn| vpn.core_rate = Some(rate));
        })
        .vary_if("core_delay", raw.core_delay.as_ref(), report, |p, delay| {
            change_vpn(p, |vpn| vpn.core_delay = Some(delay));
        })
        .vary_if("core_loss", raw.core_loss.as_ref(), report, |p, loss| {
            change_vpn(p, |vpn| vpn.core_loss = Some(of_a_million(loss)));
        })
}

fn leaf_spine(raw: &LeafSpineRaw, path: Variants<NetPath>, report: &mut Report) -> Variants<NetPath> {
    within(&raw.leaves.value, "leaves", 2, MOST_OF_A_FABRIC, report);
    within(&raw.spines.value, "spines", 1, MOST_OF_A_FABRIC, report);
    check_rates(raw.link_rate.as_ref(), report);
    check_delays(raw.link_delay.as_ref(), report);
    check_losses(raw.link_loss.as_ref(), report);
    path.vary("leaves", &raw.leaves.value, report, |p, n| change_fabric(p, |fabric| fabric.leaves = n))
        .vary("spines", &raw.spines.value, report, |p, n| change_fabric(p, |fabric| fabric.spines = n))
        .vary("bfd", &raw.bfd.value, report, |p, bfd| change_fabric(p, |fabric| fabric.bfd = bfd.0))
        .vary("timers", &raw.timers.value, report, |p, t| change_fabric(p, |fabric| fabric.timers = t.0))
        .vary_if("link_rate", raw.link_rate.as_ref(), report, |p, rate| {
            change_fabric(p, |fabric| fabric.link_rate = Some(rate));
        })
        .vary_if("link_delay", raw.link_delay.as_ref(), report, |p, delay| {
            change_fabric(p, |fabric| fabric.link_delay = Some(delay));
        })
        .vary_if("link_loss", raw.link_loss.as_ref(), report, |p, loss| {
            change_fabric(p, |fabric| fabric.link_loss = Some(of_a_million(loss)));
        })
}

/// A topology that is written out: its parts are read, then checked as a whole.
fn custom(
    raw: &CustomRaw,
    span: Span,
    mut path: Variants<NetPath>,
    report: &mut Report,
) -> Variants<NetPath> {
    let routers: &[Item<RouterRaw>] =
        raw.routers.as_ref().map_or(&[][..], |routers| routers.value.items.as_slice());
    let links: &[Item<LinkRaw>] = raw.links.as_ref().map_or(&[][..], |links| links.value.items.as_slice());
    if routers.len() > MOST_ROUTERS || links.len() > MOST_LINKS {
        report.error(span, format!("a topology has at most {MOST_ROUTERS} routers and {MOST_LINKS} links"));
        return path;
    }
    let read_routers: Vec<CustomRouter> = routers.iter().filter_map(|item| router(item, report)).collect();
    let read_links: Vec<CustomLink> = links.iter().filter_map(|item| link(item, report)).collect();
    let complete = read_routers.len() == routers.len() && read_links.len() == links.len();
    for variant in &mut path.0 {
        let PathKind::Routed(options) = &mut variant.value.kind else { continue };
        let Choice::Custom(written) = &mut options.topology else { continue };
        written.routers.clone_from(&read_routers);
        written.links.clone_from(&read_links);
    }
    let choice =
        path.0.first().and_then(|variant| variant.value.kind.routed()).map(|options| &options.topology);
    // Where a part could not be read, what follows from that is no further mistake.
    let problems = choice.filter(|_| complete).map_or_else(Vec::new, |choice| check(&topology(choice)));
    for problem in problems {
        let place = match problem.part {
            TopologyPart::Whole => span,
            TopologyPart::Router(number) => routers.get(number).map_or(span, |item| item.span),
            TopologyPart::Link(number) => links.get(number).map_or(span, |item| item.span),
            TopologyPart::Client => raw.client.as_ref().map_or(span, |name| name.span),
            TopologyPart::Sut => raw.sut.as_ref().map_or(span, |name| name.span),
        };
        report.error(place, problem.what);
    }
    if let (Some(client), Some(sut)) = (&raw.client, &raw.sut)
        && client.value == sut.value
    {
        report.error(sut.span, "client and service are at the same router, so no topology is between them");
    }
    path
}

fn router(item: &Item<RouterRaw>, report: &mut Report) -> Option<CustomRouter> {
    let raw = &item.value;
    let name = raw.name.as_ref()?.value.clone();
    let speaks = match (raw.speaks.value.0, &raw.system) {
        (SpeaksWord::Ospf, None) => Speaks::Ospf,
        (SpeaksWord::Ospf, Some(system)) => {
            report.error(system.span, "OSPF has no autonomous systems").help("`speaks: bgp` has");
            return None;
        }
        (SpeaksWord::Bgp, Some(system)) if system.value > 0 => Speaks::Bgp(system.value),
        (SpeaksWord::Bgp, Some(system)) => {
            report.error(system.span, "0 is no autonomous system (RFC 7607)");
            return None;
        }
        (SpeaksWord::Bgp, None) => {
            let what = "a router that speaks BGP needs the number of its autonomous system";
            report
                .error(raw.speaks.span, what)
                .help(
                    "such as `system: 65001`, a number of its own for each router; routers with equal numbers don't pass \
                     on to each other what they heard from a third of that number",
                );
            return None;
        }
    };
    let loopback = match &raw.loopback {
        None => None,
        Some(text) => Some(address(text, report)?),
    };
    Some(CustomRouter { name, loopback, speaks, mpls: raw.mpls.value })
}

fn address(text: &Spanned<String>, report: &mut Report) -> Option<Ipv4Addr> {
    let is_any_hosts =
        |a: &Ipv4Addr| a.is_unspecified() || a.is_multicast() || a.is_loopback() || a.is_broadcast();
    let parsed = text.value.parse::<Ipv4Addr>().ok().filter(|address| !is_any_hosts(address));
    if parsed.is_none() {
        let shown = shorten(&text.value);
        report.error(text.span, format!("`{shown}` is no IPv4 address of a router, such as 10.0.0.1"));
    }
    parsed
}

/// The two items of a list, which is such as the example.
fn pair<'a>(
    list: &'a Spanned<Many<String>>,
    (what, example): (&str, &str),
    report: &mut Report,
) -> Option<[&'a Item<String>; 2]> {
    let items: Vec<&Item<String>> = list.value.items.iter().collect();
    let two = <[&Item<String>; 2]>::try_from(items).ok().filter(|_| list.value.complete);
    if two.is_none() && list.value.complete {
        report.error(list.span, format!("a link has two {what}, such as `{example}`"));
    }
    two
}

fn link(item: &Item<LinkRaw>, report: &mut Report) -> Option<CustomLink> {
    let raw = &item.value;
    let between = pair(raw.between.as_ref()?, ("routers", "[a, b]"), report)?.map(|item| item.value.clone());
    let addresses = match &raw.addresses {
        None => None,
        Some(list) => {
            let [one, other] = pair(list, ("addresses", "[10.0.1.1/30, 10.0.1.2/30]"), report)?;
            Some([prefix(one, report)?, prefix(other, report)?])
        }
    };
    super::path::check_mtu(raw.mtu.value, raw.mtu.span, report);
    if let Some(rate) = &raw.rate {
        check_rate(rate.value, rate.span, report);
    }
    if let Some(delay) = &raw.delay {
        super::path::check_delay(delay.value, delay.span, report);
    }
    if let Some(loss) = &raw.loss {
        super::path::check_loss(loss.value, loss.span, report);
    }
    if let Some(cost) = raw.cost.as_ref().filter(|cost| cost.value == 0) {
        report.error(cost.span, "OSPF's cost is 1 to 65535");
    }
    Some(CustomLink {
        between,
        addresses,
        rate: raw.rate.as_ref().map(|rate| rate.value),
        delay: raw.delay.as_ref().map(|delay| delay.value),
        loss: raw.loss.as_ref().map(|loss| of_a_million(loss.value)),
        mtu: raw.mtu.value,
        cost: raw.cost.as_ref().map(|cost| cost.value),
    })
}

fn prefix(item: &Item<String>, report: &mut Report) -> Option<Prefix> {
    match item.value.parse::<Prefix>() {
        Ok(prefix) => Some(prefix),
        Err(error) => {
            report.error(item.span, error.to_string());
            None
        }
    }
}
