//! The sound of calls: G.711 as RTP between the ports that calls agree on, each packet at its time.
//!
//! Whoever has the calls has a [`Media`]: it opens a port for each, says when who speaks, and asks in the end what was heard. One thread paces
//! the packets of all calls and takes what comes ([`pacer`]); a call's state is behind a lock of its own, which both hold for a packet or two.
//! Times of arrival are the kernel's, so that it doesn't matter when somebody looks.

mod account;
mod pacer;
mod result;
mod talk;
mod told;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rustix::event::epoll;
pub use vtax_plan::model::MediaOptions;
use vtax_plan::model::network_limits as limits;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, dropped, stamp_arrivals};
use vtax_sys::sched::{self, monotonic, realtime};
use vtax_sys::sync::lock;
use vtax_units::{CpuSet, Nanos};
use vtax_wire::rtp::Law;
use vtax_wire::sdp::Audio;

use crate::LoadError;
use crate::network::Sound;
pub use result::{Ratings, SoundDirection, SoundFigures, SoundPace};
use talk::Talk;
pub(super) use told::{HEADER, Told};

/// Room for a packet.
const ROOM: usize = 512;
/// The first port where none is given, as SIPp's.
pub(super) const FIRST_PORT: u16 = 6_000;
/// Ports below are the system's own; the highest even one.
const PORT_MIN: u16 = 1_024;
const PORT_MAX: u16 = 65_534;
/// Most calls with sound: there are no more even ports.
pub(super) const CALLS_MAX: usize = 25_000;
/// Ports that are tried for a call.
const PORTS_TRIED: usize = 2_000;
/// A packet longer than this is none of ours.
const PACKET_MS_MAX: u64 = 40;

/// Checks that options make sense.
///
/// # Errors
/// [`LoadError::Spec`] naming what doesn't.
pub(super) fn check(options: &MediaOptions) -> Result<(), LoadError> {
    let refuse = |reason| Err(LoadError::Spec { field: "media", reason });
    if !limits::VOICE_PACKETS.contains(&options.packet) {
        let known = limits::VOICE_PACKETS.map(|packet| packet.to_string()).join(", ");
        return refuse(format!("packets of {} are none of {known}", options.packet));
    }
    if options.jitter_buffer > limits::JITTER_BUFFER {
        let most = limits::JITTER_BUFFER;
        return refuse(format!("a jitter buffer of {} is longer than {most}", options.jitter_buffer));
    }
    Ok(())
}

/// The sound of one call's place.
#[derive(Debug, Default)]
struct Slot {
    /// Where it is heard; kept for the next call, unless the other end of the one before may still send there.
    socket: Option<(UdpSocket, SocketAddr)>,
    /// Which call of this place it is.
    generation: u32,
    talk: Option<Talk>,
}

/// A call whose packets are to be sent from now on: its place, which call of it, and how many ticks its packets are apart.
#[derive(Debug, Clone, Copy)]
struct CallSender {
    slot: u32,
    generation: u32,
    ticks: u64,
}

/// What the calls' owner and the thread share.
#[derive(Debug)]
struct MediaState {
    slots: Box<[Mutex<Slot>]>,
    epoll: OwnedFd,
    sounds: Sounds,
    /// Who is to speak, and the thread doesn't know yet.
    joined: Mutex<Vec<CallSender>>,
    /// Places whose other end has fallen silent, where that ends calls.
    silent: Option<Mutex<Vec<u32>>>,
    stop: AtomicBool,
}

impl MediaState {
    fn slot(&self, slot: u32) -> Option<MutexGuard<'_, Slot>> {
        self.slots.get(slot as usize).map(lock)
    }
}

/// The tone in both laws.
#[derive(Debug)]
struct Sounds([Sound; 2]);

impl Sounds {
    fn of(&self, law: Law) -> &Sound {
        &self.0[usize::from(law == Law::A)]
    }
}

/// Where ports begin, and which is tried next; all owners of a process share it.
#[derive(Debug)]
pub(super) struct Ports(AtomicU16);

