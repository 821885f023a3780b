//! Rates over time, as the command line has them.

use std::str::FromStr;

use anyhow::{Result, ensure};
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

    /// What its steps take after the time that isn't recorded; `None` where they have no durations.
    pub(super) fn recorded(&self, warmup: Nanos) -> Result<Option<Nanos>> {
        let total =
            Nanos(self.segments.iter().fold(0, |sum, segment| segment.duration.0.saturating_add(sum)));
        if total == Nanos::ZERO {
            return Ok(None);
        }
        ensure!(
            total > warmup,
            "the steps of --rate take {total}, and the first {warmup} are not recorded: nothing is left"
        );
        Ok(Some(total.saturating_sub(warmup)))
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
            let rate: Rate = rates.parse()?;
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
    fn what_is_recorded_are_the_steps_without_the_warm_up() {
        let recorded = |text: &str| {
            text.parse::<Profile>().unwrap().recorded(Nanos::from_secs(1)).map_err(|e| e.to_string())
        };
        assert_eq!(recorded("50/s:10s,50/s..500/s:30s"), Ok(Some(Nanos::from_secs(39))));
        assert_eq!(recorded("50/s"), Ok(None));
        assert!(recorded("50/s:500ms,60/s:500ms").is_err_and(|why| why.contains("nothing is left")));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "fast", "1/s,2/s", "1..2", "1/s:x", "1/s:1s,", "..:1s"] {
            assert!(text.parse::<Profile>().is_err(), "{text}");
        }
    }

    /// The command line shows an error without its causes.
    #[test]
    fn the_reason_is_told() {
        for text in ["900x/s", "1000/s:1s,900x/s:3s"] {
            let told = text.parse::<Profile>().unwrap_err().to_string();
            assert!(told.contains("`900x/s` is not a rate") && told.contains("not a unit of rate"), "{told}");
        }
    }
}
