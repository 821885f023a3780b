//! Fences and broken links: who may be heard, and who goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vtax_lab::ft::witness::Questioner;
use vtax_lab::ft::{FtPair, Outcome, PairEvent, PairEventKind, PairSpec, Side};
use vtax_sys::frames::{Frame, Frames};
use vtax_units::{BitRate, Bytes, Nanos};
use vtax_vm::ft::Mode;

use crate::{SOON, World, armed, goes_on, kill_primary, promoted, show, spec, wait};

/// A frame of the guest's: where it was heard, whether it left the switch there, its kind and time.
type Heard = (u32, bool, u16, Nanos);

/// Listens to everything until told to stop; of what was heard, the frames from one sender.
fn listen(mut frames: Frames, stop: &AtomicBool, card: u32) -> Vec<Heard> {
    let mut heard = Vec::new();
    let mut take = || {
        let note = |f: Frame<'_>| {
            let sender = f.bytes.get(6..12).unwrap_or_default().to_owned();
            heard.push((sender, (f.interface, f.sent, f.kind().unwrap_or(0), f.when)));
        };
        frames.take(note).unwrap();
    };
    while !stop.load(Ordering::Relaxed) {
        take();
        std::thread::sleep(Duration::from_millis(2));
    }
    take();
    assert_eq!(frames.missed(), 0, "not every frame was heard");
    let guest = heard.iter().find(|(_, (from, sent, ..))| *from == card && !sent).unwrap().0.clone();
    heard.into_iter().filter(|(sender, _)| *sender == guest).map(|(_, frame)| frame).collect()
}

/// Ends threads that look at the flag, also where a wait fails: a scope waits for its threads.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn hung_host_is_fenced(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    let frames = Frames::open().unwrap();
    goes_on(&pair, &questioner, 20);
    let ([old_pid, _], [old_card, new_card]) = (pair.pids(), pair.cards().map(Option::unwrap));
    let host = pair.host_of(Side::Primary).unwrap();
    pair.hang_host(Side::Primary).unwrap();
    // Once it is suspected, it wakes up all the time, also in the middle of the fence. Before, it would
    // only have been slow.
    let suspected = || pair.events().iter().any(|e| matches!(e.kind, PairEventKind::Detected { .. }));
    let stop = AtomicBool::new(false);
    let heard = std::thread::scope(|scope| {
        let end = StopAtEnd(&stop);
        let listener = scope.spawn(|| listen(frames, &stop, old_card));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if suspected() {
                    pair.wake_host(&host).unwrap();
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        wait(&pair, "take-over", 1, promoted);
        goes_on(&pair, &questioner, 50);
        drop(end);
        listener.join().unwrap()
    });
    let events = pair.events();
    let when = |is: fn(&PairEventKind) -> bool| events.iter().find(|e| is(&e.kind)).unwrap().wall;
    let fenced = when(|k| matches!(k, PairEventKind::Fenced { .. }));
    assert!(fenced < when(promoted), "{}", show(&pair));
    assert!(!std::path::Path::new(&format!("/proc/{}/fd", old_pid.unwrap())).exists());
    no_split_brain(&heard, old_card, new_card, fenced);
    questioner.finish().unwrap();
}

/// Every frame that reached the service network came from the card whose time it was. The secondary's guest
/// runs between checkpoints and talks as well, to a card that isn't plugged in.
fn no_split_brain(heard: &[Heard], old_card: u32, new_card: u32, fenced: Nanos) {
    let count = |is: &dyn Fn(&Heard) -> bool| heard.iter().filter(|frame| is(frame)).count();
    let from = |card: u32, late: bool| count(&|f| f.0 == card && !f.1 && (f.3 >= fenced) == late);
    // What the switch sends them to is not one of the guest's cards.
    let reached =
        |late: bool| count(&|f| f.1 && f.0 != old_card && f.0 != new_card && (f.3 >= fenced) == late);
    let (before, after) = (reached(false), reached(true));
    assert!(
        before >= 10 && after >= 10,
        "{before} frames reached the network before the fence, {after} after it"
    );
    assert_eq!(from(old_card, true), 0, "the old primary was heard after the fence");
    assert_eq!(before, from(old_card, false), "another card was heard before the fence");
    assert!(after <= from(new_card, true), "another card was heard after the fence");
    let kind = |wanted: u16| count(&|f| f.2 == wanted);
    // Neither ARP nor IPv6 is held back until a checkpoint: of the one there is little, of the other nothing.
    let (ipv4, arp, rarp, ipv6) = (kind(0x0800), kind(0x0806), kind(0x8035), kind(0x86dd));
    println!(
        "  {before} frames before the fence, {after} after: {ipv4} IPv4, {arp} ARP, {rarp} RARP, {ipv6} IPv6"
    );
    assert_eq!((ipv6, ipv4 + arp + rarp), (0, heard.len()));
}

/// The first half of a fence by itself: the guest runs on, and nothing of it is heard.
pub(crate) fn port_is_cut(pair: &FtPair, questioner: &Questioner) {
    let (card, host) = (pair.cards()[0].unwrap(), pair.host_of(Side::Primary).unwrap());
    pair.cut_service_port(Side::Primary).unwrap();
    let cut = Instant::now();
    let mut frames = Frames::open().unwrap();
    settle(questioner);
    pair.hang_host(Side::Primary).unwrap();
    pair.wake_host(&host).unwrap();
    // The client asks again meanwhile, and the guest answers again.
    std::thread::sleep(Duration::from_millis(800));
    let asked_since = questioner.answers().iter().filter(|answer| answer.sent > cut).count();
    assert_eq!(asked_since, 0, "it answered although it was cut off");
    let mut heard = 0;
    frames.take(|f| heard += usize::from(f.interface == card)).unwrap();
    assert_eq!(heard, 0, "frames of a card that was cut off");
    assert!(pair.primary().unwrap().is_running().unwrap());
}

