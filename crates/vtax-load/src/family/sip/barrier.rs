//! Where the workers of a profile meet: when its phases begin, and whether the next one does.
//!
//! Workers meet here once per phase, not on the path of a message.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard};

use vtax_plan::model::Scenario;
use vtax_sys::sync;
use vtax_units::Share;

use super::{PhaseKind, SipPhase, SipProfile};

/// What all workers of a profile share.
#[derive(Debug)]
pub(crate) struct PhaseBarrier<'a> {
    pub(crate) profile: &'a SipProfile,
    /// Limits per scenario, of the workload.
    limits: Vec<(Scenario, Share)>,
    workers: usize,
    /// PhaseBarrier that may begin.
    begun: AtomicUsize,
    over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Start and end of each phase.
    starts: Vec<u64>,
    ends: Vec<u64>,
    /// Workers that are through with the last phase.
    through: usize,
    /// Counted attempts of that phase that have ended, and of those, inadequately.
    tally: Vec<(u64, u64)>,
    stopped: Option<String>,
}

impl<'a> PhaseBarrier<'a> {
    pub(crate) fn new(
        profile: &'a SipProfile,
        limits: Vec<(Scenario, Share)>,
        workers: usize,
        start: u64,
    ) -> Self {
        let state =
            State { starts: vec![start], ends: Vec::new(), through: 0, tally: Vec::new(), stopped: None };
        Self {
            profile,
            limits,
            workers,
            begun: AtomicUsize::new(1),
            over: AtomicBool::new(profile.phases.is_empty()),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A worker that panicked is reported as such; what it left behind is still numbers.
        sync::lock(&self.state)
    }

    /// When the phase begins, if it does by now.
    pub(crate) fn start(&self, phase: usize) -> Option<u64> {
        (phase < self.begun.load(Acquire)).then(|| self.state().starts[phase])
    }

    /// No phase begins any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Acquire)
    }

    /// A worker is through with a phase at `end`: all its attempts were made. `tally` has its
    /// attempts by position of the scenario. The last worker decides how it goes on.
    pub(crate) fn through(&self, phase: usize, end: u64, scenarios: &[Scenario], tally: &[(u64, u64)]) {
        let mut state = self.state();
        if state.tally.is_empty() {
            state.tally = vec![(0, 0); tally.len()];
        }
        for (sum, (ended, failed)) in state.tally.iter_mut().zip(tally) {
            (sum.0, sum.1) = (sum.0 + ended, sum.1 + failed);
        }
        state.through += 1;
        if state.ends.len() <= phase {
            state.ends.push(end);
        }
        state.ends[phase] = state.ends[phase].max(end);
        if state.through < self.workers {
            return;
        }
        let tally = std::mem::take(&mut state.tally);
        let end = state.ends[phase];
        (state.through, state.starts) = (0, [state.starts.as_slice(), &[end]].concat());
        let last = phase + 1 == self.profile.phases.len();
        if !last {
            state.stopped = verdict(&self.profile.phases[phase], scenarios, &tally, &self.limits);
        }
        if last || state.stopped.is_some() {
            self.over.store(true, Release);
        } else {
            self.begun.store(phase + 2, Release);
        }
    }

    /// Begin and end of each phase that has ended, and why the profile stopped early.
    pub(crate) fn finish(self) -> (Vec<(u64, u64)>, Option<String>) {
        let state = sync::into_inner(self.state);
        (state.starts.into_iter().zip(state.ends).collect(), state.stopped)
    }
}

/// Why the profile ends with this phase, where it does.
fn verdict(
    phase: &SipPhase,
    scenarios: &[Scenario],
    tally: &[(u64, u64)],
    limits: &[(Scenario, Share)],
) -> Option<String> {
    let above = |ended: u64, failed: u64, limit: Share| failed as f64 > limit.0 * ended as f64;
    let words = |of: &str, ended: u64, failed: u64, limit: Share| {
        let share = 100.0 * failed as f64 / ended.max(1) as f64;
        format!("{}: {share:.2} % of {of} inadequately handled, limit {} %", phase.name, 100.0 * limit.0)
    };
    let (ended, failed) = tally.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if let Some(limit) = phase.ihs_limit
        && above(ended, failed, limit)
    {
        return Some(words("all scenarios", ended, failed, limit));
    }
    if !phase.scenario_limits || phase.kind == PhaseKind::PreRegistration {
        return None;
    }
    scenarios.iter().zip(tally).find_map(|(scenario, (ended, failed))| {
        let (_, limit) = limits.iter().find(|(s, _)| s == scenario)?;
        above(*ended, *failed, *limit).then(|| words(scenario.name(), *ended, *failed, *limit))
    })
}

#[cfg(test)]
mod tests {
    use vtax_units::{Nanos, Rate};

    use super::*;
    use crate::ArrivalProcess;

    fn profile(limits: &[Option<f64>]) -> SipProfile {
        let phase = |(i, limit): (usize, &Option<f64>)| SipPhase {
            name: format!("step {}", i + 1),
            kind: PhaseKind::Mix { duration: Nanos(100) },
            rate: Rate(1.0),
            transient: Nanos::ZERO,
            ihs_limit: limit.map(Share),
            scenario_limits: i == 1,
        };
        let phases = limits.iter().enumerate().map(phase).collect();
        SipProfile { phases, arrivals: ArrivalProcess::Poisson, drain: Nanos::ZERO }
    }

    const TWO: [Scenario; 2] = [Scenario::Calling, Scenario::Messaging];

    #[test]
    fn the_last_worker_decides() {
        let profile = profile(&[Some(0.1), None, None]);
        let phases = PhaseBarrier::new(&profile, vec![(Scenario::Messaging, Share(0.05))], 2, 1_000);
        assert_eq!((phases.start(0), phases.start(1)), (Some(1_000), None));
        // 10 % is not above 10 %.
        phases.through(0, 1_100, &TWO, &[(10, 2), (0, 0)]);
        assert_eq!(phases.start(1), None);
        phases.through(0, 1_100, &TWO, &[(5, 0), (5, 0)]);
        assert_eq!(phases.start(1), Some(1_100));
        // The second phase has limits per scenario.
        phases.through(1, 1_200, &TWO, &[(10, 10), (50, 2)]);
        phases.through(1, 1_200, &TWO, &[(10, 10), (50, 4)]);
        assert!(phases.is_over() && phases.start(2).is_none());
        let (times, stopped) = phases.finish();
        assert_eq!(times, [(1_000, 1_100), (1_100, 1_200)]);
        assert_eq!(stopped.unwrap(), "step 2: 6.00 % of messaging inadequately handled, limit 5 %");
    }

    #[test]
    fn the_last_phase_stops_nothing() {
        let profile = profile(&[Some(0.0)]);
        let phases = PhaseBarrier::new(&profile, Vec::new(), 1, 0);
        phases.through(0, 100, &TWO, &[(10, 10), (0, 0)]);
        assert!(phases.is_over());
        assert_eq!(phases.finish(), (vec![(0, 100)], None));
    }
}
