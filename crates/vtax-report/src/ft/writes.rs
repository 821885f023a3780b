//! Acknowledged writes: what a load of storage wrote while things broke, and what of it was there afterwards.

use vtax_load::storage::ReadBack;
use vtax_store::failover::FailoverLoad;
use vtax_store::record::{TrialRecord, Validity};

use super::failovers::{Environment, Ft, Group};
use super::trial::failover;
use crate::html::parts::{close_table, heading, open_table, scrolling};
use crate::markup::Markup;
use crate::table::{Cell, Table, count, number, text, yes_no};
use crate::text::{first_column, wrap};

/// What became of the writes of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Writes {
    pub(crate) trial: u32,
    pub(crate) measure: String,
    /// Whether the trial counts. What is lost is lost in any case.
    pub(crate) counts: bool,
    /// Reads during the load that found something else than what was acknowledged.
    pub(crate) wrong_reads: u64,
    pub(crate) read_back: ReadBack,
}

/// What a trial found, where its load was one of storage.
pub(super) fn of_trial(record: &TrialRecord) -> Option<Writes> {
    let FailoverLoad::Storage(found) = &failover(record)?.load else { return None };
    Some(Writes {
        trial: record.index,
        measure: record.measure.clone(),
        counts: record.validity == Validity::Valid,
        wrong_reads: found.verified.wrong(),
        read_back: found.read_back.clone()?,
    })
}

/// Records whose acknowledged content was not there, reads during the load included; the metric of one trial. `None` where nothing can
/// be told of it.
pub(super) fn wrong(record: &TrialRecord) -> Option<f64> {
    of_trial(record).and_then(|writes| Sum::of(&[writes]).metric())
}

/// Over trials. A run may hold anything, so nothing overflows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    trials: u64,
    acknowledged: u64,
    unacknowledged: u64,
    read: u64,
    lost: u64,
    stale: u64,
    torn: u64,
    misplaced: u64,
    corrupt: u64,
    unread: u64,
    wrong_reads: u64,
    uncertain: u64,
}

impl Sum {
    fn of(writes: &[Writes]) -> Self {
        writes.iter().fold(Self::default(), |sum, writes| {
            let (back, found) = (&writes.read_back, &writes.read_back.verified);
            Self {
                trials: sum.trials.saturating_add(1),
                acknowledged: sum.acknowledged.saturating_add(back.acknowledged),
                unacknowledged: sum.unacknowledged.saturating_add(back.unacknowledged),
                read: sum.read.saturating_add(found.records),
                lost: sum.lost.saturating_add(found.lost),
                stale: sum.stale.saturating_add(found.stale),
                torn: sum.torn.saturating_add(found.torn),
                misplaced: sum.misplaced.saturating_add(found.misplaced),
                corrupt: sum.corrupt.saturating_add(found.corrupt),
                unread: sum.unread.saturating_add(back.unread),
                wrong_reads: sum.wrong_reads.saturating_add(writes.wrong_reads),
                uncertain: sum.uncertain.saturating_add(found.uncertain),
            }
        })
    }

    /// Everything that is no pass.
    fn wrong(&self) -> u64 {
        let kinds =
            [self.lost, self.stale, self.torn, self.misplaced, self.corrupt, self.unread, self.wrong_reads];
        kinds.into_iter().fold(0, u64::saturating_add)
    }

    /// Whether anything was tried at all.
    fn tells(&self) -> bool {
        self.acknowledged > 0
    }

    /// How much was wrong, unless nothing was tried: then that nothing was wrong says nothing.
    fn metric(&self) -> Option<f64> {
        (self.tells() || self.wrong() > 0).then(|| self.wrong() as f64)
    }

    /// Whether all is as it was acknowledged; `None` where nothing was.
    fn passed(&self) -> Option<bool> {
        self.tells().then(|| self.wrong() == 0)
    }

