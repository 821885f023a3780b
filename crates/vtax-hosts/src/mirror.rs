//! What a host stored, stored here. The host may be anyone's, so only names that a run has are taken, and only so much.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::agent::{hex, is_of_observation};
use crate::error::HostsError;
use crate::message::{MOST_PIECE, Record};

/// The most bytes that are taken from one host.
const MOST_BYTES: u64 = 64 << 30;
/// The most files.
const MOST_FILES: u32 = 1_000_000;

/// The most bytes that are taken of a file that is short by nature, such as a doctor's answer.
pub const SMALL_FILE_BYTES: u64 = 16 << 20;

const JOURNAL: &str = "journal.jsonl";
/// Files of a run directory besides the journal and those of trials.
const FILES: [&str; 4] = ["plan.yaml", "provenance.json", "calibration.json", "doctor.json"];
/// Those of them that are short by nature.
const SMALL_FILES: [&str; 2] = ["calibration.json", "doctor.json"];

/// A run directory that grows as the one on the host does.
#[derive(Debug)]
pub(crate) struct Mirror {
    directory: PathBuf,
    journal: Option<File>,
    journal_length: u64,
    part: Option<Part>,
    /// Directories in which names have changed since the journal was written.
    unsynced: BTreeSet<PathBuf>,
    bytes: u64,
    files: u32,
}

/// A file of which the last piece hasn't come.
#[derive(Debug)]
struct Part {
    name: String,
    temporary: PathBuf,
    file: File,
    length: u64,
    digest: Sha256,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> HostsError + use<> {
    let path = path.to_owned();
    move |source| HostsError::File { what, path, source }
}

fn wrong(reason: impl Into<String>) -> HostsError {
    HostsError::Stream(reason.into())
}

impl Mirror {
    /// Stores into this directory, which is made with the first piece.
    pub(crate) fn new(directory: PathBuf) -> Self {
        let unsynced = BTreeSet::new();
        Self { directory, journal: None, journal_length: 0, part: None, unsynced, bytes: 0, files: 0 }
    }

    /// Stores a piece. The journal's survive a power failure once this returns, and so does every file that came before.
    pub(crate) fn take(&mut self, bytes: &[u8], record: &Record) -> Result<(), HostsError> {
        let Record::Piece { path, offset, sha256 } = record else { return Ok(()) };
        if bytes.len() > MOST_PIECE || !is_of_a_run(path) {
            return Err(wrong(format!("a piece of `{}` that no run has", path.escape_debug())));
        }
        self.bytes += bytes.len() as u64;
        if self.bytes > MOST_BYTES {
            return Err(wrong("more than 64 GiB"));
        }
        if path == JOURNAL {
            return self.append(bytes, *offset);
        }
        let is_small = SMALL_FILES.contains(&path.as_str());
        if is_small && offset.saturating_add(bytes.len() as u64) > SMALL_FILE_BYTES {
            return Err(wrong(format!("more than {} MiB of `{path}`", SMALL_FILE_BYTES >> 20)));
        }
        let part = match self.part.take() {
            Some(part) if part.name == *path && part.length == *offset => part,
            None if *offset == 0 => self.begin(path)?,
            _ => return Err(wrong(format!("pieces of `{path}` that don't follow each other"))),
        };
        self.part = part.grown(bytes, sha256.as_deref(), &self.directory)?;
        if self.part.is_none() {
            // It has its name, and the directories on the way to it may be new.
            let file = self.directory.join(path);
            let changed = file.ancestors().skip(1).take_while(|place| place.starts_with(&self.directory));
            self.unsynced.extend(changed.map(Path::to_owned));
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8], offset: u64) -> Result<(), HostsError> {
        let path = self.directory.join(JOURNAL);
        if offset != self.journal_length {
            return Err(wrong("lines of the journal that don't follow each other"));
        }
        if self.journal.is_none() {
            create_directory(&self.directory)?;
            let new = OpenOptions::new().write(true).create_new(true).open(&path);
            let new = new.map_err(failed("cannot create", &path))?;
            // As of a run that is made here: it goes on, and must not be resumed meanwhile.
            vtax_store::lock_journal(&new, &self.directory)?;
            self.journal = Some(new);
            self.unsynced.insert(self.directory.clone());
            let parent = self.directory.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.unsynced.extend(parent.map(Path::to_owned));
        }
        // What a line tells of is there before the line is.
        for directory in std::mem::take(&mut self.unsynced) {
            File::open(&directory)
                .and_then(|opened| opened.sync_all())
                .map_err(failed("cannot sync", &directory))?;
        }
        if let Some(journal) = &mut self.journal {
            journal
                .write_all(bytes)
                .and_then(|()| journal.sync_data())
                .map_err(failed("cannot write", &path))?;
        }
        self.journal_length += bytes.len() as u64;
        Ok(())
    }

