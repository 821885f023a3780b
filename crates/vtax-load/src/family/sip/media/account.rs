//! What a call's sound comes to, from what both ends say.

use vtax_units::Nanos;
use vtax_wire::rtp::Voice;

use super::talk::Talk;
use super::told::{Heard, Told};
use super::{MediaOptions, SoundDirection, SoundFigures};
use crate::network::VoicePackets;

/// Packets that left so shortly before a call's end, and hadn't come by then, may be under way: they weren't meant to be heard any more.
const UNDER_WAY: Nanos = Nanos::from_millis(200);

/// What one end sent, as far as that is known, and what the other heard.
struct Direction<'a> {
    sent: Option<&'a Told>,
    heard: &'a Heard,
}

impl Direction<'_> {
    /// Packets that were meant to be heard.
    fn intended(&self) -> u64 {
        let Self { sent: Some(sent), heard } = self else { return self.heard.expected };
        if heard.received == 0 {
            return sent.sent.saturating_sub(under_way(sent.packet));
        }
        // Those before the first that came are lost, as are those after the last that had the time to come.
        let head = u64::from(heard.from.wrapping_sub(sent.first));
        let heard_of = head.saturating_add(heard.expected).min(sent.sent);
        let tail = (sent.sent - heard_of).saturating_sub(under_way(sent.packet));
        heard_of + tail
    }

    /// Its packets.
    fn packets(&self) -> VoicePackets {
        let (heard, intended) = (self.heard, self.intended());
        let received = heard.received.min(intended);
        VoicePackets {
            intended,
            sent: self.sent.map_or(intended, |sent| sent.sent),
            received,
            late: heard.late.min(received),
            reordered: heard.reordered.min(received),
            duplicates: heard.again,
            // Only vtax's own sound is known.
            damaged: if self.sent.is_some() { heard.damaged.min(received) } else { 0 },
            stray: heard.stray,
            no_room: heard.no_room.min(intended - received),
        }
    }
}

fn under_way(packet: Nanos) -> u64 {
    UNDER_WAY.0 / packet.0.max(1)
}

impl SoundFigures {
    /// Counts a call that is over, from what this end sent and heard, and what the other end says of itself.
    pub(super) fn count(&mut self, options: &MediaOptions, talk: &Talk, own: &Told, far: Option<&Told>) {
        self.calls += 1;
        self.untold += u64::from(far.is_none());
        let network = Nanos(talk.mean_round_trip().0 / 2);
        let delay = Nanos(own.packet.0.saturating_add(network.0).saturating_add(options.jitter_buffer.0));
        let down = Direction { sent: far, heard: &own.heard };
        // Who spoke long enough to be answered and heard nothing had a silent call, whatever the other end says.
        let expects = talk.far_flow.speaks() && far.is_none_or(|far| down.intended() > 0 && far.sent > 0);
        let mute = expects && own.heard.received == 0 && own.sent > under_way(own.packet);
        let mut worst = self.down.count(&down, delay, mute);
        if let Some(far) = far {
            let up = Direction { sent: Some(own), heard: &far.heard };
            let mute = far.heard.received == 0 && up.intended() > 0;
            worst = [worst, self.up.count(&up, delay, mute)].into_iter().flatten().reduce(f64::min);
        }
        if let Some(worst) = worst {
            self.ratings.count(worst);
        }
    }
}

impl SoundDirection {
    /// Counts a call's direction; its rating factor, where there was something to be heard.
    fn count(&mut self, of: &Direction<'_>, delay: Nanos, silent: bool) -> Option<f64> {
        let packets = of.packets();
        self.add_packets(&packets);
        self.silent += u64::from(silent);
        if of.heard.received > 0 {
            self.jitter.record(of.heard.jitter);
            self.jitter_max.record(of.heard.jitter_max);
        }
        let unheard = match packets.intended {
            _ if silent => 1.0,
            0 => return None,
            intended => packets.unheard() as f64 / intended as f64,
        };
        // How losses follow each other isn't told by counts: they are taken for random.
        let rating = Voice { delay_ms: delay.as_secs_f64() * 1e3, unheard, burst: 1.0 }.rating();
        self.ratings.count(rating);
        Some(rating)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(sent: u64, first: u16) -> Told {
        Told { sent, first, packet: Nanos::from_millis(20), heard: Heard::default() }
    }

    fn heard(from: u16, expected: u64, received: u64) -> Heard {
        Heard { from, expected, received, ..Heard::default() }
    }

    fn intended(sent: &Told, heard: &Heard) -> u64 {
        Direction { sent: Some(sent), heard }.intended()
    }

    #[test]
    fn packets_under_way_at_the_end_are_not_lost() {
        let sent = told(500, 65_500);
        for (heard, expected) in [
            (heard(65_500, 500, 500), 500),
            // The last ten may be under way, those before them are lost.
            (heard(65_500, 490, 490), 490),
            (heard(65_500, 480, 480), 490),
            // The first twenty never came; numbers wrap.
            (heard(65_520, 480, 470), 500),
            (heard(0, 0, 0), 490),
            // More than was sent is not believed.
            (heard(65_500, 10_000, 10_000), 500),
            (heard(3, 400, 400), 490),
        ] {
            assert_eq!(intended(&sent, &heard), expected, "{heard:?}");
        }
        let unknown = Direction { sent: None, heard: &heard(7, 100, 90) }.packets();
        assert_eq!((unknown.intended, unknown.received, unknown.lost()), (100, 90, 10));
    }

    #[test]
    fn damage_is_known_of_own_sound_alone() {
        let own = Heard { damaged: 5, no_room: 50, ..heard(0, 100, 90) };
        let packets = Direction { sent: Some(&told(100, 0)), heard: &own }.packets();
        assert_eq!((packets.damaged, packets.no_room), (5, 10));
        assert_eq!(Direction { sent: None, heard: &own }.packets().damaged, 0);
    }

    proptest! {
        #[test]
        fn counts_add_up_whatever_is_told(sent in 0_u64..100_000, first: u16, from: u16, expected in 0_u64..1 << 40, received in 0_u64..1 << 40, late: u64, packet in 0_u64..1 << 40) {
            let sent = Told { packet: Nanos(packet), ..told(sent, first) };
            let heard = Heard { late, ..heard(from, expected, received) };
            let packets = Direction { sent: Some(&sent), heard: &heard }.packets();
            prop_assert!(packets.intended <= sent.sent);
            prop_assert!(packets.received <= packets.intended && packets.late <= packets.received);
            prop_assert!(packets.unheard() <= packets.intended);
        }
    }
}
