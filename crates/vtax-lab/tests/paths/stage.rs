//! A testbed with both agents answering and the far end of network tests listening.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use vtax_agent::message::{CardFacts, Provisioning, ServiceId};
use vtax_agent::{AgentError, Client, Role};
use vtax_lab::{Isolation, Lab, LabOptions, Node, Sut, Testbed, TestbedSpec};
use vtax_load::network::{
    Direction, NetworkResult, NetworkSpec, NetworkTestKind, PingTest, Probe, ServerOptions, SocketOptions,
    TcpFlow, TcpTest, UdpTest,
};
use vtax_load::{ArrivalProcess, LoadSpec, NetworkAnswer, Step};
use vtax_plan::model::{
    Budget, CommandService, Environment, EnvironmentKind, NetPath, Ready, Service, ServiceKind,
};
use vtax_router::Raised;
use vtax_sys::ProcessExit;
use vtax_sys::controller::ControllerOptions;
use vtax_testkit::build_undisturbed;
use vtax_units::{BitRate, Bytes, Nanos, Rate};
use vtax_vm::GuestTemplate;

pub(crate) const PORT: u16 = 5202;
/// A guest under emulation on a busy host has been seen to take 20 s to its first answer.
const BOOT_WITHIN: Duration = Duration::from_secs(90);

/// `agent --node NAME --fd 3 --dir DIRECTORY`, as vtax's own.
pub(crate) fn agent(args: &[String]) {
    let directory = PathBuf::from(args.last().expect("a directory"));
    std::fs::create_dir_all(&directory).unwrap();
    let over_ssh = args.iter().skip_while(|a| *a != "--fd").nth(1).is_some_and(|fd| fd == "0");
    let (read, write) = if over_ssh {
        vtax_sys::inherit::standard_streams().unwrap()
    } else {
        let read = vtax_sys::inherit::take(3).unwrap();
        (read.try_clone().unwrap(), read)
    };
    let role = Role { init: std::process::id() == 1, directory };
    vtax_agent::serve(read, write, role).unwrap();
}

/// The far end of network tests.
pub(crate) fn serve(address: &str) {
    let listener = TcpListener::bind(address.parse::<SocketAddr>().unwrap()).unwrap();
    vtax_load::network::serve(&listener, ServerOptions { tests: 4 }, &AtomicBool::new(false)).unwrap();
}

/// Calls `work` with a lab in a controller, as a run does.
pub(crate) fn within(template: Option<Arc<GuestTemplate>>, work: fn(&mut Lab)) {
    in_controller(move |options| {
        let options = LabOptions { guest_template: template, ..options };
        work(&mut Lab::new(options).unwrap());
    });
}

/// Calls `work` in a controller with what a lab is made from.
pub(crate) fn in_controller(work: impl FnOnce(LabOptions)) {
    let ended = vtax_testkit::in_controller(ControllerOptions::for_this_process(), |groups| {
        work(LabOptions { groups: Some(groups), ..LabOptions::new(Isolation::Namespaces) });
    });
    assert_eq!(ended.unwrap(), ProcessExit::Exited(0));
}

pub(crate) fn spec(kind: EnvironmentKind, path: NetPath) -> TestbedSpec {
    TestbedSpec::of_one(
        Environment::new("e", kind),
        path,
        Budget { sut_cpus: None, sut_memory: Bytes::from_mib(256), client_cpus: None },
    )
}

/// A testbed that can be measured on.
pub(crate) struct Stage {
    pub(crate) testbed: Testbed,
    pub(crate) client: Client,
    /// Agents of the systems under test, in the testbed's order.
    pub(crate) suts: Vec<Client>,
    /// Where their services listen.
    pub(crate) targets: Vec<SocketAddr>,
    /// Agents of the routers.
    pub(crate) routers: Vec<Client>,
    /// What each system under test says of its network cards.
    pub(crate) cards: Vec<Vec<CardFacts>>,
    /// What was said where the path's routers were brought up.
    pub(crate) raised: Option<Raised>,
    /// Which system under test is measured.
    pub(crate) aim: usize,
}

