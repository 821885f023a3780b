//! What the caller, the supervisor and its helpers share.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use vtax_sys::clock::unix_time;
use vtax_sys::netlink::Mac;
use vtax_units::Nanos;
use vtax_vm::ft::{
    CheckpointStatistics, Checkpoints, GuestTask, Replica, ReplicaConfig, ReplicatedDisk, Snapshot, Start,
};
use vtax_vm::{CpuMeter, GuestTemplate, QmpEvent};

use super::host::Host;
use super::model::{PairEvent, PairEventKind, PairSpec, PairTask};
use super::network::PairNetwork;
use super::relay::Relay;
use crate::agent_program::AgentProgram;
use crate::error::{LabError, Result, While};
use crate::nodes::vm::card;
use vtax_sys::sync::lock;

/// Time between two looks at the heartbeats while something is changing.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// How long to wait for a thread that is busy with roles: its QEMUs answer or die within this.
pub(crate) const SETTLE_WITHIN: Duration = Duration::from_secs(20);

/// What the supervisor is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// The QEMU of this member is gone.
    Gone(u64),
    /// The checkpoints of this member ended by themselves.
    CheckpointsEnded(u64),
    /// This host is about to be switched on again: what ran on it is gone.
    Rebooted(usize),
    /// Protect the guest where that is wanted and possible.
    Rearm,
    /// End.
    Stop,
}

/// One of the QEMUs.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) host: usize,
    pub(crate) replica: Arc<Replica>,
    pub(crate) tap: String,
    pub(crate) checkpoints: Arc<Mutex<Checkpoints>>,
    pub(crate) moments: Arc<Moments>,
}

/// When a guest last stopped and when it last went on, by what its QEMU noted. An event comes before the answers of
/// commands that were run after it, so who has such an answer finds it here.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    /// Nanoseconds since 1970; 0: it never did.
    stopped: AtomicU64,
    resumed: AtomicU64,
}

impl Moments {
    fn event(&self, event: &QmpEvent) {
        match event.name.as_str() {
            "STOP" => self.stopped.store(event.when.0, Ordering::Release),
            "RESUME" => self.resumed.store(event.when.0, Ordering::Release),
            _ => {}
        }
    }

    /// When it stopped, time since 1970; `None`: it never did.
    pub(crate) fn stopped(&self) -> Option<Nanos> {
        Some(Nanos(self.stopped.load(Ordering::Acquire))).filter(|at| *at > Nanos::ZERO)
    }

    /// When it went on, time since 1970; `None`: it never did.
    pub(crate) fn resumed(&self) -> Option<Nanos> {
        Some(Nanos(self.resumed.load(Ordering::Acquire))).filter(|at| *at > Nanos::ZERO)
    }
}

/// Who does what.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    pub(crate) primary: Option<Member>,
    pub(crate) secondary: Option<Member>,
    /// Since when the secondary could take over.
    pub(crate) armed: Option<Instant>,
    /// A thread is busy changing roles; over with [`settle`](Self::settle).
    pub(crate) busy: bool,
    /// The guest is to be protected whenever that is possible.
    pub(crate) wanted: bool,
    pub(crate) lost: bool,
    /// The pair is being taken down.
    pub(crate) ending: bool,
    /// The last complete one, where that is how the guest is protected; the secondary's host has it.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
}

impl Roles {
    /// No thread changes roles any more: who waits for that goes on as soon as it has the lock. Not told, it would sleep out its time.
    pub(crate) fn settle(&mut self, changed: &Condvar) {
        self.busy = false;
        changed.notify_all();
    }

    /// The primary, where it is to be protected and nobody else is about to change roles.
    pub(crate) fn to_protect(&self) -> Option<&Member> {
        self.primary.as_ref().filter(|_| self.wanted && !self.busy && self.secondary.is_none())
    }

    /// The primary while it is protected: what it counts then are checkpoints. A copy that has taken over still has its own
    /// counts of the time before, and whoever is copied or moved stands still as well.
    pub(crate) fn protected(&self) -> Option<&Member> {
        self.primary.as_ref().filter(|_| self.armed.is_some())
    }
}

/// Pauses of ended times that are kept.
const MOST_PAUSES: usize = 1 << 20;

/// What is known of armed times that have ended.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(super) statistics: Vec<CheckpointStatistics>,
    pub(super) pauses_us: Vec<u32>,
}

/// What the caller, the supervisor and its helpers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) template: Arc<GuestTemplate>,
    pub(crate) spec: PairSpec,
    pub(crate) program: AgentProgram,
    pub(crate) network: PairNetwork,
    pub(crate) hosts: Vec<Host>,
    pub(crate) mac: Mac,
    pub(crate) address: IpAddr,
    pub(crate) relay: Relay,
    pub(crate) roles: Mutex<Roles>,
    pub(crate) changed: Condvar,
    pub(crate) inbox: Mutex<Vec<Message>>,
    pub(crate) wake: OwnedFd,
    pub(super) started: Instant,
    pub(super) events: Mutex<Vec<PairEvent>>,
    pub(super) finished: Mutex<Finished>,
    /// CPU time of every QEMU there was, with its host.
    pub(super) meters: Mutex<Vec<(usize, CpuMeter)>>,
    pub(super) next_member: AtomicU64,
}

