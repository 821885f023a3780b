//! Two figures as a ratio, in each of the three ways in which a claim is judged.

use vtax_stats::{
    ALPHA, Direction, ENCLOSING, Estimate, Group, MIN_TRIALS, NoRatio, after_looking, estimate,
    estimate_counts, tax, widened,
};

use crate::combine::Range;
use crate::figures::{Absent, Experiment, Figure};
use crate::judge::Way;

/// A ratio within 1 ± this is equality, unless a test says otherwise.
pub const MARGIN: f64 = 0.1;

/// A ratio of two figures, or one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The ratio of typical values.
    pub ratio: f64,
    /// Its interval; `None` where figures are taken as they are.
    pub interval: Option<(f64, f64)>,
}

impl Compared {
    pub(crate) fn range(&self) -> Range {
        match self.interval {
            Some((low, high)) => Range { low, high },
            None => Range::exact(self.ratio),
        }
    }
}

/// Why two figures make no ratio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Open {
    CantRun(String),
    CantTell(String),
}

impl From<Absent> for Open {
    fn from(absent: Absent) -> Self {
        match absent {
            Absent::CantRun(why) => Self::CantRun(why),
            Absent::CantTell(why) => Self::CantTell(why),
        }
    }
}

/// One figure on its way into a comparison.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// The study's, in base units.
    pub(crate) study: Option<f64>,
    /// Ours, of so many together.
    pub(crate) ours: Result<(Figure, f64), Absent>,
}

/// How a comparison is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner<'a> {
    pub(crate) way: Way,
    /// Of the study: how many measurements made a figure.
    pub(crate) trials: usize,
    /// How many comparisons the claim hangs on.
    pub(crate) comparisons: usize,
    pub(crate) experiment: &'a Experiment,
}

/// One figure over another.
pub(crate) fn over(a: &Side, b: &Side, manner: Manner<'_>) -> Result<Compared, Open> {
    match manner.way {
        Way::Printed => {
            let none = || Open::CantRun("the study's figures aren't at hand".to_owned());
            plain(a.study.ok_or_else(none)?, b.study.ok_or_else(none)?)
        }
        Way::AsPublished => plain(mean(a, manner.trials)?, mean(b, manner.trials)?),
        Way::Properly => properly(a, b, manner),
    }
}

/// What a share can be.
const SHARE: (f64, f64) = (0.0, 1.0);

/// A figure by itself; where it counts what came of so many `attempts`, its share of them.
pub(crate) fn alone(side: &Side, attempts: Option<f64>, manner: Manner<'_>) -> Result<Compared, Open> {
    let exact = |ratio: f64| Ok(Compared { ratio, interval: None });
    match manner.way {
        Way::Printed => {
            exact(side.study.ok_or_else(|| Open::CantRun("the study's figure isn't at hand".to_owned()))?)
        }
        Way::AsPublished => {
            let ratio = mean(side, manner.trials)? / attempts.unwrap_or(1.0);
            let is_bound = side.ours.as_ref().is_ok_and(|(figure, _)| figure.at_least);
            Ok(Compared { ratio, interval: is_bound.then_some((ratio, ratio.max(SHARE.1))) })
        }
        Way::Properly => {
            let (figure, divide) = side.ours.clone()?;
            let group = Group { resolution: figure.resolution, ..Group::exact(&figure.values) };
            let found = if attempts.is_some() { estimate_counts(&group) } else { estimate(&group) };
            let found = found.ok_or_else(|| Open::CantTell("a value isn't a number".to_owned()))?;
            let interval = found.interval.ok_or_else(|| too_few(figure.values.len()))?;
            let share = |value: f64| value / divide / attempts.unwrap_or(1.0);
            // Of a lower bound the other end is open.
            let high = if figure.at_least { SHARE.1 } else { share(interval.1) };
            let (center, interval) = (share(found.center), (share(interval.0), high));
            let found = Estimate { center, interval: Some(interval) }.within(SHARE);
            Ok(Compared { ratio: found.center, interval: found.interval })
        }
    }
}

/// Why so many trials have no interval.
fn too_few(trials: usize) -> Open {
    Open::CantTell(match trials {
        few if few < MIN_TRIALS => format!("{few} trials count, and an interval takes {MIN_TRIALS}"),
        all => format!("all {all} trials agree to the digit, maybe by chance: that takes {ENCLOSING}"),
    })
}

/// Two figures as they are.
fn plain(a: f64, b: f64) -> Result<Compared, Open> {
    if a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite() {
        return Ok(Compared { ratio: a / b, interval: None });
    }
    match (a > 0.0, b > 0.0) {
        // As large a ratio as is needed: one side has nothing.
        (true, false) if b == 0.0 => Ok(Compared { ratio: ENDLESS, interval: None }),
        (false, true) if a == 0.0 => Ok(Compared { ratio: 1.0 / ENDLESS, interval: None }),
        (false, false) if a == 0.0 && b == 0.0 => Ok(Compared { ratio: 1.0, interval: None }),
        _ => Err(Open::CantTell("a ratio with such figures means nothing".to_owned())),
    }
}

