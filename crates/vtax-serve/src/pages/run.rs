//! One run: how it is getting on, what it came to until now, and the ways from it.

use vtax_plan::model::Plan;
use vtax_plan::{is_smoke_test, resuming};
use vtax_report::markup::Markup;
use vtax_report::pages::{close_table, command_line, long, moment, open_table, quantity, tax_range};
use vtax_store::summary::Summary;
use vtax_store::{JournalTail, LiveComparison, LiveReader, LiveState, RunDir, RunStamp};

use super::list::escaped;
use super::shell::choice;
use crate::app::{App, with_cost};
use crate::events::EventId;
use crate::index::{Entry, RunState};
use crate::refusal::Refusal;
use crate::watched::not_too_long;

/// Most figures in a choice.
const FIGURES: usize = 400;

/// The page.
pub(crate) fn page(app: &App, entry: &Entry) -> Result<String, Refusal> {
    let run = app.index.run(entry)?;
    let plan = run.plan()?;
    let state = app.index.state(entry);
    // The journal is looked at before it is drawn: what comes between is told twice, and never lost.
    let course = Course::read(&run)?;
    let progress = app.watched.markup(&app.index, entry)?;
    let id = entry.id.to_string();
    let mut m = Markup::new();
    m.element("p", &[("class", "question")], &plan.description);
    m.element("h1", &[], &format!("{} · {}", plan.name, entry.name())).add(&facts(entry, &run)?);
    m.add(&ways(&id, &run, &plan, state));
    m.add(&now(&id, &plan, state, &course));
    m.open("div", &[("id", "progress"), ("data-from", &format!("/run/{id}/progress"))]);
    m.add(&progress).close("div");
    m.add(&histories(&id, run.summary().ok().as_ref()));
    Ok(with_cost(app, &plan.name, "", &m))
}

/// How far a run is.
struct Course {
    last_event: EventId,
    /// Wall time of its trials in milliseconds, as the plan's budget counts it.
    spent_ms: u64,
    live: LiveState,
}

impl Course {
    fn read(run: &RunDir) -> Result<Self, Refusal> {
        not_too_long(RunStamp::of(run.path()))?;
        let live = LiveReader::new(run.path()).read().unwrap_or_default().pop().unwrap_or_default();
        let mut tail = JournalTail::after(run.path(), 0);
        let mut spent = 0_u64;
        loop {
            let lines = tail.read()?;
            if lines.is_empty() {
                break;
            }
            for line in &lines {
                spent = spent.saturating_add(line.spent().0);
            }
        }
        let last_event = EventId { line: tail.last_line(), moment: live.at_unix_ms };
        Ok(Self { last_event, spent_ms: spent / 1_000_000, live })
    }
}

fn facts(entry: &Entry, run: &RunDir) -> Result<Markup, Refusal> {
    let provenance = run.provenance()?;
    let host = &provenance.host;
    let mut parts = vec![
        moment(provenance.started_unix_ms),
        host.name.clone(),
        format!("{}, {} CPUs, Linux {}", host.cpu_model, host.cpus, host.kernel),
        format!("vtax {}", provenance.vtax_version),
    ];
    let tags = entry.brief.as_ref().map(|brief| brief.tags.join(", ")).unwrap_or_default();
    parts.extend((!tags.is_empty()).then(|| format!("tags {tags}")));
    let mut m = Markup::new();
    m.element("p", &[("class", "facts")], &parts.join(" · "));
    Ok(m)
}

