//! Every kind of path, built for real and used: bulk TCP and echo from end to end, a cut, a dead controller.
//!
//! Not under the test harness, which has threads: a controller is forked from a process with one. This
//! program is also the agent of its nodes, the service at the far end, and its guests' /init.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test's report")]

#[path = "paths/cards.rs"]
mod cards;
#[path = "paths/leases.rs"]
mod leases;
#[path = "paths/remote.rs"]
mod remote;
#[path = "paths/routed.rs"]
mod routed;
#[path = "paths/several.rs"]
mod several;
#[path = "paths/slow.rs"]
mod slow;
#[path = "paths/stage.rs"]
mod stage;
#[path = "paths/target.rs"]
mod target;
#[path = "paths/topology.rs"]
mod topology;
#[path = "paths/translated.rs"]
mod translated;
#[path = "paths/tunnelled.rs"]
mod tunnelled;
#[path = "paths/uml.rs"]
mod uml;

use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_lab::{Lab, LabError};
use vtax_plan::model::{
    CardSharing, Controller, Datapath, EnvironmentKind, MininetSwitch, NetPath, NicModel, OvsOptions,
    PathKind, SdnMode, SdnOptions, UserNetwork, VirtualSwitch, VmOptions, WhenLost,
};
use vtax_sys::require::{Need, again_until, complete, need};
use vtax_testkit::cases::Cases;
use vtax_testkit::residue::Snapshot;
use vtax_topology::blueprint::Needs;
use vtax_units::{BitRate, Bytes, Nanos, Share};
use vtax_vm::{GuestTemplate, GuestTemplateOptions};

use stage::{Stage, spec, within};

