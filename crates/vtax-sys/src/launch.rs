//! What a child process does between fork and exec, as settings on [`std::process::Command`].

use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Signal};

/// What a child does between fork and exec, in this order: session, file limit, identity, death signal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launch {
    /// Become leader of a new session and process group, so that no terminal signal reaches it.
    pub new_session: bool,
    /// Raise the soft limit of open files to the hard one, at most to 1,048,576: programs exist that
    /// close every descriptor they could have.
    pub most_files: bool,
    /// Enter a nested user namespace in which the present user has this uid and gid and, after
    /// exec, no capability (`user_namespaces(7)`). For programs that refuse to run as uid 0
    /// where uid 0 is the only one there is.
    pub appear_as: Option<(u32, u32)>,
    /// Get this signal when the *thread* that starts the child ends (`PR_SET_PDEATHSIG`), so start
    /// it from a thread that outlives it.
    pub death_signal: Option<Signal>,
}

impl Launch {
    /// Makes `command` do this at every later spawn.
    ///
    /// An error of one of the steps is returned by `spawn` as the error number of the step.
    pub fn apply(&self, command: &mut Command) {
        let this = self.clone();
        let maps = self.appear_as.map(|(uid, gid)| Maps::new(uid, gid));
        let parent = std::process::id();
        // SAFETY: between fork and exec `run` makes only async-signal-safe calls (setsid, getrlimit,
        // setrlimit, unshare, open, write, close, prctl, getppid) on memory made before the fork;
        // it neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(move || this.run(maps.as_ref(), parent));
        }
    }

    fn run(&self, maps: Option<&Maps>, parent: u32) -> io::Result<()> {
        if self.new_session {
            // SAFETY: no arguments; changes only the calling process.
            check(unsafe { libc::setsid() })?;
        }
        if self.most_files {
            raise_file_limit()?;
        }
        if let Some(maps) = maps {
            maps.enter()?;
        }
        if self.death_signal.is_some() {
            rustix::process::set_parent_process_death_signal(self.death_signal)?;
            // SAFETY: no arguments, cannot fail.
            let now = unsafe { libc::getppid() };
            if u32::try_from(now) != Ok(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        Ok(())
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// As many as a kernel allows where nobody changed it (`fs.nr_open`).
const MOST_FILES: libc::rlim_t = 1 << 20;

/// How many files a program with [`Launch::most_files`] may have open: the hard limit of this process, at most 1,048,576.
/// Containers and guests get the same as their hard limit.
#[must_use]
pub fn most_files() -> u64 {
    let own = rustix::process::getrlimit(Resource::Nofile);
    own.maximum.map_or(MOST_FILES, |most| most.min(MOST_FILES))
}

fn raise_file_limit() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for one rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max.min(MOST_FILES).max(limit.rlim_cur);
    // SAFETY: `limit` is a valid rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })
}

/// The texts written to `/proc/self/{uid,gid}_map`, made before the fork.
#[derive(Debug)]
struct Maps {
    uid: String,
    gid: String,
}

impl Maps {
    /// Maps one id inside to the caller's present one outside.
    fn new(uid: u32, gid: u32) -> Self {
        let (outer_uid, outer_gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self {
            uid: format!("{uid} {} 1\n", outer_uid.as_raw()),
            gid: format!("{gid} {} 1\n", outer_gid.as_raw()),
        }
    }

    fn enter(&self) -> io::Result<()> {
        // SAFETY: CLONE_NEWUSER changes only the calling process, which has one thread after fork.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
        // Without CAP_SETGID outside, a gid map is only taken once setgroups is denied (user_namespaces(7)).
        write_once(c"/proc/self/setgroups", b"deny")?;
        write_once(c"/proc/self/uid_map", self.uid.as_bytes())?;
        write_once(c"/proc/self/gid_map", self.gid.as_bytes())
    }
}

/// Writes `text` by a single write; these files take it whole or not at all.
fn write_once(path: &CStr, text: &[u8]) -> io::Result<()> {
    // SAFETY: `path` ends in NUL and lives through the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    check(fd)?;
    // SAFETY: `text` is readable for its length; `fd` was just opened.
    let written = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    let result = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: `fd` was opened above and is closed once.
    unsafe { libc::close(fd) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_session_is_led_by_the_child() {
        let mut command = Command::new("cat");
        command.arg("/proc/self/stat");
        Launch { new_session: true, most_files: true, death_signal: Some(Signal::KILL), ..Launch::default() }
            .apply(&mut command);
        let output = command.output().expect("cat runs");
        let stat = String::from_utf8(output.stdout).expect("ASCII");
        let fields: Vec<&str> = stat.split_whitespace().collect();
        assert_eq!(fields[0], fields[5], "session id is not the pid: {stat}");
    }

    #[test]
    fn a_child_may_open_as_many_files_as_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -Sn"]);
        Launch { most_files: true, ..Launch::default() }.apply(&mut command);
        let output = command.output().expect("sh runs");
        let told = String::from_utf8(output.stdout).expect("ASCII");
        // A soft limit that is higher already is kept.
        let soft = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if soft <= most_files() {
            assert_eq!(told.trim(), most_files().to_string());
        }
        assert!((1..=1 << 20).contains(&most_files()));
    }

    #[test]
    fn a_child_can_appear_as_another_user() {
        let mut command = Command::new("id");
        command.arg("-u");
        Launch { appear_as: Some((33, 33)), ..Launch::default() }.apply(&mut command);
        match command.output() {
            Ok(output) => assert_eq!(output.stdout, b"33\n"),
            // Hosts may refuse user namespaces (EPERM) or have used them up (ENOSPC).
            Err(e) => assert!(matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOSPC)), "{e}"),
        }
    }
}
