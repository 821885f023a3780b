//! Protocol codecs without I/O.
//!
//! A codec here is fed bytes as they arrive, torn wherever the network tore them, and says what
//! they mean. None touches a socket, allocates, panics, or keeps more than a small fixed state:
//! one lives in each of a load generator's connections.

pub mod http;
pub mod pcap;
pub mod resp;
pub mod sip;
