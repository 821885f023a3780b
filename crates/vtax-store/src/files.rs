//! Small file operations whose failures name the file.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use crate::StoreError;

/// Opens a regular file for reading. Anything else is refused: a FIFO would block for ever, and a link may lead to what
/// is none of the run's, which a report would then show to whoever gets it.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    let meta = fs::symlink_metadata(path).map_err(|e| StoreError::io("open", path, e))?;
    if meta.is_symlink() {
        return Err(is_link(path));
    }
    if !meta.is_file() {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            place: String::new(),
            reason: "it is not a regular file".to_owned(),
            way_out: "restore the run directory from a copy",
        });
    }
    File::open(path).map_err(|e| StoreError::io("open", path, e))
}

/// Refuses a path of which some part below `root` is a symbolic link: a run directory has none, and where one leads is
/// nobody's to read or to write.
pub(crate) fn own(root: &Path, path: &Path) -> Result<(), StoreError> {
    let below = path.ancestors().take_while(|part| *part != root && part.starts_with(root));
    match below.filter(|part| part.is_symlink()).last() {
        Some(link) => Err(is_link(link)),
        None => Ok(()),
    }
}

fn is_link(path: &Path) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        place: String::new(),
        reason: "it is a symbolic link, and vtax makes none in a run directory".to_owned(),
        way_out: "put what it leads to in its place, if it belongs there",
    }
}

/// Reads a whole text file of at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, StoreError> {
    let mut text = String::new();
    let file = open(path)?;
    match file.take(limit + 1).read_to_string(&mut text) {
        Ok(n) if n as u64 > limit => Err(StoreError::Damaged {
            path: path.to_owned(),
            place: String::new(),
            reason: format!("it is larger than {} MiB", limit >> 20),
            way_out: "vtax never writes such a file; restore it from a copy",
        }),
        Ok(_) => Ok(text),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => Err(StoreError::Damaged {
            path: path.to_owned(),
            place: String::new(),
            reason: "it is not UTF-8 text".to_owned(),
            way_out: "restore it from a copy",
        }),
        Err(e) => Err(StoreError::io("read", path, e)),
    }
}

/// Replaces `path` by `bytes`, so that a reader or a crash sees the old file or the new one, whole.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let result = write_synced(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path).map_err(|e| StoreError::io("replace", path, e)));
    match result {
        Ok(()) => sync_directory(path.parent().unwrap_or(Path::new("."))),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            // The reader knows the file by its real name.
            Err(match error {
                StoreError::Full { source, .. } => StoreError::Full { path: path.to_owned(), source },
                other => other,
            })
        }
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    // A leftover or a planted symbolic link of that name must not be written through.
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io("remove", path, e)),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| StoreError::io("create", path, e))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|e| StoreError::io("write", path, e))
}

/// Makes the names in a directory durable (`fsync(2)`: the file's own fsync doesn't).
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(|e| StoreError::io("sync", path, e))
}
