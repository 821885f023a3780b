//! What a network test may ask for. Plans, `vtax load` and both ends of a test keep to the same.

use vtax_units::{BitRate, Bytes, Nanos, Rate};

/// Most connections in each direction; each is a thread on both ends.
pub const STREAMS: u32 = 256;
/// Largest socket buffer: what the kernel could give at best, with its limits raised.
pub const WINDOW: Bytes = Bytes(1 << 30);
/// Largest write of bulk TCP.
pub const BLOCK: Bytes = Bytes(16 << 20);
/// Largest request or response in bytes.
pub const MESSAGE: u32 = 16 << 20;
/// Payload of a datagram in bytes: at least the header of vtax's own, at most what IPv4 leaves.
pub const DATAGRAM: (u32, u32) = (32, 65_507);
/// Largest segment in bytes: what the kernel lets a program ask for (tcp(7), `TCP_MAXSEG`).
pub const SEGMENT: (u32, u32) = (88, 32_767);
/// Slowest and fastest rate of datagrams: below it, a full datagram takes more than a second.
pub const RATE: (BitRate, BitRate) = (BitRate(8_000), BitRate(1 << 40));
/// Most echo requests per second.
pub const PINGS: Rate = Rate(1e6);
/// Shortest and longest time that an echo request is waited for.
pub const TIMEOUT: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_secs(60));
/// Most streams of voice in each direction: one thread of either end sends and hears all of them.
pub const VOICE_STREAMS: u32 = 5_000;
/// Sound in a packet of voice (RFC 3551 section 4.2: 20 ms unless told otherwise).
pub const VOICE_PACKETS: [Nanos; 4] =
    [Nanos::from_millis(10), Nanos::from_millis(20), Nanos::from_millis(30), Nanos::from_millis(40)];
/// Longest that sound waits to be played.
pub const JITTER_BUFFER: Nanos = Nanos::from_secs(10);
/// Shortest test of voice: a handful of packets of each stream.
pub const VOICE_TIME: Nanos = Nanos::from_millis(200);
/// Longest name of a congestion control: the kernel's `TCP_CA_NAME_MAX` without its NUL.
pub const CONGESTION: usize = 15;
