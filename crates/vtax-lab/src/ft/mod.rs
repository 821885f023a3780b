//! Fault-tolerant pairs on emulated hosts.
//!
//! A *host* is a network namespace and a CPU set; what runs on it is a QEMU and a small process that
//! says the host lives. Hosts are joined by the link for checkpoints (which can be given a rate) and by
//! a second network for heartbeats alone. An [`FtPair`] is a protected virtual machine on two or three
//! of them; its supervisor detects failed hosts, fences them, lets the other side go live, and protects
//! it again where a host is spare. Faults are real: killed, stopped, unplugged.

mod actions;
mod host;
mod model;
mod network;
mod pair;
mod pulse;
mod relay;
mod rules;
mod shared;
mod snapshots;
mod supervisor;
pub mod witness;

pub use host::HostState;
pub use model::{Handed, Outcome, PairEvent, PairEventKind, PairMode, PairSpec, PairTask, Side, Struck};
pub(crate) use network::PairNumber;
pub(crate) use pair::PairBase;
pub use pair::{FIRST_HOST, FtPair};
