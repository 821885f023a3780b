//! Runs a plan: trial order, repetition, journal, resume.
//!
//! [`Runner`] decides which trial comes next and writes it down; an [`Executor`] makes it. The
//! real executor is [`LabExecutor`], which builds a fresh testbed for each trial.

mod addresses;
mod barrier;
pub mod calibration;
mod cards;
mod duet;
mod error;
mod executor;
mod failover;
mod family;
mod found;
mod guests;
mod instrument;
mod live;
mod member;
mod noise;
mod observe;
mod offered;
mod order;
mod outlook;
mod precision;
mod probes;
mod provenance;
mod provision;
mod quiesce;
mod requests;
mod runner;
mod schedule;
mod service_log;
mod standing;
mod stop;
mod systems;
mod team;
mod trial;
mod warm_up;

pub use error::RunError;
pub use executor::LabExecutor;
pub use found::Found;
pub use guests::PairSupport;
pub use live::LiveProgress;
pub use observe::{Observer, RunEvent, Silent};
pub use order::Order;
pub use provenance::{host, provenance};
pub use runner::{Ended, Executor, Runner};
pub use schedule::{Schedule, Slot};
pub use standing::{Executed, Reach, Standing, StandingError, Stood};
pub use stop::Stop;
