//! What became of a pair: what failed, what followed, and when its guest was protected. Pure.
//!
//! The pair notes when it notices something. When that happened is known better: a fault of the plan has its time, a host
//! that fell silent its last sign of life. Times here are those of the facts, in nanoseconds since 1970.

use vtax_lab::ft::{FIRST_HOST, PairEvent, PairEventKind};
use vtax_plan::model::{FaultKind, FaultTarget};
use vtax_store::failover::Recovery;
use vtax_units::Nanos;

use super::inject::Done;

/// What of a pair failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedPart {
    /// What ran the guest.
    Guest,
    /// What kept its copy, or the link to it.
    Copy,
    /// Neither.
    Other,
}

/// The guest's way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Back {
    pub(super) at: u64,
    pub(super) how: Recovery,
    pub(super) age: Option<Nanos>,
    pub(super) stopped: Option<Nanos>,
}

/// Something that failed or was broken, and what followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Number of the plan's fault and what it does; `None`: nobody asked for it.
    pub(super) fault: Option<(usize, FaultKind)>,
    pub(super) at: u64,
    pub(super) host: Option<String>,
    pub(super) part: FailedPart,
    /// In words: `QEMU on host-a ended by itself`, `kill: primary-host`.
    pub(super) what: String,
    /// When it was mended before anybody had noticed.
    pub(super) mended: Option<u64>,
    pub(super) detected: Option<u64>,
    pub(super) fenced: Option<u64>,
    pub(super) recovered: Option<Back>,
    pub(super) lost: Option<String>,
    /// The plan's fault that took the copy away before it could take over from this one.
    pub(super) copy_broken: Option<String>,
    /// When the guest was protected again.
    pub(super) armed: Option<u64>,
}

impl Failure {
    fn killed(&self) -> bool {
        matches!(self.fault, Some((_, FaultKind::Kill(_))))
    }

    fn cut(&self) -> bool {
        matches!(self.fault, Some((_, FaultKind::Cut(_))))
    }
}

/// A time in which the guest was not protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: u64,
    /// `None`: it never was again.
    pub(super) to: Option<u64>,
    pub(super) reason: String,
    /// What broke the copy before it was used up, which is the reason only from then on.
    pub(super) first: Option<String>,
}

/// What became of a pair. What it tells of protection means something only where a mode keeps a copy.
#[derive(Debug, Default)]
pub(super) struct History {
    /// In order of time.
    pub(super) failures: Vec<Failure>,
    /// In order of time.
    pub(super) gaps: Vec<Gap>,
    /// Times in which something was broken that was mended before anybody noticed.
    passing: Vec<Gap>,
    /// When nobody ran the guest any more.
    pub(super) lost: Option<u64>,
}

impl History {
    /// From what a pair noted and what was done to it, this in order of time. A measurement begins protected.
    pub(super) fn of(events: &[PairEvent], done: &[Done]) -> Self {
        let mut tale = Tale {
            primary: Some(FIRST_HOST.to_owned()),
            secondary: None,
            unnoticed: Vec::new(),
            noticed: None,
            cause: None,
            dying: None,
            moving: None,
            unarmed: Vec::new(),
            open: None,
            told: Self::default(),
        };
        let mut left = done.iter().filter(|d| d.refused.is_none() && !d.fault.kind.mends()).peekable();
        // Some are noted a little after the moment that they are about.
        let mut events: Vec<&PairEvent> = events.iter().collect();
        events.sort_by_key(|event| event.wall);
        for event in events {
            while let Some(done) = left.next_if(|d| d.at_unix_ns <= event.wall.0) {
                tale.hit(done);
            }
            tale.event(event);
        }
        left.for_each(|done| tale.hit(done));
        tale.end()
    }

    /// Why the guest was not protected at that moment; `None` where it was.
    pub(super) fn unprotected_at(&self, at: u64) -> Option<&str> {
        let within = |gap: &&Gap| gap.from < at && gap.to.is_none_or(|to| to >= at);
        let lost = self.lost.is_some_and(|lost| lost < at).then_some("nobody ran it any more");
        let gap = self.gaps.iter().chain(&self.passing).find(within);
        gap.map(|gap| gap.first.as_ref().unwrap_or(&gap.reason).as_str()).or(lost)
    }
}

