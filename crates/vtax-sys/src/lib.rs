//! System calls: namespaces, netlink, pidfd, cgroups, sockets; the only crate with unsafe code.
//!
//! Every `unsafe` block is as small as it can be and carries the reason why it is sound. What
//! other crates see is safe: descriptors are owned, paths are paths, errors say what was tried
//! on what.

#![allow(unsafe_code, reason = "this crate exists so that no other needs unsafe")]

pub mod check;
mod error;
pub mod require;

pub use error::{Context, Result, SysError};
