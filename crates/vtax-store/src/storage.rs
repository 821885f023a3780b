//! What a test of storage found.

use serde::{Deserialize, Serialize};
use vtax_load::storage::StorageResult;

/// What one test of a storage workload found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageFinding {
    /// What the generator recorded.
    pub result: StorageResult,
    /// What the host saw of it, where the load ran in a virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStorage>,
}

/// What the host saw of a virtual machine's disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStorage {
    /// Bytes that the hypervisor's reads fetched from the host's storage (`read_bytes` of /proc/PID/io).
    pub fetched: Option<u64>,
    /// Bytes of the disk's file that the host's page cache held before, and after.
    pub cached_before: Option<u64>,
    /// The same after.
    pub cached_after: Option<u64>,
    /// Bytes that the disk's file takes on the host.
    pub allocated: Option<u64>,
    /// The host's page cache was emptied of it before.
    pub dropped: bool,
}

impl StorageFinding {
    /// Which cache answered reads, outermost first, as far as counters tell; `None` where nothing was read.
    #[must_use]
    pub fn answered(&self) -> Option<String> {
        let own = self.result.answered_by_cache()?;
        let Some(fetched) = self.host.and_then(|host| host.fetched) else { return Some(own) };
        let inside = self.result.io.fetched.unwrap_or(0);
        if inside * 20 < self.result.bytes_read() {
            return Some(format!("in the guest, {own}"));
        }
        // The guest asked its disk; who answered there?
        let share = fetched as f64 / inside.max(1) as f64;
        let who = match share {
            share if share < 0.05 => "the host's page cache",
            share if share < 0.95 => "the host's page cache and its device",
            _ => "the host's device",
        };
        Some(format!(
            "in the guest, {own}; behind it, {who} ({:.0} % came from there)",
            100.0 * share.min(1.0)
        ))
    }
}
