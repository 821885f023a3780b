//! Fault-tolerant pairs on emulated hosts, for real: guests are armed, killed, hung, moved.
//!
//! Not under the test harness: a controller is forked from a process with one thread. This program is
//! also the guests' `/init`, the agent of the client's node, and a host's heartbeat.
#![allow(clippy::print_stdout, reason = "a test's report")]

mod fences;
mod image;
mod kills;
mod modes;
mod residue;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use vtax_lab::ft::witness::Questioner;
use vtax_lab::ft::{FtPair, PairEventKind, PairMode, PairSpec, PairTask, Side};
use vtax_lab::pair_qemu::choose_qemu;
use vtax_lab::{Fabric, Isolation, Lab, LabOptions, LinkProperties, Node, NodeSpec, configure_from_outside};
use vtax_sys::cgroup::RunGroups;
use vtax_sys::controller::ControllerOptions;
use vtax_sys::require::{Need, need, possible};
use vtax_sys::{NetNs, ProcessExit};
use vtax_testkit::cases::Cases;
use vtax_units::Nanos;
use vtax_vm::ft::{Mode, Replica};
use vtax_vm::{Cache, GuestRoot, GuestTemplate, GuestTemplateOptions, Qemu};

/// No case may take longer, whatever the host is busy with: one that does hangs, and is killed. An idle host needs a tenth.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);
/// What has to happen happens within this, or not at all; an idle host needs a few seconds.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// How a case ends whose QEMU was ended by a fault of its own (`EX_TEMPFAIL`, sysexits(3head)).
const QEMU_CRASHED: i32 = 75;
/// So often a case is begun at most.
const MOST_CRASHES: u32 = 3;

/// One case: panics where it fails.
type Case = fn(&mut World);

/// Cases whose guests need nothing but their initrd.
const CASES: [(&str, Case); 15] = [
    ("kemari: memory and connection survive a kill, again and again", kills::kemari_survives_kills),
    ("remus: memory and connection survive a kill", kills::remus_survives_a_kill),
    ("hang: a host that wakes up finds itself fenced, and was not heard since", fences::hung_host_is_fenced),
    ("starved: a host that gets no CPU from this machine has not failed", fences::starved_host_lives),
    ("secondary: its death leaves the guest alone until it is protected again", fences::secondary_dies),
    ("link: slow it slows checkpoints, without it the guest goes on alone", fences::link_is_slow_and_cut),
    ("restore: what hangs goes on, and what was killed is missed", kills::restored_at_once),
    ("disk: no acknowledged record is missing", kills::disk_survives),
    ("move: a planned failover keeps connection and disk", modes::planned_failover),
    ("stream: the agent's survives, and what it promised", kills::agent_survives),
    (
        "restart: the service comes back without its memory; a card that is cut off is cut off",
        modes::restarted,
    ),
    ("snapshot: an earlier state goes on, with its disk", modes::snapshot_goes_on),
    ("snapshot: a host that dies while one is sent to it holds nothing up", modes::snapshot_is_given_up),
    ("cards: connections go on through any", kills::any_card_survives),
    ("colo: both run, and one is enough", modes::colo_survives),
];

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
        Some(residue::FRONT) => return residue::front(&pair_qemu().expect("it was found before")),
        _ => {}
    }
    if !need(&[Need::Root, Need::Vm]) {
        return;
    }
    let Some(qemu) = pair_qemu() else { return };
    let mut cases = Cases::picked_by(&args);
    if CASES.iter().any(|(name, _)| cases.want(name)) {
        let template = guest_template(&qemu, GuestRoot::Nothing);
        for (name, case) in CASES {
            cases.run(name, || run(name, &template, case));
        }
    }
    for (name, services, case) in image::CASES {
        cases.run(name, || {
            let image = image::make(services);
            run(name, &guest_template(&qemu, GuestRoot::Image(image.path.clone())), case);
        });
    }
    cases.run(residue::NAME, residue::killed_leaves_nothing);
    cases.conclude();
}

