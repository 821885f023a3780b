//! All runs: chosen by plan, host, tag, verdict, state and date; two of them compared.

use std::collections::BTreeSet;
use std::sync::Arc;

use vtax_report::markup::Markup;
use vtax_report::pages::{badge, close_table, moment, open_table};
use vtax_store::RunBrief;
use vtax_store::summary::Verdict;

use super::shell::{choice, field};
use crate::app::{App, Fields, with_cost};
use crate::index::{Entry, Known, RunState};
use crate::refusal::Refusal;

/// Runs on one page.
const ROWS: usize = 100;
/// Most names in a choice.
const NAMES: usize = 500;
/// Verdicts with the words by which they are chosen.
const VERDICTS: [(Verdict, &str); 4] = [
    (Verdict::Better, "better"),
    (Verdict::Worse, "worse"),
    (Verdict::Equivalent, "equivalent"),
    (Verdict::Inconclusive, "inconclusive"),
];

/// Which runs are shown.
#[derive(Debug, Default)]
struct Filter {
    plan: String,
    host: String,
    tag: String,
    verdict: Option<Verdict>,
    state: Option<RunState>,
    /// Dates as they stand in the form: `2026-11-23`.
    from: String,
    to: String,
}

impl Filter {
    fn of(query: &Fields) -> Self {
        let text = |name: &str| query.get(name).map(|t| t.trim().to_owned()).unwrap_or_default();
        let (verdict, state) = (text("verdict"), text("state"));
        Self {
            plan: text("plan"),
            host: text("host"),
            tag: text("tag"),
            verdict: VERDICTS.iter().find(|(_, word)| *word == verdict).map(|(v, _)| *v),
            state: RunState::ALL.into_iter().find(|s| s.word() == state),
            from: text("from"),
            to: text("to"),
        }
    }

    /// Everything but the state, which costs more to find out.
    fn takes(&self, entry: &Entry) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let brief = entry.brief.as_ref().ok();
        let tagged = |b: &RunBrief| self.tag.is_empty() || b.tags.contains(&self.tag);
        let judged = |b: &RunBrief| self.verdict.is_none_or(|verdict| b.verdicts.of(verdict) > 0);
        let date = moment(entry.started());
        let date = date.get(..10).unwrap_or_default();
        is(&self.plan, entry.plan())
            && is(&self.host, entry.host())
            && brief.map_or(self.tag.is_empty() && self.verdict.is_none(), |b| tagged(b) && judged(b))
            && (self.from.is_empty() || date >= self.from.as_str())
            && (self.to.is_empty() || date <= self.to.as_str())
    }
}

/// The page.
pub(crate) fn page(app: &App, query: &Fields) -> Result<String, Refusal> {
    let filter = Filter::of(query);
    let known = app.index.known();
    let mut shown: Vec<&Arc<Entry>> = known.runs.iter().filter(|entry| filter.takes(entry)).collect();
    if let Some(state) = filter.state {
        shown.retain(|entry| app.index.state(entry) == state);
    }
    shown.sort_by(|a, b| (b.started(), &b.place).cmp(&(a.started(), &a.place)));
    let pages = shown.len().div_ceil(ROWS).max(1);
    let number = query.get("page").and_then(|n| n.parse::<usize>().ok()).unwrap_or(1).clamp(1, pages);
    let rows: Vec<&Entry> = shown.iter().skip((number - 1) * ROWS).take(ROWS).map(|e| &***e).collect();
    let mut m = Markup::new();
    m.element("h1", &[], "Runs").add(&told(&known, shown.len())).add(&form(&known, &filter));
    if rows.is_empty() {
        let text = "No run is here that was asked for. `vtax run PLAN` makes one.";
        m.element("p", &[], text);
    } else {
        m.add(&table(app, &rows));
    }
    m.add(&turn(query, number, pages));
    Ok(with_cost(app, "Runs", "/", &m))
}

/// How many runs there are, and what is still being read.
fn told(known: &Known, shown: usize) -> Markup {
    let mut text = format!("{shown} of {} runs.", known.runs.len());
    if known.unread > 0 {
        text.push_str(&format!(" {} more are being read.", known.unread));
    }
    if known.surplus {
        text.push_str(" There are more directories than are looked into; serve one of them.");
    }
    let mut m = Markup::new();
    m.element("p", &[("class", "small-print"), ("id", "count")], &text);
    m
}

/// The names that something has, for a choice.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let names: BTreeSet<&str> = all.filter(|name| !name.is_empty()).collect();
    let any = (String::new(), "any".to_owned());
    [any].into_iter().chain(names.into_iter().take(NAMES).map(|n| (n.to_owned(), n.to_owned()))).collect()
}

fn form(known: &Known, filter: &Filter) -> Markup {
    let runs = || known.runs.iter();
    let tags =
        || runs().filter_map(|e| e.brief.as_ref().ok()).flat_map(|b| b.tags.iter().map(String::as_str));
    let verdict = VERDICTS.iter().find(|(v, _)| Some(*v) == filter.verdict).map_or("", |(_, word)| *word);
    let state = filter.state.map_or("", RunState::word);
    let mut m = Markup::new();
    m.open(
        "form",
        &[("method", "get"), ("action", "/"), ("class", "filter list"), ("aria-label", "Choose runs")],
    );
    m.add(&choice("Plan", "plan", &names(runs().map(|e| e.plan())), &filter.plan));
    m.add(&choice("Host", "host", &names(runs().map(|e| e.host())), &filter.host));
    m.add(&choice("Tag", "tag", &names(tags()), &filter.tag));
    m.add(&choice("Verdict", "verdict", &names(VERDICTS.iter().map(|(_, word)| *word)), verdict));
    m.add(&choice("State", "state", &names(RunState::ALL.iter().map(|s| s.word())), state));
    m.add(&field("From", "from", "date", &filter.from)).add(&field("To", "to", "date", &filter.to));
    m.element("button", &[("type", "submit")], "Show").close("form");
    m
}

