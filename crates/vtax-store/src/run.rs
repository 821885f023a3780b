//! The run directory as a whole: create, open, resume, lock.

use std::fs::{self, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use vtax_plan::model::{PLAN_VERSION, Plan};
use vtax_sys::clock::unix_ms;
use vtax_sys::locked_dir::is_still_at;

use crate::StoreError;
use crate::calibration::{CALIBRATION_VERSION, Calibration};
use crate::files;
use crate::journal::{Appender, JOURNAL_MINOR, JOURNAL_VERSION, Journal};
use crate::pairs::Pairs;
use crate::provenance::{PROVENANCE_VERSION, Provenance};
use crate::record::{JournalEntry, TrialRecord};
use crate::summary::{SUMMARY_VERSION, Summary};
use crate::trial::{TrialDir, TrialWriter};

const PLAN: &str = "plan.yaml";
const PROVENANCE: &str = "provenance.json";
const JOURNAL: &str = "journal.jsonl";
const TRIALS: &str = "trials";
const SUMMARY: &str = "summary.json";
const CALIBRATION: &str = "calibration.json";

/// What the directory of a run on several hosts has in place of a journal.
pub const HOSTS_FILE: &str = "hosts.json";

/// Most runs of one directory that are taken together.
pub const SESSIONS_MAX: usize = 100;

/// Why that is no run.
const ON_HOSTS: &str = "it holds one for each host, below hosts/; `vtax merge` takes them together, `vtax run --resume` needs `--on`";

/// Largest plan, provenance or summary read.
const TEXT_LIMIT: u64 = 64 << 20;

/// How often a journal is locked that was replaced meanwhile. It is replaced once, by a vtax that is newer than the run.
const LOCK_ATTEMPTS: usize = 8;

/// No run has so many trials; a journal that says so would have the numbers begin anew, and trials replaced.
const LAST_INDEX: u32 = 99_999_999;

fn numbered_too_high(journal: &Path, index: u32) -> StoreError {
    StoreError::Damaged {
        path: journal.to_owned(),
        place: String::new(),
        reason: format!("it has a trial numbered {index}, and vtax never makes so many"),
        way_out: "restore the run directory from a copy",
    }
}

/// A run directory, for reading; also while a run is writing to it.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes a new run directory and locks it. `path` must not exist or be empty. The run gets an identity,
    /// unless `provenance` has one. Where it doesn't come to be a run, as on a full disk, nothing of it stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::Exists`] where the directory holds something, [`StoreError::Unwritable`] where plan or
    /// provenance could not be read back, otherwise [`StoreError::Io`] or [`StoreError::Full`].
    pub fn create(
        path: impl Into<PathBuf>,
        plan: &Plan,
        provenance: &Provenance,
    ) -> Result<RunWriter, StoreError> {
        let run = Self { path: path.into() };
        let is_new = !run.path.exists();
        fs::create_dir_all(&run.path).map_err(|e| StoreError::io("create", &run.path, e))?;
        let mut entries = fs::read_dir(&run.path).map_err(|e| StoreError::io("read", &run.path, e))?;
        if entries.next().is_some() {
            return Err(StoreError::Exists { path: run.path });
        }
        let trials = run.path.join(TRIALS);
        // Of two at once one gets here, to which all else belongs.
        fs::create_dir(&trials).map_err(|e| StoreError::io("create", &trials, e))?;
        let (journal, run_id) = run.begin(plan, provenance).inspect_err(|_| run.remove_unbegun(is_new))?;
        files::sync_directory(&run.path)?;
        files::sync_directory(files::parent_of(&run.path))?;
        Ok(RunWriter { run, journal, next_index: 0, run_id })
    }

    /// Writes plan and provenance, then the journal's first line, with which the directory is a run; the journal and the run's identity.
    fn begin(&self, plan: &Plan, provenance: &Provenance) -> Result<(Appender, String), StoreError> {
        files::write_atomic(&self.path.join(PLAN), plan_to_yaml(plan, &self.path)?.as_bytes())?;
        let mut provenance = provenance.clone();
        if provenance.run_id.is_empty() {
            provenance.run_id = new_run_id()?;
        }
        self.write_json(PROVENANCE, &provenance)?;
        let journal = self.path.join(JOURNAL);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&journal)
            .map_err(|e| StoreError::io("create", &journal, e))?;
        lock_journal(&file, &self.path)?;
        let mut journal = Appender::new(&journal, file, 0)?;
        journal.append(&JournalEntry::Opened {
            version: JOURNAL_VERSION,
            minor: JOURNAL_MINOR,
            run_id: provenance.run_id.clone(),
            at_unix_ms: unix_ms(),
        })?;
        Ok((journal, provenance.run_id))
    }

    /// Removes what was made of a run that didn't begin, so that the directory can be used again. What can't be removed is told as no run.
    fn remove_unbegun(&self, is_new: bool) {
        for name in [JOURNAL, PROVENANCE, PLAN] {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir(self.path.join(TRIALS));
        if is_new {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Opens the run in this directory, or, where it is none, the runs right below it, in the order of their names.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open) has them of each run, and of the directory itself where it has none; [`StoreError::NotARun`] where it has
    /// more than [`SESSIONS_MAX`].
    pub fn open_all(path: &Path) -> Result<Vec<Self>, StoreError> {
        let not_one = match Self::open(path) {
            Err(error @ StoreError::NotARun { .. }) if path.is_dir() => error,
            opened => return opened.map(|run| vec![run]),
        };
        // What was to become a run, or has one for each host, is no directory of runs.
        if [JOURNAL, HOSTS_FILE].iter().any(|file| path.join(file).exists()) {
            return Err(not_one);
        }
        let entries = fs::read_dir(path).map_err(|e| StoreError::io("read", path, e))?;
        let places = entries.flatten().map(|entry| entry.path());
        let mut places: Vec<PathBuf> = places.filter(|place| place.join(JOURNAL).is_file()).collect();
        places.sort_unstable();
        match places.len() {
            0 => Err(not_one),
            1..=SESSIONS_MAX => places.into_iter().map(Self::open).collect(),
            _ => Err(StoreError::NotARun {
                path: path.to_owned(),
                reason: "it holds more runs than are taken together",
            }),
        }
    }

    /// Opens a run for reading, once every version in it is one that this vtax knows.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotARun`], [`StoreError::Newer`] or [`StoreError::Damaged`], named by the file at fault;
    /// [`StoreError::Io`] where it can't be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let run = Self { path: path.into() };
        let not = |reason| StoreError::NotARun { path: run.path.clone(), reason };
        match fs::metadata(&run.path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(not("it is not a directory")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(not("it does not exist")),
            Err(e) => return Err(StoreError::io("open", &run.path, e)),
        }
        if !run.path.join(JOURNAL).exists() {
            if run.path.join(HOSTS_FILE).exists() {
                return Err(not(ON_HOSTS));
            }
            return Err(not("it has no journal.jsonl"));
        }
        match run.journal()?.next() {
            None => return Err(not("its journal is empty: the run ended before it began; start a new one")),
            Some(entry) => entry?,
        };
        run.plan()?;
        run.provenance()?;
        // What is written or swept below it must be this run's own.
        files::own(&run.path, &run.path.join(TRIALS))?;
        Ok(run)
    }

    /// Opens a run to go on with it: locks it, cuts off a torn last line, removes the remains of an
    /// unfinished trial and journals [`JournalEntry::Resumed`]. The journal of an older version or minor version is replaced
    /// by one of today's first.
    ///
    /// # Errors
    ///
    /// Those of [`RunDir::open`]; [`StoreError::Locked`] where another vtax writes to the run, and those of
    /// writing.
    pub fn resume(path: impl Into<PathBuf>) -> Result<RunWriter, StoreError> {
        let run = Self::open(path)?;
        let path = run.path.join(JOURNAL);
        let file = run.lock_current(&path)?;
        let mut journal = run.journal()?;
        let mut next_index = 0;
        for entry in journal.by_ref() {
            if let JournalEntry::TrialStarted { index, .. } = entry? {
                if index > LAST_INDEX {
                    return Err(numbered_too_high(&path, index));
                }
                next_index = next_index.max(index + 1);
            }
        }
        let (whole, version) = (journal.whole, journal.version());
        run.sweep()?;
        let run_id = run.identify()?;
        // Readers look at the first line for what they can't know: it must name what is written from here on.
        let mut journal = if version < (JOURNAL_VERSION, JOURNAL_MINOR) {
            run.upgrade(&path, &run_id, (file, whole))?
        } else {
            Appender::new(&path, file, whole)?
        };
        journal.append(&JournalEntry::Resumed { at_unix_ms: unix_ms() })?;
        Ok(RunWriter { run, journal, next_index, run_id })
    }

    /// Opens the journal and locks it. Another vtax may replace it by one of today's version before it is locked here, and is done with the
    /// old one then: the lock counts where the file is still the journal.
    fn lock_current(&self, path: &Path) -> Result<fs::File, StoreError> {
        for _ in 0..LOCK_ATTEMPTS {
            let file = files::open_to_write(path)?;
            lock_journal(&file, &self.path)?;
            if is_still_at(&file, path).map_err(|e| StoreError::io("look at", path, e))? {
                return Ok(file);
            }
        }
        Err(StoreError::Locked { path: self.path.clone() })
    }

    /// The identity of the run; one of before journal version 3 gets one now.
    fn identify(&self) -> Result<String, StoreError> {
        let mut provenance = self.provenance()?;
        if provenance.run_id.is_empty() {
            provenance.run_id = new_run_id()?;
            self.write_json(PROVENANCE, &provenance)?;
        }
        Ok(provenance.run_id)
    }

    /// Replaces a journal of an older version by the same in today's, so that a journal has one version from
    /// its start to its end. The old one stays beside it. Of an older minor version only the first line changes. `locked` is the
    /// old one with the length of its whole lines; its lock is kept until the new one has one.
    fn upgrade(
        &self,
        path: &Path,
        run_id: &str,
        (locked, whole): (fs::File, u64),
    ) -> Result<Appender, StoreError> {
        let temporary = path.with_extension("jsonl.tmp");
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)
            .map_err(|e| StoreError::io("create", &temporary, e))?;
        let new = self
            .replace(path, run_id, whole, &temporary, file)
            .inspect_err(|_| drop(fs::remove_file(&temporary)))?;
        files::sync_directory(&self.path)?;
        drop(locked);
        Ok(new.at(path))
    }

    /// Fills the new journal, an empty file, with what the old one has, and gives it the old one's name.
    fn replace(
        &self,
        path: &Path,
        run_id: &str,
        whole: u64,
        temporary: &Path,
        file: fs::File,
    ) -> Result<Appender, StoreError> {
        lock_journal(&file, &self.path)?;
        let mut old = self.journal()?;
        let mut new = Appender::new(temporary, file, 0)?;
        if let Some(first) = old.next() {
            new.write(&of_today(first?, run_id), false)?;
        }
        if old.version().0 == JOURNAL_VERSION {
            // To the byte: what this vtax doesn't understand stays, too.
            new.copy(path, old.whole..whole)?;
        } else {
            for entry in old {
                new.write(&of_today(entry?, run_id), false)?;
            }
            files::copy_anew(path, &path.with_extension("old.jsonl"))?;
        }
        fs::File::open(temporary)
            .and_then(|file| file.sync_all())
            .map_err(|e| StoreError::io("sync", temporary, e))?;
        fs::rename(temporary, path).map_err(|e| StoreError::io("rename", temporary, e))?;
        Ok(new)
    }

    /// Removes what a killed writer left: unfinished trials and temporary files.
    fn sweep(&self) -> Result<(), StoreError> {
        for directory in [self.path.clone(), self.path.join(TRIALS)] {
            let entries = fs::read_dir(&directory).map_err(|e| StoreError::io("read", &directory, e))?;
            for entry in entries {
                let entry = entry.map_err(|e| StoreError::io("read", &directory, e))?;
                let path = entry.path();
                if path.extension().is_none_or(|e| e != "tmp") {
                    continue;
                }
                let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
                if !is_dir && files::is_being_written(&path) {
                    continue;
                }
                if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
                    .map_err(|e| StoreError::io("remove", &path, e))?;
            }
        }
        Ok(())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved plan.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`].
    pub fn plan(&self) -> Result<Plan, StoreError> {
        let path = self.path.join(PLAN);
        let text = files::read_text(&path, TEXT_LIMIT)?;
        check_version(&path, PLAN_VERSION, from_yaml(&text))?;
        from_yaml(&text).map_err(|e| damaged(&path, &e))
    }

    /// Where the numbers come from.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`].
    pub fn provenance(&self) -> Result<Provenance, StoreError> {
        self.read_json(PROVENANCE, PROVENANCE_VERSION)
    }

    /// The last summary written; [`StoreError::Io`] with `NotFound` where there is none yet.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`].
    pub fn summary(&self) -> Result<Summary, StoreError> {
        self.read_json(SUMMARY, SUMMARY_VERSION)
    }

    /// The journal from its start.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] where it can't be opened. What is wrong inside comes with the entry that is read.
    pub fn journal(&self) -> Result<Journal, StoreError> {
        Journal::open(&self.path.join(JOURNAL))
    }

    /// Every finished trial, in the order they ended. Their [`intervals`](vtax_load::LoadResult::intervals)
    /// are empty: [`TrialDir::intervals`] streams them. One whose partner was never finished doesn't count.
    ///
    /// # Errors
    ///
    /// Those of the journal: [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`].
    pub fn trials(&self) -> Result<Vec<TrialRecord>, StoreError> {
        let (mut trials, mut pairs) = (Vec::new(), Pairs::default());
        for entry in self.journal()? {
            match entry? {
                JournalEntry::TrialEnded(record) => trials.extend(pairs.take(*record)),
                JournalEntry::Resumed { .. } | JournalEntry::Completed { .. } => trials.extend(pairs.end()),
                JournalEntry::Opened { .. }
                | JournalEntry::TrialStarted { .. }
                | JournalEntry::Note { .. } => {}
            }
        }
        trials.extend(pairs.end());
        Ok(trials)
    }

    /// The files of one trial; they may be missing where it never got to measuring.
    #[must_use]
    pub fn trial(&self, index: u32) -> TrialDir {
        TrialDir::new(self.path.clone(), trial_path(&self.path, index))
    }

    /// Replaces `summary.json`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unwritable`] where it could not be read back; [`StoreError::Full`] or [`StoreError::Io`]. The
    /// old one then stays.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), StoreError> {
        self.write_json(SUMMARY, summary)
    }

    /// The calibration that the run took along; `None` where there was none that matched.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`].
    pub fn calibration(&self) -> Result<Option<Calibration>, StoreError> {
        if !self.path.join(CALIBRATION).exists() {
            return Ok(None);
        }
        self.read_json(CALIBRATION, CALIBRATION_VERSION).map(Some)
    }

    fn write_json<T: serde::Serialize + DeserializeOwned>(
        &self,
        name: &str,
        value: &T,
    ) -> Result<(), StoreError> {
        let path = self.path.join(name);
        let unwritable =
            |e: serde_json::Error| StoreError::Unwritable { path: path.clone(), reason: e.to_string() };
        let mut text = serde_json::to_vec_pretty(value).map_err(unwritable)?;
        serde_json::from_slice::<T>(&text).map_err(unwritable)?;
        text.push(b'\n');
        files::write_atomic(&path, &text)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str, known: u32) -> Result<T, StoreError> {
        let path = self.path.join(name);
        let text = files::read_text(&path, TEXT_LIMIT)?;
        check_version(&path, known, serde_json::from_str(&text))?;
        serde_json::from_str(&text).map_err(|e| damaged(&path, &e))
    }
}

