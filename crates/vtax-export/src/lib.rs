//! Stored runs in the formats of other tools: OpenTelemetry's protocol and Parquet (docs/serve.md).
//!
//! What is written is derived from a [`Report`](vtax_report::Report), which reads nothing but the run directory.

mod error;
mod identity;
pub mod otlp;
mod parquet_file;
pub mod send;

pub use error::ExportError;
pub use parquet_file::{FIGURES_VERSION, ParquetFile};
