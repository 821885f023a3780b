//! One worker's part of a session: its subscribers, their sockets, the attempts under way.
//!
//! What callers do with answers is in `caller.rs`, what callees do with requests in `callee.rs`.

use std::sync::Arc;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use vtax_plan::model::{Scenario, SipMetric, Spread};
use vtax_units::Nanos;
use vtax_wire::sip::Method;

use super::attempt::{Attempt, CalleeState, CallerState, Transaction};
use super::auth::Kept;
use super::compose::{Composer, Sender};
use super::congestion::CongestionControl;
use super::connections::Settings;
use super::line::Line;
use super::recorder::{Cause, Record, RecordKey, metric_number};
use super::setup::Setup;
use super::token::{Origin, Token};
use super::unmatched::Unmatched;
use super::users::{NONE, Pool, Users};
use super::wheel::Wheel;
use super::{MomentKind, Pools, Traffic};
use crate::{LoadError, Progress};

/// Timers of an attempt: its caller's, its callee's, and that of CANCEL.
pub(crate) const CALLER: u32 = 0;
pub(crate) const CALLEE: u32 = 1;
pub(crate) const CANCEL: u32 = 2;
/// Numbers for timers per attempt.
const TIMERS: u32 = 4;

/// The phase that time is in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Present {
    pub(crate) start: u64,
    /// Its length; `u64::MAX` while that isn't known.
    pub(crate) length: u64,
}

/// A worker's state, which outlives a profile. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug)]
pub(crate) struct UserAgents {
    pub(crate) setup: Arc<Setup>,
    pub(crate) users: Users,
    pub(crate) kept: Kept,
    pub(crate) attempts: Vec<Attempt>,
    vacant: Vec<u32>,
    pub(crate) wheel: Wheel,
    pub(crate) composer: Composer,
    pub(crate) lines: Vec<Line>,
    /// What connections have in common, where there are any.
    pub(crate) connections: Option<Settings>,
    /// Datagrams are many enough to leave in bundles.
    pub(crate) in_bundles: bool,
    pub(crate) rng: Xoshiro256PlusPlus,
    /// CSeq of the last REGISTER: rising over all users, so rising for each.
    register_cseq: u32,
    pub(crate) now: u64,
    /// When the message that is being handled arrived.
    pub(crate) arrived: u64,
    /// Since the session was opened.
    pub(crate) traffic: Traffic,
    /// Messages that had been received when the profile began.
    received_before: u64,
    // What is counted during one profile.
    pub(crate) unmatched: Unmatched,
    /// By phase, those begun.
    pub(crate) records: Vec<Record>,
    pub(crate) present: Present,
    /// In a pre-registration.
    pub(crate) congestion: Option<CongestionControl>,
    pub(crate) progress: Progress,
}

impl UserAgents {
    pub(crate) fn open(setup: &Arc<Setup>, session: u32, worker: u32, now: u64) -> Result<Self, LoadError> {
        let count = setup.users_of(worker);
        let (spec, workload) = (&setup.spec, &setup.spec.workload);
        let connections = Settings::new(workload.transport, &workload.tls, &spec.verify, spec.target.ip())?;
        let open = |local: &std::net::IpAddr| Line::open(*local, spec.target, connections.as_ref());
        let lines = spec.local.iter().map(open).collect::<Result<_, _>>()?;
        let origin = Origin::new(session, worker as usize);
        let text_bytes = workload.message_bytes.1.0 as usize;
        // No more attempts than users; the memory is touched when they are there.
        let most = count as usize;
        Ok(Self {
            users: Users::new(count),
            kept: Kept::new(if setup.direct { 0 } else { count }, &workload.subscribers.realm),
            attempts: Vec::with_capacity(most),
            vacant: Vec::with_capacity(most),
            wheel: Wheel::new(now, most * TIMERS as usize),
            composer: Composer::new(origin, worker, text_bytes),
            lines,
            connections,
            in_bundles: false,
            rng: Xoshiro256PlusPlus::seed_from_u64(spec.seed.wrapping_add(u64::from(worker) << 32) ^ 0x5149),
            register_cseq: 0,
            now,
            arrived: now,
            traffic: Traffic::default(),
            received_before: 0,
            unmatched: Unmatched::default(),
            records: Vec::new(),
            present: Present::default(),
            congestion: None,
            progress: Progress::default(),
            setup: Arc::clone(setup),
        })
    }

