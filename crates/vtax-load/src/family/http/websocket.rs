//! WebSockets of sessions (RFC 6455): messages that are sent, and must come back as they were.
//!
//! Each message has bytes of its own, so that the echo of another one is none. It leaves in frames of at most a piece, between
//! which pings can be answered. Echoes may come in any parts; they are compared as they come, and not kept.

use rand::RngExt;
use rand::rngs::StdRng;
use vtax_wire::http::Response;
use vtax_wire::websocket::{
    ACCEPT_BYTES, Control, Event, FrameHead, Mask, Opcode, Receiver, Role, accept_for, key_of, write_close,
    write_control,
};

use super::exchange::{Dialog, Exchange, KEPT, Wrong, field, fields};
use super::script::{Echo, PIECE, Part, Ready, Request};
use crate::requests::{Answer, Outcome};

/// Answers to pings that wait for the kernel; a server that asks for more than it takes isn't heard any more.
const PONGS_MAX: usize = 64 << 10;

/// A connection that has become a WebSocket.
#[derive(Debug)]
pub(super) struct Socket {
    receiver: Receiver,
    /// Control frames that are to be sent.
    control: Vec<u8>,
    /// Where the message under way begins in the bytes that are sent.
    start: usize,
    /// Frames of it are to be sent.
    talks: bool,
    /// Its echo isn't what it should be.
    wrong: bool,
}

impl Socket {
    fn new() -> Self {
        let receiver = Receiver::new(Role::Client, KEPT as u64);
        Self { receiver, control: Vec::new(), start: 0, talks: false, wrong: false }
    }

    /// Appends what is to be said besides messages.
    pub(super) fn say(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.control);
    }
}

/// Appends the fields that ask for a WebSocket.
pub(super) fn ask(random: &mut StdRng, dialog: &mut Dialog, out: &mut Vec<u8>) {
    let key = key_of(random.random::<u128>().to_ne_bytes());
    dialog.accept = accept_for(&key);
    dialog.scanner.expect_upgrade();
    out.extend_from_slice(
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ",
    );
    out.extend_from_slice(&key);
    out.extend_from_slice(b"\r\n");
}

impl Exchange {
    /// The server may have answered that it speaks WebSockets; what is wrong with that where it has not.
    pub(super) fn open_socket(dialog: &mut Dialog, request: &Request) -> Result<(), Wrong> {
        let Part::Open { offers_protocol } = request.part else { return Ok(()) };
        check_upgrade(&dialog.head, &dialog.accept, offers_protocol)?;
        dialog.socket = Some(Box::new(Socket::new()));
        Ok(())
    }

    /// Appends the beginning of a message, or of the end.
    pub(super) fn write_frames(&mut self, dialog: &mut Dialog, ready: &Ready, out: &mut Vec<u8>) {
        let request = dialog.session.request(ready);
        dialog.begin(request, self.now);
        let start = self.random.random_range(0..PIECE);
        let key = self.key();
        let Some(socket) = &mut dialog.socket else { return };
        socket.say(out);
        let Part::Messages(echo) = &request.part else { return write_close(1000, Some(key), out) };
        (socket.start, socket.talks, socket.wrong) = (start, true, false);
        dialog.left = echo.size;
        self.next_frame(dialog, ready, echo, out);
    }

    fn key(&mut self) -> [u8; 4] {
        self.random.random::<u32>().to_ne_bytes()
    }

    /// Appends the next frame of the message under way, where there is one.
    pub(super) fn next_frame(&mut self, dialog: &mut Dialog, ready: &Ready, echo: &Echo, out: &mut Vec<u8>) {
        let key = self.key();
        let Some(socket) = dialog.socket.as_mut().filter(|socket| socket.talks) else { return };
        let length = dialog.left.min(PIECE as u64);
        let opcode = match (dialog.left == echo.size, echo.text) {
            (false, _) => Opcode::Continuation,
            (true, true) => Opcode::Text,
            (true, false) => Opcode::Binary,
        };
        let last = length == dialog.left;
        FrameHead { last, opcode, key: Some(key), length }.write(out);
        let from = out.len();
        for part in parts(content(ready, echo), socket.start, echo.size - dialog.left, length as usize) {
            out.extend_from_slice(part);
        }
        Mask::new(key).apply(&mut out[from..]);
        dialog.left -= length;
        socket.talks = !last;
    }

