//! The verdict on a claim: its direction, order, shape or knee, never an amount.

use crate::check::points_in;
use crate::combine::{self, Range};
use crate::compared::{Compared, MARGIN, Manner, Open, Side, alone, over};
use crate::figures::{Absent, Experiment};
use crate::model::{Group, Kind, Mode, Point, Study, Test, in_mode};

/// What becomes of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The run shows it.
    Held,
    /// The run shows that it isn't so.
    Contradicted,
    /// The run can't tell.
    CantTell,
    /// It can't be run here, or wasn't.
    CantRun,
}

impl Word {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Contradicted => "contradicted",
            Self::CantTell => "can't tell",
            Self::CantRun => "can't be run here",
        }
    }

    /// The opposite, of what is decided.
    fn opposite(self) -> Self {
        match self {
            Self::Held => Self::Contradicted,
            Self::Contradicted => Self::Held,
            open => open,
        }
    }
}

/// By what a claim is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The study's own figures, as printed.
    Printed,
    /// Our run, as the study judged its own: means of as many trials, without intervals.
    AsPublished,
    /// Our run, with intervals over trials and a margin.
    Properly,
}

/// A claim, judged in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The verdict.
    pub word: Word,
    /// Why, where it isn't plain from the steps.
    pub why: String,
    /// What it was read off.
    pub steps: Vec<Step>,
    /// A virtual machine under software emulation took part.
    pub emulated: bool,
}

/// One comparison that a verdict was read off.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The group it belongs to; empty where there is one only.
    pub group: String,
    /// `VMs over baseline`, or the name of the point.
    pub what: String,
    /// Whether it is a ratio, and not a figure by itself.
    pub is_ratio: bool,
    /// The study's ratio or figure, in base units.
    pub study: Option<f64>,
    /// Ours; `None` where there is none.
    pub ours: Option<Compared>,
}

/// A group on its way to a verdict.
struct Line<'a> {
    test: &'a Test,
    group: &'a Group,
    points: Vec<(&'a Point, Side)>,
    manner: Manner<'a>,
    attempts: Option<f64>,
}

/// Judges a claim's test by an experiment.
#[must_use]
pub fn judge(study: &Study, test: &Test, experiment: &Experiment, mode: Mode, way: Way) -> Judged {
    if way != Way::Printed && !in_mode(&test.modes, mode) {
        return open(Word::CantRun, format!("it takes the {} mode", other(mode).word()));
    }
    let trials = study.experiment(&test.experiment).map_or(1, |plan| plan.trials as usize);
    let all_groups = test.all_groups();
    // The study's own figures are all there, whatever the mode.
    let there = |modes: &[Mode]| way == Way::Printed || in_mode(modes, mode);
    let groups: Vec<(&Group, Vec<&Point>)> = all_groups
        .iter()
        .filter(|group| there(&group.modes))
        .map(|group| (group, points(group, mode, way)))
        .collect();
    let comparisons = groups.iter().map(|(_, points)| comparisons(test.is, points.len())).sum();
    let manner = Manner { way, trials, comparisons, experiment };
    let attempts = test.attempts.as_ref().map(|attempts| *attempts.of(mode));
    let (mut words, mut steps, mut whys) = (Vec::new(), Vec::new(), Vec::new());
    let mut emulated = false;
    for (group, points) in groups {
        emulated |= points.iter().any(|point| takes_emulation(test, group, point, experiment, mode));
        let sides =
            points.into_iter().map(|point| (point, side(study, test, group, point, experiment, mode, way)));
        let line = Line { test, group, points: sides.collect(), manner, attempts };
        let (word, found, why) = line.judge();
        words.push(if group.not { word.opposite() } else { word });
        steps.extend(found);
        whys.extend(why);
    }
    let needed = test.enough.unwrap_or(words.len()).min(words.len());
    let word = if words.is_empty() { Word::CantRun } else { combine::enough(&words, needed) };
    whys.dedup();
    if word == Word::CantTell && whys.is_empty() {
        whys.push("an interval holds both".to_owned());
    }
    Judged { word, why: whys.join("; "), steps, emulated: emulated && way != Way::Printed }
}

