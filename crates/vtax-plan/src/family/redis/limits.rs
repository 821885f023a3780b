//! What a Redis workload may ask for, in a plan or on the command line.

use std::ops::RangeInclusive;

use vtax_units::Bytes;

/// Keys: the generator remembers twelve bytes of each.
pub const KEYS: RangeInclusive<u64> = 1..=50_000_000;
/// Length of a value. It begins with its key, its version and its length, so that it can be told from another;
/// one longer than 16 MiB would spend its time in copying.
pub const VALUE: RangeInclusive<Bytes> = Bytes(16)..=Bytes::from_mib(16);
/// Requests under way on a connection.
pub const PIPELINE: RangeInclusive<u32> = 1..=1024;
