//! Stored run to HTML, XLSX, CSV and JSON.
//!
//! [`Report::read`] reads a run once, reduced to what a report shows; its methods write it down.
//! Nothing here measures, and nothing here writes into a run but the report's own files.

mod chapter;
mod chapters;
pub mod compare;
mod consolidation;
mod context;
mod data;
mod error;
mod explain;
mod families;
mod family;
mod fates;
mod format;
mod ft;
mod general;
mod headline;
mod html;
mod judged;
pub mod markup;
pub mod merged;
mod metric;
pub mod pages;
mod plot;
mod report;
mod routed;
mod rows;
mod sheet;
mod shell;
mod sockets;
pub mod study;
mod summarise;
mod table;
mod terminal;
mod text;
mod words;
mod workbook;

pub use error::ReportError;
pub use families::describe_finding;
pub use report::{FigureRow, Format, Report, write_all};
