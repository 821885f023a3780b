//! Other programs, run as children without a shell.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use vtax_sys::inherit::Inherit;

use crate::error::{Result, VmError};

/// How much of a failed tool's stderr an error shows.
const SHOWN_LINES: usize = 8;

/// A command whose words don't depend on the user's language.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Whether a child may outlive us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It finishes even if we are killed.
    Own,
    /// It is killed with us.
    Bound,
}

/// Runs a tool to its end and returns its stdout.
pub(crate) fn run(command: &mut Command, life: Life) -> Result<String> {
    let shown = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = shown.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let mut own = Command::new(command.get_program());
    own.args(command.get_args());
    own.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    if let Some(dir) = command.get_current_dir() {
        own.current_dir(dir);
    }
    own.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let inherit = Inherit { die_with_thread: life == Life::Bound, ..Inherit::default() };
    let output = inherit
        .spawn(own)
        .and_then(std::process::Child::wait_with_output)
        .map_err(VmError::io("run", shown.as_str()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    let stderr = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
    Err(VmError::Tool { command: shown, status: output.status.to_string(), stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_fails_is_told_with_its_command_and_words() {
        let error = run(command("ls").arg("/no/such"), Life::Bound).unwrap_err().to_string();
        assert!(error.starts_with("ls /no/such: exit status: 2\n    ls: cannot access"), "{error}");
    }
}
