//! One of the two QEMUs of a pair.

use std::io::Read;
use std::net::IpAddr;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use vtax_sys::NetNs;
use vtax_sys::inherit::Inherit;
use vtax_sys::sync::lock;
use vtax_units::{Bytes, CpuSet};

use super::disk::{ReplicatedDisk, Start};
use super::gate::Gate;
use crate::contract::{ROLE_KEY, ROLE_WITNESS, WITNESS_ADDRESS_KEY};
use crate::error::{Result, VmError};
use crate::guest::{GuestRoot, GuestTemplate};
use crate::initrd;
use crate::qemu::{self, Card, Machine, PairDevices, VmNicModel};
use crate::qmp::EventHandler;
use crate::vm::{Launch, Sockets, Vm, room};

/// What the guest is there for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestTask {
    /// Serve vtax's agent.
    Agent,
    /// Serve the counter of [`crate::contract::ROLE_WITNESS`] at this address with its prefix length.
    Witness(IpAddr, u8),
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
    /// What the guest sees of the card.
    pub nic: VmNicModel,
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

/// A virtual machine that is one of a pair. It is killed when this goes out of scope.
#[derive(Debug)]
pub struct Replica {
    vm: Vm,
    disk: Option<ReplicatedDisk>,
    /// By which checkpoints of its guest are asked for, where it is protected and its copy stands still.
    gate: Mutex<Option<Arc<Gate>>>,
}

/// Whatever can be done with a virtual machine can be done with one of a pair.
impl Deref for Replica {
    type Target = Vm;

    fn deref(&self) -> &Vm {
        &self.vm
    }
}

impl Replica {
    /// Starts QEMU and returns as soon as it answers. `handler` is called with each of its events.
    ///
    /// # Errors
    ///
    /// [`VmError::Guest`] with QEMU's words where it ends at once or the memory is too little, [`VmError::Pair`] where the guest's
    /// files are the host's own, [`VmError::Io`] where it can't be started.
    pub fn start(template: &GuestTemplate, config: ReplicaConfig, handler: EventHandler) -> Result<Self> {
        if !template.root().can_migrate() {
            let reason = "a guest whose root is a mounted 9p export can't be copied".to_owned();
            return Err(VmError::Pair { operation: "start", reason });
        }
        room(template, &config.name, config.memory)?;
        let (initrd, kernel) = what_boots(template, config.start != Start::Boot)?;
        let disk = config.disk.as_ref().map(|disk| disk.arguments(config.start)).transpose()?;
        let (disks, disk_descriptors) = disk.unwrap_or_default();
        let command_line = command_line(template, &config);
        let kernel_file =
            kernel.as_ref().map(|kernel| format!("/proc/self/fd/{}", kernel.as_raw_fd()).into());
        let kernel_file: PathBuf = kernel_file.unwrap_or_else(|| template.kernel().image.clone());
        let (name, memory, vcpus) = (config.name.clone(), config.memory, config.vcpus);
        let card = Card::plain(config.tap.as_raw_fd(), config.mac, config.nic);
        let initrd_number = initrd.as_raw_fd();
        let arguments = |sockets: Sockets| {
            let machine = Machine {
                name: &name,
                accelerator: template.accelerator(),
                memory,
                vcpus,
                sandbox: template.qemu().sandbox,
                kernel: &kernel_file,
                command_line: &command_line,
                initrd: initrd_number,
                console: sockets.console,
                of_pair: true,
                node: None,
            };
            let image = match template.root() {
                GuestRoot::Image(path) => Some(path.as_path()),
                _ => None,
            };
            let (agent, qmp, standby) = (sockets.agent, sockets.qmp, config.start != Start::Boot);
            let devices = PairDevices { agent, qmp, card, image, disks: &disks, standby };
            let mut arguments = qemu::arguments(&machine);
            arguments.extend(qemu::pair_arguments(&devices));
            arguments
        };
        let inherit = Inherit {
            descriptors: [initrd, config.tap].into_iter().chain(disk_descriptors).chain(kernel).collect(),
            cpus: config.cpus.iter().collect(),
            control_groups: config.control_groups,
            network: config.network.map(OwnedFd::from),
            ..Inherit::default()
        };
        let vm =
            Vm::launch(Launch { name: config.name, qemu: template.qemu(), inherit, handler }, arguments)?;
        Ok(Self { vm, disk: config.disk, gate: Mutex::default() })
    }

    /// Throws away what the guest's agent has said here so far: what a guest says that only follows another
    /// is heard from that one.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where the stream can't be read.
    pub fn forget_agent_output(&self) -> Result<()> {
        let failed = || VmError::io("read", "agent socket");
        let mut stream = self.agent_stream()?;
        stream.set_nonblocking(true).map_err(failed())?;
        let mut bytes = [0; 16 << 10];
        while matches!(stream.read(&mut bytes), Ok(1..)) {}
        stream.set_nonblocking(false).map_err(failed())
    }

    /// From now on its checkpoints are asked for by this one only.
    pub(super) fn set_gate(&self, gate: Option<Arc<Gate>>) {
        let former = std::mem::replace(&mut *lock(&self.gate), gate);
        if let Some(former) = former {
            former.close();
        }
    }

    pub(super) fn gate(&self) -> Option<Arc<Gate>> {
        lock(&self.gate).clone()
    }

    /// The disk whose content must survive.
    #[must_use]
    pub fn disk(&self) -> Option<&ReplicatedDisk> {
        self.disk.as_ref()
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
}

/// The initrd, and a kernel where it isn't the guest's own.
fn what_boots(template: &GuestTemplate, standby: bool) -> Result<(OwnedFd, Option<OwnedFd>)> {
    let memory = |bytes: &[u8]| initrd::memory_file(bytes).map_err(VmError::io("create", "file in memory"));
    if standby && template.kernel().pvh {
        return Ok((memory(&[0; 512])?, Some(memory(&initrd::standby_kernel())?)));
    }
    Ok((template.initrd().try_clone().map_err(VmError::io("duplicate", "initrd"))?, None))
}

fn command_line(template: &GuestTemplate, config: &ReplicaConfig) -> String {
    let root = template.root().words();
    match config.task {
        GuestTask::Agent => format!("{}{root}", template.kernel_args().node(&config.hostname)),
        GuestTask::Witness(address, prefix) => format!(
            "{} {ROLE_KEY}={ROLE_WITNESS} {WITNESS_ADDRESS_KEY}={address}/{prefix}{root}",
            template.kernel_args().probe(),
        ),
    }
}
