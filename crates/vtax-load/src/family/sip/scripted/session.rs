//! A load of calls after a scenario that is open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use vtax_sys::clock::unix_ms;
use vtax_sys::sched;
use vtax_units::Nanos;

use super::client::{Found, Job, Place, Worker};
use super::end::NO_PORT;
use super::result::ScriptFigures;
use super::server::Answering;
use super::shared::Shared;
use super::spec::ScriptSpec;
use crate::family::sip::media::{CALLS_MAX, Media, Ports};
use crate::family::sip::unmatched::Kind;
use crate::generators::own_addresses;
use crate::requests::{Course, Recorder, Window, merge};
use crate::{Control, Details, LoadError, LoadResult, Model, RequestStep, StartTimes, drive};

/// From now to the first call: time for all threads to be there.
const LEAD_IN: u64 = 20_000_000;
/// What stands for the address of who answers, where calls come back to this end.
const CALLEE: &str = "callee";
/// Histograms have room for calls of this length.
const LONGEST: Nanos = Nanos::from_secs(3_000);

/// A load of calls after a scenario.
#[derive(Debug)]
pub struct ScriptSession {
    spec: ScriptSpec,
    shared: Shared,
    cpus: Vec<usize>,
    /// Who answers, where calls come back to this end.
    callee: Option<Answering>,
}

impl ScriptSession {
    /// Compiles the scenario. Nothing is sent.
    ///
    /// # Errors
    /// The specification makes no sense, or the scenario has something that isn't supported: everything, each with its line.
    pub fn open(spec: &ScriptSpec) -> Result<Self, LoadError> {
        let local = own_addresses(&spec.local, spec.pool.target)?;
        let mut spec = ScriptSpec { local, ..spec.clone() };
        let callee = spec.callee().map(|callee| Answering::open(&callee)).transpose()?;
        if let Some(callee) = &callee {
            spec.settings.keys.push((CALLEE.to_owned(), callee.address.to_string()));
        }
        let shared = Shared::new(&spec)?;
        if shared.scenario.is_server {
            let reason = format!("{} answers calls and makes none", spec.settings.file);
            return Err(LoadError::Spec { field: "scenario", reason });
        }
        let cpus = drive::worker_cpus(&spec.pool.cpus, spec.pool.connections as usize)?;
        Ok(Self { spec, shared, cpus, callee })
    }

    /// Carries out a step: a call is a request. Its latency is what the first timer of the scenario says, from the intended start of the
    /// call where the scenario doesn't start it elsewhere; without a timer it is the call's length.
    ///
    /// Takes about `warmup + duration`, and up to the drain more for calls under way. Failed calls are part of the result.
    ///
    /// # Errors
    /// The step makes no sense, the kernel refuses what the engine needs, or the step was cancelled before its warm-up had passed.
    pub fn run_step(&self, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        step.check()?;
        let workers = self.cpus.len();
        self.raise_open_files();
        let (warmup, duration) = (step.warmup.0, step.duration.0);
        let window = Window { from: warmup, to: warmup + duration, interval: step.interval.0.min(duration) };
        let now = sched::monotonic().0;
        let epoch = Nanos(now + LEAD_IN);
        let job = self.job(step, window, epoch);
        let ports = Arc::new(Ports::from(self.spec.settings.media_port));
        let mut ready = Vec::with_capacity(workers);
        for (number, cpu) in self.cpus.iter().enumerate() {
            let arrivals = match &step.model {
                Model::Open { arrivals, profile } => {
                    Some(StartTimes::new(*arrivals, profile, step.seed, number, workers))
                }
                Model::Closed => None,
            };
            let all = self.spec.pool.connections as usize;
            let calls = all / workers + usize::from(number < all % workers);
            let place = Place { number: number as u32, workers: workers as u32, calls };
            let recorder = Recorder::new(window, LONGEST, step.samples);
            let media =
                self.spec.settings.media.map(|options| {
                    Media::open(options, calls, Arc::clone(&ports), &self.spec.pool.cpus, false)
                });
            ready.push((*cpu, Worker::new(job, place, control, arrivals, recorder, media.transpose()?)?));
        }
        let (found, callee) = self.launch(ready, control)?;
        let mut figures = ScriptFigures::default();
        let mut findings = Vec::with_capacity(workers);
        for one in found {
            figures.add(one.figures);
            findings.push(one.finding);
        }
        let far = callee.as_ref().and_then(|callee| callee.sound.as_ref());
        if let (Some(own), Some(far)) = (&mut figures.sound, far) {
            own.pace.add(&far.pace);
        }
        let course = Course {
            timeout: self.spec.pool.timeout,
            open: matches!(step.model, Model::Open { .. }),
            window,
            epoch,
            end: findings.iter().map(|finding| finding.end).min().unwrap_or(0),
        };
        let mut result = merge(&course, findings)?;
        let limited = self.limited(&figures, callee.as_ref());
        result.generator.limited = result.generator.limited.or(limited);
        result.details = Some(Details { script: Some(Box::new(figures)), ..Details::default() });
        Ok(result)
    }

