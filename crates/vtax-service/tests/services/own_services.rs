//! Services of the user's own: every way to be ready, and every way to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Bench, processes_below, script};
use vtax_plan::model::{CommandService, Ready, ServiceKind};
use vtax_service::{Notice, RunningService, ServiceError};
use vtax_sys::{ProcessExit, free_port};
use vtax_units::Nanos;

/// A server that accepts and says nothing; perl is on every Debian and Ubuntu.
const LISTEN: &str = "exec perl -MIO::Socket::INET -e '\
    my $s = IO::Socket::INET->new(LocalAddr => $ENV{WHERE}, Listen => 5, ReuseAddr => 1) or die $!; \
    while (my $c = $s->accept) { close $c }'\n";

#[test]
fn ready_by_port() {
    let (bench, port) = (Bench::new(), free_port());
    let running = bench.start(&script(port, Ready::Port, LISTEN)).expect("it starts");
    assert_eq!(running.address().port(), port);
    assert_eq!(running.command()[0], "sh");
    assert_eq!(running.version(), "sh");
    let stopped = running.stop().expect("it stops");
    assert_eq!((stopped.status, stopped.killed), (Some(ProcessExit::Signalled(15)), false));
    bench.assert_gone(port);
}

#[test]
fn ready_by_a_line_of_its_output() {
    let (bench, port) = (Bench::new(), free_port());
    let text = "echo starting at $WHERE; sleep 0.2; echo 'now ready to serve' >&2; exec sleep 60\n";
    let running = bench.start(&script(port, Ready::Log("ready to".into()), text)).expect("it starts");
    assert!(running.startup() >= Nanos::from_millis(200), "{}", running.startup());
    let first = Notice::Output { stream: "stdout", line: format!("starting at 127.0.0.1:{port}") };
    bench.wait_for("first line", |n| *n == first);
    let second = Notice::Output { stream: "stderr", line: "now ready to serve".into() };
    bench.wait_for("second line", |n| *n == second);
    running.stop().expect("it stops");
    bench.assert_gone(port);
}

#[test]
fn ready_by_a_command() {
    let (bench, port) = (Bench::new(), free_port());
    let ready = Ready::Command(["test", "-e", "{dir}/up"].map(str::to_owned).to_vec());
    let running = bench.start(&script(port, ready, "sleep 0.2; : > up; exec sleep 60\n")).expect("it starts");
    assert!(running.startup() >= Nanos::from_millis(200), "{}", running.startup());
    running.stop().expect("it stops");
    bench.assert_gone(port);
}

#[test]
fn a_service_that_dies_at_start_is_quoted() {
    let (bench, port) = (Bench::new(), free_port());
    let text = "echo 'config line 3: no such option' >&2; exit 7\n";
    let error = bench.start(&script(port, Ready::Port, text)).expect_err("it dies");
    let ServiceError::DiedAtStart { status, ref lines, .. } = error else { panic!("{error}") };
    assert_eq!(status, ProcessExit::Exited(7));
    assert_eq!(lines, &["config line 3: no such option"]);
    assert!(error.to_string().contains("exit code 7"), "{error}");
    assert!(!bench.notices().iter().any(|n| matches!(n, Notice::Died { .. })), "told twice");
    bench.assert_gone(port);
}

