//! What protection costs while a trial is measured.

use std::collections::BTreeMap;
use std::time::Instant;

use vtax_lab::Node;
use vtax_lab::ft::{FtPair, PairEventKind};
use vtax_load::LatencyHistogram;
use vtax_plan::model::FtMode;
use vtax_store::failover::{CheckpointRecord, ProtectionRecord};
use vtax_units::{CpuSet, Nanos};
use vtax_vm::ft::CheckpointStatistics;

/// Counts from its start to its end.
pub(crate) struct Meter {
    mode: FtMode,
    began: Instant,
    supervision: Nanos,
    link_bytes: u64,
    /// CPU time of QEMUs by host.
    cpu: BTreeMap<String, Nanos>,
    /// Pauses before the measurement.
    pauses: usize,
}

impl Meter {
    /// Where the node is a pair.
    pub(crate) fn start(node: &Node, mode: FtMode) -> Option<Self> {
        let pair = node.pair()?;
        Some(Self {
            mode,
            began: Instant::now(),
            supervision: pair.supervision_cpu(),
            link_bytes: pair.link_bytes().unwrap_or_default(),
            cpu: pair.host_cpu(),
            pauses: pair.all_pauses_us().len(),
        })
    }

    /// What was found.
    pub(crate) fn stop(self, pair: &FtPair) -> ProtectionRecord {
        let mut pauses = LatencyHistogram::new();
        for us in pair.all_pauses_us().into_iter().skip(self.pauses) {
            pauses.record(Nanos(u64::from(us) * 1_000));
        }
        let events = pair.events();
        let armed = |kind: &PairEventKind| match kind {
            PairEventKind::Armed { took } => Some(*took),
            _ => None,
        };
        let problem = |kind: &PairEventKind| match kind {
            PairEventKind::ArmFailed { reason } => {
                Some(format!("the guest could not be protected: {reason}"))
            }
            _ => None,
        };
        let since = |(host, time): (String, Nanos)| {
            let before = self.cpu.get(&host).map_or(0, |time| time.0);
            (host, Nanos(time.0.saturating_sub(before)))
        };
        let limits = pair.enforced().unwrap_or_default();
        ProtectionRecord {
            mode: self.mode.word().to_owned(),
            time: self.began.elapsed().into(),
            armed_in: events.iter().filter_map(|e| armed(&e.kind)).collect(),
            checkpoints: pair.statistics().iter().map(checkpoints).collect(),
            pauses,
            link_bytes: pair.link_bytes().unwrap_or_default().saturating_sub(self.link_bytes),
            supervision_cpu: Nanos(pair.supervision_cpu().0.saturating_sub(self.supervision.0)),
            host_cpu: pair.host_cpu().into_iter().map(since).collect(),
            limits: limits.into_iter().map(|(host, held)| (host, held.describe())).collect(),
            problems: events.iter().filter_map(|e| problem(&e.kind)).collect(),
        }
    }
}

fn checkpoints(s: &CheckpointStatistics) -> CheckpointRecord {
    CheckpointRecord {
        count: s.count,
        time: s.time,
        per_second: s.per_second,
        stopped_share: s.stopped_share,
        bytes_mean: s.bytes_mean,
        pages_mean_at_most: s.pages_mean_at_most,
    }
}

/// All QEMUs of a pair on the CPUs of the system under test: none of them is a stranger there.
pub(crate) struct Qemus {
    hosts: Vec<String>,
    before: Nanos,
}

impl Qemus {
    /// Where the node is a pair.
    pub(crate) fn start(node: &Node, cpus: &CpuSet) -> Option<Self> {
        let pair = node.pair()?;
        let held = pair.enforced().unwrap_or_default();
        let there = held.into_iter().filter(|(_, held)| held.cpus.overlaps(cpus));
        let mut qemus = Self { hosts: there.map(|(host, _)| host).collect(), before: Nanos::ZERO };
        qemus.before = qemus.total(pair);
        Some(qemus)
    }

    fn total(&self, pair: &FtPair) -> Nanos {
        let here = pair.host_cpu().into_iter().filter(|(host, _)| self.hosts.contains(host));
        Nanos(here.map(|(_, time)| time.0).sum())
    }

    /// CPU time they have used since.
    pub(crate) fn used(&self, node: &Node) -> Nanos {
        let now = node.pair().map_or(Nanos::ZERO, |pair| self.total(pair));
        Nanos(now.0.saturating_sub(self.before.0))
    }
}