/// Waits until those answers that are on their way have come.
fn settle(questioner: &Questioner) {
    let until = Instant::now() + SOON;
    let mut answers = questioner.answers().len();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = questioner.answers().len();
        if now == answers {
            return;
        }
        assert!(Instant::now() < until, "answers go on to come");
        answers = now;
    }
}

/// Something of a higher rank takes the CPU of the primary's host away for three times the detector's timeout.
pub(crate) fn starved_host_lives(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.hosts = ["0", "1"].map(|cpu| cpu.parse().unwrap()).to_vec();
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    goes_on(&pair, &questioner, 50);
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        // What ends it has the other CPU and the same rank: else it could wait for a turn itself.
        let clock = ["-c", "1", "chrt", "-f", "50", "timeout", "0.3"];
        let hog = ["taskset", "-c", "0", "sh", "-c", "while :; do :; done"];
        let hogged = std::process::Command::new("taskset").args(clock).args(hog).status().unwrap();
        assert_eq!(hogged.code(), Some(124), "it ran until its time was over");
        std::thread::sleep(Duration::from_millis(100));
    }
    let failed = pair.events().iter().any(|e| matches!(e.kind, PairEventKind::Detected { .. }));
    assert!(!failed && pair.is_armed(), "{}", show(&pair));
    goes_on(&pair, &questioner, 20);
    kill_primary(&pair, &questioner, 1);
    questioner.finish().unwrap();
}

pub(crate) fn secondary_dies(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.hosts.push(Default::default());
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let killed = Instant::now();
    pair.kill_host(Side::Secondary).unwrap();
    wait(&pair, "going on alone", 1, |k| matches!(k, PairEventKind::Unprotected { .. }));
    goes_on(&pair, &questioner, 20);
    let gap = questioner.first_after(killed + Duration::from_millis(20)).unwrap().came - killed;
    // The third host takes the place of the second by itself.
    wait(&pair, "protection on the spare host", 2, |k| matches!(k, PairEventKind::Armed { .. }));
    assert_eq!(pair.host_of(Side::Secondary).as_deref(), Some("host-c"));
    goes_on(&pair, &questioner, 20);
    println!("  gap {gap:?}");
    pair.restore("host-b").unwrap();
    crashed(&pair);
    goes_on(&pair, &questioner, 20);
    questioner.finish().unwrap();
}

/// The primary's QEMU ends by itself: the spare host takes over, and the guest is protected on the one that is free, not
/// on the one that was fenced for it.
fn crashed(pair: &FtPair) {
    pair.primary().unwrap().signal(rustix::process::Signal::KILL).unwrap();
    wait(pair, "take-over", 1, promoted);
    assert_eq!(pair.host_of(Side::Primary).as_deref(), Some("host-c"));
    wait(pair, "protection on the free host", 3, |k| matches!(k, PairEventKind::Armed { .. }));
    assert_eq!(pair.host_of(Side::Secondary).as_deref(), Some("host-b"), "{}", show(pair));
    let failed = |e: &PairEvent| matches!(e.kind, PairEventKind::ArmFailed { .. });
    let tried = pair.events().into_iter().filter(failed).find(|e| e.host.as_deref() == Some("host-a"));
    assert_eq!(tried, None, "it was fenced");
}

pub(crate) fn link_is_slow_and_cut(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.host_memory = vec![spec.memory_needed(), Bytes::from_mib(256)];
    let refused = world.try_pair(spec.clone()).unwrap_err().to_string();
    assert!(refused.contains("host-b has 256MiB of memory; a guest of 256MiB needs "), "{refused}");
    spec.host_memory.clear();
    let small = PairSpec { memory: Bytes::from_mib(64), ..spec.clone() };
    let refused = vtax_sys::chain(&world.try_pair(small).unwrap_err());
    assert!(refused.contains("a guest needs at least "), "{refused}");
    let rate = BitRate(800_000_000);
    spec.link.rate = Some(rate);
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "dirty 2048");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let statistics = pair.statistics();
    // Two MiB for each checkpoint can't go faster than the link.
    let least = Nanos((2 << 20) * 8 * 1_000_000_000 / rate.0 * 9 / 10);
    println!("  over {rate} {:?}", statistics[0]);
    assert!(statistics[0].pause_median > least, "{least} {statistics:?}");
    assert!(pair.is_armed(), "a full link is no broken link\n{}", show(&pair));
    let host = pair.host_of(Side::Secondary).unwrap();
    pair.cut_link(Side::Secondary).unwrap();
    wait(&pair, "going on alone", 1, |k| matches!(k, PairEventKind::Unprotected { .. }));
    goes_on(&pair, &questioner, 50);
    assert!(!pair.is_armed());
    pair.restore(&host).unwrap();
    assert!(pair.wait_armed(SOON), "{}", show(&pair));
    goes_on(&pair, &questioner, 20);
    kill_primary(&pair, &questioner, 1);
    // Both hosts off: no host is left, and that is reported.
    pair.kill_host(Side::Primary).unwrap();
    wait(&pair, "the loss", 1, |k| matches!(k, PairEventKind::ServiceLost { .. }));
    assert_eq!(pair.outcome(), Outcome::Lost);
}
