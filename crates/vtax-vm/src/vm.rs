//! One running virtual machine.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use vtax_sys::inherit::Inherit;
use vtax_units::{Bytes, CpuSet};

use crate::accel;
use crate::error::{Evidence, Result, VmError};
use crate::guest::Guest;
use crate::process::{Process, Seen};
use crate::qemu::{self, Machine, NodeDevices};
use crate::qmp::Qmp;

/// How long QEMU may take to answer a command; it does so in a millisecond unless the host is stuck.
const QMP_PATIENCE: Duration = Duration::from_secs(5);
/// How long QEMU may take to end by itself once asked.
const QUIT_PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for QEMU's end once its sockets are closed, so that an error can say how it ended.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// A guest with less can't unpack its initrd beside its kernel.
pub const LEAST_MEMORY: Bytes = Bytes::from_mib(128);

/// A network card.
#[derive(Debug)]
pub struct VmNic {
    /// The tap it is wired to, opened with `IFF_VNET_HDR`.
    pub tap: OwnedFd,
    /// Its MAC address.
    pub mac: [u8; 6],
}

/// One virtual machine.
#[derive(Debug)]
pub struct VmConfig {
    /// Name in messages; also the guest's host name.
    pub name: String,
    /// The guest's memory, at least [`LEAST_MEMORY`]. QEMU needs some 110 MiB on top, under
    /// emulation up to 370 MiB (translated code).
    pub memory: Bytes,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Network cards, in order.
    pub nics: Vec<VmNic>,
    /// CPUs that all of QEMU's threads may use; empty: as the caller.
    pub cpus: CpuSet,
    /// Open `cgroup.procs` (v1: `tasks`) files of the control groups QEMU joins before it starts.
    pub control_groups: Vec<OwnedFd>,
    /// The directory that becomes the guest's root (read-only, under a layer of its own); `/` for the host's.
    pub root: PathBuf,
}

/// What a thread of QEMU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadRole {
    /// Runs the virtual CPU of this number.
    Vcpu(u32),
    /// Anything else: event loop, devices, worker threads.
    Io,
}

/// A running virtual machine. It is killed when this goes out of scope.
#[derive(Debug)]
pub struct Vm {
    name: String,
    process: Process,
    agent: UnixStream,
    qmp: Mutex<Qmp>,
    command: Vec<String>,
    started: Instant,
}

/// A socket and the end of it that QEMU gets.
fn pair(what: &'static str) -> Result<(UnixStream, UnixStream)> {
    UnixStream::pair().map_err(VmError::io("create", what))
}