pub(crate) fn talk(node: &mut Node) -> Client {
    let read = node.take_channel().unwrap();
    let write = read.try_clone().unwrap();
    Client::start(node.name(), read, write, Box::new(|_| {})).unwrap()
}

fn greet(client: &Client, node: &Node) -> Vec<CardFacts> {
    let met = client.hello(BOOT_WITHIN).and_then(|_| {
        let interfaces = node.interfaces().map(<[_]>::to_vec);
        interfaces.map_or(Ok(Vec::new()), |interfaces| Ok(client.configure_network(interfaces)?.cards))
    });
    met.unwrap_or_else(|e| panic!("{}: {}: {}", node.name(), vtax_sys::chain(&e), node.output()))
}

/// The peer as a service of the user's own.
pub(crate) fn peer(program: &str, port: u16) -> Service {
    Service {
        name: "peer".to_owned(),
        kind: ServiceKind::Command(CommandService {
            command: vec![program.to_owned(), "serve".into(), "{address}:{port}".into()],
            port,
            ready: Ready::Port,
            env: BTreeMap::new(),
            files: BTreeMap::new(),
        }),
        ready_timeout: Nanos::from_secs(30),
        stop_timeout: Nanos::from_secs(2),
    }
}

impl Stage {
    pub(crate) fn build(lab: &mut Lab, spec: &TestbedSpec) -> Self {
        let testbed = build_undisturbed(lab, spec);
        Self::on(testbed.unwrap_or_else(|e| panic!("{}: {}", spec.path.name, vtax_sys::chain(&e))))
    }

    pub(crate) fn on(testbed: Testbed) -> Self {
        Self::with(testbed, |node| {
            let program = match node.kind() {
                "vm" | "uml" => vtax_vm::contract::BINARY_IN_GUEST.to_owned(),
                _ => "/proc/self/exe".to_owned(),
            };
            peer(&program, PORT)
        })
    }

    /// With this service on each system under test.
    pub(crate) fn with(mut testbed: Testbed, service: impl Fn(&Node) -> Service) -> Self {
        let client = talk(&mut testbed.client);
        let routers: Vec<Client> = testbed.routers.iter_mut().map(talk).collect();
        let suts: Vec<Client> = testbed.suts.iter_mut().map(|sut| talk(&mut sut.node)).collect();
        greet(&client, &testbed.client);
        routers.iter().zip(&testbed.routers).for_each(|(agent, node)| drop(greet(agent, node)));
        let cards = suts.iter().zip(&testbed.suts).map(|(agent, sut)| greet(agent, &sut.node)).collect();
        let raised = testbed.routed().map(|(setup, _)| {
            let (blueprint, doors) = (setup.blueprint.clone(), setup.doors.clone());
            let raised = routers[0].raise_topology(blueprint, doors, setup.patience, setup.cpus_kept());
            raised.unwrap_or_else(|e| panic!("{}", vtax_sys::chain(&e)))
        });
        testbed.settle_routers().unwrap();
        let start = |(agent, sut): (&Client, &Sut)| {
            let service = service(&sut.node);
            let place = (sut.service_address, &Provisioning::default());
            let ready = agent.start_service(ServiceId::ONLY, &service, place.0, place.1);
            ready.unwrap_or_else(|e| panic!("{}: {}", sut.node.name(), vtax_sys::chain(&e))).address
        };
        let listening = suts.iter().zip(&testbed.suts).map(start);
        let reached = |(number, own)| testbed.reached_at(number, own);
        let targets: Vec<SocketAddr> = listening.enumerate().map(reached).collect();
        testbed.prove_path(&targets).unwrap_or_else(|e| panic!("{}", vtax_sys::chain(&e)));
        Self { testbed, client, suts, targets, routers, cards, raised, aim: 0 }
    }

    fn run(
        &self,
        test: NetworkTestKind,
        warmup: Duration,
        duration: Duration,
    ) -> Result<NetworkResult, String> {
        let (warmup, duration) = (warmup.into(), duration.into());
        let target = self.targets[self.aim];
        let spec = NetworkSpec { target, test, seed: 1, warmup, duration, interval: duration };
        let made = || -> Result<NetworkAnswer, AgentError> {
            self.client.open_load(&LoadSpec::Network)?;
            self.client.run_step(Step::Network(spec.clone()), spec.longest(), &mut |_| {})
        };
        made().map_err(|e| vtax_sys::chain(&e))?.map_err(|e| format!("{e:?}"))
    }

