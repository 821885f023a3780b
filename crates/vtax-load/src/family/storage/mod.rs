//! Storage: files and volumes that are written and read, every read verified.
//!
//! A process is a thread with a [`Target`] of its own. Local files are reached through io_uring or pread(2) and pwrite(2).

mod client;
mod counters;
mod course;
mod engine;
mod expect;
mod generations;
pub mod iscsi;
mod local;
pub mod mounted;
pub mod nfs;
mod pattern;
mod readback;
mod result;
mod session;
mod spec;
mod taken;
mod target;
mod worker;

pub use counters::{DeviceCounters, IoCounters};
pub use result::{CacheEvidence, Process, ReadBack, StorageResult, Verified};
pub use session::StorageSession;
pub use spec::{LocalSpec, StorageSpec, StorageStep, TargetSpec};
pub use target::{CacheDropped, Done, Facts, Failure, Kind, Operation, Shape, StorageError, Target};