/// Name and work of a case.
type Case = (&'static str, fn(&mut Lab));

/// What needs no guest.
const CASES: &[Case] = &[
    ("emulated links are what they say", links_are_what_they_say),
    ("slow links are proved too", slow::proofs),
    ("links that cannot be are refused", impossible_links_are_refused),
    ("a capture has what was sent", a_capture_has_what_was_sent),
    ("mtu mismatch", a_mismatch_of_mtus_is_felt),
    ("routed", routed::case),
    ("routed, IPv6", routed::ipv6),
    ("routed, a fabric", topology::fabric),
    ("routed, a ring", topology::ring),
    ("routed, cuts of known length", topology::cuts),
    ("several systems under test", several::natives),
    ("several cards of one system", several::cards),
    ("addresses by DHCP", leases::natives),
    ("two services", several::services),
    ("a cut path carries nothing until it is restored", a_cut_path_carries_nothing),
    ("nat", translated::published),
    ("nat, two systems in containers", translated::several),
    ("vxlan", tunnelled::vxlan),
    ("macvlan", |lab| tunnelled::shared(lab, CardSharing::Macvlan)),
    ("ipvlan", |lab| tunnelled::shared(lab, CardSharing::Ipvlan)),
    ("wireguard", tunnelled::wireguard),
    ("pasta", |lab| translated::rootless(lab, UserNetwork::Pasta)),
    ("slirp4netns", |lab| translated::rootless(lab, UserNetwork::Slirp4netns)),
    ("uml", uml::case),
    ("ovs", open_vswitch),
    ("sdn testcontroller", |lab| software_defined(lab, Controller::Testcontroller)),
    ("sdn os-ken", |lab| software_defined(lab, Controller::OsKen)),
    ("mininet", mininet),
];

/// Name of a case, modules that its guests load, and its work.
type InGuests = (&'static str, fn() -> Vec<&'static str>, fn(&mut Lab));

/// What needs guests.
const IN_GUESTS: &[InGuests] = &[
    ("bridged", Vec::new, bridged),
    ("vm-vm", Vec::new, two_guests),
    ("nginx twice", Vec::new, several::guests),
    ("several cards of a guest", Vec::new, several::cards_of_a_guest),
    ("cards", || cards::MODULES.to_vec(), cards::case),
    ("leases and balloons", || leases::MODULES.to_vec(), leases::guests),
    ("target", || target::MODULES.to_vec(), target::case),
    ("routed, a VPN", || VPN.modules(), topology::vpn),
];

/// What its routers' guest needs.
const VPN: Needs =
    Needs { labels: true, vrfs: true, tunnels: true, routers: true, wires: false, rates: false };

fn main() {
    if vtax_agent::guest::is_init() {
        vtax_agent::guest::run();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("agent") => return stage::agent(&args[1..]),
        Some("serve") => return stage::serve(&args[1]),
        Some("service") => return target::serve(&args[2]),
        _ => {}
    }
    if !need(&[Need::Ns, Need::Root]) {
        return;
    }
    let mut cases = Cases::picked_by(&args);
    for (name, case) in CASES {
        cases.run(name, || within(None, *case));
    }
    cases.run("nic", || stage::in_controller(remote::case));
    let wanted: Vec<&InGuests> = IN_GUESTS.iter().filter(|(name, ..)| cases.want(name)).collect();
    if !wanted.is_empty() && need(&[Need::Vm]) {
        for (name, modules, case) in wanted {
            cases.run(name, || within(Some(guests(&modules())), *case));
        }
    }
    cases.conclude();
}

/// What makes guests that load these modules.
fn guests(modules: &[&str]) -> Arc<GuestTemplate> {
    let modules = modules.iter().map(|&module| module.to_owned()).collect();
    let template =
        GuestTemplate::prepare(&GuestTemplateOptions { modules, ..GuestTemplateOptions::of_user() });
    Arc::new(template.expect("this host can prepare guests"))
}

fn native(path: NetPath) -> vtax_lab::TestbedSpec {
    spec(EnvironmentKind::Native, path)
}

/// Skips a case whose packages are missing, unless everything is required.
fn obstacle(lab: &mut Lab, path: &NetPath) -> bool {
    !complete(lab.path_obstacle(path))
}

pub(crate) fn fact(stage: &Stage, key: &str) -> f64 {
    let facts = stage.testbed.path_facts();
    facts.get(key).unwrap_or_else(|| panic!("no {key} in {facts:#?}")).parse().unwrap()
}

/// A figure that should be in a range.
fn undisturbed<T: PartialOrd>(range: &std::ops::Range<T>, measure: impl FnMut() -> T) -> T {
    again_until(measure, |figure| range.contains(figure))
}

fn links_are_what_they_say(lab: &mut Lab) {
    let gigabit = NetPath { rate: Some(BitRate(1_000_000_000)), ..NetPath::new("gigabit", PathKind::Bridge) };
    let mut stage = Stage::build(lab, &native(gigabit));
    let goodput = undisturbed(&(900e6..960e6), || stage.tcp(Duration::from_millis(500)));
    println!(
        "  gigabit: {:.1} Mbit/s, proved {:.1}",
        goodput / 1e6,
        fact(&stage, "path.proof.goodput_bits") / 1e6
    );
    assert!((900e6..960e6).contains(&goodput), "{goodput}");
    stage.compare_counters();
    stage.end();

    let slow = NetPath {
        rate: Some(BitRate(50_000_000)),
        delay: Nanos::from_millis(10),
        ..NetPath::new("delayed", PathKind::Direct)
    };
    let start = Instant::now();
    let mut stage = Stage::build(lab, &native(slow.clone()));
    println!("  delayed: built with its proof in {:?}", start.elapsed());
    let round_trip = undisturbed(&(Nanos(19_900_000)..Nanos(23_000_000)), || stage.ping());
    println!("  10 ms each way: {round_trip} there and back");
    assert!((Nanos(19_900_000)..Nanos(23_000_000)).contains(&round_trip), "{round_trip}");
    println!("  {:#?}", stage.testbed.path_facts());
    stage.end();
    let start = Instant::now();
    let stage = Stage::build(lab, &native(NetPath { name: "again".into(), ..slow }));
    println!("  delayed: built again in {:?}", start.elapsed());
    assert!(fact(&stage, "path.proof.delay_ns") > 9e6, "a proof counts for the run");
    stage.end();

    let lossy = NetPath { loss: Share(0.1), ..NetPath::new("lossy", PathKind::Bridge) };
    let mut stage = Stage::build(lab, &native(lossy));
    let lost = undisturbed(&(0.08..0.12), || stage.udp_loss());
    println!("  10 % lost: {:.2} %, proved {:.2} %", lost * 100.0, fact(&stage, "path.proof.loss") * 100.0);
    assert!((0.08..0.12).contains(&lost), "{lost}");
    assert!(fact(&stage, "path.wire.up.lost") > 0.0);
    stage.end();

    let plain = NetPath { offloads: false, ..NetPath::new("plain", PathKind::Bridge) };
    let mut stage = Stage::build(lab, &native(plain));
    stage.tcp(Duration::from_millis(300));
    let [client, _] = stage.testbed.counters().unwrap().unwrap();
    let each = client.sent_bytes / client.sent_packets;
    println!("  without offloads packets have {each} bytes");
    assert!(each <= 1514, "{client:?}");
    stage.end();
}

fn impossible_links_are_refused(lab: &mut Lab) {
    // No host passes 10 Tbit/s through a token bucket.
    let path = NetPath { rate: Some(BitRate(10_000_000_000_000)), ..NetPath::new("fast", PathKind::Bridge) };
    let start = Instant::now();
    let refused = lab.build(&native(path)).unwrap_err();
    println!("  {refused} ({:?})", start.elapsed());
    assert!(matches!(refused, LabError::PathRefused { .. }), "{refused}");
    let none = lab.build(&native(NetPath::new("bare", PathKind::Bridge))).unwrap();
    assert!(none.counters().unwrap().is_some());
    assert!(none.destroy().is_empty());
}

fn a_capture_has_what_was_sent(lab: &mut Lab) {
    let path = NetPath { rate: Some(BitRate(200_000_000)), ..NetPath::new("captured", PathKind::Bridge) };
    let mut stage = Stage::build(lab, &native(path));
    let capture = stage.testbed.start_capture().unwrap();
    let payload = stage.tcp_bytes(Duration::from_millis(500));
    let counts = capture.stop().unwrap();
    println!("  {payload} bytes were received; {counts:?}");
    assert_eq!(counts.dropped, 0);
    // Beside the test's own, some hundred bytes of its control connection.
    let new = counts.up.payload_bytes - counts.up.retransmitted_bytes;
    assert!(new.abs_diff(payload) as f64 / (payload as f64) < 0.005, "{counts:?}");
    let [client, _] = stage.testbed.counters().unwrap().unwrap();
    assert!(client.sent_bytes.abs_diff(counts.up.bytes) < 10_000, "{client:?}");
    drop(stage.testbed.start_capture().unwrap());
    stage.end();
}

fn a_mismatch_of_mtus_is_felt(lab: &mut Lab) {
    let path = NetPath { mtu: 9000, sut_mtu: Some(1500), ..NetPath::new("odd", PathKind::Bridge) };
    let mut stage = Stage::build(lab, &native(path));
    // TCP's ends tell each other what they can take; a sender of datagrams isn't told.
    stage.carries(10e6, Duration::from_millis(300));
    stage.end();
}

fn a_cut_path_carries_nothing(lab: &mut Lab) {
    for kind in [PathKind::Bridge, PathKind::Direct] {
        let mut stage = Stage::build(lab, &native(NetPath::new("cut", kind)));
        assert!(stage.answers(Duration::from_secs(5)));
        let switch = stage.testbed.path_switch();
        assert!(switch.kill_controller().is_err(), "there is none");
        switch.cut().unwrap();
        assert!(!stage.answers(Duration::from_millis(300)));
        switch.restore().unwrap();
        assert!(stage.answers(Duration::from_secs(5)));
        drop(switch);
        stage.end();
    }
}

fn open_vswitch(lab: &mut Lab) {
    let kind = PathKind::Ovs(OvsOptions { datapath: Datapath::Auto });
    let path = NetPath::new("ovs", kind);
    if obstacle(lab, &path) {
        return;
    }
    let before = Snapshot::take();
    for path in [path.clone(), NetPath { offloads: false, name: "plain".into(), ..path }] {
        let start = Instant::now();
        let mut stage = Stage::build(lab, &native(path));
        let built = start.elapsed();
        let goodput = stage.carries(50e6, Duration::from_millis(500));
        println!(
            "  built in {built:?}, {:.0} Mbit/s, {}; {:#?}",
            goodput / 1e6,
            stage.ping(),
            stage.testbed.path_facts()
        );
        stage.end();
    }
    let left = left_in_these_namespaces(&before);
    // The lab's scratch space stays for the next testbed.
    assert!(left.len() <= 1, "{left:?}");
}

/// What is there now and wasn't before, of what no other program of this machine can add to: the interfaces and mounts of
/// the controller's own namespaces.
fn left_in_these_namespaces(before: &Snapshot) -> Vec<String> {
    let left = Snapshot::take().since(before);
    let own = left.iter().filter(|(kind, _)| ["interface", "mount"].contains(kind));
    own.map(|(kind, what)| format!("{kind} {what}")).collect()
}

fn vm(path: NetPath) -> vtax_lab::TestbedSpec {
    spec(EnvironmentKind::Vm(VmOptions { vcpus: Some(1), ..VmOptions::new(Bytes::from_mib(256)) }), path)
}

fn bridged(lab: &mut Lab) {
    let gigabit = Some(BitRate(1_000_000_000));
    let path = NetPath { rate: gigabit, ..NetPath::new("bridged", PathKind::Bridged(VirtualSwitch::Bridge)) };
    let refused = lab.build(&native(path.clone())).unwrap_err().to_string();
    assert!(refused.contains("`bridged` doesn't suit environment e"), "{refused}");
    let mut stage = Stage::build(lab, &vm(path));
    let goodput = undisturbed(&(5e6..960e6), || stage.tcp(Duration::from_secs(1)));
    println!("  {:.1} Mbit/s, {}; {:?}", goodput / 1e6, stage.ping(), stage.testbed.path_facts());
    assert!((5e6..960e6).contains(&goodput), "{goodput}");
    stage.compare_counters();
    let switch = stage.testbed.path_switch();
    switch.cut().unwrap();
    assert!(!stage.answers(Duration::from_millis(300)));
    switch.restore().unwrap();
    assert!(stage.answers(Duration::from_secs(5)));
    drop(switch);
    let facts = stage.testbed.the_sut().node.facts();
    let command = &facts["vm.command"];
    assert_eq!(facts["vm.nic"], NicModel::Virtio.word());
    assert!(command.contains("-device virtio-net-pci,") && !command.contains("mq=on"), "{command}");
    // A guest without a balloon can't be asked to give anything.
    let refused = stage.testbed.resize_balloons(&[Some(Bytes::from_mib(176))]).unwrap_err();
    let refused = vtax_sys::chain(&refused);
    assert!(refused.contains("balloon"), "{refused}");
    stage.end();
}

/// On Open vSwitch, where that is, so that taps on it are tried too.
fn two_guests(lab: &mut Lab) {
    let on = |switch| NetPath::new("vm-vm", PathKind::VmVm(switch));
    let on_ovs = on(VirtualSwitch::Ovs);
    let path = if obstacle(lab, &on_ovs) { on(VirtualSwitch::Bridge) } else { on_ovs };
    let mut stage = Stage::build(lab, &vm(path));
    assert_eq!((stage.testbed.client.kind(), stage.testbed.the_sut().node.kind()), ("vm", "vm"));
    let capture = stage.testbed.start_capture().unwrap();
    let goodput = stage.carries(1e6, Duration::from_secs(1));
    let counts = capture.stop().unwrap();
    println!("  {:.1} Mbit/s, {}; {counts:?}", goodput / 1e6, stage.ping());
    assert!(counts.up.payload_bytes as f64 * 8.0 > goodput, "{counts:?}");
    stage.end();
}

fn software_defined(lab: &mut Lab, controller: Controller) {
    let sdn = |mode, when_lost| {
        let options =
            SdnOptions { ovs: OvsOptions { datapath: Datapath::Auto }, controller, mode, when_lost };
        NetPath::new("sdn", PathKind::Sdn(options))
    };
    if obstacle(lab, &sdn(SdnMode::Reactive, WhenLost::Secure)) {
        return;
    }
    for mode in [SdnMode::Reactive, SdnMode::EveryPacket] {
        let start = Instant::now();
        let mut stage = Stage::build(lab, &native(sdn(mode, WhenLost::Secure)));
        let built = start.elapsed();
        let goodput = stage.carries(1e6, Duration::from_millis(500));
        let round_trip = stage.ping();
        let facts = stage.testbed.path_facts();
        println!("  {mode:?}: built in {built:?}, {:.0} Mbit/s, {round_trip}; {facts:#?}", goodput / 1e6);
        let flows: u64 = facts["path.sdn.flows"].parse().unwrap();
        // One for what no other matches.
        assert_eq!(flows > 1, mode == SdnMode::Reactive, "{facts:?}");
        let switch = stage.testbed.path_switch();
        switch.kill_controller().unwrap();
        drop(switch);
        assert_eq!(stage.testbed.path_facts()["path.sdn.controller_alive"], "false");
        if mode == SdnMode::EveryPacket {
            assert!(!stage.answers(Duration::from_millis(500)), "there is no controller to be asked");
        }
        stage.end();
    }
    if controller == Controller::OsKen {
        return;
    }
    // Once is enough: Open vSwitch takes 15 s to give a controller up.
    let mut stage = Stage::build(lab, &native(sdn(SdnMode::EveryPacket, WhenLost::Standalone)));
    let switch = stage.testbed.path_switch();
    switch.kill_controller().unwrap();
    drop(switch);
    assert!(stage.answers(Duration::from_secs(60)), "the switch must go on by itself");
    stage.end();
}

fn mininet(lab: &mut Lab) {
    let limits = || std::fs::read_to_string("/proc/sys/fs/file-max").unwrap();
    let before = (Snapshot::take(), limits());
    for switch in [MininetSwitch::LinuxBridge, MininetSwitch::OvsUser] {
        let path = NetPath::new("mininet", PathKind::Mininet(switch));
        if obstacle(lab, &path) {
            return;
        }
        let start = Instant::now();
        let mut stage = Stage::build(lab, &native(path));
        let built = start.elapsed();
        let goodput = stage.carries(50e6, Duration::from_millis(500));
        let facts = stage.testbed.path_facts();
        println!(
            "  {switch:?}: built in {built:?}, {:.0} Mbit/s, {}; {facts:#?}",
            goodput / 1e6,
            stage.ping()
        );
        if switch == MininetSwitch::LinuxBridge {
            // A switch in user space drops what it can't carry.
            stage.compare_counters();
        }
        let cut = stage.testbed.path_switch();
        cut.cut().unwrap();
        assert!(!stage.answers(Duration::from_millis(300)));
        cut.restore().unwrap();
        assert!(stage.answers(Duration::from_secs(5)));
        stage.end();
    }
    assert_eq!(limits(), before.1, "Mininet changes nothing of the machine's");
    let left = left_in_these_namespaces(&before.0);
    assert!(left.is_empty(), "{left:?}");
}
