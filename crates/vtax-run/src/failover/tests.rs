//! Faults on a simulated pair, and the account of them.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vtax_lab::ft::{PairEvent, PairEventKind};
use vtax_plan::model::{Fault, FaultKind, FaultTarget, FtMode};
use vtax_store::failover::{Recovery, Spell};
use vtax_sys::clock::unix_time;
use vtax_units::Nanos;

use super::account::{Account, FailoverFindings, Revival};
use super::inject::{Done, Hit, Injector, Rig};
use super::seen::Course;
use crate::observe::{Observer, RunEvent, Silent};

const KILL: FaultKind = FaultKind::Kill(FaultTarget::PrimaryHost);
const KILL_COPY: FaultKind = FaultKind::Kill(FaultTarget::SecondaryHost);
const CUT: FaultKind = FaultKind::Cut(FaultTarget::FtLink);
const HANG: FaultKind = FaultKind::Hang(FaultTarget::Sut);
const MOVE: FaultKind = FaultKind::Failover(FaultTarget::Planned);
const MEND: FaultKind = FaultKind::Restore(FaultTarget::Hosts);

const fn fault(ms: u64, kind: FaultKind) -> Fault {
    Fault { at: Nanos::from_millis(ms), kind }
}

/// A pair that is noted instead of broken; every second kill loses its guest.
#[derive(Default)]
struct Simulated {
    done: Mutex<Vec<(Instant, FaultKind)>>,
    events: Mutex<Vec<PairEvent>>,
}

impl Rig for Simulated {
    fn inject(&self, kind: FaultKind) -> Result<Hit, String> {
        self.done.lock().unwrap().push((Instant::now(), kind));
        let hit = Hit { host: Some("host-a".to_owned()), at: unix_time(), undone: None };
        match kind {
            FaultKind::Failover(_) => {
                // It lasts until something else was done.
                until_done(self, 2);
                // It runs in a thread of its own, which a busy machine may start after the next fault's time.
                Ok(Hit { at: Nanos::ZERO, ..hit })
            }
            FaultKind::Cut(_) => Err("there is no such cable".to_owned()),
            _ => Ok(hit),
        }
    }

    fn protected(&self) -> Option<bool> {
        Some(true)
    }

    fn events(&self) -> Vec<PairEvent> {
        self.events.lock().unwrap().clone()
    }
}

/// Waits until so many faults were done, for at most 20 s.
fn until_done(rig: &Simulated, count: usize) {
    let began = Instant::now();
    while rig.done.lock().unwrap().len() < count && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn injector<'a>(
    rig: &'a Simulated,
    faults: &[Fault],
    revive: &'a (dyn Fn() -> Result<(), String> + Sync),
) -> Injector<'a> {
    Injector { rig, faults: faults.to_vec(), revive, observer: &Silent }
}

#[test]
fn faults_come_at_their_times_while_the_load_runs() {
    let rig = Simulated::default();
    let faults = [fault(30, KILL), fault(60, FaultKind::Cut(FaultTarget::FtLink)), fault(60_000, MEND)];
    let revive = || Ok(());
    let begun = Instant::now();
    let load = || until_done(&rig, 2);
    let ((), done) = injector(&rig, &faults, &revive).during(Nanos::from_millis(20), load);
    // What was due after the end of the load never came, and the load's end didn't wait for it.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(done.len(), 2);
    assert_eq!((done[0].host.as_deref(), done[0].refused.as_deref()), (Some("host-a"), None));
    assert_eq!(done[1].refused.as_deref(), Some("there is no such cable"));
    let times = rig.done.lock().unwrap();
    assert!(times[0].0 - begun >= Duration::from_millis(50), "{:?}", times[0].0 - begun);
}

/// Keeps the phases that it is told.
#[derive(Default)]
struct Phases(Mutex<Vec<String>>);

impl Observer for Phases {
    fn observe(&self, event: &RunEvent<'_>) {
        if let RunEvent::Phase { what } = event {
            self.0.lock().unwrap().push((*what).to_owned());
        }
    }
}

