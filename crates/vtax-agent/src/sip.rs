//! The node's SIP session: at most one at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vtax_load::Control;
use vtax_load::sip::{SipProfile, SipResult, SipSession, SipSpec};
use vtax_sys::chain;

use crate::message::Event;
use crate::node::lock;
use crate::serve::Writer;

/// Time between two reports of a profile's progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The session, where one is open, and what ends the profile that runs.
#[derive(Default)]
pub(crate) struct SipSessions {
    open: Mutex<Option<SipSession>>,
    running: Mutex<Option<Arc<Control>>>,
}

impl SipSessions {
    /// Opens a session in place of the one before.
    pub(crate) fn open(&self, spec: &SipSpec) -> Result<(), String> {
        let session = SipSession::open(spec).map_err(|e| chain(&e))?;
        *lock(&self.open) = Some(session);
        Ok(())
    }

    /// Runs a profile to its end, on the caller's thread.
    pub(crate) fn run(&self, profile: &SipProfile, writer: &Writer) -> Result<SipResult, String> {
        let mut open = lock(&self.open);
        let session = open.as_mut().ok_or("no SIP session is open")?;
        let control = Arc::new(Control::new());
        *lock(&self.running) = Some(Arc::clone(&control));
        let ended = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let reporter = scope.spawn(|| report(&control, &ended, writer));
            let result = session.run(profile, &control).map_err(|e| chain(&e));
            ended.store(true, Ordering::Relaxed);
            reporter.thread().unpark();
            result
        });
        *lock(&self.running) = None;
        result
    }

    /// Closes the session.
    pub(crate) fn close(&self) {
        drop(lock(&self.open).take());
    }

    /// Ends the profile that runs; the session ends with the node.
    pub(crate) fn cancel(&self) {
        if let Some(control) = lock(&self.running).take() {
            control.cancel();
        }
    }
}

fn report(control: &Control, ended: &AtomicBool, writer: &Writer) {
    let mut last = control.progress();
    loop {
        std::thread::park_timeout(PROGRESS_EVERY);
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let now = control.progress();
        writer.event(&Event::SipProgress {
            elapsed: now.elapsed,
            succeeded: now.ok - last.ok,
            inadequate: now.failed - last.failed,
        });
        last = now;
    }
}
