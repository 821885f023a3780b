//! Child processes that inherit chosen descriptors, CPUs and control groups.
//!
//! `std::process::Command` closes every descriptor above 2 in the child. Programs such as QEMU
//! take their sockets, taps and memory files by number (`fd=7`), so the ones named here survive
//! the exec *under the number they have in the parent*, and only in this one child: the flag is
//! cleared after the fork, so a child started at the same moment by another thread never gets them.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::io::FdFlags;
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

/// What a child gets before it becomes another program.
#[derive(Debug, Default)]
pub struct Inherit {
    /// Descriptors that stay open in the child, under the same numbers, and are closed in the
    /// parent once the child is started.
    pub descriptors: Vec<OwnedFd>,
    /// CPUs that all the child's threads may use; empty: as the parent.
    pub cpus: Vec<usize>,
    /// Open `cgroup.procs` files (or v1 `tasks`) of the control groups to join.
    pub control_groups: Vec<OwnedFd>,
    /// The network namespace it starts in; `None`: the parent's.
    pub network: Option<OwnedFd>,
    /// Kill the child when the *thread* that starts it ends (`prctl(2)`, `PR_SET_PDEATHSIG`).
    /// The thread must therefore live as long as the child is wanted.
    pub die_with_thread: bool,
}

impl Inherit {
    /// Starts `command` with all of this; takes it, since the parent's copies of the descriptors
    /// live as long as it does.
    ///
    /// # Errors
    ///
    /// What fork, the preparations in the child or exec said.
    pub fn spawn(self, mut command: Command) -> io::Result<Child> {
        let Self { descriptors, cpus, control_groups, network, die_with_thread } = self;
        let mut set = CpuSet::new();
        for cpu in cpus.iter().copied().filter(|&cpu| cpu < CpuSet::MAX_CPU) {
            set.set(cpu);
        }
        let parent = rustix::process::getpid();
        let prepare = move || {
            for group in &control_groups {
                // "0" stands for the writing process itself (kernel document cgroup-v1, cgroup-v2).
                rustix::io::write(group, b"0")?;
            }
            if let Some(network) = &network {
                crate::netns::enter(network)?;
            }
            if set.count() > 0 {
                rustix::thread::sched_setaffinity(None, &set)?;
            }
            for descriptor in &descriptors {
                rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
            }
            if die_with_thread {
                die_with(parent)?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec the closure only makes plain system calls through rustix
        // (no allocation, no lock, no libc state); what it captures was allocated before the fork.
        unsafe { command.pre_exec(prepare) };
        command.spawn()
    }
}

/// Takes over the descriptor of this number that the parent process left open, once.
///
/// # Errors
///
/// EBADF where nothing is open under this number; EINVAL for the standard streams, which the
/// standard library owns.
pub fn take(number: i32) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(rustix::io::Errno::INVAL.into());
    }
    // SAFETY: F_GETFD takes numbers only and fails on one that isn't open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, as just seen; inherited descriptors have no other owner in a fresh process.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Copies of standard input and output, for a program that speaks a protocol over them.
///
/// # Errors
///
/// Where either is closed.
pub fn standard_streams() -> io::Result<(OwnedFd, OwnedFd)> {
    use std::os::fd::AsFd;
    Ok((io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?))
}

/// Asks for SIGKILL at the parent's end; refuses to go on where that has already happened.
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match rustix::process::getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::process::Stdio;

    #[test]
    fn the_named_descriptor_survives_under_its_number_and_others_do_not() {
        let (mut ours, theirs) = std::io::pipe().unwrap();
        let other = std::fs::File::open("/dev/null").unwrap();
        // By path: a plain shell's `>&` takes numbers of one digit only.
        let (to, not) = (theirs.as_raw_fd(), other.as_raw_fd());
        let script = format!("echo hello >/proc/self/fd/{to}; test ! -e /proc/self/fd/{not}");
        let inherit = Inherit { descriptors: vec![theirs.into()], ..Inherit::default() };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).stdin(Stdio::null());
        let mut child = inherit.spawn(command).unwrap();
        assert!(child.wait().unwrap().success());
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\n");
    }

    #[test]
    fn the_child_runs_on_the_chosen_cpu() {
        let inherit = Inherit { cpus: vec![0], ..Inherit::default() };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status"]).stdout(Stdio::piped());
        let output = inherit.spawn(command).unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().split_whitespace().last(), Some("0"));
    }

    #[test]
    fn the_child_dies_with_the_thread_that_started_it() {
        let pid = std::thread::spawn(|| {
            let inherit = Inherit { die_with_thread: true, ..Inherit::default() };
            let mut command = Command::new("/bin/sleep");
            command.arg("60");
            inherit.spawn(command).unwrap()
        });
        let mut child = pid.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
