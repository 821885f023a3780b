//! What can go wrong with a report.

use std::path::PathBuf;

use vtax_store::StoreError;

/// What can go wrong with a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run can't be read, or a file not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workbook can't be made.
    #[error("cannot make {}", path.display())]
    Workbook {
        /// Where it was to go.
        path: PathBuf,
        /// The library's reason.
        #[source]
        source: rust_xlsxwriter::XlsxError,
    },
}

impl ReportError {
    /// True where the run directory is at fault, not the host.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Store(e) if e.is_bad_input())
    }
}
