//! Scalar quantities.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::UnitError;
use crate::decimal::{is_numeric, split};

/// A duration or a moment on a monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A whole number of seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// A whole number of milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A non-negative number of seconds; negative and NaN become zero.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9) as u64)
    }

    /// Seconds as a float.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or zero where `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// As people say it, in two units at most: `45 s`, `3 min 20 s`, `2 h 5 min`, `4 days`. Rounded.
    #[must_use]
    pub fn about(self) -> String {
        let secs = self.as_secs_f64().round() as u64;
        match secs {
            0..=99 => format!("{secs} s"),
            100..=3_599 if secs % 60 < 10 => format!("{} min", secs / 60),
            100..=3_599 => format!("{} min {} s", secs / 60, secs % 60 / 10 * 10),
            3_600..=359_999 if secs % 3600 < 60 => format!("{} h", secs / 3600),
            3_600..=359_999 => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
            _ => format!("{} days", secs / 86_400),
        }
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Self {
        Self::from_nanos(n.0)
    }
}

/// A size or an amount of data, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// A whole number of mebibytes.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// Whole mebibytes, rounded down.
    #[must_use]
    pub const fn mib(self) -> u64 {
        self.0 >> 20
    }
}

/// Events per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

/// Bits per second on a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(pub u64);

/// A share of a whole: 0.5 is 50 %. Never negative, may exceed 1. Written with `%`, or as a fraction below 1: a
/// number of 1 or more without `%` is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

const DURATION: &str = "a duration such as 40ms, 2s or 1m30s";
const SIZE: &str = "a size such as 100, 10KB, 64KiB or 256MiB";
const RATE: &str = "a rate such as 1000/s or 20k/s";
const BITS: &str = "a bit rate such as 1gbit or 100mbit";
const SHARE: &str = "a share such as 50% or 0.5";

/// Looks a unit up; without one, the reason says so, and a wrong one is answered with the known ones.
fn factor<F: Copy>(
    unit: &str,
    known: &[(&str, F)],
    text: &str,
    what: &'static str,
    of: &str,
) -> Result<F, UnitError> {
    if let Some((_, factor)) = known.iter().find(|(name, _)| *name == unit) {
        return Ok(*factor);
    }
    if unit.is_empty() {
        return Err(UnitError::new(text, what, "the unit is missing"));
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
    let reason = format!("`{unit}` is not a unit of {of} ({})", names.join(", "));
    Err(UnitError::new(text, what, reason))
}

fn too_large(text: &str, what: &'static str) -> UnitError {
    UnitError::new(text, what, "it is too large")
}

const TIME_UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    // The micro sign, U+00B5, and the Greek letter, U+03BC: keyboards have either.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for Nanos {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut total = 0u64;
        let mut rest = text.trim();
        loop {
            let number_end = rest.find(|c: char| !is_numeric(c)).unwrap_or(rest.len());
            let unit_end = rest[number_end..]
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .map_or(rest.len(), |i| number_end + i);
            let (number, unit) =
                split(&rest[..unit_end], DURATION).map_err(|e| UnitError { text: text.to_owned(), ..e })?;
            // Zero is zero in any unit.
            let factor = match unit {
                "" if number.is_zero() => 0,
                unit => factor(unit, &TIME_UNITS, text, DURATION, "time")?,
            };
            let sum = number.times(factor).and_then(|part| total.checked_add(part));
            total = sum.ok_or_else(|| too_large(text, DURATION))?;
            rest = &rest[unit_end..];
            if rest.is_empty() {
                return Ok(Self(total));
            }
        }
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        match n {
            0 => f.write_str("0s"),
            _ if n.is_multiple_of(1_000_000_000) => write!(f, "{}s", n / 1_000_000_000),
            _ if n.is_multiple_of(1_000_000) => write!(f, "{}ms", n / 1_000_000),
            _ if n.is_multiple_of(1_000) => write!(f, "{}us", n / 1_000),
            _ => write!(f, "{n}ns"),
        }
    }
}