/// Writes `bytes` to `path` so that a reader or a crash sees the old file or the new one, whole.
///
/// # Errors
///
/// [`StoreError::Full`] or [`StoreError::Io`]; the old file then stays.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    files::write_atomic(path, bytes)
}

/// Opens a regular file of a run for reading. A symbolic link is refused, as is what isn't a file: a FIFO would block
/// for ever.
///
/// # Errors
///
/// [`StoreError::Damaged`] for what isn't a regular file, [`StoreError::Io`] where it can't be opened.
pub fn open_file(path: &Path) -> Result<fs::File, StoreError> {
    files::open(path)
}

/// A directory of vtax's own below one that may come from others. It stays the one that was opened, whatever is put in
/// its place.
#[derive(Debug)]
pub struct OwnDirectory {
    path: PathBuf,
    directory: fs::File,
}

impl OwnDirectory {
    /// The directory `name` in `parent`, made where it isn't yet. A symbolic link of that name is refused: what is
    /// written there would be written elsewhere.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] for a link, [`StoreError::Full`] or [`StoreError::Io`].
    pub fn create(parent: &Path, name: &str) -> Result<Self, StoreError> {
        let path = parent.join(name);
        files::own(parent, &path)?;
        create_directory(&path)?;
        let directory = files::open_directory(&path)?;
        Ok(Self { path, directory })
    }

