//! Runs a plan: trial order, repetition, journal, resume.
//!
//! [`Runner`] decides which trial comes next and writes it down; an [`Executor`] makes it. The
//! real executor is [`LabExecutor`], which builds a fresh testbed for each trial.

mod burst;
pub mod calibration;
mod calm;
mod complaints;
mod error;
mod executor;
mod failover;
mod gate;
mod guests;
mod ims;
mod live;
mod measure;
mod net;
mod noise;
mod observe;
mod offered;
mod precision;
mod probes;
mod provenance;
mod provision;
mod runner;
mod schedule;
mod settle;
mod stop;
mod trial;

pub use error::RunError;
pub use executor::LabExecutor;
pub use guests::PairSupport;
pub use live::LiveProgress;
pub use observe::{Observer, RunEvent};
pub use provenance::{host, provenance};
pub use runner::{Ended, Executor, Order, Runner};
pub use schedule::{Schedule, Slot};
pub use stop::Stop;
