//! What a test of storage found.

use serde::{Deserialize, Serialize};
use vtax_load::storage::StorageResult;
use vtax_plan::model::SteadyState;
use vtax_probe::layers::CpuBreakdown;
use vtax_units::Nanos;
use vtax_units::metric::{Metric, STORAGE_RATE, STORAGE_THROUGHPUT};

/// What one test of a storage workload found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageFinding {
    /// What the generator recorded.
    pub result: StorageResult,
    /// What the host saw of it, where the load ran in a virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStorage>,
    /// What the server's side read from and wrote to its disks, where the load goes to a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerStorage>,
    /// What the server's page cache held before, where it was to be cold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cache: Option<ServerCache>,
    /// CPU time of the client's side by layer, where it isn't the system under test; its requests are bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<CpuBreakdown>,
    /// Its rounds, where it was made in rounds; `result` and CPU times are of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<StorageRounds>,
}

impl StorageFinding {
    /// The metric that a test of this name is named after, and its value: bytes per second until durable where it goes over all
    /// records once, operations per second otherwise; the average of the last rounds where it was made in rounds.
    ///
    /// Whether a test went over all records at a given rate is known by its histogram of lateness.
    #[must_use]
    pub fn figure(&self, name: &str) -> (Metric, f64) {
        let result = &self.result;
        let (metric, of_the_last) = match goes_over_all_once(name) && result.load.lateness.is_empty() {
            true => (STORAGE_THROUGHPUT, result.parent()),
            false => (STORAGE_RATE, result.iops()),
        };
        (metric, self.steady_state.as_ref().and_then(StorageRounds::average).unwrap_or(of_the_last))
    }
}

/// Whether a test of this name goes over all records once, in an order that is known. Behind a dot stands what its plan varies.
#[must_use]
pub fn goes_over_all_once(name: &str) -> bool {
    let operation = name.split('.').next().unwrap_or(name);
    ["write", "rewrite", "read", "re-read", "backward-read", "strided-read"].contains(&operation)
}

/// A test made in rounds until these were steady.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageRounds {
    /// When they are.
    pub rule: SteadyState,
    /// In the order of time.
    pub rounds: Vec<StorageRound>,
}

impl StorageRounds {
    /// The figures of all rounds.
    #[must_use]
    pub fn figures(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.figure).collect()
    }

    /// The average of the last ones, as many as its rule looks at; `None` where there are fewer.
    #[must_use]
    pub fn average(&self) -> Option<f64> {
        let rounds = self.rule.window as usize;
        let last = &self.rounds[self.rounds.len().checked_sub(rounds).filter(|_| rounds > 0)?..];
        Some(last.iter().map(|round| round.figure).sum::<f64>() / rounds as f64)
    }
}

/// One round of a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StorageRound {
    /// Operations per second; of a test that goes over all records once, bytes per second until durable.
    pub figure: f64,
    /// Median latency of an operation.
    pub median: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
}

/// What a server's side did to its disks while a test ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStorage {
    /// Bytes read from all of its disks.
    pub read: u64,
    /// Bytes written to them.
    pub written: u64,
    /// Others use these disks too, as the host's.
    pub shared: bool,
}

impl ServerStorage {
    /// Who answered so many bytes of reads.
    fn answered(&self, bytes: u64) -> String {
        let share = self.read as f64 / bytes.max(1) as f64;
        let percent = 100.0 * share.min(1.0);
        match (share, self.shared) {
            (share, true) if share < 0.05 => {
                format!(
                    "the server's memory answered: at most {percent:.1} % of the bytes came from its disks"
                )
            }
            (share, false) if share < 0.05 => {
                format!("the server's memory answered: {percent:.1} % of the bytes came from its disks")
            }
            (_, true) => {
                format!(
                    "the server's memory or its disks answered: these gave {percent:.0} % at most, what others read included"
                )
            }
            (share, false) if share < 0.95 => {
                format!(
                    "the server's memory and its disks answered: {percent:.0} % of the bytes came from these"
                )
            }
            _ => "the server's disks answered".to_owned(),
        }
    }
}

/// What the host saw of a virtual machine's disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStorage {
    /// Bytes that the hypervisor's reads fetched from the host's storage (`read_bytes` of /proc/PID/io).
    pub fetched: Option<u64>,
    /// Bytes of the disk's file that the host's page cache held before.
    pub cached_before: Option<u64>,
    /// Bytes of the disk's file that the host's page cache held after.
    pub cached_after: Option<u64>,
    /// Bytes that the disk's file takes on the host.
    pub allocated: Option<u64>,
    /// The host's page cache was emptied of it before.
    pub dropped: bool,
}

