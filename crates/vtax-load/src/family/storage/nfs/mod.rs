//! Files of an NFS server, by a client of vtax's own (version 4.1): no root, no mount, no cache.
//!
//! Each worker is a client with a session of one connection and files of its own. Calls go in the slots of the
//! session, answers come in any order. Records longer than the server's longest transfer go in parts, one after
//! the other. A lost connection means a new session: files are opened again.

mod link;
mod receive;
mod setup;
mod spec;

pub use spec::NfsSpec;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use vtax_sys::sched::monotonic;
use vtax_wire::nfs4::{Compound, HowOpen, Stability, StateId, Verifier};
use vtax_wire::xdr;

use self::link::{Link, LinkError};
use super::client::{Buffers as _, LOOK, Outgoing, PATIENCE, Reconnect, Rounds, Slots};
use super::target::{CacheDropped, Done, Facts, Failure, Kind, Operation, Shape, StorageError, Target};

/// Tag of a call that only shows that client and server live.
const LIFE: u32 = (1 << 31) | 1;
/// Where a server doesn't say after what time it forgets a silent client.
const LEASE: Duration = Duration::from_secs(30);
/// Bytes that an answer to READDIR may have.
const LIST_BYTES: u32 = 32 << 10;

/// What is remembered of an operation under way.
#[derive(Debug, Clone, Copy)]
struct Task {
    operation: Operation,
    /// Slot of the session, while a call is under way.
    session_slot: u32,
    /// Bytes or names so far.
    moved: u32,
    /// Length of the part under way.
    part: u32,
    /// Where the next part of a list begins.
    cookie: u64,
    verifier: Verifier,
}

/// What was sent and received, in numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    calls: u64,
    reads: u64,
    writes: u64,
    commits: u64,
    late: u64,
    sent_bytes: u64,
    received_bytes: u64,
    connections: u64,
}

/// A directory of a server and the session with it.
#[derive(Debug)]
pub struct NfsTarget {
    spec: NfsSpec,
    shape: Shape,
    timeout: Duration,
    /// What the client calls itself.
    owner: Vec<u8>,
    link: Option<Link>,
    reconnect: Option<Reconnect<Link>>,
    slots: Slots<Task>,
    outgoing: Outgoing,
    /// Operations that wait for a slot of the session.
    pending: VecDeque<u16>,
    /// Results that the next [`Target::wait`] tells.
    ready: Vec<Done>,
    /// When deadlines are looked at next, when something last arrived, and how much had by then.
    next_look: u64,
    heard: u64,
    heard_bytes: u64,
    /// When a sign of life was asked for that isn't answered.
    asked: Option<u64>,
    /// The server's, of data that isn't committed.
    verifier: Option<Verifier>,
    /// The server forgot data that wasn't committed.
    forgotten: bool,
    /// Some operations are over, but held back.
    holds: bool,
    counts: Counts,
    first_failure: Option<String>,
}

impl NfsTarget {
    /// Makes a session and walks to the directory. An operation that takes longer than `timeout` has failed.
    ///
    /// # Errors
    /// The specification makes no sense, or the server can't be reached, refuses, or has no such directory.
    pub fn open(spec: &NfsSpec, shape: Shape, timeout: Duration) -> Result<Self, StorageError> {
        spec.check().map_err(|reason| StorageError::Refused { reason })?;
        let owner = setup::owner(shape.worker)?;
        let link = Link::open(spec, &owner, shape.depth.into(), Instant::now() + timeout)
            .map_err(|error| setup::not_opened(spec, &error))?;
        let depth = usize::from(shape.depth);
        Ok(Self {
            spec: spec.clone(),
            timeout,
            owner,
            link: Some(link),
            reconnect: None,
            slots: Slots::new(shape.depth, shape.record as usize),
            outgoing: Outgoing::new(depth),
            pending: VecDeque::with_capacity(depth),
            ready: Vec::with_capacity(depth),
            next_look: 0,
            heard: monotonic().0,
            heard_bytes: 0,
            asked: None,
            verifier: None,
            forgotten: false,
            holds: false,
            counts: Counts { connections: 1, ..Counts::default() },
            first_failure: None,
            shape,
        })
    }

    /// Sends the calls that the session has slots for.
    fn issue(&mut self) {
        while let Some(link) = &mut self.link {
            if link.free.is_empty() || self.pending.is_empty() {
                return;
            }
            let (Some(session_slot), Some(slot)) = (link.free.pop(), self.pending.pop_front()) else {
                return;
            };
            let Some(task) = self.slots.task_mut(slot) else { continue };
            task.session_slot = session_slot;
            self.send_call(slot);
        }
    }

