//! What callers, and users who register, do with answers.

use vtax_plan::model::{Scenario, SipMetric};
use vtax_wire::sip::{CSeq, Challenge, Message, Method, Name};

use super::attempt::CallerState;
use super::compose::Composer;
use super::recorder::Cause;
use super::token::number;
use super::unmatched::Kind;
use super::user_agents::{CALLER, CANCEL, UserAgents};
use super::users::NONE;

/// How every branch begins (RFC 3261 section 8.1.1.7).
const COOKIE: &[u8] = b"z9hG4bK";
/// Challenges that one request may meet: one for its first try, one more for a nonce gone stale.
const CHALLENGES_MAX: u8 = 3;

impl UserAgents {
    /// Handles an answer that came in on `line`.
    pub(crate) fn response(&mut self, line: usize, message: &Message<'_>, status: u16) {
        self.traffic.responses_received += 1;
        let (Ok(via), Ok(cseq)) = (message.via(), message.cseq()) else {
            return self.unmatched.count(Kind::Malformed);
        };
        let branch = via.branch.and_then(|b| b.strip_prefix(COOKIE));
        let Some((token, rest)) = branch.and_then(|branch| self.composer.origin.read(branch)) else {
            return self.unmatched.count(Kind::UnknownTransaction);
        };
        let branch = rest.first_chunk::<2>().and_then(|digits| number(digits));
        let Some(slot) = self.find(token) else {
            self.unmatched.count(Kind::Late);
            if cseq.method == Method::Invite && status >= 300 {
                self.traffic.retransmissions += 1;
                self.acknowledge_failure(line, NONE, message, None);
            }
            return;
        };
        let attempt = &self.attempts[slot as usize];
        let numbers = (branch.unwrap_or(u32::MAX), cseq.number);
        let is = |t: &super::attempt::Transaction| {
            numbers == (u32::from(t.branch), t.cseq) && cseq.method == t.method
        };
        if is(&attempt.transaction) && attempt.transaction.active {
            self.answered(slot, line, message, status);
        } else if is(&attempt.cancel) && attempt.cancel.active {
            self.cancelled(slot, status);
        } else {
            self.answered_again(slot, line, message, status, &cseq, numbers);
        }
    }

    /// An answer to nothing that the attempt still waits for.
    fn answered_again(
        &mut self,
        slot: u32,
        line: usize,
        message: &Message<'_>,
        status: u16,
        cseq: &CSeq<'_>,
        numbers: (u32, u32),
    ) {
        let attempt = &self.attempts[slot as usize];
        let known = numbers.0 >= 1 && numbers.0 <= u32::from(attempt.branches);
        if !known {
            return self.unmatched.count(Kind::UnknownTransaction);
        }
        let acknowledged = attempt.acknowledged;
        if numbers.0 == u32::from(attempt.transaction.branch)
            && (attempt.transaction.cseq != numbers.1 || attempt.transaction.method != cseq.method)
            && attempt.cancel.cseq != numbers.1
        {
            return self.unmatched.count(Kind::WrongCSeq);
        }
        self.unmatched.count(Kind::RepeatedResponse);
        if cseq.method != Method::Invite || status < 200 {
            return;
        }
        // The ACK was lost (RFC 3261 sections 13.2.2.4 and 17.1.1.2).
        if status >= 300 {
            self.repeated(slot);
            self.acknowledge_failure(line, slot, message, None);
        } else if numbers == (u32::from(acknowledged.0), acknowledged.1) {
            self.repeated(slot);
            self.transmit_ack(slot);
        }
    }

    fn acknowledge_failure(&mut self, line: usize, slot: u32, message: &Message<'_>, uri: Option<&[u8]>) {
        self.traffic.requests_sent += 1;
        self.send(line, slot, |_, out| {
            let start = out.len();
            // An answer without what an ACK needs gets none.
            if Composer::acknowledge_failure(out, message, uri).is_none() {
                out.truncate(start);
            }
        });
    }

    /// An answer to the request under way.
    fn answered(&mut self, slot: u32, line: usize, message: &Message<'_>, status: u16) {
        if status < 200 {
            return self.proceeding(slot, status);
        }
        self.cancel_timer(slot, CALLER);
        let attempt = self.at(slot);
        attempt.transaction.active = false;
        let method = attempt.transaction.method;
        if method == Method::Invite && status >= 300 {
            let in_dialog = attempt.dialog.is_up();
            let uri = in_dialog.then(|| attempt.dialog.target().to_vec());
            self.acknowledge_failure(line, slot, message, uri.as_deref());
        }
        if matches!(status, 401 | 407) {
            return self.challenged(slot, message, status);
        }
        match method {
            Method::Register => self.registered(slot, status),
            Method::Invite => self.invited(slot, message, status),
            Method::Message => self.delivered(slot, status),
            _ => self.hung_up(slot, status),
        }
    }

