//! The loop: which trial, make it, write it down.

mod pair;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vtax_plan::model::{Cell, Measure, Plan};
use vtax_store::record::{InvalidReason, JournalEntry, TrialRecord, Validity, left_out_note};
use vtax_store::{Provenance, RunWriter, TrialWriter};
use vtax_sys::clock::unix_ms;
use vtax_units::Rate;

use crate::error::RunError;
use crate::observe::{Observer, RunEvent};
use crate::offered::{capacity, halved, offered};
use crate::outlook::outlook;
use crate::precision::{Precision, gets_further_rounds};
use crate::provenance::machine_name;
use crate::schedule::{Schedule, Slot, TimeBudget};
use crate::stop::Stop;
use crate::trial_request::TrialRequest;
use crate::trials_outcome::TrialsOutcome;

/// Makes trials. The real one builds testbeds; tests use a fake.
pub trait Executor {
    /// Makes one trial, writing its files as it goes; `None` where it was interrupted.
    ///
    /// Whatever goes wrong inside is part of the record.
    ///
    /// # Errors
    ///
    /// [`RunError::Store`] where the trial's files can't be written.
    fn trial(
        &mut self,
        request: &TrialRequest<'_>,
        files: &mut TrialWriter,
        observer: &dyn Observer,
    ) -> Result<Option<TrialRecord>, RunError>;

    /// Makes two trials at the same time, the baseline's first; otherwise as [`trial`](Self::trial).
    ///
    /// # Errors
    ///
    /// Those of [`trial`](Self::trial).
    fn pair(
        &mut self,
        requests: [&TrialRequest<'_>; 2],
        files: [&mut TrialWriter; 2],
        observer: &dyn Observer,
    ) -> Result<Option<[TrialRecord; 2]>, RunError>;

    /// What the report must mention since it was last asked.
    fn take_notes(&mut self) -> Vec<String>;

    /// Adds what trials have found out about where the numbers come from.
    fn describe(&self, provenance: &mut Provenance);

    /// What virtual machines run on, `kvm` or `tcg`; `None` where there are none.
    fn accelerator(&self) -> Option<String> {
        let mut provenance = Provenance::default();
        self.describe(&mut provenance);
        Some(provenance.accelerator?.kind)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// Nothing is missing.
    Completed,
    /// It was asked to stop; it can be resumed.
    Interrupted,
}

/// One execution of a plan.
pub struct Runner<'a> {
    plan: &'a Plan,
    store: &'a mut RunWriter,
    observer: &'a dyn Observer,
    stop: Stop,
    schedule: Schedule,
    records: Vec<TrialRecord>,
    /// Wall time of trials made by earlier sessions of the same run; counts against the budget.
    spent_before: Duration,
    durations: HashMap<(usize, usize), Duration>,
    /// Name of this machine, for trials whose executor names no other.
    host: String,
    /// Measures of which was said what they will be able to tell.
    foreseen: Vec<usize>,
    /// Estimate of a trial's length before one of its kind was made.
    estimate: &'a dyn Fn(&Cell, &Measure) -> Duration,
}

impl<'a> Runner<'a> {
    /// A runner that goes on from what the journal holds.
    ///
    /// # Errors
    ///
    /// [`RunError::Store`] where the journal can't be read, [`RunError::ForeignTrial`] where it has a trial that
    /// the plan doesn't ask for.
    pub fn new(
        plan: &'a Plan,
        store: &'a mut RunWriter,
        observer: &'a dyn Observer,
        stop: Stop,
        estimate: &'a dyn Fn(&Cell, &Measure) -> Duration,
    ) -> Result<Self, RunError> {
        let mut runner = Self {
            plan,
            schedule: Schedule::new(plan),
            records: Vec::new(),
            spent_before: Duration::ZERO,
            durations: HashMap::new(),
            store,
            observer,
            stop,
            host: machine_name(),
            foreseen: Vec::new(),
            estimate,
        };
        for record in runner.store.run().trials()? {
            let (cell, measure) = runner.place(&record)?;
            // Two trials at the same time take the time of one.
            let at_once = if record.partner.is_some() { 2 } else { 1 };
            runner.spent_before += Duration::from(record.timings.total()) / at_once;
            runner.take(cell, measure, record);
        }
        for entry in runner.store.run().journal()? {
            let JournalEntry::Note { forecast_of: Some(of), .. } = entry? else { continue };
            runner.foreseen.extend(plan.measures.iter().position(|measure| measure.name == of));
        }
        Ok(runner)
    }

