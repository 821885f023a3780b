//! What callees do with requests.

use vtax_plan::model::{Scenario, SipMetric};
use vtax_wire::sip::{Message, Method, Name, Uri, Writer};

use super::attempt::CalleeState;
use super::unmatched::Kind;
use super::user_agents::{CALLEE, UserAgents};
use super::users::NONE;

impl UserAgents {
    /// Handles a request that came in on `line`.
    pub(crate) fn request(&mut self, line: usize, message: &Message<'_>, method: Method, uri: &[u8]) {
        self.traffic.requests_received += 1;
        let found = self.attempt_of(message, uri);
        match (method, found) {
            (Method::Invite, Some(slot)) => self.called(slot, line, message),
            (Method::Ack, Some(slot)) => self.acknowledged(slot, message),
            (Method::Bye, Some(slot)) => self.bye(slot, line, message),
            (Method::Cancel, Some(slot)) => self.call_cancelled(slot, line, message),
            (Method::Message, Some(slot)) => self.message(slot, line, message),
            // To an answer of an attempt that is over.
            (Method::Ack, None) => self.unmatched.count(Kind::Late),
            (Method::Options, _) => self.reply(line, message, 200, "OK"),
            _ => {
                // What a callee has answered and forgotten is answered the same way again.
                let ours = self.is_past(message);
                self.unmatched.count(if ours { Kind::Late } else { Kind::UnexpectedRequest });
                match (method, ours) {
                    (Method::Bye | Method::Message, true) => {
                        self.traffic.retransmissions += 1;
                        self.reply_past(line, message);
                    }
                    (Method::Invite | Method::Message, _) => {
                        self.reply(line, message, 480, "Temporarily Unavailable");
                    }
                    _ => self.reply(line, message, 481, "Call/Transaction Does Not Exist"),
                }
            }
        }
    }

    /// The attempt a request belongs to: by the tag the callee gave, by Call-ID, and where a
    /// back-to-back user agent has changed both, by the callee, who is in one attempt only.
    fn attempt_of(&self, message: &Message<'_>, uri: &[u8]) -> Option<u32> {
        let origin = &self.composer.origin;
        let tag = message.to().ok().and_then(|to| to.tag);
        let by_tag = tag.and_then(|tag| origin.read(tag.strip_prefix(TAG)?));
        let token = by_tag.or_else(|| origin.read(message.call_id().ok()?));
        if let Some((token, _)) = token {
            return self.find(token);
        }
        let user = Uri::parse(uri).ok()?.user?;
        let user = self.composer.user(&self.setup, user)?;
        let slot = self.users.attempt_of(user)?;
        (self.attempts[slot as usize].callee == user).then_some(slot)
    }

    /// Whether the request names an attempt that is over.
    fn is_past(&self, message: &Message<'_>) -> bool {
        let origin = &self.composer.origin;
        let tag = message.to().ok().and_then(|to| to.tag).and_then(|tag| origin.read(tag.strip_prefix(TAG)?));
        tag.or_else(|| origin.read(message.call_id().ok()?)).is_some()
    }

    /// Answers without a thought for later.
    fn reply(&mut self, line: usize, message: &Message<'_>, status: u16, reason: &str) {
        self.traffic.responses_sent += 1;
        let token = *self.composer.origin.text();
        self.send(line, NONE, |_, out| Writer::respond(out, message, status, reason, Some(&token)).end());
    }

    /// Answers once more what was answered in an attempt that is over: the same, byte for byte.
    fn reply_past(&mut self, line: usize, message: &Message<'_>) {
        self.traffic.responses_sent += 1;
        let call_id = message.call_id().unwrap_or_default();
        self.send(line, NONE, |_, out| {
            let mut text = [0; TAG.len() + super::token::TOKEN_BYTES];
            text[..TAG.len()].copy_from_slice(TAG);
            // Where the Call-ID is another, To has the tag already.
            if let Some(token) = call_id.first_chunk::<{ super::token::TOKEN_BYTES }>() {
                text[TAG.len()..].copy_from_slice(token);
            }
            Writer::respond(out, message, 200, "OK", Some(&text)).end();
        });
    }

    /// Answers in the attempt's dialog.
    fn reply_in(&mut self, slot: u32, line: usize, message: &Message<'_>) {
        self.traffic.responses_sent += 1;
        let tag = self.composer.token(slot, &self.attempts[slot as usize]);
        self.send(line, slot, |_, out| {
            let mut text = [0; TAG.len() + super::token::TOKEN_BYTES];
            text[..TAG.len()].copy_from_slice(TAG);
            text[TAG.len()..].copy_from_slice(&tag);
            Writer::respond(out, message, 200, "OK", Some(&text)).end();
        });
    }

    /// INVITE.
    fn called(&mut self, slot: u32, line: usize, message: &Message<'_>) {
        let Ok(cseq) = message.cseq() else { return self.unmatched.count(Kind::Malformed) };
        let attempt = self.at(slot);
        let (scenario, stage) = (attempt.scenario, attempt.callee_stage);
        let rings = attempt.callee != NONE
            && matches!(
                scenario,
                Scenario::Calling | Scenario::ReInvite | Scenario::CalleeRejects | Scenario::CallerAbandons
            );
        match stage {
            CalleeState::Idle if rings => self.first_invite(slot, message, cseq.number),
            CalleeState::Confirmed if scenario == Scenario::ReInvite && attempt.acks == 1 => {
                attempt.callee_cseq = cseq.number;
                self.note_invite(slot, message);
                self.answer(slot, 200);
            }
            CalleeState::Ringing if cseq.number == attempt.callee_cseq => self.answer_repeated(slot, 180),
            CalleeState::Answered(status) if cseq.number == attempt.callee_cseq => {
                self.answer_repeated(slot, status);
            }
            CalleeState::Confirmed if cseq.number == attempt.callee_cseq => {
                self.unmatched.count(Kind::RepeatedRequest)
            }
            _ => {
                self.unmatched.count(Kind::UnexpectedRequest);
                self.reply(line, message, 482, "Loop Detected");
            }
        }
    }

