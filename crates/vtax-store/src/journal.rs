//! `journal.jsonl`: one JSON object per line, appended and synced. Only `--resume` of an older run replaces it, whole, by the same lines
//! in today's version.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::journal2;
use crate::record::JournalEntry;
use crate::unknown::Unknown;

/// Version of the journal and with it of the whole run directory.
/// 2: trials without a steady state, rounds, pairs.
/// 3: host and run of a trial, observations in place of one outcome, what is unknown can be read.
pub const JOURNAL_VERSION: u32 = 3;

/// Minor version of the journal: raised by each new event, finding, reason or field that an older reader of the
/// same version may leave out.
/// 1: failures that nobody asked for, trials that lost their protection.
/// 2: what a family of requests found besides (`details`: `ftp`, `desktop`), limits of the 95th percentile.
/// 3: where packets spent their time on the way through routers (`hops`).
/// 4: generators on hosts of their own (`generators`).
/// 5: requests whose time was not over when the load ended (`waiting`).
/// 6: how long an answer was waited for (`timeout`).
/// 7: notes that foretell what a run will tell (`forecast_of`).
/// 8: what probes between routers lost before anything was done (`before`).
/// 9: whether clients saw an outage after a fault (`outage`).
/// 10: what came within the recorded time (`bytes_in_time`, `replies_in_time`), what a server of transactions sent
/// again (`server_again`).
/// 11: medians of SIP over all attempts (`median_of_attempts_ns`).
pub const JOURNAL_MINOR: u32 = 12;

/// Longest line read. A trial's line holds histograms, tens of KiB in practice, and of desktops a picture, some 100 KiB.
pub(crate) const LINE_LIMIT: u64 = 16 << 20;

/// The entries of a journal in order, read one at a time so that a long run needs little memory.
///
/// A last line without its newline was torn by a crash or is being written: it is left out.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    reader: BufReader<File>,
    line: usize,
    /// Whole lines read so far.
    lines: usize,
    /// Length of all whole lines read so far, in bytes.
    pub(crate) whole: u64,
    done: bool,
    /// Version and minor version, once the first line was read.
    version: (u32, u32),
    /// Notes about what the last entry held that this vtax doesn't know.
    notes: VecDeque<JournalEntry>,
    unknown: Unknown,
}

