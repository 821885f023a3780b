//! One worker: an epoll loop over its own connections.
//!
//! Nothing here allocates, locks or shares on the path of a request. All times are nanoseconds
//! since the load's epoch. A start that finds no free connection is not queued: the arrival
//! process simply isn't asked for the next one until it has gone out or timed out.

use std::iter::Peekable;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use vtax_sys::usage::{CpuTime, thread_cpu};
use vtax_sys::{SysError, sched};
use vtax_units::Nanos;
use vtax_wire::http::Response;

use crate::pacing::Pacer;
use crate::recorder::{Outcome, Recorder, Window};
use crate::slots::{Phase, Queue, Slots};
use crate::{Arrivals, Control};

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// One read's most. Shared by all connections of a worker: no answer is kept.
const BUFFER_BYTES: usize = 256 * 1024;
/// Body bytes are dropped in the kernel, uncopied, where at least this many are to come.
const TRUNCATE_BYTES: u64 = 8 * 1024;
/// Starts in a row before events are looked at again.
const STARTS_MAX: u32 = 64;
/// Connection attempts of a closed loop under way at once; more would overflow the backlog of an
/// ordinary server (511 for nginx), and a dropped SYN costs a second.
const CONNECTING_MAX: u32 = 128;
/// How long a server may take to close, and how long a closed loop waits after a connection
/// attempt failed.
const PAUSE: u64 = 50_000_000;
/// Longest sleep, so that a cancellation is seen.
const SLEEP_MAX: u64 = 20_000_000;
/// How often progress is handed over.
const PROGRESS: u64 = 20_000_000;

/// What all workers of a load have in common.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) target: SocketAddr,
    /// The request, and the last one on a connection.
    pub(crate) request: Vec<u8>,
    pub(crate) last_request: Vec<u8>,
    pub(crate) requests_per_connection: u32,
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
    pub(crate) cpu: CpuTime,
    pub(crate) busy: f64,
    pub(crate) displaced: f64,
}

#[derive(Debug)]
pub(crate) struct Worker<'a> {
    job: &'a Job,
    control: &'a Control,
    epoll: OwnedFd,
    buffer: Box<[u8]>,
    slots: Slots,
    /// Slots with an open connection, the one used last on top, and slots without.
    idle: Vec<u32>,
    free: Vec<u32>,
    /// Since when there was always a free slot.
    available_since: u64,
    /// Requests under way, by start; slots that pause, by end of the pause.
    in_flight: Queue,
    parked: Queue,
    connecting: u32,
    /// Connections that are opened before anything is sent on them, as long as this is not over.
    opening: Option<Opening>,
    /// `None` in a closed loop.
    arrivals: Option<Peekable<Arrivals>>,
    pacer: Pacer,
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

