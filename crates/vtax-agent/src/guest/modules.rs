//! Kernel modules from the initrd.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::error::GuestError;

/// Loads every module in `dir` in the order of the names, and removes the files, which are memory.
pub(super) fn load_all(dir: &Path) -> Result<(), GuestError> {
    let entries = fs::read_dir(dir).map_err(GuestError::call("list", dir.display().to_string()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in &files {
        load(path)?;
        fs::remove_file(path).map_err(GuestError::call("remove", path.display().to_string()))?;
    }
    Ok(())
}

fn load(path: &Path) -> Result<(), GuestError> {
    let file = File::open(path).map_err(GuestError::call("open", path.display().to_string()))?;
    match rustix::system::finit_module(&file, c"", 0) {
        // Another module's `request_module` can't have been faster: there is no modprobe here.
        // A module may still be built in under another name.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(GuestError::call("load module", path.display().to_string())(e)),
    }
}
