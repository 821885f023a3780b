//! What a test needs of its host.
//!
//! A test that needs namespaces, root or a bootable guest starts with
//! `if !need(&[Need::Root]) { return; }`. Where the need isn't met the test says why on stderr
//! and ends; with `VTAX_REQUIRE=ns,root,vm` (CI sets it) a need that isn't met fails the test
//! instead, so that a layer of tests can't vanish silently. What `vtax setup --tests` installs ([`installed`], [`complete`]) is
//! required wherever `VTAX_REQUIRE` is set, whatever it names.

use std::fmt::Display;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::user_cache;

/// Something of the host that a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// New namespaces may be created, as root or through a user namespace.
    Ns,
    /// Root of the initial user namespace.
    Root,
    /// `qemu-system-x86_64`, installed or in the cache, and a kernel that can be booted in it.
    Vm,
}

impl Need {
    const fn word(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Root => "root",
            Self::Vm => "vm",
        }
    }

    /// Why the host doesn't meet the need; `None` where it does.
    #[must_use]
    pub fn lack(self) -> Option<String> {
        match self {
            Self::Root => (!is_root()).then(|| "not root".to_owned()),
            Self::Ns => namespaces_lack(),
            Self::Vm => vm_lack(),
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root() && crate::caps::in_initial_user_namespace()
}

fn namespaces_lack() -> Option<String> {
    // Asked of a program of its own: the test runner has threads, and a thread that made a
    // user namespace could not be undone.
    let found = std::process::Command::new("unshare").args(["-Urnmp", "--fork", "true"]).output();
    match found {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("unshare: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(e) => Some(format!("unshare (util-linux): {e}")),
    }
}

/// Whether there is a program of this name, or at this path. An ordinary user's `PATH` lacks where some servers are.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(Into::into));
    places.map(|place| place.join(program)).any(|program| program.exists())
}

fn vm_lack() -> Option<String> {
    let cache = user_cache::directory();
    let has =
        |entry: &str| std::fs::read_dir(cache.join(entry)).is_ok_and(|mut files| files.next().is_some());
    if !is_there("qemu-system-x86_64") && !has("qemu") {
        return Some("qemu-system-x86_64 is not installed, and the cache has none (`vtax setup`)".to_owned());
    }
    let release = rustix::system::uname();
    let own = format!("/boot/vmlinuz-{}", release.release().to_string_lossy());
    (!has("kernels") && std::fs::File::open(&own).is_err())
        .then(|| format!("no guest kernel: {own} can't be read and the cache has none (`vtax setup`)"))
}

/// Names a file that gets a line for each test that was skipped: a harness shows nothing of what a passing test prints.
pub const SKIPPED: &str = "VTAX_SKIPPED";

#[allow(clippy::print_stderr, reason = "a skipped test must say why on the test's own output")]
fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
    let Some(list) = std::env::var_os(SKIPPED) else { return };
    // Where the test is in a root of its own there is no such file, and it was said above.
    if let Ok(mut list) = std::fs::File::options().append(true).open(list) {
        // In one piece, as other programs write to it too.
        let _ = list.write_all(format!("{}\n", reason.replace('\n', " ")).as_bytes());
    }
}

/// Whether the host meets all `needs`; prints why not.
///
/// # Panics
///
/// Where a need isn't met and `VTAX_REQUIRE` names it.
#[must_use]
pub fn need(needs: &[Need]) -> bool {
    let required = std::env::var("VTAX_REQUIRE").unwrap_or_default();
    for need in needs {
        let Some(lack) = need.lack() else { continue };
        let word = need.word();
        assert!(
            !required.split(',').any(|r| r.trim() == word),
            "VTAX_REQUIRE names `{word}`, but this host lacks it: {lack}"
        );
        skip(&format!("needs `{word}`: {lack}"));
        return false;
    }
    true
}

/// Whether all of these are here, each by its name or its path; prints which isn't.
///
/// # Panics
///
/// As [`complete`].
#[must_use]
pub fn installed(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_there(program));
    complete(missing.map(|program| format!("{program} is not installed")))
}

/// Whether the host can do what no package adds, such as what only other CPUs can; prints why not. `VTAX_REQUIRE` doesn't ask
/// for it.
#[must_use]
pub fn possible(lack: Option<impl Display>) -> bool {
    let Some(lack) = lack else { return true };
    skip(&format!("not possible on this host: {lack}"));
    false
}

/// What this gives, again until it is good: a machine that is busy with something else is given twenty tries. The last where none is.
pub fn again_until<T>(mut make: impl FnMut() -> T, good: impl FnMut(&T) -> bool) -> T {
    let found = (0..19).map(|_| make()).find(good);
    found.unwrap_or_else(make)
}

/// What this gives, and whether this machine kept a thread that only sleeps from running for more than a hundredth of the time
/// meanwhile: then what takes too long, or comes in another order, tells nothing of what is tested.
pub fn watched<T>(work: impl FnOnce() -> T) -> (T, bool) {
    /// What a thread may be late by on a machine that has other work too.
    const USUAL: Duration = Duration::from_millis(5);
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let (done, held_up) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let late = |took: Duration| Some(took).filter(|took| *took > USUAL).unwrap_or_default();
            // Its own start may be what is late.
            let mut held_up = late(began.elapsed());
            while !over.load(Ordering::Relaxed) {
                let from = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                held_up += late(from.elapsed());
            }
            held_up
        });
        let done = catch_unwind(AssertUnwindSafe(work));
        // After a panic too: the scope waits for its thread.
        over.store(true, Ordering::Relaxed);
        (done, watch.join().unwrap_or_default())
    });
    let busy = held_up * 100 > began.elapsed();
    (done.unwrap_or_else(|panic| resume_unwind(panic)), busy)
}

/// Whether nothing is missing that could be installed; prints what is.
///
/// # Panics
///
/// Where something is missing and `VTAX_REQUIRE` is set.
#[must_use]
pub fn complete(missing: Option<impl Display>) -> bool {
    let Some(missing) = missing else { return true };
    let required = std::env::var_os("VTAX_REQUIRE").is_some_and(|words| !words.is_empty());
    assert!(!required, "VTAX_REQUIRE is set, and this host lacks what could be installed: {missing}");
    skip(&format!("{missing} (`vtax setup --tests` installs it)"));
    false
}
