//! Fault-tolerant pairs on emulated hosts, for real: guests are armed, killed, hung, moved.
//!
//! Not under the test harness: a controller is forked from a process with one thread. This program is
//! also the guests' `/init`, the agent of the client's node, and a host's heartbeat.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_lab::ft::witness::Questioner;
use vtax_lab::ft::{FtPair, PairEventKind, PairMode, PairSpec, PairTask, Side};
use vtax_lab::{Fabric, Isolation, Lab, LabOptions, Node, NodeSpec, Shape, configure_from_outside};
use vtax_sys::controller::{ControllerOptions, start_controller};
use vtax_sys::require::{Need, need};
use vtax_sys::{Ended, NetNs};
use vtax_units::{Bytes, Nanos};
use vtax_vm::ft::Mode;
use vtax_vm::{Cache, Guest, GuestOptions, GuestRoot, Qemu};

/// No case may take longer, whatever the host is busy with.
const LIMIT: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(20);

fn main() {
    if vtax_agent::guest::is_init() {
        vtax_agent::guest::run();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("heartbeat") => return vtax_vm::ft::heartbeat::run_process(&args[1..]).unwrap(),
        Some("agent") => loop {
            std::thread::sleep(Duration::from_secs(1000));
        },
        _ => {}
    }
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let Ok(qemu) = Qemu::private(&Cache::of_user()) else {
        println!("skipped: no QEMU for pairs; `vtax setup` fetches one");
        return;
    };
    let options = GuestOptions { root: GuestRoot::Nothing, qemu: Some(qemu), ..GuestOptions::of_user() };
    let guest = Arc::new(Guest::prepare(&options).expect("this host can prepare guests"));
    let cases: [(&str, fn(&mut World)); 1] = [("kemari", kemari_survives_a_kill)];
    let wanted = args.first().cloned().unwrap_or_default();
    for (name, case) in cases.into_iter().filter(|(name, _)| name.contains(wanted.as_str())) {
        let started = Instant::now();
        let guest = Arc::clone(&guest);
        let controller = start_controller(ControllerOptions::for_this_process(), move |_| {
            // A busy host must not decide about times (sched(7), autogroup); refused to ordinary users.
            let _ = std::fs::write("/proc/self/autogroup", "-10");
            let mut world = World::new(guest);
            case(&mut world);
            0
        });
        let ended = controller.unwrap().wait().unwrap();
        assert_eq!(ended, Ended::Exited(0), "{name}");
        println!("test {name} ... ok ({:.1} s)", started.elapsed().as_secs_f64());
        assert!(started.elapsed() < LIMIT, "{name}: too slow");
    }
}

/// A lab with a switch and a client.
struct World {
    lab: Lab,
    fabric: Fabric,
    switch: vtax_lab::Switch,
    client: Node,
}

impl World {
    fn new(guest: Arc<Guest>) -> Self {
        let mut options = LabOptions::new(Isolation::Namespaces);
        options.guest = Some(guest);
        options.agent_args = vec!["fault_tolerance".into(), "agent".into()];
        let mut lab = Lab::new(options).unwrap();
        let mut fabric = lab.fabric().unwrap();
        let mut switch = fabric.add_switch(1500).unwrap();
        let mut client = lab.add_native_node(&NodeSpec::new("client")).unwrap();
        fabric.plug(&mut client, &mut switch, Shape::default()).unwrap();
        configure_from_outside(&[&client]).unwrap();
        fabric.start(&switch).unwrap();
        Self { lab, fabric, switch, client }
    }

    fn pair(&mut self, spec: PairSpec) -> FtPair {
        self.lab.add_pair(&mut self.fabric, &self.switch, spec).unwrap()
    }

    fn netns(&self) -> &NetNs {
        self.client.netns().unwrap()
    }

    fn ask(&self, address: IpAddr, words: &'static str) -> Questioner {
        Questioner::start(self.netns(), address, words).unwrap()
    }
}

fn spec(mode: Mode) -> PairSpec {
    PairSpec::new("sut", PairMode::Checkpoints(mode), PairTask::Witness)
}

fn show(pair: &FtPair) {
    for event in pair.events() {
        println!("  {:9.3} {:?} {:?}", event.at.as_secs_f64(), event.host, event.kind);
    }
    for statistics in pair.statistics() {
        println!("  {statistics:?}");
    }
}

fn kemari_survives_a_kill(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(pair.address(), "hello");
    println!("booted");
    let armed = pair.arm();
    show(&pair);
    println!("armed in {:?}", armed.unwrap());
    std::thread::sleep(Duration::from_secs(1));
    let killed = Instant::now();
    pair.kill_host(Side::Primary).unwrap();
    let promoted = pair.wait_for(SOON, |events, _| {
        events.iter().any(|e| matches!(e.kind, PairEventKind::Promoted { .. })).then_some(())
    });
    questioner.wait_answers(50, SOON).unwrap_or_else(|e| {
        show(&pair);
        panic!("{e}\n{}", pair.console())
    });
    let first = questioner.first_after(killed).unwrap();
    show(&pair);
    println!("first answer after {:?}", first.came - killed);
    assert!(promoted.is_some());
    let answers = questioner.finish().unwrap();
    println!("{} answers", answers.len());
    let _ = (Bytes(0), Nanos(0));
}
