//! Results of calls. Each function takes what [`crate::rpc::results`] gave.

use super::HANDLE_BYTES_MAX;
use crate::nfs::{Entries, Handle, NAME_BYTES_MAX, NfsError, Verifier, Written, status};
use crate::xdr::{Reader, XdrError};

/// What names of statuses begin with.
const NFS: &str = "NFS3";
const MOUNT: &str = "MNT3";
/// Kinds of authentication that an export may take, at most.
const FLAVORS_MAX: usize = 64;

/// Of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// 1: a file, 2: a directory.
    pub kind: u32,
    /// Bytes.
    pub size: u64,
}

/// What FSINFO gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest read.
    pub longest_read: u32,
    /// Longest write.
    pub longest_write: u32,
    /// Largest file.
    pub largest: u64,
}

/// What FSSTAT gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the whole file system.
    pub total: u64,
    /// Bytes that the caller may still use.
    pub free: u64,
}

fn ended(reader: &mut Reader<'_>, operation: &'static str) -> Result<(), NfsError> {
    match reader.word()? {
        status::OK => Ok(()),
        status => Err(NfsError::Status { protocol: NFS, operation, status }),
    }
}

/// GETATTR.
///
/// # Errors
/// It failed, or makes no sense; so with all others.
pub fn attributes(mut reader: Reader<'_>) -> Result<Attributes, NfsError> {
    ended(&mut reader, "GETATTR")?;
    Ok(read_attributes(&mut reader)?)
}

/// SETATTR.
///
/// # Errors
/// It failed, or makes no sense.
pub fn set(mut reader: Reader<'_>) -> Result<(), NfsError> {
    ended(&mut reader, "SETATTR")?;
    Ok(change(&mut reader)?)
}

/// LOOKUP.
///
/// # Errors
/// It failed, or makes no sense.
pub fn looked_up(mut reader: Reader<'_>) -> Result<Handle, NfsError> {
    ended(&mut reader, "LOOKUP")?;
    Ok(handle(&mut reader)?)
}

/// READ: the data, of at most so many bytes, and whether the file ends with it.
///
/// # Errors
/// It failed, or makes no sense.
pub fn data(mut reader: Reader<'_>, most: usize) -> Result<(&[u8], bool), NfsError> {
    ended(&mut reader, "READ")?;
    possible_attributes(&mut reader)?;
    let (count, end) = (reader.word()?, reader.flag()?);
    let data = reader.opaque(most)?;
    if data.len() != count as usize { Err(XdrError::Value.into()) } else { Ok((data, end)) }
}

/// WRITE.
///
/// # Errors
/// It failed, or makes no sense.
pub fn written(mut reader: Reader<'_>) -> Result<Written, NfsError> {
    ended(&mut reader, "WRITE")?;
    change(&mut reader)?;
    Ok(Written { count: reader.word()?, committed: reader.word()?, verifier: reader.array()? })
}

/// COMMIT.
///
/// # Errors
/// It failed, or makes no sense.
pub fn committed(mut reader: Reader<'_>) -> Result<Verifier, NfsError> {
    ended(&mut reader, "COMMIT")?;
    change(&mut reader)?;
    Ok(reader.array()?)
}

/// CREATE: the file's handle, where the server gives it.
///
/// # Errors
/// It failed, or makes no sense.
pub fn created(reader: Reader<'_>) -> Result<Option<Handle>, NfsError> {
    made(reader, "CREATE")
}

/// MKDIR: the directory's handle, where the server gives it.
///
/// # Errors
/// It failed, or makes no sense.
pub fn made_directory(reader: Reader<'_>) -> Result<Option<Handle>, NfsError> {
    made(reader, "MKDIR")
}

fn made(mut reader: Reader<'_>, operation: &'static str) -> Result<Option<Handle>, NfsError> {
    ended(&mut reader, operation)?;
    let found = possible_handle(&mut reader)?;
    possible_attributes(&mut reader)?;
    change(&mut reader)?;
    Ok(found)
}

/// REMOVE.
///
/// # Errors
/// It failed, or makes no sense.
pub fn removed(mut reader: Reader<'_>) -> Result<(), NfsError> {
    ended(&mut reader, "REMOVE")?;
    Ok(change(&mut reader)?)
}

