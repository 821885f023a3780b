//! `hosts.json`: what became of each host of a run on several.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use vtax_store::{HOSTS_FILE, StoreError};
use vtax_sys::locked_dir::is_still_at;

use crate::error::HostsError;
use crate::message::HostTask;

/// Version of `hosts.json`.
pub const HOSTS_VERSION: u32 = 1;

/// The file in the directory of a run on several hosts that is locked while one vtax has the run.
pub const HOSTS_LOCK: &str = "hosts.lock";

/// The largest that is read.
const MOST_BYTES: u64 = 64 << 20;
/// How often a lock is tried whose file was removed meanwhile, with a run that got no hosts.
const LOCK_ATTEMPTS: usize = 8;

/// A run on several hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostsFile {
    /// Format version, [`HOSTS_VERSION`].
    pub version: u32,
    /// File that the plan was read from, as given.
    pub plan_file: String,
    /// The plan's text.
    pub plan: String,
    /// Changes to it, as `--set` has them.
    pub overrides: Vec<String>,
    /// Words to find the run by.
    pub tags: Vec<String>,
    /// Start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How many hosts were to have a run, at most in one go; 0 where it was written before this was kept.
    #[serde(default)]
    pub asked: usize,
    /// Each host that was tried, in order; one that was tried again comes again.
    pub hosts: Vec<HostRecord>,
}

/// What became of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its name in the list of hosts.
    pub name: String,
    /// Directory of its run, from that of all.
    pub directory: String,
    /// How it ended.
    pub state: HostState,
    /// Why it isn't complete; `None` where it is.
    pub why: Option<String>,
    /// What is added to the controller's clock to have the host's, in nanoseconds; `None` where it was never told.
    pub clock_offset_ns: Option<i64>,
    /// That is right to this.
    pub clock_within_ns: Option<u64>,
    /// When its run began, by the controller's clock in nanoseconds since 1970, as surely as that; `None` where it never did.
    #[serde(default)]
    pub began_unix_ns: Option<u64>,
}

/// How a host's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// It is under way, or this end was killed.
    Running,
    /// Nothing is missing.
    Complete,
    /// It was interrupted.
    Stopped,
    /// It ended otherwise.
    Failed,
    /// The host or the way to it was gone.
    Lost,
}

impl HostState {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }
}

impl HostsFile {
    /// Reads it from the directory of a run.
    ///
    /// # Errors
    ///
    /// [`HostsError::Store`] where it can't be opened or is no regular file, [`HostsError::File`] where it can't be read,
    /// [`HostsError::List`] where it isn't one, or a newer vtax wrote it.
    pub fn read(directory: &Path) -> Result<Self, HostsError> {
        use std::io::Read as _;
        let path = directory.join(HOSTS_FILE);
        let failed = |source| HostsError::File { what: "cannot read", path: path.clone(), source };
        let mut text = String::new();
        // Run directories may come from others: a link leads nowhere, and a FIFO would be waited for.
        let file = vtax_store::open_file(&path)?;
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(failed)?;
        let wrong = |reason| HostsError::List { place: path.display().to_string(), reason };
        let found: Self = serde_json::from_str(&text).map_err(|e| wrong(format!("damaged: {e}")))?;
        if found.version > HOSTS_VERSION {
            let version = found.version;
            return Err(wrong(format!(
                "version {version}, and this vtax reads up to {HOSTS_VERSION}: update it"
            )));
        }
        if let Some(host) = found.hosts.iter().find(|host| !is_directory(&host.directory)) {
            return Err(wrong(format!(
                "damaged: `{}` is no directory of a host",
                host.directory.escape_debug()
            )));
        }
        // Where a link leads is another's run, to be neither read nor written.
        vtax_store::refuse_links(directory, &directory.join("hosts"))?;
        for host in &found.hosts {
            vtax_store::refuse_links(directory, &directory.join(&host.directory))?;
        }
        Ok(found)
    }

    /// Replaces it in the directory of a run.
    ///
    /// # Errors
    ///
    /// [`HostsError::Store`] where it can't be written.
    pub fn write(&self, directory: &Path) -> Result<(), HostsError> {
        // Strings and numbers: this can't fail.
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        Ok(vtax_store::write_file(&directory.join(HOSTS_FILE), &text)?)
    }

