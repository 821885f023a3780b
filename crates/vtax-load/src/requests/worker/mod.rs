//! One worker: an epoll loop over its own connections.
//!
//! Nothing here allocates, locks or shares on the path of a request. All times are nanoseconds
//! since the load's epoch. A start that finds no free connection is not queued: the arrival
//! process simply isn't asked for the next one until it has gone out or timed out.

mod connection;
mod group;
mod streams;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;

use vtax_sys::SysError;
use vtax_units::Nanos;

pub(crate) use self::connection::outcome_of;
pub(crate) use self::group::WorkerGroup;
use super::dialogue::Dialogue;
use super::recorder::{Lateness, Outcome, Recorder, Window};
use super::slots::{Phase, Slots};
use super::timetable::{Finding, Timetable, time_since, time_until};
use crate::drive::{EventLoop, Rest};
use crate::{Control, StartTimes};

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
/// Bits of an event's token for the slot, below those for the worker's index: more slots than any load has connections.
const INDEX_SHIFT: u32 = 24;

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

#[derive(Debug)]
pub(crate) struct Worker<'a, D: Dialogue> {
    job: &'a Job,
    dialogue: D,
    /// Its place among those that share its thread, by which its events are told from theirs.
    index: u32,
    events: EventLoop,
    buffer: Box<[u8]>,
    /// Requests that are about to be sent.
    out: Vec<u8>,
    slots: Slots<D::Connection>,
    /// Slots whose session goes on, with when that is.
    thinking: BinaryHeap<Reverse<(u64, u32)>>,
    /// Slots with an open connection and room for a request: the one used last at the back, those with
    /// requests under way at the front. And slots without a connection.
    idle: VecDeque<u32>,
    free: Vec<u32>,
    /// Since when there was always a slot with room.
    available_since: u64,
    connecting: u32,
    /// Connections that are opened before anything is sent on them, as long as this is not over.
    opening: Option<Opening>,
    /// Starts of requests that are to be sent again, as a server hasn't looked at them.
    again: VecDeque<u64>,
    time: Timetable<'a>,
    recorder: Recorder,
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

impl<'a, D: Dialogue> Worker<'a, D> {
    pub(crate) fn new(
        job: &'a Job,
        control: &'a Control,
        dialogue: D,
        connections: u32,
        arrivals: Option<StartTimes>,
        recorder: Recorder,
        (index, events): (u32, EventLoop),
    ) -> Self {
        let may_think = if D::SENDS_BESIDES_REQUESTS { connections as usize } else { 0 };
        Self {
            job,
            index,
            events,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            out: Vec::with_capacity(OUT_BYTES),
            slots: Slots::new(connections, dialogue.depth()),
            thinking: BinaryHeap::with_capacity(may_think),
            dialogue,
            idle: VecDeque::with_capacity(connections as usize),
            free: (0..connections).rev().collect(),
            available_since: 0,
            connecting: 0,
            opening: Opening::of(job, connections, arrivals.is_some()),
            again: VecDeque::new(),
            time: Timetable::new(control, job.window, job.drain, job.epoch, arrivals),
            recorder,
        }
    }

    /// Passes the marks of the load's course; false once it is over.
    fn go_on(&mut self) -> Result<bool, SysError> {
        self.time.pass(&mut self.recorder, self.events.pacer.polled, false)?;
        if self.time.goes_on() {
            return Ok(true);
        }
        let waiting =
            self.slots.oldest().is_some() || self.time.next_start().is_some() || !self.again.is_empty();
        Ok(waiting && self.time.waits())
    }

    /// Starts every request that is due and finds a connection.
    fn dispatch(&mut self) {
        if let Some(opening) = self.opening {
            self.open_ahead(opening);
        }
        // Until the epoch only connections are opened: a request would count as one that began at time zero, and took no time.
        if self.time.now == 0 {
            return;
        }
        if D::SENDS_BESIDES_REQUESTS {
            self.dialogue.set_now(self.time.now);
            self.go_on_with_sessions();
        }
        if D::ANSWERS_IN_ANY_ORDER {
            self.send_again();
        }
        if !self.time.is_open() {
            self.dispatch_closed();
            return;
        }
        for _ in 0..STARTS_MAX {
            let Some(start) = self.time.next_start().filter(|start| *start <= self.time.now) else { return };
            let available = self.is_available();
            if start + self.job.timeout <= self.time.now {
                self.recorder.missed(start, available && self.available_since <= start);
            } else {
                let Some(id) = self.take_idle().or_else(|| self.free.pop()) else { return };
                let late = Lateness::of(start, self.available_since, self.time.now);
                if self.begin(id, start, Some(late)) {
                    self.flush(id);
                }
                self.time.tell();
            }
            self.events.pacer.started(start);
            self.time.started();
        }
    }

