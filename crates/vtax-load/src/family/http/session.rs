//! The session that sends HTTP requests.

use std::sync::Arc;

use vtax_units::random::worker_seed;

use super::HttpSpec;
use super::dialogue::HttpDialogue;
use super::exchange::Exchange;
use super::script::Ready;
use super::secure::{Layered, TlsSettings};
use super::streams::{Http2, Multiplexed};
use crate::requests::{self, Dialogue, Part, Requests};
use crate::{Control, LoadError, LoadResult, RequestStep};

/// A load of HTTP requests. Connections are made anew for each step.
#[derive(Debug, Clone)]
pub struct HttpSession {
    spec: HttpSpec,
    /// What is sent, made ready.
    ready: Requested,
}

/// Requests made ready for the version that they are sent by.
#[derive(Debug, Clone)]
enum Requested {
    Http1(Arc<Ready>),
    Http2(Arc<Multiplexed>),
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
        let requests = &spec.requests;
        let ready = match requests.http2_streams {
            Some(streams) => Requested::Http2(Arc::new(Multiplexed::new(requests, streams)?)),
            None => Requested::Http1(Arc::new(Ready::new(requests)?)),
        };
        let session = Self { ready, spec: spec.clone() };
        // What can't be offered is told now.
        session.tls()?;
        Ok(session)
    }

    /// Whether it speaks HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self.ready, Requested::Http2(_))
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
        // There is a result for each session.
        Self::run_together(&[self], &[step], &[control]).map(|mut results| results.remove(0))
    }

    /// Carries out a step of each of several sessions at the same time, by the same threads, on the first one's CPUs; what each
    /// found, in their order. All speak the same version.
    ///
    /// # Errors
    /// As [`run_step`](Self::run_step), of any of them, or their versions differ.
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
        if sessions.iter().any(|session| session.is_http2()) {
            return run(&turns, |((session, step), _)| {
                let Requested::Http2(ready) = &session.ready else { return Err(of_one_version()) };
                session.layers(step, move |seed, from| Http2::new(Arc::clone(ready), seed, from))
            });
        }
        run(&turns, |((session, step), _)| {
            let Requested::Http1(ready) = &session.ready else { return Err(of_one_version()) };
            session.layers(step, move |seed, from| Exchange::new(Arc::clone(ready), seed, from))
        })
    }

    /// What makes the dialogue of each worker: that of `inner`, which is given a seed and when recording begins, over a layer that
    /// knows connections and TLS.
    fn layers<'a, D: Dialogue + 'a>(
        &'a self,
        step: &RequestStep,
        inner: impl Fn(u64, u64) -> D + 'a,
    ) -> Result<impl Fn(usize) -> Layered<D> + 'a, LoadError> {
        let (seed, from) = (step.seed, step.warmup.0);
        // Each worker has tickets of its own, so settings are made for each; that they can be was seen.
        self.tls()?;
        Ok(move |worker: usize| {
            let seed = worker_seed(seed, worker);
            Layered::new(inner(seed, from), self.tls().ok().flatten(), from)
        })
    }

    /// TLS of one worker's connections; `None` in the clear.
    fn tls(&self) -> Result<Option<TlsSettings>, LoadError> {
        let HttpSpec { pool, requests } = &self.spec;
        let settings = requests.tls.as_ref();
        let (verify, ip) = (&requests.verify, pool.target.ip());
        settings.map(|tls| TlsSettings::new(tls, verify, ip, self.is_http2())).transpose()
    }
}

fn of_one_version() -> LoadError {
    let reason = "loads of HTTP/1.1 and HTTP/2 don't share threads".to_owned();
    LoadError::Spec { field: "streams", reason }
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
