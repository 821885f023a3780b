//! Writes how a run is getting on to its `live.jsonl`, for readers that follow it.
//!
//! What happens only changes a state in memory. A thread of its own writes that state at most once a second, so
//! that neither the disk nor the number of events costs what is measured anything.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use vtax_store::{LiveState, LiveTrial, LiveWriter, RunDir, StoreError};
use vtax_sys::clock::unix_ms;
use vtax_sys::sync::lock;

use crate::observe::{Observer, RunEvent};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// An observer that keeps `live.jsonl` and passes everything on to another one.
pub struct LiveProgress<'a> {
    next: &'a dyn Observer,
    state: Arc<Mutex<Changed>>,
    /// Dropped, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state and whether it was written.
#[derive(Debug, Default)]
struct Changed {
    state: LiveState,
    changed: bool,
}

impl<'a> LiveProgress<'a> {
    /// Starts the file of a run anew and the thread that writes it.
    ///
    /// # Errors
    ///
    /// Those of [`LiveWriter::create`].
    pub fn start(run: &RunDir, next: &'a dyn Observer) -> Result<Self, StoreError> {
        let mut writer = LiveWriter::create(run.path())?;
        let state = Arc::new(Mutex::new(Changed::default()));
        let (end, ended) = channel::<()>();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            loop {
                let over = ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                let now = take(&shared);
                // Progress that can't be written must not end the run; a full disk ends it by its journal.
                let written = now.is_none_or(|now| writer.append(&now).is_ok());
                if over || !written {
                    return;
                }
            }
        });
        Ok(Self { next, state, end: Some(end), thread: Some(thread) })
    }
}

impl Drop for LiveProgress<'_> {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It can't panic, and the run is over either way.
            let _ = thread.join();
        }
    }
}

/// The state, where it changed since the last time.
fn take(state: &Mutex<Changed>) -> Option<LiveState> {
    let mut shared = lock(state);
    if !std::mem::take(&mut shared.changed) {
        return None;
    }
    Some(LiveState { at_unix_ms: unix_ms(), ..shared.state.clone() })
}

impl Observer for LiveProgress<'_> {
    fn observe(&self, event: &RunEvent<'_>) {
        let mut shared = lock(&self.state);
        shared.changed = true;
        let state = &mut shared.state;
        match event {
            RunEvent::Started { finished, owed, remaining } => {
                (state.finished, state.owed) = (*finished, *owed);
                state.remaining_ms = milliseconds(*remaining);
            }
            RunEvent::TrialStarted { index, cell, measure, repetition, owed, remaining } => {
                let (cell, measure) = ((*cell).to_owned(), (*measure).to_owned());
                state.trial = Some(LiveTrial { index: *index, cell, measure, repetition: *repetition });
                (state.owed, state.remaining_ms, state.rate) = (*owed, milliseconds(*remaining), None);
                state.phase.clear();
            }
            RunEvent::Phase { what } => (*what).clone_into(&mut state.phase),
            RunEvent::Step { step } => state.rate = Some(step.goodput.0).filter(|rate| rate.is_finite()),
            RunEvent::Rate { rate } | RunEvent::PhaseEnded { rate, .. } => {
                state.rate = Some(rate.0).filter(|rate| rate.is_finite());
            }
            RunEvent::TrialEnded { .. } => {
                (state.trial, state.rate) = (None, None);
                state.finished += 1;
                state.phase.clear();
            }
            RunEvent::Comparisons { comparisons } => state.comparisons = comparisons.to_vec(),
            RunEvent::Note { .. } => {}
        }
        drop(shared);
        self.next.observe(event);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
