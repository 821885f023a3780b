//! Redis: the server and workloads.

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos, Share};

/// Options of a Redis server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RedisOptions {
    /// TCP port.
    pub port: u16,
    /// What of its data survives its end.
    pub persistence: Persistence,
    /// Threads that read from and write to connections; commands are carried out by one.
    pub io_threads: u32,
}

/// What of a Redis server's data survives its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing.
    None,
    /// All but the last second: an append-only file that is synced every second.
    EverySecond,
    /// All that was acknowledged: the file is synced before each answer.
    EveryWrite,
}

/// A Redis workload: reads and writes of keys by clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RedisWorkload {
    /// What is asked.
    pub requests: RedisRequests,
    /// Connections; in an open loop the most that may be open at once.
    pub connections: u32,
    /// A request not answered within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
}

/// Reads and writes of keys, every answer verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RedisRequests {
    /// Keys; each is written once before the load begins.
    pub keys: u64,
    /// Length of every value.
    pub value: Bytes,
    /// Share of the requests that read (GET); the others write (SET).
    pub reads: Share,
    /// Which keys are asked for.
    pub access: KeyAccess,
    /// Requests that one connection may have under way.
    pub pipeline: u32,
}

/// Which keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyAccess {
    /// All equally often.
    Uniform,
    /// The n-th most popular in proportion to 1/n^0.99, as the benchmark YCSB has it.
    Zipf,
}