    fn begin(&mut self, name: &str) -> Result<Part, HostsError> {
        self.files += 1;
        if self.files > MOST_FILES {
            return Err(wrong("more than a million files"));
        }
        let path = self.directory.join(name);
        create_directory(path.parent().unwrap_or(&self.directory))?;
        let temporary = self.directory.join("piece.tmp");
        // What an earlier file left that never became whole.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.map_err(failed("cannot create", &temporary))?;
        Ok(Part { name: name.to_owned(), temporary, file, length: 0, digest: Sha256::new() })
    }
}

impl Part {
    /// The file with a piece more; `None` once it is whole and under its name.
    fn grown(mut self, bytes: &[u8], sha256: Option<&str>, run: &Path) -> Result<Option<Self>, HostsError> {
        self.file.write_all(bytes).map_err(failed("cannot write", &self.temporary))?;
        self.length += bytes.len() as u64;
        self.digest.update(bytes);
        let Some(told) = sha256 else { return Ok(Some(self)) };
        if hex(self.digest) != told {
            return Err(wrong(format!("`{}` came with another content than it was sent with", self.name)));
        }
        let path = run.join(&self.name);
        self.file.sync_all().map_err(failed("cannot write", &path))?;
        fs::rename(&self.temporary, &path).map_err(failed("cannot replace", &path))?;
        Ok(None)
    }
}

fn create_directory(path: &Path) -> Result<(), HostsError> {
    fs::create_dir_all(path).map_err(failed("cannot create", path))
}

/// Whether a run directory may have a file of this name.
fn is_of_a_run(path: &str) -> bool {
    let digits = |text: &str| (3..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    // Services and nodes give logs their names.
    let plain = |text: &str| {
        (1..=200).contains(&text.len()) && !text.starts_with('.') && !text.chars().any(char::is_control)
    };
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name == JOURNAL || FILES.contains(name),
        // Not where there is a directory of a trial, or is to be one.
        ["trials", trial, name] => {
            digits(trial) && plain(name) && *name != "logs" && !is_of_observation(name)
        }
        ["trials", trial, "logs", name] => digits(trial) && plain(name),
        ["trials", trial, folder, name] => digits(trial) && is_of_observation(folder) && plain(name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn piece(path: &str, offset: u64, sha256: Option<String>) -> Record {
        Record::Piece { path: path.to_owned(), offset, sha256 }
    }

    fn sha(bytes: &[u8]) -> Option<String> {
        let mut digest = Sha256::new();
        digest.update(bytes);
        Some(hex(digest))
    }

    #[test]
    fn files_appear_whole_and_the_journal_grows() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let mut mirror = Mirror::new(run.clone());
        mirror.take(b"{\"event\"", &piece(JOURNAL, 0, None)).unwrap();
        mirror.take(b":1}\n", &piece(JOURNAL, 8, None)).unwrap();
        mirror.take(b"ab", &piece("trials/000/events.jsonl", 0, None)).unwrap();
        assert!(!run.join("trials/000/events.jsonl").exists());
        // Lines of the journal may come between the pieces of a file.
        mirror.take(b"x\n", &piece(JOURNAL, 12, None)).unwrap();
        mirror.take(b"cd", &piece("trials/000/events.jsonl", 2, sha(b"abcd"))).unwrap();
        assert_eq!(fs::read(run.join("trials/000/events.jsonl")).unwrap(), b"abcd");
        assert_eq!(fs::read(run.join(JOURNAL)).unwrap(), b"{\"event\":1}\nx\n");
        // Provenance comes again at the end.
        for text in [b"one", b"two"] {
            mirror.take(text, &piece("provenance.json", 0, sha(text))).unwrap();
        }
        assert_eq!(fs::read(run.join("provenance.json")).unwrap(), b"two");
    }

    #[test]
    fn a_run_that_arrives_is_one_that_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let mut mirror = Mirror::new(run.clone());
        mirror.take(b"{}\n", &piece(JOURNAL, 0, None)).unwrap();
        assert!(vtax_store::is_written(&run));
        let other = OpenOptions::new().write(true).open(run.join(JOURNAL)).unwrap();
        let refused = vtax_store::lock_journal(&other, &run).unwrap_err();
        assert!(matches!(refused, vtax_store::StoreError::Locked { .. }), "{refused}");
        drop(mirror);
        // What other tests start has the lock too until it is another program.
        let begun = Instant::now();
        while vtax_store::is_written(&run) && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!vtax_store::is_written(&run));
        vtax_store::lock_journal(&other, &run).unwrap();
    }

