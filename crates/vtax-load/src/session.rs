//! Every family behind one interface: open a load, run steps, close it by dropping it.
//!
//! This file knows the families; they don't know it. What a step found goes over the agent's stream as bytes, which the controller reads as the type that the
//! family gives: [`LoadAnswer`] for requests, [`SipResult`] for SIP, [`NetworkAnswer`] for network tests.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vtax_units::CpuSet;

use crate::beside::{BesideSession, BesideSpec};
use crate::family::desktop::{DesktopSession, DesktopSpec};
use crate::family::ftp::{FtpSession, FtpSpec};
use crate::family::http::{HttpSession, HttpSpec};
use crate::family::network::{NetworkAnswer, NetworkSession, NetworkSpec};
use crate::family::redis::{RedisSession, RedisSpec};
use crate::family::sip::{ScriptSession, ScriptSpec, SipProfile, SipResult, SipSession, SipSpec};
use crate::family::storage::{StorageResult, StorageSession, StorageSpec, StorageStep};
use crate::spread::{MemberAnswer, SpreadPart, SpreadSession, SpreadSpec};
use crate::{ConnectionPool, Control, LoadError, LoadResult, RequestStep, Sample};

/// What a load is opened with: what all its steps have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "family", content = "spec", rename_all = "kebab-case")]
pub enum LoadSpec {
    /// HTTP requests; takes [`Step::Requests`].
    Http(HttpSpec),
    /// SIP subscribers; takes [`Step::Sip`].
    Sip(Box<SipSpec>),
    /// Calls after a scenario of SIPp's; takes [`Step::Requests`] of an open loop: a call is a request.
    Script(Box<ScriptSpec>),
    /// Network tests; takes [`Step::Network`]. Each test names its far end.
    Network,
    /// Redis requests; takes [`Step::Requests`].
    Redis(RedisSpec),
    /// Storage; takes [`Step::Storage`].
    Storage(StorageSpec),
    /// FTP transfers; takes [`Step::Requests`].
    Ftp(Box<FtpSpec>),
    /// Users of remote desktops; takes [`Step::Requests`]: an action is a request.
    Desktop(DesktopSpec),
    /// Loads of requests against several systems at once; takes [`Step::Requests`].
    Spread(SpreadSpec),
    /// Storage beside loads of requests against other systems; takes [`Step::Storage`].
    Beside(Box<BesideSpec>),
}

/// What an open load is asked to do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Requests for a time, of any family that sends requests and waits for their answers.
    Requests(RequestStep),
    /// Phases of SIP scenarios.
    Sip(SipProfile),
    /// One network test.
    Network(NetworkSpec),
    /// One operation on files.
    Storage(Box<StorageStep>),
}

impl Step {
    /// The refusal of a load that can't do this.
    fn not_of(&self, family: &str) -> LoadError {
        let own = match self {
            Self::Requests(_) => "requests",
            Self::Sip(_) => "SIP phases",
            Self::Network(_) => "a network test",
            Self::Storage(_) => "a test of storage",
        };
        LoadError::Spec { field: "step", reason: format!("a load of {family} can't run {own}") }
    }
}

/// A load that is open. Dropping it closes it.
pub trait Session: Send {
    /// Runs one step to its end; the bytes of what it found ([`StepResult`]). [`Control::cancel`] ends it
    /// within some tens of milliseconds.
    ///
    /// # Errors
    /// The step makes no sense for this load, the kernel refuses what the generator needs, or the step was
    /// cancelled before there was anything to return.
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError>;
}

impl LoadSpec {
    /// Opens the load.
    ///
    /// # Errors
    /// The specification makes no sense, or the kernel refuses what the generator needs.
    pub fn open(&self) -> Result<Box<dyn Session>, LoadError> {
        Ok(match self {
            Self::Http(spec) => Box::new(HttpSession::open(spec)?),
            Self::Sip(spec) => Box::new(SipSession::open(spec)?),
            Self::Script(spec) => Box::new(ScriptSession::open(spec)?),
            Self::Network => Box::new(NetworkSession),
            Self::Redis(spec) => Box::new(RedisSession::open(spec)?),
            Self::Storage(spec) => Box::new(StorageSession::open(spec)?),
            Self::Ftp(spec) => Box::new(FtpSession::open(spec)?),
            Self::Desktop(spec) => Box::new(DesktopSession::open(spec)?),
            Self::Spread(spec) => Box::new(SpreadSession::open(spec)?),
            Self::Beside(spec) => Box::new(BesideSession::open(spec)?),
        })
    }
}

impl LoadSpec {
    /// The most time that opening it takes beyond what any request does.
    #[must_use]
    pub fn opening(&self) -> Duration {
        match self {
            Self::Http(_) | Self::Sip(_) | Self::Script(_) | Self::Network | Self::Desktop(_) => {
                Duration::ZERO
            }
            Self::Storage(spec) => spec.opening(),
            Self::Redis(_) => RedisSession::OPENING,
            Self::Ftp(_) => FtpSession::OPENING,
            Self::Spread(spec) => opening(&spec.parts),
            Self::Beside(spec) => spec.storage.opening() + opening(&spec.others),
        }
    }

