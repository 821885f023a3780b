//! The directory where vtax keeps what is expensive to make again.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Result, VmError};

/// The cache directory. Everything in it may be deleted at any time between two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    dir: PathBuf,
}

/// Prefix of what isn't finished yet.
const UNFINISHED: &str = "unfinished-";

impl Cache {
    /// `$VTAX_CACHE`, else `$XDG_CACHE_HOME/vtax`, else `~/.cache/vtax` (XDG Base Directory
    /// Specification), else `/var/tmp/vtax` where there is no home.
    #[must_use]
    pub fn of_user() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = set("VTAX_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("vtax")))
            .or_else(|| set("HOME").map(|dir| dir.join(".cache/vtax")))
            .unwrap_or_else(|| PathBuf::from("/var/tmp/vtax"));
        Self::at(dir)
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
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = self.dir.join(format!("{UNFINISHED}{}-{count}", std::process::id()));
        // Left by a process of the same id that was killed; a live one can't have our id.
        remove_if_there(&dir).map_err(VmError::path("remove", &dir))?;
        fs::create_dir_all(&dir).map_err(VmError::path("create directory", &dir))?;
        Ok(Stage { dir })
    }

    /// Writes a small file so that a reader sees the old or the new content, never a part.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let stage = self.stage()?;
        let part = stage.dir.join("file");
        fs::write(&part, content).map_err(VmError::path("write", &part))?;
        let path = self.entry(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(VmError::path("create directory", parent))?;
        }
        fs::rename(&part, &path).map_err(VmError::path("create", &path))?;
        Ok(path)
    }

    /// Removes what killed processes left unfinished. Call it only with the set-up lock held.
    pub(crate) fn sweep(&self) -> Result<()> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|n| n.strip_prefix(UNFINISHED)?.split('-').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                remove_if_there(&entry.path()).map_err(VmError::path("remove", &entry.path()))?;
            }
        }
        Ok(())
    }
}

/// A directory that isn't finished; goes away unless it is put in place.
#[derive(Debug)]
pub(crate) struct Stage {
    dir: PathBuf,
}

impl Stage {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves `part` of the stage to its place. What is there already is replaced.
    pub(crate) fn put(self, part: &Path, place: &Path) -> Result<()> {
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(VmError::path("create directory", parent))?;
        }
        // rename(2) replaces no directory that isn't empty, so the old one steps aside first; the
        // stage then takes it along.
        if place.exists() {
            let aside = self.dir.join("replaced");
            fs::rename(place, &aside).map_err(VmError::path("move aside", place))?;
        }
        fs::rename(part, place).map_err(VmError::path("create", place))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What can't be removed now is swept by the next set-up.
        let _ = remove_if_there(&self.dir);
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
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
        // No process can have this id: pid_max is at most 2^22.
        fs::create_dir(dir.path().join("unfinished-99999999-0")).unwrap();
        cache.sweep().unwrap();
        assert!(alive.dir().exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
