//! A container's root: the host's files under a private layer.
//!
//! One overlay of `/` where the kernel allows it. In a user namespace it doesn't as soon as
//! something is mounted below `/` (the mounts of the parent namespace are locked together), so
//! there the root is put together from one overlay for each directory in `/`.

use std::fs;
use std::path::{Path, PathBuf};

use vtax_sys::mount::{self, Overlay};

use crate::error::{OnPath, Result, While};

/// Directories the runtime or the kernel fills.
const NOT_FILES: [&str; 9] = ["dev", "lost+found", "media", "mnt", "proc", "run", "sys", "tmp", "boot"];

/// Directories of one container below the lab's scratch space.
#[derive(Debug)]
pub(super) struct Place {
    dir: PathBuf,
    /// Whether `/` as a whole could be overlaid.
    whole: bool,
}

impl Place {
    /// Makes the directories and mounts the root.
    pub(super) fn make(scratch: &Path, name: &str) -> Result<Self> {
        let mut place = Self { dir: scratch.join(name), whole: true };
        let made = place.mount(name);
        if made.is_err() {
            // The first error tells more than a half-made root that can't be removed.
            let _ = place.remove();
        }
        made.map(|()| place)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn rootfs(&self) -> PathBuf {
        self.dir.join("rootfs")
    }

    /// Whether the root is one overlay, which shows only the file system of `/` itself.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole
    }

    fn mount(&mut self, name: &str) -> Result<()> {
        let rootfs = self.rootfs();
        fs::create_dir_all(&rootfs).on("create", &rootfs)?;
        let what = || format!("root of container {name}");
        let whole = self.layer(Path::new("/"), "whole", &rootfs)?;
        if whole.is_ok() {
            return Ok(());
        }
        self.whole = false;
        mount::tmpfs(&rootfs, "mode=755").during(what)?;
        let mut any = false;
        let top = Path::new("/");
        for entry in fs::read_dir(top).on("list", top)?.flatten() {
            any |= self.show(&entry, &rootfs)?;
        }
        // Nothing could be shown: then the reason is the one the whole root gave.
        if any { Ok(()) } else { whole.during(what) }
    }

    /// Shows one entry of `/`; true where it is a directory under a layer of its own.
    fn show(&self, entry: &fs::DirEntry, rootfs: &Path) -> Result<bool> {
        let (source, name) = (entry.path(), entry.file_name());
        let target = rootfs.join(&name);
        let Ok(kind) = entry.file_type() else { return Ok(false) };
        if kind.is_symlink() {
            let leads_to = fs::read_link(&source).on("read", &source)?;
            std::os::unix::fs::symlink(leads_to, &target).on("create", &target)?;
        }
        if !kind.is_dir() || NOT_FILES.iter().any(|n| name == *n) {
            return Ok(false);
        }
        fs::create_dir(&target).on("create", &target)?;
        let layer = self.layer(&source, &name.to_string_lossy(), &target)?;
        // Something is mounted below it: shown as it is, then, and not to be changed. What can't
        // even be shown that way stays empty.
        Ok(layer.is_ok() || mount::bind(&source, &target, true).is_ok())
    }

    /// Mounts `lower` under a layer of its own; the inner result is the kernel's answer.
    fn layer(&self, lower: &Path, name: &str, target: &Path) -> Result<vtax_sys::Result<()>> {
        let parts = ["upper", "work"].map(|part| self.dir.join("layers").join(name).join(part));
        for dir in &parts {
            fs::create_dir_all(dir).on("create", dir)?;
        }
        Ok(mount::overlay(Overlay { lower, upper: &parts[0], work: &parts[1] }, target))
    }

    /// Unmounts the root, with all that is mounted in it, and removes the directories.
    pub(super) fn remove(&self) -> Result<()> {
        mount::detach(&self.rootfs()).during(|| "remove a container's root".to_owned())?;
        fs::remove_dir_all(&self.dir).on("remove", &self.dir)
    }
}
