//! Local files: a directory, a single file or a block device.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{Advice, OFlags, fadvise, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use vtax_plan::model::{StorageEngine, StorageShape};
use vtax_sys::aligned::Aligned;
use vtax_sys::residency::resident_bytes;
use vtax_sys::sync::lock;
use vtax_sys::uring::{Action, Completed, Ring};

use super::spec::LocalSpec;
use super::taken::{Content, content, foreign};
use super::target::{CacheDropped, Done, Facts, Failure, Kind, Operation, Shape, StorageError, Target};

/// Kept free on a file system: a full one is a fault of its own.
const SPARE: u64 = 64 << 20;

/// One process's files on this system.
pub(super) struct LocalTarget {
    path: PathBuf,
    /// Its files are vtax's, or may be overwritten: nobody needs to look.
    own: bool,
    direct: bool,
    engine: StorageEngine,
    shape: Shape,
    /// Data files are files of their own in a directory; else extents of one file.
    in_directory: bool,
    /// That one file was made here.
    made: bool,
    io: Io,
    /// Operations that were carried out at once.
    done: Vec<Done>,
    first_failure: Option<String>,
}

/// How operations reach the kernel.
enum Io {
    /// Not yet.
    Closed,
    /// The ring has files of its own; these are for all but reads and writes.
    Ring {
        ring: Box<Ring>,
        files: Vec<File>,
        completed: Vec<Completed>,
    },
    Sync {
        files: Vec<File>,
        memory: Aligned,
    },
}

impl Io {
    fn files(&self) -> &[File] {
        match self {
            Self::Closed => &[],
            Self::Ring { files, .. } | Self::Sync { files, .. } => files,
        }
    }
}

/// Whether there is room for so many bytes more.
pub(super) fn check_room(spec: &LocalSpec, bytes: u64) -> Result<(), StorageError> {
    let path = Path::new(&spec.path);
    if !path.is_dir() && path.exists() {
        let length =
            length_of(&File::open(path).map_err(|e| StorageError::system(format!("open {}", spec.path), e))?);
        // A file can grow; a device can't.
        if !path.is_file() {
            return enough(&spec.path, bytes, length);
        }
    }
    let directory = if path.is_dir() { path } else { parent(path) };
    let room = rustix::fs::statvfs(directory)
        .map_err(|e| StorageError::system(format!("look for free space in {}", directory.display()), e))?;
    // What is there already is vtax's own and is written over.
    let own: u64 = own_bytes(path);
    enough(&spec.path, bytes.saturating_add(SPARE), (room.f_bavail * room.f_frsize).saturating_add(own))
}

fn enough(target: &str, needed: u64, free: u64) -> Result<(), StorageError> {
    if needed <= free {
        Ok(())
    } else {
        Err(StorageError::TooSmall { target: target.to_owned(), needed, free })
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Bytes of vtax's own files in a directory, or of the file.
pub(super) fn own_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    if path.is_file() {
        return path.metadata().map_or(0, |metadata| metadata.blocks() * 512);
    }
    let Ok(entries) = path.read_dir() else { return 0 };
    let own = entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"vtax-"));
    own.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}

/// Length of a file or device.
pub(super) fn length_of(file: &File) -> u64 {
    rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).unwrap_or(0)
}

impl LocalTarget {
    pub(super) fn open(spec: &LocalSpec, files: &StorageShape, shape: Shape) -> Result<Self, StorageError> {
        let path = PathBuf::from(&spec.path);
        let in_directory = path.is_dir();
        Ok(Self {
            path,
            own: spec.overwrite,
            direct: files.direct,
            engine: files.engine,
            shape,
            in_directory,
            made: false,
            io: Io::Closed,
            done: Vec::with_capacity(usize::from(shape.depth)),
            first_failure: None,
        })
    }

    /// A data file's path.
    fn file(&self, number: u32) -> PathBuf {
        if self.in_directory {
            self.path.join(format!("vtax-{}-{number}", self.shape.worker))
        } else {
            self.path.clone()
        }
    }

    /// The directory of the process's small files.
    fn names(&self) -> PathBuf {
        self.path.join(format!("vtax-{}.d", self.shape.worker))
    }

    fn small_file(&self, number: u32) -> PathBuf {
        self.names().join(number.to_string())
    }

