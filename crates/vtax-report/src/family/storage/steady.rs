//! Steady state over rounds: its plot, or that there was none.

use vtax_stats::RoundsWindow;
use vtax_store::record::{Observation, TrialRecord, Validity};
use vtax_store::storage::{StorageRounds, goes_over_all_once};

use super::sweep::several;
use crate::context::Context;
use crate::data::RunData;
use crate::format::quantity;
use crate::html::parts::{close_table, details, figure, open_table};
use crate::markup::Markup;
use crate::metric::measure_of_test;
use crate::plot::responsive;
use crate::plot::scale::Scale;
use crate::plot::xy::{Axis, Series, Stroke, xy};
use crate::table::{Table, count, number, text, yes_no};

/// A test that was made in rounds, in one trial.
struct Made<'a> {
    trial: &'a TrialRecord,
    observation: &'a Observation,
    steady_state: &'a StorageRounds,
    window: Option<RoundsWindow>,
}

impl Made<'_> {
    /// What it is one of several trials of: a measure's test in a cell.
    fn key(&self) -> [&str; 3] {
        [&self.trial.measure, &self.observation.name, &self.trial.cell]
    }

    /// Whether its last rounds are steady by its rule.
    fn is_steady(&self) -> bool {
        let rule = self.steady_state.rule;
        self.window.is_some_and(|window| window.is_steady(rule.excursion.0, rule.slope.0))
    }

    fn unit(&self) -> &'static str {
        if goes_over_all_once(&self.observation.name) { "B/s" } else { "/s" }
    }

    /// What the test is called: with its measure where the plan has several of storage, which all make the same tests.
    fn title(&self, data: &RunData) -> String {
        match several(&data.plan) {
            true => measure_of_test(&self.trial.measure, &self.observation.name),
            false => self.observation.name.clone(),
        }
    }
}

fn all(data: &RunData) -> impl Iterator<Item = Made<'_>> {
    data.trials.iter().flat_map(|trial| {
        trial.observations.iter().filter_map(move |observation| {
            let found = observation.storage()?;
            let steady_state = found.steady_state.as_ref()?;
            let window = RoundsWindow::last(&steady_state.figures(), steady_state.rule.window as usize);
            Some(Made { trial, observation, steady_state, window })
        })
    })
}

/// For each test and environment the plot of its first steady trial, or of its last one; and all trials as a table.
pub(super) fn section(context: &Context) -> Markup {
    let data = &context.data;
    let made: Vec<Made<'_>> = all(data).collect();
    let mut m = Markup::new();
    if made.is_empty() {
        return m;
    }
    let mut shown: Vec<[&str; 3]> = Vec::new();
    for one in &made {
        let key = one.key();
        if shown.contains(&key) {
            continue;
        }
        shown.push(key);
        let own = || made.iter().filter(|o| o.key() == key);
        let best = own().find(|o| o.is_steady()).or_else(|| own().next_back());
        m.add(&best.map(|best| picture(data, best)).unwrap_or_default());
    }
    m.element("p", &[("class", "small-print")], &explained(&made[0].steady_state.rule));
    m.add(&details("Every trial as a table", &table(data, &made)));
    m
}

fn explained(rule: &vtax_plan::model::SteadyState) -> String {
    format!(
        "A test is steady once, over {} rounds in a row, the largest is at most {} of their average above the smallest, and their best \
         linear fit rises or falls by at most {} (SNIA, Solid State Storage Performance Test Specification 2.0.2). Its figure is the \
         average over these rounds. A test that isn't steady after {} rounds has no figure. Latency and CPU time are of the last round.",
        rule.window,
        quantity(rule.excursion.0, "1"),
        quantity(rule.slope.0, "1"),
        rule.rounds
    )
}

