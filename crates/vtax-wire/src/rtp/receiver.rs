//! What a receiver knows of a stream: RFC 3550, appendices A.1, A.3 and A.8.

/// Packets out of order by more are those of a stream that began anew (`MAX_DROPOUT` and `MAX_MISORDER` of appendix A.1).
const DROPOUT_MAX: u16 = 3_000;
const MISORDER_MAX: u16 = 100;
/// Half of all numbers: beyond, a packet is an old one.
const AHEAD_MAX: u16 = 1 << 15;

/// How a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// As the next, or after others that may come yet.
    InOrder,
    /// After one that was sent later.
    Reordered,
    /// Again.
    Again,
    /// Too late to be played; it counts as received, not as heard.
    Late,
    /// Far from what was expected: it isn't taken. Where the next one follows it, the stream has gone on there.
    Stray,
}

/// A stream that is received. Times are nanoseconds of any clock.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Ticks per second of the stream's clock.
    clock: u32,
    /// How long after the first packet's the playing of a packet may begin.
    playout: u64,
    first: Option<First>,
    /// The highest number so far, with its wraps.
    highest: u64,
    /// Which of the 64 packets up to the highest have come, the highest in the lowest bit.
    window: u64,
    /// The number after a stray packet's: that packet shows where the stream has gone on (`bad_seq` of appendix A.1).
    expected_after_stray: Option<u16>,
    received: u64,
    reordered: u64,
    again: u64,
    late: u64,
    stray: u64,
    transit: i64,
    /// In nanoseconds, times 16.
    jitter: u64,
    jitter_max: u64,
}

/// The packet that came first.
#[derive(Debug, Clone, Copy)]
struct First {
    number: u64,
    timestamp: u32,
    at: u64,
}

impl Receiver {
    /// For a stream whose clock has so many ticks per second, and which is played so long after its first packet came.
    #[must_use]
    pub const fn new(clock: u32, playout: u64) -> Self {
        Self {
            clock,
            playout,
            first: None,
            highest: 0,
            window: 0,
            expected_after_stray: None,
            received: 0,
            reordered: 0,
            again: 0,
            late: 0,
            stray: 0,
            transit: 0,
            jitter: 0,
            jitter_max: 0,
        }
    }

    /// A packet came at that time.
    pub fn receive(&mut self, sequence: u16, timestamp: u32, at: u64) -> Came {
        let Some(first) = self.first else {
            // Room below it for packets that were sent before it.
            let number = (1 << 16) + u64::from(sequence);
            self.first = Some(First { number, timestamp, at });
            (self.highest, self.window, self.received) = (number, 1, 1);
            return Came::InOrder;
        };
        let came = match self.place(sequence) {
            Some(came) => came,
            None => {
                self.stray += 1;
                return Came::Stray;
            }
        };
        if came == Came::Again {
            self.again += 1;
            return came;
        }
        self.received += 1;
        self.reordered += u64::from(came == Came::Reordered);
        let ticks = i64::from(timestamp.wrapping_sub(first.timestamp).cast_signed());
        let sent = (i128::from(ticks) * 1_000_000_000 / i128::from(self.clock.max(1))) as i64;
        let transit = (at as i64).wrapping_sub(first.at as i64).wrapping_sub(sent);
        let difference = transit.abs_diff(self.transit);
        self.transit = transit;
        // J += (|D| - J) / 16, in sixteenths (appendix A.8).
        self.jitter = (self.jitter + difference).saturating_sub((self.jitter + 8) >> 4);
        self.jitter_max = self.jitter_max.max(self.jitter);
        if transit > self.playout as i64 {
            self.late += 1;
            return Came::Late;
        }
        came
    }

    /// Where a packet belongs; `None` where that is too far from where the stream is.
    fn place(&mut self, sequence: u16) -> Option<Came> {
        let ahead = sequence.wrapping_sub(self.highest as u16);
        let behind = (self.highest as u16).wrapping_sub(sequence);
        if ahead == 0 {
            return Some(Came::Again);
        }
        let goes_on = self.expected_after_stray.take() == Some(sequence);
        if ahead < DROPOUT_MAX || (goes_on && ahead < AHEAD_MAX) {
            self.highest += u64::from(ahead);
            self.window = self.window.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            return Some(Came::InOrder);
        }
        if behind > MISORDER_MAX {
            self.expected_after_stray = Some(sequence.wrapping_add(1));
            return None;
        }
        let number = self.highest - u64::from(behind);
        if let Some(first) = &mut self.first {
            first.number = first.number.min(number);
        }
        if behind < 64 {
            let bit = 1 << behind;
            if self.window & bit != 0 {
                return Some(Came::Again);
            }
            self.window |= bit;
        }
        Some(Came::Reordered)
    }

