//! One running virtual machine.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use vtax_sys::inherit::Inherit;
use vtax_sys::sync::{lock, wait_timeout_while};
use vtax_units::{Bytes, CpuSet};

use crate::contract::{DISK_KEY, RAID5_KEY};
use crate::error::{Evidence, Result, VmError};
use crate::guest::GuestTemplate;
use crate::process::{CpuMeter, GONE_WITHIN, Process, Seen};
use crate::qemu::{self, Card, Machine, NodeDevices, Qemu, VmDiskOptions, VmNicModel, VmNicOptions};
use crate::qmp::{EventHandler, Holder, Orders, Qmp, QmpEvent};

/// How long QEMU may take to answer a command; it does so in a millisecond unless the host is stuck.
const QMP_PATIENCE: Duration = Duration::from_secs(5);
/// How long QEMU may take to end by itself once asked.
const QUIT_PATIENCE: Duration = Duration::from_secs(2);
/// How long QEMU's end is waited for where it seems to end, so that an error can say how it did: a moment, on a busy host more.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The same where it may as well go on.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);
/// A network card.
#[derive(Debug)]
pub struct VmNic {
    /// The queues of the tap it is wired to, at least one, opened with `IFF_VNET_HDR`.
    pub taps: Vec<OwnedFd>,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// What the guest sees.
    pub model: VmNicModel,
    /// What is unusual about it.
    pub options: VmNicOptions,
}

/// One virtual machine.
#[derive(Debug)]
pub struct VmConfig {
    /// Name in messages; also the guest's host name.
    pub name: String,
    /// The guest's memory, at least [`GuestTemplate::least_memory`]. QEMU needs some 110 MiB on top, under
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
    /// A disk of its own, empty.
    pub disk: Option<VmDisk>,
    /// A file as large as the guest's memory that holds it, open for reading and writing: what a limit leaves no room
    /// for goes there, as to swap. `None`: memory that nothing is behind.
    pub memory_file: Option<OwnedFd>,
    /// Whether it has a balloon, by which memory can be taken from it while it runs.
    pub balloon: bool,
}

/// A guest's own disk. The guest makes a file system on it and mounts it at [`crate::contract::DISK_PLACE`].
#[derive(Debug)]
pub struct VmDisk {
    /// Its file, open for reading and writing; several are the members of a RAID-5.
    pub files: Vec<OwnedFd>,
    /// How each is attached.
    pub options: VmDiskOptions,
    /// The members that the RAID-5 is to have, where it is one.
    pub raid5: Option<u32>,
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
    agent_port: Arc<AgentPort>,
    qmp: Qmp,
    command: Vec<String>,
    started: Instant,
}

/// What QEMU is started with, its arguments excepted.
pub(crate) struct Launch<'a> {
    pub(crate) name: String,
    pub(crate) qemu: &'a Qemu,
    /// What its arguments refer to by number, and where it runs; the sockets' ends are added.
    pub(crate) inherit: Inherit,
    /// Is told of each event.
    pub(crate) handler: EventHandler,
}

/// The numbers under which QEMU finds its ends of the sockets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sockets {
    pub(crate) console: RawFd,
    pub(crate) agent: RawFd,
    pub(crate) qmp: RawFd,
}

