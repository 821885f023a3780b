//! Streams for a controller that can't open any: it is in namespaces of its own, where there is neither the host's network nor its user's
//! ssh, srun or kubectl.
//!
//! [`serve_streams`] runs outside, in a process of its own, with an [`Engine`]. The controller has [`Outside`], and between them is a socket of
//! whole messages (`unix(7)`, SOCK_SEQPACKET). A request has descriptors beside it: those that become the carrier's standard streams, and its
//! life, on which it is said how the carrier ended, and by whose end it is ended. So nothing outlives the controller, however it ends.

use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use vtax_agent::streams::{Carrier, Host, Streams, WELL};

use crate::engine::{Engine, Machine};
use crate::error::HostsError;
use crate::list::HostSpec;

/// Longest message; that of a thousand hosts fits.
const MOST: usize = 1 << 17;
/// Descriptors beside a request: life, stream, errors.
const DESCRIPTORS: usize = 3;
/// A script whose stream was ended has so long to clear up, before what carries it is killed: a step of Slurm's is then, too.
const CLEAR_UP_WITHIN: Duration = Duration::from_secs(8);
/// A name is looked up within this, or the resolver doesn't answer.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(60);

/// What is asked for, with its descriptors in this order: life, then stream and errors where a stream is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
enum Request {
    /// The address that a name stands for.
    Address { name: String },
    /// A script on a host.
    Open { host: String, script: String },
}

/// The first word of the process outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hello {
    /// It has these hosts.
    Hosts(Vec<Host>),
    /// It has none, and ends.
    None { why: String, bad_input: bool },
}

/// Both ends of the socket: the controller's, and that of the process outside.
///
/// # Errors
///
/// Where the kernel refuses.
pub fn stream_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Whether the controller's end of the socket is gone.
#[must_use]
pub fn is_deserted(socket: &impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    matches!(poll(&mut fds, Some(&now)), Ok(1..))
}

/// Says that there are no hosts, and why.
///
/// # Errors
///
/// Where nobody hears it.
pub fn say_there_are_none(socket: &impl AsFd, error: &HostsError) -> io::Result<()> {
    let hello = Hello::None { why: vtax_sys::chain(error), bad_input: error.is_bad_input() };
    send(socket.as_fd(), &hello, &[])
}

/// Opens streams for whoever has the other end, until it is gone, and then ends those that are left. An engine without hosts of its own
/// reaches those that it is asked for by their names.
///
/// # Errors
///
/// Where the socket carries what it should not.
pub fn serve_streams(engine: &dyn Engine, socket: &OwnedFd) -> io::Result<()> {
    let host = |Machine { name, spec }: &Machine| Host {
        name: name.clone(),
        program: spec.program.clone(),
        network: match spec.network {
            Some(address) => address.to_string(),
            // A name that is made of an address has no colons.
            None if *name == spec.address.replace(':', "_") => spec.address.clone(),
            None => name.clone(),
        },
    };
    send(socket.as_fd(), &Hello::Hosts(engine.hosts().iter().map(host).collect()), &[])?;
    std::thread::scope(|scope| {
        while let Some((request, descriptors)) = receive::<Request>(socket)? {
            let mut descriptors = descriptors.into_iter();
            let Some(life) = descriptors.next().map(UnixStream::from) else { continue };
            let streams = descriptors.next().zip(descriptors.next());
            std::thread::Builder::new().name("carrier".into()).spawn_scoped(scope, move || {
                let words = match (request, streams) {
                    (Request::Address { name }, _) => address_of(&name),
                    (Request::Open { host, script }, Some((stream, errors))) => {
                        carry(engine, &host, &script, stream, errors, &life)
                    }
                    (Request::Open { .. }, None) => "a stream has two descriptors".to_owned(),
                };
                // Nobody may want to know any more.
                let _ = (&life).write_all(words.as_bytes());
            })?;
        }
        Ok(())
    })
}

/// The address that a name stands for here, or why there is none, as words that can't be taken for one.
fn address_of(name: &str) -> String {
    match (name, 0).to_socket_addrs().map(|mut all| all.next()) {
        Ok(Some(address)) => address.ip().to_string(),
        Ok(None) => format!("`{name}` resolves to no address"),
        Err(e) => format!("`{name}` resolves to nothing: {e}"),
    }
}

