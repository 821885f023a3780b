//! Plans: YAML to a resolved matrix of cells.
//!
//! [`load`] reads a plan and resolves it, or gives every error at once, each with its place in the
//! file. [`model`] is what a plan means; everything downstream speaks it. The way there:
//!
//! 1. `tree`: YAML events to a bounded tree whose nodes know their place,
//! 2. `overrides`: `--set path=value` changes the tree,
//! 3. `raw`, by `decode`: the tree as typed keys with defaults; unknown keys are refused,
//! 4. `resolve`: what the keys mean together; lists become cells.
//!
//! Reading the file, and those beside it that it names, is the only I/O of this crate.

mod assumptions;
mod calibration;
mod cards;
pub mod containerlab;
#[macro_use]
mod decode;
mod describe;
mod diagnose;
mod family;
mod folder;
mod overrides;
mod raw;
mod resolve;
mod schema;
mod shell;
mod smoke_test;
mod source;
mod tls;
mod tree;

pub mod draft;
pub mod estimate;
pub mod har;
pub mod model;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

pub use calibration::{against_itself, is_against_itself, is_calibration, resuming};
pub use diagnose::{Diagnostic, Diagnostics, PlanErrors};
pub use family::{Misfit, WorkloadModel};
pub use schema::schema;
pub use smoke_test::{is_smoke_test, smoke_test};

use crate::decode::Decode as _;
use crate::diagnose::Report;
use crate::folder::Folder;
use crate::model::Plan;
use crate::source::{Source, SourceId, Span};

/// The most bytes a plan file may have.
pub const MAX_PLAN_BYTES: u64 = 1 << 20;
/// The most overrides one command line may have.
const MAX_OVERRIDES: usize = 1_000;

/// Reads the plan at `path`, applies `overrides` (`path=value`) in order and resolves it.
///
/// # Errors
/// [`PlanErrors::Read`] and [`PlanErrors::TooLarge`] for the file, [`PlanErrors::Invalid`] with
/// everything that is wrong in it.
pub fn load(path: &Path, overrides: &[impl AsRef<str>]) -> Result<Plan, PlanErrors> {
    parse_in(&path.to_string_lossy(), &read_file(path)?, overrides, Folder::of(path))
}

/// What is in a file, of at most [`MAX_PLAN_BYTES`].
fn read_file(path: &Path) -> Result<Vec<u8>, PlanErrors> {
    let failed = |source| PlanErrors::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_PLAN_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_PLAN_BYTES {
        return Err(PlanErrors::TooLarge { path: path.to_owned(), limit: MAX_PLAN_BYTES });
    }
    Ok(bytes)
}

/// Resolves a plan from memory; `name` is what error messages call it. It can't name files beside it.
///
/// # Errors
/// [`PlanErrors::Invalid`] with everything that is wrong in it.
pub fn parse(name: &str, bytes: &[u8], overrides: &[impl AsRef<str>]) -> Result<Plan, PlanErrors> {
    parse_in(name, bytes, overrides, Folder::default())
}

fn parse_in(
    name: &str,
    bytes: &[u8],
    overrides: &[impl AsRef<str>],
    folder: Folder,
) -> Result<Plan, PlanErrors> {
    let mut sources =
        vec![Source { name: name.to_owned(), text: String::from_utf8_lossy(bytes).into_owned() }];
    let set = overrides.iter().take(MAX_OVERRIDES);
    sources.extend(set.map(|text| Source { name: "--set".to_owned(), text: text.as_ref().to_owned() }));
    let count = sources.len();
    let mut report = Report::new(sources);
    report.folder = folder;
    if let Err(error) = std::str::from_utf8(bytes) {
        let at = error.valid_up_to();
        report
            .error(Span::new(0, at..at), "the file is not UTF-8 from here on")
            .help("save it as UTF-8 text")
            .without_snippet();
        return Err(PlanErrors::Invalid(report.finish()));
    }
    if overrides.len() > MAX_OVERRIDES {
        report.error(Span::default(), format!("there are more than {MAX_OVERRIDES} overrides"));
    }
    let plan = read(count, &mut report);
    match plan {
        Some(plan) if !report.has_errors() => Ok(plan),
        _ => Err(PlanErrors::Invalid(report.finish())),
    }
}

fn read(sources: usize, report: &mut Report) -> Option<Plan> {
    let mut root = tree::parse(&report.text(0), 0, 0, report);
    if root.as_ref().is_none_or(tree::Node::is_null) {
        if !report.has_errors() {
            report.error(Span::default(), "the plan is empty").help("a plan starts with `vtax: 1`");
        }
        return None;
    }
    if let Some(root) = &mut root {
        for index in 1..sources {
            overrides::apply(root, &report.text(index), SourceId::try_from(index).ok()?, report);
        }
    }
    let root = root?;
    if !begins_as_a_plan(&root, report) {
        return None;
    }
    let raw = raw::PlanRaw::decode(&root, report)?;
    resolve::resolve(&raw, report)
}

/// Whether a mapping has the key that every plan begins with, perhaps misspelt. Where it hasn't, this is told instead of all else that is
/// missing.
fn begins_as_a_plan(root: &tree::Node, report: &mut Report) -> bool {
    let tree::Value::Mapping(entries) = &root.value else { return true };
    if entries.iter().any(|(key, _)| diagnose::nearest(&key.value, ["vtax"]).is_some()) {
        return true;
    }
    report
        .error(root.span.at_start(), "this is no plan: a plan starts with `vtax: 1`")
        .help("`vtax init` writes one");
    false
}
