//! Which trial comes next. Pure: the same plan, seed and finished trials give the same answer, so
//! a resumed run goes on exactly where an uninterrupted one would have.
//!
//! Trials of one measure come in rounds. A round holds one valid trial of each cell, in an order drawn
//! anew for each round (randomised complete blocks) or for every other one, the next running backwards
//! (ABBA): slow drifts of the machine hit every environment alike instead of the one that happened to
//! run last. A trial that doesn't count is made again at the end of its round. A measure that needs
//! the capacity found by another comes after it, because measures keep the plan's order.
//!
//! Where trials are duets, a round of a measure with a course over time holds a pair for each
//! candidate: itself and its baseline at the same time. Such a baseline has no trials of its own.
//!
//! First every measure gets its `repeat.min` valid trials per cell; then rounds are added for the
//! cells whose comparison isn't known well enough yet, until `repeat.max` or the budget. The baseline goes on as
//! long as one of them does. A round that was begun is finished; then the most urgent measure has one, and of equals
//! the one with the fewest.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use vtax_plan::model::{Measure, Plan, TrialOrder};
use vtax_store::record::{InvalidReason, Validity};

/// Invalid trials of one cell and measure that are repeated before vtax gives up on it, at least: on a busy machine
/// as many don't count as do.
const SPARE_ATTEMPTS: u32 = 3;
/// Trials that were disturbed are made again this many times as often, where time is left.
const PATIENCE: u32 = 3;
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
    /// Round it belongs to, from 0.
    pub round: u32,
    /// The baseline's index into [`Plan::cells`], where both are measured at the same time.
    pub partner: Option<usize>,
}

/// Whether there is time for another trial (`repeat.budget`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeBudget {
    /// There is: extra rounds are made, and what was disturbed is made again and again.
    Open,
    /// There isn't: only the minimum is made good.
    Spent,
}

/// The trials that a cell and measure still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// Index into [`Plan::cells`].
    pub cell: usize,
    /// Index into [`Plan::measures`].
    pub measure: usize,
    /// How often it has to be measured.
    pub times: u32,
    /// Trials that come of it: two each time where the baseline is measured together with it.
    pub trials: u32,
}

/// How far one cell and measure has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    attempts: u32,
    valid: u32,
    disturbed: u32,
    overloaded: u32,
    /// Whether the last one was disturbed.
    just_disturbed: bool,
    /// Trials in a row that never came to be measured.
    failed_in_a_row: u32,
}

/// Whether a trial failed for a reason that another measure of its cell would meet, too.
const fn never_measured(reason: InvalidReason) -> bool {
    use InvalidReason::{ClockWrong, MtuMismatch, ServiceFailed, TestbedFailed};
    matches!(reason, ServiceFailed | TestbedFailed | MtuMismatch | ClockWrong)
}

/// Keeps count of finished trials and says which comes next.
#[derive(Debug)]
pub struct Schedule {
    cells: usize,
    measures: usize,
    min: u32,
    max: u32,
    seed: u64,
    order: TrialOrder,
    /// No trial that doesn't count is made again.
    once: bool,
    /// By measure and cell, as `tallies`: what the cell is measured with.
    sides: Vec<Side>,
    tallies: Vec<Tally>,
}

/// How a cell takes part in a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// By itself.
    Alone,
    /// Together with this cell.
    With(usize),
    /// Only as others' baseline.
    Accompanies,
    /// Not at all: nothing of it can happen there.
    Apart,
}

