//! After a trial that a hypervisor disturbed: the next one waits, for a limited time, until the CPUs are quiet again.
//! Trials made during the same disturbance would be lost one after the other, and with them their cell.

use std::thread;
use std::time::{Duration, Instant};

use vtax_probe::noise::StealWatch;
use vtax_store::record::{InvalidReason, TrialRecord, Validity};
use vtax_units::{CpuSet, fact};

use crate::noise::DISTURBED_SHARE;
use crate::observe::{Observer, RunEvent};
use crate::stop::Stop;

/// CPUs are taken only from those who want them, so to look is to spin for this long.
const LOOK: Duration = Duration::from_millis(400);
/// Between two looks.
const REST: Duration = Duration::from_secs(2);
/// The longest wait before one trial.
const AT_ONCE: Duration = Duration::from_secs(30);
/// A run waits at most so much of the time that its trials took: where it is never quiet, waiting is no way out.
const SHARE: f64 = 0.5;

/// What a run has waited, and whether it has reason to.
#[derive(Debug, Default)]
pub(crate) struct Quiesce {
    /// CPUs of a trial that was disturbed just now.
    disturbed_cpus: Option<CpuSet>,
    /// Time spent on trials, and on waiting.
    spent: Duration,
    waited: Duration,
}

impl Quiesce {
    /// Remembers how a trial ended that took so long.
    pub(crate) fn note(&mut self, record: &TrialRecord, took: Duration) {
        self.spent += took;
        let disturbed = matches!(record.validity, Validity::Invalid { reason: InvalidReason::Disturbed, .. });
        let of = |node: &str| record.facts.get(&fact::cpus_of(node))?.parse::<CpuSet>().ok();
        let cpus = ["sut", "client"].into_iter().filter_map(of);
        let cpus = CpuSet::of(cpus.flat_map(|set| set.iter().collect::<Vec<_>>()));
        // One of a pair is enough.
        self.disturbed_cpus = (disturbed && !cpus.is_empty()).then_some(cpus).or(self.disturbed_cpus.take());
    }

    /// How long the next wait may take.
    fn patience(&self) -> Duration {
        self.spent.mul_f64(SHARE).saturating_sub(self.waited).min(AT_ONCE)
    }

    /// Waits, where the last trial was disturbed, until its CPUs are left alone.
    pub(crate) fn wait(&mut self, stop: &Stop, observer: &dyn Observer) {
        let Some(cpus) = self.disturbed_cpus.take() else { return };
        let (began, patience) = (Instant::now(), self.patience());
        observer.observe(&RunEvent::Phase { what: "waiting until the machine's CPUs are left alone" });
        while began.elapsed() < patience && !stop.asked() && stolen(&cpus) > DISTURBED_SHARE {
            stop.pause(REST.min(patience.saturating_sub(began.elapsed())));
        }
        self.waited += began.elapsed();
    }
}

/// Share of these CPUs that a hypervisor takes now; 0 where the host doesn't tell.
fn stolen(cpus: &CpuSet) -> f64 {
    let Ok(mut watch) = StealWatch::start(cpus.clone()) else { return 0.0 };
    let until = Instant::now() + LOOK;
    thread::scope(|scope| {
        for cpu in cpus.iter() {
            scope.spawn(move || {
                // Where it may not be bound, it spins where it is.
                let _ = vtax_sys::sched::bind_this_thread(&CpuSet::of([cpu]));
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            });
        }
    });
    watch.so_far().map_or(0.0, |noise| noise.steal)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn record(validity: Validity) -> TrialRecord {
        TrialRecord {
            cell: "native.direct.http".into(),
            measure: "capacity".into(),
            repetition: 0,
            started_unix_ms: 0,
            validity,
            facts: BTreeMap::from([("sut_cpus".into(), "1".into()), ("client_cpus".into(), "0,2".into())]),
            ..TrialRecord::default()
        }
    }

    #[test]
    fn only_a_disturbed_trial_is_reason_to_wait_and_never_longer_than_trials_took() {
        let invalid = |reason| Validity::Invalid { reason, detail: String::new() };
        let second = Duration::from_secs(1);
        let mut quiesce = Quiesce::default();
        quiesce.note(&record(Validity::Valid), 10 * second);
        quiesce.note(&record(invalid(InvalidReason::ServiceFailed)), 10 * second);
        assert_eq!((&quiesce.disturbed_cpus, quiesce.patience()), (&None, 10 * second));
        quiesce.note(&record(invalid(InvalidReason::Disturbed)), 4 * second);
        assert_eq!(quiesce.disturbed_cpus, Some("0-2".parse().unwrap()));
        assert_eq!(quiesce.patience(), 12 * second);
        quiesce.waited = 11 * second;
        assert_eq!(quiesce.patience(), second);
        quiesce.spent = 1000 * second;
        assert_eq!(quiesce.patience(), AT_ONCE);
        quiesce.waited = 1000 * second;
        assert_eq!(quiesce.patience(), Duration::ZERO);
    }
}
