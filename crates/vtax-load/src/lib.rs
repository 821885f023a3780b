//! The load engine: arrivals, workers, recorders, workloads.
//!
//! A [`LoadSpec`] is opened as a [`Session`], which runs one [`Step`] after the other; each family of load
//! is a folder of its own in `family/`. One thread per CPU runs an epoll loop over its own share of the
//! connections; threads share nothing but a few atomics for progress, and nothing on the path of a request
//! allocates or locks. How time is measured and how the generator proves itself: `docs/load.md`.

mod any_certificate;
mod beside;
mod control;
mod drive;
mod error;
mod family;
mod generators;
mod histogram;
mod limit;
mod pacing;
mod requests;
mod result;
pub mod search;
mod session;
mod spread;
mod start_times;
mod tickets;
mod timely;
mod tls;

pub use beside::{BesideSession, BesideSpec};
pub use control::{Control, Progress};
pub use error::LoadError;
pub use family::*;
pub use generators::{Part, together};
pub use histogram::{LatencyHistogram, UnlikeHistograms};
pub use network::NetworkAnswer;
pub use requests::{ConnectionPool, Model, RequestStep, Segment};
pub use result::*;
pub use session::{LoadAnswer, LoadSpec, Session, Step, StepResult};
pub use spread::{MemberAnswer, PartPace, SpreadPart, SpreadSession, SpreadSpec, merged};
pub use start_times::StartTimes;
pub use tls::{TlsDetails, Verify, authorities};
/// How requests follow each other; [`StartTimes`] are the times that it makes.
pub use vtax_plan::model::ArrivalProcess;
