//! Faults, what the lab says became of them, and what clients saw, put together. Pure.

use vtax_lab::ft::PairEvent;
use vtax_plan::model::{Fault, FtMode};
use vtax_store::failover::{FaultRecord, Recovered, Recovery, Seen, Spell, Unplanned};
use vtax_units::Nanos;

use super::history::{Back, FailedPart, Failure, Gap, History};
use super::inject::Done;
use super::seen::Course;
use super::silence::Stretch;

/// A guest that could answer and hasn't for this long, in nanoseconds, counts as lost.
const GIVEN_UP: u64 = 1_000_000_000;

/// What is known about a trial once its load is over.
pub(super) struct Account<'a> {
    /// How the system under test is protected.
    pub(super) mode: FtMode,
    /// Faults in order of time, those that never came included.
    pub(super) faults: &'a [Fault],
    /// Those that came, in order of time.
    pub(super) done: &'a [Done],
    pub(super) events: &'a [PairEvent],
    /// Start of the recorded load, in nanoseconds since 1970.
    pub(super) started_unix_ns: u64,
    pub(super) duration: Nanos,
    pub(super) course: &'a Course,
    pub(super) delayed_beyond: Nanos,
    /// How it ended each time that a guest that was booted again was to have its service again, in order of time.
    pub(super) revivals: &'a [Revival],
}

/// The service in a guest that was booted again: started, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Revival {
    /// When that was over, in nanoseconds since 1970.
    pub(super) at_unix_ns: u64,
    pub(super) succeeded: bool,
}

/// What became of the guest, and when.
pub(super) struct FailoverFindings {
    pub(super) faults: Vec<FaultRecord>,
    pub(super) unplanned: Vec<Unplanned>,
    pub(super) unprotected: Vec<Spell>,
    pub(super) down: Vec<Spell>,
}

/// Something that broke during the load, and what clients saw of it.
struct Broke<'a> {
    failure: &'a Failure,
    stretch: Stretch,
    seen: Seen,
    /// Why nobody runs the guest any more.
    lost: Option<&'a str>,
}

