//! `journal.jsonl`: one JSON object per line, appended and synced, never rewritten.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::record::JournalEntry;

/// Version of the journal and with it of the whole run directory.
/// 2: trials without a steady state, rounds, pairs.
pub const JOURNAL_VERSION: u32 = 2;

/// Longest line read. A trial's line holds two histograms, tens of KiB in practice.
const LINE_LIMIT: u64 = 16 << 20;

/// The entries of a journal in order, read one at a time so that a long run needs little memory.
///
/// A last line without its newline was torn by a crash or is being written: it is left out.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    reader: BufReader<File>,
    line: usize,
    /// Length of all whole lines read so far, in bytes.
    pub(crate) whole: u64,
    done: bool,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let file = crate::files::open(path)?;
        Ok(Self { path: path.to_owned(), reader: BufReader::new(file), line: 0, whole: 0, done: false })
    }

    fn damaged(&self, reason: String) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            place: format!(":{}", self.line),
            reason,
            way_out: "restore the run directory from a copy, or delete this line to give up what it records",
        }
    }

    fn read(&mut self) -> Result<Option<JournalEntry>, StoreError> {
        let mut bytes = Vec::new();
        let read = (&mut self.reader)
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut bytes)
            .map_err(|e| StoreError::io("read", &self.path, e))?;
        self.line += 1;
        if bytes.pop() != Some(b'\n') {
            return match read as u64 {
                LINE_LIMIT => Err(self.damaged(format!("the line is longer than {} MiB", LINE_LIMIT >> 20))),
                _ => Ok(None),
            };
        }
        self.whole += read as u64;
        let entry = serde_json::from_slice(&bytes);
        if self.line == 1 {
            // A newer journal may hold entries this vtax can't parse, so its version is looked at first.
            self.check_version(&bytes)?;
        }
        entry.map(Some).map_err(|e| self.damaged(format!("not a journal entry: {e}")))
    }

    fn check_version(&self, line: &[u8]) -> Result<(), StoreError> {
        #[derive(serde::Deserialize)]
        struct First {
            event: String,
            version: u32,
        }
        match serde_json::from_slice::<First>(line) {
            Ok(First { event, version }) if event == "opened" && version > JOURNAL_VERSION => {
                Err(StoreError::Newer { path: self.path.clone(), found: version, known: JOURNAL_VERSION })
            }
            Ok(First { event, .. }) if event == "opened" => Ok(()),
            _ => Err(self.damaged("it does not start with an `opened` entry".to_owned())),
        }
    }
}

impl Iterator for Journal {
    type Item = Result<JournalEntry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.read().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The writing end of a journal; holding it is holding the run's lock.
#[derive(Debug)]
pub(crate) struct Appender {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Appender {
    /// Takes a freshly created or reopened journal whose whole lines end at `length`, and cuts off
    /// what a crash left behind them.
    pub(crate) fn new(path: &Path, mut file: File, length: u64) -> Result<Self, StoreError> {
        file.set_len(length)
            .and_then(|()| file.seek(SeekFrom::Start(length)))
            .map_err(|e| StoreError::io("truncate", path, e))?;
        Ok(Self { path: path.to_owned(), file, length })
    }

    /// Appends an entry; once this returns, it survives a power failure.
    pub(crate) fn append(&mut self, entry: &JournalEntry) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(entry).map_err(|e| self.unwritable(&e))?;
        // JSON has no NaN and no infinity: they would be written, and never read again.
        serde_json::from_slice::<JournalEntry>(&line).map_err(|e| self.unwritable(&e))?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // A part of the line may be there; without this the next entry would join it.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(StoreError::io("write", &self.path, error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn unwritable(&self, error: &serde_json::Error) -> StoreError {
        StoreError::Unwritable { path: self.path.clone(), reason: error.to_string() }
    }
}
