//! What a load of desktop users found.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;
use vtax_wire::rfb::{Encoding, Tally};

use crate::{Details, LatencyHistogram, LoadResult};

/// What a user does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Types a character.
    Type,
    /// Turns the wheel.
    Scroll,
    /// Drags a picture.
    Drag,
    /// Watches a film.
    Film,
}

impl Kind {
    /// All of them, in the order of [`DesktopFigures::by_kind`].
    pub const ALL: [Self; 4] = [Self::Type, Self::Scroll, Self::Drag, Self::Film];

    /// Its word in plans and reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Scroll => "scroll",
            Self::Drag => "drag",
            Self::Film => "film",
        }
    }
}

/// What a step found: actions as requests, and what came over the wire for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesktopResult {
    /// Actions: an action is a request, its marker the answer.
    pub load: LoadResult,
    /// What is known of desktops besides.
    pub figures: DesktopFigures,
}

impl DesktopResult {
    /// Both as one: the figures are the load's details.
    #[must_use]
    pub fn into_load(self) -> LoadResult {
        let details = Details { desktop: Some(Box::new(self.figures)), ..Details::default() };
        LoadResult { details: Some(details), ..self.load }
    }
}

/// What came over the wire in the recorded time, all sessions together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DesktopFigures {
    /// Length of the recorded time. What is cut off as warm-up later is in here.
    pub duration: Nanos,
    /// Sessions whose users acted.
    pub sessions: u32,
    /// Sessions that were connected at the end.
    pub connected: u32,
    /// Size of the first session's desktop, in pixels.
    pub size: (u16, u16),
    /// Updates.
    pub updates: u64,
    /// Rectangles of updates by encoding, those that came: name and number.
    pub rects: Vec<(String, u64)>,
    /// Pixels in them.
    pub pixels: u64,
    /// Bytes of updates.
    pub bytes: u64,
    /// Answers that came in one update with a later one's.
    pub merged: u64,
    /// Sessions that sent updates unasked.
    pub continuous: u32,
    /// Latency by kind of action, those that were taken.
    pub by_kind: Vec<(Kind, LatencyHistogram)>,
    /// From when a user was to be connected to the first whole picture, of connections made in this step; where users come and go, of those
    /// who were due in the recorded time and not at the step's start, when all are.
    pub opening: LatencyHistogram,
    /// Why the last connection that couldn't be made or was given up was, in words.
    pub trouble: Option<String>,
    /// The first session's desktop at the end: a PNG as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
}

impl DesktopFigures {
    /// Adds what was read in a stretch of time.
    pub(super) fn tally(&mut self, from: &Tally, to: &Tally) {
        self.updates += to.updates.saturating_sub(from.updates);
        self.pixels += to.pixels.saturating_sub(from.pixels);
        self.bytes += to.bytes.saturating_sub(from.bytes);
        for (place, encoding) in Encoding::ALL.iter().enumerate() {
            let more = to.rects[place].saturating_sub(from.rects[place]);
            if more > 0 {
                self.count(encoding.name(), more);
            }
        }
    }

    fn count(&mut self, name: &str, more: u64) {
        match self.rects.iter_mut().find(|(other, _)| other == name) {
            Some((_, sum)) => *sum += more,
            None => self.rects.push((name.to_owned(), more)),
        }
    }

    /// Adds another worker's.
    pub(super) fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.connected += other.connected;
        self.updates += other.updates;
        other.rects.iter().for_each(|(name, more)| self.count(name, *more));
        self.pixels += other.pixels;
        self.bytes += other.bytes;
        self.merged += other.merged;
        self.continuous += other.continuous;
        for (kind, latency) in other.by_kind {
            match self.by_kind.iter_mut().find(|(own, _)| *own == kind) {
                Some((_, sum)) => sum.add(&latency),
                None => self.by_kind.push((kind, latency)),
            }
        }
        self.opening.add(&other.opening);
        self.trouble = self.trouble.take().or(other.trouble);
    }
}