    /// Why this run can't go on here: its virtual machines ran on something else than `executor`'s would, and a cell's figures are of one
    /// kind. `None` where it can, lacks nothing, or has given up the cells of those machines.
    #[must_use]
    pub fn other_accelerator(&self, executor: &dyn Executor) -> Option<String> {
        let here = executor.accelerator()?;
        let goes_on = |record: &&TrialRecord| {
            let place = self.place(record);
            place.is_ok_and(|(cell, measure)| self.schedule.takes_part(cell, measure))
        };
        let with_result = self.records.iter().filter(|record| !record.observations.is_empty());
        let before = with_result
            .filter(goes_on)
            .filter_map(|record| record.accelerator.as_deref())
            .find(|of| *of != here)?;
        self.next(Duration::ZERO)?;
        let way_out = match here.as_str() {
            "tcg" => "start a new run, or make KVM usable (`vtax doctor`)",
            _ => "start a new run",
        };
        let (before, here) = (before.to_uppercase(), here.to_uppercase());
        Some(format!(
            "this run's virtual machines ran on {before}, and here they would run on {here}: {way_out}"
        ))
    }

    /// No trial that doesn't count is made again.
    pub const fn repeat_nothing(&mut self) {
        self.schedule.repeat_nothing();
    }

    /// Leaves a cell out, with the reason in the journal and the report.
    ///
    /// # Errors
    ///
    /// [`RunError::Store`] where the journal can't be read or written.
    pub fn leave_out(&mut self, cell: usize, reason: &str) -> Result<(), RunError> {
        self.schedule.abandon(cell);
        let id = &self.plan.cells[cell].id;
        self.note_once(Some(id), &left_out_note(reason))
    }

    /// Leaves out the cells that this host can't build, as `obstacle` has it; that is asked once of each testbed.
    ///
    /// # Errors
    ///
    /// [`RunError::NothingPossible`] where no cell is left, [`RunError::NotAllPossible`] where one isn't, with `strict`;
    /// [`RunError::Store`] where the journal can't be read or written.
    pub fn leave_out_impossible(
        &mut self,
        strict: bool,
        mut obstacle: impl FnMut(&Cell) -> Option<String>,
    ) -> Result<(), RunError> {
        let mut known: Vec<(&Cell, Option<String>)> = Vec::new();
        let mut left_out = Vec::new();
        for (index, cell) in self.plan.cells.iter().enumerate() {
            let met =
                known.iter().find(|(other, _)| is_same_testbed(other, cell)).map(|(_, met)| met.clone());
            let met = met.unwrap_or_else(|| {
                known.push((cell, obstacle(cell)));
                known.last().and_then(|(_, met)| met.clone())
            });
            left_out.extend(met.map(|reason| (index, reason)));
        }
        let all = left_out.len() == self.plan.cells.len();
        if !left_out.is_empty() && (all || strict) {
            let why = self.by_reason(&left_out).join("\n");
            return Err(if all { RunError::NothingPossible(why) } else { RunError::NotAllPossible(why) });
        }
        let mut told = Vec::new();
        for (index, reason) in left_out {
            self.schedule.abandon(index);
            if self.journal_once(Some(&self.plan.cells[index].id), &left_out_note(&reason))? {
                told.push((index, left_out_note(&reason)));
            }
        }
        for text in self.by_reason(&told) {
            self.observer.observe(&RunEvent::Note { text: &text });
        }
        Ok(())
    }

