//! Paths on which the client meets systems at another address than they have.

use std::time::Duration;

use vtax_lab::{Lab, SutCpus};
use vtax_plan::model::{EnvironmentKind, NatOptions, NetPath, PathKind, UserNetwork};
use vtax_sys::require::complete;
use vtax_units::{BitRate, Nanos};

use crate::several::two;
use crate::stage::{PORT, Stage, spec};
use crate::{fact, obstacle};

pub(crate) fn published(lab: &mut Lab) {
    for masquerade in [false, true] {
        let path = NetPath::new("nat", PathKind::Nat(NatOptions { masquerade }));
        if obstacle(lab, &path) {
            return;
        }
        let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, path));
        assert_ne!(stage.targets[0].ip(), stage.testbed.the_sut().service_address, "it is published");
        assert!(fact(&stage, "path.proof.passed_up") >= 1.0 && fact(&stage, "path.proof.passed_down") >= 1.0);
        let goodput = stage.carries(50e6, Duration::from_millis(300));
        println!("  {:.0} Mbit/s, {}; {:#?}", goodput / 1e6, stage.ping(), stage.testbed.path_facts());
        assert!(
            fact(&stage, "path.nat.up.packets") > 100.0 && fact(&stage, "path.nat.tracked.entries") >= 1.0
        );
        assert!(stage.udp_loss() < 0.5, "datagrams pass too");
        stage.compare_counters();
        let switch = stage.testbed.path_switch();
        switch.cut().unwrap();
        assert!(!stage.answers(Duration::from_millis(300)));
        switch.restore().unwrap();
        assert!(stage.answers(Duration::from_secs(5)));
        drop(switch);
        stage.end();
    }
    slow(lab);
}

/// A rate and a delay in front of the host.
fn slow(lab: &mut Lab) {
    let kind = PathKind::Nat(NatOptions::default());
    let path = NetPath {
        rate: Some(BitRate(200_000_000)),
        delay: Nanos::from_millis(3),
        ..NetPath::new("slow", kind)
    };
    let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, path));
    let round_trip = stage.ping();
    println!("  3 ms each way: {round_trip}");
    assert!(round_trip >= Nanos::from_millis(6), "{round_trip}");
    let range = 20e6..200e6;
    let goodput = crate::undisturbed(&range, || stage.tcp(Duration::from_millis(500)));
    assert!(range.contains(&goodput), "{goodput}");
    stage.end();
}

pub(crate) fn several(lab: &mut Lab) {
    let kind = PathKind::Nat(NatOptions::default());
    if obstacle(lab, &NetPath::new("nat", kind.clone())) {
        return;
    }
    let container = EnvironmentKind::Container;
    if !complete(lab.container_runtime().err()) {
        return;
    }
    let mut stage = Stage::build(lab, &two(&container, kind, SutCpus::All));
    assert_ne!(stage.targets[0].ip(), stage.targets[1].ip(), "each is published at an address of its own");
    for aim in [0, 1] {
        stage.aim = aim;
        let goodput = stage.carries(50e6, Duration::from_millis(200));
        println!("  system {aim}: {:.0} Mbit/s, {}", goodput / 1e6, stage.ping());
    }
    stage.end();
}

pub(crate) fn rootless(lab: &mut Lab, network: UserNetwork) {
    let kind = PathKind::Rootless(network);
    let path = NetPath { sut_mtu: Some(UserNetwork::MTU), ..NetPath::new(kind.word(), kind.clone()) };
    if obstacle(lab, &path) {
        return;
    }
    let refused = lab.build(&two(&EnvironmentKind::Native, kind, SutCpus::All)).unwrap_err().to_string();
    assert!(refused.contains("joins one system under test, not 2"), "{refused}");
    let published = |environment, path: &NetPath| {
        let mut spec = spec(environment, path.clone());
        spec.suts[0].port = Some(PORT);
        spec
    };
    for environment in [EnvironmentKind::Native, EnvironmentKind::Container] {
        if environment == EnvironmentKind::Container && !complete(lab.container_runtime().err()) {
            continue;
        }
        let mut stage = Stage::build(lab, &published(environment, &path));
        assert_ne!(stage.targets[0].ip(), stage.testbed.the_sut().service_address, "it is published");
        assert!(fact(&stage, "path.proof.passed_up") >= 1.0 && fact(&stage, "path.proof.passed_down") >= 1.0);
        let goodput = stage.carries(20e6, Duration::from_millis(300));
        println!("  {:.0} Mbit/s; {:#?}", goodput / 1e6, stage.testbed.path_facts());
        let word = network.word();
        assert!(fact(&stage, &format!("path.{word}.cpu_ns")) > 1e6, "it worked for it");
        stage.end();
    }
    let slow = NetPath { delay: Nanos::from_millis(3), ..path };
    let mut stage = Stage::build(lab, &published(EnvironmentKind::Native, &slow));
    stage.carries(1e6, Duration::from_millis(300));
    stage.end();
}
