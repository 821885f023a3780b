//! Tunnels between hosts, and interfaces that share a card.

use std::time::Duration;

use vtax_lab::{Lab, SutCpus};
use vtax_plan::model::{CardSharing, EnvironmentKind, NetPath, PathKind};
use vtax_units::{BitRate, Nanos};

use crate::several::two;
use crate::stage::{Stage, spec};
use crate::{fact, obstacle};

pub(crate) fn vxlan(lab: &mut Lab) {
    let path = NetPath::new("vxlan", PathKind::Vxlan);
    if obstacle(lab, &path) {
        return;
    }
    for path in [path.clone(), NetPath { mtu: 9000, offloads: false, ..path }] {
        let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, path.clone()));
        let interfaces = stage.testbed.the_sut().node.interfaces().expect("it has interfaces");
        assert_eq!(interfaces[0].mtu, path.mtu - 50, "what the tunnel takes is left for it");
        assert!(fact(&stage, "path.proof.passed_up") >= 1.0 && fact(&stage, "path.proof.passed_down") >= 1.0);
        let goodput = stage.carries(20e6, Duration::from_millis(300));
        println!("  {:.0} Mbit/s, {}; {:#?}", goodput / 1e6, stage.ping(), stage.testbed.path_facts());
        assert!(stage.udp_loss() < 0.5, "datagrams pass too");
        assert!(fact(&stage, "path.vxlan.carried_up") > 100.0);
        stage.compare_counters();
        cut(&mut stage);
        stage.end();
    }
    let slow = NetPath { delay: Nanos::from_millis(3), ..NetPath::new("slow", PathKind::Vxlan) };
    let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, slow));
    let round_trip = stage.ping();
    assert!(round_trip >= Nanos::from_millis(6), "{round_trip}");
    stage.end();
}

fn cut(stage: &mut Stage) {
    let switch = stage.testbed.path_switch();
    switch.cut().unwrap();
    assert!(!stage.answers(Duration::from_millis(300)));
    switch.restore().unwrap();
    assert!(stage.answers(Duration::from_secs(5)));
}

pub(crate) fn wireguard(lab: &mut Lab) {
    let path = NetPath::new("wireguard", PathKind::Wireguard);
    if let Some(reason) = lab.path_obstacle(&path) {
        assert!(reason.contains("module wireguard") || reason.contains("wg is not installed"), "{reason}");
        println!("  left out: {reason}");
        return;
    }
    let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, path));
    let interfaces = stage.testbed.the_sut().node.interfaces().expect("it has interfaces");
    assert_eq!(interfaces[0].mtu, 1420);
    assert!(stage.testbed.path_is_on_any_cpu());
    assert!(fact(&stage, "path.proof.passed_up") >= 1.0 && fact(&stage, "path.proof.passed_down") >= 1.0);
    let goodput = stage.carries(5e6, Duration::from_millis(300));
    println!("  {:.0} Mbit/s, {}; {:#?}", goodput / 1e6, stage.ping(), stage.testbed.path_facts());
    assert!(stage.udp_loss() < 0.5, "datagrams pass too");
    cut(&mut stage);
    stage.end();
}

pub(crate) fn shared(lab: &mut Lab, sharing: CardSharing) {
    let kind = PathKind::Shared(sharing);
    let path = NetPath::new(kind.word(), kind.clone());
    if let Some(reason) = lab.path_obstacle(&path) {
        // A kernel that has none says so; nothing else may stand in its way.
        assert!(reason.contains(&format!("module {}", kind.word())), "{reason}");
        println!("  left out: {reason}");
        return;
    }
    let refused = lab.build(&crate::vm(path.clone())).unwrap_err().to_string();
    assert!(refused.contains("doesn't suit environment"), "{refused}");
    let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, path.clone()));
    assert!(fact(&stage, "path.proof.passed_up") >= 1.0 && fact(&stage, "path.proof.passed_down") >= 1.0);
    let goodput = stage.carries(50e6, Duration::from_millis(300));
    println!("  {:.0} Mbit/s, {}; {:#?}", goodput / 1e6, stage.ping(), stage.testbed.path_facts());
    assert!(stage.udp_loss() < 0.5, "datagrams pass too");
    stage.compare_counters();
    cut(&mut stage);
    stage.end();

    let mut stage = Stage::build(lab, &two(&EnvironmentKind::Native, kind, SutCpus::All));
    for aim in [0, 1] {
        stage.aim = aim;
        stage.carries(50e6, Duration::from_millis(200));
    }
    stage.end();

    let rate = Some(BitRate(200_000_000));
    let slow = NetPath { rate, delay: Nanos::from_millis(3), ..path };
    let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, slow));
    let (round_trip, range) = (stage.ping(), 20e6..200e6);
    let goodput = crate::undisturbed(&range, || stage.tcp(Duration::from_millis(500)));
    println!("  3 ms each way: {round_trip}, 200 Mbit/s: {:.0}", goodput / 1e6);
    assert!(round_trip >= Nanos::from_millis(6) && range.contains(&goodput));
    stage.end();
}