/// Prefix length of the service network.
const SERVICE_PREFIX: u8 = crate::naming::PREFIX;

impl Shared {
    pub(crate) fn tell(&self, message: Message) {
        lock(&self.inbox).push(message);
        // Fails only where it is written already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(crate) fn record(&self, host: Option<usize>, kind: PairEventKind) {
        self.record_at(host, unix_time(), kind);
    }

    /// Records what happened at this moment, time since 1970.
    pub(crate) fn record_at(&self, host: Option<usize>, wall: Nanos, kind: PairEventKind) {
        let ago = Duration::from_nanos(unix_time().0.saturating_sub(wall.0));
        let host = host.map(|host| self.hosts[host].name.clone());
        let at = self.started.elapsed().saturating_sub(ago);
        lock(&self.events).push(PairEvent { at: at.into(), wall, host, kind });
        self.changed.notify_all();
    }

    /// Starts a QEMU on a host.
    pub(crate) fn start_member(self: &Arc<Self>, host: usize, start: Start) -> Result<Member> {
        let id = self.next_member.fetch_add(1, Ordering::Relaxed);
        let (tap, tap_name) = self.network.new_tap()?;
        let place = &self.hosts[host];
        let name = format!("{}-{id} on {}", self.spec.name, place.name);
        let disk = self.spec.disk.map(ReplicatedDisk::create).transpose().map_err(self.vm_error())?;
        let checkpoints = Arc::new(Mutex::new(Checkpoints::default()));
        let task = match self.spec.task {
            PairTask::Agent => GuestTask::Agent,
            PairTask::Witness => GuestTask::Witness(self.address, SERVICE_PREFIX),
        };
        let config = ReplicaConfig {
            name,
            hostname: self.spec.name.clone(),
            memory: self.spec.memory,
            vcpus: self.spec.vcpus,
            tap,
            mac: self.mac.0,
            nic: card(self.spec.nic),
            cpus: place.cpus.clone(),
            control_groups: place.control_groups()?,
            network: Some(place.netns.try_clone().during(|| "hold a host's network".to_owned())?),
            task,
            start,
            disk,
        };
        // The handler must not keep the pair alive: it ends with the QEMU, which the pair holds.
        let moments = Arc::new(Moments::default());
        let (shared, counted, noted) = (Arc::downgrade(self), Arc::clone(&checkpoints), Arc::clone(&moments));
        let handler = Box::new(move |event: Option<QmpEvent>| match event {
            Some(event) if matches!(event.name.as_str(), "STOP" | "RESUME") => {
                noted.event(&event);
                let committed = lock(&counted).event(&event);
                if let (Some(began), Some(shared)) = (committed, shared.upgrade()) {
                    shared.relay.committed(id, began);
                }
            }
            Some(event) if event.name == "COLO_EXIT" => {
                let by_us = event.data["reason"] == "request";
                if let (Some(shared), false) = (shared.upgrade(), by_us) {
                    shared.tell(Message::CheckpointsEnded(id));
                }
            }
            Some(_) => {}
            None => {
                if let Some(shared) = shared.upgrade() {
                    shared.tell(Message::Gone(id));
                }
            }
        });
        let replica = Replica::start(&self.template, config, handler).map_err(self.vm_error())?;
        lock(&self.meters).push((host, replica.meter()));
        Ok(Member { id, host, replica: Arc::new(replica), tap: tap_name, checkpoints, moments })
    }

    /// Takes what the QEMUs have reported since the last look: their own threads would have to be woken for it, and let it wait for a
    /// second.
    pub(crate) fn hear(&self) {
        let roles = lock(&self.roles);
        let members = [&roles.primary, &roles.secondary].map(|member| member.clone());
        drop(roles);
        for member in members.iter().flatten() {
            member.replica.hear();
        }
    }

    pub(crate) fn vm_error(&self) -> impl Fn(vtax_vm::VmError) -> LabError + use<> {
        let node = self.spec.name.clone();
        move |source| LabError::vm(&node, source)
    }

    /// Checkpoints of an armed time that has ended.
    pub(crate) fn finish_statistics(&self, member: &Member) {
        let checkpoints = std::mem::take(&mut *lock(&member.checkpoints));
        if checkpoints.count() > 0 {
            let mut finished = lock(&self.finished);
            finished.statistics.push(checkpoints.statistics());
            let room = MOST_PAUSES.saturating_sub(finished.pauses_us.len());
            finished.pauses_us.extend(checkpoints.pauses_us().iter().take(room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_settled_roles_is_told() {
        let (roles, changed) = (Mutex::new(Roles { busy: true, ..Roles::default() }), Condvar::new());
        let within = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let held = lock(&roles);
            // It gets the lock only when this thread waits for it, and has let it go by then.
            scope.spawn(|| lock(&roles).settle(&changed));
            let (roles, waited) = changed.wait_timeout_while(held, within, |roles| roles.busy).unwrap();
            assert!(!roles.busy && !waited.timed_out());
        });
    }
}