#[test]
fn who_watches_is_told_what_was_done_and_not_what_was_refused() {
    let (rig, phases, revive) = (Simulated::default(), Phases::default(), || Ok(()));
    let faults = [fault(0, KILL), fault(5, CUT), fault(10, MEND)];
    let injector = Injector { observer: &phases, ..injector(&rig, &faults, &revive) };
    let load = || until_done(&rig, 3);
    let ((), done) = injector.during(Nanos::ZERO, load);
    assert_eq!(done.len(), 3);
    let told = phases.0.into_inner().unwrap();
    assert_eq!(told, ["measuring, after kill: primary-host", "measuring, after restore: hosts"]);
}

#[test]
fn a_planned_move_holds_no_other_fault_up() {
    let rig = Simulated::default();
    let faults = [fault(0, MOVE), fault(10, KILL)];
    let revive = || Ok(());
    let load = || until_done(&rig, 2);
    let ((), done) = injector(&rig, &faults, &revive).during(Nanos::ZERO, load);
    let kinds: Vec<_> = done.iter().map(|done| (done.number, done.fault.kind)).collect();
    assert_eq!(kinds, [(0, MOVE), (1, KILL)], "in order of time, not of their ends");
}

#[test]
fn a_load_that_panics_leaves_no_thread_behind() {
    let rig = Simulated::default();
    let revive = || Ok(());
    let injector = injector(&rig, &[fault(60_000, KILL)], &revive);
    let begun = Instant::now();
    let load = || injector.during(Nanos::ZERO, || panic!("the load breaks"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(load));
    assert!(panicked.is_err() && begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_guest_that_was_booted_again_gets_its_service_again() {
    let rig = Simulated::default();
    let revived = Mutex::new(0);
    let revive = || {
        *revived.lock().unwrap() += 1;
        Ok(())
    };
    let load = || {
        rig.events.lock().unwrap().push(event(0, PairEventKind::Restarted));
        let began = Instant::now();
        while *revived.lock().unwrap() == 0 && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    injector(&rig, &[], &revive).during(Nanos::ZERO, load);
    assert_eq!(*revived.lock().unwrap(), 1);
}

/// Start of the recorded load in nanoseconds since 1970.
pub(super) const START: u64 = 1_000_000_000_000;

const MS: Nanos = Nanos::from_millis(1);

pub(super) fn event(ms: u64, kind: PairEventKind) -> PairEvent {
    let wall = Nanos(START + ms * 1_000_000);
    PairEvent { at: Nanos::from_millis(ms), wall, host: None, kind }
}

/// The same about a host.
pub(super) fn on(host: &str, event: PairEvent) -> PairEvent {
    PairEvent { host: Some(host.to_owned()), ..event }
}

fn armed(ms: u64, host: &str) -> PairEvent {
    on(host, event(ms, PairEventKind::Armed { took: MS }))
}

fn detected(ms: u64, host: &str, silence_ms: u64) -> PairEvent {
    on(host, event(ms, PairEventKind::Detected { silence: Nanos::from_millis(silence_ms) }))
}

fn fenced(ms: u64, host: &str) -> PairEvent {
    on(host, event(ms, PairEventKind::Fenced { took: MS }))
}

fn promoted(ms: u64, host: &str) -> PairEvent {
    on(host, event(ms, PairEventKind::Promoted { took: MS }))
}

fn alone(ms: u64, host: &str, reason: &str) -> PairEvent {
    on(host, event(ms, PairEventKind::Unprotected { reason: reason.to_owned() }))
}

fn lost(ms: u64, reason: &str) -> PairEvent {
    event(ms, PairEventKind::ServiceLost { reason: reason.to_owned() })
}

fn injected(ms: u64, host: &str, fault: &str) -> PairEvent {
    on(host, event(ms, PairEventKind::Fault { fault: fault.to_owned() }))
}

/// Faults that were done at their times, to these hosts.
fn done<const N: usize>(faults: &[Fault; N], hosts: [&str; N]) -> Vec<Done> {
    let all = faults.iter().enumerate().zip(hosts);
    all.map(|((number, fault), host)| Done {
        number,
        fault: *fault,
        at_unix_ns: START + fault.at.0,
        protected: Some(true),
        host: (!host.is_empty()).then(|| host.to_owned()),
        refused: None,
        undone: None,
    })
    .collect()
}

/// A request every 10 ms for 20 s that is answered after 2 ms, or, in these times, at their end; `None`: never.
fn course(silent: &[(u64, Option<u64>)]) -> Course {
    let mut course = Course::new(Nanos::from_secs(20));
    for asked in (0..2_000).map(|i| i * 10) {
        let hit = silent.iter().find(|(from, to)| asked >= *from && to.is_none_or(|to| asked < to));
        let at = Nanos::from_millis;
        match hit {
            None => {
                course.answered(at(asked), at(asked + 2));
                course.ended(at(asked), at(asked + 2), false);
            }
            Some((_, Some(to))) => {
                course.answered(at(asked), at(*to));
                course.ended(at(asked), at(*to), false);
            }
            Some((_, None)) => course.ended(at(asked), at(asked + 1_000), true),
        }
    }
    course.sorted()
}

fn tell(
    mode: FtMode,
    faults: &[Fault],
    done: &[Done],
    events: &[PairEvent],
    course: &Course,
) -> FailoverFindings {
    tell_of(mode, (faults, done), events, course, &[])
}

/// The same of a guest that was booted again, whose service was started again then.
fn tell_of(
    mode: FtMode,
    (faults, done): (&[Fault], &[Done]),
    events: &[PairEvent],
    course: &Course,
    revivals: &[Revival],
) -> FailoverFindings {
    let account = Account {
        mode,
        faults,
        done,
        events,
        started_unix_ns: START,
        duration: Nanos::from_secs(20),
        course,
        delayed_beyond: Nanos::from_millis(100),
        revivals,
    };
    account.findings()
}

fn ms(t: Option<Nanos>) -> Option<u64> {
    t.map(|t| t.0 / 1_000_000)
}

fn stretches(spells: &[Spell]) -> Vec<(u64, Option<u64>)> {
    spells.iter().map(|s| (s.from.0 / 1_000_000, ms(s.to))).collect()
}

#[test]
fn each_event_belongs_to_the_fault_before_it() {
    let faults = [fault(2_000, KILL), fault(3_000, MEND), fault(7_000, KILL)];
    let events = [
        armed(500, "host-b"),
        detected(2_100, "host-a", 100),
        fenced(2_101, "host-a"),
        promoted(2_130, "host-b"),
        armed(3_900, "host-a"),
        detected(7_104, "host-b", 100),
        fenced(7_105, "host-b"),
        promoted(7_150, "host-a"),
    ];
    let course = course(&[(2_000, Some(2_240)), (7_000, Some(7_260))]);
    let done = done(&faults, ["host-a", "", "host-b"]);
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course);
    let [first, mend, second] = told.faults.as_slice() else { panic!("three faults") };
    assert_eq!(
        (ms(first.detected), ms(first.fenced), ms(first.armed)),
        (Some(2_100), Some(2_101), Some(3_900))
    );
    let recovered = first.recovered.as_ref().unwrap();
    assert_eq!((recovered.at, recovered.how), (Nanos::from_millis(2_130), Recovery::Promoted));
    assert_eq!((&mend.seen, &mend.recovered), (&None, &None));
    assert_eq!((ms(second.detected), second.armed), (Some(7_104), None));
    assert!(told.faults.iter().all(|f| f.discounted.is_none() && f.lost.is_none()));
    assert_eq!(ms(first.seen.as_ref().unwrap().first_answer), Some(2_240));
    // Not protected from the fault on, and down until an answer came.
    assert_eq!(stretches(&told.unprotected), [(2_000, Some(3_900)), (7_000, None)]);
    assert_eq!(stretches(&told.down), [(2_000, Some(2_240)), (7_000, Some(7_260))]);
    assert!(told.unplanned.is_empty());
}

#[test]
fn a_guest_that_was_not_protected_is_lost_and_not_held_against_the_mode() {
    let faults = [fault(2_000, KILL), fault(2_050, KILL_COPY), fault(9_000, KILL)];
    let both = done(&[faults[0], faults[1]], ["host-a", "host-b"]);
    // The pair notices the copy's host first, and has nothing any more when it notices the other's.
    let events = [
        armed(500, "host-b"),
        detected(2_140, "host-b", 90),
        fenced(2_141, "host-b"),
        alone(2_142, "host-a", "the secondary's host failed"),
        detected(3_000, "host-a", 1_000),
        lost(3_010, "its host failed while it was not protected"),
    ];
    let never = course(&[(2_000, None)]);
    let told = tell(FtMode::Kemari, &faults, &both, &events, &never);
    let [guest, copy, late] = told.faults.as_slice() else { panic!("three faults") };
    // It was protected, but no mode survives the loss of both.
    let both_gone = "what kept its copy was broken before that could take over, kill: secondary-host";
    let words = format!("{both_gone}: its host failed while it was not protected");
    assert_eq!((guest.protected, guest.lost.as_deref()), (true, Some(words.as_str())));
    assert_eq!(guest.discounted.as_deref(), Some(both_gone));
    assert!(!copy.protected && copy.lost.is_none());
    let silent = "the service was still silent from what happened before, kill: primary-host";
    assert_eq!(copy.discounted.as_deref(), Some(silent));
    assert_eq!((stretches(&told.down), told.unprotected.len()), (vec![(2_000, None)], 0));
    assert!(late.injected.is_none() && late.discounted.is_some());
    // Restarting needs no protection.
    let one = done(&[faults[0]], ["host-a"]);
    let again = [
        detected(2_100, "host-a", 100),
        fenced(2_101, "host-a"),
        on("host-b", event(2_200, PairEventKind::Restarted)),
    ];
    let told = tell(FtMode::Restart, &faults[..1], &one, &again, &course(&[(2_000, Some(4_600))]));
    assert_eq!((&told.faults[0].discounted, told.unprotected.len()), (&None, 0));
    // It is down until it answers, and not only until QEMU is started.
    assert_eq!(stretches(&told.down), [(2_000, Some(4_600))]);
}

#[test]
fn the_loss_of_a_copy_that_nobody_noticed_yet_is_not_held_against_the_mode() {
    for (first, host) in [(KILL_COPY, "host-b"), (CUT, "host-b")] {
        let faults = [fault(2_000, first), fault(2_050, KILL)];
        let done = done(&faults, [host, "host-a"]);
        let reason = "its host failed while it was not protected";
        let events = [
            armed(500, "host-b"),
            alone(2_105, "host-a", "the copy is of no use"),
            detected(2_150, "host-a", 100),
            fenced(2_151, "host-a"),
            lost(2_160, reason),
        ];
        let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(2_000, None)]));
        let [copy, guest] = told.faults.as_slice() else { panic!("two faults") };
        assert!(copy.protected && !guest.protected);
        assert_eq!(
            guest.discounted.as_deref(),
            Some("the guest was not protected at that moment: the copy is of no use")
        );
        assert_eq!(guest.lost.as_deref(), Some(reason));
        // What the first one would have come to, nobody knows.
        assert!(
            copy.lost.is_none() && copy.discounted.as_ref().is_some_and(|w| w.contains("kill: primary-host"))
        );
        assert_eq!(stretches(&told.unprotected), [(2_000, Some(2_050))], "then nobody ran it");
        assert_eq!(stretches(&told.down), [(2_050, None)]);
    }
}

