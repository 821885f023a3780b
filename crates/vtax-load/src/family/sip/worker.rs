//! One worker through one profile: an epoll loop around its [`Station`].

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rand::RngExt;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use vtax_plan::model::Scenario;
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::gathering::Gathering;
use vtax_sys::usage::{CpuTime, thread_cpu};
use vtax_sys::{SysError, sched};
use vtax_units::Nanos;
use vtax_wire::sip::{Message, StartLine};

use super::PhaseKind;
use super::course::Course;
use super::holdback::Holdback;
use super::line::{Wire, receive_error};
use super::recorder::{Layout, Place, Record};
use super::station::{Present, Station};
use super::stray::Kind;
use crate::pacing::Pacer;
use crate::{Arrivals, Control, Progress, Segment};

/// Longest datagram that is looked at. SIP over UDP stays below a link's 1500 bytes; what is longer than
/// this is no answer to anything sent from here.
pub(crate) const DATAGRAM_BYTES: usize = 8 * 1024;
/// Room for what the kernel hands over as one: up to a whole datagram of IP, which may be many of one
/// length. The odd lines keep the beginnings of all of them out of the same few lines of the cache.
pub(crate) const ROOM_BYTES: usize = 64 * 1024 + 11 * 64;
/// Events taken from the kernel at once.
const EVENTS: usize = 64;
/// Attempts in a row before answers are looked at again.
const STARTS_MAX: u32 = 64;
/// Batches taken from one socket before others have their turn.
const BATCHES_MAX: u32 = 4;
/// Longest sleep, so that a cancellation is seen; while others decide about the next phase, less.
const SLEEP_MAX: u64 = 20_000_000;
const SLEEP_WAITING: u64 = 200_000;
/// How often progress is handed over, and dropped datagrams are asked for.
const PROGRESS: u64 = 20_000_000;
const SECOND: u64 = 1_000_000_000;
/// Messages and starts per second and worker beyond which they are kept waiting for company.
pub(crate) const MANY: u64 = 40_000;
/// For how long. That adds to the time in which the generator answers and to the lateness of starts, so it
/// stays well below what lateness may be (docs/load.md).
pub(crate) const WAITS: std::ops::RangeInclusive<u64> = 50_000..=600_000;
/// Attempts per second and worker up to which starts are polled for.
const POLLED_RATE_MAX: f64 = 2_000.0;

/// What one worker found in one phase, besides its record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PhaseUse {
    pub(crate) cpu: CpuTime,
    /// Share of the time it computed, and share it waited for its CPU.
    pub(crate) busy: f64,
    pub(crate) displaced: f64,
}

/// Where a worker is in the profile.
#[derive(Debug)]
enum State {
    /// Making attempts.
    Driving,
    /// All attempts of a pre-registration are made; waiting for their end.
    Settling,
    /// Waiting for the other workers.
    Waiting,
    /// No more attempts; until the deadline those under way may end.
    Draining(u64),
}

