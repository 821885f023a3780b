//! Control groups: limits are real, and go when their owner does, however it ends.
//!
//! Not under the test harness, which has threads: the keeper is forked from a process with one.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use vtax_sys::cgroup::{Limits, RunGroups, start_time, sweep};
use vtax_sys::controller::{ControllerOptions, start_controller};
use vtax_sys::pidfd::PidFd;
use vtax_sys::require::{Need, need};
use vtax_sys::spawn::Spawn;
use vtax_sys::{Namespaces, ProcessExit};
use vtax_units::{Bytes, CpuSet};

fn main() {
    if !need(&[Need::Root]) {
        return;
    }
    let started = start_time(1).expect("every process has a start time");
    assert!(started < start_time(std::process::id().cast_signed()).unwrap());
    limits_are_enforced_and_go();
    several_groups_are_held_together();
    the_keeper_is_there_before_the_groups();
    without_a_keeper_the_groups_go_too();
    a_killed_owner_leaves_nothing();
    groups_go_only_when_nobody_can_make_more();
    what_a_lost_keeper_leaves_is_swept();
    println!("ok");
}

fn named(name: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, depth: usize, name: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().contains(name) {
                found.push(path.clone());
            }
            if depth < 8 && entry.file_type().is_ok_and(|t| t.is_dir()) {
                walk(&path, depth + 1, name, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), 0, name, &mut found);
    found
}

fn sleeper() -> Spawn {
    Spawn::new(Path::new("/bin/sleep"), ["sleep", "1000"])
}

fn several_groups_are_held_together() {
    let mut groups = RunGroups::of_this_process();
    let name = groups.name().to_owned();
    let keeper = groups.make().unwrap();
    let inside = groups.clone();
    let ended = keeper.start_controller(ControllerOptions::for_this_process(), move |_| {
        if !inside.holds_memory() {
            assert!(inside.with_shared_memory("systems", Bytes::from_mib(64)).is_err());
            return 0;
        }
        let shared = inside.with_shared_memory("systems", Bytes::from_mib(64)).unwrap();
        let limits = Limits { cpus: None, memory: Some(Bytes::from_mib(256)) };
        let node = shared.node("sut", &limits).unwrap();
        let both = inside.made_by_runtime("systems");
        assert_eq!(both.enforced().unwrap().memory, Some(Bytes::from_mib(64)));
        let script = "dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null";
        let greedy = Spawn::new(Path::new("/bin/sh"), ["sh", "-c", script])
            .namespaces(Namespaces::NODE)
            .start(|pid| node.attach(pid))
            .unwrap();
        // Where there is swap it fits, slowly.
        greedy.wait().unwrap();
        println!("{:?}", both.usage());
        assert!(both.usage().at_limit.is_none_or(|times| times > 0));
        assert!(both.anonymous().is_none_or(|own| own < Bytes::from_mib(64)), "{:?}", both.anonymous());
        both.limit_memory(Bytes::from_mib(128), Duration::from_secs(1)).unwrap();
        assert_eq!(both.enforced().unwrap().memory, Some(Bytes::from_mib(128)));
        node.remove().unwrap();
        both.remove().unwrap();
        0
    });
    assert_eq!(ended.unwrap().wait().unwrap(), ProcessExit::Exited(0));
    groups.finish(keeper).unwrap();
    assert_eq!(named(&name), Vec::<PathBuf>::new());
}

fn limits_are_enforced_and_go() {
    let mut groups = RunGroups::of_this_process();
    let name = groups.name().to_owned();
    let keeper = groups.make().unwrap();
    println!("{} {:?}", groups.describe(), groups.notes());
    let inside = groups.clone();
    let ended = keeper.start_controller(ControllerOptions::for_this_process(), move |_| {
        let limits = Limits { cpus: Some(CpuSet::of([0])), memory: Some(Bytes::from_mib(64)) };
        let node = inside.node("sut", &limits).unwrap();
        let enforced = node.enforced().unwrap();
        println!("{enforced:?}");
        if enforced.cpus.is_some() {
            assert_eq!(enforced.cpus, limits.cpus);
        }
        let script = "grep Cpus_allowed_list /proc/self/status | grep -qw 0 && \
                      dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null";
        let greedy = Spawn::new(Path::new("/bin/sh"), ["sh", "-c", script])
            .namespaces(Namespaces::NODE)
            .start(|pid| node.attach(pid))
            .unwrap();
        let end = greedy.wait().unwrap();
        if enforced.memory.is_some() {
            assert_eq!(enforced.memory, limits.memory);
            assert!(!end.success(), "200 MB fitted into 64 MiB");
            println!("{:?}", node.usage());
            assert!(node.usage().killed.is_none_or(|k| k > 0));
        }
        assert_eq!(node.procs_files().unwrap().is_empty(), groups_none(&inside));
        node.remove().unwrap();
        inside.node("left-to-the-keeper", &limits).unwrap();
        0
    });
    assert_eq!(ended.unwrap().wait().unwrap(), ProcessExit::Exited(0));
    groups.finish(keeper).unwrap();
    assert_eq!(named(&name), Vec::<PathBuf>::new());
}

fn groups_none(groups: &RunGroups) -> bool {
    groups.describe() == "none"
}