/// What a server's page cache held of its files or units after it was emptied of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCache {
    /// Bytes that it held.
    pub cached: u64,
    /// Bytes of all of them.
    pub of: u64,
}

/// Less than one part in so many is next to nothing.
const FEW: u64 = 20;
/// A cold cache holds at most this share.
const COLD: f64 = 0.05;

impl ServerCache {
    /// Why it isn't cold; `None` where it is.
    #[must_use]
    pub fn is_not_cold(&self) -> Option<String> {
        let share = self.cached as f64 / self.of.max(1) as f64;
        (share > COLD).then(|| {
            format!("the server's page cache was to be cold but held {:.0} % of its files", 100.0 * share)
        })
    }
}

impl StorageFinding {
    /// Which cache answered reads, outermost first, as far as counters tell; `None` where nothing was read.
    #[must_use]
    pub fn answered(&self) -> Option<String> {
        let read = self.result.bytes_read();
        let own = self.result.answered_by_cache();
        let fetched = self.result.io.fetched.unwrap_or(0);
        let at_host = self.host.and_then(|host| host.fetched);
        if let Some(server) = self.server.filter(|_| read > 0) {
            return Some(match own {
                None => format!("the client keeps nothing; {}", at_the_server(server, read, at_host)),
                // What the client's page cache answered never came to the server.
                Some(own) if fetched.saturating_mul(FEW) < read => own,
                Some(own) => format!("{own}; behind it, {}", at_the_server(server, fetched, at_host)),
            });
        }
        let own = own?;
        if self.result.io.server.is_some() {
            // The server's disks couldn't be looked at.
            return Some(own);
        }
        let Some(at_host) = at_host else { return Some(own) };
        if fetched.saturating_mul(FEW) < read {
            return Some(format!("in the guest, {own}"));
        }
        // The guest asked its disk; who answered there?
        Some(format!("in the guest, {own}; behind it, {}", at_the_host(fetched, at_host)))
    }
}

/// Who answered the bytes that a client asked a server for: its memory or its disks; of a virtual machine, also who answered these.
fn at_the_server(server: ServerStorage, asked: u64, at_host: Option<u64>) -> String {
    let answered = server.answered(asked);
    match at_host.filter(|_| server.read.saturating_mul(FEW) >= asked) {
        Some(fetched) => format!("{answered}; behind these, {}", at_the_host(server.read, fetched)),
        None => answered,
    }
}

/// Who answered the bytes that a guest asked its disk for, of which the host's storage gave so many.
fn at_the_host(asked: u64, fetched: u64) -> String {
    let share = fetched as f64 / asked.max(1) as f64;
    let percent = 100.0 * share;
    match share {
        share if share < 0.05 => format!("the host's page cache (its device gave {percent:.1} %)"),
        share if share < 0.95 => format!("the host's page cache and its device, which gave {percent:.0} %"),
        _ => "the host's device".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answered_behind_a_server_is_told_from_its_disks() {
        let of = |read, shared| ServerStorage { read, written: 0, shared }.answered(1000);
        assert_eq!(of(0, false), "the server's memory answered: 0.0 % of the bytes came from its disks");
        assert!(of(0, true).contains("at most 0.0 %"));
        assert!(of(500, false).contains("50 % of the bytes came from these"));
        assert_eq!(of(1000, false), "the server's disks answered");
        // More than was asked for: somebody else's.
        assert!(of(5000, true).contains("100 % at most, what others read included"));
    }

    #[test]
    fn a_virtual_servers_disk_has_a_host_behind_it() {
        let server = |read| ServerStorage { read, written: 0, shared: false };
        let memory = at_the_server(server(10), 1000, Some(0));
        assert_eq!(memory, "the server's memory answered: 1.0 % of the bytes came from its disks");
        let cached = at_the_server(server(1000), 1000, Some(10));
        assert_eq!(
            cached,
            "the server's disks answered; behind these, the host's page cache (its device gave 1.0 %)"
        );
        assert_eq!(at_the_server(server(1000), 1000, None), "the server's disks answered");
        assert_eq!(at_the_host(1000, 990), "the host's device");
    }

    #[test]
    fn findings_of_before_servers_and_rounds_are_read() {
        let found: StorageRounds = serde_json::from_str(
            r#"{"rule":{"rounds":25,"window":5,"excursion":"20%","slope":"10%"},"rounds":[{"figure":1.5,"median":"1ms","p99":"2ms"}]}"#,
        )
        .unwrap();
        assert_eq!(found.figures(), [1.5]);
        assert_eq!(found.average(), None, "one round, and its rule looks at five");
    }
}