    /// Where a file begins in what was opened.
    fn base(&self, file: u32) -> u64 {
        if self.in_directory {
            return 0;
        }
        (self.shape.worker as u64 * u64::from(self.shape.files) + u64::from(file)) * self.shape.size
    }

    fn open_one(&mut self, number: u32) -> Result<File, StorageError> {
        let path = self.file(number);
        let device = path.exists() && !path.is_file();
        if device {
            self.check_unused(&path)?;
        } else {
            self.make(&path)?;
        }
        let mut flags = OFlags::CLOEXEC;
        if self.direct {
            flags |= OFlags::DIRECT;
        }
        let mut options = File::options();
        options.read(true).write(true).create(!device).custom_flags(flags.bits() as i32);
        options.open(&path).map_err(|error| self.cannot_open(&path, &error))
    }

    /// Makes a file where there is none. Processes that share one do it at the same time: it is one's.
    fn make(&mut self, path: &Path) -> Result<(), StorageError> {
        match File::options().write(true).create_new(true).open(path) {
            Ok(_) => self.made |= !self.in_directory,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.cannot_open(path, &error)),
        }
        Ok(())
    }

    /// Refuses a device that is mounted, or part of a volume: it can't be opened with O_EXCL. Processes look one after the other, as
    /// each would be in the others' way.
    fn check_unused(&self, device: &Path) -> Result<(), StorageError> {
        static LOOKING: Mutex<()> = Mutex::new(());
        let _alone = lock(&LOOKING);
        let flags = (OFlags::CLOEXEC | OFlags::EXCL).bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(device);
        opened.map(drop).map_err(|error| self.cannot_open(device, &error))
    }

    fn cannot_open(&self, path: &Path, error: &std::io::Error) -> StorageError {
        let reason = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::INVAL) if self.direct => "its file system has no direct I/O (O_DIRECT)".to_owned(),
            Some(Errno::BUSY) => "it is in use: mounted, or part of a volume".to_owned(),
            _ => error.to_string(),
        };
        StorageError::Open { target: path.display().to_string(), reason }
    }

    /// Data files: one where they are extents.
    fn data_files(&self) -> u32 {
        if self.in_directory { self.shape.files } else { 1 }
    }

    /// Refuses files that are neither empty nor begin with vtax's mark, before any is made or opened for writing.
    fn check_own(&self) -> Result<(), StorageError> {
        let mut is_marked = false;
        for path in (0..self.data_files()).map(|number| self.file(number)) {
            if path.exists() && !path.is_file() {
                self.check_unused(&path)?;
            }
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(self.cannot_open(&path, &error)),
            };
            match content(&file)? {
                Content::None => {}
                Content::Own => is_marked = true,
                Content::Foreign => return Err(foreign(&self.path, &path)),
            }
        }
        if self.in_directory && !is_marked { self.check_names() } else { Ok(()) }
    }

    /// Refuses a directory of small files that holds something: it has no mark of its own.
    fn check_names(&self) -> Result<(), StorageError> {
        let names = self.names();
        let is_empty = match names.read_dir() {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if is_empty { Ok(()) } else { Err(foreign(&self.path, &names)) }
    }

    /// Reads or writes at once.
    fn transfer(&mut self, operation: &Operation) -> Result<u32, Errno> {
        let offset = self.base(operation.file) + operation.offset;
        let Io::Sync { files, memory } = &mut self.io else { return Err(Errno::BADF) };
        let file = files.get(operation.file as usize).or(files.first()).ok_or(Errno::BADF)?;
        let record = memory.get_mut(..operation.length as usize).ok_or(Errno::INVAL)?;
        let moved = match operation.kind {
            Kind::Read => preadv2(file, &mut [IoSliceMut::new(record)], offset, ReadWriteFlags::empty()),
            Kind::WriteDurable => pwritev2(file, &[IoSlice::new(record)], offset, ReadWriteFlags::DSYNC),
            _ => pwritev2(file, &[IoSlice::new(record)], offset, ReadWriteFlags::empty()),
        };
        moved.map(|bytes| bytes as u32)
    }

    /// What is carried out at once, whatever the engine.
    fn now(&mut self, operation: &Operation) -> Result<u32, Errno> {
        match operation.kind {
            Kind::Read | Kind::Write | Kind::WriteDurable => self.transfer(operation),
            Kind::Flush => {
                let files = self.io.files();
                let file = files.get(operation.file as usize).or(files.first()).ok_or(Errno::BADF)?;
                fdatasync(file).map(|()| 0)
            }
            Kind::Create => self.create(operation),
            Kind::Remove => rustix::fs::unlink(self.small_file(operation.file)).map(|()| 0),
            Kind::List => {
                let entries = self.names().read_dir().map_err(|e| errno(&e))?;
                Ok(entries.flatten().count() as u32)
            }
        }
    }

    /// A small file with its contents, and durable where the operation asks for it by an offset that isn't 0.
    fn create(&mut self, operation: &Operation) -> Result<u32, Errno> {
        let path = self.small_file(operation.file);
        let length = operation.length as usize;
        let record = match &mut self.io {
            Io::Closed => return Err(Errno::BADF),
            Io::Ring { ring, .. } => ring.buffer(operation.slot),
            Io::Sync { memory, .. } => memory,
        };
        let record = record.get(..length).ok_or(Errno::INVAL)?;
        let file = File::options().write(true).create_new(true).open(path).map_err(|e| errno(&e))?;
        file.write_all_at(record, 0).map_err(|e| errno(&e))?;
        if operation.offset != 0 {
            fdatasync(&file)?;
        }
        Ok(operation.length)
    }

    fn answer(&mut self, slot: u16, result: Result<u32, Errno>) -> Done {
        let result = result.map_err(|error| {
            if self.first_failure.is_none() {
                self.first_failure = Some(std::io::Error::from(error).to_string());
            }
            failure(error)
        });
        // It was the kernel's at once.
        Done { slot, result, sent: true }
    }

    fn each_file<T>(&self, act: impl Fn(&File) -> Result<T, Errno>, what: &str) -> Result<(), StorageError> {
        for file in self.io.files() {
            act(file).map_err(|e| StorageError::system(format!("{what} {}", self.path.display()), e))?;
        }
        Ok(())
    }
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn failure(error: Errno) -> Failure {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Failure::NoSpace,
        Errno::ROFS => Failure::ReadOnly,
        Errno::BUSY | Errno::AGAIN => Failure::Busy,
        Errno::STALE => Failure::Stale,
        Errno::TIMEDOUT => Failure::TimedOut,
        Errno::ACCESS | Errno::PERM => Failure::Refused,
        Errno::NOENT => Failure::Missing,
        _ => Failure::Other,
    }
}