    /// Starts what is due of sessions that have begun.
    fn go_on_with_sessions(&mut self) {
        while let Some(Reverse((due, id))) = self.thinking.peek().copied() {
            if due > self.time.now || due >= self.time.stop {
                return;
            }
            self.thinking.pop();
            let late = self.time.now - due;
            let late = self.time.is_open().then_some(Lateness { total: late, own: late });
            if self.begin(id, due, late) {
                self.flush(id);
            }
            self.tell_dialogue();
        }
    }

    /// The slot's session goes on after a pause of so many nanoseconds.
    fn think(&mut self, id: u32, pause: u64) {
        let due = self.time.now.saturating_add(pause);
        self.slots.get(id).phase = Phase::Thinking;
        self.thinking.push(Reverse((due, id)));
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
        if self.idle.len() == opening.count || self.time.now >= opening.until {
            self.opening = None;
            if !self.time.is_open() {
                self.begin_on_those_that_open();
            }
        }
    }

    /// Begins a request of a closed loop on each connection that isn't there yet: it waits for that no longer than for an answer. Without
    /// one, connections that never come up would be waited for to the end, and nothing would have failed.
    fn begin_on_those_that_open(&mut self) {
        self.tell_dialogue();
        for id in 0..self.slots.count() {
            let slot = self.slots.get(id);
            if slot.phase != Phase::Opening || !self.time.goes_on() {
                continue;
            }
            if std::mem::take(&mut slot.greeting) {
                self.connecting -= 1;
            }
            if self.begin(id, self.time.now, None) {
                self.flush(id);
            }
        }
    }

    /// Fills every connection that has room.
    fn dispatch_closed(&mut self) {
        if self.opening.is_some() {
            return;
        }
        while self.time.now < self.time.stop {
            let next = match self.take_idle() {
                None if self.connecting < CONNECTING_MAX => self.free.pop(),
                idle => idle,
            };
            let Some(id) = next else { return };
            let mut begun = self.begin(id, self.time.now, None);
            while begun && self.can_take(id) {
                begun = self.begin(id, self.time.now, None);
            }
            if begun {
                self.flush(id);
            }
        }
    }

    /// A slot that has room, which leaves the list.
    fn take_idle(&mut self) -> Option<u32> {
        if D::ANSWERS_IN_ANY_ORDER {
            return self.take_open();
        }
        let id = self.idle.pop_back()?;
        self.slots.get(id).listed = false;
        Some(id)
    }

    /// Whether another request may be sent on a connection on which some are under way.
    fn can_take(&mut self, id: u32) -> bool {
        let slot = self.slots.get(id);
        slot.phase == Phase::Busy
            && slot.served < self.job.per_connection
            && (!D::ANSWERS_IN_ANY_ORDER || self.dialogue.has_room(&slot.dialogue))
            && self.slots.has_room(id)
    }

    /// Lists a slot on which requests are under way, if it has room: behind those that have none.
    fn list_busy(&mut self, id: u32) {
        if self.can_take(id) && !self.slots.get(id).listed {
            self.slots.get(id).listed = true;
            self.idle.push_front(id);
        }
    }

    /// Lists a connection in which an answer has made room: until then starts may have waited for it.
    fn list_again(&mut self, id: u32) {
        let none = !self.is_available();
        self.list_busy(id);
        if none && self.is_available() {
            self.available_since = self.time.now;
        }
    }

    /// Whether a start finds a connection.
    fn is_available(&self) -> bool {
        !(self.idle.is_empty() && self.free.is_empty())
    }

    /// Ends what took too long.
    fn expire(&mut self) {
        while let Some((id, start)) = self.slots.oldest() {
            if start + self.job.timeout > self.time.now {
                break;
            }
            if !D::ANSWERS_IN_ANY_ORDER || !self.give_up(id) {
                self.end(id, Outcome::ClientTimeout, false);
            }
        }
        while let Some((id, until)) = self.slots.next_parked() {
            if until > self.time.now {
                break;
            }
            self.slots.unpark(id);
            self.close(id, false);
            self.release(id);
        }
    }