    /// Cells that can't be built, all with the same reason in one line: many may lack the same.
    fn by_reason(&self, left_out: &[(usize, String)]) -> Vec<String> {
        let mut lines: Vec<(&str, String)> = Vec::new();
        for (index, reason) in left_out {
            let id = &self.plan.cells[*index].id;
            match lines.iter_mut().find(|(known, _)| known == reason) {
                Some((_, ids)) => *ids += &format!(", {id}"),
                None => lines.push((reason.as_str(), id.clone())),
            }
        }
        lines.iter().map(|(reason, ids)| format!("{ids}: {reason}")).collect()
    }

    /// Journals something the report must mention, once.
    ///
    /// # Errors
    ///
    /// [`RunError::Store`] where the journal can't be read or written.
    pub fn note(&mut self, text: &str) -> Result<(), RunError> {
        self.note_once(None, text)
    }

    fn note_once(&mut self, about: Option<&str>, note: &str) -> Result<(), RunError> {
        if self.journal_once(about, note)? {
            let text = about.map_or_else(|| note.to_owned(), |cell| format!("{cell}: {note}"));
            self.observer.observe(&RunEvent::Note { text: &text });
        }
        Ok(())
    }

    /// Whether the journal had no such note yet; it has one now.
    fn journal_once(&mut self, about: Option<&str>, note: &str) -> Result<bool, RunError> {
        let mut is_noted = false;
        for entry in self.store.run().journal()? {
            match entry? {
                JournalEntry::Note { cell, text, .. } if cell.as_deref() == about && text == note => {
                    is_noted = true;
                }
                // What was left out and measured after all is left out anew: reports forget the note before.
                JournalEntry::TrialEnded(record)
                    if about == Some(record.cell.as_str()) && record.validity == Validity::Valid =>
                {
                    is_noted = false;
                }
                _ => {}
            }
        }
        if !is_noted {
            self.store.note(about, note)?;
        }
        Ok(!is_noted)
    }

    /// Makes trials until nothing is missing or the run is asked to stop.
    ///
    /// # Errors
    ///
    /// [`RunError::Store`] where the run directory can't be read or written.
    pub fn run(&mut self, executor: &mut dyn Executor) -> Result<RunEnd, RunError> {
        let started = Instant::now();
        let (owed, remaining) = self.remaining();
        let finished = self.records.len() as u32;
        self.observer.observe(&RunEvent::Started { finished, owed, remaining });
        while let Some(slot) = self.next(started.elapsed()) {
            if self.stop.asked() || !self.make(slot, executor)? {
                return Ok(RunEnd::Interrupted);
            }
            self.foresee(slot.measure, started.elapsed())?;
        }
        let mut provenance = self.store.run().provenance()?;
        // Who resumes a run that lacks nothing doesn't move its end.
        if provenance.ended_unix_ms.is_none() || self.records.len() as u32 > finished {
            provenance.ended_unix_ms = Some(unix_ms());
            self.store.write_provenance(&provenance)?;
        }
        self.store.completed()?;
        Ok(RunEnd::Completed)
    }

    fn next(&self, elapsed: Duration) -> Option<Slot> {
        let spent = self.spent_before + elapsed;
        let precision = Precision::new(self.plan, &self.records);
        let wide = |cell: usize, measure: usize| precision.wide(cell, measure);
        let urgency = |measure: usize| precision.urgency(measure);
        let fits_budget = |slot: &Slot| {
            let next = self.duration(slot.cell, slot.measure);
            self.plan.repeat.budget.is_none_or(|budget| spent + next <= Duration::from(budget))
        };
        // Extra trials only where the next one still fits the budget.
        let next = self.schedule.next(TimeBudget::Open, wide, urgency)?;
        if fits_budget(&next) { Some(next) } else { self.schedule.next(TimeBudget::Spent, wide, urgency) }
    }

