//! Files of an NFS server, by a client of vtax's own (versions 4.1 and 3): no root, no mount, no cache.
//!
//! Each worker is a client with one connection and files of its own. Calls are answered in any order; of version 4.1
//! they go in the slots of a session. Records longer than the server's longest transfer go in parts, one after the
//! other. A lost connection means a new one: files are opened again.

mod dialect;
mod link;
mod receive;
mod setup;
mod spec;
mod v3;
mod v41;
mod wire;

pub use spec::{NfsSpec, NfsVersion};

use std::time::{Duration, Instant};

use vtax_wire::nfs::{Stability, Verifier};

use self::dialect::{Calling, Dialect};
use self::link::Link;
use self::wire::LinkError;
use super::client::{Base, Buffers as _, Reconnect, Rounds};
use super::target::{Done, Facts, Failure, Kind, Operation, Shape, StorageError, Target};

/// Tag of a call that only shows that client and server live.
const LIFE: u32 = (1 << 31) | 1;
/// Where a server doesn't say after what time it forgets a silent client.
const LEASE: Duration = Duration::from_secs(30);
/// Bytes that an answer to READDIR may have.
const LIST_BYTES: u32 = 32 << 10;
/// Bytes of a call or an answer besides its data.
const AROUND: u32 = 4096;
/// Longest transfer that is asked for.
const TRANSFER: u32 = 1 << 20;
/// Where a server wants more time, it is asked again after this.
const AGAIN: Duration = Duration::from_millis(50);

/// What is remembered of an operation under way.
#[derive(Debug, Clone, Copy)]
struct Task {
    operation: Operation,
    /// Its place among the calls under way, once it has one.
    place: u32,
    step: Step,
    /// Bytes or names so far.
    moved: u32,
    /// Length of the part under way.
    part: u32,
    /// Where the next part of a list begins.
    cookie: u64,
    verifier: Verifier,
}

/// How far the making of a small file has come, where that takes more than one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is to be made.
    Make,
    /// It is there, but its handle isn't known.
    Find,
    /// It is to get its content.
    Fill,
}

impl Task {
    /// When what it writes must be on stable storage.
    const fn stability(&self) -> Stability {
        match self.operation.kind {
            Kind::WriteDurable => Stability::FileSync,
            Kind::Create if self.operation.offset != 0 => Stability::FileSync,
            _ => Stability::Unstable,
        }
    }
}

/// What was sent and received, in numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    calls: u64,
    reads: u64,
    writes: u64,
    commits: u64,
    late: u64,
}

/// Data that isn't committed.
#[derive(Debug, Clone, Copy, Default)]
struct Unsynced {
    /// The server's, as long as it remembers it.
    verifier: Option<Verifier>,
    /// It forgot some.
    forgotten: bool,
}

impl Unsynced {
    /// More was written.
    fn add(&mut self, verifier: Verifier) {
        self.forgotten |= self.is_forgotten(verifier);
        self.verifier = Some(verifier);
    }

    /// Whether the server that has this one forgot some of it.
    fn is_forgotten(&self, verifier: Verifier) -> bool {
        self.forgotten || self.verifier.is_some_and(|known| known != verifier)
    }
}

/// A directory of a server, in one version of NFS.
#[derive(Debug)]
struct NfsTarget<D> {
    spec: NfsSpec,
    shape: Shape,
    /// Its files are vtax's, or may be overwritten: nobody needs to look.
    own: bool,
    /// What the client calls itself.
    owner: Vec<u8>,
    base: Base<Link<D>, Task>,
    /// Each write is followed by a sync on its slot, which is about nothing else.
    syncs_each: bool,
    /// Of all slots the first; of each its own where each write has a sync of its own.
    unsynced: Vec<Unsynced>,
    counts: Counts,
}

