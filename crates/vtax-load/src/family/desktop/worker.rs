//! One worker: an epoll loop over its own sessions.
//!
//! All times are nanoseconds since the step's epoch. Nothing here allocates, locks or shares for an action.

use std::mem::MaybeUninit;
use std::thread;

use rustix::event::epoll::{self, EventData, EventFlags};
use vtax_sys::{SysError, sched};
use vtax_units::Nanos;
use vtax_wire::rfb::Tally;

use super::desk::{Broken, Desk, Phase, Told};
use super::result::{DesktopFigures, Kind};
use super::spec::DesktopSpec;
use crate::drive::{EventLoop, Rest};
use crate::requests::{Finding, Lateness, Outcome, Recorder, Timetable, Window, outcome_of, time_since};
use crate::{Control, LatencyHistogram, LoadError, StartTimes};

/// Events taken from the kernel at once.
const EVENTS: usize = 64;
/// One read's most.
const BUFFER_BYTES: usize = 256 * 1024;
/// Reads of one session before others have their turn.
const READS_MAX: u32 = 8;
/// Starts in a row before events are looked at again.
const STARTS_MAX: u32 = 64;
/// How often is looked for what took too long.
const SCAN: u64 = 5_000_000;
/// How long a session waits before it is connected again.
const PAUSE: u64 = 100_000_000;
/// How long a session waits where the server said what can't be lived with: servers lock out who tries a wrong password often.
const LONG_PAUSE: u64 = 1_000_000_000;
/// To connect may take this many times as long as an action: the first picture is of the whole desktop, and who gives up begins anew.
const OPENING_TIMEOUTS: u64 = 8;
/// Sessions that one worker connects at once. Each costs the server a picture of the whole desktop.
const OPENING_MAX: usize = 16;

/// What all workers of a step have in common.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) spec: &'a DesktopSpec,
    pub(super) window: Window,
    /// How long answers are waited for after the window's end.
    pub(super) drain: u64,
    pub(super) timeout: u64,
    /// CLOCK_MONOTONIC at the start.
    pub(super) epoch: Nanos,
}

/// What one worker found.
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) figures: DesktopFigures,
}

/// What a worker has for its sessions, and which they are.
pub(super) struct Share<'a> {
    pub(super) desks: Vec<(usize, &'a mut Desk)>,
    /// The first so many act.
    pub(super) active: usize,
}

pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    share: Share<'a>,
    events: EventLoop,
    buffer: Box<[u8]>,
    /// Whose turn it is.
    turn: usize,
    recorder: Recorder,
    figures: DesktopFigures,
    by_kind: [LatencyHistogram; Kind::ALL.len()],
    /// What was read when the recorded time began.
    before: Option<Vec<Tally>>,
    time: Timetable<'a>,
    next_scan: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        control: &'a Control,
        share: Share<'a>,
        arrivals: Option<StartTimes>,
        recorder: Recorder,
    ) -> Result<Self, LoadError> {
        let events = EventLoop::new()?;
        let mut worker = Self {
            job,
            share,
            events,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            turn: 0,
            recorder,
            figures: DesktopFigures::default(),
            by_kind: std::array::from_fn(|_| LatencyHistogram::new()),
            before: None,
            time: Timetable::new(control, job.window, job.drain, job.epoch, arrivals),
            next_scan: 0,
        };
        for id in 0..worker.share.desks.len() {
            worker.share.desks[id].1.begin_step(job.spec.users.stay.0);
            if worker.share.desks[id].1.socket.is_some() {
                worker.watch(id).map_err(|source| LoadError::System {
                    operation: "watch a socket",
                    source: source.into(),
                })?;
                // One that is still being opened is counted once it stands.
                if worker.share.desks[id].1.is_ready() {
                    worker.recorder.connected(0);
                }
            }
        }
        Ok(worker)
    }

    fn watch(&mut self, id: usize) -> rustix::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let Some(socket) = &self.share.desks[id].1.socket else { return Ok(()) };
        epoll::add(self.events.epoll(), socket, EventData::new_u64(id as u64), flags)
    }

    /// Carries out this worker's share of the step.
    pub(super) fn run(mut self) -> Result<Found, SysError> {
        let epoch = self.job.epoch;
        let clock = || time_since(epoch);
        let mut events = [MaybeUninit::uninit(); EVENTS];
        // To connect is timed: none does before time counts.
        thread::sleep(epoch.saturating_sub(sched::monotonic()).into());
        self.time.tell();
        while self.go_on()? {
            self.relieve();
            self.dispatch();
            if self.time.now >= self.next_scan {
                self.next_scan = self.time.now + SCAN;
                self.expire();
                self.connect();
            }
            let rest = self.rest();
            let (ready, now) = self.events.wait(&mut events, rest, clock)?;
            self.time.now = now;
            for event in ready {
                self.ready(event.data.u64() as usize);
            }
        }
        self.finish()
    }

    fn desk(&mut self, id: usize) -> &mut Desk {
        self.share.desks[id].1
    }

    /// Passes the marks of the step's course; false once it is over.
    fn go_on(&mut self) -> Result<bool, SysError> {
        let passed = self.time.pass(&mut self.recorder, self.events.pacer.polled, false)?;
        if passed.began {
            self.before = Some(self.share.desks.iter().map(|(_, desk)| desk.tally()).collect());
        }
        if passed.ended {
            self.count();
        }
        let waiting = |(_, desk): &(usize, &mut Desk)| !desk.under_way.is_empty() || !desk.due.is_empty();
        Ok(self.time.goes_on() || (self.time.waits() && self.share.desks.iter().any(waiting)))
    }

    /// What came over the wire in the recorded time.
    fn count(&mut self) {
        let Some(before) = self.before.take() else { return };
        for (from, (_, desk)) in before.iter().zip(&self.share.desks) {
            self.figures.tally(from, &desk.tally());
            self.figures.connected += u32::from(desk.is_ready());
            self.figures.continuous += u32::from(desk.continuous);
        }
        self.figures.sessions = self.share.active as u32;
    }

    /// Gives each action that is due to its user, and has users act who can.
    fn dispatch(&mut self) {
        if !self.time.is_open() {
            return self.dispatch_closed();
        }
        for _ in 0..STARTS_MAX {
            let Some(start) = self.time.next_start().filter(|start| *start <= self.time.now) else { return };
            self.events.pacer.started(start);
            self.time.started();
            let id = self.turn % self.share.active.max(1);
            self.turn += 1;
            self.give(id, start);
        }
    }

    fn give(&mut self, id: usize, start: u64) {
        let Some(failure) = self.desk(id).failure else {
            if !self.desk(id).is_due(start) {
                self.recorder.missed(start, false);
            }
            return self.act(id);
        };
        self.recorder.started(start, None);
        self.recorder.ended(start, self.time.now, failure, 0);
    }

    /// Has a user take the actions that are due, as far as the pace allows.
    fn act(&mut self, id: usize) {
        let (now, timeout) = (self.time.now, self.job.timeout);
        let desk = &mut *self.share.desks[id].1;
        while desk.has_room() {
            let Some(start) = desk.due.pop_front() else { break };
            if start + timeout <= now {
                self.recorder.missed(start, false);
                continue;
            }
            let late = Lateness::of(start, desk.available_since, now);
            desk.act(start);
            self.recorder.started(start, Some(late));
        }
        self.flush(id);
    }

    fn dispatch_closed(&mut self) {
        if self.time.now >= self.time.stop {
            return;
        }
        let now = self.time.now;
        for id in 0..self.share.active {
            let desk = &mut *self.share.desks[id].1;
            if desk.has_room() && desk.under_way.is_empty() && desk.thinks_until <= now {
                desk.act(now);
                self.recorder.started(now, None);
                self.flush(id);
            }
        }
    }

    fn flush(&mut self, id: usize) {
        let now = self.time.now;
        match self.desk(id).flush() {
            Ok(sent) => self.recorder.sent(now, sent),
            Err(broken) => self.end(id, &broken),
        }
    }

    /// Has users leave whose time is over. Others are connected in their places with the next ones.
    fn relieve(&mut self) {
        let now = self.time.now;
        if self.job.spec.users.stay == Nanos::ZERO || now >= self.time.stop {
            return;
        }
        for (_, desk) in &mut self.share.desks {
            if desk.leave(now) {
                self.recorder.disconnected(now, false);
                // Not with the next look for what took too long, but now.
                self.next_scan = now;
            }
        }
    }

    /// Begins connections, not too many at once.
    fn connect(&mut self) {
        let mut opening = self
            .share
            .desks
            .iter()
            .filter(|(_, d)| matches!(d.phase, Phase::Opening(_) | Phase::First))
            .count();
        for id in 0..self.share.desks.len() {
            let now = self.time.now;
            let (number, desk) = &mut self.share.desks[id];
            if opening >= OPENING_MAX || !matches!(desk.phase, Phase::Down(until) if until <= now) {
                continue;
            }
            let connected = desk.connect(self.job.spec, *number, now);
            match connected.and_then(|()| self.watch(id).map_err(Broken::System)) {
                Ok(()) => opening += 1,
                Err(broken) => self.end(id, &broken),
            }
        }
    }

    /// Ends a session; what is under way ends with it.
    fn end(&mut self, id: usize, broken: &Broken) {
        let now = self.time.now;
        let outcome = match broken {
            Broken::System(error) => outcome_of(*error),
            Broken::Closed => Outcome::Reset,
            Broken::Protocol(_) | Broken::Tls(_) => Outcome::Protocol,
            Broken::Stuck => Outcome::ClientTimeout,
        };
        self.figures.trouble = Some(broken.words());
        let desk = &mut *self.share.desks[id].1;
        let stood = desk.is_ready();
        if !stood {
            desk.failure = Some(outcome);
        }
        let pause = if matches!(broken, Broken::Protocol(_) | Broken::Tls(_)) { LONG_PAUSE } else { PAUSE };
        desk.disconnect(now + pause);
        while let Some(action) = desk.under_way.pop_front() {
            self.recorder.ended(action.start, now, outcome, 0);
        }
        if stood {
            self.recorder.disconnected(now, true);
        }
    }

    /// A socket can be read or written.
    fn ready(&mut self, id: usize) {
        self.flush(id);
        for _ in 0..READS_MAX {
            // The buffer is lent so that the session can be read into it.
            let mut buffer = std::mem::take(&mut self.buffer);
            let more = self.receive(id, &mut buffer);
            self.buffer = buffer;
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(broken) => return self.end(id, &broken),
            }
        }
        // Epoll tells of what comes, not of what is there: it is told again where the session is watched anew.
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Some(socket) = &self.share.desks[id].1.socket {
            // A socket that is watched can be watched again.
            let _ = epoll::modify(self.events.epoll(), socket, EventData::new_u64(id as u64), flags);
        }
    }

    /// Reads once; true where there may be more.
    fn receive(&mut self, id: usize, buffer: &mut [u8]) -> Result<bool, Broken> {
        let Some((there, got)) = self.desk(id).receive(buffer)? else { return Ok(false) };
        self.time.tell();
        self.recorder.received(self.time.now, got);
        let mut at = 0;
        loop {
            let spec = self.job.spec;
            let (used, told) = self.desk(id).read(spec, &buffer[at..there])?;
            at += used;
            match told {
                Told::Nothing => break,
                Told::Began => self.began(id),
                Told::Answered { number, had_room } => self.answered(id, number, had_room),
            }
        }
        self.desk(id).keep(&buffer[at..there]);
        self.flush(id);
        Ok(self.desk(id).socket.is_some())
    }

    fn began(&mut self, id: usize) {
        self.time.tell();
        let now = self.time.now;
        self.recorder.connected(now);
        let (stay, from) = (self.job.spec.users.stay.0, self.job.window.from);
        let desk = self.desk(id);
        desk.failure = None;
        desk.comes(now, stay);
        let wanted = desk.wanted;
        // Where users come and go, the storm at the beginning, when all are due at 0, is none of their logins.
        if stay == 0 || (wanted > 0 && wanted >= from) {
            self.figures.opening.record(Nanos(now.saturating_sub(wanted)));
        }
        if self.time.is_open() {
            self.act(id);
        }
    }

    /// An update brought a marker: all actions up to its number are answered. `had_room` says whether others could be taken before.
    fn answered(&mut self, id: usize, number: u16, had_room: bool) {
        self.time.tell();
        let now = self.time.now;
        let think = self.job.spec.users.think.0;
        let desk = &mut *self.share.desks[id].1;
        let mut answers = 0_u64;
        while let Some(action) = desk.answered(number) {
            self.recorder.ended(action.start, now, Outcome::Ok, 0);
            if action.start >= self.job.window.from {
                self.by_kind[action.kind as usize].record(Nanos(now - action.start.min(now)));
                // All but one came with another's.
                self.figures.merged += u64::from(answers > 0);
            }
            answers += 1;
        }
        if answers > 0 {
            desk.thinks_until = now + think;
        }
        if !had_room {
            desk.available_since = now;
        }
        if self.time.is_open() {
            self.act(id);
        } else if think == 0 {
            self.dispatch_closed();
        }
    }

    /// Ends what took too long.
    fn expire(&mut self) {
        let (now, timeout) = (self.time.now, self.job.timeout);
        for id in 0..self.share.desks.len() {
            let desk = &mut *self.share.desks[id].1;
            while let Some(action) = desk.under_way.front().filter(|a| a.start + timeout <= now).copied() {
                desk.under_way.pop_front();
                // The rest of the answers is waited for, or they would be taken for those of later actions.
                desk.late = Some(now + timeout);
                self.recorder.ended(action.start, now, Outcome::ClientTimeout, 0);
            }
            while desk.due.front().is_some_and(|start| start + timeout <= now) {
                if let Some(start) = desk.due.pop_front() {
                    self.recorder.missed(start, false);
                }
            }
            let stuck = match desk.phase {
                Phase::Ready => desk.late.is_some_and(|until| until <= now && until > 0),
                Phase::Opening(_) | Phase::First => desk.since + OPENING_TIMEOUTS * timeout <= now,
                Phase::Down(_) => false,
            };
            if desk.late == Some(0) {
                desk.late = Some(now + timeout);
            }
            if stuck {
                self.end(id, &Broken::Stuck);
            }
        }
    }

    /// How long to wait for events.
    fn rest(&mut self) -> Rest {
        let now = self.time.now;
        let mut wake = self.time.next_mark(&self.recorder);
        let busy = |desk: &Desk| !desk.is_ready() || !desk.under_way.is_empty() || !desk.due.is_empty();
        if self.share.desks.iter().any(|(_, desk)| busy(desk)) {
            wake = wake.min(self.next_scan.max(now + 1));
        }
        if !self.time.is_open() && now < self.time.stop {
            let ready = self.share.desks[..self.share.active].iter().filter(|(_, d)| d.has_room());
            let next = ready.map(|(_, desk)| desk.thinks_until).filter(|until| *until > now).min();
            wake = wake.min(next.unwrap_or(wake));
        }
        let leaves =
            self.share.desks.iter().map(|(_, desk)| desk.leaves).filter(|leaves| *leaves > now).min();
        wake = wake.min(leaves.unwrap_or(wake));
        if let Some(start) = self.time.next_start().filter(|start| *start <= wake) {
            return Rest { now, sleep: self.events.pacer.sleep(now, start), for_start: start > now };
        }
        Rest { now, sleep: wake.saturating_sub(now), for_start: false }
    }

    fn finish(mut self) -> Result<Found, SysError> {
        self.expire();
        for (_, desk) in &mut self.share.desks {
            desk.under_way.drain(..).for_each(|action| self.recorder.cut_short(action.start));
            // Those that took too long have just expired.
            desk.due.drain(..).for_each(|start| self.recorder.never_begun(start, true));
        }
        self.time.cut_short(&mut self.recorder, self.job.timeout);
        let by_kind = Kind::ALL.into_iter().zip(self.by_kind).filter(|(_, latency)| !latency.is_empty());
        self.figures.by_kind = by_kind.collect();
        let finding = self.time.finish(self.recorder, self.events.pacer.polled)?;
        Ok(Found { finding, figures: self.figures })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rustix::io::Errno;
    use vtax_plan::model::{DesktopActions, DesktopEncoding, DesktopPace, DesktopSecurity, DesktopUsers};
    use vtax_units::{CpuSet, Rate};

    use super::super::spec::Keep;
    use super::*;
    use crate::{ArrivalProcess, Segment};

    const SECOND: u64 = 1_000_000_000;
    const WINDOW: Window = Window { from: 5 * SECOND, to: 1_000 * SECOND, interval: 1_000 * SECOND };

    pub(in super::super) fn spec() -> DesktopSpec {
        DesktopSpec {
            first: ([127, 0, 0, 1], 1).into(),
            sessions: 1,
            security: DesktopSecurity::None,
            tunnel: false,
            password: None,
            users: DesktopUsers {
                actions: DesktopActions { typing: 1, scroll: 0, drag: 0, film: 0 },
                rate: Rate(1.0),
                think: Nanos::ZERO,
                stay: Nanos::ZERO,
                pace: DesktopPace::SlowMotion,
                encoding: DesktopEncoding::Raw,
                copies: false,
                continuous: false,
            },
            timeout: Nanos::from_secs(100),
            cpus: CpuSet::default(),
            seed: 1,
            keep: Keep::Markers,
        }
    }

    /// A worker of these desktops, 10 s after its step's start.
    fn at_ten_seconds(
        spec: &DesktopSpec,
        window: Window,
        desks: &mut [Desk],
        test: impl FnOnce(&mut Worker<'_>),
    ) {
        let control = Control::new();
        let epoch = Nanos(sched::monotonic().0 - 10 * SECOND);
        let job = Job { spec, window, drain: 0, timeout: spec.timeout.0, epoch };
        let active = desks.len();
        let share = Share { desks: desks.iter_mut().enumerate().collect(), active };
        let profile = [Segment { from: Rate(1.0), to: Rate(1.0), duration: Nanos(window.to) }];
        let arrivals = StartTimes::new(ArrivalProcess::Constant, &profile, 1, 0, 1);
        let recorder = Recorder::new(window, spec.timeout, false);
        let mut worker = Worker::new(&job, &control, share, Some(arrivals), recorder).unwrap();
        worker.time.tell();
        test(&mut worker);
    }

    /// Actions of users who wait for their first picture failed because another one's desktop couldn't be reached.
    #[test]
    fn a_desktop_that_cannot_be_reached_fails_no_action_of_another() {
        let spec = spec();
        let mut desks = [Desk::new(&spec, 0, None), Desk::new(&spec, 1, None)];
        at_ten_seconds(&spec, WINDOW, &mut desks, |worker| {
            worker.end(0, &Broken::System(Errno::CONNREFUSED));
            for id in [0, 1] {
                worker.give(id, 9 * SECOND);
            }
            assert!(worker.desk(0).due.is_empty(), "it has failed");
            assert_eq!(worker.desk(1).due, [9 * SECOND]);
            // Once it is there, its user acts; and one who was there waits for the next attempt.
            worker.desk(0).phase = Phase::Ready;
            worker.began(0);
            assert_eq!(worker.desk(0).failure, None);
            worker.end(0, &Broken::Closed);
            worker.give(0, 9 * SECOND);
            assert_eq!(worker.desk(0).due, [9 * SECOND]);
        });
    }

    /// With users who come and go the longest login was one of the storm at the beginning.
    #[test]
    fn logins_of_the_storm_count_only_where_there_are_no_others() {
        for (stay, wanted, counts) in [
            (Nanos::ZERO, 0, 1),
            (Nanos::ZERO, 6 * SECOND, 1),
            (Nanos(SECOND), 0, 0),
            (Nanos(SECOND), 4 * SECOND, 0),
            (Nanos(SECOND), 6 * SECOND, 1),
        ] {
            let mut spec = spec();
            spec.users.stay = stay;
            let mut desks = [Desk::new(&spec, 0, None)];
            at_ten_seconds(&spec, WINDOW, &mut desks, |worker| {
                let desk = worker.desk(0);
                (desk.phase, desk.wanted) = (Phase::Ready, wanted);
                worker.began(0);
                assert_eq!(worker.figures.opening.len(), counts, "{stay}, due at {wanted}");
            });
        }
    }

    /// What waits for a desktop that stalled longer than its actions may take waits for the server: it was called the generator's own
    /// doing where the session survived.
    #[test]
    fn what_waited_for_a_late_answer_was_not_late_by_itself() {
        let spec = spec();
        let window = Window { from: 0, ..WINDOW };
        let mut desks = [Desk::new(&spec, 0, None)];
        at_ten_seconds(&spec, window, &mut desks, |worker| {
            let desk = worker.desk(0);
            desk.phase = Phase::Ready;
            desk.act(0);
            // It has timed out, and its answer is still to come; another action is due since second 5.
            desk.under_way.clear();
            desk.late = Some(u64::MAX);
            assert!(desk.is_due(5 * SECOND) && !desk.has_room());
            let told = desk.marked(0);
            assert_eq!(told, Told::Answered { number: 0, had_room: false });
            worker.answered(0, 0, false);
            let since = worker.desk(0).available_since;
            assert!(since >= 10 * SECOND && worker.desk(0).due.is_empty(), "{since}");
            assert!(worker.recorder.lateness.max() >= 4 * SECOND, "the action has waited");
            assert_eq!(worker.recorder.own_lateness.max(), 0, "but for the server alone");
        });
    }
}
