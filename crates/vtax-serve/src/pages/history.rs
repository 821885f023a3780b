//! One figure of one cell over runs, with what changed and what can't be compared; and two runs that can't.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use vtax_report::compare::Refusal as NotCompared;
use vtax_report::markup::Markup;
use vtax_report::pages::history::{History, Of, Point, Stored, Turn, Wanted};
use vtax_report::pages::{close_table, moment, open_table, tax, tax_range};
use vtax_store::summary::Better;

use super::run::history_of;
use super::shell::page as bare;
use crate::app::{App, Fields, with_cost};
use crate::index::Entry;
use crate::refusal::{Refusal, chain};

/// Most runs that are read for a history, the newest.
const READ: usize = 500;
/// Most runs that are listed as left out.
const LEFT_OUT: usize = 100;
/// What random orders follow from: the same history is judged in the same way.
const SEED: u64 = 20_140_301;

/// The page.
pub(crate) fn page(app: &App, query: &Fields) -> Result<String, Refusal> {
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let figure = text("figure");
    let (measure, metric) =
        figure.rsplit_once('/').ok_or_else(|| Refusal::unclear("A figure is MEASURE/METRIC."))?;
    let of = match text("of") {
        "" | "value" => Of::Value,
        "tax" => Of::Tax,
        _ => return Err(Refusal::unclear("A figure is shown as `value` or as `tax`.")),
    };
    let wanted =
        Wanted { cell: text("cell").to_owned(), measure: measure.to_owned(), metric: metric.to_owned(), of };
    let entry = app.entry(text("run"))?;
    let reference = Stored::read(&app.index.run(&entry)?)?;
    let mut history = History::of(reference, wanted.clone());
    for other in of_plan(app, &entry) {
        match app.index.run(&other).and_then(|run| Stored::read(&run)) {
            Ok(run) => history.add(&other.id.to_string(), run),
            Err(error) => history.leave_out(&other.id.to_string(), vec![chain(&error)]),
        }
    }
    history.close(SEED);
    let title = format!("{} of {}", wanted.metric, wanted.cell);
    let mut m = Markup::new();
    m.element("p", &[("class", "question")], &format!("Plan {}, measure {measure}", entry.plan()));
    m.element("h1", &[], &title).add(&other_way(&entry, &wanted, figure));
    m.add(&found(&history)).add(&turns(&history)).add(&points(&history)).add(&left_out(app, &history));
    Ok(with_cost(app, &title, "", &m))
}

/// The newest runs of the plan that `asked` is of, oldest first.
fn of_plan(app: &App, asked: &Entry) -> Vec<Arc<Entry>> {
    let mut runs = app.index.known().runs;
    runs.retain(|entry| entry.plan() == asked.plan());
    let mut runs = without_copies(runs, asked);
    runs.sort_by_key(|entry| entry.started());
    let surplus = runs.len().saturating_sub(READ);
    runs.split_off(surplus)
}

/// One of each run and its copies, which tell nothing that it doesn't: the one that was asked for, else one that has a summary,
/// else the one that came farthest. Runs of old formats have no identity, and none of them is a copy.
fn without_copies(mut runs: Vec<Arc<Entry>>, asked: &Entry) -> Vec<Arc<Entry>> {
    let rank = |entry: &Entry| {
        let trials = entry.brief.as_ref().map_or(0, |brief| brief.trials);
        (entry.id == asked.id, entry.stamp.has_summary(), trials)
    };
    runs.sort_by_key(|entry| Reverse(rank(entry)));
    let mut known = BTreeSet::new();
    runs.retain(|entry| {
        let run_id = entry.brief.as_ref().map_or("", |brief| brief.run_id.as_str());
        run_id.is_empty() || known.insert(run_id.to_owned())
    });
    runs
}

/// The way from the value to the tax and back.
fn other_way(entry: &Entry, wanted: &Wanted, figure: &str) -> Markup {
    let id = entry.id.to_string();
    let (of, text) = match wanted.of {
        Of::Value => ("tax", "its tax over runs"),
        Of::Tax => ("value", "its value over runs"),
    };
    let mut m = Markup::new();
    m.open("p", &[("class", "ways")]).element("a", &[("href", &format!("/run/{id}"))], "The run");
    m.text(" · ").element("a", &[("href", &history_of(&id, &wanted.cell, figure, of))], text).close("p");
    m
}

fn found(history: &History) -> Markup {
    let mut m = Markup::new();
    let runs = history.points.len();
    let words = match (runs, history.turns.len()) {
        (0, _) => "No run has this figure.".to_owned(),
        (1, _) => "1 run can be compared. It takes ten to tell a change from chance.".to_owned(),
        (2..=9, _) => format!("{runs} runs can be compared. It takes ten to tell a change from chance."),
        (_, 0) => format!("{runs} runs can be compared, and chance explains how they differ."),
        (_, 1) => format!("{runs} runs can be compared. Their level changed once."),
        (_, n) => format!("{runs} runs can be compared. Their level changed {n} times."),
    };
    m.element("p", &[("class", "headline")], &words);
    if runs > 0 {
        let caption = "Each mark is a run with its 95 % interval, in the order of time; a step is a change (E-divisive, at \
                       1 %; see docs/serve.md).";
        m.open("figure", &[]).element("figcaption", &[], caption).add(&history.picture()).close("figure");
    }
    m
}

