//! A run in progress: verdicts so far, how intervals narrowed, what doesn't count.

use vtax_store::record::Validity;
use vtax_store::{Journal, RunDir};

use crate::ReportError;
use crate::chapters::chapters;
use crate::data::RunData;
use crate::html::parts::{badge, close_table, open_table, scrolling};
use crate::judged::narrowing as steps;
use crate::markup::Markup;
use crate::plot::narrowing::{Narrowing, narrowing};
use crate::rows::{self, Row};
use crate::summarise;
use crate::words::invalid;

/// Most comparisons shown: more are no longer taken in while a run goes on.
const MOST_ROWS: usize = 48;
/// Most trials shown that don't count, the newest.
const MOST_TRIALS: usize = 30;
/// Most notes shown, the newest.
const MOST_NOTES: usize = 30;

/// A run that is read on while it is written.
#[derive(Debug)]
pub struct Progress {
    run: RunDir,
    data: RunData,
    journal: Journal,
}

impl Progress {
    /// Reads what there is.
    ///
    /// # Errors
    ///
    /// [`ReportError::Store`] where plan, provenance or journal can't be read.
    pub fn read(run: &RunDir) -> Result<Self, ReportError> {
        let mut progress = Self { run: run.clone(), data: RunData::begin(run)?, journal: run.journal()? };
        progress.take_new()?;
        Ok(progress)
    }

    /// Reads what came since.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn catch_up(&mut self) -> Result<(), ReportError> {
        if self.journal.go_on()? {
            return self.take_new();
        }
        *self = Self::read(&self.run)?;
        Ok(())
    }

    fn take_new(&mut self) -> Result<(), ReportError> {
        for entry in self.journal.by_ref() {
            self.data.take(entry?);
        }
        Ok(())
    }

    /// The part of a page that changes with each trial.
    #[must_use]
    pub fn markup(&self) -> Markup {
        let summary = summarise::summary(&self.data, &chapters());
        let rows = rows::rows(&self.data, &summary);
        let compared = |row: &&Row| row.primary && row.comparison.is_some();
        let shown: Vec<&Row> = rows.iter().filter(compared).take(MOST_ROWS).collect();
        let mut m = Markup::new();
        m.element("h2", &[], if self.data.complete { "Verdicts" } else { "Verdicts so far" });
        m.element("p", &[("class", "headline")], &summary.headline);
        if !shown.is_empty() {
            m.add(&verdicts(&shown));
        }
        m.add(&self.narrowed(&shown)).add(&self.left_out());
        let notes: Vec<&String> = summary.notes.iter().rev().take(MOST_NOTES).collect();
        if !notes.is_empty() {
            m.open("aside", &[("class", "notes")]).element("h3", &[], "Notes").open("ul", &[]);
            for note in notes.iter().rev() {
                m.element("li", &[], note);
            }
            m.close("ul").close("aside");
        }
        m
    }

    /// How each interval narrowed, round by round.
    fn narrowed(&self, rows: &[&Row]) -> Markup {
        let repeat = &self.data.plan.repeat;
        let mut panels = Markup::new();
        for row in rows {
            let Some(comparison) = &row.comparison else { continue };
            let found = steps(&self.data, comparison);
            if found.len() < 2 {
                continue;
            }
            let title = format!("{}, {}", row.environment, row.label);
            panels.add(&narrowing(
                &found,
                Narrowing {
                    title: &title,
                    position: row.position,
                    margin: self.data.plan.margin.0,
                    until: (repeat.max > repeat.min).then_some(repeat.until.0),
                },
            ));
        }
        let mut m = Markup::new();
        if !panels.is_empty() {
            m.open("figure", &[]);
            m.element("figcaption", &[], "How each tax and its interval settled, round by round");
            m.open("div", &[("class", "grid")]).add(&panels).close("div").close("figure");
        }
        m
    }

    /// Trials that don't count, with what kept them from it.
    fn left_out(&self) -> Markup {
        let trials = &self.data.trials;
        let valid = trials.iter().filter(|t| t.validity == Validity::Valid).count();
        let mut m = Markup::new();
        m.element("h2", &[], "Trials");
        m.element("p", &[], &format!("{valid} of {} trials count.", trials.len()));
        if valid == trials.len() {
            return m;
        }
        let columns = [("Trial", true), ("Cell", false), ("Measure", false), ("Why it doesn't count", false)];
        let mut table = open_table("stacked", &columns);
        let invalid_ones = trials.iter().rev().filter_map(|t| Some((t, invalid(&t.validity)?)));
        for (trial, why) in invalid_ones.take(MOST_TRIALS) {
            table.open("tr", &[("class", "invalid")]);
            table.element("th", &[("scope", "row"), ("class", "n")], &format!("{:03}", trial.index));
            for text in [&trial.cell, &trial.measure, &why] {
                table.element("td", &[], text);
            }
            table.close("tr");
        }
        close_table(&mut table);
        m.add(&scrolling(&table));
        m
    }
}

fn verdicts(rows: &[&Row]) -> Markup {
    let columns = [
        ("Environment", false),
        ("Figure", false),
        ("Found", true),
        ("Tax", true),
        ("95 %", true),
        ("Rounds", true),
        ("Verdict", false),
    ];
    let mut table = open_table("stacked", &columns);
    for row in rows {
        let Some(c) = &row.comparison else { continue };
        let name = if row.group.is_empty() { String::new() } else { format!("{}: ", row.group) };
        let figure = format!("{} [{}]", row.label, row.measure);
        table.open("tr", &[]).element("th", &[("scope", "row")], &format!("{name}{}", row.environment));
        table.element("td", &[], &figure);
        let rounds = c.rounds.map_or_else(String::new, |n| n.to_string());
        for text in [row.value_text(), row.tax_text(), row.tax_interval_text(), rounds] {
            table.element("td", &[("class", "n")], &text);
        }
        table.open("td", &[]).add(&badge(c.verdict)).text(" ").prose(&c.reason).close("td").close("tr");
    }
    close_table(&mut table);
    scrolling(&table)
}
