//! The session of desktop users: they stay connected from step to step.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use vtax_sys::sched;
use vtax_units::{CpuSet, Nanos, Rate};

use super::desk::Desk;
use super::picture::png;
use super::result::{DesktopFigures, DesktopResult};
use super::spec::DesktopSpec;
use super::tls::TlsSettings;
use super::worker::{Job, Share, Worker};
use crate::requests::{Course, Recorder, Window, merge};
use crate::{Control, LoadError, Model, RequestStep, Segment, StartTimes, drive};

/// From now to the epoch: time for all threads to be there.
const LEAD_IN: Nanos = Nanos::from_millis(20);

/// A load of desktop users that is open.
#[derive(Debug)]
pub struct DesktopSession {
    spec: DesktopSpec,
    desks: Vec<Desk>,
}

impl DesktopSession {
    /// Prepares the load. Connections are made by the first step.
    ///
    /// # Errors
    /// The specification makes no sense, or the CPUs aren't there.
    pub fn open(spec: &DesktopSpec) -> Result<Self, LoadError> {
        spec.check()?;
        let mut spec = spec.clone();
        spec.cpus = CpuSet::of(drive::worker_cpus(&spec.cpus, spec.sessions as usize)?);
        let tls = spec.needs_tls().then(|| TlsSettings::new(spec.first.ip())).transpose()?.map(Arc::new);
        let desk = |number| Desk::new(&spec, number, tls.clone());
        let desks = (0..spec.sessions as usize).map(desk).collect();
        Ok(Self { spec, desks })
    }

    /// Carries out a step: an action is a request. With a rate, so many users act as have this rate together; without, all do.
    ///
    /// Takes about `warmup + duration`, and up to the drain more for the last answers. Users that aren't connected yet
    /// connect at its beginning: the warm-up is for that.
    ///
    /// # Errors
    /// The step makes no sense, the kernel refuses what the engine needs, or the step was cancelled before its warm-up had passed.
    pub fn run_step(&mut self, step: &RequestStep, control: &Control) -> Result<DesktopResult, LoadError> {
        step.check()?;
        let _ = sched::raise_open_files(u64::from(self.spec.sessions) + 256);
        let active = self.active(step);
        let (warmup, duration) = (step.warmup.0, step.duration.0);
        let window = Window { from: warmup, to: warmup + duration, interval: step.interval.0.min(duration) };
        let timeout = self.spec.timeout;
        let epoch = Nanos(sched::monotonic().0 + LEAD_IN.0);
        let drain = step.drain.min(timeout).0;
        let job = Job { spec: &self.spec, window, drain, timeout: timeout.0, epoch };
        let cpus: Vec<usize> = self.spec.cpus.iter().take(active).collect();
        let workers = cpus.len();
        let mut shares: Vec<Share<'_>> =
            (0..workers).map(|_| Share { desks: Vec::new(), active: 0 }).collect();
        for (number, desk) in self.desks.iter_mut().enumerate() {
            let share = &mut shares[number % workers];
            share.desks.push((number, desk));
            share.active += usize::from(number < active);
        }
        let mut ready = Vec::with_capacity(workers);
        for (number, (cpu, share)) in cpus.into_iter().zip(shares).enumerate() {
            let arrivals = arrivals(step, number, (share.active, active), workers);
            let recorder = Recorder::new(window, timeout, step.samples);
            ready.push((cpu, Worker::new(&job, control, share, arrivals, recorder)?));
        }
        let found = drive::launch("desktop", ready, control, Worker::run)?;
        let mut figures = DesktopFigures::default();
        let mut findings = Vec::with_capacity(workers);
        for one in found {
            figures.add(one.figures);
            findings.push(one.finding);
        }
        let course = Course {
            timeout,
            open: matches!(step.model, Model::Open { .. }),
            window,
            epoch,
            end: findings.iter().map(|finding| finding.end).min().unwrap_or(0),
        };
        let load = merge(&course, findings)?;
        figures.duration = load.duration;
        if let Some(decoder) = self.desks.first().and_then(|desk| desk.decoder.as_ref()) {
            figures.size = (decoder.screen().width(), decoder.screen().height());
            figures.picture = png(decoder.screen()).map(|png| STANDARD.encode(png));
        }
        Ok(DesktopResult { load, figures })
    }

    /// How many users act.
    fn active(&self, step: &RequestStep) -> usize {
        let all = self.desks.len();
        let Model::Open { profile, .. } = &step.model else { return all };
        let most = profile.iter().map(|s| s.from.0.max(s.to.0)).fold(0.0, f64::max);
        // A rate that isn't a whole number of users' is shared by one more.
        ((most / self.spec.users.rate.0 - 1e-9).ceil() as usize).clamp(1, all)
    }

    /// The pixels of a session's desktop, for tests: those of rows that are kept.
    #[must_use]
    pub fn screen(&self, session: usize) -> Option<&vtax_wire::rfb::Screen> {
        self.desks.get(session)?.decoder.as_ref().map(vtax_wire::rfb::Decoder::screen)
    }
}

/// The starts of a worker's users. Each user has the same rate, although workers may differ in how many they have.
fn arrivals(
    step: &RequestStep,
    worker: usize,
    (own, all): (usize, usize),
    workers: usize,
) -> Option<StartTimes> {
    let Model::Open { arrivals, profile } = &step.model else { return None };
    let share = (own * workers) as f64 / all.max(1) as f64;
    let scaled = |s: &Segment| Segment { from: Rate(s.from.0 * share), to: Rate(s.to.0 * share), ..*s };
    let profile: Vec<Segment> = profile.iter().map(scaled).collect();
    Some(StartTimes::new(*arrivals, &profile, step.seed, worker, workers))
}
