//! Testbeds, built for real: as root, in a user namespace, and without namespaces.
//!
//! Not under the test harness, which has threads: a controller is forked from a process with one.
//! This program is also the agent of its nodes: it runs shell commands it reads from its stream.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use vtax_lab::configure_from_outside;
use vtax_lab::{CpuHalf, Isolation, Lab, LabError, LabOptions, Node, Slot, Testbed, TestbedSpec};
use vtax_plan::model::{Budget, Environment, EnvironmentKind, NetPath, PathKind};
use vtax_sys::ProcessExit;
use vtax_sys::cgroup::RunGroups;
use vtax_sys::controller::ControllerOptions;
use vtax_sys::require::{Need, again_until, complete, need};
use vtax_testkit::build_undisturbed;
use vtax_testkit::programs::Killed;
use vtax_testkit::residue::Snapshot;
use vtax_testkit::star::{measure_star, time_star};
use vtax_units::{BitRate, Bytes};

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("agent") => return agent(&args.collect::<Vec<_>>()),
        Some("front") => return busy_front(),
        Some("star") => return star(args.next().unwrap().parse().unwrap()),
        _ => {}
    }
    loopback_needs_nothing();
    if !need(&[Need::Ns]) {
        return;
    }
    let own = ControllerOptions::for_this_process();
    for_each_mode(own);
    if need(&[Need::Root]) {
        killed_at_any_moment_leaves_nothing();
    }
    a_controller_that_takes_too_long_is_killed(own);
    a_stars_agent_may_lie_below_tmp();
    doctor_finds_namespaces();
    println!("ok");
}

/// Else a case that hangs would hold up all those after it.
fn a_controller_that_takes_too_long_is_killed(mode: ControllerOptions) {
    let work = |_| std::thread::sleep(Duration::from_secs(600));
    let ended = vtax_testkit::in_controller_within(Duration::from_millis(300), mode, work);
    assert_eq!(ended.unwrap(), ProcessExit::Signalled(9));
}

/// A node has a `/tmp` of its own, in which its agent's program would not be found.
fn a_stars_agent_may_lie_below_tmp() {
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let program = directory.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let times = measure_star(&program, 2).unwrap();
    assert_eq!(times.nodes, 2);
}

/// For measuring by hand: `cargo test --release --test lab -- star 1000`.
fn star(nodes: usize) {
    println!("{:?}", measure_star(&std::env::current_exe().unwrap(), nodes).unwrap());
}

/// Answers each line with what the command printed, up to a zero byte.
fn agent(args: &[String]) {
    assert_eq!(args[..4], ["--node", &args[1], "--fd", "3"].map(str::to_owned));
    let stream = UnixStream::from(vtax_sys::inherit::take(3).unwrap());
    let mut answers = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        let answer = match line.split_once(' ') {
            Some(("listen", address)) => {
                let listener = TcpListener::bind((address, 80)).unwrap();
                std::thread::spawn(move || {
                    for stream in listener.incoming() {
                        stream.unwrap().write_all(&[b'x'; 1_000_000]).unwrap();
                    }
                });
                "listening".to_owned()
            }
            Some(("get", address)) => {
                let start = Instant::now();
                let mut bytes = Vec::new();
                TcpStream::connect((address, 80)).unwrap().read_to_end(&mut bytes).unwrap();
                format!("{} {}", bytes.len(), start.elapsed().as_millis())
            }
            _ => {
                let output = std::process::Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
                let text = [output.stdout, output.stderr].concat();
                String::from_utf8_lossy(&text).trim().to_owned()
            }
        };
        answers.write_all(format!("{answer}\0").as_bytes()).unwrap();
    }
}

/// A node with its stream.
struct Talk(UnixStream);

impl Talk {
    fn to(node: &mut Node) -> Self {
        let stream = UnixStream::from(node.take_channel().unwrap());
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(stream)
    }

    fn ask(&mut self, line: &str) -> String {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        loop {
            assert_eq!(self.0.read(&mut byte).unwrap(), 1, "the agent ended");
            if byte == [0] {
                return String::from_utf8(answer).unwrap();
            }
            answer.push(byte[0]);
        }
    }
}

fn options(groups: Option<RunGroups>, isolation: Isolation) -> LabOptions {
    LabOptions { groups, agent_args: vec!["vtax".into(), "agent".into()], ..LabOptions::new(isolation) }
}

fn within(mode: ControllerOptions, work: impl FnOnce(&mut Lab)) {
    let ended = vtax_testkit::in_controller(mode, |groups| {
        work(&mut Lab::new(options(Some(groups), Isolation::Namespaces)).unwrap());
    });
    assert_eq!(ended.unwrap(), ProcessExit::Exited(0));
}

