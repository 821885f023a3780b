//! Several systems under test behind one client.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use vtax_agent::message::{Provisioning, ServiceId};
use vtax_agent::{AgentError, Client};
use vtax_lab::{Lab, SutCpus, SutSpec, Testbed, TestbedSpec};
use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::{ConnectionPool, LoadAnswer, LoadResult, LoadSpec, Model, RequestStep, Step};
use vtax_plan::model::{
    Direction, Environment, EnvironmentKind, NetPath, PathKind, Service, ServiceKind, VirtualSwitch,
    VmOptions, WebOptions, Wiring,
};
use vtax_probe::delta::Interval;
use vtax_probe::layers::{CpuBreakdown, Hosting, Layer, break_down};
use vtax_probe::{Probe, Scope, Snapshot};
use vtax_units::{BitRate, Bytes, CpuSet, Nanos};

use crate::stage::{PORT, Stage, peer, spec};

pub(crate) fn two(kind: &EnvironmentKind, path: PathKind, cpus: SutCpus) -> TestbedSpec {
    let sut = |name: &str| SutSpec { cpus, ..SutSpec::new(Environment::new(name, kind.clone())) };
    TestbedSpec { suts: vec![sut("one"), sut("other")], ..spec(kind.clone(), NetPath::new("shared", path)) }
}

pub(crate) fn natives(lab: &mut Lab) {
    let native = EnvironmentKind::Native;
    let mut stage = Stage::build(lab, &two(&native, PathKind::Bridge, SutCpus::Equal));
    println!("  {:?}", stage.testbed.notes);
    let suts = &stage.testbed.suts;
    assert_eq!([suts[0].node.name(), suts[1].node.name()], ["sut", "sut-2"]);
    assert_ne!(suts[0].service_address, suts[1].service_address);
    assert_eq!(suts[0].shared, suts[0].cpus.overlaps(&suts[1].cpus));
    assert!(suts.iter().all(|sut| sut.node.enforced().cpus == sut.cpus));
    for aim in [0, 1] {
        stage.aim = aim;
        let goodput = stage.carries(50e6, Duration::from_millis(200));
        println!("  system {aim}: {:.0} Mbit/s, {}", goodput / 1e6, stage.ping());
    }
    stage.end();
    let refused = lab.build(&two(&native, PathKind::Direct, SutCpus::Equal)).unwrap_err().to_string();
    assert!(refused.contains("`direct` joins one system under test, not 2"), "{refused}");
    own_wires(lab);
}

/// Each system has a wire of its own to a client that has none.
fn own_wires(lab: &mut Lab) {
    let two = two(&EnvironmentKind::Native, PathKind::Bridge, SutCpus::All);
    let path = NetPath { rate: Some(BitRate(200_000_000)), wires: Wiring::Own, ..two.path.clone() };
    let mut stage = Stage::build(lab, &TestbedSpec { path, ..two });
    for aim in [0, 1] {
        stage.aim = aim;
        let range = 100e6..200e6;
        let goodput = crate::undisturbed(&range, || stage.tcp(Duration::from_millis(300)));
        println!("  system {aim}: {:.1} Mbit/s", goodput / 1e6);
        assert!(range.contains(&goodput), "{goodput}");
    }
    stage.end();
}

/// A process with several cards, each with a wire of its own, and a container with as many on one.
pub(crate) fn cards(lab: &mut Lab) {
    let path = NetPath { cards: NonZeroU32::new(3).unwrap(), ..NetPath::new("cards", PathKind::Bridge) };
    let own = NetPath { rate: Some(BitRate(100_000_000)), wires: Wiring::Own, ..path.clone() };
    all_carry(lab, EnvironmentKind::Native, own);
    all_carry(lab, EnvironmentKind::Container, path);
}

