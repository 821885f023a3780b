//! HTTP: searches for the capacity, and what TLS and HTTP/2 cost.

pub(crate) mod plot;
mod tax;
pub(crate) mod trial;
mod version;

use vtax_store::record::{CapacityOutcome, Finding, TrialRecord, Validity};

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::html::parts::{details, figure, titled};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::{responsive, series};
use crate::table::{Table, number, number_or_none, text, text_or_none, yes_no};
use plot::{Searches, searches};
use trial::bracket;

/// The chapter about searches for the capacity, TLS and HTTP/2.
#[derive(Debug)]
pub(crate) struct Http;

impl Chapter for Http {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Taxes, "http-tls", "What TLS costs HTTP", tax::section(context));
        page.put(Rank::Taxes, "http-2", "What HTTP/2 costs", version::section(context));
        page.put(Rank::Pictures, "capacity", "Capacity", section(&context.data));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        vec![steps(&context.data)]
    }
}

fn capacity(record: &TrialRecord) -> Option<&CapacityOutcome> {
    match record.finding() {
        Some(Finding::Capacity(found)) => Some(found),
        _ => None,
    }
}

fn steps(data: &RunData) -> Table {
    let columns = "trial,cell,measure,step,offered_per_s,goodput_per_s,loss,p99_ns,passed,reason";
    let mut table = Table::new("capacity_steps", "Capacity steps", columns);
    for t in &data.trials {
        let steps = capacity(t).map_or(&[][..], |c| c.steps.as_slice());
        for (i, s) in (1u32..).zip(steps) {
            table.push([
                number(t.index),
                text(&t.cell),
                text(&t.measure),
                number(i),
                number(s.offered.0),
                number(s.goodput.0),
                number(s.loss),
                number_or_none(trial::p99(s)),
                yes_no(s.passed),
                text_or_none(s.reason.as_deref()),
            ]);
        }
    }
    table
}

fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for group in data.groups() {
        for measure in &data.plan.measures {
            let cells: Vec<Searches<'_>> = group
                .cells
                .iter()
                .enumerate()
                .map(|(position, cell)| Searches {
                    label: data.environment_label(cell),
                    position,
                    trials: data
                        .trials
                        .iter()
                        .filter(|t| t.cell == cell.id && t.measure == measure.name)
                        .filter(|t| t.validity == Validity::Valid)
                        .filter_map(|t| Some((t.index, capacity(t)?)))
                        .collect(),
                })
                .filter(|s| !s.trials.is_empty())
                .collect();
            if cells.is_empty() {
                continue;
            }
            let caption = titled(
                "Every search, step by step. Filled marks: carried within the limits; crosses: not. \
                 The bar is the bracket that was left",
                &group.label,
            );
            let keys: Vec<_> = cells.iter().map(|c| (series(c.position), c.label.clone())).collect();
            let picture = responsive(|w| searches(&cells, "Capacity searches", w));
            m.add(&figure(&caption, &keys, &picture)).add(&bracket_table(&cells));
        }
    }
    m
}

fn bracket_table(cells: &[Searches<'_>]) -> Markup {
    let columns = [("Environment", false), ("Trial", true), ("Bracket, req/s", true), ("Steps", true)];
    let mut table = PlainTable::new("", &columns);
    for cell in cells {
        for (index, outcome) in &cell.trials {
            let steps = outcome.steps.len().to_string();
            table.push(&cell.label, [format!("{index:03}"), bracket(outcome), steps]);
        }
    }
    details("As a table", &table.finish())
}

#[cfg(test)]
mod tests {
    use vtax_fixture::{Options, create};
    use vtax_units::Nanos;

    use super::*;
    use crate::Report;

    /// It was one of 0 ns, the fastest of all.
    #[test]
    fn a_step_without_an_answer_has_no_percentile() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { repetitions: 2, seconds: 1, rate: 100, ..Options::default() };
        let run = create(&dir.path().join("run"), &options).unwrap();
        let mut data = Report::read(&run).unwrap().context.data;
        let mut searched = 0;
        for trial in &mut data.trials {
            if let Some(Finding::Capacity(found)) = trial.finding_mut() {
                found.steps[0].p99 = Nanos::ZERO;
                searched += 1;
            }
        }
        let csv = String::from_utf8(steps(&data).csv()).unwrap();
        let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows[0][7], "p99_ns");
        let with = |text: &str| rows.iter().filter(|row| row[7] == text).count();
        assert!(searched > 0 && with("") == searched && with("0") == 0, "{csv}");
        let page = section(&data).into_string();
        assert!(page.contains("lost, no answer: ") && page.contains(", p99 "), "{page}");
        assert!(!page.contains("p99 0 ns"), "{page}");
    }
}
