//! Detects, fences, promotes, protects again.
//!
//! One thread for each pair. It looks at the heartbeats fifty times a second and at once when
//! something is told. What takes long (copying a guest to a new secondary) has a thread of its own, so
//! that a failure in the middle of it is detected like any other.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vtax_sys::Context;
use vtax_units::Nanos;
use vtax_vm::ft::heartbeat::{Detector, Path, Verdict, take_beats};
use vtax_vm::ft::{Links, Mode, checkpoint_now, drop_protection, hand_over as move_guest, promote, protect};

use super::host::HostState;
use super::network::address;
use super::pair::{Member, PairEventKind, PairMode, Roles, Shared, lock};
use crate::error::{LabError, Result, While};

/// Time between two looks at the heartbeats.
const TICK: Duration = Duration::from_millis(20);
/// How long the kernel may take to confirm the end of killed processes.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait for a thread that is busy with roles: its QEMUs answer or die within this.
const SETTLE_WITHIN: Duration = Duration::from_secs(20);
/// Time between two looks at the link's counters.
const COUNT_EVERY: Duration = Duration::from_millis(250);
/// How many times the detector's timeout counts while the guest isn't protected, and how soon after that
/// it counts once again.
const WHILE_UNPROTECTED: u32 = 4;
const SETTLED_AFTER: Duration = Duration::from_millis(250);
/// Pause after a failed attempt to protect a guest.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Names of the threads that watch over pairs.
const WATCHERS: [&str; 4] = ["ft-supervisor", "qmp", "relay", "qemu-watch"];

/// What the supervisor is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// The QEMU of this member is gone.
    Gone(u64),
    /// The checkpoints of this member ended by themselves.
    CheckpointsEnded(u64),
    /// Protect the guest where that is wanted and possible.
    Rearm,
    /// End.
    Stop,
}

/// Starts the supervisor of a pair.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let count = shared.hosts.len();
    let supervisor = Supervisor {
        detectors: vec![Detector::new(shared.spec.detector); count],
        lost_link: vec![false; count],
        down: vec![false; count],
        not_before: Instant::now(),
        shared,
        helpers: Vec::new(),
        counted: Instant::now(),
    };
    std::thread::Builder::new()
        .name("ft-supervisor".to_owned())
        .spawn(move || supervisor.run())
        .context("start", "thread")
        .during(|| "start the supervisor of a pair".to_owned())
}

struct Supervisor {
    shared: Arc<Shared>,
    detectors: Vec<Detector>,
    /// Hosts whose link is known to be broken.
    lost_link: Vec<bool>,
    /// Hosts that were fenced and not heard of since.
    down: Vec<bool>,
    /// No attempt to protect the guest before this.
    not_before: Instant,
    helpers: Vec<JoinHandle<()>>,
    counted: Instant,
}