fn spec(kind: EnvironmentKind, path: PathKind, rate: Option<u64>) -> TestbedSpec {
    TestbedSpec::of_one(
        Environment::new("e", kind),
        NetPath { rate: rate.map(BitRate), ..NetPath::new("p", path) },
        Budget { sut_cpus: None, sut_memory: Bytes::from_mib(256), client_cpus: None },
    )
}

fn for_each_mode(own: ControllerOptions) {
    let mut modes = vec![own];
    if !own.user_namespace {
        modes.push(ControllerOptions { user_namespace: true, ..own });
    }
    for mode in modes {
        println!("user namespace: {}", mode.user_namespace);
        within(mode, |lab| native_nodes_talk_over(lab, PathKind::Bridge));
        within(mode, |lab| native_nodes_talk_over(lab, PathKind::Direct));
        within(mode, a_gigabit_is_a_gigabit);
        within(mode, two_testbeds_stand_side_by_side);
        within(mode, nodes_are_worlds_of_their_own);
        within(mode, a_failed_build_leaves_nothing);
        within(mode, a_star_goes_up_and_down);
        within(mode, containers_work);
    }
}

/// Has the client fetch a megabyte from the system under test; returns the milliseconds it took.
fn fetch(testbed: &mut Testbed) -> u64 {
    fetch_until(testbed, |_| true)
}

/// The same, again where it took too long.
fn fetch_until(testbed: &mut Testbed, fits: impl Fn(u64) -> bool) -> u64 {
    configure_from_outside(&[&testbed.client, &testbed.the_sut().node]).unwrap();
    let (mut client, mut sut) = (Talk::to(&mut testbed.client), Talk::to(&mut testbed.the_sut_mut().node));
    let address = testbed.the_sut().service_address;
    assert_eq!(sut.ask(&format!("listen {address}")), "listening");
    let get = || {
        let answer = client.ask(&format!("get {address}"));
        let (bytes, millis) = answer.split_once(' ').unwrap();
        assert_eq!(bytes, "1000000");
        millis.parse().unwrap()
    };
    again_until(get, |millis| fits(*millis))
}

fn native_nodes_talk_over(lab: &mut Lab, path: PathKind) {
    // Twice: what the first leaves behind would be in the second's way.
    for _ in 0..2 {
        let start = Instant::now();
        let mut testbed = lab.build(&spec(EnvironmentKind::Native, path.clone(), None)).unwrap();
        let built = start.elapsed();
        fetch(&mut testbed);
        println!(
            "{path:?}: built in {built:?}; {}; {:?}",
            testbed.the_sut().node.enforced().describe(),
            testbed.notes
        );
        assert_eq!(testbed.the_sut().node.enforced().cpus, testbed.allocation.sut);
        let start = Instant::now();
        let errors = testbed.destroy();
        assert!(errors.is_empty(), "{errors:?}");
        println!("{path:?}: gone in {:?}", start.elapsed());
    }
}

fn two_testbeds_stand_side_by_side(lab: &mut Lab) {
    let before = Snapshot::take();
    let mut kinds = vec![EnvironmentKind::Native];
    if lab.container_runtime().is_ok() {
        kinds.push(EnvironmentKind::Container);
    }
    for kind in kinds {
        let path = if kind == EnvironmentKind::Native { PathKind::Direct } else { PathKind::Bridge };
        let first = Slot::Paired { second: false, half: CpuHalf::Lower };
        let second = Slot::Paired { second: true, half: CpuHalf::Upper };
        let mut one = lab.build_at(&spec(EnvironmentKind::Native, path.clone(), None), first).unwrap();
        let mut other = lab.build_at(&spec(kind, path, None), second).unwrap();
        assert_ne!(one.the_sut().service_address, other.the_sut().service_address);
        assert_eq!((one.the_sut().node.name(), other.the_sut().node.name()), ("sut", "sut-b"));
        let shared = one.allocation.shared;
        assert_eq!(shared, one.allocation.sut.overlaps(&other.allocation.sut), "{:?}", one.allocation);
        assert_eq!(other.the_sut().node.enforced().cpus, other.allocation.sut);
        fetch(&mut one);
        // What one takes along is its own.
        assert!(one.destroy().is_empty());
        fetch(&mut other);
        assert!(other.destroy().is_empty());
    }
    let after = Snapshot::take().since(&before);
    assert!(after.iter().all(|(kind, _)| kind != "interface"), "{after:?}");
}

