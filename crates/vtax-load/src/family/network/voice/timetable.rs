//! When each packet leaves.

use std::ops::Range;

use super::super::VoiceTest;
use super::super::meter::Timeline;

/// Packets that are due within this time leave together: each waits less than this for its neighbours, always as long, so that none of it is jitter.
const TOGETHER: u64 = 500_000;
/// Packets that cross the kernels as one and are due within this time leave together.
const BUNDLED: u64 = 1_000_000;

/// The times of all packets of a direction. A round has a packet of every stream; streams are due in groups, evenly over a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timetable {
    pub(super) streams: usize,
    /// Nanoseconds from a packet of a stream to its next.
    packet: u64,
    groups: usize,
    /// Rounds of the warm-up, which don't count.
    pub(super) warm: u64,
    /// All rounds.
    pub(super) rounds: u64,
}

impl Timetable {
    pub(super) fn new(test: &VoiceTest, timeline: &Timeline) -> Self {
        let packet = test.packet.0.max(1);
        let streams = test.streams.max(1) as usize;
        let warm = timeline.warmup.0.div_ceil(packet);
        let rounds = (timeline.warmup.0 + timeline.duration.0) / packet;
        let together = if test.bundled { BUNDLED } else { TOGETHER };
        let groups = streams.min((packet / together).max(1) as usize);
        Self { streams, packet, groups, warm, rounds: rounds.max(warm + 1) }
    }

    /// Groups of all rounds together.
    pub(super) fn all_groups(&self) -> u64 {
        self.rounds * self.groups as u64
    }

    /// Of the group of that number, over all rounds: its round, its streams, and when it is due after the start.
    pub(super) fn group(&self, number: u64) -> (u64, Range<usize>, u64) {
        let (round, group) = (number / self.groups as u64, (number % self.groups as u64) as usize);
        let first = |group: usize| self.streams * group / self.groups;
        let due = round * self.packet + self.packet * group as u64 / self.groups as u64;
        (round, first(group)..first(group + 1), due)
    }

    /// Streams of the largest group.
    pub(super) fn largest_group(&self) -> usize {
        self.streams.div_ceil(self.groups)
    }

    /// Packets that count, of all streams.
    pub(super) fn counted(&self) -> u64 {
        (self.rounds - self.warm) * self.streams as u64
    }

    /// Of that many packets that count, as many were that stream's: they leave stream by stream, round by round.
    pub(super) fn of_stream(&self, stream: usize, counted: u64) -> u64 {
        let streams = self.streams as u64;
        counted / streams + u64::from((stream as u64) < counted % streams)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_units::Nanos;

    use super::*;
    use crate::network::VoiceLaw;

    fn timetable(streams: u32, packet: u64, warmup: u64, duration: u64) -> Timetable {
        let test = VoiceTest {
            streams,
            packet: Nanos::from_millis(packet),
            law: VoiceLaw::Mu,
            jitter_buffer: Nanos::from_millis(60),
            bundled: false,
        };
        let millis = Nanos::from_millis;
        let timeline = Timeline {
            start: Nanos::ZERO,
            warmup: millis(warmup),
            duration: millis(duration),
            interval: millis(duration),
        };
        Timetable::new(&test, &timeline)
    }

    #[test]
    fn a_thousand_streams_leave_in_forty_groups() {
        let table = timetable(1_000, 20, 90, 1_000);
        assert_eq!((table.warm, table.rounds, table.counted()), (5, 54, 49_000));
        assert_eq!((table.largest_group(), timetable(3, 20, 0, 60).largest_group()), (25, 1));
        assert_eq!(table.group(0), (0, 0..25, 0));
        assert_eq!(table.group(41), (1, 25..50, 20_500_000));
        // One of them is due when its packet is.
        assert_eq!(timetable(1, 20, 0, 60).group(2), (2, 0..1, 40_000_000));
    }

    proptest! {
        #[test]
        fn every_stream_has_a_packet_in_every_round(streams in 1_u32..300, packet in 1_u64..5, warmup in 0_u64..200, duration in 1_u64..500) {
            let table = timetable(streams, 10 * packet, warmup, duration);
            let mut next = vec![0; streams as usize];
            let mut last = 0;
            for number in 0..table.all_groups() {
                let (round, group, due) = table.group(number);
                prop_assert!(due >= last && !group.is_empty());
                prop_assert!(due / (10_000_000 * packet) == round);
                last = due;
                for stream in group {
                    prop_assert_eq!(next[stream], round);
                    next[stream] += 1;
                }
            }
            prop_assert!(next.iter().all(|rounds| *rounds == table.rounds));
            let each: u64 = (0..table.streams).map(|stream| table.of_stream(stream, table.counted())).sum();
            prop_assert_eq!(each, table.counted());
            prop_assert!(table.rounds > table.warm);
        }
    }
}
