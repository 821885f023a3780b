//! Faults, what the lab says became of them, and what clients saw, put together. Pure.

use vtax_lab::ft::{PairEvent, PairEventKind};
use vtax_plan::model::{Fault, FaultKind, FaultTarget, FtMode};
use vtax_store::failover::{FaultRecord, Recovered, Recovery, Spell};
use vtax_units::Nanos;

use super::inject::Done;
use super::seen::Course;

/// What is known about a trial once its load is over.
pub(super) struct Account<'a> {
    /// How the system under test is protected.
    pub(super) mode: FtMode,
    /// Faults in order of time, those that never came included.
    pub(super) faults: &'a [Fault],
    pub(super) done: &'a [Done],
    pub(super) events: &'a [PairEvent],
    /// Start of the recorded load, in nanoseconds since 1970.
    pub(super) started_unix_ns: u64,
    pub(super) duration: Nanos,
    pub(super) course: &'a Course,
    pub(super) delayed_beyond: Nanos,
}

/// What became of the guest, and when.
pub(super) struct Told {
    pub(super) faults: Vec<FaultRecord>,
    pub(super) unprotected: Vec<Spell>,
    pub(super) down: Vec<Spell>,
}

impl Account<'_> {
    /// Nanoseconds since 1970 to the trial's clock; what was before is at its start.
    fn clock(&self, unix_ns: u64) -> Nanos {
        Nanos(unix_ns.saturating_sub(self.started_unix_ns))
    }

    pub(super) fn tell(&self) -> Told {
        let mut faults = Vec::with_capacity(self.faults.len());
        let mut over_before = 0;
        for (number, fault) in self.faults.iter().enumerate() {
            let record = match self.done.get(number) {
                None => left_out(*fault),
                Some(done) => self.record(number, done, over_before),
            };
            if let Some(seen) = &record.seen {
                over_before = seen.until.0;
            }
            faults.push(record);
        }
        let down = self.down(&faults);
        Told { faults, unprotected: self.unprotected(), down }
    }

    /// When the next thing is broken after number `number`; nanoseconds since 1970.
    fn next_break(&self, number: usize) -> u64 {
        let later = self.done.iter().skip(number + 1);
        later.filter(|d| !d.fault.kind.mends()).map(|d| d.at_unix_ns).next().unwrap_or(u64::MAX)
    }

    fn record(&self, number: usize, done: &Done, over_before: u64) -> FaultRecord {
        let kind = done.fault.kind;
        let mut record = FaultRecord {
            injected: done.refused.is_none().then(|| self.clock(done.at_unix_ns)),
            host: done.host.clone(),
            protected: done.protected.unwrap_or(false),
            discounted: self.discount(done),
            ..left_out(done.fault)
        };
        if kind.mends() || done.refused.is_some() {
            return record;
        }
        let next = self.next_break(number);
        let span = |e: &&PairEvent| e.wall.0 >= done.at_unix_ns && e.wall.0 < next;
        for event in self.events.iter().filter(span) {
            let at = Some(self.clock(event.wall.0));
            match &event.kind {
                PairEventKind::Detected { .. } => record.detected = record.detected.or(at),
                PairEventKind::Fenced { .. } => record.fenced = record.fenced.or(at),
                PairEventKind::Armed { .. } => record.armed = record.armed.or(at),
                PairEventKind::ServiceLost { reason } => {
                    record.lost.get_or_insert_with(|| reason.clone());
                }
                other => {
                    if let (Some((how, age, stopped)), None) = (recovery(other), &record.recovered) {
                        let at = self.clock(event.wall.0);
                        record.recovered = Some(Recovered { at, how, age, stopped });
                    }
                }
            }
        }
        let at = self.clock(done.at_unix_ns).0;
        let end = if next == u64::MAX { self.duration.0 } else { self.clock(next).0 };
        let mut seen = self.course.seen((over_before.min(at), at, end), dead(&record), self.delayed_beyond);
        let copied = seen.first_answer.zip(record.armed);
        seen.silence_arming = copied.and_then(|(from, to)| self.course.longest_silence(from, to));
        record.seen = Some(seen);
        record
    }

    /// Why a fault tells nothing about the mode.
    fn discount(&self, done: &Done) -> Option<String> {
        if let Some(why) = &done.refused {
            return Some(format!("it could not be done: {why}"));
        }
        let hits_guest = matches!(
            done.fault.kind,
            FaultKind::Kill(FaultTarget::PrimaryHost | FaultTarget::Sut)
                | FaultKind::Hang(FaultTarget::PrimaryHost | FaultTarget::Sut)
        );
        let unprotected = self.mode.has_secondary() && done.protected == Some(false);
        (hits_guest && unprotected).then(|| "the guest was not protected at that moment".to_owned())
    }

    /// When a guest that is to be protected wasn't.
    fn unprotected(&self) -> Vec<Spell> {
        if !self.mode.has_secondary() {
            return Vec::new();
        }
        let mut spells: Vec<Spell> = Vec::new();
        let mut open: Option<(u64, String)> = None;
        for event in self.events {
            let wall = event.wall.0;
            let begins = match &event.kind {
                PairEventKind::Promoted { .. } => Some("the copy on the other host was used up".to_owned()),
                PairEventKind::Restored { .. } => Some("the snapshot was used up".to_owned()),
                PairEventKind::HandedOver { .. } => Some("it has moved to where its copy was".to_owned()),
                PairEventKind::Unprotected { reason } => Some(reason.clone()),
                _ => None,
            };
            let ends = matches!(event.kind, PairEventKind::Armed { .. } | PairEventKind::ServiceLost { .. });
            if let (Some(reason), None) = (begins, &open) {
                open = Some((wall, reason));
            } else if ends && let Some((from, reason)) = open.take() {
                spells.extend(self.spell(from, Some(wall), reason));
            }
        }
        spells.extend(open.and_then(|(from, reason)| self.spell(from, None, reason)));
        spells
    }

    /// A stretch on the trial's clock; `None` where it was over before the recorded load.
    fn spell(&self, from: u64, to: Option<u64>, reason: String) -> Option<Spell> {
        if to.is_some_and(|to| to <= self.started_unix_ns) {
            return None;
        }
        Some(Spell { from: self.clock(from), to: to.map(|to| self.clock(to)), reason })
    }

    /// When the system under test did not run.
    fn down(&self, faults: &[FaultRecord]) -> Vec<Spell> {
        let mut spells: Vec<Spell> = Vec::new();
        for record in faults {
            let Some(from) = record.injected else { continue };
            let restored = matches!(record.fault.kind, FaultKind::Restore(FaultTarget::Sut));
            if let (true, Some(last)) = (restored, spells.last_mut()) {
                last.to = last.to.or(Some(from));
            }
            let hits = matches!(
                record.fault.kind,
                FaultKind::Kill(FaultTarget::PrimaryHost | FaultTarget::Sut)
                    | FaultKind::Hang(FaultTarget::PrimaryHost | FaultTarget::Sut)
            );
            let still_down = spells.last().is_some_and(|spell| spell.to.is_none());
            if still_down || !(hits || record.lost.is_some()) {
                continue;
            }
            let reason = record.lost.clone().unwrap_or_else(|| record.fault.kind.words());
            let to = record.recovered.as_ref().filter(|_| record.lost.is_none()).map(|r| r.at);
            spells.push(Spell { from, to, reason });
        }
        spells
    }
}