/// Stands for a ratio to nothing.
pub(crate) const ENDLESS: f64 = 1e12;

/// The mean of as many trials as the study made.
fn mean(side: &Side, trials: usize) -> Result<f64, Open> {
    let (figure, divide) = side.ours.clone()?;
    let values: Vec<f64> = figure.values.iter().take(trials.max(1)).map(|v| v / divide).collect();
    if values.is_empty() {
        return Err(Open::CantTell("no trial counts".to_owned()));
    }
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

/// With an interval over trials, at a level that allows for the other comparisons of the claim.
fn properly(a: &Side, b: &Side, manner: Manner<'_>) -> Result<Compared, Open> {
    let ((a, a_of), (b, b_of)) = (a.ours.clone()?, b.ours.clone()?);
    let scaled =
        |figure: &Figure, of: f64| -> Vec<f64> { figure.for_ratios.iter().map(|v| v / of).collect() };
    let (av, bv) = (scaled(&a, a_of), scaled(&b, b_of));
    // `Lower` makes it the first over the second, whichever way the metric is better.
    let found = tax(&group(&av, &a), &group(&bv, &b), Direction::Lower, manner.experiment.seed);
    let level = ALPHA / manner.comparisons.max(1) as f64;
    let ratio = match found {
        Ok(ratio) => ratio,
        Err(NoRatio::NotPositive) if may_be_more(&a) || may_be_more(&b) => {
            return Err(Open::CantTell("some zeros are only lower bounds".to_owned()));
        }
        Err(NoRatio::NotPositive) => return with_nothing(&av, &bv, level),
        Err(none) => return Err(Open::CantTell(none.to_string())),
    };
    let ratio = match manner.experiment.at_least {
        Some(least) => after_looking(&ratio, least),
        None => ratio,
    };
    let ratio = widened(&ratio, level);
    let (low, high) = ratio.interval.ok_or_else(|| too_few(av.len().min(bv.len())))?;
    // A side of which only a lower bound is known leaves one end open.
    let interval = match (a.at_least, b.at_least) {
        (false, false) => (low, high),
        (true, false) => (low, ENDLESS),
        (false, true) => (1.0 / ENDLESS, high),
        (true, true) => return Err(Open::CantTell("of both sides only a lower bound is known".to_owned())),
    };
    Ok(Compared { ratio: ratio.tax, interval: Some(interval) })
}

fn group<'a>(values: &'a [f64], figure: &'a Figure) -> Group<'a> {
    Group { values, rounds: &figure.rounds, resolution: figure.resolution, censored: figure.at_least }
}

/// Whether a zero among them needn't be one.
fn may_be_more(figure: &Figure) -> bool {
    figure.at_least && figure.values.iter().any(|value| *value <= 0.0)
}

/// Where values are zero: it is told only where one side has nothing in every trial and the other something in every trial, and
/// that isn't chance by a test at `level`.
fn with_nothing(a: &[f64], b: &[f64], level: f64) -> Result<Compared, Open> {
    let (nothing, something) =
        (|v: &[f64]| v.iter().all(|v| *v == 0.0), |v: &[f64]| v.iter().all(|v| *v > 0.0));
    if a.len().min(b.len()) < MIN_TRIALS {
        return Err(too_few(a.len().min(b.len())));
    }
    let ratio = if something(a) && nothing(b) {
        ENDLESS
    } else if nothing(a) && something(b) {
        1.0 / ENDLESS
    } else {
        let why = if nothing(a) && nothing(b) { "no trial found any" } else { "some trials found nothing" };
        return Err(Open::CantTell(format!("{why}, and a ratio with zero means nothing")));
    };
    if apart_by_chance(a.len(), b.len()) > level {
        let trials = a.len() + b.len();
        return Err(Open::CantTell(format!(
            "one side found nothing, which may be chance in {trials} trials"
        )));
    }
    Ok(Compared { ratio, interval: Some((ratio, ratio)) })
}

/// How likely it is at most that all `n` trials of one side find nothing and all `m` of the other something, or the other way
/// round, where both sides are alike.
///
/// Where a trial finds nothing with a chance of p it is pⁿ(1 - p)ᵐ each way, which is largest at p = n / (n + m): the unconditional
/// exact test of Barnard ("Significance tests for 2 x 2 tables", Biometrika 34, 1947).
fn apart_by_chance(n: usize, m: usize) -> f64 {
    let (n, m) = (n as f64, m as f64);
    2.0 * (n / (n + m)).powf(n) * (m / (n + m)).powf(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(values: &[f64]) -> Figure {
        let rounds = (0..).take(values.len()).collect();
        Figure { values: values.to_vec(), for_ratios: values.to_vec(), rounds, ..Figure::default() }
    }

    fn side(figure: Figure) -> Side {
        Side { study: None, ours: Ok((figure, 1.0)) }
    }

    fn manner(way: Way, experiment: &Experiment) -> Manner<'_> {
        Manner { way, trials: 3, comparisons: 1, experiment }
    }

    /// 100 over 30 in steps of 10 is 3.3 by the lower ends of its brackets, and 3.0 by their middles.
    #[test]
    fn ratios_are_of_the_middles_of_brackets_and_means_of_what_was_published() {
        let experiment = Experiment::default();
        let of = |value: f64, middles: [f64; 3]| {
            side(Figure { for_ratios: middles.to_vec(), ..figure(&[value; 3]) })
        };
        let (a, b) = (of(100.0, [104.0, 105.0, 106.0]), of(30.0, [34.9, 35.0, 35.1]));
        let ratio = |way| over(&a, &b, manner(way, &experiment)).unwrap().ratio;
        assert!((ratio(Way::Properly) - 3.0).abs() < 1e-3, "{}", ratio(Way::Properly));
        assert!((ratio(Way::AsPublished) - 100.0 / 30.0).abs() < 1e-9, "{}", ratio(Way::AsPublished));
    }

    #[test]
    fn the_share_of_a_lower_bound_has_an_open_end() {
        let experiment = Experiment::default();
        let interval = |at_least| {
            let side = side(Figure { at_least, ..figure(&[1.0, 2.0, 0.0]) });
            alone(&side, Some(150.0), manner(Way::Properly, &experiment)).unwrap().interval.unwrap()
        };
        let (low, high) = interval(false);
        assert!(high < 0.5, "{high}");
        assert_eq!(interval(true), (low, 1.0));
        let published = |at_least| {
            let side = side(Figure { at_least, ..figure(&[1.0, 2.0, 0.0]) });
            alone(&side, Some(150.0), manner(Way::AsPublished, &experiment)).unwrap()
        };
        assert_eq!(published(false).interval, None);
        assert_eq!(published(true).interval, Some((published(true).ratio, 1.0)));
    }

    /// Nobody was answered, so nobody's request was seen to fail: that is not nothing.
    #[test]
    fn a_zero_that_is_a_lower_bound_is_not_nothing() {
        let experiment = Experiment::default();
        let of = |at_least| {
            let (none, some) =
                (side(Figure { at_least, ..figure(&[0.0; 3]) }), side(figure(&[5.0, 6.0, 7.0])));
            over(&none, &some, manner(Way::Properly, &experiment))
        };
        assert_eq!(of(false).map(|found| found.ratio), Ok(1.0 / ENDLESS));
        assert_eq!(of(true), Err(Open::CantTell("some zeros are only lower bounds".to_owned())));
    }

    /// 2 * 2^-6 = 0.03125, 2 * 2^-8 = 0.0078125, and 2 * (1/3)^3 * (2/3)^6 = 128/19683 of three and six trials.
    #[test]
    fn nothing_against_something_takes_enough_trials() {
        for (n, m, expected) in [(3, 3, 0.03125), (4, 4, 0.007_812_5), (3, 6, 128.0 / 19_683.0)] {
            assert!((apart_by_chance(n, m) - expected).abs() < 1e-12, "{n} {m}");
            assert!((apart_by_chance(m, n) - expected).abs() < 1e-12, "{m} {n}");
        }
        let (some, none) = ([500.0, 510.0, 490.0, 505.0], [0.0; 4]);
        let told = |level| with_nothing(&some[..3], &none[..3], level).map(|found| found.ratio);
        assert_eq!(told(0.05), Ok(ENDLESS));
        // One of two comparisons is judged at 2.5 %, which takes a trial more.
        let chance = Open::CantTell("one side found nothing, which may be chance in 6 trials".to_owned());
        assert_eq!(told(0.025), Err(chance));
        assert_eq!(with_nothing(&none, &some, 0.025).map(|found| found.ratio), Ok(1.0 / ENDLESS));
    }

    /// Nothing against nothing is no ratio, however often it is found.
    #[test]
    fn nothing_against_nothing_can_not_be_told() {
        let none = [0.0; 9];
        let why = "no trial found any, and a ratio with zero means nothing".to_owned();
        assert_eq!(with_nothing(&none, &none, 0.05), Err(Open::CantTell(why)));
        let mixed = with_nothing(&[0.0, 3.0, 0.0], &none, 0.05);
        assert!(matches!(&mixed, Err(Open::CantTell(why)) if why.starts_with("some trials")), "{mixed:?}");
    }
}
