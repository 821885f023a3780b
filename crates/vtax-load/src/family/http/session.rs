//! The session that sends HTTP requests.

use super::HttpSpec;
use super::dialogue::HttpDialogue;
use crate::requests::{self, Requests};
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
        let HttpSpec { pool, requests } = &self.spec;
        let dialogue = HttpDialogue::new(requests);
        let dialogue = |_worker| dialogue.clone();
        let load = Requests { pool, per_connection: requests.requests_per_connection, dialogue };
        requests::run(&load, step, control)
    }
}
