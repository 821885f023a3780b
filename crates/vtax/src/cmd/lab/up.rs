//! `vtax lab up`: builds a testbed and holds it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vtax_lab::{Isolation, Lab, LabOptions};
use vtax_run::{
    BuiltManualTestbed, LabExecutor, ManualTestbed, Observer, PairSupport, RunEvent, Stop, TestbedHandle,
};
use vtax_sys::cgroup::RunGroups;

use super::file::{LabSource, Loaded};
use super::socket::{self, Answer, Ask};
use crate::cmd::run::shell_word;
use crate::exit::{Classify, Exit, Failure, Outcome, report};
use crate::front::{ControllerScope, in_controller};
use crate::out;
use crate::progress::Lines;
use crate::signals::stop_on_signals;

/// How long to wait for a question before looking whether it is over.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    what: LabSource,
    /// Its name, by which other commands reach it where several stand.
    #[arg(long = "lab", alias = "name", value_name = "NAME", default_value = socket::USUAL)]
    name: String,
    /// Start the cell's service too, as for a trial; of several systems, each one's.
    #[arg(long)]
    service: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let loaded = args.what.load()?;
    // Before the controller leaves this network namespace, to which the socket's name belongs.
    let listener = socket::listen(&args.name)?;
    let pairs = match &loaded {
        Loaded::Cell { plan, .. } => PairSupport::of(plan),
        Loaded::Clab { .. } => PairSupport::default(),
    };
    in_controller("nothing of the lab is left", |scope, groups| {
        let outcome = hold(args, &loaded, &pairs, &listener, scope, groups);
        outcome.unwrap_or_else(|failure| report(&failure))
    })
}

fn hold(
    args: &Args,
    loaded: &Loaded,
    pairs: &PairSupport,
    listener: &UnixListener,
    scope: ControllerScope,
    groups: &RunGroups,
) -> Outcome {
    let (stop, told) = (Stop::default(), Told(Lines::default()));
    // Before any other thread: signals must be blocked in all of them.
    stop_on_signals(&stop, &told.0, "taking the lab down").host_cannot()?;
    let inside = match scope {
        ControllerScope::Inside(inside) => inside,
        ControllerScope::Outside(reason) => {
            return Err(anyhow::anyhow!("a lab needs namespaces, which are refused here: {reason}"))
                .host_cannot();
        }
    };
    inside.end_with_front().context("watch the front process").host_cannot()?;
    let options = LabOptions { groups: Some(groups.clone()), ..LabOptions::new(Isolation::Namespaces) };
    let started = Instant::now();
    // What the testbed was built from stays until it is down.
    let (built, _kept) = match build(loaded, args.service, pairs, options, &stop, &told) {
        // What was asked to stop fails for that.
        Err(_) if stop.asked() => return Ok(Exit::Interrupted),
        built => built?,
    };
    out::printable(&(describe_built(loaded.name(), &built, started) + &ways(&args.name)))?;
    let testbed = built.testbed;
    serve(&testbed, listener, &stop)?;
    let left = testbed.down();
    if !left.is_empty() {
        return Err(anyhow::anyhow!("{}", left.join("; "))).context("take the lab down").host_cannot();
    }
    Ok(if stop.asked() { Exit::Interrupted } else { Exit::Done })
}

/// Tells on standard error what is being built: many routers, or a guest under emulation, take a minute.
struct Told(Lines);

impl Observer for Told {
    fn observe(&self, event: &RunEvent<'_>) {
        if let RunEvent::Phase { what } = event {
            self.0.line(&format!("lab: {what}"));
        }
    }
}

/// What has to outlive a testbed.
enum TestbedOwner {
    Lab { _lab: Box<Lab> },
    Executor { _executor: Box<LabExecutor> },
}

