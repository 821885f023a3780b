//! What one burst of load is.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use vtax_units::{CpuSet, Nanos, Rate};

use crate::LoadError;

/// One burst of load: a protocol, an arrival model and how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// Where the service listens.
    pub target: SocketAddr,
    /// What is sent.
    pub protocol: Protocol,
    /// When it is sent.
    pub model: Model,
    /// Time at the start that is sent but not recorded.
    pub warmup: Nanos,
    /// Time that is recorded.
    pub duration: Nanos,
    /// A request not answered within this time, counted from its intended start, has failed. Also
    /// bounds how long answers are waited for after the end, up to one second.
    pub timeout: Nanos,
    /// Connections; in an open loop the most that may be open at once.
    pub connections: u32,
    /// CPUs to pin workers to, one worker each; empty: one worker per CPU this process may use.
    pub cpus: CpuSet,
    /// Seed of the arrival process.
    pub seed: u64,
    /// Keep every request's latency besides histograms.
    pub samples: bool,
    /// Length of the intervals in [`crate::LoadResult::intervals`].
    pub interval: Nanos,
}

/// More connections than one machine has descriptors for.
const CONNECTIONS_MAX: u32 = 1_000_000;
/// A result holds a histogram for each.
const INTERVALS_MAX: u64 = 10_000;
/// No generator sends more; beyond it a typing error is likelier.
const RATE_MAX: f64 = 1e8;
/// Request target and Host together; a request is sent in one piece.
const REQUEST_BYTES_MAX: usize = 32 * 1024;
/// Warm-up and duration each.
const TIME_MAX: Nanos = Nanos::from_secs(30 * 24 * 3600);

impl LoadSpec {
    /// Checks that the specification makes sense; [`crate::run`] does it too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        let refuse = |field, reason: String| Err(LoadError::Spec { field, reason });
        if self.duration == Nanos::ZERO || self.duration > TIME_MAX {
            return refuse("duration", format!("{} is not between 1ns and {TIME_MAX}", self.duration));
        }
        if self.warmup > TIME_MAX {
            return refuse("warmup", format!("{} is longer than {TIME_MAX}", self.warmup));
        }
        if self.timeout == Nanos::ZERO || self.timeout > TIME_MAX {
            return refuse("timeout", format!("{} is not between 1ns and {TIME_MAX}", self.timeout));
        }
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            return refuse(
                "connections",
                format!("{} is not between 1 and {CONNECTIONS_MAX}", self.connections),
            );
        }
        if self.interval == Nanos::ZERO || self.duration.0 / self.interval.0 > INTERVALS_MAX {
            let reason =
                format!("{} cuts {} into none or over {INTERVALS_MAX}", self.interval, self.duration);
            return refuse("interval", reason);
        }
        let Protocol::Http(http) = &self.protocol;
        http.check()?;
        if let Model::Open { profile, .. } = &self.model {
            let rates = profile.iter().flat_map(|s| [s.from.0, s.to.0]);
            if let Some(rate) = rates.into_iter().find(|r| !(0.0..=RATE_MAX).contains(r)) {
                return refuse("profile", format!("a rate of {rate}/s is not between 0 and {RATE_MAX}/s"));
            }
            if !profile.iter().any(|s| s.from.0 > 0.0 || s.to.0 > 0.0) {
                return refuse("profile", "no segment has a rate above 0".to_owned());
            }
            if profile.iter().any(|s| s.duration > TIME_MAX) {
                return refuse("profile", format!("a segment is longer than {TIME_MAX}"));
            }
        }
        Ok(())
    }
}

impl HttpLoad {
    fn check(&self) -> Result<(), LoadError> {
        let refuse = |field, reason: &str| Err(LoadError::Spec { field, reason: reason.to_owned() });
        let graphic = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if !self.target.starts_with('/') || !graphic(&self.target) {
            return refuse("target", "must start with `/` and hold no spaces or other than ASCII characters");
        }
        if self.host.is_empty() || !graphic(&self.host) {
            return refuse("host", "must be a name or address without spaces");
        }
        if self.target.len() + self.host.len() > REQUEST_BYTES_MAX {
            return refuse("target", "is longer than 32 KiB together with the host");
        }
        if self.requests_per_connection == Some(0) {
            return refuse("requests_per_connection", "must be at least 1");
        }
        Ok(())
    }
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1 GET.
    Http(HttpLoad),
}

/// HTTP requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpLoad {
    /// Request target in origin form.
    pub target: String,
    /// Value of the Host field.
    pub host: String,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
}

/// When requests are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Model {
    /// At times that don't depend on the answers.
    Open {
        /// Gaps between requests.
        arrivals: ArrivalProcess,
        /// Rate over time; the last segment's end rate holds until the load ends.
        profile: Vec<Segment>,
    },
    /// Each connection sends its next request when the last is answered.
    Closed,
}

/// Gaps between requests of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// Exponential.
    Poisson,
    /// Equal.
    Constant,
}

/// A stretch of a load profile; the rate goes linearly from `from` to `to`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Rate at its start, all workers together.
    pub from: Rate,
    /// Rate at its end.
    pub to: Rate,
    /// Its length.
    pub duration: Nanos,
}
