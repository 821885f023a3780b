//! One of the two QEMUs of a pair.

use std::io::Read;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use vtax_sys::NetNs;
use vtax_sys::inherit::Inherit;
use vtax_units::{Bytes, CpuSet};

use super::disk::ReplicatedDisk;
use super::monitor::{Monitor, MonitorHandler};
use crate::accel;
use crate::contract::{ROLE_KEY, ROLE_WITNESS, WITNESS_ADDRESS_KEY};
use crate::error::{Result, VmError};
use crate::guest::{Guest, GuestRoot};
use crate::initrd;
use crate::process::{CpuMeter, Process, Seen};
use crate::qemu::{self, Machine, PairDevices};

/// How long QEMU may take to answer a command; it does so in milliseconds unless the host is stuck.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for QEMU's end once its sockets are closed, so that an error can say how it ended.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// What the guest is there for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestTask {
    /// Serve vtax's agent.
    Agent,
    /// Serve the counter of [`crate::contract::ROLE_WITNESS`] at this address with its prefix length.
    Witness(IpAddr, u8),
}

/// How a QEMU comes to its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It boots it.
    Boot,
    /// It waits for the other's checkpoints.
    AwaitCheckpoints,
    /// It waits for a whole state, that of a snapshot or of a guest that moves.
    AwaitState,
}

/// One of the two. Both of a pair must be the same in everything but name, CPUs, tap and role.
#[derive(Debug)]
pub struct ReplicaConfig {
    /// Name in messages.
    pub name: String,
    /// The guest's host name.
    pub hostname: String,
    /// The guest's memory.
    pub memory: Bytes,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// The tap of its network card, opened without `IFF_VNET_HDR`.
    pub tap: OwnedFd,
    /// The MAC address of the card.
    pub mac: [u8; 6],
    /// CPUs that all of QEMU's threads may use; empty: as the caller.
    pub cpus: CpuSet,
    /// Open `cgroup.procs` (v1: `tasks`) files of the control groups QEMU joins before it starts.
    pub control_groups: Vec<OwnedFd>,
    /// The network namespace of its host; `None`: the caller's.
    pub network: Option<NetNs>,
    /// What the guest is there for.
    pub task: GuestTask,
    /// How it comes to its guest.
    pub start: Start,
    /// The disk whose content must survive, if there is one.
    pub disk: Option<ReplicatedDisk>,
}

/// A QEMU of a pair. It is killed when this goes out of scope.
#[derive(Debug)]
pub struct Replica {
    name: String,
    process: Process,
    agent: UnixStream,
    monitor: Monitor,
    disk: Option<ReplicatedDisk>,
    command: Vec<String>,
}

