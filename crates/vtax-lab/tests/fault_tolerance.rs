//! Fault-tolerant pairs on emulated hosts, for real: guests are armed, killed, hung, moved.
//!
//! Not under the test harness: a controller is forked from a process with one thread. This program is
//! also the guests' `/init`, the agent of the client's node, and a host's heartbeat.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_lab::ft::witness::Questioner;
use vtax_lab::ft::{FtPair, Outcome, PairEventKind, PairMode, PairSpec, PairTask, Side, choose_qemu};
use vtax_lab::{Fabric, Isolation, Lab, LabOptions, Node, NodeSpec, Shape, configure_from_outside};
use vtax_sys::controller::{ControllerOptions, start_controller};
use vtax_sys::require::{Need, need};
use vtax_sys::{Ended, NetNs};
use vtax_units::{Bytes, Nanos};
use vtax_vm::ft::Mode;
use vtax_vm::{Cache, Guest, GuestOptions, GuestRoot};

/// No case may take longer, whatever the host is busy with.
const LIMIT: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(20);

/// One case: panics where it fails.
type Case = fn(&mut World);

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
    let qemu = match choose_qemu(&Cache::of_user(), false) {
        Ok(found) => found.qemu,
        Err(e) => {
            let required = std::env::var("VTAX_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|word| word == "vm"), "{e}");
            println!("skipped: {e}");
            return;
        }
    };
    let options = GuestOptions { root: GuestRoot::Nothing, qemu: Some(qemu), ..GuestOptions::of_user() };
    let guest = Arc::new(Guest::prepare(&options).expect("this host can prepare guests"));
    let cases: [(&str, Case); 10] = [
        ("kemari: memory and connection survive a kill, again and again", kemari_survives_kills),
        ("remus: memory and connection survive a kill", remus_survives_a_kill),
        ("hang: a host that wakes up finds itself fenced", hung_host_is_fenced),
        ("secondary: its death leaves the guest alone until it is protected again", secondary_dies),
        ("link: without it the guest goes on alone, with it protected", link_is_cut),
        ("disk: no acknowledged record is missing", disk_survives),
        ("move: a planned failover keeps the connection", planned_failover),
        ("stream: the agent's survives, and what it promised", agent_survives),
        ("port: a card that was cut off is cut off", port_is_cut),
        ("restart: the service comes back without its memory", restarted),
    ];
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

    fn ask(&self, pair: &FtPair, words: &'static str) -> Questioner {
        let started = Questioner::start(self.netns(), pair.address(), words);
        started.unwrap_or_else(|e| panic!("{}\n{}", vtax_sys::chain(&e), show(pair)))
    }
}

fn spec(mode: Mode) -> PairSpec {
    PairSpec::new("sut", PairMode::Checkpoints(mode), PairTask::Witness)
}

fn show(pair: &FtPair) -> String {
    let lines = pair.events().into_iter();
    let lines = lines.map(|e| format!("  {:9.3} {:?} {:?}\n", e.at.as_secs_f64(), e.host, e.kind));
    format!("{}{:?}\n{}", lines.collect::<String>(), pair.statistics(), pair.console())
}

/// Waits until so many events of a kind have happened.
fn wait(pair: &FtPair, what: &str, count: usize, is: impl Fn(&PairEventKind) -> bool) {
    let found = pair
        .wait_for(SOON, |events, _| (events.iter().filter(|e| is(&e.kind)).count() >= count).then_some(()));
    assert!(found.is_some(), "{what} did not happen\n{}", show(pair));
}

fn promoted(kind: &PairEventKind) -> bool {
    matches!(kind, PairEventKind::Promoted { .. })
}

fn armed(pair: &FtPair) -> Nanos {
    pair.arm().unwrap_or_else(|e| panic!("{e}\n{}", show(pair)))
}

fn goes_on(pair: &FtPair, questioner: &Questioner, more: usize) {
    questioner.wait_answers(more, SOON).unwrap_or_else(|e| panic!("{e}\n{}", show(pair)));
}

/// Restores what is off and waits until the guest is protected again.
fn repaired(pair: &FtPair) {
    for host in pair.hosts_off() {
        pair.restore(&host).unwrap();
    }
    assert!(pair.wait_armed(SOON), "not protected again\n{}", show(pair));
}

