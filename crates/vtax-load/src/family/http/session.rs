//! The session that sends HTTP requests.

use std::sync::Arc;

use super::HttpSpec;
use super::dialogue::HttpDialogue;
use super::exchange::Exchange;
use super::script::Ready;
use super::secure::{Layered, TlsSettings};
use crate::requests::{self, Dialogue, Part, Requests};
use crate::{Control, LoadError, LoadResult, RequestStep};

/// A load of HTTP requests. Connections are made anew for each step.
#[derive(Debug, Clone)]
pub struct HttpSession {
    spec: HttpSpec,
    /// What is sent, made ready.
    ready: Arc<Ready>,
}

/// One of the sessions that run a step each at the same time.
type Turn<'a> = ((&'a HttpSession, &'a RequestStep), &'a Control);

impl HttpSession {
    /// Prepares the load; nothing is connected to yet.
    ///
    /// # Errors
    /// The specification makes no sense.
    pub fn open(spec: &HttpSpec) -> Result<Self, LoadError> {
        spec.check()?;
        let session = Self { ready: Arc::new(Ready::new(&spec.requests)?), spec: spec.clone() };
        // What can't be offered is told now.
        session.tls()?;
        Ok(session)
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
        let turns = sessions.iter().copied().zip(steps.iter().copied()).zip(controls.iter().copied());
        let turns: Vec<Turn<'_>> = turns.collect();
        if sessions.iter().all(|session| session.spec.requests.are_plain()) {
            return run(&turns, |((session, _), _)| {
                let dialogue = HttpDialogue::new(&session.spec.requests);
                Ok(move |_worker: usize| dialogue.clone())
            });
        }
        run(&turns, |((session, step), _)| {
            let (session, seed, from) = (*session, step.seed, step.warmup.0);
            // Each worker has tickets of its own, so settings are made for each; that they can be was seen.
            session.tls()?;
            Ok(move |worker: usize| {
                let seed = seed ^ (worker as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let exchange = Exchange::new(Arc::clone(&session.ready), seed, from);
                Layered::new(exchange, session.tls().ok().flatten(), from)
            })
        })
    }

    /// TLS of one worker's connections; `None` in the clear.
    fn tls(&self) -> Result<Option<TlsSettings>, LoadError> {
        let HttpSpec { pool, requests } = &self.spec;
        let settings = requests.tls.as_ref();
        settings.map(|tls| TlsSettings::new(tls, &requests.verify, pool.target.ip())).transpose()
    }
}

/// Runs the sessions with the dialogues that `maker` makes the makers of.
fn run<'a, D: Dialogue, F: Fn(usize) -> D>(
    turns: &[Turn<'a>],
    maker: impl Fn(&Turn<'a>) -> Result<F, LoadError>,
) -> Result<Vec<LoadResult>, LoadError> {
    let load = |turn: &Turn<'a>| {
        let HttpSpec { pool, requests } = &turn.0.0.spec;
        Ok(Requests { pool, per_connection: requests.requests_per_connection, dialogue: maker(turn)? })
    };
    let loads = turns.iter().map(load).collect::<Result<Vec<_>, LoadError>>()?;
    let parts = loads.iter().zip(turns);
    let parts: Vec<_> = parts.map(|(load, ((_, step), control))| Part { load, step, control }).collect();
    requests::run_together(&parts)
}