impl Target for LocalTarget {
    fn facts(&self) -> Facts {
        let place = if self.in_directory { "files in a directory" } else { "one file or device" };
        let engine = match self.engine {
            StorageEngine::IoUring => "io_uring",
            StorageEngine::Psync => "pread and pwrite",
        };
        let direct = if self.direct { ", direct" } else { "" };
        Facts { what: format!("{place}, {engine}{direct}"), block: 512, ..Facts::default() }
    }

    fn prepare(&mut self) -> Result<(), StorageError> {
        if !self.own {
            self.check_own()?;
            self.own = true;
        }
        let files = (0..self.data_files()).map(|n| self.open_one(n)).collect::<Result<Vec<_>, _>>()?;
        if self.in_directory {
            let names = self.names();
            std::fs::create_dir_all(&names)
                .map_err(|e| StorageError::system(format!("create {}", names.display()), e))?;
        }
        let refused = |e: vtax_sys::SysError| StorageError::Refused { reason: vtax_sys::chain(&e) };
        let record = self.shape.record as usize;
        self.io = match self.engine {
            StorageEngine::Psync => Io::Sync { files, memory: Aligned::new(record).map_err(refused)? },
            StorageEngine::IoUring => {
                let of_ring = files.iter().map(|file| file.try_clone().map(OwnedFd::from));
                let of_ring = of_ring
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|e| StorageError::system("copy a descriptor", e))?;
                let ring = Ring::new(of_ring, self.shape.depth, record).map_err(refused)?;
                Io::Ring {
                    ring: Box::new(ring),
                    files,
                    completed: Vec::with_capacity(usize::from(self.shape.depth)),
                }
            }
        };
        Ok(())
    }

    fn empty(&mut self) -> Result<(), StorageError> {
        if !self.in_directory {
            return Ok(());
        }
        self.each_file(|file| rustix::fs::ftruncate(file, 0), "empty files in")?;
        let names = self.names();
        let emptied = std::fs::remove_dir_all(&names).and_then(|()| std::fs::create_dir(&names));
        emptied.map_err(|e| StorageError::system(format!("empty {}", names.display()), e))
    }

    fn buffer(&mut self, slot: u16) -> &mut [u8] {
        match &mut self.io {
            Io::Closed => &mut [],
            Io::Ring { ring, .. } => ring.buffer(slot),
            Io::Sync { memory, .. } => memory,
        }
    }

    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
        let base = self.base(operation.file);
        if let Io::Ring { ring, files, .. } = &mut self.io {
            let action = match operation.kind {
                Kind::Read => Some(Action::Read),
                Kind::Write => Some(Action::Write),
                Kind::WriteDurable => Some(Action::WriteDurable),
                Kind::Flush => Some(Action::Sync),
                Kind::Create | Kind::Remove | Kind::List => None,
            };
            if let Some(action) = action {
                let file = if files.len() > 1 { operation.file } else { 0 };
                let offset = base + operation.offset;
                return ring
                    .queue(operation.slot, action, file, offset, operation.length)
                    .map_err(|e| StorageError::Refused { reason: e.to_string() });
            }
        }
        let result = self.now(operation);
        let done = self.answer(operation.slot, result);
        self.done.push(done);
        Ok(())
    }

    fn at_once(&self, kind: Kind) -> bool {
        // The ring has none of names.
        self.engine == StorageEngine::Psync || matches!(kind, Kind::Create | Kind::Remove | Kind::List)
    }

    fn wait(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), StorageError> {
        let any = !self.done.is_empty();
        done.append(&mut self.done);
        let sleep = if any { 0 } else { sleep };
        if let Io::Ring { ring, completed, .. } = &mut self.io {
            let mut completed = std::mem::take(completed);
            completed.clear();
            ring.wait(sleep, &mut completed)
                .map_err(|e| StorageError::Refused { reason: vtax_sys::chain(&e) })?;
            for end in &completed {
                let answer = self.answer(end.slot, end.result);
                done.push(answer);
            }
            if let Io::Ring { completed: place, .. } = &mut self.io {
                *place = completed;
            }
        } else if sleep > 0 {
            std::thread::sleep(std::time::Duration::from_nanos(sleep));
        }
        Ok(())
    }

    fn drop_cache(&mut self) -> Result<CacheDropped, StorageError> {
        self.each_file(|file| fdatasync(file), "sync files in")?;
        self.each_file(|file| fadvise(file, 0, None, Advice::DontNeed), "drop from the page cache files in")?;
        Ok(if self.direct { CacheDropped::NoCache } else { CacheDropped::Advised })
    }

    fn cached(&self) -> Option<u64> {
        if !self.in_directory {
            return None;
        }
        let size = self.shape.size;
        let each =
            self.io.files().iter().map(|file| resident_bytes(file.as_fd(), size.min(length_of(file))).ok());
        each.sum()
    }

    fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    fn owns_files(&self) -> bool {
        self.own
    }

    fn has_made_target(&self) -> bool {
        self.made
    }

    fn remove(&mut self) -> Result<(), StorageError> {
        if !self.in_directory {
            return Ok(());
        }
        // The data file's mark says whose the small files are: it goes last.
        let names = self.names();
        gone(&names, std::fs::remove_dir_all(&names))?;
        (0..self.shape.files)
            .map(|number| self.file(number))
            .try_for_each(|path| gone(&path, std::fs::remove_file(&path)))
    }

    fn remove_target(&mut self) -> Result<(), StorageError> {
        gone(&self.path, std::fs::remove_file(&self.path))
    }
}

/// What was to be removed may be gone already.
fn gone(path: &Path, removed: std::io::Result<()>) -> Result<(), StorageError> {
    removed
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .map_err(|error| StorageError::system(format!("remove {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_kernel_are_told_apart() {
        for (error, expected) in [
            (Errno::NOSPC, Failure::NoSpace),
            (Errno::DQUOT, Failure::NoSpace),
            (Errno::FBIG, Failure::NoSpace),
            (Errno::ROFS, Failure::ReadOnly),
            (Errno::BUSY, Failure::Busy),
            (Errno::AGAIN, Failure::Busy),
            (Errno::STALE, Failure::Stale),
            (Errno::TIMEDOUT, Failure::TimedOut),
            (Errno::PERM, Failure::Refused),
            (Errno::NOENT, Failure::Missing),
            (Errno::IO, Failure::Other),
        ] {
            assert_eq!(failure(error), expected, "{error}");
        }
    }
}
