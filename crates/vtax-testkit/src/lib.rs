//! What tests and benchmarks of testbeds share. vtax itself doesn't depend on it.

pub mod cable;
pub mod cases;
pub mod programs;
pub mod recount;
pub mod residue;
pub mod runs;
pub mod star;

use std::time::Duration;

use vtax_lab::{Lab, LabError, Testbed, TestbedSpec};
use vtax_sys::cgroup::RunGroups;
use vtax_sys::controller::ControllerOptions;
use vtax_sys::{Failure, ProcessExit};

/// A result of this crate: its errors are the lab's.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Calls `work` in a controller of this kind with control groups of its own, as a run does, and returns how the
/// controller ended. Call it from a process with one thread: the harness of `cargo test` has several.
///
/// # Errors
///
/// Where control groups can't be kept or removed, or the controller can't be started.
pub fn in_controller(mode: ControllerOptions, work: impl FnOnce(RunGroups)) -> Result<ProcessExit> {
    controlled(mode, None, work)
}

/// The same, but a controller that takes longer is killed, so that work that hangs holds up nobody: it ended by a signal then.
///
/// # Errors
///
/// As [`in_controller`].
pub fn in_controller_within(
    longest: Duration,
    mode: ControllerOptions,
    work: impl FnOnce(RunGroups),
) -> Result<ProcessExit> {
    controlled(mode, Some(longest), work)
}

fn controlled(
    mode: ControllerOptions,
    longest: Option<Duration>,
    work: impl FnOnce(RunGroups),
) -> Result<ProcessExit> {
    let what = || "work in a controller of its own".to_owned();
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().during(what)?;
    let inside = groups.clone();
    let ended = keeper.start_controller(mode, move |_| {
        work(inside);
        0
    });
    let ended = ended.and_then(|controller| {
        if let Some(longest) = longest
            && !controller.pidfd().ended_within(longest)?
        {
            controller.pidfd().kill()?;
        }
        controller.wait()
    });
    groups.finish(keeper).during(what)?;
    ended.during(what)
}

/// Testbeds whose emulated link the machine disturbed that are given up, one after the other, before that is told.
const DISTURBED_AT_MOST: usize = 6;

/// Builds a testbed as [`Lab::build`] does, again where a hypervisor took so much of the CPUs that its emulated link
/// could not carry what it should: a run takes such a trial for disturbed and makes another.
///
/// # Errors
///
/// Those of [`Lab::build`]; [`LabError::PathDisturbed`] where the machine disturbed all of them.
#[allow(clippy::print_stdout, reason = "a test's report")]
pub fn build_undisturbed(lab: &mut Lab, spec: &TestbedSpec) -> Result<Testbed> {
    for _ in 1..DISTURBED_AT_MOST {
        match lab.build(spec) {
            Err(disturbed @ LabError::PathDisturbed { .. }) => println!("  again: {disturbed}"),
            built => return built,
        }
    }
    lab.build(spec)
}

/// Adds to a failed system call what was being done.
trait While<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> While<T> for vtax_sys::Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Failure::Sys { what: what(), source }.into())
    }
}