    fn answer_repeated(&mut self, slot: u32, status: u16) {
        self.unmatched.count(Kind::RepeatedRequest);
        self.repeated(slot);
        self.transmit_answer(slot, status);
    }

    fn first_invite(&mut self, slot: u32, message: &Message<'_>, cseq: u32) {
        let now = self.now;
        let attempt = self.at(slot);
        attempt.callee_cseq = cseq;
        let (scenario, begun, ring_time) = (attempt.scenario, attempt.begun, attempt.ring_time);
        self.note_invite(slot, message);
        self.measured(slot, SipMetric::Ses2, begun);
        if scenario == Scenario::CalleeRejects {
            return self.answer(slot, 486);
        }
        let attempt = self.at(slot);
        (attempt.callee_stage, attempt.rang) = (CalleeState::Ringing, now);
        self.transmit_answer(slot, 180);
        match scenario {
            // The caller gives up while it rings; its own timers end what doesn't go so.
            Scenario::CallerAbandons => {}
            _ if ring_time == 0 => self.pick_up(slot),
            _ => self.set_timer(slot, CALLEE, now + ring_time),
        }
    }

    /// Copies what answers repeat of the INVITE (RFC 3261 sections 8.2.6.2 and 12.1.1).
    fn note_invite(&mut self, slot: u32, message: &Message<'_>) {
        let token = self.composer.token(slot, &self.attempts[slot as usize]);
        let reply = &mut self.at(slot).reply;
        reply.clear();
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| reply.extend_from_slice(part));
        for via in message.lines(Name::Via) {
            put(&[b"Via: ", via, b"\r\n"]);
        }
        for route in message.lines(Name::RecordRoute) {
            put(&[b"Record-Route: ", route, b"\r\n"]);
        }
        let value = |name| message.header(name).unwrap_or_default();
        put(&[b"From: ", value(Name::From), b"\r\nTo: ", value(Name::To)]);
        if !message.to().is_ok_and(|to| to.tag.is_some()) {
            put(&[b";tag=", TAG, &token]);
        }
        put(&[b"\r\nCall-ID: ", value(Name::CallId), b"\r\nCSeq: ", value(Name::CSeq), b"\r\n"]);
    }

    /// The ring time is over.
    pub(crate) fn pick_up(&mut self, slot: u32) {
        let now = self.now;
        let attempt = self.at(slot);
        attempt.ring_took = now - attempt.rang;
        self.answer(slot, 200);
    }

    /// Gives the final answer to the INVITE and waits for the ACK: timers G and H, which the
    /// answers of 200 have as well (RFC 3261 section 13.3.1.4).
    fn answer(&mut self, slot: u32, status: u16) {
        let (now, t1, life, repeats) = (self.now, self.setup.t1, self.setup.life, self.setup.repeats);
        let attempt = self.at(slot);
        attempt.callee_stage = CalleeState::Answered(status);
        (attempt.answer_interval, attempt.answer_deadline) = (t1, now + life);
        self.set_timer(slot, CALLEE, now + if repeats { t1 } else { life });
        self.transmit_answer(slot, status);
    }

    /// ACK.
    fn acknowledged(&mut self, slot: u32, message: &Message<'_>) {
        let Ok(cseq) = message.cseq() else { return self.unmatched.count(Kind::Malformed) };
        let attempt = self.at(slot);
        let CalleeState::Answered(status) = attempt.callee_stage else {
            return self.unmatched.count(Kind::Late);
        };
        if cseq.number != attempt.callee_cseq {
            return self.unmatched.count(Kind::WrongCSeq);
        }
        attempt.callee_stage = CalleeState::Confirmed;
        // As if it had begun later by the time it rang.
        let begun = attempt.begun + attempt.ring_took;
        self.cancel_timer(slot, CALLEE);
        if status == 200 {
            let attempt = self.at(slot);
            attempt.acks += 1;
            let second = attempt.acks > 1;
            let metric = if second { SipMetric::Ses3 } else { SipMetric::Ses1 };
            self.measured(slot, metric, begun);
            if !second {
                self.ask_again(slot);
            }
        }
        self.end_if_done(slot);
    }

    /// BYE.
    fn bye(&mut self, slot: u32, line: usize, message: &Message<'_>) {
        self.note_request(slot);
        self.reply_in(slot, line, message);
    }

    /// Notes a BYE or MESSAGE; its answer is sent again where it comes again.
    fn note_request(&mut self, slot: u32) {
        if std::mem::replace(&mut self.at(slot).served, true) {
            self.unmatched.count(Kind::RepeatedRequest);
            self.repeated(slot);
        }
    }

    /// CANCEL.
    fn call_cancelled(&mut self, slot: u32, line: usize, message: &Message<'_>) {
        self.reply_in(slot, line, message);
        if self.at(slot).callee_stage == CalleeState::Ringing {
            self.answer(slot, 487);
        }
    }

    /// MESSAGE.
    fn message(&mut self, slot: u32, line: usize, message: &Message<'_>) {
        match self.at(slot).scenario {
            Scenario::Messaging => {
                self.note_request(slot);
                self.reply_in(slot, line, message);
            }
            _ => {
                self.unmatched.count(Kind::UnexpectedRequest);
                self.reply(line, message, 480, "Temporarily Unavailable");
            }
        }
    }
}

/// Begins the tags that callees give.
const TAG: &[u8] = b"c";
