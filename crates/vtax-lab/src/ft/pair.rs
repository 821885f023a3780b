//! A protected virtual machine: what a caller may ask of it.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use vtax_agent::message::InterfaceSetup;
use vtax_sys::NetNs;
use vtax_sys::netlink::Mac;
use vtax_units::{Bytes, CpuSet, Nanos};
use vtax_vm::Guest;
use vtax_vm::ft::heartbeat::DetectorSettings;
use vtax_vm::ft::{
    CheckpointStatistics, Checkpoints, GuestTask, Mode, Replica, ReplicaConfig, ReplicatedDisk,
};

use super::host::{Host, HostState};
use super::network::{PairNetwork, address};
use super::relay::Relay;
use super::supervisor::{self, Message};
use crate::error::{LabError, Result, While};
use crate::fabric::{Fabric, Switch};
use crate::lab::Lab;
use crate::netns_node::AgentProgram;
use crate::shape::Shape;

/// How a virtual machine is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairMode {
    /// Not at all. It still runs on the same kind of QEMU with the same devices, for comparison.
    None,
    /// A second QEMU is kept in the same state.
    Checkpoints(Mode),
    /// It is booted again on another host. Memory and connections are lost.
    Restart,
}

/// What the guest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairTask {
    /// It is a node with an agent.
    Agent,
    /// It serves a counter kept in memory (`vtax_vm::contract::ROLE_WITNESS`).
    Witness,
}

/// A protected virtual machine to be built.
#[derive(Debug, Clone)]
pub struct PairSpec {
    /// Its name: also the guest's host name.
    pub name: String,
    /// The guest's memory; each of the two QEMUs needs as much.
    pub memory: Bytes,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// What the guest does.
    pub task: PairTask,
    /// How it is protected.
    pub mode: PairMode,
    /// CPUs of the hosts, two or three; the first runs the guest, the third is spare.
    pub hosts: Vec<CpuSet>,
    /// The link for checkpoints. Its rate counts for each host's cable.
    pub link: Shape,
    /// The service network's MTU in bytes.
    pub mtu: u32,
    /// Size of the disk whose content survives; `None`: no such disk.
    pub disk: Option<Bytes>,
    /// When a host is believed to be dead.
    pub detector: DetectorSettings,
}

impl PairSpec {
    /// Two hosts without limits, a guest of 256 MiB, no disk.
    pub fn new(name: impl Into<String>, mode: PairMode, task: PairTask) -> Self {
        Self {
            name: name.into(),
            memory: Bytes::from_mib(256),
            vcpus: 1,
            task,
            mode,
            hosts: vec![CpuSet::default(); 2],
            link: Shape::default(),
            mtu: 1500,
            disk: None,
            detector: DetectorSettings::default(),
        }
    }
}

/// Which of the hosts, by what it does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The one that runs the guest.
    Primary,
    /// The one that could.
    Secondary,
}

/// Something that happened to a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairEvent {
    /// Time since the pair was built.
    pub at: Nanos,
    /// By the clock of the host, time since 1970: to be laid beside a load's samples.
    pub wall: Nanos,
    /// The host it is about, where it is about one.
    pub host: Option<String>,
    /// What.
    pub kind: PairEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum PairEventKind {
    /// The guest is protected.
    Armed {
        /// From the decision to the first committed checkpoint; QEMU's start included.
        took: Nanos,
    },
    /// A fault was injected.
    Fault {
        /// Which: `kill`, `hang`, `wake`, `cut`, `restore`.
        fault: String,
    },
    /// A host fell silent on all paths, or its QEMU ended.
    Detected {
        /// Since its last sign of life; zero where its end was seen.
        silence: Nanos,
    },
    /// It can do no more harm: its port is cut and the kernel has confirmed the end of its processes.
    Fenced {
        /// From the decision to the confirmation.
        took: Nanos,
    },
    /// The other host's copy runs.
    Promoted {
        /// From the confirmation of the fence to the running guest.
        took: Nanos,
    },
    /// The guest was booted again on another host.
    Restarted,
    /// The guest moved while it ran.
    HandedOver {
        /// How long it ran nowhere.
        stopped: Nanos,
    },
    /// The guest goes on alone.
    Unprotected {
        /// Why.
        reason: String,
    },
    /// Protecting it did not succeed.
    ArmFailed {
        /// Why.
        reason: String,
    },
    /// A path that was silent brings beats again, or a host that was off is back.
    Back,
    /// Nobody runs the guest any more.
    ServiceLost {
        /// Why.
        reason: String,
    },
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The guest runs, protected or not.
    Running,
    /// Nobody runs the guest any more.
    Lost,
}

