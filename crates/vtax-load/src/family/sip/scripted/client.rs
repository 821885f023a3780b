//! One worker of a client: an epoll loop around its calls.

use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread;

use rustix::event::epoll;
use vtax_plan::model::{SipTls, SipTransport};
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::gathering::Gathering;
use vtax_sys::{SysError, sched};
use vtax_units::Nanos;
use vtax_wire::sip::Message;
use vtax_wire::sipp::Stop;

use super::lines::Lines;
use super::machine::Machine;
use super::result::ScriptFigures;
use super::shared::Shared;
use crate::drive::{EventLoop, Rest};
use crate::family::sip::connections::Settings;
use crate::family::sip::line::{Line, Wire, receive_error};
use crate::family::sip::media::Media;
use crate::family::sip::stream::READ_BYTES;
use crate::family::sip::unmatched::Kind;
use crate::family::sip::worker::{DATAGRAM_BYTES, MANY, ROOM_BYTES, WAITS};
use crate::requests::{Finding, Lateness, Outcome, Recorder, Timetable, Window, time_since};
use crate::{Control, LoadError, StartTimes, Verify};

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
    pub(super) local: &'a [IpAddr],
    pub(super) transport: SipTransport,
    pub(super) tls: &'a SipTls,
    pub(super) verify: &'a Verify,
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

pub(super) struct Worker<'a> {
    job: Job<'a>,
    place: Place,
    lines: Lines,
    machine: Machine<'a>,
    recorder: Recorder,
    time: Timetable<'a>,
    events: EventLoop,
    inbox: Inbox,
    /// Room for what comes over connections.
    buffer: Box<[u8]>,
    due: Vec<u32>,
    gathering: Gathering,
    room: Room,
}

/// Whether there is room for another call.
#[derive(Debug, Default)]
struct Room {
    /// There was none when it was last looked at.
    was_full: bool,
    /// Since when there has always been some, in nanoseconds since the epoch.
    since: u64,
}

