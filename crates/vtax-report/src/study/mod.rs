//! A published study reproduced: what runs say of its claims, as a page, as Markdown, as JSON and as a citation.
//!
//! Figures come from stored runs ([`experiment`]); verdicts are `vtax-study`'s; here they are written down.

mod citation;
mod json;
mod markdown;
mod page;
mod plot;
mod read;
mod words;

use std::path::{Path, PathBuf};

use vtax_study::{Reproduction, Study};

use crate::ReportError;

pub use read::{experiment, host, is_metric, products};

/// A study reproduced, with what its report tells besides.
#[derive(Debug)]
pub struct StudyReport<'a> {
    /// The study.
    pub study: &'a Study,
    /// What became of it.
    pub found: &'a Reproduction,
    /// The runs, in the order of experiments, those made as the study made its own behind them.
    pub runs: &'a [StudyRun],
    /// When the report was made, milliseconds since 1970.
    pub made_unix_ms: u64,
    /// Version of vtax.
    pub vtax: &'a str,
}

/// A run of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyRun {
    /// The experiment.
    pub experiment: String,
    /// Whether it was run as the study ran it.
    pub as_published: bool,
    /// Its directory, as the report's page can link to it.
    pub directory: String,
    /// What a reader of it must know (its notes).
    pub notes: Vec<String>,
    /// What took part: services, QEMU and kernels with their versions.
    pub products: Vec<String>,
}

impl StudyReport<'_> {
    /// As one page that needs nothing else.
    #[must_use]
    pub fn html(&self) -> String {
        page::page(self)
    }

    /// As Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// As JSON, for scripts.
    #[must_use]
    pub fn json(&self) -> String {
        json::render(self)
    }

    /// As a citation file (CITATION.cff, version 1.2.0).
    #[must_use]
    pub fn citation(&self) -> String {
        citation::render(self)
    }

    /// As plain text for a terminal, at most 100 columns wide.
    #[must_use]
    pub fn table(&self) -> String {
        markdown::terminal(self)
    }

    /// Writes all forms into a directory, which must exist; returns what was written.
    ///
    /// # Errors
    ///
    /// [`ReportError::Store`] where a file can't be written.
    pub fn write(&self, out: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let files = [
            ("report.html", self.html()),
            ("report.md", self.markdown()),
            ("claims.json", self.json()),
            ("CITATION.cff", self.citation()),
        ];
        let mut written = Vec::new();
        for (name, text) in files {
            let path = out.join(name);
            vtax_store::write_file(&path, text.as_bytes())?;
            written.push(path);
        }
        Ok(written)
    }
}
