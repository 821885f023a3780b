//! Readiness: the exact condition, by a deadline.

mod database;
mod http;
mod left;
mod sip;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vtax_sys::{PidFd, ProcessExit};
use vtax_units::Nanos;

use crate::error::ServiceError;
use crate::port::reach;
use crate::process_tree::ProcessTree;
use crate::recipe::{Condition, Heard, Judge, Recipe};
use crate::watch::Shared;
use left::left;

/// Pauses between two looks grow by half from the first to the longest, so that a service that
/// starts in milliseconds is seen at once and a slow one is not disturbed.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// A ready command is a program to start, so it isn't started as often.
const COMMAND_PAUSE: Duration = Duration::from_millis(50);
/// How long one try may take.
const LONGEST_TRY: Duration = Duration::from_secs(5);
/// Nothing longer is needed of an answer.
const LONGEST_ANSWER: usize = 8 << 10;

/// What a process is waited for with.
pub(crate) struct Wait<'a> {
    /// What errors name.
    pub(crate) service: &'a str,
    /// The plan's `ready_timeout`, for errors.
    pub(crate) timeout: Nanos,
    /// The processes that are waited for.
    pub(crate) tree: &'a ProcessTree,
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
                return Err(self.never_ready(reason, shared));
            }
            let is_command = matches!(recipe.ready, Condition::Command(_));
            shared.wait(if is_command { COMMAND_PAUSE } else { pause });
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }
}

impl Wait<'_> {
    /// Runs the commands without which a process that is ready is of no use.
    pub(crate) fn set_up(&self, recipe: &Recipe, shared: &Shared) -> Result<(), ServiceError> {
        for command in &recipe.setup {
            run(command, recipe, self.deadline).map_err(|reason| self.not_set_up(reason, shared))?;
        }
        Ok(())
    }

    fn not_set_up(&self, reason: String, shared: &Shared) -> ServiceError {
        let ended = shared.lock().ended;
        if let Some(status) = ended {
            let (service, lines) = (self.service.to_owned(), shared.last_lines());
            return ServiceError::DiedAtStart { service, status, lines };
        }
        // They share the time that it has to become ready.
        if Instant::now() >= self.deadline {
            return self.never_ready(reason, shared);
        }
        let (doing, lines) = (self.tree.doing(), shared.last_lines());
        ServiceError::NotSetUp { service: self.service.to_owned(), reason, doing, lines }
    }

    fn never_ready(&self, reason: String, shared: &Shared) -> ServiceError {
        let (doing, lines) = (self.tree.doing(), shared.last_lines());
        ServiceError::NeverReady {
            service: self.service.to_owned(),
            timeout: self.timeout,
            reason,
            doing,
            lines,
        }
    }
}

/// The service's version where it is ready, else what is still missing.
fn try_once(recipe: &Recipe, shared: &Shared, deadline: Instant) -> Result<Option<String>, String> {
    let until = deadline.min(Instant::now() + LONGEST_TRY);
    match &recipe.ready {
        Condition::Port => connect(recipe.address, until).map(|_| None),
        Condition::Answer { what, ask, judge } => {
            answer(recipe.address, ask, *judge, until).map_err(|reason| format!("{what}: {reason}"))
        }
        Condition::Sip { pid_file } => sip::ready(recipe.address, pid_file, until),
        Condition::Database { socket } => database::ready(socket, until),
        Condition::Log(text) => match shared.lock().found {
            true => Ok(None),
            false => Err(format!("no line of its output contains `{text}`")),
        },
        Condition::Command(command) => run(command, recipe, until).map(|()| None),
    }
}

fn connect(address: SocketAddr, until: Instant) -> Result<TcpStream, String> {
    let address = reach(address);
    TcpStream::connect_timeout(&address, left(until)).map_err(|e| no_connection(address, &e))
}

/// Why nothing can be connected to; where nothing listens, what the service has to do.
fn no_connection(address: SocketAddr, error: &io::Error) -> String {
    let failed = format!("connecting to {address}: {error}");
    if error.kind() != io::ErrorKind::ConnectionRefused {
        return failed;
    }
    format!(
        "{failed}; nothing listens there: the service must listen on {}, port {}, for which `{{address}}` and `{{port}}` stand in a \
         command of your own",
        address.ip(),
        address.port()
    )
}

