//! Directories of a process's own, removed with it; where it was killed, by the next one that makes such a directory there.
//!
//! Beside a directory `NAME` is a file `NAME.lock`, which its process has locked. The lock is there before the directory and goes after
//! it, so that there is no moment at which a killed process leaves what nobody may sweep. Ids of processes would tell nothing apart: each
//! controller is process 1 of its own.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Context, Result, SysError};

/// What the name of a lock ends with.
const LOCK: &str = ".lock";
/// How many names are tried where sweeps of others get each lock first.
const ATTEMPTS: usize = 100;

/// A directory with a lock; removed when dropped.
#[derive(Debug)]
pub struct LockedDir {
    path: PathBuf,
    lock: PathBuf,
    /// Locked as long as it is open.
    _held: File,
}

impl LockedDir {
    /// Makes a directory in `parent` whose name begins with `prefix`, once what killed processes left there is removed.
    ///
    /// # Errors
    ///
    /// Where it can't be made.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self> {
        sweep(parent, prefix);
        for _ in 0..ATTEMPTS {
            let mut bytes = [0_u8; 8];
            getrandom(&mut bytes, GetRandomFlags::empty()).context("draw", "a random name")?;
            let path = parent.join(format!("{prefix}{:016x}", u64::from_ne_bytes(bytes)));
            if let Some(made) = Self::at(path)? {
                return Ok(made);
            }
        }
        Err(SysError::call("lock a directory in", shown(parent), io::ErrorKind::WouldBlock))
    }

    /// The directory of this name; `None` where a sweep was there first.
    fn at(path: PathBuf) -> Result<Option<Self>> {
        let lock = lock_of(&path);
        let held = File::options().read(true).write(true).create_new(true).mode(0o600).open(&lock);
        let held = held.context("create", shown(&lock))?;
        match held.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Where files can't be locked nobody sweeps, either.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        if !is_still_at(&held, &lock).context("look at", shown(&lock))? {
            return Ok(None);
        }
        let made = Self { path, lock, _held: held };
        fs::create_dir(&made.path).context("create", shown(&made.path))?;
        Ok(Some(made))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it.
    ///
    /// # Errors
    ///
    /// Where something of it can't be removed.
    pub fn remove(self) -> Result<()> {
        remove_if_there(&self.path).context("remove", shown(&self.path))
    }
}

impl Drop for LockedDir {
    fn drop(&mut self) {
        // What can't be removed now is swept by the next one.
        if remove_if_there(&self.path).is_ok() {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// Removes the directories in `parent` with this `prefix` that nobody holds. One that can't be removed is left to the next.
pub fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = parent.read_dir() else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let directory = name.to_str().and_then(|name| name.strip_suffix(LOCK));
        if let Some(directory) = directory.filter(|name| name.starts_with(prefix)) {
            remove_if_left(&parent.join(directory), &entry.path());
        }
    }
}

/// Removes a directory and its lock where nobody holds that. In a directory of everyone's a lock may be another user's, or no file.
fn remove_if_left(path: &Path, lock: &Path) {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Ok(held) = File::options().read(true).write(true).custom_flags(flags).open(lock) else { return };
    let user = rustix::process::geteuid().as_raw();
    let is_own = held.metadata().is_ok_and(|meta| meta.is_file() && meta.uid() == user);
    let is_left = is_own && held.try_lock().is_ok() && is_still_at(&held, lock).unwrap_or(false);
    if is_left && remove_if_there(path).is_ok() {
        let _ = fs::remove_file(lock);
    }
}

/// Whether this open file is the one that the path names: another may have been put there since, or none. A lock that was waited for
/// may be one on a file that is no more.
///
/// # Errors
///
/// Where either can't be looked at.
pub fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// The file beside a directory that is its lock.
fn lock_of(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(LOCK);
    name.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of a test's own.
    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("vtax-sys-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place).unwrap();
        place
    }

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_killed_processes_left_is_swept_and_nothing_else() {
        let place = place("swept");
        let kept = LockedDir::create(&place, "a-").unwrap();
        fs::write(kept.path().join("file"), "").unwrap();
        // One that was killed, one that was before it made its directory, another's directory, and one without a lock.
        for name in ["a-killed", "b-killed", "a-unlocked"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        fs::write(place.join("a-killed/file"), "").unwrap();
        for name in ["a-killed.lock", "a-early.lock", "b-killed.lock"] {
            fs::write(place.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("b-killed.lock", place.join("a-link.lock")).unwrap();
        let again = LockedDir::create(&place, "a-").unwrap();
        assert!(kept.path().join("file").exists() && again.path().is_dir());
        assert_ne!(kept.path(), again.path());
        again.remove().unwrap();
        drop(kept);
        assert_eq!(names(&place), ["a-link.lock", "a-unlocked", "b-killed", "b-killed.lock"]);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_lock_that_was_swept_holds_nothing() {
        let place = place("gone");
        let lock = place.join("a-1.lock");
        fs::write(&lock, "").unwrap();
        let opened = File::open(&lock).unwrap();
        assert!(is_still_at(&opened, &lock).unwrap());
        sweep(&place, "a-");
        assert!(!is_still_at(&opened, &lock).unwrap());
        fs::write(&lock, "").unwrap();
        assert!(!is_still_at(&opened, &lock).unwrap(), "another of the same name");
        // A lock that is taken is left.
        let taken = File::open(&lock).unwrap();
        taken.lock().unwrap();
        sweep(&place, "a-");
        assert_eq!(names(&place), ["a-1.lock"]);
        fs::remove_dir_all(place).unwrap();
    }
}
