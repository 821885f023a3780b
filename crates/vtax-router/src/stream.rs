//! Streams of probes between the two edges of a topology, one each way, at a constant rate.
//!
//! Both ends are in this process, so that both have one clock: when a probe was sent and when it arrived are told on
//! CLOCK_REALTIME, the arrival by the kernel. The streams go from edge router to edge router, beside whatever the client
//! and the service say to each other, and tell what the routers between them lose.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use vtax_sys::clock::unix_time;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, stamp_arrivals};
use vtax_sys::{Context as _, packets, sched};
use vtax_topology::blueprint::Door;
use vtax_topology::convergence::Stream;
use vtax_units::Nanos;

use crate::error::{Result, RouterError, While};
use crate::lab::RouterLab;

/// Port of the probes at both ends.
const PORT: u16 = 5299;
/// Bytes of a probe: a mark and its number.
const LENGTH: usize = 64;
const MARK: [u8; 8] = *b"vtaxprob";
/// The shortest interval between two probes.
const LEAST_INTERVAL: Nanos = Nanos(100_000);
/// The longest.
const MOST_INTERVAL: Nanos = Nanos(100_000_000);
/// Most probes of a stream.
const MOST: u64 = 18_000_000;
/// How long the last probes may be under way.
const GRACE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Probes that are sent at once at most where the sender was late: more would find no room on their way, and their
/// loss would be the sender's own.
const AT_ONCE: u32 = 64;
/// The shortest time that the sender sleeps, in nanoseconds.
const SHORTEST_SLEEP: u64 = 50_000;

/// Streams that are under way.
#[derive(Debug)]
pub(crate) struct Streams {
    interval: Nanos,
    first: Nanos,
    stop: Arc<AtomicBool>,
    /// No probe is sent any more, and none is waited for.
    over: Arc<AtomicBool>,
    late: Arc<AtomicU64>,
    sender: Option<JoinHandle<u64>>,
    receivers: Vec<JoinHandle<Vec<(u64, Nanos)>>>,
}

/// Streams that are over.
#[derive(Debug)]
pub(crate) struct Streamed {
    /// From the client's edge to the service's, and back.
    pub(crate) streams: [Stream; 2],
    /// How late a probe was sent at most.
    pub(crate) late: Nanos,
}

fn end<'a>(lab: &'a RouterLab, name: &str) -> Result<(&'a Door, Ipv4Addr)> {
    let door = lab.blueprint().doors.iter().find(|door| door.name == name);
    let found = door.and_then(|door| Some((door, door.interface.addresses.first()?.address)));
    found.ok_or_else(|| RouterError::Unknown(format!("this topology has no edge `{name}` with an address")))
}

/// A socket at an edge, in its VRF.
fn open(lab: &RouterLab, door: &Door, address: Ipv4Addr) -> Result<OwnedFd> {
    let what = || format!("open a socket for probes at {}", door.node);
    let vrf = door.interface.vrf.clone();
    let make = move || -> vtax_sys::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
            .context("open", "a UDP socket")?;
        if let Some(vrf) = &vrf {
            packets::bind_to_interface(socket.as_fd(), vrf)?;
        }
        rustix::net::bind(&socket, &SocketAddrV4::new(address, PORT)).context("bind", "a UDP socket")?;
        // Beyond net.core.rmem_max where this user may.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20);
        stamp_arrivals(socket.as_fd()).context("stamp arrivals at", "a UDP socket")?;
        Ok(socket)
    };
    lab.space(&door.node)?.run(make).during(what)
}

fn probe(number: u64) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&MARK);
    bytes[8..16].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number(bytes: &[u8]) -> Option<u64> {
    let marked = bytes.get(..8)? == MARK && bytes.len() == LENGTH;
    marked.then(|| bytes.get(8..)?.first_chunk().map(|number| u64::from_be_bytes(*number)))?
}

