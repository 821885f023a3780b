//! How a load ended: whether it went on to its end, and whether its figures count.

use serde::{Serialize, Serializer};
use vtax_load::Doubt;

use crate::exit::{Exit, Failure};

/// How a load ended; the last lines of its table, and keys of its JSON.
#[derive(Serialize)]
pub(super) struct LoadEnd {
    ended: Completion,
    invalid: Option<Invalid>,
}

/// Whether a load went on to its end. One that was killed prints nothing.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Completion {
    /// As it was asked for.
    Complete,
    /// A signal ended it early.
    Interrupted,
}

/// Why the figures of a load don't count, and how the command ends for that (README, "Commands").
pub(super) struct Invalid {
    exit: Exit,
    why: String,
}

impl Completion {
    pub(super) fn of(interrupted: bool) -> Self {
        if interrupted { Self::Interrupted } else { Self::Complete }
    }
}

impl LoadEnd {
    pub(super) fn of(interrupted: bool, invalid: Option<Invalid>) -> Self {
        Self { ended: Completion::of(interrupted), invalid }
    }

    /// Of a load that a signal ended before anything was measured, as the engine's error says.
    pub(super) fn before_anything(error: &Failure) -> Self {
        let invalid = Invalid { exit: Exit::Interrupted, why: error.to_string() };
        Self { ended: Completion::Interrupted, invalid: Some(invalid) }
    }

    pub(super) fn exit(&self) -> Exit {
        match self.ended {
            Completion::Interrupted => Exit::Interrupted,
            Completion::Complete => self.invalid.as_ref().map_or(Exit::Done, |invalid| invalid.exit),
        }
    }

    /// What the table's last lines say of it, if anything.
    pub(super) fn lines(&self) -> String {
        let mut lines = String::new();
        if self.ended == Completion::Interrupted {
            lines += "interrupted: the figures are of what was measured until then\n";
        }
        if let Some(Invalid { why, .. }) = &self.invalid {
            lines += &format!("invalid: {why}\n");
        }
        lines
    }
}

impl Invalid {
    /// Why the figures don't count.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

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

impl Serialize for Invalid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_do_not_count_end_with_the_code_of_their_reason() {
        let end = |interrupted, doubt: Option<Doubt>| LoadEnd::of(interrupted, doubt.map(Invalid::from));
        assert_eq!(end(false, None).exit(), Exit::Done);
        let limited = end(false, Some(Doubt::GeneratorLimited("worker 0 used 99 % of its CPU".to_owned())));
        assert_eq!(limited.exit(), Exit::HostCannot);
        assert_eq!(limited.lines(), "invalid: generator-limited: worker 0 used 99 % of its CPU\n");
        let nothing = || Some(Doubt::NothingSucceeded("all 225 answers were 404".to_owned()));
        assert_eq!(end(false, nothing()).exit(), Exit::Failed);
        assert_eq!(end(true, nothing()).exit(), Exit::Interrupted);
        // In words, with no JSON among them.
        let json = serde_json::to_value(end(false, nothing())).unwrap();
        assert_eq!(
            (&json["ended"], &json["invalid"]),
            (&"complete".into(), &"all 225 answers were 404".into())
        );
    }
}
