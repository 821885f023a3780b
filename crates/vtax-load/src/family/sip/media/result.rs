//! What calls sounded like.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;
use vtax_wire::rtp::mos;

use super::MediaOptions;
use crate::LatencyHistogram;
use crate::network::{VoicePackets, share};

/// p99 of lateness, as a share of a packet's length, above which calls weren't paced.
const LATE: u64 = 4;
/// Share of the packets that this end may refuse or drop itself.
const OWN_LOSS: f64 = 0.005;

/// What the calls of a step sounded like, warm-up included: those that have ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SoundFigures {
    /// Calls that had sound.
    pub calls: u64,
    /// Of those, calls whose other end didn't say what it heard: their packets to it are in no figure.
    pub untold: u64,
    /// From this end.
    pub up: SoundDirection,
    /// To this end.
    pub down: SoundDirection,
    /// Rating factors of calls: of each the worse direction's.
    pub ratings: Ratings,
    /// What this end did, also for calls that haven't ended.
    pub pace: SoundPace,
    /// Session descriptions that couldn't be used, by reason.
    pub refused: BTreeMap<String, u64>,
}

/// One direction of calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SoundDirection {
    /// Packets of all calls.
    pub packets: VoicePackets,
    /// Each call's interarrival jitter at its end (RFC 3550 section 6.4.1).
    pub jitter: LatencyHistogram,
    /// Each call's jitter at its highest.
    pub jitter_max: LatencyHistogram,
    /// Each call's rating factor.
    pub ratings: Ratings,
    /// Calls of which nothing came.
    pub silent: u64,
}

/// What the thread that paces packets did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SoundPace {
    /// Packets sent.
    pub sent: u64,
    /// Of those, the ones that its own kernel refused.
    pub refused: u64,
    /// How much later than it was due each was handed to the kernel.
    pub lateness: LatencyHistogram,
    /// Round trips of packets, without the time that the other end held each.
    pub round_trip: LatencyHistogram,
    /// CPU time that it used.
    pub cpu: Nanos,
}

/// Rating factors R of calls, 0 to 100: how many calls had which, to a tenth. Stored as pairs of tenths and calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u16, u64)>", into = "Vec<(u16, u64)>")]
pub struct Ratings(BTreeMap<u16, u64>);

impl From<Vec<(u16, u64)>> for Ratings {
    fn from(pairs: Vec<(u16, u64)>) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl From<Ratings> for Vec<(u16, u64)> {
    fn from(ratings: Ratings) -> Self {
        ratings.0.into_iter().collect()
    }
}

impl Ratings {
    pub(super) fn count(&mut self, rating: f64) {
        let tenths = (rating.clamp(0.0, 100.0) * 10.0).round() as u16;
        *self.0.entry(tenths).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        for (rating, calls) in &other.0 {
            let own = self.0.entry(*rating).or_default();
            *own = own.saturating_add(*calls);
        }
    }

    /// Each rating, the worst first, with how many calls had it.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.0.iter().map(|(tenths, calls)| (f64::from(*tenths) / 10.0, *calls))
    }

    /// Calls with a rating.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.values().fold(0, |sum, calls| sum.saturating_add(*calls))
    }

    /// Their mean; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.iter().map(|(rating, calls)| rating * calls as f64).sum();
        sum / self.calls().max(1) as f64
    }

    /// The rating that this share of the calls don't exceed, the worst calls first; 0 of none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = ((self.calls() as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut calls = 0_u64;
        let found = self.iter().find(|(_, own)| {
            calls = calls.saturating_add(*own);
            calls >= rank
        });
        found.map_or(0.0, |(rating, _)| rating)
    }

    /// Calls that sound worse than this.
    #[must_use]
    pub fn below(&self, rating: f64) -> u64 {
        let worse = self.iter().take_while(|(own, _)| *own < rating);
        worse.fold(0, |sum, (_, calls)| sum.saturating_add(calls))
    }

    /// The quantile as the mean opinion score that is estimated for it.
    #[must_use]
    pub fn mos_quantile(&self, share: f64) -> f64 {
        mos(self.quantile(share))
    }

    /// The mean opinion score that is estimated for their mean, 1 to 4.5.
    #[must_use]
    pub fn mos(&self) -> f64 {
        mos(self.mean())
    }
}

