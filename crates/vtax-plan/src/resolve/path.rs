//! Paths.

use std::num::NonZeroU32;

use vtax_units::{BitRate, Nanos, Share};

use super::check::{counts_in, duration_in, name_or};
use super::routed;
use super::variants::{Named, Variants, unique};
use crate::decode::{Item, Many};
use crate::diagnose::{Report, shorten};
use crate::model::{
    CardSharing, ETHERNET_MTU, MOST_CARDS, MininetSwitch, NatOptions, NetPath, NicOptions, OvsOptions,
    PathKind, SdnOptions, UserNetwork, VirtualSwitch, Wiring,
};
use crate::raw::{
    AddressingRaw, MininetRaw, NatRaw, NicRaw, OvsRaw, PathRaw, SdnRaw, VirtualSwitchRaw, VxlanRaw,
    WireguardRaw, WiringRaw,
};
use crate::source::{Span, Spanned};

/// RFC 791: every host takes datagrams of 576 octets.
const LEAST_MTU: u32 = 576;
/// A length field has 16 bits.
const MOST_MTU: u32 = 65_535;
/// Below this a full frame takes more than a second.
pub(super) const LEAST_RATE: BitRate = BitRate(8_000);
/// Twice as far as a geostationary satellite; more is taken for a slip.
const MOST_DELAY: Nanos = Nanos::from_secs(2);
/// A longer queue is taken for a slip.
const MOST_QUEUE: Nanos = Nanos::from_secs(10);
/// The longest text of a host, an address or a path.
const LONGEST_TEXT: usize = 255;
/// Each takes a stream and two threads of this host.
const MOST_GENERATORS: usize = 64;
/// An interface's name has 15 bytes (IFNAMSIZ).
const LONGEST_INTERFACE: usize = 15;

pub(super) fn paths(raw: &Many<PathRaw>, report: &mut Report) -> Vec<Named<NetPath>> {
    let resolve = |item: &Item<PathRaw>, report: &mut Report| {
        let (name, variants) = path(&item.value, item.span, report);
        Named { name, span: item.span, variants }
    };
    let all = raw.items.iter().map(|item| resolve(item, report)).collect();
    unique("path", all, report)
}

/// Options of the wire that most kinds have.
struct Wire<'a> {
    rate: Option<&'a Spanned<Many<BitRate>>>,
    delay: Option<&'a Spanned<Many<Nanos>>>,
    loss: Option<&'a Spanned<Many<Share>>>,
    queue: Option<&'a Spanned<Many<Nanos>>>,
    mtu: &'a Spanned<Many<u32>>,
    sut_mtu: Option<&'a Spanned<u32>>,
    offloads: &'a Spanned<Many<bool>>,
    /// Where there may be a DHCP server.
    addresses: Option<&'a Spanned<Many<AddressingRaw>>>,
}

/// The wire of a kind whose rate is optional, or (`some`) has a default, and whose systems are on a switch, or (`alone`) on none.
macro_rules! wire {
    ($raw:expr) => {
        wire!(@ $raw, $raw.rate.as_ref(), Some(&$raw.addresses))
    };
    ($raw:expr, some) => {
        wire!(@ $raw, Some(&$raw.rate), Some(&$raw.addresses))
    };
    ($raw:expr, alone) => {
        wire!(@ $raw, $raw.rate.as_ref(), None)
    };
    (@ $raw:expr, $rate:expr, $addresses:expr) => {
        Wire {
            rate: $rate,
            delay: $raw.delay.as_ref(),
            loss: $raw.loss.as_ref(),
            queue: $raw.queue.as_ref(),
            mtu: &$raw.mtu,
            sut_mtu: $raw.sut_mtu.as_ref(),
            offloads: &$raw.offloads,
            addresses: $addresses,
        }
    };
}

/// A path of this kind, with its name or the kind's.
fn start(
    name: &Option<Spanned<String>>,
    default: &str,
    kind: PathKind,
    report: &mut Report,
) -> (String, Variants<NetPath>) {
    let name = name_or(name.as_ref(), default, report);
    (name.clone(), Variants::of(NetPath::new(name, kind)))
}

