//! Quantities with units: durations, sizes, rates, shares and CPU sets.
//!
//! Every quantity that crosses a crate, a file or a wire is one of these types, so that no
//! bare number needs a comment to say what it is. Each parses from the text a plan uses
//! (`"40ms"`, `"256MiB"`, `"1000/s"`, `"50%"`, `"0-1,3"`), prints the same way, and travels
//! through serde as that text. Dates, and texts that must fit, are here as well.

mod cpuset;
mod date;
mod decimal;
mod error;
mod quantity;
mod shortened;

pub use cpuset::CpuSet;
pub use date::{unix_ms_of, utc};
pub use error::UnitError;
pub use quantity::{BitRate, Bytes, Nanos, Rate, Share};
pub use shortened::shortened;