fn a_gigabit_is_a_gigabit(lab: &mut Lab) {
    for path in [PathKind::Bridge, PathKind::Direct] {
        let limited = spec(EnvironmentKind::Native, path.clone(), Some(100_000_000));
        let mut testbed = build_undisturbed(lab, &limited).unwrap();
        // 1 MB is 80 ms at 100 Mbit/s, 85 with the headers.
        let millis = fetch_until(&mut testbed, |millis| millis < 2000);
        println!("{path:?}: a megabyte at 100 Mbit/s took {millis} ms");
        assert!((70..2000).contains(&millis), "{millis}");
        assert!(testbed.destroy().is_empty());
    }
}

fn nodes_are_worlds_of_their_own(lab: &mut Lab) {
    // Not seen inside.
    let _outside = tempfile::tempdir_in("/tmp").unwrap();
    let mut testbed = lab.build(&spec(EnvironmentKind::Native, PathKind::Bridge, None)).unwrap();
    let mut sut = Talk::to(&mut testbed.the_sut_mut().node);
    assert_eq!(sut.ask("hostname"), "sut");
    assert_eq!(sut.ask("ls -A /tmp /run"), "/run:\n\n/tmp:");
    assert_eq!(sut.ask("cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6 2>/dev/null || echo 1"), "1");
    assert_eq!(sut.ask("ls -d /proc/[0-9]* | wc -l").parse::<u32>().map(|n| n < 6), Ok(true));
    assert_eq!(sut.ask("readlink /proc/1/exe | grep -c lab"), "1");
    assert!(testbed.the_sut().node.alive().unwrap());
    assert!(testbed.destroy().is_empty());
}

