//! Starting a program in new namespaces from a process that may have many threads.
//!
//! Between fork and exec only system calls are made, on memory that was prepared before: another
//! thread may have held the allocator's lock at the moment of the fork.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use vtax_units::CpuSet;

use crate::clone::{Namespaces, end_process, fork_into};
use crate::error::{Context, Result, SysError};
use crate::pidfd::PidFd;
use crate::sysctl;

/// A program to be started.
#[derive(Debug)]
pub struct Spawn {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    fds: Vec<(OwnedFd, RawFd)>,
    namespaces: Namespaces,
    join_net: Option<OwnedFd>,
    mounts: Vec<FreshMount>,
    writes: Vec<(CString, Vec<u8>)>,
    host_name: Option<CString>,
    cpus: Option<rustix::thread::CpuSet>,
    die_with_parent: bool,
}

/// A file system mounted in the child before the program starts.
#[derive(Debug)]
struct FreshMount {
    kind: CString,
    target: CString,
    flags: MountFlags,
    options: CString,
    /// Failing is no reason not to start.
    optional: bool,
}

/// Which step failed in the child; sent to the parent as one byte before the error number.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Gate,
    Descriptors,
    JoinNetwork,
    Mounts,
    Session,
    Affinity,
    Exec,
}

impl Stage {
    const ALL: [Self; 7] = [
        Self::Gate,
        Self::Descriptors,
        Self::JoinNetwork,
        Self::Mounts,
        Self::Session,
        Self::Affinity,
        Self::Exec,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::Gate => "start (parent gave up)",
            Self::Descriptors => "pass descriptors to",
            Self::JoinNetwork => "join network namespace for",
            Self::Mounts => "mount /proc and tmpfs for",
            Self::Session => "make session for",
            Self::Affinity => "set CPUs of",
            Self::Exec => "execute",
        }
    }
}

fn c_string(text: impl AsRef<OsStr>) -> CString {
    // A NUL can't be in an argument; cut there rather than refuse, as the kernel would.
    let bytes: Vec<u8> = text.as_ref().as_bytes().iter().copied().take_while(|b| *b != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

impl Spawn {
    /// A program with its arguments, the first of which is its own name.
    pub fn new<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: c_string(program),
            args: args.into_iter().map(c_string).collect(),
            env: Vec::new(),
            fds: Vec::new(),
            namespaces: Namespaces::NONE,
            join_net: None,
            mounts: Vec::new(),
            writes: Vec::new(),
            host_name: None,
            cpus: None,
            die_with_parent: false,
        }
    }

    /// Adds an environment variable; the child gets only those named here.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut text = std::ffi::OsString::from(name);
        text.push("=");
        text.push(value);
        self.env.push(c_string(text));
        self
    }

    /// Passes a descriptor under this number; all others that aren't passed are closed.
    #[must_use]
    pub fn fd(mut self, fd: OwnedFd, number: RawFd) -> Self {
        self.fds.push((fd, number));
        self
    }

    /// Starts the program in new namespaces of these kinds.
    #[must_use]
    pub const fn namespaces(mut self, kinds: Namespaces) -> Self {
        self.namespaces = kinds;
        self
    }

    /// Starts the program in this network namespace.
    #[must_use]
    pub fn join_net(mut self, namespace: OwnedFd) -> Self {
        self.join_net = Some(namespace);
        self
    }

    fn mount(mut self, kind: &str, target: &str, options: &str, flags: MountFlags, optional: bool) -> Self {
        self.mounts.push(FreshMount {
            kind: c_string(kind),
            target: c_string(target),
            flags,
            options: c_string(options),
            optional,
        });
        self
    }

    /// Mounts `/proc` of the new PID namespace.
    #[must_use]
    pub fn mount_proc(self) -> Self {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        // Refused where the host's own /proc has masked parts; the old one still works.
        self.mount("proc", "/proc", "", flags, true)
    }

    /// Mounts an empty tmpfs with these options.
    #[must_use]
    pub fn mount_tmpfs(self, target: &str, options: &str, optional: bool) -> Self {
        self.mount("tmpfs", target, options, MountFlags::NOSUID | MountFlags::NODEV, optional)
    }

    /// Writes to a file such as one in `/proc/sys` just before the program starts, inside the new
    /// namespaces; a failure is ignored.
    #[must_use]
    pub fn write(mut self, path: &str, value: &str) -> Self {
        self.writes.push((c_string(path), value.as_bytes().to_vec()));
        self
    }

    /// Switches IPv6 off in the program's network namespace, as [`sysctl::disable_ipv6_everywhere`] does.
    #[must_use]
    pub fn without_ipv6(self) -> Self {
        sysctl::EVERYWHERE
            .iter()
            .fold(self, |spawn, interface| spawn.write(&sysctl::path(&sysctl::ipv6_switch(interface)), "1"))
    }

    /// Sets the host name in a new UTS namespace.
    #[must_use]
    pub fn host_name(mut self, name: &str) -> Self {
        self.host_name = Some(c_string(name));
        self
    }

    /// Binds the program to these CPUs.
    #[must_use]
    pub fn cpus(mut self, cpus: &CpuSet) -> Self {
        self.cpus = Some(crate::sched::to_kernel_set(cpus));
        self
    }

    /// Has the kernel kill the program when the *thread* that starts it ends.
    #[must_use]
    pub const fn die_with_parent(mut self) -> Self {
        self.die_with_parent = true;
        self
    }

    /// Starts the program. `before` is called while the child waits, with its process id: the
    /// place to put it into a control group. An error there ends the child.
    ///
    /// # Errors
    ///
    /// Where a step in the child fails; the error names it.
    pub fn start(self, before: impl FnOnce(i32) -> Result<()>) -> Result<PidFd> {
        // A program that starts itself is known by its name.
        let named = if self.program.as_c_str() == c"/proc/self/exe" { self.args.first() } else { None };
        let object = || named.unwrap_or(&self.program).to_string_lossy().into_owned();
        let (gate_in, gate_out) = pipe_with(PipeFlags::CLOEXEC).context("open", "pipe")?;
        let (report_in, report_out) = pipe_with(PipeFlags::CLOEXEC).context("open", "pipe")?;
        let prepared = Prepared::new(&self, gate_in, report_out).context("pass descriptors to", object())?;
        // SAFETY: in the child only `Prepared::run` is called, which makes system calls on memory
        // prepared above and doesn't allocate.
        let forked = unsafe { fork_into(self.namespaces) }.map_err(|e| {
            if self.namespaces == Namespaces::NONE {
                SysError::call("start", object(), e)
            } else {
                crate::refusal::explain("new namespaces", e)
            }
        })?;
        let Some(child) = forked else { prepared.run(&self, gate_out.as_raw_fd()) };
        drop(prepared);
        let child = PidFd::new(child.pid, child.pidfd);
        let opened = before(child.pid())
            .and_then(|()| rustix::io::write(&gate_out, &[1]).context("start", object()).map(|_| ()));
        drop(gate_out);
        let failed = match opened {
            // No report is waited for: whatever another thread starts at the moment may have the gate open as well, and the child wait on.
            Err(e) => e,
            Ok(()) => match read_report(&report_in) {
                Some((stage, e)) => SysError::call(stage.text(), object(), e),
                None => return Ok(child),
            },
        };
        child.kill()?;
        child.wait()?;
        Err(failed)
    }
}

