//! One figure of one cell over many runs, and where it changed.

mod picture;

use vtax_plan::model::Plan;
use vtax_stats::{Direction, Group, LONGEST_SERIES};
use vtax_store::record::JournalEntry;
use vtax_store::summary::{Better, Summary};
use vtax_store::{Provenance, RunDir, StoreError};

use crate::compare::{changes as besides, figures_of, hardware, one_cell, system};
use crate::families::named;
use crate::ft::trial::is_of_convergence;
use crate::markup::Markup;

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Cell id.
    pub cell: String,
    /// Measure name, as in `summary.json`.
    pub measure: String,
    /// Metric name.
    pub metric: String,
    /// The figure itself, or what it costs over the cell's baseline.
    pub of: Of,
}

/// The figure itself, or a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The typical value of the metric.
    Value,
    /// The tax.
    Tax,
}

/// What a history needs of a run.
#[derive(Debug, Clone)]
pub struct Stored {
    plan: Plan,
    provenance: Provenance,
    summary: Summary,
    version: u32,
}

impl Stored {
    /// Reads plan, provenance and the summary that is there.
    ///
    /// # Errors
    ///
    /// The store's; [`StoreError::Io`] with `NotFound` where there is no summary yet.
    pub fn read(run: &RunDir) -> Result<Self, StoreError> {
        let version = match run.journal()?.next().transpose()? {
            Some(JournalEntry::Opened { version, .. }) => version,
            _ => 0,
        };
        Ok(Self { plan: run.plan()?, provenance: run.provenance()?, summary: run.summary()?, version })
    }

    /// Its summary.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The accelerator of a cell.
    fn accelerator(&self, cell: &str) -> Option<&str> {
        self.summary.cells.iter().find(|c| c.cell == cell).and_then(|c| c.accelerator.as_deref())
    }

    /// The figure, where the run has it; else why not.
    fn figure(&self, wanted: &Wanted) -> Result<Figure, String> {
        match wanted.of {
            Of::Value => self.value(wanted),
            Of::Tax => self.tax(wanted),
        }
    }

    fn value(&self, wanted: &Wanted) -> Result<Figure, String> {
        let cell = self.summary.cells.iter().find(|c| c.cell == wanted.cell && c.measure == wanted.measure);
        let found =
            cell.and_then(|c| c.metrics.get(&wanted.metric)).ok_or("no trial that counts has the figure")?;
        if found.at_least {
            let why = match found.better {
                Better::Higher => "the system was never driven to its limit",
                Better::Lower if is_of_convergence(&wanted.metric) => "what was broken never came back",
                Better::Lower => "too much of it had no answer",
            };
            return Err(format!("only a lower bound is known: {why}"));
        }
        Ok(Figure { value: found.center, interval: found.interval, trials: found.n })
    }

    fn tax(&self, wanted: &Wanted) -> Result<Figure, String> {
        let same = |c: &&vtax_store::summary::Comparison| {
            c.cell == wanted.cell && c.measure == wanted.measure && c.metric == wanted.metric
        };
        let found = self.summary.comparisons.iter().find(same).ok_or("the run doesn't compare it")?;
        let value = found.tax.ok_or("no tax is known")?;
        Ok(Figure { value, interval: found.interval, trials: found.rounds.unwrap_or_default() })
    }
}

struct Figure {
    value: f64,
    interval: Option<(f64, f64)>,
    trials: u32,
}

/// One run of a history.
#[derive(Debug, Clone)]
pub struct Point {
    /// The name that the run was added under.
    pub id: String,
    /// When it began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The typical value, or the tax.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Trials, or rounds, that it is made of.
    pub trials: u32,
    provenance: Provenance,
}

/// A run that is no part of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The name that the run was added under.
    pub id: String,
    /// Every reason.
    pub reasons: Vec<String>,
}

/// A place at which a history changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Index of the first point after it.
    pub at: usize,
    /// How often runs in random order have a change as clear.
    pub chance: f64,
    /// Median of the points before it, since the change before.
    pub before: f64,
    /// Median of those after it, until the next.
    pub after: f64,
    /// The level after it in units of the level before, and the range that runs leave open: Welch's interval, which holds the truth less
    /// often than 95 times of 100, as the place was chosen for being clear. `None` where values aren't positive.
    pub ratio: Option<(f64, Option<(f64, f64)>)>,
    /// What else is different between the runs beside it.
    pub besides: Vec<String>,
}

/// One figure of one cell over runs. [`History::of`] begins it, [`add`](Self::add) takes runs in the order of time and
/// [`close`](Self::close) finds where it changed.
#[derive(Debug)]
pub struct History {
    reference: Stored,
    wanted: Wanted,
    unit: &'static str,
    better: Better,
    /// Runs that can be compared, in the order of time.
    pub points: Vec<Point>,
    /// Runs that can't.
    pub left_out: Vec<LeftOut>,
    /// Where it changed, in the order of time.
    pub turns: Vec<Turn>,
}

impl History {
    /// Whether its values are taxes, which are made of rounds.
    #[must_use]
    pub fn is_of_tax(&self) -> bool {
        self.wanted.of == Of::Tax
    }

