//! The load engine: arrivals, workers, recorders, workloads.
//!
//! [`run`] carries out one [`LoadSpec`] and returns one [`LoadResult`]. One thread per CPU runs
//! an epoll loop over its own share of the connections; threads share nothing but a few atomics
//! for progress, and nothing on the path of a request allocates or locks. How time is measured
//! and how the generator proves itself: `docs/load.md`.

mod arrivals;
mod control;
mod engine;
mod error;
mod histogram;
mod limit;
pub mod net;
mod pacing;
mod recorder;
mod result;
pub mod search;
pub mod sip;
mod slots;
mod spec;
mod worker;

pub use arrivals::Arrivals;
pub use control::{Control, Progress};
pub use engine::run;
pub use error::LoadError;
pub use histogram::LatencyHistogram;
pub use result::*;
pub use spec::*;