    /// Makes one trial; false where it was interrupted.
    fn make(&mut self, slot: Slot, executor: &mut dyn Executor) -> Result<bool, RunError> {
        if let Some(cell) = slot.partner {
            let repetition = self.schedule.attempts(cell, slot.measure);
            return self.make_pair(Slot { cell, repetition, ..slot }, slot, executor);
        }
        let plan = self.plan;
        let (cell, measure) = (&plan.cells[slot.cell], &plan.measures[slot.measure]);
        let (owed, remaining) = self.remaining();
        let mut files = self.store.begin_trial(&cell.id, &measure.name, slot.repetition)?;
        self.observer.observe(&RunEvent::TrialStarted {
            index: files.index(),
            cell: &cell.id,
            measure: &measure.name,
            repetition: slot.repetition,
            owed,
            remaining,
        });
        let began = Instant::now();
        let record = match self.request(slot) {
            Ok(request) => executor.trial(&request, &mut files, self.observer)?,
            Err(missing) => Some(self.unmade(slot, &missing)),
        };
        let Some(record) = record else { return Ok(false) };
        self.durations.insert((slot.cell, slot.measure), began.elapsed());
        self.conclude(slot, record, files)?;
        self.finish(executor)?;
        Ok(true)
    }

    /// Writes a trial down.
    fn conclude(&mut self, slot: Slot, mut record: TrialRecord, files: TrialWriter) -> Result<(), RunError> {
        if record.host.is_empty() {
            record.host.clone_from(&self.host);
        }
        let record = self.store.finish_trial(files, record)?;
        self.observer.observe(&RunEvent::TrialEnded { record: &record });
        let validity = record.validity.clone();
        self.take(slot.cell, slot.measure, record);
        let comparisons = Precision::new(self.plan, &self.records).live_comparisons();
        self.observer.observe(&RunEvent::Comparisons { comparisons: &comparisons });
        self.give_up_where_hopeless(slot, &validity)
    }

    /// Says once, after the first rounds of a measure, what the run won't be able to tell.
    fn foresee(&mut self, measure: usize, elapsed: Duration) -> Result<(), RunError> {
        if self.foreseen.contains(&measure) {
            return Ok(());
        }
        let spent = self.spent_before + elapsed + self.owed().1;
        let round = self.further_round();
        let precision = Precision::new(self.plan, &self.records);
        if !precision.has_rounds(measure, 2) {
            return Ok(());
        }
        self.foreseen.push(measure);
        if let Some(text) = outlook(self.plan, &precision, measure, (round, spent)) {
            self.store.forecast(&self.plan.measures[measure].name, text.as_str())?;
            self.observer.observe(&RunEvent::Note { text: &text });
        }
        Ok(())
    }

    /// What one more round takes of all that may still get rounds beyond `repeat.min`.
    fn further_round(&self) -> Duration {
        let (cells, measures) = (&self.plan.cells, &self.plan.measures);
        let every = (0..cells.len()).flat_map(|c| (0..measures.len()).map(move |m| (c, m)));
        let more = every.filter(|&(cell, measure)| {
            self.schedule.takes_part(cell, measure) && gets_further_rounds(&cells[cell], &measures[measure])
        });
        more.map(|(cell, measure)| self.duration(cell, measure)).sum()
    }

    /// Writes down what was learnt beside the figures.
    fn finish(&mut self, executor: &mut dyn Executor) -> Result<(), RunError> {
        for note in executor.take_notes() {
            self.note(&note)?;
        }
        self.describe(executor)
    }

    /// A cell that can't be built, whose service won't start, or whose path doesn't carry full packets,
    /// however often it is tried, won't do better in its other measures.
    fn give_up_where_hopeless(&mut self, slot: Slot, validity: &Validity) -> Result<(), RunError> {
        let Validity::Invalid { detail, .. } = validity else { return Ok(()) };
        if !self.schedule.hopeless(slot.cell, slot.measure) {
            return Ok(());
        }
        let measure = &self.plan.measures[slot.measure].name;
        self.leave_out(
            slot.cell,
            &format!(
                "no trial of `{measure}` counted, so no more trials of any measure are made; the last: {detail}"
            ),
        )
    }

    /// What its trials have come to.
    #[must_use]
    pub fn outcome(&self) -> TrialsOutcome {
        TrialsOutcome::of(self.records.iter().map(|record| &record.validity))
    }

