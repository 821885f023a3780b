//! How vtax ends, as other processes of vtax see it: its exit code, and the errors on its standard error. Hosts tell codes to the
//! host that they measure for, and `vtax reproduce` reads both of the runs that it starts. README, "Commands", has the codes for
//! everybody else.

/// What was asked for is done.
pub const DONE: u8 = 0;
/// What was asked for is done, and the answer is no: a gate failed, nothing of a load succeeded.
pub const FAILED: u8 = 1;
/// The input is at fault: arguments, plan, run directory.
pub const BAD_INPUT: u8 = 2;
/// This host can't do it.
pub const HOST_CANNOT: u8 = 3;
/// A bug of vtax's own.
pub const BUG: u8 = 70;
/// Ctrl-C or SIGTERM; 128 + SIGINT, as shells expect. Also the end of a host whose controller is gone.
pub const INTERRUPTED: u8 = 130;

/// What a line on standard error begins with that tells an error.
pub const ERROR_PREFIX: &str = "error: ";

/// The error that a line tells, where it does.
#[must_use]
pub fn error_of(line: &str) -> Option<&str> {
    line.strip_prefix(ERROR_PREFIX)
}

/// The last error that was told.
#[must_use]
pub fn last_error(text: &str) -> Option<&str> {
    text.lines().rev().find_map(error_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_found() {
        assert_eq!(last_error("building\nerror: a\nnote\nerror: b: c\nafter\n"), Some("b: c"));
        assert_eq!(last_error("an error: none\n"), None);
    }
}
