//! The study this repeats, where the plan names it: its tables II to VI as printed, in `studies/virtual-links/`.

use std::sync::LazyLock;

use serde::Deserialize;
use vtax_plan::model::{Cell, EnvironmentKind, PathKind, Plan, SdnMode, Study as Name};

/// Tables of the study, and what of a plan repeats them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Study {
    /// Of the rows of its tables, in bytes.
    pub(crate) windows: [u64; 4],
    /// Of each of its tests.
    pub(crate) repetitions: u32,
    pub(crate) expected: Expected,
    scenarios: Vec<Scenario>,
    pub(crate) tables: Vec<Table>,
    pub(crate) not_repeated: Vec<NotRepeated>,
}

/// What the study expected of every path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) jitter_ns: f64,
    /// As a share.
    pub(crate) loss: f64,
}

/// What transfers of the study are about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// As table VI calls it.
    pub(crate) name: String,
    repeated_by: Vec<Condition>,
    /// Where the study has it.
    #[serde(rename = "where")]
    pub(crate) place: String,
    /// How a plan repeats it.
    pub(crate) way: String,
}

/// What a cell must be to repeat a scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    /// As the plan calls the kind of path.
    path: String,
    /// As the plan calls the kind of environment.
    environment: Option<String>,
    /// Of the wire, in bits per second.
    rate: Option<u64>,
    /// Of an SDN controller.
    mode: Option<SdnMode>,
}

impl Condition {
    fn holds(&self, cell: &Cell) -> bool {
        let environment = match &cell.environment.kind {
            EnvironmentKind::Native => "native",
            EnvironmentKind::Container => "container",
            EnvironmentKind::Vm(_) => "vm",
            EnvironmentKind::Uml => "uml",
        };
        let mode = match &cell.path.kind {
            PathKind::Sdn(sdn) => Some(sdn.mode),
            _ => None,
        };
        self.path == cell.path.kind.word()
            && self.environment.as_ref().is_none_or(|wanted| wanted == environment)
            && self.rate.is_none_or(|wanted| cell.path.rate.is_some_and(|rate| rate.0 == wanted))
            && self.mode.is_none_or(|wanted| mode == Some(wanted))
    }
}

/// A table of transfers by window.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// `II`.
    pub(crate) number: String,
    /// Its caption.
    pub(crate) title: String,
    /// Names of those it is compared with.
    pub(crate) scenarios: Vec<String>,
    /// What of it can't be repeated here.
    #[serde(default)]
    pub(crate) missing: String,
    /// All transfers of a scenario make one mean, whose spread means nothing.
    #[serde(default)]
    pub(crate) together: bool,
    /// What a reader should know.
    #[serde(default)]
    pub(crate) note: String,
    pub(crate) columns: Vec<Column>,
}

/// A column of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    /// As the study calls it.
    pub(crate) name: String,
    /// Transfers in MB of 30 s, by window.
    means: [f64; 4],
    /// Their standard deviations, where the study prints them.
    deviations: Option<[f64; 4]>,
    /// Where figure 5 shows it.
    scenario: Option<String>,
}

impl Column {
    /// Mean and standard deviation of the row of a window.
    pub(crate) fn value(&self, row: usize) -> (f64, Option<f64>) {
        (self.means[row], self.deviations.map(|d| d[row]))
    }
}

/// What isn't repeated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotRepeated {
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) instead: String,
}

/// `None` if the file, which is part of the program, couldn't be read; a test reads it.
static STUDY: LazyLock<Option<Study>> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("../../../studies/virtual-links/study.yaml")).ok());

/// The study, where the plan names it.
pub(crate) fn of(plan: &Plan) -> Option<&'static Study> {
    STUDY.as_ref().filter(|_| plan.study == Some(Name::VirtualLinks))
}

impl Study {
    /// Which scenario a cell repeats, if one.
    pub(crate) fn scenario(&self, cell: &Cell) -> Option<&Scenario> {
        self.scenarios.iter().find(|s| s.repeated_by.iter().any(|condition| condition.holds(cell)))
    }

    /// Its scenarios, in the order of table VI.
    pub(crate) fn scenarios(&self) -> impl Iterator<Item = &Scenario> {
        self.scenarios.iter()
    }

    /// Columns that are rows of figure 5 under a scenario.
    pub(crate) fn figure_5(&self, scenario: &str) -> impl Iterator<Item = &Column> {
        let columns = self.tables.iter().flat_map(|t| &t.columns);
        columns.filter(move |c| c.scenario.as_deref() == Some(scenario))
    }

    /// The row of a window in bytes.
    pub(crate) fn row(&self, window: u64) -> Option<usize> {
        self.windows.iter().position(|w| *w == window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table V's first column is printed as the mean of table II's rows, and so are others of VI.
    #[test]
    fn the_tables_agree_with_each_other() {
        let tables = &STUDY.as_ref().unwrap().tables;
        for row in 0..4 {
            let mean = |table: usize| {
                let columns = &tables[table].columns;
                columns.iter().map(|c| c.value(row).0).sum::<f64>() / columns.len() as f64
            };
            let printed = |table: usize, column: usize| tables[table].columns[column].value(row).0;
            assert!((mean(0) - printed(3, 0)).abs() < 1.0);
            assert!((mean(1) - printed(4, 1)).abs() < 0.01 * mean(1));
            assert!((mean(2) - printed(4, 2)).abs() < 1.0);
        }
    }

    #[test]
    fn every_scenario_is_one_of_the_studys() {
        let study = STUDY.as_ref().unwrap();
        let known = |name: &String| study.scenarios().any(|s| s.name == *name);
        assert!(study.tables.iter().flat_map(|t| &t.scenarios).all(known));
        let rows: usize = study.scenarios().map(|s| study.figure_5(&s.name).count()).sum();
        assert_eq!(rows, 11);
        assert_eq!(study.tables.iter().flat_map(|t| &t.columns).filter(|c| c.scenario.is_some()).count(), 11);
    }
}
