//! What Prometheus gets: its text format, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use vtax_store::LiveReader;
use vtax_store::summary::{Comparison, Verdict};

use crate::app::App;
use crate::index::{Entry, RunState};

/// The type of the answer.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most runs that are told in detail: each has many series.
const RUNS: usize = 50;
/// Most comparisons of a run.
const COMPARISONS: usize = 500;

/// Families of series, in the order in which they were begun.
#[derive(Debug, Default)]
struct Text {
    text: String,
}

impl Text {
    /// Begins a family; its series follow.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string can't fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn series(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escaped(text));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// The value of a label: backslash, quote and line end are escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

/// Everything that is told.
pub(crate) fn text(app: &App) -> String {
    let known = app.index.known();
    let states: Vec<(&Arc<Entry>, RunState)> = known.runs.iter().map(|e| (e, app.index.state(e))).collect();
    let mut out = Text::default();
    out.family("vtax_runs", "gauge", "Runs by state.");
    for state in RunState::ALL {
        let count = states.iter().filter(|(_, s)| *s == state).count();
        out.series("vtax_runs", &[("state", state.word())], count as f64);
    }
    let running: Vec<&Entry> =
        states.iter().filter(|(_, s)| *s == RunState::Running).map(|(e, _)| &***e).take(RUNS).collect();
    let newest = newest(states.iter().map(|(e, _)| &***e), |e| e.plan().to_owned());
    let mut told = running.clone();
    told.extend(newest.into_iter().filter(|e| !running.iter().any(|r| r.id == e.id)).take(RUNS));
    trials(&mut out, &told);
    progress(app, &mut out, &running);
    // One that has no summary has no taxes, and must not hide those of an older one.
    let judged = states.iter().filter(|(e, s)| *s == RunState::Complete && e.stamp.has_summary());
    let complete = newest_of_each(judged.map(|(e, _)| &***e));
    taxes(app, &mut out, &complete);
    let spent = app.cost.spent();
    for (name, kind, help, value) in [
        ("vtax_serve_cpu_seconds_total", "counter", "CPU time of this server.", spent.cpu.as_secs_f64()),
        ("vtax_serve_resident_bytes", "gauge", "Resident memory of this server.", spent.resident as f64),
        (
            "vtax_serve_index_seconds",
            "gauge",
            "Time that the last look for runs took.",
            known.took.as_secs_f64(),
        ),
        ("vtax_serve_followers", "gauge", "Clients that follow a run.", app.followers() as f64),
    ] {
        out.family(name, kind, help);
        out.series(name, &[], value);
    }
    out.text
}

/// The newest run of each group.
fn newest<'a>(runs: impl Iterator<Item = &'a Entry>, group: impl Fn(&Entry) -> String) -> Vec<&'a Entry> {
    let mut newest: BTreeMap<String, &Entry> = BTreeMap::new();
    for entry in runs.filter(|entry| entry.brief.is_ok()) {
        let known = newest.entry(group(entry)).or_insert(entry);
        if entry.started() > known.started() {
            *known = entry;
        }
    }
    newest.into_values().collect()
}

/// The newest run of each plan and host.
fn newest_of_each<'a>(runs: impl Iterator<Item = &'a Entry>) -> Vec<&'a Entry> {
    newest(runs, |entry| format!("{}\n{}", entry.plan(), entry.host()))
}

