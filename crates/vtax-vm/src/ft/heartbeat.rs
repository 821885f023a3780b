//! Heartbeats between the hosts of a pair, and what their absence means.
//!
//! A small process on each host says on two paths that the host lives. Silence on one path is a broken
//! path; only silence on both makes a host suspect. What is done about a suspect is not decided here.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::SendFlags;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
};
use serde::{Deserialize, Serialize};
use vtax_sys::clock::unix_time;
use vtax_sys::datagrams::{BATCH_MAX, Inbox, stamp_arrivals};
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
    /// Four beats of 25 ms: with fencing and take-over that stays below the 200 ms after which TCP first
    /// repeats a packet (RFC 6298 as Linux does it), so that most callers see one repetition.
    fn default() -> Self {
        Self { interval: Nanos::from_millis(25), timeout: Nanos::from_millis(100) }
    }
}

/// Says forever, on each of these connected datagram sockets, that this process lives.
///
/// All processes of this machine beat at the same moments. Where their hosts share a CPU, it is woken once for all, and
/// what the kernel does for the first is still in its caches for the next.
///
/// # Errors
///
/// Where the kernel has no timer. A broken path is none: the beats go on.
pub fn beat_forever(sockets: &[OwnedFd], interval: Duration) -> std::io::Result<()> {
    // Refused to ordinary users; then a busy host is more easily taken for a dead one.
    let _ = vtax_sys::sched::react_at_once();
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let kernel = |time: Duration| Timespec::try_from(time).map_err(std::io::Error::other);
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).map_err(std::io::Error::other)?;
    let spec = Itimerspec { it_interval: kernel(interval)?, it_value: kernel(next_multiple(now, interval))? };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    let mut sequence = 0_u32;
    loop {
        let mut beat = [0; BEAT];
        beat[..4].copy_from_slice(&MAGIC);
        beat[4..].copy_from_slice(&sequence.to_le_bytes());
        for socket in sockets {
            // Without a listener, or with the cable out, the next beat is sent all the same.
            let _ = rustix::net::send(socket, &beat, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        sequence = sequence.wrapping_add(1);
        let mut expired = [0; 8];
        rustix::io::read(&timer, &mut expired)?;
    }
}

/// The first multiple of `interval` after `now`.
fn next_multiple(now: Duration, interval: Duration) -> Duration {
    let interval = interval.as_nanos().max(1);
    Duration::from_nanos(u64::try_from((now.as_nanos() / interval + 1) * interval).unwrap_or(u64::MAX))
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

/// Where beats are heard on one path.
#[derive(Debug)]
pub struct HeartbeatListener {
    socket: UdpSocket,
    inbox: Inbox,
    /// When it was last listened to: what comes afterwards can't be older.
    listened: Instant,
}

impl HeartbeatListener {
    /// Hears what comes to this address.
    ///
    /// # Errors
    ///
    /// Where the address isn't free.
    pub fn open(address: SocketAddr) -> std::io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        stamp_arrivals(socket.as_fd())?;
        Ok(Self { socket, inbox: Inbox::new(BATCH_MAX, 64), listened: Instant::now() })
    }

    /// Takes every beat that waits, and tells where each came from and when.
    pub fn listen(&mut self, mut from: impl FnMut(IpAddr, Instant)) {
        let before = std::mem::replace(&mut self.listened, Instant::now());
        let now = self.listened;
        let wall = unix_time();
        while let Ok(count @ 1..) = self.inbox.receive(self.socket.as_fd()) {
            for beat in (0..count).filter_map(|index| self.inbox.get(index)) {
                let Some(source) = self.inbox.sender(&beat) else { continue };
                if beat.length != BEAT || beat.bytes[..4] != MAGIC {
                    continue;
                }
                // A clock that is set meanwhile must not make a beat older than it can be.
                let age = self.inbox.arrival(&beat).map_or(0, |came| wall.0.saturating_sub(came.0));
                let age = Duration::from_nanos(age).min(now.saturating_duration_since(before));
                from(source.ip(), now.checked_sub(age).unwrap_or(now));
            }
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
    pub fn beat(&mut self, path: Path, when: Instant) {
        let last = &mut self.last[path as usize];
        *last = (*last).max(Some(when));
    }

    /// When silence will first mean something that must be noticed, where no beat comes until then; `None` for a host
    /// that was never heard of. Nothing hangs on the second path while the link for checkpoints brings beats.
    #[must_use]
    pub fn next_verdict(&self, patience: u32) -> Option<Instant> {
        let [link, second] = self.last;
        link.or(second).map(|last| last + self.timeout * patience)
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

    /// Whether a path brought a beat within half of the timeout.
    #[must_use]
    pub fn beats(&self, now: Instant) -> bool {
        self.last().is_some_and(|last| now.saturating_duration_since(last) <= self.timeout / 2)
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
        assert!(
            detector.beats(at(200)) && !detector.beats(at(201)),
            "half of the timeout after its last beat"
        );
        assert_eq!(detector.next_verdict(1), Some(at(250)), "the second path's silence alone means nothing");
        detector.beat(Path::FtLink, at(50));
        assert_eq!(detector.next_verdict(1), Some(at(250)), "an older beat changes nothing");
        detector.forget();
        assert_eq!(detector.verdict(at(500), 1), Verdict::Unknown);
    }

    #[test]
    fn a_dead_host_is_noticed_one_timeout_after_its_last_beat() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let settings = DetectorSettings::default();
        let interval = settings.interval.0 / 1_000_000;
        // It dies at any moment.
        for died in 1_000..1_000 + interval {
            let mut detector = Detector::new(settings);
            for beat in (0..died).step_by(usize::try_from(interval).unwrap()) {
                detector.beat(Path::FtLink, at(beat));
                detector.beat(Path::Second, at(beat));
                assert_eq!(detector.verdict(at(beat + interval - 1), 1), Verdict::Alive);
            }
            let suspected = (died..died + 200).find(|ms| detector.verdict(at(*ms), 1) == Verdict::Suspect);
            let last = (died - 1) / interval * interval;
            assert_eq!(suspected, Some(last + 101));
            assert_eq!(detector.next_verdict(1), Some(at(last + 100)), "and looked at by then");
        }
    }

    #[test]
    fn processes_beat_at_the_same_moments() {
        let ms = Duration::from_millis;
        let interval = DetectorSettings::default().interval.into();
        for started in 0..25 {
            assert_eq!(next_multiple(ms(1_000 + started), interval), ms(1_025), "started {started} ms later");
        }
        assert_eq!(next_multiple(Duration::ZERO, ms(10)), ms(10), "a timer of zero never goes off");
        assert_eq!(next_multiple(Duration::MAX, Duration::ZERO), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn two_hearts_are_heard_together() {
        let mut listener = HeartbeatListener::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let place = listener.socket.local_addr().unwrap();
        // One begins in the middle of the other's interval. They go on until the test program ends.
        for begins_after in [0, 10] {
            std::thread::sleep(Duration::from_millis(begins_after));
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(place).unwrap();
            std::thread::spawn(move || beat_forever(&[socket.into()], Duration::from_millis(25)));
        }
        let until = Instant::now() + Duration::from_secs(20);
        let mut times: Vec<Instant> = Vec::new();
        let mut together = 0;
        while together < 3 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
            listener.listen(|_, when| times.push(when));
            // A busy machine may keep some apart, not all.
            let close =
                |pair: &&[Instant]| pair[1].saturating_duration_since(pair[0]) < Duration::from_millis(5);
            together = times.windows(2).filter(close).count();
        }
        assert!(together >= 3, "{times:?}");
    }

    #[test]
    fn what_is_no_beat_is_none() {
        let mut listener = HeartbeatListener::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let begun = Instant::now();
        let all: [&[u8]; 4] = [b"VTHB\0\0\0\0", b"VTHB", &[0xff; 64], b"VTHB\x01\0\0\0"];
        for bytes in all {
            sender.send_to(bytes, listener.socket.local_addr().unwrap()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        let (mut sources, mut times) = (Vec::new(), Vec::new());
        listener.listen(|source, when| {
            sources.push(source);
            times.push(when);
        });
        // Beats are as old as they are, not as young as the look at them. The clocks' readings differ a little.
        let early = begun.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(times.iter().all(|when| *when >= early && *when <= Instant::now()));
        assert_eq!(sources, [sender.local_addr().unwrap().ip(); 2]);
    }
}