    /// Whether it takes [`Step::Requests`] of one system.
    pub(crate) const fn is_of_requests(&self) -> bool {
        match self {
            Self::Http(_) | Self::Script(_) | Self::Redis(_) | Self::Ftp(_) | Self::Desktop(_) => true,
            Self::Sip(_) | Self::Network | Self::Storage(_) | Self::Spread(_) | Self::Beside(_) => false,
        }
    }

    /// Whether each step of a closed loop ends once so many bytes were moved, if its time isn't over before.
    #[must_use]
    pub const fn ends_with_bytes(&self) -> bool {
        match self {
            Self::Ftp(spec) => spec.requests.bytes.is_some(),
            Self::Http(_)
            | Self::Sip(_)
            | Self::Script(_)
            | Self::Network
            | Self::Redis(_)
            | Self::Storage(_)
            | Self::Desktop(_)
            | Self::Spread(_)
            | Self::Beside(_) => false,
        }
    }

    /// Its connections, where it has such.
    pub fn pool_mut(&mut self) -> Option<&mut ConnectionPool> {
        match self {
            Self::Http(spec) => Some(&mut spec.pool),
            Self::Redis(spec) => Some(&mut spec.pool),
            Self::Ftp(spec) => Some(&mut spec.pool),
            Self::Script(spec) => Some(&mut spec.pool),
            Self::Sip(_)
            | Self::Network
            | Self::Storage(_)
            | Self::Desktop(_)
            | Self::Spread(_)
            | Self::Beside(_) => None,
        }
    }

    /// Runs its workers on these CPUs, one on each.
    pub(crate) fn bind(&mut self, cpus: CpuSet) {
        match self {
            Self::Desktop(spec) => spec.cpus = cpus,
            other => {
                if let Some(pool) = other.pool_mut() {
                    pool.cpus = cpus;
                }
            }
        }
    }
}

/// Of loads that are opened one after the other.
fn opening(parts: &[SpreadPart]) -> Duration {
    parts.iter().map(|part| part.load.opening()).sum()
}

impl Session for HttpSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Requests(step) = step else { return Err(step.not_of("HTTP")) };
        requests(self.run_step(step, control)?, control)
    }
}

impl Session for SipSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Sip(profile) = step else { return Err(step.not_of("SIP")) };
        self.run_profile(profile, control)?.to_bytes()
    }
}

impl Session for ScriptSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Requests(step) = step else { return Err(step.not_of("calls after a scenario")) };
        requests(self.run_step(step, control)?, control)
    }
}

impl Session for NetworkSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Network(spec) = step else { return Err(step.not_of("network tests")) };
        self.run_step(spec, control).to_bytes()
    }
}

impl Session for RedisSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Requests(step) = step else { return Err(step.not_of("Redis")) };
        requests(self.run_step(step, control)?, control)
    }
}

impl Session for FtpSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Requests(step) = step else { return Err(step.not_of("FTP")) };
        requests(self.run_step(step, control)?, control)
    }
}

impl Session for StorageSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Storage(step) = step else { return Err(step.not_of("storage")) };
        self.run_step(step, control)?.to_bytes()
    }
}

impl Session for BesideSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Storage(step) = step else { return Err(step.not_of("storage")) };
        self.run_step(step, control)?.to_bytes()
    }
}

impl Session for DesktopSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Requests(step) = step else { return Err(step.not_of("desktops")) };
        requests(self.run_step(step, control)?.into_load(), control)
    }
}

/// What a step of requests found, of any family.
fn requests(result: LoadResult, control: &Control) -> Result<Vec<u8>, LoadError> {
    LoadAnswer { result, answered: control.progress().ok, members: Vec::new() }.to_bytes()
}

/// What a step found, as the bytes that go to the controller.
pub trait StepResult: Sized {
    /// As bytes.
    ///
    /// # Errors
    /// [`LoadError::Encode`] where it can't be written as JSON.
    fn to_bytes(&self) -> Result<Vec<u8>, LoadError>;