/// What a change's range is worth: docs/serve.md has how often it holds the truth.
const CHOSEN: &str = "A change is told with the range that the runs on either side of it leave open. As it was found where it \
     looks largest, a small one is told as larger than it is: where it is hardly larger than runs differ \
     anyway, the range rarely holds the truth. Runs made after it was found tell how large it is.";

/// Each change, with the runs on both sides one click away.
fn turns(history: &History) -> Markup {
    let mut m = Markup::new();
    if history.turns.is_empty() {
        return m;
    }
    m.element("h2", &[], "Changes");
    m.element("p", &[("class", "small-print")], CHOSEN);
    for turn in history.turns.iter().rev() {
        let (before, after) = (&history.points[turn.at - 1], &history.points[turn.at]);
        m.open("section", &[("class", "change")]);
        m.element("h3", &[], &format!("Between {} and {}", date(before), date(after)));
        m.element("p", &[], &told(history, turn)).open("p", &[("class", "ways")]);
        m.element("a", &[("href", &format!("/run/{}", before.id))], "The run before").text(" · ");
        m.element("a", &[("href", &format!("/run/{}", after.id))], "The run after").text(" · ");
        let both = format!("/compare?a={}&b={}", before.id, after.id);
        m.element("a", &[("href", &both)], "Compare them").close("p");
        if turn.besides.is_empty() {
            m.element(
                "p",
                &[("class", "small-print")],
                "Nothing else that vtax records changed between them.",
            );
        } else {
            m.element("p", &[], "What else changed between them (A is the run before):").open("ul", &[]);
            for text in &turn.besides {
                m.element("li", &[], text);
            }
            m.close("ul");
        }
        m.close("section");
    }
    m
}

fn told(history: &History, turn: &Turn) -> String {
    let mut text = format!("From {} to {}", history.text(turn.before), history.text(turn.after));
    if let Some((ratio, interval)) = turn.ratio {
        let range = interval.map_or_else(String::new, |i| format!(" ({})", tax_range(i)));
        text.push_str(&format!(", {} as much{range}", tax(ratio)));
        let grew = ratio > 1.0;
        let better = grew == (history.better() == Better::Higher);
        text.push_str(if better { ", for the better" } else { ", for the worse" });
    }
    text.push_str(&format!(". Chance shows as clear a change in {:.1} % of histories.", turn.chance * 100.0));
    text
}

fn date(point: &Point) -> String {
    moment(point.started_unix_ms)
}

fn points(history: &History) -> Markup {
    let mut m = Markup::new();
    if history.points.is_empty() {
        return m;
    }
    let of = if history.is_of_tax() { "Rounds" } else { "Trials" };
    let columns = [("Run", false), ("Value", true), ("95 %", true), (of, true)];
    let mut table = open_table("stacked", &columns);
    for point in history.points.iter().rev() {
        let interval = point.interval.map_or_else(String::new, |(low, high)| {
            format!("{} to {}", history.text(low), history.text(high))
        });
        table.open("tr", &[]).open("th", &[("scope", "row")]);
        table.element("a", &[("href", &format!("/run/{}", point.id))], &date(point)).close("th");
        // A tax that wasn't made of rounds has none.
        let made_of = if point.trials == 0 { String::new() } else { point.trials.to_string() };
        for text in [history.text(point.value), interval, made_of] {
            table.element("td", &[("class", "n")], &text);
        }
        table.close("tr");
    }
    m.element("h2", &[], "Runs").add(&close_table(table));
    m
}

fn left_out(app: &App, history: &History) -> Markup {
    let mut m = Markup::new();
    let all = history.left_out.len();
    if all == 0 {
        return m;
    }
    m.element("h2", &[], "Runs that can't be compared");
    m.element(
        "p",
        &[],
        &format!(
            "{all} {} left out. A is the run that this page began from.",
            if all == 1 { "run of this plan is" } else { "runs of this plan are" }
        ),
    );
    m.open("ul", &[("class", "left-out")]);
    for left in history.left_out.iter().rev().take(LEFT_OUT) {
        let name = app.entry(&left.id).map_or_else(|_| left.id.clone(), |entry| entry.name());
        m.open("li", &[]).element("a", &[("href", &format!("/run/{}", left.id))], &name).text(": ");
        m.prose(&left.reasons.join("; ")).close("li");
    }
    m.close("ul");
    m
}

/// Two runs that can't be compared, with every reason.
pub(crate) fn refused(refusal: &NotCompared) -> String {
    let mut m = Markup::new();
    m.element("h1", &[], "These runs can't be compared").open("ul", &[]);
    let mut remedies: Vec<&str> = Vec::new();
    for reason in &refusal.reasons {
        m.element("li", &[], &reason.text);
        if !remedies.contains(&reason.cause.remedy()) {
            remedies.push(reason.cause.remedy());
        }
    }
    m.close("ul").element("h2", &[], "To compare them").open("ul", &[]);
    for text in remedies {
        m.element("li", &[], text);
    }
    m.close("ul");
    bare("Not compared", "", &m)
}
