//! Which trial comes next. Pure: the same plan, seed and finished trials give the same answer, so
//! a resumed run goes on exactly where an uninterrupted one would have.
//!
//! Trials of one measure come in rounds. A round holds each cell at most once, in an order drawn
//! anew for each round (randomised complete blocks): slow drifts of the machine hit every
//! environment alike instead of the one that happened to run last. A measure that needs the
//! capacity found by another comes after it, because measures keep the plan's order.
//!
//! First every measure gets its `repeat.min` valid trials per cell; then rounds are added for the
//! cells whose comparison is still too wide, until `repeat.max` or the budget.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use vtax_plan::model::Plan;

/// Invalid trials of one cell and measure that are repeated before vtax gives up on it.
const SPARE_ATTEMPTS: u32 = 3;
/// Failures in a row, none valid before, after which trying again is idle.
const HOPELESS_AFTER: u32 = 2;

/// One trial to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Index into [`Plan::cells`].
    pub cell: usize,
    /// Index into [`Plan::measures`].
    pub measure: usize,
    /// Attempt at this cell and measure, from 0.
    pub repetition: u32,
}

/// How far one cell and measure has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    attempts: u32,
    valid: u32,
}

/// Keeps count of finished trials and says which comes next.
#[derive(Debug)]
pub struct Schedule {
    cells: usize,
    measures: usize,
    min: u32,
    max: u32,
    seed: u64,
    tallies: Vec<Tally>,
}