fn path(raw: &PathRaw, span: Span, report: &mut Report) -> (String, Variants<NetPath>) {
    match raw {
        PathRaw::Direct(raw) => {
            let (name, path) = start(&raw.name, "direct", PathKind::Direct, report);
            (name, wire!(raw, alone).vary(path, report))
        }
        PathRaw::Bridge(raw) => {
            let (name, path) = start(&raw.name, "bridge", PathKind::Bridge, report);
            let path = plugged(path, (&raw.wires, &raw.cards), raw.rate.is_some(), report);
            (name, wire!(raw).vary(path, report))
        }
        PathRaw::Gigabit(raw) => {
            let (name, path) = start(&raw.name, "gigabit", PathKind::Bridge, report);
            let path = plugged(path, (&raw.wires, &raw.cards), true, report);
            (name, wire!(raw, some).vary(path, report))
        }
        PathRaw::Ovs(raw) => {
            let (name, path) = start(&raw.name, "ovs", PathKind::Ovs(OvsOptions::default()), report);
            let path = plugged(path, (&raw.wires, &raw.cards), raw.rate.is_some(), report);
            (name, wire!(raw).vary(ovs(raw, path, report), report))
        }
        PathRaw::Sdn(raw) => {
            let (name, path) = start(&raw.name, "sdn", PathKind::Sdn(SdnOptions::default()), report);
            (name, wire!(raw).vary(sdn(raw, path, report), report))
        }
        PathRaw::Bridged(raw) => {
            let kind = PathKind::Bridged(VirtualSwitch::default());
            let (name, path) = start(&raw.name, "bridged", kind, report);
            let path = plugged(path, (&raw.wires, &raw.cards), true, report);
            (name, wire!(raw, some).vary(behind(path, &raw.switch, PathKind::Bridged, report), report))
        }
        PathRaw::VmVm(raw) => {
            let (name, path) = start(&raw.name, "vm-vm", PathKind::VmVm(VirtualSwitch::default()), report);
            (name, wire!(raw).vary(behind(path, &raw.switch, PathKind::VmVm, report), report))
        }
        PathRaw::Mininet(raw) => {
            let kind = PathKind::Mininet(MininetSwitch::default());
            let (name, path) = start(&raw.name, "mininet", kind, report);
            (name, mininet(raw, path, report))
        }
        PathRaw::Nic(raw) => nic(raw, span, report),
        PathRaw::Routed(raw) => {
            let (name, path) = start(&raw.name, "routed", routed::kind(&raw.topology.value), report);
            (name, wire!(raw, alone).vary(routed::vary(raw, path, report), report))
        }
        PathRaw::Nat(raw) => nat(raw, report),
        PathRaw::Vxlan(raw) => vxlan(raw, report),
        PathRaw::Macvlan(raw) => {
            let (name, path) = start(&raw.name, "macvlan", PathKind::Shared(CardSharing::Macvlan), report);
            (name, wire!(raw, alone).vary(path, report))
        }
        PathRaw::Ipvlan(raw) => {
            let (name, path) = start(&raw.name, "ipvlan", PathKind::Shared(CardSharing::Ipvlan), report);
            (name, wire!(raw, alone).vary(path, report))
        }
        PathRaw::Pasta(raw) => rootless(&raw.name, wire!(raw, alone), UserNetwork::Pasta, report),
        PathRaw::Slirp4netns(raw) => rootless(&raw.name, wire!(raw, alone), UserNetwork::Slirp4netns, report),
        PathRaw::Wireguard(raw) => wireguard(raw, report),
    }
}

fn nat(raw: &NatRaw, report: &mut Report) -> (String, Variants<NetPath>) {
    let (name, path) = start(&raw.name, "nat", PathKind::Nat(NatOptions::default()), report);
    let path = wires(path, &raw.wires, raw.rate.is_some(), report);
    let path = path.vary("masquerade", &raw.masquerade.value, report, |path, masquerade| {
        path.kind = PathKind::Nat(NatOptions { masquerade });
    });
    (name, wire!(raw, alone).vary(path, report))
}

fn vxlan(raw: &VxlanRaw, report: &mut Report) -> (String, Variants<NetPath>) {
    let (name, path) = start(&raw.name, "vxlan", PathKind::Vxlan, report);
    let path = wires(path, &raw.wires, raw.rate.is_some(), report);
    (name, wire!(raw, alone).vary(path, report))
}

