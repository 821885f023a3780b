//! What runs found, as far as claims need it.

use std::collections::BTreeMap;

use crate::model::Selector;

/// The run of an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Experiment {
    /// How far it came.
    pub state: State,
    /// What it measured in each cell of its plan.
    pub cells: Vec<Cell>,
    /// Where rounds were added until intervals were narrow: how many there were in any case.
    pub at_least: Option<usize>,
    /// Seed of the plan.
    pub seed: u64,
}

/// How far an experiment came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum State {
    /// It was never run.
    #[default]
    NotRun,
    /// It ended before it had measured anything, for this reason.
    Failed(String),
    /// It was cut short.
    Incomplete,
    /// Nothing is missing, and no trial counts.
    Empty,
    /// Nothing is missing.
    Complete,
}

/// A cell of a plan, with its figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// Its id.
    pub id: String,
    /// Name of the environment.
    pub environment: String,
    /// Name of the path.
    pub path: String,
    /// Name of the service.
    pub service: String,
    /// Parameters that vary.
    pub parameters: BTreeMap<String, String>,
    /// Whether a virtual machine under software emulation took part.
    pub emulated: bool,
    /// Why it couldn't be measured on this host.
    pub left_out: Option<String>,
    /// Figures by measure (of tests `MEASURE/TEST`) and metric.
    pub figures: BTreeMap<(String, String), Figure>,
}

/// A metric of a cell, trial by trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figure {
    /// One for each trial that counts, in the order of time.
    pub values: Vec<f64>,
    /// What ratios are made of, one for each value and in its unit: the middle of its bracket, where the value is the lower end of one.
    pub for_ratios: Vec<f64>,
    /// The round of each.
    pub rounds: Vec<u32>,
    /// Relative width within which each could lie unseen ([`vtax_stats::Group`]).
    pub resolution: f64,
    /// They are only lower bounds.
    pub at_least: bool,
    /// Unit, as in `summary.json`.
    pub unit: String,
}

/// Why there is no figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It can't be had here.
    CantRun(String),
    /// It was measured, without a trial that counts.
    CantTell(String),
}

impl Selector {
    /// Whether a cell is one that it names.
    pub(crate) fn suits(
        &self,
        [environment, path, service]: [&str; 3],
        parameters: &BTreeMap<String, String>,
    ) -> bool {
        let named = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|w| w == name);
        named(&self.environment, environment)
            && named(&self.path, path)
            && named(&self.service, service)
            && self.with.iter().all(|(key, allowed)| {
                parameters.get(key).is_some_and(|value| allowed.iter().any(|a| a == value))
            })
    }
}

impl State {
    /// Whether there is nothing left to run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Complete | Self::Empty)
    }
}

impl Experiment {
    /// The figure that a selector names, with its cell.
    pub(crate) fn find(&self, selector: &Selector) -> Result<(&Cell, &Figure), Absent> {
        match &self.state {
            State::NotRun => return Err(Absent::CantRun("it wasn't run".to_owned())),
            State::Failed(why) => return Err(Absent::CantRun(why.clone())),
            State::Incomplete | State::Empty | State::Complete => {}
        }
        let suits =
            |cell: &&Cell| selector.suits([&cell.environment, &cell.path, &cell.service], &cell.parameters);
        let mut all = self.cells.iter().filter(suits);
        let (first, second) = (all.next(), all.next());
        let cell = match (first, second) {
            (Some(cell), None) => cell,
            (None, _) => return Err(Absent::CantRun("the run's plan has no such cell".to_owned())),
            (Some(_), Some(_)) => {
                return Err(Absent::CantRun("the run's plan has several such cells".to_owned()));
            }
        };
        if let Some(why) = &cell.left_out {
            return Err(Absent::CantRun(format!("{}: {why}", cell.id)));
        }
        let key = (selector.measure.clone().unwrap_or_default(), selector.metric.clone().unwrap_or_default());
        match cell.figures.get(&key).filter(|figure| !figure.values.is_empty()) {
            Some(figure) => Ok((cell, figure)),
            None => Err(Absent::CantTell(format!("{}: no trial gave {} of {}", cell.id, key.1, key.0))),
        }
    }
}