/// What the list says of each run, and whether it is a number.
const COLUMNS: [(&str, bool); 9] = [
    ("A", false),
    ("B", false),
    ("Started", false),
    ("Run", false),
    ("Plan", false),
    ("Host", false),
    ("State", false),
    ("Trials", true),
    ("Verdicts", false),
];

fn table(app: &App, rows: &[&Entry]) -> Markup {
    let mut table = open_table("stacked runs", &COLUMNS);
    for entry in rows {
        row(app, &mut table, entry);
    }
    let mut m = Markup::new();
    m.open("form", &[("method", "get"), ("action", "/compare"), ("aria-label", "Compare two runs")]);
    m.add(&close_table(table));
    m.element("button", &[("type", "submit")], "Compare A with B").close("form");
    m
}

fn row(app: &App, table: &mut Markup, entry: &Entry) {
    let id = entry.id.to_string();
    let state = app.index.state(entry);
    table.open("tr", &[("data-href", &format!("/run/{id}"))]);
    for side in ["a", "b"] {
        let label = format!("{} as {}", entry.name(), side.to_uppercase());
        table
            .open("td", &[])
            .empty("input", &[("type", "radio"), ("name", side), ("value", &id), ("aria-label", &label)]);
        table.close("td");
    }
    let started = if entry.started() == 0 { String::new() } else { moment(entry.started()) };
    table.element("td", &[("class", "when")], &started);
    table.open("th", &[("scope", "row")]);
    table.element("a", &[("href", &format!("/run/{id}"))], &entry.name()).close("th");
    table.element("td", &[], entry.plan()).element("td", &[], entry.host());
    table.open("td", &[]).element("span", &[("class", "state"), ("data-state", state.word())], state.word());
    table.close("td");
    match &entry.brief {
        Ok(brief) => known(table, brief),
        Err(reason) => {
            table.element("td", &[("class", "n")], "").element("td", &[], reason);
        }
    }
    table.close("tr");
    if let Ok(brief) = &entry.brief {
        said(table, &brief.headline);
    }
}

/// What a run came to, in a row of its own below the run's: beside nine columns it would be a thin and tall one. It is
/// cut after two lines, and its title has the whole.
fn said(table: &mut Markup, headline: &str) {
    if headline.is_empty() {
        return;
    }
    table.open("tr", &[("class", "said")]);
    table.open("td", &[("colspan", &COLUMNS.len().to_string()), ("title", headline)]);
    table.open("div", &[]).prose(headline).close("div").close("td").close("tr");
}

fn known(table: &mut Markup, brief: &RunBrief) {
    table.element("td", &[("class", "n")], &format!("{} of {}", brief.valid, brief.trials));
    table.open("td", &[]);
    for (verdict, _) in VERDICTS {
        let count = brief.verdicts.of(verdict);
        if count > 0 {
            // A number stays on the line of its word.
            table.open("span", &[("class", "count")]).text(&format!("{count} "));
            table.add(&badge(verdict)).close("span").text(" ");
        }
    }
    for tag in &brief.tags {
        table.element("span", &[("class", "tag")], tag).text(" ");
    }
    table.close("td");
}

/// Links to the pages before and behind.
fn turn(query: &Fields, number: usize, pages: usize) -> Markup {
    let mut m = Markup::new();
    if pages < 2 {
        return m;
    }
    m.open("nav", &[("class", "turn"), ("aria-label", "More runs")]);
    m.element("span", &[], &format!("Page {number} of {pages}"));
    let link = |m: &mut Markup, to: usize, text: &str, rel: &str| {
        let mut address = String::from("/?");
        for (name, value) in query.iter().filter(|(name, _)| *name != "page") {
            address.push_str(&format!("{}={}&", escaped(name), escaped(value)));
        }
        m.element("a", &[("href", &format!("{address}page={to}")), ("rel", rel)], text);
    };
    if number > 1 {
        link(&mut m, number - 1, "newer", "prev");
    }
    if number < pages {
        link(&mut m, number + 1, "older", "next");
    }
    m.close("nav");
    m
}

/// A text as it stands in an address.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_in_addresses() {
        assert_eq!(escaped("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }

    #[test]
    fn a_headline_is_a_row_of_its_own_with_the_whole_in_its_title() {
        let mut table = Markup::new();
        said(&mut table, "");
        said(&mut table, "a \"b\" <c>");
        let text = table.into_string();
        let whole = "title=\"a &quot;b&quot; &lt;c&gt;\"";
        assert!(text.starts_with("<tr class=\"said\"><td colspan=\"9\" ") && text.contains(whole), "{text}");
        assert_eq!(text.matches("<tr").count(), 1, "a run without one has no row for it");
    }

    #[test]
    fn names_are_told_once_and_in_order() {
        let found = names(["b", "a", "", "b"].into_iter());
        assert_eq!(found.iter().map(|(v, _)| v.as_str()).collect::<Vec<_>>(), ["", "a", "b"]);
    }
}
