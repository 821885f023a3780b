//! A service from its start to its stop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use vtax_plan::model::{Service, ServiceKind};
use vtax_sys::launch::Launch;
use vtax_sys::{Ended, PidFd, SysError};
use vtax_units::Nanos;

use crate::catalogue::{Condition, Place, Recipe, prepare};
use crate::documents::make_directory;
use crate::error::ServiceError;
use crate::family::{Family, MARK};
use crate::packages::missing;
use crate::watch::{Notice, Phase, Shared, Sink, Watch};
use crate::{port, ready};

/// A service that runs. Dropping it kills it with everything it started.
#[derive(Debug)]
pub struct RunningService {
    name: String,
    address: SocketAddr,
    command: Vec<String>,
    version: String,
    startup: Nanos,
    stop_timeout: Duration,
    process: Process,
}

/// How a service's stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// How it ended.
    pub status: Option<Ended>,
    /// It had to be killed: it did not end within its `stop_timeout`.
    pub killed: bool,
}

impl RunningService {
    /// Writes the service's files, starts it, and returns once it is ready.
    ///
    /// `sink` gets every line of its output and its unexpected end, on a thread of its own.
    ///
    /// # Errors
    ///
    /// Where it can't be prepared or run, its port is taken, it ends before it is ready, it isn't
    /// ready in time, or the start is called off. By then nothing of it is left.
    pub fn start(
        service: &Service,
        place: &Place,
        sink: impl FnMut(Notice) + Send + 'static,
    ) -> Result<Self, ServiceError> {
        if let Some(missing) = missing(service) {
            return Err(ServiceError::NotInstalled { service: service.name.clone(), missing });
        }
        let directory = PrivateDirectory::make(&service.name, &place.directory)?;
        let recipe = prepare(service, place)?;
        port::allow(&service.name, recipe.address, &recipe.identity)?;
        port::check_free(&service.name, recipe.address)?;
        let begun = Instant::now();
        let process = Process::spawn(service, &recipe, place, directory, Box::new(sink))?;
        let version = ready::wait(service, &recipe, &process.shared, place.call_off.as_deref())?;
        let startup = Nanos::from(begun.elapsed());
        if let Some(status) = process.shared.enter(Phase::Ready) {
            let (service, lines) = (service.name.clone(), process.shared.last_lines());
            return Err(ServiceError::DiedAtStart { service, status, lines });
        }
        Ok(Self {
            name: service.name.clone(),
            address: recipe.address,
            version: match (&service.kind, version) {
                (ServiceKind::Http(_), _) => concat!("vtax/", env!("CARGO_PKG_VERSION")).to_owned(),
                (_, Some(version)) => version,
                (_, None) => recipe.command.first().cloned().unwrap_or_default(),
            },
            command: recipe.command,
            startup,
            stop_timeout: service.stop_timeout.into(),
            process,
        })
    }

    /// Process id of the process that was started.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.family.leader.unsigned_abs()
    }

    /// The service's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The command line that was run.
    #[must_use]
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// Its own name and version, such as `nginx/1.22.1`; its program where it doesn't say.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// From its start to its readiness.
    #[must_use]
    pub const fn startup(&self) -> Nanos {
        self.startup
    }

    /// How it ended, where it already has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.process.shared.lock().ended
    }

    /// Asks it to end by SIGTERM, waits for its `stop_timeout`, kills whatever is left of it, and
    /// removes its private directory.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unkillable`] where a process outlives SIGKILL.
    pub fn stop(mut self) -> Result<Stopped, ServiceError> {
        self.process.stop(&self.name, self.stop_timeout)
    }
}