    /// What it comes to.
    fn verdict(&self) -> &'static str {
        match self.passed() {
            None => "can't tell",
            Some(true) => "passed",
            Some(false) => "failed",
        }
    }

    /// The kinds of what was wrong that there were, in words.
    fn kinds(&self) -> String {
        let kinds = [
            (self.lost, "lost"),
            (self.stale, "stale"),
            (self.torn, "torn"),
            (self.misplaced, "misplaced"),
            (self.corrupt, "corrupt"),
            (self.unread, "not readable"),
            (self.wrong_reads, "read wrong under the load"),
        ];
        let there: Vec<String> =
            kinds.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
        there.join(", ")
    }
}

/// Of each row its label, what it is, and its value.
type Row = (&'static str, &'static str, fn(&Sum) -> u64);

const ROWS: [Row; 11] = [
    ("Writes acknowledged", "Writes of the load that were answered with success.", |s| s.acknowledged),
    (
        "Writes without an acknowledgement",
        "Writes that failed or had no answer: what they wrote may be there or not.",
        |s| s.unacknowledged,
    ),
    (
        "Records read back",
        "Once the load was over. A record counts once, however often it was written.",
        |s| s.read,
    ),
    ("Lost", "Holds zeros where something was acknowledged.", |s| s.lost),
    ("Stale", "Holds a content older than the one acknowledged last.", |s| s.stale),
    ("Torn", "Holds parts of different contents.", |s| s.torn),
    ("Misplaced", "Holds what belongs elsewhere.", |s| s.misplaced),
    ("Corrupt", "Is damaged.", |s| s.corrupt),
    ("Not readable", "Could not be read until the time for it was over.", |s| s.unread),
    (
        "Read wrong under the load",
        "Reads during the load that found something else than what was acknowledged last.",
        |s| s.wrong_reads,
    ),
    (
        "Uncertain",
        "Was written last without an acknowledgement, or after a write that nobody answered and that may come late: what it holds proves nothing.",
        |s| s.uncertain,
    ),
];

/// What became of the acknowledged writes, by environment; of those that had any.
fn by_environment(group: &Group) -> Vec<(&Environment, Sum)> {
    let environments = group.environments.iter().filter(|e| !e.writes.is_empty());
    environments.map(|e| (e, Sum::of(&e.writes))).collect()
}

/// The part of the page; nothing where no load of storage was held.
pub(super) fn section(group: &Group) -> Markup {
    let mut m = Markup::new();
    let all = by_environment(group);
    if all.is_empty() {
        return m;
    }
    heading(&mut m, &group.prefix, "writes", "Acknowledged writes", &group.label);
    m.open("ul", &[("class", "lead")]);
    for (environment, sum) in &all {
        m.element("li", &[], &sentence(environment, sum));
    }
    m.close("ul");
    let mut columns = vec![("after the faults", false)];
    columns.extend(all.iter().map(|(e, _)| (e.label.as_str(), true)));
    let mut table = open_table("failovers", &columns);
    table.open("tr", &[("class", "sum")]).element(
        "th",
        &[("scope", "row")],
        "Every acknowledged write is there",
    );
    for (_, sum) in &all {
        let class = if sum.verdict() == "failed" { "tag failed" } else { "" };
        table.open("td", &[("class", "n")]).element("b", &[("class", class)], sum.verdict()).close("td");
    }
    table.close("tr");
    for (label, meaning, of) in ROWS {
        table.open("tr", &[]).element("th", &[("scope", "row"), ("title", meaning)], label);
        for (_, sum) in &all {
            table.element("td", &[("class", "n")], &of(sum).to_string());
        }
        table.close("tr");
    }
    close_table(&mut table);
    m.add(&scrolling(&table));
    m.fixed("<p class=\"small-print\">The client keeps a log of what was acknowledged, and reads everything back over a new connection once the load is over. Nothing but 0 in each row from “Lost” to “Read wrong under the load” is a pass. All trials are in it, also those that don’t count for other reasons.</p>");
    m
}

/// What became of an environment's writes.
fn sentence(environment: &Environment, sum: &Sum) -> String {
    let name = &environment.label;
    match (sum.tells(), sum.wrong()) {
        (false, _) => format!("{name}: no write was acknowledged, so nothing can be said."),
        (true, 0) => format!("{name}: every one of {} acknowledged writes is there.", sum.acknowledged),
        (true, _) => format!(
            "{name}: of {} records read back after {} acknowledged writes, {}.",
            sum.read,
            sum.acknowledged,
            sum.kinds()
        ),
    }
}