/// The same for a virtual machine behind a virtual switch.
pub(crate) fn cards_of_a_guest(lab: &mut Lab) {
    let kind = PathKind::Bridged(VirtualSwitch::Bridge);
    let path = NetPath { cards: NonZeroU32::new(2).unwrap(), ..NetPath::new("cards", kind) };
    let guest = EnvironmentKind::Vm(VmOptions::new(Bytes::from_mib(256)));
    all_carry(lab, guest.clone(), path.clone());
    // What each card sends is limited by its wire, as what it gets is.
    let rate = BitRate(20_000_000);
    let own = NetPath { rate: Some(rate), wires: Wiring::Own, ..path };
    let mut stage = Stage::build(lab, &spec(guest, own));
    for direction in [Direction::Up, Direction::Down] {
        // What was held up before the time that is counted may come in it.
        let range = 0.0..2.2 * rate.0 as f64;
        let goodput = crate::undisturbed(&range, || stage.streams(16, direction, Duration::from_secs(1)));
        println!("  {direction:?}: {:.1} Mbit/s", goodput / 1e6);
        assert!(range.contains(&goodput), "{goodput}");
    }
    stage.end();
}

/// Connections are spread over all cards of a system, in both directions; where no wire has a rate, whose queue would drop some, all
/// cards together got what the client sent.
fn all_carry(lab: &mut Lab, kind: EnvironmentKind, path: NetPath) {
    let (wanted, limited) = (path.cards.get() as usize, path.rate.is_some());
    let mut stage = Stage::build(lab, &spec(kind, path));
    let goodput = stage.streams(32, Direction::Up, Duration::from_millis(500));
    let cards = stage.testbed.the_sut().cards().unwrap();
    println!("  {:.0} Mbit/s over {cards:?}, {}", goodput / 1e6, stage.ping());
    assert_eq!(cards.len(), wanted);
    let whole = cards.iter().copied().reduce(|all, card| all + card).unwrap();
    for card in &cards {
        // Of 32 connections a card of three gets none in one of 400,000 runs.
        assert!(card.received_packets > whole.received_packets / 100, "{cards:?}");
        assert!(card.sent_packets > whole.sent_packets / 100, "{cards:?}");
    }
    if !limited {
        stage.compare_counters();
    }
    stage.end();
}

/// Two services on one agent: each is reached, and the end of one leaves the other alone.
pub(crate) fn services(lab: &mut Lab) {
    let path = NetPath::new("shared", PathKind::Direct);
    let mut stage = Stage::build(lab, &spec(EnvironmentKind::Native, path));
    let second = peer("/proc/self/exe", PORT + 1);
    let address = stage.testbed.the_sut().service_address;
    let ready =
        stage.suts[0].start_service(ServiceId(1), &second, address, &Provisioning::default()).unwrap();
    stage.targets.push(ready.address);
    assert_eq!(stage.targets[1].port(), stage.targets[0].port() + 1);
    for aim in [0, 1] {
        stage.aim = aim;
        stage.carries(50e6, Duration::from_millis(200));
    }
    stage.suts[0].stop_service(ServiceId::ONLY, Nanos::from_secs(2)).unwrap();
    stage.carries(50e6, Duration::from_millis(200));
    stage.suts[0].stop_service(ServiceId(1), Nanos::from_secs(2)).unwrap();
    stage.end();
}