impl Vm {
    /// Starts QEMU and returns as soon as it runs; the guest goes on booting. What is written to
    /// the agent's stream meanwhile waits there.
    ///
    /// # Errors
    ///
    /// [`VmError::Guest`] with QEMU's words where it ends at once or the memory is too little,
    /// [`VmError::Io`] where it can't be started.
    pub fn start(guest: &Guest, config: VmConfig) -> Result<Self> {
        let VmConfig { name, memory, vcpus, nics, cpus, control_groups, root } = config;
        if memory < LEAST_MEMORY {
            let reason = format!("a guest needs at least {LEAST_MEMORY} of memory, not {memory}");
            return Err(VmError::Guest { name, reason, evidence: Box::default() });
        }
        let (console, console_theirs) = pair("console socket")?;
        let (agent, agent_theirs) = pair("agent socket")?;
        let (qmp, qmp_theirs) = pair("QMP socket")?;
        let initrd = guest.initrd().try_clone().map_err(VmError::io("duplicate", "initrd"))?;
        let cards: Vec<_> = nics.iter().map(|nic| (nic.tap.as_raw_fd(), nic.mac)).collect();
        let off = accel::mitigations_off(guest.accelerator());
        let machine = Machine {
            name: &name,
            accelerator: guest.accelerator(),
            memory,
            vcpus,
            sandbox: guest.qemu().sandbox,
            kernel: &guest.kernel().image,
            command_line: &qemu::node_command_line(&name, off),
            initrd: initrd.as_raw_fd(),
            console: console_theirs.as_raw_fd(),
            of_pair: false,
            node: Some(NodeDevices {
                root: &root,
                agent: agent_theirs.as_raw_fd(),
                qmp: qmp_theirs.as_raw_fd(),
                nics: &cards,
                vhost: guest.vhost(),
            }),
        };
        let program = &guest.qemu().program;
        let mut command = guest.qemu().command();
        command.args(qemu::arguments(&machine));
        let shown = std::iter::once(command.get_program()).chain(command.get_args());
        let shown = shown.map(|word| word.to_string_lossy().into_owned()).collect();
        let mut descriptors = vec![initrd, console_theirs.into(), agent_theirs.into(), qmp_theirs.into()];
        descriptors.extend(nics.into_iter().map(|nic| nic.tap));
        let inherit =
            Inherit { descriptors, cpus: cpus.iter().collect(), control_groups, ..Inherit::default() };
        let started = Instant::now();
        let process = Process::start(command, inherit, console)
            .map_err(VmError::io("start", program.display().to_string()))?;
        match Qmp::connect(qmp) {
            Ok(qmp) => Ok(Self { name, process, agent, qmp: Mutex::new(qmp), command: shown, started }),
            Err(e) => Err(failed(&name, &process, format!("did not start: {e}"))),
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

    /// QEMU's command line, for provenance.
    #[must_use]
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// When QEMU was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The stream to the guest's agent. It ends when QEMU ends. All copies are one stream.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where no more descriptors are to be had.
    pub fn agent_stream(&self) -> Result<UnixStream> {
        self.agent.try_clone().map_err(VmError::io("duplicate", "agent socket"))
    }

    /// The connection to QEMU's monitor.
    pub fn qmp(&self) -> MutexGuard<'_, Qmp> {
        // After a panic in the middle of a command, later answers are told apart by their ids.
        self.qmp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the guest's agent has opened its end of the stream.
    ///
    /// # Errors
    ///
    /// [`VmError::Guest`] with the last lines of the console where the guest ends or the deadline
    /// passes first.
    pub fn wait_ready(&self, deadline: Instant) -> Result<()> {
        let mut qmp = self.qmp();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match qmp.next_event(left) {
                Ok(Some(event)) if event.name == "VSERPORT_CHANGE" => {
                    let open = event.data.get("open").and_then(Value::as_bool);
                    if event.data.get("id").and_then(Value::as_str) == Some("agent") && open == Some(true) {
                        return Ok(());
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let waited = self.started.elapsed().as_secs_f64();
                    return Err(self.failure(format!("not ready {waited:.1} s after its start")));
                }
                Err(_) => return Err(self.failure("ended before its agent answered")),
            }
        }
    }

    /// An error about this machine with all that it left behind: how QEMU ended, its stderr, the
    /// last lines of the console. For a caller that found that something is wrong.
    pub fn failure(&self, reason: impl Into<String>) -> VmError {
        failed(&self.name, &self.process, reason)
    }

    /// How QEMU ended; `None` while it runs.
    #[must_use]
    pub fn ended(&self) -> Option<Evidence> {
        let ended = self.process.wait_for(Instant::now(), Seen::status);
        ended.map(|_| self.process.evidence())
    }

    /// What the guest's kernel and `/init` wrote to the console, at most the last 64 KiB.
    #[must_use]
    pub fn console(&self) -> String {
        self.process.console()
    }

    /// QEMU's threads as they are now, each with what it does.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] where QEMU doesn't answer, [`VmError::Io`] where it has ended.
    pub fn threads(&self) -> Result<Vec<(u32, ThreadRole)>> {
        let cpus = self.qmp().execute("query-cpus-fast", Value::Null, QMP_PATIENCE)?;
        let number = |cpu: &Value, key: &str| u32::try_from(cpu.get(key)?.as_u64()?).ok();
        let vcpus: Vec<(u32, u32)> = cpus
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|cpu| number(cpu, "thread-id").zip(number(cpu, "cpu-index")))
            .collect();
        let dir = Path::new("/proc").join(self.pid().to_string()).join("task");
        let entries = fs::read_dir(&dir).map_err(VmError::path("list", &dir))?;
        let threads = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let role = |thread: u32| {
            let vcpu = vcpus.iter().find(|&&(id, _)| id == thread);
            (thread, vcpu.map_or(ThreadRole::Io, |&(_, index)| ThreadRole::Vcpu(index)))
        };
        Ok(threads.map(role).collect())
    }

    /// Ends QEMU at once, cleanly where it answers. The guest isn't asked: it has nothing to save.
    pub fn quit(mut self) {
        let asked = self.qmp().execute("quit", Value::Null, QUIT_PATIENCE);
        if asked.is_ok() {
            self.process.wait_for(Instant::now() + QUIT_PATIENCE, Seen::status);
        }
        self.process.kill();
    }
}

fn failed(name: &str, process: &Process, reason: impl Into<String>) -> VmError {
    // A closed socket is noticed a moment before the process has ended.
    process.wait_for(Instant::now() + END_PATIENCE, Seen::status);
    let evidence = Box::new(process.evidence());
    VmError::Guest { name: name.to_owned(), reason: reason.into(), evidence }
}
