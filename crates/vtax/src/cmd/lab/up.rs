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
use vtax_run::{LabExecutor, PairSupport, Reach, Silent, Standing, Stood, Stop};
use vtax_sys::cgroup::RunGroups;

use super::door::{self, Answer, Ask};
use super::file::{Loaded, What};
use crate::cmd::run::shell_word;
use crate::exit::{Classify, Exit, Failure, Outcome, report};
use crate::front::{Place, in_controller};
use crate::out;
use crate::signals::stop_on_signals;

/// How long to wait for a question before looking whether it is over.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    what: What,
    /// Its name, by which other commands reach it where several stand.
    #[arg(long, default_value = door::USUAL)]
    name: String,
    /// Start the cell's service too, as for a trial; of several systems, each one's.
    #[arg(long)]
    service: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let Some(loaded) = args.what.load()? else { return Ok(Exit::BadInput) };
    // Before the controller leaves this network namespace, to which the socket's name belongs.
    let listener = door::listen(&args.name)?;
    let pairs = match &loaded {
        Loaded::Cell { plan, .. } => PairSupport::of(plan),
        Loaded::Clab { .. } => PairSupport::default(),
    };
    in_controller(|place, groups| {
        let outcome = hold(args, &loaded, &pairs, &listener, place, groups);
        outcome.unwrap_or_else(|failure| report(&failure))
    })
}

fn hold(
    args: &Args,
    loaded: &Loaded,
    pairs: &PairSupport,
    listener: &UnixListener,
    place: Place,
    groups: &RunGroups,
) -> Outcome {
    let stop = Stop::default();
    // Before any other thread: signals must be blocked in all of them.
    stop_on_signals(&stop).host_cannot()?;
    let inside = match place {
        Place::Inside(inside) => inside,
        Place::Outside(reason) => {
            return Err(anyhow::anyhow!("a lab needs namespaces, which are refused here: {reason}"))
                .host_cannot();
        }
    };
    inside.end_with_front().context("watch the front process").host_cannot()?;
    let options = LabOptions { groups: Some(groups.clone()), ..LabOptions::new(Isolation::Namespaces) };
    let started = Instant::now();
    // What the testbed was built from stays until it is down.
    let (stood, _kept) = build(loaded, args.service, pairs, options, &stop)?;
    out::text(&(told(loaded.name(), &stood, started) + &ways(&args.name)))?;
    let standing = stood.standing;
    serve(&standing, listener, &stop)?;
    let left = standing.down();
    if !left.is_empty() {
        return Err(anyhow::anyhow!("{}", left.join("; "))).context("take the lab down").host_cannot();
    }
    Ok(if stop.asked() { Exit::Interrupted } else { Exit::Done })
}

/// What has to outlive a testbed.
enum Kept {
    Lab { _lab: Box<Lab> },
    Executor { _executor: Box<LabExecutor> },
}

fn build(
    loaded: &Loaded,
    service: bool,
    pairs: &PairSupport,
    options: LabOptions,
    stop: &Stop,
) -> Result<(Stood, Kept), Failure> {
    match loaded {
        Loaded::Clab { blueprint, .. } => {
            let lab = Lab::new(options).host_cannot()?;
            let (standing, raised) = Standing::of_blueprint(&lab, (**blueprint).clone()).host_cannot()?;
            let stood = Stood { standing, raised: Some(raised), services: Vec::new() };
            Ok((stood, Kept::Lab { _lab: Box::new(lab) }))
        }
        Loaded::Cell { plan, cell } => {
            let mut executor = LabExecutor::new(plan, options, pairs, stop.clone(), &Silent).host_cannot()?;
            if let Some(obstacle) = executor.obstacle(cell) {
                return Err(anyhow::anyhow!("{}: {obstacle}", cell.id)).host_cannot();
            }
            let stood = executor.stand(plan, cell, service, &Silent).host_cannot()?;
            Ok((stood, Kept::Executor { _executor: Box::new(executor) }))
        }
    }
}

fn told(name: &str, stood: &Stood, started: Instant) -> String {
    let Stood { standing, raised, services } = stood;
    let mut text = format!(
        "{name} stands after {:.1} s: {}\n",
        started.elapsed().as_secs_f64(),
        standing.reach().names().join(", ")
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
        if name == door::USUAL { String::new() } else { format!(" --lab {}", shell_word(Path::new(name))) };
    format!("`vtax lab exec{lab} NODE -- COMMAND` works in it; Ctrl-C here or `vtax lab down{lab}` ends it\n")
}

/// Answers questions until the lab is to go down, each on a thread of its own: what a capture is to see is done meanwhile.
fn serve(standing: &Standing, listener: &UnixListener, stop: &Stop) -> Result<(), Failure> {
    listener.set_nonblocking(true).context("wait for questions").host_cannot()?;
    let over = Arc::new(AtomicBool::new(false));
    while !over.load(Ordering::Relaxed) && !stop.asked() {
        let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        // Interrupted or not: the loop looks again.
        let _ = poll(&mut fds, Some(&LOOK_EVERY));
        let Ok((stream, _)) = listener.accept() else { continue };
        let (reach, over) = (standing.reach(), Arc::clone(&over));
        let answer = move || door::serve(&stream, |ask| answer(&reach, ask, &over));
        std::thread::Builder::new()
            .name("question".into())
            .spawn(answer)
            .context("answer a question")
            .host_cannot()?;
    }
    Ok(())
}

fn answer(reach: &Reach, ask: Ask, over: &AtomicBool) -> Answer {
    let done = match ask {
        Ask::Exec { node, command } => reach.execute(&node, &command).map(|done| Answer::Executed {
            well: done.well,
            how: done.how,
            output: done.output,
        }),
        Ask::Capture { node, interface, duration } => reach
            .capture(&node, &interface, duration)
            .map(|pcap| Answer::Captured { pcap: BASE64_STANDARD.encode(pcap) }),
        Ask::Fault { event } => reach.inject(event).map(|()| Answer::Done),
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
