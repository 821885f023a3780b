//! Fault-tolerant pairs: two QEMUs of which the second can go on where the first ends.
//!
//! QEMU has the mechanism (its COLO migration) but neither a failure detector nor fencing, and knows
//! nothing about hosts. Here are the parts that concern QEMU alone: a [`Replica`] is one of the two,
//! [`protect`] arms a running one, [`promote`] lets the other go live, [`Checkpoints`] counts what it
//! costs, [`heartbeat`] finds out that a host has failed. Hosts, links and fencing are `vtax_lab::ft`;
//! `docs/fault-tolerance.md` tells the whole story.

mod checkpoints;
mod choice;
mod disk;
mod gate;
pub mod heartbeat;
mod protection;
mod replica;
mod replication;
mod snapshot;

pub use checkpoints::{CheckpointStatistics, Checkpoints};
pub use choice::{PairQemu, choose};
pub use disk::{ReplicatedDisk, Start};
pub use protection::{Links, Mode, checkpoint_now, drop_protection, hand_over, promote, protect};
pub use replica::{GuestTask, Replica, ReplicaConfig};
pub use snapshot::{Snapshot, restore as restore_snapshot, take as take_snapshot};