fn wireguard(raw: &WireguardRaw, report: &mut Report) -> (String, Variants<NetPath>) {
    let (name, path) = start(&raw.name, "wireguard", PathKind::Wireguard, report);
    check_mtus(&raw.mtu, report);
    (name, path.vary("mtu", &raw.mtu.value, report, |path, mtu| path.mtu = mtu))
}

/// Networks in user space give systems a larger MTU than their host's, where the plan doesn't say.
fn rootless(
    name: &Option<Spanned<String>>,
    wire: Wire<'_>,
    network: UserNetwork,
    report: &mut Report,
) -> (String, Variants<NetPath>) {
    let (name, path) = start(name, network.word(), PathKind::Rootless(network), report);
    let mut path = wire.vary(path, report);
    for variant in &mut path.0 {
        variant.value.sut_mtu.get_or_insert(UserNetwork::MTU);
    }
    (name, path)
}

/// Whose wires have the rate; wires of the systems' own are nothing where there is no rate.
fn wires(
    path: Variants<NetPath>,
    wires: &Spanned<Many<WiringRaw>>,
    has_rate: bool,
    report: &mut Report,
) -> Variants<NetPath> {
    if let Some(own) = wires.value.items.iter().find(|item| !has_rate && item.value.0 == Wiring::Own) {
        report
            .error(own.span, "`wires: own` says nothing where there is no `rate`")
            .help("name the rate of each wire as well, such as `rate: 1gbit`");
    }
    path.vary("wires", &wires.value, report, |path, wires| path.wires = wires.0)
}

/// Whose wires have the rate, and network cards of each system.
fn plugged(
    path: Variants<NetPath>,
    (raw, cards): (&Spanned<Many<WiringRaw>>, &Spanned<Many<u32>>),
    has_rate: bool,
    report: &mut Report,
) -> Variants<NetPath> {
    let path = wires(path, raw, has_rate, report);
    counts_in(&cards.value, "a system has a network card", MOST_CARDS, report);
    path.vary("cards", &cards.value, report, |path, cards| {
        path.cards = NonZeroU32::new(cards).unwrap_or(NonZeroU32::MIN);
    })
}

fn ovs(raw: &OvsRaw, path: Variants<NetPath>, report: &mut Report) -> Variants<NetPath> {
    path.vary("datapath", &raw.datapath.value, report, |path, datapath| {
        path.kind = PathKind::Ovs(OvsOptions { datapath: datapath.0 });
    })
}

fn sdn(raw: &SdnRaw, path: Variants<NetPath>, report: &mut Report) -> Variants<NetPath> {
    let set = |path: &mut NetPath, change: &dyn Fn(&mut SdnOptions)| {
        if let PathKind::Sdn(options) = &mut path.kind {
            options.when_lost = raw.when_lost.value.0;
            change(options);
        }
    };
    path.vary("datapath", &raw.datapath.value, report, |p, d| set(p, &|o| o.ovs.datapath = d.0))
        .vary("controller", &raw.controller.value, report, |p, c| set(p, &|o| o.controller = c.0))
        .vary("mode", &raw.mode.value, report, |p, m| set(p, &|o| o.mode = m.0))
}

fn behind(
    path: Variants<NetPath>,
    switch: &Spanned<Many<VirtualSwitchRaw>>,
    kind: impl Fn(VirtualSwitch) -> PathKind,
    report: &mut Report,
) -> Variants<NetPath> {
    path.vary("switch", &switch.value, report, |path, switch| path.kind = kind(switch.0))
}

fn mininet(raw: &MininetRaw, path: Variants<NetPath>, report: &mut Report) -> Variants<NetPath> {
    check_mtus(&raw.mtu, report);
    path.vary("switch", &raw.switch.value, report, |path, switch| path.kind = PathKind::Mininet(switch.0))
        .vary("mtu", &raw.mtu.value, report, |path, mtu| path.mtu = mtu)
}

fn check_mtus(mtus: &Spanned<Many<u32>>, report: &mut Report) {
    for item in &mtus.value.items {
        check_mtu(item.value, item.span, report);
    }
}

pub(super) fn check_mtu(mtu: u32, span: crate::source::Span, report: &mut Report) {
    if !(LEAST_MTU..=MOST_MTU).contains(&mtu) {
        report.error(span, format!("{mtu} is no MTU: it is {LEAST_MTU} to {MOST_MTU} bytes"));
    }
}

