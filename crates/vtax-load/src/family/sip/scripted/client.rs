//! One worker of a client: an epoll loop around its calls.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use rustix::event::epoll;
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::gathering::Gathering;
use vtax_sys::{SysError, sched};
use vtax_units::Nanos;
use vtax_wire::sip::{Message, Transport};
use vtax_wire::sipp::Stop;

use super::machine::{Machine, Port};
use super::result::ScriptFigures;
use super::shared::Shared;
use crate::drive::{EventLoop, Rest};
use crate::family::sip::line::{Line, Wire, receive_error};
use crate::family::sip::media::Media;
use crate::family::sip::unmatched::{Kind, Unmatched};
use crate::family::sip::worker::{DATAGRAM_BYTES, MANY, ROOM_BYTES, WAITS};
use crate::requests::{Finding, Recorder, Timetable, Window, time_since};
use crate::{Arrivals, Control, LoadError};

/// Events taken from the kernel at once.
const EVENTS: usize = 64;
/// Calls begun in a row before messages are looked at again.
const STARTS_MAX: u32 = 64;
/// Batches taken from one socket before others have their turn.
const BATCHES_MAX: u32 = 4;
/// Longest sleep of a worker whose calls wait.
const SLEEP_MAX: u64 = 20_000_000;

/// What all workers of a step have in common.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) shared: &'a Shared,
    pub(super) local: &'a [std::net::IpAddr],
    pub(super) window: Window,
    pub(super) drain: u64,
    pub(super) timeout: u64,
    /// CLOCK_MONOTONIC at the start.
    pub(super) epoch: Nanos,
    pub(super) seed: u64,
    /// What tells this step's calls from others'.
    pub(super) session: u32,
}

/// Which worker it is, of how many, and how many calls it may have at once.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) number: u32,
    pub(super) workers: u32,
    pub(super) calls: usize,
}

/// What one worker found.
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) figures: ScriptFigures,
}

/// The lines of a worker.
struct Lines {
    lines: Vec<Line>,
    addresses: Vec<SocketAddr>,
    /// One of them has as much waiting as is sent at once.
    full: bool,
}

impl Port for Lines {
    fn send(&mut self, line: u16, _to: Option<SocketAddr>, flow: u32, message: &[u8]) {
        let Some(line) = self.lines.get_mut(usize::from(line)) else { return };
        line.send(flow, |_, out| out.extend_from_slice(message));
        self.full |= line.is_full();
    }

    fn local(&self, line: u16) -> SocketAddr {
        match self.lines.get(usize::from(line)).map(|line| &line.wire) {
            Some(Wire::Tcp(stream)) => stream.local(),
            _ => self.addresses[usize::from(line).min(self.addresses.len() - 1)],
        }
    }
}

impl Lines {
    fn open(job: &Job<'_>) -> Result<Self, LoadError> {
        let target = job.shared.target;
        let (mut lines, mut addresses) = (Vec::new(), Vec::new());
        for local in job.local {
            let line = match job.shared.transport {
                Transport::Tcp => Line::tcp(*local, target)?,
                _ => Line::udp(*local, target)?,
            };
            addresses.push(match &line.wire {
                Wire::Udp(socket) => socket
                    .local_addr()
                    .map_err(|source| LoadError::System { operation: "name a UDP socket", source })?,
                Wire::Tcp(stream) => stream.local(),
            });
            lines.push(line);
        }
        Ok(Self { lines, addresses, full: false })
    }

    fn flush(&mut self, now: u64, in_bundles: bool, stray: &mut Unmatched) {
        for line in self.lines.iter_mut().filter(|line| line.has_waiting()) {
            line.flush(now, in_bundles, stray);
        }
        self.full = false;
    }
}

