//! A node: something that runs the agent, and through it everything else.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use vtax_agent::message::InterfaceSetup;
use vtax_agent::streams::{self, Carrier};
use vtax_sys::cgroup::{NodeGroup, Usage};
use vtax_sys::{NetNs, PidFd};
use vtax_units::CpuSet;
use vtax_vm::{ThreadRole, Vm};

use crate::attachment::Attachment;
use crate::budget::Enforced;
use crate::container::Container;
use crate::disk::Disk;
use crate::error::{LabError, OnPath, Result, While};
use crate::ft::{FtPair, Outcome};
use crate::process_io::tail;
use crate::remote::Beating;

/// How long a killed process may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// What hosts a node.
#[derive(Debug)]
pub(crate) enum Host {
    /// A process, in namespaces of its own or (loopback) without.
    Process(PidFd),
    /// An OCI container.
    Container(Box<Container>),
    /// A virtual machine.
    Vm(Box<Vm>),
    /// A user-mode Linux; the process is the first of its PID namespace.
    Uml(PidFd),
    /// A virtual machine on one of several emulated hosts.
    Pair(Box<FtPair>),
    /// Another machine; the end of what carries its stream ends the agent there. Until the stream is taken the agent is told that this
    /// end is there.
    Remote(Carrier, Option<Beating>),
}

/// What ends a node from another thread.
#[derive(Debug)]
pub enum Ender {
    /// Its first process.
    Process(PidFd),
    /// What carries its stream.
    Carrier(streams::Ender),
}

impl Ender {
    /// Ends it. One that has ended already is what is wanted.
    pub fn end(&self) {
        match self {
            Self::Process(process) => drop(process.kill()),
            Self::Carrier(carrier) => carrier.end(),
        }
    }
}

/// The QEMU that runs a guest, and its threads that are the guest's CPUs; a user-mode Linux has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hypervisor {
    /// Its process.
    pub pid: u32,
    /// Thread ids.
    pub vcpus: Vec<u32>,
}

/// A node; destroyed when dropped.
#[derive(Debug)]
pub struct Node {
    pub(crate) attachment: Attachment,
    pub(crate) host: Option<Host>,
    pub(crate) channel: Option<OwnedFd>,
    pub(crate) group: Option<NodeGroup>,
    pub(crate) output: Option<File>,
    pub(crate) directory: PathBuf,
    pub(crate) enforced: Enforced,
    pub(crate) facts: BTreeMap<String, String>,
    /// A directory of the host's that has to be removed (loopback).
    pub(crate) on_host: Option<PathBuf>,
    /// Its disk.
    pub(crate) disk: Option<Disk>,
}

