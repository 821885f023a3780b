//! The session that sends Redis requests.

use std::time::Duration;

use vtax_units::random::worker_seed;

use super::dialogue::{Home, RedisDialogue};
use super::fill::{self, Connection};
use super::keys::Keys;
use super::spec::RedisSpec;
use super::values::Pool;
use crate::requests::{self, Requests};
use crate::{Control, LoadError, LoadResult, RequestStep, drive};

/// A load of Redis requests. Connections are made anew for each step; what the keys hold is remembered.
#[derive(Debug)]
pub struct RedisSession {
    spec: RedisSpec,
    values: Pool,
    /// One for each worker.
    homes: Vec<Home>,
}

impl RedisSession {
    /// The most time that opening takes: all keys are written.
    pub const OPENING: Duration = fill::LONGEST;

    /// Prepares the load: writes every key once.
    ///
    /// # Errors
    /// The specification makes no sense, or the server doesn't take the values.
    pub fn open(spec: &RedisSpec) -> Result<Self, LoadError> {
        Self::open_with(spec, &Control::new())
    }

    /// Prepares the load as [`open`](Self::open) does, unless it is cancelled meanwhile.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`LoadError::CancelledOpening`] within some tens of milliseconds of a cancellation.
    pub fn open_with(spec: &RedisSpec, control: &Control) -> Result<Self, LoadError> {
        spec.check()?;
        let mut spec = spec.clone();
        // A worker needs a key of its own to ask for.
        let most = u64::from(spec.pool.connections).min(spec.part.amount(spec.requests.keys));
        let cpus = drive::worker_cpus(&spec.pool.cpus, usize::try_from(most).unwrap_or(usize::MAX))?;
        let workers = cpus.len();
        spec.pool.cpus = vtax_units::CpuSet::of(cpus);
        let values = Pool::new(spec.seed);
        let mut homes = Vec::with_capacity(workers);
        let mut connection = Connection::open(&spec.pool, control)?;
        for worker in 0..workers {
            let mut keys = Keys::new(spec.requests.keys, spec.part, worker, workers);
            connection.fill(&values, &mut keys, spec.value_bytes())?;
            homes.push(Home::new(keys));
        }
        Ok(Self { spec, values, homes })
    }

    /// Refuses a server whose keys of the load's names hold what no such load wrote, whatever its seed. Some of the keys are looked at,
    /// evenly spread.
    ///
    /// # Errors
    /// [`LoadError::Foreign`] with such a key; or the server can't be asked.
    pub fn refuse_foreign(spec: &RedisSpec, control: &Control) -> Result<(), LoadError> {
        spec.check()?;
        let server = spec.pool.target;
        match Connection::open(&spec.pool, control)?.foreign_key(spec.requests.keys)? {
            Some(key) => Err(LoadError::Foreign { server, key }),
            None => Ok(()),
        }
    }

    /// Carries out one step and returns what it found.
    ///
    /// Takes about `warmup + duration`, and up to the drain more for the last answers. Failed requests are
    /// part of the result; a step during which every connection is refused is `Ok`.
    ///
    /// # Errors
    /// The step makes no sense, the kernel refuses what the engine needs, or the step was cancelled before
    /// its warm-up had passed.
    pub fn run_step(&self, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        let dialogue = |worker: usize| {
            let seed = worker_seed(step.seed, worker);
            RedisDialogue::new(&self.homes[worker], &self.values, &self.spec, seed)
        };
        let load = Requests { pool: &self.spec.pool, per_connection: None, dialogue };
        requests::run(&load, step, control)
    }
}
