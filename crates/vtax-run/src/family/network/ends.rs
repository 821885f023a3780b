//! What a test is made on, and what is known once it was made.

use vtax_agent::AgentError;
use vtax_load::network::{NetworkFailure, NetworkResult, NetworkSpec};
use vtax_plan::model::NetworkMeasure;
use vtax_probe::layers::CpuBreakdown;
use vtax_sys::netlink::LinkStats;

/// Makes tests between two ends: those of a testbed, or simulated ones.
pub(super) trait Ends {
    /// Makes one test to its end. `what` says which, for people.
    fn make(
        &mut self,
        spec: &NetworkSpec,
        measure: &NetworkMeasure,
        what: &str,
    ) -> Result<MadeTest, AgentError>;
}

/// A test that was made.
pub(super) struct MadeTest {
    /// What both ends found, or why they found nothing.
    pub(super) answer: Result<NetworkResult, NetworkFailure>,
    /// What went through the client's and the system under test's interface, as each sees it.
    pub(super) counted: Option<[LinkStats; 2]>,
    /// What a capture saw, where one was asked for.
    pub(super) captured: Option<Result<Captured, String>>,
    /// CPU time on the side of the system under test.
    pub(super) cpu: Option<CpuBreakdown>,
    /// Why the path could not be cut as the plan asks, where it could not.
    pub(super) uncut: Option<String>,
}

/// Payload that went over the path as a capture on the client's side saw it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Captured {
    /// Bytes towards the system under test, sent again included.
    pub(super) up: u64,
    /// Bytes towards the client.
    pub(super) down: u64,
    /// Packets that the capture missed.
    pub(super) dropped: u64,
}
