//! The sound of calls: which messages open, begin and end it.
//!
//! A caller hears and speaks from the answer to its INVITE on; a callee hears from its answer on and speaks from the ACK on, when the caller
//! and whatever is on the way know where to. Whoever answers a BYE says with that what was sent and heard.

use vtax_wire::sdp::Audio;
use vtax_wire::sip::{Message, Method, Name, StartLine};

use super::end::Cause;
use super::machine::{Machine, Port};
use crate::family::sip::media::{HEADER, Told};

impl Machine<'_> {
    /// Opens the port of a new call; false, and the call has failed, where there is none.
    pub(super) fn open_sound(&mut self, slot: u32, port: &impl Port) -> bool {
        let Some(media) = &mut self.media else { return true };
        let call = &mut self.calls[slot as usize];
        match media.port(slot, port.local(call.line).ip()) {
            Some(own) => call.media_port = own,
            None => self.fail(slot, Cause::NoPort),
        }
        self.calls[slot as usize].media_port > 0
    }

    /// A message is about to be sent, which is in the buffer.
    pub(super) fn sound_of_sent(&mut self, slot: u32) {
        let Some(media) = &mut self.media else { return };
        let Ok(message) = Message::parse(&self.out) else { return };
        let call = &self.calls[slot as usize];
        let method = message.cseq().map(|cseq| cseq.method);
        let tells = match (message.start(), method) {
            (StartLine::Status { code: 200..=299, .. }, Ok(Method::Invite)) => {
                if let Some(far) = &call.far {
                    media.listen(slot, far);
                }
                false
            }
            (StartLine::Status { code: 200..=299, .. }, Ok(Method::Bye)) => true,
            (StartLine::Request { method: Method::Bye, .. }, _) => self.shared.scenario.is_server,
            _ => false,
        };
        let ends = tells || message.method() == Some(Method::Bye);
        let told = if ends { media.hush(slot) } else { None };
        if let Some(told) = told.filter(|_| tells) {
            insert(&mut self.out, &told);
        }
    }

    /// A message has come.
    pub(super) fn sound_of_received(&mut self, slot: u32, message: &Message<'_>) {
        let Some(media) = &mut self.media else { return };
        let call = &mut self.calls[slot as usize];
        if let Some(told) = message.header_named(HEADER).and_then(Told::read) {
            call.far_told = Some(told);
        }
        let describes = |kind: &[u8]| kind.len() >= 15 && kind[..15].eq_ignore_ascii_case(b"application/sdp");
        if !message.body().is_empty() && message.header(Name::ContentType).is_some_and(describes) {
            match Audio::parse(message.body()) {
                Ok(far) => call.far = Some(far),
                Err(why) => media.refused(&why),
            }
        }
        let begins = match message.start() {
            StartLine::Status { code: 200..=299, .. } => {
                message.cseq().is_ok_and(|cseq| cseq.method == Method::Invite)
            }
            StartLine::Request { method: Method::Ack, .. } => true,
            StartLine::Request { method: Method::Bye, .. } => {
                media.hush(slot);
                false
            }
            _ => false,
        };
        if let Some(far) = call.far.as_ref().filter(|_| begins) {
            media.listen(slot, far);
            media.talk(slot);
        }
    }

    /// A call is over.
    pub(super) fn end_sound(&mut self, slot: u32) {
        let Some(media) = &mut self.media else { return };
        media.end(slot, self.calls[slot as usize].far_told.as_ref());
    }

    /// Fails calls of a server whose other end has fallen silent: it has gone without a word.
    pub(super) fn end_silent(&mut self, silent: &mut Vec<u32>) {
        let Some(media) = &self.media else { return };
        media.silent(silent);
        for slot in silent.drain(..) {
            if self.is_under_way(slot) {
                let command = self.calls[slot as usize].command;
                self.fail(slot, Cause::Silence(command));
            }
        }
    }
}

/// Puts what is told behind the first line of a message.
fn insert(message: &mut Vec<u8>, told: &Told) {
    let Some(at) = message.windows(2).position(|two| two == b"\r\n").map(|at| at + 2) else { return };
    let end = message.len();
    told.write(message);
    let line = message.len() - end;
    message[at..].rotate_right(line);
}
