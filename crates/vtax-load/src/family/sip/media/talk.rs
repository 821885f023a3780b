//! What is said and heard in one call.

use std::net::SocketAddr;

use vtax_units::Nanos;
use vtax_wire::rtp::{CLOCK, Came, Header, Law, Packet, Receiver};
use vtax_wire::sdp::{Audio, Flow};

use super::told::{Heard, Told};
use super::{PACKET_MS_MAX, Sounds};
use crate::network::SOUND_BYTES_MAX;

/// The extension of headers in which ends of vtax's ask how long a round trip takes: when it was asked, and when what is answered was asked,
/// the time until it was answered added; each 8 bytes, 0 for none. Others leave it alone (RFC 3550 section 5.3.1).
const ASK_KIND: u16 = 0x7674;
const ASK_BYTES: usize = 16;
/// From one question to the next.
const ASKS: u64 = 100_000_000;
/// A round trip that takes longer is none.
const ROUND_TRIP_MAX: u64 = 10_000_000_000;
const _: () = assert!(SOUND_BYTES_MAX as u64 == PACKET_MS_MAX * CLOCK as u64 / 1_000);

/// One call's sound.
#[derive(Debug)]
pub(super) struct Talk {
    /// Where the other end hears.
    pub(super) far: SocketAddr,
    pub(super) far_flow: Flow,
    /// Whether packets are to be sent; and whether the thread knows.
    pub(super) speaks: bool,
    pub(super) queued: bool,
    /// Sound in a packet.
    pub(super) packet: Nanos,
    law: Law,
    ssrc: u32,
    first: (u16, u32),
    pub(super) sent: u64,
    receiver: Receiver,
    /// The stream that is heard: that of the packet that came first.
    far_ssrc: Option<u32>,
    damaged: u64,
    foreign: u64,
    /// When something was last heard.
    pub(super) heard_at: u64,
    dropped_before: u32,
    /// A question that is to be answered, and when it came.
    asked: Option<(u64, u64)>,
    /// Sum of the round trips, and how many there were.
    round_trips: (u64, u64),
    /// The one that was measured last, until somebody takes it.
    pub(super) round_trip: Option<u64>,
}

impl Talk {
    /// With an end, from that time on. `random` makes its numbers, `dropped_before` is what its socket has dropped of earlier calls.
    pub(super) fn new(
        far: &Audio,
        law: Law,
        (packet, jitter_buffer): (Nanos, Nanos),
        random: u64,
        (now, dropped_before): (u64, u32),
    ) -> Self {
        let whole_seconds = (random >> 16) as u32 % 200_000 * CLOCK;
        Self {
            far: far.address,
            far_flow: far.flow,
            speaks: false,
            queued: false,
            packet,
            law,
            ssrc: (random >> 32) as u32,
            first: (random as u16, whole_seconds),
            sent: 0,
            receiver: Receiver::new(CLOCK, jitter_buffer.0),
            far_ssrc: None,
            damaged: 0,
            foreign: 0,
            heard_at: now,
            dropped_before,
            asked: None,
            round_trips: (0, 0),
            round_trip: None,
        }
    }

    /// Appends the next packet.
    pub(super) fn speak(&mut self, now: u64, sounds: &Sounds, out: &mut Vec<u8>) {
        let sound = sounds.of(self.law);
        let bytes = (self.packet.0 * u64::from(CLOCK) / 1_000_000_000) as usize;
        let (sequence, tick) = self.first;
        let timestamp = tick.wrapping_add((self.sent as u32).wrapping_mul(bytes as u32));
        let header = Header {
            marker: self.sent == 0,
            payload_type: sound.payload_type,
            sequence: sequence.wrapping_add(self.sent as u16),
            timestamp,
            ssrc: self.ssrc,
        };
        if self.sent.is_multiple_of(ASKS / self.packet.0.max(1)) {
            let answer = self.asked.take().map_or(0, |(asked, came)| asked + now.saturating_sub(came));
            let mut words = [[0; 4]; ASK_BYTES / 4];
            words.as_flattened_mut()[..8].copy_from_slice(&now.to_be_bytes());
            words.as_flattened_mut()[8..].copy_from_slice(&answer.to_be_bytes());
            header.write_extended(ASK_KIND, &words, out);
        } else {
            header.write(out);
        }
        out.extend_from_slice(sound.at(timestamp, bytes));
        self.sent += 1;
    }

    /// Hears a datagram that came from there at that time.
    pub(super) fn hear(&mut self, datagram: &[u8], from: SocketAddr, arrived: u64, sounds: &Sounds) {
        let packet = Packet::parse(datagram).ok().filter(|_| from.ip() == self.far.ip());
        let Some(packet) =
            packet.filter(|packet| *self.far_ssrc.get_or_insert(packet.header.ssrc) == packet.header.ssrc)
        else {
            self.foreign += 1;
            return;
        };
        self.heard_at = self.heard_at.max(arrived);
        let header = packet.header;
        let came = self.receiver.receive(header.sequence, header.timestamp, arrived);
        if matches!(came, Came::Again | Came::Stray) {
            return;
        }
        let law = [Law::Mu, Law::A].into_iter().find(|law| law.payload_type() == header.payload_type);
        if let Some(law) = law {
            self.damaged +=
                u64::from(packet.payload != sounds.of(law).at(header.timestamp, packet.payload.len()));
        }
        if let Some((ASK_KIND, words)) = packet.extension
            && let Some((asked, answered)) = words.split_first_chunk::<8>()
            && let Some(answered) = answered.first_chunk::<8>()
        {
            let (asked, answered) = (u64::from_be_bytes(*asked), u64::from_be_bytes(*answered));
            // Anybody may write anything: what isn't a time of this clock is no answer, and what can't be answered no question.
            self.asked = Some((asked, arrived)).filter(|_| asked > 0 && asked < u64::MAX / 2);
            let took = arrived.checked_sub(answered).filter(|took| answered > 0 && *took <= ROUND_TRIP_MAX);
            if let Some(took) = took {
                self.round_trips = (self.round_trips.0 + took, self.round_trips.1 + 1);
                self.round_trip = Some(took);
            }
        }
    }

    /// What was sent and heard until now; `dropped`: what the socket has dropped.
    pub(super) fn told(&self, dropped: u32) -> Told {
        let (reordered, again, late, stray) = self.receiver.disorder();
        let (jitter, jitter_max) = self.receiver.jitter();
        let heard = Heard {
            from: self.receiver.first().unwrap_or(0),
            expected: self.receiver.expected(),
            received: self.receiver.received(),
            late,
            reordered,
            again,
            stray: stray + self.foreign,
            damaged: self.damaged,
            no_room: u64::from(dropped.saturating_sub(self.dropped_before)),
            jitter: Nanos(jitter),
            jitter_max: Nanos(jitter_max),
        };
        Told { sent: self.sent, first: self.first.0, packet: self.packet, heard }
    }

    /// Mean of the round trips; 0 where none was measured.
    pub(super) fn mean_round_trip(&self) -> Nanos {
        Nanos(self.round_trips.0.checked_div(self.round_trips.1).unwrap_or(0))
    }
}
