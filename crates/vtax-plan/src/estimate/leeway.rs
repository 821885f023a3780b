//! How far beyond its capacity a service still passes a step of a search.

use vtax_units::Nanos;

use crate::model::{CapacityMeasure, Measure, MeasureKind};

/// More than this many times the precision is pointed out: below it the ends of the bracket are about as far apart as they are off.
const TOLERATED: f64 = 2.0;

/// By which share the rates of a measure's steps may be above what the service carries, where latency has a limit.
///
/// In a step at rate R of a service that carries C, what waits grows, and with it the latency: it is (R / C - 1) times the time that has
/// passed. So a step ends within the limit where R is above C by less than the limit's share of the step.
fn leeway(capacity: &CapacityMeasure) -> Option<f64> {
    let limit = capacity.limits.p99.into_iter().chain(capacity.limits.p95).min()?;
    // At lower rates steps are longer.
    let step = Nanos(capacity.settle.0.saturating_add(capacity.step_at(capacity.start).0));
    Some(limit.as_secs_f64() / step.as_secs_f64().max(1e-9))
}

/// Where steps of a search are so short, beside the limit of latency, that it finds more than the service carries by much more than its
/// precision.
pub(super) fn too_short_for_its_limit(measure: &Measure) -> Option<String> {
    let MeasureKind::Capacity(capacity) = &measure.kind else { return None };
    let share = leeway(capacity).filter(|share| *share > TOLERATED * capacity.precision.0)?;
    Some(format!(
        "`{}`: steps are so short that a rate up to {:.0} % above what the service carries keeps to the limit of latency, beside a \
         precision of {}: a longer `step`",
        measure.name,
        100.0 * share,
        capacity.precision
    ))
}
