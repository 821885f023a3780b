//! What a run will be able to tell, said after its first rounds, while there is time to do something about it.

use std::time::Duration;

use vtax_plan::model::{Plan, TrialKind};
use vtax_stats::{ALPHA, SoFar, foreseen, left_after_looks};

use crate::precision::{ASKED_FIRST, Logs, Precision, comparisons};

/// Rounds of a measure after which its scatter is known well enough to say so.
const ROUNDS: usize = 2;
/// More rounds than this are no advice.
const MOST_ROUNDS: usize = 200;
/// Comparisons named one by one.
const MOST_NAMES: usize = 3;

/// A comparison of the measure, after its first rounds.
struct EarlyComparison {
    /// As people call it: the cell, and the test where there are several.
    name: String,
    logs: Logs,
    asked_first: bool,
}

impl EarlyComparison {
    /// The mean of the logarithms.
    fn mean(&self) -> f64 {
        let logs = &self.logs.values;
        logs.iter().sum::<f64>() / logs.len() as f64
    }

    /// How much one side seems to be of the other, whichever is worse.
    fn tax(&self) -> f64 {
        self.mean().abs().exp()
    }

    /// As statistics take it.
    fn so_far(&self) -> SoFar<'_> {
        SoFar { metric: self.logs.metric.name, logs: &self.logs.values, resolution: self.logs.resolution }
    }

    /// Which it is, and how it seems to differ from its baseline.
    fn words(&self) -> String {
        format!("{} ({}: {:.2} times its baseline's)", self.name, self.logs.metric.label, self.mean().exp())
    }
}

/// What can't be told by the rounds that fit, and what would tell it; `None` where all that seems to differ can be
/// told, or where not every comparison of the measure has two rounds.
///
/// `round` is the time that one more round takes of all that gets any beyond `repeat.min`, `spent` the time of the run so far with what the
/// minimum of all measures will still take.
pub(crate) fn outlook(
    plan: &Plan,
    precision: &Precision<'_>,
    measure: usize,
    (round, spent): (Duration, Duration),
) -> Option<String> {
    let seen = seen(plan, precision, measure)?;
    let made = seen.iter().map(|s| s.logs.values.len()).min()?;
    let rounds = affordable(plan, made, round, spent);
    let differs = |s: &&EarlyComparison| s.tax() > 1.0 + plan.margin.0;
    let all = seen.iter().filter(differs).count();
    let told = told(plan, &seen, rounds);
    let mut lost: Vec<&EarlyComparison> =
        seen.iter().zip(&told).filter(|(_, told)| !**told).map(|(s, _)| s).collect();
    lost.retain(|s| differs(s));
    lost.sort_by(|a, b| b.tax().total_cmp(&a.tax()));
    lost.first()?;
    let names: Vec<String> = lost.iter().take(MOST_NAMES).map(|s| s.words()).collect();
    let more = lost.len().saturating_sub(MOST_NAMES);
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "{}, after {made} rounds: of {}, {rounds} rounds ({}) will probably tell {}. Probably not told: {}{others}. {}",
        plan.measures[measure].name,
        differing(all),
        limit(plan, rounds),
        all - lost.len(),
        names.join(", "),
        advice(&ways(plan, &seen, &lost, rounds), may_be_duet(plan, measure))
    ))
}

/// So many comparisons that seem to differ.
fn differing(all: usize) -> String {
    match all {
        1 => "1 comparison that seems to differ".to_owned(),
        _ => format!("{all} comparisons that seem to differ"),
    }
}

/// Why there are no more rounds.
const fn limit(plan: &Plan, rounds: usize) -> &'static str {
    if rounds >= plan.repeat.max as usize {
        "all that `repeat` allows"
    } else if rounds <= plan.repeat.min as usize {
        "as many as `repeat.min` asks for, as `repeat.budget` has no time for more"
    } else {
        "all that `repeat.budget` has time for"
    }
}

