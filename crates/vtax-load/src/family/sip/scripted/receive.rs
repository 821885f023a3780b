//! Messages that come, and what they do to calls.

use std::net::SocketAddr;

use vtax_wire::sip::{Message, Method, StartLine};
use vtax_wire::sipp::{Kind, Optional, Receiving};

use super::call::Waiting;
use super::end::Cause;
use super::machine::{Machine, Next, Port};
use super::messages::{challenged, is_answer, is_expected, keep, learn};
use super::shared::Shared;
use crate::family::sip::compose::Composer;
use crate::family::sip::unmatched::Kind as Stray;

impl<'a> Machine<'a> {
    /// A message that comes begins a call, if it is what the scenario begins with.
    pub(super) fn answer(
        &mut self,
        message: &Message<'_>,
        from: SocketAddr,
        arrived: u64,
        port: &mut impl Port,
    ) -> Option<u32> {
        let first = self.shared.scenario.commands.iter().position(|c| matches!(c.kind, Kind::Receive(_)))?;
        let mut expected = awaited(self.shared, first as u16);
        if !expected.any(|(_, receive)| is_expected(&receive.expect, message, &mut self.actor.matcher)) {
            self.stray.count(Stray::UnexpectedRequest);
            return None;
        }
        let slot = self.place(arrived, 0);
        let call = &mut self.calls[slot as usize];
        call.peer = Some(from);
        call.call_id.extend_from_slice(message.call_id().unwrap_or_default());
        let generation = call.generation;
        if !self.open_sound(slot, port) {
            return None;
        }
        // What stands before the first message is carried out now.
        self.advance(slot, arrived, port);
        let call = &self.calls[slot as usize];
        if call.generation == generation && call.waiting == Waiting::Message {
            self.receive(slot, message, arrived, port);
        }
        Some(slot)
    }

    /// A message for a call.
    pub(super) fn receive(&mut self, slot: u32, message: &Message<'_>, arrived: u64, port: &mut impl Port) {
        let call = &self.calls[slot as usize];
        if call.last == message.bytes() {
            if call.reply.is_empty() {
                self.stray.count(Stray::RepeatedResponse);
            } else {
                self.transmit_again(slot, true, port);
            }
            return;
        }
        if call.waiting == Waiting::TimeWait {
            return self.stray.count(Stray::Late);
        }
        let number = call.command;
        let found = self.matching(slot, number, message);
        let Some((found, receive)) = found else { return self.unexpected(slot, message, port) };
        if self.actor.happens(receive.lost) {
            self.counted[usize::from(found)].lost += 1;
            return;
        }
        self.counted[usize::from(found)].done += 1;
        let call = &mut self.calls[slot as usize];
        keep(&mut call.last, message.bytes(), usize::MAX);
        call.reply.clear();
        (call.again, call.give_up) = (u64::MAX, u64::MAX);
        if message.status().is_some_and(|status| status >= 200)
            && message.cseq().is_ok_and(|c| c.method == Method::Invite)
        {
            call.invited = None;
        }
        learn(call, message, receive.route_set);
        self.sound_of_received(slot, message);
        let call = &mut self.calls[slot as usize];
        if receive.challenge && !challenged(call, message) {
            return self.fail(slot, Cause::Challenge(found));
        }
        match self.act(slot, found, &receive.actions, port) {
            Next::Command => {}
            Next::Jumped => return self.advance(slot, arrived, port),
            Next::Over => return,
        }
        self.leave(slot, found, arrived);
        let call = &mut self.calls[slot as usize];
        if receive.optional != Optional::No && call.command == found + 1 {
            // It changes nothing about what is waited for.
            call.command = number;
            let due = call.due();
            return self.wheel.set(slot, due);
        }
        self.advance(slot, arrived, port);
    }

    /// The command that a message is for.
    fn matching(&mut self, slot: u32, number: u16, message: &Message<'_>) -> Option<(u16, &'a Receiving)> {
        let shared = self.shared;
        let call = &self.calls[slot as usize];
        if message.method().is_none() && !is_answer(message, call) {
            return None;
        }
        let waits = call.waiting == Waiting::Message;
        let matcher = &mut self.actor.matcher;
        if waits
            && let Some(here) =
                awaited(shared, number).find(|(_, r)| is_expected(&r.expect, message, matcher))
        {
            return Some(here);
        }
        for at in shared.scenario.anytime.iter().filter(|at| **at < number) {
            if let Kind::Receive(receive) = &shared.scenario.commands[usize::from(*at)].kind
                && is_expected(&receive.expect, message, matcher)
            {
                return Some((*at, &**receive));
            }
        }
        None
    }

    /// A message that the scenario doesn't have at this point.
    fn unexpected(&mut self, slot: u32, message: &Message<'_>, port: &mut impl Port) {
        let call = &self.calls[slot as usize];
        let (number, line, peer) = (call.command, call.line, call.peer);
        match message.start() {
            StartLine::Status { code, .. } => {
                if !is_answer(message, call) {
                    return self.stray.count(Stray::Late);
                }
                if code >= 300 && message.cseq().is_ok_and(|cseq| cseq.method == Method::Invite) {
                    self.out.clear();
                    let request =
                        call.sent.starts_with(b"INVITE ").then(|| Message::parse(&call.sent).ok()).flatten();
                    let uri = request.as_ref().and_then(|request| match request.start() {
                        StartLine::Request { uri, .. } => Some(uri),
                        StartLine::Status { .. } => None,
                    });
                    if Composer::acknowledge_failure(&mut self.out, message, uri).is_some() {
                        self.traffic.requests_sent += 1;
                        port.send(line, peer, slot, &self.out);
                    }
                }
                self.counted[usize::from(number)].unexpected += 1;
                self.fail(slot, Cause::Status(number, code));
            }
            // One that comes again, or for which a later message has come already.
            StartLine::Request { method: Method::Ack, .. } => self.stray.count(Stray::Late),
            StartLine::Request { method, .. } => {
                if matches!(method, Method::Bye | Method::Cancel) {
                    self.out.clear();
                    vtax_wire::sip::Writer::respond(&mut self.out, message, 200, "OK", None).end();
                    self.traffic.responses_sent += 1;
                    port.send(line, peer, slot, &self.out);
                }
                self.counted[usize::from(number)].unexpected += 1;
                self.fail(slot, Cause::Request(number));
            }
        }
    }
}

/// The messages that may come at a command: optional ones, up to one that must.
pub(super) fn awaited(shared: &Shared, from: u16) -> impl Iterator<Item = (u16, &Receiving)> {
    let commands = shared.scenario.commands.get(usize::from(from)..).unwrap_or_default();
    let mut is_last = false;
    (from..).zip(commands).map_while(move |(number, command)| match &command.kind {
        Kind::Receive(receive) if !is_last => {
            is_last = receive.optional == Optional::No;
            Some((number, &**receive))
        }
        _ => None,
    })
}
