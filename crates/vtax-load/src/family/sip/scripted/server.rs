//! A server's scenario: calls that come are answered after it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use vtax_plan::model::SipTransport;
use vtax_sys::clock::unix_ms;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, coalesce, stamp_arrivals};
use vtax_sys::gathering::Gathering;
use vtax_sys::outgoing::Outgoing;
use vtax_sys::sched;
use vtax_units::CpuSet;
use vtax_wire::sip::Message;

use super::machine::{Machine, Port};
use super::result::ScriptFigures;
use super::shared::Shared;
use super::spec::ScriptSpec;
use crate::LoadError;
use crate::family::sip::line::BUFFER_BYTES;
use crate::family::sip::media::{Media, Ports};
use crate::family::sip::uas::refuse_all_addresses;
use crate::family::sip::unmatched::Kind;
use crate::family::sip::worker::{DATAGRAM_BYTES, MANY, ROOM_BYTES, WAITS};

/// Longest sleep, so that the end is seen.
const SLEEP: u64 = 20_000_000;
/// Who hasn't heard of a call for so long, in ns, may have been left with it: by then an INVITE's client gives up (RFC 3261, 17.1.1.2).
const FORGOTTEN: u64 = 32_000_000_000;
/// Time between two looks for such calls, which goes over all of them.
const LOOK: u64 = 1_000_000_000;
/// Entries of calls beyond those under way that may be there before they are looked through.
const STALE_MAX: usize = 4_096;

/// The socket, and what waits to be sent from it.
struct Answers {
    out: Outgoing,
    local: SocketAddr,
}

impl Port for Answers {
    fn send(&mut self, _line: u32, to: Option<SocketAddr>, flow: u32, message: &[u8]) {
        self.out.push(to, flow, |out| out.extend_from_slice(message));
    }

    fn local(&self, _line: u32) -> SocketAddr {
        self.local
    }
}

/// Calls that are answered, by hash of Call-ID.
struct Server<'a> {
    machine: Machine<'a>,
    answers: Answers,
    open: HashMap<u64, u32>,
    hasher: RandomState,
    most: usize,
    forgotten: Forgotten,
}

/// Calls that wait for a message that may never come, as their callers are gone: where there is no room, they make it.
#[derive(Default)]
struct Forgotten {
    /// Their places and generations, the one that waits longest last.
    calls: Vec<(u32, u32)>,
    /// When they were last looked for.
    looked_at: u64,
}

impl Forgotten {
    /// Gives up the call that has waited longest, for more than [`FORGOTTEN`]: whether there was one. It looks for more no oftener
    /// than once a second.
    fn give_up(&mut self, machine: &mut Machine<'_>) -> bool {
        if self.calls.is_empty() && machine.now.saturating_sub(self.looked_at) >= LOOK {
            self.looked_at = machine.now;
            self.calls = machine.waiting_longer_than(FORGOTTEN);
        }
        while let Some((slot, generation)) = self.calls.pop() {
            if machine.give_up(slot, generation, FORGOTTEN) {
                return true;
            }
        }
        false
    }
}

/// Answers calls at the target of the specification, a UDP address, until `stop` is set or the scenario says so. `ready` is called with
/// the address once calls can come; port 0 is then the real one.
///
/// # Errors
/// The scenario has something that isn't supported, or makes calls itself, or the address stands for all there are, or the kernel
/// refuses it or the socket.
pub fn answer_script(
    spec: &ScriptSpec,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<ScriptFigures, LoadError> {
    let answering = Answering::open(spec)?;
    ready(answering.address);
    answering.run(stop)
}

/// Where calls are answered.
#[derive(Debug)]
pub(super) struct Answering {
    shared: Shared,
    socket: UdpSocket,
    pub(super) address: SocketAddr,
    /// Most at once.
    pub(super) calls: usize,
    cpus: CpuSet,
    seed: u64,
}

impl Answering {
    /// Compiles the scenario and opens the socket: what comes waits in it.
    pub(super) fn open(spec: &ScriptSpec) -> Result<Self, LoadError> {
        let shared = Shared::new(spec)?;
        let refuse = |field, reason: &str| LoadError::Spec { field, reason: reason.to_owned() };
        if !shared.scenario.is_server {
            return Err(refuse("scenario", "it makes calls and answers none"));
        }
        if spec.transport != SipTransport::Udp {
            return Err(refuse("transport", "calls are answered over UDP only"));
        }
        refuse_all_addresses(spec.pool.target)?;
        let refused = |source| LoadError::System { operation: "listen for calls", source };
        let socket = UdpSocket::bind(spec.pool.target).map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        }
        stamp_arrivals(socket.as_fd()).map_err(refused)?;
        // Where the kernel can't, datagrams come one by one.
        let _ = coalesce(socket.as_fd());
        let address = socket.local_addr().map_err(refused)?;
        let (calls, cpus) = (spec.pool.connections as usize, spec.pool.cpus.clone());
        Ok(Self { shared, socket, address, calls, cpus, seed: spec.seed })
    }

    /// Answers calls until `stop` is set or the scenario says so.
    pub(super) fn run(&self, stop: &AtomicBool) -> Result<ScriptFigures, LoadError> {
        let settings = &self.shared.settings;
        let open = |options| {
            let ports = Arc::new(Ports::from(settings.media_port));
            Media::open(options, self.calls, ports, &self.cpus, true)
        };
        let media = settings.media.map(open).transpose()?;
        let now = sched::monotonic().0;
        let server = Server {
            machine: Machine::new(&self.shared, unix_ms() as u32, (0, 1), self.seed, (now, 1_024), media),
            answers: Answers { out: Outgoing::new(self.socket.as_fd()), local: self.address },
            open: HashMap::new(),
            hasher: RandomState::new(),
            most: self.calls,
            forgotten: Forgotten::default(),
        };
        server.run(&self.socket, stop)
    }
}