/// Kills the primary's host; the time to the first answer.
fn kill_primary(pair: &FtPair, questioner: &Questioner, nth: usize) -> Duration {
    let killed = Instant::now();
    pair.kill_host(Side::Primary).unwrap();
    wait(pair, "take-over", nth, promoted);
    goes_on(pair, questioner, 20);
    questioner.first_after(killed).unwrap().came - killed
}

fn kemari_survives_kills(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(&pair, "hello");
    let took = armed(&pair);
    goes_on(&pair, &questioner, 50);
    let first = kill_primary(&pair, &questioner, 1);
    repaired(&pair);
    goes_on(&pair, &questioner, 50);
    let second = kill_primary(&pair, &questioner, 2);
    let statistics = pair.statistics();
    println!("  armed in {took}, first answers after {first:?} and {second:?}");
    println!("  {:?}", statistics[0]);
    assert_eq!(statistics.len(), 2);
    assert!(statistics.iter().all(|s| s.count > 10 && s.pause_median > Nanos::ZERO), "{statistics:?}");
    questioner.finish().unwrap();
}

fn remus_survives_a_kill(world: &mut World) {
    let interval = Nanos::from_millis(40);
    let pair = world.pair(spec(Mode::Remus { interval }));
    let questioner = world.ask(&pair, "dirty 1024");
    armed(&pair);
    goes_on(&pair, &questioner, 30);
    // Every answer waits for a checkpoint.
    let answers = questioner.answers();
    let mut times: Vec<Duration> = answers[answers.len() - 10..].iter().map(|a| a.came - a.sent).collect();
    times.sort();
    assert!(times[5] > Duration::from_millis(15), "output is not held back: {times:?}");
    let first = kill_primary(&pair, &questioner, 1);
    let statistics = pair.statistics();
    println!("  first answer after {first:?}, {:?}", statistics[0]);
    assert!(statistics[0].pages_mean_at_most > 256.0, "{statistics:?}");
    questioner.finish().unwrap();
}

/// Ends a thread that looks at the flag.
struct StopAtEnd<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

fn hung_host_is_fenced(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let [old, _] = pair.pids();
    let host = pair.host_of(Side::Primary).unwrap();
    pair.hang_host(Side::Primary).unwrap();
    // Once it is suspected, it wakes up all the time, also in the middle of the fence. Before, it would
    // only have been slow.
    let suspected = || pair.events().iter().any(|e| matches!(e.kind, PairEventKind::Detected { .. }));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also where the wait fails: the scope waits for its threads.
        let _end = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                if suspected() {
                    pair.wake_host(&host).unwrap();
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        wait(&pair, "take-over", 1, promoted);
    });
    let events = pair.events();
    let place = |is: fn(&PairEventKind) -> bool| events.iter().position(|e| is(&e.kind)).unwrap();
    let fenced = place(|k| matches!(k, PairEventKind::Fenced { .. }));
    assert!(fenced < place(promoted), "{}", show(&pair));
    assert!(!std::path::Path::new(&format!("/proc/{}/fd", old.unwrap())).exists());
    goes_on(&pair, &questioner, 50);
    questioner.finish().unwrap();
}

fn secondary_dies(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.hosts.push(Default::default());
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let killed = Instant::now();
    pair.kill_host(Side::Secondary).unwrap();
    wait(&pair, "going on alone", 1, |k| matches!(k, PairEventKind::Unprotected { .. }));
    goes_on(&pair, &questioner, 20);
    let gap = questioner.first_after(killed + Duration::from_millis(20)).unwrap().came - killed;
    // The third host takes the place of the second by itself.
    wait(&pair, "protection on the spare host", 2, |k| matches!(k, PairEventKind::Armed { .. }));
    assert_eq!(pair.host_of(Side::Secondary).as_deref(), Some("host-c"));
    goes_on(&pair, &questioner, 20);
    let first = kill_primary(&pair, &questioner, 1);
    println!("  gap {gap:?}; from the spare host the first answer came after {first:?}");
    questioner.finish().unwrap();
}

fn link_is_cut(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let host = pair.host_of(Side::Secondary).unwrap();
    pair.cut_link(Side::Secondary).unwrap();
    wait(&pair, "going on alone", 1, |k| matches!(k, PairEventKind::Unprotected { .. }));
    goes_on(&pair, &questioner, 50);
    assert!(!pair.is_armed());
    pair.restore(&host).unwrap();
    assert!(pair.wait_armed(SOON), "{}", show(&pair));
    goes_on(&pair, &questioner, 20);
    kill_primary(&pair, &questioner, 1);
    // Both hosts off: nobody is left, and that is said.
    pair.kill_host(Side::Primary).unwrap();
    wait(&pair, "the loss", 1, |k| matches!(k, PairEventKind::ServiceLost { .. }));
    assert_eq!(pair.outcome(), Outcome::Lost);
}

