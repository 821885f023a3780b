//! The controller: a fork of the front process that is PID 1 of a world of its own.
//!
//! The front process stays outside, waits and forwards signals. Everything a run starts is a
//! descendant of the controller, inside its PID, network, mount, IPC and UTS namespaces; the
//! kernel kills all of it when the controller ends, and the controller is killed when the front
//! process ends, however that happens.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use crate::caps;
use crate::clone::{Namespaces, end_process, fork_into};
use crate::error::{Context, Result, SysError};
use crate::netns::NetNs;
use crate::pidfd::{PidFd, ProcessExit};
use crate::refusal;

/// Exit code of a controller that panicked: a bug.
const PANICKED: u8 = 70;
/// What the front process sends once whoever must know of the controller has been told.
const GO: u8 = b'!';

/// How the controller is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerOptions {
    /// In a user namespace of its own, where it is root; needed without privileges.
    pub user_namespace: bool,
    /// In a session of its own: Ctrl-C then reaches only the front process, which forwards it.
    pub own_session: bool,
}

impl ControllerOptions {
    /// What this process needs: a user namespace unless it has CAP_SYS_ADMIN and CAP_NET_ADMIN.
    #[must_use]
    pub fn for_this_process() -> Self {
        let privileged = caps::has(caps::SYS_ADMIN) && caps::has(caps::NET_ADMIN);
        Self { user_namespace: !privileged, own_session: true }
    }
}

/// What the controller is told about the world it finds itself in.
#[derive(Debug)]
pub struct Inside {
    /// Whether it is root only in its own user namespace.
    pub user_namespace: bool,
    /// Reads end-of-file once the front process is gone.
    pub front: OwnedFd,
    /// The host's `/proc`, which shows processes outside of these namespaces too; `None` where it can't be opened.
    pub host_proc: Option<OwnedFd>,
    /// The network namespace of the front process: the host's. It can't be entered from a user namespace.
    pub host_network: NetNs,
}

/// The front process's hold on its controller; dropping it kills the controller.
#[derive(Debug)]
pub struct Controller {
    pidfd: PidFd,
    /// Its end tells the controller that the front process is gone.
    life: OwnedFd,
    reaped: bool,
}

impl Controller {
    /// The controller as a process.
    #[must_use]
    pub const fn pidfd(&self) -> &PidFd {
        &self.pidfd
    }

    /// Forwards a signal.
    ///
    /// # Errors
    ///
    /// Where it may not be sent.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.pidfd.signal(signal)
    }

    /// Waits until the controller and everything in its namespaces has ended.
    ///
    /// # Errors
    ///
    /// Where waiting fails.
    pub fn wait(mut self) -> Result<ProcessExit> {
        let ended = self.pidfd.wait();
        self.reaped = ended.is_ok();
        ended
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if !self.reaped {
            // Nothing can be done about an error here, and the kernel kills it with us anyway.
            let _ = self.pidfd.kill();
            let _ = self.pidfd.wait();
        }
    }
}

/// Which step of entering the namespaces failed; sent from child to parent as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Map = 1,
    Private = 2,
    Session = 3,
    Proc = 4,
}

