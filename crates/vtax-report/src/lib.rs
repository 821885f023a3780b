//! Stored run to HTML, XLSX, CSV and JSON.
//!
//! [`Report::read`] reads a run once, reduced to what a report shows; its methods write it down.
//! Nothing here measures, and nothing here writes into a run but the report's own files.

pub mod compare;
mod csv;
mod data;
mod error;
mod explain;
#[cfg(feature = "fixture")]
pub mod fixture;
mod format;
mod ft;
mod headline;
mod html;
mod ims;
mod judged;
mod links;
mod markup;
mod memory;
mod metric;
mod plot;
mod report;
mod series;
mod summarise;
mod table;
mod xlsx;

pub use error::ReportError;
pub use links::line::told_tests;
pub use report::{Format, Report, write_all};
