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
mod guests;
mod instrument;
mod live;
mod manual_testbed;
mod member;
mod noise;
mod observe;
mod offered;
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
mod stop;
mod systems;
mod team;
mod trial;
mod trial_request;
mod trials_outcome;
mod warm_up;

pub use error::RunError;
pub use executor::LabExecutor;
pub use guests::PairSupport;
pub use live::LiveProgress;
pub use manual_testbed::{BuiltManualTestbed, ManualTestbed, ManualTestbedError, TestbedHandle};
pub use observe::{Observer, RunEvent, Silent};
pub use provenance::{host, provenance};
pub use runner::{Executor, RunEnd, Runner};
pub use schedule::{Schedule, Slot, TimeBudget};
pub use stop::Stop;
pub use trial_request::TrialRequest;
pub use trials_outcome::TrialsOutcome;
