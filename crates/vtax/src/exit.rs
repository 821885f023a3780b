//! Exit codes, and errors that know theirs.

mod fault;

use std::ffi::OsStr;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use vtax_hosts::exit_code::{self, ERROR_PREFIX};
use vtax_plan::PlanErrors;

use crate::brief;

/// How the command ended (README, "Commands").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done,
    /// What was asked for is done, and the answer is no: a gate failed, nothing of a load succeeded.
    Failed,
    /// The input is at fault: arguments, plan, run directory.
    BadInput,
    /// This host can't do it.
    HostCannot,
    /// A bug of vtax's own.
    Bug,
    /// Ctrl-C or SIGTERM; 128 + SIGINT, as shells expect.
    Interrupted,
}

impl Exit {
    /// The code as a number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => exit_code::DONE,
            Self::Failed => exit_code::FAILED,
            Self::BadInput => exit_code::BAD_INPUT,
            Self::HostCannot => exit_code::HOST_CANNOT,
            Self::Bug => exit_code::BUG,
            Self::Interrupted => exit_code::INTERRUPTED,
        }
    }

    /// The exit of another vtax process by its code.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Done, Self::Failed, Self::BadInput, Self::HostCannot, Self::Bug, Self::Interrupted];
        all.into_iter().find(|exit| exit.code() == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command can't go on, with the exit code that it leads to. Printed once, by [`report`].
#[derive(Debug)]
pub(crate) enum Failure {
    /// A plan is at fault, or another file that people write; each error is shown with its place in it.
    Plan(PlanErrors),
    /// Anything else; it is printed with its chain of causes.
    Other { exit: Exit, error: anyhow::Error },
}

impl Failure {
    /// An error that leads to this exit code.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self::Other { exit, error: error.into() }
    }

    /// The exit code that it leads to.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Plan(_) => Exit::BadInput,
            Self::Other { exit, .. } => *exit,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(errors) => f.write_str(errors.to_text(false).trim_end()),
            Self::Other { error, .. } => write!(f, "{error:#}"),
        }
    }
}

impl From<PlanErrors> for Failure {
    fn from(errors: PlanErrors) -> Self {
        Self::Plan(errors)
    }
}

/// An error of another crate's that tells whose fault it is.
pub(crate) trait Fault: Into<anyhow::Error> {
    /// The exit code that it leads to (README, "Commands").
    fn exit(&self) -> Exit;
}

impl<E: Fault> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.exit(), error)
    }
}

/// Errors that nobody classified are bugs: every expected one is a [`Fault`] or goes through [`Classify`].
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Bug, error)
    }
}

/// Says on standard error what went wrong, as clap and the plan's errors do; the one place where errors are printed.
pub(crate) fn report(failure: &Failure) -> Exit {
    let mut err = std::io::stderr().lock();
    let text = match failure {
        Failure::Plan(errors) => {
            let colour = err.is_terminal() && !forbids_colour(std::env::var_os("NO_COLOR").as_deref());
            brief::errors(&errors.to_text(colour))
        }
        Failure::Other { .. } => format!("{ERROR_PREFIX}{}\n", brief::shown(&failure.to_string())),
    };
    // Nothing more can be said where even standard error is gone.
    let _ = err.write_all(text.as_bytes());
    if failure.exit() == Exit::Bug {
        let _ = writeln!(err, "this is a bug of vtax; please report it with the command");
    }
    failure.exit()
}

/// Whether this value of `NO_COLOR` turns colours off: an empty one says nothing (no-color.org).
fn forbids_colour(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !value.is_empty())
}

/// Has a panic for want of threads or memory told as what it is: no bug of vtax's, but a limit of this host's.
pub(crate) fn tell_limits_of_host() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        match limit_of_host(info.payload_as_str().unwrap_or_default()) {
            // Nothing more can be said where even standard error is gone.
            Some(limit) => {
                drop(writeln!(std::io::stderr(), "{ERROR_PREFIX}this host gives no more {limit}"));
            }
            None => default(info),
        }
    }));
}

/// Runs it. Where it panics for a limit of this host's, which [`tell_limits_of_host`] has told, the host is at fault.
pub(crate) fn within_limits_of_host(main: impl FnOnce() -> Exit) -> Exit {
    catch_unwind(AssertUnwindSafe(main)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        match limit_of_host(text.unwrap_or_default()) {
            Some(_) => Exit::HostCannot,
            None => resume_unwind(panic),
        }
    })
}

/// What there was no more of, and what limits it, where that is why something panicked.
fn limit_of_host(panic: &str) -> Option<&'static str> {
    if panic.starts_with("failed to spawn thread: ") {
        // As the standard library's `spawn` puts it.
        Some("threads: memory or the number of processes is limited too tightly (`ulimit -v`, `ulimit -u`)")
    } else if panic.starts_with("assertion ") && panic.contains("left: MemError") {
        // As the crate `zlib-rs` puts it, which has no error for it.
        Some("memory: it is limited too tightly (`ulimit -v`)")
    } else {
        None
    }
}

/// What a subcommand returns.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Says whose fault an error is.
pub(crate) trait Classify<T> {
    /// The input is at fault: exit code 2.
    fn bad_input(self) -> Result<T, Failure>;
    /// The host can't do it: exit code 3.
    fn host_cannot(self) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Classify<T> for Result<T, E> {
    fn bad_input(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Exit::BadInput, error))
    }

    fn host_cannot(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Exit::HostCannot, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_no_color_says_nothing() {
        let forbids = |value: Option<&str>| forbids_colour(value.map(OsStr::new));
        assert_eq!([None, Some(""), Some("1")].map(forbids), [false, false, true]);
    }

    #[test]
    fn what_is_not_to_be_had_is_told_from_bugs() {
        let thread = r#"failed to spawn thread: Os { code: 11, kind: WouldBlock, message: "Resource temporarily unavailable" }"#;
        let limited = |panic: &str| limit_of_host(panic).and_then(|limit| limit.split(':').next());
        assert_eq!(limited(thread), Some("threads"));
        assert_eq!(limited("assertion `left == right` failed\n  left: MemError\n right: Ok"), Some("memory"));
        assert_eq!(limited("assertion `left == right` failed\n  left: 1\n right: 2"), None);
        assert_eq!(limited("called `Option::unwrap()` on a `None` value"), None);
        assert_eq!(within_limits_of_host(|| panic!("{thread}")), Exit::HostCannot);
        assert!(catch_unwind(|| within_limits_of_host(|| panic!("a bug"))).is_err());
    }
}
