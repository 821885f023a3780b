//! How far an estimate may be off, with each reason for it kept apart.
//!
//! The scatter between trials is itself known from few trials, and fades with more of them. What the measurement's resolution
//! hides is known beforehand, and stays. Only together are they an interval, and at each level they are put together anew:
//! were both one standard error with degrees of freedom of its own (Welch and Satterthwaite's, JCGM 100:2008, G.4.1), trials that agree by
//! chance would seem to be known by many, and the interval would be narrower than without a resolution.

use crate::student::{normal_quantile, normal_tail, t_quantile, t_tail};
use crate::verdict::ALPHA;

/// How close to a distance the end of an interval is looked for, as a share of it.
const CLOSE: f64 = 1e-12;

/// Numbers of standard errors: of the scatter, and of what is hidden.
#[derive(Debug, Clone, Copy)]
struct Errors {
    t: f64,
    z: f64,
}

/// How far an estimate on the logarithmic scale may be off.
///
/// An interval that misses the truth in a share `level` of all cases ends at `looked` · √((t · scatter)² + (z · unseen)²) +
/// `levels` · t / t₀.₉₇₅ from the estimate, with t of the scatter's degrees of freedom and z of the normal distribution, each at
/// 1 - `level` / 2. (Levels go out as the scatter does: how many of few trials miss one is as uncertain as how far they scatter.
/// Kept as they are at 95 %, they let through a tenth more false claims among bimodal families of five rounds.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Uncertainty {
    /// Variance of the estimate, from the scatter between trials.
    pub(crate) scatter: f64,
    /// The degrees of freedom that it is known by; infinite where nothing scatters.
    pub(crate) df: f64,
    /// By how much the scatter reaches further down, and up, than that of symmetric values: 1 for those.
    pub(crate) lean: (f64, f64),
    /// Variance of what the measurement's resolution hides, which more trials don't cure.
    pub(crate) unseen: f64,
    /// The factor for having decided by looking how many trials there are; 1 where nobody looked.
    pub(crate) looked: f64,
    /// Half of the distance of two levels, of which each side may have missed one; 0 where there are none.
    pub(crate) levels: f64,
}

impl Uncertainty {
    /// Of symmetric scatter; what a resolution hides is [`hidden`].
    pub(crate) fn symmetric(scatter: f64, df: f64, unseen: f64) -> Self {
        let df = if scatter > 0.0 { df } else { f64::INFINITY };
        Self { scatter, df, lean: (1.0, 1.0), unseen, looked: 1.0, levels: 0.0 }
    }

    /// How far the interval of a level reaches down and up from the estimate.
    pub(crate) fn ends(&self, level: f64) -> (f64, f64) {
        let errors = self.errors(level.clamp(1e-9, 1.0) / 2.0);
        (self.reach(self.lean.0, errors), self.reach(self.lean.1, errors))
    }

    /// The two ends of the interval of a level around an estimate, no longer as logarithms.
    pub(crate) fn interval(&self, estimate: f64, level: f64) -> (f64, f64) {
        let (down, up) = self.ends(level);
        (estimate * (-down).exp(), estimate * up.exp())
    }

    /// How far the interval of a level reaches on average of both directions.
    pub(crate) fn half(&self, level: f64) -> f64 {
        let (down, up) = self.ends(level);
        f64::midpoint(down, up)
    }

    /// How many of its standard errors `tail` of all cases lie beyond: of the scatter, and of what is hidden. Without scatter all
    /// is normal.
    fn errors(&self, tail: f64) -> Errors {
        let z = -normal_quantile(tail);
        Errors { t: if self.scatter > 0.0 { -t_quantile(tail, self.df) } else { z }, z }
    }

    /// How far all of it reaches together.
    fn reach(&self, lean: f64, errors: Errors) -> f64 {
        self.looked * self.random(lean, errors) + self.level_unit() * errors.t
    }

    /// How far the scatter and what is hidden reach together.
    fn random(&self, lean: f64, Errors { t, z }: Errors) -> f64 {
        (lean * t * self.scatter.sqrt()).hypot(z * self.unseen.sqrt())
    }

    /// What levels add for each standard error of the scatter.
    fn level_unit(&self) -> f64 {
        if self.levels > 0.0 { self.levels / self.errors(ALPHA / 2.0).t } else { 0.0 }
    }

