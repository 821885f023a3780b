//! Measures as written, but for those of one family only.

use vtax_units::{Nanos, Rate, Share};

use super::load::{ArrivalsRaw, LoadRaw};
use crate::decode::Many;
use crate::source::Spanned;

raw! {
    /// Options of `capacity`.
    struct CapacityRaw = "`capacity`" {
        /// Name in reports.
        optional name: String,
        /// Rate at which the search begins where nothing tells where: first a closed loop of `settle` and `step`
        /// is made (not for calls of `sip`), and the search begins near its throughput; later trials of a cell
        /// begin at what earlier ones found.
        default start: Rate = "500/s",
        /// No step of the search goes above this rate; the closed loop before it is not held to it.
        default max: Rate = "1000000/s",
        /// The search ends when the bracket is narrower than this share of its lower bound.
        default precision: Share = "5%",
        /// Time of each step that counts.
        default step: Nanos = "1s",
        /// Time at the start of each step that doesn't count.
        default settle: Nanos = "200ms",
        /// Arrival process.
        default arrivals: ArrivalsRaw = "poisson",
        /// What a step must keep to pass.
        default limits: LimitsRaw = "",
    }

    /// What a step must keep to pass.
    struct LimitsRaw = "`limits`" {
        /// Share of requests that may fail or stay unanswered.
        default errors: Share = "0.1%",
        /// The 99th percentile of latency, counted from the intended start; `50ms` where `p95` isn't given.
        optional p99: Nanos,
        /// The 95th percentile of latency, counted from the intended start.
        optional p95: Nanos,
    }

    /// Options of `latency`. A list of loads makes a measure for each.
    struct LatencyRaw = "`latency`" {
        /// Name in reports; only for a single load.
        optional name: String,
        /// Offered load: `50% of capacity` (the cell's own), `50% of lowest capacity` (of the
        /// cells compared, so the same rate for all of them) or a rate such as `1000/s`.
        default load: Many<LoadRaw> = "50% of capacity",
        /// Arrival process.
        default arrivals: ArrivalsRaw = "poisson",
        /// Time at the start that never counts.
        default warmup: Nanos = "1s",
        /// Time that counts.
        default duration: Nanos = "10s",
        /// Keep every request's latency besides histograms.
        default samples: bool = "false",
    }

    /// Options of `throughput`.
    struct ThroughputRaw = "`throughput`" {
        /// Name in reports.
        optional name: String,
        /// Time at the start that never counts.
        default warmup: Nanos = "1s",
        /// Time that counts.
        default duration: Nanos = "10s",
    }
}