    /// Takes what came on a WebSocket; the answer to what was asked, where it is whole.
    pub(super) fn hear_frames(
        &mut self,
        dialog: &mut Dialog,
        ready: &Ready,
        bytes: &[u8],
    ) -> Result<Option<Answer>, Outcome> {
        let mut answer: Option<Answer> = None;
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(socket) = &mut dialog.socket else { return Err(Outcome::Protocol) };
            let scanned = socket.receiver.scan(rest).map_err(|error| {
                self.failed(|| format!("a WebSocket: {error}"));
                Outcome::Protocol
            })?;
            let (done, after) = rest.split_at(scanned.consumed);
            rest = after;
            match scanned.event {
                None | Some(Event::Pong(_)) => {}
                Some(Event::Ping(ping)) => self.pinged(dialog, &ping)?,
                Some(Event::Data { length, text, last, .. }) => {
                    if !dialog.asked || answer.is_some() {
                        self.failed(|| "a server sent a message that nobody asked for".to_owned());
                        return Err(Outcome::Protocol);
                    }
                    dialog.compare(ready, &done[done.len() - length..], text)?;
                    if last {
                        let judged = dialog.judge_echo(ready);
                        let keep = judged.is_ok();
                        answer = Some(self.conclude(dialog, ready, judged, 0, keep));
                    }
                }
                Some(Event::Close(_)) if dialog.asked => {
                    let closing = matches!(dialog.session.request(ready).part, Part::Close);
                    if !closing {
                        self.failed(|| "a server closed a WebSocket before it had sent all".to_owned());
                        return Err(Outcome::Reset);
                    }
                    answer = Some(self.conclude(dialog, ready, Ok(()), 0, false));
                }
                // What was asked before has been answered.
                Some(Event::Close(_)) => {
                    let Some(before) = answer else { return Err(Outcome::Reset) };
                    return Ok(Some(Answer { keep: false, ..before }));
                }
            }
        }
        Ok(answer)
    }

    fn pinged(&mut self, dialog: &mut Dialog, ping: &Control) -> Result<(), Outcome> {
        let key = self.key();
        self.found.pings += u64::from(self.now >= self.from);
        let Some(socket) = &mut dialog.socket else { return Ok(()) };
        if socket.control.len() > PONGS_MAX {
            self.failed(|| "a server asks for answers to pings and doesn't take them".to_owned());
            return Err(Outcome::Protocol);
        }
        write_control(Opcode::Pong, Some(key), ping.bytes(), &mut socket.control);
        Ok(())
    }
}

impl Dialog {
    /// Compares a piece of an echo with what was sent.
    fn compare(&mut self, ready: &Ready, piece: &[u8], text: bool) -> Result<(), Outcome> {
        let Part::Messages(echo) = &self.session.request(ready).part else { return Err(Outcome::Protocol) };
        let Some(socket) = &mut self.socket else { return Err(Outcome::Protocol) };
        let end = self.length + piece.len() as u64;
        if end > echo.size || text != echo.text {
            socket.wrong = true;
        } else {
            let mut rest = piece;
            for part in parts(content(ready, echo), socket.start, self.length, piece.len()) {
                let (own, after) = rest.split_at(part.len());
                socket.wrong |= own != part;
                rest = after;
            }
        }
        self.length = end;
        Ok(())
    }

