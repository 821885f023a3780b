//! Loads of requests: connections over which requests are sent and answers waited for, whatever the protocol.

mod counted;
mod dialogue;
mod engine;
mod merge;
mod queue;
mod recorder;
mod slots;
mod spec;
mod timetable;
mod worker;

pub(crate) use dialogue::{Answer, Dialogue, Ended, Taken};
pub(crate) use engine::{Part, Requests, run, run_together};
pub(crate) use merge::{Course, merge};
pub(crate) use recorder::{Lateness, Outcome, Recorder, Window};
pub use spec::{ConnectionPool, Model, RequestStep, Segment};
pub(crate) use timetable::{Finding, Timetable, time_since};
pub(crate) use worker::outcome_of;

#[cfg(test)]
mod tests;
