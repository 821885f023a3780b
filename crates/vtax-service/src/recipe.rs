//! What a service of the catalogue is made from, and what it is started by.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use vtax_plan::model::{Backend, Subscribers};
use vtax_units::Nanos;

use crate::documents::make_directory;
use crate::error::ServiceError;
use crate::identity::Identity;

/// Name of the directory with what a server of files or units serves.
const SERVED: &str = "files";

/// Where and how a service is to run.
#[derive(Debug, Clone)]
pub struct StartContext {
    /// Address it must listen on.
    pub address: IpAddr,
    /// Its private directory. It must be empty or not exist yet, and its parent must exist; the
    /// service's stop removes it. Where the service drops privileges, every directory above must
    /// be open to all users.
    pub directory: PathBuf,
    /// CPUs of the environment: the number of workers unless the plan says otherwise.
    pub cpus: u32,
    /// vtax itself, which the embedded server is part of: `/proc/self/exe`.
    pub vtax: PathBuf,
    /// Kill the service when the thread that starts it ends. For an agent that isn't the first
    /// process of a PID namespace, where the kernel wouldn't.
    pub die_with_starter: bool,
    /// Where [`crate::prepare`] put what this service needs, seen from here; `None`: it is made at
    /// the start, which takes seconds and, in an emulated guest, many of them.
    pub prepared: Option<PathBuf>,
    /// The system's own disk, for a service that keeps there what it serves.
    pub disk: Option<PathBuf>,
    /// Set to call the start off.
    pub call_off: Option<Arc<AtomicBool>>,
}

/// Something prepared before the first trial. It is kept for as long as this lives; afterwards it may be removed to
/// make room for another.
#[derive(Debug)]
pub struct Prepared {
    /// Where it is: [`StartContext::prepared`].
    pub path: PathBuf,
    /// How long it took to make it; `None`: it was there.
    pub taken: Option<Nanos>,
    /// Locked for all who use it.
    pub(crate) _used: File,
}

/// When a service is ready.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    /// The port accepts a connection.
    Port,
    /// It answers on a connection.
    Answer {
        /// What is asked, for errors.
        what: String,
        /// The bytes that are sent first; empty where the service greets by itself.
        ask: Vec<u8>,
        /// Judges what came so far.
        judge: Judge,
    },
    /// A line of output contains this text.
    Log(String),
    /// This command exits with 0.
    Command(Vec<String>),
    /// OPTIONS over UDP is answered with 200, after this file was written.
    Sip {
        /// The main process's id is in it.
        pid_file: PathBuf,
    },
    /// A database greets at this socket.
    Database {
        /// A UNIX socket.
        socket: PathBuf,
    },
}

/// Judges an answer, whole or its beginning: [`Heard`].
pub(crate) type Judge = fn(&[u8]) -> Heard;

/// What a judge makes of the bytes of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// There must be more to come.
    Incomplete,
    /// The service is ready; its name and version where they were said.
    Ready(Option<String>),
    /// It isn't, and why.
    NotYet(String),
}

/// Everything needed to start one process of a service whose files are written.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// Which process it is, where the service has several.
    pub(crate) part: Option<&'static str>,
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Where the service listens, whichever of its processes does.
    pub(crate) address: SocketAddr,
    /// It listens there for datagrams as well.
    pub(crate) datagrams: bool,
    pub(crate) ready: Condition,
    /// Commands that are run one after the other once it is ready, each of which must exit with 0: only then
    /// can it be used.
    pub(crate) setup: Vec<Vec<String>>,
    pub(crate) identity: Identity,
}

/// What an entry of the catalogue makes its recipes from.
pub(crate) struct EntryContext<'a> {
    pub(crate) service: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) address: SocketAddr,
    pub(crate) workers: u32,
    /// CPUs of the environment.
    pub(crate) cpus: u32,
    pub(crate) identity: Identity,
    /// vtax itself.
    pub(crate) vtax: &'a Path,
    /// Who its subscribers are, where the workload has any.
    pub(crate) subscribers: Option<&'a Subscribers>,
    /// What was made for it beforehand.
    pub(crate) prepared: Option<&'a Path>,
    /// The system's own disk.
    pub(crate) disk: Option<&'a Path>,
}

impl EntryContext<'_> {
    /// Its subscribers, of a service that can't be without.
    pub(crate) fn subscribers(&self) -> Result<&Subscribers, ServiceError> {
        self.subscribers.ok_or_else(|| ServiceError::NoSubscribers { service: self.service.to_owned() })
    }

    /// Makes the directory in which a server keeps what it serves: in its private one, or on the system's own disk, where it may
    /// be from an earlier start.
    pub(crate) fn served(&self, backend: Backend) -> Result<PathBuf, ServiceError> {
        let parent = match (backend, self.disk) {
            (Backend::Disk, None) => return Err(ServiceError::NoDisk { service: self.service.to_owned() }),
            (Backend::Disk, Some(disk)) => disk,
            (Backend::Files, _) => self.directory,
        };
        let path = parent.join(SERVED);
        match make_directory(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(self.file("making", &path)(e)),
            _ => Ok(path),
        }
    }

    /// A service of one process that listens on the context's address, without an environment of its own.
    pub(crate) fn recipe(&self, command: Vec<String>, ready: Condition) -> Recipe {
        Recipe {
            part: None,
            command,
            env: Vec::new(),
            address: self.address,
            datagrams: false,
            ready,
            setup: Vec::new(),
            identity: self.identity.clone(),
        }
    }

    /// vtax itself with these arguments.
    pub(crate) fn own(&self, arguments: &[&str], ready: Condition) -> Recipe {
        let vtax = self.vtax.to_string_lossy();
        let words = std::iter::once(vtax.as_ref()).chain(arguments.iter().copied());
        self.recipe(words.map(str::to_owned).collect(), ready)
    }

    /// Names operation and file of an error.
    pub(crate) fn file<'p>(
        &self,
        operation: &'static str,
        path: &'p Path,
    ) -> impl FnOnce(io::Error) -> ServiceError + use<'p, '_> {
        let service = self.service.to_owned();
        move |source| ServiceError::File { service, operation, path: path.to_owned(), source }
    }

    /// A path below the private directory, or that itself for an empty name, as text for a
    /// configuration file.
    pub(crate) fn path(&self, name: &str) -> String {
        let path = if name.is_empty() { self.directory.to_owned() } else { self.directory.join(name) };
        path.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
impl EntryContext<'static> {
    /// One worker on port 80 in `/run/x`.
    pub(crate) fn example() -> Self {
        Self {
            service: "own",
            directory: Path::new("/run/x"),
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            workers: 1,
            cpus: 1,
            identity: Identity::Present,
            vtax: Path::new("vtax"),
            subscribers: None,
            prepared: None,
            disk: None,
        }
    }
}
