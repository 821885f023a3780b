//! Probes of real processes: CPU time is neither lost nor invented.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vtax_probe::delta::{family_time, own_time};
use vtax_probe::{Probe, ProbeError, Scope, Snapshot};

/// A process that is killed when it goes out of scope.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn snapshot(scope: &Scope) -> Snapshot {
    Probe::new(scope.clone()).expect("/proc").snapshot().expect("it is readable")
}

/// Uses CPU time on the calling thread.
fn burn(time: Duration) {
    let until = own_cpu() + time;
    while own_cpu() < until {
        std::hint::black_box((0..1000u64).sum::<u64>());
    }
}

fn own_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or(0))
}

#[test]
fn time_of_children_that_ended_is_not_lost() {
    // Each child counts to use some CPU time and ends; the shell waits for it.
    let script = "read go; for i in 1 2 3 4; do sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; done; \
                  echo done; read end";
    let mut shell = Killed(
        Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell"),
    );
    let mut probe = Probe::new(Scope::Processes(vec![shell.0.id()])).expect("/proc");
    let start = probe.snapshot().expect("readable");
    assert_eq!(start.tasks.len(), 1);
    let mut stdin = shell.0.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, b"\n").expect("it reads");
    let mut word = [0; 4];
    let mut stdout = shell.0.stdout.take().expect("piped");
    std::io::Read::read_exact(&mut stdout, &mut word).expect("it ends");
    let end = probe.snapshot().expect("readable");
    let (own, all) = (own_time(&start.tasks, &end.tasks), family_time(&start.tasks, &end.tasks));
    assert!(all.total().0 > own.total().0 + 20_000_000, "{own:?} {all:?}");
    assert!(end.at > start.at);
}

