//! Whether what a study says fits together.

use std::collections::BTreeSet;

use crate::model::{
    Claim, Each, ExperimentPlan, Expression, Group, Kind, Mode, Place, Point, Rule, Selector, Study, Table,
    Test,
};
use crate::quantity::Quantity;

/// The most that a study may have of anything.
const MOST: usize = 1000;

/// Whether a name may be part of a path: runs are kept under those of studies and experiments.
fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// What is wrong with a study, one sentence each; nothing where it is whole.
#[must_use]
pub fn problems(study: &Study) -> Vec<String> {
    let mut all = Vec::new();
    if !is_plain(&study.name) {
        all.push(format!("name `{}`: it may have letters, digits and `-`", study.name));
    }
    sizes(study, &mut all);
    let named = [
        ("item", study.items.iter().map(|i| i.id.as_str()).collect::<Vec<_>>()),
        ("table", study.tables.iter().map(|t| t.id.as_str()).collect()),
        ("experiment", study.experiments.iter().map(|e| e.id.as_str()).collect()),
        ("claim", study.claims.iter().map(|c| c.id.as_str()).collect()),
        ("rule", study.rules.iter().map(|r| r.id.as_str()).collect()),
    ];
    for (what, ids) in named {
        let mut seen = BTreeSet::new();
        all.extend(
            ids.iter().filter(|id| !seen.insert(**id)).map(|id| format!("{what} `{id}` is there twice")),
        );
    }
    items(study, &mut all);
    study.tables.iter().for_each(|table| shape(study, table, &mut all));
    study.experiments.iter().for_each(|experiment| experiment_of(experiment, &mut all));
    study.claims.iter().for_each(|claim| claim_of(study, claim, &mut all));
    study.rules.iter().for_each(|rule| rule_of(study, rule, &mut all));
    all
}

fn sizes(study: &Study, all: &mut Vec<String>) {
    let sizes = [
        ("items", study.items.len()),
        ("tables", study.tables.len()),
        ("experiments", study.experiments.len()),
        ("claims", study.claims.len()),
        ("rules", study.rules.len()),
    ];
    let large = sizes.into_iter().filter(|(_, size)| *size > MOST);
    all.extend(large.map(|(what, size)| format!("{size} {what}, and {MOST} are the most")));
}

/// Each item has claims or the reason why it has none, and each claim comes from an item.
fn items(study: &Study, all: &mut Vec<String>) {
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    for item in &study.items {
        match (item.claims.is_empty(), item.why.is_some()) {
            (true, false) => all.push(format!("{}: it has neither `claims` nor `why`", item.id)),
            (false, true) => all.push(format!("{}: it has claims, and `why` it has none", item.id)),
            _ => {}
        }
        for claim in &item.claims {
            placed.insert(claim);
            if study.claim(claim).is_none() {
                all.push(format!("{}: there is no claim `{claim}`", item.id));
            }
        }
    }
    let lost = study.claims.iter().filter(|claim| !placed.contains(claim.id.as_str()));
    all.extend(lost.map(|claim| format!("claim `{}` is of no item", claim.id)));
}

fn shape(study: &Study, table: &Table, all: &mut Vec<String>) {
    let columns = table.columns.len();
    let uneven = table.rows.iter().filter(|row| row.values.len() != columns);
    all.extend(uneven.map(|row| {
        format!("table `{}`, row `{}`: {} values for {columns} columns", table.id, row.name, row.values.len())
    }));
    if study.items.iter().all(|item| item.id != table.item) {
        all.push(format!("table `{}`: there is no item `{}`", table.id, table.item));
    }
}

fn experiment_of(experiment: &ExperimentPlan, all: &mut Vec<String>) {
    let id = &experiment.id;
    if !is_plain(id) {
        all.push(format!("experiment `{id}`: its id may have letters, digits and `-`"));
    }
    if experiment.trials == 0 {
        all.push(format!("experiment `{id}`: a study without a measurement"));
    }
}

