//! Detects, fences, promotes, protects again.
//!
//! One thread for each pair. It looks at the heartbeats when one of them may be missing, more often while the pair
//! changes, and at once when something is told. What takes long (copying a guest to a new secondary) has a thread of its own, so
//! that a failure in the middle of it is detected like any other.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vtax_sys::clock::unix_time;
use vtax_sys::{Context, watchers};
use vtax_units::Nanos;
use vtax_vm::ft::heartbeat::{Detector, Path, Verdict};
use vtax_vm::ft::{Snapshot, Start, drop_protection};

use super::actions::CONFIRM_WITHIN;
use super::host::HostState;
use super::model::{PairEventKind, PairMode};
use super::pulse::Pulse;
use super::rules::{self, Known, Ruling, SETTLED_AFTER, WHILE_UNPROTECTED};
use super::shared::{Member, Message, Roles, SETTLE_WITHIN, Shared, TICK};
use crate::error::{Result, While};
use vtax_sys::sync::{lock, wait_timeout_while};

/// Time between two looks at the link's counters.
const COUNT_EVERY: Duration = Duration::from_millis(250);
/// Pause after a failed attempt to protect a guest.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Starts the supervisor of a pair.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let count = shared.hosts.len();
    let what = || "start the supervisor of a pair".to_owned();
    let supervisor = Supervisor {
        pulse: Pulse::start().context("start", "thread").during(what)?,
        detectors: vec![Detector::new(shared.spec.detector); count],
        lost_link: vec![false; count],
        down: vec![false; count],
        not_before: Instant::now(),
        shared,
        helpers: Vec::new(),
        counted: Instant::now(),
        failed: Instant::now(),
        last_words: None,
    };
    watchers::spawn("ft-supervisor", move || supervisor.run()).context("start", "thread").during(what)
}

struct Supervisor {
    shared: Arc<Shared>,
    detectors: Vec<Detector>,
    pulse: Pulse,
    /// Hosts whose link is known to be broken.
    lost_link: Vec<bool>,
    /// Hosts that were fenced and not heard of since.
    down: Vec<bool>,
    /// No attempt to protect the guest before this.
    not_before: Instant,
    helpers: Vec<JoinHandle<()>>,
    counted: Instant,
    /// When the last host or QEMU that failed gave its last sign of life.
    failed: Instant,
    /// What the last QEMU that ended by itself left behind.
    last_words: Option<String>,
}

