//! Two runs of the same plan against each other, or several of each side: A is the baseline, B the candidate.
//!
//! [`compare`] refuses what can't be compared and says what would make it comparable
//! ([`Refusal`]); what it gives back can be printed, gated and written as JSON, JUnit XML,
//! Markdown or a page. docs/compare.md explains it to its users.

mod check;
mod difference;
#[cfg(test)]
mod gate_tests;
mod html;
mod junit;
pub(crate) mod markdown;
mod missing;
mod model;
mod rows;
mod runs;
#[cfg(test)]
mod session_tests;
mod table;
#[cfg(test)]
mod tests;

use vtax_units::Share;

use crate::Report;
use crate::data::RunData;
use crate::families::metrics;
use crate::metric::Info;
use crate::rows::leads;
use crate::text::printable;
pub(crate) use check::{
    changes, figures_of, hardware, machine_facts, one_cell, path, programs, reasons_by_path, same_runs,
    system,
};
pub use model::*;
pub use runs::Runs;

/// Compares run B, the candidate, with run A, the baseline: [`compare_runs`] with one run of each.
///
/// # Errors
///
/// As there.
pub fn compare(a: &Report, b: &Report, options: &Options) -> Result<RunComparison, CompareError> {
    compare_runs(Runs::one(a), Runs::one(b), options)
}

/// Compares B, the candidate, with A, the baseline. With several runs of each side every run counts once.
///
/// # Errors
///
/// [`CompareError::Refused`] with every reason where the runs can't be compared, [`CompareError::UnknownMetric`]
/// where a metric has another name, [`CompareError::Store`] where a journal can't be read.
pub fn compare_runs(a: Runs<'_>, b: Runs<'_>, options: &Options) -> Result<RunComparison, CompareError> {
    check_metrics(&options.metrics)?;
    let mut reasons = check::all_reasons(a, b)?;
    let machine = check::machines(a, b);
    if options.same_machine {
        reasons.extend(
            machine.iter().map(|d| Reason { cause: Cause::Machine, text: format!("other machine: {d}") }),
        );
    }
    let rows = if reasons.is_empty() { rows::rows(a, b, options) } else { Vec::new() };
    let missing = if reasons.is_empty() { missing::missing(a, b, &rows, options) } else { Vec::new() };
    if reasons.is_empty() && !rows.iter().any(|r| r.a.is_some() && r.b.is_some()) {
        let text = "no metric has a figure in both runs".to_owned();
        let texts = [text].into_iter().chain(check::nothing_counts(a, b));
        let texts = texts.chain(missing.iter().map(|m| m.text.clone()));
        reasons.extend(texts.map(|text| Reason { cause: Cause::Nothing, text }));
    }
    if !reasons.is_empty() {
        return Err(Refusal { reasons }.into());
    }
    let unknown: Vec<String> = missing.iter().filter(|m| m.gated).map(|m| m.text.clone()).collect();
    let gate = options.max_tax.map(|max_tax| gate(&rows, unknown.len(), max_tax, options.strict));
    let warnings = check::warnings(a, b, &machine).into_iter().chain(missing.into_iter().map(|m| m.text));
    let warnings = warnings.chain(rows::incomplete(a, b, &rows)).chain(rows::left_out(&rows));
    let mut comparison = RunComparison {
        version: COMPARISON_VERSION,
        plan: a.data().plan.name.clone(),
        a: a.side(),
        b: b.side(),
        headline: String::new(),
        warnings: warnings.collect(),
        changes: check::all_changes(a, b),
        rows,
        missing: unknown,
        only: check::only(&a.data().plan, &b.data().plan),
        gate,
    };
    comparison.headline = table::headline(&comparison);
    Ok(comparison)
}

impl RunComparison {
    /// False where a tax is shown to be beyond the limit, or can't be told and strictness is asked for.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.gate.is_none_or(|g| g.pass)
    }

    /// As plain text for a terminal, at most 100 columns wide.
    #[must_use]
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// As JSON, this type's own fields.
    #[must_use]
    pub fn json(&self) -> String {
        // Made of finite numbers and strings: this can't fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// As JUnit XML, one test case per comparison.
    #[must_use]
    pub fn junit(&self) -> String {
        junit::render(self)
    }

    /// As Markdown, short enough for a pull request.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }

    /// As one self-contained page.
    #[must_use]
    pub fn html(&self) -> String {
        html::render(self)
    }
}

impl Refusal {
    /// As JUnit XML, one test case with an error.
    #[must_use]
    pub fn junit(&self) -> String {
        junit::refused(self)
    }

    /// As Markdown, for a pull request.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::refused(self)
    }
}

pub(crate) fn check_metrics(names: &[String]) -> Result<(), CompareError> {
    let known = || metrics().filter(|m| m.compared).map(|m| m.name);
    let Some(name) = names.iter().find(|n| *n != ALL_METRICS && !known().any(|k| k == *n)) else {
        return Ok(());
    };
    let near: Vec<String> = near(name, known()).into_iter().map(|k| format!("`{k}`")).collect();
    let near = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(", ")) };
    Err(CompareError::UnknownMetric { name: printable(name), near })
}

/// Most names that are offered for one that isn't known.
const NEAR: usize = 5;
/// How alike two names are at least for one to be offered for the other (Jaro and Winkler, 0 to 1).
const ALIKE: f64 = 0.85;
/// Longest name that others are looked for.
const LONGEST_NAME: usize = 100;

/// Those of these names that are most like this one, or have it as a part.
fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    if name.len() > LONGEST_NAME {
        return Vec::new();
    }
    let wanted = name.trim().to_lowercase().replace(['-', ' '], "_");
    let alike = |known: &'a str| {
        let has_it = known.split(['_', '.']).any(|part| part == wanted);
        let alike = strsim::jaro_winkler(&wanted, known);
        (has_it || alike >= ALIKE).then_some((if has_it { alike + 1.0 } else { alike }, known))
    };
    let mut found: Vec<(f64, &str)> = known.filter_map(alike).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(NEAR).map(|(_, known)| known).collect()
}

/// Whether a metric is among those of these names; where none is named, whether it is one of a report's first table.
pub(crate) fn is_among(names: &[String], info: &Info) -> bool {
    match names {
        [] => info.primary,
        names => info.compared && names.iter().any(|n| n == info.name || n == ALL_METRICS),
    }
}

/// Whether a metric of that measure is asked for: what is named wherever it is, else only where a first table has it.
pub(crate) fn is_asked_for(names: &[String], data: &RunData, measure: &str, info: &Info) -> bool {
    is_among(names, info) && (!names.is_empty() || leads(data, measure, info.name))
}

/// `missing`: what was to be compared and has no row.
fn gate(rows: &[Row], missing: usize, max_tax: Share, strict: bool) -> Gate {
    let count = |verdict| rows.iter().filter(|r| r.gate == Some(verdict)).count();
    let (failed, cant_tell) = (count(GateVerdict::Fail), count(GateVerdict::CantTell) + missing);
    let pass = failed == 0 && !(strict && cant_tell > 0);
    Gate { max_tax, strict, passed: count(GateVerdict::Pass), failed, cant_tell, pass }
}
