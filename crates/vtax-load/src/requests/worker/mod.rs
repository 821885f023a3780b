//! One worker: an epoll loop over its own connections.
//!
//! Nothing here allocates, locks or shares on the path of a request. All times are nanoseconds
//! since the load's epoch. A start that finds no free connection is not queued: the arrival
//! process simply isn't asked for the next one until it has gone out or timed out.

mod connection;
mod crew;

use std::collections::VecDeque;
use std::iter::Peekable;
use std::net::SocketAddr;

use vtax_sys::{SysError, sched};
use vtax_units::Nanos;

pub(crate) use self::connection::outcome_of;
pub(crate) use self::crew::Crew;
use super::dialogue::Dialogue;
use super::recorder::{Outcome, Recorder, Window};
use super::slots::{Phase, Slots};
use crate::drive::{EventLoop, Rest, Usage, Used};
use crate::{Arrivals, Control};

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// One read's most. Shared by all connections of a worker: no answer is kept.
const BUFFER_BYTES: usize = 256 * 1024;
/// Room for the requests of one connection before more is taken.
const OUT_BYTES: usize = 4 * 1024;
/// Starts in a row before events are looked at again.
const STARTS_MAX: u32 = 64;
/// Connection attempts of a closed loop under way at once; more would overflow the backlog of an
/// ordinary server (511 for nginx), and a dropped SYN costs a second.
const CONNECTING_MAX: u32 = 128;
/// Longest sleep, so that a cancellation is seen.
const SLEEP_MAX: u64 = 20_000_000;
/// How often progress is handed over.
const PROGRESS: u64 = 20_000_000;
/// Bits of an event's token for the slot, below those for the lane: more slots than any load has connections.
const LANE_SHIFT: u32 = 24;

/// What all workers of a load have in common.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) target: SocketAddr,
    /// Requests on one connection before it is closed.
    pub(crate) per_connection: u32,
    /// Connections that each worker of an open loop opens before the epoch.
    pub(crate) open_ahead: u32,
    pub(crate) window: Window,
    /// How long answers are waited for after the window's end.
    pub(crate) drain: u64,
    pub(crate) timeout: u64,
    /// CLOCK_MONOTONIC at the start of the load.
    pub(crate) epoch: Nanos,
}

/// What one worker found.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) recorder: Recorder,
    /// End of the recorded time; earlier than asked for where the load was cancelled.
    pub(crate) end: u64,
    pub(crate) used: Used,
}

#[derive(Debug)]
pub(crate) struct Worker<'a, D: Dialogue> {
    job: &'a Job,
    control: &'a Control,
    dialogue: D,
    /// Its place among those that share its thread, by which its events are told from theirs.
    lane: u32,
    events: EventLoop,
    buffer: Box<[u8]>,
    /// Requests that are about to be sent.
    out: Vec<u8>,
    slots: Slots<D::Connection>,
    /// Slots with an open connection and room for a request: the one used last at the back, those with
    /// requests under way at the front. And slots without a connection.
    idle: VecDeque<u32>,
    free: Vec<u32>,
    /// Since when there was always a free slot.
    available_since: u64,
    connecting: u32,
    /// Connections that are opened before anything is sent on them, as long as this is not over.
    opening: Option<Opening>,
    /// `None` in a closed loop.
    arrivals: Option<Peekable<Arrivals>>,
    recorder: Recorder,
    now: u64,
    /// When no more requests start.
    stop: u64,
    next_progress: u64,
    usage: UsageMeter,
}

/// Connections opened ahead. A closed loop opens all of its own in the warm-up: a server that is busy
/// already may take minutes to accept thousands of them. An open loop opens some before its first
/// start: each connection takes as long as several requests, so that starting them all at once would
/// make the next starts late, for which still more are opened.
#[derive(Debug, Clone, Copy)]
struct Opening {
    /// How many.
    count: usize,
    /// When requests start, whether all are open or not.
    until: u64,
}

/// What this thread used between the start and the end of the recorded time.
#[derive(Debug, Default)]
struct UsageMeter {
    from: Option<Usage>,
    to: Option<Usage>,
}

