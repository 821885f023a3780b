//! The kernel's own servers of NFS and iSCSI, set up in a virtual machine that belongs to a run.
//!
//! No program of theirs is needed: they are told by files. They outlive the process that set them up, which is why they are
//! set up nowhere but in a guest of vtax's own.

mod lio;
mod nfsd;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// On the kernel command line of vtax's guests (`vtax_vm::contract`).
const OF_GUESTS: &str = "vtax.role=";
/// Longest description that is read.
const MOST_BYTES: u64 = 1 << 20;

/// A directory that is served over NFS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The root of what clients see.
    pub root: PathBuf,
    /// An empty directory for what it must remember of clients.
    pub memory: PathBuf,
    /// The server's threads.
    pub threads: u32,
}

/// An iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its name.
    pub name: String,
    /// The files that are its units, from number 1 on.
    pub units: Vec<PathBuf>,
    /// Bytes of each.
    pub size: u64,
    /// How many of them initiators see, from the first on.
    pub visible: u32,
    /// Writes are acknowledged before they are durable.
    pub write_cache: bool,
    /// Who may log in.
    pub initiators: Vec<String>,
    /// How initiators prove themselves.
    pub initiator: Option<Account>,
    /// How the target proves itself.
    pub target: Option<Account>,
}

/// A name and a secret of CHAP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The secret.
    pub secret: String,
}

/// Why the kernel doesn't serve.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It would outlive the run.
    #[error("the kernel's own servers are set up only in virtual machines of vtax's own")]
    NotAGuest,
    /// The description is none.
    #[error("{path} is no description of what is to be served")]
    Description {
        /// Which file.
        path: PathBuf,
        /// What the parser says of it.
        #[source]
        source: serde_json::Error,
    },
    /// The kernel, or the file system, refuses something.
    #[error("{operation} {path}")]
    Refused {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Has the kernel serve the directory that the file describes, and answers what it asks. `ready` is called when it serves.
///
/// # Errors
/// This is no guest of vtax's own, the description is none, or the kernel refuses something.
pub fn serve_export(description: &Path, ready: impl FnOnce(SocketAddr)) -> Result<(), KernelError> {
    let export: Export = read(description)?;
    let answers = nfsd::start(&export)?;
    ready(export.listen);
    answers.answer()
}

/// Has the kernel serve the target that the file describes. `ready` is called when it serves. Returns never but with an error.
///
/// # Errors
/// This is no guest of vtax's own, the description is none, or the kernel refuses something.
pub fn serve_target(description: &Path, ready: impl FnOnce(SocketAddr)) -> Result<(), KernelError> {
    let target: Target = read(description)?;
    lio::start(&target)?;
    ready(target.listen);
    loop {
        // The kernel serves; a signal ends this.
        std::thread::park();
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, KernelError> {
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if !line.split_ascii_whitespace().any(|word| word.starts_with(OF_GUESTS)) {
        return Err(KernelError::NotAGuest);
    }
    let file = fs::File::open(path).map_err(refused("open", path))?;
    let file = io::Read::take(file, MOST_BYTES);
    serde_json::from_reader(file).map_err(|source| KernelError::Description { path: path.to_owned(), source })
}

fn refused(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KernelError {
    let path = path.to_owned();
    move |source| KernelError::Refused { operation, path, source }
}

/// Writes to a file of the kernel's, in one write.
fn tell(path: &Path, text: &str) -> Result<(), KernelError> {
    let write = || io::Write::write_all(&mut fs::OpenOptions::new().write(true).open(path)?, text.as_bytes());
    write().map_err(refused("write to", path))
}

/// Mounts a file system of the kernel's where it isn't yet.
fn mount(kind: &str, place: &Path) -> Result<(), KernelError> {
    use rustix::mount::MountFlags;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match rustix::mount::mount(kind, place, kind, flags, None) {
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(error) => Err(refused("mount", place)(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_never_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("setup.json");
        fs::write(&path, "{}").unwrap();
        for result in [serve_export(&path, |_| {}), serve_target(&path, |_| {})] {
            assert!(matches!(result, Err(KernelError::NotAGuest)), "{result:?}");
        }
    }
}