impl Stage {
    const fn text(self) -> &'static str {
        match self {
            Self::Map => refusal::MAP,
            Self::Private => "a private mount namespace",
            Self::Session => "a session of its own",
            Self::Proc => refusal::PROC,
        }
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Forks the controller: `main` runs in the child as PID 1 and its value is the exit code.
///
/// `main` may do everything: the child is a complete copy of a process with a single thread.
///
/// # Errors
///
/// [`SysError::HasThreads`] where this process has more than one thread, and
/// [`SysError::NamespacesRefused`] with reason and way out where the host refuses.
pub fn start_controller(options: ControllerOptions, main: impl FnOnce(Inside) -> u8) -> Result<Controller> {
    start_known_controller(options, |_| (), main)
}

/// As [`start_controller`]; `introduce` is called here with the controller's process before `main` begins there.
pub(crate) fn start_known_controller(
    options: ControllerOptions,
    introduce: impl FnOnce(&PidFd),
    main: impl FnOnce(Inside) -> u8,
) -> Result<Controller> {
    let threads = threads();
    if threads != 1 {
        return Err(SysError::HasThreads { threads });
    }
    let (front, life) = pipe_with(PipeFlags::CLOEXEC).context("open", "pipe")?;
    let (report_in, report_out) = pipe_with(PipeFlags::CLOEXEC).context("open", "pipe")?;
    let host_network = NetNs::current()?;
    // The controller is a copy of this process, and its own network namespace may not show all of them.
    crate::sysctl::remember();
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut kinds = Namespaces::NODE;
    if options.user_namespace {
        kinds = kinds | Namespaces::USER;
    }
    // SAFETY: this process has one thread, as checked above, so the child may do everything.
    let forked = unsafe { fork_into(kinds) }.map_err(|e| refusal::explain("new namespaces", e))?;
    let Some(child) = forked else {
        drop((life, report_in));
        let world = (front, host_network);
        run_inside(options, ids, world, report_out, main)
    };
    drop((front, report_out));
    let mut controller = Controller { pidfd: PidFd::new(child.pid, child.pidfd), life, reaped: false };
    introduce(&controller.pidfd);
    // One that has ended by now couldn't begin, and has reported why.
    let _ = rustix::io::write(&controller.life, &[GO]);
    match read_report(&report_in) {
        None => Ok(controller),
        Some((stage, error)) => {
            controller.reaped = controller.pidfd.wait().is_ok();
            Err(refusal::explain(stage, error))
        }
    }
}

fn read_report(report: &OwnedFd) -> Option<(&'static str, io::Error)> {
    let mut bytes = [0_u8; 5];
    loop {
        match rustix::io::read(report, &mut bytes) {
            Ok(5) => break,
            Err(rustix::io::Errno::INTR) => {}
            _ => return None,
        }
    }
    let stages = [Stage::Map, Stage::Private, Stage::Session, Stage::Proc];
    let stage = stages.into_iter().find(|s| *s as u8 == bytes[0]).map_or("a namespace", Stage::text);
    let errno = i32::from_ne_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    Some((stage, io::Error::from_raw_os_error(errno)))
}

fn run_inside(
    options: ControllerOptions,
    ids: (u32, u32),
    (front, host_network): (OwnedFd, NetNs),
    report: OwnedFd,
    main: impl FnOnce(Inside) -> u8,
) -> ! {
    let settled = settle(options, ids).and_then(|()| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let host_proc = rustix::fs::open("/proc", flags, Mode::empty()).ok();
        // In another's /proc a process's number is that of some other process.
        crate::mount::proc(Path::new("/proc")).map_err(|e| (Stage::Proc, plain(&e)))?;
        Ok(host_proc)
    });
    if settled.is_ok() && !may_go(&front) {
        end_process(PANICKED);
    }
    let host_proc = settled.unwrap_or_else(|(stage, error)| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
        let bytes = [stage as u8, errno[0], errno[1], errno[2], errno[3]];
        let _ = rustix::io::write(&report, &bytes);
        end_process(PANICKED);
    });
    drop(report);
    let user_namespace = options.user_namespace;
    let inside = Inside { user_namespace, front, host_proc, host_network };
    let code = catch_unwind(AssertUnwindSafe(|| main(inside))).unwrap_or(PANICKED);
    let _ = io::Write::flush(&mut io::stdout());
    end_process(code)
}

/// Waits for the front process's word to begin; false where it is gone.
fn may_go(front: &OwnedFd) -> bool {
    let mut byte = [0_u8; 1];
    loop {
        match rustix::io::read(front, &mut byte) {
            Err(rustix::io::Errno::INTR) => {}
            read => return read == Ok(1),
        }
    }
}

/// What the kernel said, without the rest.
fn plain(error: &SysError) -> io::Error {
    io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EIO))
}

/// Makes the new namespaces usable. Everything here happens before `main` has anything to undo.
fn settle(options: ControllerOptions, (uid, gid): (u32, u32)) -> Result<(), (Stage, io::Error)> {
    if options.user_namespace {
        let map = || -> io::Result<()> {
            // A process without privileges may map its group only once it has given up
            // setgroups(2), user_namespaces(7).
            std::fs::write("/proc/self/setgroups", "deny")?;
            std::fs::write("/proc/self/uid_map", format!("0 {uid} 1\n"))?;
            std::fs::write("/proc/self/gid_map", format!("0 {gid} 1\n"))
        };
        map().map_err(|e| (Stage::Map, e))?;
    }
    // After the maps: a change of credentials clears it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| (Stage::Session, e.into()))?;
    if options.own_session {
        rustix::process::setsid().map_err(|e| (Stage::Session, e.into()))?;
    }
    crate::mount::make_private().map_err(|e| (Stage::Private, plain(&e)))?;
    // The host's name stays what it was: a run is told apart from another host's by it.
    Ok(())
}

impl Inside {
    /// Ends this process, and with it everything in its namespaces, once the front process is gone.
    ///
    /// The parent-death signal does the same; this is for kernels and sandboxes that swallow it.
    ///
    /// # Errors
    ///
    /// Where no thread can be started.
    pub fn end_with_front(&self) -> Result<()> {
        let front = self.front.as_fd().try_clone_to_owned().context("keep", "pipe to the front process")?;
        let watch = move || {
            let mut byte = [0_u8; 1];
            while matches!(rustix::io::read(&front, &mut byte), Ok(1..) | Err(rustix::io::Errno::INTR)) {}
            end_process(PANICKED)
        };
        std::thread::Builder::new().name("front-watch".into()).spawn(watch).context("start", "thread")?;
        Ok(())
    }
}

/// Whether a controller can be started here, found out by starting one.
///
/// # Errors
///
/// As [`start_controller`].
pub fn probe(options: ControllerOptions) -> Result<()> {
    start_controller(options, |_| 0)?.wait().map(|_| ())
}
