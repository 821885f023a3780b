//! Calls that go through a scenario.
//!
//! All times are nanoseconds of CLOCK_MONOTONIC. What happens in a call happens at the time at which it was meant to: a pause ends when it
//! ends, however late the worker is, and what follows is timed from there.

use std::net::SocketAddr;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use vtax_wire::sip::{Message, Method};
use vtax_wire::sipp::{Action, Duration, Kind, Order, Sending, Stop};

use super::act::{Acted, Actor, Scene};
use super::call::{Call, Waiting};
use super::end::{Cause, Ended};
use super::messages::keep;
use super::receive::awaited;
use super::render;
use super::result::{CommandCounts, ScriptFigures, TimerFigures};
use super::shared::Shared;
use crate::LatencyHistogram;
use crate::family::sip::Traffic;
use crate::family::sip::media::Media;
use crate::family::sip::token::{Origin, Token};
use crate::family::sip::unmatched::Unmatched;
use crate::family::sip::wheel::Wheel;
use crate::requests::Outcome;

/// Commands that a call may carry out without waiting; more are a loop without end.
const COMMANDS_MAX: u32 = 10_000;
/// T2 (RFC 3261 section 17.1.2.2), and how many times T1 something is sent again for.
const T2: u64 = 4_000_000_000;
const LIFE_OVER_T1: u64 = 64;
const MILLI: u64 = 1_000_000;

/// Where messages go.
pub(super) trait Port {
    /// Sends a message of a call, on the line that the call goes over.
    fn send(&mut self, line: u32, to: Option<SocketAddr>, flow: u32, message: &[u8]);
    /// The address of a line.
    fn local(&self, line: u32) -> SocketAddr;
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) done: u64,
    again: u64,
    timeouts: u64,
    pub(super) unexpected: u64,
    pub(super) lost: u64,
}