pub(super) struct Worker<'a> {
    job: Job<'a>,
    place: Place,
    lines: Lines,
    machine: Machine<'a>,
    recorder: Recorder,
    time: Timetable<'a>,
    events: EventLoop,
    inbox: Inbox,
    due: Vec<u32>,
    gathering: Gathering,
    /// Whose turn it is to have a call.
    turn: usize,
    /// When there was room for another call again.
    available_since: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: Job<'a>,
        place: Place,
        control: &'a Control,
        arrivals: Option<Arrivals>,
        recorder: Recorder,
        media: Option<Media>,
    ) -> Result<Self, LoadError> {
        let mut lines = Lines::open(&job)?;
        let events = EventLoop::new()?;
        for (number, line) in lines.lines.iter_mut().enumerate() {
            match &mut line.wire {
                Wire::Udp(socket) => {
                    epoll::add(events.epoll(), socket.as_fd(), number_of(number), epoll::EventFlags::IN)
                        .map_err(|e| LoadError::System { operation: "watch a socket", source: e.into() })?
                }
                Wire::Tcp(stream) => stream.changed = true,
            }
        }
        let worker = (place.number, place.workers);
        let machine = Machine::new(
            job.shared,
            job.session,
            worker,
            job.seed,
            (job.epoch.0, place.calls.min(1 << 16)),
            media,
        );
        Ok(Self {
            time: Timetable::new(control, job.window, job.drain, job.epoch, arrivals),
            job,
            place,
            lines,
            machine,
            recorder,
            events,
            inbox: Inbox::new(BATCH_MAX, ROOM_BYTES),
            due: Vec::with_capacity(1_024),
            gathering: Gathering::new(MANY, WAITS),
            turn: 0,
            available_since: 0,
        })
    }

    /// Carries out this worker's share of the step.
    pub(super) fn run(mut self) -> Result<Found, SysError> {
        let epoch = self.job.epoch;
        let clock = || time_since(epoch);
        let mut events = [MaybeUninit::uninit(); EVENTS];
        thread::sleep(epoch.saturating_sub(sched::monotonic()).into());
        self.tell();
        while self.go_on()? {
            self.dispatch();
            self.expire();
            self.record();
            self.flush();
            self.watch_streams();
            let rest = self.rest();
            let (ready, now) = self.events.wait(&mut events, rest, clock)?;
            self.time.now = now;
            self.machine.now = epoch.0 + now;
            for event in ready {
                self.ready(event.data.u64() as usize, event.flags);
            }
        }
        self.finish()
    }

    fn tell(&mut self) {
        self.time.tell();
        self.machine.now = self.job.epoch.0 + self.time.now;
    }

    fn go_on(&mut self) -> Result<bool, SysError> {
        let enough = self.machine.stop.is_some();
        self.time.pass(&mut self.recorder, self.events.pacer.polled, enough)?;
        if self.machine.stop == Some(Stop::Now) {
            return Ok(false);
        }
        Ok(self.time.goes_on() || (self.time.waits() && self.machine.is_busy()))
    }

    /// Begins every call that is due.
    fn dispatch(&mut self) {
        for _ in 0..STARTS_MAX {
            if self.machine.stop.is_some() {
                return;
            }
            let now = self.time.now;
            let has_room = self.machine.live() < self.place.calls;
            if !self.time.is_open() {
                if !has_room || !self.time.goes_on() {
                    return;
                }
                self.recorder.started(now, None);
                self.begin(now);
                continue;
            }
            let Some(start) = self.time.next_start().filter(|start| *start <= now) else { return };
            if has_room {
                let own = now - start.max(self.available_since).min(now);
                self.recorder.started(start, Some((now - start, own)));
                self.begin(start);
            } else if start.saturating_add(self.job.timeout) <= now {
                self.recorder.missed(start, false);
            } else {
                return;
            }
            self.events.pacer.started(start);
            self.time.started();
        }
    }

    fn begin(&mut self, start: u64) {
        self.gathering.handled(1);
        let line = self.turn % self.lines.lines.len().max(1);
        self.turn += 1;
        self.machine.begin(self.job.epoch.0 + start, line as u16, &mut self.lines);
        if self.lines.full {
            self.flush();
        }
        self.tell();
    }

    fn expire(&mut self) {
        self.machine.wheel.advance(self.machine.now, &mut self.due);
        for timer in self.due.drain(..) {
            self.machine.timer(timer, &mut self.lines);
        }
    }

    /// Writes down what has ended.
    fn record(&mut self) {
        let epoch = self.job.epoch.0;
        let was_full = self.machine.live() + self.machine.ended.len() >= self.place.calls;
        if was_full && !self.machine.ended.is_empty() {
            self.available_since = self.time.now;
        }
        for ended in self.machine.ended.drain(..) {
            let since = |time: u64| time.saturating_sub(epoch);
            self.recorder.ended(since(ended.start), since(ended.end), ended.outcome, ended.status);
        }
    }

    fn flush(&mut self) {
        let now = self.machine.now;
        self.lines.flush(now, self.gathering.gathers(), &mut self.machine.stray);
    }

    fn rest(&mut self) -> Rest {
        let now = self.time.now;
        if self.gathering.rest(self.machine.now) {
            return Rest { now, sleep: 0, for_start: false };
        }
        let epoch = self.job.epoch.0;
        let timer = self.machine.wheel.wake(self.machine.now + SLEEP_MAX).saturating_sub(epoch);
        let wake = timer.min(self.time.next_mark(&self.recorder));
        let has_room = self.machine.live() < self.place.calls;
        if !self.time.is_open() && has_room && self.time.goes_on() {
            return Rest { now, sleep: 0, for_start: false };
        }
        if let Some(start) = self.time.next_start().filter(|start| has_room && *start <= wake) {
            return Rest { now, sleep: self.events.pacer.sleep(now, start), for_start: start > now };
        }
        Rest { now, sleep: wake.saturating_sub(now), for_start: false }
    }

    /// A line can be read from, or written to.
    fn ready(&mut self, line: usize, flags: epoll::EventFlags) {
        match self.lines.lines.get(line).map(|line| &line.wire) {
            Some(Wire::Udp(_)) => self.receive(line),
            Some(Wire::Tcp(_)) => self.stream_ready(line, flags),
            None => {}
        }
    }

    fn receive(&mut self, line: usize) {
        for _ in 0..BATCHES_MAX {
            let got = match self.inbox.receive(self.lines.lines[line].as_fd()) {
                Ok(got) => got,
                Err(error) if receive_error(&error, &mut self.machine.stray) => continue,
                Err(_) => return,
            };
            self.time.tell();
            self.machine.now = self.job.epoch.0 + self.time.now;
            let now = self.machine.now;
            let ahead = sched::realtime().0.saturating_sub(now);
            for i in 0..got {
                let Some(datagram) = self.inbox.get(i) else { continue };
                let stamp = self.inbox.arrival(&datagram);
                let arrived = stamp.map_or(now, |stamp| stamp.0.saturating_sub(ahead).min(now));
                let size = self.inbox.segment(&datagram).unwrap_or(datagram.bytes.len()).max(1);
                for bytes in datagram.bytes.chunks(size) {
                    self.gathering.handled(1);
                    self.recorder.received(self.time.now, bytes.len());
                    if datagram.truncated || bytes.len() > DATAGRAM_BYTES {
                        self.machine.stray.count(Kind::Oversize);
                    } else {
                        handle(&mut self.machine, &mut self.lines, bytes, arrived);
                    }
                }
            }
            if got < BATCH_MAX {
                return;
            }
        }
    }

    fn stream_ready(&mut self, line: usize, flags: epoll::EventFlags) {
        let writable =
            flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        for round in 0..BATCHES_MAX {
            let now = self.machine.now;
            let Wire::Tcp(stream) = &mut self.lines.lines[line].wire else { return };
            if round == 0 && writable && stream.wants_to_write() {
                stream.writable(now, &mut self.machine.stray);
            }
            let more = stream.read(now, &mut self.machine.stray);
            let taken = stream.take();
            self.gathering.handled(taken.messages.len() as u64);
            for (from, to) in &taken.messages {
                self.recorder.received(self.time.now, to - from);
                handle(&mut self.machine, &mut self.lines, &taken.bytes[*from..*to], now);
            }
            if let Wire::Tcp(stream) = &mut self.lines.lines[line].wire {
                stream.give_back(taken);
            }
            if !more {
                return;
            }
        }
    }

    /// Has the kernel tell what connections wait for, where that has changed.
    fn watch_streams(&mut self) {
        for (number, line) in self.lines.lines.iter_mut().enumerate() {
            let Wire::Tcp(stream) = &mut line.wire else { continue };
            if !std::mem::take(&mut stream.changed) || !stream.is_open() {
                continue;
            }
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, stream.wants_to_write());
            let socket: BorrowedFd<'_> = stream.as_fd();
            // A connection that is new to epoll is added; one that ended has left by itself.
            if epoll::modify(self.events.epoll(), socket, number_of(number), flags).is_err()
                && epoll::add(self.events.epoll(), socket, number_of(number), flags).is_err()
            {
                self.machine.stray.count(Kind::ReceiveFailed);
            }
        }
    }

    fn finish(mut self) -> Result<Found, SysError> {
        self.flush();
        self.record();
        let dropped = self.lines.lines.iter_mut().map(Line::newly_dropped).sum();
        self.machine.stray.add(Kind::ReceiveBufferOverflow, dropped);
        let epoch = self.job.epoch.0;
        for start in self.machine.unfinished() {
            self.recorder.unfinished(start.saturating_sub(epoch));
        }
        let finding = self.time.finish(self.recorder, self.events.pacer.polled)?;
        Ok(Found { finding, figures: self.machine.figures() })
    }
}

fn number_of(line: usize) -> epoll::EventData {
    epoll::EventData::new_u64(line as u64)
}

/// Handles one message.
fn handle(machine: &mut Machine<'_>, lines: &mut Lines, bytes: &[u8], arrived: u64) {
    // Keep-alives (RFC 5626 section 4.4.1 and what others send).
    if bytes.iter().all(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return;
    }
    let Ok(message) = Message::parse(bytes) else { return machine.stray.count(Kind::Malformed) };
    match message.method() {
        None => machine.traffic.responses_received += 1,
        Some(_) => machine.traffic.requests_received += 1,
    }
    let call_id = message.call_id().unwrap_or_default();
    match machine.find(call_id) {
        Some(slot) => machine.receive(slot, &message, arrived, lines),
        None if machine.is_over(call_id) => machine.stray.count(Kind::Late),
        None => machine.stray.count(Kind::UnknownTransaction),
    }
}
