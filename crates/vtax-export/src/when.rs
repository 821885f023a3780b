//! When trials were.

use vtax_store::record::TrialRecord;

/// When the trial was over, milliseconds since 1970.
pub(crate) fn ended_unix_ms(trial: &TrialRecord) -> u64 {
    let t = &trial.timings;
    let took = [t.testbed.0, t.service.0, t.measure.0, t.teardown.0].into_iter().fold(0, u64::saturating_add);
    trial.started_unix_ms.saturating_add(took / 1_000_000)
}