impl<'a, D: Dialogue> Worker<'a, D> {
    pub(crate) fn new(
        job: &'a Job,
        control: &'a Control,
        dialogue: D,
        connections: u32,
        arrivals: Option<Arrivals>,
        recorder: Recorder,
        (lane, events): (u32, EventLoop),
    ) -> Self {
        Self {
            job,
            control,
            lane,
            events,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            out: Vec::with_capacity(OUT_BYTES),
            slots: Slots::new(connections, dialogue.depth()),
            dialogue,
            idle: VecDeque::with_capacity(connections as usize),
            free: (0..connections).rev().collect(),
            available_since: 0,
            connecting: 0,
            opening: Opening::of(job, connections, arrivals.is_some()),
            arrivals: arrivals.map(Iterator::peekable),
            recorder,
            now: 0,
            stop: job.window.to,
            next_progress: 0,
            usage: UsageMeter::default(),
        }
    }

    fn tell_time(&mut self) {
        self.now = sched::monotonic().saturating_sub(self.job.epoch).0;
    }

    /// Passes the marks of the load's course; false once it is over.
    fn go_on(&mut self) -> Result<bool, SysError> {
        let now = self.now;
        if now >= self.recorder.next_flush() {
            self.recorder.tick(now);
        }
        if now >= self.next_progress {
            self.control.add(&self.recorder.take_progress(now));
            self.next_progress = now + PROGRESS;
        }
        if self.control.is_cancelled() && self.stop > now {
            self.stop = now;
        }
        if now >= self.job.window.from && self.usage.from.is_none() {
            self.usage.from = Some(Usage::now(now, self.events.pacer.polled)?);
        }
        if now < self.stop {
            return Ok(true);
        }
        if self.usage.to.is_none() {
            self.usage.to = Some(Usage::now(now, self.events.pacer.polled)?);
        }
        let overdue = self.next_start().is_some();
        let waiting = self.slots.oldest().is_some() || overdue;
        Ok(waiting && now < self.stop + self.job.drain && !self.control.is_cancelled())
    }

    /// The next intended start of an open loop, if the load still has one.
    fn next_start(&mut self) -> Option<u64> {
        let stop = self.stop;
        self.arrivals.as_mut()?.peek().map(|start| start.0).filter(|start| *start < stop)
    }

    /// Starts every request that is due and finds a connection.
    fn dispatch(&mut self) {
        if let Some(opening) = self.opening {
            self.open_ahead(opening);
        }
        if self.arrivals.is_none() {
            self.dispatch_closed();
            return;
        }
        for _ in 0..STARTS_MAX {
            let Some(start) = self.next_start().filter(|start| *start <= self.now) else { return };
            let available = !(self.idle.is_empty() && self.free.is_empty());
            if start + self.job.timeout <= self.now {
                self.recorder.missed(start, available && self.available_since <= start);
            } else {
                let Some(id) = self.take_idle().or_else(|| self.free.pop()) else { return };
                let own = self.now - start.max(self.available_since).min(self.now);
                if self.begin(id, start, Some((self.now - start, own))) {
                    self.flush(id);
                }
                self.tell_time();
            }
            self.events.pacer.started(start);
            self.arrivals.as_mut().and_then(Iterator::next);
        }
    }

    /// Opens connections without a request until there are enough or their time has passed.
    fn open_ahead(&mut self, opening: Opening) {
        while self.connecting < CONNECTING_MAX && self.idle.len() + (self.connecting as usize) < opening.count
        {
            let Some(id) = self.free.pop() else { break };
            self.slots.get(id).phase = Phase::Opening;
            if self.connect(id).is_err() {
                self.park(id, Phase::Paused);
            }
        }
        if self.idle.len() == opening.count || self.now >= opening.until {
            self.opening = None;
        }
    }

    /// Fills every connection that has room.
    fn dispatch_closed(&mut self) {
        if self.opening.is_some() {
            return;
        }
        while self.now < self.stop {
            let next = match self.take_idle() {
                None if self.connecting < CONNECTING_MAX => self.free.pop(),
                idle => idle,
            };
            let Some(id) = next else { return };
            let mut begun = self.begin(id, self.now, None);
            while begun && self.can_take(id) {
                begun = self.begin(id, self.now, None);
            }
            if begun {
                self.flush(id);
            }
        }
    }

