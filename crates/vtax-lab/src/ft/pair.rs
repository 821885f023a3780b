//! A protected virtual machine: what a caller may ask of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::process::Signal;
use vtax_agent::message::InterfaceSetup;
use vtax_sys::NetNs;
use vtax_sys::cgroup::{RunGroups, Usage};
use vtax_sys::clock::unix_time;
use vtax_units::{Bytes, Nanos};
use vtax_vm::GuestTemplate;
use vtax_vm::ft::{CheckpointStatistics, Replica, Start};

use super::actions;
use super::host::{Host, HostState};
use super::model::{Handed, Outcome, PairEvent, PairEventKind, PairSpec, Side, Struck};
use super::network::PairNetwork;
use super::relay::Relay;
use super::shared::{Message, Shared};
use super::supervisor;
use crate::agent_program::{AgentProgram, group_for};
use crate::budget::Enforced;
use crate::error::{LabError, Result, While};
use crate::fabric::{Fabric, Switch};
use crate::link::LinkProperties;
use crate::spec::NodeSpec;
use vtax_sys::sync::lock;

/// A protected virtual machine; everything of it ends when it is dropped.
#[derive(Debug)]
pub struct FtPair {
    shared: Arc<Shared>,
    interface: InterfaceSetup,
    channel: Option<OwnedFd>,
    supervisor: Option<JoinHandle<()>>,
}

/// The host that runs the guest at first.
pub const FIRST_HOST: &str = "host-a";

/// Names of the hosts.
const HOSTS: [&str; 3] = [FIRST_HOST, "host-b", "host-c"];

/// How long a host that is switched on again may wait until its end has been dealt with.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// Memory of a host; an error where it could not run the guest.
fn memory_of(spec: &PairSpec, host: usize) -> Result<Bytes> {
    let needed = spec.memory_needed();
    let memory = spec.host_memory.get(host).copied().unwrap_or(needed);
    if memory < needed {
        let reason =
            format!("{} has {memory} of memory; a guest of {} needs {needed}", HOSTS[host], spec.memory);
        return Err(LabError::Pair { operation: "build the hosts", reason });
    }
    Ok(memory)
}

/// What a pair takes from the lab.
pub(crate) struct PairBase<'a> {
    pub(crate) template: Arc<GuestTemplate>,
    pub(crate) groups: Option<&'a RunGroups>,
    pub(crate) program: &'a AgentProgram,
}

