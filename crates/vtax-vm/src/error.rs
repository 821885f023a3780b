//! The one error type of this crate.

use std::io;
use std::path::{Path, PathBuf};

use vtax_units::evidence::{self, indented};

/// A result of this crate.
pub type Result<T, E = VmError> = std::result::Result<T, E>;

/// Why there is no virtual machine.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A file, a socket or a process could not be worked with.
    #[error("{operation} {object}")]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On what.
        object: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// QEMU is not there or says nothing sensible about itself.
    #[error("QEMU can't be used: {reason}; install it with `apt-get install qemu-system-x86`")]
    NoQemu {
        /// What was tried and what came of it.
        reason: String,
    },
    /// Guests run the host's own programs, and are PCs.
    #[error("virtual machines and user-mode Linux need an x86-64 host, and this one is {architecture}")]
    OtherArchitecture {
        /// The host's, as Rust names it, such as `aarch64`.
        architecture: &'static str,
    },
    /// Others than the user could put programs into the cache.
    #[error(
        "the cache {} isn't safe: {reason}, and programs run from there; make it yours alone (`chown`, `chmod go-w`), or set \
         VTAX_CACHE to a directory that is",
        dir.display()
    )]
    ForeignCache {
        /// The cache.
        dir: PathBuf,
        /// Who could.
        reason: String,
    },
    /// There is no private copy of QEMU.
    #[error("no private copy in {}", dir.display())]
    NoPrivateQemu {
        /// The cache that it would be in.
        dir: PathBuf,
    },
    /// There is no user-mode Linux, or it says nothing sensible about itself.
    #[error("user-mode Linux can't be used: {reason}; `vtax setup` brings it")]
    NoUml {
        /// What is missing.
        reason: String,
    },
    /// There is no QEMU for fault-tolerant pairs and none can be fetched.
    #[error("no newer QEMU can be fetched: {reason}; install QEMU 11.1 or later")]
    NoNewerQemu {
        /// What is missing.
        reason: String,
    },
    /// No QEMU on this host keeps a fault-tolerant pair.
    #[error("no QEMU for fault-tolerant pairs: {}; fetch one with `vtax setup`", tried.join("; "))]
    NoPairQemu {
        /// Every QEMU that was looked at, with the reason why it can't be used.
        tried: Vec<String>,
    },
    /// No image with the files of a protected guest's services can be made here.
    #[error("no image of a service's files: {reason}; a service that is part of vtax (http, sip) needs none")]
    NoImage {
        /// What is missing.
        reason: String,
    },
    /// A fault-tolerant pair did not do what it should.
    #[error("fault-tolerant pair: {operation}: {reason}")]
    Pair {
        /// What was tried.
        operation: &'static str,
        /// What came of it.
        reason: String,
    },
    /// No kernel that a guest can boot.
    #[error("no guest kernel: {}; fetch one with `vtax setup`", tried.join("; "))]
    NoKernel {
        /// Every kernel that was looked at, with the reason why it can't be used.
        tried: Vec<String>,
    },
    /// A file is not what it should be.
    #[error("{}: not {expected}: {reason}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A kernel lacks a module that a guest needs.
    #[error("kernel {release} has no module `{module}`{}", of.as_ref().map(|m| format!(" (needed by `{m}`)")).unwrap_or_default())]
    NoModule {
        /// The kernel.
        release: String,
        /// The module.
        module: String,
        /// Which module asked for it; `None`: vtax itself.
        of: Option<String>,
    },
    /// The guest did not come up, or went down by itself.
    #[error("virtual machine `{name}`: {reason}{}", .evidence.shown())]
    Guest {
        /// The machine.
        name: String,
        /// What happened.
        reason: String,
        /// What it left behind.
        evidence: Box<Evidence>,
    },
    /// QEMU refused a command or answered something that can't be understood.
    #[error("QMP {command}: {reason}")]
    Qmp {
        /// The command.
        command: String,
        /// QEMU's error or what is wrong with its answer.
        reason: String,
    },
    /// A program that `vtax setup` needs failed.
    #[error("{command}: {status}{}", indented(stderr))]
    Tool {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it said.
        stderr: String,
    },
    /// Something has to be installed and this user may not.
    #[error("not root, so packages can't be installed; run `{command}`")]
    NotRoot {
        /// The command to run.
        command: String,
    },
    /// This host's packages aren't apt's.
    #[error("{what} would be fetched by apt-get, which isn't on this host")]
    NoApt {
        /// What should be fetched.
        what: String,
    },
    /// This distribution is not known.
    #[error("guest kernels come from Debian's or Ubuntu's archive by apt: {reason}")]
    NoArchive {
        /// What is missing.
        reason: String,
    },
}

/// What a guest that failed left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// How QEMU ended, where it did.
    pub status: Option<String>,
    /// The end of QEMU's stderr.
    pub stderr: String,
    /// The last lines of the guest's console.
    pub console: String,
}

impl Evidence {
    fn shown(&self) -> String {
        let mut text = String::new();
        if let Some(status) = &self.status {
            text.push_str(&format!(" (QEMU: {status})"));
        }
        text.push_str(&evidence::section(evidence::QEMU_SAID, &self.stderr));
        text.push_str(&evidence::section(evidence::LAST_ON_CONSOLE, &self.console));
        text
    }
}

impl VmError {
    pub(crate) fn io(operation: &'static str, object: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let object = object.into();
        move |source| Self::Io { operation, object, source }
    }

    pub(crate) fn path(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io(operation, path.display().to_string())
    }

    pub(crate) fn bad_file(path: &Path, expected: &'static str, reason: impl Into<String>) -> Self {
        Self::BadFile { path: path.to_owned(), expected, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_guest_shows_its_evidence_indented() {
        let evidence = Evidence {
            status: Some("exit status: 1".into()),
            stderr: "no such device\n".into(),
            console: "Kernel panic\r\nend\n".into(),
        };
        let error = VmError::Guest {
            name: "sut".into(),
            reason: "ended before its agent answered".into(),
            evidence: Box::new(evidence),
        };
        assert_eq!(
            error.to_string(),
            "virtual machine `sut`: ended before its agent answered (QEMU: exit status: 1)\n  QEMU said:\n    \
             no such device\n  last on the console:\n    Kernel panic\n    end"
        );
    }
}
