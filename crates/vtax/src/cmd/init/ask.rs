//! Questions on a terminal, answered by a line each.

use std::io::{BufRead, Write};

/// Wrong answers to one question before nothing more is asked.
const MAX_TRIES: usize = 5;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// Nobody answers (any more).
    Ended,
    /// None of those that were given can be used.
    Wrong,
}

/// Asks, and reads answers.
pub(super) struct Asking<'a> {
    answers: &'a mut dyn BufRead,
    questions: &'a mut dyn Write,
}

impl<'a> Asking<'a> {
    pub(super) fn new(answers: &'a mut dyn BufRead, questions: &'a mut dyn Write) -> Self {
        Self { answers, questions }
    }

    /// Asks until an answer can be used; an empty one is the default.
    pub(super) fn ask<T>(
        &mut self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, NoAnswer> {
        for _ in 0..MAX_TRIES {
            let asked =
                write!(self.questions, "{question} [{default}]: ").and_then(|()| self.questions.flush());
            let mut answer = String::new();
            let length = self.answers.read_line(&mut answer);
            if asked.is_err() || !length.is_ok_and(|length| length > 0) {
                return Err(NoAnswer::Ended);
            }
            let answer = answer.trim();
            match read(if answer.is_empty() { default } else { answer }) {
                Ok(value) => return Ok(value),
                // Where it can't be said, it can't be asked again either, which ends it.
                Err(why) => drop(writeln!(self.questions, "  {why}")),
            }
        }
        Err(NoAnswer::Wrong)
    }
}
