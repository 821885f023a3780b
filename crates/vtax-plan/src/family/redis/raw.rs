//! Redis as written: the server and workloads.

use vtax_units::{Bytes, Nanos, Share};

use super::model;
use crate::decode::Many;
use crate::source::Spanned;

services! {
    /// Options of `redis`.
    struct RedisRaw = "`redis`", ready "30s", stop "10s" {
        /// TCP port it listens on.
        default port: u16 = "6379",
        /// What of its data survives its end: `none`, `every-second` (an append-only file that is synced
        /// every second) or `every-write` (synced before each answer).
        default persistence: Many<PersistenceRaw> = "none",
        /// Threads that read from and write to connections; commands are carried out by one. A list makes a cell for each.
        default io_threads: Many<u32> = "1",
    }
}

raw! {
    /// Options of the `redis` workload. A list of values makes a cell for each.
    struct RedisWorkloadRaw = "`redis`" {
        /// Keys; each is written once before the load begins.
        default keys: Many<u64> = "10000",
        /// Length of every value, at least 16 bytes.
        default value: Many<Bytes> = "100B",
        /// Share of the requests that read (GET); the others write (SET).
        default reads: Many<Share> = "90%",
        /// Which keys are asked for: `uniform` (all equally often) or `zipf` (some much more often than others).
        default access: Many<KeyAccessRaw> = "uniform",
        /// Requests that one connection may have under way.
        default pipeline: Many<u32> = "1",
        /// Connections; in an open loop the most that may be open at once.
        default connections: Many<u32> = "64",
        /// A request not answered within this time, counted from its intended start, has failed.
        default timeout: Many<Nanos> = "2s",
    }
}

words! {
    /// What of its data survives its end.
    PersistenceRaw(model::Persistence) = "persistence", "kinds of persistence" {
        "none": None, "Nothing.";
        "every-second": EverySecond, "All but the last second: an append-only file, synced every second.";
        "every-write": EveryWrite, "All that was acknowledged: the file is synced before each answer.";
    }
    /// Which keys are asked for.
    KeyAccessRaw(model::KeyAccess) = "access", "kinds of access" {
        "uniform": Uniform, "All equally often.";
        "zipf": Zipf, "The n-th most popular in proportion to 1/n^0.99.";
    }
}