    /// How long to wait for events.
    fn rest(&mut self) -> Rest {
        let now = self.time.now;
        if now == 0 {
            return Rest { now, sleep: time_until(self.job.epoch), for_start: false };
        }
        let mut wake = self.time.next_mark(&self.recorder);
        if let Some((_, start)) = self.slots.oldest() {
            wake = wake.min(start + self.job.timeout);
        }
        if D::ANSWERS_IN_ANY_ORDER
            && let Some(start) = self.again.front()
        {
            wake = wake.min(start + self.job.timeout);
        }
        if let Some((_, until)) = self.slots.next_parked() {
            wake = wake.min(until);
        }
        let mut follows = None;
        if D::SENDS_BESIDES_REQUESTS
            && let Some(Reverse((due, _))) = self.thinking.peek().copied()
        {
            follows = Some(due).filter(|due| *due < self.time.stop.min(wake));
            wake = wake.min(follows.unwrap_or(wake));
        }
        if let Some(start) = self.time.next_start() {
            let available = self.is_available();
            let due = if available { start } else { start + self.job.timeout };
            if due <= wake {
                let for_start = available && due > now;
                return Rest { now, sleep: self.events.pacer.sleep(now, due), for_start };
            }
        }
        if let Some(due) = follows {
            return Rest { now, sleep: self.events.pacer.sleep(now, due), for_start: due > now };
        }
        Rest { now, sleep: wake.saturating_sub(now), for_start: false }
    }

    /// Starts a request on a slot that has room; what is to be sent is in `out` then. False where the slot
    /// can't be connected, which ends the request.
    fn begin(&mut self, id: u32, start: u64, late: Option<Lateness>) -> bool {
        self.recorder.started(start, late);
        self.ask(id, start)
    }

    /// Sends a request that is counted already.
    fn ask(&mut self, id: u32, start: u64) -> bool {
        let slot = self.slots.get(id);
        slot.phase = Phase::Busy;
        let open = slot.fd.is_some();
        if D::ANSWERS_IN_ANY_ORDER {
            let place = self.dialogue.place(&mut slot.dialogue);
            self.slots.put(id, place, start);
        } else {
            self.slots.push(id, start);
        }
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
        let details = self.dialogue.details();
        while let Some((id, start)) = self.slots.oldest() {
            self.recorder.cut_short(start);
            match self.slots.oldest_place().filter(|_| D::ANSWERS_IN_ANY_ORDER) {
                Some(place) => self.slots.take(id, place),
                None => self.slots.pop(id),
            };
        }
        while let Some(start) = self.again.pop_front() {
            self.recorder.cut_short(start);
        }
        self.time.cut_short(&mut self.recorder, self.job.timeout);
        let finding = self.time.finish(self.recorder, self.events.pacer.polled)?;
        Ok(Finding { details, ..finding })
    }
}