pub(crate) struct Worker<'a> {
    station: &'a mut Station,
    course: &'a Course<'a>,
    control: &'a Control,
    epoll: OwnedFd,
    /// The lines are connections.
    streams: bool,
    inbox: Inbox,
    due: Vec<u32>,
    pacer: Pacer,
    /// Number of this worker, and how many there are.
    number: (usize, usize),
    /// Start of the profile.
    epoch: u64,
    phase: usize,
    state: State,
    start: u64,
    end: u64,
    arrivals: Option<std::iter::Peekable<Arrivals>>,
    /// Attempts left in a pre-registration.
    left: u32,
    /// Cumulative shares of the phase's scenarios.
    mix: Vec<(f64, u8)>,
    usage_from: Option<Usage>,
    uses: Vec<PhaseUse>,
    next_progress: u64,
    /// The rate is low enough to poll for starts.
    polls: bool,
    gathering: Gathering,
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
        station: &'a mut Station,
        course: &'a Course<'a>,
        control: &'a Control,
        number: (usize, usize),
        epoch: u64,
    ) -> Result<Self, std::io::Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (i, line) in station.lines.iter_mut().enumerate() {
            match &mut line.wire {
                Wire::Udp(socket) => epoll::add(&epoll, socket, number_of(i), epoll::EventFlags::IN)?,
                // Where the last profile has left a connection.
                Wire::Tcp(stream) => stream.changed = true,
            }
        }
        let streams = station.lines.iter().any(|line| matches!(line.wire, Wire::Tcp(_)));
        Ok(Self {
            streams,
            station,
            course,
            control,
            epoll,
            inbox: Inbox::new(BATCH_MAX, ROOM_BYTES),
            due: Vec::with_capacity(1024),
            pacer: Pacer::new(),
            number,
            epoch,
            phase: 0,
            state: State::Waiting,
            start: epoch,
            end: epoch,
            arrivals: None,
            left: 0,
            mix: Vec::new(),
            usage_from: None,
            uses: Vec::new(),
            next_progress: 0,
            polls: true,
            gathering: Gathering::new(MANY, WAITS),
        })
    }

    /// Carries out this worker's share of the profile.
    pub(crate) fn run(mut self) -> Result<Vec<PhaseUse>, SysError> {
        // As in the HTTP worker: neither is granted everywhere, and lateness shows it.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let _ = sched::prefer_low_latency();
        let mut events = [MaybeUninit::uninit(); EVENTS];
        self.tell_time();
        while self.go_on()? {
            self.dispatch();
            self.expire();
            self.station.in_bundles = self.gathering.gathers();
            self.station.flush();
            if self.streams {
                self.watch_streams();
            }
            let (before, sleep, precise) = self.rest();
            let ready = match epoll::wait(&self.epoll, &mut events[..], Some(&timespec(sleep))) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(e) => return Err(SysError::call("wait for", "messages", e)),
            };
            self.tell_time();
            if ready.is_empty() && precise {
                match sleep {
                    0 => self.pacer.polled += self.station.now - before,
                    _ => self.pacer.slept(before, sleep, self.station.now),
                }
            }
            for event in ready {
                let line = event.data.u64() as usize;
                if self.streams {
                    self.stream_ready(line, event.flags);
                } else {
                    self.receive(line);
                }
            }
        }
        self.finish()
    }

    fn tell_time(&mut self) {
        self.station.now = sched::monotonic().0;
    }

    /// Passes the marks of the profile's course; false once it is over.
    fn go_on(&mut self) -> Result<bool, SysError> {
        let now = self.station.now;
        if now >= self.next_progress {
            self.next_progress = now + PROGRESS;
            self.report();
        }
        if self.control.is_cancelled() {
            return Ok(false);
        }
        if self.usage_from.is_none() && matches!(self.state, State::Driving) {
            let transient = self.course.profile.phases[self.phase].transient.0;
            if now >= self.start + transient {
                self.usage_from = Some(Usage::now(now, self.pacer.polled)?);
            }
        }
        let exhausted = self.next_start().is_none();
        match self.state {
            State::Driving if self.left == 0 && self.end == u64::MAX => self.state = State::Settling,
            State::Driving if now >= self.end && exhausted => self.through(self.end)?,
            State::Settling if self.station.live() == 0 => self.through(now)?,
            State::Waiting if self.course.is_over() => {
                self.state = State::Draining(self.end.max(now) + self.course.profile.drain.0);
            }
            State::Waiting => {
                if let Some(start) = self.course.start(self.phase) {
                    self.begin(start);
                }
            }
            State::Draining(until) => return Ok(self.station.live() > 0 && now < until),
            State::Driving | State::Settling => {}
        }
        Ok(true)
    }

    /// Begins the next phase.
    fn begin(&mut self, start: u64) {
        let phase = &self.course.profile.phases[self.phase];
        let station = &mut *self.station;
        let (number, workers) = self.number;
        let workload = &station.setup.spec.workload;
        let (layout, duration) = match phase.kind {
            PhaseKind::PreRegistration => (Layout::new(|s| s == Scenario::Registration), None),
            PhaseKind::Mix { duration } => {
                let wanted = |s| workload.mix.iter().any(|part| part.scenario == s && part.share.0 > 0.0);
                (Layout::new(wanted), Some(duration))
            }
        };
        self.mix = cumulative(&layout, workload);
        let wanted = (workload.registered.0 * f64::from(station.users.len())).round() as u32;
        let missing = wanted.saturating_sub(station.users.registered()).min(station.users.unregistered());
        self.left = if duration.is_none() { missing } else { u32::MAX };
        let seconds = duration.map_or(600, |d| d.0.div_ceil(SECOND) as usize + 1);
        station.records.push(Record::new(layout, seconds));
        self.start = start;
        self.end = duration.map_or(u64::MAX, |d| start + d.0);
        station.present = Present { start, length: self.end - start };
        let profile =
            [Segment { from: phase.rate, to: phase.rate, duration: duration.unwrap_or(Nanos::from_secs(1)) }];
        let seed = station.setup.spec.seed.wrapping_add(self.phase as u64 + 1);
        let arrivals = Arrivals::new(self.course.profile.arrivals, &profile, seed, number, workers);
        self.arrivals = Some(arrivals.peekable());
        self.polls = phase.rate.0 / workers as f64 <= POLLED_RATE_MAX;
        let holdback = || Holdback::new(workers, station.setup.t1, station.now);
        station.holdback = duration.is_none().then(holdback);
        self.usage_from = None;
        self.state = State::Driving;
    }

    /// All attempts of the phase are made.
    fn through(&mut self, end: u64) -> Result<(), SysError> {
        self.end = end;
        let now = Usage::now(self.station.now, self.pacer.polled)?;
        self.uses.push(self.usage_from.map_or_else(PhaseUse::default, |from| now.since(from)));
        self.station.present.length = end - self.start;
        let record = &self.station.records[self.phase];
        self.course.through(self.phase, end, &record.layout.scenarios, &record.tally());
        self.phase += 1;
        self.arrivals = None;
        self.state = State::Waiting;
        Ok(())
    }

    /// When the next attempt is meant to start, if this phase still has one and it isn't held back.
    fn next_start(&mut self) -> Option<u64> {
        let (now, live) = (self.station.now, self.station.live());
        let held = self.station.holdback.as_mut().is_some_and(|holdback| holdback.holds(now, live));
        if self.left == 0 || held {
            return None;
        }
        let (start, end) = (self.start, self.end);
        let next = self.arrivals.as_mut()?.peek()?;
        Some(start.saturating_add(next.0)).filter(|at| *at < end)
    }

    /// Starts every attempt that is due.
    fn dispatch(&mut self) {
        for _ in 0..STARTS_MAX {
            let Some(at) = self.next_start().filter(|at| *at <= self.station.now) else { return };
            self.arrivals.as_mut().and_then(Iterator::next);
            self.tell_time();
            self.gathering.handled(1);
            if self.end == u64::MAX {
                self.left -= 1;
            }
            let since = at - self.start;
            let position = self.draw_scenario();
            let phase = &self.course.profile.phases[self.phase];
            let place = Place {
                phase: self.phase as u16,
                scenario: position,
                counted: since >= phase.transient.0,
                since,
            };
            let scenario = self.station.records[self.phase].layout.scenarios[usize::from(position)];
            let could_begin = self.station.holdback.as_ref().map_or(at, |holdback| holdback.could_begin(at));
            self.station.begin(scenario, place, self.station.now.saturating_sub(could_begin));
            self.pacer.started(since);
        }
    }

    fn draw_scenario(&mut self) -> u8 {
        if self.mix.len() < 2 {
            return 0;
        }
        let drawn: f64 = self.station.rng.random();
        let found = self.mix.iter().find(|(below, _)| drawn < *below);
        found.or(self.mix.last()).map_or(0, |(_, position)| *position)
    }

    /// Handles the timers that are due.
    fn expire(&mut self) {
        self.station.wheel.advance(self.station.now, &mut self.due);
        for timer in self.due.drain(..) {
            self.station.timer(timer);
        }
    }

    /// As [`next_sleep`](Self::next_sleep), which sleeps until something comes, unless it is better to sleep
    /// for a while whatever comes; the kernel's stamps tell when it came.
    fn rest(&mut self) -> (u64, u64, bool) {
        if self.gathering.rest(self.station.now) {
            return (self.station.now, 0, false);
        }
        self.next_sleep()
    }

    /// The present, how long to sleep, and whether that is for the sake of a start.
    fn next_sleep(&mut self) -> (u64, u64, bool) {
        let now = self.station.now;
        let most = now + if matches!(self.state, State::Waiting) { SLEEP_WAITING } else { SLEEP_MAX };
        let mut wake = self.station.wheel.wake(most);
        if let State::Driving = self.state {
            wake = wake.min(self.end);
        }
        if let Some(start) = self.next_start()
            && start <= wake
        {
            // Polling until a start is due, as the pacer does, is for low rates.
            let (sleep, precise) = match self.polls {
                true => (self.pacer.sleep(now, start), start > now),
                false => (start.saturating_sub(now), false),
            };
            return (now, sleep, precise);
        }
        (now, wake.saturating_sub(now), false)
    }

    /// Takes what has come to a line.
    fn receive(&mut self, line: usize) {
        for _ in 0..BATCHES_MAX {
            let got = match self.inbox.receive(self.station.lines[line].as_fd()) {
                Ok(got) => got,
                Err(error) if receive_error(&error, &mut self.station.stray) => continue,
                Err(_) => return,
            };
            self.tell_time();
            let now = self.station.now;
            let ahead = sched::realtime().0.saturating_sub(now);
            for i in 0..got {
                let Some(datagram) = self.inbox.get(i) else { continue };
                let stamp = self.inbox.arrival(&datagram);
                self.station.arrived = stamp.map_or(now, |stamp| stamp.0.saturating_sub(ahead).min(now));
                let size = self.inbox.segment(&datagram).unwrap_or(datagram.bytes.len()).max(1);
                for bytes in datagram.bytes.chunks(size) {
                    self.gathering.handled(1);
                    if datagram.truncated || bytes.len() > DATAGRAM_BYTES {
                        self.station.stray.count(Kind::Oversize);
                    } else {
                        handle(self.station, line, bytes);
                    }
                }
            }
            if got < BATCH_MAX {
                return;
            }
        }
    }

    /// Has the kernel tell what connections wait for, where that has changed.
    fn watch_streams(&mut self) {
        for (i, line) in self.station.lines.iter_mut().enumerate() {
            let Wire::Tcp(stream) = &mut line.wire else { continue };
            if !std::mem::take(&mut stream.changed) || !stream.is_open() {
                continue;
            }
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, stream.wants_to_write());
            // A connection that is new to epoll is added; one that ended has left by itself.
            if epoll::modify(&self.epoll, stream.as_fd(), number_of(i), flags).is_err()
                && epoll::add(&self.epoll, stream.as_fd(), number_of(i), flags).is_err()
            {
                self.station.stray.count(Kind::ReceiveFailed);
            }
        }
    }

    /// A connection can be read from or written to.
    fn stream_ready(&mut self, line: usize, flags: epoll::EventFlags) {
        let now = self.station.now;
        let writable =
            flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        for round in 0..BATCHES_MAX {
            let station = &mut *self.station;
            let Wire::Tcp(stream) = &mut station.lines[line].wire else { return };
            if round == 0 && writable && stream.wants_to_write() {
                stream.writable(now, &mut station.stray);
            }
            let more = stream.read(now, &mut station.stray);
            let taken = stream.take();
            station.arrived = now;
            self.gathering.handled(taken.messages.len() as u64);
            for (from, to) in &taken.messages {
                handle(station, line, &taken.bytes[*from..*to]);
            }
            if let Wire::Tcp(stream) = &mut self.station.lines[line].wire {
                stream.give_back(taken);
            }
            if !more {
                return;
            }
        }
    }

    /// Hands progress over and asks for dropped datagrams.
    fn report(&mut self) {
        let since = self.station.now.saturating_sub(self.epoch);
        let progress = std::mem::take(&mut self.station.progress);
        self.control.add(&Progress { elapsed: Nanos(since), ..progress });
        let dropped: u64 = self.station.lines.iter_mut().map(super::line::Line::newly_dropped).sum();
        self.station.stray.add(Kind::ReceiveBufferOverflow, dropped);
    }

    fn finish(mut self) -> Result<Vec<PhaseUse>, SysError> {
        self.station.flush();
        if self.uses.len() < self.station.records.len() {
            let now = Usage::now(self.station.now, self.pacer.polled)?;
            self.uses.push(self.usage_from.map_or_else(PhaseUse::default, |from| now.since(from)));
            self.station.present.length = self.station.now.saturating_sub(self.start);
        }
        self.station.give_up();
        self.report();
        Ok(self.uses)
    }
}

