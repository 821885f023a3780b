//! A session: opened once, driven through any number of profiles.

use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use vtax_plan::model::Scenario;
use vtax_sys::sched;
use vtax_units::{CpuSet, Nanos, Share};

use super::course::Course;
use super::merge::{Merge, merge};
use super::setup::Setup;
use super::station::Station;
use super::stray::Stray;
use super::worker::{PhaseUse, Worker};
use super::{PhaseKind, Pools, SipProfile, SipResult, SipSpec, Traffic};
use crate::{Control, LoadError, Session, Step, StepResult};

/// From now to the first phase: time for all threads to be there.
const LEAD_IN: u64 = 20_000_000;
/// Phases, seconds and rates beyond these are typing errors.
const PHASES_MAX: usize = 10_000;
const PHASE_MAX: Nanos = Nanos::from_secs(30 * 24 * 3600);
const RATE_MAX: f64 = 1e7;

/// Subscribers and their sockets, until dropped. Who is registered is remembered from one profile
/// to the next; calls that a profile leaves unfinished are forgotten.
#[derive(Debug)]
pub struct SipSession {
    setup: Arc<Setup>,
    stations: Vec<Station>,
    cpus: Vec<usize>,
}

impl SipSession {
    /// Opens sockets and prepares subscribers, none of them registered. Nothing is sent.
    ///
    /// # Errors
    /// The specification makes no sense, or the kernel refuses sockets or addresses.
    pub fn open(spec: &SipSpec) -> Result<Self, LoadError> {
        Self::open_with(spec, false)
    }

    /// The same without registrar: the target itself is called and answers, as `sipp -sn uas` does.
    /// Of all scenarios only calling has a meaning then, and of its metrics `PX_TRT-REL1`.
    ///
    /// # Errors
    /// As [`SipSession::open`].
    pub fn open_direct(spec: &SipSpec) -> Result<Self, LoadError> {
        Self::open_with(spec, true)
    }

    fn open_with(spec: &SipSpec, direct: bool) -> Result<Self, LoadError> {
        let set = if spec.cpus.is_empty() {
            sched::allowed_cpus().map_err(|source| LoadError::Worker { worker: 0, source })?
        } else {
            spec.cpus.clone()
        };
        // A call needs two subscribers of one worker.
        let most = (spec.workload.subscribers.count as usize / 2).max(1);
        let cpus: Vec<usize> = set.iter().take(most).collect();
        let setup = Arc::new(Setup::new(spec, direct, cpus.len() as u32)?);
        let _ = sched::raise_open_files((cpus.len() * (spec.local.len() + 1)) as u64 + 256);
        // Messages of an earlier session must not be taken for this one's.
        let now = sched::monotonic().0;
        let session = (unix_ms() ^ u64::from(std::process::id()) << 16 ^ now) as u32;
        let station = |worker| Station::open(&setup, session, worker as u32, now);
        let stations = (0..cpus.len()).map(station).collect::<Result<_, _>>()?;
        Ok(Self { setup, stations, cpus })
    }

    /// Drives the session through a profile. Takes as long as its phases and up to its drain more;
    /// [`Control::cancel`] ends it within some tens of milliseconds with what there is.
    ///
    /// # Errors
    /// The profile makes no sense, or the kernel refuses what workers need. Attempts that go wrong
    /// are results.
    pub fn run_profile(&mut self, profile: &SipProfile, control: &Control) -> Result<SipResult, LoadError> {
        check(profile)?;
        let workload = &self.setup.spec.workload;
        let limits: Vec<(Scenario, Share)> =
            workload.mix.iter().map(|part| (part.scenario, part.ihs_limit)).collect();
        let epoch = sched::monotonic().0 + LEAD_IN;
        let unix_offset_ms = unix_ms() as i64 - (sched::monotonic().0 / 1_000_000) as i64;
        let workers = self.stations.len();
        let course = Course::new(profile, limits, workers, epoch);
        for station in &mut self.stations {
            station.records.clear();
            station.stray = Stray::default();
        }
        let uses = launch(&mut self.stations, &self.cpus, &course, control, epoch)?;
        let (times, stopped) = course.finish();
        Ok(merge(Merge { profile, times, stopped, uses, unix_offset_ms, epoch }, &mut self.stations))
    }

    /// Subscribers by pool.
    #[must_use]
    pub fn pools(&self) -> Pools {
        let mut sum = Pools::default();
        for pools in self.stations.iter().map(Station::pools) {
            sum.unregistered += pools.unregistered;
            sum.registered += pools.registered;
            sum.busy += pools.busy;
        }
        sum
    }

    /// Messages sent and received since the session was opened.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        self.stations.iter().for_each(|station| sum.add(&station.traffic));
        sum
    }
}

impl Session for SipSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Sip(profile) = step else { return Err(step.not_of("SIP")) };
        self.run_profile(profile, control)?.to_bytes()
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn check(profile: &SipProfile) -> Result<(), LoadError> {
    let refuse = |field, reason: String| Err(LoadError::Spec { field, reason });
    if profile.phases.is_empty() || profile.phases.len() > PHASES_MAX {
        return refuse("phases", format!("{}; there must be 1 to {PHASES_MAX}", profile.phases.len()));
    }
    for phase in &profile.phases {
        if !(phase.rate.0 > 0.0 && phase.rate.0 <= RATE_MAX) {
            return refuse("phases", format!("{}: {}/s is not a rate", phase.name, phase.rate.0));
        }
        if let PhaseKind::Mix { duration } = phase.kind
            && (duration == Nanos::ZERO || duration > PHASE_MAX || phase.transient >= duration)
        {
            let reason = format!("{}: {duration} with a transient of {}", phase.name, phase.transient);
            return refuse("phases", reason);
        }
    }
    if profile.drain > PHASE_MAX {
        return refuse("drain", format!("{} is longer than {PHASE_MAX}", profile.drain));
    }
    Ok(())
}

/// Cancels the profile for all workers where one fails: they would wait for it for ever.
struct Alarm<'a> {
    control: &'a Control,
    armed: bool,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.control.cancel();
        }
    }
}

/// Runs each worker in a thread on its CPU and waits for all.
fn launch(
    stations: &mut [Station],
    cpus: &[usize],
    course: &Course<'_>,
    control: &Control,
    epoch: u64,
) -> Result<Vec<Vec<PhaseUse>>, LoadError> {
    let workers = stations.len();
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers);
        for (number, (station, cpu)) in stations.iter_mut().zip(cpus).enumerate() {
            let failed = |source| LoadError::System { operation: "create an epoll", source };
            let worker = Worker::new(station, course, control, (number, workers), epoch);
            let work = move || {
                let mut alarm = Alarm { control, armed: true };
                let found = sched::bind_this_thread(&CpuSet::of([*cpu]))
                    .map_err(|source| LoadError::Worker { worker: number, source })
                    .and_then(|()| worker.map_err(failed))
                    .and_then(|w| w.run().map_err(|source| LoadError::Worker { worker: number, source }));
                alarm.armed = found.is_err();
                found
            };
            match thread::Builder::new().name(format!("sip-{number}")).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    control.cancel();
                    return Err(LoadError::System { operation: "start a thread", source });
                }
            }
        }
        let join = |(worker, thread): (usize, thread::ScopedJoinHandle<'_, _>)| {
            thread.join().map_err(|payload| LoadError::panicked(worker, &*payload))?
        };
        // All of them, before the first error is told.
        let found: Vec<_> = threads.into_iter().enumerate().map(join).collect();
        found.into_iter().collect()
    })
}