impl Supervisor {
    fn run(mut self) {
        // Refused to ordinary users; then a failure is noticed later on a busy host.
        let _ = vtax_sys::sched::react_at_once();
        'running: loop {
            let late = self.sleep() > 3 * TICK;
            let messages = std::mem::take(&mut *lock(&self.shared.inbox));
            for message in messages {
                match message {
                    Message::Stop => break 'running,
                    Message::Gone(id) => self.gone(id),
                    Message::CheckpointsEnded(id) => self.checkpoints_ended(id),
                    Message::Rearm => {}
                }
            }
            self.listen();
            // Where even this thread had to wait, a host's silence says nothing yet.
            if !late {
                self.judge();
            }
            self.protect_where_possible();
            self.count();
        }
        // A guest that is being copied can't be waited for: its QEMUs end first.
        self.shared.kill_members();
        for helper in self.helpers.drain(..) {
            // One that panicked has ended.
            let _ = helper.join();
        }
        self.shared.kill_members();
        self.shared.relay.close();
    }

    /// Waits for the next look or message; how long that took.
    fn sleep(&self) -> Duration {
        let started = Instant::now();
        let tick = Timespec::try_from(TICK).unwrap_or_default();
        // An early wake-up does no harm.
        let _ = poll(&mut [PollFd::new(&self.shared.wake, PollFlags::IN)], Some(&tick));
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        started.elapsed()
    }

    /// Takes the beats that have come.
    fn listen(&mut self) {
        let now = Instant::now();
        for (ear, path) in self.shared.network.ears.iter().zip(Path::ALL) {
            take_beats(ear, |source| {
                let number = (1..).zip(&mut self.detectors);
                let mut of = number.filter(|(n, _)| IpAddr::V4(address(path as u8, *n)) == source);
                if let Some((_, detector)) = of.next() {
                    detector.beat(path, now);
                }
            });
        }
    }

    /// How many times the detector's timeout counts. Copying a guest fills the link and the CPUs, and who
    /// isn't protected yet gains nothing by an early verdict.
    fn patience(&self) -> u32 {
        let armed = lock(&self.shared.roles).armed;
        if armed.is_some_and(|since| since.elapsed() > SETTLED_AFTER) { 1 } else { WHILE_UNPROTECTED }
    }

    fn judge(&mut self) {
        let (now, patience) = (Instant::now(), self.patience());
        for host in 0..self.detectors.len() {
            let verdict = self.detectors[host].verdict(now, patience);
            match verdict {
                Verdict::Suspect if !self.down[host] => self.host_failed(host, now),
                Verdict::PathLost(Path::FtLink) if !self.lost_link[host] && !self.down[host] => {
                    self.lost_link[host] = true;
                    self.link_lost(host);
                }
                Verdict::Alive if self.lost_link[host] || self.down[host] => {
                    (self.lost_link[host], self.down[host]) = (false, false);
                    self.shared.record(Some(host), PairEventKind::Back);
                }
                _ => {}
            }
        }
    }

    fn host_failed(&mut self, host: usize, now: Instant) {
        let last = self.detectors[host].last().unwrap_or(now);
        let silence = now.saturating_duration_since(last).into();
        self.shared.record(Some(host), PairEventKind::Detected { silence });
        self.down[host] = true;
        self.detectors[host].forget();
        self.fence_and_go_on(host);
    }

    /// QEMU ended by itself while its host lives.
    fn gone(&mut self, id: u64) {
        let roles = lock(&self.shared.roles);
        let known = [&roles.primary, &roles.secondary].into_iter().flatten().find(|m| m.id == id).cloned();
        drop(roles);
        let Some(member) = known else { return };
        // A host that was killed is found out by its silence, as nobody would be told.
        if self.shared.hosts[member.host].state() == HostState::Off || self.down[member.host] {
            return;
        }
        self.shared.record(Some(member.host), PairEventKind::Detected { silence: Nanos::ZERO });
        self.fence_and_go_on(member.host);
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

    /// Fences a host, then lets the guest live elsewhere or go on alone.
    fn fence_and_go_on(&mut self, host: usize) {
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
            self.go_on_alone("the secondary's host failed");
        }
    }

    /// The roles once nobody else is about to change them.
    fn settled(&self) -> std::sync::MutexGuard<'_, Roles> {
        let roles = lock(&self.shared.roles);
        let waiting = self.shared.changed.wait_timeout_while(roles, SETTLE_WITHIN, |roles| roles.busy);
        waiting.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The primary is dead: the secondary goes live, or the guest is booted again.
    fn take_over(&mut self) {
        let started = Instant::now();
        let mut roles = lock(&self.shared.roles);
        if let Some(old) = roles.primary.take() {
            self.shared.finish_statistics(&old);
        }
        let armed = roles.armed.take().is_some();
        let secondary = roles.secondary.take();
        drop(roles);
        match (secondary, self.shared.spec.mode) {
            (Some(secondary), _) if armed => match self.shared.go_live(&secondary) {
                Ok(()) => {
                    let host = secondary.host;
                    lock(&self.shared.roles).primary = Some(secondary);
                    self.shared
                        .record(Some(host), PairEventKind::Promoted { took: started.elapsed().into() });
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

    fn restart(&mut self) {
        let Some(host) = self.free_host() else { return self.lost("no host is free".to_owned()) };
        let restarted = self.shared.start_member(host, false).and_then(|member| {
            self.shared.network.plug(&member.tap)?;
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

    fn lost(&mut self, reason: String) {
        let mut roles = lock(&self.shared.roles);
        (roles.lost, roles.wanted, roles.armed) = (true, false, None);
        drop(roles);
        self.shared.record(None, PairEventKind::ServiceLost { reason });
        self.shared.relay.close();
    }

    /// The secondary is of no use any more: the primary goes on without it.
    fn go_on_alone(&mut self, reason: &str) {
        let mut roles = lock(&self.shared.roles);
        let (secondary, armed) = (roles.secondary.take(), roles.armed.take());
        let primary = roles.primary.clone();
        drop(roles);
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

    /// A host that is up, heard of on both paths and has nothing to do.
    fn free_host(&self) -> Option<usize> {
        let (now, patience) = (Instant::now(), self.patience());
        let roles = lock(&self.shared.roles);
        let busy: Vec<usize> =
            [&roles.primary, &roles.secondary].into_iter().flatten().map(|m| m.host).collect();
        (0..self.detectors.len()).find(|host| {
            !busy.contains(host)
                && !self.down[*host]
                && self.detectors[*host].verdict(now, patience) == Verdict::Alive
        })
    }

    fn protect_where_possible(&mut self) {
        let PairMode::Checkpoints(mode) = self.shared.spec.mode else { return };
        let (now, patience) = (Instant::now(), self.patience());
        let mut roles = lock(&self.shared.roles);
        let ready = roles.wanted && !roles.busy && roles.secondary.is_none() && now >= self.not_before;
        let Some(primary) = roles.primary.clone().filter(|_| ready) else { return };
        if self.detectors[primary.host].verdict(now, patience) != Verdict::Alive {
            return;
        }
        drop(roles);
        let Some(host) = self.free_host() else { return };
        roles = lock(&self.shared.roles);
        roles.busy = true;
        drop(roles);
        self.not_before = now + RETRY_AFTER;
        let shared = Arc::clone(&self.shared);
        let arm = move || shared.arm(&primary, host, mode);
        match std::thread::Builder::new().name("ft-arm".to_owned()).spawn(arm) {
            Ok(helper) => {
                self.helpers.retain(|helper| !helper.is_finished());
                self.helpers.push(helper);
            }
            // The next attempt may find room for a thread.
            Err(_) => lock(&self.shared.roles).busy = false,
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

impl Shared {
    /// The QEMUs on a host.
    pub(crate) fn members_on(&self, host: usize) -> Vec<Member> {
        let roles = lock(&self.roles);
        [&roles.primary, &roles.secondary].into_iter().flatten().filter(|m| m.host == host).cloned().collect()
    }

    fn kill_members(&self) {
        let roles = lock(&self.roles);
        let members: Vec<Member> =
            [&roles.primary, &roles.secondary].into_iter().flatten().cloned().collect();
        drop(roles);
        for member in members {
            member.replica.kill_and_confirm(CONFIRM_WITHIN);
        }
    }

    /// Makes sure that nothing of a host reaches the service any more: first its ports are cut, which
    /// holds whatever it does, then its processes are killed, and the kernel confirms that they are gone.
    fn fence(&self, host: usize) -> Result<(), String> {
        let words = |e: LabError| vtax_sys::chain(&e);
        let members = self.members_on(host);
        for member in &members {
            self.network.cut(&member.tap).map_err(words)?;
        }
        self.hosts[host].cables(&self.network, [false, false]).map_err(words)?;
        for member in &members {
            if !member.replica.kill_and_confirm(CONFIRM_WITHIN) {
                return Err(format!("{} does not end", member.replica.name()));
            }
        }
        if self.hosts[host].power_off() {
            Ok(())
        } else {
            Err("its heartbeat process does not end".to_owned())
        }
    }

    /// Plugs a secondary in and lets it go live. What arrives for it meanwhile waits in its tap.
    fn go_live(&self, secondary: &Member) -> Result<()> {
        self.network.plug(&secondary.tap)?;
        promote(&secondary.replica).map_err(self.vm_error())?;
        self.relay.switch_to(secondary.replica.agent_stream().map_err(self.vm_error())?)
    }

    /// Starts a secondary and copies the guest to it. On a thread of its own; `busy` is set.
    fn arm(self: &Arc<Self>, primary: &Member, host: usize, mode: Mode) {
        let started = Instant::now();
        let armed = self.start_member(host, true).and_then(|secondary| {
            // From here on a fence of its host finds it.
            lock(&self.roles).secondary = Some(secondary.clone());
            self.copy_guest(primary, &secondary, mode)
        });
        let mut roles = lock(&self.roles);
        roles.busy = false;
        let kind = match armed {
            Ok(()) => {
                roles.armed = Some(Instant::now());
                PairEventKind::Armed { took: started.elapsed().into() }
            }
            Err(e) => {
                let unfinished = roles.secondary.take();
                drop(roles);
                self.relay.let_go();
                if let Some(unfinished) = unfinished {
                    unfinished.replica.kill_and_confirm(CONFIRM_WITHIN);
                }
                return self.record(Some(host), PairEventKind::ArmFailed { reason: vtax_sys::chain(&e) });
            }
        };
        drop(roles);
        self.record(Some(host), kind);
    }

    fn copy_guest(&self, primary: &Member, secondary: &Member, mode: Mode) -> Result<()> {
        let (from, to) = (&self.hosts[primary.host], &self.hosts[secondary.host]);
        let links = Links {
            checkpoints: from.connect(to)?,
            disk: self.spec.disk.map(|_| to.disk_address()).transpose()?,
            packets: match mode {
                Mode::Colo => Some([from.connect(to)?, from.connect(to)?]),
                _ => None,
            },
        };
        *lock(&primary.checkpoints) = Default::default();
        self.relay.hold(primary.id, &primary.replica, mode);
        protect(&primary.replica, &secondary.replica, mode, &links).map_err(self.vm_error())?;
        // The first copy is complete; only a checkpoint after it proves that they go on.
        let before = lock(&primary.checkpoints).count();
        checkpoint_now(&primary.replica, mode).map_err(self.vm_error())?;
        let until = Instant::now() + CONFIRM_WITHIN;
        while lock(&primary.checkpoints).count() <= before {
            if Instant::now() > until || primary.replica.ended_within(Duration::ZERO) {
                drop_protection(&primary.replica);
                let reason = "no checkpoint came after the first copy".to_owned();
                return Err(LabError::Pair { operation: "protect the guest", reason });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.count_traffic(primary, secondary);
        Ok(())
    }

    fn count_traffic(&self, primary: &Member, secondary: &Member) {
        // Without the figure there is one figure less.
        if let Ok(bytes) = self.network.sent_to(&self.hosts[secondary.host].ports[0]) {
            lock(&primary.checkpoints).traffic(bytes);
        }
    }

    /// CPU time of the heartbeat processes and of this process's threads that watch over pairs.
    pub(crate) fn supervision_cpu(&self) -> Nanos {
        let hearts = self.hosts.iter().filter_map(super::host::Host::heart_pid);
        let hearts = hearts.map(|pid| format!("/proc/{pid}/task/{pid}"));
        let ours = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let ours = ours.filter_map(|entry| entry.path().to_str().map(str::to_owned)).filter(|thread| {
            let name = std::fs::read_to_string(format!("{thread}/comm")).unwrap_or_default();
            WATCHERS.contains(&name.trim())
        });
        // Kernel document `sched-stats`: the first number is the time on a CPU in nanoseconds.
        let time = |thread: String| {
            let text = std::fs::read_to_string(format!("{thread}/schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        };
        Nanos(hearts.chain(ours).filter_map(time).sum())
    }
}

/// Live migration to a free host; see [`super::FtPair::hand_over`].
pub(crate) fn hand_over(shared: &Arc<Shared>) -> Result<Nanos> {
    let failed = |reason: &str| LabError::Pair { operation: "hand over", reason: reason.to_owned() };
    let mut roles = lock(&shared.roles);
    let until = Instant::now() + SETTLE_WITHIN;
    while roles.busy && Instant::now() < until {
        roles = shared.changed.wait_timeout(roles, TICK).unwrap_or_else(PoisonError::into_inner).0;
    }
    let source = roles.primary.clone().ok_or_else(|| failed("nobody runs the guest"))?;
    if std::mem::replace(&mut roles.busy, true) {
        return Err(failed("the pair is busy"));
    }
    // The secondary's host is the one to move to; its copy can't be used for a planned move.
    let (secondary, armed) = (roles.secondary.take(), roles.armed.take());
    drop(roles);
    let moved = hand_over_to(shared, &source, secondary.as_ref(), armed.is_some());
    let mut roles = lock(&shared.roles);
    roles.busy = false;
    match moved {
        Ok((target, stopped)) => {
            let host = target.host;
            roles.primary = Some(target);
            drop(roles);
            source.replica.kill_and_confirm(CONFIRM_WITHIN);
            shared.record(Some(host), PairEventKind::HandedOver { stopped });
            shared.tell(Message::Rearm);
            Ok(stopped)
        }
        Err(e) => Err(e),
    }
}

fn hand_over_to(
    shared: &Arc<Shared>,
    source: &Member,
    secondary: Option<&Member>,
    armed: bool,
) -> Result<(Member, Nanos)> {
    let failed = |reason: &str| LabError::Pair { operation: "hand over", reason: reason.to_owned() };
    if let Some(secondary) = secondary {
        secondary.replica.kill_and_confirm(CONFIRM_WITHIN);
    }
    if armed {
        drop_protection(&source.replica);
        shared.relay.let_go();
        shared.finish_statistics(source);
    }
    let free = |host: &usize| *host != source.host && shared.hosts[*host].state() == HostState::Up;
    let host = secondary.map(|s| s.host).filter(free).or_else(|| (0..shared.hosts.len()).find(free));
    let host = host.ok_or_else(|| failed("no host is free"))?;
    let target = shared.start_member(host, true)?;
    let streams = shared.hosts[source.host].connect(&shared.hosts[host])?;
    let mut stopped_at = Instant::now();
    let moved = move_guest(&source.replica, &target.replica, &streams, || {
        stopped_at = Instant::now();
        // The guest runs nowhere now, so nothing can be sent by both.
        let _ = shared.network.cut(&source.tap);
        let _ = shared.network.plug(&target.tap);
    });
    let stopped = stopped_at.elapsed().into();
    moved.map_err(shared.vm_error())?;
    shared.relay.switch_to(target.replica.agent_stream().map_err(shared.vm_error())?)?;
    Ok((target, stopped))
}