/// What is known of the guest's end of the agent's stream.
#[derive(Debug, Default)]
struct AgentPort {
    state: Mutex<PortState>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum PortState {
    /// The guest hasn't opened it yet.
    #[default]
    Closed,
    /// It was opened, at this time.
    Opened(Instant),
    /// QEMU is gone, and the guest hadn't opened it.
    Gone,
}

impl AgentPort {
    /// Notes what `event` tells of it; `None`: QEMU is gone.
    fn note(&self, event: Option<&QmpEvent>) {
        let new = match event {
            None => PortState::Gone,
            Some(event) => {
                let id = event.data.get("id").and_then(Value::as_str);
                let open = event.data.get("open").and_then(Value::as_bool);
                if event.name != "VSERPORT_CHANGE" || id != Some("agent") || open != Some(true) {
                    return;
                }
                PortState::Opened(event.arrived)
            }
        };
        let mut state = lock(&self.state);
        if *state == PortState::Closed {
            *state = new;
            self.changed.notify_all();
        }
    }
}

/// A socket and the end of it that QEMU gets.
fn pair(what: &'static str) -> Result<(UnixStream, UnixStream)> {
    UnixStream::pair().map_err(VmError::io("create", what))
}

/// Refuses a guest that wouldn't boot in so much memory.
pub(crate) fn room(template: &GuestTemplate, name: &str, memory: Bytes) -> Result<()> {
    let least = template.least_memory();
    if memory >= least {
        return Ok(());
    }
    let reason =
        format!("a guest needs at least {least} of memory, not {memory}: it unpacks vtax beside its kernel");
    Err(VmError::Guest { name: name.to_owned(), reason, evidence: Box::default() })
}

impl Vm {
    /// Starts QEMU and returns as soon as it runs; the guest goes on booting. What is written to
    /// the agent's stream meanwhile waits there.
    ///
    /// # Errors
    ///
    /// [`VmError::Guest`] with QEMU's words where it ends at once or the memory is too little,
    /// [`VmError::Io`] where it can't be started.
    pub fn start(template: &GuestTemplate, config: VmConfig) -> Result<Self> {
        let VmConfig { name, memory, vcpus, nics, cpus, control_groups, root, disk, memory_file, balloon } =
            config;
        room(template, &name, memory)?;
        let initrd = template.initrd().try_clone().map_err(VmError::io("duplicate", "initrd"))?;
        let initrd_number = initrd.as_raw_fd();
        let card = |nic: &VmNic| Card {
            taps: nic.taps.iter().map(AsRawFd::as_raw_fd).collect(),
            mac: nic.mac,
            model: nic.model,
            options: nic.options,
        };
        let cards: Vec<_> = nics.iter().map(card).collect();
        let mut command_line = template.kernel_args().node(&name);
        if let Some(disk) = &disk {
            command_line += &format!(" {DISK_KEY}=ext4");
            if let Some(members) = disk.raid5 {
                command_line += &format!(" {RAID5_KEY}={members}/{}", disk.files.len());
            }
        }
        let files = disk.iter().flat_map(|disk| &disk.files);
        let files: Vec<_> = files.map(AsRawFd::as_raw_fd).collect();
        let own_disk = disk.as_ref().map(|disk| (&files[..], disk.options));
        let own_memory = memory_file.as_ref().map(AsRawFd::as_raw_fd);
        let shown_name = name.clone();
        let arguments = |sockets: Sockets| {
            qemu::arguments(&Machine {
                name: &shown_name,
                accelerator: template.accelerator(),
                memory,
                vcpus,
                sandbox: template.qemu().sandbox,
                kernel: &template.kernel().image,
                command_line: &command_line,
                initrd: initrd_number,
                console: sockets.console,
                of_pair: false,
                node: Some(NodeDevices {
                    root: &root,
                    agent: sockets.agent,
                    qmp: sockets.qmp,
                    nics: &cards,
                    vhost: template.vhost(),
                    disk: own_disk,
                    memory: own_memory,
                    balloon,
                }),
            })
        };
        let descriptors = std::iter::once(initrd).chain(nics.into_iter().flat_map(|nic| nic.taps));
        let files = disk.into_iter().flat_map(|disk| disk.files);
        let descriptors = descriptors.chain(files).chain(memory_file).collect();
        let inherit =
            Inherit { descriptors, cpus: cpus.iter().collect(), control_groups, ..Inherit::default() };
        let handler = Box::new(|_| {});
        Self::launch(Launch { name, qemu: template.qemu(), inherit, handler }, arguments)
    }