/// Why a service that was reached wasn't heard: what the kernel says of a wait that is over tells nobody anything.
fn unheard(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "it closed the connection without a whole answer".to_owned(),
        _ => error.to_string(),
    }
}

/// Sends `ask` and has what comes back judged, until that is enough.
fn answer(address: SocketAddr, ask: &[u8], judge: Judge, until: Instant) -> Result<Option<String>, String> {
    let failed = |e: io::Error| unheard(&e);
    let mut stream = connect(address, until)?;
    stream.set_read_timeout(Some(left(until))).map_err(failed)?;
    stream.set_write_timeout(Some(left(until))).map_err(failed)?;
    stream.write_all(ask).map_err(failed)?;
    let (mut heard, mut buffer) = (Vec::new(), [0; 1024]);
    while heard.len() < LONGEST_ANSWER && Instant::now() < until {
        match stream.read(&mut buffer).map_err(failed)? {
            0 => return Err(unheard(&io::ErrorKind::UnexpectedEof.into())),
            n => heard.extend_from_slice(&buffer[..n]),
        }
        match judge(&heard) {
            Heard::Incomplete => {}
            Heard::Ready(version) => return Ok(version),
            Heard::NotYet(reason) => return Err(reason),
        }
    }
    Err("it gave no whole answer".to_owned())
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
        Ok(ProcessExit::Exited(0)) => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(e) => Err(failed(&e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that listens on loopback or on another port is the usual reason.
    #[test]
    fn where_nothing_listens_it_is_said_where_the_service_must() {
        let address = SocketAddr::from(([127, 0, 0, 1], 8000));
        let told = no_connection(address, &std::io::ErrorKind::ConnectionRefused.into());
        assert!(told.starts_with(&format!("connecting to {address}: connection refused; nothing")), "{told}");
        let place = "must listen on 127.0.0.1, port 8000, for which `{address}` and `{port}` stand";
        assert!(told.contains(place), "{told}");
        let late = no_connection(address, &std::io::ErrorKind::TimedOut.into());
        assert!(!late.contains("nothing listens"), "{late}");
    }

    /// Its process may hang while the kernel still accepts for it.
    #[test]
    fn a_service_that_is_silent_is_told_so_without_the_kernels_words() {
        let of = |kind: io::ErrorKind| unheard(&kind.into());
        assert_eq!(of(io::ErrorKind::WouldBlock), "no answer in time");
        assert_eq!(of(io::ErrorKind::TimedOut), "no answer in time");
        assert_eq!(of(io::ErrorKind::UnexpectedEof), "it closed the connection without a whole answer");
        assert_eq!(of(io::ErrorKind::ConnectionReset), "connection reset");
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = silent.local_addr().expect("its address");
        let until = Instant::now() + Duration::from_millis(500);
        let told = answer(address, b"who", |_| Heard::Incomplete, until).expect_err("it is silent");
        assert!(told == "no answer in time" || told == "it gave no whole answer", "{told}");
    }

    #[test]
    fn an_answer_is_judged_as_it_comes() {
        fn judge(heard: &[u8]) -> Heard {
            match heard {
                b"no" => Heard::NotYet("it said no".to_owned()),
                [b'0'..=b'9', b'0'..=b'9', b'\n'] => Heard::Ready(Some("x".to_owned())),
                _ => Heard::Incomplete,
            }
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("its address");
        let server = std::thread::spawn(move || {
            for (first, second) in [("4", "2\n"), ("n", "o"), ("4", "")] {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut asked = [0; 3];
                stream.read_exact(&mut asked).expect("what it asks");
                assert_eq!(&asked, b"who");
                stream.write_all(first.as_bytes()).expect("it reads");
                // In a piece of its own.
                std::thread::sleep(Duration::from_millis(20));
                stream.write_all(second.as_bytes()).expect("it reads");
            }
        });
        let ask = || answer(address, b"who", judge, Instant::now() + Duration::from_secs(20));
        assert_eq!(ask(), Ok(Some("x".to_owned())));
        assert_eq!(ask(), Err("it said no".to_owned()));
        assert!(ask().is_err_and(|e| e.ends_with("without a whole answer")));
        server.join().expect("the server's own assertions");
    }
}
