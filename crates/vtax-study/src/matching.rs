//! Whether the plans of a study have what its claims look for.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::{Cell, MeasureKind, Plan};

use crate::check::points_in;
use crate::model::{Group, Mode, Point, Selector, Study, Test, in_mode};

impl Test {
    /// Where the figure of a point is found; `published`: what the study looked at.
    pub(crate) fn selector(&self, group: &Group, point: &Point, mode: Mode, published: bool) -> Selector {
        let mut selector = self.of.clone();
        if let Some(of) = &self.of_modes {
            selector = selector.under(of.of(mode));
        }
        selector = selector.under(&group.of).under(&point.ours);
        if let Some(ours) = &point.ours_modes {
            selector = selector.under(ours.of(mode));
        }
        if published {
            selector =
                selector.under(&self.as_published).under(&group.as_published).under(&point.as_published);
        }
        selector
    }
}

/// What a cell's measures are called in `summary.json`: their names, or those of their tests.
#[must_use]
pub(crate) fn known_measures(plan: &Plan, cell: &Cell) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for measure in &plan.measures {
        let model = cell.workload.model();
        let tests: Vec<&str> = match measure.kind {
            MeasureKind::Network(_) => model.tests().iter().map(|test| test.name.as_str()).collect(),
            MeasureKind::Storage(_) => model.storage_tests().iter().map(|test| test.name.as_str()).collect(),
            _ => {
                names.insert(measure.name.clone());
                continue;
            }
        };
        names.extend(tests.into_iter().map(|test| format!("{}/{test}", measure.name)));
    }
    names
}

/// What claims look for in an experiment and its plan doesn't have, one sentence each. `is_metric` knows the names of metrics.
#[must_use]
pub fn misfits(
    study: &Study,
    experiment: &str,
    mode: Mode,
    plan: &Plan,
    is_metric: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    misfits_of(study, experiment, mode, plan, &[false, true], is_metric)
}

/// The same of a plan with the changes that make it run as the study was: it needs only what the study looked at.
#[must_use]
pub fn misfits_as_published(
    study: &Study,
    experiment: &str,
    mode: Mode,
    plan: &Plan,
    is_metric: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    misfits_of(study, experiment, mode, plan, &[true], is_metric)
}

/// What claims look for and don't find, by the ways to look for it: as the study looked at it, or properly.
fn misfits_of(
    study: &Study,
    experiment: &str,
    mode: Mode,
    plan: &Plan,
    published: &[bool],
    is_metric: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut all = BTreeSet::new();
    for claim in &study.claims {
        let Some(test) = claim.test.as_ref().filter(|test| test.experiment == experiment) else { continue };
        if !in_mode(&test.modes, mode) {
            continue;
        }
        for group in test.all_groups().iter().filter(|group| in_mode(&group.modes, mode)) {
            for point in points_in(group, mode) {
                for published in published {
                    let selector = test.selector(group, point, mode, *published);
                    if let Some(why) = misfit(&selector, plan, is_metric) {
                        all.insert(format!("claim `{}`, `{}`: {why}", claim.id, point.name));
                    }
                }
            }
        }
    }
    all.into_iter().collect()
}

/// Why a plan doesn't have what a selector names.
fn misfit(selector: &Selector, plan: &Plan, is_metric: &dyn Fn(&str) -> bool) -> Option<String> {
    let suits = |cell: &&Cell| {
        let names = [&cell.environment.name, &cell.path.name, &cell.service.name].map(String::as_str);
        let parameters: &BTreeMap<String, String> = &cell.parameters;
        selector.suits(names, parameters)
    };
    let cells: Vec<&Cell> = plan.cells.iter().filter(suits).collect();
    let cell = match cells.as_slice() {
        [cell] => cell,
        [] => return Some(format!("plan `{}` has no such cell", plan.name)),
        several => {
            return Some(format!("plan `{}` has {} such cells, and one is meant", plan.name, several.len()));
        }
    };
    let measure = selector.measure.as_deref().unwrap_or("");
    if !known_measures(plan, cell).contains(measure) {
        return Some(format!("plan `{}` has no measure `{measure}`", plan.name));
    }
    let metric = selector.metric.as_deref().unwrap_or("");
    (!is_metric(metric)).then(|| format!("there is no metric `{metric}`"))
}
