//! What is asked of a Redis server.

use serde::{Deserialize, Serialize};
use vtax_plan::model::{RedisRequests, redis_limits as limits};

use crate::{ConnectionPool, LoadError, Part};

/// A load of Redis requests: where to and what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RedisSpec {
    /// The connections.
    pub pool: ConnectionPool,
    /// What is sent on them.
    pub requests: RedisRequests,
    /// Seed of the values and of which keys are asked for.
    pub seed: u64,
    /// Which generator of several this is: it writes and reads keys that are its own.
    pub part: Part,
}

impl RedisSpec {
    /// Checks that the specification makes sense; opening a session does so too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        self.pool.check()?;
        let refuse = |field, reason: String| Err(LoadError::Spec { field, reason });
        let RedisRequests { keys, value, reads, pipeline, .. } = &self.requests;
        if !limits::KEYS.contains(keys) {
            let (least, most) = (limits::KEYS.start(), limits::KEYS.end());
            return refuse("keys", format!("{keys} is not between {least} and {most}"));
        }
        if self.part.number >= self.part.of || *keys < u64::from(self.part.of) {
            return refuse("part", format!("{keys} keys can't be divided as {:?}", self.part));
        }
        if !limits::VALUE.contains(value) {
            let (least, most) = (limits::VALUE.start(), limits::VALUE.end());
            return refuse("value", format!("{value} is not between {least} and {most}"));
        }
        if !(0.0..=1.0).contains(&reads.0) {
            return refuse("reads", format!("{reads} is not between 0% and 100%"));
        }
        if !limits::PIPELINE.contains(pipeline) {
            let (least, most) = (limits::PIPELINE.start(), limits::PIPELINE.end());
            return refuse("pipeline", format!("{pipeline} is not between {least} and {most}"));
        }
        Ok(())
    }

    /// Length of every value in bytes; as [`check`](Self::check)ed, it fits.
    pub(super) fn value_bytes(&self) -> u32 {
        u32::try_from(self.requests.value.0).unwrap_or(u32::MAX)
    }
}
