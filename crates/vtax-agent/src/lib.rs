//! The process inside a node, and its framed protocol.
//!
//! The agent runs as PID 1 of a node and does what the controller asks.
//! [`Client`] is the controller's end. Between them is any byte stream that needs no port: a
//! socket pair, a container runtime's standard input and output, a guest's virtio-serial port.

mod array;
mod client;
mod clock;
mod dhcp;
mod error;
mod frame;
pub mod guest;
mod lease;
mod loads;
pub mod message;
pub mod network;
mod node;
mod page_cache;
mod reaper;
mod serve;
mod services;
pub mod ssh;
pub mod streams;
mod topologies;
mod writer;

pub use client::{Client, EventHandler};
pub use clock::ClockOffset;
pub use error::AgentError;
pub use frame::{Decoder, Frame, Kind, MAX_PAYLOAD};
pub use lease::{BEAT, LEASE};
pub use serve::{serve, serve_with_lease};
pub use services::Role;
