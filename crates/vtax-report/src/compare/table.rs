//! The comparison as plain text for a terminal, at most 100 columns wide.

use vtax_store::summary::{MetricSummary, Verdict};
use vtax_units::counted;

use super::rows::held_to;
use super::{Gate, GateVerdict, OnlyIn, Row, RunComparison, Side};
use crate::format::{known_tax, tax_range, typical, utc};
use crate::text::{first_column, wrap};
use crate::words::{sign, word};

/// `B against A over 9 comparisons: 1 worse, 8 equivalent. FAIL: a tax above 10% is shown in 1.`
pub(super) fn headline(c: &RunComparison) -> String {
    let count = |test: &dyn Fn(&Row) -> bool| c.rows.iter().filter(|r| test(r)).count();
    let of = |v: Verdict| count(&|r| r.comparable && r.comparison.verdict == v);
    let counts = [
        (of(Verdict::Worse), word(Verdict::Worse)),
        (of(Verdict::Better), word(Verdict::Better)),
        (of(Verdict::Equivalent), word(Verdict::Equivalent)),
        (of(Verdict::Inconclusive), word(Verdict::Inconclusive)),
        (count(&|r| !r.comparable), NOT_COMPARABLE),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let comparisons = counted(c.rows.len(), "comparison");
    let gate = c.gate.map(|g| format!(" {}", gate_sentence(g))).unwrap_or_default();
    format!("B against A over {comparisons}: {}.{gate}", counts.join(", "))
}

fn gate_sentence(g: Gate) -> String {
    let limit = g.max_tax;
    let unknown = match (g.cant_tell, g.strict) {
        (0, _) => String::new(),
        (n, true) => format!(" {n} can't tell, which --strict takes for a failure."),
        (n, false) => format!(" {n} can't tell, which passes without --strict."),
    };
    let outcome = match (g.failed, g.pass) {
        (0, true) => format!("PASS: no tax above {limit} is shown."),
        (0, false) => format!("FAIL: no tax above {limit} is shown, but not all are shown to keep to it."),
        (n, _) => format!("FAIL: a tax above {limit} is shown in {n}."),
    };
    outcome + &unknown
}

/// What intervals are made of, and so what they know.
pub(super) fn made_of(c: &RunComparison) -> String {
    match c.is_of_runs() {
        false => "Intervals are of the trials of these two sessions. What else differs from one session to the next, as after another \
                  build or a reboot, is not in them: three runs of each side or more tell it."
            .to_owned(),
        true => format!(
            "Intervals are of {} runs of A and {} of B, each of which counts once, so that what differs from one session to the next \
             is in them.",
            c.a.runs(),
            c.b.runs()
        ),
    }
}

/// The word where two figures were measured under different conditions.
pub(super) const NOT_COMPARABLE: &str = "not comparable";

/// The verdict in a word.
pub(super) fn verdict_word(row: &Row) -> &'static str {
    if row.comparable { word(row.comparison.verdict) } else { NOT_COMPARABLE }
}

/// The gate in a word; empty without one.
pub(super) fn gate_word(row: &Row) -> &'static str {
    match row.gate {
        None => "",
        Some(GateVerdict::Pass) => "pass",
        Some(GateVerdict::Fail) => "FAIL",
        Some(GateVerdict::CantTell) => "can't tell",
    }
}

/// `24.1k req/s`, `≥ 24.1k req/s`.
pub(super) fn value_text(value: Option<&MetricSummary>) -> String {
    match value {
        None => "no figure".to_owned(),
        Some(m) => typical(m.center, &m.unit, m.at_least),
    }
}

/// `1.02x`, `≥ 35x`, empty where there is none.
pub(super) fn tax_text(row: &Row) -> String {
    let c = &row.comparison;
    known_tax(c.tax, c.at_least, c.at_most)
}

/// `(0.98–1.06)`, empty where there is none.
pub(super) fn interval_text(row: &Row) -> String {
    row.comparison.interval.map(|(low, high)| format!("({})", tax_range(low, high))).unwrap_or_default()
}

/// Why a row is inconclusive or held to be so by the gate; empty where its verdict says it all.
pub(super) fn doubt(row: &Row, c: &RunComparison) -> String {
    if let Some(why) = held_back(row, c) {
        return match row.comparison.verdict {
            Verdict::Inconclusive => format!("{}; {why}", row.comparison.reason),
            _ => why.to_owned(),
        };
    }
    match row.comparison.verdict {
        Verdict::Inconclusive => row.comparison.reason.clone(),
        _ if row.gate == Some(GateVerdict::CantTell) && row.comparison.interval.is_none() => {
            "only a bound is known, which doesn't decide".to_owned()
        }
        // Among many rows a tax may not be beyond the limit for certain though the interval that is printed is.
        _ if row.gate == Some(GateVerdict::CantTell) => match row.comparison.corrected {
            corrected @ Some(_) if corrected != row.comparison.interval => {
                "among all rows it may be on either side of the limit".to_owned()
            }
            _ => "the interval holds the limit".to_owned(),
        },
        _ => String::new(),
    }
}

