//! What a storage test may ask for. Plans and `vtax load` keep to the same.

use vtax_units::{Bytes, Rate};

/// Shortest and longest file. A terabyte is for sparse ones.
pub const FILE: (Bytes, Bytes) = (Bytes(512), Bytes(1 << 40));
/// Shortest and longest record, a multiple of the shortest.
pub const RECORD: (Bytes, Bytes) = (Bytes(512), Bytes(16 << 20));
/// Most processes.
pub const PROCESSES: u32 = 256;
/// Most operations of a process that are under way.
pub const DEPTH: u16 = 1024;
/// Memory of the buffers of all processes.
pub const BUFFERS: Bytes = Bytes(1 << 30);
/// Most small files of a process.
pub const FILES: u32 = 1_000_000;
/// Most rounds of a test until it is steady, and fewest of a window: two always lie on a line.
pub const ROUNDS: (u32, u32) = (3, 1000);
/// Most operations per second.
pub const RATE: Rate = Rate(1e7);
