//! Samplers of CPU, memory, network and disk over time.

mod types;

pub use types::*;
