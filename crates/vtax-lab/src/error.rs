//! The one error type of this crate.

use std::io;
use std::path::Path;

use vtax_sys::Failure;
use vtax_vm::VmError;

/// A result of this crate.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Why a testbed could not be built or taken down.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel refused something, or a file or directory of the lab's own could not be used.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The virtual machine could not be started.
    #[error("virtual machine {node}")]
    Vm {
        /// The node.
        node: String,
        /// What failed.
        #[source]
        source: VmError,
    },
    /// The same, of a node's own machine, whose error names it.
    #[error(transparent)]
    Guest(VmError),
    /// A fault-tolerant pair could not do what was asked.
    #[error("{operation}: {reason}")]
    Pair {
        /// What was asked.
        operation: &'static str,
        /// Why not.
        reason: String,
    },
    /// A node's disk can't be made.
    #[error("disk in {place}: {reason}")]
    Disk {
        /// The directory that it was to be in.
        place: String,
        /// Why not.
        reason: String,
    },
    /// Several nodes are to be held to something together, and there are no control groups.
    #[error("nodes can't be held to {what} together: control groups are not used")]
    NoGroups {
        /// The limit, such as `memory`.
        what: &'static str,
    },
    /// What was being built was to be given up.
    #[error("asked to stop before the testbed stood")]
    Stopped,
    /// No guest was prepared, so there is nothing to boot.
    #[error("virtual machine {node}: no guest kernel was prepared for this lab")]
    NoGuest {
        /// The node.
        node: String,
    },
    /// There is no user-mode Linux here, or it is of no use on this architecture.
    #[error(transparent)]
    NoUml(VmError),
    /// User-mode Linux is installed, but its kernel runs no program on this host.
    #[error("user-mode Linux doesn't run a program on this host: {reason}")]
    UmlUnusable {
        /// What its kernel printed, or what it didn't do in time.
        reason: String,
        /// Whether its kernel came as far as to panic, which is a matter of the CPU.
        panicked: bool,
    },
    /// No OCI runtime works here.
    #[error("containers can't be run here: {reason}; {fix}")]
    NoContainers {
        /// What each runtime said.
        reason: String,
        /// The way out.
        fix: String,
    },
    /// The runtime refused this container.
    #[error("container {node}: {runtime} {how}: {output}")]
    Runtime {
        /// The node.
        node: String,
        /// The runtime's name.
        runtime: String,
        /// How it ended.
        how: String,
        /// The last lines it wrote.
        output: String,
    },
    /// What was asked for needs namespaces, and this host refuses them.
    #[error("{what} need namespaces, which are refused here; `vtax doctor` says how to allow them")]
    NoNamespaces {
        /// What was asked for, in the plural.
        what: &'static str,
    },
    /// A path is to be built in the network of a node that has none here.
    #[error(
        "node {node} has no network namespace on this host, which its path is built in; use an environment of \
         kind `native` or `container`, or another path"
    )]
    NoNetwork {
        /// The node.
        node: String,
    },
    /// Something is missing that vtax itself was to make before.
    #[error("{what}; this is a defect of vtax, please report it with the plan")]
    Defect {
        /// What is missing where.
        what: String,
    },
    /// A bridge has no port left.
    #[error("bridge {switch} has {ports} ports, the most a Linux bridge can have; use several bridges")]
    SwitchFull {
        /// The bridge.
        switch: String,
        /// Its ports.
        ports: usize,
    },
    /// A program that a path needs is missing.
    #[error(
        "{program} is not installed; install it with `apt-get install {package}`, or `vtax setup --paths`"
    )]
    NotInstalled {
        /// The program.
        program: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// A program that a path is made of failed.
    #[error("{tool}: {how}: {output}")]
    Tool {
        /// Its name.
        tool: String,
        /// How it ended.
        how: String,
        /// Its last words.
        output: String,
    },
    /// An emulated link isn't what was asked for.
    #[error("path {path} is refused, as its emulated link is not what the plan asks for: {reason}")]
    PathRefused {
        /// The path's name in the plan.
        path: String,
        /// What was asked for and what was measured.
        reason: String,
    },
    /// An emulated link seemed too slow on a machine whose CPUs were taken away.
    #[error("path {path} can't be judged: {noise} while its link was measured ({reason})")]
    PathDisturbed {
        /// The path's name in the plan.
        path: String,
        /// What disturbed the machine.
        noise: String,
        /// What was asked for and what was measured.
        reason: String,
    },
    /// A path can't be built, or can't do what is asked of it.
    #[error("path {path}: {reason}")]
    Path {
        /// The path's name in the plan.
        path: String,
        /// Why not, in words.
        reason: String,
    },
    /// The agent on another host can't be started.
    #[error("host {host}: vtax can't be started there: {reason}")]
    Host {
        /// The host, as the plan names it.
        host: String,
        /// Why not, in words.
        reason: String,
    },
    /// The lab has no empty directory to mount its scratch space on.
    #[error("no empty directory for scratch space among {tried}; make one, such as /mnt")]
    NoScratch {
        /// The directories that were tried.
        tried: String,
    },
}

impl LabError {
    /// Of a node's virtual machine, which is named once: a machine's own error says which it is.
    pub(crate) fn vm(node: &str, source: VmError) -> Self {
        match source {
            VmError::Guest { .. } => Self::Guest(source),
            _ => Self::Vm { node: node.to_owned(), source },
        }
    }
}

/// Adds to a failed system call what was being built.
pub(crate) trait While<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> While<T> for vtax_sys::Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Failure::Sys { what: what(), source }.into())
    }
}

/// Adds to a failed file operation what was tried on what.
pub(crate) trait OnPath<T> {
    fn on(self, operation: &'static str, path: &Path) -> Result<T>;
}

impl<T> OnPath<T> for std::result::Result<T, rustix::io::Errno> {
    fn on(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(io::Error::from).on(operation, path)
    }
}

impl<T> OnPath<T> for io::Result<T> {
    fn on(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Failure::on(operation, path, source).into())
    }
}