#[test]
fn a_copy_that_was_cut_off_is_named_and_not_that_it_was_used_up_later() {
    let faults = [fault(2_000, CUT), fault(2_050, KILL)];
    let done = done(&faults, ["host-b", "host-a"]);
    let events = [
        armed(500, "host-b"),
        detected(2_150, "host-a", 100),
        fenced(2_151, "host-a"),
        promoted(2_180, "host-b"),
    ];
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(2_000, Some(2_220))]));
    let why = told.faults[1].discounted.as_deref();
    assert_eq!(why, Some("the guest was not protected at that moment: cut: ft-link"));
    assert_eq!(stretches(&told.unprotected), [(2_000, None)]);
    assert_eq!(told.unprotected[0].reason, "cut: ft-link; then the copy on the other host was used up");
    // Without the cut it is the take-over's alone.
    let told =
        tell(FtMode::Kemari, &faults[1..], &self::done(&[faults[1]], ["host-a"]), &events, &course(&[]));
    assert_eq!(told.unprotected[0].reason, "the copy on the other host was used up");
}

#[test]
fn a_fault_that_finds_the_service_silent_tells_nothing_of_its_own() {
    // The path is cut at 2000 ms and back at 3000 ms; the guest moves to the other host meanwhile.
    let path = |restore: bool| match restore {
        true => FaultKind::Restore(FaultTarget::Path),
        false => FaultKind::Cut(FaultTarget::Path),
    };
    let faults = [fault(2_000, path(false)), fault(2_300, KILL), fault(3_000, path(true))];
    let done = done(&faults, ["", "host-a", ""]);
    let events = [
        armed(500, "host-b"),
        detected(2_400, "host-a", 100),
        fenced(2_401, "host-a"),
        promoted(2_420, "host-b"),
    ];
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(2_000, Some(3_001))]));
    let why = told.faults[1].discounted.as_deref();
    assert_eq!(why, Some("the service was still silent from what happened before, cut: path"));
    assert!(told.faults[1].protected && told.faults[1].lost.is_none());
}

