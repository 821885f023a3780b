//! A logical unit behind an iSCSI target, by an initiator of vtax's own: no root, no kernel module.
//!
//! Each worker has a session of one connection. Commands are numbered, sent as the target's window allows, and
//! answered in any order. What a connection lost is told as [`Failure::Lost`]; a thread of its own makes the next
//! one, so that nothing here waits for it. Error recovery within a connection (level 1 and 2 of RFC 7143) and
//! several connections in a session are left out.

mod link;
mod receive;
mod setup;
mod spec;

pub use setup::{discover, visible_units};
pub use spec::{ChapSecret, INITIATOR, IscsiSpec};

use std::time::{Duration, Instant};

use vtax_wire::iscsi::{Attributes, Command, Sink, TaskFunction};
use vtax_wire::scsi;

use self::link::{Link, LinkError, Unit};
use self::receive::Receiving;
use super::client::{Base, Buffers as _, Outgoing, Reconnect, Rounds, Streamed};
use super::target::{Done, Facts, Failure, Kind, Operation, Shape, StorageError, Target};

/// Tags of requests that are no commands have this bit.
const OTHER_TAG: u32 = 1 << 31;

/// What is remembered of a command under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    operation: Operation,
    /// First block on the unit, and how many.
    block: u64,
    blocks: u32,
    /// Bytes that arrived.
    moved: u32,
    /// Number of its command, once it is sent.
    cmd_sn: u32,
}

/// What was sent and received, in numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    commands: u64,
    data_in: u64,
    data_out: u64,
    r2ts: u64,
    pings: u64,
    aborts: u64,
    events: u64,
}

/// A unit and the session to it.
#[derive(Debug)]
pub struct IscsiTarget {
    spec: IscsiSpec,
    shape: Shape,
    lun: u64,
    isid: [u8; 6],
    unit: Unit,
    base: Base<Link, Task>,
    receiving: Receiving,
    counts: Counts,
}

impl IscsiTarget {
    /// Logs in and asks the unit what it is. An operation that takes longer than `timeout` has failed.
    ///
    /// # Errors
    /// The specification makes no sense, or the target can't be reached, refuses the login, or doesn't show the unit.
    pub fn open(spec: &IscsiSpec, shape: Shape, timeout: Duration) -> Result<Self, StorageError> {
        let (lun, isid) = setup::identity(spec, shape.worker)?;
        let (link, unit) = setup::open(spec, (lun, isid), Instant::now() + timeout)
            .map_err(|error| setup::not_opened(spec, &error))?;
        Ok(Self {
            spec: spec.clone(),
            lun,
            isid,
            unit,
            base: Base::new(link, &shape, timeout),
            receiving: Receiving::default(),
            counts: Counts::default(),
            shape,
        })
    }

    /// First byte of a file's extent.
    fn extent(&self, file: u32) -> u64 {
        // Among the processes of the same unit.
        let place = self.shape.worker / usize::from(self.spec.units.max(1));
        let number = place as u64 * u64::from(self.shape.files) + u64::from(file);
        number * self.shape.size.next_multiple_of(u64::from(self.unit.block_bytes))
    }

    fn task(&self, operation: &Operation) -> Result<Task, StorageError> {
        let refused = |reason: String| StorageError::Refused { reason };
        let block_bytes = u64::from(self.unit.block_bytes);
        let begin = self.extent(operation.file) + operation.offset;
        let moves = matches!(operation.kind, Kind::Read | Kind::Write | Kind::WriteDurable);
        let length = if moves { u64::from(operation.length) } else { 0 };
        if !begin.is_multiple_of(block_bytes) || !length.is_multiple_of(block_bytes) {
            return Err(refused(format!(
                "{length} bytes at {begin} are no whole blocks of {block_bytes} bytes"
            )));
        }
        if moves && (length == 0 || length > u64::from(self.shape.record)) {
            return Err(refused(format!(
                "an operation of {length} bytes; the buffers have {}",
                self.shape.record
            )));
        }
        if operation.file >= self.shape.files || (begin + length).div_ceil(block_bytes) > self.unit.blocks {
            return Err(refused(format!("{length} bytes at {begin} are beyond the unit's end")));
        }
        Ok(Task {
            operation: *operation,
            block: begin / block_bytes,
            blocks: (length / block_bytes) as u32,
            moved: 0,
            cmd_sn: 0,
        })
    }

    /// Asks the target to give a command up. Its late answers are told by their tag.
    fn abort(&mut self, slot: u16) {
        let (Some(link), Some(task)) = (&self.base.link, self.base.slots.task(slot)) else { return };
        let (tag, about) = (self.base.slots.tag(slot), (TaskFunction::AbortTask, self.lun));
        let numbers = (link.cmd_sn, link.exp_stat_sn);
        self.base.outgoing.append(|own| {
            link.writer.manage(own, about, OTHER_TAG | tag, (tag, task.cmd_sn), numbers);
        });
        self.counts.aborts += 1;
    }
}

impl Streamed for Link {
    fn stream(&self) -> &super::client::Stream {
        &self.stream
    }
}

/// Data of a slot goes out from its buffer.
struct SlotSink<'a> {
    outgoing: &'a mut Outgoing,
    slot: u16,
    /// Where in the buffer the data begins.
    from: usize,
}

impl Sink for SlotSink<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.outgoing.append(|own| own.extend_from_slice(bytes));
    }

    fn data(&mut self, data: &[u8]) {
        self.outgoing.data(self.slot, self.from..self.from + data.len(), data);
    }
}

impl Rounds for IscsiTarget {
    type Link = Link;
    type Task = Task;
    type Error = LinkError;

