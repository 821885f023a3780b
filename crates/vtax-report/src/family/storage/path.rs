//! Tests that moved more than their path can carry: something before it answered.

use vtax_plan::model::{Cell, Plan, ServiceKind};
use vtax_store::record::{Observation, TrialRecord, Validity};
use vtax_units::counted;

use crate::format::quantity;

/// What a reader must know of each cell whose throughput its path can't have carried: something on the client's side answered.
pub(crate) fn beyond(plan: &Plan, trials: &[TrialRecord]) -> Vec<String> {
    plan.cells.iter().filter_map(|cell| of_cell(cell, trials)).collect()
}

fn of_cell(cell: &Cell, trials: &[TrialRecord]) -> Option<String> {
    // A disk of its own is behind no path.
    let rate = cell.path.rate.filter(|_| !matches!(cell.service.kind, ServiceKind::Disk(_)))?;
    let limit = rate.0 as f64 / 8.0;
    let own = trials.iter().filter(|t| t.cell == cell.id && t.validity == Validity::Valid);
    let mut most: Option<(&Observation, f64)> = None;
    let mut tests: Vec<&str> = Vec::new();
    for observation in own.flat_map(|trial| &trial.observations) {
        let moved = in_one_direction(observation).filter(|moved| *moved > limit);
        let Some(moved) = moved.filter(|_| observation.validity == Validity::Valid) else { continue };
        if !tests.contains(&observation.name.as_str()) {
            tests.push(&observation.name);
        }
        if most.is_none_or(|(_, before)| moved > before) {
            most = Some((observation, moved));
        }
    }
    let (observation, moved) = most?;
    let others = match tests.len() - 1 {
        0 => String::new(),
        n => format!(" The same holds for {}.", counted(n, "other test")),
    };
    // The fastest trial's figure isn't the typical one, which tables show.
    Some(format!(
        "{}: in its fastest trial {} moved {}, more than the {} that its path `{}` carries: a cache before the path answered part \
         of it.{others}",
        cell.id,
        observation.name,
        quantity(moved, "B/s"),
        quantity(limit, "B/s"),
        cell.path.name,
    ))
}

/// Bytes per second in the direction that had more of them.
fn in_one_direction(observation: &Observation) -> Option<f64> {
    let result = &observation.storage()?.result;
    let (all, read) = (result.bytes(), result.bytes_read());
    let seconds = result.whole_time().as_secs_f64();
    (seconds > 0.0).then(|| read.max(all.saturating_sub(read)) as f64 / seconds)
}