/// Connects and walks to the directory. An operation that takes longer than `timeout` has failed.
///
/// # Errors
/// The specification makes no sense, or the server can't be reached, refuses, or has no such directory.
pub fn open(spec: &NfsSpec, shape: Shape, timeout: Duration) -> Result<Box<dyn Target>, StorageError> {
    spec.check().map_err(|reason| StorageError::Refused { reason })?;
    Ok(match spec.version {
        NfsVersion::V41 => Box::new(NfsTarget::<v41::Session>::open(spec, shape, timeout)?),
        NfsVersion::V3 => Box::new(NfsTarget::<v3::Mount>::open(spec, shape, timeout)?),
    })
}

impl<D: Dialect> NfsTarget<D> {
    fn open(spec: &NfsSpec, shape: Shape, timeout: Duration) -> Result<Self, StorageError> {
        let owner = setup::owner(shape.worker)?;
        let link = Link::open(spec, &owner, shape.depth, Instant::now() + timeout)
            .map_err(|error| setup::not_opened(spec, &error))?;
        Ok(Self {
            spec: spec.clone(),
            own: spec.overwrite,
            owner,
            base: Base::new(link, &shape, timeout),
            syncs_each: false,
            unsynced: vec![Unsynced::default(); usize::from(shape.depth.max(1))],
            counts: Counts::default(),
            shape,
        })
    }

    /// Appends the next call of an operation that has a place.
    fn send_call(&mut self, slot: u16) {
        let base = &mut self.base;
        let tag = base.slots.issue(slot);
        let (Some(link), Some(task)) = (&base.link, base.slots.task_mut(slot)) else { return };
        let operation = task.operation;
        // Of a list, `moved` counts names.
        let left = operation.length.saturating_sub(task.moved);
        let (longest_read, longest_write) = link.longest();
        task.part = left.min(if operation.kind == Kind::Read { longest_read } else { longest_write });
        let task = *task;
        let from = task.moved as usize;
        let to = from + task.part as usize;
        let buffer = base.slots.of(slot);
        let calling = Calling { tag, task: &task, caller: &link.wire.caller, files: &link.files, buffer };
        let mut follows = None;
        base.outgoing.append(|out| follows = link.dialect.append(out, calling));
        if let Some(padding) = follows {
            base.outgoing.data(slot, from..to, &buffer[from..to]);
            base.outgoing.append(|out| out.extend_from_slice(padding));
        }
        self.counts.calls += 1;
        match operation.kind {
            Kind::Read => self.counts.reads += 1,
            Kind::Write | Kind::WriteDurable => self.counts.writes += 1,
            Kind::Flush => self.counts.commits += 1,
            Kind::Create | Kind::Remove | Kind::List => {}
        }
    }

    /// What the next sync on this slot is about.
    fn unsynced(&mut self, slot: u16) -> &mut Unsynced {
        &mut self.unsynced[if self.syncs_each { usize::from(slot) } else { 0 }]
    }

    /// Slow answers are one thing, a dead connection is another: an empty call tells, and renews the lease.
    fn ask_for_life(&mut self, now: u64) {
        let Some(link) = &mut self.base.link else { return };
        // Without a free place, the operations' own deadlines tell.
        let Some(place) = link.dialect.take_place() else { return };
        self.base.outgoing.append(|out| link.dialect.append_life(out, LIFE, place, &link.wire.caller));
        self.base.asked = Some(now);
    }
}

impl<D: Dialect> Rounds for NfsTarget<D> {
    type Link = Link<D>;
    type Task = Task;
    type Error = LinkError;

    fn base(&mut self) -> &mut Base<Link<D>, Task> {
        &mut self.base
    }

    /// Appends the calls that there are places for.
    fn issue(&mut self) {
        while let (Some(link), Some(slot)) = (&mut self.base.link, self.base.pending.front().copied()) {
            let Some(place) = link.dialect.take_place() else { return };
            self.base.pending.pop_front();
            if let Some(task) = self.base.slots.task_mut(slot) {
                task.place = place;
                self.send_call(slot);
            }
        }
    }