    /// Whether the whole echo is what it should be.
    fn judge_echo(&self, ready: &Ready) -> Result<(), Wrong> {
        let wrong = |outcome, why: &str| Err(Wrong { outcome, why: why.to_owned() });
        let (Part::Messages(echo), Some(socket)) = (&self.session.request(ready).part, &self.socket) else {
            return wrong(Outcome::Protocol, "a message came where none was asked for");
        };
        if socket.talks {
            return wrong(Outcome::Unexpected, "an echo was there before its message was sent");
        }
        if socket.wrong || self.length != echo.size {
            return wrong(Outcome::Corrupt, "the echo of a message isn't what was sent");
        }
        Ok(())
    }
}

/// The bytes of which messages are parts, again and again.
fn content<'r>(ready: &'r Ready, echo: &Echo) -> &'r [u8] {
    if echo.text { &ready.letters } else { &ready.noise }
}

/// The parts of a message from a place in it on: a message begins at `start` of the content, which begins anew at its end.
fn parts(content: &[u8], start: usize, from: u64, length: usize) -> impl Iterator<Item = &[u8]> {
    // Below the content's length, so the conversion can't lose anything.
    let mut at = ((start as u64 + from) % content.len() as u64) as usize;
    let mut left = length;
    std::iter::from_fn(move || {
        let part = content.get(at..content.len().min(at + left)).filter(|part| !part.is_empty())?;
        left -= part.len();
        at = (at + part.len()) % content.len();
        Some(part)
    })
}

/// Whether an answer opens a WebSocket as it must (RFC 6455 section 4.1).
fn check_upgrade(head: &[u8], accept: &[u8; ACCEPT_BYTES], offers_protocol: bool) -> Result<(), Wrong> {
    let wrong = |why: &str| Err(Wrong { outcome: Outcome::Unexpected, why: why.to_owned() });
    let lists = |name: &[u8], word: &[u8]| {
        let mut all = fields(head).filter(|(own, _)| own.eq_ignore_ascii_case(name));
        all.any(|(_, value)| {
            value.split(|b| *b == b',').any(|own| own.trim_ascii().eq_ignore_ascii_case(word))
        })
    };
    if !lists(b"upgrade", b"websocket") || !lists(b"connection", b"upgrade") {
        return wrong("an answer of 101 wasn't to a WebSocket");
    }
    if field(head, b"sec-websocket-accept") != Some(&accept[..]) {
        return wrong("a server that was asked for a WebSocket didn't answer its key");
    }
    let said = |name: &[u8]| field(head, name).is_some_and(|value| !value.is_empty());
    if said(b"sec-websocket-extensions") || said(b"sec-websocket-protocol") && !offers_protocol {
        return wrong("a server chose an extension or a protocol of WebSockets that wasn't offered");
    }
    Ok(())
}

/// True of an answer that has made its connection a WebSocket.
pub(super) const fn switches(response: Response) -> bool {
    response.status == 101
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parts_of_what_begins_anew() {
        let of = |start, from, length| parts(b"abcde", start, from, length).collect::<Vec<_>>().concat();
        assert_eq!(of(3, 0, 7), b"deabcde");
        assert_eq!(of(3, 4, 3), b"cde");
        assert_eq!(of(0, 10, 5), b"abcde");
        assert_eq!(of(4, 0, 0), b"");
    }

    #[test]
    fn an_answer_must_be_to_this_key() {
        let accept = accept_for(b"dGhlIHNhbXBsZSBub25jZQ==");
        let told =
            |head: &str, offers| check_upgrade(head.as_bytes(), &accept, offers).map_err(|wrong| wrong.why);
        let head = "HTTP/1.1 101 X\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        assert_eq!(told(head, false), Ok(()));
        let without = |line: &str| told(&head.replace(line, ""), false).unwrap_err();
        assert!(without("Upgrade: WebSocket\r\n").contains("101"));
        assert!(without("Connection: upgrade\r\n").contains("101"));
        assert!(without("K+").contains("key"));
        let protocol = format!("{head}Sec-WebSocket-Protocol: chat\r\n");
        assert_eq!(told(&protocol, true), Ok(()));
        assert!(told(&protocol, false).is_err());
        assert!(told(&format!("{head}Sec-WebSocket-Extensions: x\r\n"), true).is_err());
    }
}
