//! What a run can tell before it is over, and when it has told enough.

use crate::describe::moments;
use crate::interval::MIN_TRIALS;
use crate::margin::Margin;
use crate::moderate::{moderated, prior, typical_variance};
use crate::multiple::{judge_family, shares, widened};
use crate::ratio::{Bound, Direction, Ratio, after_looking, narrow};
use crate::rng::Rng;
use crate::student::t_quantile;
use crate::uncertainty::{Uncertainty, hidden};
use crate::verdict::{ALPHA, Verdict};

/// Of the chance of a false claim, the share that may be spent on ending a comparison early.
const EARLY: f64 = 0.2;

/// As many looks as the rounds of a plan have that says nothing of them, 3 to 10, don't err more together than one look may
/// (`make soundness`, suite `verdicts`).
const FEW_LOOKS: f64 = 8.0;

/// Comparisons that are judged together, and what they may err.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// How many there are.
    pub members: usize,
    /// The chance of any false claim among them.
    pub alpha: f64,
}

impl Family {
    /// The level at which the strongest of them is called different, whatever the others are: the first step of Holm's and of Hommel's
    /// procedure. Of several a part of what they may err is kept for claims of equality, as [`judge_family`] does.
    fn level_of_strongest(self) -> f64 {
        shares(self.members, self.alpha).0 / self.members.max(1) as f64
    }
}

/// How often a comparison is looked at whose rounds are so many at least, and at most.
fn looks((min, most): (usize, usize)) -> f64 {
    (most.saturating_sub(min) + 1) as f64
}

/// The smallest tax that so many rounds tell from 1 in four runs of five, where ratios scatter with this standard deviation
/// of their logarithm and so many comparisons are read together; `None` below three rounds, or beyond all numbers.
///
/// exp((t₁₋ₐ + t₀.₈) · sd / √n) with a = 4 % / (2 · comparisons), of a single one 2.5 %: the first step of Holm's and of Hommel's
/// procedure. Nothing that comparisons lend each other is counted on.
#[must_use]
pub fn tellable(sd: f64, rounds: usize, comparisons: usize) -> Option<f64> {
    if rounds < MIN_TRIALS || !(sd.is_finite() && sd >= 0.0) {
        return None;
    }
    let df = (rounds - 1) as f64;
    let level = Family { members: comparisons, alpha: ALPHA }.level_of_strongest();
    let errors = t_quantile(1.0 - level / 2.0, df) + t_quantile(0.8, df);
    Some((errors * sd / (rounds as f64).sqrt()).exp()).filter(|t| t.is_finite())
}

/// The standard deviation between rounds of the logarithm of a ratio, from the 95 % interval of so many: Student's, read the other way.
/// `None` below two rounds, or where the interval isn't one of a ratio.
#[must_use]
pub fn scatter_of((low, high): (f64, f64), rounds: usize) -> Option<f64> {
    if rounds < 2 || !(low > 0.0 && high >= low && high.is_finite()) {
        return None;
    }
    let n = rounds as f64;
    Some((high / low).ln() / 2.0 / t_quantile(0.975, n - 1.0) * n.sqrt())
}

/// More rounds than this aren't looked for.
const FAR: usize = 200;

/// Most degrees of freedom that the usual scatter of a metric's comparisons is given beside a comparison's own.
const USUAL: usize = 4;

/// How often the rounds to come are drawn by lot. Two standard errors of a chance of four in five are a tenth then.
const DRAWS: usize = 80;

/// A comparison after its first rounds: the logarithms of its ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoFar<'a> {
    /// Comparisons of the same metric borrow scatter from each other.
    pub metric: &'a str,
    /// One for each round, in any order; which way is better doesn't matter.
    pub logs: &'a [f64],
    /// Relative width within which each may lie unseen, both sides together, as in [`Group`](crate::Group).
    pub resolution: f64,
}