impl Account<'_> {
    /// Nanoseconds since 1970 to the trial's clock; what was before is at its start.
    fn clock(&self, unix_ns: u64) -> Nanos {
        Nanos(unix_ns.saturating_sub(self.started_unix_ns))
    }

    const fn ended_unix_ns(&self) -> u64 {
        self.started_unix_ns.saturating_add(self.duration.0)
    }

    pub(super) fn findings(&self) -> FailoverFindings {
        let history = History::of(self.events, self.done);
        let broke = self.broke(&history);
        let record = |(number, fault): (usize, &Fault)| {
            let done = self.done.iter().find(|done| done.number == number);
            let place = broke.iter().position(|b| b.failure.fault.is_some_and(|(n, _)| n == number));
            match (done, place) {
                (None, _) => left_out(*fault),
                (Some(done), None) => self.done_only(done, &history),
                (Some(done), Some(place)) => self.record(done, &history, &broke, place),
            }
        };
        let faults = self.faults.iter().enumerate().map(record).collect();
        let unplanned = broke.iter().filter(|b| b.failure.fault.is_none()).map(|b| self.unplanned(b));
        let unplanned = unplanned.collect();
        FailoverFindings {
            faults,
            unplanned,
            unprotected: self.unprotected(&history),
            down: self.down(&broke),
        }
    }

    /// What broke, in order of time, faults or not.
    fn broke<'h>(&self, history: &'h History) -> Vec<Broke<'h>> {
        // A host that nothing ran on fails unseen, and what failed before the load or after it is none of its.
        let load = self.started_unix_ns..self.ended_unix_ns();
        let counts =
            |f: &&Failure| f.fault.is_some() || (f.part != FailedPart::Other && load.contains(&f.at));
        let failures: Vec<&Failure> = history.failures.iter().filter(counts).collect();
        let mut all: Vec<Broke<'h>> = Vec::with_capacity(failures.len());
        let (mut before, mut asked_from) = (0, 0);
        for (place, failure) in failures.iter().copied().enumerate() {
            let at = self.clock(failure.at).0;
            let next = failures.get(place + 1).map_or(u64::MAX, |next| self.clock(next.at).0);
            let mended = failure.mended.map_or(u64::MAX, |mended| self.clock(mended).0);
            let stretch = Stretch { before: before.min(at), asked_from, at, mended, next };
            let mut seen = self.course.seen(&stretch, self.dead(failure), self.delayed_beyond);
            let armed = self.armed(failure, next);
            let copied = seen.first_answer.zip(armed);
            seen.silence_arming = copied.and_then(|(from, to)| self.course.longest_silence(from, to));
            before = seen.until.0.max(armed.map_or(0, |armed| armed.0));
            asked_from = seen.first_answer.map_or(next, |answer| answer.0);
            all.push(Broke { failure, stretch, seen, lost: failure.lost.as_deref() });
        }
        blame_the_first(&mut all);
        all
    }

    /// When the guest was protected again, where nothing else broke before that.
    fn armed(&self, failure: &Failure, next: u64) -> Option<Nanos> {
        failure.armed.map(|at| self.clock(at)).filter(|armed| armed.0 < next)
    }

    /// The time in which the guest did not run, so that nothing can have answered: from the confirmed fence, or
    /// from where a planned move stopped it, until it ran again.
    fn dead(&self, failure: &Failure) -> Option<(u64, u64)> {
        let back = failure.recovered?;
        let moved = back.stopped.map(|stopped| back.at.saturating_sub(stopped.0));
        let from = moved.or(failure.fenced)?;
        Some((self.clock(from.min(back.at)).0, self.clock(back.at).0))
    }

    /// Why a guest that is to be protected wasn't at the moment of a fault. The pair may not have known yet that there was no
    /// copy any more.
    fn without_protection<'h>(&self, done: &Done, history: &'h History) -> Option<&'h str> {
        history.unprotected_at(done.at_unix_ns).filter(|_| self.mode.has_secondary())
    }

    /// A fault that mends, or that could not be done.
    fn done_only(&self, done: &Done, history: &History) -> FaultRecord {
        let without = self.without_protection(done, history);
        FaultRecord {
            injected: done.refused.is_none().then(|| self.clock(done.at_unix_ns)),
            host: done.host.clone(),
            protected: done.protected.unwrap_or(false) && without.is_none(),
            discounted: match (&done.refused, &done.undone) {
                (Some(why), _) => Some(format!("it could not be done: {why}")),
                (None, Some(why)) => Some(format!("a part of it could not be done: {why}")),
                (None, None) => None,
            },
            ..left_out(done.fault)
        }
    }

    fn record(&self, done: &Done, history: &History, all: &[Broke<'_>], place: usize) -> FaultRecord {
        let (earlier, broke, next) = (&all[..place], &all[place], all.get(place + 1));
        let Broke { failure, stretch, seen, lost } = broke;
        let clock = |at: Option<u64>| at.map(|at| self.clock(at));
        let only = self.done_only(done, history);
        let without = self.without_protection(done, history);
        let hits_guest = done.fault.kind.stops_the_service() && self.mode.has_secondary();
        let discounted = if hits_guest && !only.protected {
            let why = without.map_or_else(String::new, |why| format!(": {why}"));
            Some(format!("the guest was not protected at that moment{why}"))
        } else if let Some(what) = &failure.copy_broken {
            Some(format!("what kept its copy was broken before that could take over, {what}"))
        } else {
            self.untold(broke, next).or_else(|| met_silence(earlier)).or_else(|| self.too_late(broke))
        };
        let recovered = failure.recovered.map(|back| Recovered {
            at: self.clock(back.at),
            how: back.how,
            age: back.age,
            stopped: back.stopped,
        });
        FaultRecord {
            discounted,
            detected: clock(failure.detected),
            fenced: clock(failure.fenced),
            recovered,
            lost: lost.map(str::to_owned),
            armed: self.armed(failure, stretch.next),
            seen: Some(seen.clone()),
            ..only
        }
    }

    /// That the next thing broke before it could be seen how this one ended. A guest that runs again and yet answers nobody
    /// didn't come back, whatever breaks next.
    fn untold(&self, broke: &Broke<'_>, next: Option<&Broke<'_>>) -> Option<String> {
        let Broke { failure, stretch, seen, lost } = broke;
        let waiting = seen.first_answer.is_none() && lost.is_none() && stretch.next <= self.duration.0;
        // A pair says when nobody runs its guest any more; of everything else only clients do.
        let is_pair = failure.host.is_some();
        let could_answer = if is_pair { self.could_answer(failure) } else { Some(Nanos(stretch.at)) };
        let given_up = could_answer.is_some_and(|from| stretch.next.saturating_sub(from.0) >= GIVEN_UP);
        let what = &next.filter(|_| waiting && !given_up)?.failure.what;
        Some(format!("its outcome is not known: nobody had answered when the next thing happened, {what}"))
    }

    /// From when on a guest that was to come back could have answered; `None` where it ran nowhere, or still booted.
    fn could_answer(&self, failure: &Failure) -> Option<Nanos> {
        let back = failure.recovered?;
        let from = match back.how {
            Recovery::Restarted => self.revival(&back)?.at_unix_ns,
            Recovery::Promoted | Recovery::Restored | Recovery::HandedOver => back.at,
        };
        Some(self.clock(from))
    }

    /// That the guest came back only when nobody asked any more.
    fn too_late(&self, broke: &Broke<'_>) -> Option<String> {
        let back = broke.failure.recovered.filter(|_| broke.seen.first_answer.is_none())?;
        let late = |at: u64| self.clock(at) >= self.duration;
        let what = match back.how {
            _ if late(back.at) => "before the guest ran again",
            Recovery::Restarted if self.still_booted(&back, late) => "while the guest booted again",
            _ => return None,
        };
        Some(format!("its outcome is not known: the load was over {what}"))
    }

    /// Whether a guest whose QEMU was started again had its service only when the load was over. Where it never could have it, it
    /// didn't come back.
    fn still_booted(&self, back: &Back, late: impl Fn(u64) -> bool) -> bool {
        self.revival(back).is_none_or(|revival| revival.succeeded && late(revival.at_unix_ns))
    }

    /// How it ended that a guest that was booted again was to have its service again.
    fn revival(&self, back: &Back) -> Option<&Revival> {
        self.revivals.iter().find(|revival| revival.at_unix_ns >= back.at)
    }

    fn unplanned(&self, broke: &Broke<'_>) -> Unplanned {
        let Broke { failure, stretch, seen, lost } = broke;
        Unplanned {
            at: Nanos(stretch.at),
            host: failure.host.clone(),
            what: failure.what.clone(),
            guest: failure.part == FailedPart::Guest,
            dead: self.dead(failure).map(|(from, to)| (Nanos(from), Nanos(to))),
            first_answer: seen.first_answer,
            lost: lost.map(str::to_owned),
            armed: self.armed(failure, stretch.next),
        }
    }

    /// When a guest that is to be protected wasn't.
    fn unprotected(&self, history: &History) -> Vec<Spell> {
        let gaps = history.gaps.iter().filter(|_| self.mode.has_secondary());
        let (from, to) = (self.started_unix_ns, self.ended_unix_ns());
        let during = gaps.filter(|gap| gap.from < to && gap.to.is_none_or(|end| end > from));
        let spell = |gap: &Gap| Spell {
            from: self.clock(gap.from),
            to: gap.to.map(|to| self.clock(to)),
            reason: gap.reason.clone(),
        };
        during.map(spell).collect()
    }

    /// When nobody ran the system under test: until clients were answered again, whatever was mended meanwhile.
    fn down(&self, broke: &[Broke<'_>]) -> Vec<Spell> {
        let mut spells: Vec<Spell> = Vec::new();
        for Broke { failure, stretch, seen, lost } in broke {
            let mut from = Nanos(stretch.at);
            if let Some(open) = spells.last_mut().filter(|open| open.to.is_none()) {
                // It may answer again between two further faults.
                let Some(last) = seen.last_before.filter(|last| *last > from) else {
                    open.to = seen.first_answer;
                    continue;
                };
                // And between a fault and the silence that it makes: a planned move stops the guest at its end.
                open.to = self.course.first_answer(from);
                from = last;
            }
            if failure.part == FailedPart::Guest || failure.lost.is_some() {
                let reason = lost.unwrap_or(&failure.what).to_owned();
                spells.push(Spell { from, to: seen.first_answer, reason });
            }
        }
        spells
    }
}

/// A guest that failed by itself before anybody answered again was lost through what had broken before: nothing protected
/// it any more.
fn blame_the_first(all: &mut [Broke<'_>]) {
    for place in 1..all.len() {
        let (earlier, later) = all.split_at_mut(place);
        let (Some(first), Some(second)) = (earlier.last_mut(), later.first()) else { continue };
        let unanswered = first.failure.fault.is_some() && first.seen.first_answer.is_none();
        if unanswered && second.failure.fault.is_none() {
            first.lost = first.lost.or(second.lost);
        }
    }
}

/// That nobody had answered since what happened before: what followed is not this one's alone.
fn met_silence(earlier: &[Broke<'_>]) -> Option<String> {
    let before = earlier.last().filter(|before| before.seen.first_answer.is_none())?;
    Some(format!("the service was still silent from what happened before, {}", before.failure.what))
}

/// A fault that never came.
pub(super) fn left_out(fault: Fault) -> FaultRecord {
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
        rebuild: None,
    }
}
