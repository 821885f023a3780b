//! Generators on hosts of their own: each one's clock, its beginning and its part of the load.

use vtax_load::LoadResult;
use vtax_store::record::{GeneratorRecord, TrialRecord, spread};
use vtax_units::counted;

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::format::quantity;
use crate::html::parts::{FIGURES, details};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, number, number_or_none, text};

/// Rows that are shown: the table as a file has all.
const MOST_ROWS: usize = 1_000;

/// The chapter about generators on hosts of their own.
#[derive(Debug)]
pub(crate) struct Generators;

impl Chapter for Generators {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Details, "generators", "Generators on hosts of their own", section(&context.data));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        if all(&context.data).next().is_none() {
            return Vec::new();
        }
        vec![table(&context.data)]
    }
}

/// Every generator of every trial.
fn all(data: &RunData) -> impl Iterator<Item = (&TrialRecord, &GeneratorRecord)> {
    data.trials.iter().flat_map(|trial| trial.generators.iter().map(move |generator| (trial, generator)))
}

/// When the first of a trial's generators began.
fn first(trial: &TrialRecord) -> u64 {
    trial.generators.iter().map(|generator| generator.began_unix_ns).min().unwrap_or_default()
}

fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    if all(data).next().is_none() {
        return m;
    }
    m.element("p", &[], &words(data));
    let columns = [
        ("Trial", false),
        ("Generator", false),
        ("Began after the first", true),
        ("Known to", true),
        ("Clock ahead", true),
        ("Moved", true),
        ("Requests", true),
        ("Median latency", true),
        ("99 of 100 within", true),
        ("Busiest CPU", true),
    ];
    let mut shown = PlainTable::new(FIGURES, &columns);
    for (trial, generator) in all(data).take(MOST_ROWS) {
        let time = |ns: f64| quantity(ns, "ns");
        let load = generator.load.as_ref().filter(|load| !load.latency.is_empty());
        let of = |value: &dyn Fn(&LoadResult) -> String| load.map(value).unwrap_or_default();
        shown.push(
            &format!("{:03}, {}", trial.index, trial.cell),
            [
                generator.host.clone(),
                time(generator.began_unix_ns.saturating_sub(first(trial)) as f64),
                time(generator.clock_within_ns as f64),
                time(generator.clock_offset_ns as f64),
                time(generator.clock_moved_ns as f64),
                of(&|load| load.counts.intended.max(load.counts.sent).to_string()),
                of(&|load| time(load.latency.quantile(0.5).0 as f64)),
                of(&|load| time(load.latency.quantile(0.99).0 as f64)),
                of(&|load| quantity(load.generator.busiest, "1")),
            ],
        );
    }
    m.add(&details("Each generator of each trial", &shown.finish()));
    m
}

/// What is to be known of how they began, over all trials.
fn words(data: &RunData) -> String {
    let of_trials = data.trials.iter().filter_map(|trial| spread(&trial.generators));
    let farthest = of_trials.max().map(|(apart, within)| {
        let [apart, within] = [apart as f64, within as f64].map(|ns| quantity(ns, "ns"));
        format!(" Of one trial’s generators the first and the last began {apart} apart at most, which is known to {within}.")
    });
    let most = data.trials.iter().map(|trial| trial.generators.len()).max().unwrap_or_default();
    format!(
        "The load came from {} other than the one that led the run. Each made an equal part of it with arrivals of its own; \
         what is told above is the sum of all, request by request.{}",
        counted(most, "host"),
        farthest.unwrap_or_default()
    )
}

fn table(data: &RunData) -> Table {
    let columns = "trial,cell,measure,node,host,steps,began_after_first_ns,clock_offset_ns,clock_within_ns,clock_moved_ns,intended,ok,p50_ns,\
                   p99_ns,busiest,cpu_ns";
    let mut table = Table::new("generators", "Generators", columns);
    for (trial, generator) in all(data) {
        let load = generator.load.as_ref();
        let of = |value: &dyn Fn(&LoadResult) -> f64| number_or_none(load.map(value));
        let answered = load.filter(|load| !load.latency.is_empty());
        let at =
            |quantile: f64| number_or_none(answered.map(|load| load.latency.quantile(quantile).0 as f64));
        table.push([
            number(trial.index),
            text(&trial.cell),
            text(&trial.measure),
            text(&generator.node),
            text(&generator.host),
            number(generator.steps),
            number_or_none(Some(generator.began_unix_ns.saturating_sub(first(trial)) as f64)),
            number_or_none(Some(generator.clock_offset_ns as f64)),
            number_or_none(Some(generator.clock_within_ns as f64)),
            number_or_none(Some(generator.clock_moved_ns as f64)),
            of(&|load| load.counts.intended as f64),
            of(&|load| load.counts.ok as f64),
            at(0.5),
            at(0.99),
            of(&|load| load.generator.busiest),
            of(&|load| load.generator.cpu_user.0.saturating_add(load.generator.cpu_system.0) as f64),
        ]);
    }
    table
}
