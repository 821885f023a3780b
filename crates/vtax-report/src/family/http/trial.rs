//! What an HTTP trial comes to: the capacity that a search found, and the throughput of a closed loop.

use vtax_store::record::CapacityOutcome;

use crate::format::{quantity, range};
use crate::metric::{Info, Value, exact, higher};

/// The metrics of this family, in the order of tables.
pub(crate) const METRICS: &[Info] =
    &[higher("capacity", "capacity", "req/s", 2), higher("throughput", "throughput", "req/s", 2)];

/// The geometric middle of the bracket: the error is then the same factor either way, which is what a ratio needs.
/// The bracket's width becomes the value's resolution.
pub(crate) fn values(found: &CapacityOutcome) -> Option<Value> {
    let lower = found.lower.0;
    if !(lower.is_finite() && lower > 0.0) {
        return None;
    }
    Some(match found.upper.map(|u| u.0).filter(|u| u.is_finite() && *u >= lower) {
        Some(upper) => {
            Value { resolution: (upper / lower).ln(), ..exact("capacity", (lower * upper).sqrt()) }
        }
        None => Value { censored: true, ..exact("capacity", lower) },
    })
}

/// `23.1k–24.2k`, `≥ 8000`.
pub(crate) fn bracket(found: &CapacityOutcome) -> String {
    match found.upper {
        Some(upper) if found.lower.0 > 0.0 => range(found.lower.0, (found.lower.0, upper.0), "req/s"),
        Some(upper) => format!("below {}", quantity(upper.0, "req/s")),
        None => format!("≥ {}", quantity(found.lower.0, "req/s")),
    }
}

/// What a search found, in a few words.
pub(crate) fn told(found: &CapacityOutcome) -> String {
    format!("{} req/s, {} steps", bracket(found), found.steps.len())
}