fn read_report(report: &OwnedFd) -> Option<(Stage, io::Error)> {
    let mut bytes = [0_u8; 5];
    loop {
        match rustix::io::read(report, &mut bytes) {
            Ok(5) => break,
            Err(rustix::io::Errno::INTR) => {}
            // End of file: the program runs.
            _ => return None,
        }
    }
    let stage = Stage::ALL.get(usize::from(bytes[0])).copied().unwrap_or(Stage::Exec);
    let errno = i32::from_ne_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    Some((stage, io::Error::from_raw_os_error(errno)))
}

/// What the child needs, with every pointer and descriptor ready.
struct Prepared {
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    gate: OwnedFd,
    report: OwnedFd,
    /// Source and target; sources are above every target, so that no dup2 overwrites another.
    moves: Vec<(OwnedFd, RawFd)>,
    first_unused: u32,
}

fn above(fd: BorrowedFd<'_>, lowest: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, lowest)?)
}

impl Prepared {
    fn new(spawn: &Spawn, gate: OwnedFd, report: OwnedFd) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let pointers = |strings: &[CString]| {
            strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        let first_unused = spawn.fds.iter().map(|(_, n)| n + 1).max().unwrap_or(0).max(3);
        let mut moves = Vec::with_capacity(spawn.fds.len());
        for (fd, number) in &spawn.fds {
            moves.push((above(fd.as_fd(), first_unused)?, *number));
        }
        Ok(Self {
            argv: pointers(&spawn.args),
            envp: pointers(&spawn.env),
            gate: above(gate.as_fd(), first_unused)?,
            report: above(report.as_fd(), first_unused)?,
            moves,
            first_unused: u32::try_from(first_unused).unwrap_or(3),
        })
    }

    /// The child's whole life between fork and exec; allocates nothing and frees nothing.
    fn run(&self, spawn: &Spawn, gate_out: RawFd) -> ! {
        let (stage, error) = self.become_program(spawn, gate_out);
        let errno = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
        let bytes = [stage as u8, errno[0], errno[1], errno[2], errno[3]];
        let _ = rustix::io::write(&self.report, &bytes);
        end_process(127)
    }