    /// What each host is to do.
    #[must_use]
    pub fn task(&self) -> HostTask {
        HostTask::Run { plan: self.plan.clone(), overrides: self.overrides.clone(), tags: self.tags.clone() }
    }

    /// How far apart hosts began of which it is known, in nanoseconds, and how surely; `None` where fewer than two are.
    #[must_use]
    pub fn spread(&self) -> Option<(u64, u64)> {
        let known = self.hosts.iter().filter_map(|host| Some((host.began_unix_ns?, host.clock_within_ns?)));
        let (began, within): (Vec<u64>, Vec<u64>) = known.unzip();
        let (first, last) = (began.iter().min()?, began.iter().max()?);
        // Two hosts are compared, each with a clock that is known to so much.
        (began.len() > 1).then(|| (last - first, within.iter().max().unwrap_or(&0).saturating_mul(2)))
    }

    /// True where that host has a whole run.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.name == name && host.state == HostState::Complete)
    }

    /// How many of the hosts asked for have no whole run. Any host counts: another can take a lost one's place.
    #[must_use]
    pub fn missing(&self) -> usize {
        let names: BTreeSet<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let asked = if self.asked == 0 { names.len() } else { self.asked };
        asked.saturating_sub(names.into_iter().filter(|name| self.has(name)).count())
    }

    /// A directory for a run of that host that no other has.
    #[must_use]
    pub fn directory_for(&self, name: &str) -> String {
        let before = self.hosts.iter().filter(|host| host.name == name).count();
        if before == 0 { format!("hosts/{name}") } else { format!("hosts/{name}+{}", before + 1) }
    }
}

/// Locks a run on several hosts for as long as the file is open, as a journal is locked while its run is made: two that go on with it at
/// once would have hosts measure for both.
///
/// # Errors
///
/// [`HostsError::Store`] where another vtax has the run, or it can't be locked; [`HostsError::List`] where what has the name of the lock
/// is no regular file, [`HostsError::File`] where that can't be made or opened.
pub fn lock_hosts(directory: &Path) -> Result<File, HostsError> {
    let path = directory.join(HOSTS_LOCK);
    let failed = |source| HostsError::File { what: "cannot open", path: path.clone(), source };
    let wrong = || HostsError::List {
        place: path.display().to_string(),
        reason: "it isn't a regular file, and must be one: remove it".to_owned(),
    };
    // Run directories may come from others: a link leads nowhere, and a FIFO isn't waited for.
    let plain = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let everyone = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    for _ in 0..LOCK_ATTEMPTS {
        let file = match openat(CWD, &path, OFlags::RDWR | OFlags::CREATE | plain, everyone) {
            Ok(opened) => File::from(opened),
            Err(Errno::LOOP) => return Err(wrong()),
            Err(error) => return Err(failed(error.into())),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(wrong());
        }
        vtax_store::lock_journal(&file, directory)?;
        if is_still_at(&file, &path).map_err(failed)? {
            return Ok(file);
        }
    }
    Err(StoreError::Locked { path: directory.to_owned() }.into())
}

/// `hosts/NAME`, and nothing that leads elsewhere.
fn is_directory(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    text.strip_prefix("hosts/").is_some_and(|name| {
        !name.is_empty() && !name.starts_with('.') && name.len() <= 250 && name.chars().all(plain)
    })
}

/// The run directories that a path stands for: those of a run on several hosts that have begun, else itself.
///
/// # Errors
///
/// As [`HostsFile::read`].
pub fn run_directories(path: &Path) -> Result<Vec<PathBuf>, HostsError> {
    if !path.join(HOSTS_FILE).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let found = HostsFile::read(path)?.hosts.into_iter().map(|host| path.join(host.directory));
    Ok(found.filter(|run| has_begun(run)).collect())
}

