//! Rates over time, as the command line has them.

use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use vtax_load::Segment;
use vtax_units::{Nanos, Rate};

/// `RATE`, or `RATE[..RATE]:DURATION` separated by commas.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Profile {
    pub(super) segments: Vec<Segment>,
}

impl Profile {
    /// The rate it begins with.
    pub(super) fn first(&self) -> Rate {
        self.segments.first().map_or(Rate(0.0), |segment| segment.from)
    }
}

impl FromStr for Profile {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let segments: Vec<Segment> = text.split(',').map(segment).collect::<Result<_>>()?;
        let untimed = segments.iter().filter(|s| s.duration == Nanos::ZERO).count();
        ensure!(
            untimed == 0 || segments.len() == 1,
            "each of several rates needs a duration, such as 1000/s:10s"
        );
        Ok(Self { segments })
    }
}

fn segment(text: &str) -> Result<Segment> {
    let (rates, duration) = match text.split_once(':') {
        Some((rates, duration)) => (rates, duration.parse()?),
        None => (text, Nanos::ZERO),
    };
    let (from, to) = match rates.split_once("..") {
        Some((from, to)) => {
            ensure!(text.contains(':'), "a ramp needs a duration: `{text}:10s`");
            (from.parse::<Rate>()?, to.parse()?)
        }
        None => {
            let rate: Rate = rates.parse().with_context(|| format!("in `{text}`"))?;
            (rate, rate)
        }
    };
    Ok(Segment { from, to, duration })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read() {
        let one: Profile = "20k/s".parse().unwrap();
        assert_eq!(one.first(), Rate(20_000.0));
        let all: Profile = "1000/s:10s,1000/s..9000/s:30s".parse().unwrap();
        assert_eq!(
            all.segments[1],
            Segment { from: Rate(1000.0), to: Rate(9000.0), duration: Nanos::from_secs(30) }
        );
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "fast", "1/s,2/s", "1..2", "1/s:x", "1/s:1s,", "..:1s"] {
            assert!(text.parse::<Profile>().is_err(), "{text}");
        }
    }
}
