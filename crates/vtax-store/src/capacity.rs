//! What a capacity search found.

use serde::{Deserialize, Serialize};
use vtax_units::{Nanos, Rate};

/// The bracket a capacity search ended with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityOutcome {
    /// Highest rate that passed; zero where none did.
    pub lower: Rate,
    /// Lowest rate that failed; `None` where none did (the search met its maximum or the generator's limit).
    pub upper: Option<Rate>,
    /// Every step, in order.
    pub steps: Vec<CapacityStep>,
}

/// One step of a capacity search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityStep {
    /// Offered rate.
    pub offered: Rate,
    /// Successful answers per second.
    pub goodput: Rate,
    /// Share of intended requests that failed or stayed unanswered.
    pub loss: f64,
    /// 99th percentile of latency from the intended start.
    pub p99: Nanos,
    /// 95th, where the plan limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Nanos>,
    /// Whether it kept to the limits.
    pub passed: bool,
    /// Why not, or why it doesn't count.
    pub reason: Option<String>,
}