    /// Appends the next call of an operation that has a slot of the session.
    fn send_call(&mut self, slot: u16) {
        let tag = self.slots.issue(slot);
        let (Some(link), Some(task)) = (&self.link, self.slots.task_mut(slot)) else { return };
        let operation = task.operation;
        let left = operation.length - task.moved;
        let (longest_read, longest_write) = link.longest();
        task.part = match operation.kind {
            Kind::Read => left.min(longest_read),
            _ => left.min(longest_write),
        };
        let task = *task;
        let place = (task.session_slot, link.sequences[task.session_slot as usize]);
        // All slots may be in use: the highest is always said to be.
        let highest = link.sequences.len() as u32 - 1;
        let from = task.moved as usize;
        let to = from + task.part as usize;
        let buffer = self.slots.of(slot);
        let mut follows = None;
        self.outgoing.append(|out| {
            let call = Compound::begin(out, tag, &link.caller).sequence(&link.session, place, highest);
            follows = write_operation(call, link, &task, buffer);
        });
        if let Some(padding) = follows {
            self.outgoing.data(slot, from..to, &self.slots.of(slot)[from..to]);
            self.outgoing.append(|out| out.extend_from_slice(padding));
        }
        self.counts.calls += 1;
        match operation.kind {
            Kind::Read => self.counts.reads += 1,
            Kind::Write | Kind::WriteDurable => self.counts.writes += 1,
            Kind::Flush => self.counts.commits += 1,
            Kind::Create | Kind::Remove | Kind::List => {}
        }
    }

    fn fail_all(&mut self, done: &mut Vec<Done>) {
        self.pending.clear();
        self.slots.lose_all(done);
    }

    fn note(&mut self, words: impl FnOnce() -> String) {
        if self.first_failure.is_none() {
            self.first_failure = Some(words());
        }
    }

    /// Slow answers are one thing, a dead connection is another: an empty call tells, and renews the lease.
    fn ask_for_life(&mut self, now: u64) {
        let Some(link) = &mut self.link else { return };
        // Without a free slot, the operations' own deadlines tell.
        let Some(session_slot) = link.free.pop() else { return };
        let place = (session_slot, link.sequences[session_slot as usize]);
        let highest = link.sequences.len() as u32 - 1;
        self.outgoing.append(|out| {
            Compound::begin(out, LIFE, &link.caller).sequence(&link.session, place, highest).end();
        });
        self.asked = Some(now);
    }

    /// Ends an operation, or holds it back while a part of its buffer waits to be sent.
    fn end(&mut self, slot: u16, result: Result<u32, Failure>, done: &mut Vec<Done>) {
        if self.outgoing.mentions(slot) {
            self.slots.hold(slot, result);
            self.holds = true;
        } else {
            self.slots.end(slot, result, done);
        }
    }

    fn release_held(&mut self, done: &mut Vec<Done>) {
        self.holds = false;
        for slot in 0..self.slots.count() {
            let Some(result) = self.slots.held(slot) else { continue };
            if self.outgoing.mentions(slot) {
                self.holds = true;
            } else {
                self.slots.end(slot, result, done);
            }
        }
    }

    fn send(&mut self) -> Result<(), LinkError> {
        let Some(link) = &self.link else { return Ok(()) };
        self.counts.sent_bytes += self.outgoing.send(&link.stream, &self.slots)?;
        Ok(())
    }
}

