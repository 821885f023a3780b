//! The load engine: arrivals, workers, recorders, workloads.

mod result;
mod spec;

pub use result::*;
pub use spec::*;
