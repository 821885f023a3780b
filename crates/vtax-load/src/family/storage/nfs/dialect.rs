//! What differs between the versions of NFS.

use std::fmt::Debug;
use std::time::Instant;

use vtax_wire::nfs::{Entries, Handle, NfsError, Verifier, Written};
use vtax_wire::nfs4::{FileFacts, StateId};
use vtax_wire::rpc::Caller;
use vtax_wire::xdr::Reader;

use super::spec::NfsSpec;
use super::wire::{Linked, Wire};
use super::{Step, Task};

/// A file that is open. Version 3 knows no such state: its handle is all there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) handle: Handle,
    pub(super) state: StateId,
}

/// What calls are about.
#[derive(Debug)]
pub(super) struct Files {
    /// The directory that the specification names, and that of the small files.
    pub(super) directory: Handle,
    pub(super) names: Option<Handle>,
    pub(super) open: Vec<Open>,
}

impl Files {
    /// The file of this number. Where it isn't open the first is, so that the server refuses what is beyond.
    pub(super) fn of(&self, number: u32) -> Option<&Open> {
        self.open.get(number as usize).or(self.open.first())
    }

    /// The directory of the small files.
    pub(super) fn names(&self) -> &Handle {
        self.names.as_ref().unwrap_or(&self.directory)
    }
}

/// A call that is to be appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calling<'a> {
    pub(super) tag: u32,
    pub(super) task: &'a Task,
    pub(super) caller: &'a Caller,
    pub(super) files: &'a Files,
    /// The slot's buffer.
    pub(super) buffer: &'a [u8],
}

/// What an answer says.
#[derive(Debug)]
pub(super) enum Told<'a> {
    /// Data, and whether the file ends with it.
    Read(&'a [u8], bool),
    Written(Written),
    Committed(Verifier),
    /// A small file is there, with so many bytes.
    Created(u32),
    Removed,
    Listed(Entries),
    /// A part of the operation is done: this one follows.
    Next(Step),
}

/// A connection, and until when answers are waited for.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) wire: &'a mut Wire,
    pub(super) until: Instant,
}

/// Where the next part of a directory begins.
pub(super) type Place = (u64, Verifier);

/// Takes each name of a directory.
pub(super) type Names<'a> = &'a mut dyn FnMut(&[u8]);

/// One version of NFS, over one connection.
pub(super) trait Dialect: Sized + Send + Debug + 'static {
    /// Its name.
    const NAME: &'static str;
    /// What was asked for over a connection may be carried out after another has taken its place.
    const OUTLIVES_CONNECTIONS: bool;
    /// Results that are being read.
    type Results<'a>;

    /// Connects, and finds the directory.
    fn begin(spec: &NfsSpec, owner: &[u8], depth: u16, until: Instant) -> Linked<(Self, Wire, Handle)>;

    /// What the directory's file system can do.
    fn file_system(&mut self, line: &mut Line<'_>, directory: &Handle) -> Linked<FileFacts>;

    /// What has this name.
    fn look_up(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<Handle>;

    /// Opens a file, making it where it isn't there; its size.
    fn open_file(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<(Open, u64)>;

    /// The directory of this name, made where it isn't there.
    fn make_directory(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<Handle>;

    /// The first bytes of a file.
    fn head(&mut self, line: &mut Line<'_>, open: Open, length: u32) -> Linked<Vec<u8>>;

    /// Gives a file this size.
    fn set_size(&mut self, line: &mut Line<'_>, open: Open, size: u64) -> Linked<()>;

    /// Closes a file.
    fn close(&mut self, line: &mut Line<'_>, open: Open) -> Linked<()>;

    /// Removes a file.
    fn remove(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<()>;

    /// Removes an empty directory.
    fn remove_directory(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<()>;

    /// The next names of a directory.
    fn list(&mut self, line: &mut Line<'_>, of: &Handle, from: Place, each: Names<'_>) -> Linked<Entries>;

    /// Ends what the server remembers of the client.
    fn leave(&mut self, line: &mut Line<'_>) -> Linked<()>;

    /// Longest answer and call of the connection, as far as they are agreed on.
    fn longest(&self) -> (u32, u32);

    /// More words about what was agreed on.
    fn words(&self) -> String;

    /// Takes a place for a call; `None` where none is free.
    fn take_place(&mut self) -> Option<u32>;

    /// Gives one back.
    fn give_back(&mut self, place: u32) -> Linked<()>;

    /// True where no call is under way, as far as that is known.
    fn is_idle(&self) -> bool;

    /// Appends the next call of an operation. Where data of the slot's buffer follows: the padding behind it.
    fn append(&self, out: &mut Vec<u8>, calling: Calling<'_>) -> Option<&'static [u8]>;

    /// Appends a call that only shows that client and server live.
    fn append_life(&self, out: &mut Vec<u8>, tag: u32, place: u32, caller: &Caller);

    /// Begins to read results; in which place their call was, where there are places.
    fn begin_results<'a>(&mut self, reader: Reader<'a>) -> Linked<(Option<u32>, Self::Results<'a>)>;

    /// Reads the rest of the results of an operation.
    fn told<'a>(&mut self, task: &Task, results: Self::Results<'a>) -> Result<Told<'a>, NfsError>;

    /// True where a status means that what the server remembered is gone: it is made anew.
    fn is_lost(status: u32) -> bool;
}