impl FtPair {
    /// Builds the hosts and starts the guest on the first.
    pub(crate) fn start(
        base: PairBase<'_>,
        fabric: &mut Fabric,
        switch: &mut Switch,
        spec: PairSpec,
    ) -> Result<Self> {
        let what = || format!("build the hosts of {}", spec.name);
        let count = spec.hosts.len().clamp(2, 3);
        let memory = (0..count).map(|host| memory_of(&spec, host)).collect::<Result<Vec<_>>>()?;
        let namespaces = (0..count).map(|_| NetNs::create()).collect::<Result<Vec<_>, _>>().during(what)?;
        let cable = LinkProperties { mtu: spec.mtu, rate: spec.service_rate, ..LinkProperties::default() };
        let (network, ports) =
            PairNetwork::build(fabric, switch, cable, (spec.link, spec.cards), &namespaces)?;
        let mut hosts = Vec::with_capacity(count);
        for (number, (netns, ports)) in namespaces.into_iter().zip(ports).enumerate() {
            let cpus = spec.hosts.get(number).cloned().unwrap_or_default();
            let place = network.address(0, number as u8 + 1);
            let held = NodeSpec {
                name: format!("{}-{}", spec.name, HOSTS[number]),
                cpus: cpus.clone(),
                memory: Some(memory[number]),
                disk: None,
                memory_in: None,
                balloon: false,
            };
            let group = group_for(base.groups, &held)?;
            hosts.push(Host::new(HOSTS[number].to_owned(), cpus, netns, place, ports, group));
        }
        let (mac, interface, address) = fabric.guest_interface(spec.mtu);
        let (relay, channel) = Relay::new()?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|e| vtax_sys::SysError::call("create", "eventfd", e)).during(what)?;
        let shared = Arc::new(Shared {
            template: base.template,
            program: base.program.clone(),
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
            meters: Mutex::default(),
            next_member: AtomicU64::new(0),
            spec,
        });
        for host in &shared.hosts {
            host.start(&shared.program, shared.network.listener_addresses(), shared.spec.detector)?;
        }
        let primary = shared.start_member(0, Start::Boot)?;
        shared.network.plug(primary.host, &primary.tap)?;
        shared.relay.switch_to(primary.replica.agent_stream().map_err(shared.vm_error())?)?;
        lock(&shared.roles).primary = Some(primary);
        let supervisor = supervisor::start(&shared)?;
        Ok(Self { shared, interface, channel: Some(channel.into()), supervisor: Some(supervisor) })
    }

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
        if !self.shared.spec.mode.has_secondary() {
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
        loop {
            // Without a lock: what is asked may ask in turn.
            if let Some(result) = found(&self.events(), self.is_armed()) {
                return Some(result);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            // Events are told without the roles' lock, so a wake-up may be missed: look again soon.
            let wait = left.min(Duration::from_millis(5));
            let roles = lock(&self.shared.roles);
            drop(self.shared.changed.wait_timeout(roles, wait));
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

    /// Whether a host runs the guest.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if lock(&self.shared.roles).lost { Outcome::Lost } else { Outcome::Running }
    }

    /// What the checkpoints of each armed time cost until now, the present one last.
    #[must_use]
    pub fn statistics(&self) -> Vec<CheckpointStatistics> {
        self.shared.hear();
        let mut all = lock(&self.shared.finished).statistics.clone();
        if let Some(primary) = lock(&self.shared.roles).protected() {
            all.push(lock(&primary.checkpoints).statistics());
        }
        all
    }

    /// Pauses of the present armed time in microseconds, in order; none while the guest isn't protected.
    #[must_use]
    pub fn pauses_us(&self) -> Vec<u32> {
        let roles = lock(&self.shared.roles);
        roles.protected().map(|primary| lock(&primary.checkpoints).pauses_us().to_vec()).unwrap_or_default()
    }

    /// Pauses of all armed times so far in microseconds, in order; after a million, those of ended times are
    /// only in their statistics.
    #[must_use]
    pub fn all_pauses_us(&self) -> Vec<u32> {
        let mut all = lock(&self.shared.finished).pauses_us.clone();
        all.extend(self.pauses_us());
        all
    }

    /// CPU time of the QEMUs of each host so far, those that have ended included.
    #[must_use]
    pub fn host_cpu(&self) -> BTreeMap<String, Nanos> {
        let hosts = self.shared.hosts.iter();
        let mut times: BTreeMap<_, _> = hosts.map(|host| (host.name.clone(), Nanos::ZERO)).collect();
        for (host, meter) in lock(&self.shared.meters).iter() {
            times.entry(self.shared.hosts[*host].name.clone()).or_default().0 += meter.read().0;
        }
        times
    }

    /// Bytes that have gone over the link for checkpoints since the pair exists, to all hosts; heartbeats
    /// among them.
    ///
    /// # Errors
    ///
    /// Where the kernel can't be asked.
    pub fn link_bytes(&self) -> Result<u64> {
        let ports = self.shared.hosts.iter().map(|host| host.ports[0].as_str());
        // What comes to a host is what the switch sends to its port.
        ports.map(|port| self.shared.network.sent_to(port)).sum()
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

    /// The virtual machine that would take over, if there is one.
    #[must_use]
    pub fn secondary(&self) -> Option<Arc<Replica>> {
        lock(&self.shared.roles).secondary.as_ref().map(|s| Arc::clone(&s.replica))
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

    /// The power of a host fails: everything on it stops at once, its cables go dead, and it ends without
    /// a message to its peers.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where there is no such host at the moment.
    pub fn kill_host(&self, side: Side) -> Result<Struck> {
        let host = self.find(side)?;
        let place = &self.shared.hosts[host];
        self.fault(host, "kill");
        // Cables may take a while on a busy machine. The guest must not answer meanwhile, nor the heart beat.
        let at = self.stop_all(host)?;
        place.cables(&self.shared.network, [false, false])?;
        // Off before its QEMU ends: that of a host that failed is not reported.
        place.power_off();
        self.signal_all(host, Signal::KILL);
        Ok(Struck { host: place.name.clone(), at })
    }

    /// Everything on a host stops (SIGSTOP); its cables stay as they are.
    ///
    /// # Errors
    ///
    /// As [`kill_host`](Self::kill_host).
    pub fn hang_host(&self, side: Side) -> Result<Struck> {
        let host = self.find(side)?;
        self.fault(host, "hang");
        let at = self.stop_all(host)?;
        Ok(Struck { host: self.shared.hosts[host].name.clone(), at })
    }

    /// Stops everything on a host; when that was, time since 1970.
    fn stop_all(&self, host: usize) -> Result<Nanos> {
        let at = unix_time();
        self.signal_all(host, Signal::STOP);
        self.shared.hosts[host].signal(Signal::STOP, HostState::Hung)?;
        Ok(at)
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
    pub fn cut_link(&self, side: Side) -> Result<Struck> {
        let host = self.find(side)?;
        self.fault(host, "cut");
        let at = unix_time();
        self.shared.hosts[host].cables(&self.shared.network, [false, true])?;
        Ok(Struck { host: self.shared.hosts[host].name.clone(), at })
    }

    /// Repairs the host of this name: cables in, power on. It is then free to be used. One that hangs goes on with all
    /// that is on it, as long as nobody has fenced it.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where there is no such host, and where it can't be started.
    pub fn restore(&self, name: &str) -> Result<()> {
        let host = self.by_name(name)?;
        let place = &self.shared.hosts[host];
        self.fault(host, "restore");
        if place.state() == HostState::Off {
            self.dealt_with(host)?;
        }
        place.cables(&self.shared.network, [true, true])?;
        match place.state() {
            HostState::Up => Ok(()),
            HostState::Hung => self.wake(host),
            HostState::Off => {
                let listeners = self.shared.network.listener_addresses();
                place.start(&self.shared.program, listeners, self.shared.spec.detector)
            }
        }
    }

    /// Waits until nobody counts on a host that is off any more. Its heart would beat again before its silence was
    /// noticed, and what ran on it would be missed by nobody.
    fn dealt_with(&self, host: usize) -> Result<()> {
        let free = || self.shared.members_on(host).is_empty();
        if free() {
            return Ok(());
        }
        self.shared.tell(Message::Rebooted(host));
        self.wait_for(NOTICED_WITHIN, |_, _| free().then_some(())).ok_or_else(|| LabError::Pair {
            operation: "switch a host on",
            reason: format!("{} is still being dealt with", self.shared.hosts[host].name),
        })
    }

    /// Names of hosts that are off or hang.
    #[must_use]
    pub fn hosts_down(&self) -> Vec<String> {
        let down = self.shared.hosts.iter().filter(|host| host.state() != HostState::Up);
        down.map(|host| host.name.clone()).collect()
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

    /// Moves the guest to another host while it runs (live migration), and protects it again.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where no host is free or the guest doesn't get there; it then runs on where it was.
    pub fn hand_over(&self) -> Result<Handed> {
        actions::hand_over(&self.shared)
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

    /// What everything on each host is held to, by the kernel's word, with the host's name.
    ///
    /// # Errors
    ///
    /// Where the kernel can't be asked.
    pub fn enforced(&self) -> Result<Vec<(String, Enforced)>> {
        self.shared.hosts.iter().map(|host| Ok((host.name.clone(), host.enforced()?))).collect()
    }

    /// What the control group of each host has counted, with the host's name.
    #[must_use]
    pub fn usage(&self) -> Vec<(String, Usage)> {
        self.shared.hosts.iter().map(|host| (host.name.clone(), host.usage())).collect()
    }

    /// The QEMUs' cards by their numbers in the lab's network namespace: primary's, secondary's. For who
    /// listens there to what they send.
    #[must_use]
    pub fn cards(&self) -> [Option<u32>; 2] {
        let roles = lock(&self.shared.roles);
        let taps = [&roles.primary, &roles.secondary].map(|m| m.as_ref().map(|m| m.tap.clone()));
        drop(roles);
        taps.map(|tap| self.shared.network.index_of(&tap?))
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