/// The points of a group that are judged.
fn points(group: &Group, mode: Mode, way: Way) -> Vec<&Point> {
    match way {
        Way::Printed => group.points.iter().collect(),
        Way::AsPublished | Way::Properly => points_in(group, mode).collect(),
    }
}

fn open(word: Word, why: String) -> Judged {
    Judged { word, why, steps: Vec::new(), emulated: false }
}

fn other(mode: Mode) -> Mode {
    match mode {
        Mode::Quick => Mode::Full,
        Mode::Full => Mode::Quick,
    }
}

/// How many ratios a test of so many points hangs on.
fn comparisons(kind: Kind, points: usize) -> usize {
    match kind {
        // What levels off hangs on its last step, whatever those before it were.
        Kind::Higher | Kind::Small | Kind::Large | Kind::LevelsOff => 1,
        Kind::Equal | Kind::Order | Kind::Knee => points.saturating_sub(1),
        Kind::Rising | Kind::Falling => points,
    }
}

fn takes_emulation(test: &Test, group: &Group, point: &Point, experiment: &Experiment, mode: Mode) -> bool {
    experiment.find(&test.selector(group, point, mode, false)).is_ok_and(|(cell, _)| cell.emulated)
}

/// A point's figures: the study's, and ours.
fn side(
    study: &Study,
    test: &Test,
    group: &Group,
    point: &Point,
    experiment: &Experiment,
    mode: Mode,
    way: Way,
) -> Side {
    let printed = point.study.as_ref().and_then(|place| study.figure(place)).map(|figure| figure.value);
    let ours = match way {
        Way::Printed => Err(Absent::CantRun(String::new())),
        Way::AsPublished | Way::Properly => {
            let selector = test.selector(group, point, mode, way == Way::AsPublished);
            let found = experiment.find(&selector);
            found.map(|(_, figure)| (figure.clone(), selector.divide.unwrap_or(1.0)))
        }
    };
    Side { study: printed, ours }
}