#[test]
fn a_guest_that_runs_again_and_answers_nobody_is_not_forgotten_for_what_breaks_next() {
    let why = |next: u64, mode: FtMode, back: PairEvent, revivals: &[Revival]| {
        let faults = [fault(2_000, KILL), fault(next, KILL)];
        let events = [armed(500, "host-b"), detected(2_100, "host-a", 100), fenced(2_101, "host-a"), back];
        let done = done(&faults, ["host-a", "host-b"]);
        let told = tell_of(mode, (&faults, &done), &events, &course(&[(2_000, None)]), revivals);
        told.faults[0].discounted.clone()
    };
    let unknown =
        "its outcome is not known: nobody had answered when the next thing happened, kill: primary-host";
    let unknown = Some(unknown.to_owned());
    // A copy has its state, and answers at once or never.
    let live = || promoted(2_110, "host-b");
    assert_eq!(why(6_000, FtMode::Kemari, live(), &[]), None);
    assert_eq!(why(2_900, FtMode::Kemari, live(), &[]), unknown);
    // A guest that boots can't answer before its service is there again.
    let booted = || on("host-b", event(2_200, PairEventKind::Restarted));
    let revival = |ms: u64, succeeded: bool| Revival { at_unix_ns: START + ms * 1_000_000, succeeded };
    assert_eq!(why(6_000, FtMode::Restart, booted(), &[]), unknown);
    assert_eq!(why(6_000, FtMode::Restart, booted(), &[revival(5_500, true)]), unknown);
    assert_eq!(why(6_000, FtMode::Restart, booted(), &[revival(4_500, true)]), None);
    assert_eq!(why(6_000, FtMode::Restart, booted(), &[revival(4_500, false)]), None);
}