impl Room {
    /// Looks at it `now`, when calls have ended or begun.
    const fn look(&mut self, full: bool, now: u64) {
        if self.was_full && !full {
            self.since = now;
        }
        self.was_full = full;
    }
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: Job<'a>,
        place: Place,
        control: &'a Control,
        arrivals: Option<StartTimes>,
        recorder: Recorder,
        media: Option<Media>,
    ) -> Result<Self, LoadError> {
        let events = EventLoop::new()?;
        let shared = job.shared;
        let settings = Settings::new(job.transport, job.tls, job.verify, shared.target.ip())?;
        let buffer = if settings.is_some() { vec![0; READ_BYTES].into() } else { Box::default() };
        let lines = Lines::open(shared.target, job.local, settings, shared.connection_per_call, &events)?;
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
            buffer,
            due: Vec::with_capacity(1_024),
            gathering: Gathering::new(MANY, WAITS),
            room: Room::default(),
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
            self.lines.release(&mut self.machine.released);
            self.lines.watch(&self.events, &mut self.machine.stray);
            let rest = self.rest();
            let (ready, now) = self.events.wait(&mut events, rest, clock)?;
            self.time.now = now;
            self.machine.now = epoch.0 + now;
            for event in ready {
                self.ready(event.data.u64() as u32, event.flags);
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

    /// Begins every call that is due. Where there was no room for one, it has waited for the service and not for this worker.
    fn dispatch(&mut self) {
        self.room.look(self.is_full(), self.time.now);
        self.begin_due();
        self.room.look(self.is_full(), self.time.now);
    }

    /// Whether there are as many calls as there may be: those that only answer what comes again are among them.
    fn is_full(&self) -> bool {
        self.machine.live() >= self.place.calls
    }

    fn begin_due(&mut self) {
        for _ in 0..STARTS_MAX {
            if self.machine.stop.is_some() {
                return;
            }
            let now = self.time.now;
            let has_room = !self.is_full();
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
                let late = Lateness::of(start, self.room.since, now);
                self.recorder.started(start, Some(late));
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
        match self.lines.of_call(&mut self.machine.stray) {
            Some(line) => self.machine.begin(self.job.epoch.0 + start, line, &mut self.lines),
            None => self.recorder.ended(start, self.time.now, Outcome::NoAddresses, 0),
        }
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
        // What connections bring came when it is read, as the kernel doesn't tell when: it isn't to wait for company.
        let has_stamps = matches!(self.job.transport, SipTransport::Udp);
        if has_stamps && self.gathering.rest(self.machine.now) {
            return Rest { now, sleep: 0, for_start: false };
        }
        let epoch = self.job.epoch.0;
        let timer = self.machine.wheel.wake(self.machine.now + SLEEP_MAX).saturating_sub(epoch);
        let wake = timer.min(self.time.next_mark(&self.recorder));
        let has_room = !self.is_full();
        if !self.time.is_open() && has_room && self.time.goes_on() {
            return Rest { now, sleep: 0, for_start: false };
        }
        if let Some(start) = self.time.next_start().filter(|start| has_room && *start <= wake) {
            return Rest { now, sleep: self.events.pacer.sleep(now, start), for_start: start > now };
        }
        Rest { now, sleep: wake.saturating_sub(now), for_start: false }
    }

    /// A line can be read from, or written to.
    fn ready(&mut self, line: u32, flags: epoll::EventFlags) {
        match self.lines.at(line).map(|line| &line.wire) {
            Some(Wire::Udp(_)) => self.receive(line),
            Some(Wire::Tcp(_)) => self.stream_ready(line, flags),
            None => {}
        }
    }

    fn receive(&mut self, line: u32) {
        for _ in 0..BATCHES_MAX {
            let Some(open) = self.lines.at(line) else { return };
            let got = match self.inbox.receive(open.as_fd()) {
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

    fn stream_ready(&mut self, line: u32, flags: epoll::EventFlags) {
        let writable =
            flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        self.lines.touch(line);
        // Since it was told, other connections' messages were handled.
        self.tell();
        for round in 0..BATCHES_MAX {
            let now = self.machine.now;
            let Some(stream) = self.lines.at(line).and_then(Line::stream_mut) else { return };
            if round == 0 && writable && stream.wants_to_write() {
                stream.writable(now, &mut self.machine.stray);
            }
            let more = stream.read(now, &mut self.buffer, &mut self.machine.stray);
            let taken = stream.take();
            // What this read brought came while those before were handled, or later.
            self.tell();
            let arrived = self.machine.now;
            for (from, to) in &taken.messages {
                self.recorder.received(self.time.now, to - from);
                handle(&mut self.machine, &mut self.lines, &taken.bytes[*from..*to], arrived);
            }
            if let Some(stream) = self.lines.at(line).and_then(Line::stream_mut) {
                stream.give_back(taken);
            }
            if !more {
                return;
            }
        }
    }

    fn finish(mut self) -> Result<Found, SysError> {
        self.flush();
        self.record();
        let dropped = self.lines.newly_dropped();
        self.machine.stray.add(Kind::ReceiveBufferOverflow, dropped);
        let epoch = self.job.epoch.0;
        for start in self.machine.unfinished() {
            self.recorder.unfinished(start.saturating_sub(epoch));
        }
        let finding = self.time.finish(self.recorder, self.events.pacer.polled)?;
        let connections = self.lines.settings.as_ref().map(Settings::take);
        Ok(Found { finding, figures: ScriptFigures { connections, ..self.machine.figures() } })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that had waited until another one ended were taken for late ones of the generator's own.
    #[test]
    fn a_call_that_waited_for_room_is_not_late_by_its_worker() {
        let mut room = Room::default();
        let own = |room: &Room, start, now| Lateness::of(start, room.since, now).own;
        room.look(false, 10);
        assert_eq!(own(&room, 4, 10), 6, "there was room all the time");
        // The last call that there is room for begins. The next is due at 15, and one ends at 90.
        room.look(true, 10);
        room.look(true, 50);
        room.look(false, 90);
        assert_eq!((own(&room, 15, 90), own(&room, 95, 99)), (0, 4));
        // It begins at once, and a third waits.
        room.look(true, 90);
        room.look(false, 200);
        assert_eq!((own(&room, 120, 200), room.since), (0, 200));
        room.look(false, 300);
        assert_eq!(own(&room, 120, 300), 100, "room of before is no new room");
    }
}
