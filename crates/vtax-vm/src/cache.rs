//! The directory where vtax keeps what is expensive to make again.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use vtax_sys::SysError;
use vtax_sys::locked_dir::{self, LockedDir};
use vtax_sys::user_cache::{self, is_foreign};

use crate::error::{Result, VmError};

/// The cache directory. Everything in it may be deleted at any time between two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    dir: PathBuf,
}

/// Prefix of what isn't finished yet.
const UNFINISHED: &str = "unfinished-";

impl Cache {
    /// That of the user who runs vtax, where [`user_cache::directory`] says.
    #[must_use]
    pub fn of_user() -> Self {
        Self::at(user_cache::directory())
    }

    /// Refuses a cache that another user but root could put something into: programs run from there. One that isn't yet is
    /// made, so that nobody else makes it first.
    ///
    /// # Errors
    ///
    /// [`VmError::ForeignCache`] where it belongs to another user, or others may write to it.
    pub fn check(&self) -> Result<()> {
        // What can't be made is told where something is to be kept there.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o755).create(&self.dir);
        let refused = |reason| VmError::ForeignCache { dir: self.dir.clone(), reason };
        let user = rustix::process::geteuid().as_raw();
        // A link is as good as who made it: it can lead elsewhere tomorrow.
        let Ok(named) = fs::symlink_metadata(&self.dir) else { return Ok(()) };
        if is_foreign(named.uid(), user) {
            return Err(refused(format!("it belongs to user {}", named.uid())));
        }
        let Ok(mut found) = fs::metadata(&self.dir) else { return Ok(()) };
        // With a umask of 002 it was made so. Who is in its group isn't known, and nobody there has to write to it.
        if found.uid() == user && found.mode() & 0o022 == 0o020 {
            let _ = fs::set_permissions(&self.dir, fs::Permissions::from_mode(found.mode() & 0o7757));
            found = fs::metadata(&self.dir).unwrap_or(found);
        }
        why_unsafe((found.uid(), found.gid()), found.mode(), user)
            .map_or(Ok(()), |reason| Err(refused(reason)))
    }

    /// A cache in this directory.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where unpacked guest kernels are, one directory per release.
    pub(crate) fn kernels(&self) -> PathBuf {
        self.dir.join("kernels")
    }

    /// Where `vtax setup` unpacks a package for a user who may not install it: the root that its files are below.
    #[must_use]
    pub fn unpacked(&self, package: &str) -> PathBuf {
        self.dir.join("programs").join(package)
    }

    /// A program of an unpacked package; `None` where that has none of this name, or isn't unpacked.
    #[must_use]
    pub fn program(&self, package: &str, name: &str) -> Option<PathBuf> {
        let root = self.unpacked(package);
        ["usr/sbin", "usr/bin"].map(|dir| root.join(dir).join(name)).into_iter().find(|path| path.is_file())
    }

    /// A file or directory directly in the cache.
    pub(crate) fn entry(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A new directory for something that will be moved to its place when it is complete.
    pub(crate) fn stage(&self) -> Result<Stage> {
        fs::create_dir_all(&self.dir).map_err(VmError::path("create directory", &self.dir))?;
        let locked = LockedDir::create(&self.dir, UNFINISHED);
        let failed = |e: SysError| VmError::path("create a directory in", &self.dir)(io::Error::other(e));
        Ok(Stage { locked: locked.map_err(failed)? })
    }

    /// Writes a small file so that a reader sees the old or the new content, never a part.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let stage = self.stage()?;
        let part = stage.dir().join("file");
        File::create(&part)
            .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
            .map_err(VmError::path("write", &part))?;
        let path = self.entry(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(VmError::path("create directory", parent))?;
        }
        fs::rename(&part, &path).map_err(VmError::path("create", &path))?;
        sync_parent(&path)?;
        Ok(path)
    }

    /// Removes what killed processes left unfinished.
    pub(crate) fn sweep(&self) {
        locked_dir::sweep(&self.dir, UNFINISHED);
    }
}

