//! The controller and programs in namespaces of their own.
//!
//! Not under the test harness, which has threads: a controller is forked from a process with one.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use vtax_sys::controller::{ControllerOptions, Inside, probe, start_controller};
use vtax_sys::mount::{bind, tmpfs};
use vtax_sys::mountinfo::{Mounted, mounts};
use vtax_sys::require::{Need, need};
use vtax_sys::signals::SignalFd;
use vtax_sys::spawn::Spawn;
use vtax_sys::{Namespaces, NetNs, PidFd, ProcessExit, sysctl};

/// Argument with which this program calls itself, to be looked at in other surroundings.
const LED_FROM_OUTSIDE: &str = "led-from-outside";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(LED_FROM_OUTSIDE) {
        // What it may be granted differs; that it ends well is what counts.
        let _ = vtax_sys::sched::prefer_low_latency();
        return;
    }
    if !need(&[Need::Ns]) {
        return;
    }
    let own = ControllerOptions::for_this_process();
    let mut kinds = vec![own];
    if !own.user_namespace {
        kinds.push(ControllerOptions { user_namespace: true, ..own });
    }
    for options in kinds {
        println!("user namespace: {}", options.user_namespace);
        probe(options).expect("a controller can be started");
        exit_code_comes_back(options);
        panic_is_a_bug(options);
        is_first_and_alone(options);
        the_hosts_sockets_are_known(options);
        read_only_holds_for_all_below(options);
        signals_reach_it(options);
        everything_dies_with_it(options);
        programs_start_in_namespaces(options);
        a_missing_program_is_an_error(options);
    }
    threads_are_refused(own);
    a_session_may_be_led_from_outside();
    println!("ok");
}

/// Continuous integration often runs in a PID namespace whose session leader stayed outside.
fn a_session_may_be_led_from_outside() {
    let unshare = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--pid", "--fork"])
        .arg(std::env::current_exe().unwrap())
        .arg(LED_FROM_OUTSIDE)
        .status()
        .unwrap();
    assert!(unshare.success(), "{unshare}");
}

fn within(options: ControllerOptions, work: impl FnOnce(&Inside)) {
    let ended = start_controller(options, |inside| {
        work(&inside);
        0
    });
    assert_eq!(ended.unwrap().wait().unwrap(), ProcessExit::Exited(0));
}

fn exit_code_comes_back(options: ControllerOptions) {
    assert_eq!(start_controller(options, |_| 42).unwrap().wait().unwrap(), ProcessExit::Exited(42));
}

fn panic_is_a_bug(options: ControllerOptions) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let ended = start_controller(options, |_| panic!("on purpose")).unwrap().wait().unwrap();
    std::panic::set_hook(hook);
    assert_eq!(ended, ProcessExit::Exited(70));
}

/// Before Linux 6.11 only the host's own network namespace shows `core/rmem_max` and its like.
fn the_hosts_sockets_are_known(options: ControllerOptions) {
    let common = |sockets: sysctl::Sockets| -> Vec<(String, String)> {
        sockets.into_iter().filter(|(setting, _)| setting.starts_with("core/")).collect()
    };
    let outside = common(sysctl::sockets());
    within(options, |_| assert_eq!(common(sysctl::of_host()), outside));
}

fn is_first_and_alone(options: ControllerOptions) {
    let outside = NetNs::current().unwrap().inode().unwrap();
    within(options, |_| {
        assert_eq!(std::process::id(), 1);
        assert!(rustix::process::geteuid().is_root());
        assert_ne!(NetNs::current().unwrap().inode().unwrap(), outside);
        let others = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = others.filter(|e| e.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok()));
        assert_eq!(pids.count(), 1);
        tmpfs(Path::new("/mnt"), "mode=700").unwrap();
        std::fs::write("/mnt/seen-only-here", "x").unwrap();
    });
    assert!(!Path::new("/mnt/seen-only-here").exists());
}

fn read_only_holds_for_all_below(options: ControllerOptions) {
    within(options, |_| {
        let (inner, target) = (Path::new("/mnt/source/inner"), Path::new("/mnt/target"));
        tmpfs(Path::new("/mnt"), "mode=755").unwrap();
        for dir in [inner, target] {
            std::fs::create_dir_all(dir).unwrap();
        }
        tmpfs(inner, "mode=755").unwrap();
        bind(Path::new("/mnt/source"), target, true).unwrap();
        for file in ["/mnt/target/x", "/mnt/target/inner/x"] {
            let refused = std::fs::write(file, "x").unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{file}");
        }
        std::fs::write(inner.join("x"), "x").unwrap();
        // The host's own mounts have flags that a user namespace may not take away.
        bind(Path::new("/sys"), target, true).unwrap();
        let below: Vec<Mounted> =
            mounts().unwrap().into_iter().filter(|mount| mount.point.starts_with(target)).collect();
        let is_read_only = |mount: &Mounted| mount.options.split(',').any(|option| option == "ro");
        assert!(!below.is_empty() && below.iter().all(is_read_only), "{below:#?}");
    });
}

