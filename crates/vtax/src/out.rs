//! Standard output: the one way in which commands print what they found.
//!
//! A reader that has seen enough, such as `head`, is no failure and changes no exit code. An output that can't be
//! written for another reason, such as a full disk, is the host's fault.

use std::io::{ErrorKind, Write};

use anyhow::Context;
use serde::Serialize;

use crate::exit::{Classify, Failure};

/// Prints a text as it is.
///
/// # Errors
/// Where it can't be written although someone would read it.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    put(&mut std::io::stdout().lock(), text)
}

/// Prints a text that has others' words in it, such as a study's, for people: nothing in it drives a terminal.
///
/// # Errors
/// As [`text`].
pub(crate) fn printable(text: &str) -> Result<(), Failure> {
    self::text(&vtax_units::printable(text))
}

/// Prints a value as JSON, with a line end behind it.
///
/// # Errors
/// As [`text`], or where the value can't be JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    text(&(serde_json::to_string_pretty(value).context("printing the result")? + "\n"))
}

fn put(out: &mut impl Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("printing the result").host_cannot(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    struct Fails(ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_reader_that_has_gone_is_no_failure() {
        assert!(put(&mut Fails(ErrorKind::BrokenPipe), "text").is_ok());
        let failure = put(&mut Fails(ErrorKind::StorageFull), "text").unwrap_err();
        assert_eq!(failure.exit(), Exit::HostCannot);
    }
}