    /// Why what the calls showed is this end's own doing; `None` where it isn't.
    fn limited(&self, figures: &ScriptFigures, callee: Option<&ScriptFigures>) -> Option<String> {
        let sound = figures.sound.as_deref().zip(self.spec.settings.media.as_ref());
        callee
            .and_then(unanswered)
            .or_else(|| sound.and_then(|(sound, options)| sound.limited(options, callee.is_some())))
    }

    /// What all workers of a step have in common.
    fn job(&self, step: &RequestStep, window: Window, epoch: Nanos) -> Job<'_> {
        Job {
            shared: &self.shared,
            local: &self.spec.local,
            transport: self.spec.transport,
            tls: &self.spec.tls,
            verify: &self.spec.verify,
            window,
            drain: self.spec.settings.drain.0,
            timeout: self.spec.pool.timeout.0,
            epoch,
            seed: self.spec.seed ^ step.seed.rotate_left(32),
            // Messages of an earlier step must not be taken for this one's.
            session: (unix_ms() ^ u64::from(std::process::id()) << 16 ^ sched::monotonic().0) as u32,
        }
    }

    /// Room for the sockets of all workers, and of calls where each has its own, at both ends where both are this one.
    fn raise_open_files(&self) {
        let calls = self.spec.pool.connections as usize;
        let of_calls = if self.spec.connection_per_call { calls } else { 0 };
        let of_sound = if self.spec.settings.media.is_some() { calls.min(CALLS_MAX) } else { 0 };
        let of_callee = self.callee.as_ref().map_or(0, |callee| callee.calls);
        let files = self.cpus.len() * (self.spec.local.len() + 1) + of_calls + of_sound + of_callee;
        // Without it there are fewer calls at once, which are counted.
        let _ = sched::raise_open_files(files as u64 + 256);
    }

    /// Runs the workers, and meanwhile who answers where calls come back.
    fn launch(
        &self,
        ready: Vec<(usize, Worker<'_>)>,
        control: &Control,
    ) -> Result<(Vec<Found>, Option<ScriptFigures>), LoadError> {
        let Some(callee) = &self.callee else {
            return Ok((drive::launch("sipp", ready, control, Worker::run)?, None));
        };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let answering = scope.spawn(|| callee.run(&stop));
            let found = drive::launch("sipp", ready, control, Worker::run);
            stop.store(true, Relaxed);
            let answered = answering.join().map_err(|payload| LoadError::panicked(0, &*payload))??;
            Ok((found?, Some(answered)))
        })
    }
}

/// Why calls that came back to this end weren't answered; `None` where all were.
fn unanswered(callee: &ScriptFigures) -> Option<String> {
    let of = |counts: &BTreeMap<String, u64>, what: &str| counts.get(what).copied().unwrap_or(0);
    let messages = of(&callee.stray, Kind::NoRoom.name()).saturating_add(of(&callee.failed, NO_PORT));
    (messages > 0).then(|| format!("this end had no room to answer {messages} messages; lower the rate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_room_for_its_own_calls_says_so() {
        let mut callee = ScriptFigures::default();
        callee.stray.insert("late".to_owned(), 7);
        callee.failed.insert("timeout (recv BYE, line 9)".to_owned(), 1);
        assert_eq!(unanswered(&callee), None);
        callee.stray.insert("no-room".to_owned(), 2);
        callee.failed.insert("no free port for its sound".to_owned(), 3);
        assert!(unanswered(&callee).unwrap().contains("no room to answer 5 messages"));
    }
}