fn signals_reach_it(options: ControllerOptions) {
    let (ready_in, ready_out) = rustix::pipe::pipe().unwrap();
    let controller = start_controller(options, |_| {
        let signals = SignalFd::new(&[Signal::TERM]).unwrap();
        rustix::io::write(&ready_out, b"!").unwrap();
        let mut poll = [rustix::event::PollFd::new(&signals, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut poll, None).unwrap();
        u8::from(signals.next().unwrap() != Some(Signal::TERM))
    });
    let controller = controller.unwrap();
    rustix::io::read(&ready_in, &mut [0_u8; 1]).unwrap();
    controller.signal(Signal::TERM).unwrap();
    assert_eq!(controller.wait().unwrap(), ProcessExit::Exited(0));
}

fn sleeper(name: &str) -> Spawn {
    Spawn::new(Path::new("/bin/sleep"), [name, "1000"])
}

fn running(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with(mark.as_bytes())).count()
}

fn everything_dies_with_it(options: ControllerOptions) {
    let mark = format!("vtax-test-{}", std::process::id());
    let (ready_in, ready_out) = rustix::pipe::pipe().unwrap();
    let controller = start_controller(options, |_| {
        sleeper(&mark).start(|_| Ok(())).unwrap();
        sleeper(&mark).namespaces(Namespaces::NODE).mount_proc().start(|_| Ok(())).unwrap();
        rustix::io::write(&ready_out, b"!").unwrap();
        std::thread::sleep(Duration::from_secs(60));
        0
    });
    let controller = controller.unwrap();
    rustix::io::read(&ready_in, &mut [0_u8; 1]).unwrap();
    // A program has its command line a moment after it is known to run.
    let until = Instant::now() + Duration::from_secs(30);
    while running(&mark) != 2 {
        assert!(Instant::now() < until, "{} programs run", running(&mark));
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(controller);
    let until = Instant::now() + Duration::from_secs(30);
    while running(&mark) != 0 {
        assert!(Instant::now() < until, "programs outlived their controller");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn programs_start_in_namespaces(options: ControllerOptions) {
    let name = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let outside = name();
    within(options, move |_| {
        assert_eq!(name(), outside, "a run knows which host it is on");
        let (out, out_child) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let script = "echo $$ $(hostname) $(ls /proc/self/fd | wc -l) $(ls /tmp | wc -l) $WORD; \
                      echo through >&5";
        let program = Spawn::new(Path::new("/bin/sh"), ["sh", "-c", script])
            .env("PATH", "/usr/bin:/bin")
            .env("WORD", "word")
            .namespaces(Namespaces::NODE)
            .mount_proc()
            .mount_tmpfs("/tmp", "mode=1777", false)
            .host_name("node7")
            .cpus(&vtax_units::CpuSet::of([0]))
            .fd(out_child.try_clone().unwrap(), 1)
            .fd(out_child, 5);
        let mut seen = 0;
        let child = program.start(|pid| {
            seen = pid;
            Ok(())
        });
        let child = child.unwrap();
        assert_eq!(child.pid(), seen);
        let mut text = String::new();
        std::fs::File::from(out).read_to_string(&mut text).unwrap();
        // ls has 0, 1, 2, the inherited 5 and the directory it reads.
        assert_eq!(text, "1 node7 5 0 word\nthrough\n");
        assert_eq!(child.wait().unwrap(), ProcessExit::Exited(0));

        let child = Spawn::new(Path::new("/bin/sleep"), ["sleep", "1000"]).start(|_| Ok(())).unwrap();
        assert!(!child.ended_within(Duration::from_millis(20)).unwrap());
        child.kill_and_reap(Duration::from_secs(5)).unwrap();

        let other = NetNs::create().unwrap();
        let wanted = other.inode().unwrap();
        let fd: OwnedFd = other.try_clone().unwrap().into();
        let child = sleeper("sleep").join_net(fd).start(|_| Ok(())).unwrap();
        assert_eq!(NetNs::of_process(child.pid()).unwrap().inode().unwrap(), wanted);
        assert_eq!(other.run(|| NetNs::current()?.inode()).unwrap(), wanted);
        child.kill_and_reap(Duration::from_secs(5)).unwrap();
    });
}

fn a_missing_program_is_an_error(options: ControllerOptions) {
    within(options, |_| {
        let e = Spawn::new(Path::new("/no/such"), ["such"]).start(|_| Ok(())).unwrap_err();
        assert_eq!(vtax_sys::chain(&e), "execute /no/such: No such file or directory (os error 2)");
        let itself = Spawn::new(Path::new("/proc/self/exe"), ["vtax"]).cpus(&"1000".parse().unwrap());
        let e = itself.start(|_| Ok(())).unwrap_err();
        assert_eq!(vtax_sys::chain(&e), "set CPUs of vtax: Invalid argument (os error 22)");
        let refused = sleeper("sleep")
            .start(|_| Err(vtax_sys::SysError::Unexpected { operation: "test", what: "refused".into() }));
        assert!(refused.unwrap_err().to_string().contains("refused"));
        assert!(PidFd::open(i32::MAX).is_err());
        assert!(vtax_sys::signals::reap_all().is_empty(), "no child is left unreaped");
    });
}

fn threads_are_refused(options: ControllerOptions) {
    let (wait_in, wait_out) = rustix::pipe::pipe().unwrap();
    let other = std::thread::spawn(move || rustix::io::read(&wait_in, &mut [0_u8; 1]));
    let e = start_controller(options, |_| 0).unwrap_err();
    assert!(e.to_string().contains("this process has 2"), "{e}");
    drop(wait_out);
    other.join().unwrap().unwrap();
}
