//! What protection costs while a trial is measured.

use std::collections::BTreeMap;
use std::time::Instant;

use vtax_lab::ft::{FtPair, PairEvent, PairEventKind};
use vtax_lab::{Node, Sut};
use vtax_load::LatencyHistogram;
use vtax_plan::model::FtMode;
use vtax_store::failover::{CheckpointRecord, ProtectionRecord};
use vtax_store::record::InvalidReason;
use vtax_sys::clock::unix_time;
use vtax_units::{CpuSet, Nanos};
use vtax_vm::ft::CheckpointStatistics;

use super::history::{FailedPart, Failure, History};

/// Counts from its start to its end.
pub(crate) struct Meter {
    mode: FtMode,
    began: Instant,
    /// When it began, in nanoseconds since 1970.
    began_unix_ns: u64,
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
            began_unix_ns: unix_time().0,
            supervision: pair.supervision_cpu(),
            link_bytes: pair.link_bytes().unwrap_or_default(),
            cpu: pair.host_cpu(),
            pauses: pair.all_pauses_us().len(),
        })
    }

    /// Why a measurement that is over by now tells nothing, where nothing was to be broken in it.
    pub(crate) fn interruption(&self, pair: &FtPair) -> Option<(InvalidReason, String)> {
        interruption(self.mode, &pair.events(), (self.began_unix_ns, unix_time().0))
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

/// Why a measurement tells nothing about its mode: the guest was not protected all the time, or failed. `events` are
/// those of its pair from the beginning, `from` and `to` when it was made, in nanoseconds since 1970.
fn interruption(
    mode: FtMode,
    events: &[PairEvent],
    (from, to): (u64, u64),
) -> Option<(InvalidReason, String)> {
    let history = History::of(events, &[]);
    let seconds = |at: u64| Nanos(at.saturating_sub(from)).as_secs_f64();
    let ran = |f: &&Failure| f.part == FailedPart::Guest && (from..to).contains(&f.at);
    let failed = history.failures.iter().find(ran);
    let gap = history.gaps.iter().find(|gap| gap.from < to && gap.to.is_none_or(|end| end > from));
    if let Some(gap) = gap.filter(|_| mode.has_secondary()) {
        let length = Nanos(gap.to.unwrap_or(to).min(to) - gap.from.max(from)).as_secs_f64();
        let mut detail = format!(
            "the guest was not protected for {length:.2} s of the measurement, from {:.2} s on: {}",
            seconds(gap.from),
            gap.reason
        );
        if let Some(why) = failed.and_then(|f| f.lost.as_ref()) {
            detail.push_str(&format!("; then nobody ran it: {why}"));
        }
        return Some((InvalidReason::ProtectionLost, detail));
    }
    let failed = failed?;
    let mut detail = format!("{} {:.2} s into the measurement", failed.what, seconds(failed.at));
    if let Some(why) = &failed.lost {
        detail.push_str(&format!(": {why}"));
    }
    let reason =
        if mode.has_secondary() { InvalidReason::ProtectionLost } else { InvalidReason::MeasureFailed };
    Some((reason, detail))
}

/// All QEMUs of pairs on the CPUs of the systems under test: none of them is a stranger there.
pub(crate) struct Qemus(Vec<Option<OfPair>>);

impl Qemus {
    /// Of all systems, in the testbed's order.
    pub(crate) fn start(suts: &[Sut], cpus: &CpuSet) -> Self {
        Self(suts.iter().map(|sut| OfPair::start(&sut.node, cpus)).collect())
    }

    /// CPU time since then that is on no system's account, which knows one QEMU of its pair; `own` is what the account of the system
    /// with this number has of its tasks: interrupts are no QEMU's.
    pub(crate) fn beyond_accounts(&self, suts: &[Sut], own: impl Fn(usize) -> Nanos) -> Nanos {
        let each = suts.iter().zip(&self.0).enumerate();
        let beyond = each.filter_map(|(number, (sut, qemus))| {
            Some(qemus.as_ref()?.used(&sut.node).0.saturating_sub(own(number).0))
        });
        Nanos(beyond.fold(0, u64::saturating_add))
    }
}

/// Those of one pair.
struct OfPair {
    hosts: Vec<String>,
    before: Nanos,
}

impl OfPair {
    /// Where the node is a pair.
    fn start(node: &Node, cpus: &CpuSet) -> Option<Self> {
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
    fn used(&self, node: &Node) -> Nanos {
        let now = node.pair().map_or(Nanos::ZERO, |pair| self.total(pair));
        Nanos(now.0.saturating_sub(self.before.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{START, event, on};
    use super::*;

    fn within(mode: FtMode, events: &[PairEvent]) -> Option<(InvalidReason, String)> {
        interruption(mode, events, (START, START + 10_000_000_000))
    }

    fn armed(ms: u64, host: &str) -> PairEvent {
        on(host, event(ms, PairEventKind::Armed { took: Nanos::ZERO }))
    }

    #[test]
    fn a_measurement_that_lost_its_protection_tells_nothing() {
        let died = PairEventKind::Detected { silence: Nanos::ZERO };
        let promoted = PairEventKind::Promoted { took: Nanos::ZERO };
        let mut events = vec![on("host-a", event(4_000, died.clone())), on("host-b", event(4_030, promoted))];
        let (reason, detail) = within(FtMode::Kemari, &events).unwrap();
        assert_eq!(reason, InvalidReason::ProtectionLost);
        assert_eq!(
            detail,
            "the guest was not protected for 6.00 s of the measurement, from 4.00 s on: \
             QEMU on host-a ended by itself: the copy on the other host was used up"
        );
        events.push(armed(5_500, "host-a"));
        let (_, detail) = within(FtMode::Kemari, &events).unwrap();
        assert!(detail.contains("for 1.50 s of the measurement, from 4.00 s on"), "{detail}");
        // The copy's end is no less a loss, though no client notices it.
        let alone = PairEventKind::Unprotected { reason: "the secondary's host failed".to_owned() };
        let copy = [on("host-b", event(2_000, died.clone())), on("host-a", event(2_060, alone))];
        let with_copy: Vec<_> = std::iter::once(armed(0, "host-b")).chain(copy).collect();
        let (_, detail) = within(FtMode::Kemari, &with_copy).unwrap();
        assert!(detail.contains("from 2.00 s on: QEMU on host-b ended by itself"), "{detail}");
        // One that is booted again has no copy; it did not run for a while.
        let booted = [on("host-a", event(4_000, died)), on("host-b", event(4_200, PairEventKind::Restarted))];
        let (reason, detail) = within(FtMode::Restart, &booted).unwrap();
        assert_eq!(reason, InvalidReason::MeasureFailed);
        assert_eq!(detail, "QEMU on host-a ended by itself 4.00 s into the measurement");
    }

    #[test]
    fn what_ended_before_the_measurement_is_none_of_its() {
        let lost = PairEventKind::Unprotected { reason: "QEMU ended the checkpoints".to_owned() };
        let early = |ms: u64, kind: PairEventKind| {
            let event = event(0, kind);
            PairEvent { wall: Nanos(START - ms * 1_000_000), ..event }
        };
        let armed_again = PairEventKind::Armed { took: Nanos::ZERO };
        let mut events = vec![on("host-a", early(900, lost.clone())), on("host-b", early(100, armed_again))];
        assert_eq!(within(FtMode::Kemari, &events), None);
        // A spare host's end is no loss of protection.
        events.push(on("host-c", event(1_000, PairEventKind::Detected { silence: Nanos::ZERO })));
        events.push(on("host-a", event(10_001, lost)));
        assert_eq!(within(FtMode::Kemari, &events), None);
    }
}
