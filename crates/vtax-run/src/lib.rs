//! Runs a plan: trial order, repetition, journal, resume.

mod schedule;

pub use schedule::{Schedule, Slot};
