//! What an end tells of a call's sound when the call ends: a header of the message with which it says so.

use std::io::Write as _;

use vtax_units::Nanos;

/// The header. It stands in BYE's 200, and in the BYE of a server's scenario.
pub(in super::super) const HEADER: &[u8] = b"X-Vtax-Sound";
/// Longer values are none of vtax's.
const BYTES_MAX: usize = 512;
/// More packets than any call has.
const COUNT_MAX: u64 = 1 << 40;

/// What an end heard, by the numbers of the packets that came (RFC 3550, appendices A.1 and A.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Heard {
    /// The lowest number.
    pub(super) from: u16,
    /// Packets from the lowest to the highest.
    pub(super) expected: u64,
    pub(super) received: u64,
    pub(super) late: u64,
    pub(super) reordered: u64,
    pub(super) again: u64,
    pub(super) stray: u64,
    pub(super) damaged: u64,
    pub(super) no_room: u64,
    pub(super) jitter: Nanos,
    pub(super) jitter_max: Nanos,
}

/// What an end sent and heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Told {
    /// Packets that it sent.
    pub(super) sent: u64,
    /// The number of the first.
    pub(super) first: u16,
    /// Sound in each.
    pub(super) packet: Nanos,
    pub(super) heard: Heard,
}

/// How the parts are named, in their order.
const NAMES: [&str; 14] = [
    "sent",
    "first",
    "packet",
    "from",
    "expected",
    "received",
    "late",
    "reordered",
    "again",
    "stray",
    "damaged",
    "no-room",
    "jitter",
    "jitter-max",
];

impl Told {
    /// Appends it as a header line.
    pub(in super::super) fn write(&self, out: &mut Vec<u8>) {
        let heard = &self.heard;
        let values = [
            self.sent,
            u64::from(self.first),
            self.packet.0,
            u64::from(heard.from),
            heard.expected,
            heard.received,
            heard.late,
            heard.reordered,
            heard.again,
            heard.stray,
            heard.damaged,
            heard.no_room,
            heard.jitter.0,
            heard.jitter_max.0,
        ];
        out.extend_from_slice(HEADER);
        for (number, (name, value)) in NAMES.iter().zip(values).enumerate() {
            let before = if number == 0 { ": " } else { ";" };
            // Writing into bytes can't fail.
            let _ = write!(out, "{before}{name}={value}");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Reads the header's value; `None` where it is none, or counts more than there was.
    pub(in super::super) fn read(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= BYTES_MAX)?;
        let mut values = [0; NAMES.len()];
        let mut parts = text.trim().split(';');
        for (name, value) in NAMES.iter().zip(&mut values) {
            let number = parts.next()?.strip_prefix(name)?.strip_prefix('=')?;
            *value = number.parse().ok().filter(|number| *number <= COUNT_MAX)?;
        }
        let [
            sent,
            first,
            packet,
            from,
            expected,
            received,
            late,
            reordered,
            again,
            stray,
            damaged,
            no_room,
            jitter,
            jitter_max,
        ] = values;
        let heard = Heard {
            from: u16::try_from(from).ok()?,
            expected,
            received,
            late,
            reordered,
            again,
            stray,
            damaged,
            no_room,
            jitter: Nanos(jitter),
            jitter_max: Nanos(jitter_max),
        };
        let told = Self { sent, first: u16::try_from(first).ok()?, packet: Nanos(packet), heard };
        let sound = received <= expected && late <= received && damaged <= received && reordered <= received;
        (parts.next().is_none() && sound).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(sent in 0..COUNT_MAX, first: u16, from: u16, expected in 0..COUNT_MAX, share in 0_u64..=4, jitter in 0..COUNT_MAX) {
            let received = expected / 4 * share.min(4);
            let heard = Heard {
                from,
                expected,
                received,
                late: received / 2,
                reordered: received / 3,
                again: sent,
                stray: 7,
                damaged: received,
                no_room: 9,
                jitter: Nanos(jitter),
                jitter_max: Nanos(jitter),
            };
            let told = Told { sent, first, packet: Nanos::from_millis(20), heard };
            let mut line = Vec::new();
            told.write(&mut line);
            let value = line.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix(b":")).unwrap();
            prop_assert_eq!(Told::read(value), Some(told));
            prop_assert!(Told::read(&value[..value.len() - 20]).is_none());
        }

        #[test]
        fn anything_else_is_none(text in ".{0,600}", number: u64) {
            prop_assert!(Told::read(text.as_bytes()).is_none());
            let all = NAMES.map(|name| format!("{name}={number}")).join(";");
            if let Some(told) = Told::read(all.as_bytes()) {
                prop_assert!(told.heard.received <= told.heard.expected && told.sent <= COUNT_MAX);
            }
        }
    }
}