/// Whether there is enough of a run to be read.
fn has_begun(run: &Path) -> bool {
    ["journal.jsonl", "plan.yaml", "provenance.json"].iter().all(|name| run.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(dir: &Path, directory: &str) -> HostsFile {
        let host = HostRecord {
            name: "n1".to_owned(),
            directory: directory.to_owned(),
            state: HostState::Lost,
            why: Some("gone".to_owned()),
            clock_offset_ns: Some(-5),
            clock_within_ns: Some(9),
            began_unix_ns: Some(7_000_000),
        };
        let file = HostsFile {
            version: HOSTS_VERSION,
            plan_file: "p.yaml".to_owned(),
            plan: "vtax: 1".to_owned(),
            overrides: vec!["seed=2".to_owned()],
            tags: Vec::new(),
            started_unix_ms: 7,
            asked: 1,
            hosts: vec![host],
        };
        file.write(dir).unwrap();
        file
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = made(dir.path(), "hosts/n1");
        assert_eq!(HostsFile::read(dir.path()).unwrap(), file);
        assert_eq!((file.has("n1"), file.directory_for("n1").as_str()), (false, "hosts/n1+2"));
        assert_eq!(file.directory_for("n2"), "hosts/n2");
        // Nothing came of it, so there is nothing to read.
        assert_eq!(run_directories(dir.path()).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(run_directories(&dir.path().join("x")).unwrap(), [dir.path().join("x")]);
        assert_eq!(file.spread(), None, "one host");
        let mut two = file.clone();
        let other =
            HostRecord { began_unix_ns: Some(6_000_000), clock_within_ns: Some(4), ..file.hosts[0].clone() };
        two.hosts.push(other);
        assert_eq!(two.spread(), Some((1_000_000, 18)));
        // Written before it was kept.
        let old = std::fs::read_to_string(dir.path().join(HOSTS_FILE)).unwrap().replace("began_unix_ns", "x");
        std::fs::write(dir.path().join(HOSTS_FILE), old).unwrap();
        assert_eq!(HostsFile::read(dir.path()).unwrap().hosts[0].began_unix_ns, None);
    }

    #[test]
    fn a_host_that_was_tried_again_or_another_makes_up_for_one_that_was_lost() {
        let dir = tempfile::tempdir().unwrap();
        let lost = made(dir.path(), "hosts/n1");
        assert_eq!(lost.missing(), 1);
        let with = |name: &str, directory: &str, state| {
            let mut file = lost.clone();
            let (name, directory) = (name.to_owned(), directory.to_owned());
            file.hosts.push(HostRecord { name, directory, state, ..lost.hosts[0].clone() });
            file
        };
        assert_eq!(with("n1", "hosts/n1+2", HostState::Complete).missing(), 0);
        assert_eq!(with("n2", "hosts/n2", HostState::Complete).missing(), 0);
        assert_eq!(with("n2", "hosts/n2", HostState::Stopped).missing(), 1);
        assert_eq!(HostsFile { asked: 3, ..with("n2", "hosts/n2", HostState::Complete) }.missing(), 2);
        // Of an old file each host that was tried is wanted.
        assert_eq!(HostsFile { asked: 0, ..with("n2", "hosts/n2", HostState::Complete) }.missing(), 1);
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(HOSTS_FILE);
        let (pipe, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, mode, 0).unwrap();
        assert!(HostsFile::read(dir.path()).unwrap_err().to_string().contains("regular file"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(HostsFile::read(dir.path()).unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn one_vtax_at_a_time_has_a_run() {
        let dir = tempfile::tempdir().unwrap();
        let locked = lock_hosts(dir.path()).unwrap();
        let refused = lock_hosts(dir.path()).unwrap_err();
        assert!(matches!(refused, HostsError::Store(StoreError::Locked { .. })), "{refused}");
        // A file that was put in its place is another one.
        std::fs::remove_file(dir.path().join(HOSTS_LOCK)).unwrap();
        lock_hosts(dir.path()).unwrap();
        drop(locked);
    }

    #[test]
    fn what_is_no_regular_file_is_not_locked() {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join(HOSTS_LOCK), dir.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(lock_hosts(dir.path()).unwrap_err().to_string().contains("regular file"));
        assert!(!elsewhere.exists());
        std::fs::remove_file(&path).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(lock_hosts(dir.path()).unwrap_err().to_string().contains("regular file"));
    }

    #[test]
    fn no_directory_leads_elsewhere() {
        for directory in ["hosts/../..", "/etc", "hosts/", "hosts/a/b", "n1"] {
            let dir = tempfile::tempdir().unwrap();
            made(dir.path(), directory);
            assert!(HostsFile::read(dir.path()).unwrap_err().to_string().contains("no directory of a host"));
        }
    }
}