/// Links from the run, and the commands that do the same in a terminal.
fn ways(id: &str, run: &RunDir, plan: &Plan, state: RunState) -> Markup {
    let mut m = Markup::new();
    m.open("p", &[("class", "ways")]);
    m.element("a", &[("href", &format!("/run/{id}/report")), ("data-key", "r")], "Report").text(" · ");
    m.element("a", &[("href", &format!("/run/{id}/summary.json"))], "summary.json").text(" · ");
    m.element("a", &[("href", "/")], "All runs").close("p");
    let path = run.path().display().to_string();
    let words = |words: &[&str]| command_line(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    let mut commands = vec![words(&["vtax", "report", &path])];
    if state == RunState::Incomplete && !is_smoke_test(plan) {
        let (verb, on) = resuming(plan);
        commands.push(words(&["vtax", verb, "--resume", &path]) + on);
    }
    m.open("details", &[]).element("summary", &[], "In a terminal");
    m.element("pre", &[("tabindex", "0")], &commands.join("\n")).close("details");
    m
}

/// How the run is getting on; the script keeps it up to date.
fn now(id: &str, plan: &Plan, state: RunState, course: &Course) -> Markup {
    let (live, budget) = (&course.live, plan.repeat.budget);
    let running = state == RunState::Running;
    let mut m = Markup::new();
    m.open(
        "section",
        &[
            ("id", "live"),
            ("aria-label", "How the run is getting on"),
            ("data-events", &format!("/run/{id}/events?after={}", course.last_event)),
            ("data-spent", &course.spent_ms.to_string()),
            ("data-budget", &budget.map_or_else(String::new, |b| (b.0 / 1_000_000).to_string())),
        ],
    );
    m.open("p", &[("class", "now"), ("role", "status"), ("aria-live", "polite")]);
    m.element("span", &[("class", "state"), ("id", "state"), ("data-state", state.word())], state.word());
    m.text(" ")
        .element("span", &[("id", "phase")], if running { live.phase.as_str() } else { "" })
        .close("p");
    m.open("dl", &[("class", "now")]);
    let trial = live.trial.as_ref().filter(|_| running);
    let trial = trial.map_or_else(String::new, |t| format!("{:03} {} · {}", t.index, t.cell, t.measure));
    let rate = live.rate.filter(|_| running).map_or_else(String::new, |r| quantity(r, "/s"));
    let time = if running && live.owed > 0 { long(live.remaining_ms) } else { String::new() };
    let spent = match budget {
        Some(budget) => format!("{} of {}", long(course.spent_ms), long(budget.0 / 1_000_000)),
        None => format!("{}, without a limit", long(course.spent_ms)),
    };
    let made = if running { trials(live) } else { String::new() };
    for (id, name, value) in [
        ("trial", "Trial", &trial),
        ("rate", "Rate of success", &rate),
        ("trials", "Trials", &made),
        ("left", "Time left at least, about", &time),
        ("spent", "Time spent on trials", &spent),
    ] {
        m.element("dt", &[], name).element("dd", &[("id", id)], value);
    }
    m.close("dl").add(&comparisons(&live.comparisons, running));
    m.open("ul", &[("id", "news"), ("aria-label", "What happened since this page was opened")]).close("ul");
    m.close("section");
    m
}

/// Trials that were made, and how many will be at least. The script says the same.
fn trials(live: &LiveState) -> String {
    match (live.finished, live.owed) {
        // Nothing was told yet.
        (0, 0) => String::new(),
        (made, 0) => format!("{made} made; {}", LiveState::MORE_TRIALS),
        (made, owed) => format!("{made} made, at least {owed} to go"),
    }
}

/// Each comparison: its interval, and how far it is from its end.
fn comparisons(all: &[LiveComparison], running: bool) -> Markup {
    let columns = [
        ("Comparison", false),
        ("Measure", false),
        ("Tax, 95 %", true),
        ("Rounds", true),
        ("To its end", false),
    ];
    let mut table = open_table("stacked", &columns);
    for comparison in all.iter().filter(|_| running) {
        let name = if comparison.test.is_empty() {
            comparison.measure.clone()
        } else {
            format!("{}/{}", comparison.measure, comparison.test)
        };
        let interval = comparison.interval.map_or_else(String::new, tax_range);
        table.open("tr", &[]).element("th", &[("scope", "row")], &comparison.cell).element("td", &[], &name);
        table.element("td", &[("class", "n")], &interval);
        table.element("td", &[("class", "n")], &comparison.rounds.to_string());
        table.element("td", &[], &to_go(comparison)).close("tr");
    }
    let mut m = Markup::new();
    m.open("div", &[("id", "widths")]).add(&close_table(table)).close("div");
    m
}

/// The script says the same.
fn to_go(comparison: &LiveComparison) -> String {
    match (comparison.decided, comparison.further) {
        (true, _) => "no more rounds".to_owned(),
        (false, Some(1)) => "1 more round".to_owned(),
        (false, Some(more)) => format!("{more} more rounds"),
        (false, None) => "not in sight".to_owned(),
    }
}

/// The way to the history of each figure.
fn histories(id: &str, summary: Option<&Summary>) -> Markup {
    let mut m = Markup::new();
    let Some(summary) = summary.filter(|summary| !summary.cells.is_empty()) else { return m };
    let mut cells: Vec<(String, String)> = Vec::new();
    let mut figures: Vec<(String, String)> = Vec::new();
    for cell in &summary.cells {
        let name = (cell.cell.clone(), cell.cell.clone());
        if !cells.contains(&name) {
            cells.push(name);
        }
        for metric in cell.metrics.keys() {
            let figure = (format!("{}/{metric}", cell.measure), format!("{} · {metric}", cell.measure));
            if figures.len() < FIGURES && !figures.contains(&figure) {
                figures.push(figure);
            }
        }
    }
    let of = [("value", "its value"), ("tax", "its tax")].map(|(v, t)| (v.to_owned(), t.to_owned()));
    m.element("h2", &[], "Over runs");
    m.open("form", &[("method", "get"), ("action", "/history"), ("class", "filter")]);
    m.empty("input", &[("type", "hidden"), ("name", "run"), ("value", id)]);
    m.add(&choice("Cell", "cell", &cells, "")).add(&choice("Figure", "figure", &figures, ""));
    m.add(&choice("As", "of", &of, "value"));
    m.element("button", &[("type", "submit")], "Show its history").close("form");
    m
}

/// The way to a history.
pub(crate) fn history_of(id: &str, cell: &str, figure: &str, of: &str) -> String {
    format!("/history?run={id}&cell={}&figure={}&of={of}", escaped(cell), escaped(figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_trials_at_the_same_time_are_spent_once() {
        let dir = tempfile::tempdir().unwrap();
        let options = vtax_fixture::Options { repetitions: 4, seconds: 1, ..Default::default() };
        let run = vtax_fixture::create(&dir.path().join("a"), &options).unwrap();
        let spent = || Course::read(&run).unwrap().spent_ms;
        let before = spent();
        let journal = run.path().join("journal.jsonl");
        let mut text = std::fs::read_to_string(&journal).unwrap();
        let timings = r#"{"testbed":"1s","service":"2s","measure":"4s","teardown":"1s"}"#;
        for (index, partner) in [(90, 91), (91, 90)] {
            let pair = format!(r#""partner":{{"index":{partner},"cell":"b"}},"timings":{timings}"#);
            text += &format!("{{\"event\":\"trial-ended\",\"index\":{index},{pair}}}\n");
        }
        std::fs::write(&journal, text).unwrap();
        assert_eq!(spent() - before, 8_000);
    }

    #[test]
    fn a_smoke_test_is_not_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let options = vtax_fixture::Options { repetitions: 1, seconds: 1, rate: 10, ..Default::default() };
        let run = vtax_fixture::create(&dir.path().join("a"), &options).unwrap();
        let plan = run.plan().unwrap();
        let of = |plan: &Plan, state| ways("1", &run, plan, state).into_string();
        let begin = |verb: &str| format!("vtax {verb} --resume ");
        assert!(of(&plan, RunState::Incomplete).contains(&begin("run")));
        // As a run it would be refused.
        let of_calibration = of(&vtax_plan::against_itself(&plan), RunState::Incomplete);
        assert!(of_calibration.contains(&begin("calibrate")), "{of_calibration}");
        assert!(!of_calibration.contains(&begin("run")), "{of_calibration}");
        for (plan, state) in
            [(&vtax_plan::smoke_test(&plan), RunState::Incomplete), (&plan, RunState::Complete)]
        {
            let text = of(plan, state);
            assert!(text.contains("vtax report ") && !text.contains("--resume"), "{text}");
        }
    }

    #[test]
    fn a_journal_that_is_too_long_to_be_drawn_is_not_read_either() {
        let dir = tempfile::tempdir().unwrap();
        let options = vtax_fixture::Options { repetitions: 4, seconds: 1, ..Default::default() };
        let run = vtax_fixture::create(&dir.path().join("a"), &options).unwrap();
        let journal = std::fs::OpenOptions::new().write(true).open(run.path().join("journal.jsonl")).unwrap();
        // It takes no room: the end is a hole.
        journal.set_len(257 << 20).unwrap();
        let refusal = Course::read(&run).err().unwrap();
        assert!(refusal.text.contains("longer than 256 MiB"), "{refusal:?}");
    }

    #[test]
    fn trials_to_go_are_the_least() {
        let told = |finished, owed| trials(&LiveState { finished, owed, ..LiveState::default() });
        assert_eq!(told(2, 4), "2 made, at least 4 to go");
        assert_eq!(
            told(6, 0),
            "6 made; more trials: until the taxes are known well enough, or in place of disturbed ones"
        );
        assert_eq!(told(0, 0), "");
        assert!(
            include_str!("../assets/page.js").contains(LiveState::MORE_TRIALS),
            "the script says the same"
        );
    }
}