/// A history as it is being told.
struct Tale {
    primary: Option<String>,
    secondary: Option<String>,
    /// Failures that the pair has not noticed yet, by their place.
    unnoticed: Vec<usize>,
    /// When what it has noticed ended the protection.
    noticed: Option<u64>,
    /// What nobody asked for and ended the protection.
    cause: Option<String>,
    /// The failure that the guest has to come back from.
    dying: Option<usize>,
    /// The planned move under way.
    moving: Option<usize>,
    /// Failures after which the guest wasn't protected again yet.
    unarmed: Vec<usize>,
    /// The time without protection that has not ended yet.
    open: Option<Gap>,
    told: History,
}

impl Tale {
    /// Something failed; its place.
    fn add(
        &mut self,
        fault: Option<(usize, FaultKind)>,
        at: u64,
        host: Option<String>,
        part: FailedPart,
        what: String,
    ) -> usize {
        let failure = Failure {
            fault,
            at,
            host,
            part,
            what,
            mended: None,
            detected: None,
            fenced: None,
            recovered: None,
            lost: None,
            copy_broken: None,
            armed: None,
        };
        self.told.failures.push(failure);
        self.told.failures.len() - 1
    }

    /// Something was done that doesn't mend.
    fn hit(&mut self, done: &Done) {
        let kind = done.fault.kind;
        let part = match kind {
            FaultKind::Kill(FaultTarget::SecondaryHost) | FaultKind::Cut(FaultTarget::FtLink) => {
                FailedPart::Copy
            }
            _ if kind.stops_the_service() => FailedPart::Guest,
            _ => FailedPart::Other,
        };
        let fault = Some((done.number, kind));
        let index = self.add(fault, done.at_unix_ns, done.host.clone(), part, kind.words());
        match kind {
            FaultKind::Failover(_) => self.moving = Some(index),
            FaultKind::Kill(_) | FaultKind::Hang(_) | FaultKind::Cut(FaultTarget::FtLink)
                if done.host.is_some() =>
            {
                self.unnoticed.push(index);
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &PairEvent) {
        let (wall, host) = (event.wall.0, event.host.as_ref());
        match &event.kind {
            PairEventKind::Fault { fault } if fault == "restore" || fault == "wake" => {
                self.mended(wall, host)
            }
            PairEventKind::Detected { silence } => self.detected(wall, *silence, host),
            PairEventKind::Fenced { .. } => self.fenced(wall, host),
            PairEventKind::Unprotected { reason } => self.copy_given_up(wall, reason),
            PairEventKind::Moving => self.move_began(wall),
            PairEventKind::Armed { .. } => self.armed(wall, host),
            PairEventKind::ServiceLost { reason } => self.lost(wall, reason),
            PairEventKind::Promoted { .. } => {
                self.used_up(wall, "the copy on the other host was used up");
                self.runs(
                    host,
                    Back { at: wall, how: Recovery::Promoted, age: Some(Nanos::ZERO), stopped: None },
                );
            }
            PairEventKind::Restored { age, .. } => {
                self.used_up(wall, "the snapshot was used up");
                self.runs(host, Back { at: wall, how: Recovery::Restored, age: Some(*age), stopped: None });
            }
            PairEventKind::Restarted => {
                self.runs(host, Back { at: wall, how: Recovery::Restarted, age: None, stopped: None });
            }
            PairEventKind::HandedOver { stopped } => {
                self.unprotected(wall, "it has moved to where its copy was");
                self.dying = self.moving.take().or(self.dying);
                let (age, stopped) = (Some(Nanos::ZERO), Some(*stopped));
                self.runs(host, Back { at: wall, how: Recovery::HandedOver, age, stopped });
            }
            PairEventKind::Fault { .. } | PairEventKind::ArmFailed { .. } | PairEventKind::Back => {}
        }
    }

    /// What was stopped or cut off on a host and goes on before anybody noticed was no failure. What was killed stays
    /// dead.
    fn mended(&mut self, wall: u64, host: Option<&String>) {
        let failures = &mut self.told.failures;
        let passing = &mut self.told.passing;
        self.unnoticed.retain(|index| {
            let failure = &mut failures[*index];
            let stays = failure.host.as_ref() != host || failure.killed();
            if !stays {
                failure.mended = Some(wall);
                let reason = failure.what.clone();
                passing.push(Gap { from: failure.at, to: Some(wall), reason, first: None });
            }
            stays
        });
    }

    /// A host fell silent, or its QEMU ended.
    fn detected(&mut self, wall: u64, silence: Nanos, host: Option<&String>) {
        let failures = &self.told.failures;
        let of_host = |index: &usize| failures[*index].host.as_ref() == host && !failures[*index].cut();
        // A host that was mended and not heard of since was noticed too late, but for that reason.
        let heard = wall.saturating_sub(silence.0);
        let late = |index: &usize| failures[*index].mended.is_some_and(|mended| heard <= mended);
        let known = self.unnoticed.iter().copied().find(|index| of_host(index));
        let missed = || (0..failures.len()).rev().find(|index| of_host(index) && late(index));
        let known = known.or_else(|| missed().filter(|_| silence > Nanos::ZERO));
        let index = known.unwrap_or_else(|| {
            let part = if host == self.primary.as_ref() {
                FailedPart::Guest
            } else if host == self.secondary.as_ref() {
                FailedPart::Copy
            } else {
                FailedPart::Other
            };
            let name = host.map_or("a host", String::as_str);
            let what = match silence {
                Nanos::ZERO => format!("QEMU on {name} ended by itself"),
                _ => format!("{name} fell silent by itself"),
            };
            self.add(None, wall.saturating_sub(silence.0), host.cloned(), part, what)
        });
        let failures = &self.told.failures;
        // Now that something was noticed, it has not been protected since the first of all that is broken.
        let first = self.end_of_protection(failures[index].at);
        self.unnoticed.retain(|other| failures[*other].host.as_ref() != host);
        let failure = &mut self.told.failures[index];
        failure.detected = Some(wall);
        if failure.part == FailedPart::Other {
            return;
        }
        if failure.fault.is_none() && self.open.is_none() {
            self.cause.get_or_insert_with(|| failure.what.clone());
        }
        self.noticed = Some(first);
        if failure.part == FailedPart::Guest {
            self.dying = Some(index);
        }
        self.unarmed.push(index);
    }

    fn fenced(&mut self, wall: u64, host: Option<&String>) {
        let mut latest = self.told.failures.iter_mut().rev();
        let waits = |f: &&mut Failure| f.host.as_ref() == host && f.detected.is_some() && f.fenced.is_none();
        if let Some(failure) = latest.find(waits) {
            failure.fenced = Some(wall);
        }
    }

    /// The guest goes on alone.
    fn copy_given_up(&mut self, wall: u64, reason: &str) {
        let failures = &self.told.failures;
        let of_copy = |index: &&usize| failures[**index].part == FailedPart::Copy;
        let known = self.unnoticed.iter().find(of_copy).copied();
        if let Some(index) = known {
            // A host that was killed falls silent later.
            self.unarmed.push(index);
            self.noticed = Some(self.noticed.map_or(failures[index].at, |at| at.min(failures[index].at)));
            self.unnoticed.retain(|index| !failures[*index].cut());
        } else if self.noticed.is_none() {
            let index = self.add(None, wall, self.secondary.clone(), FailedPart::Copy, reason.to_owned());
            self.unarmed.push(index);
        }
        self.unprotected(wall, reason);
        self.secondary = None;
    }

    fn move_began(&mut self, wall: u64) {
        self.unprotected(wall, "it was being moved, which its copy can't be used for");
        self.unarmed.extend(self.moving);
        self.secondary = None;
    }

    /// From now on the guest is known not to be protected; it has not been since the first thing that ended that.
    fn unprotected(&mut self, wall: u64, reason: &str) {
        let cause = self.cause.take();
        let since = self.end_of_protection(wall);
        self.noticed = None;
        if self.open.is_none() {
            let reason = cause.map_or_else(|| reason.to_owned(), |cause| format!("{cause}: {reason}"));
            self.open = Some(Gap { from: since, to: None, reason, first: None });
        }
    }

    /// The copy took over, whole or not: what had been broken before that is why it could no longer be trusted.
    fn used_up(&mut self, wall: u64, reason: &str) {
        let hits = self.unnoticed.iter().map(|index| &self.told.failures[*index]);
        let broken = hits.filter(|failure| failure.part == FailedPart::Copy).min_by_key(|failure| failure.at);
        let first = broken.map(|failure| (failure.at, failure.what.clone()));
        self.unprotected(wall, reason);
        let Some(gap) = &mut self.open else { return };
        if let Some((_, what)) = first.filter(|(at, _)| *at == gap.from && gap.first.is_none()) {
            gap.reason = format!("{what}; then {}", gap.reason);
            gap.first = Some(what);
        }
    }

    fn end_of_protection(&self, wall: u64) -> u64 {
        let hits = self.unnoticed.iter().map(|index| &self.told.failures[*index]);
        let hits = hits.filter(|failure| failure.part != FailedPart::Other).map(|failure| failure.at);
        hits.chain(self.noticed).fold(wall, u64::min)
    }

    /// The guest runs on this host.
    fn runs(&mut self, host: Option<&String>, back: Back) {
        if let Some(index) = self.dying.take() {
            self.told.failures[index].recovered = Some(back);
        }
        (self.primary, self.secondary) = (host.cloned(), None);
    }

    fn armed(&mut self, wall: u64, host: Option<&String>) {
        self.told.gaps.extend(self.open.take().map(|gap| Gap { to: Some(wall), ..gap }));
        for index in self.unarmed.drain(..) {
            self.told.failures[index].armed.get_or_insert(wall);
        }
        // Whatever happened to former copies, this one is good.
        let failures = &self.told.failures;
        self.unnoticed.retain(|index| failures[*index].part != FailedPart::Copy);
        (self.secondary, self.noticed, self.cause) = (host.cloned(), None, None);
    }

    /// Nobody runs the guest any more.
    fn lost(&mut self, wall: u64, reason: &str) {
        let failures = &self.told.failures;
        let of_guest = |index: &&usize| failures[**index].part == FailedPart::Guest;
        let hit = self.dying.or(self.moving).or_else(|| self.unnoticed.iter().find(of_guest).copied());
        let index = hit.unwrap_or_else(|| {
            self.add(None, wall, self.primary.clone(), FailedPart::Guest, "the guest was lost".to_owned())
        });
        (self.dying, self.moving) = (None, None);
        self.unprotected(wall, reason);
        let taken_away = self.copy_broken(self.told.failures[index].at, wall);
        let failure = &mut self.told.failures[index];
        failure.lost = Some(match &taken_away {
            Some(what) => {
                format!("what kept its copy was broken before that could take over, {what}: {reason}")
            }
            None => reason.to_owned(),
        });
        failure.copy_broken = taken_away;
        // Once nobody runs it, that is worse than being without a copy.
        let died = failure.at;
        self.close(died);
        self.told.lost.get_or_insert(died);
    }

    /// What the plan did to the copy in this time, in which it was to take over.
    fn copy_broken(&self, from: u64, to: u64) -> Option<String> {
        let within =
            |f: &&Failure| f.part == FailedPart::Copy && f.fault.is_some() && (from..to).contains(&f.at);
        self.told.failures.iter().find(within).map(|failure| failure.what.clone())
    }

    fn close(&mut self, at: u64) {
        let ended = self.open.take().filter(|gap| gap.from < at);
        self.told.gaps.extend(ended.map(|gap| Gap { to: Some(at), ..gap }));
    }

    /// The end of what was noted.
    fn end(mut self) -> History {
        let since = self.end_of_protection(u64::MAX);
        if self.open.is_none() && since < u64::MAX && self.told.lost.is_none() {
            let reason = "what had failed was not noticed before the end".to_owned();
            self.open = Some(Gap { from: since, to: None, reason, first: None });
        }
        self.told.gaps.extend(self.open.take());
        self.told.failures.sort_by_key(|failure| failure.at);
        self.told
    }
}