impl Server<'_> {
    fn run(mut self, socket: &UdpSocket, stop: &AtomicBool) -> Result<ScriptFigures, LoadError> {
        // Not granted everywhere; callers then see a slower peer.
        let _ = sched::prefer_low_latency();
        let mut inbox = Inbox::new(BATCH_MAX, ROOM_BYTES);
        let mut gathering = Gathering::new(MANY, WAITS);
        let mut due = Vec::new();
        while !stop.load(Relaxed) && self.machine.stop.is_none() {
            self.machine.now = sched::monotonic().0;
            self.machine.wheel.advance(self.machine.now, &mut due);
            for call in due.drain(..) {
                self.machine.timer(call, &mut self.answers);
            }
            self.machine.ended.clear();
            self.machine.end_silent(&mut due);
            // What the kernel doesn't take is lost; the caller asks again.
            self.answers.out.flush(socket.as_fd(), gathering.gathers(), |_, _| ());
            let got = match inbox.receive(socket.as_fd()) {
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if !gathering.rest(self.machine.now) {
                        self.sleep(socket)?;
                    }
                    0
                }
                // ICMP about an earlier answer, or a signal.
                Err(_) => 0,
            };
            self.machine.now = sched::monotonic().0;
            self.take(&inbox, got, &mut gathering);
        }
        self.answers.out.flush(socket.as_fd(), false, |_, _| ());
        Ok(self.machine.figures())
    }

    fn take(&mut self, inbox: &Inbox, got: usize, gathering: &mut Gathering) {
        let now = self.machine.now;
        let ahead = sched::realtime().0.saturating_sub(now);
        for datagram in (0..got).filter_map(|i| inbox.get(i)) {
            let Some(from) = inbox.sender(&datagram) else { continue };
            let stamp = inbox.arrival(&datagram);
            let arrived = stamp.map_or(now, |stamp| stamp.0.saturating_sub(ahead).min(now));
            let size = inbox.segment(&datagram).unwrap_or(datagram.bytes.len()).max(1);
            for bytes in datagram.bytes.chunks(size) {
                gathering.handled(1);
                if datagram.truncated || bytes.len() > DATAGRAM_BYTES {
                    self.machine.stray.count(Kind::Oversize);
                } else if let Ok(message) = Message::parse(bytes) {
                    self.handle(&message, from, arrived);
                } else if bytes.iter().any(|b| !matches!(b, b'\r' | b'\n' | 0)) {
                    self.machine.stray.count(Kind::Malformed);
                }
            }
        }
    }

    fn handle(&mut self, message: &Message<'_>, from: SocketAddr, arrived: u64) {
        match message.method() {
            None => self.machine.traffic.responses_received += 1,
            Some(_) => self.machine.traffic.requests_received += 1,
        }
        let Ok(call_id) = message.call_id() else { return self.machine.stray.count(Kind::Malformed) };
        let key = self.hasher.hash_one(call_id);
        if let Some(slot) = self.open.get(&key).copied().filter(|slot| self.machine.is_of(*slot, call_id)) {
            return self.machine.receive(slot, message, arrived, &mut self.answers);
        }
        if message.method().is_none() {
            return self.machine.stray.count(Kind::UnknownTransaction);
        }
        if self.machine.live() >= self.most && !self.forgotten.give_up(&mut self.machine) {
            // The caller asks again.
            return self.machine.stray.count(Kind::NoRoom);
        }
        if let Some(slot) = self.machine.answer(message, from, arrived, &mut self.answers) {
            self.open.insert(key, slot);
            if self.open.len() > 2 * self.machine.live() + STALE_MAX {
                let machine = &self.machine;
                self.open.retain(|_, slot| machine.is_under_way(*slot));
            }
        }
    }

    fn sleep(&self, socket: &UdpSocket) -> Result<(), LoadError> {
        let now = self.machine.now;
        let nanos = self.machine.wheel.wake(now + SLEEP).saturating_sub(now).min(SLEEP) as i64;
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: nanos })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(LoadError::System { operation: "wait for calls", source: e.into() }),
        }
    }
}
