//! From a plan's service to files, a command line and a condition for readiness.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use vtax_plan::model::{Service, ServiceKind, SipOptions, Subscribers, WebOptions};

use crate::error::ServiceError;
use crate::identity::Identity;
use crate::packages::PATH;
use crate::{apache, command, kamailio, nginx};

/// Where and how a service is to run.
#[derive(Debug, Clone)]
pub struct Place {
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
    /// Set to call the start off.
    pub call_off: Option<Arc<AtomicBool>>,
}

/// When a service is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// A GET of this path is answered with 200.
    Http(&'static str),
    /// The port accepts a connection.
    Port,
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
    pub(crate) identity: Identity,
}

/// What the entries of the catalogue work from.
pub(crate) struct Job<'a> {
    pub(crate) service: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) address: SocketAddr,
    pub(crate) workers: u32,
    pub(crate) identity: Identity,
}

impl Job<'_> {
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

/// Writes a service's files into its private directory, which is there and empty, and says how to
/// start its processes: in this order, the one that clients talk to last.
pub(crate) fn prepare(
    service: &Service,
    subscribers: Option<&Subscribers>,
    place: &Place,
) -> Result<Vec<Recipe>, ServiceError> {
    let port = match &service.kind {
        ServiceKind::Http(web) | ServiceKind::Apache(web) | ServiceKind::Nginx(web) => web.port,
        ServiceKind::Sip(sip) => sip.port,
        ServiceKind::Kamailio(kamailio) => kamailio.port,
        ServiceKind::Peer(peer) => peer.port,
        ServiceKind::Command(command) => command.port,
    };
    let identity = match &service.kind {
        ServiceKind::Apache(_) | ServiceKind::Nginx(_) => Identity::here(),
        ServiceKind::Http(_)
        | ServiceKind::Sip(_)
        | ServiceKind::Kamailio(_)
        | ServiceKind::Peer(_)
        | ServiceKind::Command(_) => Identity::Present,
    };
    let job = Job {
        service: &service.name,
        directory: &place.directory,
        address: SocketAddr::new(place.address, port),
        workers: workers(&service.kind, place.cpus),
        identity,
    };
    let mut recipes = match &service.kind {
        ServiceKind::Http(_) => vec![embedded(&job, place, "http", Condition::Http("/bytes/100"))],
        ServiceKind::Sip(_) => {
            let missing = || ServiceError::NoSubscribers { service: service.name.clone() };
            vec![embedded_sip(&job, place, subscribers.ok_or_else(missing)?)]
        }
        ServiceKind::Apache(_) => vec![apache::prepare(&job)?],
        ServiceKind::Nginx(_) => vec![nginx::prepare(&job)?],
        ServiceKind::Kamailio(options) => {
            let missing = || ServiceError::NoSubscribers { service: service.name.clone() };
            kamailio::prepare(&job, options, subscribers.ok_or_else(missing)?, place.prepared.as_deref())?
        }
        ServiceKind::Peer(_) => vec![peer(&job, place)],
        ServiceKind::Command(own) => vec![command::prepare(&job, own)?],
    };
    let minimal = [("PATH", PATH), ("LANG", "C.UTF-8"), ("HOME", &job.path("")), ("TMPDIR", &job.path(""))]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    for recipe in &mut recipes {
        if let Identity::DropTo(account) = &recipe.identity {
            reachable(&job, &account.user)?;
        }
        recipe.env.splice(0..0, minimal.clone());
    }
    Ok(recipes)
}

/// vtax's own far end of network tests: what `vtax load` is at the other end of a wire.
fn peer(job: &Job<'_>, place: &Place) -> Recipe {
    let vtax = place.vtax.to_string_lossy().into_owned();
    let listen = job.address.to_string();
    let arguments = ["load", "tcp", "--server", "--listen", &listen];
    Recipe {
        part: None,
        datagrams: false,
        command: std::iter::once(vtax).chain(arguments.map(str::to_owned)).collect(),
        env: Vec::new(),
        address: job.address,
        ready: Condition::Port,
        identity: Identity::Present,
    }
}

fn workers(kind: &ServiceKind, cpus: u32) -> u32 {
    let (ServiceKind::Http(WebOptions { workers, .. })
    | ServiceKind::Apache(WebOptions { workers, .. })
    | ServiceKind::Nginx(WebOptions { workers, .. })
    | ServiceKind::Sip(SipOptions { workers, .. })) = kind
    else {
        return cpus.max(1);
    };
    workers.unwrap_or(cpus).max(1)
}

/// vtax's own server, a process of its own so that its CPU time is its own too.
fn embedded(job: &Job<'_>, place: &Place, kind: &str, ready: Condition) -> Recipe {
    let vtax = place.vtax.to_string_lossy().into_owned();
    let (listen, workers) = (job.address.to_string(), job.workers.to_string());
    let arguments = ["service", kind, "--listen", &listen, "--workers", &workers];
    Recipe {
        part: None,
        datagrams: kind == "sip",
        command: std::iter::once(vtax).chain(arguments.map(str::to_owned)).collect(),
        env: Vec::new(),
        address: job.address,
        ready,
        identity: Identity::Present,
    }
}

/// vtax's own SIP server, told who its subscribers are.
fn embedded_sip(job: &Job<'_>, place: &Place, subscribers: &Subscribers) -> Recipe {
    // Written once both transports are open.
    let mut recipe = embedded(job, place, "sip", Condition::Log("listening on sip:".to_owned()));
    // In one word each: a password may begin with a dash.
    recipe.command.extend([
        format!("--subscribers={}", subscribers.count),
        format!("--public-format={}", subscribers.public),
        format!("--private-format={}", subscribers.private),
        format!("--password={}", subscribers.password),
        format!("--realm={}", subscribers.realm),
        format!("--domain={}", subscribers.domain),
    ]);
    recipe
}

/// Sees that a user without privileges can enter every directory above the private one.
fn reachable(job: &Job<'_>, user: &str) -> Result<(), ServiceError> {
    use std::os::unix::fs::PermissionsExt;
    for path in job.directory.ancestors().filter(|p| !p.as_os_str().is_empty()) {
        let metadata = std::fs::metadata(path).map_err(job.file("looking at", path))?;
        if metadata.permissions().mode() & 0o001 == 0 {
            return Err(ServiceError::Unreachable {
                service: job.service.to_owned(),
                user: user.to_owned(),
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}