/// One of the QEMUs.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) host: usize,
    pub(crate) replica: Arc<Replica>,
    pub(crate) tap: String,
    pub(crate) checkpoints: Arc<Mutex<Checkpoints>>,
}

/// Who does what.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    pub(crate) primary: Option<Member>,
    pub(crate) secondary: Option<Member>,
    /// Since when the secondary could take over.
    pub(crate) armed: Option<Instant>,
    /// A thread is busy changing roles.
    pub(crate) busy: bool,
    /// The guest is to be protected whenever that is possible.
    pub(crate) wanted: bool,
    pub(crate) lost: bool,
}

/// What the caller, the supervisor and its helpers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) guest: Arc<Guest>,
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
    started: Instant,
    events: Mutex<Vec<PairEvent>>,
    finished: Mutex<Vec<CheckpointStatistics>>,
    next_member: AtomicU64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked leaves whole entries.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let host = host.map(|host| self.hosts[host].name.clone());
        let event = PairEvent { at: self.started.elapsed().into(), wall: wall.into(), host, kind };
        lock(&self.events).push(event);
        self.changed.notify_all();
    }

    /// Starts a QEMU on a host.
    pub(crate) fn start_member(self: &Arc<Self>, host: usize, standby: bool) -> Result<Member> {
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
            cpus: place.cpus.clone(),
            control_groups: Vec::new(),
            network: Some(place.netns.try_clone().during(|| "hold a host's network".to_owned())?),
            task,
            standby,
            disk,
        };
        // The handler must not keep the pair alive: it ends with the QEMU, which the pair holds.
        let (shared, counted) = (Arc::downgrade(self), Arc::clone(&checkpoints));
        let handler = Box::new(move |event: Option<vtax_vm::ft::MonitorEvent>| match event {
            Some(event) if matches!(event.name.as_str(), "STOP" | "RESUME") => {
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
        let replica = Replica::start(&self.guest, config, handler).map_err(self.vm_error())?;
        Ok(Member { id, host, replica: Arc::new(replica), tap: tap_name, checkpoints })
    }

    pub(crate) fn vm_error(&self) -> impl Fn(vtax_vm::VmError) -> LabError + use<> {
        let node = self.spec.name.clone();
        move |source| LabError::Vm { node: node.clone(), source }
    }

    /// Checkpoints of an armed time that has ended.
    pub(crate) fn finish_statistics(&self, member: &Member) {
        let statistics = lock(&member.checkpoints).statistics();
        if statistics.count > 0 {
            lock(&self.finished).push(statistics);
        }
        *lock(&member.checkpoints) = Checkpoints::default();
    }
}

/// A protected virtual machine; everything of it ends when it is dropped.
#[derive(Debug)]
pub struct FtPair {
    shared: Arc<Shared>,
    interface: InterfaceSetup,
    channel: Option<OwnedFd>,
    supervisor: Option<JoinHandle<()>>,
}

impl Lab {
    /// Builds the hosts of a pair and starts its guest on the first, plugged into `switch`. It goes on
    /// booting; it isn't protected until [`FtPair::arm`].
    ///
    /// # Errors
    ///
    /// Where there is no guest to boot, a host can't be built, or QEMU doesn't start.
    pub fn add_pair(&self, fabric: &mut Fabric, switch: &Switch, spec: PairSpec) -> Result<FtPair> {
        if !self.has_namespaces() {
            return Err(LabError::OnlyNative { kind: "vm" });
        }
        let guest = self.guest().cloned().ok_or_else(|| LabError::NoGuest { node: spec.name.clone() })?;
        let what = || format!("build the hosts of {}", spec.name);
        let count = spec.hosts.len().clamp(2, 3);
        let namespaces = (0..count).map(|_| NetNs::create()).collect::<Result<Vec<_>, _>>().during(what)?;
        let (network, ports) = PairNetwork::build(fabric, switch, spec.mtu, spec.link, &namespaces)?;
        let names = ["host-a", "host-b", "host-c"];
        let mut hosts = Vec::with_capacity(count);
        for (number, (netns, ports)) in namespaces.into_iter().zip(ports).enumerate() {
            let cpus = spec.hosts.get(number).cloned().unwrap_or_default();
            let place = address(0, number as u8 + 1);
            hosts.push(Host::new(names[number].to_owned(), cpus, netns, place, ports));
        }
        let (mac, interface, address) = fabric.guest_interface(spec.mtu);
        let (relay, channel) = Relay::new()?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|e| vtax_sys::SysError::call("create", "eventfd", e)).during(what)?;
        let shared = Arc::new(Shared {
            guest,
            program: self.agent_program().clone(),
            network,
            hosts,
            mac,
            address,
            relay,
            roles: Mutex::default(),
            changed: Condvar::new(),
            inbox: Mutex::default(),
            wake,
            started: Instant::now(),
            events: Mutex::default(),
            finished: Mutex::default(),
            next_member: AtomicU64::new(0),
            spec,
        });
        for host in &shared.hosts {
            host.start(&shared.program, PairNetwork::ear_addresses(), shared.spec.detector.interval)?;
        }
        let primary = shared.start_member(0, false)?;
        shared.network.plug(&primary.tap)?;
        shared.relay.switch_to(primary.replica.agent_stream().map_err(shared.vm_error())?)?;
        lock(&shared.roles).primary = Some(primary);
        let supervisor = supervisor::start(&shared)?;
        Ok(FtPair { shared, interface, channel: Some(channel.into()), supervisor: Some(supervisor) })
    }
}