impl Supervisor {
    fn run(mut self) {
        // Refused to ordinary users; then a failure is noticed later on a busy host.
        let _ = vtax_sys::sched::react_at_once();
        'running: loop {
            let late = self.sleep();
            let messages = std::mem::take(&mut *lock(&self.shared.inbox));
            for message in messages {
                match message {
                    Message::Stop => break 'running,
                    Message::Gone(id) => self.gone(id),
                    Message::CheckpointsEnded(id) => self.checkpoints_ended(id),
                    Message::Rebooted(host) if !self.down[host] => self.host_failed(host, Instant::now()),
                    Message::Rebooted(_) | Message::Rearm => {}
                }
            }
            self.listen();
            // Where even this thread had to wait, a host's silence says nothing yet.
            if !late {
                self.judge();
            }
            self.protect_where_possible();
            self.shared.hear();
            self.count();
        }
        lock(&self.shared.roles).ending = true;
        self.shared.changed.notify_all();
        // A guest that is being copied can't be waited for: its QEMUs end first.
        self.shared.kill_members();
        for helper in self.helpers.drain(..) {
            // One that panicked has ended.
            let _ = helper.join();
        }
        self.shared.kill_members();
        self.shared.relay.close();
    }

    /// Waits until there is something to be decided; true where this thread had to wait much longer.
    fn sleep(&self) -> bool {
        let started = Instant::now();
        let wanted = self.next_look(started);
        let timeout = Timespec::try_from(wanted).unwrap_or_default();
        // An early wake-up does no harm.
        let _ = poll(&mut [PollFd::new(&self.shared.wake, PollFlags::IN)], Some(&timeout));
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        started.elapsed() > wanted + 2 * TICK
    }

    /// How long nothing can happen that has to be noticed: while all is well that is until the oldest last beat
    /// means silence. The kernel notes when each beat comes, so it need not be taken at once.
    fn next_look(&self, now: Instant) -> Duration {
        let patience = self.patience();
        let roles = lock(&self.shared.roles);
        let settled = match roles.armed {
            Some(since) => since.elapsed() > SETTLED_AFTER,
            None => !roles.wanted,
        };
        let settled = settled && !roles.busy;
        drop(roles);
        let quiet = |host: usize| !self.down[host] && !self.lost_link[host];
        let well = |host: usize| quiet(host) && self.detectors[host].verdict(now, patience) == Verdict::Alive;
        if !settled || !(0..self.detectors.len()).all(well) {
            return TICK;
        }
        let next = self.detectors.iter().filter_map(|detector| detector.next_verdict(patience)).min();
        let left = next.map_or(TICK, |next| next.saturating_duration_since(now));
        // A moment later: what came in time must have been taken in.
        (left + Duration::from_millis(1)).clamp(Duration::from_millis(1), 8 * TICK)
    }

    /// Takes the beats that have come.
    fn listen(&mut self) {
        let network = &self.shared.network;
        for (listener, path) in lock(&network.listeners).iter_mut().zip(Path::ALL) {
            listener.listen(|source, when| {
                let number = (1..).zip(&mut self.detectors);
                let mut of = number.filter(|(n, _)| IpAddr::V4(network.address(path as u8, *n)) == source);
                if let Some((_, detector)) = of.next() {
                    detector.beat(path, when);
                }
            });
        }
    }

    /// How many times the detector's timeout counts.
    fn patience(&self) -> u32 {
        let armed = lock(&self.shared.roles).armed;
        rules::patience(self.shared.spec.mode, armed.map(|since| since.elapsed()))
    }

    fn judge(&mut self) {
        let (now, patience) = (Instant::now(), self.patience());
        for host in 0..self.detectors.len() {
            let known = Known {
                down: self.down[host],
                lost_link: self.lost_link[host],
                off: self.shared.hosts[host].state() == HostState::Off,
            };
            let verdict = self.detectors[host].verdict(now, patience);
            match rules::ruling(verdict, known, || self.primary_beats(now)) {
                Ruling::HostFailed if self.starved(host) => {}
                Ruling::HostFailed => self.host_failed(host, now),
                Ruling::LinkLost => {
                    self.lost_link[host] = true;
                    self.link_lost(host);
                }
                Ruling::Back => {
                    (self.lost_link[host], self.down[host]) = (false, false);
                    self.shared.record(Some(host), PairEventKind::Back);
                }
                Ruling::Nothing => {}
            }
        }
    }

    /// Whether the host that runs the guest was heard of lately. What its guest sent since its last checkpoint is held
    /// back until then, so the copy is good for a take-over, and waiting for the next beat costs nothing.
    fn primary_beats(&self, now: Instant) -> bool {
        let primary = lock(&self.shared.roles).primary.as_ref().map(|primary| primary.host);
        primary.is_none_or(|host| self.detectors[host].beats(now))
    }

    /// Whether the silence is this machine's: nothing gets to run where the host's heart would, or its beat comes as
    /// soon as something does. Not believed for longer than any other silence while the guest isn't protected.
    fn starved(&mut self, host: usize) -> bool {
        let Some(cpu) = self.shared.hosts[host].heart_runs_on() else { return false };
        if self.detectors[host].verdict(Instant::now(), WHILE_UNPROTECTED) == Verdict::Suspect {
            return false;
        }
        if !self.pulse.is_felt(cpu) {
            return true;
        }
        self.listen();
        self.detectors[host].verdict(Instant::now(), self.patience()) != Verdict::Suspect
    }

    fn host_failed(&mut self, host: usize, now: Instant) {
        let last = self.detectors[host].last().unwrap_or(now);
        self.failed = last;
        let silence = now.saturating_duration_since(last).into();
        self.shared.record(Some(host), PairEventKind::Detected { silence });
        self.fence_and_go_on(host, "the secondary's host failed");
    }

    /// QEMU ended by itself while its host lives.
    fn gone(&mut self, id: u64) {
        let roles = lock(&self.shared.roles);
        let known = [&roles.primary, &roles.secondary].into_iter().flatten().find(|m| m.id == id).cloned();
        drop(roles);
        let Some(member) = known else { return };
        // A failed host doesn't report its end, so a killed one is detected by its silence too.
        if self.shared.hosts[member.host].state() == HostState::Off || self.down[member.host] {
            return;
        }
        self.failed = Instant::now();
        self.last_words = Some(member.replica.failure("ended by itself").to_string());
        self.shared.record(Some(member.host), PairEventKind::Detected { silence: Nanos::ZERO });
        self.fence_and_go_on(member.host, "the secondary's QEMU ended by itself");
    }

    fn checkpoints_ended(&mut self, id: u64) {
        let roles = lock(&self.shared.roles);
        let of_primary = roles.primary.as_ref().is_some_and(|p| p.id == id) && roles.armed.is_some();
        drop(roles);
        if of_primary {
            self.go_on_alone("QEMU ended the checkpoints");
        }
    }

    fn link_lost(&mut self, host: usize) {
        let roles = lock(&self.shared.roles);
        let concerned = [&roles.primary, &roles.secondary].into_iter().flatten().any(|m| m.host == host);
        let protected = roles.armed.is_some() || roles.busy;
        drop(roles);
        if concerned && protected {
            self.go_on_alone("the link for checkpoints is broken");
        }
    }

    /// Fences a host, then lets the guest live elsewhere, or go on alone for this reason.
    fn fence_and_go_on(&mut self, host: usize, alone: &str) {
        // A fenced host is free again when it is heard of again, not while its last beats are still young.
        self.down[host] = true;
        self.detectors[host].forget();
        let started = Instant::now();
        let fenced = self.shared.fence(host);
        let took = started.elapsed().into();
        let roles = self.settled();
        let was_primary = roles.primary.as_ref().is_some_and(|p| p.host == host);
        let was_secondary = roles.secondary.as_ref().is_some_and(|s| s.host == host);
        drop(roles);
        if let Err(reason) = fenced {
            // Without a confirmed end of the first, a second one would be a split brain.
            if was_primary {
                self.lost(format!("its host could not be fenced: {reason}"));
            }
            return;
        }
        self.shared.record(Some(host), PairEventKind::Fenced { took });
        if was_primary {
            self.take_over();
        } else if was_secondary {
            self.go_on_alone(alone);
        }
    }

    /// The roles once no other thread is about to change them.
    fn settled(&self) -> std::sync::MutexGuard<'_, Roles> {
        let roles = lock(&self.shared.roles);
        wait_timeout_while(&self.shared.changed, roles, SETTLE_WITHIN, |roles| roles.busy)
    }

    /// The primary is dead: the secondary goes live, or the guest is booted again.
    fn take_over(&mut self) {
        let started = unix_time();
        let mut roles = lock(&self.shared.roles);
        if let Some(old) = roles.protected() {
            self.shared.finish_statistics(old);
        }
        roles.primary = None;
        let armed = roles.armed.take().is_some();
        let (secondary, snapshot) = (roles.secondary.take(), roles.snapshot.take());
        drop(roles);
        self.may_protect_again(armed);
        match (secondary, self.shared.spec.mode) {
            (Some(secondary), PairMode::Snapshot { .. }) if armed => self.go_back(secondary, snapshot),
            (Some(secondary), _) if armed => match self.shared.go_live(&secondary) {
                Ok(live) => {
                    let host = secondary.host;
                    lock(&self.shared.roles).primary = Some(secondary);
                    self.last_words = None;
                    let took = Nanos(live.0.saturating_sub(started.0));
                    self.shared.record_at(Some(host), live, PairEventKind::Promoted { took });
                }
                Err(e) => self.lost(format!("the secondary did not go live: {}", vtax_sys::chain(&e))),
            },
            (unfinished, PairMode::Restart) => {
                drop(unfinished);
                self.restart();
            }
            (unfinished, _) => {
                drop(unfinished);
                self.lost("its host failed while it was not protected".to_owned());
            }
        }
    }

    /// Lets a secondary go on from the last snapshot.
    fn go_back(&mut self, secondary: Member, snapshot: Option<Arc<Snapshot>>) {
        let Some(snapshot) = snapshot else { return self.lost("there is no snapshot".to_owned()) };
        let started = unix_time();
        let age = self.failed.saturating_duration_since(snapshot.when).into();
        match self.shared.go_back_to(&secondary, &snapshot) {
            Ok(live) => {
                let host = secondary.host;
                lock(&self.shared.roles).primary = Some(secondary);
                let took = Nanos(live.0.saturating_sub(started.0));
                self.shared.record_at(Some(host), live, PairEventKind::Restored { took, age });
            }
            Err(e) => self.lost(format!("the snapshot did not go on: {}", vtax_sys::chain(&e))),
        }
    }

    fn restart(&mut self) {
        let Some(host) = self.free_host() else { return self.lost("no host is free".to_owned()) };
        let restarted = self.shared.start_member(host, Start::Boot).and_then(|member| {
            self.shared.network.plug(member.host, &member.tap)?;
            self.shared.relay.switch_to(member.replica.agent_stream().map_err(self.shared.vm_error())?)?;
            Ok(member)
        });
        match restarted {
            Ok(member) => {
                lock(&self.shared.roles).primary = Some(member);
                self.shared.record(Some(host), PairEventKind::Restarted);
            }
            Err(e) => self.lost(format!("it could not be booted again: {}", vtax_sys::chain(&e))),
        }
    }

    fn lost(&mut self, mut reason: String) {
        if let Some(words) = self.last_words.take() {
            reason = format!("{reason}; {words}");
        }
        let mut roles = lock(&self.shared.roles);
        // It still is where its host could not be fenced.
        if let Some(protected) = roles.protected() {
            self.shared.finish_statistics(protected);
        }
        (roles.lost, roles.wanted, roles.armed) = (true, false, None);
        drop(roles);
        self.shared.record(None, PairEventKind::ServiceLost { reason });
        self.shared.relay.close();
    }

    /// The secondary is of no use any more: the primary goes on without it.
    fn go_on_alone(&mut self, reason: &str) {
        let mut roles = lock(&self.shared.roles);
        let (secondary, armed) = (roles.secondary.take(), roles.armed.take());
        roles.snapshot = None;
        let primary = roles.primary.clone();
        drop(roles);
        self.may_protect_again(armed.is_some());
        if let Some(secondary) = &secondary {
            // Its state is about to be out of date, so it must never go live.
            secondary.replica.kill_and_confirm(CONFIRM_WITHIN);
        }
        if let (Some(primary), Some(_)) = (primary, armed) {
            drop_protection(&primary.replica);
            self.shared.relay.let_go();
            self.shared.finish_statistics(&primary);
            let kind = PairEventKind::Unprotected { reason: reason.to_owned() };
            self.shared.record(Some(primary.host), kind);
        }
    }

    /// The pause after an attempt is for those that failed: a guest that was protected needs none.
    fn may_protect_again(&mut self, succeeded: bool) {
        if succeeded {
            self.not_before = Instant::now();
        }
    }

    /// A host that is up, heard of on both paths and has nothing to do.
    fn free_host(&self) -> Option<usize> {
        let (now, patience) = (Instant::now(), self.patience());
        let roles = lock(&self.shared.roles);
        let busy: Vec<usize> =
            [&roles.primary, &roles.secondary].into_iter().flatten().map(|m| m.host).collect();
        (0..self.detectors.len()).find(|host| {
            !busy.contains(host)
                && !self.down[*host]
                && self.shared.hosts[*host].state() == HostState::Up
                && self.detectors[*host].verdict(now, patience) == Verdict::Alive
        })
    }

    fn protect_where_possible(&mut self) {
        if !self.shared.spec.mode.has_secondary() {
            return;
        }
        let (now, patience) = (Instant::now(), self.patience());
        if now < self.not_before {
            return;
        }
        let Some(primary) = lock(&self.shared.roles).to_protect().cloned() else { return };
        if self.detectors[primary.host].verdict(now, patience) != Verdict::Alive {
            return;
        }
        let Some(host) = self.free_host() else { return };
        let mut roles = lock(&self.shared.roles);
        // Meanwhile somebody may have begun to hand it over, or have done it.
        if roles.to_protect().map(|member| member.id) != Some(primary.id) {
            return;
        }
        roles.busy = true;
        drop(roles);
        self.not_before = now + RETRY_AFTER;
        let shared = Arc::clone(&self.shared);
        let arm = move || match shared.spec.mode {
            PairMode::Checkpoints(mode) => shared.arm(&primary, host, mode),
            PairMode::Snapshot { interval } => shared.keep_snapshots(&primary, host, interval.into()),
            PairMode::None | PairMode::Restart => {}
        };
        match std::thread::Builder::new().name("ft-arm".to_owned()).spawn(arm) {
            Ok(helper) => {
                self.helpers.retain(|helper| !helper.is_finished());
                self.helpers.push(helper);
            }
            // The next attempt may find room for a thread.
            Err(_) => lock(&self.shared.roles).settle(&self.shared.changed),
        }
    }

    /// Counts what has gone over the link to the secondary.
    fn count(&mut self) {
        if self.counted.elapsed() < COUNT_EVERY {
            return;
        }
        self.counted = Instant::now();
        let roles = lock(&self.shared.roles);
        if let (Some(primary), Some(secondary), Some(_)) = (&roles.primary, &roles.secondary, roles.armed) {
            self.shared.count_traffic(primary, secondary);
        }
    }
}
