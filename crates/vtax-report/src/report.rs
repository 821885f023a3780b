//! The report as a whole: what is written where.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use vtax_store::RunDir;
use vtax_store::summary::Summary;

use crate::ReportError;
use crate::data::RunData;
use crate::ft::{self, Ft};
use crate::ims::Ims;
use crate::{csv, html, ims, summarise, table, xlsx};

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

/// A run, read and judged.
#[derive(Debug)]
pub struct Report {
    pub(crate) run: RunDir,
    pub(crate) data: RunData,
    pub(crate) summary: Summary,
    ims: OnceLock<Ims>,
    ft: OnceLock<Ft>,
}

impl Report {
    /// Reads the journal of a run, complete or not, and judges what is there.
    pub fn read(run: &RunDir) -> Result<Self, ReportError> {
        let data = RunData::read(run)?;
        let summary = summarise::summary(&data);
        Ok(Self { run: run.clone(), data, summary, ims: OnceLock::new(), ft: OnceLock::new() })
    }

    /// Its IMS benchmarks in full, read when first asked for.
    pub(crate) fn ims(&self) -> &Ims {
        self.ims.get_or_init(|| ims::read(&self.run, &self.data))
    }

    /// What it has about fault tolerance, read when first asked for.
    pub(crate) fn ft(&self) -> &Ft {
        self.ft.get_or_init(|| ft::read(&self.run, &self.data))
    }

    /// What `summary.json` holds.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The verdict as plain text, at most 100 columns wide.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = table::render(&self.data, &self.summary);
        text.push_str(&ft::words::terminal(self.ft()));
        text
    }

    /// Writes one form into directory `out`, which must exist; returns what was written.
    ///
    /// Files are replaced whole: a reader or a crash sees the old one or the new one.
    pub fn write(&self, format: Format, out: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let files: Vec<(PathBuf, Vec<u8>)> = match format {
            Format::Json => {
                let path = out.join("summary.json");
                if out == self.run.path() {
                    self.run.write_summary(&self.summary)?;
                    return Ok(vec![path]);
                }
                vec![(path, self.json().into_bytes())]
            }
            Format::Html => vec![(out.join("report.html"), html::page(self).into_bytes())],
            Format::Xlsx => {
                let path = out.join("report.xlsx");
                let book = xlsx::workbook(self)
                    .map_err(|source| ReportError::Workbook { path: path.clone(), source })?;
                vec![(path, book)]
            }
            Format::Csv => {
                let directory = out.join("csv");
                vtax_store::create_directory(&directory)?;
                let named = csv::files(self).into_iter();
                named.map(|(name, text)| (directory.join(name), text.into_bytes())).collect()
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
        serde_json::to_string_pretty(&self.summary).unwrap_or_default() + "\n"
    }
}

/// Writes every form into the run directory itself, as `vtax run` does at its end.
pub fn write_all(run: &RunDir) -> Result<Report, ReportError> {
    let report = Report::read(run)?;
    for format in Format::ALL {
        report.write(format, run.path())?;
    }
    Ok(report)
}