    /// Writes a file in it so that a reader or a crash sees the old one or the new one, whole; its path.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`]; the old file then stays.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        let path = self.path.join(name);
        files::write_atomic_in(&self.directory, &path, bytes)?;
        Ok(path)
    }
}

/// Makes a directory with its parents; one that exists is fine.
///
/// # Errors
///
/// [`StoreError::Full`] or [`StoreError::Io`].
pub fn create_directory(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|e| StoreError::io("create", path, e))
}

/// The one writer of a run; the lock is held as long as it lives.
#[derive(Debug)]
pub struct RunWriter {
    run: RunDir,
    journal: Appender,
    next_index: u32,
    run_id: String,
}

impl RunWriter {
    /// The run, for reading.
    #[must_use]
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Index that the next trial gets.
    #[must_use]
    pub fn next_index(&self) -> u32 {
        self.next_index
    }

    /// Replaces `provenance.json`: facts such as service versions are known only later.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unwritable`] where it could not be read back; [`StoreError::Full`] or [`StoreError::Io`]. The
    /// old one then stays.
    pub fn write_provenance(&self, provenance: &Provenance) -> Result<(), StoreError> {
        self.run.write_json(PROVENANCE, provenance)
    }

    /// Replaces `calibration.json`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unwritable`] where it could not be read back; [`StoreError::Full`] or [`StoreError::Io`]. The
    /// old one then stays.
    pub fn write_calibration(&self, calibration: &Calibration) -> Result<(), StoreError> {
        self.run.write_json(CALIBRATION, calibration)
    }

