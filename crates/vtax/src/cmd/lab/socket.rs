//! How other commands reach a lab that stands: a socket without a file, which ends with the lab.
//!
//! Its name is in the abstract namespace of unix(7), so nothing is left of it. Anybody on the host may connect; whoever is
//! not the user that owns the lab is sent away.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use vtax_router::CommandOutcome;
use vtax_topology::event::Event;
use vtax_units::Nanos;

use crate::exit::{Classify, Failure};

/// The name of a lab that was given none.
pub(super) const USUAL: &str = "lab";
/// The longest question and answer, in bytes.
const LONGEST: u64 = 16 << 20;
/// Time that a lab has to answer: a router's daemons may have to start.
const ANSWERS_WITHIN: Duration = Duration::from_secs(180);
/// Time that whoever connects has to ask.
const ASKS_WITHIN: Duration = Duration::from_secs(5);

/// A question to a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(super) enum Ask {
    /// Run a command in a node.
    Exec {
        /// The node.
        node: String,
        /// Program and arguments.
        command: Vec<String>,
    },
    /// Capture packets at an interface of a node.
    Capture {
        /// The node.
        node: String,
        /// Its interface.
        interface: String,
        /// For how long.
        duration: Nanos,
    },
    /// Break or mend something.
    Fault {
        /// What is broken or mended.
        event: Event,
    },
    /// Take the lab down.
    Down,
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum Answer {
    /// Done.
    Done,
    /// A command ended.
    Executed(CommandOutcome),
    /// Packets were captured.
    Captured {
        /// A file of libpcap's, in base64.
        pcap: String,
    },
    /// It could not be done.
    Refused {
        /// Why not, in words.
        why: String,
    },
}

fn address(name: &str) -> Result<SocketAddr, Failure> {
    let plain = !name.is_empty()
        && name.len() <= 40
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if !plain {
        let what = "a lab's name is 1 to 40 letters, digits, `-` and `_`";
        return Err(anyhow::anyhow!("{what}, not `{name}`")).bad_input();
    }
    let user = rustix::process::geteuid().as_raw();
    SocketAddr::from_abstract_name(format!("vtax-lab-{user}-{name}"))
        .context("name the lab's socket")
        .host_cannot()
}

/// Opens the socket of a lab of this name.
pub(super) fn listen(name: &str) -> Result<UnixListener, Failure> {
    UnixListener::bind_addr(&address(name)?)
        .with_context(|| format!("a lab `{name}` stands already; give this one another name with --lab NAME"))
        .bad_input()
}

/// Asks the lab of this name.
pub(super) fn ask(name: &str, ask: &Ask) -> Result<Answer, Failure> {
    let stream = UnixStream::connect_addr(&address(name)?)
        .with_context(|| format!("no lab `{name}` stands; `vtax lab up` makes one"))
        .bad_input()?;
    let spoken = || -> anyhow::Result<Answer> {
        // Any user may have bound that name while no lab stood, and would be told what is to run in it.
        anyhow::ensure!(is_own(&stream), "what answers under its name is another user's");
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        say(&stream, ask)?;
        hear(&stream)
    };
    spoken().context("ask the lab").host_cannot()
}

/// Waits until the lab of this name, which is going down, is gone with its socket.
pub(super) fn wait_until_gone(name: &str, within: Duration) -> Result<(), Failure> {
    let (address, until) = (address(name)?, Instant::now() + within);
    // Whoever connects waits without being let in any more, and is told when the socket is closed.
    while let Ok(stream) = UnixStream::connect_addr(&address) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let what = format!("the lab `{name}` is still going down after {} s", within.as_secs());
            return Err(anyhow::anyhow!(what)).host_cannot();
        }
        stream.set_read_timeout(Some(left)).context("wait for the lab's end").host_cannot()?;
        // Whatever that says, the next attempt tells.
        let _ = (&stream).read(&mut [0]);
    }
    Ok(())
}

fn say(mut stream: &UnixStream, what: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}

fn hear<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> anyhow::Result<T> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
    anyhow::ensure!(line.ends_with('\n'), "the other side said nothing, or too much");
    Ok(serde_json::from_str(&line)?)
}

/// Whether the other side is this user, too. In a user namespace both are seen as its users.
fn is_own(stream: &UnixStream) -> bool {
    vtax_sys::peer::peer_user(stream).is_ok_and(|user| user == rustix::process::geteuid().as_raw())
}

/// Hears one question from who has connected and answers it. Who is another user is sent away.
pub(super) fn serve(stream: &UnixStream, answer: impl FnOnce(Ask) -> Answer) {
    let answered = || -> anyhow::Result<()> {
        anyhow::ensure!(is_own(stream), "the lab is another user's");
        stream.set_read_timeout(Some(ASKS_WITHIN))?;
        let ask = hear(stream)?;
        say(stream, &answer(ask))
    };
    if let Err(error) = answered() {
        // Who has gone away hears nothing.
        let _ = say(stream, &Answer::Refused { why: format!("{error:#}") });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_question_is_answered_once() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let asking = std::thread::spawn(move || {
            say(&ours, &Ask::Exec { node: "r1".to_owned(), command: vec!["ip".to_owned()] }).unwrap();
            hear::<Answer>(&ours).unwrap()
        });
        serve(&theirs, |ask| match ask {
            Ask::Exec { node, .. } => {
                let status = "exit code 0".to_owned();
                Answer::Executed(CommandOutcome { success: true, status, output: node })
            }
            other => Answer::Refused { why: format!("{other:?}") },
        });
        let Answer::Executed(done) = asking.join().unwrap() else { panic!("not executed") };
        assert_eq!(done.output, "r1");
    }

    #[test]
    fn a_lab_is_gone_when_its_socket_is() {
        let name = format!("gone-{}", std::process::id());
        let listener = listen(&name).unwrap();
        assert!(wait_until_gone(&name, Duration::from_millis(20)).is_err(), "it stands");
        let closed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // One that connected before it was asked to go down is let in.
                drop(listener.accept());
                std::thread::sleep(Duration::from_millis(50));
                closed.store(true, Ordering::SeqCst);
                drop(listener);
            });
            wait_until_gone(&name, Duration::from_secs(60)).unwrap();
            assert!(closed.load(Ordering::SeqCst), "it was still there");
        });
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&ours).write_all(b"hello\n").unwrap();
        serve(&theirs, |_| Answer::Done);
        let Answer::Refused { why } = hear::<Answer>(&ours).unwrap() else { panic!("not refused") };
        assert!(!why.is_empty());
    }
}
