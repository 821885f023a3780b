//! Readiness: the exact condition, by a deadline.

mod database;
mod sip;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vtax_sys::{Ended, PidFd};
use vtax_units::Nanos;

use crate::error::ServiceError;
use crate::port::reach;
use crate::recipe::{Condition, Recipe};
use crate::watch::Shared;

/// Pauses between two looks grow by half from the first to the longest, so that a service that
/// starts in milliseconds is seen at once and a slow one is not disturbed.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// A ready command is a program to start, so it isn't started as often.
const COMMAND_PAUSE: Duration = Duration::from_millis(50);
/// How long one try may take.
const LONGEST_TRY: Duration = Duration::from_secs(5);
/// No answer's head is longer.
const LONGEST_HEAD: usize = 8 << 10;

/// What a process is waited for with.
pub(crate) struct Wait<'a> {
    /// What errors name.
    pub(crate) service: &'a str,
    /// The plan's `ready_timeout`, for errors.
    pub(crate) timeout: Nanos,
    /// When it ends.
    pub(crate) deadline: Instant,
    /// Set to give up.
    pub(crate) call_off: Option<&'a AtomicBool>,
}

impl Wait<'_> {
    /// Waits until the process is ready; gives its version where the condition shows it.
    pub(crate) fn until_ready(
        &self,
        recipe: &Recipe,
        shared: &Shared,
    ) -> Result<Option<String>, ServiceError> {
        let name = || self.service.to_owned();
        let mut pause = FIRST_PAUSE;
        loop {
            let tried = try_once(recipe, shared, self.deadline);
            // Even where something answered, a service that has ended isn't ready.
            let ended = shared.lock().ended;
            if let Some(status) = ended {
                return Err(ServiceError::DiedAtStart {
                    service: name(),
                    status,
                    lines: shared.last_lines(),
                });
            }
            let reason = match tried {
                Ok(version) => return Ok(version),
                Err(reason) => reason,
            };
            if self.call_off.is_some_and(|c| c.load(Ordering::Relaxed)) {
                return Err(ServiceError::CalledOff { service: name() });
            }
            if Instant::now() >= self.deadline {
                let (timeout, lines) = (self.timeout, shared.last_lines());
                return Err(ServiceError::NeverReady { service: name(), timeout, reason, lines });
            }
            let is_command = matches!(recipe.ready, Condition::Command(_));
            shared.wait(if is_command { COMMAND_PAUSE } else { pause });
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }
}

/// The service's version where it is ready, else what is still missing.
fn try_once(recipe: &Recipe, shared: &Shared, deadline: Instant) -> Result<Option<String>, String> {
    let until = deadline.min(Instant::now() + LONGEST_TRY);
    match &recipe.ready {
        Condition::Port => connect(recipe.address, until).map(|_| None),
        Condition::Http(path) => get(recipe.address, path, until),
        Condition::Sip { pid_file } => sip::ready(recipe.address, pid_file, until),
        Condition::Database { socket } => database::ready(socket, until),
        Condition::Log(text) => match shared.lock().found {
            true => Ok(None),
            false => Err(format!("no line of its output contains `{text}`")),
        },
        Condition::Command(command) => run(command, recipe, until).map(|()| None),
    }
}

fn left(until: Instant) -> Duration {
    // A timeout of zero would mean none at all.
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn connect(address: SocketAddr, until: Instant) -> Result<TcpStream, String> {
    let address = reach(address);
    TcpStream::connect_timeout(&address, left(until)).map_err(|e| format!("connecting to {address}: {e}"))
}

/// Asks for `path`; ready is an answer of 200. Gives the Server field, the server's own name and version.
fn get(address: SocketAddr, path: &str, until: Instant) -> Result<Option<String>, String> {
    let failed = |e: std::io::Error| format!("GET {path}: {e}");
    let mut stream = connect(address, until)?;
    stream.set_read_timeout(Some(left(until))).map_err(failed)?;
    stream.set_write_timeout(Some(left(until))).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < LONGEST_HEAD && Instant::now() < until {
        match stream.read(&mut buffer).map_err(failed)? {
            0 => break,
            n => head.extend_from_slice(&buffer[..n]),
        }
    }
    let head = String::from_utf8_lossy(&head);
    let (status, server) = parse_head(&head);
    if status == "200" { Ok(server) } else { Err(format!("GET {path} was answered with status `{status}`")) }
}

/// Status code and Server field of an answer's head (RFC 9112 section 4, RFC 9110 section 10.2.4).
fn parse_head(head: &str) -> (&str, Option<String>) {
    let head = head.split("\r\n\r\n").next().unwrap_or("");
    let mut lines = head.lines();
    let status = lines.next().and_then(|l| l.split_whitespace().nth(1)).unwrap_or("");
    let server = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("server"))
        .map(|(_, value)| value.trim().chars().take(100).collect());
    (status, server)
}

/// Runs a ready command; ready is exit code 0.
fn run(command: &[String], recipe: &Recipe, until: Instant) -> Result<(), String> {
    let [program, arguments @ ..] = command else { return Err("the ready command is empty".into()) };
    let failed = |e: &dyn std::fmt::Display| format!("running {program}: {e}");
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(recipe.env.iter().map(|(n, v)| (n, v)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let child = command.spawn().map_err(|e| failed(&e))?;
    let pid = i32::try_from(child.id()).map_err(|e| failed(&e))?;
    let process = PidFd::open(pid).map_err(|e| failed(&e))?;
    if !process.ended_within(left(until)).map_err(|e| failed(&e))? {
        if let Some(group) = rustix::process::Pid::from_raw(pid) {
            // Not reaped yet, so the group's id can't be another's.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = process.wait();
        return Err(format!("{program} did not end in time"));
    }
    match process.wait() {
        Ok(Ended::Exited(0)) => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(e) => Err(failed(&e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_whatever_they_are() {
        let head = "HTTP/1.1 200 OK\r\nserver: nginx/1.22.1 \r\n\r\nServer: no\r\n";
        assert_eq!(parse_head(head), ("200", Some("nginx/1.22.1".into())));
        assert_eq!(parse_head("HTTP/1.1 403 Forbidden\r\n\r\nServer: x"), ("403", None));
        assert_eq!(parse_head("SSH-2.0"), ("", None));
        assert_eq!(parse_head(""), ("", None));
    }
}