    /// Journals something that the report must mention.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`].
    pub fn note(&mut self, cell: Option<&str>, text: impl Into<String>) -> Result<(), StoreError> {
        self.journal.append(&JournalEntry::Note {
            at_unix_ms: unix_ms(),
            cell: cell.map(str::to_owned),
            text: text.into(),
            forecast_of: None,
        })
    }

    /// Journals what the run will be able to tell of a measure.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`].
    pub fn forecast(&mut self, measure: &str, text: impl Into<String>) -> Result<(), StoreError> {
        self.journal.append(&JournalEntry::Note {
            at_unix_ms: unix_ms(),
            cell: None,
            text: text.into(),
            forecast_of: Some(measure.to_owned()),
        })
    }

    /// Journals the start of a trial and opens its files; `repetition` counts from 0.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`].
    pub fn begin_trial(
        &mut self,
        cell: &str,
        measure: &str,
        repetition: u32,
    ) -> Result<TrialWriter, StoreError> {
        let index = self.next_index;
        self.journal.append(&JournalEntry::TrialStarted {
            index,
            cell: cell.to_owned(),
            measure: measure.to_owned(),
            repetition,
            at_unix_ms: unix_ms(),
        })?;
        self.next_index += 1;
        TrialWriter::create(trial_path(&self.run.path, index), index)
    }