    /// The lowest number of those that came; `None` where none did.
    #[must_use]
    pub fn first(&self) -> Option<u16> {
        self.first.map(|first| first.number as u16)
    }

    /// Packets that came, each once.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Packets that were sent as far as the numbers of those that came tell.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.first.map_or(0, |first| self.highest - first.number + 1)
    }

    /// Packets that never came (appendix A.3), of those between the first and the last that did.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received)
    }

    /// Packets that came after one that was sent later, that came again, that came too late to be played, that weren't taken.
    #[must_use]
    pub const fn disorder(&self) -> (u64, u64, u64, u64) {
        (self.reordered, self.again, self.late, self.stray)
    }

    /// The interarrival jitter now and at its highest, in nanoseconds.
    #[must_use]
    pub const fn jitter(&self) -> (u64, u64) {
        (self.jitter >> 4, self.jitter_max >> 4)
    }

    /// The share of the packets that weren't heard: lost or late.
    #[must_use]
    pub fn unheard(&self) -> f64 {
        let expected = self.expected();
        if expected == 0 { 0.0 } else { ((self.lost() + self.late) as f64 / expected as f64).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLI: u64 = 1_000_000;

    /// Packets of 20 ms with their numbers and delays, in the order in which they come.
    fn receive(start: u16, packets: &[(u16, u64)]) -> Receiver {
        let mut receiver = Receiver::new(8_000, 60 * MILLI);
        for (number, delay) in packets {
            let at = 1_000 * MILLI + 20 * MILLI * u64::from(*number) + delay;
            receiver.receive(start.wrapping_add(*number), 160 * u32::from(*number), at);
        }
        receiver
    }

    #[test]
    fn an_even_stream_has_neither_loss_nor_jitter() {
        let packets: Vec<(u16, u64)> = (0..1_000).map(|number| (number, 5 * MILLI)).collect();
        for start in [0, 65_000] {
            let receiver = receive(start, &packets);
            assert_eq!((receiver.received(), receiver.expected(), receiver.lost()), (1_000, 1_000, 0));
            assert_eq!((receiver.jitter(), receiver.disorder()), ((0, 0), (0, 0, 0, 0)));
        }
    }

    #[test]
    fn what_is_lost_late_reordered_or_doubled_is_counted() {
        let receiver = receive(
            65_534,
            &[(0, 0), (1, 0), (3, 0), (2, 25 * MILLI), (2, 26 * MILLI), (6, 61 * MILLI), (7, 0)],
        );
        assert_eq!((receiver.received(), receiver.expected(), receiver.lost()), (6, 8, 2));
        assert_eq!((receiver.disorder(), receiver.first()), ((1, 1, 1, 0), Some(65_534)));
        assert_eq!(receiver.unheard(), 3.0 / 8.0);
        let mut receiver = receiver;
        assert_eq!(receiver.receive(30_000, 0, 0), Came::Stray);
        assert_eq!(receiver.received(), 6);
    }

    /// As after a path that was cut for more than a minute.
    #[test]
    fn a_stream_that_goes_on_far_away_is_heard_again() {
        let packets: Vec<(u16, u64)> = (0..10).chain(5_000..5_010).map(|number| (number, 0)).collect();
        for start in [0, 65_000] {
            let receiver = receive(start, &packets);
            assert_eq!((receiver.received(), receiver.expected(), receiver.lost()), (19, 5_010, 4_991));
            assert_eq!(receiver.disorder(), (0, 0, 0, 1));
        }
    }

    #[test]
    fn jitter_is_a_sixteenth_of_the_way_to_each_difference() {
        // One packet 16 ms late: its difference and that of the next one.
        let receiver = receive(0, &[(0, 0), (1, 16 * MILLI)]);
        assert_eq!(receiver.jitter().0, MILLI);
        let packets: Vec<(u16, u64)> =
            (0..2_000).map(|number| (number, u64::from(number % 2) * 10 * MILLI)).collect();
        let (now, highest) = receive(0, &packets).jitter();
        assert!((9_900_000..=10_000_000).contains(&now) && highest >= now, "{now} {highest}");
    }

    proptest! {
        #[test]
        fn counts_add_up_whatever_comes(packets in proptest::collection::vec((any::<u16>(), any::<u32>(), any::<u32>()), 0..300)) {
            let mut receiver = Receiver::new(8_000, 60 * MILLI);
            for (sequence, timestamp, at) in &packets {
                receiver.receive(*sequence, *timestamp, u64::from(*at));
            }
            let (_, again, late, stray) = receiver.disorder();
            prop_assert_eq!(receiver.received() + again + stray, packets.len() as u64);
            prop_assert!(late <= receiver.received());
            prop_assert!((0.0..=1.0).contains(&receiver.unheard()));
        }
    }
}
