//! Runs a plan: trial order, repetition, journal, resume.
//!
//! [`Runner`] decides which trial comes next and writes it down; an [`Executor`] makes it. The
//! real executor is [`LabExecutor`], which builds a fresh testbed for each trial.

mod burst;
mod error;

mod measure;
mod observe;
mod offered;
mod precision;
mod provenance;
mod runner;
mod schedule;

pub use error::RunError;
pub use observe::{Observer, RunEvent};
pub use provenance::provenance;
pub use runner::{Ended, Executor, Order, Runner, Stop};
pub use schedule::{Schedule, Slot};
