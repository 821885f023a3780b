//! `live.jsonl`: how a run is getting on, for readers that follow it while it is written.
//!
//! It is no record: nothing in it is synced, nothing is read back by vtax but to be shown, and it starts anew with
//! each session of a run and whenever it has grown to [`LIMIT`].

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Name of the file in a run directory.
const NAME: &str = "live.jsonl";
/// Size in bytes at which the file starts anew.
const LIMIT: u64 = 1 << 20;

/// How a run is getting on at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveState {
    /// Milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The trial under way; `None` between trials.
    pub trial: Option<LiveTrial>,
    /// What is being done, in words: `booting the guest`.
    pub phase: String,
    /// Rate of the last step or phase of the load that ended, per second; `None` where none did in this trial.
    pub rate: Option<f64>,
    /// Trials in the journal.
    pub finished: u32,
    /// Trials at least still to make, the one under way included.
    pub owed: u32,
    /// Estimate of the time they take, in milliseconds.
    pub remaining_ms: u64,
    /// How far each comparison is.
    #[serde(rename = "widths")]
    pub comparisons: Vec<LiveComparison>,
}

impl LiveState {
    /// What is told of trials to come where none is [owed](Self::owed). The page's script says the same.
    pub const MORE_TRIALS: &'static str =
        "more trials: until the taxes are known well enough, or in place of disturbed ones";
}

/// The trial under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveTrial {
    /// Its index.
    pub index: u32,
    /// Its cell; of a pair both, in words.
    pub cell: String,
    /// Its measure.
    pub measure: String,
    /// Its repetition, from 0.
    pub repetition: u32,
}

/// How far one comparison is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveComparison {
    /// Cell of the candidate.
    pub cell: String,
    /// Measure.
    pub measure: String,
    /// Test of a suite; empty where the measure observes one thing.
    pub test: String,
    /// The interval of the tax; `None` where there are too few trials for one.
    pub interval: Option<(f64, f64)>,
    /// True where it is as narrow as the plan wants it.
    pub narrow: bool,
    /// Rounds that both sides have, or trials of the side that has fewer.
    pub rounds: u32,
    /// How many more rounds end the comparison, if it stays what it seems; `None` where that isn't known.
    pub further: Option<u32>,
    /// True where it needs no more rounds: it is narrow, or lies beyond the margin for certain.
    #[serde(rename = "told")]
    pub decided: bool,
}

/// Appends to a run's `live.jsonl`.
#[derive(Debug)]
pub struct LiveWriter {
    path: PathBuf,
    file: File,
    length: u64,
}

impl LiveWriter {
    /// Starts the file of the run in this directory anew.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] or [`StoreError::Full`] where it can't be made.
    pub fn create(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(NAME);
        // Anew under its name instead of emptied: what is there may be a link, or a FIFO that nobody reads.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", &path, e));
            }
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(|e| StoreError::io("create", &path, e))?;
        Ok(Self { path, file, length: 0 })
    }

    /// Appends a state, without waiting for the disk.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unwritable`] for a number that isn't finite, [`StoreError::Io`] or [`StoreError::Full`] where
    /// the system refuses.
    pub fn append(&mut self, state: &LiveState) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(state)
            .map_err(|e| StoreError::Unwritable { path: self.path.clone(), reason: e.to_string() })?;
        line.push(b'\n');
        let error = |e| StoreError::io("write", &self.path, e);
        if self.length + line.len() as u64 > LIMIT {
            self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0))).map_err(error)?;
            self.length = 0;
        }
        self.file.write_all(&line).map_err(error)?;
        self.length += line.len() as u64;
        Ok(())
    }
}

/// Follows a run's `live.jsonl` while it is written, also over `--resume`.
#[derive(Debug)]
pub struct LiveReader {
    path: PathBuf,
    position: u64,
    /// What was read last. It is held so that no newer file gets its number.
    held: Option<File>,
}

impl LiveReader {
    /// A reader of the run in this directory, from the start of what its file holds.
    #[must_use]
    pub fn new(run: &Path) -> Self {
        Self { path: run.join(NAME), position: 0, held: None }
    }

    /// What was written since the last call, in order; nothing where there is no file yet. A line that is not
    /// whole yet comes with the next call. One that this vtax can't read is left out.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] where the file is there but can't be read, [`StoreError::Damaged`] where it is no regular file.
    pub fn read(&mut self) -> Result<Vec<LiveState>, StoreError> {
        let error = |e| StoreError::io("read", &self.path, e);
        let file = match crate::files::open(&self.path) {
            Ok(file) => file,
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            Err(e) => return Err(e),
        };
        let now = file.metadata().map_err(error)?;
        let before = self.held.as_ref().and_then(|held| held.metadata().ok());
        let is_same = before.is_some_and(|before| (before.dev(), before.ino()) == (now.dev(), now.ino()));
        if !is_same || now.len() < self.position {
            // It started anew.
            self.position = 0;
        }
        let mut bytes = Vec::new();
        (&file)
            .seek(SeekFrom::Start(self.position))
            .and_then(|_| (&file).take(2 * LIMIT).read_to_end(&mut bytes))
            .map_err(error)?;
        self.held = Some(file);
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        self.position += whole as u64;
        let lines = bytes[..whole].split(|b| *b == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(at_unix_ms: u64) -> LiveState {
        LiveState { at_unix_ms, phase: "measuring".to_owned(), ..LiveState::default() }
    }

    #[test]
    fn a_reader_follows_a_writer_over_a_new_start() {
        let dir = tempfile::tempdir().unwrap();
        let mut reader = LiveReader::new(dir.path());
        assert!(reader.read().unwrap().is_empty());
        let mut writer = LiveWriter::create(dir.path()).unwrap();
        writer.append(&state(1)).unwrap();
        writer.append(&state(2)).unwrap();
        assert_eq!(reader.read().unwrap(), [state(1), state(2)]);
        assert!(reader.read().unwrap().is_empty());
        // Half a line waits for its other half.
        writer.file.write_all(b"{\"at_unix_ms\":3,").unwrap();
        assert!(reader.read().unwrap().is_empty());
        writer.file.write_all(b"\"phase\":\"measuring\",\"new\":[]}\n").unwrap();
        assert_eq!(reader.read().unwrap(), [state(3)]);
        let mut resumed = LiveWriter::create(dir.path()).unwrap();
        resumed.append(&state(4)).unwrap();
        assert_eq!(reader.read().unwrap(), [state(4)]);
        // Also one that is longer than the one before by the time it is read.
        let mut resumed = LiveWriter::create(dir.path()).unwrap();
        for at in [5, 6, 7] {
            resumed.append(&state(at)).unwrap();
        }
        assert_eq!(reader.read().unwrap(), [state(5), state(6), state(7)]);
    }

    #[test]
    fn the_file_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LiveWriter::create(dir.path()).unwrap();
        let mut reader = LiveReader::new(dir.path());
        let long = LiveState { phase: "x".repeat(10_000), ..state(0) };
        let mut seen = 0;
        for at_unix_ms in 0..300 {
            writer.append(&LiveState { at_unix_ms, ..long.clone() }).unwrap();
            seen += reader.read().unwrap().len();
        }
        assert_eq!(seen, 300);
        assert!(std::fs::metadata(dir.path().join(NAME)).unwrap().len() <= LIMIT);
    }
}