/// What every line has, and the first line besides.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
struct Head {
    event: String,
    version: u32,
    minor: u32,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let file = crate::files::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::new(file),
            line: 0,
            lines: 0,
            whole: 0,
            done: false,
            version: (0, 0),
            notes: VecDeque::new(),
            unknown: Unknown::default(),
        })
    }

    fn damaged(&self, reason: String) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            place: format!(":{}", self.line),
            reason,
            way_out: "restore the run directory from a copy, or delete this line to give up what it records",
        }
    }

    /// Version and minor version that the first line gives; zeros before it was read.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Goes back to the end of the last whole line, so that the iterator gives what was written since it ended.
    ///
    /// False where the file is no longer the run's journal, as `--resume` replaced it by one of today's version: then
    /// it has to be read anew.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] where the file can't be read.
    pub fn go_on(&mut self) -> Result<bool, StoreError> {
        let error = |e| StoreError::io("read", &self.path, e);
        let now = std::fs::metadata(&self.path).map_err(error)?;
        let mine = self.reader.get_ref().metadata().map_err(error)?;
        if (now.dev(), now.ino()) != (mine.dev(), mine.ino()) || now.len() < self.whole {
            return Ok(false);
        }
        self.reader.seek(SeekFrom::Start(self.whole)).map_err(error)?;
        (self.line, self.done) = (self.lines, false);
        Ok(true)
    }

    fn read(&mut self) -> Result<Option<JournalEntry>, StoreError> {
        loop {
            if let Some(note) = self.notes.pop_front() {
                return Ok(Some(note));
            }
            let Some(bytes) = self.read_line()? else { return Ok(None) };
            if self.line == 1 {
                // A newer journal may hold entries this vtax can't parse, so its version is looked at first.
                self.check_version(&bytes)?;
            }
            if let Some(entry) = self.understand(&bytes)? {
                return Ok(Some(entry));
            }
        }
    }

    /// The next whole line without its end; `None` at the end of what was written.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
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
        self.lines += 1;
        Ok(Some(bytes))
    }

    /// The entry of a line, or a note in its place where it is of an unknown kind; `None` where that was told.
    fn understand(&mut self, line: &[u8]) -> Result<Option<JournalEntry>, StoreError> {
        let entry: JournalEntry = match self.parse(line) {
            Ok(entry) => entry,
            Err(error) => {
                let head = serde_json::from_slice::<Head>(line).unwrap_or_default();
                if head.event.is_empty() || JournalEntry::EVENTS.contains(&head.event.as_str()) {
                    return Err(self.damaged(format!("not a journal entry: {error}")));
                }
                return Ok(self.unknown.event(&head.event));
            }
        };
        // In a journal of this minor version everything is known, and looking for the rest costs time.
        if self.version.1 > JOURNAL_MINOR
            && let (Ok(written), Ok(understood)) =
                (serde_json::from_slice(line), serde_json::to_value(&entry))
        {
            self.notes.extend(self.unknown.parts(&written, &understood));
        }
        Ok(Some(entry))
    }

    fn parse(&self, line: &[u8]) -> serde_json::Result<JournalEntry> {
        if self.version.0 < 3 && serde_json::from_slice::<Head>(line)?.event == "trial-ended" {
            let trial: journal2::Trial = serde_json::from_slice(line)?;
            return Ok(JournalEntry::TrialEnded(Box::new(trial.into())));
        }
        serde_json::from_slice(line)
    }

    fn check_version(&mut self, line: &[u8]) -> Result<(), StoreError> {
        let head = serde_json::from_slice::<Head>(line).unwrap_or_default();
        if head.event != "opened" || head.version == 0 {
            return Err(self.damaged("it does not start with an `opened` entry".to_owned()));
        }
        if head.version > JOURNAL_VERSION {
            let (path, found) = (self.path.clone(), head.version);
            return Err(StoreError::Newer { path, found, known: JOURNAL_VERSION });
        }
        self.version = (head.version, head.minor);
        Ok(())
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
        self.write(entry, true)
    }

    /// Appends an entry, and `sync` says whether at once for good.
    pub(crate) fn write(&mut self, entry: &JournalEntry, sync: bool) -> Result<(), StoreError> {
        let unwritable = |e: serde_json::Error| self.unwritable(e.to_string());
        let mut line = serde_json::to_vec(entry).map_err(unwritable)?;
        // Readers stop at a line that is longer: one would make the whole run unreadable.
        if line.len() as u64 >= LINE_LIMIT {
            let (long, most) = (line.len() >> 20, LINE_LIMIT >> 20);
            return Err(self.unwritable(format!(
                "it takes {long} MiB, and less than {most} MiB can be read; a shorter measurement or fewer tests in a \
                 trial take less"
            )));
        }
        // JSON has no NaN and no infinity: they would be written, and never read again.
        serde_json::from_slice::<JournalEntry>(&line).map_err(unwritable)?;
        line.push(b'\n');
        let synced = |file: &File| if sync { file.sync_data() } else { Ok(()) };
        if let Err(error) = self.file.write_all(&line).and_then(|()| synced(&self.file)) {
            // A part of the line may be there; without this the next entry would join it.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(StoreError::io("write", &self.path, error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Appends what another journal has in this range of its bytes, whole lines, without waiting for the disk.
    pub(crate) fn copy(&mut self, other: &Path, range: Range<u64>) -> Result<(), StoreError> {
        let failed = |e| StoreError::io("copy", other, e);
        let mut lines = crate::files::open(other)?;
        lines.seek(SeekFrom::Start(range.start)).map_err(failed)?;
        let length = range.end.saturating_sub(range.start);
        let copied = std::io::copy(&mut lines.take(length), &mut self.file).map_err(failed)?;
        // The journal got shorter since it was read: what it lacks must not be lost without a word.
        if copied != length {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        self.length += copied;
        Ok(())
    }

    /// The same journal under the name that it has now.
    pub(crate) fn at(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    fn unwritable(&self, reason: String) -> StoreError {
        StoreError::Unwritable { path: self.path.clone(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_lacks_something_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        std::fs::write(&old, "one\ntwo\n").unwrap();
        let mut copy = Appender::new(&new, File::create(&new).unwrap(), 0).unwrap();
        copy.copy(&old, 4..8).unwrap();
        assert_eq!(copy.length, 4);
        assert_eq!(std::fs::read(&new).unwrap(), b"two\n");
        let error = copy.copy(&old, 4..12).unwrap_err();
        assert!(
            matches!(&error, StoreError::Io { operation: "copy", path, .. } if *path == old),
            "{error:?}"
        );
        assert_eq!(copy.length, 4, "what is appended next would follow a part of a line");
    }
}