    /// The smallest true distance that is told from none by a 95 % interval four times of five; `None` beyond all numbers.
    pub(crate) fn detectable(&self) -> Option<f64> {
        let told =
            self.reach(1.0, self.errors(ALPHA / 2.0)) + self.looked * self.random(1.0, self.errors(0.2));
        Some(told.exp()).filter(|d| d.is_finite())
    }

    /// The true distance that an interval of a level tells from none four times of five: how far it reaches, and by how much estimates
    /// fall short of the truth in the fifth case.
    pub(crate) fn told(&self, level: f64) -> f64 {
        self.half(level) + self.looked * self.random(1.0, self.errors(0.2))
    }

    /// The level whose interval ends just `distance` below the estimate, or above it: twice the one-sided p value of a truth
    /// that is so far away, or further. 1 where the distance is none, or nothing is known of it.
    pub(crate) fn p_value(&self, distance: f64, below: bool) -> f64 {
        let lean = if below { self.lean.0 } else { self.lean.1 };
        let (scatter, level_unit) = (lean * self.scatter.sqrt(), self.level_unit());
        // What a standard error of all of it is.
        let unit = self.looked * scatter.hypot(self.unseen.sqrt()) + level_unit;
        let p = match distance / unit {
            errors if errors.is_nan() || errors <= 0.0 => 1.0,
            // Nothing scatters, or a ratio from a foreign run is beyond all numbers.
            errors if errors.is_infinite() => 0.0,
            errors if scatter <= 0.0 => 2.0 * normal_tail(errors),
            errors if self.unseen <= 0.0 => 2.0 * t_tail(errors, self.df),
            // Between what it would be were all of it the scatter's, and were nothing hidden.
            least => {
                let most = distance / (self.looked * scatter + level_unit);
                2.0 * t_tail(self.scatter_errors(lean, distance, (least, most)), self.df)
            }
        };
        // What isn't a number claims nothing: it becomes 1 as well.
        p.min(1.0)
    }

    /// The standard errors of the scatter that end at `distance` together with what is hidden, between two numbers of them.
    fn scatter_errors(&self, lean: f64, distance: f64, (least, most): (f64, f64)) -> f64 {
        let off = |log: f64| {
            let t = log.exp();
            let z = -normal_quantile(t_tail(t, self.df).max(f64::MIN_POSITIVE));
            self.reach(lean, Errors { t, z }) / distance - 1.0
        };
        let (mut low, mut high) = (least.ln(), most.ln());
        let (mut at_low, mut at_high) = (off(low), off(high));
        // False position, with the Illinois rule: an end that stays counts half the next time.
        for _ in 0..60 {
            if at_low >= -CLOSE {
                return low.exp();
            }
            if at_high <= CLOSE {
                return high.exp();
            }
            let middle = (low * at_high - high * at_low) / (at_high - at_low);
            match off(middle) {
                found if found.abs() < CLOSE => return middle.exp(),
                found if found < 0.0 => (low, at_low, at_high) = (middle, found, at_high / 2.0),
                found => (high, at_high, at_low) = (middle, found, at_low / 2.0),
            }
        }
        f64::midpoint(low, high).exp()
    }

    /// The same after `times` as many trials that scatter as these do.
    pub(crate) fn after(&self, times: f64) -> Self {
        Self { scatter: self.scatter / times, df: self.df * times, ..*self }
    }
}

/// The variance of what a relative width hides: that of a rectangle (JCGM 100:2008, 4.3.7).
pub(crate) fn hidden(resolution: f64) -> f64 {
    usable(resolution).powi(2) / 12.0
}