impl Schedule {
    /// A schedule with nothing done yet.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let (cells, measures) = (plan.cells.len(), plan.measures.len());
        let place = |id: &str| plan.cells.iter().position(|c| c.id == id);
        let baselines: Vec<Option<usize>> =
            plan.cells.iter().map(|c| place(c.baseline.as_deref()?)).collect();
        let side = |cell: usize| match baselines[cell] {
            Some(baseline) => Side::With(baseline),
            None if baselines.contains(&Some(cell)) => Side::Accompanies,
            None => Side::Alone,
        };
        let paired: Vec<Side> = (0..cells).map(side).collect();
        let sides = |m: &Measure| -> Vec<Side> {
            let measured = |cell: usize| plan.is_measured(&plan.cells[cell], m);
            let side = |cell: usize| if plan.is_duet(m) { paired[cell] } else { Side::Alone };
            (0..cells).map(|cell| if measured(cell) { side(cell) } else { Side::Apart }).collect()
        };
        Self {
            cells,
            measures,
            min: plan.repeat.min,
            max: plan.repeat.max.max(plan.repeat.min),
            seed: plan.seed,
            order: plan.repeat.order,
            once: false,
            sides: plan.measures.iter().flat_map(sides).collect(),
            tallies: vec![Tally::default(); cells * measures],
        }
    }

    /// From now on no trial that doesn't count is made again.
    pub const fn repeat_nothing(&mut self) {
        self.once = true;
    }

    /// Takes note of a finished trial; of a pair the baseline's first.
    pub fn record(&mut self, cell: usize, measure: usize, validity: &Validity) {
        let reason = match validity {
            Validity::Valid => None,
            Validity::Invalid { reason, .. } => Some(*reason),
        };
        // What disturbed one half of a pair disturbed the pair.
        let partner_was = self.partner(cell, measure).is_some_and(|p| self.tally(p, measure).just_disturbed);
        let by_partner = reason == Some(InvalidReason::PartnerInvalid);
        let tally = &mut self.tallies[measure * self.cells + cell];
        tally.attempts = tally.attempts.saturating_add(1);
        tally.valid += u32::from(reason.is_none());
        tally.overloaded += u32::from(reason == Some(InvalidReason::Overloaded));
        tally.just_disturbed = reason == Some(InvalidReason::Disturbed);
        tally.disturbed += u32::from(tally.just_disturbed || by_partner && partner_was);
        tally.failed_in_a_row = match reason {
            Some(reason) if never_measured(reason) => tally.failed_in_a_row + 1,
            // It tells nothing of this half.
            Some(InvalidReason::PartnerInvalid) => tally.failed_in_a_row,
            Some(_) | None => 0,
        };
    }

    /// Attempts made at a cell and measure.
    #[must_use]
    pub fn attempts(&self, cell: usize, measure: usize) -> u32 {
        self.tally(cell, measure).attempts
    }

    /// Whether a cell has trials of its own of a measure and wasn't given up.
    #[must_use]
    pub fn takes_part(&self, cell: usize, measure: usize) -> bool {
        self.has_trials(cell, measure) && self.attempts(cell, measure) < u32::MAX
    }

    /// Gives a cell up: it gets no more trials of any measure, and no pair with it is made.
    pub fn abandon(&mut self, cell: usize) {
        for measure in 0..self.measures {
            for other in 0..self.cells {
                if other == cell || self.sides[measure * self.cells + other] == Side::With(cell) {
                    self.tallies[measure * self.cells + other].attempts = u32::MAX;
                }
            }
        }
    }

    /// The next trial, or `None` when no more is needed.
    ///
    /// `wide(cell, measure)` says whether the comparison that the cell takes part in is still too
    /// wide, `urgency(measure)` which measure has the next round, the smallest first; both are asked only once every
    /// cell has its minimum.
    pub fn next<U: Ord>(
        &self,
        budget: TimeBudget,
        wide: impl Fn(usize, usize) -> bool,
        urgency: impl Fn(usize) -> U,
    ) -> Option<Slot> {
        let owes = |m: usize| self.in_round(m, |t, cell| self.owes(t, cell, m, budget));
        let required = (0..self.measures).find_map(owes);
        if required.is_some() || budget == TimeBudget::Spent {
            return required;
        }
        let wants = |m: usize, cell: usize, t: Tally| {
            t.valid < self.max
                && t.attempts < self.attempt_limit(self.max)
                && !self.always_overloaded(t)
                && self.has_trials(cell, m)
                && wide(cell, m)
        };
        let wanting = |m: usize| -> Vec<usize> {
            (0..self.cells).filter(|cell| wants(m, *cell, self.tally(*cell, m))).collect()
        };
        let measures: Vec<(usize, Vec<usize>)> =
            (0..self.measures).map(|m| (m, wanting(m))).filter(|(_, cells)| !cells.is_empty()).collect();
        let rounds = |(m, cells): &(usize, Vec<usize>)| -> (u32, u32) {
            let valid = || cells.iter().map(|cell| self.tally(*cell, *m).valid);
            (valid().min().unwrap_or_default(), valid().max().unwrap_or_default())
        };
        let begun = measures.iter().find(|of| rounds(of).0 < rounds(of).1);
        let most_urgent = || measures.iter().min_by_key(|of| (urgency(of.0), rounds(of).0));
        let (measure, cells) = begun.or_else(most_urgent)?;
        self.in_round(*measure, |_, cell| cells.contains(&cell))
    }

    /// What is still owed to the minimum, for estimates.
    #[must_use]
    pub fn owed(&self) -> Vec<Owed> {
        let all = (0..self.measures).flat_map(|m| (0..self.cells).map(move |c| (c, m)));
        let missing = |(cell, measure)| {
            let tally = self.tally(cell, measure);
            let sides = if self.partner(cell, measure).is_some() { 2 } else { 1 };
            let times = self.min.saturating_sub(tally.valid);
            self.owes(tally, cell, measure, TimeBudget::Spent).then_some(Owed {
                cell,
                measure,
                times,
                trials: times * sides,
            })
        };
        all.filter_map(missing).collect()
    }

    /// True where the cell and measure failed from the start, and often enough, in a way that its other measures would meet, too.
    #[must_use]
    pub fn hopeless(&self, cell: usize, measure: usize) -> bool {
        let tally = self.tally(cell, measure);
        tally.valid == 0 && tally.failed_in_a_row >= HOPELESS_AFTER
    }

    fn tally(&self, cell: usize, measure: usize) -> Tally {
        self.tallies[measure * self.cells + cell]
    }

    /// Whether trials are missing to the minimum. While the budget is open, those that were disturbed are made again more often.
    fn owes(&self, tally: Tally, cell: usize, measure: usize, budget: TimeBudget) -> bool {
        let usual = self.attempt_limit(self.min);
        let more = tally.disturbed.min(usual.saturating_mul(PATIENCE - 1));
        let limit = if budget == TimeBudget::Open && !self.once { usual.saturating_add(more) } else { usual };
        let may_count = tally.attempts < limit && !self.always_overloaded(tally);
        tally.valid < self.min && may_count && self.has_trials(cell, measure)
    }

    /// Whether it was asked for more than it could answer as often as the minimum has trials, and no trial counts: the next would end alike.
    const fn always_overloaded(&self, tally: Tally) -> bool {
        tally.valid == 0 && tally.overloaded >= self.min
    }

    fn has_trials(&self, cell: usize, measure: usize) -> bool {
        !matches!(self.sides[measure * self.cells + cell], Side::Accompanies | Side::Apart)
    }

    const fn attempt_limit(&self, trials: u32) -> u32 {
        let spare = if trials > SPARE_ATTEMPTS { trials } else { SPARE_ATTEMPTS };
        trials.saturating_add(if self.once { 0 } else { spare })
    }

    /// Among the cells that want a trial of this measure and are in the earliest round, the first that
    /// had the fewest attempts, in the order of that round.
    fn in_round(&self, measure: usize, wants: impl Fn(Tally, usize) -> bool) -> Option<Slot> {
        let wanting = |cell: usize| Some(self.tally(cell, measure)).filter(|t| wants(*t, cell));
        let (round, attempts) =
            (0..self.cells).filter_map(|c| wanting(c).map(|t| (t.valid, t.attempts))).min()?;
        let first = |c: &usize| wanting(*c).is_some_and(|t| (t.valid, t.attempts) == (round, attempts));
        let cell = self.order(measure, round).into_iter().find(first)?;
        Some(Slot { cell, measure, repetition: attempts, round, partner: self.partner(cell, measure) })
    }

    /// The baseline that is measured at the same time as this cell.
    fn partner(&self, cell: usize, measure: usize) -> Option<usize> {
        match self.sides[measure * self.cells + cell] {
            Side::With(baseline) => Some(baseline),
            Side::Alone | Side::Accompanies | Side::Apart => None,
        }
    }

    fn order(&self, measure: usize, round: u32) -> Vec<usize> {
        let (drawn, backwards) = match self.order {
            TrialOrder::Blocks => (round, false),
            TrialOrder::Abba => (round / 2, round % 2 == 1),
        };
        let mut order: Vec<usize> = (0..self.cells).collect();
        let stream = ((measure as u64) << 32) | u64::from(drawn);
        order.shuffle(&mut StdRng::seed_from_u64(
            self.seed.wrapping_add(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        ));
        if backwards {
            order.reverse();
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    fn schedule(cells: usize, measures: usize, min: u32, max: u32) -> Schedule {
        Schedule {
            cells,
            measures,
            min,
            max,
            seed: 1,
            order: TrialOrder::Blocks,
            once: false,
            sides: vec![Side::Alone; cells * measures],
            tallies: vec![Tally::default(); cells * measures],
        }
    }

    /// No measure is more urgent than one before it.
    fn plan_order(measure: usize) -> usize {
        measure
    }

    fn counting(valid: bool) -> Validity {
        let invalid = || Validity::Invalid { reason: InvalidReason::NoSteadyState, detail: String::new() };
        if valid { Validity::Valid } else { invalid() }
    }

    #[test]
    fn what_was_disturbed_is_made_again_while_there_is_time() {
        let disturbed = Validity::Invalid { reason: InvalidReason::Disturbed, detail: String::new() };
        let mut s = schedule(1, 1, 3, 3);
        let mut made = 0;
        while s.next(TimeBudget::Open, |_, _| true, plan_order).is_some() {
            s.record(0, 0, &disturbed);
            made += 1;
            // Without time it ends where any other failure does.
            assert_eq!(s.next(TimeBudget::Spent, |_, _| true, plan_order).is_some(), made < 6, "{made}");
        }
        assert_eq!(made, 18);
    }

    #[test]
    fn a_fifth_of_trials_disturbed_leaves_no_cell_without_its_minimum() {
        let disturbed = Validity::Invalid { reason: InvalidReason::Disturbed, detail: String::new() };
        for seed in 0..200 {
            let (mut s, mut rng) = (schedule(3, 3, 3, 3), StdRng::seed_from_u64(seed));
            while let Some(slot) = s.next(TimeBudget::Open, |_, _| false, plan_order) {
                let validity = if rng.random_bool(0.2) { &disturbed } else { &Validity::Valid };
                s.record(slot.cell, slot.measure, validity);
            }
            assert!(s.tallies.iter().all(|t| t.valid == 3), "{seed}: {:?}", s.tallies);
        }
    }

    #[test]
    fn a_cell_is_hopeless_after_failures_in_a_row_and_nothing_else() {
        use InvalidReason::{Disturbed, NoSteadyState, PartnerInvalid, ServiceFailed, TestbedFailed};
        let after = |reasons: &[InvalidReason]| {
            let mut s = schedule(1, 1, 3, 3);
            for &reason in reasons {
                s.record(0, 0, &Validity::Invalid { reason, detail: String::new() });
            }
            s.hopeless(0, 0)
        };
        assert!(after(&[ServiceFailed, TestbedFailed]));
        assert!(after(&[Disturbed, ServiceFailed, ServiceFailed]));
        // A host that was busy, and one guest that once didn't boot in time.
        assert!(!after(&[Disturbed, TestbedFailed]));
        assert!(!after(&[ServiceFailed, NoSteadyState, ServiceFailed]));
        assert!(!after(&[PartnerInvalid, ServiceFailed]));
        assert!(after(&[ServiceFailed, PartnerInvalid, ServiceFailed]));
    }

    #[test]
    fn a_pair_is_made_again_as_often_whichever_half_was_disturbed() {
        let invalid = |reason| Validity::Invalid { reason, detail: String::new() };
        let [disturbed, partner] = [InvalidReason::Disturbed, InvalidReason::PartnerInvalid].map(invalid);
        for (baseline, candidate) in [(&disturbed, &partner), (&partner, &disturbed)] {
            let mut s = schedule(2, 1, 3, 3);
            s.sides = vec![Side::Accompanies, Side::With(0)];
            let mut made = 0;
            while let Some(slot) = s.next(TimeBudget::Open, |_, _| true, plan_order) {
                assert_eq!((slot.cell, slot.partner), (1, Some(0)));
                s.record(0, 0, baseline);
                s.record(1, 0, candidate);
                made += 1;
            }
            assert_eq!(made, 18);
        }
    }

    /// Runs the schedule to its end; each trial is valid where `valid` says so.
    fn play(mut s: Schedule, valid: impl Fn(Slot) -> bool, wide: impl Fn(usize, usize) -> bool) -> Vec<Slot> {
        let mut made = Vec::new();
        while let Some(slot) = s.next(TimeBudget::Open, &wide, plan_order) {
            s.record(slot.cell, slot.measure, &counting(valid(slot)));
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
                resumed.record(slot.cell, slot.measure, &Validity::Valid);
            }
            assert_eq!(resumed.next(TimeBudget::Open, |c, _| c != 1, plan_order), Some(whole[cut]));
        }
    }

    #[test]
    fn invalid_trials_are_repeated_but_not_for_ever() {
        let made = play(schedule(2, 1, 3, 3), |s| s.cell == 0 || s.repetition == 5, |_, _| false);
        assert_eq!(made.iter().filter(|s| s.cell == 0).count(), 3);
        assert_eq!(made.iter().filter(|s| s.cell == 1).count(), 6);
        let made = play(schedule(1, 1, 8, 8), |s| s.repetition % 2 == 1, |_, _| false);
        assert_eq!(made.len(), 16, "every other one counts");
        assert_eq!(play(schedule(1, 1, 8, 8), |_| false, |_, _| false).len(), 16);
    }

    #[test]
    fn what_is_overloaded_each_time_is_not_made_again() {
        let overloaded = Validity::Invalid { reason: InvalidReason::Overloaded, detail: String::new() };
        let made = |counts: fn(u32) -> bool| {
            let mut s = schedule(1, 1, 3, 5);
            let mut made = 0;
            while s.next(TimeBudget::Open, |_, _| true, plan_order).is_some() {
                s.record(0, 0, if counts(made) { &Validity::Valid } else { &overloaded });
                made += 1;
            }
            (made, s.owed().len())
        };
        assert_eq!(made(|_| false), (3, 0));
        // Where it is at its limit, what counts tells.
        assert_eq!(made(|trial| trial == 2), (10, 0));
    }

    #[test]
    fn nothing_is_repeated_where_that_is_asked() {
        let mut once = schedule(2, 2, 1, 1);
        once.repeat_nothing();
        let disturbed = Validity::Invalid { reason: InvalidReason::Disturbed, detail: String::new() };
        let mut made = Vec::new();
        while let Some(slot) = once.next(TimeBudget::Open, |_, _| true, plan_order) {
            once.record(slot.cell, slot.measure, &disturbed);
            made.push((slot.measure, slot.cell));
        }
        made.sort_unstable();
        assert_eq!(made, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    }

    #[test]
    fn wide_comparisons_get_more_trials_up_to_the_maximum() {
        let made = play(schedule(2, 2, 2, 6), |_| true, |_, m| m == 1);
        assert_eq!(made.iter().filter(|s| s.measure == 0).count(), 4);
        assert_eq!(made.iter().filter(|s| s.measure == 1).count(), 12);
    }

    #[test]
    fn extra_rounds_are_whole_and_go_to_the_most_urgent_measure_or_in_turns() {
        let mut s = schedule(3, 3, 2, 4);
        for slot in play(schedule(3, 3, 2, 2), |_| true, |_, _| false) {
            s.record(slot.cell, slot.measure, &Validity::Valid);
        }
        let mut made = Vec::new();
        // The last is the most urgent until it has three rounds; the others are equals.
        while let Some(slot) = s.next(TimeBudget::Open, |_, _| true, |m| u32::from(m != 2 || made.len() >= 3))
        {
            s.record(slot.cell, slot.measure, &Validity::Valid);
            made.push(slot);
        }
        let rounds: Vec<usize> = made.chunks(3).map(|round| round[0].measure).collect();
        assert_eq!(rounds, [2, 0, 1, 0, 1, 2]);
        assert!(made.chunks(3).all(|r| r.iter().all(|s| (s.measure, s.round) == (r[0].measure, r[0].round))));
    }

    #[test]
    fn a_spent_budget_still_makes_the_minimum_good() {
        let mut s = schedule(1, 1, 2, 9);
        s.record(0, 0, &Validity::Valid);
        assert!(s.next(TimeBudget::Spent, |_, _| true, plan_order).is_some());
        s.record(0, 0, &Validity::Valid);
        assert_eq!(s.next(TimeBudget::Spent, |_, _| true, plan_order), None);
    }

    #[test]
    fn a_trial_that_does_not_count_is_made_again_in_its_round() {
        let made = play(schedule(3, 1, 4, 4), |s| s.cell != 1 || s.repetition != 1, |_, _| false);
        assert_eq!(made.len(), 13);
        let rounds: Vec<u32> = made.iter().map(|s| s.round).collect();
        assert_eq!(rounds, [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!((made[6].cell, made[6].repetition), (1, 2));
    }

    #[test]
    fn abba_runs_every_other_round_backwards() {
        let mut s = schedule(5, 1, 6, 6);
        s.order = TrialOrder::Abba;
        let cells: Vec<usize> = play(s, |_| true, |_, _| false).iter().map(|s| s.cell).collect();
        for pair in cells.chunks(10) {
            let backwards: Vec<usize> = pair[5..].iter().rev().copied().collect();
            assert_eq!(pair[..5], backwards);
        }
        assert_ne!(cells[..5], cells[10..15], "the order is drawn anew for each pair of rounds");
    }

    fn duet() -> Schedule {
        let mut s = schedule(3, 2, 2, 4);
        // The first measure is a search, made alone; cell 0 is the others' baseline.
        s.sides[3..].copy_from_slice(&[Side::Accompanies, Side::With(0), Side::With(0)]);
        s
    }

    #[test]
    fn duets_hold_a_pair_for_each_candidate() {
        let made = play(duet(), |_| true, |c, m| m == 1 && c == 2);
        let (alone, paired) = made.split_at(6);
        assert!(alone.iter().all(|s| s.measure == 0 && s.partner.is_none()));
        assert!(paired.iter().all(|s| s.measure == 1 && s.partner == Some(0) && s.cell != 0));
        assert_eq!(paired.len(), 2 * 2 + 2, "the wide one gets up to the maximum");
        let owed = duet().owed();
        assert!(owed.iter().all(|owed| (owed.cell, owed.measure) != (0, 1)));
        let trials = |measure| owed.iter().filter(|o| o.measure == measure).map(|o| o.trials).sum::<u32>();
        assert_eq!((trials(0), trials(1)), (3 * 2, 2 * 2 * 2), "a pair is two trials");
    }

    #[test]
    fn without_its_baseline_no_pair_is_made() {
        let mut s = duet();
        s.abandon(0);
        let part: Vec<_> = (0..2).flat_map(|m| (0..3).map(move |c| (c, m))).collect();
        let part: Vec<_> = part.into_iter().filter(|&(c, m)| s.takes_part(c, m)).collect();
        assert_eq!(part, [(1, 0), (2, 0)]);
        assert!(play(s, |_| true, |_, _| true).iter().all(|s| s.measure == 0 && s.cell != 0));
    }

    #[test]
    fn an_abandoned_cell_gets_nothing() {
        let mut s = schedule(2, 2, 2, 2);
        assert!(
            s.takes_part(0, 0) && !duet().takes_part(0, 1),
            "as the others' baseline it has none of its own"
        );
        s.abandon(0);
        assert!(!s.takes_part(0, 1) && s.takes_part(1, 1));
        assert!(play(s, |_| true, |_, _| true).iter().all(|s| s.cell == 1));
    }
}
