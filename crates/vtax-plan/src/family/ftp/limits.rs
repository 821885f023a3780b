//! What an FTP workload may ask for, in a plan or on the command line.

use std::ops::RangeInclusive;

use vtax_units::Bytes;

/// Files to be fetched: all are in one directory, whose LIST is read.
pub const FILES: RangeInclusive<u32> = 1..=100_000;
/// Length of a file.
pub const SIZE: RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 40);
/// Transfers of a session.
pub const TRANSFERS: RangeInclusive<u32> = 1..=1_000_000;
/// Weight of a kind of transfer.
pub const WEIGHT: RangeInclusive<u32> = 0..=10_000;
/// Sessions at once: each has two connections and what TLS remembers of them.
pub const CLIENTS: RangeInclusive<u32> = 1..=20_000;
/// Sessions at once that vtax's own server may be asked for, each of which is a thread there.
pub const OWN_SESSIONS: u32 = 4096;
