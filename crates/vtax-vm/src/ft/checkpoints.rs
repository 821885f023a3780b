//! What checkpoints cost, counted from what QEMU says about them.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use crate::qmp::QmpEvent;

/// Pauses kept; at 200 checkpoints a second that is more than an hour. Later ones are only counted.
const MOST_PAUSES: usize = 1 << 20;

/// The checkpoints of one armed time.
#[derive(Debug, Clone, Default)]
pub struct Checkpoints {
    stopped: Option<Nanos>,
    count: u64,
    pauses_us: Vec<u32>,
    first: Option<Nanos>,
    last: Nanos,
    /// Bytes the link had carried, and checkpoints there had been, at the first count and at the last.
    base: Option<(u64, u64)>,
    now: (u64, u64),
}

/// Figures about checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointStatistics {
    /// Checkpoints made.
    pub count: u64,
    /// From the first to the last.
    pub time: Nanos,
    /// Checkpoints in a second.
    pub per_second: f64,
    /// How long the guest stood still: median.
    pub pause_median: Nanos,
    /// 95th percentile.
    pub pause_p95: Nanos,
    /// Longest.
    pub pause_max: Nanos,
    /// How long it stood still at the end of the first copy, which the other pauses leave out.
    #[serde(default)]
    pub pause_at_first: Nanos,
    /// Share of the time in which the guest stood still, 0 to 1.
    pub stopped_share: f64,
    /// Bytes over the link for a checkpoint, mean: dirty pages, the devices' state, packet headers.
    pub bytes_mean: f64,
    /// Dirty pages of 4 KiB in a checkpoint, mean, at most: all of the bytes taken for pages. QEMU doesn't
    /// count them.
    pub pages_mean_at_most: f64,
}

/// Bytes of a page in QEMU's migration stream: the page and its address.
const PAGE_RECORD: f64 = 4096.0 + 8.0;

impl Checkpoints {
    /// Takes notice of an event of the primary's; when the checkpoint began that is committed by it.
    pub fn event(&mut self, event: &QmpEvent) -> Option<Nanos> {
        match event.name.as_str() {
            "STOP" => {
                self.stopped = Some(event.when);
                None
            }
            "RESUME" => {
                let stopped = self.stopped.take()?;
                self.count += 1;
                self.first.get_or_insert(stopped);
                self.last = event.when;
                if self.pauses_us.len() < MOST_PAUSES {
                    let us = event.when.0.saturating_sub(stopped.0) / 1000;
                    self.pauses_us.push(u32::try_from(us).unwrap_or(u32::MAX));
                }
                Some(stopped)
            }
            _ => None,
        }
    }

    /// Takes notice of how many bytes the link has carried since it exists. Where no checkpoint was made since the last time, what
    /// was carried since is of one that isn't complete, and counts with it: a snapshot may be on its way for minutes.
    pub fn traffic(&mut self, bytes: u64) {
        if self.base.is_none() || self.count > self.now.1 {
            self.now = (bytes, self.count);
            self.base.get_or_insert(self.now);
        }
    }

    /// How many there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Every pause in microseconds, in order, without the first of an armed time: that one ends the
    /// copying of the whole memory.
    #[must_use]
    pub fn pauses_us(&self) -> &[u32] {
        self.pauses_us.get(1..).unwrap_or_default()
    }

    /// The figures.
    #[must_use]
    pub fn statistics(&self) -> CheckpointStatistics {
        let mut sorted = self.pauses_us().to_vec();
        sorted.sort_unstable();
        let at = |share: f64| {
            let index = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
            sorted.get(index).map_or(Nanos::ZERO, |us| Nanos(u64::from(*us) * 1000))
        };
        let time = Nanos(self.last.0.saturating_sub(self.first.unwrap_or(self.last).0));
        let seconds = time.as_secs_f64();
        let share = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
        let stopped: u64 = sorted.iter().map(|us| u64::from(*us)).sum();
        let base = self.base.unwrap_or_default();
        let counted = self.now.1.saturating_sub(base.1) as f64;
        let bytes_mean = share(self.now.0.saturating_sub(base.0) as f64, counted);
        CheckpointStatistics {
            count: self.count,
            time,
            per_second: share(self.count.saturating_sub(1) as f64, seconds),
            pause_median: at(0.5),
            pause_p95: at(0.95),
            pause_max: at(1.0),
            pause_at_first: Nanos(self.pauses_us.first().map_or(0, |us| u64::from(*us) * 1000)),
            stopped_share: share(stopped as f64 / 1e6, seconds),
            bytes_mean,
            pages_mean_at_most: bytes_mean / PAGE_RECORD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::time::Instant;

    fn event(name: &str, ms: u64) -> QmpEvent {
        let when = Nanos::from_millis(ms);
        QmpEvent { name: name.to_owned(), data: Value::Null, when, arrived: Instant::now() }
    }

    #[test]
    fn pauses_are_between_stop_and_resume() {
        let mut checkpoints = Checkpoints::default();
        assert_eq!(checkpoints.event(&event("RESUME", 1)), None);
        // The first is the end of the first copy.
        for (from, to) in [(100, 180), (200, 204), (300, 306), (1096, 1100)] {
            checkpoints.event(&event("STOP", from));
            assert_eq!(checkpoints.event(&event("RESUME", to)), Some(Nanos::from_millis(from)));
            checkpoints.traffic(1_000_000 + from * 4104);
        }
        let found = checkpoints.statistics();
        assert_eq!((found.count, found.time), (4, Nanos::from_secs(1)));
        assert_eq!((found.pause_median, found.pause_max), (Nanos::from_millis(4), Nanos::from_millis(6)));
        assert_eq!(found.pause_at_first, Nanos::from_millis(80));
        assert!((found.per_second - 3.0).abs() < 1e-9 && (found.stopped_share - 0.014).abs() < 1e-9);
        assert!((found.pages_mean_at_most - 996.0 / 3.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn bytes_of_an_unfinished_checkpoint_are_of_none_yet() {
        let mut checkpoints = Checkpoints::default();
        let one = |checkpoints: &mut Checkpoints, ms| {
            checkpoints.event(&event("STOP", ms));
            checkpoints.event(&event("RESUME", ms + 1));
        };
        one(&mut checkpoints, 100);
        checkpoints.traffic(5_000);
        one(&mut checkpoints, 200);
        checkpoints.traffic(6_000);
        assert!((checkpoints.statistics().bytes_mean - 1_000.0).abs() < 1e-9);
        checkpoints.traffic(6_900);
        assert!((checkpoints.statistics().bytes_mean - 1_000.0).abs() < 1e-9, "it is on its way");
        one(&mut checkpoints, 300);
        checkpoints.traffic(7_400);
        assert!((checkpoints.statistics().bytes_mean - 1_200.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_gives_zeros() {
        assert_eq!(Checkpoints::default().statistics(), CheckpointStatistics::default());
    }
}
