//! What is done to hosts and QEMUs: fence, go live, protect, hand over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_sys::clock::unix_time;
use vtax_sys::watchers;
use vtax_units::Nanos;
use vtax_vm::VmError;
use vtax_vm::ft::{
    Links, Mode, Snapshot, Start, checkpoint_now, drop_protection, hand_over as move_guest, promote, protect,
    restore_snapshot,
};

use super::host::HostState;
use super::model::{Handed, PairEventKind, PairMode};
use super::shared::{Member, Message, SETTLE_WITHIN, Shared, TICK};
use crate::error::{LabError, Result};
use vtax_sys::sync::{lock, wait_timeout};

/// How long the kernel may take to confirm the end of killed processes.
pub(crate) const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// How long the first checkpoint after the first copy may take: a moment, unless the host is short of CPU time.
const FIRST_CHECKPOINT_WITHIN: Duration = Duration::from_secs(15);

impl Shared {
    /// The QEMUs on a host.
    pub(crate) fn members_on(&self, host: usize) -> Vec<Member> {
        let roles = lock(&self.roles);
        [&roles.primary, &roles.secondary].into_iter().flatten().filter(|m| m.host == host).cloned().collect()
    }

    pub(crate) fn kill_members(&self) {
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
    pub(crate) fn fence(&self, host: usize) -> Result<(), String> {
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

    /// Plugs a secondary in and lets it go live; when that was, time since 1970. What arrives for it meanwhile waits in
    /// its tap. One that runs along can answer as soon as it is plugged in, one that stood still in a checkpoint once it
    /// goes on; what has to be done then, clients don't notice.
    pub(crate) fn go_live(&self, secondary: &Member) -> Result<Nanos> {
        let plugged = unix_time();
        self.network.plug(secondary.host, &secondary.tap)?;
        secondary.replica.set_patient(false);
        // One that runs along has said what the other said.
        secondary.replica.forget_agent_output().map_err(self.vm_error())?;
        promote(&secondary.replica).map_err(self.vm_error())?;
        self.relay.switch_to(secondary.replica.agent_stream().map_err(self.vm_error())?)?;
        Ok(secondary.moments.resumed().map_or(plugged, |resumed| resumed.max(plugged)))
    }

    /// Plugs a secondary in and lets it go on from a snapshot; when that was, time since 1970.
    pub(crate) fn go_back_to(&self, secondary: &Member, snapshot: &Snapshot) -> Result<Nanos> {
        self.network.plug(secondary.host, &secondary.tap)?;
        secondary.replica.set_patient(false);
        restore_snapshot(&secondary.replica, snapshot).map_err(self.vm_error())?;
        self.relay.switch_to(secondary.replica.agent_stream().map_err(self.vm_error())?)?;
        Ok(secondary.moments.resumed().unwrap_or_else(unix_time))
    }

    /// Starts a secondary and copies the guest to it. On a thread of its own; `busy` is set.
    pub(crate) fn arm(self: &Arc<Self>, primary: &Member, host: usize, mode: Mode) {
        let started = Instant::now();
        // When its first checkpoint is committed is waited for.
        primary.replica.set_patient(false);
        let armed = self.start_member(host, Start::AwaitCheckpoints).and_then(|secondary| {
            // From here on a fence of its host finds it.
            lock(&self.roles).secondary = Some(secondary.clone());
            self.copy_guest(primary, &secondary, mode)
        });
        match armed {
            Ok(()) => self.armed(host, started, None),
            Err(e) => self.not_armed(host, &e),
        }
    }

    /// From now on the secondary can take over.
    pub(crate) fn armed(&self, host: usize, started: Instant, snapshot: Option<Arc<Snapshot>>) {
        let mut roles = lock(&self.roles);
        roles.settle(&self.changed);
        (roles.armed, roles.snapshot) = (Some(Instant::now()), snapshot);
        // Both tell of each checkpoint, and when it was: nothing waits for that but what the guest's agent says, and the
        // end of a copy that must not run.
        let runs = !matches!(self.spec.mode, PairMode::Checkpoints(mode) if !mode.runs_both());
        let copy = roles.secondary.as_ref().filter(|_| runs);
        for member in roles.primary.iter().chain(copy) {
            member.replica.set_patient(true);
        }
        drop(roles);
        self.record(Some(host), PairEventKind::Armed { took: started.elapsed().into() });
    }

    /// What was begun to protect the guest comes to nothing.
    pub(crate) fn not_armed(&self, host: usize, error: &LabError) {
        let mut roles = lock(&self.roles);
        roles.settle(&self.changed);
        let unfinished = roles.secondary.take();
        drop(roles);
        self.relay.let_go();
        if let Some(unfinished) = unfinished {
            unfinished.replica.kill_and_confirm(CONFIRM_WITHIN);
        }
        self.record(Some(host), PairEventKind::ArmFailed { reason: vtax_sys::chain(error) });
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
        let until = Instant::now() + FIRST_CHECKPOINT_WITHIN;
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

    pub(crate) fn count_traffic(&self, primary: &Member, secondary: &Member) {
        // Without the figure there is one figure less.
        if let Ok(bytes) = self.network.sent_to(&self.hosts[secondary.host].ports[0]) {
            lock(&primary.checkpoints).traffic(bytes);
        }
    }

    /// CPU time of the heartbeat processes and of this process's threads that watch over pairs, former ones too.
    pub(crate) fn supervision_cpu(&self) -> Nanos {
        let hearts: u64 = self.hosts.iter().map(|host| host.heart_cpu().0).sum();
        Nanos(hearts + watchers::cpu().0)
    }
}

/// Live migration to a free host; see [`super::FtPair::hand_over`].
pub(crate) fn hand_over(shared: &Arc<Shared>) -> Result<Handed> {
    let failed = |reason: &str| LabError::Pair { operation: "hand over", reason: reason.to_owned() };
    let mut roles = lock(&shared.roles);
    let until = Instant::now() + SETTLE_WITHIN;
    while roles.busy && Instant::now() < until {
        roles = wait_timeout(&shared.changed, roles, TICK);
    }
    let source = roles.primary.clone().ok_or_else(|| failed("no host runs the guest"))?;
    if std::mem::replace(&mut roles.busy, true) {
        return Err(failed("the pair is busy"));
    }
    // The secondary's host is the one to move to; its copy can't be used for a planned move.
    let (secondary, armed) = (roles.secondary.take(), roles.armed.take());
    roles.snapshot = None;
    drop(roles);
    let began = unix_time();
    if armed.is_some() {
        shared.record(Some(source.host), PairEventKind::Moving);
    }
    let moved = hand_over_to(shared, &source, secondary.as_ref(), armed.is_some());
    let mut roles = lock(&shared.roles);
    roles.settle(&shared.changed);
    match moved {
        Ok(Moved { target, stopped, ran }) => {
            let host = target.host;
            roles.primary = Some(target);
            drop(roles);
            source.replica.kill_and_confirm(CONFIRM_WITHIN);
            shared.record_at(Some(host), ran, PairEventKind::HandedOver { stopped });
            shared.tell(Message::Rearm);
            Ok(Handed { from: shared.hosts[source.host].name.clone(), began, stopped })
        }
        Err(e) => Err(e),
    }
}

/// A guest that has moved.
struct Moved {
    target: Member,
    /// How long it ran nowhere.
    stopped: Nanos,
    /// When it ran again, time since 1970.
    ran: Nanos,
}

fn hand_over_to(
    shared: &Arc<Shared>,
    source: &Member,
    secondary: Option<&Member>,
    armed: bool,
) -> Result<Moved> {
    let failed = |reason: &str| LabError::Pair { operation: "hand over", reason: reason.to_owned() };
    if let Some(secondary) = secondary {
        secondary.replica.kill_and_confirm(CONFIRM_WITHIN);
    }
    if armed {
        if let PairMode::Checkpoints(_) = shared.spec.mode {
            drop_protection(&source.replica);
        }
        shared.relay.let_go();
        shared.finish_statistics(source);
    }
    let free = |host: &usize| *host != source.host && shared.hosts[*host].state() == HostState::Up;
    let host = secondary.map(|s| s.host).filter(free).or_else(|| (0..shared.hosts.len()).find(free));
    let host = host.ok_or_else(|| failed("no host is free"))?;
    let target = shared.start_member(host, Start::AwaitState)?;
    let streams = shared.hosts[source.host].connect(&shared.hosts[host])?;
    let mut stopped_at = unix_time();
    let moved = move_guest(&source.replica, &target.replica, &streams, || {
        stopped_at = source.moments.stopped().unwrap_or_else(unix_time);
        if let (Some(from), Some(to)) = (source.replica.disk(), target.replica.disk()) {
            to.copy_from(from)?;
        }
        // The guest runs nowhere now, so nothing can be sent by both.
        let swapped = shared.network.cut(&source.tap);
        let swapped = swapped.and_then(|()| shared.network.plug(target.host, &target.tap));
        let reason = |e: LabError| vtax_sys::chain(&e);
        swapped.map_err(|e| VmError::Pair { operation: "hand over", reason: reason(e) })
    });
    let ran = target.moments.resumed().unwrap_or_else(unix_time);
    let stopped = Nanos(ran.0.saturating_sub(stopped_at.0));
    if let Err(e) = moved {
        // It runs on where it was.
        shared.network.cut(&target.tap)?;
        shared.network.plug_again(source.host, &source.tap)?;
        return Err(shared.vm_error()(e));
    }
    shared.relay.switch_to(target.replica.agent_stream().map_err(shared.vm_error())?)?;
    Ok(Moved { target, stopped, ran })
}