fn disk_survives(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.disk = Some(Bytes::from_mib(16));
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "record");
    goes_on(&pair, &questioner, 20);
    armed(&pair);
    goes_on(&pair, &questioner, 50);
    let first = kill_primary(&pair, &questioner, 1);
    goes_on(&pair, &questioner, 20);
    let answers = questioner.finish().unwrap();
    let replica = pair.primary().unwrap();
    replica.execute("stop", serde_json::Value::Null).unwrap();
    let missing: Vec<u64> = answers
        .iter()
        .map(|a| a.number)
        .filter(|number| {
            let mut sector = [0; 512];
            replica.disk().unwrap().read_at(number * 512, &mut sector).unwrap();
            !sector.starts_with(format!("record {number}\n").as_bytes())
        })
        .collect();
    println!("  {} records, {} missing, first answer after {first:?}", answers.len(), missing.len());
    assert!(missing.is_empty(), "{missing:?}");
}

fn planned_failover(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let before = pair.host_of(Side::Primary);
    let stopped = pair.hand_over().unwrap_or_else(|e| panic!("{e}\n{}", show(&pair)));
    assert_ne!(pair.host_of(Side::Primary), before);
    goes_on(&pair, &questioner, 50);
    assert!(pair.wait_armed(SOON), "{}", show(&pair));
    goes_on(&pair, &questioner, 20);
    kill_primary(&pair, &questioner, 1);
    println!("  the guest ran nowhere for {stopped}");
    questioner.finish().unwrap();
}

fn restarted(world: &mut World) {
    let pair = world.pair(PairSpec::new("sut", PairMode::Restart, PairTask::Witness));
    let questioner = world.ask(&pair, "hello");
    assert_eq!(pair.arm().unwrap(), Nanos::ZERO);
    goes_on(&pair, &questioner, 50);
    let last = questioner.answers().last().unwrap().number;
    drop(questioner);
    pair.kill_host(Side::Primary).unwrap();
    wait(&pair, "restart", 1, |k| matches!(k, PairEventKind::Restarted));
    let again = world.ask(&pair, "hello");
    assert!(again.answers()[0].number < last, "memory is new");
    again.finish().unwrap();
}

/// Probes that were started before the kill are still there after it, and no question stays unanswered.
fn agent_survives(world: &mut World) {
    let mut pair = world.pair(PairSpec::new("sut", PairMode::Checkpoints(Mode::Kemari), PairTask::Agent));
    let stream = pair.take_channel().unwrap();
    let read = stream.try_clone().unwrap();
    let client = vtax_agent::Client::start("sut", read, stream, Box::new(|_| {})).unwrap();
    client.hello(LIMIT / 2).unwrap_or_else(|e| panic!("{e}\n{}", show(&pair)));
    client.configure_network(pair.interfaces().to_vec()).unwrap();
    armed(&pair);
    client.start_probes(Nanos::from_millis(20)).unwrap();
    let asked = std::thread::scope(|scope| {
        // Asked all the time, so that some questions are on their way when the host dies.
        let asking = scope.spawn(|| (0..40).filter(|_| client.snapshot().is_ok()).count());
        std::thread::sleep(Duration::from_millis(200));
        pair.kill_host(Side::Primary).unwrap();
        wait(&pair, "take-over", 1, promoted);
        asking.join().unwrap()
    });
    assert_eq!(asked, 40, "{}", show(&pair));
    let snapshots = client.stop_probes().unwrap();
    assert!(snapshots.len() > 10, "{}", snapshots.len());
    client.shutdown().unwrap();
}

/// The first half of a fence by itself: the guest runs on, and nobody hears of it.
fn port_is_cut(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(&pair, "hello");
    goes_on(&pair, &questioner, 20);
    let before = questioner.answers().len();
    pair.cut_service_port(Side::Primary).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let after = questioner.answers().len();
    pair.hang_host(Side::Primary).unwrap();
    pair.wake_host("host-a").unwrap();
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(questioner.answers().len(), after, "it answered although it was cut off");
    assert!(after >= before && pair.primary().unwrap().is_running().unwrap());
}
