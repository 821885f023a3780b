//! What the page cache of a node holds of files, and having it forget them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, fdatasync};
use vtax_sys::residency::resident_bytes;

/// Most files that are looked at.
const FILES_MAX: usize = 100_000;
/// How deep below the directory.
const DEPTH_MAX: usize = 4;

/// Makes the files below a directory durable and has the page cache forget them, whoever has them open. The bytes that it still
/// holds of them, and the bytes of all.
pub(crate) fn drop_files(directory: &Path) -> io::Result<(u64, u64)> {
    let mut files = Vec::new();
    collect(directory, DEPTH_MAX, &mut files)?;
    let (mut held, mut of) = (0, 0);
    for path in &files {
        // One that was removed meanwhile holds nothing.
        let Ok(file) = File::open(path) else { continue };
        fdatasync(&file)?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let length = file.metadata()?.len();
        held += resident_bytes(&file, length).map_err(io::Error::other)?;
        of += length;
    }
    Ok((held, of))
}

fn collect(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, files)?;
        } else if kind.is_file() && files.len() < FILES_MAX {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_dropped_and_what_is_held_is_known() {
        // Below the working directory: a tmpfs can't forget what it holds.
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("file"), vec![1; 1 << 20]).unwrap();
        let (held, of) = drop_files(directory.path()).unwrap();
        assert_eq!(of, 1 << 20);
        assert!(held < of, "{held}");
        assert!(drop_files(&directory.path().join("none")).is_err());
    }
}
