//! Captures at both ends of every hop while a load goes through, and what they say of where packets spent their time.
//!
//! Each capture is a socket that the kernel gives some packets (see [`sieve`](crate::sieve)) with the time at which it saw
//! them. A thread takes what waits a few dozen times a second, so that it does not run beside every packet; then the
//! sockets are closed, and the rest of the load costs nothing more.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::netlink::Netlink;
use vtax_sys::{Context as _, packets};
use vtax_topology::Prefix;
use vtax_topology::hops::{CapturePoint, Hops, MOST_SIGHTINGS, Sighting, hops};
use vtax_wire::packet_id::packet_id;

use crate::error::{Result, RouterError, While};
use crate::lab::RouterLab;
use crate::sieve::{KEPT, PROGRAM};

/// The longest that packets are captured.
const LONGEST: Duration = Duration::from_secs(10);
/// Time between two looks for what waits.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Batches that are taken of one interface before the next has its turn.
const MOST_BATCHES: usize = 64;
/// Bytes of packets that may wait at an interface until then.
const BUFFER: usize = 4 << 20;

/// Captures that are under way; given up when dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Hops>>,
}

/// A capture at an interface.
#[derive(Debug)]
struct Capture {
    socket: OwnedFd,
    /// The number of its point.
    point: usize,
}

/// The networks of client and service.
#[derive(Debug, Clone, Copy)]
struct Edges {
    client: Prefix,
    sut: Prefix,
}

impl Edges {
    fn of(lab: &RouterLab) -> Result<Self> {
        let of = |name: &str| {
            let door = lab.blueprint().doors.iter().find(|door| door.name == name);
            let address = door.and_then(|door| door.interface.addresses.first());
            let none = || RouterError::Unknown(format!("this topology has no edge `{name}` with an address"));
            address.map(|address| address.network()).ok_or_else(none)
        };
        Ok(Self { client: of("client")?, sut: of("sut")? })
    }

    /// What a frame is a sighting of, and whether it goes up; `None` for what is neither of client nor of service.
    fn sighting(&self, frame: &[u8]) -> Option<(u64, bool)> {
        let id = packet_id(frame)?;
        let between = |from: Prefix, to: Prefix| from.contains(id.source) && to.contains(id.destination);
        let up = between(self.client, self.sut);
        (up || between(self.sut, self.client)).then_some((id.digest, up))
    }
}

/// Every interface of a lab that leads anywhere, by node and name.
fn points(lab: &RouterLab) -> Vec<(CapturePoint, String)> {
    let mut found = Vec::new();
    for cable in &lab.blueprint().cables {
        found.extend(cable.ends.iter().map(|end| {
            let point = CapturePoint { router: end.node.clone(), cable: Some(cable.name.clone()) };
            (point, end.interface.name.clone())
        }));
    }
    found.extend(
        lab.blueprint().doors.iter().map(|door| {
            (CapturePoint { router: door.node.clone(), cable: None }, door.interface.name.clone())
        }),
    );
    found
}

impl Watched {
    /// Begins to capture at every interface.
    pub(crate) fn start(lab: &RouterLab) -> Result<Self> {
        let edges = Edges::of(lab)?;
        let (mut captures, mut all) = (Vec::new(), Vec::new());
        for (number, (point, interface)) in points(lab).into_iter().enumerate() {
            let open = || {
                let index = Netlink::open()?.link(&interface)?.index;
                let socket = packets::open(index, BUFFER)?;
                packets::attach_filter(socket.as_fd(), &PROGRAM)?;
                Ok(socket)
            };
            let what = || format!("capture packets of {interface} at {}", point.router);
            captures
                .push(Capture { socket: lab.space(&point.router)?.run(open).during(what)?, point: number });
            all.push(point);
        }
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("hops".to_owned());
        let thread = thread.spawn(move || look(captures, &all, edges, &stop)).context("start", "a thread");
        Ok(Self { over, thread: Some(thread.during(|| "capture packets at every hop".to_owned())?) })
    }

    /// Ends it, where it isn't over yet.
    pub(crate) fn finish(mut self) -> Hops {
        self.over.store(true, Ordering::Relaxed);
        let found = self.thread.take().map(JoinHandle::join);
        found.and_then(std::result::Result::ok).unwrap_or_else(|| Hops {
            problem: Some("the thread that captures panicked".to_owned()),
            ..Hops::default()
        })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes what is captured until it is told to stop, or has enough, and tells what it says.
fn look(captures: Vec<Capture>, points: &[CapturePoint], edges: Edges, over: &AtomicBool) -> Hops {
    let began = Instant::now();
    let mut inbox = Inbox::new(BATCH_MAX, KEPT as usize);
    let mut sightings = Vec::new();
    loop {
        // What came before the end was asked for is taken.
        let last = over.load(Ordering::Relaxed) || began.elapsed() >= LONGEST;
        for capture in &captures {
            take(capture, &mut inbox, edges, &mut sightings);
        }
        if last || sightings.len() >= MOST_SIGHTINGS {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let looked = began.elapsed().into();
    let missed = captures.iter().filter_map(|capture| packets::dropped(capture.socket.as_fd()).ok()).sum();
    drop(captures);
    Hops { looked, missed, hops: hops(points, sightings), problem: None }
}

/// Takes what waits at an interface.
fn take(capture: &Capture, inbox: &mut Inbox, edges: Edges, into: &mut Vec<Sighting>) {
    // A sender that is faster than this thread must not keep it here.
    for _ in 0..MOST_BATCHES {
        // Nothing that waits, or an interface that is down, is the end of what there is.
        let Ok(got) = inbox.receive(capture.socket.as_fd()) else { break };
        for datagram in (0..got).filter_map(|index| inbox.get(index)) {
            let found = edges.sighting(datagram.bytes).zip(inbox.arrival(&datagram));
            if let Some(((packet, up), at)) = found
                && into.len() < MOST_SIGHTINGS
            {
                into.push(Sighting { packet, up, point: capture.point, at });
            }
        }
    }
}
