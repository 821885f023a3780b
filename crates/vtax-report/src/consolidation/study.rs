//! The study this repeats, where the plan names it: a web server in one to six virtual machines on one host, in
//! `studies/consolidated-servers/`.

use std::sync::LazyLock;

use serde::Deserialize;
use vtax_plan::model::{Cell, Study as Name, Workload};

use super::curve;
use super::pressure::median;
use super::trial::{Role, SystemFound};
use crate::context::Context;
use crate::format::{duration, quantity};
use crate::html::parts::scrolling;
use crate::html::table::PlainTable;
use crate::markup::Markup;

/// Tables of the study, one row for each number of virtual machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Study {
    tables: Vec<Printed>,
    /// What the text says of its other tables, which print no figures that could be read.
    notes: Vec<String>,
}

/// A table as printed; what a number of machines has no figure of is left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    number: String,
    title: String,
    /// What is wrong in print.
    #[serde(default)]
    note: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    machines: u32,
    #[serde(default)]
    response_ms: Option<f64>,
    #[serde(default)]
    requests_per_s: Option<f64>,
    #[serde(default)]
    replies_per_s: Option<f64>,
    #[serde(default)]
    errors: Option<u64>,
}

/// `None` if the file, which is part of the program, couldn't be read; a test reads it.
static STUDY: LazyLock<Option<Study>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../studies/consolidated-servers/study.yaml")).ok()
});

/// The study's figures beside the run's own; nothing where the plan doesn't name it. Its tables are of web servers: beside anything else
/// stands only what its text says.
pub(super) fn section(context: &Context) -> Markup {
    let plan = &context.data.plan;
    let named = plan.study == Some(Name::ConsolidatedServers);
    let Some(study) = STUDY.as_ref().filter(|_| named) else { return Markup::new() };
    let is_web = plan.cells.iter().all(|cell| matches!(cell.workload, Workload::Http(_)));
    let mut m = Markup::new();
    if is_web {
        m.add(&scrolling(&table(context, study)));
        for printed in &study.tables {
            let note = format!("Table {}: {}. {}", printed.number, printed.title, printed.note);
            m.element("p", &[("class", "small-print")], note.trim());
        }
    }
    for note in &study.notes {
        m.element("p", &[("class", "small-print")], note);
    }
    if is_web {
        let rates = "The study's rates are of each machine, and so are this run's here: the middle of all systems and trials. Its response \
                     time is a mean, as httperf prints it. Its length of a test isn't told, so errors are compared only as to whether there \
                     are any.";
        m.element("p", &[("class", "small-print")], rates);
    }
    m
}

/// Its tables and the run's figures in one.
fn table(context: &Context, study: &Study) -> Markup {
    let columns = [
        ("Source", false),
        ("Systems", true),
        ("Response time", true),
        ("Requests/s", true),
        ("Replies/s", true),
        ("Errors", true),
    ];
    let mut table = PlainTable::new("", &columns);
    for printed in &study.tables {
        for row in &printed.rows {
            table.push(&format!("Study, table {}", printed.number), row.cells());
        }
    }
    for curve in curve::curves(&context.data) {
        for measure in &context.data.plan.measures {
            for cell in &curve.cells {
                if let Some(row) = own(context, cell, &measure.name) {
                    table.push(&format!("This run, {}, {}", curve.label, measure.name), row);
                }
            }
        }
    }
    table.finish()
}

impl Row {
    fn cells(&self) -> [String; 5] {
        let rate = |rate: Option<f64>| rate.map(|rate| quantity(rate, "req/s")).unwrap_or_default();
        [
            self.machines.to_string(),
            self.response_ms.map(|ms| duration(ms * 1e6)).unwrap_or_default(),
            rate(self.requests_per_s),
            rate(self.replies_per_s),
            self.errors.map(|errors| errors.to_string()).unwrap_or_default(),
        ]
    }
}

/// What each system of a cell saw, in the study's terms; `None` where nothing was measured.
fn own(context: &Context, cell: &Cell, measure: &str) -> Option<[String; 5]> {
    let all = &context.data.systems;
    let systems: Vec<&SystemFound> =
        all.iter().filter(|s| s.cell == cell.id && s.measure == measure && s.role == Role::System).collect();
    let machines = cell.environment.count.to_string();
    if systems.is_empty() {
        // One system has no observation besides the whole's.
        let mean = curve::center(context, cell, measure, "latency_mean")?;
        let rate = curve::rate(context, cell, measure)?;
        let asked = curve::center(context, cell, measure, "offered").unwrap_or(rate);
        let errors = curve::center(context, cell, measure, "error_share").unwrap_or_default();
        let some = if errors > 0.0 { quantity(errors, "1") } else { "0".to_owned() };
        return Some([machines, duration(mean), quantity(asked, "req/s"), quantity(rate, "req/s"), some]);
    }
    let middle =
        |of: fn(&SystemFound) -> f64| median(systems.iter().map(|s| of(s)).collect()).unwrap_or_default();
    Some([
        machines,
        duration(middle(|s| s.mean)),
        quantity(middle(|s| s.asked), "req/s"),
        quantity(middle(|s| s.rate), "req/s"),
        quantity(middle(|s| s.failed as f64), ""),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studys_tables_can_be_read() {
        let study = STUDY.as_ref().expect("a study");
        let [four, five] = study.tables.as_slice() else { panic!("{}", study.tables.len()) };
        assert_eq!((four.number.as_str(), five.number.as_str()), ("IV", "V"));
        let errors: Vec<Option<u64>> = four.rows.iter().map(|row| row.errors).collect();
        assert_eq!(errors, [0, 0, 4788, 12333, 21656, 22547].map(Some));
        assert_eq!(five.rows[5].requests_per_s, Some(12.0), "as printed");
        assert!(five.note.contains("22"), "{}", five.note);
    }
}