fn claim_of(study: &Study, claim: &Claim, all: &mut Vec<String>) {
    let name = format!("claim `{}`", claim.id);
    match (&claim.test, &claim.why_not) {
        (None, None) => all.push(format!("{name} has neither `test` nor `why_not`")),
        (Some(_), Some(_)) => all.push(format!("{name} has a test, and `why_not`")),
        (Some(test), None) => test_of(study, &name, test, all),
        (None, Some(_)) => {}
    }
}

fn test_of(study: &Study, name: &str, test: &Test, all: &mut Vec<String>) {
    if study.experiment(&test.experiment).is_none() {
        all.push(format!("{name}: there is no experiment `{}`", test.experiment));
    }
    if test.groups.is_empty() == test.points.is_empty() {
        all.push(format!("{name}: a test has either `points` or `groups`"));
    }
    let needs = [
        ("at", test.is == Kind::Knee, test.at.is_some()),
        ("most", test.is == Kind::Small, test.most.is_some()),
        ("least", test.is == Kind::Large, test.least.is_some()),
    ];
    for (key, wanted, given) in needs {
        match (wanted, given) {
            (true, false) => all.push(format!("{name}: it needs `{key}`")),
            (false, true) => all.push(format!("{name}: `{key}` means nothing here")),
            _ => {}
        }
    }
    for group in test.all_groups() {
        points_of(study, name, test, &group, all);
    }
    if test.enough.is_some_and(|enough| enough == 0 || enough > test.groups.len()) {
        all.push(format!("{name}: `enough` is of the groups there are"));
    }
    let margin = test.margin.unwrap_or(0.1);
    if !(margin > 0.0 && margin < 1.0) {
        all.push(format!("{name}: a margin is between 0 and 1"));
    }
}

fn points_of(study: &Study, name: &str, test: &Test, group: &Group, all: &mut Vec<String>) {
    let count = group.points.len();
    let fits = match test.is {
        Kind::Higher => count == 2,
        Kind::Small | Kind::Large => count == 1,
        Kind::Equal | Kind::Order | Kind::Rising | Kind::Falling => count >= 2,
        Kind::LevelsOff | Kind::Knee => count >= 3,
    };
    if !fits {
        all.push(format!("{name}: {count} points don't make such a test"));
    }
    if let Some(at) = &test.at {
        let place = group.points.iter().position(|point| point.name == *at);
        if place.is_none_or(|place| place == 0) {
            all.push(format!("{name}: `at` is the name of a point behind the first"));
        }
    }
    let by_itself = matches!(test.is, Kind::Small | Kind::Large);
    for point in &group.points {
        match point.study.as_ref().map(|place| study.figure(place)) {
            Some(None) => {
                all.push(format!("{name}, `{}`: the study's tables have nothing there", point.name));
            }
            Some(Some(figure)) if by_itself && !is_share(&figure) => all.push(format!(
                "{name}, `{}`: the study's figure is no share, and `small` and `large` are of shares",
                point.name
            )),
            Some(Some(_)) | None => {}
        }
        for mode in [Mode::Quick, Mode::Full] {
            let whole = test.selector(group, point, mode, false);
            if let Some(key) = lacking(&whole) {
                all.push(format!("{name}, `{}`: its figure has no `{key}`", point.name));
            }
            if whole.divide.is_some_and(|d| !(d.is_finite() && d > 0.0)) {
                all.push(format!("{name}, `{}`: `divide` is a number above 0", point.name));
            }
        }
    }
}

/// Whether a figure of the study is a share. Of how many a count is isn't known.
fn is_share(figure: &Quantity) -> bool {
    figure.is_like(&Quantity::new(1.0, "1")) && (0.0..=1.0).contains(&figure.value)
}

fn lacking(selector: &Selector) -> Option<&'static str> {
    match (&selector.measure, &selector.metric) {
        (None, _) => Some("measure"),
        (_, None) => Some("metric"),
        _ => None,
    }
}

impl Test {
    /// Its groups; its points as the only one where it has none.
    #[must_use]
    pub fn all_groups(&self) -> Vec<Group> {
        if !self.groups.is_empty() {
            return self.groups.clone();
        }
        vec![Group {
            name: String::new(),
            modes: Vec::new(),
            not: false,
            of: Selector::default(),
            as_published: Selector::default(),
            points: self.points.clone(),
        }]
    }
}

