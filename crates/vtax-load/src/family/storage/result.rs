//! What a step of storage found.

use serde::{Deserialize, Serialize};
use vtax_plan::model::StorageCache;
use vtax_units::Nanos;

use super::counters::IoCounters;
use super::spec::StorageStep;
use super::target::{CacheDropped, Facts, Failure};
use crate::{LoadResult, MemberAnswer};

/// A cold cache holds at most this share of the files, a warm one at least that.
const COLD: f64 = 0.05;
const WARM: f64 = 0.95;

/// What a step of storage found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageResult {
    /// What the generator recorded: bytes received are those read, bytes sent those written. `lost` of its errors are reads of what
    /// was acknowledged but isn't there, `stale` of an older content, `corrupt` of a damaged, torn or misplaced one.
    pub load: LoadResult,
    /// Bytes of one operation.
    pub record: u64,
    /// Each process by itself.
    pub processes: Vec<Process>,
    /// What the reads were compared with.
    pub verified: Verified,
    /// Failed operations by kind.
    pub failures: Vec<(Failure, u64)>,
    /// Words for the first of them.
    pub first_failure: Option<String>,
    /// What the client's cache held.
    pub cache: CacheEvidence,
    /// What the kernel counted during the step.
    pub io: IoCounters,
    /// What is at the other end.
    pub facts: Facts,
    /// What was read back once the load was over, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back: Option<ReadBack>,
    /// What loads of other systems found that were held meanwhile to disturb it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<MemberAnswer>,
}

/// What one process did, its times from the start of the step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Operations that succeeded, warm-up included.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, bytes read.
    pub read: u64,
    /// When the first began.
    pub first: Nanos,
    /// When the last ended.
    pub last: Nanos,
    /// When all was durable that it wrote, where that was asked for.
    pub durable: Option<Nanos>,
}

/// What became of the comparison of reads with what was written last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Records that were compared.
    pub records: u64,
    /// Of them: holds zeros where something was acknowledged.
    pub lost: u64,
    /// Holds an older content.
    pub stale: u64,
    /// Holds parts of different contents.
    pub torn: u64,
    /// Holds what belongs elsewhere.
    pub misplaced: u64,
    /// Is damaged.
    pub corrupt: u64,
    /// Could have been either of two contents, as a write of it failed.
    pub uncertain: u64,
}

impl Verified {
    /// Records that were not what they should be.
    #[must_use]
    pub const fn wrong(&self) -> u64 {
        self.lost + self.stale + self.torn + self.misplaced + self.corrupt
    }

    /// Adds another's.
    pub(super) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.lost += other.lost;
        self.stale += other.stale;
        self.torn += other.torn;
        self.misplaced += other.misplaced;
        self.corrupt += other.corrupt;
        self.uncertain += other.uncertain;
    }
}

/// What was read back once a load was over, compared with the log of what was acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBack {
    /// Writes of the load that were acknowledged, warm-up included.
    pub acknowledged: u64,
    /// Writes that failed or had no answer: what they wrote may be there or not.
    pub unacknowledged: u64,
    /// Records that were read back, and what was wrong with them. A record counts once, however often it was written.
    pub verified: Verified,
    /// Records with an acknowledged content that could not be read until the time for it was over.
    pub unread: u64,
    /// Why the first try failed, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// From the end of the load until everything was read.
    pub took: Nanos,
}

impl ReadBack {
    /// Records whose acknowledged content isn't there. Nothing but 0 is a pass.
    #[must_use]
    pub const fn wrong(&self) -> u64 {
        self.verified.wrong() + self.unread
    }

    /// Adds another process's.
    pub(super) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.unacknowledged += other.unacknowledged;
        self.verified.add(&other.verified);
        self.unread += other.unread;
        if self.trouble.is_none() {
            self.trouble.clone_from(&other.trouble);
        }
        self.took = self.took.max(other.took);
    }
}

/// What the client's cache held of the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheEvidence {
    /// Bytes of all files.
    pub of: u64,
    /// How it was emptied, where that was asked for.
    pub dropped: Option<CacheDropped>,
    /// Bytes that it held just before the step; `None` where that can't be known.
    pub before: Option<u64>,
    /// Bytes just after.
    pub after: Option<u64>,
}

impl CacheEvidence {
    /// The share of the files that was in the cache before.
    #[must_use]
    pub fn share_before(&self) -> Option<f64> {
        self.before.map(|bytes| bytes as f64 / self.of.max(1) as f64)
    }
}