/// The private directory, removed with everything in it when it goes out of scope.
#[derive(Debug)]
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Makes it, or takes one that is empty.
    fn make(service: &str, path: &Path) -> Result<Self, ServiceError> {
        let failed = |operation| {
            move |source| ServiceError::File {
                service: service.to_owned(),
                operation,
                path: path.to_owned(),
                source,
            }
        };
        match make_directory(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed("making"))?,
        }
        let mut entries = std::fs::read_dir(path).map_err(failed("listing"))?;
        if entries.next().is_some() {
            return Err(ServiceError::DirectoryInUse { service: service.to_owned(), path: path.to_owned() });
        }
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // What can't be removed goes with the node's file system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The started process with all that became of it.
#[derive(Debug)]
struct Process {
    /// Held for as long as it may be signalled: its id may be another's once it was reaped.
    leader: Arc<PidFd>,
    family: Family,
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
    /// Dropped last: nothing that runs may lose its files.
    _directory: PrivateDirectory,
}

impl Process {
    fn spawn(
        service: &Service,
        recipe: &Recipe,
        place: &Place,
        directory: PrivateDirectory,
        sink: Sink,
    ) -> Result<Self, ServiceError> {
        let name = || service.name.clone();
        let failed =
            |source| ServiceError::Spawn { service: name(), command: recipe.command.clone(), source };
        let system =
            |operation| move |source: SysError| ServiceError::System { service: name(), operation, source };
        let mark = mark();
        let mut child = command(recipe, place, &mark).spawn().map_err(failed)?;
        let pid = i32::try_from(child.id()).unwrap_or(0);
        let leader = match PidFd::open(pid) {
            Ok(leader) => Arc::new(leader),
            Err(e) => {
                // Not reaped yet, so it is still the child's id; what failed first is what counts.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(system("holding its process")(e));
            }
        };
        let shared = Arc::new(Shared::default());
        // From here on a failure drops this, which kills what was started.
        let mut this = Self {
            leader: Arc::clone(&leader),
            family: Family::of(pid, mark),
            shared: Arc::clone(&shared),
            watcher: None,
            _directory: directory,
        };
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(io::Error::other("its output was not piped")));
        };
        let needle = match &recipe.ready {
            Condition::Log(text) => Some(text.clone()),
            _ => None,
        };
        let watch = Watch::new(leader, OwnedFd::from(stdout), OwnedFd::from(stderr), needle, sink, shared)
            .map_err(failed)?;
        let thread = std::thread::Builder::new().name("service".into()).spawn(|| watch.run());
        this.watcher = Some(thread.map_err(failed)?);
        Ok(this)
    }

    fn stop(&mut self, service: &str, timeout: Duration) -> Result<Stopped, ServiceError> {
        let mut status = self.shared.enter(Phase::Stopping);
        let mut killed = false;
        if status.is_none() && self.watcher.is_some() {
            // One that is gone meanwhile is what was wanted.
            let _ = self.leader.signal(Signal::TERM);
            status = self.shared.wait_for_end(timeout);
            killed = status.is_none();
        }
        // Also after a clean end: what its children left behind would serve on.
        let ended = self.family.kill();
        if let Some(watcher) = self.watcher.take() {
            status = status.or_else(|| self.shared.wait_for_end(Duration::from_secs(5)));
            self.shared.lock().closing = true;
            if status.is_some() {
                // A watcher that panicked has nothing left to tell.
                let _ = watcher.join();
            }
        }
        match ended {
            Ok(()) => Ok(Stopped { status, killed }),
            Err(pids) => Err(ServiceError::Unkillable { service: service.to_owned(), pids }),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.watcher.is_some() || self.shared.lock().ended.is_none() {
            // Nobody is left to tell what outlives SIGKILL.
            let _ = self.stop("", Duration::ZERO);
        }
    }
}

/// The command to run, with its environment and its place in the process tree.
fn command(recipe: &Recipe, place: &Place, mark: &str) -> Command {
    let mut command = Command::new(recipe.command.first().map_or("", String::as_str));
    command.args(recipe.command.iter().skip(1));
    command.env_clear().envs(recipe.env.iter().map(|(name, value)| (name, value))).env(MARK, mark);
    command.current_dir(&place.directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Launch {
        new_session: true,
        most_files: true,
        appear_as: recipe.identity.appear_as(),
        die_with_parent: place.die_with_starter,
    }
    .apply(&mut command);
    command
}

/// A text that no other service's processes carry.
fn mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{count}", std::process::id(), vtax_sys::sched::monotonic().0)
}