/// The comparisons of a measure; `None` where one of them has fewer than two rounds.
fn seen(plan: &Plan, precision: &Precision<'_>, measure: usize) -> Option<Vec<EarlyComparison>> {
    let mut seen = Vec::new();
    for cell in &plan.cells {
        let Some(baseline) = &cell.baseline else { continue };
        for logs in precision.logs(&cell.id, baseline, measure) {
            if logs.values.len() < ROUNDS {
                return None;
            }
            let asked_first = precision.asked_first(cell, measure, &logs.test);
            let name =
                if logs.test.is_empty() { cell.id.clone() } else { format!("{} of {}", logs.test, cell.id) };
            seen.push(EarlyComparison { name, logs, asked_first });
        }
    }
    Some(seen)
}

/// Which of them so many rounds will probably tell, judged as the report will judge them.
fn told(plan: &Plan, seen: &[EarlyComparison], rounds: usize) -> Vec<bool> {
    let of = |asked_first: bool| -> Vec<SoFar<'_>> {
        seen.iter().filter(|s| s.asked_first == asked_first).map(EarlyComparison::so_far).collect()
    };
    let (first, rest) = (of(true), of(false));
    let share = |asked_first| match (plan.primary.is_some(), asked_first) {
        (true, true) => ASKED_FIRST,
        (true, false) => 1.0 - ASKED_FIRST,
        (false, _) => 1.0,
    };
    let alpha = left_after_looks(ALPHA, (plan.repeat.min as usize, plan.repeat.max as usize));
    let foreseen = |found: &[SoFar<'_>], asked_first, unknown| {
        foreseen(found, unknown, rounds, plan.margin.0, share(asked_first) * alpha)
    };
    let unknown = comparisons(plan).saturating_sub(seen.len());
    let mut first = foreseen(&first, true, 0).into_iter();
    let mut rest = foreseen(&rest, false, unknown).into_iter();
    let next = |s: &EarlyComparison| if s.asked_first { first.next() } else { rest.next() };
    seen.iter().map(next).map(Option::unwrap_or_default).collect()
}

/// The fewest rounds that will probably tell all that seem to differ.
fn enough(plan: &Plan, seen: &[EarlyComparison], rounds: usize) -> Option<usize> {
    let tells = |rounds: usize| {
        let told = told(plan, seen, rounds);
        seen.iter().zip(told).all(|(s, told)| told || s.tax() <= 1.0 + plan.margin.0)
    };
    let (mut low, mut high) = (rounds, MOST_ROUNDS);
    if low >= high || !tells(high) {
        return None;
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        (low, high) = if tells(middle) { (low, middle) } else { (middle, high) };
    }
    Some(high)
}

/// Rounds that there is time for, those made among them, of those that the plan asks for. The minimum is made in any case, and before all
/// others.
fn affordable(plan: &Plan, made: usize, round: Duration, spent: Duration) -> usize {
    let least = made.max(plan.repeat.min as usize);
    let most = least.max(plan.repeat.max as usize);
    let Some(budget) = plan.repeat.budget else { return most };
    let left = Duration::from(budget).saturating_sub(spent).as_secs_f64();
    let more = (left / round.as_secs_f64().max(1e-3)) as usize;
    least.saturating_add(more).min(most)
}

/// Whether the measure's trials could be pairs, and aren't.
fn may_be_duet(plan: &Plan, measure: usize) -> bool {
    plan.repeat.trials == TrialKind::Single && plan.measures[measure].kind.may_be_duet()
}

/// So many rounds, and what of the plan asks for them, where it has at most `max`: a minimum above that is refused.
fn more_rounds(enough: usize, max: usize) -> String {
    let options = if enough > max { "`repeat.min` and `repeat.max`" } else { "`repeat.min`" };
    format!("about {enough} rounds ({options})")
}

/// What will probably tell all of `lost`, the comparisons that so many rounds don't tell.
fn ways(plan: &Plan, seen: &[EarlyComparison], lost: &[&EarlyComparison], rounds: usize) -> Vec<String> {
    let more = enough(plan, seen, rounds).map(|enough| more_rounds(enough, plan.repeat.max as usize));
    let alone = |s: &&EarlyComparison| foreseen(&[s.so_far()], 0, rounds, plan.margin.0, ALPHA) == [true];
    let fewer = comparisons(plan) > 2 && lost.iter().all(alone);
    let fewer = fewer.then(|| "fewer comparisons, or some of them asked first (`primary`)".to_owned());
    more.into_iter().chain(fewer).collect()
}