fn number_of(line: usize) -> epoll::EventData {
    epoll::EventData::new_u64(line as u64)
}

/// Handles one message.
pub(crate) fn handle(station: &mut Station, line: usize, bytes: &[u8]) {
    // Keep-alives (RFC 5626 section 4.4.1 and what others send).
    if bytes.iter().all(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return;
    }
    let Ok(message) = Message::parse(bytes) else { return station.stray.count(Kind::Malformed) };
    match message.start() {
        StartLine::Status { code, .. } => station.response(line, &message, code),
        StartLine::Request { method, uri, .. } => station.request(line, &message, method, uri),
    }
}

/// Cumulative shares of the scenarios of a layout; those of a pre-registration have none.
fn cumulative(layout: &Layout, workload: &vtax_plan::model::SipWorkload) -> Vec<(f64, u8)> {
    let share = |scenario: &Scenario| -> f64 {
        workload.mix.iter().filter(|part| part.scenario == *scenario).map(|part| part.share.0).sum()
    };
    let total: f64 = layout.scenarios.iter().map(share).sum();
    let mut sum = 0.0;
    let below = |(position, scenario): (usize, &Scenario)| {
        sum += share(scenario) / total.max(f64::MIN_POSITIVE);
        (sum, position as u8)
    };
    layout.scenarios.iter().enumerate().map(below).collect()
}

impl Usage {
    fn now(at: u64, polled: u64) -> Result<Self, SysError> {
        Ok(Self { at, cpu: thread_cpu()?, displaced: displaced(), polled })
    }

    fn since(&self, from: Self) -> PhaseUse {
        let wall = self.at.saturating_sub(from.at).max(1) as f64;
        let cpu = self.cpu.since(from.cpu);
        let computed = cpu.total().0.saturating_sub(self.polled - from.polled);
        PhaseUse {
            cpu,
            busy: computed as f64 / wall,
            displaced: self.displaced.saturating_sub(from.displaced) as f64 / wall,
        }
    }
}

/// Time this thread could have run but something else had its CPU, in nanoseconds: the second
/// figure of /proc/thread-self/schedstat. 0 where the kernel doesn't keep it.
fn displaced() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).unwrap_or(0)
}

fn timespec(nanos: u64) -> Timespec {
    // Sleeps are at most SLEEP_MAX, far below what the fields hold.
    Timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 }
}
