//! Carries out a step: sets workers up, waits for them, merges what they found.

use std::sync::atomic::{AtomicU32, AtomicU64};

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use vtax_plan::model::FtpArrivals;
use vtax_sys::sched;
use vtax_units::Nanos;
use vtax_units::random::worker_seed;

use super::content::Contents;
use super::result::FtpDetails;
use super::slot::Slot;
use super::spec::FtpSpec;
use super::tls::TlsSettings;
use super::worker::{Found, Job, Worker};
use crate::drive::{self, EventLoop};
use crate::requests::{Course, Finding, Recorder, Window, merge};
use crate::{Control, LoadError, LoadResult, Model, RequestStep, StartTimes};

/// From now to the epoch: time for all threads to be there.
const LEAD_IN: Nanos = Nanos::from_millis(20);

/// What a load has from step to step.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) spec: FtpSpec,
    pub(super) cpus: Vec<usize>,
    pub(super) tls: Option<TlsSettings>,
    pub(super) contents: Contents,
}

impl Load {
    /// Carries out one step; with `fill` stores the files that others will fetch instead.
    pub(super) fn run(
        &self,
        step: &RequestStep,
        control: &Control,
        fill: Option<&AtomicU32>,
    ) -> Result<(LoadResult, FtpDetails), LoadError> {
        step.check()?;
        // Where the limit can't be raised and is too low, failures show it: no-descriptors.
        let _ = sched::raise_open_files(3 * u64::from(self.spec.pool.connections) + 256);
        let workers = self.cpus.len();
        let begun = AtomicU64::new(0);
        let job = self.job(step, fill, &begun);
        let mut ready = Vec::with_capacity(workers);
        for (number, cpu) in self.cpus.iter().enumerate() {
            ready.push((*cpu, self.worker(&job, step, control, number)?));
        }
        let found = drive::launch("ftp", ready, control, Worker::run)?;
        let mut details = FtpDetails::default();
        let mut findings: Vec<Finding> = Vec::with_capacity(workers);
        for Found { finding, details: more } in found {
            details.add(more);
            findings.push(finding);
        }
        let ends = findings.iter().map(|finding| finding.end);
        let course = Course {
            timeout: self.spec.pool.timeout,
            open: matches!(step.model, Model::Open { .. }),
            window: job.window,
            epoch: job.epoch,
            // Workers end a fill, or a load that ends with its bytes, when each has nothing left; a cancellation is seen some
            // milliseconds apart.
            end: if fill.is_some() || self.spec.requests.bytes.is_some() { ends.max() } else { ends.min() }
                .unwrap_or(0),
        };
        Ok((merge(&course, findings)?, details))
    }

    fn job<'a>(&'a self, step: &RequestStep, fill: Option<&'a AtomicU32>, begun: &'a AtomicU64) -> Job<'a> {
        let spec = &self.spec;
        let of_sessions = matches!(step.model, Model::Open { .. })
            && matches!(spec.requests.arrivals_of, FtpArrivals::Sessions);
        // A session may take longer than each of its transfers.
        let longest = if of_sessions { Nanos(u64::MAX) } else { spec.pool.timeout };
        Job {
            target: spec.pool.target,
            requests: &spec.requests,
            user: &spec.user,
            password: &spec.password,
            tls: self.tls.as_ref(),
            contents: &self.contents,
            fill,
            part: spec.part,
            own_files: spec.own_files(),
            begun,
            window: Window {
                from: step.warmup.0,
                to: step.warmup.0 + step.duration.0,
                interval: step.interval.0.min(step.duration.0),
            },
            drain: step.drain.min(longest).0,
            timeout: spec.pool.timeout.0,
            epoch: Nanos(sched::monotonic().0 + LEAD_IN.0),
        }
    }

    fn worker<'a>(
        &'a self,
        job: &'a Job<'a>,
        step: &RequestStep,
        control: &'a Control,
        number: usize,
    ) -> Result<Worker<'a>, LoadError> {
        let workers = self.cpus.len();
        let arrivals = match &step.model {
            Model::Open { arrivals, profile } => {
                Some(StartTimes::new(*arrivals, profile, step.seed, number, workers))
            }
            Model::Closed => None,
        };
        let sources = &self.spec.sources;
        // Each worker has every so many-th client, so that addresses are used evenly.
        let clients = (number as u32..self.spec.pool.connections).step_by(workers);
        let slots = clients.map(|client| {
            let source = sources.get(client as usize % sources.len().max(1)).copied();
            // As checked, there are at most so many that all have numbers.
            let client = u32::try_from(self.spec.part.place(client.into())).unwrap_or(u32::MAX);
            Slot::new(client, source, self.tls.as_ref().map(TlsSettings::of_session))
        });
        let seed = worker_seed(step.seed ^ self.spec.seed, number);
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let recorder = Recorder::new(job.window, self.spec.pool.timeout, step.samples);
        Ok(Worker::new(job, control, EventLoop::new()?, slots.collect(), arrivals, rng, recorder))
    }
}
