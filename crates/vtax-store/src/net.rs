//! What the network tests of a trial found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_load::network::NetResult;
use vtax_probe::layers::CpuBreakdown;

use crate::record::{Validity, WarmUp};

/// The tests of one trial's testbed.
///
/// A trial counts where at least one of its tests does, and none of the others failed in a way that
/// casts doubt on the testbed; which tests count is said by each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetOutcome {
    /// In the order in which they were made, which is drawn for each trial.
    pub tests: Vec<NetObservation>,
}

impl NetOutcome {
    /// The observation of the test of that name, where it was made and counts.
    #[must_use]
    pub fn valid(&self, test: &str) -> Option<&NetObservation> {
        self.tests.iter().find(|o| o.test == test && o.validity == Validity::Valid)
    }
}

/// One test of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetObservation {
    /// Its name in the cell's workload, [`vtax_plan::model::NetworkTest::name`].
    pub test: String,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether it counts.
    pub validity: Validity,
    /// What both ends found; `None` where it came to nothing.
    pub result: Option<NetResult>,
    /// What was cut off the start of a TCP transfer beyond the plan's warm-up; the counted bytes and
    /// time of the receiver are what is left, its intervals everything.
    pub warm_up: Option<WarmUp>,
    /// The same bytes as others counted them.
    pub checks: Vec<CountCheck>,
    /// CPU time by layer on the side of the system under test, warm-up included; its `requests` are
    /// the bytes (`tcp`), datagrams (`udp`), echoes (`ping`) or transactions (`rr`) it was spent on.
    pub cpu: Option<CpuBreakdown>,
    /// What else a reader may want: the length of a cut's silence, what a controller did.
    pub facts: BTreeMap<String, String>,
}

impl NetObservation {
    /// The largest share by which a count lies outside of what it should be; `None` where nothing was
    /// counted but by the ends themselves.
    #[must_use]
    pub fn worst_check(&self) -> Option<&CountCheck> {
        self.checks.iter().max_by(|a, b| a.apart().total_cmp(&b.apart()))
    }
}

/// The bytes of one direction as somebody else counted them, and what that count should be.
///
/// Counters of interfaces include headers, and offloads decide how many: one for each segment, or one
/// for a burst of them. So the count that agrees is a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountCheck {
    /// Who counted.
    pub by: CountedBy,
    /// From the client to the system under test.
    pub up: bool,
    /// Bytes that it counted.
    pub found: u64,
    /// The least it should be: what the ends counted as payload, sent again included.
    pub least: u64,
    /// The most: with a header for each segment.
    pub most: u64,
}

impl CountCheck {
    /// By how much the count lies outside, as a share of the nearer bound.
    #[must_use]
    pub fn apart(&self) -> f64 {
        let (bound, outside) = if self.found < self.least {
            (self.least, self.least - self.found)
        } else {
            (self.most, self.found.saturating_sub(self.most))
        };
        if outside == 0 { 0.0 } else { outside as f64 / (bound as f64).max(1.0) }
    }
}

/// Who counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedBy {
    /// The kernel, at the client's interface.
    ClientInterface,
    /// The kernel, at the system under test's interface.
    SutInterface,
    /// vtax, in a packet capture on the client's interface: payload of TCP segments or datagrams.
    Capture,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_apart_by_what_lies_outside_its_range() {
        let check = |found| CountCheck { by: CountedBy::Capture, up: true, found, least: 1_000, most: 1_100 };
        for (found, apart) in [(1_000, 0.0), (1_100, 0.0), (990, 0.01), (1_111, 0.01), (0, 1.0)] {
            assert!((check(found).apart() - apart).abs() < 1e-12, "{found}");
        }
        let nothing = CountCheck { by: CountedBy::Capture, up: false, found: 0, least: 0, most: 0 };
        assert_eq!(nothing.apart(), 0.0);
    }
}