impl Line<'_> {
    /// The word, what it was read off, and why it is open.
    fn judge(&self) -> (Word, Vec<Step>, Option<String>) {
        match self.test.is {
            Kind::Small | Kind::Large => self.by_itself(),
            Kind::Higher => self.by_pairs(&[(0, 1)], |ranges, margin| combine::higher(ranges[0], margin)),
            Kind::Order => {
                let pairs: Vec<_> = self.neighbours().map(|at| (at, at + 1)).collect();
                self.by_pairs(&pairs, |ranges, margin| {
                    combine::all(ranges.iter().map(|range| combine::higher(*range, margin)))
                })
            }
            Kind::Equal => {
                let last = self.points.len().saturating_sub(1);
                let pairs: Vec<_> = (0..last).map(|at| (at, last)).collect();
                self.by_pairs(&pairs, |ranges, margin| {
                    combine::all(ranges.iter().map(|range| combine::equal(*range, margin)))
                })
            }
            Kind::Rising => self.by_course(|range| range),
            Kind::Falling => self.by_course(Range::inverse),
            Kind::LevelsOff => self.by_pairs(&self.steps(), combine::levels_off),
            Kind::Knee => {
                let at = self.points.iter().position(|(point, _)| self.test.at.as_ref() == Some(&point.name));
                let step = at.and_then(|at| at.checked_sub(1));
                self.by_pairs(&self.steps(), |ranges, margin| {
                    step.map_or(Word::CantTell, |step| combine::knee(ranges, step, margin))
                })
            }
        }
    }

    fn neighbours(&self) -> std::ops::Range<usize> {
        0..self.points.len().saturating_sub(1)
    }

    /// Each point over the one before it.
    fn steps(&self) -> Vec<(usize, usize)> {
        self.neighbours().map(|at| (at + 1, at)).collect()
    }

    /// Steps, and the last over the first; `turned` makes a fall a rise.
    fn by_course(&self, turned: impl Fn(Range) -> Range) -> (Word, Vec<Step>, Option<String>) {
        let mut pairs = self.steps();
        pairs.push((self.points.len().saturating_sub(1), 0));
        self.by_pairs(&pairs, |ranges, margin| match ranges.split_last() {
            Some((whole, steps)) => {
                let steps: Vec<Range> = steps.iter().map(|step| turned(*step)).collect();
                combine::rising(&steps, turned(*whole), margin)
            }
            None => Word::CantTell,
        })
    }

    /// By the ratios of pairs of points. One that can't be told leaves the claim open, unless the others contradict it already.
    fn by_pairs(
        &self,
        pairs: &[(usize, usize)],
        word: impl Fn(&[Range], f64) -> Word,
    ) -> (Word, Vec<Step>, Option<String>) {
        let margin = self.test.margin.unwrap_or(MARGIN);
        let (mut ranges, mut steps, mut found_open) = (Vec::new(), Vec::new(), None);
        for (at, (a, b)) in pairs.iter().enumerate() {
            let (Some((a, one)), Some((b, other))) = (self.points.get(*a), self.points.get(*b)) else {
                return (Word::CantTell, steps, Some("a point is missing in this mode".to_owned()));
            };
            let found = over(one, other, self.manner);
            let printed = one.study.zip(other.study).filter(|(_, b)| *b != 0.0).map(|(a, b)| a / b);
            steps.push(Step {
                group: self.group.name.clone(),
                what: format!("{} over {}", a.name, b.name),
                is_ratio: true,
                study: printed,
                ours: found.as_ref().ok().copied(),
            });
            match found {
                Ok(found) => ranges.push(found.range()),
                Err(open) => {
                    ranges.push(Range::unknown());
                    if self.hangs_on(at, pairs.len()) {
                        found_open = Some(graver(found_open, open));
                    }
                }
            }
        }
        let word = word(&ranges, margin);
        match found_open {
            // Whatever this one is, it would be contradicted.
            Some(Open::CantTell(_)) if word == Word::Contradicted => (word, steps, None),
            Some(open) => {
                let (word, why) = told(open);
                (word, steps, Some(why))
            }
            None => (word, steps, None),
        }
    }

    /// Whether the verdict takes that pair of so many: what levels off hangs on its last step alone.
    fn hangs_on(&self, at: usize, pairs: usize) -> bool {
        self.test.is != Kind::LevelsOff || at + 1 == pairs
    }

    /// By one figure and its limit.
    fn by_itself(&self) -> (Word, Vec<Step>, Option<String>) {
        let Some((point, side)) = self.points.first() else {
            return (Word::CantTell, Vec::new(), Some("the point is missing in this mode".to_owned()));
        };
        let found = alone(side, self.attempts, self.manner);
        let step = Step {
            group: self.group.name.clone(),
            what: point.name.clone(),
            is_ratio: false,
            study: side.study,
            ours: found.as_ref().ok().copied(),
        };
        match found {
            Ok(found) => {
                let limit = |limit: Option<f64>| limit.unwrap_or_default();
                let word = match self.test.is {
                    Kind::Large => combine::at_least(found.range(), limit(self.test.least)),
                    _ => combine::at_most(found.range(), limit(self.test.most)),
                };
                (word, vec![step], None)
            }
            Err(open) => {
                let (word, why) = told(open);
                (word, vec![step], Some(why))
            }
        }
    }
}

/// What can't be run says more than what can't be told.
fn graver(before: Option<Open>, now: Open) -> Open {
    match before {
        Some(Open::CantRun(why)) => Open::CantRun(why),
        Some(Open::CantTell(why)) if matches!(now, Open::CantTell(_)) => Open::CantTell(why),
        _ => now,
    }
}

fn told(open: Open) -> (Word, String) {
    match open {
        Open::CantRun(why) => (Word::CantRun, why),
        Open::CantTell(why) => (Word::CantTell, why),
    }
}