/// The QEMU that keeps pairs; `None` where this host has none and doesn't have to have one.
fn pair_qemu() -> Option<Qemu> {
    match choose_qemu(&Cache::of_user(), false) {
        Ok(found) => Some(found.qemu),
        Err(e) => {
            let required = std::env::var("VTAX_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|word| word == "vm"), "{e}");
            let _ = possible(Some(e));
            None
        }
    }
}

fn guest_template(qemu: &Qemu, root: GuestRoot) -> Arc<GuestTemplate> {
    // Drivers of the cards that not every guest has.
    let modules = ["e1000e", "e1000", "8139cp"].map(str::to_owned).to_vec();
    let options =
        GuestTemplateOptions { root, qemu: Some(qemu.clone()), modules, ..GuestTemplateOptions::of_user() };
    Arc::new(GuestTemplate::prepare(&options).expect("this host can prepare guests"))
}

/// Runs a case. QEMU crashes by itself now and then as a pair ends, which is no failure of what is tested: the
/// supervisor has said so then, and the case is run again.
fn run(name: &str, template: &Arc<GuestTemplate>, case: Case) {
    for _ in 0..MOST_CRASHES {
        let started = Instant::now();
        match run_once(template, case) {
            // The suite's summary looks for the last words.
            ProcessExit::Exited(QEMU_CRASHED) => println!(
                "test {name}: QEMU crashed by itself, which its supervisor has told: UNSTEADY, run again"
            ),
            ended => {
                assert_eq!(
                    ended,
                    ProcessExit::Exited(0),
                    "after {:?} of at most {LIMIT:?}",
                    started.elapsed()
                );
                assert!(started.elapsed() < LIMIT, "it took longer than {LIMIT:?}");
                return;
            }
        }
    }
    panic!("QEMU crashed by itself {MOST_CRASHES} times");
}

/// Runs a case in a controller of its own, with control groups; how that ended.
fn run_once(template: &Arc<GuestTemplate>, case: Case) -> ProcessExit {
    let template = Arc::clone(template);
    let mode = ControllerOptions::for_this_process();
    let ended = vtax_testkit::in_controller_within(LIMIT, mode, move |groups| {
        // A busy host must not decide about times (sched(7), autogroup); refused to ordinary users.
        let _ = std::fs::write("/proc/self/autogroup", "-10");
        let mut world = World::new(template, groups);
        case(&mut world);
    });
    ended.unwrap()
}

/// A lab with a switch and a client.
pub(crate) struct World {
    lab: Lab,
    fabric: Fabric,
    switch: vtax_lab::Switch,
    client: Node,
    groups: RunGroups,
}

impl World {
    pub(crate) fn new(template: Arc<GuestTemplate>, groups: RunGroups) -> Self {
        let mut options = LabOptions::new(Isolation::Namespaces);
        options.guest_template = Some(template);
        options.groups = Some(groups.clone());
        options.agent_program = PathBuf::from("/proc/self/exe");
        options.agent_args = vec!["fault_tolerance".into(), "agent".into()];
        let mut lab = Lab::new(options).unwrap();
        let mut fabric = lab.fabric().unwrap();
        let mut switch = fabric.add_switch(1500).unwrap();
        let mut client = lab.add_native_node(&NodeSpec::new("client")).unwrap();
        fabric.plug(&mut client, &mut switch, LinkProperties::default()).unwrap();
        configure_from_outside(&[&client]).unwrap();
        fabric.start(&switch).unwrap();
        Self { lab, fabric, switch, client, groups }
    }

    pub(crate) fn pair(&mut self, spec: PairSpec) -> FtPair {
        self.try_pair(spec).unwrap()
    }

    pub(crate) fn try_pair(&mut self, spec: PairSpec) -> vtax_lab::Result<FtPair> {
        self.lab.add_pair(&mut self.fabric, &mut self.switch, spec)
    }

    pub(crate) fn netns(&self) -> &NetNs {
        self.client.netns().unwrap()
    }

    pub(crate) fn ask(&self, pair: &FtPair, words: &'static str) -> Questioner {
        let started = Questioner::start(self.netns(), pair.address(), words);
        started.unwrap_or_else(|e| panic!("{}\n{}", vtax_sys::chain(&e), show(pair)))
    }
}

pub(crate) fn spec(mode: Mode) -> PairSpec {
    PairSpec::new("sut", PairMode::Checkpoints(mode), PairTask::Witness)
}

pub(crate) fn show(pair: &FtPair) -> String {
    let lines = pair.events().into_iter();
    let lines = lines.map(|e| format!("  {:9.3} {:?} {:?}\n", e.at.as_secs_f64(), e.host, e.kind));
    let primary = pair.primary().map(|primary| monitor(&primary)).unwrap_or_default();
    format!("{}{:?}\n{}\n{primary}", lines.collect::<String>(), pair.statistics(), pair.console())
}

/// What QEMU says of a guest that may be silent: whether it runs, and where, twice.
fn monitor(replica: &Replica) -> String {
    let ask = |line: &str| match replica.execute("human-monitor-command", json!({ "command-line": line })) {
        Ok(answer) => answer.as_str().unwrap_or_default().replace('\r', ""),
        Err(e) => vtax_sys::chain(&e),
    };
    let looks = ["info status", "info registers", "info network", "info registers"].map(|line| {
        std::thread::sleep(Duration::from_millis(20));
        ask(line).lines().take(10).map(|line| format!("  {line}\n")).collect::<String>()
    });
    looks.concat()
}

/// Waits until so many events of a kind have happened.
pub(crate) fn wait(pair: &FtPair, what: &str, count: usize, is: impl Fn(&PairEventKind) -> bool) {
    if !happened(pair, count, is) {
        leave_if_crashed(pair);
        panic!("{what} did not happen\n{}", show(pair));
    }
}

/// Whether so many events of a kind happen before the guest is lost.
fn happened(pair: &FtPair, count: usize, is: impl Fn(&PairEventKind) -> bool) -> bool {
    let lost = |kind: &PairEventKind| matches!(kind, PairEventKind::ServiceLost { .. });
    let told =
        pair.wait_for(SOON, |events, _| match events.iter().filter(|e| is(&e.kind)).count() >= count {
            true => Some(true),
            false => events.iter().any(|e| lost(&e.kind)).then_some(false),
        });
    told == Some(true)
}

pub(crate) fn promoted(kind: &PairEventKind) -> bool {
    matches!(kind, PairEventKind::Promoted { .. })
}

pub(crate) fn armed(pair: &FtPair) -> Nanos {
    pair.arm().unwrap_or_else(|e| panic!("{e}\n{}", show(pair)))
}

pub(crate) fn goes_on(pair: &FtPair, questioner: &Questioner, more: usize) {
    questioner.wait_answers(more, SOON).unwrap_or_else(|e| {
        leave_if_crashed(pair);
        panic!("{e}\n{}", show(pair))
    });
}

/// Ends the case where the guest is lost because QEMU was ended by a fault of its own.
#[expect(clippy::exit, reason = "it ends the case's own controller")]
fn leave_if_crashed(pair: &FtPair) {
    let crashed = |kind: &PairEventKind| matches!(kind, PairEventKind::ServiceLost { reason } if reason.contains("(SIGSEGV)") || reason.contains("(SIGABRT)"));
    if pair.events().iter().any(|event| crashed(&event.kind)) {
        println!("{}", show(pair));
        std::process::exit(QEMU_CRASHED);
    }
}

/// Restores what is off and waits until the guest is protected again.
pub(crate) fn repaired(pair: &FtPair) {
    for host in pair.hosts_off() {
        pair.restore(&host).unwrap();
    }
    assert!(pair.wait_armed(SOON), "not protected again\n{}", show(pair));
}

/// Kills the primary's host; the time to the first answer.
pub(crate) fn kill_primary(pair: &FtPair, questioner: &Questioner, nth: usize) -> Duration {
    try_kill_primary(pair, questioner, nth).unwrap_or_else(|e| panic!("{e}\n{}", show(pair)))
}

/// The same, where no guest may take over, or one that doesn't answer.
pub(crate) fn try_kill_primary(
    pair: &FtPair,
    questioner: &Questioner,
    nth: usize,
) -> vtax_lab::Result<Duration> {
    let killed = Instant::now();
    let struck = pair.kill_host(Side::Primary).unwrap();
    let dead = Instant::now();
    if !happened(pair, nth, promoted) {
        leave_if_crashed(pair);
        let reason = "nothing took over".to_owned();
        return Err(vtax_lab::LabError::Pair { operation: "kill the primary's host", reason });
    }
    questioner.wait_answers(20, SOON)?;
    let first = questioner.first_after(dead).unwrap().came - killed;
    // Nobody answers before the take-over. One answer may have been on its way when the host was killed.
    let second = questioner.answers().iter().filter(|a| a.came > dead).nth(1).unwrap().came - killed;
    let live = pair.events().iter().rfind(|e| promoted(&e.kind)).unwrap().wall;
    let live = Duration::from_nanos(live.0.checked_sub(struck.at.0).unwrap());
    assert!(live <= second + Duration::from_millis(1), "{live:?} {second:?}\n{}", show(pair));
    Ok(first)
}

/// Sectors of these numbers that don't have their record, on the primary's disk as it is now; its guest is
/// stopped.
pub(crate) fn missing_records(pair: &FtPair, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let replica = pair.primary().unwrap();
    replica.execute("stop", serde_json::Value::Null).unwrap();
    let missing = numbers.filter(|number| {
        let mut sector = [0; 512];
        replica.disk().unwrap().read_at(number * 512, &mut sector).unwrap();
        !sector.starts_with(format!("record {number}\n").as_bytes())
    });
    missing.collect()
}