#[test]
fn descendants_are_found_and_stay_members_without_their_parent() {
    // The inner shell ends once it is told to; its sleep becomes an orphan then.
    let script = "sh -c 'sleep 600 & echo $!; read go'; read end";
    let mut shell = Killed(
        Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell"),
    );
    let mut stdin = shell.0.stdin.take().expect("piped");
    let mut line = String::new();
    BufReader::new(shell.0.stdout.take().expect("piped")).read_line(&mut line).expect("it tells its sleep");
    let orphan = Orphan(line.trim().parse().expect("a number"));
    let mut sleeper = Killed(Command::new("sleep").arg("30").spawn().expect("sleep"));
    let own = [shell.0.id(), orphan.0, sleeper.0.id()];
    let mut probe = Probe::new(Scope::Processes(vec![std::process::id()])).expect("/proc");
    let mut seen = || {
        let tasks = probe.snapshot().expect("readable").tasks;
        own.map(|process| tasks.iter().any(|task| task.id == process))
    };
    assert_eq!(seen(), [true; 3]);
    let inner = orphan.parent();
    stdin.write_all(b"\n").expect("it reads");
    let until = Instant::now() + Duration::from_secs(20);
    while orphan.parent() == inner {
        assert!(Instant::now() < until, "the inner shell goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = sleeper.0.kill();
    let _ = sleeper.0.wait();
    assert_eq!(seen(), [true, true, false]);
}

/// A process that isn't this one's child, killed when it goes out of scope.
struct Orphan(u32);

impl Orphan {
    fn parent(&self) -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse().ok()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg("-KILL").arg(self.0.to_string()).status();
    }
}

#[test]
fn time_of_threads_that_ended_is_not_lost() {
    let scope = Scope::Threads(std::process::id());
    let start = snapshot(&scope);
    std::thread::Builder::new()
        .name("burner".into())
        .spawn(|| burn(Duration::from_millis(150)))
        .expect("a thread")
        .join()
        .expect("it ends");
    // Who joins a thread may go on some moments before the kernel's list is without it.
    let until = Instant::now() + Duration::from_secs(20);
    let end = loop {
        let end = snapshot(&scope);
        if end.tasks.iter().all(|t| t.name != "burner") {
            break end;
        }
        assert!(Instant::now() < until, "it is still there");
        std::thread::sleep(Duration::from_millis(5));
    };
    let time = own_time(&start.tasks, &end.tasks).total();
    assert!(time.0 >= 120_000_000, "{time}");
}

#[test]
fn threads_are_told_by_name_and_timed_finely() {
    let (tell, told) = std::sync::mpsc::channel();
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new()
        .name("CPU 0/TCG".into())
        .spawn(move || {
            burn(Duration::from_millis(33));
            tell.send(own_cpu()).expect("somebody listens");
            // A task's run time is brought up to date when it is switched out.
            finished.recv().expect("somebody tells");
            own_cpu()
        })
        .expect("a thread");
    let used = told.recv().expect("it runs");
    std::thread::sleep(Duration::from_millis(20));
    let seen = snapshot(&Scope::Threads(std::process::id()));
    finish.send(()).expect("it waits");
    let most = thread.join().expect("it ends");
    let task = seen.tasks.iter().find(|t| t.name == "CPU 0/TCG").expect("it is there");
    let time = Duration::from_nanos(task.user.0 + task.system.0);
    // Ticks alone are off by up to 20 ms; without schedstat that is all there is.
    let slack =
        Duration::from_millis(if std::path::Path::new("/proc/self/schedstat").exists() { 5 } else { 21 });
    assert!(time + slack >= used && time <= most + slack, "{used:?} <= {time:?} <= {most:?}");
}

#[test]
fn a_process_that_ended_is_told() {
    let mut child = Killed(Command::new("sleep").arg("30").spawn().expect("sleep"));
    let mut probe = Probe::new(Scope::Threads(child.0.id())).expect("/proc");
    // Time that a thread starting up runs while it is looked at is taken for an ended thread's.
    assert!(!probe.snapshot().expect("it lives").tasks.is_empty());
    let _ = child.0.kill();
    let _ = child.0.wait();
    assert!(matches!(probe.snapshot(), Err(ProbeError::Gone { .. })));
}

#[test]
fn memory_and_loopback_are_seen() {
    let start = snapshot(&Scope::Processes(vec![std::process::id()]));
    assert!(start.memory.total_bytes > start.memory.available_bytes && start.memory.available_bytes > 0);
    assert!(!start.cpus.is_empty());
    assert!(start.tasks[0].resident_bytes > 100_000);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for _ in 0..50 {
        socket.send_to(&[0; 1000], socket.local_addr().expect("bound")).expect("loopback takes it");
    }
    let end = snapshot(&Scope::Processes(vec![std::process::id()]));
    let counters = |snapshot: &Snapshot| {
        let lo = snapshot.interfaces.iter().find(|i| i.name == "lo").expect("loopback");
        [lo.rx_bytes, lo.tx_packets]
    };
    let [before, after] = [&start, &end].map(counters);
    assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
}

#[test]
fn a_hundred_processes_cost_less_than_a_hundredth_of_a_core() {
    let sleepers: Vec<Killed> =
        (0..100).map(|_| Killed(Command::new("sleep").arg("60").spawn().expect("sleep"))).collect();
    let roots = sleepers.iter().map(|s| s.0.id()).collect();
    let mut probe = Probe::new(Scope::Processes(roots)).expect("/proc");
    assert_eq!(probe.snapshot().expect("readable").tasks.len(), 100);
    let wall = Instant::now();
    let mut took = [(); 20].map(|()| {
        let begun = own_cpu();
        probe.snapshot().expect("readable");
        own_cpu() - begun
    });
    took.sort_unstable();
    // What a hypervisor takes may count as this thread's time: one such moment is not what a snapshot costs.
    let each = took[took.len() / 2];
    // Debug builds and busy machines included; `make bench` has the figure of a release build.
    assert!(each < Duration::from_millis(10), "{each:?}");
    assert!(wall.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_process_with_threads_is_timed_by_its_clock() {
    let own = std::process::id();
    let mut probe = Probe::new(Scope::Processes(vec![own])).expect("/proc");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| burn(Duration::from_millis(7)));
        }
    });
    let before = vtax_sys::cpu_clock::process_cpu(own).expect("it lives");
    let seen = probe.snapshot().expect("readable");
    let after = vtax_sys::cpu_clock::process_cpu(own).expect("it lives");
    let task = seen.tasks.iter().find(|t| t.id == own).expect("it is there");
    let time = task.user.0 + task.system.0;
    assert!((before.0..=after.0).contains(&time), "{before} <= {time}ns <= {after}");
}
