//! How far another host's clock is off, from messages that go there and back.

/// How far another host's clock is ahead of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// What is to be added to this clock to have the host's, in nanoseconds.
    pub offset_ns: i64,
    /// It is that, more or less by at most this.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// From a message that was sent and whose answer was received at these times of this clock; the host had it at `remote` of its
    /// own, somewhere between the two. All in nanoseconds since 1970; `None` where no clocks say this.
    #[must_use]
    pub fn from_round_trip(sent: u64, remote: u64, received: u64) -> Option<Self> {
        let round_trip = received.checked_sub(sent)?;
        let middle = i128::from(sent) + i128::from(round_trip / 2);
        let offset_ns = i64::try_from(i128::from(remote) - middle).ok()?;
        Some(Self { offset_ns, uncertainty_ns: round_trip.div_ceil(2) })
    }

    /// A time of this clock as the host's has it.
    #[must_use]
    pub fn to_remote(self, local: u64) -> u64 {
        local.saturating_add_signed(self.offset_ns)
    }

    /// A time of the host's clock as this one has it.
    #[must_use]
    pub fn to_local(self, remote: u64) -> u64 {
        remote.saturating_add_signed(self.offset_ns.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clock_lies_between_there_and_back() {
        // The host's clock is 500 ahead, the way there takes 30 and the way back 10.
        let clock = ClockOffset::from_round_trip(1_000, 1_530, 1_040).unwrap();
        assert_eq!(clock, ClockOffset { offset_ns: 510, uncertainty_ns: 20 });
        assert_eq!((clock.to_remote(2_000), clock.to_local(2_510)), (2_510, 2_000));
        assert_eq!(ClockOffset::from_round_trip(1_000, 1_530, 999), None, "a clock set back meanwhile");
        assert_eq!(ClockOffset::from_round_trip(0, u64::MAX, 10), None, "no clock says this");
    }

    proptest! {
        /// However long each way takes: what is said holds the truth.
        #[test]
        fn the_bound_holds(
            sent in 1_u64 << 40..1 << 60, offset in -1_i64 << 39..1 << 39, there in 0_u64..1 << 32, back in 0_u64..1 << 32,
        ) {
            let host = (sent + there).saturating_add_signed(offset);
            let clock = ClockOffset::from_round_trip(sent, host, sent + there + back).unwrap();
            prop_assert!(clock.offset_ns.abs_diff(offset) <= clock.uncertainty_ns, "{clock:?}");
            prop_assert_eq!(clock.to_local(clock.to_remote(sent)), sent);
        }
    }
}
