//! Small file operations whose failures name the file.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::StoreError;

/// Opens a regular file for reading. Anything else is refused: a FIFO would block for ever, and a link may lead to what
/// is none of the run's, which a report would then show to whoever gets it. It is opened first and looked at then, so
/// that nothing else can be put in its place in between.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    open_at(CWD, path, OFlags::RDONLY, path)
}

/// Opens a file for reading and writing.
pub(crate) fn open_to_write(path: &Path) -> Result<File, StoreError> {
    open_at(CWD, path, OFlags::RDWR, path)
}

/// Opens a regular file below `root` for reading. Each directory on the way is opened from the one before, and none of
/// them may be a link.
pub(crate) fn open_below(root: &Path, path: &Path) -> Result<File, StoreError> {
    let failed = |e: Errno| StoreError::io("open", path, e.into());
    let below = path.strip_prefix(root).map_err(|_| failed(Errno::INVAL))?;
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(failed(Errno::INVAL));
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, root, directory, Mode::empty()).map_err(failed)?;
    for part in parent.components() {
        let Component::Normal(part) = part else { return Err(failed(Errno::INVAL)) };
        at = openat(&at, Path::new(part), directory | OFlags::NOFOLLOW, Mode::empty()).map_err(failed)?;
    }
    open_at(&at, Path::new(name), OFlags::RDONLY, path)
}

/// Opens the regular file `name` in an open directory; errors name `path`.
fn open_at(directory: impl AsFd, name: &Path, access: OFlags, path: &Path) -> Result<File, StoreError> {
    let failed = |e: Errno| StoreError::io("open", path, e.into());
    // Opening a FIFO must not wait for its other end.
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match openat(directory, name, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::LOOP) => return Err(is_link(path)),
        // A directory is nothing to write to, and a socket can't be opened.
        Err(Errno::ISDIR | Errno::NXIO) => return Err(is_irregular(path)),
        Err(e) => return Err(failed(e)),
    };
    let mode = fstat(&opened).map_err(failed)?.st_mode;
    if FileType::from_raw_mode(mode) == FileType::RegularFile {
        Ok(opened.into())
    } else {
        Err(is_irregular(path))
    }
}

fn is_irregular(path: &Path) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        place: String::new(),
        reason: "it is not a regular file".to_owned(),
        way_out: "restore the run directory from a copy",
    }
}

/// Refuses a path of which some part below `root` is a symbolic link: a run directory has none, and where one leads is
/// nobody's to read or to write. What may have been exchanged since must be opened by [`open_below`] all the same.
pub(crate) fn own(root: &Path, path: &Path) -> Result<(), StoreError> {
    let below = path.ancestors().take_while(|part| *part != root && part.starts_with(root));
    match below.filter(|part| part.is_symlink()).last() {
        Some(link) => Err(is_link(link)),
        None => Ok(()),
    }
}

/// Refuses a path of which some part below `root` is a symbolic link.
///
/// # Errors
///
/// [`StoreError::Damaged`] where there is one.
pub fn refuse_links(root: &Path, path: &Path) -> Result<(), StoreError> {
    own(root, path)
}

/// Copies a file to a name that leads to nothing else: what has the name is removed, a link too.
pub(crate) fn copy_anew(from: &Path, to: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(to) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io("remove", to, e)),
        _ => {}
    }
    let failed = |e| StoreError::io("copy", from, e);
    let mut copy = std::fs::OpenOptions::new().write(true).create_new(true).open(to).map_err(failed)?;
    std::io::copy(&mut open(from)?, &mut copy).map_err(failed)?;
    Ok(())
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

/// Opens a directory to write to what is in it; a link to one is refused.
pub(crate) fn open_directory(path: &Path) -> Result<File, StoreError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => Ok(directory.into()),
        Err(Errno::LOOP | Errno::NOTDIR) if path.is_symlink() => Err(is_link(path)),
        Err(e) => Err(StoreError::io("open", path, e.into())),
    }
}

/// Replaces `path` by `bytes`, so that a reader or a crash sees the old file or the new one, whole.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let parent = parent_of(path);
    let directory = File::open(parent).map_err(|e| StoreError::io("open", parent, e))?;
    write_atomic_in(&directory, path, bytes)
}

