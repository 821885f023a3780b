//! Quantities with units: durations, sizes, rates, shares and CPU sets.
//!
//! Every quantity that crosses a crate, a file or a wire is one of these types, so that no
//! bare number needs a comment to say what it is. Each parses from the text a plan uses
//! (`"40ms"`, `"256MiB"`, `"1000/s"`, `"50%"`, `"0-1,3"`), prints the same way, and travels
//! through serde as that text. Dates, bytes in digits, texts that must fit or must not drive a terminal,
//! numbers that look random, how many there are of something, names of facts and of the first metrics, and how the evidence of a failed guest is told are here as well.

mod counted;
mod cpuset;
mod date;
mod decimal;
mod error;
pub mod evidence;
pub mod fact;
mod hex;
pub mod metric;
mod printable;
mod quantity;
pub mod random;
mod shortened;

pub use counted::counted;
pub use cpuset::CpuSet;
pub use date::{unix_ms_of, utc};
pub use error::UnitError;
pub use hex::hex;
pub use printable::{drives_terminal, printable};
pub use quantity::{BitRate, Bytes, Nanos, Rate, Share};
pub use shortened::shortened;
