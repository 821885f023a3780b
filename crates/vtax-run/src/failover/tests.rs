//! Faults on a simulated pair, and the account of them.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vtax_lab::ft::{PairEvent, PairEventKind};
use vtax_plan::model::{Fault, FaultKind, FaultTarget, FtMode};
use vtax_store::failover::Recovery;
use vtax_units::Nanos;

use super::account::{Account, Told};
use super::inject::{Done, Injector, Rig};
use super::seen::Course;

const KILL: FaultKind = FaultKind::Kill(FaultTarget::PrimaryHost);
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
    fn inject(&self, kind: FaultKind) -> Result<Option<String>, String> {
        self.done.lock().unwrap().push((Instant::now(), kind));
        match kind {
            FaultKind::Cut(_) => Err("there is no such cable".to_owned()),
            _ => Ok(Some("host-a".to_owned())),
        }
    }

    fn protected(&self) -> Option<bool> {
        Some(true)
    }

    fn events(&self) -> Vec<PairEvent> {
        self.events.lock().unwrap().clone()
    }
}

fn injector<'a>(
    rig: &'a Simulated,
    faults: &[Fault],
    revive: &'a (dyn Fn() -> Result<(), String> + Sync),
) -> Injector<'a> {
    Injector { rig, faults: faults.to_vec(), revive }
}

#[test]
fn faults_come_at_their_times_while_the_load_runs() {
    let rig = Simulated::default();
    let faults = [fault(30, KILL), fault(60, FaultKind::Cut(FaultTarget::FtLink)), fault(60_000, MEND)];
    let revive = || Ok(());
    let begun = Instant::now();
    let load = || std::thread::sleep(Duration::from_millis(250));
    let ((), done) = injector(&rig, &faults, &revive).during(Nanos::from_millis(20), load);
    // What was due after the end of the load never came, and the load's end didn't wait for it.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(done.len(), 2);
    assert_eq!((done[0].host.as_deref(), done[0].refused.as_deref()), (Some("host-a"), None));
    assert_eq!(done[1].refused.as_deref(), Some("there is no such cable"));
    let times = rig.done.lock().unwrap();
    assert!(times[0].0 - begun >= Duration::from_millis(50), "{:?}", times[0].0 - begun);
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
const START: u64 = 1_000_000_000_000;

fn event(ms: u64, kind: PairEventKind) -> PairEvent {
    let wall = Nanos(START + ms * 1_000_000);
    PairEvent { at: Nanos::from_millis(ms), wall, host: None, kind }
}

fn done(fault: Fault, protected: bool) -> Done {
    Done {
        fault,
        at_unix_ns: START + fault.at.0,
        protected: Some(protected),
        host: Some("host-a".to_owned()),
        refused: None,
    }
}

fn tell(mode: FtMode, faults: &[Fault], done: &[Done], events: &[PairEvent]) -> Told {
    let course = Course::default();
    let account = Account {
        mode,
        faults,
        done,
        events,
        started_unix_ns: START,
        duration: Nanos::from_secs(20),
        course: &course,
        delayed_beyond: Nanos::from_millis(100),
    };
    account.tell()
}

const MS: Nanos = Nanos::from_millis(1);

#[test]
fn each_event_belongs_to_the_fault_before_it() {
    let faults = [fault(2_000, KILL), fault(3_000, MEND), fault(7_000, KILL)];
    let all = faults.map(|f| done(f, true));
    let armed = || PairEventKind::Armed { took: MS };
    let events = [
        event(500, armed()),
        event(2_100, PairEventKind::Detected { silence: MS }),
        event(2_101, PairEventKind::Fenced { took: MS }),
        event(2_130, PairEventKind::Promoted { took: MS }),
        event(3_900, armed()),
        event(7_104, PairEventKind::Detected { silence: MS }),
        event(7_105, PairEventKind::Fenced { took: MS }),
        event(7_150, PairEventKind::Promoted { took: MS }),
    ];
    let told = tell(FtMode::Kemari, &faults, &all, &events);
    let [first, mend, second] = told.faults.as_slice() else { panic!("three faults") };
    let ms = |t: Option<Nanos>| t.map(|t| t.0 / 1_000_000);
    assert_eq!(
        (ms(first.detected), ms(first.fenced), ms(first.armed)),
        (Some(2_100), Some(2_101), Some(3_900))
    );
    let recovered = first.recovered.as_ref().unwrap();
    assert_eq!((recovered.at, recovered.how), (Nanos::from_millis(2_130), Recovery::Promoted));
    assert_eq!((&mend.seen, &mend.recovered), (&None, &None));
    assert_eq!((ms(second.detected), second.armed), (Some(7_104), None));
    assert!(told.faults.iter().all(|f| f.discounted.is_none() && f.lost.is_none()));
    let spells: Vec<_> = told.unprotected.iter().map(|s| (ms(Some(s.from)), ms(s.to))).collect();
    assert_eq!(spells, [(Some(2_130), Some(3_900)), (Some(7_150), None)]);
    let down: Vec<_> = told.down.iter().map(|s| (ms(Some(s.from)), ms(s.to))).collect();
    assert_eq!(down, [(Some(2_000), Some(2_130)), (Some(7_000), Some(7_150))]);
}

#[test]
fn a_guest_that_was_not_protected_is_lost_and_not_held_against_the_mode() {
    let faults =
        [fault(2_000, KILL), fault(2_050, FaultKind::Kill(FaultTarget::SecondaryHost)), fault(9_000, KILL)];
    let mut all = vec![done(faults[0], true), done(faults[1], true)];
    let lost = || PairEventKind::ServiceLost { reason: "both hosts failed".to_owned() };
    let told = tell(FtMode::Kemari, &faults, &all, &[event(2_200, lost())]);
    // Both hosts killed: the service is down from the first on, and the last fault never came.
    assert_eq!(told.faults[1].lost.as_deref(), Some("both hosts failed"));
    assert_eq!((told.down.len(), told.down[0].to), (1, None));
    assert!(told.faults[2].injected.is_none() && told.faults[2].discounted.is_some());
    all[0].protected = Some(false);
    let told = tell(FtMode::Kemari, &faults, &all, &[]);
    assert_eq!(told.faults[0].discounted.as_deref(), Some("the guest was not protected at that moment"));
    // Restarting needs no protection.
    let told = tell(FtMode::Restart, &faults, &all, &[event(8_000, PairEventKind::Restarted)]);
    assert_eq!((told.faults[0].discounted.as_deref(), told.unprotected.len()), (None, 0));
}

#[test]
fn a_broken_link_leaves_the_guest_unprotected_from_then_on() {
    let faults = [fault(2_000, FaultKind::Cut(FaultTarget::FtLink))];
    let reason = "the link for checkpoints is broken".to_owned();
    let events = [event(2_110, PairEventKind::Unprotected { reason: reason.clone() })];
    let told = tell(FtMode::Remus { interval: MS }, &faults, &[done(faults[0], true)], &events);
    assert_eq!(told.unprotected.len(), 1);
    assert_eq!((&told.unprotected[0].reason, told.unprotected[0].to), (&reason, None));
    assert!(told.down.is_empty() && told.faults[0].discounted.is_none());
}

#[test]
fn the_injectors_clock_is_that_of_the_records() {
    let rig = Simulated::default();
    let revive = || Ok(());
    let before = Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    let load = || std::thread::sleep(Duration::from_millis(50));
    let ((), done) = injector(&rig, &[fault(0, KILL)], &revive).during(Nanos::ZERO, load);
    assert!(done[0].at_unix_ns >= before.0 && done[0].protected == Some(true));
}
