//! System calls: namespaces, netlink, pidfd, cgroups, sockets; the only crate with unsafe code.
//!
//! Every `unsafe` block is as small as it can be and carries the reason why it is sound. What
//! other crates see is safe: descriptors are owned, paths are paths, errors say what was tried
//! on what.

#![allow(unsafe_code, reason = "this crate exists so that no other needs unsafe")]

pub mod aligned;
pub mod caps;
pub mod cgroup;
pub mod check;
pub mod clock;
mod clone;
pub mod controller;
pub mod cpu_clock;
pub mod cycles;
pub mod datagrams;
mod error;
pub mod ethtool;
mod fds;
pub mod frames;
mod free_port;
pub mod gathering;
pub mod inherit;
pub mod launch;
pub mod locked_dir;
pub mod mount;
pub mod mountinfo;
pub mod netlink;
pub mod netns;
pub mod outgoing;
pub mod packets;
pub mod peer;
pub mod pidfd;
pub mod reap;
mod refusal;
pub mod require;
pub mod residency;
pub mod sched;
pub mod signals;
pub mod spawn;
pub mod sync;
pub mod sysctl;
pub mod tap;
pub mod tcp;
pub mod uring;
pub mod usage;
pub mod user_cache;
pub mod watchers;

pub use clone::Namespaces;
pub use error::{Context, Failure, Result, SysError, chain};
pub use free_port::free_port;
pub use netns::NetNs;
pub use pidfd::{PidFd, ProcessExit};
