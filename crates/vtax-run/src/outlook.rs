//! What a run will be able to tell, said after its second round, while there is time to do something about it.

use std::time::Duration;

use vtax_plan::model::{Plan, TrialKind};
use vtax_stats::tellable;

use crate::precision::{Precision, comparisons};

/// Rounds of a measure after which its scatter is known well enough to say so.
const ROUNDS: usize = 2;
/// More rounds than this are no advice.
const MOST_ROUNDS: usize = 200;
/// Comparisons named one by one.
const MOST_NAMES: usize = 3;

/// A comparison that seems to differ, by less than its rounds will tell.
struct Lost {
    name: String,
    tax: f64,
}

/// What can't be told by the rounds that fit, and what would tell it; `None` where all that seems to differ can be
/// told, or where not every comparison of the measure has two rounds.
///
/// `round` is the time that a round of all measures takes, `spent` the time of the run so far.
pub(crate) fn outlook(
    plan: &Plan,
    precision: &Precision<'_>,
    measure: usize,
    (round, spent): (Duration, Duration),
) -> Option<String> {
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for cell in &plan.cells {
        let Some(baseline) = &cell.baseline else { continue };
        let logs = precision.logs(&cell.id, baseline, measure);
        if logs.iter().any(|l| l.len() < ROUNDS) {
            return None;
        }
        found.extend(logs.into_iter().map(|l| (cell.id.clone(), l)));
    }
    let sd = scatter(&found)?;
    let (family, rounds) = (comparisons(plan), affordable(plan, round, spent));
    let least = tellable(sd, rounds, family);
    let missed = |(name, logs): &(String, Vec<f64>)| {
        let tax = (logs.iter().sum::<f64>() / logs.len() as f64).abs().exp();
        let lost = tax > 1.0 + plan.margin.0 && least.is_none_or(|least| tax < least);
        lost.then(|| Lost { name: name.clone(), tax })
    };
    let mut lost: Vec<Lost> = found.iter().filter_map(missed).collect();
    lost.sort_by(|a, b| b.tax.total_cmp(&a.tax));
    let largest = lost.first()?;
    let needed =
        (rounds + 1..=MOST_ROUNDS).find(|n| tellable(sd, *n, family).is_some_and(|t| t < largest.tax));
    let name = &plan.measures[measure].name;
    let limit = least.map_or_else(|| "nothing".to_owned(), |t| format!("taxes from {t:.2}x on"));
    let names: Vec<String> =
        lost.iter().take(MOST_NAMES).map(|l| format!("{} ({:.2}x)", l.name, l.tax)).collect();
    let more = lost.len().saturating_sub(MOST_NAMES);
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "{name}, after two rounds: with a scatter of {:.0} % between rounds, the {rounds} rounds that this run has time \
         for tell {limit} among {family} comparisons. What seems to differ by less, and probably can't be told: {}{others}. \
         {}",
        sd * 100.0,
        names.join(", "),
        advice(plan, measure, needed, family)
    ))
}

/// The typical standard deviation between rounds, over all comparisons; two rounds of one say little.
fn scatter(found: &[(String, Vec<f64>)]) -> Option<f64> {
    let (mut squares, mut df) = (0.0, 0.0);
    for (_, logs) in found.iter().filter(|(_, logs)| logs.len() >= ROUNDS) {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>();
        df += (logs.len() - 1) as f64;
    }
    (df > 0.0).then(|| (squares / df).sqrt())
}

/// Rounds that there is time for, of those that the plan asks for.
fn affordable(plan: &Plan, round: Duration, spent: Duration) -> usize {
    let (min, max) = (plan.repeat.min as usize, plan.repeat.max as usize);
    let Some(budget) = plan.repeat.budget else { return max };
    let left = Duration::from(budget).saturating_sub(spent).as_secs_f64();
    let more = (left / round.as_secs_f64().max(1e-3)) as usize;
    (ROUNDS + more).clamp(min, max)
}

/// What would tell it.
fn advice(plan: &Plan, measure: usize, needed: Option<usize>, family: usize) -> String {
    let mut ways = Vec::new();
    if let Some(needed) = needed {
        ways.push(format!("about {needed} rounds (`repeat.min`)"));
    }
    if plan.repeat.trials == TrialKind::Single && plan.measures[measure].kind.may_be_duet() {
        ways.push("pairs at the same time (`repeat.trials: duet`)".to_owned());
    }
    if family > 2 {
        ways.push("fewer comparisons, or some of them asked first (`primary`)".to_owned());
    }
    match ways.as_slice() {
        [] => "A quieter machine would help.".to_owned(),
        ways => format!("What would tell it: {}.", ways.join("; or ")),
    }
}
