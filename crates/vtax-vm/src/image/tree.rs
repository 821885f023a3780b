//! The files that go into an image: found with every link on the way, told apart from earlier ones,
//! copied.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use vtax_units::hex;

use crate::error::{Result, VmError};

/// What no service reads: documentation and translations.
const LEFT_OUT: &[&str] = &[
    "/usr/share/doc",
    "/usr/share/man",
    "/usr/share/info",
    "/usr/share/locale",
    "/usr/share/lintian",
    "/usr/share/bug",
];
/// The most links on the way to one file, as the kernel's own limit.
const MOST_LINKS: usize = 40;
/// Bytes of a block of the file system.
pub(super) const BLOCK: u64 = 4096;

#[derive(Debug)]
enum Kind {
    Directory,
    File,
    Link(PathBuf),
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    metadata: Metadata,
}

/// Files, directories and links of this host by their real paths.
#[derive(Debug, Default)]
pub(super) struct Tree {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Tree {
    /// Adds the file or directory at `path`, and all directories and links that lead there. What isn't
    /// there, or is neither file, directory nor link, is left out: a package's list may name what the
    /// administrator has removed.
    pub(super) fn add(&mut self, path: &Path) -> Result<()> {
        if LEFT_OUT.iter().any(|prefix| path.starts_with(prefix)) {
            return Ok(());
        }
        let mut here = PathBuf::from("/");
        let mut ahead: VecDeque<OsString> = names(path).collect();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                here.pop();
                continue;
            }
            let next = here.join(name);
            if !self.entries.contains_key(&next) {
                let Some(entry) = look(&next)? else { return Ok(()) };
                self.entries.insert(next.clone(), entry);
            }
            match self.entries.get(&next).map(|entry| &entry.kind) {
                Some(Kind::Link(target)) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Ok(());
                    }
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                    for name in names(target).collect::<Vec<_>>().into_iter().rev() {
                        ahead.push_front(name);
                    }
                }
                _ => here = next,
            }
        }
        Ok(())
    }

    /// Adds a directory with everything below it.
    pub(super) fn add_all(&mut self, directory: &Path) -> Result<()> {
        self.add(directory)?;
        let failed = || VmError::path("list", directory);
        for entry in fs::read_dir(directory).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            if entry.file_type().map_err(failed())?.is_dir() {
                self.add_all(&entry.path())?;
            } else {
                self.add(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Tells this collection from every other: a digest of names, sizes, owners and times of change.
    pub(super) fn fingerprint(&self, salt: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(salt);
        for (path, entry) in &self.entries {
            let m = &entry.metadata;
            digest.update(path.as_os_str().as_bytes());
            let numbers = match &entry.kind {
                // A directory's time changes with what else is in it.
                Kind::Directory => [m.mode().into(), m.uid().into(), m.gid().into(), 0, 0, 0],
                Kind::File | Kind::Link(_) => [
                    m.mode().into(),
                    m.uid().into(),
                    m.gid().into(),
                    m.size(),
                    m.mtime().cast_unsigned(),
                    m.mtime_nsec().cast_unsigned(),
                ],
            };
            if let Kind::Link(target) = &entry.kind {
                digest.update(target.as_os_str().as_bytes());
            }
            digest.update([0]);
            numbers.iter().for_each(|number: &u64| digest.update(number.to_le_bytes()));
        }
        hex(&digest.finalize()[..16])
    }

    /// Files, directories and links.
    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Bytes of the blocks they need.
    pub(super) fn bytes(&self) -> u64 {
        let of = |entry: &Entry| match &entry.kind {
            Kind::File => entry.metadata.size().next_multiple_of(BLOCK),
            // Names of up to 59 bytes need no block; directories of some hundred names need one.
            Kind::Directory | Kind::Link(_) => entry.metadata.size().next_multiple_of(BLOCK).max(BLOCK),
        };
        self.entries.values().map(of).sum()
    }

    /// Copies all of it below `root`, owners included where this user may give files away. What this
    /// user may not read is left out, as the service could not have read it either.
    pub(super) fn copy_to(&self, root: &Path) -> Result<()> {
        let may_give = rustix::process::geteuid().is_root();
        for (path, Entry { kind, metadata }) in &self.entries {
            let target = root.join(path.strip_prefix("/").unwrap_or(path));
            let done = match kind {
                Kind::Directory => fs::create_dir(&target),
                Kind::Link(to) => symlink(to, &target),
                Kind::File => fs::copy(path, &target).map(drop),
            };
            match done {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => continue,
                other => other.map_err(VmError::path("copy", path))?,
            }
            if may_give {
                lchown(&target, Some(metadata.uid()), Some(metadata.gid()))
                    .map_err(VmError::path("give away", &target))?;
            }
            if !matches!(kind, Kind::Link(_)) {
                // After the owner: a change of owner takes set-user-id bits away. Ours must stay writable
                // until all is there, and removable afterwards.
                let own = if matches!(kind, Kind::Directory) { 0o700 } else { 0 };
                let mode = Permissions::from_mode(metadata.mode() & 0o7777 | own);
                fs::set_permissions(&target, mode).map_err(VmError::path("set mode of", &target))?;
            }
        }
        Ok(())
    }
}

fn names(path: &Path) -> impl Iterator<Item = OsString> + use<'_> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

fn look(path: &Path) -> Result<Option<Entry>> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(None);
        }
        Err(e) => return Err(VmError::path("look at", path)(e)),
    };
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_symlink() => {
            Kind::Link(fs::read_link(path).map_err(VmError::path("read link", path))?)
        }
        _ => return Ok(None),
    };
    Ok(Some(Entry { kind, metadata }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &Tree, below: &Path) -> Vec<String> {
        let inside = tree.entries.keys().filter_map(|path| path.strip_prefix(below).ok());
        inside.map(|path| path.display().to_string()).filter(|path| !path.is_empty()).collect()
    }

    #[test]
    fn links_are_taken_along_with_what_they_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("usr/lib")).unwrap();
        fs::write(root.join("usr/lib/a.so.1.2"), "code").unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        symlink("../lib/a.so.1.2", root.join("usr/lib/a.so")).unwrap();
        symlink(root.join("loop"), root.join("loop")).unwrap();
        let mut tree = Tree::default();
        for name in ["lib/a.so", "loop/x", "gone"] {
            tree.add(&root.join(name)).unwrap();
        }
        // `../lib` of `usr/lib/a.so` is `usr/lib`, as the kernel sees it.
        assert_eq!(
            paths(&tree, &root),
            ["lib", "loop", "usr", "usr/lib", "usr/lib/a.so", "usr/lib/a.so.1.2"]
        );
        let copy = tempfile::tempdir().unwrap();
        tree.copy_to(copy.path()).unwrap();
        let there = copy.path().join(root.strip_prefix("/").unwrap());
        assert_eq!(fs::read_to_string(there.join("lib/a.so")).unwrap(), "code");
    }

    #[test]
    fn a_changed_file_changes_the_fingerprint() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let fingerprint = || {
            let mut tree = Tree::default();
            tree.add_all(dir.path()).unwrap();
            assert!(tree.bytes() >= BLOCK && tree.len() >= 2);
            tree.fingerprint("")
        };
        fs::write(&file, "one").unwrap();
        let first = fingerprint();
        assert_eq!(first, fingerprint());
        fs::write(&file, "other").unwrap();
        assert_ne!(first, fingerprint());
    }
}
