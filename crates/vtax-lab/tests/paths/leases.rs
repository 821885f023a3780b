//! Systems that ask for their addresses, and balloons that take memory from guests.

use std::time::Duration;

use vtax_lab::{Lab, SutCpus, SutSpec, TestbedSpec};
use vtax_plan::model::{Addressing, BALLOON, Environment, EnvironmentKind, NetPath, PathKind, VmOptions};
use vtax_units::{Bytes, Nanos};

use crate::obstacle;
use crate::stage::{Stage, spec};

/// What guests load for their balloons.
pub(crate) const MODULES: [&str; 1] = [BALLOON];

fn two(kind: &EnvironmentKind, path: NetPath) -> TestbedSpec {
    let environment = || Environment::new("e", kind.clone());
    let sut = || SutSpec { cpus: SutCpus::All, ..SutSpec::new(environment()) };
    TestbedSpec { suts: vec![sut(), sut()], ..spec(kind.clone(), path) }
}

/// Each system has the lease that was made for it, and is reached there.
fn leased(stage: &mut Stage) {
    for aim in [0, 1] {
        let lease = stage.cards[aim][0].lease.unwrap_or_else(|| panic!("{:?}", stage.cards));
        println!("  system {aim}: {} after {}", lease.words(), lease.took);
        assert_eq!(stage.testbed.suts[aim].service_address, lease.address);
        assert_eq!((lease.prefix, lease.seconds), (16, Some(86_400)));
        assert!(lease.messages >= 2 && lease.took > Nanos::ZERO);
        stage.aim = aim;
        stage.carries(1e6, Duration::from_millis(500));
    }
    let facts = stage.testbed.path_facts();
    assert!(facts["path.dhcp.server"].starts_with("dnsmasq "), "{facts:?}");
    assert_eq!(facts["path.dhcp.alive"], "true");
}

/// Processes, on a plain bridge and behind a wire that delays and loses what they ask.
pub(crate) fn natives(lab: &mut Lab) {
    let path = NetPath { addresses: Addressing::Dhcp, ..NetPath::new("leased", PathKind::Bridge) };
    if obstacle(lab, &path) {
        return;
    }
    let mut stage = Stage::build(lab, &two(&EnvironmentKind::Native, path.clone()));
    leased(&mut stage);
    stage.end();
    // A testbed without such a path has no server, and its systems ask nobody.
    let fixed = NetPath { addresses: Addressing::Static, ..path };
    let stage = Stage::build(lab, &two(&EnvironmentKind::Native, fixed));
    assert!(stage.cards.iter().flatten().all(|card| card.lease.is_none()), "{:?}", stage.cards);
    assert!(!stage.testbed.path_facts().contains_key("path.dhcp.server"));
    stage.end();
}

/// Virtual machines, whose balloons take a part of their memory.
pub(crate) fn guests(lab: &mut Lab) {
    let path = NetPath { addresses: Addressing::Dhcp, ..NetPath::new("leased", PathKind::Bridge) };
    if obstacle(lab, &path) {
        return;
    }
    let memory = Bytes::from_mib(256);
    let vm = EnvironmentKind::Vm(VmOptions { vcpus: Some(1), ..VmOptions::new(memory) });
    let mut stage = Stage::build(lab, &TestbedSpec { balloons: true, ..two(&vm, path.clone()) });
    leased(&mut stage);
    let left = [Some(Bytes::from_mib(176)), None];
    let took = stage.testbed.resize_balloons(&left).unwrap_or_else(|e| panic!("{}", vtax_sys::chain(&e)));
    println!("  a balloon took 80 MiB within {took:?}");
    assert!(took[0].is_some() && took[1].is_none());
    let now = |stage: &Stage, at: usize| stage.testbed.suts[at].node.vm().unwrap().memory_left().unwrap();
    assert_eq!([now(&stage, 0), now(&stage, 1)], [Bytes::from_mib(176), memory]);
    stage.aim = 0;
    stage.carries(1e6, Duration::from_millis(500));
    let back = stage.testbed.resize_balloons(&[Some(memory), None]);
    assert!(back.is_ok(), "{back:?}");
    stage.end();
}
