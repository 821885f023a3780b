//! What a desktop workload may ask for, in a plan or on the command line.

use std::ops::RangeInclusive;

use vtax_units::Nanos;

/// Desktops of one service: each is a server of its own.
pub const SESSIONS: RangeInclusive<u32> = 1..=200;
/// Width of a desktop in pixels: its text and its pictures need room.
pub const WIDTH: RangeInclusive<u16> = 400..=3840;
/// Height of a desktop in pixels.
pub const HEIGHT: RangeInclusive<u16> = 300..=2160;
/// Actions of one user per second; a film of 60 pictures a second is the most.
pub const RATE: RangeInclusive<f64> = 0.01..=100.0;
/// How long a user waits after an answer.
pub const THINK: RangeInclusive<Nanos> = Nanos::ZERO..=Nanos::from_secs(600);
/// How long a user stays connected, where that isn't to the end.
pub const STAY: RangeInclusive<Nanos> = Nanos::from_millis(100)..=Nanos::from_secs(3600);

/// Whether users may stay that long.
#[must_use]
pub fn stays(stay: Nanos) -> bool {
    stay == Nanos::ZERO || STAY.contains(&stay)
}

/// The share of a kind of action in a mix, relative to the others.
pub const WEIGHT: RangeInclusive<u32> = 0..=1000;
