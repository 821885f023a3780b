//! Samplers of CPU, memory, network and disk over time.
//!
//! [`Probe`] takes a [`Snapshot`] of cumulative counters, [`Sampler`] takes them at an interval,
//! [`delta`] turns two into times, [`layers`] into the breakdown of CPU time by layer,
//! [`noise`] says what else happened on the host, and [`others`] who else was busy there. What each figure means and where it is
//! blind is in docs/probes.md.

pub mod delta;
mod error;
mod frequency;
pub mod layers;
pub mod noise;
pub mod others;
mod parse;
mod probe;
mod sampler;
mod tasks;
mod types;
mod workers;

pub use error::ProbeError;
pub use frequency::FrequencyWatch;
pub use probe::{Probe, Scope};
pub use sampler::{Sampler, Samples};
pub use types::*;
pub use workers::Workers;