#[test]
fn a_service_that_never_gets_ready_is_ended_in_time() {
    let (bench, port) = (Bench::new(), free_port());
    let begun = Instant::now();
    for ready in [Ready::Port, Ready::Log("never".into()), Ready::Command(vec!["false".into()])] {
        let mut own = script(port, ready, "echo still loading; exec sleep 600\n");
        // Enough for its words, also on a busy machine.
        own.ready_timeout = Nanos::from_secs(8);
        let error = bench.start(&own).expect_err("it is never ready");
        let ServiceError::NeverReady { ref lines, ref doing, .. } = error else { panic!("{error}") };
        assert_eq!(lines, &["still loading"], "{error}");
        assert!(doing.iter().any(|process| process.starts_with("sleep is waiting")), "{doing:?}");
        bench.assert_gone(port);
    }
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn a_ready_command_that_hangs_is_ended_with_its_children() {
    let (bench, port) = (Bench::new(), free_port());
    let ready = Ready::Command(["sh", "-c", "sleep 60 & wait # {dir}"].map(str::to_owned).to_vec());
    let mut own = script(port, ready, "exec sleep 60\n");
    own.ready_timeout = Nanos::from_millis(300);
    let error = bench.start(&own).expect_err("it is never ready");
    assert!(error.to_string().contains("did not end in time"), "{error}");
    bench.assert_gone(port);
}

#[test]
fn what_ignores_sigterm_or_hides_is_killed() {
    let (bench, port) = (Bench::new(), free_port());
    // A grandchild in a session of its own whose parent has ended: only its mark tells.
    let text = "trap '' TERM\nsetsid sh -c 'sleep 300 & sleep 300' &\n(setsid sleep 300 &)\necho up\n\
                while :; do sleep 0.1; done\n";
    let mut own = script(port, Ready::Log("up".into()), text);
    own.stop_timeout = Nanos::from_millis(300);
    let running = bench.start(&own).expect("it starts");
    let stopped = running.stop().expect("everything can be killed");
    assert_eq!((stopped.status, stopped.killed), (Some(ProcessExit::Signalled(9)), true));
    bench.assert_gone(port);
}

#[test]
fn an_unexpected_death_is_told_with_its_last_words() {
    let (bench, port) = (Bench::new(), free_port());
    // It would be no unexpected death before it was known to be ready.
    let text = "echo up; until [ -e go ]; do sleep 0.05; done; echo last words; exit 3\n";
    let running = bench.start(&script(port, Ready::Log("up".into()), text)).expect("it starts");
    std::fs::write(bench.private().join("go"), "").expect("its own directory");
    bench.wait_for("death", |n| matches!(n, Notice::Died { process: None, status: ProcessExit::Exited(3) }));
    let notices = bench.notices();
    assert!(matches!(&notices[notices.len() - 2], Notice::Output { line, .. } if line == "last words"));
    assert_eq!(running.ended(), Some(ProcessExit::Exited(3)));
    let stopped = running.stop().expect("it has ended");
    assert_eq!((stopped.status, stopped.killed), (Some(ProcessExit::Exited(3)), false));
    bench.assert_gone(port);
}

#[test]
fn a_chatty_service_neither_blocks_nor_floods() {
    let (bench, port) = (Bench::new(), free_port());
    let text = "i=0; while [ $i -lt 20000 ]; do echo line $i of a very chatty service that says far too much; \
                i=$((i+1)); done; echo up; exec sleep 60\n";
    let running = bench.start(&script(port, Ready::Log("up".into()), text)).expect("it starts");
    running.stop().expect("it stops");
    assert!(bench.notices().len() < 10_000, "{} lines were passed on", bench.notices().len());
    bench.assert_gone(port);
}

#[test]
fn files_outside_the_private_directory_are_refused() {
    let (bench, port) = (Bench::new(), free_port());
    let mut own = script(port, Ready::Port, "exit 0\n");
    let ServiceKind::Command(CommandService { files, .. }) = &mut own.kind else { unreachable!() };
    files.insert("../escaped".into(), "x".into());
    let error = bench.start(&own).expect_err("it would escape");
    assert!(matches!(error, ServiceError::PathOutside { .. }), "{error}");
    assert!(!bench.private().with_file_name("escaped").exists());
    bench.assert_gone(port);
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let (bench, port) = (Bench::new(), free_port());
    std::fs::create_dir(bench.private()).expect("new");
    std::fs::write(bench.private().join("precious"), "x").expect("own directory");
    let error = bench.start(&script(port, Ready::Port, "exit 0\n")).expect_err("not fresh");
    assert!(matches!(error, ServiceError::DirectoryInUse { .. }), "{error}");
    assert!(bench.private().join("precious").exists());
}

#[test]
fn a_program_that_isnt_there_is_told() {
    let bench = Bench::new();
    let own = |program: &str| {
        let mut own = script(free_port(), Ready::Port, "");
        let ServiceKind::Command(command) = &mut own.kind else { unreachable!() };
        command.command = vec![program.into()];
        own
    };
    let error = bench.start(&own("no-such-server")).expect_err("not installed");
    assert!(matches!(error, ServiceError::NotInstalled { .. }), "{error}");
    let error = bench.start(&own("{dir}/run.sh")).expect_err("not executable");
    assert!(matches!(error, ServiceError::Spawn { .. }), "{error}");
    assert!(!bench.private().exists());
}

#[test]
fn a_start_can_be_called_off() {
    let (bench, port) = (Bench::new(), free_port());
    let call_off = Arc::new(AtomicBool::new(false));
    let mut context = bench.context();
    context.call_off = Some(Arc::clone(&call_off));
    let own = script(port, Ready::Log("never".into()), "exec sleep 60\n");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            call_off.store(true, Ordering::Relaxed);
        });
        let error = RunningService::start(&own, None, &context, |_| ()).expect_err("called off");
        assert!(matches!(error, ServiceError::CalledOff { .. }), "{error}");
    });
    // Long before it would have been given up, after 20 s.
    assert!(begun.elapsed() < Duration::from_secs(18));
    assert!(processes_below(&bench.private()).is_empty());
    bench.assert_gone(port);
}
