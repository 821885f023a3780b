//! The report of a reproduction as one page.

use vtax_study::{Claim, FoundClaim, Outcome, RuleFound, Study, Way, Word};
use vtax_units::counted;

use super::plot::picture;
use super::words::{asks, concluded, headline, ours, sides, studys, verdict, warnings, way, what};
use super::{StudyReport, StudyRun};
use crate::format::utc;
use crate::html::page::start;
use crate::html::parts::{close_table, details, open_table, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;

pub(super) fn page(report: &StudyReport<'_>) -> String {
    let StudyReport { study, found, .. } = report;
    let mut page = start(None);
    page.element("title", &[], &format!("vtax reproduce: {}", study.name));
    page.fixed("<style>").fixed(include_str!("../html/style.css")).fixed(include_str!("style.css"));
    page.fixed("</style></head><body>");
    page.add(&header(report));
    page.open("main", &[]).element("h1", &[], &headline(found));
    let warnings = warnings(found);
    if !warnings.is_empty() {
        page.fixed("<aside class=\"notes\"><h2>Read this first</h2>");
        list(&mut page, warnings.into_iter()).fixed("</aside>");
    }
    section(&mut page, "claims", "Claims", &claims(report));
    section(&mut page, "changes", "Conclusions that change with the method", &changes(report));
    section(&mut page, "defects", "The study's own defects", &defects(report));
    section(&mut page, "deviations", "Where this differs from the study", &deviations(report));
    section(&mut page, "runs", "Runs", &runs(report.runs));
    section(&mut page, "items", "Every table and figure of the study", &items(study));
    page.fixed("</main></body></html>\n");
    page.into_string()
}

fn header(report: &StudyReport<'_>) -> Markup {
    let source = &report.study.source;
    let mut m = Markup::new();
    m.open("header", &[]).open("p", &[("class", "brand")]);
    m.text("vtax reproduce · ").text(&report.study.name).close("p");
    let year = source.year.map(|year| format!(", {year}")).unwrap_or_default();
    let cited = format!("{}: {}. {}{year}.", source.authors.join(", "), source.title, source.publisher);
    m.element("p", &[("class", "facts")], &cited);
    m.element("p", &[("class", "facts")], &report.study.question);
    let made =
        format!("{} mode · {} · vtax {}", report.found.mode.word(), utc(report.made_unix_ms), report.vtax);
    m.element("p", &[("class", "facts")], &made);
    for host in &report.found.hosts {
        let accelerator = host.accelerator.as_deref().map(|a| format!(" · virtual machines by {a}"));
        let text = format!("{}{}", host.text, accelerator.unwrap_or_default());
        m.element("p", &[("class", "facts")], &text);
    }
    m.close("header");
    m
}

fn section(page: &mut Markup, id: &str, title: &str, body: &Markup) {
    if !body.is_empty() {
        page.open("section", &[("id", id)]).element("h2", &[], title).add(body).close("section");
    }
}

fn list(page: &mut Markup, items: impl Iterator<Item = String>) -> &mut Markup {
    page.open("ul", &[]);
    for item in items {
        page.element("li", &[], &item);
    }
    page.close("ul")
}

/// A word as a mark and a word: never colour alone.
fn mark(word: Word, text: &str) -> Markup {
    let (class, sign) = match word {
        Word::Held => ("badge better", "✓"),
        Word::Contradicted => ("badge worse", "✗"),
        Word::CantTell => ("badge unknown", "?"),
        Word::CantRun => ("badge unknown", "–"),
    };
    let mut m = Markup::new();
    m.open("span", &[("class", class)]);
    m.element("i", &[("aria-hidden", "true")], sign).text(text).close("span");
    m
}

/// Each claim with its verdict, then the study's figures and ours step by step.
fn claims(report: &StudyReport<'_>) -> Markup {
    let columns = [
        ("Claim", false),
        ("Verdict", false),
        ("Compared", false),
        ("Study", true),
        ("Here (interval)", true),
    ];
    let mut table = open_table("stacked told claims", &columns);
    for claim in &report.found.claims {
        rows(&mut table, report.study, claim);
    }
    close_table(&mut table);
    let mut m = Markup::new();
    m.add(&scrolling(&table)).add(&picture(report.study, report.found));
    m.element(
        "p",
        &[("class", "small-print")],
        "Ratios are of the first over the second. An interval of a ratio is of 95 % for a claim as a whole: where a claim hangs on \
         several ratios, each of theirs is wider. That of a share is of 95 % by itself. Amounts are never judged.",
    );
    m
}

fn rows(table: &mut Markup, study: &Study, found: &FoundClaim) {
    let Some(claim) = study.claim(&found.id) else { return };
    let steps = found.properly.steps.as_slice();
    let printed = found.printed.as_ref().map_or(&[][..], |printed| printed.steps.as_slice());
    // The study's figures are there even where none of ours are.
    let shown = if steps.is_empty() { printed } else { steps };
    let lines = shown.len().max(1);
    let none = || "—".to_owned();
    for line in 0..lines {
        table.open("tr", &[]);
        if line == 0 {
            said(table, claim, found, lines);
        }
        let step = shown.get(line);
        table.element("td", &[], &step.map(what).unwrap_or_default());
        table.element("td", &[("class", "n")], &step.map_or_else(none, studys));
        table.element("td", &[("class", "n")], &steps.get(line).map_or_else(none, ours)).close("tr");
    }
}

/// What a claim says and where, and its verdict and why, beside so many lines.
fn said(table: &mut Markup, claim: &Claim, found: &FoundClaim, lines: usize) {
    let lines = lines.to_string();
    table.open("th", &[("scope", "row"), ("rowspan", &lines)]).text(&claim.text);
    let place = format!("{}; {}, figures {}", claim.place, claim.said.word(), claim.figures.words());
    table.element("p", &[("class", "small-print")], &claim.id);
    table.element("p", &[("class", "small-print")], &place);
    if let Some(magnitude) = &claim.magnitude {
        table.element("p", &[("class", "small-print")], &format!("How much: {magnitude}"));
    }
    table.close("th");
    table.open("td", &[("class", "verdict"), ("rowspan", &lines)]);
    table.add(&mark(found.properly.word, &verdict(found)));
    let asked = claim.test.as_ref().map(asks).unwrap_or_default();
    let why = [asked.as_str(), found.properly.why.as_str()].into_iter().filter(|part| !part.is_empty());
    let why = why.collect::<Vec<_>>().join("; ");
    table.element("p", &[("class", "small-print")], &why).close("td");
}

fn changes(report: &StudyReport<'_>) -> Markup {
    let ways = [Way::Printed, Way::AsPublished, Way::Properly];
    let mut m = Markup::new();
    let changes = report.found.changes();
    if changes.is_empty() {
        let compared = report.found.claims.iter().any(|claim| claim.conclusions().len() > 1);
        m.element(
            "p",
            &[],
            match compared {
                true => "Every claim comes to the same in each way that could be taken.",
                false => "No claim could be judged in more than one way.",
            },
        );
        return m;
    }
    let columns = [
        ("Claim", false),
        (way(ways[0]), false),
        (way(ways[1]), false),
        (way(ways[2]), false),
        ("Run", false),
    ];
    let mut table = PlainTable::new("told", &columns);
    for change in &changes {
        let text = report.study.claim(&change.claim.id).map_or("", |claim| claim.text.as_str());
        let run = if change.claim.published_run {
            "a run of its own, made as the study made its"
        } else {
            "the first trials of the same run"
        };
        let words = ways.map(|way| concluded(change.claim, way).to_owned());
        table.push(text, words.into_iter().chain([run.to_owned()]));
    }
    m.add(&scrolling(&table.finish()));
    m.element(
        "p",
        &[("class", "small-print")],
        "Judged as published: means of as many trials as the study made, or of those that count where the run has fewer, without \
         intervals, of what the study looked at. Properly: intervals over trials, a margin, and figures that caches and means \
         don't hide.",
    );
    m
}

fn defects(report: &StudyReport<'_>) -> Markup {
    let mut m = Markup::new();
    let (broken, whole): (Vec<&RuleFound>, Vec<&RuleFound>) =
        report.found.rules.iter().partition(|rule| rule.is_broken());
    if !broken.is_empty() {
        m.element("h3", &[], "Found by rules").add(&scrolling(&rules(&broken)));
    }
    if !report.study.noted.is_empty() {
        m.element("h3", &[], "Found by reading");
        let noted = report.study.noted.iter().map(|noted| format!("{}: {}", noted.place, noted.text));
        list(&mut m, noted);
    }
    if !whole.is_empty() {
        let summary = format!("{} rules that the study keeps", whole.len());
        m.add(&details(&summary, &rules(&whole)));
    }
    if !report.found.rules.is_empty() {
        m.element(
            "p",
            &[("class", "small-print")],
            "Both sides of a rule are in decimal units, whatever the study counts in: 1 KB is 1000 bytes, 1 MB is 1000 KB.",
        );
    }
    m
}

fn rules(all: &[&RuleFound]) -> Markup {
    let columns = [("Rule", false), ("At", false), ("Both sides", false), ("Outcome", false)];
    let mut table = PlainTable::new("stacked told", &columns);
    for rule in all {
        let is_broken = rule.is_broken();
        // Of a broken rule what breaks it.
        let cases = rule.cases.iter().filter(|case| !is_broken || case.outcome != Outcome::Holds);
        for (at, case) in cases.enumerate() {
            let outcome = match &case.outcome {
                Outcome::Holds => "holds".to_owned(),
                Outcome::Broken => "doesn't hold".to_owned(),
                Outcome::Unknown(why) => format!("can't be told: {why}"),
            };
            // Once is enough.
            let text = if at == 0 { rule.text.as_str() } else { "" };
            table.push(text, [case.name.clone(), sides(&case.sides), outcome]);
        }
    }
    table.finish()
}

fn deviations(report: &StudyReport<'_>) -> Markup {
    let mut m = Markup::new();
    for experiment in &report.study.experiments {
        m.element("h3", &[], &experiment.title);
        let source = match experiment.trials_from {
            vtax_study::TrialsFrom::Told => "as it tells",
            vtax_study::TrialsFrom::Inferred => "as far as can be inferred",
        };
        let often = match experiment.trials {
            1 => "once".to_owned(),
            trials => format!("{trials} times"),
        };
        let trials = format!("The study measured each figure {often}, {source}.");
        list(&mut m, experiment.deviations.iter().cloned().chain([trials]));
    }
    if !report.study.source.copy.is_empty() {
        m.element("h3", &[], "The copy at hand").element("p", &[], &report.study.source.copy);
    }
    m
}

fn runs(all: &[StudyRun]) -> Markup {
    let mut m = Markup::new();
    for run in all {
        m.open("p", &[]);
        let kind = if run.as_published { ", as published" } else { "" };
        m.text(&format!("{}{kind}: ", run.experiment));
        m.element("a", &[("href", &format!("{}/report.html", run.directory))], &run.directory).close("p");
        if !run.products.is_empty() {
            m.element("p", &[("class", "small-print")], &run.products.join(" · "));
        }
        if !run.notes.is_empty() {
            let mut notes = Markup::new();
            list(&mut notes, run.notes.iter().cloned());
            m.add(&details(&counted(run.notes.len(), "note"), &notes));
        }
    }
    m
}

/// What the source has, and the study's figures that claims use.
fn items(study: &Study) -> Markup {
    let columns =
        [("Item", false), ("What it shows", false), ("At hand", false), ("Claims, or why none", false)];
    let mut table = PlainTable::new("stacked told", &columns);
    for item in &study.items {
        let claims = item.why.clone().unwrap_or_else(|| item.claims.join(", "));
        table.push(&item.id, [item.title.clone(), item.content.word().to_owned(), claims]);
    }
    let mut m = Markup::new();
    m.add(&details(&format!("{} items", study.items.len()), &table.finish()));
    m.add(&details("The study's figures", &printed(study)));
    m
}

/// Every figure of the study that a claim's point uses, as printed.
fn printed(study: &Study) -> Markup {
    let mut table = PlainTable::new(
        "stacked told",
        &[("Claim", false), ("Point", false), ("Table, row, column", false), ("Figure", true)],
    );
    for claim in &study.claims {
        let Some(test) = &claim.test else { continue };
        for group in test.all_groups() {
            for point in &group.points {
                let Some(place) = &point.study else { continue };
                let Some(found) = study.as_printed(place) else { continue };
                let parts =
                    [&place.table, &place.row, &place.column].map(|part| part.clone().unwrap_or_default());
                let name =
                    [group.name.as_str(), point.name.as_str()].into_iter().filter(|name| !name.is_empty());
                let name = name.collect::<Vec<_>>().join(", ");
                table.push(&claim.id, [name, parts.join(", "), found]);
            }
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::words::amount;

    #[test]
    fn the_studys_figures_are_as_printed() {
        let shown = |name: &str| printed(&vtax_study::open(name).unwrap().study).into_string();
        let links = shown("virtual-links");
        assert!(links.contains("792 MiB") && !links.contains("830.5"), "{links}");
        let servers = shown("virtual-servers");
        assert!(servers.contains("715243.12 KiB/s") && !servers.contains("Gbit/s"), "{servers}");
    }

    #[test]
    fn a_word_has_a_sign_of_its_own() {
        let signs = [Word::Held, Word::Contradicted, Word::CantTell, Word::CantRun]
            .map(|word| mark(word, word.words()).into_string());
        for (at, sign) in signs.iter().enumerate() {
            assert!(signs.iter().skip(at + 1).all(|other| other != sign), "{sign}");
        }
        let step = vtax_study::Step {
            group: "4K".to_owned(),
            what: "a over b".to_owned(),
            is_ratio: true,
            study: Some(1.39),
            ours: None,
        };
        assert_eq!((what(&step).as_str(), ours(&step).as_str()), ("4K: a over b", "—"));
        assert_eq!((studys(&step).as_str(), amount(&step, 1e12).as_str()), ("1.39x", "∞"));
        let figure = |value| vtax_study::Step { is_ratio: false, study: Some(value), ..step.clone() };
        assert_eq!((studys(&figure(0.25)).as_str(), studys(&figure(4788.0)).as_str()), ("25.0 %", "4788"));
    }
}
