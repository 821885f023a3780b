//! One worker through one profile: an epoll loop around its [`UserAgents`].

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rand::RngExt;
use rustix::event::epoll;
use vtax_plan::model::Scenario;
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::gathering::Gathering;
use vtax_sys::{SysError, sched};
use vtax_units::Nanos;
use vtax_wire::sip::{Message, StartLine};

use super::PhaseKind;
use super::barrier::PhaseBarrier;
use super::congestion::CongestionControl;
use super::line::{Wire, receive_error};
use super::recorder::{Layout, Record, RecordKey};
use super::stream::READ_BYTES;
use super::unmatched::Kind;
use super::user_agents::{Present, UserAgents};
use crate::drive::{EventLoop, Rest, Usage, Used};
use crate::{Control, LoadError, Progress, Segment, StartTimes};

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
/// Messages and starts per second and worker beyond which they are handled in batches.
pub(crate) const MANY: u64 = 40_000;
/// How long a batch is gathered. That adds to the time in which the generator answers and to the lateness of starts, so it
/// stays well below what lateness may be (docs/load.md).
pub(crate) const WAITS: std::ops::RangeInclusive<u64> = 50_000..=600_000;
/// Attempts per second and worker up to which starts are polled for.
const POLLED_RATE_MAX: f64 = 2_000.0;

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
    agents: &'a mut UserAgents,
    barrier: &'a PhaseBarrier<'a>,
    control: &'a Control,
    events: EventLoop,
    /// The lines are connections.
    streams: bool,
    inbox: Inbox,
    /// Room for what comes over connections.
    room: Box<[u8]>,
    due: Vec<u32>,
    /// Number of this worker, and how many there are.
    number: (usize, usize),
    /// Start of the profile.
    epoch: u64,
    phase: usize,
    state: State,
    start: u64,
    end: u64,
    arrivals: Option<std::iter::Peekable<StartTimes>>,
    /// Attempts left in a pre-registration.
    left: u32,
    /// Cumulative shares of the phase's scenarios.
    mix: Vec<(f64, u8)>,
    usage_from: Option<Usage>,
    uses: Vec<Used>,
    next_progress: u64,
    /// The rate is low enough to poll for starts.
    polls: bool,
    gathering: Gathering,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        agents: &'a mut UserAgents,
        barrier: &'a PhaseBarrier<'a>,
        control: &'a Control,
        number: (usize, usize),
        epoch: u64,
    ) -> Result<Self, LoadError> {
        let events = EventLoop::new()?;
        let watch = |socket: BorrowedFd<'_>, i| {
            epoll::add(events.epoll(), socket, number_of(i), epoll::EventFlags::IN)
                .map_err(|e| LoadError::System { operation: "watch a socket", source: e.into() })
        };
        for (i, line) in agents.lines.iter_mut().enumerate() {
            match &mut line.wire {
                Wire::Udp(socket) => watch(socket.as_fd(), i)?,
                // Where the last profile has left a connection.
                Wire::Tcp(stream) => stream.changed = true,
            }
        }
        let streams = agents.lines.iter().any(|line| matches!(line.wire, Wire::Tcp(_)));
        Ok(Self {
            streams,
            agents,
            barrier,
            control,
            events,
            inbox: Inbox::new(BATCH_MAX, ROOM_BYTES),
            room: if streams { vec![0; READ_BYTES].into() } else { Box::default() },
            due: Vec::with_capacity(1024),
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
    pub(crate) fn run(mut self) -> Result<Vec<Used>, SysError> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        self.tell_time();
        while self.go_on()? {
            self.dispatch();
            self.expire();
            self.agents.in_bundles = self.gathering.gathers();
            self.agents.flush();
            if self.streams {
                self.watch_streams();
            }
            let rest = self.rest();
            let (ready, now) = self.events.wait(&mut events, rest, || sched::monotonic().0)?;
            self.agents.now = now;
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
        self.agents.now = sched::monotonic().0;
    }

    /// Passes the marks of the profile's time; false once it is over.
    fn go_on(&mut self) -> Result<bool, SysError> {
        let now = self.agents.now;
        if now >= self.next_progress {
            self.next_progress = now + PROGRESS;
            self.report();
        }
        if self.control.is_cancelled() {
            return Ok(false);
        }
        if self.usage_from.is_none() && matches!(self.state, State::Driving) {
            let transient = self.barrier.profile.phases[self.phase].transient.0;
            if now >= self.start + transient {
                self.usage_from = Some(Usage::now(now, self.events.pacer.polled)?);
            }
        }
        let exhausted = self.next_start().is_none();
        match self.state {
            State::Driving if self.left == 0 && self.end == u64::MAX => self.state = State::Settling,
            State::Driving if now >= self.end && exhausted => self.through(self.end)?,
            State::Settling if self.agents.live() == 0 => self.through(now)?,
            State::Waiting if self.barrier.is_over() => {
                self.state = State::Draining(self.end.max(now) + self.barrier.profile.drain.0);
            }
            State::Waiting => {
                if let Some(start) = self.barrier.start(self.phase) {
                    self.begin(start);
                }
            }
            State::Draining(until) => return Ok(self.agents.live() > 0 && now < until),
            State::Driving | State::Settling => {}
        }
        Ok(true)
    }

    /// Begins the next phase.
    fn begin(&mut self, start: u64) {
        let phase = &self.barrier.profile.phases[self.phase];
        let agents = &mut *self.agents;
        let (number, workers) = self.number;
        let workload = &agents.setup.spec.workload;
        let (layout, duration) = match phase.kind {
            PhaseKind::PreRegistration => (Layout::new(|s| s == Scenario::Registration), None),
            PhaseKind::Mix { duration } => {
                let wanted = |s| workload.mix.iter().any(|part| part.scenario == s && part.share.0 > 0.0);
                (Layout::new(wanted), Some(duration))
            }
        };
        self.mix = cumulative(&layout, workload);
        let wanted = (workload.registered.0 * f64::from(agents.users.len())).round() as u32;
        let missing = wanted.saturating_sub(agents.users.registered()).min(agents.users.unregistered());
        self.left = if duration.is_none() { missing } else { u32::MAX };
        let seconds = duration.map_or(600, |d| d.0.div_ceil(SECOND) as usize + 1);
        agents.records.push(Record::new(layout, seconds));
        self.start = start;
        self.end = duration.map_or(u64::MAX, |d| start + d.0);
        agents.present = Present { start, length: self.end - start };
        let profile =
            [Segment { from: phase.rate, to: phase.rate, duration: duration.unwrap_or(Nanos::from_secs(1)) }];
        let seed = agents.setup.spec.seed.wrapping_add(self.phase as u64 + 1);
        let arrivals = StartTimes::new(self.barrier.profile.arrivals, &profile, seed, number, workers);
        self.arrivals = Some(arrivals.peekable());
        self.polls = phase.rate.0 / workers as f64 <= POLLED_RATE_MAX;
        let congestion = || CongestionControl::new(workers, agents.setup.t1, agents.now);
        agents.congestion = duration.is_none().then(congestion);
        self.usage_from = None;
        self.state = State::Driving;
    }

    /// All attempts of the phase are made.
    fn through(&mut self, end: u64) -> Result<(), SysError> {
        self.end = end;
        let now = Usage::now(self.agents.now, self.events.pacer.polled)?;
        self.uses.push(self.usage_from.map_or_else(Used::default, |from| now.since(from)));
        self.agents.present.length = end - self.start;
        let record = &self.agents.records[self.phase];
        self.barrier.through(self.phase, end, &record.layout.scenarios, &record.tally());
        self.phase += 1;
        self.arrivals = None;
        self.state = State::Waiting;
        Ok(())
    }

    /// When the next attempt is meant to start, if this phase still has one and it isn't held back.
    fn next_start(&mut self) -> Option<u64> {
        let (now, live) = (self.agents.now, self.agents.live());
        let held = self.agents.congestion.as_mut().is_some_and(|congestion| congestion.holds(now, live));
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
            let Some(at) = self.next_start().filter(|at| *at <= self.agents.now) else { return };
            self.arrivals.as_mut().and_then(Iterator::next);
            self.tell_time();
            self.gathering.handled(1);
            if self.end == u64::MAX {
                self.left -= 1;
            }
            let since = at - self.start;
            let position = self.draw_scenario();
            let phase = &self.barrier.profile.phases[self.phase];
            let key = RecordKey {
                phase: self.phase as u16,
                scenario: position,
                counted: since >= phase.transient.0,
                since,
            };
            let scenario = self.agents.records[self.phase].layout.scenarios[usize::from(position)];
            let could_begin =
                self.agents.congestion.as_ref().map_or(at, |congestion| congestion.could_begin(at));
            self.agents.begin(scenario, key, self.agents.now.saturating_sub(could_begin));
            self.events.pacer.started(since);
        }
    }

    fn draw_scenario(&mut self) -> u8 {
        if self.mix.len() < 2 {
            return 0;
        }
        let drawn: f64 = self.agents.rng.random();
        let found = self.mix.iter().find(|(below, _)| drawn < *below);
        found.or(self.mix.last()).map_or(0, |(_, position)| *position)
    }

    /// Handles the timers that are due.
    fn expire(&mut self) {
        self.agents.wheel.advance(self.agents.now, &mut self.due);
        for timer in self.due.drain(..) {
            self.agents.timer(timer);
        }
    }

    /// As [`next_sleep`](Self::next_sleep), which sleeps until something comes, unless it is better to sleep
    /// for a while whatever comes; the kernel's stamps tell when it came. What connections bring has none: it came
    /// when it is read, so that nothing there is to wait for company.
    fn rest(&mut self) -> Rest {
        if !self.streams && self.gathering.rest(self.agents.now) {
            return Rest { now: self.agents.now, sleep: 0, for_start: false };
        }
        self.next_sleep()
    }

    /// How long to wait for messages.
    fn next_sleep(&mut self) -> Rest {
        let now = self.agents.now;
        let most = now + if matches!(self.state, State::Waiting) { SLEEP_WAITING } else { SLEEP_MAX };
        let mut wake = self.agents.wheel.wake(most);
        if let State::Driving = self.state {
            wake = wake.min(self.end);
        }
        if let Some(start) = self.next_start()
            && start <= wake
        {
            // Polling until a start is due, as the pacer does, is for low rates.
            let (sleep, for_start) = match self.polls {
                true => (self.events.pacer.sleep(now, start), start > now),
                false => (start.saturating_sub(now), false),
            };
            return Rest { now, sleep, for_start };
        }
        Rest { now, sleep: wake.saturating_sub(now), for_start: false }
    }

    /// Takes what has come to a line.
    fn receive(&mut self, line: usize) {
        for _ in 0..BATCHES_MAX {
            let got = match self.inbox.receive(self.agents.lines[line].as_fd()) {
                Ok(got) => got,
                Err(error) if receive_error(&error, &mut self.agents.unmatched) => continue,
                Err(_) => return,
            };
            self.tell_time();
            let now = self.agents.now;
            let ahead = sched::realtime().0.saturating_sub(now);
            for i in 0..got {
                let Some(datagram) = self.inbox.get(i) else { continue };
                let stamp = self.inbox.arrival(&datagram);
                self.agents.arrived = stamp.map_or(now, |stamp| stamp.0.saturating_sub(ahead).min(now));
                let size = self.inbox.segment(&datagram).unwrap_or(datagram.bytes.len()).max(1);
                for bytes in datagram.bytes.chunks(size) {
                    self.gathering.handled(1);
                    if datagram.truncated || bytes.len() > DATAGRAM_BYTES {
                        self.agents.unmatched.count(Kind::Oversize);
                    } else {
                        handle(self.agents, line, bytes);
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
        for (i, line) in self.agents.lines.iter_mut().enumerate() {
            let Wire::Tcp(stream) = &mut line.wire else { continue };
            if !std::mem::take(&mut stream.changed) || !stream.is_open() {
                continue;
            }
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, stream.wants_to_write());
            // A connection that is new to epoll is added; one that ended has left by itself.
            if epoll::modify(self.events.epoll(), stream.as_fd(), number_of(i), flags).is_err()
                && epoll::add(self.events.epoll(), stream.as_fd(), number_of(i), flags).is_err()
            {
                self.agents.unmatched.count(Kind::ReceiveFailed);
            }
        }
    }

    /// A connection can be read from or written to.
    fn stream_ready(&mut self, line: usize, flags: epoll::EventFlags) {
        // Since it was told, other connections' messages were handled.
        self.tell_time();
        let writable =
            flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        for round in 0..BATCHES_MAX {
            let agents = &mut *self.agents;
            let now = agents.now;
            let Wire::Tcp(stream) = &mut agents.lines[line].wire else { return };
            if round == 0 && writable && stream.wants_to_write() {
                stream.writable(now, &mut agents.unmatched);
            }
            let more = stream.read(now, &mut self.room, &mut agents.unmatched);
            let taken = stream.take();
            // What this read brought came while those before were handled, or later.
            agents.now = sched::monotonic().0;
            agents.arrived = agents.now;
            for (from, to) in &taken.messages {
                handle(agents, line, &taken.bytes[*from..*to]);
            }
            if let Wire::Tcp(stream) = &mut self.agents.lines[line].wire {
                stream.give_back(taken);
            }
            if !more {
                return;
            }
        }
    }

    /// Hands progress over and asks for dropped datagrams.
    fn report(&mut self) {
        let since = self.agents.now.saturating_sub(self.epoch);
        let progress = std::mem::take(&mut self.agents.progress);
        self.control.add(&Progress { elapsed: Nanos(since), ..progress });
        let dropped: u64 = self.agents.lines.iter_mut().map(super::line::Line::newly_dropped).sum();
        self.agents.unmatched.add(Kind::ReceiveBufferOverflow, dropped);
    }

    fn finish(mut self) -> Result<Vec<Used>, SysError> {
        self.agents.flush();
        if self.uses.len() < self.agents.records.len() {
            let now = Usage::now(self.agents.now, self.events.pacer.polled)?;
            self.uses.push(self.usage_from.map_or_else(Used::default, |from| now.since(from)));
            self.agents.present.length = self.agents.now.saturating_sub(self.start);
        }
        self.agents.give_up();
        self.report();
        Ok(self.uses)
    }
}

fn number_of(line: usize) -> epoll::EventData {
    epoll::EventData::new_u64(line as u64)
}

/// Handles one message.
pub(crate) fn handle(agents: &mut UserAgents, line: usize, bytes: &[u8]) {
    // Keep-alives (RFC 5626 section 4.4.1 and what others send).
    if bytes.iter().all(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return;
    }
    let Ok(message) = Message::parse(bytes) else { return agents.unmatched.count(Kind::Malformed) };
    match message.start() {
        StartLine::Status { code, .. } => agents.response(line, &message, code),
        StartLine::Request { method, uri, .. } => agents.request(line, &message, method, uri),
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