    /// A history of runs that can be compared with this one.
    #[must_use]
    pub fn of(reference: Stored, wanted: Wanted) -> Self {
        // Not from the reference's figure, which may be missing, or a bound.
        let (unit, better) = match wanted.of {
            Of::Tax => ("x", Better::Lower),
            Of::Value => named(&wanted.metric).map_or(("", Better::Lower), |info| (info.unit, info.better)),
        };
        let (points, left_out, turns) = (Vec::new(), Vec::new(), Vec::new());
        Self { reference, wanted, unit, better, points, left_out, turns }
    }

    /// Unit of its values; `x` of taxes.
    #[must_use]
    pub fn unit(&self) -> &str {
        self.unit
    }

    /// Which way is better.
    #[must_use]
    pub fn better(&self) -> Better {
        self.better
    }

    /// Takes a run in, or leaves it out with the reasons.
    pub fn add(&mut self, id: &str, run: Stored) {
        let reasons = self.reasons(&run);
        match run.figure(&self.wanted) {
            Ok(figure) if reasons.is_empty() => self.points.push(Point {
                id: id.to_owned(),
                started_unix_ms: run.provenance.started_unix_ms,
                value: figure.value,
                interval: figure.interval,
                trials: figure.trials,
                provenance: run.provenance,
            }),
            Ok(_) => self.leave_out(id, reasons),
            Err(missing) => {
                let reasons = if reasons.is_empty() { vec![missing] } else { reasons };
                self.leave_out(id, reasons);
            }
        }
    }

    /// Leaves a run out that can't be read.
    pub fn leave_out(&mut self, id: &str, reasons: Vec<String>) {
        self.left_out.push(LeftOut { id: id.to_owned(), reasons });
    }

    /// Why a run can't be compared with the reference, which is called A.
    fn reasons(&self, run: &Stored) -> Vec<String> {
        let (a, wanted) = (&self.reference, &self.wanted);
        let mut reasons = Vec::new();
        if figures_of(a.version) != figures_of(run.version) {
            let (in_a, in_b) = (a.version, run.version);
            reasons.push(format!("other format: the journal has version {in_a} in A, {in_b} in B"));
        }
        let compared = wanted.of == Of::Tax;
        let plans = one_cell(&a.plan, &run.plan, (&wanted.cell, &wanted.measure), compared);
        reasons.extend(plans.into_iter().map(|difference| format!("other plan: {difference}")));
        let (in_a, in_b) = (a.accelerator(&wanted.cell), run.accelerator(&wanted.cell));
        if let (Some(in_a), Some(in_b)) = (in_a, in_b)
            && in_a != in_b
        {
            reasons.push(format!("other accelerator: {in_a} in A, {in_b} in B"));
        }
        let machine = hardware(&a.provenance.host, &run.provenance.host);
        reasons.extend(machine.into_iter().map(|difference| format!("other machine: {difference}")));
        reasons
    }

    /// Puts the runs in the order of time and finds where they changed; the same seed gives the same result.
    pub fn close(&mut self, seed: u64) {
        self.points.sort_by(|a, b| (a.started_unix_ms, &a.id).cmp(&(b.started_unix_ms, &b.id)));
        let surplus = self.points.len().saturating_sub(LONGEST_SERIES);
        for point in self.points.drain(..surplus) {
            let reasons = vec![format!("older than the newest {LONGEST_SERIES}")];
            self.left_out.push(LeftOut { id: point.id, reasons });
        }
        let values: Vec<f64> = self.points.iter().map(|p| p.value).collect();
        let positive = values.iter().all(|v| *v > 0.0 && v.is_finite());
        let series: Vec<f64> =
            if positive { values.iter().map(|v| v.ln()).collect() } else { values.clone() };
        let found = vtax_stats::changes(&series, seed);
        let ends: Vec<usize> = found.iter().map(|c| c.at).chain([values.len()]).collect();
        let mut from = 0;
        for (i, change) in found.iter().enumerate() {
            let (before, after) = (&values[from..change.at], &values[change.at..ends[i + 1]]);
            let level = |log: f64| if positive { log.exp() } else { log };
            let beside = (&self.points[change.at - 1].provenance, &self.points[change.at].provenance);
            let mut differing = system(&beside.0.host, &beside.1.host);
            differing.extend(besides(beside.0, beside.1));
            self.turns.push(Turn {
                at: change.at,
                chance: change.chance,
                before: level(change.before),
                after: level(change.after),
                ratio: positive.then(|| ratio(before, after, seed)).flatten(),
                besides: differing,
            });
            from = change.at;
        }
    }

    /// The runs as a picture, for desktop and phone.
    #[must_use]
    pub fn picture(&self) -> Markup {
        picture::draw(self)
    }

    /// A value in words.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        match self.wanted.of {
            Of::Tax => crate::format::tax(value),
            Of::Value => crate::format::quantity(value, self.unit),
        }
    }
}

/// The level after a change in units of the level before, over runs.
fn ratio(before: &[f64], after: &[f64], seed: u64) -> Option<(f64, Option<(f64, f64)>)> {
    let found = vtax_stats::tax(&Group::exact(after), &Group::exact(before), Direction::Lower, seed).ok()?;
    Some((found.tax, found.interval))
}
