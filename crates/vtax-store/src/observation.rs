//! What a trial observed: one observation, or a suite of them.
//!
//! Each observation says for itself whether it counts, what was cut off its start and what CPU time it took.
//! Sums and merged histograms over observations are derived by readers; they are never stored as the only truth.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use vtax_load::LoadResult;
use vtax_probe::layers::CpuBreakdown;
use vtax_units::Rate;

use crate::capacity::CapacityOutcome;
use crate::failover::{FailoverLoad, FailoverOutcome};
use crate::ims::ImsOutcome;
use crate::network::NetworkFinding;
use crate::storage::StorageFinding;
use crate::validity::{Validity, WarmUp};

/// One thing that a trial observed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// What was observed: the name of a test of the workload. Empty where the measure observes one thing.
    pub name: String,
    /// The one of several systems that it is of: `sut`, `sut-2`. `None`: of all together, or of the only one.
    #[serde(default)]
    pub member: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether it counts. A trial has a validity besides: an observation counts where both do.
    pub validity: Validity,
    /// What was cut off its start as warm-up beyond the plan's; `None` where it has no course over time.
    #[serde(default)]
    pub warm_up: Option<WarmUp>,
    /// CPU time by layer on the side of the system under test, spent while what `requests` counts was done:
    /// requests, or of network tests bytes (`tcp`), datagrams (`udp`), echoes (`ping`), transactions (`rr`) or packets (`voice`).
    #[serde(default)]
    pub cpu: Option<CpuBreakdown>,
    /// What was found; `None` where it came to nothing.
    pub result: Option<Finding>,
    /// What else a reader may want, text by name.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

impl Observation {
    /// An observation of the only thing that a measure observes.
    #[must_use]
    pub fn whole(started_unix_ms: u64, result: Finding) -> Self {
        Self { started_unix_ms, result: Some(result), ..Self::default() }
    }

    /// What a test of storage found.
    #[must_use]
    pub fn storage(&self) -> Option<&StorageFinding> {
        match &self.result {
            Some(Finding::Storage(found)) => Some(found),
            _ => None,
        }
    }

    /// What a network test found.
    #[must_use]
    pub fn network(&self) -> Option<&NetworkFinding> {
        match &self.result {
            Some(Finding::Network(found)) => Some(found),
            _ => None,
        }
    }
}

/// What was found, by kind.
///
/// `serde(remote)` makes functions of the derived implementations, which those below call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", remote = "Self")]
pub enum Finding {
    /// The result of a capacity search.
    Capacity(CapacityOutcome),
    /// The result of a latency measurement.
    Latency {
        /// Offered load.
        offered: Rate,
        /// What the generator recorded.
        load: LoadResult,
    },
    /// The result of a closed-loop throughput measurement.
    Throughput {
        /// What the generator recorded.
        load: LoadResult,
    },
    /// The result of an IMS benchmark, or of its mix at a given rate.
    Ims(Box<ImsOutcome>),
    /// What faults under a fixed load did.
    Failover(Box<FailoverOutcome>),
    /// What a network test found.
    Network(Box<NetworkFinding>),
    /// What a test of storage found.
    Storage(Box<StorageFinding>),
    /// A kind that this vtax doesn't know: a newer one wrote it.
    Unknown {
        /// Its word.
        of: String,
    },
}

impl Finding {
    /// Every value of `kind`.
    const KINDS: [&str; 8] =
        ["capacity", "latency", "throughput", "ims", "failover", "network", "storage", "unknown"];

    /// What a generator of requests recorded, where it did.
    #[must_use]
    pub fn load(&self) -> Option<&LoadResult> {
        match self {
            Self::Latency { load, .. } | Self::Throughput { load } => Some(load),
            Self::Failover(failover) => match &failover.load {
                FailoverLoad::Requests(load) => Some(load),
                FailoverLoad::Storage(found) => Some(&found.load),
                FailoverLoad::Scenarios(_) => None,
            },
            Self::Capacity(_) | Self::Ims(_) | Self::Network(_) | Self::Storage(_) | Self::Unknown { .. } => {
                None
            }
        }
    }

    /// As [`load`](Self::load).
    pub fn load_mut(&mut self) -> Option<&mut LoadResult> {
        match self {
            Self::Latency { load, .. } | Self::Throughput { load } => Some(load),
            Self::Failover(failover) => match &mut failover.load {
                FailoverLoad::Requests(load) => Some(load),
                FailoverLoad::Storage(found) => Some(&mut found.load),
                FailoverLoad::Scenarios(_) => None,
            },
            Self::Capacity(_) | Self::Ims(_) | Self::Network(_) | Self::Storage(_) | Self::Unknown { .. } => {
                None
            }
        }
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Finding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.get("kind").and_then(Value::as_str) {
            Some(kind) if !Self::KINDS.contains(&kind) => Ok(Self::Unknown { of: kind.to_owned() }),
            _ => Self::deserialize(value).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_is_kept_by_its_word_and_damage_is_damage() {
        let read = |text: &str| serde_json::from_str::<Finding>(text);
        let ftp = Finding::Unknown { of: "ftp".to_owned() };
        assert_eq!(read(r#"{"kind":"ftp","files":[1,2]}"#).unwrap(), ftp);
        let again = serde_json::to_string(&ftp).unwrap();
        assert_eq!((again.as_str(), read(&again).unwrap()), (r#"{"kind":"unknown","of":"ftp"}"#, ftp));
        assert!(read(r#"{"kind":"capacity"}"#).unwrap_err().to_string().contains("lower"));
        assert!(read(r#"{"lower":"1/s"}"#).is_err());
    }

    #[test]
    fn every_kind_is_listed() {
        for kind in Finding::KINDS {
            let text = format!("{{\"kind\":\"{kind}\"}}");
            let error = serde_json::from_str::<Finding>(&text).unwrap_err().to_string();
            assert!(error.contains("missing field"), "{kind}: {error}");
        }
        let error = Finding::deserialize(serde_json::json!({"kind": "x"})).unwrap_err().to_string();
        let listed = Finding::KINDS.map(|kind| format!("`{kind}`")).join(", ");
        assert!(error.contains(&listed), "{error}");
    }
}
