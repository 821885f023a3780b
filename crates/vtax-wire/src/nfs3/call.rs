//! Calls as a client sends them.

use super::{MOUNT_PROGRAM, NULL, PORT_MAPPER, PROGRAM, VERSION};
use crate::nfs::{Handle, Stability, Verifier};
use crate::rpc::{Caller, Procedure, begin_call, end_call};
use crate::xdr::{fixed, long, opaque, word};

/// The transport that ports are asked for: TCP.
const TCP: u32 = 6;
/// How a file is made: it must not be there.
const GUARDED: u32 = 1;
const UNCHECKED: u32 = 0;

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// NULL: nothing but an answer.
    Null,
    /// GETATTR.
    Attributes(&'a Handle),
    /// SETATTR: the file gets this size.
    SetSize(&'a Handle, u64),
    /// LOOKUP of a name in a directory.
    LookUp(&'a Handle, &'a str),
    /// READ.
    Read {
        /// The file.
        file: &'a Handle,
        /// From this byte on.
        offset: u64,
        /// So many bytes.
        length: u32,
    },
    /// WRITE, up to where the data begins: append it with its padding, or say that it follows from elsewhere.
    Write {
        /// The file.
        file: &'a Handle,
        /// From this byte on.
        offset: u64,
        /// So many bytes.
        length: u32,
        /// When it is on stable storage.
        stability: Stability,
    },
    /// COMMIT of all of a file.
    Commit(&'a Handle),
    /// CREATE of a file in a directory.
    Create {
        /// The directory.
        directory: &'a Handle,
        /// Its name.
        name: &'a str,
        /// It must not be there.
        new: bool,
    },
    /// MKDIR.
    MakeDirectory(&'a Handle, &'a str),
    /// REMOVE of a file from a directory.
    Remove(&'a Handle, &'a str),
    /// RMDIR.
    RemoveDirectory(&'a Handle, &'a str),
    /// READDIRPLUS, from where an earlier answer ended.
    List {
        /// The directory.
        directory: &'a Handle,
        /// Where to go on; 0 at first.
        cookie: u64,
        /// Of the earlier answer.
        verifier: Verifier,
        /// Bytes of the answer.
        most: u32,
    },
    /// FSINFO.
    Limits(&'a Handle),
    /// FSSTAT.
    Space(&'a Handle),
    /// MNT, of MOUNT.
    Mount(&'a str),
    /// UMNT, of MOUNT.
    Unmount(&'a str),
    /// GETPORT of a program's version, of the port mapper.
    Port(u32, u32),
}

impl Call<'_> {
    /// The procedure.
    #[must_use]
    pub const fn procedure(&self) -> Procedure {
        let (program, version, number) = match self {
            Self::Null => return NULL,
            Self::Attributes(_) => (PROGRAM, VERSION, 1),
            Self::SetSize(..) => (PROGRAM, VERSION, 2),
            Self::LookUp(..) => (PROGRAM, VERSION, 3),
            Self::Read { .. } => (PROGRAM, VERSION, 6),
            Self::Write { .. } => (PROGRAM, VERSION, 7),
            Self::Create { .. } => (PROGRAM, VERSION, 8),
            Self::MakeDirectory(..) => (PROGRAM, VERSION, 9),
            Self::Remove(..) => (PROGRAM, VERSION, 12),
            Self::RemoveDirectory(..) => (PROGRAM, VERSION, 13),
            Self::List { .. } => (PROGRAM, VERSION, 17),
            Self::Space(_) => (PROGRAM, VERSION, 18),
            Self::Limits(_) => (PROGRAM, VERSION, 19),
            Self::Commit(_) => (PROGRAM, VERSION, 21),
            Self::Mount(_) => (MOUNT_PROGRAM, VERSION, 1),
            Self::Unmount(_) => (MOUNT_PROGRAM, VERSION, 3),
            Self::Port(..) => (PORT_MAPPER, 2, 3),
        };
        Procedure { program, version, number }
    }

    /// Appends the call.
    pub fn append(&self, out: &mut Vec<u8>, xid: u32, caller: &Caller) {
        self.append_before(out, xid, caller, 0);
    }

    /// Appends the call before `more` bytes that belong to it and follow from elsewhere.
    pub fn append_before(&self, out: &mut Vec<u8>, xid: u32, caller: &Caller, more: usize) {
        let begin = begin_call(out, xid, self.procedure(), Some(caller));
        self.arguments(out);
        end_call(out, begin, more);
    }

    /// Appends the call of a WRITE with its data.
    pub fn append_with(&self, out: &mut Vec<u8>, xid: u32, caller: &Caller, data: &[u8]) {
        let begin = begin_call(out, xid, self.procedure(), Some(caller));
        self.arguments(out);
        fixed(out, data);
        end_call(out, begin, 0);
    }

    fn arguments(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Null => {}
            Self::Attributes(file) | Self::Limits(file) | Self::Space(file) => handle(out, file),
            Self::SetSize(file, size) => {
                handle(out, file);
                settable(out, None, Some(size));
                // Whatever its time of change.
                word(out, 0);
            }
            Self::LookUp(directory, name)
            | Self::Remove(directory, name)
            | Self::RemoveDirectory(directory, name) => named(out, directory, name),
            Self::Read { file, offset, length } => {
                handle(out, file);
                long(out, offset);
                word(out, length);
            }
            Self::Write { file, offset, length, stability } => {
                handle(out, file);
                long(out, offset);
                [length, stability as u32, length].into_iter().for_each(|value| word(out, value));
            }
            Self::Commit(file) => {
                handle(out, file);
                long(out, 0);
                word(out, 0);
            }
            Self::Create { directory, name, new } => {
                named(out, directory, name);
                word(out, if new { GUARDED } else { UNCHECKED });
                settable(out, Some(0o644), None);
            }
            Self::MakeDirectory(directory, name) => {
                named(out, directory, name);
                settable(out, Some(0o755), None);
            }
            Self::List { directory, cookie, verifier, most } => {
                handle(out, directory);
                long(out, cookie);
                fixed(out, &verifier);
                word(out, most);
                word(out, most);
            }
            Self::Mount(path) | Self::Unmount(path) => opaque(out, path.as_bytes()),
            Self::Port(program, version) => {
                [program, version, TCP, 0].into_iter().for_each(|value| word(out, value));
            }
        }
    }
}

fn handle(out: &mut Vec<u8>, handle: &Handle) {
    opaque(out, handle.as_bytes());
}

fn named(out: &mut Vec<u8>, directory: &Handle, name: &str) {
    handle(out, directory);
    opaque(out, name.as_bytes());
}

/// Attributes that are set (`sattr3`): mode, owner, group, size, times of access and change.
fn settable(out: &mut Vec<u8>, mode: Option<u32>, size: Option<u64>) {
    word(out, mode.is_some().into());
    mode.into_iter().for_each(|mode| word(out, mode));
    [0, 0].into_iter().for_each(|value| word(out, value));
    word(out, size.is_some().into());
    size.into_iter().for_each(|size| long(out, size));
    [0, 0].into_iter().for_each(|value| word(out, value));
}
