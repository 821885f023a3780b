//! A task on every host at once, each in a thread of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use vtax_sys::sync::{into_inner, lock, wait};

use crate::barrier::{BarrierSeat, StartBarrier};
use crate::engine::{Engine, Machine};
use crate::error::HostsError;
use crate::exit_code;
use crate::message::HostTask;
use crate::session::{Attended, Outcome, attend};
use crate::start::start_agent;
use crate::state::{HostRecord, HostState};

/// Stacks of threads that mostly wait; a thousand hosts have four thousand threads.
const STACK: usize = 512 << 10;

/// Hosts that vtax is copied to and started on at the same time: each takes a login, and what is copied shares one line.
const STARTING: usize = 32;
/// Descriptors that a host takes at most: its carrier's streams while it is started, and the files that are written.
const DESCRIPTORS: u64 = 10;
/// Descriptors of everything else in the process.
const OTHER_DESCRIPTORS: u64 = 256;

/// What every host's thread needs.
pub struct OnHosts<'a> {
    /// Who has the hosts.
    pub engine: &'a dyn Engine,
    /// What each is to do.
    pub task: &'a HostTask,
    /// vtax's own program, which is copied.
    pub program: &'a Path,
    /// Given, no host begins before all have been reached or are lost, and then all at once.
    pub barrier: Option<&'a StartBarrier>,
    /// Where directories of hosts are.
    pub directory: &'a Path,
    /// Set once all are to come to an end.
    pub stop: &'a AtomicBool,
    /// Hears how each host is getting on: its name and what there is to tell.
    pub told: &'a (dyn Fn(&str, &str) + Sync),
    /// Is given each host's record as it ends.
    pub ended: &'a (dyn Fn(HostRecord) + Sync),
}

impl std::fmt::Debug for OnHosts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnHosts")
            .field("task", self.task)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Does the task on these hosts, each stored in the directory beside it, and returns when all have ended. A host that is lost is
/// no error: the others go on.
///
/// # Errors
///
/// Where no threads can be started, or what a host sent can't be stored here; the others come to their end all the same.
pub fn run_on(hosts: &[(&Machine, String)], on: &OnHosts<'_>) -> Result<(), HostsError> {
    // Where it can't be raised far enough, hosts are lost by what the system then says.
    let _ = vtax_sys::sched::raise_open_files(hosts.len() as u64 * DESCRIPTORS + OTHER_DESCRIPTORS);
    let failure: Mutex<Option<HostsError>> = Mutex::new(None);
    let gate = Gate::new(STARTING);
    std::thread::scope(|scope| {
        for (machine, directory) in hosts {
            let (failure, gate) = (&failure, &gate);
            // Before any host can be there, so that all are waited for.
            let seat = on.barrier.map(StartBarrier::seat);
            let work = move || {
                let record = one((machine, directory), on, seat, gate).unwrap_or_else(|error| {
                    let why = vtax_sys::chain(&error);
                    // What can't be stored here concerns all; what a host sent only itself.
                    if matches!(error, HostsError::File { .. } | HostsError::Store(_)) {
                        lock(failure).get_or_insert(error);
                    }
                    record(machine, directory, HostState::Failed, Some(why))
                });
                (on.ended)(record);
            };
            let thread = std::thread::Builder::new().name(machine.name.clone()).stack_size(STACK);
            if let Err(source) = thread.spawn_scoped(scope, work) {
                let path = on.directory.join(directory);
                let error = HostsError::File { what: "cannot start a thread for", path, source };
                (on.ended)(record(machine, directory, HostState::Failed, Some(vtax_sys::chain(&error))));
                lock(failure).get_or_insert(error);
            }
        }
    });
    into_inner(failure).map_or(Ok(()), Err)
}

fn record(machine: &Machine, directory: &str, state: HostState, why: Option<String>) -> HostRecord {
    HostRecord {
        name: machine.name.clone(),
        directory: directory.to_owned(),
        state,
        why,
        clock_offset_ns: None,
        clock_within_ns: None,
        began_unix_ns: None,
    }
}

