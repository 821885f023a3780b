//! Which runs there are: an index that is kept up to date by looking only at what changed.

mod cache;
mod scan;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vtax_store::{RunBrief, RunDir, RunStamp, StoreError};
use vtax_sys::sync::{lock, wait, wait_timeout};

use crate::ServeError;
use crate::refusal::chain;

/// Least time between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// A look is followed by a pause of so many times what it took: 0.5 % of the time at most.
const RARELY: u32 = 200;
/// How long the first who asks waits until it is known which runs there are.
const FIRST: Duration = Duration::from_secs(3);
/// So many runs read are told at once.
const PORTION: usize = 64;

/// A run's name in addresses: 16 hexadecimal digits of the SHA-256 of its path below the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId([u8; 8]);

impl RunId {
    fn of(place: &Path) -> Self {
        let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
        let mut id = [0; 8];
        id.iter_mut().zip(digest.iter()).for_each(|(byte, of)| *byte = *of);
        Self(id)
    }

    /// Understands an id as it stands in an address.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let plain =
            text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let number = u64::from_str_radix(text, 16).ok().filter(|_| plain)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: RunId,
    /// Its path below the root; empty where the root itself is a run.
    pub(crate) place: PathBuf,
    pub(crate) stamp: RunStamp,
    /// What a list shows of it, or why it can't be read.
    pub(crate) brief: Result<RunBrief, String>,
}

impl Entry {
    fn read(root: &Path, place: PathBuf, stamp: RunStamp) -> Self {
        let brief = RunBrief::read(&root.join(&place)).map_err(|error| chain(&error));
        Self { id: RunId::of(&place), place, stamp, brief }
    }

    /// When it began, in milliseconds since 1970; 0 where that isn't known.
    pub(crate) fn started(&self) -> u64 {
        self.brief.as_ref().map_or(0, |brief| brief.started_unix_ms)
    }

    /// Name of its plan.
    pub(crate) fn plan(&self) -> &str {
        self.brief.as_ref().map_or("", |brief| brief.plan.as_str())
    }

    /// Stable name of its machine.
    pub(crate) fn host(&self) -> &str {
        self.brief.as_ref().map_or("", |brief| brief.host.as_str())
    }

    /// Its path, for people.
    pub(crate) fn name(&self) -> String {
        if self.place.as_os_str().is_empty() { ".".to_owned() } else { self.place.display().to_string() }
    }
}

/// How a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunState {
    /// A vtax writes to it.
    Running,
    /// Nothing is missing.
    Complete,
    /// Trials are missing, and nobody makes them.
    Incomplete,
    /// It can't be read.
    Unreadable,
}

impl RunState {
    /// Every state.
    pub(crate) const ALL: [Self; 4] = [Self::Running, Self::Complete, Self::Incomplete, Self::Unreadable];

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Which runs there are.
#[derive(Debug)]
pub(crate) struct Index {
    root: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// What is known.
#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunId, Arc<Entry>>,
    /// Somebody wants to know.
    wanted: bool,
    /// It was looked at least once.
    known: bool,
    /// Runs that are there and were not read yet.
    unread: usize,
    /// Runs and directories that were too many.
    surplus: bool,
    /// How long the last look took.
    took: Duration,
}

/// What is known at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) runs: Vec<Arc<Entry>>,
    pub(crate) unread: usize,
    pub(crate) surplus: bool,
    pub(crate) took: Duration,
}

impl Index {
    /// An index of the runs below `root`, kept in `cache`. Looking is done by a thread of its own.
    ///
    /// # Errors
    ///
    /// [`ServeError::Root`] where there is no such directory, [`ServeError::System`] where no thread can be started.
    pub(crate) fn open(root: &Path, cache: &Path) -> Result<Self, ServeError> {
        let wrong = |source| ServeError::Root { path: root.to_owned(), source };
        let root = root.canonicalize().map_err(wrong)?;
        std::fs::read_dir(&root).map_err(wrong)?;
        // Where nothing can be kept, the next start reads every run anew.
        let _ = std::fs::create_dir_all(cache);
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let looker =
            Looker { root: root.clone(), file: cache::file(cache, &root), shared: Arc::clone(&shared) };
        std::thread::Builder::new()
            .name("index".to_owned())
            .spawn(move || looker.run())
            .map_err(|source| ServeError::System { operation: "start a thread", source })?;
        Ok(Self { root, shared })
    }

    /// The directory whose runs these are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What is known; asks for a new look besides.
    pub(crate) fn known(&self) -> Known {
        let mut state = lock(&self.shared.state);
        state.wanted = true;
        self.shared.changed.notify_all();
        let until = Instant::now() + FIRST;
        while !state.known {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = wait_timeout(&self.shared.changed, state, left);
        }
        let runs = state.runs.values().map(Arc::clone).collect();
        Known { runs, unread: state.unread, surplus: state.surplus, took: state.took }
    }

