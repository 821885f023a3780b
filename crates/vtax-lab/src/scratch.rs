//! Scratch space: a tmpfs in the lab's private mount namespace. It ends with the lab.

use std::path::{Path, PathBuf};

use vtax_sys::mount;

use crate::error::{LabError, Result, While};

/// Directories that exist on most hosts and that are usually empty.
const PLACES: [&str; 6] = ["/mnt", "/media", "/srv", "/var/empty", "/var/local", "/usr/local/games"];

/// The scratch space.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

impl Scratch {
    /// Mounts it on the first empty directory, so that no file of the host's is hidden.
    pub(crate) fn mount() -> Result<Self> {
        let cwd = std::env::current_dir().unwrap_or_default();
        let place = PLACES.iter().map(Path::new).find(|p| is_empty(p) && !cwd.starts_with(p));
        let Some(path) = place else { return Err(LabError::NoScratch { tried: PLACES.join(", ") }) };
        mount::tmpfs(path, "mode=755").during(|| "make scratch space".to_owned())?;
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It goes with the mount namespace at the latest.
        let _ = mount::detach(&self.path);
    }
}
