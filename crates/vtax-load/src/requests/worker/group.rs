//! What one thread does: the loop of a worker, or of several that take turns.
//!
//! Loads against several systems have a worker of their own on each CPU. Where they are of one family, those of a CPU
//! share its thread and an epoll instance, so that a request costs what it costs with one system: as many systems as
//! there may be, there is one wait, and one switch between threads less for each.

use std::mem::MaybeUninit;

use rustix::event::epoll;
use vtax_sys::SysError;

use super::{EVENTS, Finding, INDEX_SHIFT, Worker, time_since};
use crate::drive::Rest;
use crate::requests::dialogue::Dialogue;

/// Workers that share a thread; the place of each is its index.
#[derive(Debug)]
pub(crate) struct WorkerGroup<'a, D: Dialogue> {
    members: Vec<Member<'a, D>>,
}

#[derive(Debug)]
struct Member<'a, D: Dialogue> {
    worker: Worker<'a, D>,
    /// Its load is over; what still comes for it is no part of it.
    over: bool,
}

impl<'a, D: Dialogue> WorkerGroup<'a, D> {
    /// Of these workers, whose event loops share an epoll instance and whose epochs are the same.
    pub(crate) fn new(workers: Vec<Worker<'a, D>>) -> Self {
        let count = workers.len();
        let member = |mut worker: Worker<'a, D>| {
            worker.events.pacer.shared_by(count);
            Member { worker, over: false }
        };
        Self { members: workers.into_iter().map(member).collect() }
    }

    /// Carries out all workers' shares of their loads; what each found, in their order.
    pub(crate) fn run(mut self) -> Result<Vec<Finding>, SysError> {
        let Some(epoch) = self.members.first().map(|member| member.worker.job.epoch) else {
            return Ok(Vec::new());
        };
        let clock = || time_since(epoch);
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let now = clock();
        self.members.iter_mut().for_each(|member| member.worker.time.now = now);
        while let Some((number, rest)) = self.turn()? {
            let waiting = &mut self.members[number].worker.events;
            let before = waiting.pacer.polled;
            let (ready, now) = waiting.wait(&mut events, rest, clock)?;
            let polled = waiting.pacer.polled - before;
            self.woken(number, now, polled);
            for event in ready {
                self.event(event.data.u64(), event.flags);
            }
        }
        self.finish()
    }

    /// Takes each worker that goes on a step further; the index of the one that has to be woken first, and when. `None`: all are over.
    fn turn(&mut self) -> Result<Option<(usize, Rest)>, SysError> {
        let mut soonest: Option<(usize, Rest)> = None;
        let mut latest = 0;
        for (number, member) in self.members.iter_mut().enumerate().filter(|(_, member)| !member.over) {
            if !member.worker.go_on()? {
                member.over = true;
                continue;
            }
            member.worker.dispatch();
            member.worker.expire();
            let rest = member.worker.rest();
            latest = latest.max(rest.now);
            if soonest.is_none_or(|(_, other)| rest.end() < other.end()) {
                soonest = Some((number, rest));
            }
        }
        // What the workers after it took is no part of its sleep.
        let from = |rest: Rest| Rest { now: latest, sleep: rest.end().saturating_sub(latest), ..rest };
        Ok(soonest.map(|(number, rest)| (number, from(rest))))
    }

    /// Tells all workers the time after a wait of one, and the others that it polled, which they have in their CPU time too.
    fn woken(&mut self, number: usize, now: u64, polled: u64) {
        for (other, member) in self.members.iter_mut().enumerate().filter(|(_, member)| !member.over) {
            member.worker.time.now = now;
            if other != number {
                member.worker.events.pacer.polled += polled;
            }
        }
    }

    /// Hands an event to its worker; then all start what has become due.
    fn event(&mut self, token: u64, flags: epoll::EventFlags) {
        let number = (token as u32 >> INDEX_SHIFT) as usize;
        let Some(member) = self.members.get_mut(number).filter(|member| !member.over) else { return };
        member.worker.event(token, flags);
        let now = member.worker.time.now;
        for member in self.members.iter_mut().filter(|member| !member.over) {
            member.worker.time.now = member.worker.time.now.max(now);
            member.worker.dispatch();
        }
    }

    /// What each found. The thread's CPU time is divided among them, its load is that of each.
    fn finish(self) -> Result<Vec<Finding>, SysError> {
        let count = self.members.len().max(1) as u64;
        let finish = |member: Member<'a, D>| -> Result<Finding, SysError> {
            let mut finding = member.worker.finish()?;
            finding.used.cpu.user.0 /= count;
            finding.used.cpu.system.0 /= count;
            Ok(finding)
        };
        self.members.into_iter().map(finish).collect()
    }
}