impl Opening {
    fn of(job: &Job, connections: u32, open_loop: bool) -> Option<Self> {
        let (count, until) =
            if open_loop { (job.open_ahead.min(connections), 1) } else { (connections, job.window.from) };
        (count > 0 && until > 0).then_some(Self { count: count as usize, until })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::super::dialogue::Taken;
    use super::*;
    use crate::requests::Outcome;

    /// Two requests may be under way on a connection, which counts how often they failed.
    struct Two;

    impl Dialogue for Two {
        type Connection = u32;

        fn depth(&self) -> u32 {
            2
        }

        fn write(&mut self, _: &mut u32, _: bool, _: &mut Vec<u8>) {}

        fn read(&mut self, _: &mut u32, bytes: &[u8]) -> Result<Taken, Outcome> {
            Ok(Taken { bytes: bytes.len(), answer: None })
        }

        fn requests_failed(&mut self, failures: &mut u32) {
            *failures += 1;
        }
    }

    fn worker<'a>(job: &'a Job, control: &'a Control, connections: u32) -> Worker<'a, Two> {
        let recorder = Recorder::new(job.window, Nanos(job.timeout), false);
        Worker::new(job, control, Two, connections, None, recorder, (0, EventLoop::new().unwrap()))
    }

    fn job() -> Job {
        Job {
            target: ([127, 0, 0, 1], 1).into(),
            per_connection: u32::MAX,
            open_ahead: 0,
            window: Window { from: 0, to: 1_000, interval: 1_000 },
            drain: 0,
            timeout: 1_000,
            epoch: Nanos::ZERO,
        }
    }

    /// A request goes out on the slot that is used next.
    fn send(worker: &mut Worker<'_, Two>, now: u64) -> Option<u32> {
        worker.time.now = now;
        let id = worker.take_idle().or_else(|| worker.free.pop())?;
        worker.slots.get(id).phase = Phase::Busy;
        worker.slots.push(id, now);
        worker.list_busy(id);
        Some(id)
    }

    /// Starts that waited for a server which had all connections full were taken for late ones of the generator's own.
    #[test]
    fn room_that_an_answer_makes_is_there_since_then() {
        let (job, control) = (job(), Control::new());
        let mut worker = worker(&job, &control, 1);
        worker.available_since = 3;
        let id = send(&mut worker, 10).unwrap();
        // It had room all the time: what is late then is the generator's own doing.
        assert_eq!((worker.available_since, worker.is_available()), (3, true));
        assert_eq!(send(&mut worker, 20), Some(id));
        assert!(!worker.is_available() && send(&mut worker, 30).is_none(), "all that it takes is under way");
        worker.time.now = 90;
        worker.slots.pop(id);
        worker.list_again(id);
        assert_eq!((worker.available_since, worker.is_available()), (90, true));
    }

    /// Where no connection could be made at once, a session went on as if nothing had been.
    #[test]
    fn a_dialogue_is_told_of_requests_that_find_no_connection() {
        // TCP has no connections to all hosts.
        let job = Job { target: ([255, 255, 255, 255], 1).into(), ..job() };
        let control = Control::new();
        let mut worker = worker(&job, &control, 1);
        let id = worker.free.pop().unwrap();
        assert!(!worker.begin(id, 10, None));
        assert_eq!((worker.slots.get(id).under_way, worker.slots.get(id).dialogue), (0, 1));
    }

    /// Requests of closed loops without a warm-up began up to 20 ms early, and those that had ended by then had taken no time.
    #[test]
    fn before_the_epoch_connections_are_opened_and_nothing_is_sent() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = listener.local_addr().unwrap();
        let epoch = Nanos(vtax_sys::sched::monotonic().0 + 3_600_000_000_000);
        let control = Control::new();
        for (from, opened) in [(0, 0), (1_000, 2)] {
            let window = Window { from, to: 2_000, interval: 1_000 };
            let job = Job { target, window, epoch, ..job() };
            let mut worker = worker(&job, &control, 2);
            worker.dispatch();
            assert_eq!((worker.connecting, worker.slots.oldest()), (opened, None));
            let rest = worker.rest();
            assert!(rest.sleep > 0 && !rest.for_start, "no busy wait: {rest:?}");
            worker.time.now = 1 + from;
            worker.dispatch();
            assert_eq!(worker.slots.oldest().map(|(_, start)| start), Some(1 + from));
        }
    }

    /// Connections that didn't come up in the warm-up were waited for without an end, and no request ever began or failed.
    #[test]
    fn connections_that_are_not_there_after_the_warm_up_time_out_as_requests() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let window = Window { from: 1_000, to: 2_000, interval: 1_000 };
        let job = Job { target: listener.local_addr().unwrap(), window, ..job() };
        let control = Control::new();
        let mut worker = worker(&job, &control, 2);
        worker.dispatch();
        assert_eq!(worker.connecting, 2);
        // One is connected, and the server has said nothing since.
        let slot = worker.slots.get(0);
        assert_eq!(slot.phase, Phase::Opening);
        (slot.fresh, slot.greeting) = (false, true);
        worker.time.now = 1_000;
        worker.dispatch();
        assert!(worker.opening.is_none() && (0..2).all(|id| worker.slots.get(id).phase == Phase::Busy));
        worker.time.now = 2_000;
        worker.expire();
        assert_eq!((worker.connecting, worker.slots.oldest()), (0, None));
        let found = worker.finish().unwrap();
        let counts = &found.recorder.intervals[0].counts;
        assert!(counts.sent >= 2 && counts.errors.client_timeout == counts.sent, "{counts:?}");
    }

    #[test]
    fn room_beside_other_room_changes_nothing() {
        let (job, control) = (job(), Control::new());
        let mut worker = worker(&job, &control, 2);
        let id = send(&mut worker, 10).unwrap();
        assert_eq!(send(&mut worker, 20), Some(id));
        worker.time.now = 90;
        worker.slots.pop(id);
        worker.list_again(id);
        assert_eq!((worker.available_since, worker.is_available()), (0, true), "the other was free");
    }
}
