//! All tests of this crate in one program.

mod data;
mod docs;
mod hostile;
mod verdicts;
