//! Whether a trial or an observation counts, and what of it.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// What became of a trial's warm-up beyond the time that the plan gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// What was found.
    pub state: SteadyState,
    /// Time cut from the start of the recorded time; the finding's load is of what was kept, the
    /// trial's files hold everything.
    pub cut: Nanos,
    /// The series it was judged by: `median latency`, `requests answered`.
    pub series: String,
    /// Length of one value of the series.
    pub interval: Nanos,
    /// Values of the series, those cut included.
    pub values: u32,
    /// What was found, in words.
    pub detail: String,
}

/// Whether a trial became steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyState {
    /// It did, after what was cut.
    Steady,
    /// It never did; the trial doesn't count.
    Never,
    /// Too short, or too few requests, to tell; everything recorded counts.
    NotJudged,
}

/// Whether a trial counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "validity", rename_all = "kebab-case")]
pub enum Validity {
    /// It counts.
    #[default]
    Valid,
    /// It doesn't, and why.
    Invalid {
        /// The kind of reason.
        reason: InvalidReason,
        /// The details, for people.
        detail: String,
    },
}

/// Why a trial doesn't count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidReason {
    /// The generator could not carry the load.
    GeneratorLimited,
    /// Something that is not part of the testbed took the SUT's CPUs, or the host swapped.
    Disturbed,
    /// The testbed could not be built.
    TestbedFailed,
    /// The service did not start, died or never became ready.
    ServiceFailed,
    /// The measurement itself failed.
    MeasureFailed,
    /// No request succeeded.
    NothingSucceeded,
    /// It needed another measure's result that is missing.
    PrerequisiteMissing,
    /// It warmed up, drifted or changed until its end.
    NoSteadyState,
    /// It could not answer as much as it was asked for, so that requests waited longer and longer.
    Overloaded,
    /// The trial made at the same time doesn't count, and a pair counts as a whole.
    PartnerInvalid,
    /// What the ends of a network test counted and what a kernel or a capture counted differ by too much.
    CountsDisagree,
    /// The other end of a network test went away in the middle, or stopped answering.
    PeerLost,
    /// The path was cut and did not carry the test to its end.
    PathCut,
    /// The guest was not protected for all of the measurement, so it tells nothing about how it is protected.
    ProtectionLost,
    /// Connections stand, but full-sized packets don't get through: an MTU on the path is smaller than
    /// its ends believe.
    MtuMismatch,
    /// What was read back isn't what was written last.
    DataWrong,
    /// A guest's clock ran at another rate than the host's.
    ClockWrong,
    /// A cache held what it was not to hold, or not what it was to.
    CacheNotAsAsked,
    /// A reason that this vtax doesn't know: a newer one wrote it.
    #[serde(other)]
    Unknown,
}