#[test]
fn a_move_that_ends_after_the_load_is_no_loss() {
    let faults = [fault(18_000, MOVE)];
    let moved = |ms: u64| on("host-b", event(ms, PairEventKind::HandedOver { stopped: MS }));
    let events =
        |ms: u64| [armed(500, "host-b"), on("host-a", event(18_001, PairEventKind::Moving)), moved(ms)];
    let done = done(&faults, ["host-a"]);
    let why = |ms: u64, course: &Course| {
        tell(FtMode::Kemari, &faults, &done, &events(ms), course).faults[0].discounted.clone()
    };
    let late = "its outcome is not known: the load was over before the guest ran again";
    assert_eq!(why(20_500, &course(&[(19_990, None)])).as_deref(), Some(late));
    assert_eq!(why(19_000, &course(&[(18_990, Some(19_010))])), None);
}

#[test]
fn a_guest_that_still_boots_when_the_load_ends_is_not_lost() {
    // The load lasts 20 s, and QEMU runs again soon after the fault, but nothing in it yet.
    let faults = [fault(15_000, KILL)];
    let events = [
        detected(15_100, "host-a", 100),
        fenced(15_101, "host-a"),
        on("host-b", event(15_200, PairEventKind::Restarted)),
    ];
    let done = done(&faults, ["host-a"]);
    let why = |revivals: &[(u64, bool)]| {
        let revival =
            |&(ms, succeeded): &(u64, bool)| Revival { at_unix_ns: START + ms * 1_000_000, succeeded };
        let revivals: Vec<Revival> = revivals.iter().map(revival).collect();
        let never = course(&[(15_000, None)]);
        let told = tell_of(FtMode::Restart, (&faults, &done), &events, &never, &revivals);
        told.faults[0].discounted.clone()
    };
    let late = "its outcome is not known: the load was over while the guest booted again";
    assert_eq!(why(&[(26_000, true)]).as_deref(), Some(late));
    assert_eq!(why(&[]).as_deref(), Some(late), "the load was over before anybody looked at it");
    // An earlier one, of a guest that was killed again since, says nothing.
    assert_eq!(why(&[(9_000, true), (26_000, true)]).as_deref(), Some(late));
    // Its service was there and answered nobody, or never came.
    assert_eq!((why(&[(18_000, true)]), why(&[(26_000, false)])), (None, None));
}