    /// Puts a trial's files in place and then journals it. Once this returns, the trial is never lost.
    ///
    /// The record's index becomes the writer's, its run this one. Intervals and samples go to the trial's files; what
    /// is left of the record, as the journal has it, comes back.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unwritable`] where the record could not be read back; [`StoreError::Full`] or
    /// [`StoreError::Io`]. The trial is then not in the journal.
    pub fn finish_trial(
        &mut self,
        trial: TrialWriter,
        mut record: TrialRecord,
    ) -> Result<TrialRecord, StoreError> {
        record.index = trial.index();
        record.run_id.clone_from(&self.run_id);
        trial.finish(&mut record)?;
        files::sync_directory(&self.run.path.join(TRIALS))?;
        let entry = JournalEntry::TrialEnded(Box::new(record));
        self.journal.append(&entry)?;
        let JournalEntry::TrialEnded(record) = entry else { unreachable!("it was just made") };
        Ok(*record)
    }

    /// Journals that nothing is missing any more.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`].
    pub fn completed(&mut self) -> Result<(), StoreError> {
        self.journal.append(&JournalEntry::Completed { at_unix_ms: unix_ms() })
    }
}

/// An entry of an older journal as one of today's version has it.
fn of_today(mut entry: JournalEntry, run: &str) -> JournalEntry {
    match &mut entry {
        JournalEntry::Opened { version, minor, run_id, .. } => {
            (*version, *minor) = (JOURNAL_VERSION, JOURNAL_MINOR);
            run.clone_into(run_id);
        }
        JournalEntry::TrialEnded(record) => run.clone_into(&mut record.run_id),
        _ => {}
    }
    entry
}