impl StorageResult {
    /// Bytes of all processes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.processes.iter().map(|process| process.bytes).sum()
    }

    /// Bytes that all processes read.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.processes.iter().map(|process| process.read).sum()
    }

    /// The sum of what each process had for itself while it was busy, in bytes per second: iozone's "children see". Syncs at the end
    /// are not in it.
    #[must_use]
    pub fn children(&self) -> f64 {
        self.processes.iter().map(|p| p.bytes as f64 / seconds(p.last.saturating_sub(p.first))).sum()
    }

    /// What the slowest and the fastest process had for itself, as in [`children`](Self::children).
    #[must_use]
    pub fn slowest_and_fastest(&self) -> (f64, f64) {
        let each = self.processes.iter().map(|p| p.bytes as f64 / seconds(p.last.saturating_sub(p.first)));
        let (low, high) = each.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        (low.min(high), high)
    }

    /// All bytes over the time from the first operation until the last process had ended, syncs at the end included, in bytes per
    /// second: iozone's "parent sees".
    #[must_use]
    pub fn parent(&self) -> f64 {
        self.bytes() as f64 / seconds(self.whole_time())
    }

    /// From the first operation until the last process had ended, syncs at the end included.
    #[must_use]
    pub fn whole_time(&self) -> Nanos {
        let first = self.processes.iter().map(|p| p.first).min().unwrap_or_default();
        let last = self.processes.iter().map(|p| p.durable.unwrap_or(p.last)).max().unwrap_or_default();
        last.saturating_sub(first)
    }

    /// Time from the last operation until all that was written was durable; `None` where that was not asked for.
    #[must_use]
    pub fn until_durable(&self) -> Option<Nanos> {
        let last = self.processes.iter().map(|p| p.last).max()?;
        let durable = self.processes.iter().map(|p| p.durable).collect::<Option<Vec<_>>>()?;
        Some(durable.into_iter().max()?.saturating_sub(last))
    }

    /// Operations per second over the recorded time.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.load.throughput().0
    }

    /// Why the client's cache didn't hold what this step was to begin with; `None` where it did, or nothing is known.
    #[must_use]
    pub fn cache_is_not(&self, step: &StorageStep) -> Option<String> {
        let share = self.cache.share_before()?;
        let percent = 100.0 * share;
        match step.cache {
            StorageCache::Cold if share > COLD => {
                Some(format!("the page cache was to be cold but held {percent:.0} % of the files"))
            }
            StorageCache::Warm if step.is_warmed() && share < WARM => Some(format!(
                "the page cache was to be warm but held {percent:.0} % of the files: they don't fit"
            )),
            _ => None,
        }
    }

    /// Which cache answered reads, by what the kernel counted; `None` where nothing was read or nothing is counted.
    #[must_use]
    pub fn answered_by_cache(&self) -> Option<String> {
        let (read, fetched) = (self.bytes_read(), self.io.fetched?);
        if read == 0 {
            return None;
        }
        let share = fetched as f64 / read as f64;
        if let Some(server) = &self.io.server {
            let percent = 100.0 * share;
            return Some(match share {
                share if share < 0.05 => {
                    format!(
                        "the client's page cache answered: {percent:.1} % of the bytes came from {server}"
                    )
                }
                share if share < 0.95 => {
                    format!(
                        "the client's page cache and {server} answered: {percent:.0} % of the bytes came from the latter"
                    )
                }
                _ => format!("{server} answered: it gave {percent:.0} % of the bytes"),
            });
        }
        Some(match share {
            share if share < 0.05 => {
                format!("the page cache answered: {:.1} % of the bytes came from the device", 100.0 * share)
            }
            share if share < 0.95 => format!(
                "page cache and device answered: {:.0} % of the bytes came from the device",
                100.0 * share
            ),
            share => format!("the device answered: it gave {:.0} % of the bytes", 100.0 * share),
        })
    }

    /// Why nothing succeeded, or what was read is not what was written: its figures don't count then.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        if self.verified.wrong() > 0 {
            let Verified { records, lost, stale, torn, misplaced, corrupt, .. } = self.verified;
            return Some(format!(
                "of {records} records read, {lost} were lost, {stale} stale, {torn} torn, {misplaced} misplaced, {corrupt} corrupt"
            ));
        }
        let failed: u64 = self.failures.iter().map(|(_, count)| count).sum();
        if self.load.counts.ok == 0 || failed > 0 {
            let each: Vec<String> =
                self.failures.iter().map(|(failure, count)| format!("{count} {}", failure.words())).collect();
            let first = self.first_failure.as_ref().map(|words| format!("; the first: {words}"));
            return Some(match each.is_empty() {
                true => "no operation ended in the recorded time".to_owned(),
                false => format!("operations failed: {}{}", each.join(", "), first.unwrap_or_default()),
            });
        }
        None
    }
}

fn seconds(time: Nanos) -> f64 {
    time.as_secs_f64().max(1e-9)
}