/// Forks a front process whose keeper dies with it, with controller and a node in a group; returns it once
/// all is up, and the name of its groups.
fn front() -> (vtax_sys::controller::Controller, String) {
    let (out, child_out) = rustix::pipe::pipe().unwrap();
    // A controller serves as the front process here: a fork that can be killed.
    let options = ControllerOptions { user_namespace: false, own_session: true };
    let front = start_controller(options, |_| {
        let mut groups = RunGroups::of_this_process();
        let keeper = groups.make().unwrap();
        let inner = keeper.start_controller(options, |_| {
            let node = groups.node("sut", &Limits::default()).unwrap();
            sleeper().start(|pid| node.attach(pid)).unwrap();
            rustix::io::write(&child_out, groups.name().as_bytes()).unwrap();
            std::thread::sleep(Duration::from_secs(60));
            0
        });
        let _ = inner.unwrap().wait();
        0
    });
    let mut buffer = [0_u8; 100];
    let length = rustix::io::read(&out, &mut buffer).unwrap();
    (front.unwrap(), String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn a_killed_owner_leaves_nothing() {
    // The keeper must outlive the front process's PID namespace, so it is kept by this process.
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().unwrap();
    let (out, child_out) = rustix::pipe::pipe().unwrap();
    let inside = groups.clone();
    let controller = keeper.start_controller(ControllerOptions::for_this_process(), move |_| {
        let node = inside.node("sut", &Limits::default()).unwrap();
        sleeper().start(|pid| node.attach(pid)).unwrap();
        rustix::io::write(&child_out, b"!").unwrap();
        std::thread::sleep(Duration::from_secs(60));
        0
    });
    rustix::io::read(&out, &mut [0_u8; 1]).unwrap();
    assert_eq!(named(groups.name()).is_empty(), groups_none(&groups));
    drop(controller);
    // Only the pipe is closed, as when the front process is killed.
    drop(keeper);
    let until = Instant::now() + Duration::from_secs(10);
    expect_removed(groups.name(), until);
    vtax_sys::signals::become_subreaper().unwrap();
    while vtax_sys::signals::reap_all().is_empty() {
        assert!(Instant::now() < until, "the keeper didn't end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn expect_removed(name: &str, until: Instant) {
    while !named(name).is_empty() {
        assert!(Instant::now() < until, "the keeper removed nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A controller that has let go of all its files and goes on, as one does for a moment when it is killed.
fn groups_go_only_when_nobody_can_make_more() {
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().unwrap();
    let controller = keeper.start_controller(ControllerOptions::for_this_process(), |_| {
        // The files of vtax are closed where another program is started.
        let failed = Command::new("sleep").arg("1000").exec();
        panic!("{failed}")
    });
    drop(keeper);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(named(groups.name()).is_empty(), groups_none(&groups), "removed too early");
    drop(controller);
    expect_removed(groups.name(), Instant::now() + Duration::from_secs(10));
}

/// As by kill -9 right after the first of them was made: before that there is nothing to remove.
fn the_keeper_is_there_before_the_groups() {
    let mut groups = RunGroups::of_this_process();
    assert_eq!(named(groups.name()), Vec::<PathBuf>::new());
    assert!(!groups.holds_cpus() && !groups.holds_memory());
    let keeper = groups.make().unwrap();
    assert_eq!(named(groups.name()).is_empty(), groups_none(&groups));
    // It was told of no group, and finds each that there may be.
    groups.finish(keeper).unwrap();
}

/// Whoever kills the keeper alone: the front process does what it would have.
fn without_a_keeper_the_groups_go_too() {
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().unwrap();
    let there = !named(groups.name()).is_empty();
    assert!(there || groups_none(&groups));
    let own = std::process::id();
    // It is the only child; the others of this test were reaped.
    let children = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap();
    let [pid] = children.split_whitespace().collect::<Vec<_>>()[..] else { panic!("children: {children}") };
    PidFd::open(pid.parse().unwrap()).unwrap().kill().unwrap();
    let name = groups.name().to_owned();
    groups.finish(keeper).unwrap();
    assert_eq!(named(&name), Vec::<PathBuf>::new());
}

fn what_a_lost_keeper_leaves_is_swept() {
    let (front, name) = front();
    let left = named(&name);
    sweep().unwrap();
    assert_eq!(named(&name), left, "a run that goes on is left alone");
    drop(front);
    sweep().unwrap();
    if rustix::fs::stat("/proc/self/ns/pid").unwrap().st_ino == 0xEFFF_FFFC {
        assert_eq!(named(&name), Vec::<PathBuf>::new());
    }
    // Its owner was in this PID namespace, and is gone.
    let namespace = rustix::fs::stat("/proc/self/ns/pid").unwrap().st_ino;
    let mine: Vec<_> =
        left.iter().map(|p| p.with_file_name(format!("vtax-{}-7-{namespace}", i32::MAX))).collect();
    for dir in &mine {
        // What begins elsewhere on this machine sweeps too, and may be first.
        if let Err(error) = std::fs::create_dir_all(dir.join("sut")) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }
    sweep().unwrap();
    assert!(mine.iter().all(|d| !d.exists()));
}