/// Writes a file whole or not at all in a directory that is open, which is that of `path`. Where several write it at once, it is whole
/// from one of them.
pub(crate) fn write_atomic_in(directory: &File, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let name = Path::new(path.file_name().unwrap_or_default());
    let temporary = temporary_name(path)?;
    let temporary = Path::new(&temporary);
    let written = write_synced(directory, temporary, &path.with_file_name(temporary), bytes);
    let result = written.and_then(|file| {
        let renamed = renameat(directory, temporary, directory, name);
        // Its lock holds until it has its name.
        drop(file);
        renamed.map_err(|e| StoreError::io("replace", path, e.into()))
    });
    match result {
        Ok(()) => directory.sync_all().map_err(|e| StoreError::io("sync", path, e)),
        Err(error) => {
            let _ = unlinkat(directory, temporary, AtFlags::empty());
            // The reader knows the file by its real name.
            Err(match error {
                StoreError::Full { source, .. } => StoreError::Full { path: path.to_owned(), source },
                other => other,
            })
        }
    }
}

/// A name for what is to become the file `path`, which nobody else takes.
fn temporary_name(path: &Path) -> Result<OsString, StoreError> {
    let mut bytes = [0_u8; 4];
    let drawn = getrandom(&mut bytes, GetRandomFlags::empty());
    drawn.map_err(|e| StoreError::io("draw a random name for", path, e.into()))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:08x}.tmp", u32::from_ne_bytes(bytes)));
    Ok(name)
}

/// Writes a new file `name` in an open directory, which is locked as long as it is open; errors name `path`. A link of that name isn't
/// written through.
fn write_synced(directory: &File, name: &Path, path: &Path, bytes: &[u8]) -> Result<File, StoreError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let everyone = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    let file = openat(directory, name, flags, everyone);
    let mut file = File::from(file.map_err(|e| StoreError::io("create", path, e.into()))?);
    // Where files can't be locked, nobody can be told that it isn't left over.
    let _ = file.try_lock();
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|e| StoreError::io("write", path, e))?;
    Ok(file)
}

/// Whether somebody is writing this temporary file: a report may be made while a run is gone on with.
pub(crate) fn is_being_written(path: &Path) -> bool {
    open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The directory that has the name of `path` in it: the present one, where that is all of the path.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in a directory durable (`fsync(2)`: the file's own fsync doesn't).
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(|e| StoreError::io("sync", path, e))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::{fs, io};

    use super::*;

    #[test]
    fn a_name_alone_is_in_the_present_directory() {
        for (path, parent) in [("run", "."), ("./run", "."), ("a/run", "a"), ("/run", "/")] {
            assert_eq!(parent_of(Path::new(path)), Path::new(parent), "{path}");
        }
    }

    #[test]
    fn only_regular_files_that_no_link_leads_to_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("run");
        fs::create_dir_all(root.join("trials/000")).unwrap();
        fs::write(root.join("trials/000/a"), "a").unwrap();
        symlink("trials", root.join("link")).unwrap();
        symlink("trials/000/a", root.join("linked")).unwrap();
        rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let text = |file: Result<File, StoreError>| file.map(|f| io::read_to_string(f).unwrap());
        assert_eq!(text(open(&root.join("trials/000/a"))).unwrap(), "a");
        assert_eq!(text(open_below(&root, &root.join("trials/000/a"))).unwrap(), "a");
        let refusals = [("linked", "symbolic link"), ("fifo", "regular file"), ("trials", "regular file")];
        for (name, why) in refusals {
            let path = root.join(name);
            for refused in [open(&path), open_to_write(&path), open_below(&root, &path)] {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains(why) && refused.contains(name), "{refused}");
            }
        }
        for name in ["link/000/a", "trials/../trials/000/a", ""] {
            assert!(open_below(&root, &root.join(name)).is_err(), "{name}");
        }
        assert!(open_below(&root, dir.path()).is_err());
        assert!(matches!(
            open(&root.join("none")),
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound
        ));
    }

    #[test]
    fn a_directory_that_is_open_stays_the_one_that_is_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (own, outside) = (dir.path().join("csv"), dir.path().join("outside"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&outside).unwrap();
        let directory = open_directory(&own).unwrap();
        fs::rename(&own, dir.path().join("moved")).unwrap();
        symlink(&outside, &own).unwrap();
        write_atomic_in(&directory, &own.join("a.csv"), b"a").unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(fs::read(dir.path().join("moved/a.csv")).unwrap(), b"a");
        assert!(open_directory(&own).unwrap_err().to_string().contains("symbolic link"));
    }
    #[test]
    fn several_that_write_one_file_at_once_do_not_tear_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        std::thread::scope(|scope| {
            for n in 0..4_u8 {
                let path = &path;
                scope.spawn(move || (0..10).for_each(|_| write_atomic(path, &vec![n; 100_000]).unwrap()));
            }
        });
        let whole = fs::read(&path).unwrap();
        assert!(whole.len() == 100_000 && whole.iter().all(|byte| *byte == whole[0]), "{}", whole.len());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
