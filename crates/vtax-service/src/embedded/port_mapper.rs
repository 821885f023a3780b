//! A port mapper that keeps nothing (RFC 1833): servers that insist on being registered start with it, and clients are told ports
//! elsewhere.
//!
//! It listens on the socket at which a system's own does (`rpcbind`), in a `/run` that is a node's own. Where one listens already,
//! it doesn't start.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use vtax_wire::rpc::{self, Called, Outcome, Record, RpcError};
use vtax_wire::xdr::word;

/// Where programs look for it; a link to `/run` leads here from `/var/run`.
pub const SOCKET: &str = "/run/rpcbind.sock";
/// What the process says when it listens.
pub const READY: &str = "listening on ";
/// Longest call.
const CALL_BYTES: usize = 8 << 10;
/// The port mapper's own number.
const PROGRAM: u32 = 100_000;

/// Why it doesn't serve.
#[derive(Debug, thiserror::Error)]
#[error("listen on {path}: is a port mapper running?")]
pub struct PortMapperError {
    path: PathBuf,
    source: io::Error,
}

/// Serves until the process is ended. `ready` is called once it listens.
///
/// # Errors
/// It can't listen there, or another does.
pub fn serve(path: &Path, ready: impl FnOnce(&Path)) -> Result<(), PortMapperError> {
    let failed = |source| PortMapperError { path: path.to_owned(), source };
    let listener = match UnixListener::bind(path) {
        // What a process that was killed left.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        }
        other => other,
    }
    .map_err(failed)?;
    ready(path);
    loop {
        let (stream, _) = listener.accept().map_err(failed)?;
        // Whoever is left without an answer sees that the connection ends.
        let _ = thread::Builder::new().name("port-mapper".into()).spawn(move || answer_all(stream));
    }
}

/// Answers a connection's calls until it ends, or makes no sense.
fn answer_all(mut stream: UnixStream) -> Option<()> {
    let mut input = vec![0; 2 * CALL_BYTES];
    let mut filled = 0;
    loop {
        match rpc::record(&mut input[..filled], CALL_BYTES).ok()? {
            Record::Incomplete => {
                // The longest call has room, so that there is always some left.
                let got = stream.read(&mut input[filled..]).ok().filter(|got| *got > 0)?;
                filled += got;
            }
            Record::Whole { message, consumed } => {
                let reply = reply(&input[message]).ok()?;
                stream.write_all(&reply).ok()?;
                input.copy_within(consumed..filled, 0);
                filled -= consumed;
            }
        }
    }
}

/// The reply to a call: everything can be registered and unregistered, and nothing is known.
fn reply(call: &[u8]) -> Result<Vec<u8>, RpcError> {
    const DONE: u32 = 1;
    const NOTHING: u32 = 0;
    let Called { xid, procedure, .. } = rpc::called(call)?;
    let (outcome, result) = match (procedure.program, procedure.version, procedure.number) {
        (PROGRAM, 2..=4, 0) => (Outcome::Done, None),
        // SET, UNSET.
        (PROGRAM, 2..=4, 1 | 2) => (Outcome::Done, Some(DONE)),
        // GETPORT or GETADDR: a number, or the length of a text.
        (PROGRAM, 2..=4, 3) => (Outcome::Done, Some(NOTHING)),
        (PROGRAM, 2..=4, _) => (Outcome::NoProcedure, None),
        (PROGRAM, ..) => (Outcome::OnlyVersion(3), None),
        _ => (Outcome::NoProgram, None),
    };
    let mut out = Vec::with_capacity(64);
    let begin = rpc::begin_reply(&mut out, xid, outcome);
    result.into_iter().for_each(|value| word(&mut out, value));
    rpc::end_call(&mut out, begin, 0);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use vtax_wire::rpc::Procedure;

    use super::*;

    fn call(xid: u32, program: u32, version: u32, number: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let begin = rpc::begin_call(&mut out, xid, Procedure { program, version, number }, None);
        out.extend_from_slice(&[0; 32]);
        rpc::end_call(&mut out, begin, 0);
        out
    }

    #[test]
    fn everything_is_registered_and_nothing_known() {
        let results = |version, number| {
            let reply = reply(&call(7, PROGRAM, version, number)[4..]).unwrap();
            let mut results = rpc::results(&reply[4..])?;
            Ok::<_, RpcError>(results.word().ok())
        };
        for version in 2..=4 {
            assert_eq!(results(version, 0), Ok(None));
            assert_eq!((results(version, 1), results(version, 2)), (Ok(Some(1)), Ok(Some(1))));
            assert_eq!(results(version, 3), Ok(Some(0)));
            assert_eq!(results(version, 5), Err(RpcError::NotDone(3)));
        }
        assert_eq!(results(5, 1), Err(RpcError::ProgramVersion(3, 3)));
        let other = reply(&call(7, 100_003, 3, 1)[4..]).unwrap();
        assert_eq!(rpc::results(&other[4..]).err(), Some(RpcError::Program));
        assert!(reply(&other[4..]).is_err(), "a reply is no call");
    }

    #[test]
    fn connections_are_served_until_they_make_no_sense() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let at = path.clone();
        // Ends with the test's process.
        thread::spawn(move || serve(&at, |_| ()));
        let until = Instant::now() + Duration::from_secs(10);
        let connect = || loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        let mut stream = connect();
        // Two calls at once, torn in their middle.
        let calls = [call(7, PROGRAM, 3, 1), call(8, PROGRAM, 3, 2)].concat();
        let (begin, rest) = calls.split_at(100);
        stream.write_all(begin).unwrap();
        stream.write_all(rest).unwrap();
        let mut replies = [0; 2 * 32];
        stream.read_exact(&mut replies).unwrap();
        assert_eq!(rpc::answered(&replies[4..32]), Ok(7));
        assert_eq!(rpc::answered(&replies[36..]), Ok(8));
        assert!(serve(&path, |_| ()).is_err(), "another listens");
        let left = directory.path().join("left");
        drop(UnixListener::bind(&left).unwrap());
        let (to, ready) = std::sync::mpsc::channel();
        thread::spawn(move || serve(&left, |_| to.send(()).unwrap()));
        ready.recv_timeout(Duration::from_secs(10)).unwrap();
        let mut stream = connect();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(stream.read(&mut replies).unwrap_or(0), 0);
    }
}
