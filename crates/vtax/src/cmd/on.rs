//! `--on`: a plan, or the doctor, on several hosts.

mod args;
mod doctor;
mod run;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use vtax_hosts::{Engine, HostRecord, HostTask, Machine, OnHosts, StartBarrier, run_on};
use vtax_sys::signals::SignalFd;
use vtax_units::printable;

use crate::exit::{Classify, Failure};
use crate::signals::{end_at_once, stopping};

pub(super) use args::{OVERHEAD_MINUTES, OnArgs};
pub(super) use doctor::doctor;
pub(super) use run::run;

/// How often signals are looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// Tells how a host is getting on.
fn say(host: &str, text: &str) {
    // Nothing more can be said where even standard error is gone.
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(&format!("{host}: {text}")));
}

/// What is to be done, by whom, and where it is kept.
struct Todo<'a> {
    task: &'a HostTask,
    directory: &'a Path,
    hosts: &'a [(Machine, String)],
    barrier: Option<&'a StartBarrier>,
}

/// Does a task on hosts until all have ended; true where it was interrupted. A second signal doesn't wait for them: their ends see
/// the end of the stream.
fn work(
    engine: &dyn Engine,
    todo: &Todo<'_>,
    signals: &SignalFd,
    ended: &(dyn Fn(HostRecord) + Sync),
) -> Result<bool, Failure> {
    let Todo { task, directory, hosts, barrier } = *todo;
    let program = std::env::current_exe().context("find vtax's own program").host_cannot()?;
    let stop = AtomicBool::new(false);
    let hosts: Vec<(&Machine, String)> = hosts.iter().map(|(host, place)| (host, place.clone())).collect();
    let does_first = match task {
        HostTask::Run { .. } => "taking the testbeds down, then the report",
        HostTask::Doctor => "waiting for each host's end",
    };
    let on = OnHosts { engine, task, program: &program, barrier, directory, stop: &stop, told: &say, ended };
    let done = std::thread::scope(|scope| {
        let all = scope.spawn(|| run_on(&hosts, &on));
        while !all.is_finished() {
            while let Ok(Some(_)) = signals.next() {
                if stop.swap(true, Ordering::SeqCst) {
                    end_at_once();
                }
                say("vtax", &stopping(does_first));
            }
            std::thread::sleep(PAUSE);
        }
        all.join()
    });
    match done {
        Ok(result) => result?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    Ok(stop.load(Ordering::SeqCst))
}
