//! The verdict as plain text for a terminal, at most 100 columns wide.

use vtax_store::summary::Verdict;
use vtax_units::evidence;

use crate::chapter::{Chapter, Terminal};
use crate::context::Context;
use crate::rows::Row;
use crate::text::{first_column, wrap};
use crate::words::{sign, word};

/// The terminal's table: headline, primary metrics, reasons where the data can't tell, notes.
pub(crate) fn render(context: &Context, chapters: &[Box<dyn Chapter>]) -> String {
    let summary = &context.summary;
    let parts: Vec<Terminal> = chapters.iter().map(|c| c.terminal(context)).collect();
    let mut out = wrap(&summary.headline, "");
    out.push('\n');
    let mut last = (String::new(), "", String::new());
    let rows = context.rows();
    let longest = rows.iter().map(|r| r.environment.chars().count()).max().unwrap_or(0);
    let elsewhere = |measure: &String| parts.iter().any(|p| p.measures.contains(measure));
    for row in rows.iter().filter(|r| r.primary && !elsewhere(&r.measure)) {
        if row.group != last.0 {
            out.push_str(&format!("\n{}\n", row.group));
        }
        if (row.metric, &row.measure) != (last.1, &last.2) || row.group != last.0 {
            out.push_str(&format!("{} [{}]\n", row.label, row.measure));
        }
        last = (row.group.clone(), row.metric, row.measure.clone());
        out.push_str(&line(row, longest.clamp(18, 26)));
    }
    parts.iter().for_each(|part| out.push_str(&part.table));
    if !summary.notes.is_empty() {
        out.push('\n');
    }
    for note in &summary.notes {
        out.push_str(&wrap(&format!("note: {}", without_evidence(note)), "      "));
    }
    parts.iter().for_each(|part| out.push_str(&part.end));
    out
}

/// A note without what a guest and its QEMU left behind, for which the page has room.
fn without_evidence(note: &str) -> String {
    match evidence::split(note) {
        (note, Some(_)) => format!("{note} (the report has what QEMU said)"),
        (note, None) => note.to_owned(),
    }
}

/// `wide`: of the first column, at the cost of the interval's.
fn line(row: &Row, wide: usize) -> String {
    let verdict = match &row.comparison {
        None if row.position == 0 => "baseline".to_owned(),
        None => String::new(),
        Some(c) => format!("{} {}", sign(c.verdict), word(c.verdict)),
    };
    let interval = 40 - wide;
    let bracketed = |text: String| if text.is_empty() { text } else { format!("({text})") };
    let line = format!(
        "{} {:>13} {:<interval$} {:>8} {:<13} {verdict}",
        first_column("  ", &row.environment, wide),
        row.value_text(),
        bracketed(row.interval_text()),
        row.tax_text(),
        bracketed(row.tax_interval_text()),
    );
    let mut out = format!("{}\n", line.trim_end());
    if let Some(c) = row.comparison.as_ref().filter(|c| c.verdict == Verdict::Inconclusive) {
        out.push_str(&wrap(&format!("    {}", c.reason), "    "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_said_is_left_to_the_page() {
        let note = "vm: it ended (QEMU: signal 6)\n  QEMU said:\n    a.c:1: Assertion failed\n  last on the console:\n    x";
        assert_eq!(without_evidence(note), "vm: it ended (QEMU: signal 6) (the report has what QEMU said)");
        assert_eq!(without_evidence("service: exit code 3\n  its log"), "service: exit code 3\n  its log");
    }
}