    /// A profile begins, and what is counted during it.
    pub(crate) fn begin_profile(&mut self) {
        self.records.clear();
        self.unmatched = Unmatched::default();
        self.received_before = self.traffic.received();
    }

    /// Messages received since the profile began.
    pub(crate) fn received(&self) -> u64 {
        self.traffic.received().saturating_sub(self.received_before)
    }

    pub(crate) fn pools(&self) -> Pools {
        Pools {
            unregistered: u64::from(self.users.unregistered()),
            registered: u64::from(self.users.registered()),
            busy: u64::from(self.users.busy()),
        }
    }

    /// Attempts under way.
    pub(crate) fn live(&self) -> usize {
        self.attempts.len() - self.vacant.len()
    }

    /// The attempt a token names, unless it is over.
    pub(crate) fn find(&self, token: Token) -> Option<u32> {
        let attempt = self.attempts.get(token.slot as usize)?;
        (attempt.generation == token.generation && attempt.is_live()).then_some(token.slot)
    }

    pub(crate) fn at(&mut self, slot: u32) -> &mut Attempt {
        &mut self.attempts[slot as usize]
    }

    pub(crate) fn set_timer(&mut self, slot: u32, timer: u32, due: u64) {
        self.wheel.set(slot * TIMERS + timer, due);
    }

    pub(crate) fn cancel_timer(&mut self, slot: u32, timer: u32) {
        self.wheel.cancel(slot * TIMERS + timer);
    }

    fn line_of(&mut self, user: u32) -> usize {
        user as usize % self.lines.len()
    }

    /// Sends all that waits.
    pub(crate) fn flush(&mut self) {
        for line in self.lines.iter_mut().filter(|line| line.has_waiting()) {
            line.flush(self.now, self.in_bundles, &mut self.unmatched);
        }
    }

    /// Has `write` append a message to what the line sends next; those of one attempt keep their order.
    pub(crate) fn send(&mut self, line: usize, slot: u32, write: impl FnOnce(&Sender, &mut Vec<u8>)) {
        let line = &mut self.lines[line];
        line.send(slot, write);
        if line.is_full() {
            line.flush(self.now, self.in_bundles, &mut self.unmatched);
        }
    }

    /// Draws from an exponential distribution, or gives its constant.
    fn draw_time(&mut self, spread: Spread) -> u64 {
        match spread {
            Spread::Constant(time) => time.0,
            Spread::Exponential(mean) => {
                let unit: f64 = Exp1.sample(&mut self.rng);
                (mean.0 as f64 * unit) as u64
            }
        }
    }

