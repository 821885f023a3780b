//! Tables as CSV (RFC 4180), one file per table, full precision, units in the header or a column.

use vtax_store::record::Outcome;
use vtax_store::summary::{Better, Verdict};

use crate::data::load;
use crate::ims::tables;
use crate::report::Report;

/// File names and contents.
pub(crate) fn files(report: &Report) -> Vec<(&'static str, String)> {
    let mut files = vec![
        ("comparisons.csv", comparisons(report)),
        ("metrics.csv", metrics(report)),
        ("trials.csv", trials(report)),
        ("capacity_steps.csv", steps(report)),
    ];
    files.extend(tables::files(report));
    files.extend(crate::ft::tables::files(report));
    files.extend(crate::links::tables::files(report));
    files
}

/// One row at a time; text is quoted where it must be.
pub(crate) struct Csv(String);

impl Csv {
    pub(crate) fn new(header: &str) -> Self {
        Self(format!("{header}\r\n"))
    }

    pub(crate) fn row(mut self, cells: &[Cell<'_>]) -> Self {
        self.push(cells);
        self
    }

    /// The finished file.
    pub(crate) fn finish(self) -> String {
        self.0
    }

    pub(crate) fn push(&mut self, cells: &[Cell<'_>]) {
        for (i, cell) in cells.iter().enumerate() {
            if i > 0 {
                self.0.push(',');
            }
            match cell {
                Cell::Text(text) => self.0.push_str(&quoted(text)),
                Cell::Number(Some(n)) if n.is_finite() => self.0.push_str(&n.to_string()),
                Cell::Number(_) => {}
            }
        }
        self.0.push_str("\r\n");
    }
}

pub(crate) enum Cell<'a> {
    Text(&'a str),
    Number(Option<f64>),
}

pub(crate) fn number(value: impl Into<f64>) -> Cell<'static> {
    Cell::Number(Some(value.into()))
}

/// Quotes where RFC 4180 asks for it, and keeps a spreadsheet from taking a text for a formula.
fn quoted(text: &str) -> String {
    let guarded = match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') => format!("'{text}"),
        _ => text.to_owned(),
    };
    if guarded.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", guarded.replace('"', "\"\""))
    } else {
        guarded
    }
}

pub(crate) fn verdict(v: Verdict) -> &'static str {
    match v {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
    }
}

fn comparisons(report: &Report) -> String {
    let header = "cell,baseline,measure,metric,tax,interval_low,interval_high,at_least,at_most,detectable,verdict,reason";
    let rows = report.summary.comparisons.iter().fold(Csv::new(header), |csv, c| {
        let (low, high) = c.interval.unzip();
        csv.row(&[
            Cell::Text(&c.cell),
            Cell::Text(&c.baseline),
            Cell::Text(&c.measure),
            Cell::Text(&c.metric),
            Cell::Number(c.tax),
            Cell::Number(low),
            Cell::Number(high),
            Cell::Number(c.at_least),
            Cell::Number(c.at_most),
            Cell::Number(c.detectable),
            Cell::Text(verdict(c.verdict)),
            Cell::Text(&c.reason),
        ])
    });
    rows.0
}

fn metrics(report: &Report) -> String {
    let header = "cell,environment,accelerator,measure,metric,unit,better,trials,typical,at_least,interval_low,interval_high,median,mean,sd";
    let mut csv = Csv::new(header);
    for cell in &report.summary.cells {
        for (name, m) in &cell.metrics {
            let (low, high) = m.interval.unzip();
            csv = csv.row(&[
                Cell::Text(&cell.cell),
                Cell::Text(&cell.environment),
                Cell::Text(cell.accelerator.as_deref().unwrap_or_default()),
                Cell::Text(&cell.measure),
                Cell::Text(name),
                Cell::Text(&m.unit),
                Cell::Text(if m.better == Better::Higher { "higher" } else { "lower" }),
                number(m.n),
                number(m.center),
                Cell::Text(if m.at_least { "yes" } else { "no" }),
                Cell::Number(low),
                Cell::Number(high),
                number(m.median),
                number(m.mean),
                Cell::Number(m.sd),
            ]);
        }
    }
    csv.0
}

fn trials(report: &Report) -> String {
    let header = "trial,cell,measure,repetition,started_unix_ms,valid,reason,testbed_ns,service_ns,measure_ns,teardown_ns,ok,failed,generator_busiest";
    let pairs = report.data.trials.iter().zip(&report.summary.trials);
    let rows = pairs.fold(Csv::new(header), |csv, (t, s)| {
        let l = load(t);
        let failed = l.map(|l| l.counts.intended.max(l.counts.sent).saturating_sub(l.counts.ok) as f64);
        csv.row(&[
            number(t.index),
            Cell::Text(&t.cell),
            Cell::Text(&t.measure),
            number(t.repetition),
            number(t.started_unix_ms as f64),
            Cell::Text(if s.valid { "yes" } else { "no" }),
            Cell::Text(s.reason.as_deref().unwrap_or_default()),
            number(t.timings.testbed.0 as f64),
            number(t.timings.service.0 as f64),
            number(t.timings.measure.0 as f64),
            number(t.timings.teardown.0 as f64),
            Cell::Number(l.map(|l| l.counts.ok as f64)),
            Cell::Number(failed),
            Cell::Number(l.map(|l| l.generator.busiest)),
        ])
    });
    rows.0
}

fn steps(report: &Report) -> String {
    let mut csv = Csv::new("trial,cell,measure,step,offered_per_s,goodput_per_s,loss,p99_ns,passed,reason");
    for t in &report.data.trials {
        let Some(Outcome::Capacity(c)) = &t.outcome else { continue };
        for (i, s) in c.steps.iter().enumerate() {
            csv = csv.row(&[
                number(t.index),
                Cell::Text(&t.cell),
                Cell::Text(&t.measure),
                number(i as f64 + 1.0),
                number(s.offered.0),
                number(s.goodput.0),
                number(s.loss),
                number(s.p99.0 as f64),
                Cell::Text(if s.passed { "yes" } else { "no" }),
                Cell::Text(s.reason.as_deref().unwrap_or_default()),
            ]);
        }
    }
    csv.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
    }
}
