//! What of a plan has no figure when its run is complete, as none of its trials counts.

use std::collections::BTreeSet;

use vtax_plan::model::{Cell, Measure, Plan, TrialKind};
use vtax_run::TrialsOutcome;
use vtax_store::record::{InvalidReason, TrialRecord, Validity};
use vtax_store::summary::TrialSummary;

use crate::brief;

/// Most names in a line.
const NAMED: usize = 5;
/// What keeps other work from counting against one side alone.
const AS_PAIRS: &str = ", or measure both sides at once: --set repeat='{min: 3, max: 3, trials: duet}'";

/// What is told where no trial of a run counts: the commonest reason, as one of its trials has it in the summary, and what would help.
pub(super) fn none(plan: &Plan, trials: &[TrialRecord], told: &[TrialSummary]) -> String {
    let mut reasons: Vec<(InvalidReason, Vec<&TrialRecord>)> = Vec::new();
    for trial in trials {
        let Validity::Invalid { reason, .. } = &trial.validity else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, own)) => own.push(trial),
            None => reasons.push((*reason, vec![trial])),
        }
    }
    // These only follow from another trial's, so they tell nothing where there is any other.
    let follows = |reason: InvalidReason| {
        matches!(reason, InvalidReason::PartnerInvalid | InvalidReason::PrerequisiteMissing)
    };
    let commonest = reasons.iter().max_by_key(|(reason, own)| (!follows(*reason), own.len()));
    let Some((reason, own)) = commonest else {
        return "no trial counts; the notes say why\n".to_owned();
    };
    let why = told.iter().find(|trial| Some(trial.index) == own.first().map(|first| first.index));
    let why = why
        .and_then(|trial| trial.reason.as_deref())
        .map_or_else(|| "the notes say why".to_owned(), brief::shown);
    let mut text = format!("no trial counts. {} of {} for this reason: {why}\n", own.len(), trials.len());
    if *reason == InvalidReason::Disturbed {
        let pairs = if may_be_duets(plan, own) { AS_PAIRS } else { "" };
        text += &format!("to have them count: end other work{pairs}\n");
    }
    text
}

/// Whether the plan takes `trials: duet`, and makes pairs of any of these trials then.
fn may_be_duets(plan: &Plan, trials: &[&TrialRecord]) -> bool {
    let can_stand_twice = |cell: &Cell| {
        cell.path.kind.may_stand_twice() && !cell.environment.kind.is_pair() && !cell.is_several()
    };
    let is_of = |measure: &Measure| trials.iter().any(|trial| trial.measure == measure.name);
    plan.repeat.trials == TrialKind::Single
        && plan.cells.iter().all(can_stand_twice)
        && plan.cells.iter().any(|cell| cell.baseline.is_some())
        && plan.measures.iter().any(|measure| measure.kind.may_be_duet() && is_of(measure))
}

/// What `--strict` doesn't let pass: the line that tells it, and what those trials have come to; `None` where each cell has trials that
/// count of each measure.
pub(super) fn of_measures(plan: &Plan, trials: &[TrialRecord]) -> Option<(String, TrialsOutcome)> {
    let counted: BTreeSet<(&str, &str)> = valid(trials).map(place).collect();
    let measures = |cell: &Cell| -> Vec<(String, String)> {
        let measured = plan.measures.iter().filter(|measure| plan.is_measured(cell, measure));
        let is_missing = |measure: &&Measure| !counted.contains(&(cell.id.as_str(), measure.name.as_str()));
        measured.filter(is_missing).map(|measure| (cell.id.clone(), measure.name.clone())).collect()
    };
    let missing: Vec<(String, String)> = plan.cells.iter().flat_map(measures).collect();
    if missing.is_empty() {
        return None;
    }
    let is_of = |trial: &&TrialRecord| {
        missing.iter().any(|(cell, measure)| (cell.as_str(), measure.as_str()) == place(trial))
    };
    let outcome = TrialsOutcome::of(trials.iter().filter(is_of).map(|trial| &trial.validity));
    let names = missing.iter().map(|(cell, measure)| format!("{cell} [{measure}]"));
    Some((format!("failed because of --strict: no trial counts for {}\n", listed(names)), outcome))
}

/// A line that names the cells of which no trial counts; empty where there are none. Notes tell of those that were left out.
pub(super) fn cells(plan: &Plan, trials: &[TrialRecord], left_out: &[(String, String)]) -> String {
    let counted: BTreeSet<&str> = valid(trials).map(|trial| trial.cell.as_str()).collect();
    let is_told = |cell: &Cell| left_out.iter().any(|(id, _)| *id == cell.id);
    let missing: Vec<&Cell> =
        plan.cells.iter().filter(|cell| !counted.contains(cell.id.as_str()) && !is_told(cell)).collect();
    if missing.is_empty() {
        return String::new();
    }
    let (count, all) = (missing.len(), plan.cells.len());
    let have = if count == 1 { "has" } else { "have" };
    let names = listed(missing.iter().map(|cell| cell.id.clone()));
    format!("{count} of {all} cells {have} no figure, as no trial counts: {names}\n")
}

fn valid(trials: &[TrialRecord]) -> impl Iterator<Item = &TrialRecord> {
    trials.iter().filter(|trial| trial.validity == Validity::Valid)
}

