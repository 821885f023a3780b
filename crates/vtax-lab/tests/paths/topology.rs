//! Routers of a topology between client and system under test: brought up, proven, broken, mended.

use std::time::{Duration, Instant};

use vtax_lab::{Lab, TestbedSpec};
use vtax_plan::model::{EnvironmentKind, NetPath, PathKind};
use vtax_sys::clock::unix_time;
use vtax_topology::event::{ALL, Event};
use vtax_topology::expect::Stage as Reached;
use vtax_topology::frr::Daemon;
use vtax_topology::options::{
    Choice, Custom, CustomLink, CustomRouter, LeafSpine, MplsVpn, Place, RoutedOptions, Speaks,
};
use vtax_topology::timeline::{Entry, Source};
use vtax_units::Nanos;

use crate::stage::{Stage, spec};

/// In this time routers find another way, on any machine.
const SURELY: Duration = Duration::from_secs(30);

fn routed(topology: Choice, place: Place) -> TestbedSpec {
    let kind = PathKind::Routed(Box::new(RoutedOptions { topology, place }));
    spec(EnvironmentKind::Native, NetPath::new("routed", kind))
}

fn has_frr() -> bool {
    let there = vtax_router::installed();
    if !there {
        println!("  skipped: FRR is not installed (`vtax setup --labs`)");
    }
    there
}

impl Stage {
    fn inject(&self, event: Event) -> Nanos {
        let words = event.to_string();
        self.between[0].inject_event(event).unwrap_or_else(|e| panic!("{words}: {}", vtax_sys::chain(&e)))
    }
}

impl Stage {
    /// The timeline since then, once it has such an entry: what was heard is told some moments later.
    fn told_since(&self, at: Nanos, such: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let until = Instant::now() + SURELY;
        loop {
            let entries = self.between[0].timeline(at, unix_time()).unwrap();
            if entries.iter().any(&such) || Instant::now() > until {
                return entries;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
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
    let fabric = LeafSpine { bfd: true, ..LeafSpine::default() };
    let mut stage = Stage::build(lab, &routed(Choice::LeafSpine(fabric), Place::Host));
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
    assert!(stage.tcp(Duration::from_millis(300)) > 50e6);
    // One spine is enough, whichever it is; silence is seen by BFD only.
    for spine in ["spine1", "spine2"] {
        let (link, from) = (format!("leaf1-{spine}"), Some("leaf1".to_owned()));
        let at = stage.inject(Event::Lossy { link: link.clone(), from, of_a_million: ALL });
        assert!(stage.answers(SURELY), "without {spine}");
        let entries = stage.between[0].timeline(at, unix_time()).unwrap();
        assert!(
            entries.iter().any(|e| e.source == Source::Fault && e.text.starts_with("lossy: ")),
            "{entries:?}"
        );
        stage.inject(restore(&link));
        assert!(stage.answers(SURELY));
        std::thread::sleep(Duration::from_secs(3));
    }
    let unknown = stage.between[0].inject_event(cut("leaf1-leaf2")).unwrap_err();
    assert!(vtax_sys::chain(&unknown).contains("there is no link `leaf1-leaf2`"), "{unknown}");
    stage.end();
}

/// A ring of three that speak OSPF: the way round is taken where the short way is gone.
pub(crate) fn ring(lab: &mut Lab) {
    if !has_frr() {
        return;
    }
    let router = |name: &str| CustomRouter {
        name: name.to_owned(),
        loopback: None,
        speaks: Speaks::Ospf,
        mpls: false,
    };
    let link = |one: &str, other: &str| CustomLink {
        between: [one.to_owned(), other.to_owned()],
        addresses: None,
        rate: None,
        delay: None,
        loss: None,
        mtu: 1500,
        cost: None,
    };
    let ring = Custom {
        routers: ["west", "north", "east"].map(router).to_vec(),
        links: vec![link("west", "north"), link("north", "east"), link("west", "east")],
        client: "west".to_owned(),
        sut: "east".to_owned(),
        bfd: false,
        timers: Default::default(),
    };
    let mut stage = Stage::build(lab, &routed(Choice::Custom(ring), Place::Auto));
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
    stage.inject(Event::Kill { router: "north".to_owned() });
    assert!(!stage.answers(Duration::from_millis(300)), "there is no way left");
    stage.inject(restore("west-east"));
    stage.inject(Event::RestoreRouter { router: "north".to_owned() });
    assert!(stage.answers(SURELY));
    let (well, _, output) = stage.between[0].execute("west", &["ip", "route"].map(str::to_owned)).unwrap();
    assert!(well && output.contains("10.95.0.0/16"), "{output}");
    stage.end();
}

/// The study's VPN, in a guest where the host's kernel has no MPLS.
pub(crate) fn vpn(lab: &mut Lab) {
    if !has_frr() {
        return;
    }
    let mut stage = Stage::build(lab, &routed(Choice::MplsVpn(MplsVpn::default()), Place::Guest));
    let raised = stage.raised.clone().unwrap();
    println!("  {raised:?}");
    assert_eq!(raised.labels.len(), 2);
    assert!((62..=63).contains(&raised.ttl.unwrap()), "{raised:?}");
    assert!(stage.answers(SURELY));
    stage.inject(cut("p1-pe2"));
    assert!(stage.answers(SURELY), "by way of the backdoor");
    stage.inject(restore("p1-pe2"));
    stage.inject(Event::Stop { router: "p1".to_owned(), daemon: Daemon::Ldpd });
    assert!(stage.answers(SURELY));
    stage.end();
}