fn rule_of(study: &Study, rule: &Rule, all: &mut Vec<String>) {
    let name = format!("rule `{}`", rule.id);
    let sides = [&rule.equals, &rule.at_most, &rule.above];
    let given: Vec<_> = sides.into_iter().flatten().collect();
    let [sides] = given.as_slice() else {
        all.push(format!("{name} has to compare by one of `equals`, `at_most` and `above`"));
        return;
    };
    if let Some(each) = &rule.each {
        each_of(study, &name, each, all);
    }
    for side in sides.iter().chain(&rule.within) {
        expression(study, &name, side, rule.each.as_ref(), 0, all);
    }
}

fn each_of(study: &Study, name: &str, each: &Each, all: &mut Vec<String>) {
    let Some(table) = study.table(&each.table) else {
        all.push(format!("{name}: there is no table `{}`", each.table));
        return;
    };
    if !each.rows.is_empty() && !each.columns.is_empty() {
        all.push(format!("{name}: it goes over rows or over columns"));
    }
    let rows = each.rows.iter().filter(|row| table.rows.iter().all(|known| known.name != **row));
    all.extend(rows.map(|row| format!("{name}: table `{}` has no row `{row}`", each.table)));
    let columns = each.columns.iter().filter(|column| !table.columns.contains(column));
    all.extend(columns.map(|column| format!("{name}: table `{}` has no column `{column}`", each.table)));
}

/// How deep expressions may be in each other.
const DEEPEST: usize = 8;

fn expression(
    study: &Study,
    name: &str,
    of: &Expression,
    each: Option<&Each>,
    depth: usize,
    all: &mut Vec<String>,
) {
    let lists = [&of.sum, &of.mean, &of.most, &of.product, &of.quotient];
    let given = lists.iter().filter(|list| list.is_some()).count()
        + usize::from(of.cell.is_some())
        + usize::from(of.value.is_some());
    if given != 1 {
        all.push(format!(
            "{name}: an expression is one of `cell`, `value`, `sum`, `mean`, `most`, `product`, `quotient`"
        ));
    }
    if of.unit.is_some() && of.value.is_none() {
        all.push(format!("{name}: `unit` belongs to a `value`"));
    }
    if depth >= DEEPEST {
        all.push(format!("{name}: expressions lie too deep in each other"));
        return;
    }
    if let Some(place) = &of.cell {
        place_of(study, name, place, each, all);
    }
    for part in lists.into_iter().flatten().flatten() {
        expression(study, name, part, each, depth + 1, all);
    }
}

/// A cell of a rule names a table, a row and a column that are there, or leaves one to `each`.
fn place_of(study: &Study, name: &str, place: &Place, each: Option<&Each>, all: &mut Vec<String>) {
    let table = place.table.as_ref().or(each.map(|each| &each.table));
    let Some(table) = table.and_then(|id| study.table(id)) else {
        all.push(format!("{name}: a cell of a table that isn't there"));
        return;
    };
    let over_columns = each.is_some_and(|each| !each.columns.is_empty());
    let over_rows = each.is_some() && !over_columns;
    match &place.row {
        Some(row) if table.rows.iter().all(|known| known.name != *row) => {
            all.push(format!("{name}: table `{}` has no row `{row}`", table.id));
        }
        None if !over_rows => all.push(format!("{name}: a cell without a row")),
        _ => {}
    }
    match &place.column {
        Some(column) if !table.columns.contains(column) => {
            all.push(format!("{name}: table `{}` has no column `{column}`", table.id));
        }
        None if !over_columns => all.push(format!("{name}: a cell without a column")),
        _ => {}
    }
}

/// The points of a group that a mode has, in their order.
pub(crate) fn points_in<'a>(group: &'a Group, mode: Mode) -> impl Iterator<Item = &'a Point> + use<'a> {
    group.points.iter().filter(move |point| crate::model::in_mode(&point.modes, mode))
}