/// Cell and measure.
fn place(trial: &TrialRecord) -> (&str, &str) {
    (trial.cell.as_str(), trial.measure.as_str())
}

/// The first of these names, and how many more there are.
fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(NAMED);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtax_store::record::InvalidReason;

    fn plan() -> Plan {
        let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, container, vm]\n\
                    services: http\nworkload: {http: {target: /page/1}}\nmeasure: [capacity, latency]\n";
        let none: &[&str] = &[];
        vtax_plan::parse("t", text.as_bytes(), none).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
    }

    /// A trial of each measure of the plan's, of these cells.
    fn trials(plan: &Plan, cells: &[Cell], validity: &Validity) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for cell in cells {
            for measure in &plan.measures {
                let begun = TrialRecord::begin(&cell.id, &measure.name, 0);
                trials.push(TrialRecord { validity: validity.clone(), ..begun });
            }
        }
        trials
    }

    fn invalid(reason: InvalidReason) -> Validity {
        Validity::Invalid { reason, detail: String::new() }
    }

    #[test]
    fn a_cell_without_a_figure_is_named_unless_a_note_tells_of_it() {
        let plan = plan();
        let mut all = trials(&plan, &plan.cells[..2], &Validity::Valid);
        all.extend(trials(&plan, &plan.cells[2..], &invalid(InvalidReason::Disturbed)));
        let vm = plan.cells[2].id.clone();
        let told = format!("1 of 3 cells has no figure, as no trial counts: {vm}\n");
        assert_eq!(cells(&plan, &all, &[]), told);
        assert_eq!(cells(&plan, &all, &[(vm, "no QEMU".to_owned())]), "");
        let none = cells(&plan, &[], &[]);
        assert!(none.starts_with("3 of 3 cells have no figure"), "{none}");
    }

    #[test]
    fn with_strict_each_measure_of_each_cell_must_have_a_figure() {
        let plan = plan();
        let mut all = trials(&plan, &plan.cells, &Validity::Valid);
        assert_eq!(of_measures(&plan, &all), None);
        // The last is the VM's last measure.
        let last = all.pop().unwrap();
        let (line, outcome) = of_measures(&plan, &all).unwrap();
        assert!(
            line.ends_with(&format!(": no trial counts for {} [{}]\n", last.cell, last.measure)),
            "{line}"
        );
        assert_eq!(outcome, TrialsOutcome::NoneValid);
        all.push(TrialRecord { validity: invalid(InvalidReason::ServiceFailed), ..last });
        assert_eq!(of_measures(&plan, &all).unwrap().1, TrialsOutcome::ServicesFailed);
    }

    /// What the summary says of trials that are invalid for these reasons.
    fn told(trials: &mut [TrialRecord], reason: &str) -> Vec<TrialSummary> {
        let mut summaries = Vec::new();
        for (index, trial) in (0..).zip(trials) {
            trial.index = index;
            summaries.push(TrialSummary {
                index,
                cell: trial.cell.clone(),
                measure: trial.measure.clone(),
                repetition: 0,
                valid: false,
                reason: Some(format!("{reason} in trial {index}")),
            });
        }
        summaries
    }

    #[test]
    fn where_no_trial_counts_the_commonest_reason_and_the_way_out_are_told() {
        let mut plan = plan();
        let mut all = trials(&plan, &plan.cells[..1], &invalid(InvalidReason::NoSteadyState));
        all.extend(trials(&plan, &plan.cells[1..], &invalid(InvalidReason::Disturbed)));
        let summaries = told(&mut all, "disturbed: other processes used 31 %");
        let pairs = ", or measure both sides at once: --set repeat='{min: 3, max: 3, trials: duet}'";
        let said = |pairs: &str| {
            format!(
                "no trial counts. 4 of 6 for this reason: disturbed: other processes used 31 % in trial 2\n\
                 to have them count: end other work{pairs}\n"
            )
        };
        assert_eq!(none(&plan, &all, &summaries), said(pairs));
        plan.repeat.trials = TrialKind::Duet;
        assert_eq!(none(&plan, &all, &summaries), said(""), "they are pairs already");
        plan.repeat.trials = TrialKind::Single;
        plan.measures.retain(|measure| !measure.kind.may_be_duet());
        assert_eq!(none(&plan, &all, &summaries), said(""), "a search can't be one of a pair");
        assert_eq!(none(&plan, &[], &[]), "no trial counts; the notes say why\n");
    }

    /// They are many where one trial failed on which all others hang.
    #[test]
    fn what_only_follows_is_no_reason() {
        let plan = plan();
        let mut all = trials(&plan, &plan.cells, &invalid(InvalidReason::PrerequisiteMissing));
        all[3].validity = invalid(InvalidReason::ServiceFailed);
        let summaries = told(&mut all, "why");
        assert_eq!(
            none(&plan, &all, &summaries),
            "no trial counts. 1 of 6 for this reason: why in trial 3\n"
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let of = |count: usize| listed((1..=count).map(|name| name.to_string()));
        assert_eq!((of(1), of(5)), ("1".to_owned(), "1, 2, 3, 4, 5".to_owned()));
        assert_eq!(of(7), "1, 2, 3, 4, 5 and 2 more");
    }
}