fn build(
    loaded: &Loaded,
    service: bool,
    pairs: &PairSupport,
    options: LabOptions,
    stop: &Stop,
    told: &Told,
) -> Result<(BuiltManualTestbed, TestbedOwner), Failure> {
    match loaded {
        Loaded::Clab { blueprint, .. } => {
            let lab = Lab::new(options).host_cannot()?;
            let built = ManualTestbed::of_blueprint(&lab, (**blueprint).clone(), stop, told);
            let (testbed, raised) = built.host_cannot()?;
            let built = BuiltManualTestbed { testbed, raised: Some(raised), services: Vec::new() };
            Ok((built, TestbedOwner::Lab { _lab: Box::new(lab) }))
        }
        Loaded::Cell { plan, cell } => {
            told.observe(&RunEvent::Phase { what: "looking at what the testbed needs" });
            let mut executor = LabExecutor::new(plan, options, pairs, stop.clone(), told).host_cannot()?;
            if let Some(obstacle) = executor.obstacle(cell) {
                return Err(anyhow::anyhow!("{}: {obstacle}", cell.id)).host_cannot();
            }
            let built = executor.build_manual_testbed(plan, cell, service, told).host_cannot()?;
            Ok((built, TestbedOwner::Executor { _executor: Box::new(executor) }))
        }
    }
}

/// What stands, how long its stages took, and where its services are.
fn describe_built(name: &str, built: &BuiltManualTestbed, started: Instant) -> String {
    let BuiltManualTestbed { testbed, raised, services } = built;
    let mut text = format!(
        "{name} stands after {:.1} s: {}\n",
        started.elapsed().as_secs_f64(),
        testbed.handle().names().join(", ")
    );
    for (stage, at) in raised.iter().flat_map(|raised| &raised.stages) {
        text += &format!("  {:<15} {:>7.2} s\n", stage.word(), at.as_secs_f64());
    }
    if let Some(raised) = raised.as_ref().filter(|raised| !raised.labels.is_empty()) {
        let labels: Vec<String> = raised.labels.iter().map(u32::to_string).collect();
        text += &format!("  labels on the core's first cable: {}\n", labels.join(" "));
    }
    for (node, address) in services {
        let whose = if services.len() > 1 { format!("{node}'s") } else { "its".to_owned() };
        text += &format!("  {whose} service listens at {address}\n");
    }
    text
}

/// The commands that reach a lab of this name.
fn ways(name: &str) -> String {
    let lab =
        if name == socket::USUAL { String::new() } else { format!(" --lab {}", shell_word(Path::new(name))) };
    format!("`vtax lab exec{lab} NODE -- COMMAND` works in it; Ctrl-C here or `vtax lab down{lab}` ends it\n")
}

/// Answers questions until the lab is to go down, each on a thread of its own: what a capture is to see is done meanwhile.
fn serve(testbed: &ManualTestbed, listener: &UnixListener, stop: &Stop) -> Result<(), Failure> {
    listener.set_nonblocking(true).context("wait for questions").host_cannot()?;
    let over = Arc::new(AtomicBool::new(false));
    while !over.load(Ordering::Relaxed) && !stop.asked() {
        let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        // Interrupted or not: the loop looks again.
        let _ = poll(&mut fds, Some(&LOOK_EVERY));
        let Ok((stream, _)) = listener.accept() else { continue };
        let (handle, over) = (testbed.handle(), Arc::clone(&over));
        let answer = move || socket::serve(&stream, |ask| answer(&handle, ask, &over));
        std::thread::Builder::new()
            .name("question".into())
            .spawn(answer)
            .context("answer a question")
            .host_cannot()?;
    }
    Ok(())
}

fn answer(handle: &TestbedHandle, ask: Ask, over: &AtomicBool) -> Answer {
    let done = match ask {
        Ask::Exec { node, command } => handle.execute(&node, &command).map(Answer::Executed),
        Ask::Capture { node, interface, duration } => handle
            .capture(&node, &interface, duration)
            .map(|pcap| Answer::Captured { pcap: BASE64_STANDARD.encode(pcap) }),
        Ask::Fault { event } => handle.inject(event).map(|()| Answer::Done),
        Ask::Down => {
            over.store(true, Ordering::Relaxed);
            Ok(Answer::Done)
        }
    };
    done.unwrap_or_else(|error| Answer::Refused { why: vtax_sys::chain(&error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_lab_where_it_has_a_name() {
        assert!(
            ways("lab").starts_with("`vtax lab exec NODE -- COMMAND` ") && !ways("lab").contains("--lab")
        );
        let named = ways("x y");
        assert!(named.starts_with("`vtax lab exec --lab 'x y' NODE -- COMMAND` "), "{named}");
        assert!(named.contains("`vtax lab down --lab 'x y'`"), "{named}");
    }
}
