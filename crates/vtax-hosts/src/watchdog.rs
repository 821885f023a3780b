//! The lease watchdog: a host whose controller is gone ends all that it has started, whatever its main thread waits for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vtax_agent::LEASE;
use vtax_sys::PidFd;
use vtax_sys::sync::lock;

use crate::exit_code;
use crate::outbox::Outbox;

const PAUSE: Duration = Duration::from_millis(250);
/// A killed run's files may come and go for a moment.
const REMOVAL_TRIES: u32 = 20;

/// The process that is to be ended, once there is one.
pub(crate) type Child = Arc<Mutex<Option<PidFd>>>;

/// Watches over the lease until the process ends.
///
/// # Errors
///
/// Where no thread can be started.
pub(crate) fn watch<W: Write + Send + 'static>(
    outbox: Arc<Outbox<W>>,
    child: Child,
    directory: PathBuf,
) -> std::io::Result<()> {
    let run = move || {
        loop {
            std::thread::sleep(PAUSE);
            let (silence, closed) = outbox.silence();
            if closed || silence >= LEASE {
                end(&child, &directory);
            }
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(run).map(|_| ())
}

#[expect(clippy::exit, reason = "the main thread may wait for a stream that nobody reads any more")]
fn end(child: &Child, directory: &Path) -> ! {
    end_task(child, directory);
    std::process::exit(exit_code::INTERRUPTED.into())
}

/// Kills a task that still goes on, and removes its directory.
pub(crate) fn end_task(child: &Child, directory: &Path) {
    if let Some(child) = lock(child).as_ref() {
        // One that has just ended needs no signal any more. Killing a run leaves nothing behind.
        let _ = child.kill();
    }
    remove(directory);
}

/// Removes the directory of a task.
fn remove(directory: &Path) {
    for _ in 0..REMOVAL_TRIES {
        if std::fs::remove_dir_all(directory).is_ok() || !directory.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
