//! Samplers of CPU, memory, network and disk over time.

pub mod delta;
pub mod layers;
mod types;

pub use types::*;
