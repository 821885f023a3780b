//! Data connections: how they are made, what comes and what goes on them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::channel::{self, Channel, Got};
use super::content::{self, Contents};
use super::slot::{Kind, Slot, Transfer, Trouble, Which};
use super::worker::Worker;
use crate::requests::{Outcome, outcome_of};

/// Reads or writes of one connection before others have their turn.
const TURNS: u32 = 4;
/// Bytes of an upload that are sent at once.
const PIECE: u64 = 64 << 10;

impl Transfer {
    /// What a transfer is worth that the server has acknowledged.
    pub(super) fn verdict(&self) -> Outcome {
        match (self.trouble, self.kind) {
            (Some(Trouble::Corrupt | Trouble::NoEntry), _) => Outcome::Corrupt,
            (Some(Trouble::Broken(outcome)), Kind::Stor) => outcome,
            // A data connection that breaks leaves less than there should be, which is acknowledged all the same.
            (_, Kind::List) if self.entries < self.size => Outcome::Lost,
            (_, Kind::Retr | Kind::Stor) if self.moved < self.size => Outcome::Lost,
            (_, Kind::List) if self.entries > self.size => Outcome::Corrupt,
            _ => Outcome::Ok,
        }
    }

    /// The data connection may carry content: an upload begins with that, or with the preliminary reply.
    fn data_ready(&mut self, now: u64) {
        self.marks.tls = now;
        if self.kind == Kind::Stor && self.preliminary {
            self.marks.first = now;
        }
    }

    /// Compares what came with what the file has there.
    fn compare(&mut self, contents: &Contents, plain: &[u8]) {
        let fits = self.moved + plain.len() as u64 <= self.size;
        if !fits || !contents.is(self.content, self.moved, plain) {
            self.trouble.get_or_insert(Trouble::Corrupt);
        }
    }
}