    /// The run of that id.
    pub(crate) fn find(&self, id: RunId) -> Option<Arc<Entry>> {
        let found = lock(&self.shared.state).runs.get(&id).map(Arc::clone);
        // Right after a start nothing is known yet.
        found.or_else(|| self.known().runs.into_iter().find(|entry| entry.id == id))
    }

    /// Where the run is.
    pub(crate) fn path(&self, entry: &Entry) -> PathBuf {
        self.root.join(&entry.place)
    }

    /// Opens the run.
    ///
    /// # Errors
    ///
    /// Those of [`RunDir::open`].
    pub(crate) fn run(&self, entry: &Entry) -> Result<RunDir, StoreError> {
        RunDir::open(self.path(entry))
    }

    /// How the run is doing now.
    pub(crate) fn state(&self, entry: &Entry) -> RunState {
        match &entry.brief {
            Err(_) => RunState::Unreadable,
            Ok(brief) if brief.complete => RunState::Complete,
            Ok(_) if vtax_store::is_written(&self.path(entry)) => RunState::Running,
            Ok(_) => RunState::Incomplete,
        }
    }
}

/// The thread that looks.
struct Looker {
    root: PathBuf,
    file: PathBuf,
    shared: Arc<Shared>,
}

impl Looker {
    fn run(self) {
        let mut kept = cache::read(&self.file);
        loop {
            let began = Instant::now();
            // What is asked for while this looks may be about what it has passed already.
            lock(&self.shared.state).wanted = false;
            let changed = self.look(&mut kept);
            // What was kept is of use once: from now on the state itself knows.
            kept.clear();
            if changed {
                let entries: Vec<Arc<Entry>> =
                    lock(&self.shared.state).runs.values().map(Arc::clone).collect();
                // An index that can't be kept is made anew after the next start.
                let _ = cache::write(&self.file, &entries);
            }
            let took = began.elapsed();
            lock(&self.shared.state).took = took;
            std::thread::sleep(PAUSE.max(took * RARELY));
            let mut state = lock(&self.shared.state);
            while !state.wanted {
                state = wait(&self.shared.changed, state);
            }
        }
    }

    /// Looks at what is there; true where something changed.
    fn look(&self, kept: &mut BTreeMap<PathBuf, Entry>) -> bool {
        let found = scan::scan(&self.root);
        let before = lock(&self.shared.state).runs.clone();
        let (mut runs, mut unread) = (BTreeMap::new(), Vec::new());
        for (place, stamp) in found.runs {
            let id = RunId::of(&place);
            let known = before.get(&id).filter(|entry| entry.stamp == stamp).map(Arc::clone);
            let known = known.or_else(|| kept.remove(&place).filter(|e| e.stamp == stamp).map(Arc::new));
            match known {
                Some(entry) => drop(runs.insert(id, entry)),
                None => {
                    // What was known of it is better than nothing until it was read.
                    if let Some(old) = before.get(&id) {
                        runs.insert(id, Arc::clone(old));
                    }
                    unread.push((place, stamp));
                }
            }
        }
        let changed = !unread.is_empty() || runs.len() != before.len();
        self.publish(runs, unread.len(), found.surplus);
        // The newest first: they are at the top of the list.
        unread.sort_by_key(|(_, stamp)| std::cmp::Reverse(*stamp));
        let mut left = unread.len();
        for portion in unread.chunks(PORTION) {
            let read: Vec<Arc<Entry>> = portion
                .iter()
                .map(|(place, stamp)| Arc::new(Entry::read(&self.root, place.clone(), *stamp)))
                .collect();
            left -= portion.len();
            let mut state = lock(&self.shared.state);
            state.runs.extend(read.into_iter().map(|entry| (entry.id, entry)));
            state.unread = left;
        }
        changed
    }

    fn publish(&self, runs: BTreeMap<RunId, Arc<Entry>>, unread: usize, surplus: bool) {
        let mut state = lock(&self.shared.state);
        (state.runs, state.unread, state.surplus, state.known) = (runs, unread, surplus, true);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_and_nothing_else_is_one() {
        let id = RunId::of(Path::new("a/b"));
        assert_eq!(RunId::parse(&id.to_string()), Some(id));
        assert_ne!(RunId::of(Path::new("a/c")), id);
        for wrong in [
            "",
            "../../etc/passwd",
            "0123456789ABCDEF",
            "0123456789abcdef0",
            "+123456789abcdef",
            "0x23456789abcde",
        ] {
            assert_eq!(RunId::parse(wrong), None, "{wrong}");
        }
    }
}