/// The terminal's lines.
pub(super) fn terminal(group: &Group) -> String {
    let all = by_environment(group);
    if all.is_empty() {
        return String::new();
    }
    let mut out = format!("  {:<28} {:>8} {:>13}\n", "acknowledged writes", "verdict", "acknowledged");
    for (environment, sum) in all {
        let name = first_column("    ", &environment.label, 26);
        out.push_str(&format!("{name} {:>8} {:>13}\n", sum.verdict(), sum.acknowledged));
        if sum.wrong() > 0 {
            out.push_str(&wrap(
                &format!("      of {} records read back: {}", sum.read, sum.kinds()),
                "      ",
            ));
        }
    }
    out
}

/// A line per trial; `None` where no load of storage was held.
pub(super) fn table(ft: &Ft) -> Option<Table> {
    let environments = || ft.groups.iter().flat_map(|g| &g.environments);
    environments().find(|e| !e.writes.is_empty())?;
    let mut table = Table::new(
        "failover_writes",
        "Acknowledged writes",
        "cell,environment,mode,measure,trial,counts,passed,acknowledged,unacknowledged,read_back,lost,stale,torn,misplaced,corrupt,not_readable,read_wrong_under_load,uncertain,read_back_took_s",
    );
    for environment in environments() {
        for writes in &environment.writes {
            let sum = Sum::of(std::slice::from_ref(writes));
            let mut row = vec![
                text(&environment.cell),
                text(&environment.label),
                text(environment.mode.name()),
                text(&writes.measure),
                number(writes.trial),
                yes_no(writes.counts),
                sum.passed().map_or(Cell::Missing, yes_no),
            ];
            row.extend(ROWS.iter().map(|(.., of)| count(of(&sum))));
            row.push(number(writes.read_back.took.as_secs_f64()));
            table.push(row);
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use vtax_load::storage::Verified;

    use super::*;

    fn writes(verified: Verified, unread: u64) -> Writes {
        let read_back = ReadBack { acknowledged: 100, verified, unread, ..ReadBack::default() };
        Writes { trial: 0, measure: "failover".to_owned(), counts: true, wrong_reads: 0, read_back }
    }

    #[test]
    fn nothing_but_zero_is_a_pass() {
        let fine = writes(Verified { records: 50, uncertain: 3, ..Verified::default() }, 0);
        assert_eq!(Sum::of(std::slice::from_ref(&fine)).verdict(), "passed");
        let kinds: [fn(&mut Verified); 5] =
            [|v| v.lost = 1, |v| v.stale = 1, |v| v.torn = 1, |v| v.misplaced = 1, |v| v.corrupt = 1];
        for change in kinds {
            let mut bad = fine.clone();
            change(&mut bad.read_back.verified);
            let sum = Sum::of(&[fine.clone(), bad]);
            assert_eq!((sum.verdict(), sum.wrong(), sum.acknowledged), ("failed", 1, 200));
        }
        let unread = Sum::of(&[writes(Verified::default(), 2)]);
        assert_eq!((unread.verdict(), unread.kinds().as_str()), ("failed", "2 not readable"));
        let wrong = Sum::of(&[Writes { wrong_reads: 1, ..fine }]);
        assert_eq!(wrong.verdict(), "failed");
        assert_eq!(Sum::default().verdict(), "can't tell");
    }

    /// "Can't tell" was a `no` in the table, and a metric of 0 as if all were there.
    #[test]
    fn without_an_acknowledged_write_nothing_is_told() {
        let of = |acknowledged: u64, unread: u64| {
            let mut one = writes(Verified::default(), unread);
            one.read_back.acknowledged = acknowledged;
            let sum = Sum::of(&[one]);
            (sum.passed(), sum.metric())
        };
        assert_eq!(of(0, 0), (None, None));
        assert_eq!(of(1, 0), (Some(true), Some(0.0)));
        assert_eq!(of(1, 2), (Some(false), Some(2.0)));
        // Something is wrong all the same, though no acknowledged write is.
        assert_eq!(of(0, 2), (None, Some(2.0)));
    }
}
