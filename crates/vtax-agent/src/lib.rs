//! The process inside a node, and its framed protocol.

pub mod message;