    /// Starts QEMU with these arguments and returns as soon as it answers.
    pub(crate) fn launch(
        launch: Launch<'_>,
        arguments: impl FnOnce(Sockets) -> Vec<OsString>,
    ) -> Result<Self> {
        let Launch { name, qemu, mut inherit, handler } = launch;
        let (console, console_theirs) = pair("console socket")?;
        let (agent, agent_theirs) = pair("agent socket")?;
        let (qmp, qmp_theirs) = pair("QMP socket")?;
        let mut command = qemu.command();
        command.args(arguments(Sockets {
            console: console_theirs.as_raw_fd(),
            agent: agent_theirs.as_raw_fd(),
            qmp: qmp_theirs.as_raw_fd(),
        }));
        inherit.descriptors.extend([console_theirs, agent_theirs, qmp_theirs].map(OwnedFd::from));
        let shown = std::iter::once(command.get_program()).chain(command.get_args());
        let shown = shown.map(|word| word.to_string_lossy().into_owned()).collect();
        let started = Instant::now();
        let process = Process::start(command, inherit, console)
            .map_err(VmError::io("start", qemu.program.display().to_string()))?;
        let agent_port = Arc::new(AgentPort::default());
        let noted = Arc::clone(&agent_port);
        let handler = Box::new(move |event: Option<QmpEvent>| {
            noted.note(event.as_ref());
            handler(event);
        });
        match Qmp::connect(qmp, handler) {
            Ok(qmp) => Ok(Self { name, process, agent, agent_port, qmp, command: shown, started }),
            Err(e) => Err(failed(&name, &process, format!("did not start: {e}"), END_PATIENCE)),
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

    /// When the guest's agent opened its end of the stream; `None`: it hasn't.
    #[must_use]
    pub fn opened(&self) -> Option<Instant> {
        match *lock(&self.agent_port.state) {
            PortState::Opened(at) => Some(at),
            PortState::Closed | PortState::Gone => None,
        }
    }

    /// True until the guest's agent opens its end of the stream, or QEMU ends.
    #[must_use]
    pub fn is_booting(&self) -> bool {
        *lock(&self.agent_port.state) == PortState::Closed
    }

    /// The stream to the guest's agent. It ends when QEMU ends. All copies are one stream.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where no more descriptors are to be had.
    pub fn agent_stream(&self) -> Result<UnixStream> {
        self.agent.try_clone().map_err(VmError::io("duplicate", "agent socket"))
    }

    /// QEMU's CPU time, which can be asked for also once it is gone.
    #[must_use]
    pub fn meter(&self) -> CpuMeter {
        self.process.meter()
    }

    /// Runs a QMP command.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`].
    pub fn execute(&self, command: &str, arguments: Value) -> Result<Value> {
        self.qmp.execute(command, arguments, QMP_PATIENCE)
    }

    /// Hands QEMU a descriptor under a name, which later commands refer to.
    pub(crate) fn pass(&self, name: &str, descriptor: &OwnedFd) -> Result<()> {
        self.qmp.pass(name, descriptor, QMP_PATIENCE)
    }

    /// Whether QEMU's events may wait until they are heard ([`Qmp::set_patient`]).
    pub fn set_patient(&self, patient: bool) {
        self.qmp.set_patient(patient);
    }

    /// Has the guest stopped as soon as it starts to run ([`Qmp::set_holder`]).
    pub(crate) fn set_holder(&self, holder: Option<Arc<dyn Holder>>) {
        self.qmp.set_holder(holder);
    }

    /// A way to send QEMU commands whose answers nobody waits for.
    pub(crate) fn orders(&self) -> Orders {
        self.qmp.orders()
    }

    /// Takes the events that wait ([`Qmp::hear`]).
    pub fn hear(&self) {
        self.qmp.hear();
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

    /// Waits until the guest's agent has opened its end of the stream.
    ///
    /// # Errors
    ///
    /// [`VmError::Guest`] with the last lines of the console where the guest ends or the deadline
    /// passes first.
    pub fn wait_ready(&self, deadline: Instant) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let state = lock(&self.agent_port.state);
        let state = *wait_timeout_while(&self.agent_port.changed, state, left, |s| *s == PortState::Closed);
        match state {
            PortState::Opened(_) => Ok(()),
            PortState::Closed => {
                let waited = self.started.elapsed().as_secs_f64();
                Err(self.failure(format!("not ready {waited:.1} s after its start")))
            }
            PortState::Gone => {
                let reason = "ended before its agent answered";
                Err(failed(&self.name, &self.process, reason, END_PATIENCE))
            }
        }
    }

    /// An error about this machine with all that it left behind: how QEMU ended, its stderr, the
    /// last lines of the console.
    pub fn failure(&self, reason: impl Into<String>) -> VmError {
        failed(&self.name, &self.process, reason, LOOK_PATIENCE)
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
        let cpus = self.execute("query-cpus-fast", Value::Null)?;
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

    /// Asks the guest's balloon to take, or to give back, memory until the guest is left with so much. It does so by and by.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] where it has no balloon.
    pub fn resize_balloon(&self, left: Bytes) -> Result<()> {
        self.execute("balloon", serde_json::json!({ "value": left.0 })).map(|_| ())
    }

    /// Memory that its balloon leaves the guest at the moment.
    ///
    /// # Errors
    ///
    /// [`VmError::Qmp`] where it has no balloon.
    pub fn memory_left(&self) -> Result<Bytes> {
        let found = self.execute("query-balloon", Value::Null)?;
        let actual = found.get("actual").and_then(Value::as_u64);
        actual.map(Bytes).ok_or_else(|| self.failure("its balloon doesn't say how much it left"))
    }

    /// Ends QEMU at once, cleanly where it answers; why not, where it can't even be killed. The guest isn't asked: it has nothing to save.
    pub fn quit(mut self) -> Option<VmError> {
        let asked = self.qmp.execute("quit", Value::Null, QUIT_PATIENCE);
        if asked.is_ok() {
            self.process.wait_for(Instant::now() + QUIT_PATIENCE, Seen::status);
        }
        if self.process.kill() {
            return None;
        }
        Some(self.failure(format!("QEMU is still there {} s after it was killed", GONE_WITHIN.as_secs())))
    }
}

fn failed(name: &str, process: &Process, reason: impl Into<String>, patience: Duration) -> VmError {
    // A closed socket is noticed a moment before the process has ended.
    process.wait_for(Instant::now() + patience, Seen::status);
    let evidence = Box::new(process.evidence());
    VmError::Guest { name: name.to_owned(), reason: reason.into(), evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use vtax_units::Nanos;

    fn event(name: &str, data: Value) -> QmpEvent {
        QmpEvent { name: name.to_owned(), data, when: Nanos::ZERO, arrived: Instant::now() }
    }

    #[test]
    fn the_agents_port_is_known_by_its_own_event() {
        let port = AgentPort::default();
        for other in [
            event("VSERPORT_CHANGE", json!({"id": "other", "open": true})),
            event("VSERPORT_CHANGE", json!({"id": "agent", "open": false})),
            event("VSERPORT_CHANGE", json!([1])),
            event("RESUME", Value::Null),
        ] {
            port.note(Some(&other));
            assert_eq!(*lock(&port.state), PortState::Closed, "{other:?}");
        }
        let opens = event("VSERPORT_CHANGE", json!({"id": "agent", "open": true}));
        port.note(Some(&opens));
        assert_eq!(*lock(&port.state), PortState::Opened(opens.arrived));
        port.note(None);
        assert_eq!(*lock(&port.state), PortState::Opened(opens.arrived), "it was ready before QEMU ended");
        let port = AgentPort::default();
        port.note(None);
        assert_eq!(*lock(&port.state), PortState::Gone);
    }
}
