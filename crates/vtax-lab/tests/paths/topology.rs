//! Routers of a topology between client and system under test: brought up, proven, broken, mended.

use std::time::{Duration, Instant};

use vtax_lab::{Lab, TestbedSpec};
use vtax_plan::model::{EnvironmentKind, NetPath, PathKind};
use vtax_sys::clock::unix_time;
use vtax_sys::require::again_until;
use vtax_sys::require::complete;
use vtax_topology::bfd::Bfd;
use vtax_topology::event::{ALL, Event};
use vtax_topology::expect::Stage as Reached;
use vtax_topology::frr::Daemon;
use vtax_topology::hops::{Hops, Part};
use vtax_topology::options::{
    Choice, Custom, CustomLink, CustomRouter, LeafSpine, MplsVpn, RoutedOptions, RouterHost, Speaks, Timers,
};
use vtax_topology::timeline::{Entry, Source};
use vtax_units::Nanos;

use crate::stage::{Stage, spec};

/// In this time routers find another way, on any machine.
const SURELY: Duration = Duration::from_secs(30);

fn routed(topology: Choice, place: RouterHost) -> TestbedSpec {
    let kind = PathKind::Routed(Box::new(RoutedOptions { topology, place, hops: false }));
    spec(EnvironmentKind::Native, NetPath::new("routed", kind))
}

fn has_frr() -> bool {
    complete((!vtax_router::installed()).then_some("FRR is not installed"))
}

impl Stage {
    fn inject(&self, event: Event) -> Nanos {
        let words = event.to_string();
        self.routers[0].inject_event(event).unwrap_or_else(|e| panic!("{words}: {}", vtax_sys::chain(&e)))
    }
}

