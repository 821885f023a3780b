//! The run directory: versioned formats, readers and writers.

pub mod record;
pub mod summary;
