//! Plans: YAML to a resolved matrix of cells.
//!
//! [`model`] is what a plan means; everything downstream speaks it.

pub mod model;