/// Carries a stream until either of its ends is gone; how that ended.
fn carry(
    engine: &dyn Engine,
    host: &str,
    script: &str,
    stream: OwnedFd,
    errors: OwnedFd,
    life: &UnixStream,
) -> String {
    let Some(machine) = machine(engine, host) else { return format!("{host} is none of the hosts") };
    let mut command = engine.command(&machine, script);
    let copies = stream.try_clone().and_then(|copy| Ok((copy, UnixStream::from(stream.try_clone()?))));
    let (copy, to_end) = match copies {
        Ok(copies) => copies,
        Err(e) => return e.to_string(),
    };
    // A group of its own: Ctrl-C at the terminal is for vtax, whose end is its stream's.
    command.stdin(Stdio::from(stream)).stdout(Stdio::from(copy)).stderr(Stdio::from(errors)).process_group(0);
    let spawned = command.spawn();
    let program = command.get_program().to_string_lossy().into_owned();
    // The command has the stream's descriptors, whose end has to be the carrier's.
    drop(command);
    match spawned.and_then(|mut child| wait(&mut child, life, &to_end)) {
        Ok(status) if status.success() => WELL.to_owned(),
        Ok(status) => format!("{program}: {status}"),
        Err(e) => format!("{program} can't be started: {e}"),
    }
}

/// The engine's host of this name. One without hosts takes any name as what ssh is to connect to.
fn machine(engine: &dyn Engine, name: &str) -> Option<Machine> {
    let hosts = engine.hosts();
    if hosts.is_empty() {
        let spec = HostSpec { name: name.to_owned(), address: name.to_owned(), ..HostSpec::default() };
        return Some(Machine { name: name.to_owned(), spec });
    }
    hosts.iter().find(|machine| machine.name == name).cloned()
}

/// Waits for the end of a carrier. Where nobody wants it any more its stream is ended, and it is killed should that not end it.
fn wait(child: &mut Child, life: &UnixStream, stream: &UnixStream) -> io::Result<ExitStatus> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut either = [PollFd::new(&process, PollFlags::IN), PollFd::new(life, PollFlags::IN)];
    while matches!(poll(&mut either, None), Err(Errno::INTR)) {}
    if either[0].revents().is_empty() {
        // It fails where the stream has ended by itself.
        let _ = stream.shutdown(Shutdown::Both);
        let within = Timespec { tv_sec: CLEAR_UP_WITHIN.as_secs().cast_signed(), tv_nsec: 0 };
        if !matches!(poll(&mut either[..1], Some(&within)), Ok(1..)) {
            child.kill()?;
        }
    }
    child.wait()
}

/// The streams that a process outside opens.
#[derive(Debug)]
pub struct Outside {
    socket: OwnedFd,
    hosts: Vec<Host>,
}

impl Outside {
    /// Waits until the process outside has its hosts.
    ///
    /// # Errors
    ///
    /// [`HostsError::Refused`] with what it said where it has none, [`HostsError::Stream`] where it is gone.
    pub fn meet(socket: OwnedFd) -> Result<Self, HostsError> {
        let gone = || HostsError::Stream("what opens streams to hosts has ended".to_owned());
        match receive::<Hello>(&socket).map_err(|e| HostsError::Stream(e.to_string()))?.ok_or_else(gone)?.0 {
            Hello::Hosts(hosts) => Ok(Self { socket, hosts }),
            Hello::None { why, bad_input } => Err(HostsError::Refused { why, bad_input }),
        }
    }

    fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<Carrier> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut all = vec![theirs.as_fd()];
        all.extend_from_slice(descriptors);
        send(self.socket.as_fd(), request, &all)?;
        Ok(Carrier::new(ours))
    }
}

impl Streams for Outside {
    fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    fn address(&self, name: &str) -> Result<IpAddr, String> {
        let asked = self.ask(&Request::Address { name: name.to_owned() }, &[]).map_err(|e| e.to_string())?;
        // An answer is no `well`, so that it is one of words.
        match asked.ended_within(LOOK_UP_WITHIN) {
            Some(Err(words)) => words.parse().map_err(|_| words),
            Some(Ok(())) | None => Err(format!("`{name}` isn't looked up")),
        }
    }

    fn open(&self, host: &str, script: &str, stream: OwnedFd, errors: OwnedFd) -> Result<Carrier, String> {
        let request = Request::Open { host: host.to_owned(), script: script.to_owned() };
        self.ask(&request, &[stream.as_fd(), errors.as_fd()]).map_err(|e| e.to_string())
    }
}

