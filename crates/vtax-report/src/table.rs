//! The verdict as plain text for a terminal, at most 100 columns wide.

use vtax_plan::model::MeasureKind;
use vtax_store::summary::{Comparison, MetricSummary, Summary, Verdict};

use crate::data::RunData;
use crate::format::{quantity, range, tax, tax_range};
use crate::headline::word;
use crate::links;
use crate::metric::METRICS;

pub(crate) const WIDTH: usize = 100;

/// One line of the first table, shared by terminal, HTML and workbook.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Label of the group it belongs to.
    pub(crate) group: String,
    pub(crate) environment: String,
    /// Position of the cell in its group; 0 is the baseline.
    pub(crate) position: usize,
    pub(crate) measure: String,
    pub(crate) metric: &'static str,
    pub(crate) label: &'static str,
    pub(crate) primary: bool,
    pub(crate) value: Option<MetricSummary>,
    /// `None` for the baseline.
    pub(crate) comparison: Option<Comparison>,
}

impl Row {
    /// `24.1k req/s`, `≥ 24.1k req/s`.
    pub(crate) fn value_text(&self) -> String {
        match &self.value {
            None => "no figure".to_owned(),
            Some(m) if m.at_least => format!("≥ {}", quantity(m.center, &m.unit)),
            Some(m) => quantity(m.center, &m.unit),
        }
    }

    /// `23.5k–24.8k`, empty where there is none.
    pub(crate) fn interval_text(&self) -> String {
        self.value.as_ref().and_then(|m| m.interval.map(|i| range(m.center, i, &m.unit))).unwrap_or_default()
    }

    /// `1.02x`, `≥ 35x`, empty where there is none.
    pub(crate) fn tax_text(&self) -> String {
        match &self.comparison {
            Some(Comparison { tax: Some(t), .. }) => tax(*t),
            Some(Comparison { at_least: Some(t), .. }) => format!("≥ {}", tax(*t)),
            Some(Comparison { at_most: Some(t), .. }) => format!("≤ {}", tax(*t)),
            _ => String::new(),
        }
    }

    /// `0.98–1.06`, empty where there is none.
    pub(crate) fn tax_interval_text(&self) -> String {
        let interval = self.comparison.as_ref().and_then(|c| c.interval);
        interval.map_or_else(String::new, |(low, high)| tax_range(low, high))
    }
}

/// A sign for a verdict that reads without colour.
pub(crate) fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▼",
        Verdict::Worse => "▲",
        Verdict::Equivalent => "=",
        Verdict::Inconclusive => "?",
    }
}

/// Every compared metric of every group, metric by metric, baseline first.
pub(crate) fn rows(data: &RunData, summary: &Summary) -> Vec<Row> {
    let mut rows = Vec::new();
    for group in data.groups() {
        for measure in data.measures() {
            for info in METRICS.iter().filter(|m| m.compared) {
                let of = |cell: &str| {
                    let found = summary.cells.iter().find(|s| s.cell == cell && s.measure == measure);
                    found.and_then(|s| s.metrics.get(info.name)).cloned()
                };
                if group.cells.iter().all(|c| of(&c.id).is_none()) {
                    continue;
                }
                rows.extend(group.cells.iter().enumerate().map(|(position, cell)| {
                    Row {
                        group: group.label.clone(),
                        environment: data.environment_label(cell),
                        position,
                        measure: measure.to_owned(),
                        metric: info.name,
                        label: info.label,
                        primary: info.primary && leads(data, measure, info.name),
                        value: of(&cell.id),
                        comparison: summary
                            .comparisons
                            .iter()
                            .find(|c| c.cell == cell.id && c.measure == measure && c.metric == info.name)
                            .cloned(),
                    }
                }));
            }
        }
    }
    rows
}

/// Whether a metric of that measure belongs to the first table: a search and a closed loop drive
/// the system to its limit, where latency and CPU time per request say little.
pub(crate) fn leads(data: &RunData, measure: &str, metric: &str) -> bool {
    let kind = |name: &str| data.plan.measures.iter().find(|m| m.name == name).map(|m| &m.kind);
    match kind(measure) {
        Some(MeasureKind::Capacity(_)) => metric == "capacity",
        Some(MeasureKind::Throughput(_)) => metric == "throughput",
        Some(MeasureKind::Ims(_)) => metric == "doc",
        // Faults have a section of their own.
        Some(MeasureKind::Failover(_)) => false,
        Some(MeasureKind::Latency(_) | MeasureKind::Network(_)) | None => true,
    }
}

/// The terminal's table: headline, primary metrics, reasons where the data can't tell, notes.
pub(crate) fn render(data: &RunData, summary: &Summary) -> String {
    let mut out = wrap(&summary.headline, "");
    out.push('\n');
    let mut last = (String::new(), "", String::new());
    let rows = rows(data, summary);
    let longest = rows.iter().map(|r| r.environment.chars().count()).max().unwrap_or(0);
    let links = links::of(data);
    // Network tests are many, and have a table of their own.
    let of_links = |measure: &str| links.benches.iter().flat_map(|b| &b.tests).any(|t| t.measure == measure);
    for row in rows.iter().filter(|r| r.primary && !of_links(&r.measure)) {
        if row.group != last.0 {
            out.push_str(&format!("\n{}\n", row.group));
        }
        if (row.metric, &row.measure) != (last.1, &last.2) || row.group != last.0 {
            out.push_str(&format!("{} [{}]\n", row.label, row.measure));
        }
        last = (row.group.clone(), row.metric, row.measure.clone());
        out.push_str(&line(row, longest.clamp(18, 26)));
    }
    for bench in &links.benches {
        out.push_str(&links::terminal::render(data, summary, bench));
    }
    if !summary.notes.is_empty() {
        out.push('\n');
    }
    for note in &summary.notes {
        out.push_str(&wrap(&format!("note: {note}"), "      "));
    }
    out
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
        "  {:<wide$} {:>13} {:<interval$} {:>8} {:<13} {verdict}",
        shorten(&row.environment, wide),
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

pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// Breaks at blanks; a word that is too long stays whole.
pub(crate) fn wrap(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    let lead: String = text.chars().take_while(|c| *c == ' ').collect();
    line.push_str(&lead);
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && !line.trim().is_empty() {
            out.push_str(line.trim_end());
            out.push('\n');
            indent.clone_into(&mut line);
        }
        if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
        // A terminal must not be driven by what a service or a plan is called.
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    out + line.trim_end() + "\n"
}