    /// Returns only where a step fails.
    fn become_program(&self, spawn: &Spawn, gate_out: RawFd) -> (Stage, io::Error) {
        match self.prepare(spawn, gate_out) {
            Err(failed) => failed,
            Ok(()) => {
                // SAFETY: both arrays end with a null pointer, and the strings they point to are
                // owned by `spawn`, which outlives the call.
                unsafe {
                    libc::execve(spawn.program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
                }
                (Stage::Exec, io::Error::last_os_error())
            }
        }
    }

    fn prepare(&self, spawn: &Spawn, gate_out: RawFd) -> Result<(), (Stage, io::Error)> {
        let at = |stage: Stage| move |e: rustix::io::Errno| (stage, io::Error::from(e));
        // The child's copy of the parent's end, so that a parent that dies is seen as an end.
        // SAFETY: the descriptor is this process's own copy, and nothing here uses it later:
        // the parent's `OwnedFd` is never dropped in the child, which ends by exec or _exit.
        drop(unsafe { OwnedFd::from_raw_fd(gate_out) });
        let mut byte = [0_u8; 1];
        match rustix::io::read(&self.gate, &mut byte).map_err(at(Stage::Gate))? {
            1 => {}
            _ => return Err((Stage::Gate, io::Error::from_raw_os_error(libc::ECANCELED))),
        }
        // Ctrl-C isn't for it.
        rustix::process::setsid().map_err(at(Stage::Session))?;
        if spawn.die_with_parent {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
                .map_err(at(Stage::Session))?;
        }
        if let Some(namespace) = &spawn.join_net {
            crate::netns::enter(namespace).map_err(|e| (Stage::JoinNetwork, e))?;
        }
        if spawn.namespaces.has(Namespaces::MOUNT) {
            mounts(spawn).map_err(at(Stage::Mounts))?;
        }
        if let Some(name) = &spawn.host_name {
            let _ = rustix::system::sethostname(name.as_bytes());
        }
        write_all(&spawn.writes);
        if let Some(cpus) = &spawn.cpus {
            rustix::thread::sched_setaffinity(None, cpus).map_err(at(Stage::Affinity))?;
        }
        self.pass_descriptors().map_err(|e| (Stage::Descriptors, e))?;
        crate::signals::default_sigpipe();
        crate::signals::unblock_all().map_err(|e| (Stage::Session, e))
    }

    fn pass_descriptors(&self) -> io::Result<()> {
        for (source, number) in &self.moves {
            // SAFETY: dup2 takes two numbers; the target is a number the caller chose for the
            // program, and no owned descriptor of this process is used after it.
            if unsafe { libc::dup2(source.as_raw_fd(), *number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // Everything else goes at exec; the report pipe must live until then.
        // SAFETY: takes three numbers; marking descriptors close-on-exec invalidates none.
        let marked = unsafe {
            libc::syscall(libc::SYS_close_range, self.first_unused, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        if marked == 0 { Ok(()) } else { mark_all(self.first_unused) }
    }
}

/// As close_range(2) with CLOSE_RANGE_CLOEXEC, for kernels before 5.11.
fn mark_all(first: u32) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(65_536).min(1 << 20);
    for number in u64::from(first)..limit {
        let Ok(number) = RawFd::try_from(number) else { break };
        // SAFETY: fcntl with F_SETFD takes numbers only; a number that isn't open is refused.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

fn mounts(spawn: &Spawn) -> rustix::io::Result<()> {
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    for m in &spawn.mounts {
        let done = rustix::mount::mount(&m.kind, &m.target, &m.kind, m.flags, m.options.as_c_str());
        if !m.optional {
            done?;
        }
    }
    Ok(())
}

fn write_all(writes: &[(CString, Vec<u8>)]) {
    use rustix::fs::{Mode, OFlags};
    for (path, value) in writes {
        if let Ok(file) = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = rustix::io::write(&file, value);
            let _ = file.into_raw_fd();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Until it is another program, what another thread forks has all descriptors of this process.
    #[test]
    fn a_child_that_is_given_up_is_not_waited_for() {
        let mut other = None;
        let started = Spawn::new(Path::new("/bin/true"), ["true"]).start(|_| {
            // SAFETY: the child makes two system calls and doesn't allocate.
            let forked = unsafe { fork_into(Namespaces::NONE) }.context("fork", "another")?;
            let Some(child) = forked else {
                std::thread::sleep(Duration::from_secs(60));
                end_process(0)
            };
            other = Some(PidFd::new(child.pid, child.pidfd));
            Err(SysError::Unexpected { operation: "test", what: "refused".into() })
        });
        let other = other.expect("it was forked");
        let is_there = !other.ended_within(Duration::ZERO).expect("it can be asked for");
        other.kill_and_reap(Duration::from_secs(20)).expect("it ends");
        assert_eq!(started.expect_err("it was refused").to_string(), "test: unexpected answer: refused");
        assert!(is_there, "its end was waited for");
    }
}