impl Stage {
    /// The timeline since then, once it has such an entry: what was heard is told some moments later.
    fn told_since(&self, at: Nanos, such: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let until = Instant::now() + SURELY;
        loop {
            let entries = self.routers[0].timeline(at, unix_time()).unwrap();
            if entries.iter().any(&such) || Instant::now() > until {
                return entries;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Stage {
    /// Until a router has so many sessions of BGP after a fault, or could have had them for long: so that the next fault meets them.
    fn sessions_settle(&self, router: &str, count: usize) {
        // By then BFD has missed what it misses.
        std::thread::sleep(Duration::from_millis(300));
        let until = Instant::now() + Duration::from_secs(3);
        let command = ["vtysh", "-c", "show bgp summary json"].map(str::to_owned);
        let stand = || {
            let answer = self.routers[0].execute(router, &command).map(|done| done.output);
            answer.unwrap_or_default().matches("\"Established\"").count() >= count
        };
        while !stand() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Stage {
    /// What captures at every hop say of a transfer.
    fn hops(&mut self) -> Hops {
        self.routers[0].watch_hops().unwrap();
        self.tcp(Duration::from_millis(500));
        let hops = self.routers[0].hops().unwrap();
        println!("  {hops:?}");
        assert_eq!(hops.problem, None);
        hops
    }
}

/// The routers of one way, in order, and that there is a time from edge to edge.
fn routers(hops: &Hops, up: bool) -> Vec<&str> {
    let own = || hops.hops.iter().filter(|hop| hop.up == up);
    assert!(own().all(|hop| hop.times.packets > 0 && hop.times.least <= hop.times.mean), "{hops:?}");
    assert!(own().any(|hop| hop.part == Part::Whole), "{hops:?}");
    let named = own().filter_map(|hop| match &hop.part {
        Part::Router(name) => Some(name.as_str()),
        Part::Cable(_) | Part::Whole => None,
    });
    named.collect()
}

fn both_ways(hops: &Hops) -> [Vec<&str>; 2] {
    [true, false].map(|up| routers(hops, up))
}

fn cut(link: &str) -> Event {
    Event::Cut { link: link.to_owned() }
}

fn restore(link: &str) -> Event {
    Event::RestoreLink { link: link.to_owned() }
}

/// BGP on every link, on the host.
pub(crate) fn fabric(lab: &mut Lab) {
    if !has_frr() {
        return;
    }
    let fabric = LeafSpine { bfd: Bfd::USUAL, ..LeafSpine::default() };
    let mut stage = Stage::build(lab, &routed(Choice::LeafSpine(fabric), RouterHost::Host));
    let raised = stage.raised.clone().unwrap();
    println!("  {raised:?}");
    assert_eq!(raised.ttl, Some(63));
    let stages: Vec<Reached> = raised.stages.iter().map(|(stage, _)| *stage).collect();
    // A route may be there by the first session, before the last one is: stages are told as they were reached.
    let between = [Reached::Peerings, Reached::Routes];
    assert!(
        matches!(&stages[..], [Reached::Interfaces, Reached::Daemons, a, b, Reached::Reach] if a != b
        && between.contains(a) && between.contains(b)),
        "{stages:?}"
    );
    assert!(raised.stages.is_sorted_by_key(|(_, at)| *at), "{raised:?}");
    assert!(stage.answers(SURELY));
    stage.carries(50e6, Duration::from_millis(300));
    let hops = stage.hops();
    for (up, [first, last]) in [(true, ["leaf1", "leaf2"]), (false, ["leaf2", "leaf1"])] {
        let way = routers(&hops, up);
        let spines = way.iter().filter(|name| name.starts_with("spine")).count();
        // The test's two connections may take a spine each.
        assert!(way.len() == 2 + spines && (1..=2).contains(&spines), "{way:?}");
        assert_eq!([way[0], way[way.len() - 1]], [first, last]);
    }
    let missing = stage.routers[0].hops().unwrap_err();
    assert!(vtax_sys::chain(&missing).contains("are not being watched"), "{missing}");
    // One spine is enough, whichever it is; silence is seen by BFD only.
    for spine in ["spine1", "spine2"] {
        let (link, from) = (format!("leaf1-{spine}"), Some("leaf1".to_owned()));
        let at = stage.inject(Event::Lossy { link: link.clone(), from, of_a_million: ALL });
        assert!(stage.answers(SURELY), "without {spine}");
        let entries = stage.routers[0].timeline(at, unix_time()).unwrap();
        assert!(
            entries.iter().any(|e| e.source == Source::Fault && e.text.starts_with("lossy: ")),
            "{entries:?}"
        );
        stage.inject(restore(&link));
        assert!(stage.answers(SURELY));
        stage.sessions_settle("leaf1", 2);
    }
    // Its neighbours hear from the kernel that it is gone; the fabric goes on without it.
    let spine = || "spine1".to_owned();
    stage.inject(Event::Stop { router: spine(), daemon: Daemon::Bgpd });
    assert!(stage.answers(SURELY), "without BGP at spine1");
    stage.inject(Event::RestoreRouter { router: spine() });
    assert!(stage.answers(SURELY));
    let unknown = stage.routers[0].inject_event(cut("leaf1-leaf2")).unwrap_err();
    assert!(vtax_sys::chain(&unknown).contains("there is no link `leaf1-leaf2`"), "{unknown}");
    stage.end();
}

fn router(name: &str) -> CustomRouter {
    CustomRouter { name: name.to_owned(), loopback: None, speaks: Speaks::Ospf, mpls: false }
}

fn link(one: &str, other: &str) -> CustomLink {
    CustomLink {
        between: [one.to_owned(), other.to_owned()],
        addresses: None,
        rate: None,
        delay: None,
        loss: None,
        mtu: 1500,
        cost: None,
    }
}

/// Cuts whose length is known, as a link is silent for it and no router notices: both times tell it.
pub(crate) fn cuts(lab: &mut Lab) {
    if !has_frr() {
        return;
    }
    let pair = Custom {
        routers: ["west", "east"].map(router).to_vec(),
        links: vec![link("west", "east")],
        client: "west".to_owned(),
        sut: "east".to_owned(),
        bfd: Bfd::Off,
        // OSPF misses its neighbour after 40 s.
        timers: Timers::Standard,
    };
    let stage = Stage::build(lab, &routed(Choice::Custom(pair), RouterHost::Host));
    let interval = Nanos::from_millis(1);
    stage.routers[0].start_streams(interval).unwrap();
    let (mut times, mut bounds) = (Vec::new(), Vec::new());
    for length in [100, 1_000, 2_000].map(Duration::from_millis) {
        std::thread::sleep(Duration::from_millis(300));
        let begun = unix_time();
        let (link, from) = ("west-east".to_owned(), Some("west".to_owned()));
        stage.inject(Event::Lossy { link, from, of_a_million: ALL });
        let silent = unix_time();
        std::thread::sleep(length);
        let ended = unix_time();
        stage.inject(restore("west-east"));
        let whole = unix_time();
        std::thread::sleep(Duration::from_millis(300));
        // It was silent for longer than the one and for less than the other, however busy the machine.
        bounds.push([ended.saturating_sub(silent), whole.saturating_sub(begun)]);
        times.push((begun, unix_time()));
    }
    let found = stage.routers[0].stop_streams(times).unwrap();
    assert_eq!(found.convergence.len(), bounds.len());
    for ([up, down], [shortest, longest]) in found.convergence.iter().zip(bounds) {
        println!("  between {shortest} and {longest}: {up:?}, probes late by {}", found.late);
        let by_rate = up.by_rate.expect("whole again");
        assert!(by_rate.0.abs_diff(up.by_loss.0) <= interval.0, "{up:?}");
        let around = Nanos(found.late.0 + 2 * interval.0);
        assert!(up.by_loss >= shortest.saturating_sub(around), "{up:?}");
        assert!(up.by_loss.0 <= longest.0 + around.0, "{up:?}");
        assert_eq!(down.counts.lost, 0, "only one direction was silent: {down:?}");
    }
    stage.end();
}

/// A ring of three that speak OSPF: the way round is taken where the short way is gone.
pub(crate) fn ring(lab: &mut Lab) {
    if !has_frr() {
        return;
    }
    let ring = Custom {
        routers: ["west", "north", "east"].map(router).to_vec(),
        links: vec![link("west", "north"), link("north", "east"), link("west", "east")],
        client: "west".to_owned(),
        sut: "east".to_owned(),
        bfd: Bfd::Off,
        timers: Default::default(),
    };
    let mut stage = Stage::build(lab, &routed(Choice::Custom(ring), RouterHost::Auto));
    let raised = stage.raised.clone().unwrap();
    println!("  {raised:?}");
    // Neighbours on the short way; OSPF may have found the way round first.
    assert!((63..=64).contains(&raised.ttl.unwrap()), "{raised:?}");
    assert!(stage.answers(SURELY));
    let at = stage.inject(cut("west-east"));
    assert!(stage.answers(SURELY), "by way of north");
    // Of some routes only the next hop that they share is changed, which is no news of a route.
    let led = |e: &Entry| e.source == Source::Kernel && e.text.starts_with("route ");
    let entries = stage.told_since(at, led);
    let kernel = entries.iter().filter(|e| e.source == Source::Kernel);
    assert!(kernel.clone().any(|e| e.text.contains("interface east: down")), "{entries:?}");
    assert!(entries.iter().any(led), "{entries:?}");
    let ospf = Source::Daemon("ospfd".to_owned());
    assert!(entries.iter().any(|e| e.source == ospf && e.text.contains("AdjChg")), "{entries:?}");
    // Its neighbours go around it once they miss its hellos.
    stage.inject(Event::Stop { router: "north".to_owned(), daemon: Daemon::Ospfd });
    stage.inject(restore("west-east"));
    assert!(stage.answers(SURELY), "without OSPF at north");
    stage.inject(Event::RestoreRouter { router: "north".to_owned() });
    stage.inject(cut("west-east"));
    assert!(stage.answers(SURELY), "by way of north again");
    stage.inject(Event::Kill { router: "north".to_owned() });
    assert!(!stage.answers(Duration::from_millis(300)), "there is no way left");
    stage.inject(restore("west-east"));
    stage.inject(Event::RestoreRouter { router: "north".to_owned() });
    assert!(stage.answers(SURELY));
    // What was off before stays so.
    stage.inject(cut("north-east"));
    stage.inject(Event::Kill { router: "north".to_owned() });
    stage.inject(Event::RestoreRouter { router: "north".to_owned() });
    let is_up = |interface: &str| {
        let asked = ["ip", "-o", "link", "show", "dev", interface].map(str::to_owned);
        stage.routers[0].execute("north", &asked).unwrap().output.contains(",UP")
    };
    assert_eq!(["west", "east"].map(is_up), [true, false]);
    let done = stage.routers[0].execute("west", &["ip", "route"].map(str::to_owned)).unwrap();
    assert!(done.success && done.output.contains("10.95.0.0/16"), "{}", done.output);
    stage.end();
}

/// The study's VPN, in a guest where the host's kernel has no MPLS.
pub(crate) fn vpn(lab: &mut Lab) {
    if !has_frr() {
        return;
    }
    let mut stage = Stage::build(lab, &routed(Choice::MplsVpn(MplsVpn::default()), RouterHost::Guest));
    let raised = stage.raised.clone().unwrap();
    println!("  {raised:?}");
    assert_eq!(raised.labels.len(), 2);
    assert!((62..=63).contains(&raised.ttl.unwrap()), "{raised:?}");
    assert!(stage.answers(SURELY));
    // With two labels, one and none. Routers that get too little CPU time lose neighbours, and the backdoor is the way until they are back.
    let ways = [["ce1", "pe1", "p1", "pe2"], ["pe2", "p1", "pe1", "ce1"]];
    let hops = again_until(|| stage.hops(), |hops| both_ways(hops) == ways);
    assert_eq!(both_ways(&hops), ways);
    stage.inject(cut("p1-pe2"));
    assert!(stage.answers(SURELY), "by way of the backdoor");
    stage.inject(restore("p1-pe2"));
    stage.inject(Event::Stop { router: "p1".to_owned(), daemon: Daemon::Ldpd });
    assert!(stage.answers(SURELY));
    // Its kernel has ends of tunnels that are never on.
    stage.inject(Event::Kill { router: "p1".to_owned() });
    assert!(stage.answers(SURELY), "by way of the backdoor");
    stage.inject(Event::RestoreRouter { router: "p1".to_owned() });
    assert!(stage.answers(SURELY));
    stage.end();
}
