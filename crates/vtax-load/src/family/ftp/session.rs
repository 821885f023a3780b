//! A load of FTP that is open.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use vtax_units::Nanos;

use super::content::Contents;
use super::engine::Load;
use super::spec::FtpSpec;
use super::tls::TlsSettings;
use crate::{Control, Details, LoadError, LoadResult, Model, RequestStep, drive};

/// A load of FTP. The files that clients fetch are stored when it is opened, by clients of the same kind; sessions are made anew for each
/// step.
#[derive(Debug)]
pub struct FtpSession {
    load: Load,
}

impl FtpSession {
    /// The most time that opening takes: all files are stored.
    pub const OPENING: Duration = Duration::from_secs(600);

    /// Opens the load and stores what will be fetched.
    ///
    /// # Errors
    /// The specification makes no sense, or the server doesn't take the files ([`LoadError::Server`]).
    pub fn open(spec: &FtpSpec) -> Result<Self, LoadError> {
        Self::open_with(spec, &Control::new())
    }

    /// Opens the load as [`open`](Self::open) does, unless it is cancelled meanwhile.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`LoadError::CancelledOpening`] within some tens of milliseconds of a cancellation.
    pub fn open_with(spec: &FtpSpec, control: &Control) -> Result<Self, LoadError> {
        spec.check()?;
        let cpus = drive::worker_cpus(&spec.pool.cpus, spec.pool.connections as usize)?;
        let tls = spec.requests.tls.as_ref();
        let tls = tls.map(|tls| TlsSettings::new(tls, &spec.verify, spec.pool.target.ip())).transpose()?;
        let session = Self { load: Load { spec: spec.clone(), cpus, tls, contents: Contents::new() } };
        if spec.own_files() > 0 && spec.requests.mix.retr + spec.requests.mix.list > 0 {
            session.fill(control)?;
        }
        Ok(session)
    }

    /// Stores this generator's part of the files that clients fetch or list.
    fn fill(&self, control: &Control) -> Result<(), LoadError> {
        let step = RequestStep {
            model: Model::Closed,
            warmup: Nanos::ZERO,
            duration: Self::OPENING.into(),
            seed: 0,
            samples: false,
            interval: Self::OPENING.into(),
            // It ends as soon as all is stored.
            drain: Nanos::ZERO,
        };
        let next = AtomicU32::new(0);
        let (_, details) = match self.load.run(&step, control, Some(&next)) {
            Err(LoadError::Cancelled { .. }) => return Err(LoadError::CancelledOpening),
            ran => ran?,
        };
        let files = u64::from(self.load.spec.own_files());
        if details.stor.ok == files {
            return Ok(());
        }
        if control.is_cancelled() {
            return Err(LoadError::CancelledOpening);
        }
        let why = details.first_failure.unwrap_or_else(|| "it took too long".to_owned());
        let server = self.load.spec.pool.target;
        let reason = format!("{} of {files} files could be stored on {server}: {why}", details.stor.ok);
        Err(LoadError::Server { reason })
    }

    /// Carries out one step and returns what it found.
    ///
    /// Takes about `warmup + duration`, and up to the drain more for the last transfers. Failed transfers are part of the result.
    ///
    /// # Errors
    /// The step makes no sense, the kernel refuses what the engine needs, or the step was cancelled before its warm-up had passed.
    pub fn run_step(&self, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        let (mut result, details) = self.load.run(step, control, None)?;
        result.details = Some(Details { ftp: Some(Box::new(details)), ..Details::default() });
        Ok(result)
    }
}