/// RMDIR.
///
/// # Errors
/// It failed, or makes no sense.
pub fn removed_directory(mut reader: Reader<'_>) -> Result<(), NfsError> {
    ended(&mut reader, "RMDIR")?;
    Ok(change(&mut reader)?)
}

/// READDIRPLUS; each name but `.` and `..` is shown to `each`.
///
/// # Errors
/// It failed, or makes no sense.
pub fn entries(mut reader: Reader<'_>, mut each: impl FnMut(&[u8])) -> Result<Entries, NfsError> {
    ended(&mut reader, "READDIRPLUS")?;
    possible_attributes(&mut reader)?;
    let mut found = Entries { verifier: reader.array()?, ..Entries::default() };
    while reader.flag()? {
        let _number = reader.long()?;
        let name = reader.opaque(NAME_BYTES_MAX)?;
        found.cookie = reader.long()?;
        possible_attributes(&mut reader)?;
        possible_handle(&mut reader)?;
        found.any = true;
        if !matches!(name, b"." | b"..") {
            each(name);
            found.count += 1;
        }
    }
    found.end = reader.flag()?;
    Ok(found)
}

/// FSINFO.
///
/// # Errors
/// It failed, or makes no sense.
pub fn limits(mut reader: Reader<'_>) -> Result<Limits, NfsError> {
    ended(&mut reader, "FSINFO")?;
    possible_attributes(&mut reader)?;
    let (longest_read, _preferred, _multiple) = (reader.word()?, reader.word()?, reader.word()?);
    let (longest_write, _preferred, _multiple) = (reader.word()?, reader.word()?, reader.word()?);
    let (_list, largest) = (reader.word()?, reader.long()?);
    Ok(Limits { longest_read, longest_write, largest })
}

/// FSSTAT.
///
/// # Errors
/// It failed, or makes no sense.
pub fn space(mut reader: Reader<'_>) -> Result<Space, NfsError> {
    ended(&mut reader, "FSSTAT")?;
    possible_attributes(&mut reader)?;
    let (total, _free, free) = (reader.long()?, reader.long()?, reader.long()?);
    Ok(Space { total, free })
}

/// MNT: the handle of the directory.
///
/// # Errors
/// It failed, or makes no sense.
pub fn mounted(mut reader: Reader<'_>) -> Result<Handle, NfsError> {
    match reader.word()? {
        status::OK => {}
        status => return Err(NfsError::Status { protocol: MOUNT, operation: "MNT", status }),
    }
    let found = handle(&mut reader)?;
    let flavors = reader.count(4)?;
    if flavors > FLAVORS_MAX { Err(XdrError::Long.into()) } else { Ok(found) }
}

/// GETPORT: the port; `None` where the program isn't registered.
///
/// # Errors
/// It makes no sense.
pub fn port(mut reader: Reader<'_>) -> Result<Option<u16>, NfsError> {
    let port = u16::try_from(reader.word()?).map_err(|_| XdrError::Value)?;
    Ok((port != 0).then_some(port))
}

fn handle(reader: &mut Reader<'_>) -> Result<Handle, XdrError> {
    Handle::of(reader.opaque(HANDLE_BYTES_MAX)?).ok_or(XdrError::Long)
}

fn possible_handle(reader: &mut Reader<'_>) -> Result<Option<Handle>, XdrError> {
    reader.flag()?.then(|| handle(reader)).transpose()
}

/// `fattr3`.
fn read_attributes(reader: &mut Reader<'_>) -> Result<Attributes, XdrError> {
    let kind = reader.word()?;
    let _mode_links_owner_group = reader.fixed(16)?;
    let size = reader.long()?;
    // Bytes used, device, file system, number, three times.
    let _rest = reader.fixed(8 + 8 + 8 + 8 + 24)?;
    Ok(Attributes { kind, size })
}

fn possible_attributes(reader: &mut Reader<'_>) -> Result<(), XdrError> {
    if reader.flag()? {
        read_attributes(reader)?;
    }
    Ok(())
}

/// How a file or directory changed (`wcc_data`).
fn change(reader: &mut Reader<'_>) -> Result<(), XdrError> {
    if reader.flag()? {
        // Size and two times.
        reader.fixed(8 + 8 + 8)?;
    }
    possible_attributes(reader)
}
