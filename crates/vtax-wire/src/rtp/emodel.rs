//! How good a call sounds: the E-model (ITU-T G.107, 06/2015) with its default values, for what a network does to it: delay and loss.

/// What is left of 100 with G.107's default values and neither delay nor loss (G.107 table 2: R = 93.2).
const BASE: f64 = 93.2;
/// Robustness of a codec against loss, and its impairment without: G.711 without concealment (G.113 appendix I).
const IE: f64 = 0.0;
const BPL: f64 = 4.3;

/// A direction of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Voice {
    /// From mouth to ear, in milliseconds: packetisation, network, jitter buffer.
    pub delay_ms: f64,
    /// Share of the packets that weren't heard, 0 to 1.
    pub unheard: f64,
    /// How long losses are beside those of random loss (G.107's `BurstR`); 1: they are random.
    pub burst: f64,
}

impl Voice {
    /// The rating factor R, 0 to 100, without the advantage factor.
    #[must_use]
    pub fn rating(&self) -> f64 {
        (BASE - self.delay_impairment() - self.loss_impairment()).clamp(0.0, 100.0)
    }

    /// `Idd`, with the default sensitivity (`sT` = 1, `mT` = 100 ms): nothing up to 100 ms. Echo is taken for cancelled.
    fn delay_impairment(&self) -> f64 {
        if self.delay_ms <= 100.0 {
            return 0.0;
        }
        let x = (self.delay_ms / 100.0).log2();
        let root = |x: f64| (1.0 + x.powi(6)).powf(1.0 / 6.0);
        25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
    }

    /// `Ie,eff`.
    fn loss_impairment(&self) -> f64 {
        let loss = 100.0 * self.unheard.clamp(0.0, 1.0);
        IE + (95.0 - IE) * loss / (loss / self.burst.max(1.0) + BPL)
    }

    /// The mean opinion score that is estimated for it, 1 to 4.5.
    #[must_use]
    pub fn mos(&self) -> f64 {
        mos(self.rating())
    }
}

/// The mean opinion score of a rating factor (G.107 annex B).
#[must_use]
pub fn mos(rating: f64) -> f64 {
    if rating <= 0.0 {
        return 1.0;
    }
    if rating >= 100.0 {
        return 4.5;
    }
    // Below about 6.5 the polynomial falls under the lowest score there is.
    (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn voice(delay_ms: f64, unheard: f64) -> Voice {
        Voice { delay_ms, unheard, burst: 1.0 }
    }

    #[test]
    fn the_default_values_give_the_known_ratings() {
        assert!((voice(0.0, 0.0).rating() - 93.2).abs() < 1e-9);
        assert!((voice(0.0, 0.0).mos() - 4.41).abs() < 0.005, "{}", voice(0.0, 0.0).mos());
        // 95 * 4.3 / (4.3 + 4.3): half of what loss can take away.
        assert!((voice(0.0, 0.043).rating() - (93.2 - 47.5)).abs() < 1e-9);
        assert!((mos(50.0) - 2.575).abs() < 1e-9);
        assert_eq!((mos(-1.0), mos(0.0), mos(100.0)), (1.0, 1.0, 4.5));
    }

    proptest! {
        #[test]
        fn more_delay_or_loss_never_sounds_better(delay in 0.0_f64..2_000.0, unheard in 0.0_f64..1.0, more in 0.0_f64..500.0, burst in 1.0_f64..10.0) {
            let own = Voice { delay_ms: delay, unheard, burst };
            let later = Voice { delay_ms: delay + more, ..own };
            let poorer = Voice { unheard: (unheard + more / 500.0).min(1.0), ..own };
            prop_assert!(later.rating() <= own.rating() + 1e-9);
            prop_assert!(poorer.rating() <= own.rating() + 1e-9);
            prop_assert!((1.0..=4.5).contains(&own.mos()));
        }
    }
}