impl Worker<'_> {
    /// Connects to where the server waits.
    pub(super) fn connect_data(&mut self, id: u32, port: u16) {
        let source = self.slots[id as usize].source;
        let there = SocketAddr::new(self.job.target.ip(), port);
        let made = Channel::connect(there, source)
            .and_then(|channel| self.watch(id, Which::Data, &channel).map(|()| channel));
        match made {
            Ok(channel) => self.slots[id as usize].data = Some(channel),
            Err(error) => self.break_session(id, outcome_of(error), 0, "the data connection failed"),
        }
    }

    /// The server connects.
    pub(super) fn listener_event(&mut self, id: u32) {
        let fd = loop {
            let Some(listener) = &self.slots[id as usize].listener else { return };
            match channel::accept(listener) {
                // Somebody else's connection is dropped, and the server's is waited for.
                Ok(Some(fd)) if !self.is_of_server(&fd) => {}
                Ok(Some(fd)) => break fd,
                Ok(None) => return,
                Err(error) => {
                    return self.break_session(id, outcome_of(error), 0, "the data connection failed");
                }
            }
        };
        if let Err(error) = self.watch_fd(id, Which::Data, fd.as_fd()) {
            return self.break_session(id, outcome_of(error), 0, "the data connection can't be watched");
        }
        let slot = &mut self.slots[id as usize];
        (slot.listener, slot.data) = (None, Some(Channel::accepted(fd)));
        self.data_opened(id);
        self.move_on(id);
    }

    /// Whether the server is at the other end.
    fn is_of_server(&self, fd: &OwnedFd) -> bool {
        let peer = rustix::net::getpeername(fd).ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        peer.is_some_and(|peer| peer.ip() == self.job.target.ip())
    }

    /// Something happened on a data connection.
    pub(super) fn data_event(&mut self, id: u32) {
        let Some(data) = &mut self.slots[id as usize].data else { return };
        if !data.open {
            match data.connected() {
                Err(error) => {
                    return self.break_session(id, outcome_of(error), 0, "the data connection failed");
                }
                Ok(()) if rustix::net::getpeername(&data.fd).is_err() => return,
                Ok(()) => data.open = true,
            }
            self.data_opened(id);
        }
        self.move_on(id);
    }

    fn data_opened(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        let Some(transfer) = &mut slot.transfer else { return };
        transfer.marks.connected = self.time.now;
        let protect = self.job.requests.tls.as_ref().is_some_and(|tls| tls.protect);
        let (Some(settings), true) = (self.job.tls, protect) else {
            return transfer.data_ready(self.time.now);
        };
        let (Some(data), Some(of_session)) = (&mut slot.data, &slot.tls) else { return };
        match of_session.connect(settings, false) {
            Ok(tls) => data.tls = Some(Box::new(tls)),
            Err(error) => return self.break_session(id, Outcome::Other, 0, &format!("TLS of data: {error}")),
        }
        self.take_data(id, 0);
    }

    /// The server has said that the transfer begins.
    pub(super) fn may_move(&mut self, id: u32) {
        let now = self.time.now;
        if let Some(transfer) = &mut self.slots[id as usize].transfer {
            transfer.preliminary = true;
            if transfer.kind == Kind::Stor && transfer.marks.tls > 0 {
                transfer.marks.first = now;
            }
        }
        self.move_on(id);
    }

    /// Moves what can be moved.
    pub(super) fn move_on(&mut self, id: u32) {
        let generation = self.slots[id as usize].generation;
        for _ in 0..TURNS {
            if !self.turn(id) || self.slots[id as usize].generation != generation {
                return;
            }
            self.time.tell();
        }
        self.again.push((id, generation));
    }

    /// Reads or writes once; whether there may be more.
    fn turn(&mut self, id: u32) -> bool {
        let slot = &mut self.slots[id as usize];
        let (Some(data), Some(transfer)) = (&mut slot.data, &slot.transfer) else { return false };
        if !data.open {
            return false;
        }
        if !data.unsent.is_empty() {
            match data.send_or_keep(&[]) {
                Ok(sent) => self.recorder.sent(self.time.now, sent),
                Err(error) => {
                    self.data_broke(id, error);
                    return false;
                }
            }
        }
        let uploads = transfer.kind == Kind::Stor && transfer.preliminary && !transfer.ended;
        let read = self.receive_data(id);
        let ready = |slot: &Slot| {
            slot.data.as_ref().is_some_and(|d| d.unsent.is_empty() && d.tls.as_ref().is_none_or(|t| t.ready))
        };
        if uploads && ready(&self.slots[id as usize]) {
            return self.upload(id) || read;
        }
        read
    }

    /// Reads once; whether there may be more.
    fn receive_data(&mut self, id: u32) -> bool {
        let Some(data) = &self.slots[id as usize].data else { return false };
        let torn = data.tls.as_ref().map_or(0, |tls| tls.torn.len());
        match data.receive(&mut self.buffer[torn..]) {
            Ok(Got::Nothing) => false,
            Ok(Got::Bytes(got)) => {
                self.recorder.received(self.time.now, got);
                self.take_data(id, got)
            }
            Ok(Got::End) => {
                self.data_ended(id);
                false
            }
            Err(error) => {
                self.data_broke(id, error);
                false
            }
        }
    }

    /// Takes what came, `got` bytes behind those that were torn; whether more may be read.
    fn take_data(&mut self, id: u32, got: usize) -> bool {
        let (now, contents) = (self.time.now, self.job.contents);
        let Slot { data: Some(data), transfer: Some(transfer), lines, .. } = &mut self.slots[id as usize]
        else {
            return false;
        };
        let mut compared = 0;
        let requests = self.job.requests;
        let mut content = |plain: &[u8]| {
            if transfer.marks.first == 0 {
                transfer.marks.first = now;
            }
            match transfer.kind {
                Kind::Retr => {
                    compared += plain.len() as u64;
                    transfer.compare(contents, plain);
                }
                Kind::List => read_lines(lines, transfer, plain, |n| content::size_of(requests.size, n)),
                Kind::Stor => drop(transfer.trouble.get_or_insert(Trouble::Corrupt)),
            }
            if transfer.kind != Kind::Stor {
                transfer.moved += plain.len() as u64;
            }
        };
        let Some(tls) = &mut data.tls else {
            content(&self.buffer[..got]);
            self.tally.compared(transfer, compared);
            return true;
        };
        let (torn, was_ready) = (tls.torn.len(), tls.ready);
        self.buffer[..torn].copy_from_slice(&tls.torn);
        self.out.clear();
        let taken = match tls.take(&mut self.buffer[..torn + got], &mut self.out, content) {
            Ok(taken) => taken,
            Err(error) => {
                let _ = data.send_or_keep(&self.out);
                self.break_session(id, Outcome::Protocol, 0, &format!("TLS of data: {error}"));
                return false;
            }
        };
        tls.torn.clear();
        tls.torn.extend_from_slice(&self.buffer[taken..torn + got]);
        if tls.ready && !was_ready {
            transfer.data_ready(now);
            self.tally.handshake(tls, false, now);
        }
        self.tally.compared(transfer, compared);
        let closed = tls.peer_closed;
        match data.send_or_keep(&self.out) {
            Ok(sent) => self.recorder.sent(now, sent),
            Err(error) => {
                self.data_broke(id, error);
                return false;
            }
        }
        if closed {
            self.data_ended(id);
        }
        !closed
    }

    /// Sends a piece of an upload; whether more can be sent.
    fn upload(&mut self, id: u32) -> bool {
        let Slot { data: Some(data), transfer: Some(transfer), .. } = &mut self.slots[id as usize] else {
            return false;
        };
        let left = transfer.size - transfer.moved;
        let piece = self.job.contents.piece(transfer.content, transfer.moved, left.min(PIECE));
        let sent = match &mut data.tls {
            _ if left == 0 => Ok((0, 0)),
            None => data.send(piece).map(|sent| (sent, sent)),
            Some(tls) => {
                self.out.clear();
                if !tls.encrypt(piece, &mut self.out) {
                    self.data_broke(id, Errno::PIPE);
                    return false;
                }
                data.send_or_keep(&self.out).map(|sent| (sent, piece.len()))
            }
        };
        match sent {
            Ok((sent, moved)) => {
                self.recorder.sent(self.time.now, sent);
                transfer.moved += moved as u64;
                if transfer.moved == transfer.size && data.unsent.is_empty() {
                    self.upload_ended(id);
                    return false;
                }
                moved > 0 && data.unsent.is_empty()
            }
            Err(error) => {
                self.data_broke(id, error);
                false
            }
        }
    }

    /// All of an upload has been sent: the server is told so. The connection stays open for reading: closing it while tickets of
    /// TLS 1.3 are unread would reset it, and the server would lose the end.
    fn upload_ended(&mut self, id: u32) {
        let now = self.time.now;
        let Slot { data: Some(data), transfer: Some(transfer), .. } = &mut self.slots[id as usize] else {
            return;
        };
        let mut ended = Ok(0);
        if let Some(tls) = &mut data.tls {
            self.out.clear();
            tls.close(&mut self.out);
            ended = data.send_or_keep(&self.out);
        }
        let ended = ended.and_then(|_| rustix::net::shutdown(&data.fd, rustix::net::Shutdown::Write));
        (transfer.ended, transfer.clean, transfer.marks.last) = (true, true, now);
        if let Err(error) = ended {
            transfer.trouble = Some(Trouble::Broken(outcome_of(error)));
        }
        self.complete(id);
    }

    /// The server has ended the data connection.
    fn data_ended(&mut self, id: u32) {
        let now = self.time.now;
        let Slot { data, transfer: Some(transfer), lines, .. } = &mut self.slots[id as usize] else { return };
        let Some(mut channel) = data.take() else { return };
        if transfer.kind == Kind::Stor {
            // It may close once it has all.
            if !transfer.ended {
                transfer.ended = true;
                transfer.trouble.get_or_insert(Trouble::Broken(Outcome::Reset));
            }
            return self.complete(id);
        }
        transfer.clean = channel.tls.as_ref().is_none_or(|tls| tls.peer_closed);
        if let Some(tls) = &mut channel.tls
            && tls.peer_closed
        {
            self.out.clear();
            tls.close(&mut self.out);
            // Nobody waits for it any more.
            let _ = channel.send_or_keep(&self.out);
        }
        if lines.is_within() {
            transfer.trouble.get_or_insert(Trouble::NoEntry);
        }
        if transfer.marks.first == 0 {
            transfer.marks.first = now;
        }
        (transfer.ended, transfer.marks.last) = (true, now);
        self.complete(id);
    }

    /// The data connection broke; the final reply says whether the server knows.
    fn data_broke(&mut self, id: u32, error: Errno) {
        let slot = &mut self.slots[id as usize];
        slot.data = None;
        if let Some(transfer) = &mut slot.transfer {
            if !transfer.ended {
                transfer.trouble.get_or_insert(Trouble::Broken(outcome_of(error)));
            }
            (transfer.ended, transfer.marks.last) = (true, self.time.now);
        }
        self.complete(id);
    }
}

/// Reads the lines of a LIST: each file has its size.
fn read_lines(
    lines: &mut vtax_wire::ftp::ListScanner,
    transfer: &mut Transfer,
    mut plain: &[u8],
    size: impl Fn(u32) -> u64,
) {
    while !plain.is_empty() {
        let Ok(scanned) = lines.scan(plain) else {
            transfer.trouble.get_or_insert(Trouble::NoEntry);
            return;
        };
        match scanned.line {
            None => {}
            Some(Err(())) => drop(transfer.trouble.get_or_insert(Trouble::NoEntry)),
            Some(Ok(entry)) => match entry.name.and_then(content::number_of) {
                Some(number) if entry.size == size(number) => transfer.entries += 1,
                Some(_) => drop(transfer.trouble.get_or_insert(Trouble::Corrupt)),
                // What others have there.
                None => {}
            },
        }
        plain = &plain[scanned.consumed..];
    }
}