    #[test]
    fn what_no_vtax_sends_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = || Mirror::new(dir.path().join("run"));
        let refused = |mut mirror: Mirror, bytes: &[u8], record: &Record| {
            mirror.take(bytes, record).unwrap_err().to_string()
        };
        for path in [
            "",
            "/etc/passwd",
            "../x",
            "trials/../x",
            "trials/000/../../x",
            "trials/000/logs/../x",
            "trials/0/x",
            "trials/000/.x",
            "report.html",
            "trials/000",
            "trials/000/logs/a/b",
            "trials/000/a\0b",
            "trials/000/observation-/x",
            "trials/000/observation-1a/x",
            "trials/000/observation-1234567890/x",
            "trials/000/observation-1/..",
            "trials/000/observation-1/a/b",
            "trials/0/observation-1/x",
            "trials/000/else/x",
            "trials/000/logs",
            "trials/000/observation-1",
        ] {
            let text = refused(mirror(), b"x", &piece(path, 0, sha(b"x")));
            assert!(text.contains("no run has"), "{path}: {text}");
        }
        let most = "x".repeat(MOST_PIECE + 1).into_bytes();
        assert!(refused(mirror(), &most, &piece("plan.yaml", 0, None)).contains("no run has"));
        mirror().take(&most[1..], &piece("plan.yaml", 0, None)).unwrap();
        assert!(refused(mirror(), b"x", &piece("plan.yaml", 1, None)).contains("follow each other"));
        assert!(refused(mirror(), b"x", &piece(JOURNAL, 5, None)).contains("follow each other"));
        assert!(refused(mirror(), b"x", &piece("plan.yaml", 0, sha(b"y"))).contains("another content"));
        let mut half = mirror();
        half.take(b"x", &piece("plan.yaml", 0, None)).unwrap();
        assert!(refused(half, b"x", &piece("calibration.json", 0, None)).contains("follow each other"));
        assert!(!dir.path().join("x").exists());
    }

    #[test]
    fn an_answer_that_is_to_be_read_whole_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let mut mirror = Mirror::new(dir.path().join("run"));
        let bytes = vec![b' '; MOST_PIECE];
        for at in 0..SMALL_FILE_BYTES / MOST_PIECE as u64 {
            mirror.take(&bytes, &piece("doctor.json", at * MOST_PIECE as u64, None)).unwrap();
        }
        let error = mirror.take(b"x", &piece("doctor.json", SMALL_FILE_BYTES, sha(b"x"))).unwrap_err();
        assert!(error.to_string().contains("more than 16 MiB of `doctor.json`"), "{error}");
        assert!(!dir.path().join("run/doctor.json").exists());
    }

    proptest! {
        #[test]
        fn no_name_leads_out_of_the_directory(path in "[a-z0-9./]{0,30}") {
            if is_of_a_run(&path) {
                prop_assert!(!path.contains("..") || !path.split('/').any(|part| part == ".."));
                prop_assert!(!path.starts_with('/'));
            }
        }
    }
}
