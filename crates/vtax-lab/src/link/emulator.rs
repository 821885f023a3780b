//! A link emulator adds delay and loss: a thread that passes frames from one tap to another.
//!
//! The kernel's netem is not used even where it is there, so that a path is the same on every host; and
//! it would lose, or delay, segments of up to 64 KiB as one. An emulator that loses frames therefore gets them
//! cut to the MTU by the kernel; one that only delays passes large segments on as they are.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use vtax_load::LatencyHistogram;
use vtax_plan::model::NetPath;
use vtax_sys::sync::lock;
use vtax_sys::usage::thread_cpu;
use vtax_sys::{Context as _, sched};
use vtax_units::{Bytes, CpuSet, Nanos};

use crate::error::{Result, While};

/// Frames taken from one side before the other is looked at.
const BATCH: usize = 64;
/// A frame of 64 KiB with its headers fits.
const ROOM: usize = 68 << 10;
/// Bytes that may be under way in one direction; what comes beyond is dropped, and counted.
const MOST_HELD: usize = 64 << 20;

/// What a link emulator does to each direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Emulation {
    /// Time every frame is held back.
    pub(crate) delay: Nanos,
    /// Share of frames lost, each independently.
    pub(crate) loss: f64,
    /// Of the choice which.
    pub(crate) seed: u64,
}

/// What happened on one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectionStats {
    /// Frames taken in.
    pub(crate) frames: u64,
    /// Frames lost on purpose.
    pub(crate) lost: u64,
    /// Frames dropped because too many bytes were under way, or the other end took none.
    pub(crate) dropped: u64,
    /// How late frames were passed on.
    pub(crate) lateness: LatencyHistogram,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    delay_ns: AtomicU64,
    stats: [Mutex<DirectionStats>; 2],
    /// CPU time of the thread in nanoseconds.
    cpu_ns: AtomicU64,
}

/// A link emulator; it stops passing frames on when dropped.
#[derive(Debug)]
pub(crate) struct LinkEmulator {
    shared: Arc<Shared>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Emulation {
    /// What a path asks for beside a rate; `None` where it asks for neither delay nor loss.
    pub(crate) fn of(path: &NetPath) -> Option<Self> {
        // The same frames are lost in every trial, as far as the same ones come.
        path.has_wire().then_some(Self { delay: path.delay, loss: path.loss.0, seed: 1 })
    }
}

impl LinkEmulator {
    /// Starts passing frames between two taps, on these CPUs.
    pub(crate) fn start(taps: [OwnedFd; 2], spec: Emulation, cpus: &CpuSet) -> Result<Self> {
        let what = || "start a link emulator".to_owned();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags).context("create", "eventfd").during(what)?);
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            delay_ns: AtomicU64::new(spec.delay.0),
            stats: Default::default(),
            cpu_ns: AtomicU64::new(0),
        });
        let relay = Relay {
            taps,
            wake: Arc::clone(&wake),
            shared: Arc::clone(&shared),
            loss: spec.loss,
            rng: Xoshiro256PlusPlus::seed_from_u64(spec.seed),
            held: Default::default(),
            spare: Vec::new(),
        };
        let cpus = cpus.clone();
        let run = move || {
            if !cpus.is_empty() {
                // It works on other CPUs too, whose users then pay for it.
                let _ = sched::bind_this_thread(&cpus);
            }
            // Where this isn't granted, the proof says whether it is good enough all the same.
            let _ = sched::react_at_once();
            relay.run();
        };
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn(run);
        let thread = thread.context("start", "the link emulator's thread").during(what)?;
        Ok(Self { shared, wake, thread: Some(thread) })
    }

    /// Changes the delay of frames that come from now on; for the proof, which compares with none.
    pub(crate) fn set_delay(&self, delay: Nanos) {
        self.shared.delay_ns.store(delay.0, Ordering::Relaxed);
    }

    /// What happened so far, by direction.
    pub(crate) fn stats(&self) -> [DirectionStats; 2] {
        [0, 1].map(|side| lock(&self.shared.stats[side]).clone())
    }

    /// CPU time the thread has used.
    pub(crate) fn cpu(&self) -> Nanos {
        Nanos(self.shared.cpu_ns.load(Ordering::Relaxed))
    }
}

impl Drop for LinkEmulator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // An eventfd takes a count unless it is at its limit, and then it wakes as well.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A frame under way.
struct Held {
    due: Nanos,
    frame: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Held>,
    bytes: usize,
}