fn a_failed_build_leaves_nothing(lab: &mut Lab) {
    let vm = EnvironmentKind::Vm(vtax_plan::model::VmOptions::new(Bytes::from_mib(256)));
    let before = Snapshot::take();
    let e = lab.build(&spec(vm, PathKind::Bridge, None)).unwrap_err();
    println!("{}", vtax_sys::chain(&e));
    // In a user namespace the tap is refused before it comes to that.
    assert!(matches!(e, LabError::NoGuest { .. } | LabError::Failed(_)));
    let after = Snapshot::take().since(&before);
    let left: Vec<_> =
        after.iter().filter(|(kind, _)| ["interface", "control group"].contains(kind)).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn a_star_goes_up_and_down(lab: &mut Lab) {
    println!("{:?}", time_star(lab, 20).unwrap());
    assert!(matches!(time_star(lab, 1).map(|t| t.nodes), Ok(1)));
}

fn loopback_needs_nothing() {
    let directory = std::env::temp_dir().join(format!("vtax-lab-test-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let isolation = Isolation::Loopback { directory: directory.clone() };
    let mut lab = Lab::new(options(None, isolation)).unwrap();
    let refused = lab.build(&spec(EnvironmentKind::Container, PathKind::Bridge, None)).unwrap_err();
    assert!(refused.to_string().starts_with("container nodes need namespaces"), "{refused}");
    let mut testbed = lab.build(&spec(EnvironmentKind::Native, PathKind::Bridge, None)).unwrap();
    println!("loopback: {:?}", testbed.notes);
    assert!(testbed.the_sut().service_address.is_loopback() && testbed.the_sut().node.interfaces().is_none());
    let mut sut = Talk::to(&mut testbed.the_sut_mut().node);
    assert_eq!(sut.ask("echo $PPID > /dev/null; echo hello"), "hello");
    assert!(testbed.the_sut().node.directory().is_dir());
    drop((sut, testbed.client.take_channel()));
    let errors = testbed.destroy();
    assert!(errors.is_empty(), "{errors:?}");
    std::fs::remove_dir(&directory).unwrap();
}

fn containers_work(lab: &mut Lab) {
    let runtime = match lab.container_runtime() {
        Ok(runtime) => runtime,
        Err(e) => {
            let _ = complete(Some(vtax_sys::chain(&e)));
            return;
        }
    };
    for path in [PathKind::Bridge, PathKind::Direct] {
        let start = Instant::now();
        let mut testbed = lab.build(&spec(EnvironmentKind::Container, path.clone(), None)).unwrap();
        println!("{runtime} {path:?}: built in {:?}", start.elapsed());
        println!(
            "{}; {:?}; {:?}",
            testbed.the_sut().node.enforced().describe(),
            testbed.the_sut().node.facts(),
            testbed.notes
        );
        fetch(&mut testbed);
        let start = Instant::now();
        let errors = testbed.destroy();
        assert!(errors.is_empty(), "{errors:?}");
        println!("{runtime} {path:?}: gone in {:?}", start.elapsed());
    }
    let mut testbed = lab.build(&spec(EnvironmentKind::Container, PathKind::Bridge, None)).unwrap();
    let mut sut = Talk::to(&mut testbed.the_sut_mut().node);
    assert_eq!(sut.ask("hostname"), "sut");
    assert_eq!(sut.ask("touch /usr/here && ls /usr/here && ls -A /tmp /run"), "/usr/here\n/run:\n\n/tmp:");
    assert!(!Path::new("/usr/here").exists());
    assert_eq!(sut.ask("grep -E '^(Seccomp:|NoNewPrivs|CapEff)' /proc/self/status | tr -d '\\t'"), {
        let seccomp = if testbed.the_sut().node.facts()["container.seccomp"] == "on" { 2 } else { 0 };
        format!("CapEff:00000000a80435fb\nNoNewPrivs:0\nSeccomp:{seccomp}")
    });
    let limit = testbed.the_sut().node.enforced().memory;
    let in_sight = testbed.the_sut().node.facts()["container.cgroups"] == "read-only";
    if let Some(limit) = limit.filter(|_| in_sight) {
        // Runtimes that take their share of the memory there find the limit.
        let seen = sut.ask("cd /sys/fs/cgroup && cat memory.max memory/memory.limit_in_bytes 2>/dev/null");
        assert_eq!(seen, limit.0.to_string());
        assert!(sut.ask("cd /sys/fs/cgroup && mkdir memory/x x").contains("ead-only"));
    }
    let IpAddr::V4(_) = testbed.the_sut().service_address else { panic!("an IPv4 address") };
    assert!(testbed.destroy().is_empty());
}

/// What a front process does: a lab that builds and destroys until it is killed.
fn busy_front() {
    vtax_sys::cgroup::sweep().unwrap();
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().unwrap();
    let inside = groups.clone();
    let controller = keeper.start_controller(ControllerOptions::for_this_process(), move |_| {
        let mut lab = Lab::new(options(Some(inside), Isolation::Namespaces)).unwrap();
        loop {
            for kind in [EnvironmentKind::Native, EnvironmentKind::Container] {
                let mut testbed = lab.build(&spec(kind, PathKind::Bridge, None)).unwrap();
                fetch(&mut testbed);
                let errors = testbed.destroy();
                assert!(errors.is_empty(), "{errors:?}");
            }
        }
    });
    let _ = controller.unwrap().wait();
    let _ = groups.finish(keeper);
}

fn killed_at_any_moment_leaves_nothing() {
    let program = std::env::current_exe().unwrap();
    let before = Snapshot::take_with(&program);
    for round in 0..=20_u64 {
        let front = std::process::Command::new(&program).arg("front").spawn().map(Killed::new).unwrap();
        match round {
            20 => until_nodes_are_found(&before, &program),
            _ => std::thread::sleep(Duration::from_millis(29 * round)),
        }
        drop(front);
    }
    let until = Instant::now() + Duration::from_secs(15);
    loop {
        let left = Snapshot::take_with(&program).since(&before);
        let mine: Vec<_> = left.iter().filter(|(kind, what)| is_from_here(kind, what)).collect();
        if mine.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "left behind: {mine:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("21 kills at different moments left nothing behind");
}

/// Waits until nodes of a front's testbed are found: what isn't found while it is there isn't missed afterwards.
fn until_nodes_are_found(before: &Snapshot, program: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let there = Snapshot::take_with(program).since(before);
        let processes = there.iter().filter(|(kind, what)| *kind == "process" && is_from_here(kind, what));
        // More than the front process, its controller, and the keeper of its control groups.
        if processes.count() > 3 {
            return;
        }
        assert!(Instant::now() < until, "no node is found among\n{there}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Others may work on this machine: only what carries this test's names counts.
fn is_from_here(kind: &str, what: &str) -> bool {
    match kind {
        "process" => what.contains(" lab-") || what.contains("rungroup"),
        "mount" | "interface" | "control group" => true,
        "file" => what.contains("vtax-lab-test"),
        _ => false,
    }
}

fn doctor_finds_namespaces() {
    let checks = vtax_lab::doctor::checks();
    for check in &checks {
        println!("{:<10} {}: {} {:?}", check.state.word(), check.name, check.found, check.fix);
    }
    assert!(checks.iter().any(|c| c.name == "veth" && c.fix.is_none()));
}
