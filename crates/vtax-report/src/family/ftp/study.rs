//! The study this repeats, where the plan names it: rates of FTP servers in virtual machines, in `studies/virtual-servers/`.

use std::sync::LazyLock;

use serde::Deserialize;
use vtax_plan::model::{Plan, Study as Name};

use super::trial::GOODPUT;
use crate::context::Context;
use crate::format::{quantity, range};
use crate::html::parts::{figure, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::scale::Scale;
use crate::plot::xy::{Axis, Series, Stroke, xy};
use crate::plot::{responsive, series};

/// Bytes of a KB as charts of hypervisors have it.
const KB: f64 = 1000.0;

/// Tables of the study.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Study {
    tables: Vec<Printed>,
    client: Client,
}

/// A table: the rates of one server's network over time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    number: String,
    title: String,
    /// What the text says otherwise.
    note: String,
    /// As printed, where they are.
    #[serde(default)]
    times: Vec<String>,
    /// Usage, transmitted, received, in KB/s.
    rows: Vec<[f64; 3]>,
}

/// A transfer as its client showed it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    bytes: u64,
    seconds: f64,
    /// As printed.
    shown: String,
}

impl Printed {
    /// The highest rate received, in bytes per second.
    fn peak(&self) -> f64 {
        self.rows.iter().map(|row| row[2]).fold(0.0, f64::max) * KB
    }

    /// When that was, as printed.
    fn time_of_peak(&self) -> &str {
        let at = self.rows.iter().position(|row| row[2] * KB >= self.peak());
        at.and_then(|at| self.times.get(at)).map_or("", String::as_str)
    }
}

/// `None` if the file, which is part of the program, couldn't be read; a test reads it.
static STUDY: LazyLock<Option<Study>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../../studies/virtual-servers/study.yaml")).ok()
});

fn of(plan: &Plan) -> Option<&'static Study> {
    STUDY.as_ref().filter(|_| plan.study == Some(Name::VirtualServers))
}

/// The study's figures beside the run's own; nothing where the plan doesn't name it.
pub(super) fn section(context: &Context) -> Markup {
    let Some(study) = of(&context.data.plan) else { return Markup::new() };
    let mut m = picture(study);
    let columns = [
        ("Source", false),
        ("What", false),
        ("Bytes of files", true),
        ("95 % interval", true),
        ("Note", false),
    ];
    let mut table = PlainTable::new("whole unbroken", &columns);
    for printed in &study.tables {
        let (what, peak) =
            (format!("{}; highest rate received", printed.title), quantity(printed.peak(), "B/s"));
        let note = match printed.time_of_peak() {
            "" => printed.note.clone(),
            time => format!("At {time}. {}", printed.note),
        };
        table.push(&format!("Study, table {}", printed.number), [what, peak, String::new(), note]);
    }
    let Client { bytes, seconds, shown } = &study.client;
    let note = format!("{bytes} bytes in {seconds} s, shown as {shown}.");
    let rate = quantity(*bytes as f64 / seconds, "B/s");
    table.push("Study, figure 36", ["A client's transfer, over TLS".to_owned(), rate, String::new(), note]);
    for cell in &context.data.plan.cells {
        let own = context.summary.cells.iter().filter(|found| found.cell == cell.id);
        for (found, goodput) in own.filter_map(|found| Some((found, found.metrics.get(GOODPUT)?))) {
            let what = format!("{}, {}", cell.id, found.measure);
            let interval = goodput.interval.map(|interval| range(goodput.center, interval, "B/s"));
            let row = [what, quantity(goodput.center, "B/s"), interval.unwrap_or_default(), String::new()];
            table.push(&format!("This run, {}", context.data.environment_label(cell)), row);
        }
    }
    m.add(&scrolling(&table.finish()));
    m.element(
        "p",
        &[("class", "small-print")],
        "The study shows what a server's network received, in KB/s; this run counts bytes of files that were right. A KB is taken as 1000 bytes.",
    );
    m
}

/// The study's rates received, row by row.
fn picture(study: &Study) -> Markup {
    let mut drawn = Vec::new();
    let mut keys = Vec::new();
    for (position, printed) in study.tables.iter().enumerate() {
        let (color, label) = (series(position), format!("Table {}", printed.number));
        let points =
            (1_u32..).zip(&printed.rows).map(|(row, rates)| (f64::from(row), rates[2] * KB)).collect();
        keys.push((color, label.clone()));
        let class = format!("{color} curve");
        drawn.push(Series { class, label, stroke: Stroke::Marked(position), points });
    }
    let most = study.tables.iter().map(Printed::peak).fold(0.0, f64::max);
    let rows = study.tables.iter().map(|printed| printed.rows.len()).max().unwrap_or(1);
    let ticks: Vec<f64> = (1..=rows).map(|row| row as f64).collect();
    let x = Axis {
        name: "row of the table",
        unit: "",
        scale: Scale::Linear { low: 1.0, high: rows as f64 },
        ticks: &ticks,
    };
    let y = Axis { name: "received", unit: "B/s", scale: Scale::from_zero(most), ticks: &[] };
    let title = "What the study's servers received";
    let description = "Rates received by FTP servers in virtual machines, as the study prints them, one line for each table";
    figure(
        "The study: what its servers received",
        &keys,
        &responsive(|width| xy(title, description, (width, 300.0), x, y, &drawn)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is used is what is transmitted and received, but for rounding.
    #[test]
    fn the_tables_agree_with_themselves() {
        let study = STUDY.as_ref().unwrap();
        assert_eq!(study.tables.len(), 4);
        for printed in &study.tables {
            for [usage, transmitted, received] in &printed.rows {
                assert!((usage - transmitted - received).abs() <= 1.0, "{} {usage}", printed.number);
            }
            assert!(printed.times.is_empty() || printed.times.len() == printed.rows.len());
        }
        let peaks: Vec<f64> = study.tables.iter().map(Printed::peak).collect();
        assert_eq!(peaks, [7_442_000.0, 7_387_000.0, 6_711_000.0, 6_363_000.0]);
        assert_eq!(study.tables[0].time_of_peak(), "4:31:20");
    }
}
