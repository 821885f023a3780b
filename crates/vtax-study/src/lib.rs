//! Published studies as data: what they say, what of it a run can test, and what the test says (docs/studies.md).
//!
//! A study is a folder with `claims.yaml` and the plans that it names. [`open`] reads one, [`problems`] and [`misfits`] say
//! what is wrong with it. Runs come in as [`Experiment`]s of plain figures; [`reproduce`] makes verdicts of them. Nothing
//! here measures or writes.

mod builtin;
mod check;
mod combine;
mod compared;
mod figures;
mod found;
mod judge;
mod load;
mod matching;
mod model;
mod quantity;
mod rules;
mod schema;

pub use builtin::names;
pub use check::problems;
pub use compared::{Compared, MARGIN};
pub use figures::{Cell, Experiment, Figure, State};
pub use found::{Change, Conclusion, FoundClaim, Host, Reproduction, reproduce};
pub use judge::{Judged, Step, Way, Word, judge};
pub use load::{Loaded, MAX_BYTES, StudyError, open, open_folder};
pub use matching::{misfits, misfits_as_published};
pub use model::*;
pub use quantity::Quantity;
pub use rules::{Case, Outcome, RuleFound, rules};
pub use schema::schema;