    fn base(&mut self) -> &mut Base<Link, Task> {
        &mut self.base
    }

    /// Sends the commands that the window has room for.
    fn issue(&mut self) {
        let Some(link) = &mut self.base.link else { return };
        while link.window_open() {
            let Some(slot) = self.base.pending.pop_front() else { break };
            let Some(task) = self.base.slots.task_mut(slot) else { continue };
            task.cmd_sn = link.cmd_sn;
            let task = *task;
            let tag = self.base.slots.issue(slot);
            let (length, kind) = (task.blocks * self.unit.block_bytes, task.operation.kind);
            let cdb = match kind {
                Kind::Read => scsi::read(task.block, task.blocks),
                Kind::Write | Kind::WriteDurable => {
                    scsi::write(task.block, task.blocks, kind == Kind::WriteDurable)
                }
                _ => scsi::synchronize_cache(),
            };
            let writes = matches!(kind, Kind::Write | Kind::WriteDurable);
            let first_burst = link.agreed.first_burst.min(length);
            let immediate = match link.agreed.immediate_data && writes {
                true => first_burst.min(link.agreed.send_segment),
                false => 0,
            };
            let unasked = if writes && !link.agreed.initial_r2t { first_burst } else { immediate };
            let command = Command {
                lun: self.lun,
                tag,
                length,
                reads: kind == Kind::Read,
                writes,
                unsolicited: unasked > immediate,
                attributes: Attributes::Simple,
                cmd_sn: task.cmd_sn,
                exp_stat_sn: link.exp_stat_sn,
                cdb,
            };
            link.cmd_sn = link.cmd_sn.wrapping_add(1);
            self.counts.commands += 1;
            let data = &self.base.slots.of(slot)[..immediate as usize];
            let mut sink = SlotSink { outgoing: &mut self.base.outgoing, slot, from: 0 };
            link.writer.command(&mut sink, &command, data);
            let part = receive::Part { tag, target_tag: vtax_wire::iscsi::NO_TAG, lun: self.lun };
            let range = immediate..unasked;
            self.counts.data_out +=
                receive::send_data(link, &self.base.slots, &mut self.base.outgoing, (slot, part), range);
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
            if self.base.slots.is_issued(slot) {
                self.abort(slot);
            }
            self.base.give_up(slot, done);
        }
        let idle = self.base.slots.under_way() == 0;
        if idle {
            self.base.asked = None;
        }
        let silence = self.base.silence(now, idle);
        if let (None, Some(link)) = (self.base.asked, &self.base.link)
            && silence > self.base.timeout.as_nanos() as u64 / 2
        {
            // Slow commands are one thing, a dead connection is another: a ping tells.
            self.base.outgoing.append(|own| {
                link.writer.ping(own, OTHER_TAG, link.cmd_sn, link.exp_stat_sn);
            });
            self.counts.pings += 1;
            self.base.asked = Some(now);
        }
        Ok(self.base.check_life(now)?)
    }

    fn renew(&mut self) -> Reconnect<Link> {
        self.receiving = Receiving::default();
        let (spec, session, timeout) = (self.spec.clone(), (self.lun, self.isid), self.base.timeout);
        Reconnect::begin(move || {
            setup::open(&spec, session, Instant::now() + timeout).ok().map(|(link, _)| link)
        })
    }
}

impl Target for IscsiTarget {
    fn facts(&self) -> Facts {
        setup::facts(self)
    }

    fn prepare(&mut self) -> Result<(), StorageError> {
        let block_bytes = self.unit.block_bytes;
        if !self.shape.record.is_multiple_of(block_bytes) {
            let reason = format!("records of {} bytes on blocks of {block_bytes}", self.shape.record);
            return Err(StorageError::Refused { reason });
        }
        let needed = self.extent(self.shape.files);
        let free = self.unit.blocks * u64::from(block_bytes);
        if needed > free {
            return Err(StorageError::TooSmall { target: setup::name(&self.spec), needed, free });
        }
        if self.unit.caching.is_some_and(|page| page.write_protected) {
            return Err(StorageError::Refused { reason: "the unit is write-protected".to_owned() });
        }
        let Some(link) = self.base.link.as_mut().filter(|_| !self.spec.overwrite) else { return Ok(()) };
        let until = Instant::now() + self.base.timeout;
        let foreign = setup::is_foreign(link, self.lun, &self.unit, until)
            .map_err(|error| setup::not_opened(&self.spec, &error))?;
        if foreign {
            let reason = "its beginning or end holds data that is not vtax's".to_owned();
            return Err(StorageError::Foreign { target: setup::name(&self.spec), reason });
        }
        Ok(())
    }

    fn buffer(&mut self, slot: u16) -> &mut [u8] {
        self.base.slots.buffer(slot)
    }

    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
        self.base.check_free(operation.slot)?;
        if matches!(operation.kind, Kind::Create | Kind::Remove | Kind::List) {
            let result = Err(Failure::Refused);
            self.base.ready.push(Done { slot: operation.slot, result, sent: false });
            return Ok(());
        }
        let task = self.task(operation)?;
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

    fn first_failure(&self) -> Option<&str> {
        self.base.first_failure()
    }

    fn finish(&mut self) -> Result<(), StorageError> {
        self.base.reconnect = None;
        if let Some(mut link) = self.base.link.take()
            && self.base.slots.under_way() == 0
            && self.receiving.is_between()
        {
            // A target that doesn't answer is left: the load is over, and it notices the end by itself.
            let _ = link.log_out();
        }
        Ok(())
    }

    fn is_sent(&self, slot: u16) -> bool {
        self.base.slots.is_issued(slot)
    }

    fn remove(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}
