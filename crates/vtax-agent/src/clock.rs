//! How far another host's clock is off, from messages that go there and back.

/// A host's clock against this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// What is to be added to this clock to have the host's, in nanoseconds.
    pub offset_ns: i64,
    /// It is that, more or less by at most this.
    pub within_ns: u64,
}

impl Clock {
    /// From a message sent and come back at these times of this clock, that the host saw at `there` of its own: it was there
    /// somewhere between the two. All in nanoseconds since 1970; `None` where no clocks say this.
    #[must_use]
    pub fn seen(sent: u64, there: u64, back: u64) -> Option<Self> {
        let round_trip = back.checked_sub(sent)?;
        let middle = i128::from(sent) + i128::from(round_trip / 2);
        let offset_ns = i64::try_from(i128::from(there) - middle).ok()?;
        Some(Self { offset_ns, within_ns: round_trip.div_ceil(2) })
    }

    /// A time of this clock as the host's has it.
    #[must_use]
    pub fn there(&self, here: u64) -> u64 {
        here.saturating_add_signed(self.offset_ns)
    }

    /// A time of the host's clock as this one has it.
    #[must_use]
    pub fn here(&self, there: u64) -> u64 {
        there.saturating_add_signed(self.offset_ns.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clock_lies_between_there_and_back() {
        // The host's clock is 500 ahead, the way there takes 30 and the way back 10.
        let clock = Clock::seen(1_000, 1_530, 1_040).unwrap();
        assert_eq!(clock, Clock { offset_ns: 510, within_ns: 20 });
        assert_eq!((clock.there(2_000), clock.here(2_510)), (2_510, 2_000));
        assert_eq!(Clock::seen(1_000, 1_530, 999), None, "a clock set back meanwhile");
        assert_eq!(Clock::seen(0, u64::MAX, 10), None, "no clock says this");
    }

    proptest! {
        /// However long each way takes: what is said holds the truth.
        #[test]
        fn the_bound_holds(
            sent in 1_u64 << 40..1 << 60, offset in -1_i64 << 39..1 << 39, there in 0_u64..1 << 32, back in 0_u64..1 << 32,
        ) {
            let host = (sent + there).saturating_add_signed(offset);
            let clock = Clock::seen(sent, host, sent + there + back).unwrap();
            prop_assert!(clock.offset_ns.abs_diff(offset) <= clock.within_ns, "{clock:?}");
            prop_assert_eq!(clock.here(clock.there(sent)), sent);
        }
    }
}