#[test]
fn what_is_noted_late_is_told_at_its_time() {
    // The copy runs at 2110 ms, which is noted after its QEMU has ended at 2125 ms.
    let faults = [fault(2_000, KILL)];
    let events = [
        armed(500, "host-b"),
        detected(2_100, "host-a", 100),
        fenced(2_101, "host-a"),
        detected(2_125, "host-b", 0),
        promoted(2_110, "host-b"),
        lost(2_130, "its host failed while it was not protected"),
    ];
    let done = done(&faults, ["host-a"]);
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(2_000, Some(2_112)), (2_125, None)]));
    assert_eq!(told.faults[0].recovered.as_ref().map(|back| back.at), Some(Nanos::from_millis(2_110)));
    assert_eq!(ms(told.faults[0].seen.as_ref().unwrap().first_answer), Some(2_112));
    assert_eq!((told.unplanned.len(), told.unplanned[0].guest), (1, true));
    assert_eq!(stretches(&told.down), [(2_000, Some(2_112)), (2_125, None)]);
}

#[test]
fn what_is_mended_before_the_loss_of_a_copy_was_noticed_finds_no_protected_guest() {
    let faults = [fault(2_000, KILL_COPY), fault(2_050, MEND)];
    let events = [armed(500, "host-b"), alone(2_060, "host-a", "the secondary's host failed")];
    // The pair still believed in its copy.
    let done = done(&faults, ["host-b", ""]);
    assert_eq!(done[1].protected, Some(true));
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[]));
    assert!(told.faults[0].protected && !told.faults[1].protected);
    assert_eq!(stretches(&told.unprotected), [(2_000, None)]);
}

#[test]
fn a_broken_link_leaves_the_guest_unprotected_from_then_on() {
    let faults = [fault(2_000, CUT)];
    let reason = "the link for checkpoints is broken";
    let events = [armed(500, "host-b"), alone(2_110, "host-a", reason)];
    let mode = FtMode::Remus { interval: MS };
    let told = tell(mode, &faults, &done(&faults, ["host-b"]), &events, &course(&[]));
    assert_eq!(stretches(&told.unprotected), [(2_000, None)], "since it was cut");
    assert_eq!(told.unprotected[0].reason, reason);
    assert!(told.down.is_empty() && told.faults[0].discounted.is_none() && told.unplanned.is_empty());
    // One that nobody notices is in no way back, and the guest is not protected either.
    let told = tell(mode, &faults, &done(&faults, ["host-b"]), &events[..1], &course(&[]));
    assert_eq!(stretches(&told.unprotected), [(2_000, None)]);
}

#[test]
fn a_host_that_is_woken_in_time_has_not_failed() {
    let faults = [fault(2_000, HANG), fault(2_050, MEND), fault(6_000, KILL)];
    let done = done(&faults, ["host-a", "", "host-a"]);
    let events = [
        armed(500, "host-b"),
        injected(2_000, "host-a", "hang"),
        injected(2_050, "host-a", "restore"),
        injected(6_000, "host-a", "kill"),
        detected(6_101, "host-a", 101),
        fenced(6_102, "host-a"),
        promoted(6_120, "host-b"),
    ];
    let course = course(&[(2_000, Some(2_055)), (6_000, Some(6_210))]);
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course);
    assert!(told.faults[2].protected && told.faults.iter().all(|f| f.discounted.is_none()));
    assert_eq!((told.faults[0].detected, ms(told.faults[2].detected)), (None, Some(6_101)));
    assert_eq!(stretches(&told.unprotected), [(6_000, None)]);
    assert_eq!(stretches(&told.down), [(2_000, Some(2_055)), (6_000, Some(6_210))]);
}

