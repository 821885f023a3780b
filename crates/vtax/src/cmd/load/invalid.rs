//! Loads whose figures don't count.

use vtax_load::Doubt;

use crate::exit::Exit;

/// Why the figures of a load don't count, and how the command ends for that (README, "Exit codes").
pub(super) struct Invalid {
    exit: Exit,
    pub(super) why: String,
}

impl Invalid {
    /// Nothing succeeded.
    pub(super) fn nothing(why: String) -> Self {
        Self { exit: Exit::Failed, why }
    }

    /// This host or the instrument is at fault.
    pub(super) fn instrument(why: String) -> Self {
        Self { exit: Exit::HostCannot, why }
    }
}

impl From<Doubt> for Invalid {
    fn from(doubt: Doubt) -> Self {
        match doubt {
            Doubt::NothingSucceeded(why) => Self::nothing(why),
            Doubt::GeneratorLimited(why) => Self::instrument(format!("generator-limited: {why}")),
        }
    }
}

/// How a load ends whose result is printed.
pub(super) fn ended(interrupted: bool, invalid: Option<&Invalid>) -> Exit {
    if interrupted { Exit::Interrupted } else { invalid.map_or(Exit::Done, |invalid| invalid.exit) }
}