/// Rounds, and over the window their average, its band and the best fit.
fn picture(data: &RunData, made: &Made<'_>) -> Markup {
    let figures = made.steady_state.figures();
    let unit = made.unit();
    let environment =
        data.cell(&made.trial.cell).map_or_else(String::new, |cell| data.environment_label(cell));
    let title = format!("{}, {environment}, trial {:03}", made.title(data), made.trial.index);
    let place = |round: usize| (round + 1) as f64;
    let mut lines = vec![Series {
        class: "s1 curve".to_owned(),
        label: "each round".to_owned(),
        stroke: Stroke::Marked(0),
        points: figures.iter().enumerate().map(|(round, figure)| (place(round), *figure)).collect(),
    }];
    let mut keys = vec![("s1", "each round".to_owned())];
    if let Some(window) = made.window {
        let (from, to) = (place(window.first), place(window.first + window.rounds - 1));
        let mut line = |class: &str, label: &str, ends: (f64, f64)| {
            let points = vec![(from, ends.0), (to, ends.1)];
            lines.push(Series {
                class: class.to_owned(),
                label: label.to_owned(),
                stroke: Stroke::Line,
                points,
            });
        };
        let half = made.steady_state.rule.excursion.0 / 2.0;
        let band = format!("average ± {}", quantity(half, "1"));
        line("s0 thin", &band, (window.mean * (1.0 + half), window.mean * (1.0 + half)));
        line("s0 thin", &band, (window.mean * (1.0 - half), window.mean * (1.0 - half)));
        line("s2 thin", "average", (window.mean, window.mean));
        line("s3 curve", "best linear fit", window.fit);
        keys.extend([("s0", band), ("s2", "average".to_owned()), ("s3", "best linear fit".to_owned())]);
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let x = Axis {
        name: "round",
        unit: "",
        scale: Scale::Linear { low: 0.0, high: (figures.len() + 1) as f64 },
        ticks: &[],
    };
    let name = if unit == "B/s" { "throughput until durable" } else { "operations per second" };
    let y = Axis { name, unit, scale: Scale::from_zero(most), ticks: &[] };
    let mut m = figure(
        &outcome(made),
        &keys,
        &responsive(|width| xy(&title, &outcome(made), (width, 260.0), x, y, &lines)),
    );
    if !made.is_steady() {
        m.open("p", &[("class", "warning"), ("role", "note")]).element("b", &[], "⚠ ");
        m.text(&format!("{title}: {}.", outcome(made))).close("p");
    }
    m
}

/// `steady after 8 rounds: …`, `no steady state after 25 rounds: …`.
fn outcome(made: &Made<'_>) -> String {
    let rounds = made.steady_state.rounds.len();
    let how = made.window.map_or_else(String::new, |window| {
        format!(
            ": over the last {} {} on average, range {} of that, slope {}",
            window.rounds,
            quantity(window.mean, made.unit()),
            quantity(window.excursion, "1"),
            quantity(window.slope, "1")
        )
    });
    match made.is_steady() {
        true => format!("steady after {rounds} rounds{how}"),
        false => format!("no steady state after {rounds} rounds{how}"),
    }
}

fn table(data: &RunData, made: &[Made<'_>]) -> Markup {
    let columns = [
        ("Test", false),
        ("Environment", false),
        ("Trial", true),
        ("Rounds", true),
        ("Average", true),
        ("Range", true),
        ("Slope", true),
        ("Steady", false),
    ];
    let mut table = open_table("every", &columns);
    for one in made {
        let label = data.cell(&one.trial.cell).map_or_else(String::new, |cell| data.environment_label(cell));
        table.open("tr", &[]).element("th", &[("scope", "row")], &one.title(data));
        table.element("td", &[], &label);
        let of = |value: fn(&RoundsWindow) -> f64, unit: &str| {
            one.window.as_ref().map_or_else(|| "-".to_owned(), |window| quantity(value(window), unit))
        };
        let numbers = [
            format!("{:03}", one.trial.index),
            one.steady_state.rounds.len().to_string(),
            of(|window| window.mean, one.unit()),
            of(|window| window.excursion, "1"),
            of(|window| window.slope, "1"),
        ];
        for number in &numbers {
            table.element("td", &[("class", "n")], number);
        }
        let word = match (one.is_steady(), one.observation.validity == Validity::Valid) {
            (true, _) => "yes",
            (false, false) => "no steady state",
            (false, true) => "no",
        };
        table.element("td", &[], word).close("tr");
    }
    close_table(&mut table);
    table
}

/// Every round of every trial; none where the run has no rounds.
pub(super) fn rounds(data: &RunData) -> Option<Table> {
    let columns = "trial,cell,measure,test,round,figure,unit,median_ns,p99_ns,in_window,steady";
    let mut table = Table::new("storage_rounds", "Storage rounds", columns);
    let mut any = false;
    for made in all(data) {
        let first = made.window.map_or(usize::MAX, |window| window.first);
        for (place, round) in made.steady_state.rounds.iter().enumerate() {
            any = true;
            table.push([
                number(made.trial.index),
                text(&made.trial.cell),
                text(&made.trial.measure),
                text(&made.observation.name),
                count(place as u64 + 1),
                number(round.figure),
                text(made.unit()),
                count(round.median.0),
                count(round.p99.0),
                yes_no(place >= first),
                yes_no(made.is_steady()),
            ]);
        }
    }
    any.then_some(table)
}