/// A resolution as it can be reckoned with.
pub(crate) fn usable(resolution: f64) -> f64 {
    if resolution.is_finite() { resolution.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: Uncertainty = Uncertainty {
        scatter: 0.05 * 0.05 / 3.0,
        df: 2.0,
        lean: (1.0, 1.0),
        unseen: 2.0 * 0.0488 * 0.0488 / 12.0,
        looked: 1.0,
        levels: 0.0,
    };

    #[test]
    fn components_are_put_together_at_each_level() {
        // 4.302653 * 0.05 / sqrt(3) = 0.124207; 1.959964 * 0.0488 / sqrt(6) = 0.039048.
        assert!((BOTH.half(0.05) - 0.124_207f64.hypot(0.039_048)).abs() < 1e-5, "{}", BOTH.half(0.05));
        // t(0.995, 2) = 9.924843, z = 2.575829.
        let narrow = (9.924_843 * 0.028_867_5f64).hypot(2.575_829 * 0.019_922_5);
        assert!((BOTH.half(0.01) - narrow).abs() < 1e-4, "{} {narrow}", BOTH.half(0.01));
        let apart = Uncertainty { looked: 1.5, levels: 0.1, ..BOTH };
        let levels = 0.1 * 9.924_843 / 4.302_653;
        assert!((apart.half(0.01) - (1.5 * narrow + levels)).abs() < 1e-3, "{}", apart.half(0.01));
    }

    /// Trials that agree by chance, and a bracket that is wide beside them.
    #[test]
    fn what_is_hidden_never_makes_an_interval_narrower() {
        for scatter in [1e-9, 1e-4, 1e-3, 0.01] {
            let alone = Uncertainty::symmetric(scatter, 2.0, 0.0);
            for resolution in [0.001, 0.05, 0.3] {
                let both = Uncertainty::symmetric(scatter, 2.0, hidden(resolution));
                for level in [0.05, 0.04 / 12.0, 0.04 / 60.0] {
                    assert!(both.half(level) > alone.half(level), "{scatter} {resolution} {level}");
                }
            }
        }
    }

    #[test]
    fn a_resolution_without_scatter_is_normal() {
        let none = Uncertainty::symmetric(0.0, 4.0, hidden(0.05));
        assert!((none.half(0.05) - 1.959_964 * 0.05 / 12f64.sqrt()).abs() < 1e-7);
        assert!((none.p_value(1.959_964 * 0.05 / 12f64.sqrt(), true) - 0.05).abs() < 1e-6);
        let exact = Uncertainty::symmetric(0.0, 4.0, 0.0);
        assert_eq!((exact.half(0.05), exact.p_value(0.1, true), exact.p_value(0.0, true)), (0.0, 0.0, 1.0));
    }

    /// Figures of a foreign run may be further apart than numbers go, or be known to no digit.
    #[test]
    fn distances_beyond_all_numbers_have_p_values() {
        let alone = Uncertainty { unseen: 0.0, ..BOTH };
        for u in [BOTH, alone, Uncertainty::symmetric(0.0, 2.0, hidden(0.05))] {
            for below in [true, false] {
                let p = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|d| u.p_value(d, below));
                assert_eq!(p, [0.0, 1.0, 1.0], "{u:?}");
            }
        }
        for unseen in [f64::INFINITY, f64::NAN, 1e300] {
            assert_eq!(Uncertainty { unseen, ..BOTH }.p_value(1.0, true), 1.0, "{unseen}");
        }
        let unknown = Uncertainty { unseen: f64::INFINITY, ..BOTH };
        assert_eq!(unknown.p_value(f64::INFINITY, true), 1.0);
    }

    #[test]
    fn what_is_told_four_times_of_five_by_hand() {
        // As above at 5 %; then t(0.8, 2) = 1.060660 and z = 0.841621 standard errors more.
        let (told, half) = (BOTH.told(0.05), 0.124_207f64.hypot(0.039_048));
        let more = (1.060_660 * 0.028_867_5f64).hypot(0.841_621 * 0.019_922_5);
        assert!((told - (half + more)).abs() < 1e-5, "{told}");
        assert!((told - BOTH.detectable().unwrap().ln()).abs() < 1e-12, "the same at 5 %");
        let apart = Uncertainty { looked: 1.5, levels: 0.1, ..BOTH };
        assert!((apart.told(0.05) - (apart.half(0.05) + 1.5 * more)).abs() < 1e-5, "levels are no scatter");
    }

    #[test]
    fn more_trials_narrow_the_scatter_alone() {
        let many = Uncertainty { levels: 0.02, ..BOTH }.after(1e6);
        assert!((many.half(0.05) - 0.039_048 - 0.02).abs() < 1e-4, "{}", many.half(0.05));
    }

    proptest! {
        #[test]
        fn a_p_value_is_the_level_whose_interval_ends_there(
            scatter in 0.0..0.1f64, df in 1.0..60.0f64, resolution in 0.0..0.3f64, level in 1e-6..0.99f64,
            looked in 1.0..1.7f64, levels in 0.0..0.2f64, up in 0.5..2.0f64,
        ) {
            let u = Uncertainty {
                lean: (1.0, up), looked, levels, ..Uncertainty::symmetric(scatter, df, hidden(resolution))
            };
            let (down, high) = u.ends(level);
            prop_assume!(down > 1e-9);
            for p in [u.p_value(down, true), u.p_value(high, false)] {
                prop_assert!((p / level - 1.0).abs() < 1e-6, "{p} {level}");
            }
        }
    }
}
