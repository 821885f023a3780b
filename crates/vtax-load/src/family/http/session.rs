//! The session that sends HTTP requests.

use super::HttpSpec;
use super::dialogue::HttpDialogue;
use crate::requests::{self, Part, Requests};
use crate::{Control, LoadError, LoadResult, RequestStep};

/// A load of HTTP requests. Connections are made anew for each step.
#[derive(Debug, Clone)]
pub struct HttpSession {
    spec: HttpSpec,
}

impl HttpSession {
    /// Prepares the load; nothing is connected to yet.
    ///
    /// # Errors
    /// The specification makes no sense.
    pub fn open(spec: &HttpSpec) -> Result<Self, LoadError> {
        spec.check()?;
        Ok(Self { spec: spec.clone() })
    }

    /// Carries out one step and returns what it found.
    ///
    /// Takes about `warmup + duration`, and up to one second more for the last answers. Failed requests are
    /// part of the result; a step during which every connection is refused is `Ok`.
    ///
    /// # Errors
    /// The step makes no sense, the kernel refuses what the engine needs, or the step was cancelled before
    /// its warm-up had passed.
    pub fn run_step(&self, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        // There is a result for each session.
        Self::run_together(&[self], &[step], &[control]).map(|mut results| results.remove(0))
    }

    /// Carries out a step of each of several sessions at the same time, by the same threads, on the first one's CPUs; what each
    /// found, in their order.
    ///
    /// # Errors
    /// As [`run_step`](Self::run_step), of any of them.
    pub(crate) fn run_together(
        sessions: &[&Self],
        steps: &[&RequestStep],
        controls: &[&Control],
    ) -> Result<Vec<LoadResult>, LoadError> {
        let loads = sessions.iter().map(|session| {
            let HttpSpec { pool, requests } = &session.spec;
            let dialogue = HttpDialogue::new(requests);
            let dialogue = move |_worker: usize| dialogue.clone();
            Requests { pool, per_connection: requests.requests_per_connection, dialogue }
        });
        let loads: Vec<_> = loads.collect();
        let parts = loads.iter().zip(steps.iter().copied()).zip(controls.iter().copied());
        let parts: Vec<_> = parts.map(|((load, step), control)| Part { load, step, control }).collect();
        requests::run_together(&parts)
    }
}
