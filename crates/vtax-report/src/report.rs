//! The report as a whole: what is written where.

use std::path::{Path, PathBuf};

use vtax_plan::model::Plan;
use vtax_store::record::TrialRecord;
use vtax_store::summary::{Better, Summary};
use vtax_store::{Provenance, RunDir};

use crate::ReportError;
use crate::chapter::Chapter;
use crate::chapters::chapters;
use crate::consolidation::trial::SystemFound;
use crate::context::Context;
use crate::data::RunData;
use crate::families::named;
use crate::metric::{Value, exact};
use crate::{html, summarise, terminal, workbook};

/// A form a report takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `report.html`: one self-contained page.
    Html,
    /// `report.xlsx`: one workbook.
    Xlsx,
    /// `csv/*.csv`: one file per table.
    Csv,
    /// `summary.json`: the contract for scripts.
    Json,
}

impl Format {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Json, Self::Html, Self::Xlsx, Self::Csv];
}

/// One figure of one trial that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureRow<'a> {
    /// Index of the trial.
    pub trial: u32,
    /// The one of several systems that it is of; `None`: of all together, or of the only one.
    pub member: Option<&'a str>,
    /// Cell id.
    pub cell: &'a str,
    /// Measure name; of a test `measure/test`, of what every trial tells `lifecycle`.
    pub measure: &'a str,
    /// Metric name.
    pub metric: &'static str,
    /// Its unit, as in `summary.json`.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// The value.
    pub value: f64,
    /// True where it is only a lower bound.
    pub at_least: bool,
}

/// A run, read and judged.
#[derive(Debug)]
pub struct Report {
    pub(crate) context: Context,
    chapters: Vec<Box<dyn Chapter>>,
}

impl Report {
    /// Reads the journal of a run, complete or not, and judges what is there.
    ///
    /// # Errors
    ///
    /// [`ReportError::Store`] where plan, provenance or journal can't be read.
    pub fn read(run: &RunDir) -> Result<Self, ReportError> {
        let chapters = chapters();
        let data = RunData::read(run)?;
        let summary = summarise::summary(&data, &chapters);
        Ok(Self { context: Context::new(run.clone(), data, summary), chapters })
    }

    /// What `summary.json` holds.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.context.summary
    }

    /// The resolved plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.context.data.plan
    }

    /// Where the numbers come from.
    #[must_use]
    pub fn provenance(&self) -> &Provenance {
        &self.context.data.provenance
    }

    /// Every trial in the order they ended; their histograms are empty.
    #[must_use]
    pub fn trials(&self) -> &[TrialRecord] {
        &self.context.data.trials
    }

    /// Every figure of every trial that counts, trial by trial; those of each of several systems besides.
    #[must_use]
    pub fn figures(&self) -> Vec<FigureRow<'_>> {
        let data = &self.context.data;
        let mut rows = Vec::new();
        for ((cell, measure), trials) in &data.values {
            for figures in trials {
                rows.extend(figures.values.iter().filter_map(|value| {
                    let info = named(value.metric)?;
                    Some(FigureRow {
                        trial: figures.trial,
                        member: None,
                        cell,
                        measure,
                        metric: info.name,
                        unit: info.unit,
                        better: info.better,
                        value: value.value,
                        at_least: value.censored,
                    })
                }));
            }
        }
        rows.extend(data.systems.iter().flat_map(of_system));
        rows.sort_by_key(|row| row.trial);
        rows
    }

    /// `report.html` as text.
    #[must_use]
    pub fn html(&self) -> String {
        html::page::page(&self.context, &self.chapters)
    }

    /// The verdict as plain text, at most 100 columns wide.
    #[must_use]
    pub fn table(&self) -> String {
        terminal::render(&self.context, &self.chapters)
    }

    /// Writes one form into directory `out`, which must exist; returns what was written.
    ///
    /// Files are replaced whole: a reader or a crash sees the old one or the new one.
    ///
    /// # Errors
    ///
    /// [`ReportError::Workbook`] where the workbook can't be made, [`ReportError::Store`] where a file can't be
    /// written.
    pub fn write(&self, format: Format, out: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let files: Vec<(PathBuf, Vec<u8>)> = match format {
            Format::Json => {
                let path = out.join("summary.json");
                if out == self.context.run.path() {
                    self.context.run.write_summary(&self.context.summary)?;
                    return Ok(vec![path]);
                }
                vec![(path, self.json().into_bytes())]
            }
            Format::Html => {
                vec![(out.join("report.html"), self.html().into_bytes())]
            }
            Format::Xlsx => {
                let path = out.join("report.xlsx");
                let book = workbook::workbook(&self.context, &self.chapters)
                    .map_err(|source| ReportError::Workbook { path: path.clone(), source })?;
                vec![(path, book)]
            }
            Format::Csv => {
                let directory = vtax_store::OwnDirectory::create(out, "csv")?;
                let tables = self.chapters.iter().flat_map(|c| c.tables(&self.context));
                return tables.map(|t| Ok(directory.write(&format!("{}.csv", t.name), &t.csv())?)).collect();
            }
        };
        for (path, bytes) in &files {
            vtax_store::write_file(path, bytes)?;
        }
        Ok(files.into_iter().map(|f| f.0).collect())
    }

    /// `summary.json` as text.
    #[must_use]
    pub fn json(&self) -> String {
        // The summary is made of numbers that are finite and of strings: this can't fail.
        serde_json::to_string_pretty(&self.context.summary).unwrap_or_default() + "\n"
    }
}

