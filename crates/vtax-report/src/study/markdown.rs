//! The report of a reproduction as Markdown, and as a table for a terminal.

use vtax_study::{FoundClaim, Outcome, Way};
use vtax_units::{drives_terminal, shortened};

use super::StudyReport;
use super::words::{concluded, headline, ours, sides, studys, verdict, warnings, way, what};
use crate::compare::markdown::text;
use crate::format::utc;
use crate::text::{WIDTH, wrap};

pub(super) fn render(report: &StudyReport<'_>) -> String {
    let source = &report.study.source;
    let year = source.year.map(|year| format!(", {year}")).unwrap_or_default();
    let mut out = format!("# {}, reproduced\n\n", text(&source.title));
    out.push_str(&format!("{}. {}{year}.\n\n", text(&source.authors.join(", ")), text(&source.publisher)));
    out.push_str(&format!("{}\n\n**{}**\n\n", text(&report.study.question), text(&headline(report.found))));
    for warning in warnings(report.found) {
        out.push_str(&format!("> {}\n\n", text(&warning)));
    }
    out.push_str(
        "## Claims\n\n| Claim | Where | Compared | Study | Here | Verdict |\n|---|---|---|--:|--:|---|\n",
    );
    for claim in &report.found.claims {
        out.push_str(&rows(report, claim));
    }
    out.push_str(&changes(report));
    out.push_str(&defects(report));
    out.push_str(&deviations(report));
    out.push_str(&format!(
        "\nMade {} by vtax {}, {} mode.\n",
        utc(report.made_unix_ms),
        text(report.vtax),
        report.found.mode.word()
    ));
    out
}

fn rows(report: &StudyReport<'_>, found: &FoundClaim) -> String {
    let Some(claim) = report.study.claim(&found.id) else { return String::new() };
    let place = format!("{}; {}, figures {}", claim.place, claim.said.word(), claim.figures.words());
    let steps = &found.properly.steps;
    let word = match found.properly.why.as_str() {
        "" => verdict(found),
        why => format!("{}: {why}", verdict(found)),
    };
    let head = |line: usize, cell: &str| if line == 0 { text(cell) } else { String::new() };
    let mut out = String::new();
    for line in 0..steps.len().max(1) {
        let step = steps.get(line);
        let cells = [
            head(line, &claim.text),
            head(line, &place),
            step.map(|step| text(&what(step))).unwrap_or_default(),
            step.map_or_else(|| head(line, claim.magnitude.as_deref().unwrap_or("")), studys),
            step.map(ours).unwrap_or_default(),
            head(line, &word),
        ];
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out
}

fn changes(report: &StudyReport<'_>) -> String {
    let changes = report.found.changes();
    if changes.is_empty() {
        return String::new();
    }
    let ways = [Way::Printed, Way::AsPublished, Way::Properly];
    let mut out = "\n## Conclusions that change with the method\n\n".to_owned();
    out.push_str(&format!("| Claim | {} |\n|---|---|---|---|\n", ways.map(way).join(" | ")));
    for change in changes {
        let claim = report.study.claim(&change.claim.id).map_or("", |claim| claim.text.as_str());
        let words = ways.map(|way| concluded(change.claim, way));
        out.push_str(&format!("| {} | {} |\n", text(claim), words.join(" | ")));
    }
    out
}

fn defects(report: &StudyReport<'_>) -> String {
    let mut out = String::new();
    for rule in report.found.rules.iter().filter(|rule| rule.is_broken()) {
        for case in rule.cases.iter().filter(|case| case.outcome == Outcome::Broken) {
            let at = if case.name.is_empty() { String::new() } else { format!(" ({})", case.name) };
            let line = format!("{}{at} Not so: {}.", rule.text, sides(&case.sides));
            out.push_str(&format!("- {}\n", text(&line)));
        }
    }
    for noted in &report.study.noted {
        out.push_str(&format!("- {}\n", text(&format!("{}: {}", noted.place, noted.text))));
    }
    if out.is_empty() { out } else { format!("\n## The study's own defects\n\n{out}") }
}

fn deviations(report: &StudyReport<'_>) -> String {
    let all = report.study.experiments.iter().flat_map(|experiment| &experiment.deviations);
    let lines: String = all.map(|deviation| format!("- {}\n", text(deviation))).collect();
    if lines.is_empty() { lines } else { format!("\n## Where this differs from the study\n\n{lines}") }
}

/// For a terminal: the sentence, then a line for each claim.
pub(super) fn terminal(report: &StudyReport<'_>) -> String {
    let mut out = wrap(&headline(report.found), "");
    out.push('\n');
    let ids = report.found.claims.iter().map(|claim| claim.id.chars().count());
    let width = ids.max().unwrap_or(0);
    for claim in &report.found.claims {
        let said = report.study.claim(&claim.id).map_or("", |claim| claim.text.as_str());
        let line = format!("{:width$}  {:18}  {said}", claim.id, verdict(claim));
        out.push_str(&shortened(&line.replace(drives_terminal, " "), WIDTH));
        out.push('\n');
    }
    for warning in warnings(report.found) {
        out.push_str(&wrap(&format!("note: {warning}"), "      "));
    }
    out
}