#[test]
fn a_host_that_is_woken_and_not_heard_of_before_it_is_fenced_failed_of_that() {
    let faults = [fault(2_000, HANG), fault(2_100, MEND)];
    let events = [
        armed(500, "host-b"),
        injected(2_100, "host-a", "restore"),
        // Its last beat was just before it hung.
        detected(2_170, "host-a", 172),
        fenced(2_171, "host-a"),
        promoted(2_280, "host-b"),
    ];
    let told = tell(
        FtMode::Kemari,
        &faults,
        &done(&faults, ["host-a", ""]),
        &events,
        &course(&[(2_000, Some(2_290))]),
    );
    assert!(told.unplanned.is_empty(), "{:?}", told.unplanned);
    let hang = &told.faults[0];
    assert!(hang.protected && hang.discounted.is_none());
    assert_eq!((ms(hang.detected), ms(hang.fenced)), (Some(2_170), Some(2_171)));
    assert_eq!(ms(hang.seen.as_ref().unwrap().first_answer), Some(2_290));
}

#[test]
fn what_is_mended_is_down_until_it_answers() {
    let faults =
        [fault(1_000, KILL_COPY), fault(2_500, HANG), fault(2_800, FaultKind::Restore(FaultTarget::Sut))];
    let done = done(&faults, ["host-b", "host-a", ""]);
    let events = [
        armed(500, "host-b"),
        detected(1_100, "host-b", 100),
        fenced(1_101, "host-b"),
        alone(1_105, "host-a", "the secondary's host failed"),
        detected(3_500, "host-a", 1_000),
        fenced(3_501, "host-a"),
        lost(3_502, "its host failed while it was not protected"),
        injected(3_600, "host-a", "restore"),
    ];
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(1_000, Some(1_106)), (2_500, None)]));
    assert_eq!(stretches(&told.down), [(2_500, None)], "fenced, it never answered again");
    let seen = told.faults[0].seen.as_ref().unwrap();
    assert_eq!((ms(seen.first_answer), &told.faults[0].discounted), (Some(1_106), &None));
    // A guest without a pair that is woken answers.
    let faults = [fault(2_000, HANG), fault(4_000, FaultKind::Restore(FaultTarget::Sut))];
    let alone = self::done(&faults, ["", ""]);
    let told = tell(FtMode::None, &faults, &alone, &[], &course(&[(2_000, Some(4_001))]));
    assert_eq!(stretches(&told.down), [(2_000, Some(4_001))]);
}

#[test]
fn a_fault_that_another_follows_soon_is_survived_all_the_same() {
    let faults = [fault(1_000, KILL_COPY), fault(1_900, KILL)];
    let done = done(&faults, ["host-b", "host-a"]);
    let events = [
        armed(500, "host-b"),
        detected(1_100, "host-b", 100),
        fenced(1_101, "host-b"),
        alone(1_105, "host-a", "the secondary's host failed"),
        detected(2_900, "host-a", 1_000),
        fenced(2_901, "host-a"),
        lost(2_902, "its host failed while it was not protected"),
    ];
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(1_000, Some(1_113)), (1_900, None)]));
    let [first, second] = told.faults.as_slice() else { panic!("two faults") };
    let answers = |f: &vtax_store::failover::FaultRecord| ms(f.seen.as_ref().unwrap().first_answer);
    assert_eq!((answers(first), &first.lost, &first.discounted), (Some(1_113), &None, &None));
    assert_eq!((answers(second), second.protected), (None, false));
}