fn trials(out: &mut Text, runs: &[&Entry]) {
    out.family("vtax_run_trials", "gauge", "Trials of a run by whether they count.");
    for entry in runs {
        let Ok(brief) = &entry.brief else { continue };
        let id = entry.id.to_string();
        for (valid, count) in [("true", brief.valid), ("false", brief.trials.saturating_sub(brief.valid))] {
            let labels =
                [("run", id.as_str()), ("plan", entry.plan()), ("host", entry.host()), ("valid", valid)];
            out.series("vtax_run_trials", &labels, f64::from(count));
        }
    }
    out.family("vtax_run_comparisons", "gauge", "Comparisons of a run by verdict.");
    for entry in runs {
        let Ok(brief) = &entry.brief else { continue };
        let id = entry.id.to_string();
        for verdict in [Verdict::Better, Verdict::Worse, Verdict::Equivalent, Verdict::Inconclusive] {
            let labels = [
                ("run", id.as_str()),
                ("plan", entry.plan()),
                ("host", entry.host()),
                ("verdict", word(verdict)),
            ];
            out.series("vtax_run_comparisons", &labels, f64::from(brief.verdicts.of(verdict)));
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
    }
}

/// How runs in progress are getting on, as their `live.jsonl` has it.
fn progress(app: &App, out: &mut Text, running: &[&Entry]) {
    let states: Vec<(String, &Entry, u32, u64)> = running
        .iter()
        .filter_map(|entry| {
            let state = LiveReader::new(&app.index.path(entry)).read().ok()?.pop()?;
            Some((entry.id.to_string(), *entry, state.owed, state.remaining_ms))
        })
        .collect();
    out.family("vtax_run_trials_owed", "gauge", "Trials at least still to make.");
    for (id, entry, owed, _) in &states {
        let labels = [("run", id.as_str()), ("plan", entry.plan()), ("host", entry.host())];
        out.series("vtax_run_trials_owed", &labels, f64::from(*owed));
    }
    out.family("vtax_run_remaining_seconds", "gauge", "Estimate of the time that they take.");
    for (id, entry, _, remaining) in &states {
        let labels = [("run", id.as_str()), ("plan", entry.plan()), ("host", entry.host())];
        out.series("vtax_run_remaining_seconds", &labels, *remaining as f64 / 1000.0);
    }
}

/// What is told of a comparison. A summary is large, and those of many runs are read for one answer.
#[derive(Debug, PartialEq)]
struct Told {
    cell: String,
    measure: String,
    metric: String,
    /// In the order of [`TAXES`], where they are known.
    values: [Option<f64>; 3],
}

/// The families of a comparison's figures, and what each is.
const TAXES: [(&str, &str); 3] = [
    ("vtax_tax", "Cost over the baseline, above 1 where it is worse."),
    ("vtax_tax_low", "Low end of its 95 % interval."),
    ("vtax_tax_high", "High end of its 95 % interval."),
];

/// As much of a run's comparisons as is told.
fn told(comparisons: Vec<Comparison>) -> Vec<Told> {
    let kept = |c: Comparison| {
        let (low, high) = c.interval.unzip();
        let values = [c.tax, low, high].map(|value| value.filter(|v| v.is_finite()));
        Told { cell: c.cell, measure: c.measure, metric: c.metric, values }
    };
    comparisons.into_iter().take(COMPARISONS).map(kept).collect()
}

/// The taxes of the newest complete runs that have a summary.
fn taxes(app: &App, out: &mut Text, runs: &[&Entry]) {
    let kept: Vec<(&Entry, Vec<Told>)> = runs
        .iter()
        .take(RUNS)
        .filter_map(|entry| Some((*entry, told(app.index.run(entry).ok()?.summary().ok()?.comparisons))))
        .collect();
    for (i, (name, help)) in TAXES.into_iter().enumerate() {
        out.family(name, "gauge", help);
        for (entry, comparisons) in &kept {
            let id = entry.id.to_string();
            for c in comparisons {
                let Some(value) = c.values[i] else { continue };
                let labels = [
                    ("run", id.as_str()),
                    ("plan", entry.plan()),
                    ("host", entry.host()),
                    ("cell", c.cell.as_str()),
                    ("measure", c.measure.as_str()),
                    ("metric", c.metric.as_str()),
                ];
                out.series(name, &labels, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_comparison_only_what_is_told_is_kept() {
        let interval = Some((0.9, f64::INFINITY));
        let one = Comparison { cell: "vm".to_owned(), tax: Some(1.5), interval, ..Comparison::default() };
        let kept = told(vec![one; COMPARISONS + 1]);
        assert_eq!(kept.len(), COMPARISONS);
        let values = [Some(1.5), Some(0.9), None];
        let (measure, metric) = (String::new(), String::new());
        assert_eq!(kept[0], Told { cell: "vm".to_owned(), measure, metric, values });
    }

    #[test]
    fn labels_cannot_break_out() {
        let mut out = Text::default();
        out.family("vtax_x", "gauge", "Help.");
        out.series("vtax_x", &[("a", "q\"}\n# \\"), ("b", "é")], 1.5);
        out.series("vtax_x", &[], 2.0);
        let expected =
            "# HELP vtax_x Help.\n# TYPE vtax_x gauge\nvtax_x{a=\"q\\\"}\\n# \\\\\",b=\"é\"} 1.5\nvtax_x 2\n";
        assert_eq!(out.text, expected);
    }
}