impl Ports {
    pub(super) const fn from(first: u16) -> Self {
        Self(AtomicU16::new(if first < PORT_MIN { PORT_MIN } else { first & !1 }))
    }

    /// Even ports (RFC 3550 section 11), round and round; the ones between them are RTCP's, which isn't spoken here.
    fn next(&self) -> u16 {
        let after = |port: u16| Some(if port >= PORT_MAX { FIRST_PORT } else { port + 2 });
        self.0.fetch_update(Relaxed, Relaxed, after).unwrap_or(FIRST_PORT)
    }
}

/// The sound of all calls of one worker.
#[derive(Debug)]
pub(super) struct Media {
    options: MediaOptions,
    state: Arc<MediaState>,
    ports: Arc<Ports>,
    thread: Option<JoinHandle<SoundPace>>,
    inbox: Inbox,
    /// Numbers of streams, which are anything (RFC 3550 section 5.1).
    rng: Xoshiro256PlusPlus,
    figures: SoundFigures,
}

impl Media {
    /// Starts the thread. Of so many calls at once each has its place, from 0; `ends_silent`: who hears nothing for a while says so.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance or a thread.
    pub(super) fn open(
        options: MediaOptions,
        calls: usize,
        ports: Arc<Ports>,
        cpus: &CpuSet,
        ends_silent: bool,
    ) -> Result<Self, LoadError> {
        let refused = |operation| move |source: io::Error| LoadError::System { operation, source };
        let calls = calls.clamp(1, CALLS_MAX);
        let _ = sched::raise_open_files(calls as u64 + 1_024);
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| refused("create an epoll")(e.into()))?;
        let state = Arc::new(MediaState {
            slots: (0..calls).map(|_| Mutex::default()).collect(),
            epoll,
            sounds: Sounds([Law::Mu, Law::A].map(Sound::new)),
            joined: Mutex::default(),
            silent: ends_silent.then(Mutex::default),
            stop: AtomicBool::new(false),
        });
        let (own, cpus) = (Arc::clone(&state), cpus.clone());
        let thread = thread::Builder::new().name("sound".to_owned());
        let thread = thread.spawn(move || pacer::run(&own, &cpus)).map_err(refused("start a thread"))?;
        Ok(Self {
            options,
            state,
            ports,
            thread: Some(thread),
            inbox: Inbox::new(BATCH_MAX, ROOM),
            rng: Xoshiro256PlusPlus::seed_from_u64(realtime().0),
            figures: SoundFigures::default(),
        })
    }

    /// The port at which the next call of that place is heard; `None` where there is no port or no room.
    pub(super) fn port(&mut self, slot: u32, ip: IpAddr) -> Option<u16> {
        let mut place = self.state.slot(slot)?;
        if let Some((_, local)) = place.socket.as_ref().filter(|(_, local)| local.ip() == ip) {
            return Some(local.port());
        }
        place.socket = None;
        for _ in 0..PORTS_TRIED {
            let local = SocketAddr::new(ip, self.ports.next());
            match UdpSocket::bind(local) {
                Ok(socket) => {
                    prepare(&socket, &self.state.epoll, slot).ok()?;
                    place.socket = Some((socket, local));
                    return Some(local.port());
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// From now on a call hears what comes from an end, or from elsewhere than before.
    pub(super) fn listen(&mut self, slot: u32, far: &Audio) {
        let Some(mut place) = self.state.slot(slot) else { return };
        let place = &mut *place;
        let Some((socket, _)) = &place.socket else { return };
        if let Some(talk) = &mut place.talk {
            talk.far = far.address;
            talk.far_flow = far.flow;
            talk.speaks &= far.flow.hears();
            // Who describes its sound is there, however long it was on hold and said nothing.
            talk.heard_at = monotonic().0;
            return;
        }
        // What is left of the call before.
        while self.inbox.receive(socket.as_fd()).is_ok_and(|got| got == BATCH_MAX) {}
        let law = if far.both_laws { self.options.law.law() } else { far.law };
        let asked = far.packet_ms.map(|ms| Nanos::from_millis(u64::from(ms)));
        let packet =
            asked.filter(|asked| limits::VOICE_PACKETS.contains(asked)).unwrap_or(self.options.packet);
        let now = monotonic().0;
        place.generation = place.generation.wrapping_add(1);
        let of = self.rng.random();
        place.talk = Some(Talk::new(
            far,
            law,
            (packet, self.options.jitter_buffer),
            of,
            (now, dropped(socket.as_fd())),
        ));
    }

    /// A call speaks, if the other end hears.
    pub(super) fn talk(&mut self, slot: u32) {
        let Some(mut place) = self.state.slot(slot) else { return };
        let generation = place.generation;
        let Some(talk) = place.talk.as_mut().filter(|talk| talk.far_flow.hears()) else { return };
        talk.speaks = true;
        if !std::mem::replace(&mut talk.queued, true) {
            let ticks = talk.packet.0 / pacer::TICK;
            lock(&self.state.joined).push(CallSender { slot, generation, ticks });
        }
    }

    /// A call says nothing more; what it has heard until now, and sent.
    pub(super) fn hush(&mut self, slot: u32) -> Option<Told> {
        let mut place = self.state.slot(slot)?;
        let place = &mut *place;
        let (socket, talk) = (&place.socket.as_ref()?.0, place.talk.as_mut()?);
        talk.speaks = false;
        take(socket, talk, &mut self.inbox, &self.state.sounds);
        Some(talk.told(dropped(socket.as_fd())))
    }

    /// A call is over. `far`: what the other end says that it sent and heard. Where it says nothing, it may not know that the call is
    /// over, or is none of vtax's: what it goes on to send must not be taken for the next call's, which gets another port.
    pub(super) fn end(&mut self, slot: u32, far: Option<&Told>) {
        let own = self.hush(slot);
        let Some(mut place) = self.state.slot(slot) else { return };
        let talk = place.talk.take();
        if far.is_none() || talk.is_none() {
            place.socket = None;
        }
        drop(place);
        let (Some(own), Some(talk)) = (own, talk) else { return };
        self.figures.count(&self.options, &talk, &own, far);
    }

    /// A description of the other end's can't be used.
    pub(super) fn refused(&mut self, why: &vtax_wire::sdp::SdpError) {
        *self.figures.refused.entry(why.to_string()).or_default() += 1;
    }

    /// Takes the places whose other end has fallen silent.
    pub(super) fn silent(&self, into: &mut Vec<u32>) {
        if let Some(silent) = &self.state.silent {
            into.append(&mut lock(silent));
        }
    }

    /// Ends the thread; what all calls that have ended sounded like.
    pub(super) fn finish(mut self) -> SoundFigures {
        self.state.stop.store(true, Relaxed);
        let pace = self.thread.take().and_then(|thread| thread.join().ok());
        self.figures.pace = pace.unwrap_or_default();
        std::mem::take(&mut self.figures)
    }
}

impl Drop for Media {
    fn drop(&mut self) {
        self.state.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn prepare(socket: &UdpSocket, epoll: &OwnedFd, slot: u32) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    stamp_arrivals(socket.as_fd())?;
    let data = epoll::EventData::new_u64(u64::from(slot));
    Ok(epoll::add(epoll, socket.as_fd(), data, epoll::EventFlags::IN)?)
}

/// Takes what has come for a call.
fn take(socket: &UdpSocket, talk: &mut Talk, inbox: &mut Inbox, sounds: &Sounds) {
    while let Ok(got) = inbox.receive(socket.as_fd()) {
        let now = monotonic().0;
        let ahead = realtime().0.saturating_sub(now);
        for datagram in (0..got).filter_map(|at| inbox.get(at)) {
            let Some(from) = inbox.sender(&datagram) else { continue };
            let stamp = inbox.arrival(&datagram);
            let arrived = stamp.map_or(now, |stamp| stamp.0.saturating_sub(ahead).min(now));
            talk.hear(datagram.bytes, from, arrived, sounds);
        }
        if got < BATCH_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
