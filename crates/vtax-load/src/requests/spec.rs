//! What a load of requests is: the connections it goes over, and its steps.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vtax_plan::model::MOST_CONNECTIONS;
use vtax_units::{CpuSet, Nanos, Rate};

use crate::{ArrivalProcess, LoadError};

/// The connections that requests go over, the same in all steps of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionPool {
    /// Where the service listens.
    pub target: SocketAddr,
    /// Connections; in an open loop the most that may be open at once.
    pub connections: u32,
    /// A request not answered within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
    /// CPUs to pin workers to, one worker each; empty: one worker per CPU this process may use.
    pub cpus: CpuSet,
}

/// One step of a load of requests: when they are sent and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestStep {
    /// When requests are sent.
    pub model: Model,
    /// Time at the start that is sent but not recorded.
    pub warmup: Nanos,
    /// Time that is recorded.
    pub duration: Nanos,
    /// Seed of the arrival process.
    pub seed: u64,
    /// Keep every request's latency besides histograms.
    pub samples: bool,
    /// Length of the intervals in [`crate::LoadResult::intervals`].
    pub interval: Nanos,
    /// How long what is under way at the end is waited for, and nothing longer than it may take: with the timeout of its requests
    /// or more, each has its time. The step ends as soon as nothing is under way.
    pub drain: Nanos,
}

/// A result holds a histogram for each.
const INTERVALS_MAX: u64 = 10_000;
/// No generator sends more; beyond it a typing error is likelier.
const RATE_MAX: f64 = 1e8;
/// Warm-up and duration each.
const TIME_MAX: Nanos = Nanos::from_secs(30 * 24 * 3600);

impl ConnectionPool {
    /// Checks that these are connections that can be made.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that makes no sense.
    pub fn check(&self) -> Result<(), LoadError> {
        if self.timeout == Nanos::ZERO || self.timeout > TIME_MAX {
            return refuse("timeout", format!("{} is not between 1ns and {TIME_MAX}", self.timeout));
        }
        if self.connections == 0 || self.connections > MOST_CONNECTIONS {
            let reason = format!("{} is not between 1 and {MOST_CONNECTIONS}", self.connections);
            return refuse("connections", reason);
        }
        Ok(())
    }
}

impl RequestStep {
    /// Checks that the step makes sense; running it does so too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        if self.duration == Nanos::ZERO || self.duration > TIME_MAX {
            return refuse("duration", format!("{} is not between 1ns and {TIME_MAX}", self.duration));
        }
        if self.warmup > TIME_MAX {
            return refuse("warmup", format!("{} is longer than {TIME_MAX}", self.warmup));
        }
        if self.drain > TIME_MAX {
            return refuse("drain", format!("{} is longer than {TIME_MAX}", self.drain));
        }
        if self.interval == Nanos::ZERO || self.duration.0 / self.interval.0 > INTERVALS_MAX {
            let reason =
                format!("{} cuts {} into none or over {INTERVALS_MAX}", self.interval, self.duration);
            return refuse("interval", reason);
        }
        match &self.model {
            Model::Open { profile, .. } => check_profile(profile),
            Model::Closed => Ok(()),
        }
    }

    /// The longest that the step takes: answers are waited for at its end.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from(self.warmup) + Duration::from(self.duration) + Duration::from(self.drain)
    }
}

fn check_profile(profile: &[Segment]) -> Result<(), LoadError> {
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
    Ok(())
}

fn refuse(field: &'static str, reason: String) -> Result<(), LoadError> {
    Err(LoadError::Spec { field, reason })
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