fn send(socket: BorrowedFd<'_>, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    // A whole message or none: of this kind of socket none is cut.
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message with its descriptors; `None` where the other end is gone.
fn receive<T: for<'de> Deserialize<'de>>(socket: &OwnedFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MOST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            got => break got?,
        }
    };
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    if got.flags.contains(ReturnFlags::TRUNC) {
        let reason = format!("more hosts than {} KiB have room for; give fewer hosts", MOST >> 10);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..got.bytes])?, descriptors)))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Command;

    use super::*;

    /// Hosts whose shell is this machine's.
    struct Here(Vec<Machine>);

    impl Engine for Here {
        fn hosts(&self) -> &[Machine] {
            &self.0
        }

        fn command(&self, host: &Machine, script: &str) -> Command {
            let mut command = Command::new("sh");
            command.env("HOST", &host.name).args(["-c", script]);
            command
        }

        fn end(&mut self) -> Result<(), HostsError> {
            Ok(())
        }
    }

    fn here(names: &[&str]) -> Here {
        let machine = |name: &&str| Machine {
            name: (*name).to_owned(),
            spec: HostSpec { name: (*name).to_owned(), ..HostSpec::default() },
        };
        Here(names.iter().map(machine).collect())
    }

    /// With streams that such an engine opens; all of it has ended when this returns.
    fn with(engine: &Here, work: impl FnOnce(&Outside)) {
        let (ours, theirs) = stream_sockets().unwrap();
        std::thread::scope(|scope| {
            let serving = scope.spawn(move || serve_streams(engine, &theirs));
            let outside = Outside::meet(ours).unwrap();
            work(&outside);
            drop(outside);
            serving.join().unwrap().unwrap();
        });
    }

    fn open(streams: &Outside, host: &str, script: &str) -> (UnixStream, Carrier) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let errors = std::fs::File::options().write(true).open("/dev/null").unwrap();
        (ours, streams.open(host, script, theirs.into(), errors.into()).unwrap())
    }

    const LONG: Duration = Duration::from_secs(120);

    #[test]
    fn a_stream_is_a_scripts_and_its_end_is_told() {
        with(&here(&["a", "b"]), |streams| {
            assert_eq!(streams.hosts().iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
            let (mut stream, carrier) = open(streams, "b", "read word; echo \"$word from $HOST\"");
            assert_eq!(carrier.ended_within(Duration::ZERO), None, "it waits for the word");
            stream.write_all(b"hello\n").unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert_eq!((said.as_str(), carrier.ended_within(LONG)), ("hello from b\n", Some(Ok(()))));
            let (_stream, carrier) = open(streams, "a", "exit 3");
            assert_eq!(carrier.ended_within(LONG), Some(Err("sh: exit status: 3".to_owned())));
            assert_eq!(carrier.ended_within(LONG), Some(Err("sh: exit status: 3".to_owned())), "and again");
            let (_stream, carrier) = open(streams, "c", "exit 3");
            assert_eq!(carrier.ended_within(LONG), Some(Err("c is none of the hosts".to_owned())));
        });
    }

    #[test]
    fn whoever_ends_a_carrier_ends_what_it_carries() {
        let directory = tempfile::tempdir().unwrap();
        let cleared = directory.path().join("cleared");
        let mut stays = String::new();
        with(&here(&[]), |streams| {
            // One that hears of it has time to clear up.
            let script = format!("echo; cat >/dev/null; sleep 0.2; echo $HOST >{}", cleared.display());
            let (mut stream, carrier) = open(streams, "any", &script);
            stream.read_exact(&mut [0]).unwrap();
            carrier.ender().unwrap().end();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "whoever waits for it is told at once");
            assert!(carrier.ended_within(LONG).is_some());
            // One that doesn't is killed.
            let (stream, carrier) = open(streams, "any", "echo $$; exec sleep 1000");
            std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut stays).unwrap();
            assert!(std::fs::exists(format!("/proc/{}", stays.trim())).unwrap());
            drop(carrier);
        });
        assert_eq!(std::fs::read_to_string(&cleared).unwrap(), "any\n");
        assert!(!stays.is_empty() && !std::fs::exists(format!("/proc/{}", stays.trim())).unwrap());
    }

    #[test]
    fn names_are_looked_up_outside() {
        with(&here(&[]), |streams| {
            assert_eq!(streams.address("127.0.0.7").unwrap().to_string(), "127.0.0.7");
            let wrong = streams.address("no such name").unwrap_err();
            assert!(wrong.starts_with("`no such name` resolves to nothing"), "{wrong}");
        });
    }

    #[test]
    fn more_hosts_than_a_message_holds_are_told() {
        let (ours, theirs) = stream_sockets().unwrap();
        let host = |n: usize| Host { name: format!("host-{n:060}"), ..Host::default() };
        send(theirs.as_fd(), &Hello::Hosts((0..1_500).map(host).collect()), &[]).unwrap();
        let told = Outside::meet(ours).unwrap_err().to_string();
        assert!(told.contains("128 KiB") && told.contains("fewer hosts"), "{told}");
    }

    #[test]
    fn why_there_are_no_hosts_is_told() {
        let (ours, theirs) = stream_sockets().unwrap();
        assert!(!is_deserted(&theirs));
        let error = HostsError::Program { program: "srun".to_owned(), reason: "no".to_owned() };
        say_there_are_none(&theirs, &error).unwrap();
        let told = Outside::meet(ours).unwrap_err();
        assert_eq!((told.to_string().as_str(), told.is_bad_input()), ("srun: no", false));
        assert!(is_deserted(&theirs));
        let (ours, theirs) = stream_sockets().unwrap();
        drop(theirs);
        assert!(Outside::meet(ours).unwrap_err().to_string().contains("has ended"));
    }
}
