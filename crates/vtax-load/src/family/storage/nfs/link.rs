//! A session with a server: what is asked before anything is timed, one call at a time.

use std::io;
use std::time::{Duration, Instant};

use vtax_wire::nfs4::{
    Attributes, Channel, ChannelFacts, Compound, FileFacts, Handle, HowOpen, Nfs4Error, Results, SessionId,
    StateId, status,
};
use vtax_wire::rpc::{self, Caller, Record, RpcError};

use super::spec::NfsSpec;
use crate::family::storage::client::{Stream, random};

/// Bytes of a call or an answer besides its data.
const AROUND: u32 = 4096;
/// Longest transfer that is asked for.
const TRANSFER: u32 = 1 << 20;
/// Slots that are asked for at least.
const SLOTS: u32 = 16;
/// Tag of single calls: operations never have it.
const TAG: u32 = 1 << 31;
/// Where a server wants more time, it is asked again after this.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a server may take to say that a session is gone.
const LEAVE: Duration = Duration::from_secs(1);
/// Names that a directory may have for vtax to empty it.
const NAMES_MAX: usize = 10_000_000;

/// What ends a session, or keeps one from being made.
#[derive(Debug, thiserror::Error)]
pub(in crate::family::storage) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Rpc(#[from] RpcError),
    #[error("{0}")]
    Nfs(#[from] Nfs4Error),
    /// An answer that can't come now.
    #[error("the server does not keep to the protocol: {0}")]
    Order(&'static str),
    /// The path leads nowhere.
    #[error("{name}: {error}")]
    Path { name: String, error: Nfs4Error },
}

/// A file that is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) handle: Handle,
    pub(super) state: StateId,
}

/// A session of one connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: Stream,
    pub(super) caller: Caller,
    pub(super) client: u64,
    pub(super) session: SessionId,
    pub(super) channel: ChannelFacts,
    /// Of each slot of the session, the number of its next call.
    pub(super) sequences: Vec<u32>,
    /// Slots of the session that are free.
    pub(super) free: Vec<u32>,
    pub(super) facts: FileFacts,
    /// The directory that the specification names, and that of the small files.
    pub(super) directory: Handle,
    pub(super) names: Option<Handle>,
    pub(super) files: Vec<Open>,
    pub(super) input: Vec<u8>,
    /// Of the input, what came and isn't taken yet.
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// Where the small files of a process are.
pub(super) fn names_of(worker: usize) -> String {
    format!("vtax-{worker}.d")
}

/// A data file's name.
pub(super) fn file_of(worker: usize, file: u32) -> String {
    format!("vtax-{worker}-{file}")
}

impl Link {
    /// Connects, makes a session for so many calls at once, and walks to the directory.
    pub(super) fn open(spec: &NfsSpec, owner: &[u8], depth: u32, until: Instant) -> Result<Self, LinkError> {
        let stream = Stream::connect(spec.address, until)?;
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let caller = Caller { machine, uid: spec.uid, gid: spec.gid, gids: Vec::new() };
        let none = ChannelFacts { request: AROUND, response: AROUND, operations: 0, slots: 0 };
        let mut link = Self {
            stream,
            caller,
            client: 0,
            session: [0; 16],
            channel: none,
            sequences: Vec::new(),
            free: Vec::new(),
            facts: FileFacts::default(),
            directory: Handle::of(&[]).ok_or(LinkError::Order("a handle"))?,
            names: None,
            files: Vec::new(),
            input: vec![0; 2 * (TRANSFER + AROUND) as usize],
            begin: 0,
            end: 0,
        };
        link.begin_session(owner, depth, until)?;
        link.walk(spec, until)?;
        Ok(link)
    }

    fn begin_session(&mut self, owner: &[u8], depth: u32, until: Instant) -> Result<(), LinkError> {
        // A verifier of its own: what an earlier connection had open is given up by the server.
        let verifier = random()?;
        let id =
            self.call(|call| call.exchange_id(verifier, owner), |results| results.exchange_id(), until)?;
        let slots = depth.max(SLOTS);
        let channel = Channel { request: TRANSFER + AROUND, response: TRANSFER + AROUND, slots };
        let made = self.call(
            |call| call.create_session(id.client, id.sequence, channel),
            |results| results.create_session(),
            until,
        )?;
        if made.channel.slots == 0 || made.channel.operations < 6 || made.channel.response > TRANSFER + AROUND
        {
            return Err(LinkError::Order("a session that is of no use"));
        }
        (self.client, self.session, self.channel) = (id.client, made.session, made.channel);
        let slots = made.channel.slots.min(slots);
        self.sequences = vec![1; slots as usize];
        self.free = (0..slots).rev().collect();
        self.ask(|call| call.reclaim_complete(), |results| results.reclaim_complete(), until)
    }

    /// Goes to the directory, name by name, and asks what its file system can do.
    fn walk(&mut self, spec: &NfsSpec, until: Instant) -> Result<(), LinkError> {
        let root = |results: &mut Results<'_>| {
            results.root()?;
            results.handle()
        };
        let mut here = self.ask(|call| call.root().handle(), root, until)?;
        for name in spec.names() {
            here = self.look_up(&here, name, until).map_err(|error| match error {
                LinkError::Nfs(error) => LinkError::Path { name: spec.path.clone(), error },
                other => other,
            })?;
        }
        let facts = |results: &mut Results<'_>| {
            results.file()?;
            results.attributes(Attributes::FileSystem)
        };
        self.facts = self.ask(|call| call.file(&here).attributes(Attributes::FileSystem), facts, until)?;
        self.directory = here;
        Ok(())
    }

    fn look_up(&mut self, directory: &Handle, name: &str, until: Instant) -> Result<Handle, LinkError> {
        let found = |results: &mut Results<'_>| {
            results.file()?;
            results.lookup()?;
            results.handle()
        };
        self.ask(|call| call.file(directory).lookup(name).handle(), found, until)
    }

    /// Opens a data file, making it where it isn't there; its size.
    pub(super) fn open_file(&mut self, name: &str, until: Instant) -> Result<(Open, u64), LinkError> {
        let (directory, client) = (self.directory, self.client);
        let opened = |results: &mut Results<'_>| {
            results.file()?;
            let opened = results.open()?;
            let handle = results.handle()?;
            Ok((Open { handle, state: opened.state }, results.attributes(Attributes::File)?))
        };
        let (open, facts) = self.ask(
            |call| {
                let call = call.file(&directory).open(HowOpen::CreateOrOpen, client, b"vtax", name);
                call.handle().attributes(Attributes::File)
            },
            opened,
            until,
        )?;
        Ok((open, facts.size.unwrap_or(0)))
    }

    /// The directory of this name, made where it isn't there.
    pub(super) fn make_directory(&mut self, name: &str, until: Instant) -> Result<Handle, LinkError> {
        let directory = self.directory;
        let made = |results: &mut Results<'_>| {
            results.file()?;
            results.create_directory()?;
            results.handle()
        };
        match self.ask(|call| call.file(&directory).create_directory(name).handle(), made, until) {
            Err(LinkError::Nfs(Nfs4Error::Status { status: status::EXIST, .. })) => {
                self.look_up(&directory, name, until)
            }
            other => other,
        }
    }

    /// The first bytes of a file.
    pub(super) fn head(&mut self, open: Open, length: u32, until: Instant) -> Result<Vec<u8>, LinkError> {
        let read = |results: &mut Results<'_>| {
            results.file()?;
            Ok(results.data(length as usize)?.0.to_vec())
        };
        self.ask(|call| call.file(&open.handle).read(open.state, 0, length), read, until)
    }

    /// Gives a file this size.
    pub(super) fn set_size(&mut self, open: Open, size: u64, until: Instant) -> Result<(), LinkError> {
        let set = |results: &mut Results<'_>| {
            results.file()?;
            results.set_size()
        };
        self.ask(|call| call.file(&open.handle).set_size(open.state, size), set, until)
    }

    /// Closes a file.
    pub(super) fn close(&mut self, open: Open, until: Instant) -> Result<(), LinkError> {
        let closed = |results: &mut Results<'_>| {
            results.file()?;
            results.close()
        };
        self.ask(|call| call.file(&open.handle).close(open.state), closed, until)
    }

    /// Removes a name; that it isn't there is no failure.
    pub(super) fn remove(&mut self, directory: &Handle, name: &str, until: Instant) -> Result<(), LinkError> {
        let removed = |results: &mut Results<'_>| {
            results.file()?;
            results.removed()
        };
        match self.ask(|call| call.file(directory).remove(name), removed, until) {
            Err(LinkError::Nfs(Nfs4Error::Status { status: status::NOENT, .. })) => Ok(()),
            other => other,
        }
    }

    /// All names in a directory.
    pub(super) fn list(&mut self, directory: &Handle, until: Instant) -> Result<Vec<String>, LinkError> {
        let mut names = Vec::new();
        let (mut cookie, mut verifier) = (0, [0; 8]);
        loop {
            let most = self.channel.response.min(64 << 10) - AROUND / 2;
            let entries = |results: &mut Results<'_>| {
                results.file()?;
                results.entries(|name| names.push(String::from_utf8_lossy(name).into_owned()))
            };
            let found = self.ask(|call| call.file(directory).list(cookie, verifier, most), entries, until)?;
            if found.end {
                return Ok(names);
            }
            // A directory that goes on without anything in it never ends.
            if found.count == 0 || names.len() > NAMES_MAX {
                return Err(LinkError::Order("a directory without an end"));
            }
            (cookie, verifier) = (found.cookie, found.verifier);
        }
    }

    /// Ends the session and forgets the client, as far as the server answers in time.
    pub(super) fn leave(&mut self) -> Result<(), LinkError> {
        let until = Instant::now() + LEAVE;
        for open in std::mem::take(&mut self.files) {
            self.close(open, until)?;
        }
        let (session, client) = (self.session, self.client);
        self.call(|call| call.destroy_session(&session), |results| results.destroy_session(), until)?;
        self.call(|call| call.destroy_client(client), |results| results.destroy_client(), until)
    }

    /// One call in the session's first free slot. A server that wants more time is asked again.
    fn ask<T>(
        &mut self,
        mut build: impl FnMut(Compound<'_>) -> Compound<'_>,
        mut read: impl FnMut(&mut Results<'_>) -> Result<T, Nfs4Error>,
        until: Instant,
    ) -> Result<T, LinkError> {
        let slot = *self.free.last().ok_or(LinkError::Order("no free slot"))?;
        loop {
            let (session, sequence) = (self.session, self.sequences[slot as usize]);
            let answer = self.call(
                |call| build(call.sequence(&session, (slot, sequence), slot)),
                |results| {
                    results.sequence()?;
                    Ok(read(results))
                },
                until,
            )?;
            self.sequences[slot as usize] = sequence.wrapping_add(1);
            match answer {
                Err(Nfs4Error::Status { status: status::DELAY | status::GRACE, .. })
                    if Instant::now() + AGAIN < until =>
                {
                    std::thread::sleep(AGAIN);
                }
                other => return Ok(other?),
            }
        }
    }

    /// One call outside a session, and its answer.
    fn call<T>(
        &mut self,
        build: impl FnOnce(Compound<'_>) -> Compound<'_>,
        read: impl FnOnce(&mut Results<'_>) -> Result<T, Nfs4Error>,
        until: Instant,
    ) -> Result<T, LinkError> {
        let mut out = Vec::with_capacity(1024);
        build(Compound::begin(&mut out, TAG, &self.caller)).end();
        self.stream.send_all(&out, until)?;
        loop {
            if let Some(message) = self.next_message()? {
                let message = &self.input[message];
                // A late answer to an operation that was given up may come first.
                if rpc::answered(message)? != TAG {
                    continue;
                }
                return Ok(read(&mut Results::read(rpc::results(message)?)?)?);
            }
            self.make_room();
            let got = self.stream.receive_some(&mut self.input[self.end..], until)?;
            self.end += got;
        }
    }

    /// The next whole message of what came, which stays there until more is received.
    pub(super) fn next_message(&mut self) -> Result<Option<std::ops::Range<usize>>, LinkError> {
        let most = (TRANSFER + AROUND) as usize;
        match rpc::record(&mut self.input[self.begin..self.end], most)? {
            Record::Incomplete => Ok(None),
            Record::Whole { message, consumed } => {
                let found = self.begin + message.start..self.begin + message.end;
                self.begin += consumed;
                Ok(Some(found))
            }
        }
    }

    /// Makes room behind what came. The longest message fits, as the input is twice as long.
    pub(super) fn make_room(&mut self) {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.begin > 0 && self.input.len() - self.end < (64 << 10) {
            self.input.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
    }

    /// Bytes that are free, where the server says so: one of files in its own memory has no size at all.
    pub(super) fn free(&self) -> Option<u64> {
        self.facts.free.filter(|_| self.facts.total.is_some_and(|total| total > 0))
    }

    /// Longest read and write of one call.
    pub(super) fn longest(&self) -> (u32, u32) {
        let most = |answer: u32, own: Option<u64>| {
            let own =
                own.filter(|own| *own > 0).unwrap_or(u64::from(TRANSFER)).min(u64::from(TRANSFER)) as u32;
            // Whole blocks, as what a caller writes is made of them.
            (answer.saturating_sub(AROUND) / 4096 * 4096).max(4096).min(own)
        };
        (
            most(self.channel.response, self.facts.longest_read),
            most(self.channel.request, self.facts.longest_write),
        )
    }
}