#[derive(Debug, Clone, Copy)]
struct Usage {
    at: u64,
    cpu: CpuTime,
    displaced: u64,
    polled: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        job: &'a Job,
        control: &'a Control,
        connections: u32,
        arrivals: Option<Arrivals>,
        recorder: Recorder,
    ) -> Result<Self, std::io::Error> {
        Ok(Self {
            job,
            control,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            slots: Slots::new(connections),
            idle: Vec::with_capacity(connections as usize),
            free: (0..connections).rev().collect(),
            available_since: 0,
            in_flight: Queue::new(),
            parked: Queue::new(),
            connecting: 0,
            opening: Opening::of(job, connections, arrivals.is_some()),
            arrivals: arrivals.map(Iterator::peekable),
            pacer: Pacer::new(),
            recorder,
            now: 0,
            stop: job.window.to,
            next_progress: 0,
            usage: UsageMeter::default(),
        })
    }

    /// Carries out this worker's share of the load.
    pub(crate) fn run(mut self) -> Result<Finding, SysError> {
        // The default slack of 50 us would be added to every sleep. Refused nowhere known; where
        // it is, lateness shows it.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        // A worker that waits for its CPU measures the scheduler instead of the service. Not granted
        // everywhere, and again lateness shows it.
        let _ = sched::prefer_low_latency();
        let mut events = [MaybeUninit::uninit(); EVENTS];
        self.tell_time();
        while self.go_on()? {
            self.dispatch();
            self.expire();
            let (before, sleep, precise) = self.next_sleep();
            let ready = match epoll::wait(&self.epoll, &mut events[..], Some(&timespec(sleep))) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(e) => return Err(SysError::call("wait for", "events", e)),
            };
            self.tell_time();
            if ready.is_empty() && precise {
                match sleep {
                    0 => self.pacer.polled += self.now - before,
                    _ => self.pacer.slept(before, sleep, self.now),
                }
            }
            for event in ready {
                self.event(event.data.u64(), event.flags);
                self.dispatch();
            }
        }
        self.finish()
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
            self.usage.from = Some(Usage::now(now, self.pacer.polled)?);
        }
        if now < self.stop {
            return Ok(true);
        }
        if self.usage.to.is_none() {
            self.usage.to = Some(Usage::now(now, self.pacer.polled)?);
        }
        let overdue = self.next_start().is_some();
        let waiting = self.in_flight.first().is_some() || overdue;
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
                let Some(id) = self.idle.pop().or_else(|| self.free.pop()) else { return };
                let own = self.now - start.max(self.available_since).min(self.now);
                self.begin(id, start, Some((self.now - start, own)));
                self.tell_time();
            }
            self.pacer.started(start);
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

    fn dispatch_closed(&mut self) {
        if self.opening.is_some() {
            return;
        }
        while self.now < self.stop {
            let next = match self.idle.pop() {
                None if self.connecting < CONNECTING_MAX => self.free.pop(),
                idle => idle,
            };
            let Some(id) = next else { return };
            self.begin(id, self.now, None);
        }
    }

    /// Ends what took too long.
    fn expire(&mut self) {
        while let Some(id) = self.in_flight.first() {
            if self.slots.get(id).start + self.job.timeout > self.now {
                break;
            }
            self.end(id, Outcome::ClientTimeout, 0);
        }
        while let Some(id) = self.parked.first() {
            if self.slots.get(id).start > self.now {
                break;
            }
            self.parked.remove(&mut self.slots, id);
            self.close(id, false);
            self.release(id);
        }
    }

    /// The present, how long to sleep, and whether that is for the sake of a start.
    fn next_sleep(&mut self) -> (u64, u64, bool) {
        let now = self.now;
        let mark = if now < self.stop { self.stop } else { self.stop + self.job.drain };
        let mut wake = mark.min(now + SLEEP_MAX).min(self.recorder.next_flush().max(now + 1));
        if now < self.job.window.from {
            wake = wake.min(self.job.window.from);
        }
        if let Some(id) = self.in_flight.first() {
            wake = wake.min(self.slots.get(id).start + self.job.timeout);
        }
        if let Some(id) = self.parked.first() {
            wake = wake.min(self.slots.get(id).start);
        }
        if let Some(start) = self.next_start() {
            let available = !(self.idle.is_empty() && self.free.is_empty());
            let due = if available { start } else { start + self.job.timeout };
            if due <= wake {
                return (now, self.pacer.sleep(now, due), available && due > now);
            }
        }
        (now, wake.saturating_sub(now), false)
    }

    /// Starts a request on a slot that is ready.
    fn begin(&mut self, id: u32, start: u64, late: Option<(u64, u64)>) {
        let slot = self.slots.get(id);
        (slot.start, slot.written, slot.phase) = (start, 0, Phase::Sending);
        let open = slot.fd.is_some();
        self.in_flight.push(&mut self.slots, id);
        self.recorder.started(start, late);
        if !open && let Err(error) = self.connect(id) {
            self.end(id, outcome_of(error), 0);
            return;
        }
        self.slots.get(id).served += 1;
        // Also right after connect(2): on the same machine the handshake is often over by now.
        self.transmit(id);
    }

    fn connect(&mut self, id: u32) -> Result<(), Errno> {
        let family = if self.job.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match rustix::net::connect(&fd, &self.job.target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let slot = self.slots.get(id);
        let token = u64::from(slot.generation) << 32 | u64::from(id);
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &fd, epoll::EventData::new_u64(token), flags)?;
        slot.fd = Some(fd);
        slot.fresh = true;
        slot.served = 0;
        self.connecting += 1;
        Ok(())
    }

    /// Sends what is left of the request.
    fn transmit(&mut self, id: u32) {
        let slot = self.slots.get(id);
        let Some(fd) = &slot.fd else { return };
        let last = slot.served >= self.job.requests_per_connection;
        let request = if last { &self.job.last_request } else { &self.job.request };
        let rest = &request[slot.written as usize..];
        match rustix::net::send(fd, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                slot.written += sent as u32;
                if sent == rest.len() {
                    slot.phase = Phase::Receiving;
                }
                if slot.fresh {
                    slot.fresh = false;
                    self.connecting -= 1;
                    self.recorder.connected(self.now);
                }
                self.recorder.sent(self.now, sent);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.end(id, outcome_of(error), 0),
        }
    }

    fn event(&mut self, token: u64, flags: epoll::EventFlags) {
        let (id, generation) = (token as u32, (token >> 32) as u32);
        let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let ended = broken || flags.contains(epoll::EventFlags::RDHUP);
        let readable = ended || flags.contains(epoll::EventFlags::IN);
        let slot = self.slots.get(id);
        if slot.generation != generation {
            return;
        }
        if slot.phase == Phase::Sending && (broken || flags.contains(epoll::EventFlags::OUT)) {
            self.transmit(id);
        }
        let slot = self.slots.get(id);
        // Ending a request in between may have given the slot to another connection.
        if slot.generation != generation {
            return;
        }
        match slot.phase {
            Phase::Sending | Phase::Receiving if readable => self.receive(id, ended),
            Phase::Opening if broken => {
                self.close(id, false);
                self.park(id, Phase::Paused);
            }
            Phase::Opening => {
                slot.fresh = false;
                self.connecting -= 1;
                self.recorder.connected(self.now);
                self.release(id);
            }
            Phase::Closing if readable => {
                self.parked.remove(&mut self.slots, id);
                self.close(id, false);
                self.release(id);
            }
            // The server ends an idle connection, or sends what nobody asked for. The slot stays
            // among the idle ones and connects anew when its turn comes.
            Phase::Ready if readable => self.close(id, true),
            _ => {}
        }
    }

    /// Reads until there is no more. `ended` says that the peer has closed its side.
    fn receive(&mut self, id: u32, ended: bool) {
        loop {
            let slot = self.slots.get(id);
            let Some(fd) = &slot.fd else { return };
            let skippable = slot.scanner.skippable();
            let drop = skippable >= TRUNCATE_BYTES;
            let room = if drop { skippable.min(BUFFER_BYTES as u64) as usize } else { BUFFER_BYTES };
            let flags = if drop { RecvFlags::TRUNC } else { RecvFlags::empty() };
            let (got, scanned) = match rustix::net::recv(fd, &mut self.buffer[..room], flags) {
                Ok((_, 0)) => (0, slot.scanner.end().map(|response| (response, 0))),
                Ok((_, got)) if drop => (got, Ok((slot.scanner.skip(got as u64), 0))),
                Ok((_, got)) => {
                    let scanned = slot.scanner.scan(&self.buffer[..got]);
                    (got, scanned.map(|s| (s.response, got - s.consumed)))
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(error) => return self.end(id, outcome_of(error), 0),
            };
            self.tell_time();
            self.recorder.received(self.now, got);
            match scanned {
                Ok((Some(response), 0)) => return self.answered(id, response, ended || got == 0),
                // Bytes beyond the answer: nobody asked for them.
                Ok((Some(_), _)) => return self.end(id, Outcome::Protocol, 0),
                Ok((None, _)) if got == 0 => return self.end(id, Outcome::Reset, 0),
                // Edge triggered: a short read means that all was read, unless the end follows.
                Ok((None, _)) if got < room && !ended => return,
                Ok((None, _)) => {}
                Err(vtax_wire::http::HttpError::Truncated) => return self.end(id, Outcome::Reset, 0),
                Err(_) => return self.end(id, Outcome::Protocol, 0),
            }
        }
    }

    /// A whole answer has come.
    fn answered(&mut self, id: u32, response: Response, ended: bool) {
        let slot = self.slots.get(id);
        let outcome = if (200..400).contains(&response.status) { Outcome::Ok } else { Outcome::Status };
        self.recorder.ended(slot.start, self.now, outcome, response.status);
        // An answer before the whole request was sent leaves the connection in an unknown state.
        let sent = slot.phase == Phase::Receiving;
        let last = slot.served >= self.job.requests_per_connection;
        self.in_flight.remove(&mut self.slots, id);
        if ended || !sent {
            self.close(id, false);
            self.release(id);
        } else if last || !response.keep_alive {
            self.park(id, Phase::Closing);
        } else {
            self.release(id);
        }
    }

    /// Ends a request without an answer that could be used, and its connection.
    fn end(&mut self, id: u32, outcome: Outcome, status: u16) {
        let slot = self.slots.get(id);
        let early = slot.phase == Phase::Sending;
        self.recorder.ended(slot.start, self.now, outcome, status);
        self.in_flight.remove(&mut self.slots, id);
        self.close(id, true);
        if early && self.arrivals.is_none() {
            // A closed loop would try again at once, and again.
            self.park(id, Phase::Paused);
        } else {
            self.release(id);
        }
    }

    fn park(&mut self, id: u32, phase: Phase) {
        let slot = self.slots.get(id);
        (slot.phase, slot.start) = (phase, self.now + PAUSE);
        self.parked.push(&mut self.slots, id);
    }

    /// Closes the slot's connection; what is left of its events is stale from now on. `broken` says that this
    /// isn't how it should have ended.
    fn close(&mut self, id: u32, broken: bool) {
        let slot = self.slots.get(id);
        if slot.fd.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            slot.scanner = vtax_wire::http::ResponseScanner::new();
            if slot.fresh {
                self.connecting -= 1;
            } else {
                self.recorder.disconnected(self.now, broken);
            }
        }
    }

    /// Gives the slot back for the next request.
    fn release(&mut self, id: u32) {
        if self.idle.is_empty() && self.free.is_empty() {
            self.available_since = self.now;
        }
        let slot = self.slots.get(id);
        slot.phase = Phase::Ready;
        if slot.fd.is_some() { self.idle.push(id) } else { self.free.push(id) }
    }

    /// Counts what is left over.
    fn finish(mut self) -> Result<Finding, SysError> {
        self.expire();
        while let Some(start) = self.next_start() {
            self.recorder.missed(start, false);
            self.arrivals.as_mut().and_then(Iterator::next);
        }
        while let Some(id) = self.in_flight.first() {
            self.recorder.unfinished(self.slots.get(id).start);
            self.in_flight.remove(&mut self.slots, id);
        }
        self.recorder.close();
        let progress = self.recorder.take_progress(self.now);
        self.control.add(&progress);
        let to = match self.usage.to {
            Some(to) => to,
            None => Usage::now(self.now, self.pacer.polled)?,
        };
        let from = self.usage.from.unwrap_or(to);
        let wall = to.at.saturating_sub(from.at).max(1) as f64;
        let cpu = to.cpu.since(from.cpu);
        let computed = cpu.total().0.saturating_sub(to.polled - from.polled);
        Ok(Finding {
            end: self.stop,
            cpu,
            busy: computed as f64 / wall,
            displaced: to.displaced.saturating_sub(from.displaced) as f64 / wall,
            recorder: self.recorder,
        })
    }
}

