//! A user agent that answers calls: INVITE with 180 and 200, BYE with 200. What a caller is measured
//! against that needs no registrar.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, coalesce};
use vtax_sys::gathering::Gathering;
use vtax_sys::outgoing::Outgoing;
use vtax_sys::sched;
use vtax_wire::sip::{Message, Method, Name, Via, Writer};

use super::Traffic;
use super::compose::Sender;
use super::line::BUFFER_BYTES;
use super::wheel::Wheel;
use super::worker::{DATAGRAM_BYTES, MANY, ROOM_BYTES, WAITS};
use crate::LoadError;

/// Calls that wait for their ACK at once; beyond it INVITEs are answered 503.
const CALLS_MAX: usize = 1 << 18;
/// T1, T2 and the life of a transaction (RFC 3261 section 17.1).
const T1: u64 = 500_000_000;
const T2: u64 = 8 * T1;
const LIFE: u64 = 64 * T1;
/// Longest sleep, so that the end is seen.
const SLEEP: i64 = 20_000_000;

/// An answered INVITE without its ACK.
#[derive(Debug, Default)]
struct Call {
    /// The 200, as it was sent.
    answer: Vec<u8>,
    to: Option<SocketAddr>,
    key: u64,
    interval: u64,
    deadline: u64,
}

#[derive(Debug)]
struct Uas {
    socket: UdpSocket,
    sender: Sender,
    contact: Vec<u8>,
    tag: Vec<u8>,
    out: Outgoing,
    /// By hash of Call-ID.
    open: HashMap<u64, u32>,
    hasher: RandomState,
    calls: Vec<Call>,
    vacant: Vec<u32>,
    wheel: Wheel,
    gathering: Gathering,
    now: u64,
    traffic: Traffic,
}

/// Answers calls at a UDP address until `stop` is set; returns what it has seen. `ready` is called with
/// the address once calls can come; port 0 is then the real one.
///
/// # Errors
/// The address stands for all there are, or the kernel refuses it or the socket.
pub fn answer_calls(
    listen: SocketAddr,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<Traffic, LoadError> {
    refuse_all_addresses(listen)?;
    let refused = |source| LoadError::System { operation: "listen for calls", source };
    let socket = UdpSocket::bind(listen).map_err(refused)?;
    socket.set_nonblocking(true).map_err(refused)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
    }
    // Where the kernel can't, datagrams come one by one.
    let _ = coalesce(socket.as_fd());
    let address = socket.local_addr().map_err(refused)?;
    ready(address);
    let now = sched::monotonic().0;
    let hasher = RandomState::new();
    let uas = Uas {
        out: Outgoing::new(socket.as_fd()),
        socket,
        sender: Sender::new(address, vtax_wire::sip::Transport::Udp),
        contact: format!("<sip:{address}>").into_bytes(),
        tag: format!("{:016x}", hasher.hash_one(now)).into_bytes(),
        open: HashMap::new(),
        hasher,
        calls: Vec::new(),
        vacant: Vec::new(),
        wheel: Wheel::new(now, 0),
        gathering: Gathering::new(MANY, WAITS),
        now,
        traffic: Traffic::default(),
    };
    uas.run(stop)
}

/// Refuses to answer calls at all addresses: where they come to stands in the answers, and no peer could send to that.
pub(super) fn refuse_all_addresses(listen: SocketAddr) -> Result<(), LoadError> {
    if !listen.ip().is_unspecified() {
        return Ok(());
    }
    let reason =
        format!("listening on {listen}: give the one address that peers reach it at, not all addresses");
    Err(LoadError::Spec { field: "target", reason })
}