/// Which of these comparisons, all read together with `unknown` others, `rounds` will probably tell to be better or
/// worse: each in four runs of five, where taxes are as they seem.
///
/// The rounds are drawn by lot, many times, and judged as a report does ([`moderated`], [`judge_family`]). Those of which
/// nothing is known yet are taken to be like those that are seen. This is a guess, which no claim hangs on.
#[must_use]
pub fn foreseen(found: &[SoFar<'_>], unknown: usize, rounds: usize, margin: f64, alpha: f64) -> Vec<bool> {
    if rounds < MIN_TRIALS || found.is_empty() {
        return vec![false; found.len()];
    }
    let guesses = guesses(found);
    let mut metrics: Vec<&str> = found.iter().map(|s| s.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let mut rng = Rng::new(1);
    let mut told = vec![0; found.len()];
    for _ in 0..DRAWS {
        let all = guesses.iter().cycle().take(found.len() + unknown);
        let mut drawn: Vec<Ratio> = all.map(|guess| guess.draw(rounds, &mut rng)).collect();
        for metric in &metrics {
            let alike = || found.iter().enumerate().filter(|(_, s)| s.metric == *metric).map(|(at, _)| at);
            if let Some(prior) = prior(&alike().map(|at| drawn[at]).collect::<Vec<Ratio>>()) {
                alike().for_each(|at| drawn[at] = moderated(&drawn[at], &prior));
            }
        }
        for (told, judged) in told.iter_mut().zip(judge_family(&drawn, margin, alpha)) {
            *told += usize::from(matches!(judged.verdict, Verdict::Better | Verdict::Worse));
        }
    }
    told.iter().map(|told| 5 * told >= 4 * DRAWS).collect()
}

/// What a comparison's rounds are drawn from.
struct Guess {
    /// The logarithm of its tax.
    log: f64,
    /// Its variance between rounds, as known as by so many degrees of freedom.
    variance: f64,
    df: usize,
    /// Variance that no number of rounds makes smaller.
    unseen: f64,
}

fn guesses(found: &[SoFar<'_>]) -> Vec<Guess> {
    let of = |own: &SoFar<'_>| {
        let alike: Vec<Ratio> = found.iter().filter(|s| s.metric == own.metric).map(seen).collect();
        let known: usize = alike.iter().map(degrees).sum();
        let (log, variance) = moments(own.logs);
        let df = own.logs.len().saturating_sub(1);
        let borrowed = USUAL.min(known - df);
        let usual = typical_variance(&alike).filter(|_| borrowed > 0).unwrap_or(variance);
        let (b, d) = (borrowed as f64, df as f64);
        let variance = if df + borrowed > 0 { (b * usual + d * variance) / (b + d) } else { f64::INFINITY };
        Guess { log, variance, df: (df + borrowed).max(1), unseen: hidden(own.resolution) }
    };
    found.iter().map(of).collect()
}

/// A comparison as it is seen, without an interval.
fn seen(found: &SoFar<'_>) -> Ratio {
    let (mean, variance) = moments(found.logs);
    Ratio {
        tax: mean.exp(),
        interval: None,
        better: Direction::Lower,
        bound: Bound::Exact,
        detectable: None,
        candidate_trials: found.logs.len(),
        baseline_trials: found.logs.len(),
        rounds: Some(found.logs.len()),
        scatter: (found.logs.len() > 1).then_some(variance),
        uncertainty: None,
    }
}

/// Degrees of freedom of its own scatter.
fn degrees(ratio: &Ratio) -> usize {
    ratio.rounds.map_or(0, |n| n.saturating_sub(1))
}

impl Guess {
    /// The comparison as so many rounds may find it.
    fn draw(&self, rounds: usize, rng: &mut Rng) -> Ratio {
        let variance = self.variance * self.df as f64 / chi_square(self.df, rng);
        let log = self.log + normal(rng) * (variance / rounds as f64).sqrt();
        let seen = seen(&SoFar { metric: "", logs: &[log], resolution: 0.0 });
        let df = rounds - 1;
        let scatter = variance * chi_square(df, rng) / df as f64;
        if log.is_finite() && scatter.is_finite() {
            in_rounds(&seen, (scatter, self.unseen), rounds)
        } else {
            seen
        }
    }
}

/// A number of the standard normal distribution (Box and Muller, Annals of Mathematical Statistics 29, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let (radius, turn) = ((-2.0 * (1.0 - rng.unit()).ln()).sqrt(), rng.unit());
    radius * (std::f64::consts::TAU * turn).cos()
}

/// A number of the chi-square distribution: a sum of squares, or of many degrees of freedom as Wilson and Hilferty
/// approximate it (Proceedings of the National Academy of Sciences 17, 1931).
fn chi_square(df: usize, rng: &mut Rng) -> f64 {
    if df <= 30 {
        return (0..df).map(|_| normal(rng).powi(2)).sum::<f64>().max(f64::MIN_POSITIVE);
    }
    let part = 2.0 / (9.0 * df as f64);
    df as f64 * (1.0 - part + normal(rng) * part.sqrt()).powi(3)
}

/// The comparison with so many rounds that scatter with this variance, beside what rounds don't show.
fn in_rounds(ratio: &Ratio, (variance, unseen): (f64, f64), rounds: usize) -> Ratio {
    let n = rounds as f64;
    let made = Ratio {
        candidate_trials: rounds,
        baseline_trials: rounds,
        rounds: Some(rounds),
        scatter: Some(variance),
        ..*ratio
    };
    made.with(Some(Uncertainty::symmetric(variance / n, n - 1.0, unseen)))
}

/// How many more rounds end this comparison, if it stays what it seems: as narrow as ± `until`, or [`plain`]. `None` where it has
/// no interval made in rounds, where `most` rounds don't end it, or where it has as many.
///
/// `ratio` comes as it was found, `min` is the number of rounds that were made in any case ([`after_looking`]).
#[must_use]
pub fn further(
    ratio: &Ratio,
    (min, most): (usize, usize),
    until: f64,
    margin: f64,
    family: Family,
) -> Option<usize> {
    let (now, variance, unseen) = (ratio.rounds?, ratio.scatter?, ratio.uncertainty?.unseen);
    let ended = |n: usize| {
        let then = after_looking(&in_rounds(ratio, (variance, unseen), n), min);
        narrow(&then, until) || plain(&then, margin, family, (min, most))
    };
    let (mut low, mut high) = (now, most.min(now + FAR));
    if high <= now || !ended(high) {
        return None;
    }
    // With the same scatter an interval only becomes narrower.
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        (low, high) = if ended(middle) { (low, middle) } else { (middle, high) };
    }
    Some(high - now)
}

