//! A call.

use std::net::SocketAddr;

use vtax_wire::sdp::Audio;
use vtax_wire::sip::Method;

use crate::family::sip::auth::Auth;
use crate::family::sip::media::Told;

/// What a call waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Waiting {
    /// For nothing: it is over.
    #[default]
    Nothing,
    /// For a message.
    Message,
    /// For the end of a pause.
    Pause,
    /// It is over but answers again what is sent again.
    TimeWait,
}

/// A variable.
#[derive(Debug, Default)]
pub(super) struct Variable {
    pub(super) held: Held,
    pub(super) number: f64,
    pub(super) text: Vec<u8>,
}

/// What a variable holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Held {
    #[default]
    Nothing,
    Truth,
    Number,
    Text,
}

impl Variable {
    /// Whether `test` takes it for set.
    pub(super) fn is_set(&self) -> bool {
        match self.held {
            Held::Nothing => false,
            Held::Truth => self.number != 0.0,
            Held::Number | Held::Text => true,
        }
    }

    pub(super) fn set_number(&mut self, number: f64) {
        (self.held, self.number) = (Held::Number, number);
    }

    pub(super) fn set_truth(&mut self, truth: bool) {
        (self.held, self.number) = (Held::Truth, f64::from(u8::from(truth)));
    }

    pub(super) fn set_text(&mut self, text: &[u8]) {
        self.held = Held::Text;
        self.text.clear();
        self.text.extend_from_slice(text);
    }

    /// As a text; empty where it holds none, as the memory may still have an earlier call's.
    pub(super) fn as_text(&self) -> &[u8] {
        if self.held == Held::Text { &self.text } else { b"" }
    }

    /// As a number: that which a text begins with, 0 where it has none.
    pub(super) fn as_number(&self) -> f64 {
        match self.held {
            Held::Nothing => 0.0,
            Held::Truth | Held::Number => self.number,
            Held::Text => leading_number(&self.text),
        }
    }
}

/// The number that a text begins with.
pub(super) fn leading_number(text: &[u8]) -> f64 {
    let text = text.trim_ascii_start();
    let is_part = |(at, byte): (usize, &u8)| {
        byte.is_ascii_digit() || *byte == b'.' || (at == 0 && matches!(byte, b'-' | b'+'))
    };
    let end = text.iter().enumerate().position(|found| !is_part(found)).unwrap_or(text.len());
    std::str::from_utf8(&text[..end.min(64)]).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// A call. Its memory is used again for the next in its place.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// Which call of this place it is.
    pub(super) generation: u32,
    pub(super) waiting: Waiting,
    /// The line it goes over.
    pub(super) line: u32,
    /// From 1.
    pub(super) number: u64,
    /// When it was meant to begin.
    pub(super) start: u64,
    /// The command that is next, or waits.
    pub(super) command: u16,
    /// When what waits is over; `u64::MAX`: never.
    pub(super) until: u64,
    /// Since when it waits for a message.
    pub(super) since: u64,
    /// When each timer began, and whether it has ended.
    pub(super) timers: Vec<(u64, bool)>,
    /// What the first timer said first.
    pub(super) response: Option<u64>,
    pub(super) variables: Vec<Variable>,
    /// The call's line of each injection file.
    pub(super) lines: Vec<u32>,
    /// The message that came last.
    pub(super) last: Vec<u8>,
    /// The message that was sent last, and the command that did so.
    pub(super) sent: Vec<u8>,
    pub(super) sent_by: u16,
    /// The response or ACK that what came last was answered with, and its command.
    pub(super) reply: Vec<u8>,
    pub(super) reply_by: u16,
    /// Of the request that was sent last: answers to others are late.
    pub(super) asked: Option<(u32, Method)>,
    /// The number of an INVITE that has no final answer yet.
    pub(super) invited: Option<u32>,
    /// When what was sent last is sent again; `u64::MAX`: not.
    pub(super) again: u64,
    pub(super) interval: u64,
    /// When it is given up.
    pub(super) give_up: u64,
    pub(super) cseq: u32,
    pub(super) call_id: Vec<u8>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) peer_tag: Vec<u8>,
    pub(super) routes: Vec<u8>,
    pub(super) next_url: Vec<u8>,
    pub(super) auth: Auth,
    /// Where its sound is heard; 0: it has none.
    pub(super) media_port: u16,
    /// The other end's sound, as its session description says.
    pub(super) far: Option<Audio>,
    /// What the other end says that it sent and heard.
    pub(super) far_told: Option<Told>,
}

impl Call {
    /// Prepares its memory for another call.
    pub(super) fn begin(&mut self, number: u64, start: u64, (timers, variables): (usize, usize)) {
        self.generation = self.generation.wrapping_add(1);
        (self.number, self.start, self.command) = (number, start, 0);
        (self.until, self.again, self.give_up) = (u64::MAX, u64::MAX, u64::MAX);
        self.timers.clear();
        self.timers.resize(timers, (start, false));
        self.response = None;
        self.variables.resize_with(variables, Variable::default);
        self.variables.iter_mut().for_each(|variable| variable.held = Held::Nothing);
        self.lines.clear();
        let texts = [&mut self.last, &mut self.sent, &mut self.reply, &mut self.call_id];
        texts.into_iter().for_each(Vec::clear);
        [&mut self.peer_tag, &mut self.routes, &mut self.next_url].into_iter().for_each(Vec::clear);
        (self.asked, self.invited, self.cseq) = (None, None, 0);
        (self.sent_by, self.reply_by) = (0, 0);
        self.peer = None;
        self.auth.clear();
        (self.media_port, self.far, self.far_told) = (0, None, None);
    }

    /// When its timer is next due; `u64::MAX`: never.
    pub(super) fn due(&self) -> u64 {
        self.until.min(self.again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_what_they_were_set_to() {
        let mut variable = Variable::default();
        assert!(!variable.is_set());
        variable.set_truth(false);
        assert!(!variable.is_set());
        variable.set_number(0.0);
        assert!(variable.is_set());
        variable.set_text(b" -12.5abc");
        assert!(variable.is_set());
        assert_eq!(variable.as_number(), -12.5);
        assert_eq!(variable.as_text(), b" -12.5abc");
        variable.set_number(1.0);
        assert_eq!(variable.as_text(), b"");
        for (text, number) in [("", 0.0), ("abc", 0.0), ("7", 7.0), ("1-2", 1.0), ("..", 0.0)] {
            assert_eq!(leading_number(text.as_bytes()), number, "{text}");
        }
    }
}
