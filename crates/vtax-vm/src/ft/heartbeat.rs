//! Heartbeats between the hosts of a pair, and what their absence means.
//!
//! A small process on each host says on two paths that the host lives. Silence on one path is a broken
//! path; only silence on both makes a host suspect. What is done about a suspect is not decided here.

use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::SendFlags;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// First bytes of a beat.
const MAGIC: [u8; 4] = *b"VTHB";
/// A beat on the wire: magic, sequence number (little-endian).
const BEAT: usize = 8;

/// The two ways between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// The link that carries the checkpoints.
    FtLink,
    /// The other one.
    Second,
}

impl Path {
    /// Both.
    pub const ALL: [Self; 2] = [Self::FtLink, Self::Second];
}

/// When a host is believed to be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetectorSettings {
    /// Time between two beats.
    pub interval: Nanos,
    /// Silence on a path after which it is believed to be broken.
    pub timeout: Nanos,
}

impl Default for DetectorSettings {
    /// Five beats of 20 ms: with fencing and take-over that stays below the 200 ms after which TCP first
    /// repeats a packet (RFC 6298 as Linux does it), so that most callers see one repetition.
    fn default() -> Self {
        Self { interval: Nanos::from_millis(20), timeout: Nanos::from_millis(100) }
    }
}

/// Says forever, on each of these connected datagram sockets, that this process lives.
///
/// # Errors
///
/// Where the kernel has no timer. A broken path is none: the beats go on.
pub fn beat_forever(sockets: &[OwnedFd], interval: Duration) -> std::io::Result<()> {
    // Refused to ordinary users; then a busy host is more easily taken for a dead one.
    let _ = vtax_sys::sched::react_at_once();
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let every = Timespec::try_from(interval).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 20_000_000 });
    let spec = Itimerspec { it_interval: every, it_value: every };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
    let mut sequence = 0_u32;
    loop {
        let mut beat = [0; BEAT];
        beat[..4].copy_from_slice(&MAGIC);
        beat[4..].copy_from_slice(&sequence.to_le_bytes());
        for socket in sockets {
            // Without anybody who listens, or with the cable out, the next beat is tried all the same.
            let _ = rustix::net::send(socket, &beat, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        sequence = sequence.wrapping_add(1);
        let mut expired = [0; 8];
        rustix::io::read(&timer, &mut expired)?;
    }
}

/// The process on a host: beats with the command line `--interval-us N` on the datagram sockets it
/// inherited as descriptors 3 and 4, until it is killed.
///
/// # Errors
///
/// Where the arguments or the descriptors aren't those.
pub fn run_process(args: &[String]) -> std::io::Result<()> {
    let interval = match args {
        [key, us] if key == "--interval-us" => us.parse().ok().map(Duration::from_micros),
        _ => None,
    };
    let interval = interval.ok_or_else(|| std::io::Error::other("expected --interval-us N"))?;
    let sockets = [vtax_sys::inherit::take(3)?, vtax_sys::inherit::take(4)?];
    beat_forever(&sockets, interval)
}

/// Takes every beat that waits on the socket, which must not block, and tells where each came from.
pub fn take_beats(socket: &UdpSocket, mut from: impl FnMut(IpAddr)) {
    let mut bytes = [0; 64];
    while let Ok((length, source)) = socket.recv_from(&mut bytes) {
        if length == BEAT && bytes[..4] == MAGIC {
            from(source.ip());
        }
    }
}

/// What is known about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was never heard of.
    Unknown,
    /// Both paths bring beats.
    Alive,
    /// A path is silent, and the other has been for a while: the next beat, or none, will tell.
    Unclear,
    /// Only the other path brings beats.
    PathLost(Path),
    /// No path brings beats: dead, hung or cut off.
    Suspect,
}

/// The last beats of one host.
#[derive(Debug, Clone, Copy)]
pub struct Detector {
    timeout: Duration,
    last: [Option<Instant>; 2],
}

impl Detector {
    /// Nothing heard yet.
    #[must_use]
    pub fn new(settings: DetectorSettings) -> Self {
        Self { timeout: settings.timeout.into(), last: [None; 2] }
    }

    /// A beat came.
    pub const fn beat(&mut self, path: Path, now: Instant) {
        self.last[path as usize] = Some(now);
    }

    /// Forgets everything: the host is about to be started anew.
    pub const fn forget(&mut self) {
        self.last = [None; 2];
    }

    /// The last beat on any path.
    #[must_use]
    pub fn last(&self) -> Option<Instant> {
        self.last.into_iter().flatten().max()
    }

    /// What the silence means at this moment, where the timeout counts `patience` times. Every beat that waits
    /// must have been taken before.
    #[must_use]
    pub fn verdict(&self, now: Instant, patience: u32) -> Verdict {
        let timeout = self.timeout * patience;
        let silence =
            self.last.map(|last| last.map_or(Duration::MAX, |last| now.saturating_duration_since(last)));
        let lost = silence.map(|silence| silence > timeout);
        // The beats of a host that dies end on both paths at once, but are not seen at the same moment.
        let fresh = |path: usize| silence[path] <= timeout / 2;
        match lost {
            _ if self.last().is_none() => Verdict::Unknown,
            [false, false] => Verdict::Alive,
            [true, true] => Verdict::Suspect,
            [true, false] if fresh(1) => Verdict::PathLost(Path::FtLink),
            [false, true] if fresh(0) => Verdict::PathLost(Path::Second),
            _ => Verdict::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_silent_path_is_a_broken_path_and_two_are_a_suspect() {
        let mut detector = Detector::new(DetectorSettings::default());
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(detector.verdict(at(10_000), 1), Verdict::Unknown);
        detector.beat(Path::FtLink, at(0));
        detector.beat(Path::Second, at(10));
        assert_eq!(detector.verdict(at(100), 1), Verdict::Alive);
        assert_eq!(detector.verdict(at(105), 1), Verdict::Unclear);
        assert_eq!(detector.verdict(at(111), 1), Verdict::Suspect);
        assert_eq!(detector.verdict(at(111), 4), Verdict::Alive);
        detector.beat(Path::Second, at(60));
        assert_eq!(detector.verdict(at(105), 1), Verdict::PathLost(Path::FtLink));
        detector.beat(Path::FtLink, at(150));
        assert_eq!(detector.verdict(at(170), 1), Verdict::PathLost(Path::Second));
        assert_eq!(detector.last(), Some(at(150)));
        detector.forget();
        assert_eq!(detector.verdict(at(500), 1), Verdict::Unknown);
    }

    #[test]
    fn what_is_no_beat_is_none() {
        let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let all: [&[u8]; 4] = [b"VTHB\0\0\0\0", b"VTHB", &[0xff; 64], b"VTHB\x01\0\0\0"];
        for bytes in all {
            sender.send_to(bytes, listener.local_addr().unwrap()).unwrap();
        }
        let mut sources = Vec::new();
        take_beats(&listener, |source| sources.push(source));
        assert_eq!(sources, [sender.local_addr().unwrap().ip(); 2]);
    }
}