    /// From bytes; `None` where these are of something else.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl StepResult for SipResult {
    fn to_bytes(&self) -> Result<Vec<u8>, LoadError> {
        to_json(self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        from_json(bytes)
    }
}

/// The JSON of the result without its samples, and the samples.
impl StepResult for StorageResult {
    fn to_bytes(&self) -> Result<Vec<u8>, LoadError> {
        Ok(with_samples(0, &to_json(self)?, &self.load.samples))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (_, json, samples) = split_samples(bytes)?;
        let mut result: Self = from_json(json)?;
        result.load.samples = samples;
        Some(result)
    }
}

impl StepResult for NetworkAnswer {
    fn to_bytes(&self) -> Result<Vec<u8>, LoadError> {
        to_json(self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        from_json(bytes)
    }
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, LoadError> {
    serde_json::to_vec(value).map_err(|source| LoadError::Encode { source })
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// What a step of requests found.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadAnswer {
    /// What the generator recorded, with its samples where they were asked for.
    pub result: LoadResult,
    /// Successful answers since the step's start, warm-up included: what the CPU time between two snapshots
    /// around the step was spent on.
    pub answered: u64,
    /// Each system's own, where the load is against several.
    pub members: Vec<MemberAnswer>,
}

/// A [`LoadAnswer`] as JSON, but for its samples and its count.
#[derive(Serialize)]
struct Written<'a> {
    result: &'a LoadResult,
    /// What files of results don't have.
    answered_in_time: Option<u64>,
    members: &'a [MemberAnswer],
}

/// An answer as it is read.
#[derive(Deserialize)]
struct Read {
    result: LoadResult,
    answered_in_time: Option<u64>,
    members: Vec<MemberAnswer>,
}

/// Bytes of one sample: start, latency, outcome, little-endian.
const SAMPLE_BYTES: usize = 17;

/// The JSON of the result without its samples, and the samples, of which there may be millions.
impl StepResult for LoadAnswer {
    fn to_bytes(&self) -> Result<Vec<u8>, LoadError> {
        let Self { result, answered: _, members } = self;
        let written = Written { result, answered_in_time: result.answered_in_time, members };
        Ok(with_samples(self.answered, &to_json(&written)?, &self.result.samples))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (answered, json, samples) = split_samples(bytes)?;
        let Read { mut result, answered_in_time, members } = from_json(json)?;
        (result.samples, result.answered_in_time) = (samples, answered_in_time);
        Some(Self { result, answered, members })
    }
}

/// The length of the JSON and a count, 64 bits each, little-endian; the JSON; the samples.
fn with_samples(count: u64, json: &[u8], samples: &[Sample]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + json.len() + samples.len() * SAMPLE_BYTES);
    out.extend_from_slice(&(json.len() as u64).to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(json);
    for sample in samples {
        out.extend_from_slice(&sample.start_ns.to_le_bytes());
        out.extend_from_slice(&sample.latency_ns.to_le_bytes());
        out.push(sample.outcome);
    }
    out
}

/// The count, the JSON and the samples; `None` where the bytes are something else.
fn split_samples(bytes: &[u8]) -> Option<(u64, &[u8], Vec<Sample>)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let (json, samples) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (samples, torn) = samples.as_chunks::<SAMPLE_BYTES>();
    torn.is_empty().then(|| (u64::from_le_bytes(*count), json, samples.iter().map(sample).collect()))
}

fn sample(b: &[u8; SAMPLE_BYTES]) -> Sample {
    Sample {
        start_ns: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
        latency_ns: u64::from_le_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
        outcome: b[16],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Counts, GeneratorUse, LatencyHistogram};

    fn answer(samples: Vec<Sample>, busiest: f64) -> LoadAnswer {
        let result = LoadResult {
            duration: vtax_units::Nanos::from_secs(1),
            started_unix_ns: 7,
            counts: Counts { ok: samples.len() as u64, ..Counts::default() },
            latency: LatencyHistogram::new(),
            lateness: LatencyHistogram::new(),
            intervals: Vec::new(),
            connections: Vec::new(),
            generator: GeneratorUse { busiest, ..GeneratorUse::default() },
            samples,
            details: None,
            timeout: vtax_units::Nanos::ZERO,
            answered_in_time: Some(7),
        };
        LoadAnswer { result, answered: 3, members: Vec::new() }
    }

    proptest! {
        #[test]
        fn what_requests_found_comes_back_with_its_samples(
            samples in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u8>()), 0..50),
            busiest in 0.0..1.0,
        ) {
            let of = |(start_ns, latency_ns, outcome)| Sample { start_ns, latency_ns, outcome };
            let answer = answer(samples.into_iter().map(of).collect(), busiest);
            let bytes = answer.to_bytes().unwrap();
            prop_assert_eq!(LoadAnswer::from_bytes(&bytes), Some(answer));
            prop_assert_eq!(LoadAnswer::from_bytes(&bytes[..bytes.len() - 1]), None);
        }

        #[test]
        fn foreign_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(LoadAnswer::from_bytes(&bytes), None);
            prop_assert_eq!(SipResult::from_bytes(&bytes), None);
        }
    }

    #[test]
    fn a_load_refuses_a_step_of_another_family() {
        let step = Step::Requests(RequestStep {
            model: crate::Model::Closed,
            warmup: vtax_units::Nanos::ZERO,
            duration: vtax_units::Nanos::from_secs(1),
            seed: 1,
            samples: false,
            interval: vtax_units::Nanos::from_secs(1),
            drain: vtax_units::Nanos::ZERO,
        });
        let mut session = LoadSpec::Network.open().unwrap();
        let error = session.run(&step, &Control::new()).unwrap_err();
        assert!(error.to_string().contains("can't run requests"), "{error}");
    }
}