    /// Starts an attempt, so much later than it was meant to.
    pub(crate) fn begin(&mut self, scenario: Scenario, key: RecordKey, late: u64) {
        self.progress.sent += 1;
        self.records[usize::from(key.phase)].started(key, late);
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.attempts.push(Attempt::vacant());
            self.attempts.len() as u32 - 1
        });
        let Some((caller, callee)) = self.reserve(scenario, slot) else {
            self.vacant.push(slot);
            self.records[usize::from(key.phase)].ended(key, Some(Cause::NoFreeSubscriber));
            self.happened(key, MomentKind::Failed);
            self.progress.failed += 1;
            return;
        };
        let workload = &self.setup.spec.workload;
        let (ring, (least, most)) = (workload.ring_time, workload.message_bytes);
        let ring_time = self.draw_time(ring);
        let text_bytes = self.rng.random_range(least.0..=most.0) as u32;
        let attempt = self.at(slot);
        attempt.renew();
        (attempt.scenario, attempt.key) = (scenario, key);
        (attempt.caller, attempt.callee) = (caller.0, callee.0);
        (attempt.caller_pool, attempt.callee_pool) = (caller.1, callee.1);
        (attempt.ring_time, attempt.text_bytes) = (ring_time, text_bytes);
        let method = match scenario {
            Scenario::Registration | Scenario::ReRegistration | Scenario::DeRegistration => Method::Register,
            Scenario::Messaging | Scenario::MessageUnregistered => Method::Message,
            _ => Method::Invite,
        };
        if method == Method::Register {
            let attempt = &mut self.attempts[slot as usize];
            self.kept.recall(caller.0, &mut attempt.auth);
        }
        self.at(slot).begun = self.now;
        self.begin_transaction(slot, method);
    }

    /// Draws caller and callee, each with the pool it came from; the callee is [`NONE`] where the
    /// scenario has none of ours.
    #[allow(clippy::type_complexity, reason = "two users and their pools")]
    fn reserve(&mut self, scenario: Scenario, slot: u32) -> Option<((u32, Pool), (u32, Pool))> {
        let (from, to) = match scenario {
            _ if self.setup.direct => (Pool::Unregistered, None),
            Scenario::Registration => (Pool::Unregistered, None),
            Scenario::ReRegistration | Scenario::DeRegistration | Scenario::CalleeUnknown => {
                (Pool::Registered, None)
            }
            Scenario::MessageUnregistered => (Pool::Registered, Some(Pool::Unregistered)),
            _ => (Pool::Registered, Some(Pool::Registered)),
        };
        let caller = self.users.draw(from, slot, &mut self.rng)?;
        let Some(pool) = to else { return Some(((caller, from), (NONE, from))) };
        let Some(callee) = self.users.draw(pool, slot, &mut self.rng) else {
            self.users.release(caller, from);
            return None;
        };
        Some(((caller, from), (callee, pool)))
    }

    /// The caller's next request in its attempt.
    pub(crate) fn ask(&mut self, slot: u32, method: Method) {
        let attempt = self.at(slot);
        attempt.refused = 0;
        attempt.auth.answer_again();
        self.begin_transaction(slot, method);
    }

    /// Begins the transaction of a request, with the credentials that there are.
    pub(crate) fn begin_transaction(&mut self, slot: u32, method: Method) {
        let (now, t1, life, repeats) = (self.now, self.setup.t1, self.setup.life, self.setup.repeats);
        if method == Method::Register {
            // Below 2^31 (RFC 3261 section 8.1.1.5).
            self.register_cseq = (self.register_cseq + 1) & (u32::MAX >> 1);
        }
        let register_cseq = self.register_cseq;
        let attempt = self.at(slot);
        attempt.stage = CallerState::Asking;
        attempt.branches = (attempt.branches + 1) & 0x7f;
        let cseq = if method == Method::Register { register_cseq } else { attempt.transaction.cseq + 1 };
        attempt.transaction = Transaction {
            method,
            active: true,
            proceeding: false,
            branch: attempt.branches,
            cseq,
            sent: now,
            interval: t1,
            deadline: now + life,
        };
        self.set_timer(slot, CALLER, now + if repeats { t1 } else { life });
        self.transmit(slot);
    }

    /// Sends the transaction's request.
    fn transmit(&mut self, slot: u32) {
        let line = self.line_of(self.attempts[slot as usize].caller);
        self.traffic.requests_sent += 1;
        let Self { setup, attempts, composer, lines, unmatched, now, in_bundles, .. } = self;
        let line = &mut lines[line];
        let attempt = &mut attempts[slot as usize];
        line.send(slot, |sender, out| composer.request(setup, sender, out, slot, attempt));
        if line.is_full() {
            line.flush(*now, *in_bundles, unmatched);
        }
    }

    /// Sends CANCEL.
    fn transmit_cancel(&mut self, slot: u32) {
        let line = self.line_of(self.attempts[slot as usize].caller);
        self.traffic.requests_sent += 1;
        let Self { setup, attempts, composer, lines, .. } = self;
        lines[line]
            .send(slot, |sender, out| composer.cancel(setup, sender, out, slot, &attempts[slot as usize]));
    }

    /// Sends the ACK to the last 2xx.
    pub(crate) fn transmit_ack(&mut self, slot: u32) {
        let line = self.line_of(self.attempts[slot as usize].caller);
        self.traffic.requests_sent += 1;
        let Self { setup, attempts, composer, lines, .. } = self;
        lines[line].send(slot, |sender, out| {
            composer.acknowledge(setup, sender, out, slot, &attempts[slot as usize])
        });
    }

    /// Sends the callee's answer to its INVITE.
    pub(crate) fn transmit_answer(&mut self, slot: u32, status: u16) {
        let line = self.line_of(self.attempts[slot as usize].callee);
        self.traffic.responses_sent += 1;
        let Self { setup, attempts, composer, lines, .. } = self;
        lines[line]
            .send(slot, |sender, out| composer.answer(setup, sender, out, &attempts[slot as usize], status));
    }

    /// Something of the attempt is sent again.
    pub(crate) fn repeated(&mut self, slot: u32) {
        self.traffic.retransmissions += 1;
        let attempt = &self.attempts[slot as usize];
        let (key, scenario) = (attempt.key, attempt.scenario);
        if let Some(congestion) = &mut self.congestion {
            congestion.repeated(self.now, attempt.begun);
        }
        self.records[usize::from(key.phase)].repeated(key);
        self.happened(key, MomentKind::Repeated);
        let since = self.now.saturating_sub(self.present.start);
        if since < self.present.length
            && let Some(record) = self.records.last_mut()
        {
            record.repeated_in((since / 1_000_000_000) as u32, scenario);
        }
    }

    /// Keeps what happened to an attempt, where that is wanted.
    fn happened(&mut self, key: RecordKey, what: MomentKind) {
        if self.setup.spec.moments {
            // A metric's end is the arrival of a message, which `now` is behind of by the others before it.
            let at = if matches!(what, MomentKind::Took(..)) { self.arrived } else { self.now };
            self.records[usize::from(key.phase)].happened(key, at, what);
        }
    }

    /// Notes a metric of the attempt: the time from `since` to the arrival of the present message.
    pub(crate) fn measured(&mut self, slot: u32, metric: SipMetric, since: u64) {
        // Two clocks are behind it; nothing takes no time at all.
        let value = self.arrived.saturating_sub(since).max(1);
        let limit = self.setup.limits[metric_number(metric)];
        let attempt = &mut self.attempts[slot as usize];
        if value > limit && attempt.fault.is_none() {
            attempt.fault = Some(Cause::OverLimit(metric));
        }
        let key = attempt.key;
        self.records[usize::from(key.phase)].measured(key, metric, value);
        self.happened(key, MomentKind::Took(metric, Nanos(value)));
    }

    /// Handles a timer that is due, unless another of the same moment has ended its attempt.
    pub(crate) fn timer(&mut self, timer: u32) {
        let slot = timer / TIMERS;
        if !self.attempts[slot as usize].is_live() {
            return;
        }
        match timer % TIMERS {
            CALLER => self.caller_timer(slot),
            CALLEE => self.callee_timer(slot),
            _ => self.cancel_timer_due(slot),
        }
    }

    /// Timers A, B, E and F, and the end of the hold time.
    fn caller_timer(&mut self, slot: u32) {
        let (now, t2, repeats) = (self.now, self.setup.t2, self.setup.repeats);
        let attempt = self.at(slot);
        match attempt.stage {
            CallerState::Asking if attempt.transaction.active => {}
            CallerState::Holding => return self.ask(slot, Method::Bye),
            _ => return,
        }
        let Some(next) = next_sending(&mut attempt.transaction, now, t2, repeats) else {
            return self.end(slot, Some(Cause::Timeout));
        };
        self.set_timer(slot, CALLER, next.due);
        if next.send {
            self.repeated(slot);
            self.transmit(slot);
        }
    }

    /// Timers E and F of CANCEL, and the end of the caller's patience.
    fn cancel_timer_due(&mut self, slot: u32) {
        let (now, t1, t2, life) = (self.now, self.setup.t1, self.setup.t2, self.setup.life);
        let repeats = self.setup.repeats;
        let attempt = self.at(slot);
        if !attempt.cancel.active {
            if !attempt.transaction.active {
                return;
            }
            attempt.cancel = Transaction {
                method: Method::Cancel,
                active: true,
                sent: now,
                interval: t1,
                deadline: now + life,
                proceeding: false,
                ..attempt.transaction
            };
            // RFC 3261 section 9.1: the INVITE is over 64·T1 after its CANCEL at the latest.
            attempt.transaction.deadline = now + life;
            self.set_timer(slot, CALLER, now + life);
            self.set_timer(slot, CANCEL, now + if repeats { t1 } else { life });
            return self.transmit_cancel(slot);
        }
        let Some(next) = next_sending(&mut attempt.cancel, now, t2, repeats) else {
            return self.end(slot, Some(Cause::Timeout));
        };
        self.set_timer(slot, CANCEL, next.due);
        if next.send {
            self.repeated(slot);
            self.transmit_cancel(slot);
        }
    }

    /// Timers G and H, and the end of the ring time.
    fn callee_timer(&mut self, slot: u32) {
        let (now, t2, repeats) = (self.now, self.setup.t2, self.setup.repeats);
        let attempt = self.at(slot);
        match attempt.callee_stage {
            CalleeState::Ringing => self.pick_up(slot),
            CalleeState::Answered(_) if now >= attempt.answer_deadline => self.end(slot, Some(Cause::NoAck)),
            CalleeState::Answered(status) => {
                attempt.answer_interval = (2 * attempt.answer_interval).min(t2);
                let due = if repeats { now + attempt.answer_interval } else { u64::MAX };
                let due = due.min(attempt.answer_deadline);
                self.set_timer(slot, CALLEE, due);
                if repeats {
                    self.repeated(slot);
                    self.transmit_answer(slot, status);
                }
            }
            CalleeState::Idle | CalleeState::Confirmed => {}
        }
    }

    /// Starts the call's hold time.
    pub(crate) fn hold(&mut self, slot: u32) {
        let time = self.draw_time(self.setup.spec.workload.hold_time);
        self.at(slot).stage = CallerState::Holding;
        if time == 0 {
            self.ask(slot, Method::Bye);
        } else {
            self.set_timer(slot, CALLER, self.now + time);
        }
    }

    /// The caller's part is over; so is the attempt, once the callee's is.
    pub(crate) fn caller_done(&mut self, slot: u32) {
        self.at(slot).stage = CallerState::Done;
        self.end_if_done(slot);
    }

    /// Ends the attempt where both sides have done their part.
    pub(crate) fn end_if_done(&mut self, slot: u32) {
        let attempt = self.at(slot);
        let answers = matches!(
            attempt.scenario,
            Scenario::Calling | Scenario::CalleeRejects | Scenario::CallerAbandons | Scenario::ReInvite
        );
        let settled = attempt.callee == NONE || !answers || attempt.callee_stage == CalleeState::Confirmed;
        if attempt.stage == CallerState::Done && !attempt.cancel.active && settled {
            self.end(slot, None);
        }
    }

    /// Ends the attempt, inadequately where there is a cause or a metric passed its limit.
    pub(crate) fn end(&mut self, slot: u32, cause: Option<Cause>) {
        let attempt = self.at(slot);
        let (key, begun, fault) = (attempt.key, attempt.begun, cause.or(attempt.fault));
        self.vacate(slot, cause);
        if let Some(congestion) = &mut self.congestion {
            congestion.ended(self.now, begun, cause.is_none());
        }
        self.records[usize::from(key.phase)].ended(key, fault);
        self.happened(key, if fault.is_none() { MomentKind::Succeeded } else { MomentKind::Failed });
        *(if fault.is_none() { &mut self.progress.ok } else { &mut self.progress.failed }) += 1;
    }

    /// Frees the attempt's users and its slot.
    fn vacate(&mut self, slot: u32, cause: Option<Cause>) {
        for timer in [CALLER, CALLEE, CANCEL] {
            self.cancel_timer(slot, timer);
        }
        let attempt = self.at(slot);
        let caller_pool = match (attempt.scenario, cause) {
            (Scenario::Registration, None) => Pool::Registered,
            // Without an answer it may be so or so; a registration on top of one does no harm.
            (Scenario::DeRegistration, None | Some(Cause::Timeout)) => Pool::Unregistered,
            _ => attempt.caller_pool,
        };
        let (caller, callee, callee_pool) = (attempt.caller, attempt.callee, attempt.callee_pool);
        attempt.generation = attempt.generation.wrapping_add(1);
        self.users.release(caller, caller_pool);
        if callee != NONE {
            self.users.release(callee, callee_pool);
        }
        self.vacant.push(slot);
    }

    /// Gives up what has not ended.
    pub(crate) fn give_up(&mut self) {
        for slot in 0..self.attempts.len() as u32 {
            if self.attempts[slot as usize].is_live() {
                let key = self.attempts[slot as usize].key;
                self.records[usize::from(key.phase)].unfinished(key);
                self.vacate(slot, Some(Cause::Timeout));
            }
        }
    }
}

