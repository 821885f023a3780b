//! Version 4.1: a session of one connection, in whose slots calls go; files are open.

use std::time::Instant;

use vtax_wire::nfs::{Entries, Handle, NfsError, status};
use vtax_wire::nfs4::{
    Attributes, Channel, ChannelFacts, Compound, FileFacts, HowOpen, Results, SessionId, StateId,
};
use vtax_wire::rpc::Caller;
use vtax_wire::xdr::{self, Reader};

use super::dialect::{Calling, Dialect, Line, Names, Open, Place, Told};
use super::spec::NfsSpec;
use super::wire::{LinkError, Linked, Wire, patiently};
use super::{AROUND, LIST_BYTES, TRANSFER, Task};
use crate::family::storage::client::random;
use crate::family::storage::target::Kind;

/// Slots that are asked for at least.
const SLOTS: u32 = 16;

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    client: u64,
    session: SessionId,
    channel: ChannelFacts,
    /// Of each slot of the session, the number of its next call.
    sequences: Vec<u32>,
    /// Slots of the session that are free.
    free: Vec<u32>,
}

impl Session {
    fn new(line: &mut Line<'_>, owner: &[u8], depth: u32) -> Linked<Self> {
        // A verifier of its own: what an earlier connection had open is given up by the server.
        let verifier = random()?;
        let id = call(line, |call| call.exchange_id(verifier, owner), |results| results.exchange_id())?;
        let slots = depth.max(SLOTS);
        let channel = Channel { request: TRANSFER + AROUND, response: TRANSFER + AROUND, slots };
        let made = call(
            line,
            |call| call.create_session(id.client, id.sequence, channel),
            |results| results.create_session(),
        )?;
        let channel = made.channel;
        if channel.slots == 0 || channel.operations < 6 || channel.response > TRANSFER + AROUND {
            return Err(LinkError::Order("a session that is of no use"));
        }
        let slots = channel.slots.min(slots);
        let mut session = Self {
            client: id.client,
            session: made.session,
            channel,
            sequences: vec![1; slots as usize],
            free: (0..slots).rev().collect(),
        };
        session.ask(line, |call| call.reclaim_complete(), |results| results.reclaim_complete())?;
        Ok(session)
    }

    /// Goes to the directory, name by name.
    fn walk(&mut self, line: &mut Line<'_>, spec: &NfsSpec) -> Linked<Handle> {
        let root = |results: &mut Results<'_>| {
            results.root()?;
            results.handle()
        };
        let mut here = self.ask(line, |call| call.root().handle(), root)?;
        for name in spec.names() {
            here = self.look_up(line, &here, name).map_err(|error| match error {
                LinkError::Nfs(error) => LinkError::Path { name: spec.path.clone(), error },
                other => other,
            })?;
        }
        Ok(here)
    }

    /// One call in the session's first free slot. A server that wants more time is asked again.
    fn ask<T>(
        &mut self,
        line: &mut Line<'_>,
        mut build: impl FnMut(Compound<'_>) -> Compound<'_>,
        mut read: impl FnMut(&mut Results<'_>) -> Result<T, NfsError>,
    ) -> Linked<T> {
        let slot = *self.free.last().ok_or(LinkError::Order("no free slot"))?;
        patiently(line.until, || {
            let (session, sequence) = (self.session, self.sequences[slot as usize]);
            let answer = call(
                line,
                |call| build(call.sequence(&session, (slot, sequence), slot)),
                |results| {
                    results.sequence()?;
                    Ok(read(results))
                },
            )?;
            self.sequences[slot as usize] = sequence.wrapping_add(1);
            Ok(answer?)
        })
    }

    /// Begins a call in a slot.
    fn compound<'a>(&self, out: &'a mut Vec<u8>, tag: u32, place: u32, caller: &Caller) -> Compound<'a> {
        // All slots may be in use: the highest is always said to be.
        let highest = self.sequences.len() as u32 - 1;
        let place = (place, self.sequences[place as usize]);
        Compound::begin(out, tag, caller).sequence(&self.session, place, highest)
    }
}