impl SoundDirection {
    pub(super) fn add_packets(&mut self, more: &VoicePackets) {
        let own = &mut self.packets;
        // A stored result may say anything.
        for (own, more) in [
            (&mut own.intended, more.intended),
            (&mut own.sent, more.sent),
            (&mut own.received, more.received),
            (&mut own.late, more.late),
            (&mut own.reordered, more.reordered),
            (&mut own.duplicates, more.duplicates),
            (&mut own.damaged, more.damaged),
            (&mut own.stray, more.stray),
            (&mut own.no_room, more.no_room),
        ] {
            *own = own.saturating_add(more);
        }
    }

    fn add(&mut self, other: &Self) {
        self.add_packets(&other.packets);
        self.jitter.add(&other.jitter);
        self.jitter_max.add(&other.jitter_max);
        self.ratings.add(&other.ratings);
        self.silent = self.silent.saturating_add(other.silent);
    }
}

impl SoundPace {
    /// Adds what another thread did.
    pub fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.refused = self.refused.saturating_add(other.refused);
        self.lateness.add(&other.lateness);
        self.round_trip.add(&other.round_trip);
        self.cpu = Nanos(self.cpu.0.saturating_add(other.cpu.0));
    }
}

impl SoundFigures {
    /// Adds what others found: another worker, or another trial.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.untold = self.untold.saturating_add(other.untold);
        self.up.add(&other.up);
        self.down.add(&other.down);
        self.ratings.add(&other.ratings);
        self.pace.add(&other.pace);
        for (why, count) in &other.refused {
            let own = self.refused.entry(why.clone()).or_default();
            *own = own.saturating_add(*count);
        }
    }

    /// Both directions of which something is known.
    pub fn directions(&self) -> impl Iterator<Item = &SoundDirection> {
        [&self.up, &self.down].into_iter().filter(|direction| direction.ratings.calls() > 0)
    }

    /// The mean opinion score that is estimated for the worse of both directions: a call is as good as its worse ear. `None` without a call.
    #[must_use]
    pub fn mos(&self) -> Option<f64> {
        self.directions().map(|direction| direction.ratings.mos()).reduce(f64::min)
    }

    /// Mean of the calls' jitter in the worse of both directions.
    #[must_use]
    pub fn jitter(&self) -> Nanos {
        self.up.jitter.mean().max(self.down.jitter.mean())
    }

    /// Packets of both directions that never came, as a share of those that were meant to.
    #[must_use]
    pub fn loss(&self) -> f64 {
        VoicePackets::share_of_both([&self.up.packets, &self.down.packets], VoicePackets::lost)
    }

    /// Packets of both directions that weren't heard: lost, or too late to be played.
    #[must_use]
    pub fn unheard(&self) -> f64 {
        VoicePackets::share_of_both([&self.up.packets, &self.down.packets], VoicePackets::unheard)
    }

    /// Empties the histograms, which a run keeps elsewhere.
    pub fn forget_histograms(&mut self) {
        for direction in [&mut self.up, &mut self.down] {
            (direction.jitter, direction.jitter_max) = Default::default();
        }
        (self.pace.lateness, self.pace.round_trip) = Default::default();
    }

    /// Why what was heard is this end's own doing; `None` where it kept its pace. `both`: the other end is this one too.
    pub(in super::super) fn limited(&self, options: &MediaOptions, both: bool) -> Option<String> {
        let pace = &self.pace;
        let (late, most) = (pace.lateness.quantile(0.99), Nanos(options.packet.0 / LATE));
        if late > most {
            let late = Nanos(late.0 / 1_000 * 1_000);
            return Some(format!(
                "one of a hundred packets of sound left {late} late or later, more than {most}: this end was held up"
            ));
        }
        let refused = share(pace.refused, pace.sent);
        if refused > OWN_LOSS {
            return Some(format!(
                "this end's own kernel refused {:.1} % of the packets of sound",
                100.0 * refused
            ));
        }
        let at_end_of =
            |direction: &SoundDirection| share(direction.packets.no_room, direction.packets.intended);
        let down = at_end_of(&self.down);
        let dropped = if both { down.max(at_end_of(&self.up)) } else { down };
        (dropped > OWN_LOSS).then(|| {
            format!(
                "this end's own sockets dropped {:.1} % of the packets of sound for want of room",
                100.0 * dropped
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::VoiceLaw;

    #[test]
    fn the_worst_calls_come_first() {
        let mut ratings = Ratings::default();
        (0..95).for_each(|_| ratings.count(93.2));
        (0..4).for_each(|_| ratings.count(60.04));
        ratings.count(-3.0);
        assert_eq!((ratings.calls(), ratings.below(93.2), ratings.below(60.0)), (100, 5, 1));
        assert_eq!(
            [0.0, 0.01, 0.05, 0.06, 1.0].map(|share| ratings.quantile(share)),
            [0.0, 0.0, 60.0, 93.2, 93.2]
        );
        assert!((ratings.mean() - (95.0 * 93.2 + 240.0) / 100.0).abs() < 1e-9);
        let mut both = ratings.clone();
        both.add(&ratings);
        assert_eq!((both.calls(), both.quantile(0.05)), (200, 60.0));
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(text, "[[0,2],[600,8],[932,190]]");
        assert_eq!(serde_json::from_str::<Ratings>(&text).unwrap(), both);
        let none = Ratings::default();
        assert_eq!((none.calls(), none.mean(), none.quantile(0.5), none.mos()), (0, 0.0, 0.0, 1.0));
    }

    #[test]
    fn an_end_that_is_held_up_says_so() {
        let options = MediaOptions {
            law: VoiceLaw::Mu,
            packet: Nanos::from_millis(20),
            jitter_buffer: Nanos::from_millis(60),
        };
        let mut figures = SoundFigures::default();
        assert_eq!((figures.limited(&options, false), figures.mos(), figures.loss()), (None, None, 0.0));
        figures.down.packets =
            VoicePackets { intended: 100, received: 99, no_room: 1, ..VoicePackets::default() };
        assert!(figures.limited(&options, false).unwrap().contains("sockets dropped 1.0 %"));
        (figures.pace.sent, figures.pace.refused) = (100, 1);
        assert!(figures.limited(&options, false).unwrap().contains("refused 1.0 %"));
        figures.pace.lateness.record_n(6_000_000, 100);
        assert!(figures.limited(&options, false).unwrap().contains("held up"));
        figures.forget_histograms();
        assert!(figures.pace.lateness.is_empty());
    }

    /// What the generator's own callees dropped was told of the environment.
    #[test]
    fn what_the_other_end_drops_is_its_own_doing_where_it_is_this_one() {
        let options = MediaOptions {
            law: VoiceLaw::Mu,
            packet: Nanos::from_millis(20),
            jitter_buffer: Nanos::from_millis(60),
        };
        let mut figures = SoundFigures::default();
        figures.up.packets =
            VoicePackets { intended: 100, received: 98, no_room: 2, ..VoicePackets::default() };
        assert_eq!(figures.limited(&options, false), None);
        assert!(figures.limited(&options, true).unwrap().contains("sockets dropped 2.0 %"));
        figures.down.packets =
            VoicePackets { intended: 100, received: 97, no_room: 3, ..VoicePackets::default() };
        assert!(figures.limited(&options, true).unwrap().contains("sockets dropped 3.0 %"));
    }
}