impl Uas {
    fn run(mut self, stop: &AtomicBool) -> Result<Traffic, LoadError> {
        // Not granted everywhere; callers then see a slower peer.
        let _ = sched::prefer_low_latency();
        let mut inbox = Inbox::new(BATCH_MAX, ROOM_BYTES);
        let mut due = Vec::new();
        while !stop.load(Relaxed) {
            self.wheel.advance(self.now, &mut due);
            for call in due.drain(..) {
                self.repeat(call);
            }
            self.flush();
            let got = match inbox.receive(self.socket.as_fd()) {
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if !self.gathering.rest(self.now) {
                        self.sleep()?;
                    }
                    0
                }
                // ICMP about an earlier answer, or a signal.
                Err(_) => 0,
            };
            self.now = sched::monotonic().0;
            for i in 0..got {
                let Some(datagram) = inbox.get(i) else { continue };
                let Some(from) = inbox.sender(&datagram) else { continue };
                let size = inbox.segment(&datagram).unwrap_or(datagram.bytes.len()).max(1);
                for bytes in datagram.bytes.chunks(size).filter(|bytes| bytes.len() <= DATAGRAM_BYTES) {
                    self.gathering.handled(1);
                    if let Ok(message) = Message::parse(bytes) {
                        self.handle(&message, from);
                    }
                }
            }
        }
        Ok(self.traffic)
    }

    fn sleep(&self) -> Result<(), LoadError> {
        let refused =
            |e: rustix::io::Errno| LoadError::System { operation: "wait for calls", source: e.into() };
        let wake = self.wheel.wake(self.now + SLEEP.unsigned_abs());
        let nanos = wake.saturating_sub(self.now).min(SLEEP.unsigned_abs()) as i64;
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: nanos })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(refused(e)),
        }
    }

    fn handle(&mut self, message: &Message<'_>, from: SocketAddr) {
        let Some(method) = message.method() else {
            self.traffic.responses_received += 1;
            return;
        };
        let (Ok(via), Ok(call_id), Ok(cseq)) = (message.via(), message.call_id(), message.cseq()) else {
            return;
        };
        self.traffic.requests_received += 1;
        let to = answer_address(&via, from);
        let key = self.hasher.hash_one((call_id, cseq.number));
        match method {
            Method::Invite => self.invite(message, key, to),
            Method::Ack => self.forget(key),
            Method::Bye if message.to().is_ok_and(|t| t.tag == Some(&self.tag)) => {
                self.respond(message, (200, "OK"), key, to);
            }
            Method::Options => self.respond(message, (200, "OK"), key, to),
            _ => self.respond(message, (481, "Call/Transaction Does Not Exist"), key, to),
        }
    }

    fn respond(&mut self, message: &Message<'_>, status: (u16, &str), key: u64, to: SocketAddr) {
        self.send(to, key, |uas, out| {
            Writer::respond(out, message, status.0, status.1, Some(&uas.tag)).end();
        });
    }

    /// Has `write` append a message; those with the same key keep their order.
    fn send(&mut self, to: SocketAddr, key: u64, write: impl FnOnce(&Self, &mut Vec<u8>)) {
        self.traffic.responses_sent += 1;
        let mut out = std::mem::take(&mut self.out);
        out.push(Some(to), key as u32, |bytes| write(self, bytes));
        self.out = out;
        if self.out.is_full() {
            self.flush();
        }
    }

    fn invite(&mut self, message: &Message<'_>, key: u64, to: SocketAddr) {
        if let Some(call) = self.open.get(&key).copied() {
            self.traffic.retransmissions += 1;
            return self.send_again(call);
        }
        if self.calls.len() - self.vacant.len() >= CALLS_MAX {
            return self.respond(message, (503, "Service Unavailable"), key, to);
        }
        self.send(to, key, |uas, out| {
            Writer::respond(out, message, 180, "Ringing", Some(&uas.tag))
                .header(Name::Contact, &uas.contact)
                .end();
        });
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.calls.push(Call::default());
            self.calls.len() as u32 - 1
        });
        let call = &mut self.calls[number as usize];
        call.answer.clear();
        Writer::respond(&mut call.answer, message, 200, "OK", Some(&self.tag))
            .header(Name::Contact, &self.contact)
            .body(b"application/sdp", self.sender.sdp());
        (call.to, call.key) = (Some(to), key);
        (call.interval, call.deadline) = (T1, self.now + LIFE);
        self.wheel.set(number, self.now + T1);
        self.open.insert(key, number);
        self.send_again(number);
    }

    fn send_again(&mut self, number: u32) {
        let Call { to: Some(to), key, .. } = self.calls[number as usize] else { return };
        self.send(to, key, |uas, out| out.extend_from_slice(&uas.calls[number as usize].answer));
    }

    /// Timers G and H.
    fn repeat(&mut self, number: u32) {
        let call = &mut self.calls[number as usize];
        if self.now >= call.deadline {
            let key = call.key;
            return self.forget(key);
        }
        call.interval = (2 * call.interval).min(T2);
        let due = (self.now + call.interval).min(call.deadline);
        self.wheel.set(number, due);
        self.traffic.retransmissions += 1;
        self.send_again(number);
    }

    fn forget(&mut self, key: u64) {
        if let Some(number) = self.open.remove(&key) {
            self.wheel.cancel(number);
            self.vacant.push(number);
        }
    }

    /// Sends what waits. What the kernel doesn't take is lost; the caller asks again.
    fn flush(&mut self) {
        self.out.flush(self.socket.as_fd(), self.gathering.gathers(), |_, _| ());
    }
}

/// Where an answer goes (RFC 3261 section 18.2.2, RFC 3581 section 4).
fn answer_address(via: &Via<'_>, from: SocketAddr) -> SocketAddr {
    let ip: IpAddr = from.ip();
    if via.rport.is_some() { from } else { (ip, via.port.unwrap_or(5060)).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_nobody_can_send_to_is_refused() {
        for all in ["0.0.0.0:0", "[::]:0"] {
            let answered = answer_calls(all.parse().unwrap(), &AtomicBool::new(true), |_| panic!("{all}"));
            let error = answered.unwrap_err().to_string();
            assert!(error.contains("give the one address that peers reach it at"), "{error}");
        }
        answer_calls(([127, 0, 0, 1], 0).into(), &AtomicBool::new(true), |_| ()).unwrap();
    }
}