const SIZE_UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("k", 1_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, SIZE)?;
        let factor = factor(unit, &SIZE_UNITS, text, SIZE, "size")?;
        number.times(factor).map(Self).ok_or_else(|| too_large(text, SIZE))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if n != 0 && n.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", n >> shift);
            }
        }
        for (factor, unit) in [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")] {
            if n != 0 && n.is_multiple_of(factor) {
                return write!(f, "{}{unit}", n / factor);
            }
        }
        write!(f, "{n}B")
    }
}

const RATE_UNITS: [(&str, f64); 8] = [
    ("", 1.0),
    ("/s", 1.0),
    ("k/s", 1e3),
    ("M/s", 1e6),
    ("/m", 1.0 / 60.0),
    ("/min", 1.0 / 60.0),
    ("k", 1e3),
    ("M", 1e6),
];

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, RATE)?;
        let factor = factor(unit, &RATE_UNITS, text, RATE, "rate")?;
        number.as_f64().map(|n| Self(n * factor)).ok_or_else(|| too_large(text, RATE))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

const BIT_UNITS: [(&str, u64); 10] = [
    ("bit", 1),
    ("bit/s", 1),
    ("kbit", 1_000),
    ("kbit/s", 1_000),
    ("mbit", 1_000_000),
    ("Mbit", 1_000_000),
    ("Mbit/s", 1_000_000),
    ("gbit", 1_000_000_000),
    ("Gbit", 1_000_000_000),
    ("Gbit/s", 1_000_000_000),
];

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, BITS)?;
        let factor = factor(unit, &BIT_UNITS, text, BITS, "bit rate")?;
        number.times(factor).map(Self).ok_or_else(|| too_large(text, BITS))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (factor, unit) in [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit")] {
            if self.0 != 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}bit", self.0)
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, SHARE)?;
        let factor = factor(unit, &[("", 1.0), ("%", 100.0)], text, SHARE, "share")?;
        let number = number.as_f64().ok_or_else(|| too_large(text, SHARE))?;
        // `10` would be 1000 %, where most who write it mean 10 %.
        if unit.is_empty() && number >= 1.0 {
            return Err(UnitError::new(text, SHARE, share_meant(number)));
        }
        Ok(Self(number / factor))
    }
}

/// Why a number of 1 or more without `%` is refused, and what was probably meant.
fn share_meant(number: f64) -> String {
    // Up to 2 it may as well be a fraction.
    let whole = if number <= 2.0 { format!(" or `{}`", Share(number)) } else { String::new() };
    format!("without `%` it is a fraction, which is below 1; did you mean `{number}%`{whole}?")
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded so that 0.07 * 100 prints as 7, not 7.000000000000001.
        write!(f, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}

macro_rules! as_text {
    ($type:ident, $name:literal, $what:expr, $example:literal, $number:expr $(, $more:literal: $bound:literal)?) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }

                    fn visit_str<E: de::Error>(self, v: &str) -> Result<$type, E> {
                        v.parse().map_err(E::custom)
                    }

                    fn visit_u64<E: de::Error>(self, v: u64) -> Result<$type, E> {
                        v.to_string().parse().map_err(E::custom)
                    }

                    fn visit_i64<E: de::Error>(self, v: i64) -> Result<$type, E> {
                        v.to_string().parse().map_err(E::custom)
                    }

                    fn visit_f64<E: de::Error>(self, v: f64) -> Result<$type, E> {
                        v.to_string().parse().map_err(E::custom)
                    }
                }
                d.deserialize_any(Visitor)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": $number, "description": $what, "examples": [$example] $(, $more: $bound)? })
            }
        }
    };
}

as_text!(Nanos, "Duration", DURATION, "40ms", "string");
as_text!(Bytes, "Size", SIZE, "256MiB", ["string", "integer"]);
as_text!(Rate, "Rate", RATE, "1000/s", ["string", "number"]);
as_text!(BitRate, "BitRate", BITS, "1gbit", "string");
as_text!(Share, "Share", SHARE, "50%", ["string", "number"], "exclusiveMaximum": 1);