impl Opening {
    fn of(job: &Job, connections: u32, open_loop: bool) -> Option<Self> {
        let (count, until) =
            if open_loop { (job.open_ahead.min(connections), 1) } else { (connections, job.window.from) };
        (count > 0 && until > 0).then_some(Self { count: count as usize, until })
    }
}

impl Usage {
    fn now(at: u64, polled: u64) -> Result<Self, SysError> {
        Ok(Self { at, cpu: thread_cpu()?, displaced: displaced(), polled })
    }
}

/// Time this thread could have run but something else had its CPU, in nanoseconds: the second
/// figure of /proc/thread-self/schedstat (kernel document `sched-stats`). 0 where the kernel
/// doesn't keep it.
fn displaced() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).unwrap_or(0)
}

fn timespec(nanos: u64) -> Timespec {
    // Sleeps are at most SLEEP_MAX, far below what the fields hold.
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

fn outcome_of(error: Errno) -> Outcome {
    match error {
        Errno::CONNREFUSED => Outcome::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Outcome::Reset,
        Errno::MFILE | Errno::NFILE => Outcome::NoDescriptors,
        Errno::ADDRNOTAVAIL => Outcome::NoAddresses,
        Errno::TIMEDOUT => Outcome::ClientTimeout,
        _ => Outcome::Other,
    }
}