#[test]
fn what_nobody_asked_for_is_named_and_bounds_the_faults() {
    let faults = [fault(2_000, KILL_COPY), fault(9_000, KILL)];
    let done = done(&faults, ["host-b", "host-c"]);
    let mut events = vec![
        armed(500, "host-b"),
        detected(2_100, "host-b", 100),
        fenced(2_101, "host-b"),
        alone(2_105, "host-a", "the secondary's host failed"),
        armed(3_000, "host-c"),
        detected(5_000, "host-a", 0),
        fenced(5_001, "host-a"),
        promoted(5_020, "host-c"),
        detected(9_100, "host-c", 100),
        lost(9_120, "its host failed while it was not protected"),
    ];
    let silent = [(2_000, Some(2_106)), (5_000, Some(5_130)), (9_000, None)];
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&silent));
    let [unplanned] = told.unplanned.as_slice() else { panic!("one of them") };
    assert_eq!(unplanned.what, "QEMU on host-a ended by itself");
    assert_eq!((ms(Some(unplanned.at)), ms(unplanned.first_answer)), (Some(5_000), Some(5_130)));
    assert_eq!(stretches(&told.down), [(5_000, Some(5_130)), (9_000, None)]);
    assert_eq!(stretches(&told.unprotected), [(2_000, Some(3_000)), (5_000, Some(9_000))]);
    let why = told.faults[1].discounted.as_deref().unwrap();
    assert!(why.contains("QEMU on host-a ended by itself"), "{why}");
    assert_eq!(told.faults[0].discounted, None);
    // Where it is a consequence of what was broken, the loss is the mode's.
    events.truncate(3);
    events.extend([detected(2_104, "host-a", 0), lost(2_110, "its host failed while it was not protected")]);
    let told = tell(FtMode::Kemari, &faults[..1], &done[..1], &events, &course(&[(2_000, None)]));
    assert_eq!(told.faults[0].lost.as_deref(), Some("its host failed while it was not protected"));
    assert_eq!(told.unplanned.len(), 1);
}

#[test]
fn a_planned_move_leaves_the_guest_unprotected_from_its_begin() {
    let faults = [fault(3_000, MOVE)];
    let mut done = done(&faults, ["host-a"]);
    let moving = on("host-a", event(3_001, PairEventKind::Moving));
    let events = [
        armed(500, "host-b"),
        moving.clone(),
        on("host-b", event(3_600, PairEventKind::HandedOver { stopped: Nanos::from_millis(40) })),
        armed(4_500, "host-a"),
    ];
    // Stopped at 3560 ms; answers came all the time before.
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(3_560, Some(3_612))]));
    let moved = &told.faults[0];
    assert_eq!(moved.recovered.as_ref().map(|r| r.how), Some(Recovery::HandedOver));
    assert_eq!(ms(moved.seen.as_ref().unwrap().first_answer), Some(3_612));
    assert_eq!((stretches(&told.unprotected), told.down.len()), (vec![(3_001, Some(4_500))], 0));
    assert!(told.unplanned.is_empty());
    // Its QEMU is killed on the way, and the move never comes to an end within the load.
    done[0].refused = Some("the guest didn't get there".to_owned());
    let events = [events[0].clone(), moving, detected(3_050, "host-a", 0), fenced(3_051, "host-a")];
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course(&[(3_050, None)]));
    assert!(told.faults[0].discounted.is_some() && told.faults[0].seen.is_none());
    assert_eq!(stretches(&told.down), [(3_050, None)]);
    assert_eq!((told.unplanned.len(), told.unplanned[0].guest), (1, true));
}

#[test]
fn who_answers_again_before_a_planned_move_stops_it_is_down_until_then() {
    // Woken 10 ms before it is moved, it answers at 1240 ms, and is stopped for the last part of its way.
    let faults = [fault(1_000, HANG), fault(1_190, FaultKind::Restore(FaultTarget::Sut)), fault(1_200, MOVE)];
    let done = done(&faults, ["host-a", "", "host-a"]);
    let events = [
        armed(500, "host-b"),
        injected(1_190, "host-a", "restore"),
        on("host-a", event(1_201, PairEventKind::Moving)),
        on("host-b", event(1_830, PairEventKind::HandedOver { stopped: Nanos::from_millis(20) })),
    ];
    let course = course(&[(1_000, Some(1_240)), (1_800, Some(1_960))]);
    let told = tell(FtMode::Kemari, &faults, &done, &events, &course);
    assert_eq!(ms(told.faults[2].seen.as_ref().unwrap().first_answer), Some(1_960));
    assert_eq!(stretches(&told.down), [(1_000, Some(1_240))]);
}

#[test]
fn the_injectors_clock_is_that_of_the_records() {
    let rig = Simulated::default();
    let revive = || Ok(());
    let before = Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    let load = || until_done(&rig, 1);
    let ((), done) = injector(&rig, &[fault(0, KILL)], &revive).during(Nanos::ZERO, load);
    assert!(done[0].at_unix_ns >= before.0 && done[0].protected == Some(true));
}
