//! What was seen of HTTP/2.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_wire::http2::ErrorCode;

/// Names of the kinds of frame (RFC 9113 section 6).
const KINDS: [&str; 10] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
];

/// HTTP/2 of a load's connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Details {
    /// How the version came about: `ALPN` or `prior knowledge`.
    pub by: String,
    /// Streams that were opened.
    pub streams: u64,
    /// The most that were open at once on a connection.
    pub most_streams: u32,
    /// Frames that came, by kind.
    pub frames: BTreeMap<String, u64>,
    /// Bytes of the answers' header blocks, as they came.
    pub head_bytes: u64,
    /// Streams that the server ended with an error, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resets: BTreeMap<String, u64>,
    /// Connections that the server wants no more streams on, by the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub goaways: BTreeMap<String, u64>,
    /// Streams that the server hadn't looked at, whose requests were sent again.
    #[serde(default)]
    pub again: u64,
    /// Streams that were given up as their requests had timed out.
    #[serde(default)]
    pub given_up: u64,
    /// Answers that can't be any.
    #[serde(default)]
    pub malformed: u64,
}

impl Http2Details {
    /// Adds what another worker found.
    pub(super) fn add(&mut self, other: Self) {
        if self.by.is_empty() {
            self.by = other.by;
        }
        self.streams += other.streams;
        self.most_streams = self.most_streams.max(other.most_streams);
        self.head_bytes += other.head_bytes;
        let counts = [
            (&mut self.frames, other.frames),
            (&mut self.resets, other.resets),
            (&mut self.goaways, other.goaways),
        ];
        for (own, more) in counts {
            more.into_iter().for_each(|(name, count)| *own.entry(name).or_default() += count);
        }
        self.again += other.again;
        self.given_up += other.given_up;
        self.malformed += other.malformed;
    }
}

/// The same as it is counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    streams: u64,
    most_streams: u32,
    frames: [u64; KINDS.len()],
    unknown: u64,
    resets: BTreeMap<String, u64>,
    goaways: BTreeMap<String, u64>,
    pub(super) head_bytes: u64,
    pub(super) again: u64,
    pub(super) given_up: u64,
    pub(super) malformed: u64,
}

/// Names of errors that are told apart: a server may send any number.
const CODES_MAX: usize = 32;

impl Tally {
    /// A stream was opened; so many are open on its connection.
    pub(super) fn opened(&mut self, open: u32) {
        self.streams += 1;
        self.most_streams = self.most_streams.max(open);
    }

    pub(super) fn frame(&mut self, kind: u8) {
        *self.frames.get_mut(usize::from(kind)).unwrap_or(&mut self.unknown) += 1;
    }

    pub(super) fn reset(&mut self, code: ErrorCode, recorded: bool) {
        count(&mut self.resets, code, recorded);
    }

    pub(super) fn goaway(&mut self, code: ErrorCode, recorded: bool) {
        count(&mut self.goaways, code, recorded);
    }

    /// What was counted, which begins anew.
    pub(super) fn told(&mut self, by: &str) -> Http2Details {
        let own = std::mem::take(self);
        let known = KINDS.iter().map(|name| (*name).to_owned()).zip(own.frames);
        let all = known.chain([("unknown".to_owned(), own.unknown)]);
        Http2Details {
            by: by.to_owned(),
            streams: own.streams,
            most_streams: own.most_streams,
            frames: all.filter(|(_, count)| *count > 0).collect(),
            head_bytes: own.head_bytes,
            resets: own.resets,
            goaways: own.goaways,
            again: own.again,
            given_up: own.given_up,
            malformed: own.malformed,
        }
    }
}

fn count(counts: &mut BTreeMap<String, u64>, code: ErrorCode, recorded: bool) {
    if !recorded {
        return;
    }
    let name = code.to_string();
    let name =
        if counts.len() < CODES_MAX || counts.contains_key(&name) { name } else { "others".to_owned() };
    *counts.entry(name).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_errors_are_counted_by_name() {
        let mut tally = Tally::default();
        tally.opened(3);
        [0, 0, 4, 200].into_iter().for_each(|kind| tally.frame(kind));
        (0..100).for_each(|code| tally.reset(ErrorCode(code), true));
        tally.goaway(ErrorCode::NO_ERROR, false);
        let mut sum = tally.told("ALPN");
        assert_eq!((sum.streams, sum.most_streams, sum.goaways.len()), (1, 3, 0));
        assert_eq!((sum.frames["DATA"], sum.frames["SETTINGS"], sum.frames["unknown"]), (2, 1, 1));
        assert!(sum.resets.len() <= CODES_MAX + 1 && sum.resets.values().sum::<u64>() == 100);
        sum.add(sum.clone());
        assert_eq!((sum.streams, sum.frames["DATA"], sum.by.as_str()), (2, 4, "ALPN"));
    }
}