    fn receive(&mut self, wait: bool, done: &mut Vec<Done>) -> Result<bool, LinkError> {
        self.take_in(wait, done)
    }

    fn look(&mut self, now: u64, done: &mut Vec<Done>) -> Result<(), LinkError> {
        if !self.base.is_time(now) {
            return Ok(());
        }
        for slot in self.base.overdue(now) {
            // Its place is free when its answer comes at last.
            self.base.give_up(slot, done);
        }
        let silence = self.base.silence(now, false);
        let timeout = self.base.timeout.as_nanos() as u64;
        let lease = self.base.link.as_ref().and_then(|link| link.facts.lease);
        let lease = lease.map_or(LEASE, |seconds| Duration::from_secs(seconds.into())).as_nanos() as u64;
        let patience = if self.base.slots.under_way() > 0 { timeout / 2 } else { lease / 3 };
        if self.base.asked.is_none() && silence > patience.min(lease / 3) {
            self.ask_for_life(now);
        }
        Ok(self.base.check_life(now)?)
    }

    fn renew(&mut self) -> Reconnect<Link<D>> {
        let (spec, owner, shape) = (self.spec.clone(), self.owner.clone(), self.shape);
        let timeout = self.base.timeout;
        Reconnect::begin(move || {
            let until = Instant::now() + timeout;
            let mut link = Link::open(&spec, &owner, shape.depth, until).ok()?;
            setup::open_files(&mut link, &shape, until).ok()?;
            Some(link)
        })
    }
}

impl<D: Dialect> Target for NfsTarget<D> {
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
        self.base.slots.buffer(slot)
    }

    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
        self.base.check_free(operation.slot)?;
        let of_data = matches!(operation.kind, Kind::Read | Kind::Write | Kind::WriteDurable);
        let of_record = of_data || operation.kind == Kind::Create;
        if (of_record && operation.length > self.shape.record) || (of_data && operation.length == 0) {
            let reason =
                format!("an operation of {} bytes; the buffers have {}", operation.length, self.shape.record);
            return Err(StorageError::Refused { reason });
        }
        let longest = self.base.link.as_ref().map_or(u32::MAX, |link| link.longest().1);
        if operation.kind == Kind::Create && operation.length > longest {
            let reason =
                format!("a small file of {} bytes; the server takes {longest} at once", operation.length);
            return Err(StorageError::Refused { reason });
        }
        let length = if of_record { operation.length } else { 0 };
        let operation = Operation { length, ..*operation };
        let task =
            Task { operation, place: 0, step: Step::Make, moved: 0, part: 0, cookie: 0, verifier: [0; 8] };
        self.base.accept(operation.slot, task);
        self.issue();
        Ok(())
    }

    fn wait(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), StorageError> {
        self.go_on(sleep, done);
        Ok(())
    }

    fn gather(&mut self) {
        self.base.gather();
    }

    fn sync_each(&mut self) {
        self.syncs_each = true;
    }

    fn first_failure(&self) -> Option<&str> {
        self.base.first_failure()
    }

    fn finish(&mut self) -> Result<(), StorageError> {
        self.base.reconnect = None;
        if let Some(mut link) = self.base.link.take()
            && self.base.slots.under_way() == 0
        {
            // A server that doesn't answer is left: its lease ends by itself.
            let _ = link.leave();
        }
        Ok(())
    }

    fn owns_files(&self) -> bool {
        self.own
    }

    fn may_land_late(&self, failure: Failure) -> bool {
        // What a connection of version 4.1 was asked for ends with its session.
        failure == Failure::TimedOut || (failure == Failure::Lost && D::OUTLIVES_CONNECTIONS)
    }

    fn is_sent(&self, slot: u16) -> bool {
        self.base.slots.is_issued(slot)
    }

    fn remove(&mut self) -> Result<(), StorageError> {
        setup::remove(self)
    }
}