/// Refuses a delay of nothing, and one longer than any link's.
pub(super) fn check_delay(delay: Nanos, span: crate::source::Span, report: &mut Report) {
    duration_in(&Spanned { value: delay, span }, "delay", Nanos(1), MOST_DELAY, report);
}

/// Refuses a loss of nothing, and one that no link has.
pub(super) fn check_loss(loss: Share, span: crate::source::Span, report: &mut Report) {
    if !(loss.0 > 0.0 && loss.0 <= 0.5) {
        report
            .error(span, "`loss` must be above 0% and at most 50%")
            .help("leave it out for a path that loses nothing");
    }
}

impl Wire<'_> {
    fn check(&self, report: &mut Report) {
        fn items<T>(many: Option<&Spanned<Many<T>>>) -> impl Iterator<Item = &Item<T>> {
            many.into_iter().flat_map(|m| &m.value.items)
        }
        for rate in items(self.rate).filter(|r| r.value < LEAST_RATE) {
            report.error(rate.span, "a wire below 8kbit carries no packet in reasonable time");
        }
        for delay in items(self.delay) {
            check_delay(delay.value, delay.span, report);
        }
        for loss in items(self.loss) {
            check_loss(loss.value, loss.span, report);
        }
        for queue in items(self.queue) {
            let queue = Spanned { value: queue.value, span: queue.span };
            duration_in(&queue, "queue", Nanos::from_millis(1), MOST_QUEUE, report);
        }
        if let (None, Some(queue)) = (self.rate, self.queue) {
            report
                .error(queue.span, "a `queue` forms only where there is a `rate`")
                .help("name the wire's rate as well, such as `rate: 1gbit`");
        }
        check_mtus(self.mtu, report);
        if let Some(mtu) = self.sut_mtu {
            check_mtu(mtu.value, mtu.span, report);
        }
    }

    fn vary(&self, path: Variants<NetPath>, report: &mut Report) -> Variants<NetPath> {
        self.check(report);
        let sut_mtu = self.sut_mtu.map(|mtu| mtu.value);
        path.vary_if("rate", self.rate, report, |path, rate| path.rate = Some(rate))
            .vary_if("delay", self.delay, report, |path, delay| path.delay = delay)
            .vary_if("loss", self.loss, report, |path, loss| path.loss = loss)
            .vary_if("queue", self.queue, report, |path, queue| path.queue = Some(queue))
            .vary("mtu", &self.mtu.value, report, |path, mtu| {
                path.mtu = mtu;
                // What the end has anyway is no mismatch.
                let usual = match path.kind {
                    PathKind::Rootless(_) => UserNetwork::MTU,
                    _ => path.inner_mtu(),
                };
                path.sut_mtu = sut_mtu.filter(|other| *other != usual);
            })
            .vary("offloads", &self.offloads.value, report, |path, offloads| path.offloads = offloads)
            .vary_if("addresses", self.addresses, report, |path, addresses| path.addresses = addresses.0)
    }
}

fn nic(raw: &NicRaw, span: Span, report: &mut Report) -> (String, Variants<NetPath>) {
    let name = name_or(raw.name.as_ref(), "nic", report);
    let (host, generators) = match &raw.hosts {
        Some(count) => given(raw, count, report),
        None => named(raw, span, report),
    };
    let draw = raw.draw.value;
    let address = match &raw.address {
        Some(address) => address_of_any(address, draw || raw.hosts.is_some(), report),
        None => NicOptions::HOST.to_owned(),
    };
    // A name that is known is put in at once; of several, and of one that is given, it is later.
    let known = host.rsplit('@').next().unwrap_or_default();
    let is_later = raw.hosts.is_some() || (draw && raw.address.is_some());
    let address = if is_later { address } else { address.replace(NicOptions::HOST, known) };
    let interface = raw.interface.as_ref().map(|interface| {
        if interface.value.len() > LONGEST_INTERFACE {
            report.error(interface.span, "an interface's name has at most 15 bytes");
        }
        text(interface, "interface", plain, report)
    });
    let file = |c: char| c.is_ascii_alphanumeric() || "._-/+~".contains(c);
    let vtax = raw.vtax.as_ref().map(|vtax| text(vtax, "vtax", file, report));
    if let Some(interface) = raw.interface.as_ref().filter(|_| !generators.is_empty()) {
        report
            .error(
                interface.span,
                "`interface` is one of this host, from which no load comes where there are `generators` or `hosts`",
            )
            .help("leave one of the two out");
    }
    if draw && generators.is_empty() {
        report
            .error(
                raw.draw.span,
                "there is nothing to draw: the service has one host, and the load comes from this one",
            )
            .help("name the other hosts as `generators`");
    }
    let given = raw.hosts.is_some();
    let kind = PathKind::Nic(NicOptions { host, address, interface, vtax, generators, draw, given });
    // What the real interfaces have is not for a plan to change.
    (name.clone(), Variants::of(NetPath { mtu: ETHERNET_MTU, ..NetPath::new(name, kind) }))
}

