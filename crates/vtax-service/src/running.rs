//! A service from its start to its stop.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vtax_plan::model::{Service, Subscribers};
use vtax_sys::ProcessExit;
use vtax_sys::sync::lock;
use vtax_units::Nanos;

use crate::catalogue::{is_own, missing, recipes};
use crate::documents::make_directory;
use crate::error::ServiceError;
use crate::process::{Process, Stopped};
use crate::recipe::{Recipe, StartContext};
use crate::watch::{Notice, Phase, Sink};
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
    /// In the order they were started; the last one is what clients talk to.
    processes: Vec<Process>,
    /// Dropped last: nothing that runs may lose its files.
    _directory: PrivateDirectory,
}

impl RunningService {
    /// Writes the service's files, starts it, and returns once it is ready. A service that knows
    /// subscribers knows these.
    ///
    /// `sink` gets every line of its output and its unexpected end, on threads of its own.
    ///
    /// # Errors
    ///
    /// Where it can't be prepared or run, its port is taken, it ends before it is ready, it isn't
    /// ready in time, or the start is called off. By then nothing of it is left.
    pub fn start(
        service: &Service,
        subscribers: Option<&Subscribers>,
        context: &StartContext,
        sink: impl FnMut(Notice) + Send + 'static,
    ) -> Result<Self, ServiceError> {
        if let Some(missing) = missing(service).filter(|_| context.prepared.is_none()) {
            return Err(ServiceError::NotInstalled { service: service.name.clone(), missing });
        }
        let directory = PrivateDirectory::make(&service.name, &context.directory)?;
        let recipes = recipes(service, subscribers, context)?;
        for recipe in &recipes {
            port::allow(&service.name, recipe.address, &recipe.identity)?;
            port::check_free(&service.name, recipe.address, recipe.datagrams)?;
        }
        let begun = Instant::now();
        let (processes, versions) = start_all(service, &recipes, context, Box::new(sink))?;
        let startup = Nanos::from(begun.elapsed());
        let last = recipes.last();
        let command = last.map(|r| r.command.clone()).unwrap_or_default();
        let version = if is_own(service) {
            concat!("vtax/", env!("CARGO_PKG_VERSION")).to_owned()
        } else if versions.is_empty() {
            command.first().cloned().unwrap_or_default()
        } else {
            versions.join(", ")
        };
        Ok(Self {
            name: service.name.clone(),
            address: last.map_or(SocketAddr::new(context.address, 0), |r| r.address),
            version,
            command,
            startup,
            stop_timeout: service.stop_timeout.into(),
            processes,
            _directory: directory,
        })
    }

    /// Process ids of the processes that were started.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().map(Process::pid)
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

    /// The command line that was run; of several the one of what clients talk to.
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

    /// How it ended, where it already has; of several processes, how the first that did.
    #[must_use]
    pub fn ended(&self) -> Option<ProcessExit> {
        self.processes.iter().find_map(|p| p.shared.lock().ended)
    }

    /// Asks it to end by SIGTERM, waits for its `stop_timeout`, kills whatever is left of it, and
    /// removes its private directory. What was started last is stopped first: it may still have
    /// something to tell the others.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unkillable`] where a process outlives SIGKILL.
    pub fn stop(mut self) -> Result<Stopped, ServiceError> {
        let mut result = Ok(Stopped { status: None, killed: false });
        // All of them first: none may tell of an end that the others' stop brings about.
        for process in &self.processes {
            process.shared.enter(Phase::Stopping);
        }
        let deadline = Instant::now() + self.stop_timeout;
        for (index, process) in self.processes.iter_mut().rev().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let stopped = process.stop(&self.name, left);
            result = match (result, stopped) {
                (Ok(so_far), Ok(stopped)) => Ok(Stopped {
                    status: if index == 0 { stopped.status } else { so_far.status },
                    killed: so_far.killed || stopped.killed,
                }),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        result
    }
}

/// Starts the processes one after the other, each when the one before is ready; gives the versions
/// they show, that of the last first.
fn start_all(
    service: &Service,
    recipes: &[Recipe],
    context: &StartContext,
    sink: Sink,
) -> Result<(Vec<Process>, Vec<String>), ServiceError> {
    let sink = Arc::new(Mutex::new(sink));
    let deadline = Instant::now() + Duration::from(service.ready_timeout);
    let label = |recipe: &Recipe| match recipe.part {
        Some(part) => format!("{} ({part})", service.name),
        None => service.name.clone(),
    };
    let (mut processes, mut versions) = (Vec::with_capacity(recipes.len()), Vec::new());
    for recipe in recipes {
        let label = label(recipe);
        let process = Process::spawn(&label, recipe, context, sink_of(&sink, recipe.part))?;
        let wait = ready::Wait {
            service: &label,
            timeout: service.ready_timeout,
            tree: &process.tree,
            deadline,
            call_off: context.call_off.as_deref(),
        };
        let version = wait.until_ready(recipe, &process.shared)?;
        wait.set_up(recipe, &process.shared)?;
        versions.splice(0..0, version);
        processes.push(process);
    }
    for (process, recipe) in processes.iter().zip(recipes) {
        if let Some(status) = process.shared.enter(Phase::Ready) {
            let lines = process.shared.last_lines();
            return Err(ServiceError::DiedAtStart { service: label(recipe), status, lines });
        }
    }
    Ok((processes, versions))
}

/// A receiver that says which of several processes a notice is of.
fn sink_of(sink: &Arc<Mutex<Sink>>, part: Option<&'static str>) -> Sink {
    let sink = Arc::clone(sink);
    Box::new(move |notice| {
        let notice = match (part, notice) {
            (Some(part), Notice::Output { stream, line }) => {
                Notice::Output { stream, line: format!("{part}: {line}") }
            }
            (_, Notice::Died { status, .. }) => Notice::Died { process: part, status },
            (None, notice) => notice,
        };
        lock(&sink)(notice);
    })
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