    /// Provenance grows with the first trials of each environment and then stays.
    fn describe(&mut self, executor: &dyn Executor) -> Result<(), RunError> {
        let before = self.store.run().provenance()?;
        let mut after = before.clone();
        executor.describe(&mut after);
        if after != before {
            self.store.write_provenance(&after)?;
        }
        Ok(())
    }

    fn request(&self, slot: Slot) -> Result<TrialRequest<'a>, String> {
        let (cell, measure) = (&self.plan.cells[slot.cell], &self.plan.measures[slot.measure]);
        let offered = match measure.kind.load() {
            Some(load) => {
                let load = if slot.partner.is_some() { halved(load) } else { load };
                Some(offered(self.plan, &self.records, (cell, measure), load)?)
            }
            None => None,
        };
        // Neighbouring trials must not share arrival times: mix the whole slot into the seed.
        let place = (slot.cell as u64) << 40 | (slot.measure as u64) << 20 | u64::from(slot.repetition);
        Ok(TrialRequest {
            cell,
            measure,
            repetition: slot.repetition,
            round: slot.round,
            seed: self.plan.seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            round_seed: self.plan.seed,
            offered,
            capacity_hint: capacity(&self.records, &cell.id, &measure.name).map(Rate),
            tolerance: self.plan.margin,
        })
    }

    fn unmade(&self, slot: Slot, missing: &str) -> TrialRecord {
        TrialRecord {
            round: Some(slot.round),
            validity: Validity::Invalid {
                reason: InvalidReason::PrerequisiteMissing,
                detail: missing.to_owned(),
            },
            ..TrialRecord::begin(
                &self.plan.cells[slot.cell].id,
                &self.plan.measures[slot.measure].name,
                slot.repetition,
            )
        }
    }

    fn take(&mut self, cell: usize, measure: usize, record: TrialRecord) {
        self.schedule.record(cell, measure, &record.validity);
        self.records.push(record);
    }

    fn place(&self, record: &TrialRecord) -> Result<(usize, usize), RunError> {
        let cell = self.plan.cells.iter().position(|c| c.id == record.cell);
        let measure = self.plan.measures.iter().position(|m| m.name == record.measure);
        cell.zip(measure)
            .ok_or_else(|| RunError::ForeignTrial { what: format!("{} / {}", record.cell, record.measure) })
    }

    fn duration(&self, cell: usize, measure: usize) -> Duration {
        self.durations
            .get(&(cell, measure))
            .copied()
            .unwrap_or_else(|| (self.estimate)(&self.plan.cells[cell], &self.plan.measures[measure]))
    }

    /// Trials owed, and the time that they take where each counts.
    fn owed(&self) -> (u32, Duration) {
        self.schedule.owed().into_iter().fold((0, Duration::ZERO), |(trials, time), owed| {
            (trials + owed.trials, time + self.duration(owed.cell, owed.measure) * owed.times)
        })
    }

    /// Trials owed and the time they are likely to take.
    fn remaining(&self) -> (u32, Duration) {
        let (trials, time) = self.owed();
        let valid = self.records.iter().filter(|r| r.validity == Validity::Valid).count();
        (trials, time.mul_f64(attempts_for_one(self.records.len(), valid)))
    }
}

/// Whether one needs of the host what the other needs. Testbeds of one name may differ: in the number of systems, in their
/// network cards, in the switch of their path.
fn is_same_testbed(one: &Cell, other: &Cell) -> bool {
    one.is_mounted() == other.is_mounted()
        && (&one.environment, &one.path, &one.service, &one.systems)
            == (&other.environment, &other.path, &other.service, &other.systems)
}

/// Attempts that a trial that counts takes, judged by those made so far; bounded, as the first ones tell little.
fn attempts_for_one(made: usize, valid: usize) -> f64 {
    ((made + 1) as f64 / (valid + 1) as f64).min(4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_grows_with_the_trials_that_do_not_count() {
        assert_eq!(attempts_for_one(0, 0), 1.0);
        assert_eq!(attempts_for_one(9, 9), 1.0);
        assert_eq!(attempts_for_one(9, 4), 2.0);
        assert_eq!(attempts_for_one(17, 0), 4.0);
    }
}
