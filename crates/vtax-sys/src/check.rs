//! What `vtax doctor` finds out about a host.

/// How a host stands on one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Proved by doing it.
    Ok,
    /// vtax works, but less strictly or with a note in the report.
    Degraded,
    /// What needs this is refused.
    Missing,
}

impl State {
    /// The state in a word, as printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
        }
    }
}

/// One point that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked, such as `user namespace`.
    pub name: String,
    /// How it came out.
    pub state: State,
    /// What was found, in one line.
    pub found: String,
    /// The command or the step that would fix it; `None` where nothing needs to be fixed.
    pub fix: Option<String>,
}

impl Check {
    /// A point that was proved.
    pub fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, found: found.into(), fix: None }
    }

    /// A point where vtax works, but less strictly.
    pub fn degraded(name: impl Into<String>, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Degraded, found: found.into(), fix: Some(fix.into()) }
    }

    /// A point without which something is refused.
    pub fn missing(name: impl Into<String>, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Missing, found: found.into(), fix: Some(fix.into()) }
    }
}
