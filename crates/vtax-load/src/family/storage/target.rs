//! What is measured: a local directory, file or device, or the far end of a protocol's client.

use serde::{Deserialize, Serialize};

/// What one process works on. A target gets it when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of the process; names of files and extents follow from it.
    pub worker: usize,
    /// Its files.
    pub files: u32,
    /// Bytes of each of them.
    pub size: u64,
    /// The longest operation: each slot's buffer has at least this length.
    pub record: u32,
    /// Slots: so many operations may be under way at once.
    pub depth: u16,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads into the slot's buffer.
    Read,
    /// Writes from the slot's buffer.
    Write,
    /// Writes from the slot's buffer, and is done only when the data is durable.
    WriteDurable,
    /// Is done when all data of the file that was written before is durable.
    Flush,
    /// Makes the small file, with `length` bytes of the slot's buffer; durable where the operation's offset isn't 0.
    Create,
    /// Removes the file.
    Remove,
    /// Counts the names in the directory.
    List,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Whose buffer it uses.
    pub slot: u16,
    /// What it does.
    pub kind: Kind,
    /// The process's file, from 0.
    pub file: u32,
    /// Where in the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Its slot.
    pub slot: u16,
    /// Bytes (of `List`: names), or how it failed.
    pub result: Result<u32, Failure>,
    /// The far end may have been asked for it, or for a part of it; false only where it certainly wasn't.
    pub sent: bool,
}

/// How an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The volume is full.
    NoSpace,
    /// It is mounted or exported read-only.
    ReadOnly,
    /// The target is busy.
    Busy,
    /// The file handle is not valid any more.
    Stale,
    /// The connection broke.
    Lost,
    /// There was no answer in time.
    TimedOut,
    /// Access is refused.
    Refused,
    /// A SCSI check condition that is none of the others.
    Check,
    /// The file isn't there.
    Missing,
    /// The answer was not valid in the protocol.
    Protocol,
    /// Fewer bytes than asked for.
    Short,
    /// Anything else.
    Other,
}

impl Failure {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NoSpace => "no space left",
            Self::ReadOnly => "read-only",
            Self::Busy => "busy",
            Self::Stale => "stale file handle",
            Self::Lost => "connection lost",
            Self::TimedOut => "timed out",
            Self::Refused => "access refused",
            Self::Check => "check condition",
            Self::Missing => "file not found",
            Self::Protocol => "not valid in the protocol",
            Self::Short => "fewer bytes than asked for",
            Self::Other => "other",
        }
    }
}

/// What is at the other end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// What it is, in a few words: `ext4 on virtio-blk`, `IET VIRTUAL-DISK`.
    pub what: String,
    /// Operations must begin at and span multiples of this.
    pub block: u32,
    /// Bytes that it holds, where it says so.
    pub capacity: Option<u64>,
    /// Whether it may answer writes before they are durable, where it says so.
    pub write_cache: Option<bool>,
    /// What was really sent and received since it was opened, by name.
    pub counters: Vec<(String, u64)>,
}

/// What became of the cache on the client's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheDropped {
    /// The kernel was asked to drop what it has of the files (`posix_fadvise`, DONTNEED).
    Advised,
    /// There is none: operations pass it by, or the client keeps nothing.
    NoCache,
}

/// Why a target can't be worked on.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// It can't be opened.
    #[error("{target}: {reason}")]
    Open {
        /// The file, device or volume.
        target: String,
        /// Why not, in words.
        reason: String,
    },
    /// It is too small for what is asked.
    #[error("{target}: needs {needed} bytes, {free} are free")]
    TooSmall {
        /// The file, device or volume.
        target: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        free: u64,
    },
    /// It holds what isn't vtax's.
    #[error("{target}: {reason}; name it twice (--overwrite {target}) to have it overwritten")]
    Foreign {
        /// The file, device or volume.
        target: String,
        /// What was found.
        reason: String,
    },
    /// It refuses, or can't do this.
    #[error("{reason}")]
    Refused {
        /// Why not, in words.
        reason: String,
    },
    /// The system refused something.
    #[error("{operation}")]
    System {
        /// What was tried.
        operation: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

impl StorageError {
    /// From the kernel's answer.
    pub fn system(operation: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { operation: operation.into(), source: source.into() }
    }
}

/// Where operations go. One belongs to one process and is made in its thread.
pub trait Target {
    /// What is at the other end; counters as they are now.
    fn facts(&self) -> Facts;

    /// Opens or makes the process's files, or looks whether its extent is there. Before anything is timed.
    ///
    /// # Errors
    /// They can't be opened, there is no room for them, or they are somebody else's.
    fn prepare(&mut self) -> Result<(), StorageError>;

    /// Makes the process's files empty, so that the next write makes them anew. Nothing where they are extents.
    ///
    /// # Errors
    /// They can't be emptied.
    fn empty(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// The buffer of a slot. Not called while the slot is under way.
    fn buffer(&mut self, slot: u16) -> &mut [u8];

    /// Takes an operation. May only queue it. Neither waits nor allocates, unless
    /// [`at_once`](Self::at_once) says that such are carried out here.
    ///
    /// # Errors
    /// The process can't go on. An operation that fails is a [`Done`] with a [`Failure`].
    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError>;

    /// Whether `submit` carries operations of this kind out before it returns.
    fn at_once(&self, _: Kind) -> bool {
        false
    }

    /// Sends what is queued and takes what is done. Waits until something is done, at most `sleep` nanoseconds (0: only looks;
    /// `u64::MAX`: as long as it takes). Appends to `done`, which has room.
    ///
    /// # Errors
    /// The process can't go on.
    fn wait(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), StorageError>;

    /// Allows answers to wait for each other a little, so that one wake-up takes several: for closed loops, in which no start has
    /// a time of its own. Only clients of vtax's own do, and tell in their counters how often.
    fn gather(&mut self) {}

    /// Says that every write is followed by a sync on its slot: what the far end has lost of other writes is no failure of that
    /// sync.
    fn sync_each(&mut self) {}

    /// Makes the client's cache forget the process's files, after they were synced. Clients of vtax's own have none.
    ///
    /// # Errors
    /// The kernel refuses.
    fn drop_cache(&mut self) -> Result<CacheDropped, StorageError> {
        Ok(CacheDropped::NoCache)
    }

    /// How many bytes of the process's files the client's cache holds; `None` where that can't be known.
    fn cached(&self) -> Option<u64> {
        None
    }

    /// Words for the first operation that failed.
    fn first_failure(&self) -> Option<&str>;

    /// Closes; files stay.
    ///
    /// # Errors
    /// The far end can't be taken leave of.
    fn finish(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Whether `prepare` found the process's files to be vtax's, or none that are somebody else's: only then may they be emptied
    /// or removed.
    fn owns_files(&self) -> bool {
        false
    }

    /// Whether a write that ended with this failure may still be carried out, even after a later one was.
    fn may_land_late(&self, failure: Failure) -> bool {
        failure == Failure::TimedOut
    }

    /// Whether the operation under way in this slot may have been sent; as [`Done::sent`], of what hasn't ended.
    fn is_sent(&self, _: u16) -> bool {
        true
    }

    /// Whether `prepare` made the one file that it was given, which wasn't there before.
    fn has_made_target(&self) -> bool {
        false
    }

    /// Removes the files that `prepare` makes in a directory.
    ///
    /// # Errors
    /// They can't be removed.
    fn remove(&mut self) -> Result<(), StorageError>;

    /// Removes the one file that it was given, which an earlier target has [made](Self::has_made_target).
    ///
    /// # Errors
    /// It can't be removed.
    fn remove_target(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}