impl Replica {
    /// Starts QEMU and returns as soon as it answers.
    ///
    /// # Errors
    ///
    /// [`VmError::Guest`] with QEMU's words where it ends at once, [`VmError::Pair`] where the guest's
    /// files are the host's own, [`VmError::Io`] where it can't be started.
    pub fn start(guest: &Guest, config: ReplicaConfig, handler: MonitorHandler) -> Result<Self> {
        if !guest.root().can_migrate() {
            let reason = "a guest whose root is a mounted 9p export can't be copied".to_owned();
            return Err(VmError::Pair { operation: "start", reason });
        }
        let pair = |what| UnixStream::pair().map_err(VmError::io("create", what));
        let (console, console_theirs) = pair("console socket")?;
        let (agent, agent_theirs) = pair("agent socket")?;
        let (qmp, qmp_theirs) = pair("QMP socket")?;
        let (initrd, kernel) = what_boots(guest, config.start != Start::Boot)?;
        let kernel_place = match &kernel {
            None => guest.kernel().image.clone(),
            Some(standby) => format!("/proc/self/fd/{}", standby.as_raw_fd()).into(),
        };
        let command_line = command_line(guest, &config);
        let disk = config.disk.as_ref().map(|disk| disk.arguments(config.start)).transpose()?;
        let (disks, disk_descriptors) = disk.unwrap_or_default();
        let machine = Machine {
            name: &config.name,
            accelerator: guest.accelerator(),
            memory: config.memory,
            vcpus: config.vcpus,
            sandbox: guest.qemu().sandbox,
            kernel: &kernel_place,
            command_line: &command_line,
            initrd: initrd.as_raw_fd(),
            console: console_theirs.as_raw_fd(),
            of_pair: true,
            node: None,
        };
        let devices = PairDevices {
            agent: agent_theirs.as_raw_fd(),
            qmp: qmp_theirs.as_raw_fd(),
            tap: config.tap.as_raw_fd(),
            mac: config.mac,
            image: match guest.root() {
                GuestRoot::Image(path) => Some(path),
                _ => None,
            },
            disks: &disks,
            standby: config.start != Start::Boot,
        };
        let mut command = guest.qemu().command();
        command.args(qemu::arguments(&machine)).args(qemu::pair_arguments(&devices));
        let shown = std::iter::once(command.get_program()).chain(command.get_args());
        let shown = shown.map(|word| word.to_string_lossy().into_owned()).collect();
        let mut descriptors =
            vec![initrd, console_theirs.into(), agent_theirs.into(), qmp_theirs.into(), config.tap];
        descriptors.extend(disk_descriptors.into_iter().chain(kernel));
        let (cpus, control_groups) = (config.cpus.iter().collect(), config.control_groups);
        let network = config.network.map(OwnedFd::from);
        let inherit = Inherit { descriptors, cpus, control_groups, network, ..Inherit::default() };
        let process = Process::start(command, inherit, console)
            .map_err(VmError::io("start", guest.qemu().program.display().to_string()))?;
        match Monitor::connect(qmp, handler) {
            Ok(monitor) => {
                Ok(Self { name: config.name, process, agent, monitor, disk: config.disk, command: shown })
            }
            Err(e) => Err(failed(&config.name, &process, format!("did not start: {e}"))),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// QEMU's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its CPU time, which can be asked for also once this is gone.
    #[must_use]
    pub fn meter(&self) -> CpuMeter {
        self.process.meter()
    }

    /// QEMU's command line, for provenance.
    #[must_use]
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// The stream to this replica's end of the agent's port. All copies are one stream.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where no more descriptors are to be had.
    pub fn agent_stream(&self) -> Result<UnixStream> {
        self.agent.try_clone().map_err(VmError::io("duplicate", "agent socket"))
    }

    /// Throws away what the guest's agent has said here so far: what a guest says that only follows another
    /// is heard from that one.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where the stream can't be read.
    pub fn forget_agent_output(&self) -> Result<()> {
        let failed = || VmError::io("read", "agent socket");
        self.agent.set_nonblocking(true).map_err(failed())?;
        let mut bytes = [0; 16 << 10];
        let mut reader = &self.agent;
        while matches!(reader.read(&mut bytes), Ok(1..)) {}
        self.agent.set_nonblocking(false).map_err(failed())
    }

    /// The disk whose content must survive.
    #[must_use]
    pub fn disk(&self) -> Option<&ReplicatedDisk> {
        self.disk.as_ref()
    }

    /// Sends QEMU a signal; one that has ended already is no error.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where it may not be sent.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal).map_err(VmError::io("signal", self.name.clone()))
    }

    /// Kills QEMU and waits until the kernel confirms its end; false where it doesn't in time.
    pub fn kill_and_confirm(&self, within: Duration) -> bool {
        // One that can't be signalled isn't there, which the wait shows.
        let _ = self.process.signal(Signal::KILL);
        self.ended_within(within)
    }

    /// Waits at most that long for QEMU's end; true where it has ended.
    #[must_use]
    pub fn ended_within(&self, within: Duration) -> bool {
        self.process.ended_within(within)
    }

    /// What the guest wrote to its console, as far as this QEMU ran it; at most the last 64 KiB.
    #[must_use]
    pub fn console(&self) -> String {
        self.process.console()
    }

    /// An error about this machine with all that it left behind.
    pub fn failure(&self, reason: impl Into<String>) -> VmError {
        failed(&self.name, &self.process, reason)
    }

    /// Runs a QMP command.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`].
    pub fn execute(&self, command: &str, arguments: Value) -> Result<Value> {
        self.monitor.execute(command, arguments, PATIENCE)
    }

    /// Whether what QEMU says unasked may be heard a little late ([`Monitor::set_patient`]).
    pub fn set_patient(&self, patient: bool) {
        self.monitor.set_patient(patient);
    }

    /// The state of its migration by QEMU's name, such as `colo`.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`].
    pub fn migration_status(&self) -> Result<String> {
        let answer = self.execute("query-migrate", Value::Null)?;
        Ok(answer.get("status").and_then(Value::as_str).unwrap_or("none").to_owned())
    }

    /// Whether its guest runs.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`].
    pub fn is_running(&self) -> Result<bool> {
        let answer = self.execute("query-status", Value::Null)?;
        Ok(answer.get("running").and_then(Value::as_bool).unwrap_or(false))
    }

    /// Its threads that are the guest's CPUs.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`].
    pub fn vcpu_threads(&self) -> Result<Vec<u32>> {
        let answer = self.execute("query-cpus-fast", Value::Null)?;
        let thread = |cpu: &Value| u32::try_from(cpu.get("thread-id")?.as_u64()?).ok();
        Ok(answer.as_array().into_iter().flatten().filter_map(thread).collect())
    }

    pub(super) fn pass(&self, name: &str, descriptor: &OwnedFd) -> Result<()> {
        self.monitor.pass(name, descriptor, PATIENCE)
    }
}

/// The initrd, and a kernel where it isn't the guest's own.
fn what_boots(guest: &Guest, standby: bool) -> Result<(OwnedFd, Option<OwnedFd>)> {
    let memory = |bytes: &[u8]| initrd::memory_file(bytes).map_err(VmError::io("create", "file in memory"));
    if standby && guest.kernel().pvh {
        return Ok((memory(&[0; 512])?, Some(memory(&initrd::standby_kernel())?)));
    }
    Ok((guest.initrd().try_clone().map_err(VmError::io("duplicate", "initrd"))?, None))
}

fn command_line(guest: &Guest, config: &ReplicaConfig) -> String {
    let off = accel::mitigations_off(guest.accelerator());
    let root = guest.root().words();
    match config.task {
        GuestTask::Agent => format!("{}{root}", qemu::node_command_line(&config.hostname, off)),
        GuestTask::Witness(address, prefix) => format!(
            "{} {ROLE_KEY}={ROLE_WITNESS} {WITNESS_ADDRESS_KEY}={address}/{prefix}{root}",
            qemu::probe_command_line(off),
        ),
    }
}

fn failed(name: &str, process: &Process, reason: impl Into<String>) -> VmError {
    // A closed socket is noticed a moment before the process has ended.
    process.wait_for(Instant::now() + END_PATIENCE, Seen::status);
    let evidence = Box::new(process.evidence());
    VmError::Guest { name: name.to_owned(), reason: reason.into(), evidence }
}