/// What a timer of a client transaction asks for.
struct Next {
    due: u64,
    send: bool,
}

/// The next time a client transaction looks after its request; `None` where it is given up
/// (RFC 3261 figures 5 and 6).
fn next_sending(transaction: &mut Transaction, now: u64, t2: u64, repeats: bool) -> Option<Next> {
    if now >= transaction.deadline {
        return None;
    }
    let invite = transaction.method == Method::Invite;
    if !repeats || (invite && transaction.proceeding) {
        return Some(Next { due: transaction.deadline, send: false });
    }
    let doubled = 2 * transaction.interval;
    transaction.interval = match (invite, transaction.proceeding) {
        (true, _) => doubled,
        (false, false) => doubled.min(t2),
        (false, true) => t2,
    };
    Some(Next { due: (now + transaction.interval).min(transaction.deadline), send: true })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::recorder::Layout;
    use super::*;

    /// When a request that is never answered is sent, in units of T1.
    fn sendings(method: Method, proceeding: bool) -> Vec<u64> {
        let mut transaction = Transaction {
            method,
            active: true,
            proceeding,
            interval: 1,
            deadline: 64,
            ..Transaction::default()
        };
        let (mut now, mut sent) = (1, vec![0]);
        while let Some(next) = next_sending(&mut transaction, now, 8, true) {
            if next.send {
                sent.push(now);
            }
            now = next.due;
        }
        sent
    }

    /// The user agents of a service that never answers, with one recorded phase of calls.
    pub(crate) fn agents() -> UserAgents {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let text = r#"{"workload": {"transport": "udp",
            "subscribers": {"count": 4, "public": "u%d", "private": "u%d", "password": "p", "realm": "r", "domain": "d"},
            "registered": "50%", "mix": [{"scenario": "calling", "share": "100%", "ihs_limit": "10%"}],
            "ring_time": {"spread": "constant", "mean": "1ms"}, "hold_time": {"spread": "constant", "mean": "1ms"},
            "message_bytes": ["10B", "10B"], "expires": "1h", "addresses": 1, "t1": "500ms", "limits": {}},
            "local": ["127.0.0.1"], "cpus": "", "seed": 1}"#;
        let mut spec: serde_json::Value = serde_json::from_str(text).unwrap();
        spec["target"] = silent.local_addr().unwrap().to_string().into();
        let spec = serde_json::from_value(spec).unwrap();
        let setup = Arc::new(Setup::new(&spec, false, 1).unwrap());
        let mut agents = UserAgents::open(&setup, 1, 0, 0).unwrap();
        agents.records.push(record());
        agents
    }

    /// The record of a phase of calls.
    pub(crate) fn record() -> Record {
        Record::new(Layout::new(|s| s == Scenario::Calling), 1)
    }

    #[test]
    fn timers_of_one_moment_end_an_attempt_once() {
        let mut agents = agents();
        for user in 0..4 {
            agents.users.draw(Pool::Unregistered, 0, &mut agents.rng);
            agents.users.release(user, Pool::Registered);
        }
        let key = RecordKey { phase: 0, scenario: 0, counted: true, since: 0 };
        agents.begin(Scenario::Calling, key, 0);
        let slot = 0;
        agents.at(slot).callee_stage = CalleeState::Answered(200);
        agents.now = agents.at(slot).transaction.deadline;
        for timer in [CALLER, CALLEE, CANCEL] {
            agents.timer(slot * TIMERS + timer);
        }
        assert_eq!((agents.users.registered(), agents.users.busy()), (4, 0));
        assert_eq!(agents.progress.failed, 1);
    }

    #[test]
    fn requests_are_repeated_as_the_standard_says() {
        // RFC 3261 section 17.1.1.2: 0, 500 ms, 1.5 s, 3.5 s, 7.5 s, 15.5 s, 31.5 s.
        assert_eq!(sendings(Method::Invite, false), [0, 1, 3, 7, 15, 31, 63]);
        // Section 17.1.2.2: 500 ms, 1 s, 2 s, 4 s, 4 s, ...
        assert_eq!(sendings(Method::Bye, false), [0, 1, 3, 7, 15, 23, 31, 39, 47, 55, 63]);
        assert_eq!(sendings(Method::Bye, true), [0, 1, 9, 17, 25, 33, 41, 49, 57]);
        assert_eq!(sendings(Method::Invite, true), [0]);
    }
}