/// These ways in words, and that pairs may help: how much isn't known before there are some.
fn advice(ways: &[String], may_be_duet: bool) -> String {
    let pairs = "Pairs at the same time (`repeat.trials: duet`) may help.";
    match (ways, may_be_duet) {
        ([], true) => pairs.to_owned(),
        ([], false) => "A quieter machine would help.".to_owned(),
        (ways, true) => format!("What would tell all of them: {}. {pairs}", ways.join("; or ")),
        (ways, false) => format!("What would tell all of them: {}.", ways.join("; or ")),
    }
}

#[cfg(test)]
mod tests {
    use vtax_units::metric::{LATENCY_P50, THROUGHPUT};

    use super::*;

    #[test]
    fn rounds_are_afforded_of_what_the_minimum_leaves() {
        let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, vm]\nservices: http\n\
                    workload: {http: {target: /bytes/1}}\nmeasure: throughput\n\
                    repeat: {min: 3, max: 9, budget: 100s}\n";
        let plan = vtax_plan::parse("t", text.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
        let rounds = |made, round, spent| {
            affordable(&plan, made, Duration::from_secs(round), Duration::from_secs(spent))
        };
        assert_eq!(rounds(2, 10, 60), 3 + 4);
        assert_eq!(rounds(2, 10, 120), 3, "the minimum is made in any case");
        assert_eq!((rounds(5, 10, 80), rounds(2, 0, 60)), (7, 9));
    }

    #[test]
    fn what_seems_to_differ_is_told_with_its_direction() {
        let seen = |values: &[f64]| EarlyComparison {
            name: "vm.direct".to_owned(),
            logs: Logs { test: String::new(), metric: LATENCY_P50, values: values.to_vec(), resolution: 0.0 },
            asked_first: false,
        };
        let (more, less) = (seen(&[2.0_f64.ln(), 2.0_f64.ln()]), seen(&[0.5_f64.ln(), 0.5_f64.ln()]));
        assert_eq!(more.words(), "vm.direct (latency, median: 2.00 times its baseline's)");
        assert_eq!(less.words(), "vm.direct (latency, median: 0.50 times its baseline's)");
        assert!((more.tax() - less.tax()).abs() < 1e-12, "one is as far from its baseline as the other");
        assert_eq!(more_rounds(8, 8), "about 8 rounds (`repeat.min`)");
        assert_eq!(more_rounds(9, 8), "about 9 rounds (`repeat.min` and `repeat.max`)");
        assert_eq!(differing(1), "1 comparison that seems to differ");
        assert_eq!(differing(3), "3 comparisons that seem to differ");
    }

    #[test]
    fn fewer_comparisons_are_advised_only_where_they_would_tell() {
        let plan = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, container, vm, {native: {name: other}}]\n\
                    services: http\nworkload: {http: {target: /bytes/1}}\nmeasure: [throughput]\nrepeat: {min: 5, max: 8}\n";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
        let early = |logs: &[f64]| EarlyComparison {
            name: "vm.direct".to_owned(),
            logs: Logs { test: String::new(), metric: THROUGHPUT, values: logs.to_vec(), resolution: 0.0 },
            asked_first: false,
        };
        let fewer = |logs: &[f64]| {
            let lost = early(logs);
            ways(&plan, &[], &[&lost], 8).iter().any(|way| way.starts_with("fewer comparisons"))
        };
        assert!(fewer(&[0.25, 0.35, 0.3]), "plain enough if it were the only one");
        assert!(!fewer(&[-0.3, 0.6, 0.1]), "it scatters too much for any number of comparisons");
        assert_eq!(advice(&[], false), "A quieter machine would help.");
        assert!(
            advice(&["more".to_owned()], true)
                .ends_with("more. Pairs at the same time (`repeat.trials: duet`) may help.")
        );
    }
}
