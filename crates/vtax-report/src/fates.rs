//! What became of trials. Where many don't count for what the system did in them, those that count may be its better ones.

use vtax_stats::{ALPHA, apart_by_chance};
use vtax_store::record::{InvalidReason, TrialRecord, Validity};
use vtax_store::summary::Comparison;

use crate::data::RunData;
use crate::metric::{LIFECYCLE, parts_of_measure};

/// Reasons that are outcomes: whether a trial has one depends on the system itself, so those that are left may be its better ones.
const OUTCOMES: [(InvalidReason, &str); 6] = [
    (InvalidReason::NoSteadyState, "that never became steady"),
    (InvalidReason::Overloaded, "in which it was overloaded"),
    (InvalidReason::NothingSucceeded, "without a success"),
    (InvalidReason::ServiceFailed, "in which the service failed"),
    (InvalidReason::MeasureFailed, "that could not be measured to the end"),
    (InvalidReason::DataWrong, "with wrong data"),
];

/// From this share of a side's trials on, what was left out for its outcome is told beside the verdict.
const MUCH_LEFT_OUT: f64 = 0.25;

/// What became of the trials of one side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TrialFates {
    /// All that were made.
    pub(crate) made: usize,
    /// Those that count.
    pub(crate) counting: usize,
    /// Those that don't count for one of [`OUTCOMES`].
    lost: [usize; OUTCOMES.len()],
}

impl TrialFates {
    /// Of a cell and measure, in all of these runs.
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a RunData>, cell: &str, measure: &str) -> Self {
        let of = parts_of_measure(measure).0;
        let is_own = |t: &&TrialRecord| t.cell == cell && (of == LIFECYCLE || t.measure == of);
        let mut found = Self::default();
        for trial in runs.flat_map(|data| data.trials.iter()).filter(is_own) {
            let why = kept_away(trial, measure);
            found.made += 1;
            found.counting += usize::from(why.is_none());
            for ((reason, _), lost) in OUTCOMES.iter().zip(&mut found.lost) {
                *lost += usize::from(why == Some(*reason));
            }
        }
        found
    }

    /// The same with the name of what it is told of: the plan's measure where trials were lost as a whole, as they are lost to all of
    /// their tests then and are told once, else the test's.
    pub(crate) fn named<'a, 'm>(
        runs: impl Iterator<Item = &'a RunData> + Clone,
        cell: &str,
        measure: &'m str,
    ) -> (Self, &'m str) {
        let whole = parts_of_measure(measure).0;
        let own = Self::of(runs.clone(), cell, measure);
        (own, if Self::of(runs, cell, whole) == own { whole } else { measure })
    }

    /// Why none of them gave a figure, where none counts.
    pub(crate) fn why_none(&self) -> &'static str {
        if self.made == 0 { "it has no trial" } else { "none of its trials counts" }
    }

    /// Those that don't count for what became of the system in them.
    fn lost(&self) -> usize {
        self.lost.iter().sum()
    }

    /// Whether so many don't count for what became of the system in them that it is told.
    pub(crate) fn is_much_lost(&self) -> bool {
        self.lost() > 0 && self.lost() as f64 >= MUCH_LEFT_OUT * self.made as f64
    }

    /// Whether they are a larger share than of the other side.
    pub(crate) fn loses_larger_share(&self, other: &Self) -> bool {
        self.lost() * other.made > other.lost() * self.made
    }

    /// Whether they are that beyond chance.
    pub(crate) fn loses_more_than(&self, other: &Self) -> bool {
        let of = |side: &Self| (side.lost() as u64, side.made as u64);
        self.loses_larger_share(other) && apart_by_chance(of(self), of(other)) <= ALPHA
    }

    /// A sentence where many don't count for what became of the system in them and others do, else `None`. `whose` is as `of container`.
    pub(crate) fn told(&self, whose: &str) -> Option<String> {
        if self.counting == 0 || !self.is_much_lost() {
            return None;
        }
        let lost = OUTCOMES.iter().zip(self.lost).filter(|(_, n)| *n > 0);
        let reasons: Vec<String> = lost.map(|((_, words), n)| format!("{n} {words}")).collect();
        let (reasons, verb) = (reasons.join(", "), if self.lost() == 1 { "was" } else { "were" });
        Some(format!(
            "Of {} trials {whose}, {reasons} {verb} left out: those that count may be its better ones.",
            self.made
        ))
    }
}

/// Whether a comparison has anything that trials that don't count could have changed.
fn is_known(c: &Comparison) -> bool {
    c.interval.or(c.corrected).is_some() || c.at_least.or(c.at_most).is_some()
}

/// A sentence for each side of which many trials don't count for what became of them, whatever the verdict; empty where none is.
pub(crate) fn left_out_by_outcome(data: &RunData, c: &Comparison) -> String {
    if !is_known(c) {
        return String::new();
    }
    let name = |id: &str| data.cell(id).map_or_else(|| id.to_owned(), |cell| data.environment_label(cell));
    let told = |cell: &str, other: &str| {
        let side = |cell: &str| TrialFates::of(std::iter::once(data), cell, &c.measure);
        let (own, cell_name) = (side(cell), name(cell));
        let Some(said) = own.told(&format!("of {cell_name}")) else { return String::new() };
        let beyond = match own.loses_more_than(&side(other)) {
            true => format!(
                " That is more than of {}, beyond chance, and speaks against {cell_name}.",
                name(other)
            ),
            false => String::new(),
        };
        format!(" {said}{beyond}")
    };
    told(&c.cell, &c.baseline) + &told(&c.baseline, &c.cell)
}

/// What kept a trial from a figure of a measure: why the trial doesn't count, or the test in it that the measure is.
pub(crate) fn kept_away(trial: &TrialRecord, measure: &str) -> Option<InvalidReason> {
    let reason = |validity: &Validity| match validity {
        Validity::Valid => None,
        Validity::Invalid { reason, .. } => Some(*reason),
    };
    let (of, test) = parts_of_measure(measure);
    // What every trial tells is lost with each, whichever measure it was for.
    if of != LIFECYCLE && of != trial.measure {
        return None;
    }
    let of_test = || {
        let own = trial.observations.iter().find(|o| test == Some(o.name.as_str()));
        own.and_then(|own| reason(&own.validity))
    };
    reason(&trial.validity).or_else(of_test)
}