/// True where a comparison needs no more rounds, as it lies beyond the margin for certain: even at a fifth of the
/// level that the strongest of its family is judged at. `rounds` are how many the plan has at least, and at most.
///
/// Ending where a verdict seems clear is looking more than once. A fifth of what may be wrong is spent on it, and what the
/// rest may err is more than made up for by the width that [`after_looking`](crate::after_looking) adds to
/// comparisons that went on (`make soundness`: families whose rounds end early). That width fades with the rounds, and the looks
/// don't: of more than eight each has as much less to spend (Bonferroni over looks). Equals with a margin of none are then called
/// different in 4 to 5 of 100 comparisons of up to 40 and 200 rounds; with the same level at each look it was 6 to 7, and 11.
#[must_use]
pub fn plain(ratio: &Ratio, margin: f64, family: Family, rounds: (usize, usize)) -> bool {
    let level = EARLY * family.level_of_strongest() * (FEW_LOOKS / looks(rounds)).min(1.0);
    let beyond = |interval| Margin::new(margin).excludes(interval);
    ratio.bound == Bound::Exact && widened(ratio, level).interval.is_some_and(beyond)
}

/// What is left of the chance of a false claim, `alpha`, for the verdicts on comparisons that may have ended early: all of it where
/// looks were few, else without what [`plain`] may spend.
#[must_use]
pub fn left_after_looks(alpha: f64, rounds: (usize, usize)) -> f64 {
    if looks(rounds) > FEW_LOOKS { (1.0 - EARLY) * alpha } else { alpha }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Group;
    use crate::ratio::{Direction, tax};

    #[test]
    fn what_rounds_can_tell_by_hand() {
        // t(0.975, 4) = 2.776445, t(0.8, 4) = 0.940965; 0.1 / sqrt(5) = 0.0447214.
        let alone = tellable(0.1, 5, 1).unwrap();
        assert!((alone.ln() - 3.717_410 * 0.044_721_4).abs() < 1e-5, "{alone}");
        // Two at 2 % each, as a fifth is kept for claims of equality: t(0.99, 4) = 3.746947.
        let of_two = tellable(0.1, 5, 2).unwrap();
        assert!((of_two.ln() - 4.687_912 * 0.044_721_4).abs() < 1e-5, "{of_two}");
        assert!(tellable(0.1, 5, 20) > Some(of_two) && tellable(0.1, 10, 1) < Some(alone));
        assert_eq!(tellable(0.1, 2, 1), None);
        assert_eq!(tellable(f64::NAN, 5, 1), None);
        assert_eq!(tellable(1e9, 3, 60), None);
    }

    #[test]
    fn an_interval_gives_its_scatter_back() {
        // ln 1.16 = 0.148420 = 4.302653 sd / sqrt(3).
        let sd = scatter_of((1.0 / 1.16, 1.16), 3).unwrap();
        assert!((sd - 0.059_747).abs() < 1e-6, "{sd}");
        // At eight rounds: (2.364624 + 0.896030) sd / sqrt(8).
        assert!((tellable(sd, 8, 1).unwrap() - 1.071_3).abs() < 1e-4);
        assert_eq!(scatter_of((0.9, 1.1), 1), None);
        for interval in [(0.0, 1.1), (1.1, 0.9), (0.9, f64::INFINITY)] {
            assert_eq!(scatter_of(interval, 5), None, "{interval:?}");
        }
    }

    fn of<'a>(metric: &'a str, logs: &'a [f64]) -> SoFar<'a> {
        SoFar { metric, logs, resolution: 0.0 }
    }

    #[test]
    fn what_is_foreseen_is_judged_as_a_report_judges() {
        let pairs = [[0.69, 0.71], [0.40, 0.36], [0.06, 0.08], [-0.9, -0.88]];
        let four: Vec<SoFar<'_>> = pairs.iter().map(|p| of("a", p.as_slice())).collect();
        assert_eq!(foreseen(&[], 3, 3, 0.05, ALPHA), [false; 0]);
        assert_eq!(foreseen(&four, 0, 2, 0.05, ALPHA), [false; 4], "two rounds tell nothing");
        assert_eq!(foreseen(&four, 0, 3, 0.05, ALPHA), [true, true, false, true]);
        assert_eq!(foreseen(&four, 0, 60, 0.05, ALPHA), [true; 4]);
        assert_eq!(foreseen(&[of("a", &[0.7])], 0, 30, 0.05, ALPHA), [false], "one round shows no scatter");
        // Of equals none.
        let equal: Vec<SoFar<'_>> = (0..8).map(|_| of("a", &[-0.01, 0.012])).collect();
        assert_eq!(foreseen(&equal, 8, 3, 0.05, ALPHA), [false; 8]);
        // Ten and more lend each other what few rounds don't know.
        let many: Vec<[f64; 2]> = (0..30).map(|i| [0.65 + 0.001 * f64::from(i % 7), 0.73]).collect();
        let told = |metric: &dyn Fn(usize) -> &'static str| {
            let found: Vec<SoFar<'_>> =
                many.iter().enumerate().map(|(i, p)| of(metric(i), p.as_slice())).collect();
            foreseen(&found, 30, 3, 0.05, ALPHA).iter().filter(|told| **told).count()
        };
        let (all, apart) = (told(&|_| "all"), told(&|i| ["a", "b", "c", "d"][i % 4]));
        assert!(all == 30 && apart < 10, "{all} {apart}");
    }

    /// Two brackets of 8 % hide differences that no number of rounds shows.
    #[test]
    fn what_a_resolution_hides_is_not_foreseen() {
        let logs = [0.055, 0.065];
        let with =
            |resolution| foreseen(&[SoFar { metric: "a", logs: &logs, resolution }], 0, 60, 0.05, ALPHA);
        assert_eq!((with(0.0), with(0.08f64.hypot(0.08))), (vec![true], vec![false]));
    }

    /// Six services made 3 to 16 times slower by fault tolerance, as a run of three rounds found them (vtax's own,
    /// plans/ft.yaml): it told all six.
    #[test]
    fn large_taxes_that_scatter_are_foreseen() {
        let native = [2489.3f64, 2488.1];
        let slower =
            [[131.6, 173.7], [271.9, 115.1], [101.6, 425.6], [616.3, 731.1], [465.3, 474.6], [557.4, 643.7]];
        let logs: Vec<[f64; 2]> = slower.map(|s: [f64; 2]| [0, 1].map(|i| (native[i] / s[i]).ln())).to_vec();
        let found: Vec<SoFar<'_>> = logs.iter().map(|l| of("doc", l)).collect();
        let told = foreseen(&found, 0, 3, 0.05, ALPHA).iter().filter(|told| **told).count();
        assert!(told >= 4, "{told}");
    }

    /// Made-up runs of six comparisons, of which two rounds are seen and three are made.
    #[test]
    fn a_guess_is_right_about_as_often_as_it_says() {
        let mut rng = Rng::new(11);
        let (mut yes, mut yes_told, mut no, mut no_told) = (0, 0, 0, 0);
        for _ in 0..60 {
            let sd = 0.02 * 10f64.powf(rng.unit());
            let logs: Vec<[f64; 3]> = (0..6)
                .map(|_| {
                    let (log, sd) = (1.5 * rng.unit(), sd * 2f64.powf(normal(&mut rng) / 2.0));
                    [0; 3].map(|_| log + sd * normal(&mut rng))
                })
                .collect();
            let found: Vec<SoFar<'_>> = logs.iter().map(|l| of("a", &l[..2])).collect();
            let whole = |l: &[f64; 3]| in_rounds(&seen(&of("a", l)), (moments(l).1, 0.0), 3);
            let all: Vec<Ratio> = logs.iter().map(whole).collect();
            let prior = prior(&all).unwrap();
            let all: Vec<Ratio> = all.iter().map(|r| moderated(r, &prior)).collect();
            for (foreseen, judged) in
                foreseen(&found, 0, 3, 0.05, ALPHA).into_iter().zip(judge_family(&all, 0.05, ALPHA))
            {
                let told = usize::from(matches!(judged.verdict, Verdict::Worse | Verdict::Better));
                if foreseen {
                    (yes, yes_told) = (yes + 1, yes_told + told);
                } else {
                    (no, no_told) = (no + 1, no_told + told);
                }
            }
        }
        println!("{yes_told} of {yes} foreseen, {no_told} of {no} not foreseen");
        assert!(10 * yes_told >= 8 * yes && 2 * no_told <= no, "{yes_told} of {yes}, {no_told} of {no}");
    }

    /// So many that are judged together, and nothing else.
    fn of_all(members: usize) -> Family {
        Family { members, alpha: ALPHA }
    }

    /// Half a logarithm with this standard error and four degrees of freedom.
    fn half_with_error(error: f64) -> Ratio {
        let ratio = seen(&of("a", &[0.5, 0.5, 0.5]));
        ratio.with(Some(Uncertainty::symmetric(error * error, 4.0, 0.0)))
    }

    #[test]
    fn the_nearest_end_is_counted_in_rounds() {
        let rounds = [0, 1, 2];
        let base = Group::in_rounds(&[1.0, 1.02, 0.98], &rounds);
        let of = |c: &[f64; 3]| tax(&Group::in_rounds(c, &rounds), &base, Direction::Lower, 1).unwrap();
        let end = |ratio: &Ratio, most| further(ratio, (3, most), 0.01, 0.05, of_all(7));
        let (near, far) = (of(&[1.5, 1.45, 1.6]), of(&[1.05, 1.0, 1.1]));
        let n = end(&near, 10).unwrap();
        assert!((1..10).contains(&n) && end(&far, 3 + n).is_none(), "{n}");
        assert_eq!((end(&near, 3 + n - 1), end(&near, 3 + n)), (None, Some(n)), "the last that is allowed");
        assert_eq!(end(&Ratio { rounds: None, ..near }, 10), None);
        // Where there are more looks, each has less to spend.
        assert!(end(&near, 40) > Some(n), "{n}");
    }

    #[test]
    fn a_large_tax_is_plain_and_a_small_one_is_not() {
        let rounds = [0, 1, 2];
        let found = |candidate: &[f64; 3]| {
            let base = Group::in_rounds(&[1.0, 1.02, 0.98], &rounds);
            tax(&Group::in_rounds(candidate, &rounds), &base, Direction::Lower, 1).unwrap()
        };
        let large = found(&[9.0, 9.3, 8.7]);
        let usual = (3, 10);
        assert!(plain(&large, 0.05, of_all(6), usual) && !plain(&large, 0.05, of_all(1_000_000), usual));
        let one = of_all(1);
        assert!(!plain(&found(&[1.04, 1.02, 1.03]), 0.05, one, usual), "within the margin");
        assert!(!plain(&Ratio { bound: Bound::AtLeast, ..large }, 0.05, one, usual));
        assert!(!plain(&large.with(None), 0.05, one, usual));
    }

    /// The strongest of four is called different at 1 %, and ends early at 0.2 %; of twelve that err in 4 of 100 cases it is 0.0533 %.
    #[test]
    fn a_fifth_of_the_level_of_its_own_family_ends_a_comparison() {
        // t(0.999, 4) = 7.173182 and t(0.9997333, 4) = 10.136106.
        let twelve = Family { members: 12, alpha: 0.04 };
        for (family, most) in [(of_all(4), 0.069_704), (twelve, 0.049_329)] {
            assert!(plain(&half_with_error(0.999 * most), 0.0, family, (3, 10)), "{family:?}");
            assert!(!plain(&half_with_error(1.001 * most), 0.0, family, (3, 10)), "{family:?}");
        }
    }

    /// Eight looks have 1 % each, 38 have 1 % of 8/38 each: 0.2105 %.
    #[test]
    fn many_looks_have_less_to_spend_each() {
        // t(0.995, 4) = 4.604095 and t(0.9989474, 4) = 7.075881: half a logarithm is told from none with a standard error of
        // 0.108599, and of 0.070663.
        for (rounds, most) in [((3, 10), 0.108_599), ((3, 7), 0.108_599), ((3, 40), 0.070_663)] {
            assert!(plain(&half_with_error(0.999 * most), 0.0, of_all(1), rounds), "{rounds:?}");
            assert!(!plain(&half_with_error(1.001 * most), 0.0, of_all(1), rounds), "{rounds:?}");
        }
        assert_eq!((left_after_looks(0.05, (3, 10)), left_after_looks(0.01, (5, 5))), (0.05, 0.01));
        assert!((left_after_looks(0.05, (3, 11)) - 0.04).abs() < 1e-12);
    }
}