    fn proceeding(&mut self, slot: u32, status: u16) {
        let (now, life, t2) = (self.now, self.setup.life, self.setup.t2);
        let attempt = self.at(slot);
        let invite = attempt.transaction.method == Method::Invite;
        let first = !std::mem::replace(&mut attempt.transaction.proceeding, true);
        if !invite {
            attempt.transaction.interval = t2;
            return;
        }
        let rings = status > 100;
        if attempt.cancel.active {
            return;
        }
        if first || rings {
            // From here on the callee takes its time (section 17.1.1.2), but not for ever.
            let deadline = now + life + attempt.ring_time;
            attempt.transaction.deadline = deadline;
            self.set_timer(slot, CALLER, deadline);
        }
        let attempt = self.at(slot);
        if attempt.scenario == Scenario::CallerAbandons && rings && !attempt.waits {
            attempt.waits = true;
            let due = now + attempt.ring_time;
            self.set_timer(slot, CANCEL, due);
        }
    }

    /// 401 or 407.
    fn challenged(&mut self, slot: u32, message: &Message<'_>, status: u16) {
        let proxy = status == 407;
        let name = if proxy { Name::ProxyAuthenticate } else { Name::WwwAuthenticate };
        let challenge = message.lines(name).find_map(|value| Challenge::parse(value).ok());
        let attempt = self.at(slot);
        let (method, sent) = (attempt.transaction.method, attempt.transaction.sent);
        let refused = attempt.refused;
        attempt.refused += 1;
        let Some(challenge) = challenge else {
            let offered = message.header(name).is_some();
            return self.end(slot, Some(if offered { Cause::Challenge } else { Cause::Status(status) }));
        };
        // Credentials made for a challenge of this request are wrong, unless its nonce went stale.
        if refused >= CHALLENGES_MAX || (refused > 0 && !challenge.stale) {
            return self.end(slot, Some(Cause::Status(status)));
        }
        if attempt.auth.meet(&challenge, proxy).is_none() {
            return self.end(slot, Some(Cause::Challenge));
        }
        if method == Method::Register && refused == 0 {
            self.measured(slot, SipMetric::Reg1, sent);
        }
        self.begin_transaction(slot, method);
    }

    /// The final answer to REGISTER.
    fn registered(&mut self, slot: u32, status: u16) {
        if status != 200 {
            return self.end(slot, Some(Cause::Status(status)));
        }
        let attempt = &self.attempts[slot as usize];
        let (scenario, begun, sent) = (attempt.scenario, attempt.begun, attempt.transaction.sent);
        let let_in = attempt.auth.count > 0;
        if let_in {
            self.kept.keep(attempt.caller, &attempt.auth);
        }
        if scenario == Scenario::ReRegistration {
            self.measured(slot, SipMetric::Reg4, begun);
        } else if let_in {
            self.measured(slot, SipMetric::Reg2, sent);
        }
        self.caller_done(slot);
    }

    /// The final answer to INVITE; one of 300 and above is acknowledged already.
    fn invited(&mut self, slot: u32, message: &Message<'_>, status: u16) {
        let attempt = self.at(slot);
        let scenario = attempt.scenario;
        if status >= 300 {
            return match (scenario, status) {
                (Scenario::CalleeRejects, 486)
                | (Scenario::CallerAbandons, 487)
                | (Scenario::CalleeUnknown, 404) => self.caller_done(slot),
                _ => self.end(slot, Some(Cause::Status(status))),
            };
        }
        let again = attempt.dialog.is_up();
        attempt.acknowledged = (attempt.transaction.branch, attempt.transaction.cseq);
        if !again && attempt.dialog.establish(message).is_none() {
            return self.end(slot, Some(Cause::UnusableAnswer));
        }
        self.transmit_ack(slot);
        match scenario {
            Scenario::Calling => self.hold(slot),
            Scenario::ReInvite if again => self.hold(slot),
            Scenario::ReInvite => {
                self.at(slot).stage = CallerState::Acknowledged;
                self.ask_again(slot);
            }
            _ => self.end(slot, Some(Cause::Status(status))),
        }
    }

    /// Sends the second INVITE, once the caller has acknowledged and the callee knows.
    pub(crate) fn ask_again(&mut self, slot: u32) {
        let attempt = self.at(slot);
        if attempt.stage == CallerState::Acknowledged && attempt.acks == 1 {
            self.ask(slot, Method::Invite);
        }
    }

    /// The final answer to MESSAGE.
    fn delivered(&mut self, slot: u32, status: u16) {
        let attempt = &self.attempts[slot as usize];
        let metric = match (attempt.scenario, status) {
            (Scenario::Messaging, 200 | 202) => SipMetric::Pmm1,
            (Scenario::MessageUnregistered, 404) => SipMetric::Pmm2,
            _ => return self.end(slot, Some(Cause::Status(status))),
        };
        let begun = attempt.begun;
        self.measured(slot, metric, begun);
        self.caller_done(slot);
    }

    /// The final answer to BYE.
    fn hung_up(&mut self, slot: u32, status: u16) {
        if status != 200 {
            return self.end(slot, Some(Cause::Status(status)));
        }
        let sent = self.attempts[slot as usize].transaction.sent;
        self.measured(slot, SipMetric::Rel1, sent);
        self.caller_done(slot);
    }

    /// An answer to CANCEL.
    fn cancelled(&mut self, slot: u32, status: u16) {
        if status < 200 {
            return;
        }
        self.cancel_timer(slot, CANCEL);
        self.at(slot).cancel.active = false;
        if status == 200 {
            self.end_if_done(slot);
        } else {
            self.end(slot, Some(Cause::Status(status)));
        }
    }
}