fn trial_path(run: &Path, index: u32) -> PathBuf {
    run.join(TRIALS).join(format!("{index:03}"))
}

/// Locks the journal of a run that this process writes, for as long as the file is open: whoever looks sees that the run goes on, and
/// nobody else writes to it.
///
/// # Errors
///
/// [`StoreError::Locked`] where another vtax writes to the run, [`StoreError::Io`] where it can't be locked.
pub fn lock_journal(file: &fs::File, run: &Path) -> Result<(), StoreError> {
    file.try_lock().map_err(|e| match e {
        TryLockError::WouldBlock => StoreError::Locked { path: run.to_owned() },
        TryLockError::Error(e) => StoreError::io("lock", run, e),
    })
}

/// The identity of a new run: 128 random bits in hexadecimal.
fn new_run_id() -> Result<String, StoreError> {
    use std::io::Read;
    let source = Path::new("/dev/urandom");
    let mut bits = [0; 16];
    fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut bits))
        .map_err(|e| StoreError::io("read", source, e))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bits)))
}

/// Reads a stored plan. It has each cell written out, ten thousand of them and 48 MiB of their texts at most, which is more than the
/// parser takes for harmless by itself.
pub(crate) fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    let budget = serde_saphyr::budget! { max_nodes: 8_000_000, max_events: 32_000_000 };
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { budget: budget })
}

fn plan_to_yaml(plan: &Plan, run: &Path) -> Result<String, StoreError> {
    let unwritable = |reason: String| StoreError::Unwritable { path: run.join(PLAN), reason };
    let text = serde_saphyr::to_string(plan).map_err(|e| unwritable(e.to_string()))?;
    match from_yaml::<Plan>(&text) {
        Ok(again) if &again == plan => Ok(text),
        Ok(_) => Err(unwritable("it reads back differently".to_owned())),
        Err(e) => Err(unwritable(e.to_string())),
    }
}

#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

fn check_version<E: std::fmt::Display>(
    path: &Path,
    known: u32,
    parsed: Result<Versioned, E>,
) -> Result<(), StoreError> {
    match parsed {
        Ok(Versioned { version }) if version > known => {
            Err(StoreError::Newer { path: path.to_owned(), found: version, known })
        }
        Ok(_) => Ok(()),
        Err(e) => Err(damaged(path, &e)),
    }
}

pub(crate) fn damaged(path: &Path, reason: &impl std::fmt::Display) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        place: String::new(),
        reason: reason.to_string(),
        way_out: "restore it from a copy of the run",
    }
}