/// The time in which the guest did not run, so that nothing can have answered: from the confirmed fence, or
/// from where a planned move stopped it, until it ran again.
fn dead(record: &FaultRecord) -> Option<(u64, u64)> {
    let recovered = record.recovered.as_ref()?;
    let moved = recovered.stopped.map(|stopped| recovered.at.saturating_sub(stopped));
    let from = moved.or(record.fenced)?;
    Some((from.0.min(recovered.at.0), recovered.at.0))
}

/// The way back that an event tells of: which, how old the state is, how long the guest stood still for it.
fn recovery(kind: &PairEventKind) -> Option<(Recovery, Option<Nanos>, Option<Nanos>)> {
    match kind {
        PairEventKind::Promoted { .. } => Some((Recovery::Promoted, Some(Nanos::ZERO), None)),
        PairEventKind::Restarted => Some((Recovery::Restarted, None, None)),
        PairEventKind::Restored { age, .. } => Some((Recovery::Restored, Some(*age), None)),
        PairEventKind::HandedOver { stopped } => {
            Some((Recovery::HandedOver, Some(Nanos::ZERO), Some(*stopped)))
        }
        _ => None,
    }
}

/// A fault that never came.
fn left_out(fault: Fault) -> FaultRecord {
    FaultRecord {
        fault,
        injected: None,
        host: None,
        protected: false,
        discounted: Some("the load was over before its time".to_owned()),
        detected: None,
        fenced: None,
        recovered: None,
        lost: None,
        armed: None,
        seen: None,
    }
}
