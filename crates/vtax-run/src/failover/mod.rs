//! A fixed load while things break: who breaks them when, what becomes of the system under test, and what
//! clients see of it.

mod account;
#[cfg(test)]
mod chaos;
mod history;
mod inject;
mod measure;
mod mode;
mod protection;
mod seen;
mod silence;
mod skipped;
#[cfg(test)]
mod tests;
mod topology;

pub(crate) use measure::{HeldLoad, measure};
pub(crate) use mode::{mode_in, tolerance};
pub(crate) use protection::{Meter, Qemus};
pub(crate) use seen::Course;
#[cfg(test)]
pub(crate) use silence::Stretch;
pub(crate) use skipped::skipped;
