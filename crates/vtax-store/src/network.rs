//! What a network test found.

use serde::{Deserialize, Serialize};
use vtax_load::network::NetworkResult;

/// What one test of a network workload found.
///
/// A trial with several counts where at least one does, and none of the others failed in a way that
/// casts doubt on the testbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkFinding {
    /// What both ends found. Where warm-up was cut off a TCP transfer, the receiver's counted bytes and time are
    /// what is left, its intervals everything.
    pub result: NetworkResult,
    /// The same bytes as others counted them.
    pub checks: Vec<CountCheck>,
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
