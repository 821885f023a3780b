//! Version 3: no session and no open files, but calls by handle. The export is found by MOUNT, whose port the port
//! mapper knows unless it is given.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use vtax_wire::nfs::{Entries, Handle, NfsError, status};
use vtax_wire::nfs3::{Call, MOUNT_PROGRAM, VERSION, results};
use vtax_wire::nfs4::{FileFacts, StateId};
use vtax_wire::rpc::Caller;
use vtax_wire::xdr::{self, Reader};

use super::dialect::{Calling, Dialect, Line, Names, Open, Place, Told};
use super::spec::NfsSpec;
use super::wire::{LinkError, Linked, Wire, patiently};
use super::{AROUND, LIST_BYTES, Step, TRANSFER, Task};
use crate::family::storage::target::Kind;

/// How long the farewell to MOUNT may take.
const FAREWELL: Duration = Duration::from_millis(200);
/// The state of files that have none.
const NO_STATE: StateId = StateId { seqid: 0, other: [0; 12] };

/// A mounted export.
#[derive(Debug)]
pub(super) struct Mount {
    /// Where MOUNT is served, and what was mounted.
    mounts: SocketAddr,
    path: String,
    spec: NfsSpec,
    /// Of each slot the small file that is being made.
    made: Vec<Option<Handle>>,
}

