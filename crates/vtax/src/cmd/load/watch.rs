//! Runs a load while showing its progress and listening for Ctrl-C.

use std::io::{IsTerminal, Write};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use vtax_load::{Control, LoadError, LoadResult, Progress, RequestStep};
use vtax_sys::SysError;
use vtax_sys::signals::SignalFd;
use vtax_units::{Nanos, printable};

use super::output::millis;
use super::signals::{ending_signals, signalled};

/// How often the screen is renewed and the signals are looked at.
const TICK: Duration = Duration::from_millis(100);

/// A terminal and its Ctrl-C.
pub(super) struct Watch {
    signals: SignalFd,
    quiet: bool,
    terminal: bool,
}

/// How a load is shown while it runs.
pub(super) struct Show<Line, Live> {
    /// Makes a line where one is due.
    pub(super) line: Line,
    /// The present state in a few words.
    pub(super) live: Live,
}

/// A load that ran.
pub(super) struct Watched {
    pub(super) result: LoadResult,
    /// It was ended early by a signal.
    pub(super) interrupted: bool,
}

impl Watch {
    /// Call before the first thread is started.
    pub(super) fn new(quiet: bool) -> Result<Self, SysError> {
        let signals = ending_signals()?;
        Ok(Self { signals, quiet, terminal: std::io::stderr().is_terminal() })
    }

    /// Prints a line of progress.
    pub(super) fn line(&self, text: &str) {
        if !self.quiet {
            // Progress that nobody can read any more must not end the measurement.
            let _ = writeln!(std::io::stderr(), "{}", printable(text));
        }
    }

    /// Carries out one step of a load; the first signal ends it early.
    pub(super) fn run(
        &self,
        step: &RequestStep,
        load: impl FnOnce(&Control) -> Result<LoadResult, LoadError> + Send,
    ) -> Result<Watched, LoadError> {
        let mut line = IntervalLine::new(step);
        let show = Show { line: |progress: &Progress| line.of(progress), live: |p: &Progress| live(step, p) };
        let (result, interrupted) = self.watch(load, show)?;
        Ok(Watched { result, interrupted })
    }

    /// Opens a load, which does this; the first signal ends it.
    pub(super) fn open<T: Send>(
        &self,
        doing: &str,
        open: impl FnOnce(&Control) -> Result<T, LoadError> + Send,
    ) -> Result<T, LoadError> {
        let show = Show { line: |_: &Progress| None, live: |_: &Progress| doing.to_owned() };
        match self.watch(open, show)? {
            (_, true) => Err(LoadError::CancelledOpening),
            (opened, false) => Ok(opened),
        }
    }

    /// Carries out any load while showing how it goes; the first signal ends it early. Also tells
    /// whether one did.
    pub(super) fn watch<T: Send>(
        &self,
        load: impl FnOnce(&Control) -> Result<T, LoadError> + Send,
        mut show: Show<impl FnMut(&Progress) -> Option<String>, impl Fn(&Progress) -> String>,
    ) -> Result<(T, bool), LoadError> {
        let control = Control::new();
        // A dumb terminal has none, and what is hidden drops lines that are printed above it, too.
        let bar = (self.terminal && !self.quiet).then(bar).filter(|bar| !bar.is_hidden());
        let (result, interrupted) = thread::scope(|scope| {
            let watcher = thread::current();
            let control = &control;
            let engine = scope.spawn(move || {
                let result = load(control);
                watcher.unpark();
                result
            });
            let mut interrupted = false;
            while !engine.is_finished() {
                if signalled(&self.signals) {
                    interrupted = true;
                    control.cancel();
                }
                let progress = control.progress();
                if let Some(text) = (show.line)(&progress) {
                    match &bar {
                        Some(bar) => bar.println(text),
                        None => self.line(&text),
                    }
                }
                if let Some(bar) = &bar {
                    bar.set_message((show.live)(&progress));
                }
                thread::park_timeout(TICK);
            }
            (engine.join(), interrupted)
        });
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        let result = result.unwrap_or_else(|payload| Err(LoadError::panicked(0, &*payload)))?;
        Ok((result, interrupted))
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(TICK);
    bar
}

fn live(step: &RequestStep, progress: &Progress) -> String {
    let total = Nanos(step.warmup.0 + step.duration.0);
    let left = total.saturating_sub(progress.elapsed).as_secs_f64();
    format!("{} ok, {} failed, {left:.0} s to go", progress.ok, progress.failed)
}

/// Makes a line of what happened in each interval.
struct IntervalLine {
    interval: Nanos,
    warmup: Nanos,
    last: Progress,
}

impl IntervalLine {
    fn new(step: &RequestStep) -> Self {
        let interval = step.interval.max(Nanos::from_millis(200));
        Self { interval, warmup: step.warmup, last: Progress::default() }
    }

    fn of(&mut self, now: &Progress) -> Option<String> {
        let lately = now.since(&self.last);
        if lately.elapsed < self.interval {
            return None;
        }
        let line = format!(
            "{:>6.1} s  {:>9.0} ok/s  {:>6} failed  mean {}{}",
            now.elapsed.as_secs_f64(),
            lately.ok as f64 / lately.elapsed.as_secs_f64(),
            lately.failed,
            lately.mean_latency().map_or_else(|| "-".to_owned(), millis),
            if now.elapsed <= self.warmup { "  (warm-up)" } else { "" },
        );
        self.last = *now;
        Some(line)
    }
}