/// Why a directory of that owner and group isn't safe for programs of a user; `None` where it is.
fn why_unsafe((owner, group): (u32, u32), mode: u32, user: u32) -> Option<String> {
    if is_foreign(owner, user) {
        Some(format!("it belongs to user {owner}"))
    } else if mode & 0o002 != 0 {
        Some(format!("everyone may write to it (mode {:o})", mode & 0o7777))
    } else if mode & 0o020 != 0 {
        Some(format!("group {group} may write to it (mode {:o})", mode & 0o7777))
    } else {
        None
    }
}

/// Makes a name durable.
fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(VmError::path("sync", parent))
}

/// A directory that isn't finished; goes away unless it is put in place.
#[derive(Debug)]
pub(crate) struct Stage {
    locked: LockedDir,
}

impl Stage {
    pub(crate) fn dir(&self) -> &Path {
        self.locked.path()
    }

    /// Moves `part` of the stage to its place, once all of it is durable. What is there already is replaced.
    pub(crate) fn put(self, part: &Path, place: &Path) -> Result<()> {
        // A package may have thousands of files: all of the file system at once takes less than each of them.
        let directory = File::open(part).map_err(VmError::path("open", part))?;
        rustix::fs::syncfs(&directory).map_err(|e| VmError::path("sync", part)(e.into()))?;
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(VmError::path("create directory", parent))?;
        }
        // rename(2) replaces no directory that isn't empty, so the old one steps aside first; the
        // stage then takes it along.
        if place.exists() {
            let aside = self.dir().join("replaced");
            fs::rename(place, &aside).map_err(VmError::path("move aside", place))?;
        }
        fs::rename(part, place).map_err(VmError::path("create", place))?;
        sync_parent(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_put_in_place_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let stage = cache.stage().unwrap();
        fs::write(stage.dir().join("half"), "x").unwrap();
        drop(stage);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_program_is_found_where_its_package_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        for place in ["usr/bin", "usr/sbin"] {
            assert_eq!(cache.program(place, "tool"), None);
            let bin = cache.unpacked(place).join(place);
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join("tool"), "").unwrap();
            assert_eq!(cache.program(place, "tool"), Some(bin.join("tool")));
        }
    }

    #[test]
    fn a_place_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let place = cache.kernels().join("6.1");
        for content in ["old", "new"] {
            let stage = cache.stage().unwrap();
            let part = stage.dir().join("root");
            fs::create_dir(&part).unwrap();
            fs::write(part.join(content), content).unwrap();
            stage.put(&part, &place).unwrap();
        }
        assert!(place.join("new").exists() && !place.join("old").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_the_dead_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let alive = cache.stage().unwrap();
        let beside = cache.stage().unwrap();
        assert_ne!(alive.dir(), beside.dir());
        fs::create_dir(dir.path().join("unfinished-1-0")).unwrap();
        fs::write(dir.path().join("unfinished-1-0.lock"), "").unwrap();
        cache.sweep();
        assert!(alive.dir().exists() && beside.dir().exists());
        assert!(!dir.path().join("unfinished-1-0").exists());
        drop((alive, beside));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_cache_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::symlink;
        for (owner, mode) in [(1000, 0o700), (1000, 0o2755), (0, 0o755)] {
            assert_eq!(why_unsafe((owner, 100), mode, 1000), None, "{owner} {mode:o}");
        }
        for (owner, mode) in [(1001, 0o700), (1000, 0o757), (0, 0o775), (0, 0o1777)] {
            assert!(why_unsafe((owner, 100), mode, 1000).is_some(), "{owner} {mode:o}");
        }
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("a/real"), dir.path().join("link"));
        Cache::at(&real).check().unwrap();
        // As a umask of 002 leaves it.
        fs::set_permissions(&real, fs::Permissions::from_mode(0o775)).unwrap();
        Cache::at(&real).check().unwrap();
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o755);
        symlink(&real, &link).unwrap();
        Cache::at(&link).check().unwrap();
        // Where it can't be made it can't be used, either, and whoever needs it says so.
        fs::write(dir.path().join("file"), "").unwrap();
        Cache::at(dir.path().join("file/cache")).check().unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        for cache in [Cache::at(&real), Cache::at(&link)] {
            let refused = cache.check().unwrap_err().to_string();
            assert!(refused.contains("everyone may write to it (mode 777)"), "{refused}");
            assert!(refused.contains("VTAX_CACHE"), "{refused}");
        }
    }
}