/// Two web servers in two virtual machines behind one client: both answer, and each has an account of the CPU
/// time that it took.
pub(crate) fn guests(lab: &mut Lab) {
    let nginx = Service {
        name: "nginx".to_owned(),
        kind: ServiceKind::Nginx(WebOptions { workers: Some(1), ..WebOptions::on(80) }),
        ready_timeout: Nanos::from_secs(60),
        stop_timeout: Nanos::from_secs(5),
    };
    if !vtax_sys::require::complete(vtax_service::missing(&nginx)) {
        return;
    }
    let memory = Bytes::from_mib(256);
    let vm = EnvironmentKind::Vm(VmOptions { vcpus: Some(1), ..VmOptions::new(memory) });
    let start = Instant::now();
    let testbed = lab.build(&two(&vm, PathKind::Bridge, SutCpus::All));
    let testbed = testbed.unwrap_or_else(|e| panic!("{}", vtax_sys::chain(&e)));
    let stage = Stage::with(testbed, |_| nginx.clone());
    println!("  two guests with nginx after {:?}; {:?}", start.elapsed(), stage.testbed.notes);
    assert!(stage.testbed.suts.iter().all(|sut| sut.shared), "both have all CPUs");
    let mut accounts = [Account::of(&stage.testbed, 0), Account::of(&stage.testbed, 1)];
    // The first does nothing while the second works.
    for (aim, target) in stage.targets.iter().enumerate() {
        let before = [0, 1].map(|i| accounts[i].mark(&stage.suts[i]));
        let result = ask(&stage.client, *target);
        let after = [0, 1].map(|i| accounts[i].mark(&stage.suts[i]));
        assert!(result.counts.ok > 10 && result.counts.errors == Default::default(), "{:?}", result.counts);
        let of = |i: usize| accounts[i].between(&before[i], &after[i], result.counts.ok);
        let (busy, idle) = (of(aim), of(1 - aim));
        let service = |account: &CpuBreakdown| {
            account.time(Layer::ServiceUser).0 + account.time(Layer::ServiceSystem).0
        };
        println!(
            "  system {aim}: {} answers; CPU {} of the busy one, {} of the idle one; {:?}",
            result.counts.ok,
            busy.total(),
            idle.total(),
            busy.layers
        );
        assert!(service(&busy) > 0 && busy.total().0 > service(&busy), "{busy:?}");
        // Its server was asked nothing; a guest's clock ticks are coarse.
        assert!(service(&idle) < service(&busy) / 4, "{idle:?}");
    }
    stage.end();
}

/// Drives load at a web server, by the engine that measures.
fn ask(client: &Client, target: SocketAddr) -> LoadResult {
    let pool =
        ConnectionPool { target, connections: 2, timeout: Nanos::from_secs(10), cpus: CpuSet::default() };
    let requests = HttpRequests::get("/bytes/100", "test");
    let step = RequestStep {
        model: Model::Closed,
        warmup: Nanos::from_millis(200),
        duration: Nanos::from_secs(1),
        seed: 1,
        samples: false,
        interval: Nanos::from_secs(1),
        drain: Nanos::from_secs(1),
    };
    let run = || -> Result<LoadAnswer, AgentError> {
        client.open_load(&LoadSpec::Http(HttpSpec { pool, requests }))?;
        let within = step.longest();
        client.run_step(Step::Requests(step), within, &mut |_| {})
    };
    run().unwrap_or_else(|e| panic!("{}", vtax_sys::chain(&e))).result
}

/// The CPU account of one virtual machine.
struct Account {
    hypervisor: Probe,
    vcpus: Vec<u32>,
    cpus: CpuSet,
}

/// What it says at one moment: inside and outside.
struct Mark {
    inner: Snapshot,
    outer: Snapshot,
}

impl Account {
    fn of(testbed: &Testbed, number: usize) -> Self {
        let sut = &testbed.suts[number];
        let found = sut.node.hypervisor().unwrap().expect("a virtual machine");
        let hypervisor = Probe::new(Scope::Threads(found.pid)).unwrap();
        Self { hypervisor, vcpus: found.vcpus, cpus: sut.cpus.clone() }
    }

    fn mark(&mut self, agent: &Client) -> Mark {
        Mark { inner: agent.snapshot().unwrap(), outer: self.hypervisor.snapshot().unwrap() }
    }

    fn between(&self, start: &Mark, end: &Mark, requests: u64) -> CpuBreakdown {
        let hosting = Hosting::Guest {
            guest: Interval { start: &start.inner, end: &end.inner },
            hypervisor: Interval { start: &start.outer, end: &end.outer },
            vcpus: &self.vcpus,
        };
        break_down(&hosting, &self.cpus, requests)
    }
}