/// Why a row that is within the limit isn't let pass; `None` where it is, and where it isn't within.
fn held_back(row: &Row, c: &RunComparison) -> Option<&'static str> {
    let is_within = |gate: Gate| held_to(&row.comparison, gate.max_tax, false) == GateVerdict::Pass;
    if row.gate != Some(GateVerdict::CantTell) || !c.gate.is_some_and(is_within) {
        return None;
    }
    if !row.incomplete(c.counts()).is_empty() {
        return Some("within the limit, but not all runs have a figure");
    }
    let lost = "within the limit, but many trials of B were left out for what became of them";
    (!row.comparison.explanation.is_empty()).then_some(lost)
}

/// `group, environment`, or whichever there is.
pub(super) fn place(row: &Row) -> String {
    match row.group.as_str() {
        "" => row.environment.clone(),
        group => format!("{group}, {}", row.environment),
    }
}

/// `runs/x, 2026-11-20 16:35:48 UTC, vtax 0.1.0; machine; 36 trials, 35 valid`.
pub(super) fn side_text(side: &Side) -> String {
    let (runs, first) = match side.more.as_slice() {
        [] => (side.path.clone(), ""),
        more => (format!("{}, {}", side.path, more.join(", ")), "the first "),
    };
    format!(
        "{runs}: {first}started {}, vtax {}, {}; {} of {} trials count",
        utc(side.started_unix_ms),
        side.vtax,
        side.machine,
        side.valid_trials,
        side.trials
    )
}

/// `cell vm.bridge.http: only in A`.
pub(super) fn only_text(only: &OnlyIn) -> String {
    let (what, name) = match (&only.cell, &only.measure) {
        (Some(cell), _) => ("cell", cell.as_str()),
        (_, measure) => ("measure", measure.as_deref().unwrap_or_default()),
    };
    format!("{what} {name}: only in {}", only.run)
}

pub(super) fn render(c: &RunComparison) -> String {
    let mut out = wrap(&c.headline, "");
    out.push_str(&wrap(&format!("A {}", side_text(&c.a)), "  "));
    out.push_str(&wrap(&format!("B {}", side_text(&c.b)), "  "));
    for warning in &c.warnings {
        out.push_str(&wrap(&format!("WARNING: {warning}"), "         "));
    }
    let gate = if c.gate.is_some() { "gate" } else { "" };
    out.push_str(&format!("\n{}", columns(["", "A", "B", "tax", "", "verdict", gate])));
    let mut last = (String::new(), String::new(), String::new());
    for row in &c.rows {
        if row.group != last.0 {
            out.push_str(&format!("\n{}", wrap(&row.group, "")));
        }
        let key = (row.group.clone(), row.label.clone(), row.comparison.measure.clone());
        if key != last {
            out.push_str(&wrap(&format!("{} [{}]", row.label, row.comparison.measure), ""));
        }
        last = key;
        out.push_str(&line(row, c));
    }
    if !c.only.is_empty() {
        out.push_str("\nnot compared\n");
    }
    for only in &c.only {
        out.push_str(&wrap(&format!("  {}", only_text(only)), "    "));
    }
    if !c.changes.is_empty() {
        out.push_str("\nwhat changed besides\n");
    }
    for change in &c.changes {
        out.push_str(&wrap(&format!("  {change}"), "    "));
    }
    out.push_str(&format!("\n{}", wrap(&made_of(c), "")));
    out
}

fn line(row: &Row, c: &RunComparison) -> String {
    let verdict = match row.comparable {
        true => format!("{} {}", sign(row.comparison.verdict), verdict_word(row)),
        false => format!("? {NOT_COMPARABLE}"),
    };
    let (a, b) = (value_text(row.a.as_ref()), value_text(row.b.as_ref()));
    let (tax, interval) = (tax_text(row), interval_text(row));
    let mut out = columns([&row.environment, &a, &b, &tax, &interval, &verdict, gate_word(row)]);
    let doubt = doubt(row, c);
    if !doubt.is_empty() {
        out.push_str(&wrap(&format!("    {doubt}"), "    "));
    }
    out
}

fn columns([first, a, b, tax, interval, verdict, gate]: [&str; 7]) -> String {
    let first = first_column("  ", first, 20);
    let line = format!("{first} {a:>13} {b:>13} {tax:>7} {interval:<13} {verdict:<16} {gate}");
    format!("{}\n", line.trim_end())
}