impl FtPair {
    /// Where the guest's service is reached.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.shared.address
    }

    /// What the guest's agent must bring up.
    #[must_use]
    pub fn interfaces(&self) -> &[InterfaceSetup] {
        std::slice::from_ref(&self.interface)
    }

    /// The stream to the guest's agent, which survives failovers; can be taken once.
    pub const fn take_channel(&mut self) -> Option<OwnedFd> {
        self.channel.take()
    }

    /// Protects the guest, which must have booted, and keeps it protected whenever a host is free. Returns
    /// when the first checkpoint is committed: the time from the decision.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where that doesn't succeed.
    pub fn arm(&self) -> Result<Nanos> {
        if !matches!(self.shared.spec.mode, PairMode::Checkpoints(_)) {
            return Ok(Nanos::ZERO);
        }
        let before = self.events().len();
        lock(&self.shared.roles).wanted = true;
        self.shared.tell(Message::Rearm);
        let failed = |reason: String| LabError::Pair { operation: "protect the guest", reason };
        let found = self.wait_for(Duration::from_secs(60), |events, _| {
            events[before..].iter().find_map(|event| match &event.kind {
                PairEventKind::Armed { took } => Some(Ok(*took)),
                PairEventKind::ArmFailed { reason } | PairEventKind::ServiceLost { reason } => {
                    Some(Err(reason.clone()))
                }
                _ => None,
            })
        });
        match found {
            Some(outcome) => outcome.map_err(failed),
            None => Err(failed("no free host within 60 s".to_owned())),
        }
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn events(&self) -> Vec<PairEvent> {
        lock(&self.shared.events).clone()
    }

    /// Waits until `found` finds something in the events and whether the guest is protected; `None`
    /// after `within`.
    pub fn wait_for<T>(
        &self,
        within: Duration,
        mut found: impl FnMut(&[PairEvent], bool) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + within;
        let mut roles = lock(&self.shared.roles);
        loop {
            if let Some(result) = found(&lock(&self.shared.events), roles.armed.is_some()) {
                return Some(result);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            // Events are told without the roles' lock, so a wake-up may be missed: look again soon.
            let wait = left.min(Duration::from_millis(5));
            roles = self.shared.changed.wait_timeout(roles, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the guest is protected; false after `within`.
    pub fn wait_armed(&self, within: Duration) -> bool {
        self.wait_for(within, |_, armed| armed.then_some(())).is_some()
    }

    /// Whether the guest is protected.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        lock(&self.shared.roles).armed.is_some()
    }

    /// Whether anybody runs the guest.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if lock(&self.shared.roles).lost { Outcome::Lost } else { Outcome::Running }
    }

    /// What the checkpoints of each armed time cost, the present one last.
    #[must_use]
    pub fn statistics(&self) -> Vec<CheckpointStatistics> {
        let mut all = lock(&self.shared.finished).clone();
        let roles = lock(&self.shared.roles);
        if let (Some(primary), Some(_)) = (&roles.primary, roles.armed) {
            all.push(lock(&primary.checkpoints).statistics());
        }
        all
    }

    /// Pauses of the present armed time in microseconds, in order.
    #[must_use]
    pub fn pauses_us(&self) -> Vec<u32> {
        let roles = lock(&self.shared.roles);
        roles.primary.as_ref().map(|p| lock(&p.checkpoints).pauses_us().to_vec()).unwrap_or_default()
    }

    /// Process ids of the QEMUs: primary's, secondary's.
    #[must_use]
    pub fn pids(&self) -> [Option<u32>; 2] {
        let roles = lock(&self.shared.roles);
        [&roles.primary, &roles.secondary].map(|m| m.as_ref().map(|m| m.replica.pid()))
    }

    /// What the guest wrote to its console since the present primary runs it.
    #[must_use]
    pub fn console(&self) -> String {
        lock(&self.shared.roles).primary.as_ref().map(|p| p.replica.console()).unwrap_or_default()
    }

    /// The present primary's QEMU.
    #[must_use]
    pub fn primary(&self) -> Option<Arc<Replica>> {
        lock(&self.shared.roles).primary.as_ref().map(|p| Arc::clone(&p.replica))
    }

    /// The host that does this at the moment.
    #[must_use]
    pub fn host_of(&self, side: Side) -> Option<String> {
        self.find(side).ok().map(|host| self.shared.hosts[host].name.clone())
    }

    fn find(&self, side: Side) -> Result<usize> {
        let roles = lock(&self.shared.roles);
        let member = match side {
            Side::Primary => &roles.primary,
            Side::Secondary => &roles.secondary,
        };
        let reason = || format!("there is no {side:?} at the moment").to_lowercase();
        let none = || LabError::Pair { operation: "inject a fault", reason: reason() };
        member.as_ref().map(|member| member.host).ok_or_else(none)
    }

    fn fault(&self, host: usize, fault: &str) {
        self.shared.record(Some(host), PairEventKind::Fault { fault: fault.to_owned() });
    }

    fn signal_all(&self, host: usize, signal: Signal) {
        for member in self.shared.members_on(host) {
            // One that has ended already needs no signal.
            let _ = member.replica.signal(signal);
        }
    }

    /// The power of a host fails: its cables go dead and everything on it is killed, without a word to
    /// anybody.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where there is no such host at the moment.
    pub fn kill_host(&self, side: Side) -> Result<()> {
        let host = self.find(side)?;
        let place = &self.shared.hosts[host];
        self.fault(host, "kill");
        place.cables(&self.shared.network, [false, false])?;
        self.signal_all(host, Signal::KILL);
        place.power_off();
        Ok(())
    }

    /// Everything on a host stops (SIGSTOP); its cables stay as they are.
    ///
    /// # Errors
    ///
    /// As [`kill_host`](Self::kill_host).
    pub fn hang_host(&self, side: Side) -> Result<()> {
        let host = self.find(side)?;
        self.fault(host, "hang");
        self.signal_all(host, Signal::STOP);
        self.shared.hosts[host].signal(Signal::STOP, HostState::Hung)
    }

    /// Everything that still is on the host of this name goes on.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where there is no such host.
    pub fn wake_host(&self, name: &str) -> Result<()> {
        let host = self.by_name(name)?;
        self.fault(host, "wake");
        self.wake(host)
    }

    fn wake(&self, host: usize) -> Result<()> {
        self.signal_all(host, Signal::CONT);
        if self.shared.hosts[host].state() == HostState::Hung {
            self.shared.hosts[host].signal(Signal::CONT, HostState::Up)?;
        }
        Ok(())
    }

    /// The cable of the link for checkpoints comes out at the host of this side; the second path stays.
    ///
    /// # Errors
    ///
    /// As [`kill_host`](Self::kill_host).
    pub fn cut_link(&self, side: Side) -> Result<()> {
        let host = self.find(side)?;
        self.fault(host, "cut");
        self.shared.hosts[host].cables(&self.shared.network, [false, true])
    }

    /// Repairs the host of this name: cables in, power on. It is then free to be used.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where there is no such host, and where it can't be started.
    pub fn restore(&self, name: &str) -> Result<()> {
        let host = self.by_name(name)?;
        let place = &self.shared.hosts[host];
        self.fault(host, "restore");
        place.cables(&self.shared.network, [true, true])?;
        if place.state() == HostState::Off {
            place.start(
                &self.shared.program,
                PairNetwork::ear_addresses(),
                self.shared.spec.detector.interval,
            )?;
        }
        Ok(())
    }

    /// Names of hosts that are off.
    #[must_use]
    pub fn hosts_off(&self) -> Vec<String> {
        let off = self.shared.hosts.iter().filter(|host| host.state() == HostState::Off);
        off.map(|host| host.name.clone()).collect()
    }

    fn by_name(&self, name: &str) -> Result<usize> {
        let found = self.shared.hosts.iter().position(|host| host.name == name);
        let reason = || format!("there is no host `{name}`");
        found.ok_or_else(|| LabError::Pair { operation: "inject a fault", reason: reason() })
    }

    /// Moves the guest to another host while it runs (live migration), and protects it again. Returns how
    /// long it ran nowhere.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where no host is free or the guest doesn't get there; it then runs on where it was.
    pub fn hand_over(&self) -> Result<Nanos> {
        supervisor::hand_over(&self.shared)
    }

    /// Cuts the primary's card off the service network and does nothing else: the first half of a fence,
    /// to be tried by itself.
    ///
    /// # Errors
    ///
    /// As [`kill_host`](Self::kill_host).
    pub fn cut_service_port(&self, side: Side) -> Result<()> {
        let host = self.find(side)?;
        self.shared.members_on(host).iter().try_for_each(|member| self.shared.network.cut(&member.tap))
    }

    /// CPU time of vtax's own supervision: heartbeat processes and supervisor.
    #[must_use]
    pub fn supervision_cpu(&self) -> Nanos {
        self.shared.supervision_cpu()
    }
}

impl Drop for FtPair {
    fn drop(&mut self) {
        self.shared.tell(Message::Stop);
        if let Some(supervisor) = self.supervisor.take() {
            // A supervisor that panicked has ended.
            let _ = supervisor.join();
        }
        let mut roles = lock(&self.shared.roles);
        let members = [roles.primary.take(), roles.secondary.take()];
        drop(roles);
        for member in members.into_iter().flatten() {
            member.replica.kill_and_confirm(Duration::from_secs(2));
        }
    }
}
