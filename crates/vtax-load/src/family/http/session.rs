//! The session that sends HTTP requests.

use super::HttpSpec;
use crate::{Control, LoadAnswer, LoadError, LoadResult, RequestStep, Session, Step, StepResult, engine};

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
        engine::run(&self.spec, step, control)
    }
}

impl Session for HttpSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Requests(step) = step else { return Err(step.not_of("HTTP")) };
        let result = self.run_step(step, control)?;
        LoadAnswer { result, answered: control.progress().ok }.to_bytes()
    }
}
