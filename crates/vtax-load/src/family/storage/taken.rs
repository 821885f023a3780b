//! A place of this system that a load has for itself: two on the same files would take each other's data for lost.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use vtax_sys::aligned::Aligned;

use super::pattern::MARK;
use super::spec::LocalSpec;
use super::target::StorageError;

/// How often a lock is tried. udev holds one of a device for a moment, to look at what is on it.
const TRIES: u32 = 10;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// What a load has of its place.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Held for as long as the load works there. None where there is nothing to lock, or the file system has no locks.
    pub(super) lock: Option<File>,
    /// It is one file, which wasn't there before.
    pub(super) made: bool,
    /// It is one file, which is empty, vtax's or to be overwritten.
    pub(super) own: bool,
}

/// Takes a directory, file or device. A single file is made and looked at here, before any process writes to it: to another, what
/// a process has just written may look like somebody else's.
pub(super) fn take(spec: &LocalSpec) -> Result<Taken, StorageError> {
    let path = Path::new(&spec.path);
    let made = !path.is_dir() && File::create_new(path).is_ok();
    let lock = locked(path)?;
    let mut own = false;
    // Whoever can't open it is told why when the processes do.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        if !spec.overwrite && content(&file)? == Content::Foreign {
            return Err(foreign(path, path));
        }
        own = true;
    }
    Ok(Taken { lock, made, own })
}

/// The path, locked.
fn locked(path: &Path) -> Result<Option<File>, StorageError> {
    for _ in 0..TRIES {
        let Ok(file) = File::open(path) else { return Ok(None) };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&file, path) => return Ok(Some(file)),
            // Whoever had it has removed it at its end.
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
            // Some file systems have none.
            Err(_) => return Ok(None),
        }
    }
    Err(StorageError::Refused { reason: format!("another vtax works in {}", path.display()) })
}

/// Whether the path still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

/// Whose what a file or device holds is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// It is empty.
    None,
    /// It begins with vtax's mark.
    Own,
    /// It begins with something else.
    Foreign,
}

/// What a file or device holds.
pub(super) fn content(file: &File) -> Result<Content, StorageError> {
    if super::local::length_of(file) == 0 {
        return Ok(Content::None);
    }
    // A page, as direct I/O reads no less.
    let mut head = Aligned::new(4096).map_err(|e| StorageError::Refused { reason: e.to_string() })?;
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    let is_own = read >= 8 && head[..8] == MARK.to_le_bytes();
    Ok(if is_own { Content::Own } else { Content::Foreign })
}

/// A target, or what is in it, holds what isn't vtax's.
pub(super) fn foreign(target: &Path, what: &Path) -> StorageError {
    let name = what.to_string_lossy();
    let name = if what == target { "it" } else { &*name };
    let reason = format!("{name} holds something that vtax didn't write");
    StorageError::Foreign { target: target.display().to_string(), reason }
}
