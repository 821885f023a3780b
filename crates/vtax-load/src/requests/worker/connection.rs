//! A worker's connections: how they are made, written to, read from and ended.

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use super::{BUFFER_BYTES, INDEX_SHIFT, Worker};
use crate::requests::dialogue::{Answer, Dialogue, Taken};
use crate::requests::recorder::Outcome;
use crate::requests::slots::Phase;

/// Body bytes are dropped in the kernel, uncopied, where at least this many are to come.
const TRUNCATE_BYTES: u64 = 8 * 1024;
/// How long a server may take to close, and how long a closed loop waits after a connection
/// attempt failed.
const PAUSE: u64 = 50_000_000;

impl<D: Dialogue> Worker<'_, D> {
    pub(super) fn connect(&mut self, id: u32) -> Result<(), Errno> {
        self.tell_dialogue();
        let family = if self.job.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match rustix::net::connect(&fd, &self.job.target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let slot = self.slots.get(id);
        let token = u64::from(slot.generation) << 32 | u64::from(self.index << INDEX_SHIFT | id);
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(self.events.epoll(), &fd, epoll::EventData::new_u64(token), flags)?;
        slot.fd = Some(fd);
        slot.fresh = true;
        slot.greeting = false;
        slot.served = 0;
        self.connecting += 1;
        if D::SENDS_BESIDES_REQUESTS {
            self.dialogue.connecting(&mut slot.dialogue);
        }
        Ok(())
    }

    /// Tells a dialogue that sends besides its requests the time as it is: it takes the times of connections and their greetings.
    pub(super) fn tell_dialogue(&mut self) {
        if D::SENDS_BESIDES_REQUESTS {
            self.time.tell();
            self.dialogue.set_now(self.time.now);
        }
    }

    /// Sends what was written for a slot, right after connect(2) too: on the same machine the handshake is
    /// often over by then. What the kernel doesn't take now is kept.
    pub(super) fn flush(&mut self, id: u32) {
        if !D::ANSWERS_IN_ANY_ORDER || !self.out.is_empty() {
            self.put(id);
        }
        if D::SENDS_BESIDES_REQUESTS {
            self.send_besides(id);
        }
        self.list_busy(id);
    }

    /// Sends what the dialogue has to say besides requests, as long as the kernel takes it.
    pub(super) fn send_besides(&mut self, id: u32) {
        loop {
            let slot = self.slots.get(id);
            if slot.fd.is_none() || !slot.unsent.is_empty() {
                return;
            }
            self.dialogue.write_besides(&mut slot.dialogue, &mut self.out);
            if self.out.is_empty() {
                return;
            }
            self.put(id);
        }
    }

    fn put(&mut self, id: u32) {
        let slot = self.slots.get(id);
        if !slot.unsent.is_empty() {
            slot.unsent.extend_from_slice(&self.out);
            self.out.clear();
            self.transmit(id);
        } else if let Some(fd) = &slot.fd {
            let sent = rustix::net::send(fd, &self.out, SendFlags::NOSIGNAL);
            slot.unsent.extend_from_slice(&self.out[sent.unwrap_or(0)..]);
            self.out.clear();
            self.transmitted(id, sent);
        } else {
            self.out.clear();
        }
    }

    /// Sends what was kept.
    fn transmit(&mut self, id: u32) {
        let slot = self.slots.get(id);
        let Some(fd) = &slot.fd else { return };
        let sent = rustix::net::send(fd, &slot.unsent, SendFlags::NOSIGNAL);
        slot.unsent.drain(..sent.unwrap_or(0));
        self.transmitted(id, sent);
    }

    fn transmitted(&mut self, id: u32, sent: Result<usize, Errno>) {
        match sent {
            Ok(bytes) => {
                if self.slots.get(id).fresh {
                    // On the same machine the handshake took place since the clock was last asked.
                    self.tell_dialogue();
                    let slot = self.slots.get(id);
                    slot.fresh = false;
                    self.connecting -= 1;
                    self.recorder.connected(self.time.now);
                    if D::SENDS_BESIDES_REQUESTS {
                        self.dialogue.connected(&mut slot.dialogue);
                    }
                }
                self.recorder.sent(self.time.now, bytes);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.end(id, outcome_of(error), true),
        }
    }

    pub(super) fn event(&mut self, token: u64, flags: epoll::EventFlags) {
        let (id, generation) = (token as u32 & ((1 << INDEX_SHIFT) - 1), (token >> 32) as u32);
        let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let ended = broken || flags.contains(epoll::EventFlags::RDHUP);
        let readable = ended || flags.contains(epoll::EventFlags::IN);
        let slot = self.slots.get(id);
        if slot.generation != generation {
            return;
        }
        self.tell_dialogue();
        let slot = self.slots.get(id);
        if !slot.unsent.is_empty() && (broken || flags.contains(epoll::EventFlags::OUT)) {
            self.transmit(id);
            if D::SENDS_BESIDES_REQUESTS {
                self.send_besides(id);
            }
        }
        let slot = self.slots.get(id);
        // Ending a request in between may have given the slot to another connection.
        if slot.generation != generation {
            return;
        }
        match slot.phase {
            Phase::Busy if readable => self.receive(id, ended),
            Phase::Ready if D::ANSWERS_IN_ANY_ORDER && readable => self.receive(id, ended),
            Phase::Opening if broken => {
                self.close(id, false);
                self.park(id, Phase::Paused);
            }
            Phase::Opening if D::SENDS_BESIDES_REQUESTS => self.greet(id, readable),
            Phase::Opening => {
                slot.fresh = false;
                self.connecting -= 1;
                self.recorder.connected(self.time.now);
                self.release(id);
            }
            // What a peer says last comes before its end.
            Phase::Closing if D::SENDS_BESIDES_REQUESTS && !ended => {}
            Phase::Closing if readable => {
                if D::SENDS_BESIDES_REQUESTS
                    && let Some(fd) = &slot.fd
                {
                    // Left unread, what the peer said last would reset the connection.
                    let _ = rustix::net::recv(fd, &mut self.buffer[..], RecvFlags::empty());
                }
                self.slots.unpark(id);
                self.close(id, false);
                self.release(id);
            }
            Phase::Ready | Phase::Thinking if D::SENDS_BESIDES_REQUESTS && readable => self.heed(id),
            // The server ends an idle connection, or sends what was not asked for. The slot stays
            // among the idle ones and connects anew when its turn comes.
            Phase::Ready if readable => self.close(id, true),
            _ => {}
        }
    }

    /// A connection that is opened ahead is there, or has got further.
    fn greet(&mut self, id: u32, readable: bool) {
        let slot = self.slots.get(id);
        if slot.fresh {
            slot.fresh = false;
            slot.greeting = true;
            self.recorder.connected(self.time.now);
            self.dialogue.connected(&mut slot.dialogue);
        }
        if readable {
            self.heed(id);
        }
        self.send_besides(id);
        let slot = self.slots.get(id);
        // It may have ended meanwhile, and was given back then.
        if slot.phase != Phase::Opening {
            return;
        }
        if slot.fd.is_none() {
            self.park(id, Phase::Paused);
        } else if self.dialogue.is_open(&slot.dialogue) {
            slot.greeting = false;
            self.connecting -= 1;
            self.release(id);
        }
    }

    /// Takes what came on a connection without a request: a part of a handshake, or its end.
    fn heed(&mut self, id: u32) {
        loop {
            let slot = self.slots.get(id);
            let Some(fd) = &slot.fd else { return };
            let got = match rustix::net::recv(fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, got)) => got,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(_) => 0,
            };
            if got == 0 {
                return self.close(id, true);
            }
            self.recorder.received(self.time.now, got);
            match self.dialogue.take(&mut slot.dialogue, &mut self.buffer[..got]) {
                Ok(Taken { answer: None, .. }) => self.send_besides(id),
                // Nothing was asked.
                Ok(_) | Err(_) => return self.close(id, true),
            }
        }
    }

    /// Reads until there is no more. `ended` says that the peer has closed its side.
    fn receive(&mut self, id: u32, ended: bool) {
        loop {
            let slot = self.slots.get(id);
            let Some(fd) = &slot.fd else { return };
            let skippable = self.dialogue.skippable(&slot.dialogue);
            let drop = skippable >= TRUNCATE_BYTES;
            let room = if drop { skippable.min(BUFFER_BYTES as u64) as usize } else { BUFFER_BYTES };
            let flags = if drop { RecvFlags::TRUNC } else { RecvFlags::empty() };
            let got = match rustix::net::recv(fd, &mut self.buffer[..room], flags) {
                Ok((_, got)) => got,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(error) => return self.end(id, outcome_of(error), false),
            };
            self.time.tell();
            if D::SENDS_BESIDES_REQUESTS {
                self.dialogue.set_now(self.time.now);
            }
            self.recorder.received(self.time.now, got);
            let open = match got {
                0 => self.stream_ended(id),
                _ if drop => {
                    let slot = self.slots.get(id);
                    let answer = self.dialogue.skip(&mut slot.dialogue, got as u64);
                    answer.is_none_or(|answer| self.answered(id, answer, ended))
                }
                _ if D::ANSWERS_IN_ANY_ORDER => self.read_streams(id, got),
                _ => self.read(id, got, ended),
            };
            if D::SENDS_BESIDES_REQUESTS && open {
                self.send_besides(id);
            }
            // Edge triggered: a short read means that all was read, unless the end follows.
            if !open || (got < room && !ended) {
                return;
            }
        }
    }

    /// Takes what was read, answer by answer; whether more is to come on this connection.
    fn read(&mut self, id: u32, got: usize, ended: bool) -> bool {
        let mut at = 0;
        loop {
            let slot = self.slots.get(id);
            let taken = match self.dialogue.take(&mut slot.dialogue, &mut self.buffer[at..got]) {
                Ok(taken) => taken,
                Err(outcome) => {
                    self.end(id, outcome, false);
                    return false;
                }
            };
            at += taken.bytes;
            let Some(answer) = taken.answer else { return true };
            // Bytes beyond the last answer were not asked for.
            if at < got && slot.under_way == 1 {
                self.end(id, Outcome::Protocol, false);
                return false;
            }
            if !self.answered(id, answer, ended) {
                return false;
            }
            if at >= got {
                return true;
            }
        }
    }

    /// The peer's side of the connection has ended; always false, nothing more is to come.
    fn stream_ended(&mut self, id: u32) -> bool {
        let slot = self.slots.get(id);
        match self.dialogue.end(&mut slot.dialogue) {
            Ok(Some(answer)) => {
                if self.answered(id, answer, true) {
                    self.end(id, Outcome::Reset, false);
                }
            }
            Ok(None) => self.end(id, Outcome::Reset, false),
            Err(outcome) => self.end(id, outcome, false),
        }
        false
    }

    /// A whole answer has come. Whether others are to come on this connection.
    fn answered(&mut self, id: u32, answer: Answer, ended: bool) -> bool {
        let Some(start) = self.slots.pop(id) else { return false };
        self.recorder.ended(start, self.time.now, answer.outcome, answer.status);
        let slot = self.slots.get(id);
        if slot.under_way > 0 {
            self.list_again(id);
            return true;
        }
        // An answer before the whole request was sent leaves the connection in an unknown state.
        let sent = slot.unsent.is_empty();
        let last = slot.served >= self.job.per_connection;
        if D::SENDS_BESIDES_REQUESTS
            && let Some(pause) = self.dialogue.next_request_in(&mut slot.dialogue)
        {
            if ended || !sent || last || !answer.keep {
                self.close(id, false);
            }
            self.think(id, pause);
            // Such as the answer to what the server asked in passing.
            self.send_besides(id);
        } else if ended || !sent {
            self.close(id, false);
            self.release(id);
        } else if last || !answer.keep {
            self.park(id, Phase::Closing);
        } else {
            self.release(id);
        }
        false
    }

    /// Ends the requests of a connection without answers that could be used, and the connection. `early` says
    /// that no byte of a request could be sent.
    pub(super) fn end(&mut self, id: u32, outcome: Outcome, early: bool) {
        if self.slots.get(id).phase == Phase::Thinking {
            // Nothing is under way; its session goes on with another connection.
            return self.close(id, true);
        }
        let slot = self.slots.get(id);
        let early = early || !slot.unsent.is_empty();
        if slot.under_way > 0 {
            self.dialogue.requests_failed(&mut slot.dialogue);
        }
        while let Some(start) = self.pop(id) {
            self.recorder.ended(start, self.time.now, outcome, 0);
        }
        self.close(id, true);
        if early && !self.time.is_open() {
            // A closed loop would try again at once, and again.
            self.park(id, Phase::Paused);
        } else {
            self.release(id);
        }
    }

    /// A request of a slot ends, the oldest where their order matters; its start.
    fn pop(&mut self, id: u32) -> Option<u64> {
        if D::ANSWERS_IN_ANY_ORDER { self.slots.take_any(id) } else { self.slots.pop(id) }
    }

    pub(super) fn park(&mut self, id: u32, phase: Phase) {
        self.unlist(id);
        self.slots.park(id, phase, self.time.now + PAUSE);
    }

    /// Takes a slot off the list of those with room. Only pipelined ones are on it while they are in use, and
    /// only a failure takes them off, so that looking for it is rare.
    fn unlist(&mut self, id: u32) {
        if std::mem::take(&mut self.slots.get(id).listed) {
            self.idle.retain(|other| *other != id);
        }
    }

    /// Closes the slot's connection; what is left of its events is stale from now on. `broken` says that this
    /// isn't how it should have ended.
    pub(super) fn close(&mut self, id: u32, broken: bool) {
        let slot = self.slots.get(id);
        slot.unsent.clear();
        if slot.fd.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            self.dialogue.closed(&mut slot.dialogue);
            self.dialogue.renew(&mut slot.dialogue);
            if slot.fresh {
                self.connecting -= 1;
            } else {
                if std::mem::take(&mut slot.greeting) {
                    self.connecting -= 1;
                }
                self.recorder.disconnected(self.time.now, broken);
            }
        }
    }

    /// Gives the slot back for the next request.
    pub(super) fn release(&mut self, id: u32) {
        if !self.is_available() {
            self.available_since = self.time.now;
        }
        self.unlist(id);
        let slot = self.slots.get(id);
        slot.phase = Phase::Ready;
        if slot.fd.is_some() {
            slot.listed = true;
            self.idle.push_back(id);
        } else {
            self.free.push(id);
        }
    }
}

/// The class of a connection's failure.
pub(crate) fn outcome_of(error: Errno) -> Outcome {
    match error {
        Errno::CONNREFUSED => Outcome::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Outcome::Reset,
        Errno::MFILE | Errno::NFILE => Outcome::NoDescriptors,
        Errno::ADDRNOTAVAIL => Outcome::NoAddresses,
        Errno::TIMEDOUT => Outcome::ClientTimeout,
        _ => Outcome::Other,
    }
}