/// Neither may be taken for an option by ssh, or for several words by the remote shell.
fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-:%@[]".contains(c)
}

/// The service's host and the others, as a plan names them.
fn named(raw: &NicRaw, span: Span, report: &mut Report) -> (String, Vec<String>) {
    let Some(host) = &raw.host else {
        report.error(span, "`nic` needs the key `host`").help(
            "name the service's host, or say with `hosts` how many of those that `vtax run --on` gives are wanted",
        );
        return (String::new(), Vec::new());
    };
    let host = text(host, "host", plain, report);
    let others = raw.generators.as_ref().map(|all| generators(all, &host, plain, report));
    (host, others.unwrap_or_default())
}

/// The service's host and the generators as places of hosts that are given.
fn given(raw: &NicRaw, count: &Spanned<u32>, report: &mut Report) -> (String, Vec<String>) {
    let most = MOST_GENERATORS as u32 + 1;
    if !(2..=most).contains(&count.value) {
        let why =
            format!("{} hosts: one has the service, and 1 to {MOST_GENERATORS} make the load", count.value);
        report.error(count.span, why);
    }
    let own = [raw.host.as_ref().map(|host| host.span), raw.generators.as_ref().map(|all| all.span)];
    for span in own.into_iter().flatten() {
        report
            .error(span, "with `hosts` those that `vtax run --on` gives have the service and make the load")
            .help("leave `hosts` out, or `host` and `generators`");
    }
    let mut places = NicOptions::places(count.value.clamp(2, most));
    (places.next().unwrap_or_default(), places.collect())
}

/// The address of whichever host has the service, of `several` or of one.
fn address_of_any(address: &Spanned<String>, several: bool, report: &mut Report) -> String {
    let with_a_name = address.value.replace(NicOptions::HOST, "x");
    text(&Spanned { value: with_a_name, span: address.span }, "address", plain, report);
    if several && !address.value.contains(NicOptions::HOST) {
        report
            .error(address.span, "`address` is that of one host, and any of several may have the service")
            .help(
                "leave it out where hosts have their names on the network to be measured; or write `{host}` where a host's name \
                 stands in it, such as `{host}-data`",
            );
    }
    address.value.clone()
}

/// The hosts that the load comes from. Each is one for itself, and the service's is none of them.
fn generators(
    raw: &Spanned<Many<String>>,
    service: &str,
    plain: impl Fn(char) -> bool + Copy,
    report: &mut Report,
) -> Vec<String> {
    let items = &raw.value.items;
    if items.len() > MOST_GENERATORS {
        report.error(raw.span, format!("{} generators are too many: at most {MOST_GENERATORS}", items.len()));
    }
    let mut hosts: Vec<String> = Vec::with_capacity(items.len());
    for item in items.iter().take(MOST_GENERATORS) {
        let host = text(&Spanned { value: item.value.clone(), span: item.span }, "generator", plain, report);
        let shown = shorten(&host);
        if host == service {
            report
                .error(item.span, format!("`{shown}` has the service: a generator there would take its CPUs"))
                .help("name a host of its own");
        } else if hosts.contains(&host) {
            report.error(item.span, format!("`{shown}` is named twice")).help("a host has one generator");
        }
        hosts.push(host);
    }
    hosts
}

fn text(text: &Spanned<String>, key: &str, fits: impl Fn(char) -> bool, report: &mut Report) -> String {
    let value = &text.value;
    if value.is_empty() || value.len() > LONGEST_TEXT || value.starts_with('-') || !value.chars().all(fits) {
        report.error(text.span, format!("`{}` can't be the {key} of a path", shorten(value))).help(
            "it is 1 to 255 letters, digits and marks, without spaces or quotes, and doesn't begin with `-`",
        );
    }
    value.clone()
}
