//! One process of a service, with everything it started.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use vtax_sys::launch::Launch;
use vtax_sys::{PidFd, ProcessExit, SysError};

use crate::error::ServiceError;
use crate::process_tree::{MARK, ProcessTree};
use crate::recipe::{Condition, Recipe, StartContext};
use crate::watch::{Phase, Shared, Sink, Watch};

/// How a service's stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// How it ended; of a service of several processes, how the one that clients talk to did.
    pub status: Option<ProcessExit>,
    /// It, or another of its processes, had to be killed: it did not end within `stop_timeout`.
    pub killed: bool,
}

/// The started process with all that became of it.
#[derive(Debug)]
pub(crate) struct Process {
    /// Held for as long as it may be signalled: its id may be another's once it was reaped.
    leader: Arc<PidFd>,
    pub(crate) tree: ProcessTree,
    pub(crate) shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts it. `service` is what errors and its end are told of.
    pub(crate) fn spawn(
        service: &str,
        recipe: &Recipe,
        context: &StartContext,
        sink: Sink,
    ) -> Result<Self, ServiceError> {
        let name = || service.to_owned();
        let failed =
            |source| ServiceError::Spawn { service: name(), command: recipe.command.clone(), source };
        let system =
            |operation| move |source: SysError| ServiceError::System { service: name(), operation, source };
        let mark = mark();
        let mut child = command(recipe, context, &mark).spawn().map_err(failed)?;
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
            tree: ProcessTree::of(pid, mark),
            shared: Arc::clone(&shared),
            watcher: None,
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

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.tree.leader.unsigned_abs()
    }

    /// Asks it to end by SIGTERM, waits at most `timeout`, kills whatever is left of it.
    pub(crate) fn stop(&mut self, service: &str, timeout: Duration) -> Result<Stopped, ServiceError> {
        let mut status = self.shared.enter(Phase::Stopping);
        let mut killed = false;
        if status.is_none() && self.watcher.is_some() {
            // One that is gone meanwhile is what was wanted.
            let _ = self.leader.signal(Signal::TERM);
            status = self.shared.wait_for_end(timeout);
            killed = status.is_none();
        }
        // Also after a clean end: what its children left behind would serve on.
        let ended = self.tree.kill();
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
            // No caller is left that could be told of processes that outlive SIGKILL.
            let _ = self.stop("", Duration::ZERO);
        }
    }
}

/// The command to run, with its environment and its place in the process tree.
fn command(recipe: &Recipe, context: &StartContext, mark: &str) -> Command {
    let mut command = Command::new(recipe.command.first().map_or("", String::as_str));
    command.args(recipe.command.iter().skip(1));
    command.env_clear().envs(recipe.env.iter().map(|(name, value)| (name, value))).env(MARK, mark);
    command.current_dir(&context.directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Launch {
        new_session: true,
        most_files: true,
        appear_as: recipe.identity.appear_as(),
        death_signal: context.die_with_starter.then_some(Signal::KILL),
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
