//! From a plan's network test to the instrument's specification.

use std::net::SocketAddr;

use vtax_load::network::NetworkSpec;
use vtax_plan::model::{NetworkMeasure, NetworkTest};
use vtax_units::Nanos;

/// More intervals than this of one test say no more and make a record large.
const MOST_INTERVALS: u64 = 1_000;

/// The instrument's specification of this test.
pub(super) fn spec(
    test: &NetworkTest,
    target: SocketAddr,
    measure: &NetworkMeasure,
    seed: u64,
) -> NetworkSpec {
    let interval = crate::warm_up::interval(measure.duration);
    NetworkSpec {
        target,
        test: test.kind.clone(),
        seed,
        warmup: measure.warmup,
        duration: measure.duration,
        interval: interval.max(Nanos(measure.duration.0.div_ceil(MOST_INTERVALS))),
    }
}