impl Node {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.attachment.name
    }

    /// `native`, `container`, `vm`, `uml` or `remote`; what hosts it, not what the plan calls it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match &self.host {
            Some(Host::Container(_)) => "container",
            Some(Host::Vm(_) | Host::Pair(_)) => "vm",
            Some(Host::Uml(_)) => "uml",
            Some(Host::Remote(..)) => "remote",
            _ => "native",
        }
    }

    /// Whether it is on this machine.
    #[must_use]
    pub const fn is_here(&self) -> bool {
        !matches!(&self.host, Some(Host::Remote(..)))
    }

    /// The stream to the agent; can be taken once. Who takes it says from now on to an agent on another machine that this end is there.
    pub fn take_channel(&mut self) -> Option<OwnedFd> {
        if let Some(Host::Remote(_, beating)) = &mut self.host {
            *beating = None;
        }
        self.channel.take()
    }

    /// What the agent must bring up; `None` where there is nothing it could (loopback).
    #[must_use]
    pub fn interfaces(&self) -> Option<&[InterfaceSetup]> {
        self.attachment.interfaces.as_deref()
    }

    /// An empty directory inside the node for the agent's private files.
    #[must_use]
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// What it is held to.
    #[must_use]
    pub const fn enforced(&self) -> &Enforced {
        &self.enforced
    }

    /// What has to be said about it in a report: runtime, versions, command line.
    #[must_use]
    pub const fn facts(&self) -> &BTreeMap<String, String> {
        &self.facts
    }

    /// Id, in the controller's PID namespace, of its first process: the agent, or QEMU; 0 where it is on another machine.
    #[must_use]
    pub fn pid(&self) -> i32 {
        match &self.host {
            Some(Host::Process(process) | Host::Uml(process)) => process.pid(),
            Some(Host::Container(container)) => container.pid(),
            Some(Host::Vm(vm)) => vm.pid().cast_signed(),
            Some(Host::Pair(pair)) => pair.pids()[0].map_or(0, u32::cast_signed),
            Some(Host::Remote(..)) | None => 0,
        }
    }

    /// What ends it from another thread, so that every call on its agent fails at once; `None` where it has ended.
    #[must_use]
    pub fn ender(&self) -> Option<Ender> {
        match &self.host {
            Some(Host::Remote(carrier, _)) => carrier.ender().ok().map(Ender::Carrier),
            _ => PidFd::open(self.pid()).ok().map(Ender::Process),
        }
    }

    /// Its disk, where it was to have one.
    #[must_use]
    pub const fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// The virtual machine, where it is one.
    #[must_use]
    pub fn vm(&self) -> Option<&Vm> {
        match &self.host {
            Some(Host::Vm(vm)) => Some(vm),
            _ => None,
        }
    }

    /// The pair, where it is a virtual machine on one of several hosts.
    #[must_use]
    pub fn pair(&self) -> Option<&FtPair> {
        match &self.host {
            Some(Host::Pair(pair)) => Some(pair),
            _ => None,
        }
    }

    /// Asks the QEMU that runs it at the moment, one of a pair's too; `None` where it is no virtual machine.
    pub fn ask_vm<T>(&self, ask: impl FnOnce(&Vm) -> T) -> Option<T> {
        match &self.host {
            Some(Host::Vm(vm)) => Some(ask(vm)),
            Some(Host::Pair(pair)) => pair.primary().map(|primary| ask(&primary)),
            _ => None,
        }
    }

    /// The QEMU that runs it at the moment, or its user-mode Linux; `None` where it is neither.
    ///
    /// # Errors
    ///
    /// Where QEMU doesn't answer.
    pub fn hypervisor(&self) -> Result<Option<Hypervisor>> {
        let found = match &self.host {
            Some(Host::Vm(vm)) => vm.threads().map(|threads| {
                let vcpu = |(id, role): (u32, ThreadRole)| matches!(role, ThreadRole::Vcpu(_)).then_some(id);
                Some(Hypervisor { pid: vm.pid(), vcpus: threads.into_iter().filter_map(vcpu).collect() })
            }),
            Some(Host::Uml(process)) => {
                Ok(Some(Hypervisor { pid: process.pid().cast_unsigned(), vcpus: Vec::new() }))
            }
            Some(Host::Pair(pair)) => pair.primary().map_or(Ok(None), |primary| {
                let vcpus = primary.vcpu_threads()?;
                Ok(Some(Hypervisor { pid: primary.pid(), vcpus }))
            }),
            _ => Ok(None),
        };
        found.map_err(|source| LabError::vm(self.name(), source))
    }

    /// Its network namespace, unless it is a virtual machine or shares the host's.
    #[must_use]
    pub const fn netns(&self) -> Option<&NetNs> {
        self.attachment.netns.as_ref()
    }

    /// Memory its control group has counted.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.group.as_ref().map(NodeGroup::usage).unwrap_or_default()
    }

    /// The last lines that its first process, or the container runtime, wrote to stderr.
    #[must_use]
    pub fn output(&self) -> String {
        if let Some(vm) = self.vm() {
            return vm.console();
        }
        if let Some(pair) = self.pair() {
            return pair.console();
        }
        self.output.as_ref().map(tail).unwrap_or_default()
    }

    /// Asks the kernel what the node is held to.
    pub(crate) fn read_back_limits(&mut self) -> Result<()> {
        let what = || format!("read back the limits of node {}", self.name());
        let held =
            self.group.as_ref().map_or_else(|| Ok(Default::default()), NodeGroup::enforced).during(what)?;
        let cpus = vtax_sys::sched::cpus_of(self.pid()).during(what)?;
        let cpus_by_group = held.cpus.as_ref() == Some(&cpus);
        self.enforced = Enforced { cpus, cpus_by_group, memory: held.memory };
        Ok(())
    }

    /// Holds it to these CPUs, of those that it had.
    pub(crate) fn hold_to(&mut self, cpus: &CpuSet) -> Result<()> {
        let what = || format!("hold node {} to CPUs {cpus}", self.name());
        self.group.as_ref().map_or(Ok(()), |group| group.limit_cpus(cpus)).during(what)?;
        vtax_sys::sched::bind_process(self.pid(), cpus).during(what)?;
        self.read_back_limits()
    }

    /// Begins to end a native node, without waiting.
    pub fn kill(&self) {
        if let Some(Host::Process(process)) = &self.host {
            // `destroy` says what is wrong.
            let _ = process.kill();
        }
    }

    /// Ends everything in it. Goes on after an error and returns all of them.
    pub fn destroy(&mut self) -> Vec<LabError> {
        let mut errors = Vec::new();
        self.channel = None;
        match self.host.take() {
            None => return errors,
            Some(Host::Process(process)) => {
                if self.on_host.is_some() {
                    // Without a PID namespace only the agent can end what it started; it does so
                    // when its stream ends.
                    let _ = process.ended_within(GONE_WITHIN);
                }
                let gone = process.kill_and_reap(GONE_WITHIN);
                errors.extend(gone.during(|| format!("end node {}", self.name())).err());
            }
            Some(Host::Uml(process)) => {
                let gone = process.kill_and_reap(GONE_WITHIN);
                errors.extend(gone.during(|| format!("end node {}", self.name())).err());
            }
            Some(Host::Container(container)) => errors.extend(container.destroy(GONE_WITHIN)),
            Some(Host::Vm(vm)) => {
                let left = vm.quit().map(|source| LabError::vm(self.name(), source));
                errors.extend(left);
            }
            Some(Host::Pair(pair)) => drop(pair),
            Some(Host::Remote(carrier, beating)) => {
                // It has the stream open, too.
                drop(beating);
                // The agent there ends with its stream, and its files with it; the stream's end tells when. However it ended, it
                // is over: what went wrong was seen before.
                let _ = carrier.ended_within(GONE_WITHIN);
            }
        }
        self.attachment.netns = None;
        if let Some(directory) = self.on_host.take() {
            errors.extend(std::fs::remove_dir_all(&directory).on("remove", &directory).err());
        }
        if let Some(disk) = self.disk.take() {
            errors.extend(disk.remove().err());
        }
        if let Some(group) = self.group.take() {
            errors.extend(group.remove().during(|| format!("end node {}", self.name())).err());
        }
        errors
    }

    /// Whether its first process is still there.
    ///
    /// # Errors
    ///
    /// Where the kernel can't say.
    pub fn alive(&self) -> Result<bool> {
        let ended = |process: &PidFd| {
            process.ended_within(Duration::ZERO).during(|| format!("watch node {}", self.name()))
        };
        match &self.host {
            None => Ok(false),
            Some(Host::Process(process) | Host::Uml(process)) => Ok(!ended(process)?),
            Some(Host::Remote(carrier, _)) => Ok(carrier.ended_within(Duration::ZERO).is_none()),
            Some(Host::Container(container)) => Ok(!ended(container.process())?),
            Some(Host::Vm(vm)) => Ok(vm.ended().is_none()),
            Some(Host::Pair(pair)) => Ok(pair.outcome() == Outcome::Running),
        }
    }
}

impl AsRef<Attachment> for Node {
    fn as_ref(&self) -> &Attachment {
        &self.attachment
    }
}

impl AsMut<Attachment> for Node {
    fn as_mut(&mut self) -> &mut Attachment {
        &mut self.attachment
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // `destroy` returns the errors; the controller's end cleans up what is left.
        let _ = self.destroy();
    }
}
