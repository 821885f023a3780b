//! What can go wrong with a run directory.

use std::io;
use std::path::{Path, PathBuf};

use crate::HOSTS_FILE;

/// What can go wrong with a run directory; every variant names the file and the way out.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The path is no run directory at all.
    #[error("{} is not a run directory: {reason}", path.display())]
    NotARun {
        /// The path as given.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// A file has a version that this vtax doesn't know.
    #[error(
        "{}: version {found}, written by a newer vtax; this one reads up to version {known}. Update vtax to use this run",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version this vtax reads.
        known: u32,
    },
    /// A file is not what vtax wrote.
    #[error("{}{place}: damaged: {reason}; {way_out}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it: empty or `:LINE`.
        place: String,
        /// What is wrong.
        reason: String,
        /// What to do.
        way_out: &'static str,
    },
    /// Another vtax writes to this run.
    #[error("{} is in use by another vtax; wait until it is done, or stop it", path.display())]
    Locked {
        /// The run directory.
        path: PathBuf,
    },
    /// A new run would overwrite something.
    #[error("{} already exists and is not empty; choose another --out{}", path.display(), or_resume(path))]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// No space, or a quota or file size limit reached.
    #[error(
        "no space left to write {}; what was written before is kept: free some space, then give the same \
         command again, or go on with a run by `vtax run --resume RUN`",
        path.display()
    )]
    Full {
        /// The file that could not be written.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A record holds something that could not be read back, such as a number that isn't finite.
    #[error("{}: refused to write a record that could not be read back: {reason}", path.display())]
    Unwritable {
        /// The file it was meant for.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Any other failed system call.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// `open`, `read`, `write`...
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// What else can be done with a directory that isn't empty: go on with the run in it, where there is one that isn't a smoke test, or one
/// for each host.
fn or_resume(path: &Path) -> &'static str {
    let holds = |file: &str| path.join(file).exists();
    let is_smoke_test =
        || crate::RunDir::open(path).and_then(|run| run.plan()).is_ok_and(|p| vtax_plan::is_smoke_test(&p));
    if (holds("journal.jsonl") && !is_smoke_test()) || holds(HOSTS_FILE) {
        ", or continue the run in it with --resume"
    } else {
        ""
    }
}

impl StoreError {
    /// Classifies a failed system call: a full disk is told apart, since what helps is different.
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, source }
            }
            _ => Self::Io { operation, path, source },
        }
    }

    /// A damaged file of a trial: that trial can be repeated.
    pub(crate) fn damaged_trial(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            place: String::new(),
            reason: reason.to_string(),
            way_out: "restore the file or delete it (the report then leaves out what it held)",
        }
    }

    /// True where the run directory itself is at fault (bad input), not the host.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Full { .. } | Self::Io { .. } | Self::Unwritable { .. })
            || matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_can_be_continued() {
        let directory = tempfile::tempdir().unwrap();
        let text = || StoreError::Exists { path: directory.path().to_owned() }.to_string();
        std::fs::write(directory.path().join("notes.txt"), "").unwrap();
        assert!(text().ends_with("choose another --out"), "{}", text());
        for file in ["journal.jsonl", HOSTS_FILE] {
            std::fs::write(directory.path().join(file), "").unwrap();
            assert!(text().ends_with("the run in it with --resume"), "{}", text());
            std::fs::remove_file(directory.path().join(file)).unwrap();
        }
    }
}