    /// Bits per second of one TCP connection from the client.
    pub(crate) fn tcp(&mut self, duration: Duration) -> f64 {
        self.streams(1, Direction::Up, duration)
    }

    /// The same, once it is more than that: a machine that is busy with something else is given ten tries.
    pub(crate) fn carries(&mut self, least: f64, duration: Duration) -> f64 {
        let mut tries = Vec::new();
        while tries.len() < 10 {
            let goodput = self.tcp(duration);
            if goodput > least {
                return goodput;
            }
            tries.push(goodput);
        }
        panic!("not {least}: {tries:?}")
    }

    /// Bits per second of so many TCP connections this way.
    pub(crate) fn streams(&mut self, streams: u32, direction: Direction, duration: Duration) -> f64 {
        self.flow(streams, direction, duration).goodput()
    }

    /// Bytes that one TCP connection from the client brought in all.
    pub(crate) fn tcp_bytes(&mut self, duration: Duration) -> u64 {
        self.flow(1, Direction::Up, duration).receiver.total_bytes
    }

    fn flow(&self, streams: u32, direction: Direction, duration: Duration) -> TcpFlow {
        let test = TcpTest {
            streams,
            direction,
            socket: SocketOptions::default(),
            bytes: None,
            block: Bytes(128 << 10),
            copy: false,
        };
        match self.run(NetworkTestKind::Tcp(test), Duration::from_millis(150), duration).unwrap() {
            NetworkResult::Tcp(found) => found.up.or(found.down).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn echo(&self, timeout: Duration) -> Result<Option<Nanos>, String> {
        let test = PingTest {
            probe: Probe::Icmp,
            rate: Rate(100.0),
            arrivals: ArrivalProcess::Constant,
            size: 56,
            timeout: timeout.into(),
        };
        match self.run(NetworkTestKind::Ping(test), Duration::ZERO, Duration::from_millis(100))? {
            NetworkResult::Ping(found) => Ok((found.answered > 0).then(|| found.rtt.quantile(0.5))),
            other => panic!("{other:?}"),
        }
    }

    /// The median round-trip time.
    pub(crate) fn ping(&mut self) -> Nanos {
        self.echo(Duration::from_secs(2)).unwrap().expect("an answer")
    }

    /// Whether an echo comes back within this time.
    pub(crate) fn answers(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        loop {
            // What can't even be sent has no answer either.
            if matches!(self.echo(Duration::from_millis(200)), Ok(Some(_))) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
        }
    }

    /// Share of datagrams lost on the way up.
    pub(crate) fn udp_loss(&mut self) -> f64 {
        let rate = Some(BitRate(5_000_000));
        let test = UdpTest { rate, size: 100, direction: Direction::Up, buffer: None };
        match self
            .run(NetworkTestKind::Udp(test), Duration::from_millis(50), Duration::from_millis(500))
            .unwrap()
        {
            NetworkResult::Udp(found) => found.loss(),
            other => panic!("{other:?}"),
        }
    }

    /// What one end sent, the other got.
    pub(crate) fn compare_counters(&mut self) {
        let [client, sut] = self.testbed.counters().unwrap().expect("both ends are seen");
        println!("  counted: {client:?}, {sut:?}");
        let apart = client.sent_bytes.abs_diff(sut.received_bytes) as f64 / client.sent_bytes as f64;
        assert!(client.sent_bytes > 1_000_000 && apart < 0.01, "{client:?} {sut:?}");
    }

    pub(crate) fn end(self) {
        let Self { testbed, client, suts, .. } = self;
        for sut in &suts {
            let _ = sut.stop_service(ServiceId::ONLY, Nanos::from_secs(2));
        }
        drop((client, suts));
        let errors = testbed.destroy();
        assert!(errors.is_empty(), "{errors:?}");
    }
}
