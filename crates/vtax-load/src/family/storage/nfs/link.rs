//! A connection to a server with what is known of it: before and after the load, one call at a time.

use std::time::{Duration, Instant};

use vtax_wire::nfs::{Handle, status};
use vtax_wire::nfs4::FileFacts;

use super::dialect::{Dialect, Files, Line, Open};
use super::spec::NfsSpec;
use super::wire::{LinkError, Linked, Wire};
use super::{AROUND, TRANSFER};
use crate::family::storage::client::{Stream, Streamed};

/// How long a server may take to say that a session is gone.
const LEAVE: Duration = Duration::from_secs(1);
/// Names that a directory may have for vtax to empty it.
const NAMES_MAX: usize = 10_000_000;

/// One connection.
#[derive(Debug)]
pub(super) struct Link<D> {
    pub(super) wire: Wire,
    pub(super) dialect: D,
    pub(super) facts: FileFacts,
    pub(super) files: Files,
}

/// Where the small files of a process are.
pub(super) fn names_of(worker: usize) -> String {
    format!("vtax-{worker}.d")
}

/// A data file's name.
pub(super) fn file_of(worker: usize, file: u32) -> String {
    format!("vtax-{worker}-{file}")
}

impl<D> Streamed for Link<D> {
    fn stream(&self) -> &Stream {
        &self.wire.stream
    }
}

impl<D: Dialect> Link<D> {
    /// Connects for so many calls at once, and walks to the directory.
    pub(super) fn open(spec: &NfsSpec, owner: &[u8], depth: u16, until: Instant) -> Linked<Self> {
        let (mut dialect, mut wire, directory) = D::begin(spec, owner, depth, until)?;
        let facts = dialect.file_system(&mut Line { wire: &mut wire, until }, &directory)?;
        let files = Files { directory, names: None, open: Vec::new() };
        Ok(Self { wire, dialect, facts, files })
    }

    /// The dialect, and what it is spoken on; and what calls are about.
    fn parts(&mut self, until: Instant) -> (&mut D, Line<'_>, &Files) {
        (&mut self.dialect, Line { wire: &mut self.wire, until }, &self.files)
    }

    /// What has this name in the directory, if anything has.
    pub(super) fn look_up(&mut self, name: &str, until: Instant) -> Linked<Option<Handle>> {
        let (dialect, mut line, files) = self.parts(until);
        match dialect.look_up(&mut line, &files.directory, name) {
            Err(LinkError::Nfs(error)) if error.status() == Some(status::NOENT) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Opens a data file, making it where it isn't there; its size.
    pub(super) fn open_file(&mut self, name: &str, until: Instant) -> Linked<(Open, u64)> {
        let (dialect, mut line, files) = self.parts(until);
        dialect.open_file(&mut line, &files.directory, name)
    }

    /// The directory of this name, made where it isn't there.
    pub(super) fn make_directory(&mut self, name: &str, until: Instant) -> Linked<Handle> {
        let (dialect, mut line, files) = self.parts(until);
        dialect.make_directory(&mut line, &files.directory, name)
    }

    /// The first bytes of a file.
    pub(super) fn head(&mut self, open: Open, length: u32, until: Instant) -> Linked<Vec<u8>> {
        let (dialect, mut line, _) = self.parts(until);
        dialect.head(&mut line, open, length)
    }

    /// Gives a file this size.
    pub(super) fn set_size(&mut self, open: Open, size: u64, until: Instant) -> Linked<()> {
        let (dialect, mut line, _) = self.parts(until);
        dialect.set_size(&mut line, open, size)
    }

    /// Closes a file.
    pub(super) fn close(&mut self, open: Open, until: Instant) -> Linked<()> {
        let (dialect, mut line, _) = self.parts(until);
        dialect.close(&mut line, open)
    }

    /// Closes all files.
    pub(super) fn close_all(&mut self, until: Instant) -> Linked<()> {
        let mut open = std::mem::take(&mut self.files.open).into_iter();
        let (dialect, mut line, _) = self.parts(until);
        open.try_for_each(|open| dialect.close(&mut line, open))
    }

    /// Removes a file; that it isn't there is no failure.
    pub(super) fn remove(&mut self, directory: &Handle, name: &str, until: Instant) -> Linked<()> {
        let (dialect, mut line, _) = self.parts(until);
        gone(dialect.remove(&mut line, directory, name))
    }

    /// Removes an empty directory; that it isn't there is no failure.
    pub(super) fn remove_directory(&mut self, name: &str, until: Instant) -> Linked<()> {
        let (dialect, mut line, files) = self.parts(until);
        gone(dialect.remove_directory(&mut line, &files.directory, name))
    }

    /// All names in a directory.
    pub(super) fn list(&mut self, directory: &Handle, until: Instant) -> Linked<Vec<String>> {
        let mut names = Vec::new();
        let mut from = (0, [0; 8]);
        loop {
            let mut each = |name: &[u8]| names.push(String::from_utf8_lossy(name).into_owned());
            let (dialect, mut line, _) = self.parts(until);
            let found = dialect.list(&mut line, directory, from, &mut each)?;
            if found.end {
                return Ok(names);
            }
            // A directory that goes on without anything in it never ends.
            if !found.any || names.len() > NAMES_MAX {
                return Err(LinkError::Order("a directory without an end"));
            }
            from = (found.cookie, found.verifier);
        }
    }

    /// Takes leave of the server, as far as it answers in time.
    pub(super) fn leave(&mut self) -> Linked<()> {
        let until = Instant::now() + LEAVE;
        self.close_all(until)?;
        let (dialect, mut line, _) = self.parts(until);
        dialect.leave(&mut line)
    }

    /// Bytes that are free, where the server says so: one of files in its own memory has no size at all.
    pub(super) fn free(&self) -> Option<u64> {
        self.facts.free.filter(|_| self.facts.total.is_some_and(|total| total > 0))
    }

    /// Longest read and write of one call.
    pub(super) fn longest(&self) -> (u32, u32) {
        let most = |agreed: u32, own: Option<u64>| {
            let own =
                own.filter(|own| *own > 0).unwrap_or(u64::from(TRANSFER)).min(u64::from(TRANSFER)) as u32;
            // Whole blocks, as what a caller writes is made of them.
            (agreed.saturating_sub(AROUND) / 4096 * 4096).max(4096).min(own)
        };
        let (answer, call) = self.dialect.longest();
        (most(answer, self.facts.longest_read), most(call, self.facts.longest_write))
    }
}

fn gone(removed: Linked<()>) -> Linked<()> {
    match removed {
        Err(LinkError::Nfs(error)) if error.status() == Some(status::NOENT) => Ok(()),
        other => other,
    }
}