/// One call, and its answer. A server that wants more time is asked again.
fn ask<T>(
    line: &mut Line<'_>,
    call: Call<'_>,
    mut read: impl FnMut(Reader<'_>) -> Result<T, NfsError>,
) -> Linked<T> {
    let until = line.until;
    patiently(until, || {
        line.wire.exchange(|out, tag, caller| call.append(out, tag, caller), &mut read, until)
    })
}

/// Where MOUNT is served.
fn mounts(spec: &NfsSpec, until: Instant) -> Linked<SocketAddr> {
    let at = |port| SocketAddr::new(spec.address.ip(), port);
    if let Some(port) = spec.mount_port {
        return Ok(at(port));
    }
    let asked = Wire::connect(at(spec.port_mapper), spec, until).and_then(|mut wire| {
        ask(&mut Line { wire: &mut wire, until }, Call::Port(MOUNT_PROGRAM, VERSION), results::port)
    });
    match asked {
        Ok(port) => port.map(at).ok_or(LinkError::NotServed),
        Err(error) => Err(LinkError::PortMapper { error: Box::new(error) }),
    }
}

/// Mounts as much of the path as the server exports: what was mounted, its handle, and how many names it has.
fn mount(line: &mut Line<'_>, spec: &NfsSpec) -> Linked<(String, Handle, usize)> {
    let names: Vec<&str> = spec.names().collect();
    let mut first = None;
    for count in (0..=names.len()).rev() {
        let path = format!("/{}", names[..count].join("/"));
        match ask(line, Call::Mount(&path), results::mounted) {
            Ok(handle) => return Ok((path, handle, count)),
            // It may be below what is exported.
            Err(LinkError::Nfs(error)) if error.status().is_some() => {
                first.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let error = first.unwrap_or(NfsError::Order);
    Err(LinkError::Path { name: spec.path.clone(), error })
}

impl Mount {
    /// Reads the answer to one of the calls that make a small file.
    fn made<'a>(&mut self, task: &Task, results: Reader<'a>) -> Result<Told<'a>, NfsError> {
        let handle = match task.step {
            Step::Make => results::created(results)?,
            Step::Find => Some(results::looked_up(results)?),
            Step::Fill => return Ok(Told::Created(results::written(results)?.count)),
        };
        let slot = self.made.get_mut(usize::from(task.operation.slot)).ok_or(NfsError::Order)?;
        *slot = handle;
        Ok(Told::Next(if handle.is_some() { Step::Fill } else { Step::Find }))
    }

    /// Appends the next call that makes a small file.
    fn append_making(&self, out: &mut Vec<u8>, calling: Calling<'_>) {
        let Calling { tag, task, caller, files, buffer } = calling;
        let (directory, name) = (files.names(), task.operation.file.to_string());
        let made = self.made.get(usize::from(task.operation.slot)).copied().flatten();
        match (task.step, made) {
            (Step::Make, _) => Call::Create { directory, name: &name, new: true }.append(out, tag, caller),
            (Step::Fill, Some(file)) => {
                let length = task.operation.length;
                let call = Call::Write { file: &file, offset: 0, length, stability: task.stability() };
                call.append_with(out, tag, caller, &buffer[..length as usize]);
            }
            (Step::Find | Step::Fill, _) => Call::LookUp(directory, &name).append(out, tag, caller),
        }
    }
}

impl Dialect for Mount {
    const NAME: &'static str = "NFS 3";
    const OUTLIVES_CONNECTIONS: bool = true;
    type Results<'a> = Reader<'a>;

    fn begin(spec: &NfsSpec, _owner: &[u8], depth: u16, until: Instant) -> Linked<(Self, Wire, Handle)> {
        let mounts = mounts(spec, until)?;
        let mut wire = Wire::connect(mounts, spec, until)?;
        let (path, mut here, count) = mount(&mut Line { wire: &mut wire, until }, spec)?;
        let mut wire = Wire::connect(spec.address, spec, until)?;
        let mut line = Line { wire: &mut wire, until };
        for name in spec.names().skip(count) {
            let found = ask(&mut line, Call::LookUp(&here, name), results::looked_up);
            here = found.map_err(|error| match error {
                LinkError::Nfs(error) => LinkError::Path { name: spec.path.clone(), error },
                other => other,
            })?;
        }
        let made = vec![None; depth.into()];
        Ok((Self { mounts, path, spec: spec.clone(), made }, wire, here))
    }

    fn file_system(&mut self, line: &mut Line<'_>, directory: &Handle) -> Linked<FileFacts> {
        let limits = ask(line, Call::Limits(directory), results::limits)?;
        let space = ask(line, Call::Space(directory), results::space)?;
        Ok(FileFacts {
            longest_read: Some(limits.longest_read.into()),
            longest_write: Some(limits.longest_write.into()),
            free: Some(space.free),
            total: Some(space.total),
            ..FileFacts::default()
        })
    }

    fn look_up(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<Handle> {
        ask(line, Call::LookUp(directory, name), results::looked_up)
    }

    fn open_file(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<(Open, u64)> {
        let look_up = Call::LookUp(directory, name);
        let handle = match ask(line, look_up, results::looked_up) {
            Err(LinkError::Nfs(error)) if error.status() == Some(status::NOENT) => {
                let create = Call::Create { directory, name, new: false };
                match ask(line, create, results::created)? {
                    Some(handle) => handle,
                    None => ask(line, look_up, results::looked_up)?,
                }
            }
            other => other?,
        };
        let attributes = ask(line, Call::Attributes(&handle), results::attributes)?;
        Ok((Open { handle, state: NO_STATE }, attributes.size))
    }

    fn make_directory(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<Handle> {
        match ask(line, Call::MakeDirectory(directory, name), results::made_directory) {
            Ok(Some(handle)) => return Ok(handle),
            Ok(None) => {}
            Err(LinkError::Nfs(error)) if error.status() == Some(status::EXIST) => {}
            Err(error) => return Err(error),
        }
        ask(line, Call::LookUp(directory, name), results::looked_up)
    }

    fn head(&mut self, line: &mut Line<'_>, open: Open, length: u32) -> Linked<Vec<u8>> {
        let call = Call::Read { file: &open.handle, offset: 0, length };
        let read = |reader: Reader<'_>| Ok(results::data(reader, length as usize)?.0.to_vec());
        ask(line, call, read)
    }

    fn set_size(&mut self, line: &mut Line<'_>, open: Open, size: u64) -> Linked<()> {
        ask(line, Call::SetSize(&open.handle, size), results::set)
    }

    fn close(&mut self, _: &mut Line<'_>, _: Open) -> Linked<()> {
        Ok(())
    }

    fn remove(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<()> {
        ask(line, Call::Remove(directory, name), results::removed)
    }

    fn remove_directory(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<()> {
        ask(line, Call::RemoveDirectory(directory, name), results::removed_directory)
    }

    fn list(&mut self, line: &mut Line<'_>, of: &Handle, from: Place, each: Names<'_>) -> Linked<Entries> {
        let (cookie, verifier) = from;
        let call = Call::List { directory: of, cookie, verifier, most: LIST_BYTES };
        ask(line, call, |reader| results::entries(reader, &mut *each))
    }

    fn leave(&mut self, line: &mut Line<'_>) -> Linked<()> {
        // The server's list of who has mounted what is for people to read.
        let until = line.until.min(Instant::now() + FAREWELL);
        let mut wire = Wire::connect(self.mounts, &self.spec, until)?;
        ask(&mut Line { wire: &mut wire, until }, Call::Unmount(&self.path), |_| Ok(()))
    }

    fn longest(&self) -> (u32, u32) {
        (TRANSFER + AROUND, TRANSFER + AROUND)
    }

    fn words(&self) -> String {
        String::new()
    }

    fn take_place(&mut self) -> Option<u32> {
        Some(0)
    }

    fn give_back(&mut self, _: u32) -> Linked<()> {
        Ok(())
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn append(&self, out: &mut Vec<u8>, calling: Calling<'_>) -> Option<&'static [u8]> {
        let Calling { tag, task, caller, files, .. } = calling;
        let operation = task.operation;
        let name = || operation.file.to_string();
        let offset = operation.offset + u64::from(task.moved);
        match (operation.kind, files.of(operation.file)) {
            (Kind::Read, Some(file)) => {
                Call::Read { file: &file.handle, offset, length: task.part }.append(out, tag, caller);
            }
            (Kind::Write | Kind::WriteDurable, Some(file)) => {
                let (length, stability) = (task.part, task.stability());
                let padding = xdr::padding(length as usize);
                let call = Call::Write { file: &file.handle, offset, length, stability };
                call.append_before(out, tag, caller, length as usize + padding.len());
                return Some(padding);
            }
            (Kind::Flush, Some(file)) => Call::Commit(&file.handle).append(out, tag, caller),
            (Kind::Create, _) => self.append_making(out, calling),
            (Kind::Remove, _) => Call::Remove(files.names(), &name()).append(out, tag, caller),
            (Kind::List, _) => {
                let (cookie, verifier) = (task.cookie, task.verifier);
                let call = Call::List { directory: files.names(), cookie, verifier, most: LIST_BYTES };
                call.append(out, tag, caller);
            }
            // There is no such file: what the server answers is none of its results.
            _ => Call::Null.append(out, tag, caller),
        }
        None
    }

    fn append_life(&self, out: &mut Vec<u8>, tag: u32, _: u32, caller: &Caller) {
        Call::Null.append(out, tag, caller);
    }

    fn begin_results<'a>(&mut self, reader: Reader<'a>) -> Linked<(Option<u32>, Reader<'a>)> {
        Ok((None, reader))
    }

    fn told<'a>(&mut self, task: &Task, results: Self::Results<'a>) -> Result<Told<'a>, NfsError> {
        Ok(match task.operation.kind {
            Kind::Read => {
                let (data, end) = results::data(results, task.part as usize)?;
                Told::Read(data, end)
            }
            Kind::Write | Kind::WriteDurable => Told::Written(results::written(results)?),
            Kind::Flush => Told::Committed(results::committed(results)?),
            Kind::Create => return self.made(task, results),
            Kind::Remove => {
                results::removed(results)?;
                Told::Removed
            }
            Kind::List => Told::Listed(results::entries(results, |_| ())?),
        })
    }

    fn is_lost(_: u32) -> bool {
        false
    }
}