/// Ends a call with what an operation does. Where data follows from the slot's buffer: the padding behind it.
fn write_operation(call: Compound<'_>, link: &Link, task: &Task, buffer: &[u8]) -> Option<&'static [u8]> {
    let operation = task.operation;
    let names = link.names.unwrap_or(link.directory);
    let name = operation.file.to_string();
    let file = link.files.get(operation.file as usize).or(link.files.first());
    let offset = operation.offset + u64::from(task.moved);
    match (operation.kind, file) {
        (Kind::Read, Some(file)) => call.file(&file.handle).read(file.state, offset, task.part).end(),
        (Kind::Write | Kind::WriteDurable, Some(file)) => {
            let stability = match operation.kind {
                Kind::WriteDurable => Stability::FileSync,
                _ => Stability::Unstable,
            };
            let padding = xdr::padding(task.part as usize);
            call.file(&file.handle)
                .write(file.state, offset, stability, task.part)
                .end_before(task.part as usize + padding.len());
            return Some(padding);
        }
        (Kind::Flush, Some(file)) => call.file(&file.handle).commit().end(),
        (Kind::Create, _) => {
            let stability = if operation.offset == 0 { Stability::Unstable } else { Stability::FileSync };
            call.file(&names)
                .open(HowOpen::CreateNew, link.client, b"vtax", &name)
                .write_all(StateId::CURRENT, 0, stability, &buffer[..operation.length as usize])
                .close(StateId::CURRENT)
                .end();
        }
        (Kind::Remove, _) => call.file(&names).remove(&name).end(),
        (Kind::List, _) => call.file(&names).list(task.cookie, task.verifier, LIST_BYTES).end(),
        // No file is open: the server answers that none is there.
        _ => call.end(),
    }
    None
}

impl Rounds for NfsTarget {
    type Error = LinkError;

    fn take_ready(&mut self, done: &mut Vec<Done>) {
        done.append(&mut self.ready);
    }

    fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    fn under_way(&self) -> usize {
        self.slots.under_way()
    }

    fn reconnected(&mut self, sleep: u64, done: &mut Vec<Done>) {
        let wait = PATIENCE.min(Duration::from_nanos(sleep));
        match self.reconnect.as_mut().and_then(|reconnect| reconnect.wait(wait)) {
            Some(link) => {
                self.reconnect = None;
                self.counts.connections += 1;
                self.heard = monotonic().0;
                self.link = Some(link);
                self.issue();
            }
            None => self.fail_all(done),
        }
    }

    fn round(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), LinkError> {
        self.send()?;
        let Some(link) = &self.link else { return Ok(()) };
        let look = LOOK.as_nanos() as u64;
        let wait = sleep >= look && self.outgoing.is_empty();
        if sleep > 0 && !wait {
            link.stream.poll(true, !self.outgoing.is_empty(), sleep.min(look))?;
        }
        if self.receive(wait, done)? {
            self.issue();
            self.send()?;
        }
        if self.holds {
            self.release_held(done);
        }
        Ok(())
    }

    fn look(&mut self, now: u64, done: &mut Vec<Done>) -> Result<(), LinkError> {
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOK.as_nanos() as u64;
        for slot in
            (0..self.slots.count()).filter(|slot| self.slots.is_overdue(*slot, now)).collect::<Vec<_>>()
        {
            if !self.slots.is_issued(slot) {
                self.pending.retain(|waiting| *waiting != slot);
            }
            let most = self.timeout;
            self.note(|| format!("an operation took longer than {most:?}"));
            // Its slot of the session is free when its answer comes at last.
            self.end(slot, Err(Failure::TimedOut), done);
        }
        if self.counts.received_bytes != self.heard_bytes {
            (self.heard, self.heard_bytes) = (now, self.counts.received_bytes);
        }
        let timeout = self.timeout.as_nanos() as u64;
        let lease = self.link.as_ref().and_then(|link| link.facts.lease);
        let lease = lease.map_or(LEASE, |seconds| Duration::from_secs(seconds.into())).as_nanos() as u64;
        let patience = if self.slots.under_way() > 0 { timeout / 2 } else { lease / 3 };
        match self.asked {
            None if now.saturating_sub(self.heard) > patience.min(lease / 3) => self.ask_for_life(now),
            Some(since) if now.saturating_sub(since) > timeout => {
                return Err(LinkError::Io(std::io::ErrorKind::TimedOut.into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn lost(&mut self, error: &LinkError, done: &mut Vec<Done>) {
        self.note(|| format!("the connection was lost: {error}"));
        self.link = None;
        self.outgoing.clear();
        self.asked = None;
        self.fail_all(done);
        let (spec, owner, shape, timeout) = (self.spec.clone(), self.owner.clone(), self.shape, self.timeout);
        self.reconnect = Some(Reconnect::begin(move || {
            let until = Instant::now() + timeout;
            let mut link = Link::open(&spec, &owner, shape.depth.into(), until).ok()?;
            setup::open_files(&mut link, &shape, until).ok()?;
            Some(link)
        }));
    }
}

impl Target for NfsTarget {
    fn facts(&self) -> Facts {
        setup::facts(self)
    }

    fn prepare(&mut self) -> Result<(), StorageError> {
        setup::prepare(self)
    }

    fn empty(&mut self) -> Result<(), StorageError> {
        setup::empty(self)
    }

    fn buffer(&mut self, slot: u16) -> &mut [u8] {
        self.slots.buffer(slot)
    }

    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
        if !self.slots.is_free(operation.slot) {
            return Err(StorageError::Refused { reason: format!("slot {} is under way", operation.slot) });
        }
        let of_data = matches!(operation.kind, Kind::Read | Kind::Write | Kind::WriteDurable);
        let of_record = of_data || operation.kind == Kind::Create;
        if (of_record && operation.length > self.shape.record) || (of_data && operation.length == 0) {
            let reason =
                format!("an operation of {} bytes; the buffers have {}", operation.length, self.shape.record);
            return Err(StorageError::Refused { reason });
        }
        let longest = self.link.as_ref().map_or(u32::MAX, |link| link.longest().1);
        if operation.kind == Kind::Create && operation.length > longest {
            let reason =
                format!("a small file of {} bytes; the server takes {longest} at once", operation.length);
            return Err(StorageError::Refused { reason });
        }
        let length = if of_record { operation.length } else { 0 };
        let operation = Operation { length, ..*operation };
        let task = Task { operation, session_slot: 0, moved: 0, part: 0, cookie: 0, verifier: [0; 8] };
        let deadline = monotonic().0.saturating_add(self.timeout.as_nanos() as u64);
        self.slots.begin(operation.slot, task, deadline);
        self.pending.push_back(operation.slot);
        self.issue();
        Ok(())
    }

    fn wait(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), StorageError> {
        self.go_on(sleep, done);
        Ok(())
    }

    fn drop_cache(&mut self) -> Result<CacheDropped, StorageError> {
        Ok(CacheDropped::NoCache)
    }

    fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    fn finish(&mut self) -> Result<(), StorageError> {
        self.reconnect = None;
        if let Some(mut link) = self.link.take()
            && self.slots.under_way() == 0
        {
            // A server that doesn't answer is left: its lease ends by itself.
            let _ = link.leave();
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<(), StorageError> {
        setup::remove(self)
    }
}
