//! What each of several generators did, where a trial's load came from hosts of their own.

use serde::{Deserialize, Serialize};
use vtax_load::LoadResult;

/// One generator of a trial, on a host of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GeneratorRecord {
    /// Its node: `client`, `client-2`.
    pub node: String,
    /// Its host, as the plan names it.
    pub host: String,
    /// Steps of load that it made.
    pub steps: u32,
    /// What is to be added to the controller's clock to have the host's, in nanoseconds, found right after the last step.
    pub clock_offset_ns: i64,
    /// That is right to this.
    pub clock_within_ns: u64,
    /// How much the host's clock moved against the controller's while the last step ran, in nanoseconds; it is known to as much as both
    /// clocks are.
    pub clock_moved_ns: i64,
    /// When its recorded time began in the last step, by the controller's clock in nanoseconds since 1970, as surely as that.
    pub began_unix_ns: u64,
    /// What it found, where the trial is one step: its part of the trial's, without the course over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadResult>,
}

/// How far apart generators began, and how surely that is known, both in nanoseconds; `None` of fewer than two.
#[must_use]
pub fn spread(generators: &[GeneratorRecord]) -> Option<(u64, u64)> {
    let began = || generators.iter().map(|generator| generator.began_unix_ns);
    let within = generators.iter().map(|generator| generator.clock_within_ns).max()?;
    // Two of them are compared, each by a clock that is known to so much.
    (generators.len() > 1).then_some((began().max()? - began().min()?, within.saturating_mul(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_apart_is_known_to_what_both_clocks_are() {
        let of = |began_unix_ns, clock_within_ns| GeneratorRecord {
            began_unix_ns,
            clock_within_ns,
            ..GeneratorRecord::default()
        };
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[of(5, 1)]), None);
        assert_eq!(spread(&[of(500, 10), of(300, 40), of(420, 1)]), Some((200, 80)));
    }

    #[test]
    fn what_an_older_one_lacks_is_left_empty() {
        let found: GeneratorRecord = serde_json::from_str(r#"{"node":"client-2","host":"g2"}"#).unwrap();
        assert_eq!((found.host.as_str(), found.began_unix_ns, found.load.is_none()), ("g2", 0, true));
        assert!(!serde_json::to_string(&found).unwrap().contains("load"));
    }
}
