//! What pages about runs are made of that are no reports: parts, a run in progress, one figure over many runs.

pub mod history;
mod progress;

use vtax_store::record::Validity;
use vtax_store::summary::Verdict;

pub use self::progress::Progress;
use crate::html::parts;
use crate::markup::Markup;
use crate::{format, shell, words};

/// The style of reports.
pub const STYLE: &str = include_str!("../html/style.css");

/// A verdict as word and sign.
#[must_use]
pub fn badge(verdict: Verdict) -> Markup {
    parts::badge(verdict)
}

/// The word for a verdict.
#[must_use]
pub fn word(verdict: Verdict) -> &'static str {
    words::word(verdict)
}

/// Why a trial doesn't count: `generator-limited: details`; `None` where it does.
#[must_use]
pub fn invalid(validity: &Validity) -> Option<String> {
    words::invalid(validity)
}

/// Begins a table: its head, in which columns of numbers are marked, then its body, which rows follow.
#[must_use]
pub fn open_table(class: &str, columns: &[(&str, bool)]) -> Markup {
    parts::open_table(class, columns)
}

/// Ends a table and lets it scroll by itself where the page is too narrow for it.
#[must_use]
pub fn close_table(mut table: Markup) -> Markup {
    parts::close_table(&mut table);
    parts::scrolling(&table)
}

/// A value with its unit, as `24.1k req/s`.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    format::quantity(value, unit)
}

/// A tax, as `1.02x`.
#[must_use]
pub fn tax(ratio: f64) -> String {
    format::tax(ratio)
}

/// The interval of a tax, as `0.98–1.06`.
#[must_use]
pub fn tax_range((low, high): (f64, f64)) -> String {
    format::tax_range(low, high)
}

/// Date and time of milliseconds since 1970, in UTC.
#[must_use]
pub fn moment(unix_ms: u64) -> String {
    format::utc(unix_ms)
}

/// A length of time: `40 s`, `25 min`, `3.5 h`.
#[must_use]
pub fn long(ms: u64) -> String {
    format::long(ms)
}

/// Words as a command line that a POSIX shell takes apart again.
#[must_use]
pub fn command_line(words: &[String]) -> String {
    shell::shell(words)
}