/// The calls of one worker.
pub(super) struct Machine<'a> {
    pub(super) shared: &'a Shared,
    pub(super) calls: Vec<Call>,
    vacant: Vec<u32>,
    pub(super) wheel: Wheel,
    origin: Origin,
    /// Number of the worker, and how many there are.
    worker: (u32, u32),
    begun: u64,
    epoch: u64,
    pub(super) now: u64,
    pub(super) actor: Actor,
    pub(super) out: Vec<u8>,
    /// The sound of calls, where they have any.
    pub(super) media: Option<Media>,
    pub(super) counted: Vec<Counted>,
    times: Vec<LatencyHistogram>,
    length: LatencyHistogram,
    counters: Vec<u64>,
    failed: Vec<(Cause, u64)>,
    succeeded: u64,
    pub(super) traffic: Traffic,
    pub(super) stray: Unmatched,
    /// Calls that have ended since this was last emptied.
    pub(super) ended: Vec<Ended>,
    /// Lines of calls that are over, where each has its own.
    pub(super) released: Vec<u32>,
    /// The scenario has said that the load is to stop.
    pub(super) stop: Option<Stop>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        session: u32,
        worker: (u32, u32),
        seed: u64,
        (epoch, calls): (u64, usize),
        media: Option<Media>,
    ) -> Self {
        let scenario = &shared.scenario;
        Self {
            shared,
            calls: Vec::with_capacity(calls),
            vacant: Vec::with_capacity(calls),
            wheel: Wheel::new(epoch, calls),
            origin: Origin::new(session, worker.0 as usize),
            worker,
            begun: 0,
            epoch,
            now: epoch,
            actor: Actor::new(Xoshiro256PlusPlus::seed_from_u64(
                seed.wrapping_add(u64::from(worker.0) << 32),
            )),
            out: Vec::with_capacity(4_096),
            media,
            counted: vec![Counted::default(); scenario.commands.len()],
            times: scenario.timers.iter().map(|_| LatencyHistogram::new()).collect(),
            length: LatencyHistogram::new(),
            counters: vec![0; scenario.counters.len()],
            failed: Vec::new(),
            succeeded: 0,
            traffic: Traffic::default(),
            stray: Unmatched::default(),
            ended: Vec::with_capacity(64),
            released: Vec::new(),
            stop: None,
        }
    }

    /// Calls under way, and those that only answer again what comes again.
    pub(super) fn live(&self) -> usize {
        self.calls.len() - self.vacant.len()
    }

    /// Begins a call that was meant to begin at `start`.
    pub(super) fn begin(&mut self, start: u64, line: u32, port: &mut impl Port) {
        let slot = self.place(start, line);
        if self.open_sound(slot, port) {
            self.advance(slot, start, port);
        }
    }

    pub(super) fn place(&mut self, start: u64, line: u32) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.calls.push(Call::default());
            self.calls.len() as u32 - 1
        });
        let (own, workers) = self.worker;
        let place = self.shared.part.place(self.begun * u64::from(workers) + u64::from(own));
        self.begun += 1;
        let scenario = &self.shared.scenario;
        let call = &mut self.calls[slot as usize];
        call.begin(place + 1, start, (scenario.timers.len(), scenario.names.variables.len()));
        call.line = line;
        call.waiting = Waiting::Message;
        for injection in &self.shared.injections {
            let lines = f64::from(injection.lines());
            call.lines.push(match injection.order {
                Order::Sequential => (place % u64::from(injection.lines())) as u32,
                Order::Random => self.actor.draw(Duration::Uniform(0.0, lines), &Call::default(), 0.0) as u32,
            });
        }
        slot
    }

    fn scene(&self, slot: u32, command: u16, local: SocketAddr) -> Scene<'a> {
        let generation = self.calls[slot as usize].generation;
        Scene {
            shared: self.shared,
            token: self.origin.token(Token { slot, generation }),
            command,
            local,
            elapsed: self.now.saturating_sub(self.epoch),
        }
    }

    /// Carries commands out until the call waits or is over. `at` is the time at which they are meant to be.
    pub(super) fn advance(&mut self, slot: u32, mut at: u64, port: &mut impl Port) {
        let shared = self.shared;
        for _ in 0..COMMANDS_MAX {
            let number = self.calls[slot as usize].command;
            let Some(command) = shared.scenario.commands.get(usize::from(number)) else {
                return self.succeed(slot, at);
            };
            if let Some((variable, inverse)) = command.flow.condition {
                let is_set = self.is_set(slot, variable);
                if is_set == inverse {
                    self.calls[slot as usize].command = number + 1;
                    continue;
                }
            }
            match &command.kind {
                Kind::Send(send) => self.send(slot, number, send, at, port),
                Kind::Receive(_) => return self.wait_for_message(slot, number, at),
                Kind::Pause(duration) => {
                    let until = at.saturating_add(self.time(slot, *duration));
                    if until > self.now {
                        self.calls[slot as usize].until = until;
                        return self.wait(slot, Waiting::Pause);
                    }
                    self.counted[usize::from(number)].done += 1;
                    at = until;
                    self.leave(slot, number, at);
                    continue;
                }
                Kind::Nop(actions) => {
                    self.counted[usize::from(number)].done += 1;
                    match self.act(slot, number, actions, port) {
                        Next::Command => {}
                        Next::Jumped => continue,
                        Next::Over => return,
                    }
                }
                Kind::TimeWait(duration) => {
                    self.counted[usize::from(number)].done += 1;
                    self.tell_success(slot, at);
                    self.calls[slot as usize].until =
                        at.saturating_add(self.time(slot, *duration)).max(self.now + 1);
                    self.calls[slot as usize].again = u64::MAX;
                    return self.wait(slot, Waiting::TimeWait);
                }
            }
            self.leave(slot, number, at);
        }
        let command = self.calls[slot as usize].command;
        self.fail(slot, Cause::Loop(command));
    }

    fn is_set(&self, slot: u32, variable: u16) -> bool {
        self.calls[slot as usize]
            .variables
            .get(usize::from(variable))
            .is_some_and(super::call::Variable::is_set)
    }

    /// A length of time in nanoseconds.
    fn time(&mut self, slot: u32, duration: Duration) -> u64 {
        let usual = self.shared.settings.pause.0 as f64 / MILLI as f64;
        (self.actor.draw(duration, &self.calls[slot as usize], usual) * MILLI as f64) as u64
    }

    /// What every command does besides, and which follows.
    pub(super) fn leave(&mut self, slot: u32, number: u16, at: u64) {
        let shared = self.shared;
        let flow = &shared.scenario.commands[usize::from(number)].flow;
        let call = &mut self.calls[slot as usize];
        for timer in &flow.start {
            if let Some(timer) = call.timers.get_mut(usize::from(*timer)) {
                timer.0 = at;
            }
        }
        for number in &flow.stop {
            let Some((began, ended)) = call.timers.get_mut(usize::from(*number)) else { continue };
            if *ended && !flow.repeat {
                continue;
            }
            *ended = true;
            let took = at.saturating_sub(*began);
            self.times[usize::from(*number)].record(vtax_units::Nanos(took));
            if *number == 0 && call.response.is_none() {
                call.response = Some(took);
            }
        }
        if let Some(counter) = flow.counter {
            self.counters[usize::from(counter)] += 1;
        }
        let jumps = flow.next.as_ref().filter(|next| next.test.is_none_or(|test| self.is_set(slot, test)));
        let to = match jumps {
            Some(next) if self.actor.happens(next.chance) => next.to,
            _ => number + 1,
        };
        self.calls[slot as usize].command = to;
    }

    pub(super) fn act(&mut self, slot: u32, number: u16, actions: &[Action], port: &impl Port) -> Next {
        if actions.is_empty() {
            return Next::Command;
        }
        let local = port.local(self.calls[slot as usize].line);
        let scene = self.scene(slot, number, local);
        match self.actor.act(actions, &scene, &mut self.calls[slot as usize]) {
            Acted::On => Next::Command,
            Acted::Jump(to) => {
                self.calls[slot as usize].command = to;
                Next::Jumped
            }
            Acted::Unlike => {
                self.fail(slot, Cause::Check(number));
                Next::Over
            }
            Acted::Stop(Stop::Call) => {
                self.fail(slot, Cause::Stopped(number));
                Next::Over
            }
            Acted::Stop(stop) => {
                self.stop = Some(stop);
                Next::Command
            }
        }
    }

    fn send(&mut self, slot: u32, number: u16, send: &Sending, at: u64, port: &mut impl Port) {
        let method = &send.message.method;
        let is_request = !method.is_empty();
        let kind = Method::of(method);
        let line = self.calls[slot as usize].line;
        if is_request && !matches!(kind, Method::Ack | Method::Cancel) {
            self.calls[slot as usize].cseq += 1;
        }
        let scene = self.scene(slot, number, port.local(line));
        self.out.clear();
        let call = &self.calls[slot as usize];
        let authenticated = render::message(&mut self.out, &send.message, scene.context(call));
        self.sound_of_sent(slot);
        let asked = is_request
            .then(|| Message::parse(&self.out).ok()?.cseq().ok().map(|c| (c.number, c.method)))
            .flatten();
        let call = &mut self.calls[slot as usize];
        call.auth.count += u32::from(authenticated);
        call.sent.clear();
        call.sent.extend_from_slice(&self.out);
        call.sent_by = number;
        if !is_request || kind == Method::Ack {
            keep(&mut call.reply, &self.out, usize::MAX);
            call.reply_by = number;
        } else {
            call.asked = asked;
            if kind == Method::Invite {
                call.invited = asked.map(|(number, _)| number);
            }
        }
        (call.again, call.give_up) = (u64::MAX, u64::MAX);
        if let Some(t1) = send.retransmit.filter(|_| self.shared.transport == vtax_wire::sip::Transport::Udp)
        {
            let t1 = u64::from(t1) * MILLI;
            call.interval = t1;
            call.again = self.now.max(at) + t1;
            call.give_up = self.now.max(at) + LIFE_OVER_T1 * t1;
        }
        self.counted[usize::from(number)].done += 1;
        if self.actor.happens(send.lost) {
            self.counted[usize::from(number)].lost += 1;
            return;
        }
        self.transmit(slot, false, port);
    }

    /// Hands what was sent last, or what the last message was answered with, over to the line.
    fn transmit(&mut self, slot: u32, is_reply: bool, port: &mut impl Port) {
        let call = &self.calls[slot as usize];
        let message = if is_reply { &call.reply } else { &call.sent };
        if message.starts_with(b"SIP/2.0 ") {
            self.traffic.responses_sent += 1;
        } else {
            self.traffic.requests_sent += 1;
        }
        port.send(call.line, call.peer, slot, message);
    }

    pub(super) fn transmit_again(&mut self, slot: u32, is_reply: bool, port: &mut impl Port) {
        let call = &self.calls[slot as usize];
        let sent_by = if is_reply { call.reply_by } else { call.sent_by };
        self.counted[usize::from(sent_by)].again += 1;
        self.traffic.retransmissions += 1;
        self.transmit(slot, is_reply, port);
    }

    fn wait_for_message(&mut self, slot: u32, number: u16, at: u64) {
        let own = awaited(self.shared, number).find_map(|(_, receive)| receive.timeout);
        let timeout = own.map_or(self.shared.timeout, |timeout| u64::from(timeout) * MILLI);
        let call = &mut self.calls[slot as usize];
        (call.since, call.until) = (self.now, at.max(self.now).saturating_add(timeout));
        self.wait(slot, Waiting::Message);
    }

    fn wait(&mut self, slot: u32, waiting: Waiting) {
        let call = &mut self.calls[slot as usize];
        call.waiting = waiting;
        self.wheel.set(slot, call.due());
    }

    /// A call's timer is due.
    pub(super) fn timer(&mut self, slot: u32, port: &mut impl Port) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(slot as usize).filter(|call| call.waiting != Waiting::Nothing)
        else {
            return;
        };
        if call.again <= now {
            if now >= call.give_up {
                let sent_by = call.sent_by;
                return self.fail(slot, Cause::NoAnswer(sent_by));
            }
            // An INVITE's interval grows without bound (RFC 3261 section 17.1.1.2).
            let is_invite = call.sent.starts_with(b"INVITE ");
            call.interval = (2 * call.interval).min(if is_invite { u64::MAX } else { T2 });
            call.again = (now + call.interval).min(call.give_up);
            self.transmit_again(slot, false, port);
        }
        let call = &mut self.calls[slot as usize];
        let (number, until) = (call.command, call.until);
        if until > now {
            let due = call.due();
            return self.wheel.set(slot, due);
        }
        match call.waiting {
            Waiting::Nothing => {}
            Waiting::Pause => {
                self.counted[usize::from(number)].done += 1;
                self.leave(slot, number, until);
                self.advance(slot, until, port);
            }
            Waiting::TimeWait => self.free(slot),
            Waiting::Message => {
                // One without a timeout of its own is waited for as long as the load says.
                let found =
                    awaited(self.shared, number).find(|(_, receive)| receive.timeout.is_some()).or_else(
                        || awaited(self.shared, number).find(|(_, receive)| receive.on_timeout.is_some()),
                    );
                let (awaited, to) =
                    found.map_or((number, None), |(number, receive)| (number, receive.on_timeout));
                self.counted[usize::from(awaited)].timeouts += 1;
                match to {
                    Some(to) => {
                        let call = &mut self.calls[slot as usize];
                        (call.command, call.again) = (to, u64::MAX);
                        self.advance(slot, until, port);
                    }
                    None => self.fail(slot, Cause::Timeout(awaited)),
                }
            }
        }
    }

    /// The call of a message that names one of this worker's by its Call-ID.
    pub(super) fn find(&self, call_id: &[u8]) -> Option<u32> {
        // What a scenario puts before [call_id] ends with three slashes.
        let from = call_id.windows(3).rposition(|three| three == b"///").map_or(0, |at| at + 3);
        let (token, _) = self.origin.read(&call_id[from..])?;
        let call = self.calls.get(token.slot as usize)?;
        (call.generation == token.generation && call.waiting != Waiting::Nothing).then_some(token.slot)
    }

    /// Whether a Call-ID is of a call of this worker that is over.
    pub(super) fn is_over(&self, call_id: &[u8]) -> bool {
        let from = call_id.windows(3).rposition(|three| three == b"///").map_or(0, |at| at + 3);
        self.origin.read(&call_id[from..]).is_some()
    }

    /// Whether a call is still of that Call-ID.
    pub(super) fn is_of(&self, slot: u32, call_id: &[u8]) -> bool {
        self.calls
            .get(slot as usize)
            .is_some_and(|call| call.waiting != Waiting::Nothing && call.call_id == call_id)
    }

    /// Whether a place has a call.
    pub(super) fn is_under_way(&self, slot: u32) -> bool {
        self.calls.get(slot as usize).is_some_and(|call| call.waiting != Waiting::Nothing)
    }

    fn succeed(&mut self, slot: u32, at: u64) {
        self.tell_success(slot, at);
        self.free(slot);
    }

    fn tell_success(&mut self, slot: u32, at: u64) {
        self.end_sound(slot);
        let call = &self.calls[slot as usize];
        let length = at.saturating_sub(call.start);
        self.succeeded += 1;
        self.length.record(vtax_units::Nanos(length));
        let end = call.start + call.response.unwrap_or(length);
        self.ended.push(Ended { start: call.start, end, outcome: Outcome::Ok, status: 0 });
    }

    pub(super) fn fail(&mut self, slot: u32, cause: Cause) {
        self.end_sound(slot);
        let start = self.calls[slot as usize].start;
        let (outcome, status) = cause.outcome();
        self.ended.push(Ended { start, end: self.now.max(start), outcome, status });
        match self.failed.iter_mut().find(|(own, _)| *own == cause) {
            Some((_, count)) => *count += 1,
            None => self.failed.push((cause, 1)),
        }
        self.free(slot);
    }

    fn free(&mut self, slot: u32) {
        self.wheel.cancel(slot);
        let call = &mut self.calls[slot as usize];
        call.waiting = Waiting::Nothing;
        if self.shared.connection_per_call {
            self.released.push(call.line);
        }
        self.vacant.push(slot);
    }

    /// Calls that haven't ended: when each was meant to begin.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = u64> + '_ {
        let live = |call: &&Call| matches!(call.waiting, Waiting::Message | Waiting::Pause);
        self.calls.iter().filter(live).map(|call| call.start)
    }

    /// Places and generations of calls that have waited for a message for longer than this, the one that has waited longest last.
    pub(super) fn waiting_longer_than(&self, nanos: u64) -> Vec<(u32, u32)> {
        let waits = |slot: u32| self.has_waited(slot, nanos);
        let mut found: Vec<u32> = (0..self.calls.len() as u32).filter(|slot| waits(*slot)).collect();
        found.sort_unstable_by_key(|slot| std::cmp::Reverse(self.calls[*slot as usize].since));
        found.into_iter().map(|slot| (slot, self.calls[slot as usize].generation)).collect()
    }

    fn has_waited(&self, slot: u32, nanos: u64) -> bool {
        let call = &self.calls[slot as usize];
        call.waiting == Waiting::Message && self.now.saturating_sub(call.since) > nanos
    }

    /// Gives up a call that still waits so long: whether it did.
    pub(super) fn give_up(&mut self, slot: u32, generation: u32, nanos: u64) -> bool {
        let call = &self.calls[slot as usize];
        let (command, is_it) = (call.command, call.generation == generation);
        let gives_up = is_it && self.has_waited(slot, nanos);
        if gives_up {
            self.fail(slot, Cause::Timeout(command));
        }
        gives_up
    }

    /// Whether a call is still under way.
    pub(super) fn is_busy(&self) -> bool {
        self.unfinished().next().is_some()
    }

    /// What the calls showed.
    pub(super) fn figures(self) -> ScriptFigures {
        let shared = self.shared;
        let scenario = &shared.scenario;
        let command = |(number, counted): (usize, &Counted)| CommandCounts {
            line: scenario.commands[number].line,
            label: scenario.label(number),
            done: counted.done,
            again: counted.again,
            timeouts: counted.timeouts,
            unexpected: counted.unexpected,
            lost: counted.lost,
        };
        let mut figures = ScriptFigures {
            scenario: scenario.name.clone(),
            calls: self.begun,
            succeeded: self.succeeded,
            commands: self.counted.iter().enumerate().map(command).collect(),
            counters: scenario.counters.iter().cloned().zip(self.counters).collect(),
            length: self.length,
            traffic: self.traffic,
            sound: self.media.map(|media| Box::new(media.finish())),
            log: self.actor.log.lines,
            log_left_out: self.actor.log.left_out,
            ..ScriptFigures::default()
        };
        let timers = scenario.timers.iter().zip(self.times);
        figures.timers = timers.map(|(name, times)| TimerFigures { name: name.clone(), times }).collect();
        for (cause, count) in self.failed {
            *figures.failed.entry(cause.words(shared)).or_default() += count;
        }
        self.stray.add_to(&mut figures.stray);
        figures
    }
}

/// What follows actions.
pub(super) enum Next {
    /// What the command says.
    Command,
    /// Another command, which is set.
    Jumped,
    /// Nothing.
    Over,
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