impl Schedule {
    /// A schedule with nothing done yet.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let (cells, measures) = (plan.cells.len(), plan.measures.len());
        Self {
            cells,
            measures,
            min: plan.repeat.min,
            max: plan.repeat.max.max(plan.repeat.min),
            seed: plan.seed,
            tallies: vec![Tally::default(); cells * measures],
        }
    }

    /// Takes note of a finished trial.
    pub fn record(&mut self, cell: usize, measure: usize, valid: bool) {
        let tally = &mut self.tallies[measure * self.cells + cell];
        tally.attempts += 1;
        tally.valid += u32::from(valid);
    }

    /// Gives a cell up: it gets no more trials of any measure.
    pub fn abandon(&mut self, cell: usize) {
        for measure in 0..self.measures {
            self.tallies[measure * self.cells + cell] =
                Tally { attempts: u32::MAX, valid: self.tally(cell, measure).valid };
        }
    }

    /// The next trial, or `None` when no more is needed.
    ///
    /// `wide(cell, measure)` says whether the comparison that the cell takes part in is still too
    /// wide; it is asked only once every cell has its minimum. `more` is false once the budget is
    /// spent: then only the minimum is made good.
    pub fn next(&self, more: bool, wide: impl Fn(usize, usize) -> bool) -> Option<Slot> {
        let required = (0..self.measures).find_map(|m| self.in_round(m, |t, _| self.owes(t)));
        if required.is_some() || !more {
            return required;
        }
        (0..self.measures).find_map(|m| {
            self.in_round(m, |t, cell| {
                t.attempts < self.max && t.attempts < self.attempt_limit(self.max) && wide(cell, m)
            })
        })
    }

    /// Trials still owed to the minimum, for estimates.
    #[must_use]
    pub fn owed(&self) -> Vec<(usize, usize, u32)> {
        let pairs = (0..self.measures).flat_map(|m| (0..self.cells).map(move |c| (c, m)));
        pairs
            .map(|(c, m)| (c, m, self.tally(c, m)))
            .filter(|(_, _, t)| self.owes(*t))
            .map(|(c, m, t)| (c, m, self.min - t.valid))
            .collect()
    }

    /// True where the cell and measure failed from the start, and often enough.
    #[must_use]
    pub fn hopeless(&self, cell: usize, measure: usize) -> bool {
        let tally = self.tally(cell, measure);
        tally.valid == 0 && tally.attempts >= HOPELESS_AFTER
    }

    fn tally(&self, cell: usize, measure: usize) -> Tally {
        self.tallies[measure * self.cells + cell]
    }

    fn owes(&self, tally: Tally) -> bool {
        tally.valid < self.min && tally.attempts < self.attempt_limit(self.min)
    }

    fn attempt_limit(&self, trials: u32) -> u32 {
        trials.saturating_add(SPARE_ATTEMPTS)
    }

    /// Among the cells that want a trial of this measure, the first in the order of the earliest
    /// round any of them is in.
    fn in_round(&self, measure: usize, wants: impl Fn(Tally, usize) -> bool) -> Option<Slot> {
        let wanting =
            |cell: &usize| Some(self.tally(*cell, measure)).filter(|t| wants(*t, *cell)).map(|t| t.attempts);
        let round = (0..self.cells).filter_map(|c| wanting(&c)).min()?;
        let cell = self.order(measure, round).into_iter().find(|c| wanting(c) == Some(round))?;
        Some(Slot { cell, measure, repetition: round })
    }

    fn order(&self, measure: usize, round: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cells).collect();
        let stream = ((measure as u64) << 32) | u64::from(round);
        order.shuffle(&mut StdRng::seed_from_u64(
            self.seed.wrapping_add(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        ));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(cells: usize, measures: usize, min: u32, max: u32) -> Schedule {
        Schedule { cells, measures, min, max, seed: 1, tallies: vec![Tally::default(); cells * measures] }
    }

    /// Runs the schedule to its end; each trial is valid where `valid` says so.
    fn play(mut s: Schedule, valid: impl Fn(Slot) -> bool, wide: impl Fn(usize, usize) -> bool) -> Vec<Slot> {
        let mut made = Vec::new();
        while let Some(slot) = s.next(true, &wide) {
            s.record(slot.cell, slot.measure, valid(slot));
            made.push(slot);
            assert!(made.len() < 10_000, "the schedule does not end");
        }
        made
    }

    #[test]
    fn every_cell_gets_its_minimum_in_rounds() {
        let made = play(schedule(3, 2, 4, 4), |_| true, |_, _| true);
        assert_eq!(made.len(), 3 * 2 * 4);
        for (i, block) in made.chunks(3).enumerate() {
            let mut cells: Vec<usize> = block.iter().map(|s| s.cell).collect();
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2], "round {i} holds each cell once");
            assert!(block.iter().all(|s| s.measure == i / 4 && s.repetition == (i % 4) as u32));
        }
        assert!(made.chunks(3).any(|b| b[0].cell != made[0].cell), "the order changes between rounds");
    }

    #[test]
    fn resuming_anywhere_gives_the_same_order() {
        let whole = play(schedule(4, 2, 3, 5), |_| true, |c, _| c != 1);
        for cut in 0..whole.len() {
            let mut resumed = schedule(4, 2, 3, 5);
            for slot in &whole[..cut] {
                resumed.record(slot.cell, slot.measure, true);
            }
            assert_eq!(resumed.next(true, |c, _| c != 1), Some(whole[cut]));
        }
    }

    #[test]
    fn invalid_trials_are_repeated_but_not_for_ever() {
        let made = play(schedule(2, 1, 3, 3), |s| s.cell == 0 || s.repetition == 5, |_, _| false);
        assert_eq!(made.iter().filter(|s| s.cell == 0).count(), 3);
        assert_eq!(made.iter().filter(|s| s.cell == 1).count(), 6);
    }

    #[test]
    fn wide_comparisons_get_more_trials_up_to_the_maximum() {
        let made = play(schedule(2, 2, 2, 6), |_| true, |_, m| m == 1);
        assert_eq!(made.iter().filter(|s| s.measure == 0).count(), 4);
        assert_eq!(made.iter().filter(|s| s.measure == 1).count(), 12);
    }

    #[test]
    fn a_spent_budget_still_makes_the_minimum_good() {
        let mut s = schedule(1, 1, 2, 9);
        s.record(0, 0, true);
        assert!(s.next(false, |_, _| true).is_some());
        s.record(0, 0, true);
        assert_eq!(s.next(false, |_, _| true), None);
    }

    #[test]
    fn an_abandoned_cell_gets_nothing() {
        let mut s = schedule(2, 2, 2, 2);
        s.abandon(0);
        assert!(play(s, |_| true, |_, _| true).iter().all(|s| s.cell == 1));
    }
}