    /// A slot that has room, which leaves the list.
    fn take_idle(&mut self) -> Option<u32> {
        let id = self.idle.pop_back()?;
        self.slots.get(id).listed = false;
        Some(id)
    }

    /// Whether another request may be sent on a connection on which some are under way.
    fn can_take(&mut self, id: u32) -> bool {
        let slot = self.slots.get(id);
        slot.phase == Phase::Busy && slot.served < self.job.per_connection && self.slots.has_room(id)
    }

    /// Lists a slot on which requests are under way, if it has room: behind those that have none.
    fn list_busy(&mut self, id: u32) {
        if self.can_take(id) && !self.slots.get(id).listed {
            self.slots.get(id).listed = true;
            self.idle.push_front(id);
        }
    }

    /// Ends what took too long.
    fn expire(&mut self) {
        while let Some((id, start)) = self.slots.oldest() {
            if start + self.job.timeout > self.now {
                break;
            }
            self.end(id, Outcome::ClientTimeout, false);
        }
        while let Some((id, until)) = self.slots.next_parked() {
            if until > self.now {
                break;
            }
            self.slots.unpark(id);
            self.close(id, false);
            self.release(id);
        }
    }

    /// How long to wait for events.
    fn rest(&mut self) -> Rest {
        let now = self.now;
        let mark = if now < self.stop { self.stop } else { self.stop + self.job.drain };
        let mut wake = mark.min(now + SLEEP_MAX).min(self.recorder.next_flush().max(now + 1));
        if now < self.job.window.from {
            wake = wake.min(self.job.window.from);
        }
        if let Some((_, start)) = self.slots.oldest() {
            wake = wake.min(start + self.job.timeout);
        }
        if let Some((_, until)) = self.slots.next_parked() {
            wake = wake.min(until);
        }
        if let Some(start) = self.next_start() {
            let available = !(self.idle.is_empty() && self.free.is_empty());
            let due = if available { start } else { start + self.job.timeout };
            if due <= wake {
                let for_start = available && due > now;
                return Rest { now, sleep: self.events.pacer.sleep(now, due), for_start };
            }
        }
        Rest { now, sleep: wake.saturating_sub(now), for_start: false }
    }

    /// Starts a request on a slot that has room; what is to be sent is in `out` then. False where the slot
    /// can't be connected, which ends the request.
    fn begin(&mut self, id: u32, start: u64, late: Option<(u64, u64)>) -> bool {
        let slot = self.slots.get(id);
        slot.phase = Phase::Busy;
        let open = slot.fd.is_some();
        self.slots.push(id, start);
        self.recorder.started(start, late);
        if !open && let Err(error) = self.connect(id) {
            self.end(id, outcome_of(error), true);
            return false;
        }
        let slot = self.slots.get(id);
        slot.served += 1;
        let last = slot.served >= self.job.per_connection;
        self.dialogue.write(&mut slot.dialogue, last, &mut self.out);
        true
    }

    /// Counts what is left over.
    fn finish(mut self) -> Result<Finding, SysError> {
        self.expire();
        while let Some(start) = self.next_start() {
            self.recorder.missed(start, false);
            self.arrivals.as_mut().and_then(Iterator::next);
        }
        while let Some((id, start)) = self.slots.oldest() {
            self.recorder.unfinished(start);
            self.slots.pop(id);
        }
        self.recorder.close();
        let progress = self.recorder.take_progress(self.now);
        self.control.add(&progress);
        let to = match self.usage.to {
            Some(to) => to,
            None => Usage::now(self.now, self.events.pacer.polled)?,
        };
        let used = to.since(self.usage.from.unwrap_or(to));
        Ok(Finding { end: self.stop, used, recorder: self.recorder })
    }
}

impl Opening {
    fn of(job: &Job, connections: u32, open_loop: bool) -> Option<Self> {
        let (count, until) =
            if open_loop { (job.open_ahead.min(connections), 1) } else { (connections, job.window.from) };
        (count > 0 && until > 0).then_some(Self { count: count as usize, until })
    }
}