impl Streams {
    /// Begins to send, one probe each way every `interval`.
    pub(crate) fn start(lab: &RouterLab, interval: Nanos) -> Result<Self> {
        if !(LEAST_INTERVAL..=MOST_INTERVAL).contains(&interval) {
            let what = format!("probes are {LEAST_INTERVAL} to {MOST_INTERVAL} apart, not {interval}");
            return Err(RouterError::Unknown(what));
        }
        let what = || "start streams of probes".to_owned();
        let ((near, one), (far, other)) = (end(lab, "client")?, end(lab, "sut")?);
        let sockets = [Arc::new(open(lab, near, one)?), Arc::new(open(lab, far, other)?)];
        let targets = [other, one].map(|address| SocketAddrV4::new(address, PORT));
        let (stop, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let late = Arc::new(AtomicU64::new(0));
        let mut receivers = Vec::new();
        // What arrives at the far end went up, what arrives at the near one went down.
        for socket in [&sockets[1], &sockets[0]] {
            let (socket, over) = (Arc::clone(socket), Arc::clone(&over));
            let thread = std::thread::Builder::new().name("probes".to_owned());
            receivers.push(
                thread.spawn(move || receive(&socket, &over)).context("start", "a thread").during(what)?,
            );
        }
        // Some time for the threads to be there.
        let first = Nanos(unix_time().0 + 10_000_000);
        let sending =
            Sending { sockets, targets, first, interval, stop: Arc::clone(&stop), late: Arc::clone(&late) };
        let thread = std::thread::Builder::new().name("probing".to_owned());
        let sender = thread.spawn(move || sending.run()).context("start", "a thread").during(what)?;
        Ok(Self { interval, first, stop, over, late, sender: Some(sender), receivers })
    }

    /// Ends them and waits for what is under way.
    pub(crate) fn finish(mut self) -> Streamed {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        std::thread::sleep(GRACE);
        self.over.store(true, Ordering::Relaxed);
        let mut streams: [Stream; 2] = Default::default();
        for (stream, thread) in streams.iter_mut().zip(self.receivers.drain(..)) {
            let arrivals = thread.join().unwrap_or_default();
            *stream = Stream { interval: self.interval, sent, first: self.first, arrivals };
        }
        Streamed { streams, late: Nanos(self.late.load(Ordering::Relaxed)) }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.over.store(true, Ordering::Relaxed);
    }
}

struct Sending {
    sockets: [Arc<OwnedFd>; 2],
    targets: [SocketAddrV4; 2],
    first: Nanos,
    interval: Nanos,
    stop: Arc<AtomicBool>,
    late: Arc<AtomicU64>,
}

impl Sending {
    /// Sends until it is told to stop; how many each way.
    fn run(&self) -> u64 {
        // Where this isn't granted, how late probes were says so.
        let _ = sched::react_at_once();
        let (mut number, mut at_once) = (0, 0);
        while number < MOST && !self.stop.load(Ordering::Relaxed) {
            let due = self.first.0 + number * self.interval.0;
            let now = unix_time().0;
            if now < due || at_once == AT_ONCE {
                at_once = 0;
                let left = due.saturating_sub(now).clamp(SHORTEST_SLEEP, 20_000_000);
                std::thread::sleep(Duration::from_nanos(left));
                continue;
            }
            at_once += 1;
            self.late.fetch_max(now - due, Ordering::Relaxed);
            let bytes = probe(number);
            for (socket, target) in self.sockets.iter().zip(&self.targets) {
                // A probe for which there is no way now is lost, as any other.
                let _ = rustix::net::sendto(&**socket, &bytes, SendFlags::empty(), target);
            }
            number += 1;
        }
        number
    }
}

/// Notes what arrives until it is over.
fn receive(socket: &OwnedFd, over: &AtomicBool) -> Vec<(u64, Nanos)> {
    let _ = sched::react_at_once();
    let mut arrivals = Vec::new();
    let mut inbox = Inbox::new(BATCH_MAX, LENGTH + 1);
    loop {
        let got = match inbox.receive(socket.as_fd()) {
            Ok(got) => got,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                if over.load(Ordering::Relaxed) {
                    return arrivals;
                }
                // Interrupted or not: the loop looks again.
                let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&LOOK_EVERY));
                continue;
            }
            Err(_) if over.load(Ordering::Relaxed) => return arrivals,
            // ICMP about a probe that found no way.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        for datagram in (0..got).filter_map(|index| inbox.get(index)) {
            let Some(number) = number(datagram.bytes) else { continue };
            if (arrivals.len() as u64) < MOST {
                arrivals.push((number, inbox.arrival(&datagram).unwrap_or_default()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_has_its_number_and_nothing_else_is_one() {
        assert_eq!(number(&probe(77)), Some(77));
        assert_eq!(number(&probe(u64::MAX)), Some(u64::MAX));
        assert_eq!(number(&probe(1)[..LENGTH - 1]), None);
        assert_eq!(number(&[0; LENGTH]), None);
        assert_eq!(number(b""), None);
    }
}
