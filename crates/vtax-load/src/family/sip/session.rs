//! A session: opened once, driven through any number of profiles.

use std::sync::Arc;

use vtax_plan::model::Scenario;
use vtax_sys::clock::unix_ms;
use vtax_sys::sched;
use vtax_units::{Nanos, Share};

use super::barrier::PhaseBarrier;
use super::merge::{Merge, merge};
use super::setup::Setup;
use super::user_agents::UserAgents;
use super::worker::Worker;
use super::{PhaseKind, Pools, SipProfile, SipResult, SipSpec, Traffic};
use crate::generators::own_addresses;
use crate::{Control, LoadError, drive};

/// From now to the first phase: time for all threads to be there.
const LEAD_IN: u64 = 20_000_000;
/// PhaseBarrier, seconds and rates beyond these are typing errors.
const PHASES_MAX: usize = 10_000;
const PHASE_MAX: Nanos = Nanos::from_secs(30 * 24 * 3600);
const RATE_MAX: f64 = 1e7;

/// Subscribers and their sockets, until dropped. Who is registered is remembered from one profile
/// to the next; calls that a profile leaves unfinished are forgotten.
#[derive(Debug)]
pub struct SipSession {
    setup: Arc<Setup>,
    agents: Vec<UserAgents>,
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

    /// Opens a session without registrar: the target itself is called and answers, as `sipp -sn uas` does.
    /// Of all scenarios only calling has a meaning then, and of its metrics `PX_TRT-REL1`.
    ///
    /// # Errors
    /// As [`SipSession::open`].
    pub fn open_direct(spec: &SipSpec) -> Result<Self, LoadError> {
        Self::open_with(spec, true)
    }

    fn open_with(spec: &SipSpec, direct: bool) -> Result<Self, LoadError> {
        // A call needs two subscribers of one worker.
        let spec = &SipSpec { local: own_addresses(&spec.local, spec.target)?, ..spec.clone() };
        let cpus = drive::worker_cpus(&spec.cpus, spec.workload.subscribers.count as usize / 2)?;
        let setup = Arc::new(Setup::new(spec, direct, cpus.len() as u32)?);
        let _ = sched::raise_open_files((cpus.len() * (spec.local.len() + 1)) as u64 + 256);
        // Messages of an earlier session must not be taken for this one's.
        let now = sched::monotonic().0;
        let session = (unix_ms() ^ u64::from(std::process::id()) << 16 ^ now) as u32;
        let agents = |worker| UserAgents::open(&setup, session, worker as u32, now);
        let agents = (0..cpus.len()).map(agents).collect::<Result<_, _>>()?;
        Ok(Self { setup, agents, cpus })
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
        let workers = self.agents.len();
        let barrier = PhaseBarrier::new(profile, limits, workers, epoch);
        self.agents.iter_mut().for_each(UserAgents::begin_profile);
        let mut ready = Vec::with_capacity(workers);
        for (number, (agents, cpu)) in self.agents.iter_mut().zip(&self.cpus).enumerate() {
            ready.push((*cpu, Worker::new(agents, &barrier, control, (number, workers), epoch)?));
        }
        let uses = drive::launch("sip", ready, control, Worker::run)?;
        let (times, stopped) = barrier.finish();
        Ok(merge(Merge { profile, times, stopped, uses, unix_offset_ms, epoch }, &mut self.agents))
    }

    /// Subscribers by pool.
    #[must_use]
    pub fn pools(&self) -> Pools {
        let mut sum = Pools::default();
        for pools in self.agents.iter().map(UserAgents::pools) {
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
        self.agents.iter().for_each(|agents| sum.add(&agents.traffic));
        sum
    }
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