/// One call outside a session, and its answer.
fn call<T>(
    line: &mut Line<'_>,
    build: impl FnOnce(Compound<'_>) -> Compound<'_>,
    read: impl FnOnce(&mut Results<'_>) -> Result<T, NfsError>,
) -> Linked<T> {
    line.wire.exchange(
        |out, tag, caller| build(Compound::begin(out, tag, caller)).end(),
        |reader| read(&mut Results::read(reader)?),
        line.until,
    )
}

impl Dialect for Session {
    const NAME: &'static str = "NFS 4.1";
    const OUTLIVES_CONNECTIONS: bool = false;
    type Results<'a> = Results<'a>;

    fn begin(spec: &NfsSpec, owner: &[u8], depth: u16, until: Instant) -> Linked<(Self, Wire, Handle)> {
        let mut wire = Wire::connect(spec.address, spec, until)?;
        let mut line = Line { wire: &mut wire, until };
        let mut session = Self::new(&mut line, owner, depth.into())?;
        let directory = session.walk(&mut line, spec)?;
        Ok((session, wire, directory))
    }

    fn file_system(&mut self, line: &mut Line<'_>, directory: &Handle) -> Linked<FileFacts> {
        let facts = |results: &mut Results<'_>| {
            results.file()?;
            results.attributes(Attributes::FileSystem)
        };
        self.ask(line, |call| call.file(directory).attributes(Attributes::FileSystem), facts)
    }

    fn look_up(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<Handle> {
        let found = |results: &mut Results<'_>| {
            results.file()?;
            results.lookup()?;
            results.handle()
        };
        self.ask(line, |call| call.file(directory).lookup(name).handle(), found)
    }

    fn open_file(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<(Open, u64)> {
        let client = self.client;
        let opened = |results: &mut Results<'_>| {
            results.file()?;
            let opened = results.open()?;
            let handle = results.handle()?;
            Ok((Open { handle, state: opened.state }, results.attributes(Attributes::File)?))
        };
        let (open, facts) = self.ask(
            line,
            |call| {
                let call = call.file(directory).open(HowOpen::CreateOrOpen, client, b"vtax", name);
                call.handle().attributes(Attributes::File)
            },
            opened,
        )?;
        Ok((open, facts.size.unwrap_or(0)))
    }

    fn make_directory(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<Handle> {
        let made = |results: &mut Results<'_>| {
            results.file()?;
            results.create_directory()?;
            results.handle()
        };
        match self.ask(line, |call| call.file(directory).create_directory(name).handle(), made) {
            Err(LinkError::Nfs(error)) if error.status() == Some(status::EXIST) => {
                self.look_up(line, directory, name)
            }
            other => other,
        }
    }

    fn head(&mut self, line: &mut Line<'_>, open: Open, length: u32) -> Linked<Vec<u8>> {
        let read = |results: &mut Results<'_>| {
            results.file()?;
            Ok(results.data(length as usize)?.0.to_vec())
        };
        self.ask(line, |call| call.file(&open.handle).read(open.state, 0, length), read)
    }

    fn set_size(&mut self, line: &mut Line<'_>, open: Open, size: u64) -> Linked<()> {
        let set = |results: &mut Results<'_>| {
            results.file()?;
            results.set_size()
        };
        self.ask(line, |call| call.file(&open.handle).set_size(open.state, size), set)
    }

    fn close(&mut self, line: &mut Line<'_>, open: Open) -> Linked<()> {
        let closed = |results: &mut Results<'_>| {
            results.file()?;
            results.close()
        };
        self.ask(line, |call| call.file(&open.handle).close(open.state), closed)
    }

    fn remove(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<()> {
        let removed = |results: &mut Results<'_>| {
            results.file()?;
            results.removed()
        };
        self.ask(line, |call| call.file(directory).remove(name), removed)
    }

    /// One call removes either.
    fn remove_directory(&mut self, line: &mut Line<'_>, directory: &Handle, name: &str) -> Linked<()> {
        self.remove(line, directory, name)
    }

    fn list(&mut self, line: &mut Line<'_>, of: &Handle, from: Place, each: Names<'_>) -> Linked<Entries> {
        let (cookie, verifier) = from;
        let most = self.channel.response.min(64 << 10) - AROUND / 2;
        let entries = |results: &mut Results<'_>| {
            results.file()?;
            results.entries(&mut *each)
        };
        self.ask(line, |call| call.file(of).list(cookie, verifier, most), entries)
    }

    fn leave(&mut self, line: &mut Line<'_>) -> Linked<()> {
        let (session, client) = (self.session, self.client);
        call(line, |call| call.destroy_session(&session), |results| results.destroy_session())?;
        call(line, |call| call.destroy_client(client), |results| results.destroy_client())
    }

    fn longest(&self) -> (u32, u32) {
        (self.channel.response, self.channel.request)
    }

    fn words(&self) -> String {
        format!(", {} slots", self.sequences.len())
    }

    fn take_place(&mut self) -> Option<u32> {
        self.free.pop()
    }

    fn give_back(&mut self, place: u32) -> Linked<()> {
        if self.free.contains(&place) {
            return Err(LinkError::Order("an answer in a slot in which nothing is under way"));
        }
        self.free.push(place);
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.sequences.len()
    }

    fn append(&self, out: &mut Vec<u8>, calling: Calling<'_>) -> Option<&'static [u8]> {
        let Calling { tag, task, caller, files, buffer } = calling;
        let call = self.compound(out, tag, task.place, caller);
        let operation = task.operation;
        let name = || operation.file.to_string();
        let offset = operation.offset + u64::from(task.moved);
        match (operation.kind, files.of(operation.file)) {
            (Kind::Read, Some(file)) => call.file(&file.handle).read(file.state, offset, task.part).end(),
            (Kind::Write | Kind::WriteDurable, Some(file)) => {
                let padding = xdr::padding(task.part as usize);
                call.file(&file.handle)
                    .write(file.state, offset, task.stability(), task.part)
                    .end_before(task.part as usize + padding.len());
                return Some(padding);
            }
            (Kind::Flush, Some(file)) => call.file(&file.handle).commit().end(),
            (Kind::Create, _) => call
                .file(files.names())
                .open(HowOpen::CreateNew, self.client, b"vtax", &name())
                .write_all(StateId::CURRENT, 0, task.stability(), &buffer[..operation.length as usize])
                .close(StateId::CURRENT)
                .end(),
            (Kind::Remove, _) => call.file(files.names()).remove(&name()).end(),
            (Kind::List, _) => {
                call.file(files.names()).list(task.cookie, task.verifier, LIST_BYTES).end();
            }
            // No file is open: the server answers that none is there.
            _ => call.end(),
        }
        None
    }

    fn append_life(&self, out: &mut Vec<u8>, tag: u32, place: u32, caller: &Caller) {
        self.compound(out, tag, place, caller).end();
    }

    fn begin_results<'a>(&mut self, reader: Reader<'a>) -> Linked<(Option<u32>, Results<'a>)> {
        let mut results = Results::read(reader)?;
        // A session that isn't known any more can't be used for anything.
        let place = results.sequence()?;
        let sequence = self.sequences.get_mut(place as usize);
        let sequence = sequence.ok_or(LinkError::Order("a slot that the session doesn't have"))?;
        *sequence = sequence.wrapping_add(1);
        Ok((Some(place), results))
    }

    fn told<'a>(&mut self, task: &Task, mut results: Self::Results<'a>) -> Result<Told<'a>, NfsError> {
        results.file()?;
        Ok(match task.operation.kind {
            Kind::Read => {
                let (data, end) = results.data(task.part as usize)?;
                Told::Read(data, end)
            }
            Kind::Write | Kind::WriteDurable => Told::Written(results.written()?),
            Kind::Flush => Told::Committed(results.committed()?),
            Kind::Create => {
                results.open()?;
                let written = results.written()?;
                results.close()?;
                Told::Created(written.count)
            }
            Kind::Remove => {
                results.removed()?;
                Told::Removed
            }
            Kind::List => Told::Listed(results.entries(|_| ())?),
        })
    }

    fn is_lost(status: u32) -> bool {
        matches!(
            status,
            status::BADSESSION
                | status::DEADSESSION
                | status::STALE_CLIENTID
                | status::STALE_STATEID
                | status::BAD_STATEID
                | status::EXPIRED
        )
    }
}