struct Relay {
    taps: [OwnedFd; 2],
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
    loss: f64,
    rng: Xoshiro256PlusPlus,
    held: [Queue; 2],
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

impl Relay {
    fn run(mut self) {
        let mut buffer = vec![0; ROOM];
        let started = thread_cpu().unwrap_or_default();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let mut ended = false;
            for side in 0..2 {
                ended |= !self.take_in(side, &mut buffer);
                self.let_out(side);
            }
            let used = thread_cpu().unwrap_or_default().since(started);
            self.shared.cpu_ns.store(used.total().0, Ordering::Relaxed);
            if ended {
                return;
            }
            self.wait();
        }
    }

    /// Takes what has come; false where the tap is gone.
    fn take_in(&mut self, side: usize, buffer: &mut [u8]) -> bool {
        let delay = Nanos(self.shared.delay_ns.load(Ordering::Relaxed));
        let (mut frames, mut lost, mut dropped) = (0, 0, 0);
        let mut alive = true;
        for _ in 0..BATCH {
            let length = match rustix::io::read(&self.taps[side], &mut *buffer) {
                Ok(length) => length,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => {
                    alive = false;
                    break;
                }
            };
            frames += 1;
            let queue = &mut self.held[side];
            if self.loss > 0.0 && self.rng.random::<f64>() < self.loss {
                lost += 1;
            } else if queue.bytes + length > MOST_HELD {
                dropped += 1;
            } else {
                let mut frame = self.spare.pop().unwrap_or_default();
                frame.clear();
                frame.extend_from_slice(&buffer[..length]);
                queue.bytes += length;
                queue.frames.push_back(Held { due: Nanos(sched::monotonic().0 + delay.0), frame });
            }
        }
        if frames > 0 {
            let mut stats = lock(&self.shared.stats[side]);
            stats.frames += frames;
            stats.lost += lost;
            stats.dropped += dropped;
        }
        alive
    }

    /// Passes on what is due.
    fn let_out(&mut self, side: usize) {
        let mut now = sched::monotonic();
        let queue = &mut self.held[side];
        if queue.frames.front().is_none_or(|held| held.due > now) {
            return;
        }
        let mut stats = lock(&self.shared.stats[side]);
        while queue.frames.front().is_some_and(|held| held.due <= now) {
            let Some(held) = queue.frames.pop_front() else { break };
            queue.bytes -= held.frame.len();
            // A tap that is down takes nothing, as a port without a cable.
            if rustix::io::write(&self.taps[1 - side], &held.frame).is_err() {
                stats.dropped += 1;
            }
            now = sched::monotonic();
            stats.lateness.record(Nanos(now.0 - held.due.0));
            if self.spare.len() < BATCH {
                self.spare.push(held.frame);
            }
        }
    }

    /// Until a frame comes, one is due, or it is over.
    fn wait(&self) {
        let due = self.held.iter().filter_map(|q| q.frames.front()).map(|held| held.due.0).min();
        let left = due.map(|due| Duration::from_nanos(due.saturating_sub(sched::monotonic().0)));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        use std::os::fd::AsFd as _;
        let mut fds = [watch(self.taps[0].as_fd()), watch(self.taps[1].as_fd()), watch(self.wake.as_fd())];
        // Interrupted or not: the loop looks again.
        let _ = poll(&mut fds, left.as_ref());
    }
}

/// The counters of a link emulator; the keys are those that stored runs have.
pub(crate) fn facts(emulator: &LinkEmulator) -> Vec<(String, String)> {
    let mut facts = vec![("path.wire.cpu_ns".to_owned(), emulator.cpu().0.to_string())];
    for (direction, stats) in ["up", "down"].into_iter().zip(emulator.stats()) {
        let late = |q| stats.lateness.quantile(q).0.to_string();
        let counts = [
            ("frames", stats.frames.to_string()),
            ("lost", stats.lost.to_string()),
            ("dropped", stats.dropped.to_string()),
            ("late_p50_ns", late(0.5)),
            ("late_p99_ns", late(0.99)),
        ];
        facts.extend(counts.into_iter().map(|(k, v)| (format!("path.wire.{direction}.{k}"), v)));
    }
    facts.push(("path.wire.held_at_most".to_owned(), Bytes(MOST_HELD as u64).to_string()));
    facts
}