/// The figures of one of several systems.
fn of_system(system: &SystemFound) -> impl Iterator<Item = FigureRow<'_>> {
    let of = |metric, value: Option<f64>| value.map(|value| exact(metric, value));
    let figures: [(&'static str, Better, Option<Value>); 11] = [
        ("req/s", Better::Higher, of("asked", Some(system.asked))),
        ("req/s", Better::Higher, of("rate", Some(system.rate))),
        ("", Better::Lower, of("failed", Some(system.failed as f64))),
        ("ns", Better::Lower, system.p50),
        ("ns", Better::Lower, system.p99),
        ("ns", Better::Lower, of("latency_mean", Some(system.mean))),
        ("ns/req", Better::Lower, of("cpu_per_request", system.cpu)),
        ("B", Better::Lower, of("memory", system.memory)),
        ("1", Better::Lower, of("steal_share", system.steal)),
        ("ns", Better::Lower, of("boot", system.boot)),
        ("ns", Better::Lower, of("lease", system.lease)),
    ];
    figures.into_iter().filter_map(move |(unit, better, found)| {
        let Value { metric, value, censored, .. } = found?;
        Some(FigureRow {
            trial: system.trial,
            member: Some(&system.member),
            cell: &system.cell,
            measure: &system.measure,
            metric,
            unit,
            better,
            value,
            at_least: censored,
        })
    })
}

/// Writes every form into the run directory itself, as `vtax run` does at its end.
///
/// # Errors
///
/// As [`Report::read`] and [`Report::write`].
pub fn write_all(run: &RunDir) -> Result<Report, ReportError> {
    let report = Report::read(run)?;
    for format in Format::ALL {
        report.write(format, run.path())?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consolidation::trial::Role;

    /// The unit 1 is that of shares: printed as percent, and an interval is cut at 1. A count must not have it.
    #[test]
    fn of_one_of_several_systems_only_shares_have_their_unit() {
        let system = SystemFound {
            cell: "vm".to_owned(),
            measure: "latency".to_owned(),
            trial: 0,
            member: "sut-2".to_owned(),
            role: Role::System,
            name: None,
            asked: 10.0,
            rate: 9.0,
            failed: 3,
            p50: None,
            p99: None,
            mean: 1e6,
            cpu: Some(1e5),
            memory: Some(1e8),
            steal: Some(0.01),
            boot: Some(1e9),
            up: Some(1e9),
            lease: Some(1e6),
        };
        let figures: Vec<FigureRow<'_>> = of_system(&system).collect();
        let shares: Vec<&str> = figures.iter().filter(|row| row.unit == "1").map(|row| row.metric).collect();
        assert_eq!(shares, ["steal_share"]);
        let failed = figures.iter().find(|row| row.metric == "failed").unwrap();
        assert_eq!((failed.unit, failed.value), ("", 3.0));
    }
}
