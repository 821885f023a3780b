//! The comparison as Markdown, for a comment on a pull request.

use super::table::{
    doubt, gate_word, interval_text, made_of, only_text, place, side_text, tax_text, value_text, verdict_word,
};
use super::{Refusal, Row, RunComparison};
use crate::text::printable;

/// Lines of the table, of remarks and of changes beyond which the rest is only counted: a comment
/// that scrolls isn't read.
const MOST: usize = 40;

/// Runs that aren't compared.
pub(super) fn refused(refusal: &Refusal) -> String {
    let reasons = refusal.reasons.iter().map(|r| format!("- {}\n", text(&r.text)));
    format!(
        "### vtax: not compared\n\nThese runs can't be compared:\n\n{}",
        bounded(reasons, "- … and ", " more")
    )
}

pub(super) fn render(c: &RunComparison) -> String {
    let title = match c.gate {
        Some(g) if g.pass => format!("vtax {}: pass", text(&c.plan)),
        Some(_) => format!("vtax {}: fail", text(&c.plan)),
        None => format!("vtax {}", text(&c.plan)),
    };
    let mut out = format!("### {title}\n\n{}\n\n", text(&c.headline));
    for warning in &c.warnings {
        out.push_str(&format!("> **Warning:** {}\n\n", text(warning)));
    }
    let (head, rule) = match c.gate {
        Some(g) => (format!(" Limit {} |", g.max_tax), "---|"),
        None => (String::new(), ""),
    };
    out.push_str(&format!("| Where | Metric | A | B | Tax (95 %) | Verdict |{head}\n"));
    out.push_str(&format!("|---|---|--:|--:|--:|---|{rule}\n"));
    let lines = c.rows.iter().map(|row| table_line(row, c.gate.is_some()));
    out.push_str(&bounded(lines, "| … | ", " more | | | | |"));
    let doubts = c
        .rows
        .iter()
        .filter(|r| !doubt(r, c).is_empty())
        .map(|r| format!("- {}\n", text(&format!("{}, {}: {}", place(r), metric(r), doubt(r, c)))));
    let only = c.only.iter().map(|o| format!("- {}\n", text(&only_text(o))));
    let changes = c.changes.iter().map(|change| format!("- {}\n", text(change)));
    for (title, list) in [
        ("What can't be told", bounded(doubts, "- … and ", " more")),
        ("Not compared", bounded(only, "- … and ", " more")),
        ("What changed besides", bounded(changes, "- … and ", " more")),
    ] {
        if !list.is_empty() {
            out.push_str(&format!("\n{title}:\n\n{list}"));
        }
    }
    out.push_str(&format!("\nA {}  \nB {}\n", text(&side_text(&c.a)), text(&side_text(&c.b))));
    out.push_str(&format!("\n{}\n", made_of(c)));
    out
}

/// The first lines, then how many more there are.
fn bounded(lines: impl Iterator<Item = String>, before: &str, after: &str) -> String {
    let lines: Vec<String> = lines.collect();
    let mut out = lines.iter().take(MOST).cloned().collect::<String>();
    if lines.len() > MOST {
        out.push_str(&format!("{before}{}{after}\n", lines.len() - MOST));
    }
    out
}

fn table_line(row: &Row, gated: bool) -> String {
    let found = format!("{} {}", tax_text(row), interval_text(row));
    let mut cells = vec![
        text(&place(row)),
        text(&metric(row)),
        text(&value_text(row.a.as_ref())),
        text(&value_text(row.b.as_ref())),
        text(found.trim()),
        text(verdict_word(row)),
    ];
    if gated {
        let word = gate_word(row);
        cells.push(if word == "FAIL" { "**FAIL**".to_owned() } else { word.to_owned() });
    }
    format!("| {} |\n", cells.join(" | "))
}

/// `latency, p99 (latency@lowest)`; the measure is left out where it says the same.
fn metric(row: &Row) -> String {
    match row.comparison.measure == row.label {
        true => row.label.clone(),
        false => format!("{} ({})", row.label, row.comparison.measure),
    }
}

/// Escapes what Markdown gives a meaning to within a line, and the HTML in it.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => out.extend(['\\', c]),
            // Would notify the user of that name.
            '@' => out.push_str("&#64;"),
            c => out.push(c),
        }
    }
    out
}