fn one(
    (machine, directory): (&Machine, &str),
    on: &OnHosts<'_>,
    seat: Option<BarrierSeat<'_>>,
    gate: &Gate,
) -> Result<HostRecord, HostsError> {
    let tell = |text: &str| (on.told)(&machine.name, text);
    let inside = gate.enter();
    if on.stop.load(Ordering::SeqCst) {
        return Ok(record(machine, directory, HostState::Stopped, Some("it was not begun".to_owned())));
    }
    let stream = start_agent(on.engine, machine, on.program);
    on.engine.release(machine);
    drop(inside);
    let stream = match stream {
        Ok(stream) => stream,
        Err(HostsError::Host { reason, .. }) => {
            tell(&reason);
            return Ok(record(machine, directory, HostState::Lost, Some(reason)));
        }
        Err(error) => return Err(error),
    };
    let task = on.task.on(&machine.name);
    let Attended { outcome, clock, began_unix_ns } =
        attend(stream, &task, &on.directory.join(directory), seat, on.stop, &tell)?;
    let (state, why) = state_of(&outcome);
    tell(why.as_deref().unwrap_or_else(|| state.word()));
    Ok(HostRecord {
        clock_offset_ns: clock.map(|c| c.offset_ns),
        clock_within_ns: clock.map(|c| c.uncertainty_ns),
        began_unix_ns,
        ..record(machine, directory, state, why)
    })
}

/// Lets only so many through at once.
#[derive(Debug)]
struct Gate {
    room: Mutex<usize>,
    left: Condvar,
}

/// Who is inside; leaves with its end.
#[derive(Debug)]
struct Inside<'a>(&'a Gate);

impl Gate {
    const fn new(room: usize) -> Self {
        Self { room: Mutex::new(room), left: Condvar::new() }
    }

    /// Waits for room.
    fn enter(&self) -> Inside<'_> {
        let mut room = lock(&self.room);
        while *room == 0 {
            room = wait(&self.left, room);
        }
        *room -= 1;
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *lock(&self.0.room) += 1;
        self.0.left.notify_one();
    }
}

/// A run is whole where vtax came to its end, whether its trials count or not; an error says that it didn't begin.
fn state_of(outcome: &Outcome) -> (HostState, Option<String>) {
    let (code, error) = match outcome {
        Outcome::Lost(why) => return (HostState::Lost, Some(why.clone())),
        Outcome::Ended { code, error } => (*code, error),
    };
    match (code.and_then(|code| u8::try_from(code).ok()), error) {
        (Some(exit_code::DONE), None) => (HostState::Complete, None),
        (Some(exit_code::FAILED | exit_code::HOST_CANNOT), None) => {
            (HostState::Complete, Some("no trial of it counts".to_owned()))
        }
        (Some(exit_code::INTERRUPTED), _) => (HostState::Stopped, Some("it was interrupted".to_owned())),
        _ => {
            let how = code.map_or_else(|| "by a signal".to_owned(), |code| format!("with exit code {code}"));
            (HostState::Failed, Some(error.clone().unwrap_or_else(|| format!("vtax ended {how}"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn only_so_many_are_started_at_once() {
        let (gate, inside, most) = (Gate::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let _inside = gate.enter();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        assert_eq!(*gate.room.lock().unwrap(), 3);
    }

    #[test]
    fn exit_codes_are_states() {
        let ended =
            |code, error: Option<&str>| state_of(&Outcome::Ended { code, error: error.map(str::to_owned) }).0;
        assert_eq!(ended(Some(0), None), HostState::Complete);
        assert_eq!(ended(Some(3), None), HostState::Complete);
        let none = state_of(&Outcome::Ended { code: Some(1), error: None });
        assert_eq!(none, (HostState::Complete, Some("no trial of it counts".to_owned())));
        assert_eq!(ended(Some(3), Some("no namespaces")), HostState::Failed);
        assert_eq!(ended(Some(130), None), HostState::Stopped);
        assert_eq!(ended(Some(2), None), HostState::Failed);
        assert_eq!(ended(None, None), HostState::Failed);
        assert_eq!(state_of(&Outcome::Lost("x".to_owned())), (HostState::Lost, Some("x".to_owned())));
    }
}
