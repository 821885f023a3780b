//! The thread that sends every call's packets when they are due, and takes what comes.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::sched::{self, monotonic};
use vtax_sys::sync::lock;
use vtax_sys::usage::thread_cpu;
use vtax_units::CpuSet;

use super::{CallSender, MediaState, PACKET_MS_MAX, ROOM, SoundPace, take};
use crate::timely;

/// Packets that are due within this time leave together: each waits less than this for its neighbours, always as long, so that none of
/// it is jitter.
pub(super) const TICK: u64 = 500_000;
/// Ticks until a group is due again: more than there are in the longest packet.
const RING: usize = 128;
const _: () = assert!(PACKET_MS_MAX * 1_000_000 < RING as u64 * TICK);
/// Between two looks at what comes where nothing is to be sent; and where there is no call.
const LISTENS: u64 = 2_000_000;
const IDLE: u64 = 5_000_000;
/// Going to sleep for less takes longer than looking again.
const SLEEP_MIN: u64 = 4_000;
/// Groups that are sent before what has come is looked at.
const GROUPS_MAX: u32 = 4;
/// Sockets that are looked at in one call of the kernel.
const EVENTS: usize = 256;
/// Who hears nothing for so long speaks to nobody.
const SILENCE: u64 = 10_000_000_000;

/// Who speaks when.
struct Pacer<'a> {
    state: &'a MediaState,
    /// By tick: whose packet is due.
    ring: Vec<Vec<CallSender>>,
    epoch: u64,
    /// The tick that is next.
    tick: u64,
    senders: usize,
    joining: Vec<CallSender>,
    packet: Vec<u8>,
    pace: SoundPace,
}

/// Paces calls until they are over.
pub(super) fn run(state: &MediaState, cpus: &CpuSet) -> SoundPace {
    if !cpus.is_empty() {
        // Where this isn't granted, lateness shows it.
        let _ = sched::bind_this_thread(cpus);
    }
    timely::prepare_thread();
    let before = thread_cpu().ok();
    let mut pacer = Pacer {
        state,
        ring: (0..RING).map(|_| Vec::new()).collect(),
        epoch: monotonic().0,
        tick: 0,
        senders: 0,
        joining: Vec::new(),
        packet: Vec::with_capacity(ROOM),
        pace: SoundPace::default(),
    };
    let mut inbox = Inbox::new(BATCH_MAX, ROOM);
    while !state.stop.load(Relaxed) {
        pacer.join();
        pacer.send();
        pacer.receive(&mut inbox);
        pacer.rest();
    }
    let used = before.and_then(|before| Some(thread_cpu().ok()?.since(before)));
    pacer.pace.cpu = used.map_or(vtax_units::Nanos::ZERO, |used| used.total());
    pacer.pace
}

impl Pacer<'_> {
    /// Finds a place for who has begun to speak: the least crowded of the next packet's time.
    fn join(&mut self) {
        std::mem::swap(&mut self.joining, &mut lock(&self.state.joined));
        // Nobody waits for ticks that have passed while nobody spoke.
        if self.senders == 0 {
            self.tick = self.tick.max((monotonic().0 - self.epoch) / TICK);
        }
        for sender in self.joining.drain(..) {
            let least = (self.tick + 1..=self.tick + sender.ticks.max(1))
                .min_by_key(|tick| self.ring[*tick as usize % RING].len());
            let at = least.unwrap_or(self.tick + 1);
            self.ring[at as usize % RING].push(sender);
            self.senders += 1;
        }
    }

    /// Sends what is due.
    fn send(&mut self) {
        let mut groups = 0;
        while groups < GROUPS_MAX {
            let due = self.epoch + self.tick * TICK;
            if due > monotonic().0 {
                return;
            }
            let place = self.tick as usize % RING;
            let mut group = std::mem::take(&mut self.ring[place]);
            groups += u32::from(!group.is_empty());
            for sender in group.drain(..) {
                if self.speak(sender, due) {
                    self.ring[(self.tick + sender.ticks) as usize % RING].push(sender);
                } else {
                    self.senders -= 1;
                }
            }
            self.ring[place] = group;
            self.tick += 1;
        }
    }

    /// Sends a packet; false where this call is over or says nothing more.
    fn speak(&mut self, sender: CallSender, due: u64) -> bool {
        let Some(mut slot) = self.state.slot(sender.slot) else { return false };
        if slot.generation != sender.generation {
            return false;
        }
        let slot = &mut *slot;
        let (Some((socket, _)), Some(talk)) = (&slot.socket, &mut slot.talk) else { return false };
        if !talk.speaks {
            talk.queued = false;
            return false;
        }
        let now = monotonic().0;
        if let Some(silent) = &self.state.silent
            && talk.far_flow.speaks()
            && now.saturating_sub(talk.heard_at) > SILENCE
        {
            (talk.speaks, talk.queued) = (false, false);
            lock(silent).push(sender.slot);
            return false;
        }
        self.packet.clear();
        talk.speak(now, &self.state.sounds, &mut self.packet);
        let mut sent = socket.send_to(&self.packet, talk.far);
        // ICMP about an earlier one, or a signal.
        if sent
            .as_ref()
            .is_err_and(|e| matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionRefused))
        {
            sent = socket.send_to(&self.packet, talk.far);
        }
        self.pace.sent += 1;
        self.pace.refused += u64::from(sent.is_err());
        self.pace.lateness.record(vtax_units::Nanos(now.saturating_sub(due)));
        true
    }

    fn receive(&mut self, inbox: &mut Inbox) {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        loop {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let Ok((ready, _)) = epoll::wait(&self.state.epoll, &mut events, Some(&none)) else { return };
            for event in &*ready {
                let Some(mut slot) = self.state.slot(event.data.u64() as u32) else { continue };
                let slot = &mut *slot;
                let Some((socket, _)) = &slot.socket else { continue };
                match &mut slot.talk {
                    Some(talk) => {
                        take(socket, talk, inbox, &self.state.sounds);
                        if let Some(took) = talk.round_trip.take() {
                            self.pace.round_trip.record(vtax_units::Nanos(took));
                        }
                    }
                    // Of a call that is over, or has not begun.
                    None => drop(inbox.receive(std::os::fd::AsFd::as_fd(socket))),
                }
            }
            if ready.len() < EVENTS || self.epoch + self.tick * TICK <= monotonic().0 {
                return;
            }
        }
    }

    /// Sleeps until something is due.
    fn rest(&self) {
        let now = monotonic().0;
        if self.senders == 0 {
            return thread::sleep(Duration::from_nanos(IDLE));
        }
        let ticks = LISTENS / TICK;
        let next = (self.tick..self.tick + ticks).find(|tick| !self.ring[*tick as usize % RING].is_empty());
        let due = self.epoch + next.unwrap_or(self.tick + ticks) * TICK;
        let left = due.saturating_sub(now);
        if left >= SLEEP_MIN {
            thread::sleep(Duration::from_nanos(left));
        }
    }
}
