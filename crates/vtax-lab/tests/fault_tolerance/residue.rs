//! What is left of a protected pair when everything is killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use vtax_lab::ft::{PairMode, PairSpec, PairTask};
use vtax_sys::cgroup::RunGroups;
use vtax_sys::controller::ControllerOptions;
use vtax_testkit::residue::Snapshot;
use vtax_units::Bytes;
use vtax_vm::ft::Mode;
use vtax_vm::{GuestRoot, Qemu};

use crate::{LIMIT, World, guest_template};

pub(crate) const NAME: &str = "residue: kill -9 while a pair stands leaves nothing";
/// Word on the command line of the process that is killed.
pub(crate) const FRONT: &str = "front";
/// What it says once the pair stands.
const STANDS: &str = "the pair stands";
const GONE_WITHIN: Duration = Duration::from_secs(15);

/// Keeps a protected pair until it is killed.
pub(crate) fn front(qemu: &Qemu) {
    let template = guest_template(qemu, GuestRoot::Nothing);
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().unwrap();
    let inside = groups.clone();
    let controller = keeper.start_controller(ControllerOptions::for_this_process(), move |own| {
        own.end_with_front().unwrap();
        let mut world = World::new(template, inside);
        let mut spec = PairSpec::new("sut", PairMode::Checkpoints(Mode::Kemari), PairTask::Witness);
        spec.disk = Some(Bytes::from_mib(16));
        let pair = world.pair(spec);
        let _questioner = world.ask(&pair, "record");
        pair.arm().unwrap();
        println!("{STANDS}");
        std::thread::sleep(Duration::from_secs(600));
        0
    });
    let _ = controller.unwrap().wait();
    let _ = groups.finish(keeper);
}

pub(crate) fn killed_leaves_nothing() {
    let program = std::env::current_exe().unwrap();
    let before = Snapshot::take_with(&program);
    let mut front = Command::new(&program).arg(FRONT).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(front.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (tell, told) = channel();
    // It reads on by itself: a pair that never stands is waited for no longer than any case.
    std::thread::spawn(move || {
        for _ in lines.filter(|line| line.contains(STANDS)) {
            let _ = tell.send(());
        }
    });
    let stands = told.recv_timeout(LIMIT).is_ok();
    let there = Snapshot::take_with(&program).since(&before);
    let qemus =
        there.iter().filter(|(kind, what)| *kind == "process" && what.contains("qemu-system")).count();
    front.kill().unwrap();
    front.wait().unwrap();
    assert!(stands && qemus >= 2, "no pair stood: {there}");
    let until = Instant::now() + GONE_WITHIN;
    loop {
        let now = Snapshot::take_with(&program);
        // Others may work on this machine: what counts is what was there with the pair and still is.
        let left: Vec<_> =
            there.iter().filter(|thing| now.since(&before).iter().any(|t| t == *thing)).collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
