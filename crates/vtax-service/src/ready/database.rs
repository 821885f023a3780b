//! A database is ready when it greets.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use super::left::left;
use super::unheard;

/// Length of a packet's header: three bytes of length, one of sequence.
const HEADER: usize = 4;
/// No greeting is longer.
const LONGEST_GREETING: usize = 1024;

/// Connects to the socket; ready is a greeting of protocol version 10. Gives the server's name and
/// version.
pub(super) fn ready(socket: &Path, until: Instant) -> Result<Option<String>, String> {
    let failed = |e: io::Error| format!("connecting to {}: {e}", socket.display());
    let silent = |e: io::Error| format!("the greeting on {}: {}", socket.display(), unheard(&e));
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(left(until))).map_err(failed)?;
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).map_err(silent)?;
    let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
    let mut greeting = vec![0; length.min(LONGEST_GREETING)];
    stream.read_exact(&mut greeting).map_err(silent)?;
    version(&greeting).map(Some).ok_or_else(|| "the database refused the connection".to_owned())
}

/// Name and version from a greeting (MariaDB's `Handshake Packet`): the protocol's version, then
/// text such as `5.5.5-10.11.19-MariaDB-0+deb12u1`, whose first part is there for old clients only.
fn version(greeting: &[u8]) -> Option<String> {
    let (10, rest) = greeting.split_first()? else { return None };
    let end = rest.iter().position(|b| *b == 0)?;
    let text = String::from_utf8_lossy(&rest[..end]);
    let text = text.strip_prefix("5.5.5-").unwrap_or(&text);
    let (number, name) = text.split_once('-').unwrap_or((text, "MySQL"));
    let name = name.split(['-', '+']).next().unwrap_or(name);
    Some(format!("{name}/{number}").chars().filter(|c| !c.is_control()).take(100).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_database_that_greets_nobody_is_told_so() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let greeting = format!("the greeting on {}: ", socket.display());
        let told = ready(&socket, Instant::now() + Duration::from_millis(20)).expect_err("it is silent");
        assert_eq!(told, format!("{greeting}no answer in time"));
        let closing = std::thread::spawn(move || {
            // The first is who gave up above.
            for _ in 0..2 {
                drop(listener.accept().expect("a client"));
            }
        });
        let told = ready(&socket, Instant::now() + Duration::from_secs(20)).expect_err("it says nothing");
        closing.join().expect("it closed both");
        assert_eq!(told, format!("{greeting}it closed the connection without a whole answer"));
    }

    #[test]
    fn greetings_are_read_whatever_they_are() {
        let of = |bytes: &[u8]| version(bytes);
        assert_eq!(of(b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1\0junk"), Some("MariaDB/10.11.19".into()));
        assert_eq!(of(b"\x0a8.0.36\0"), Some("MySQL/8.0.36".into()));
        assert_eq!(of(b"\x0a11.4.2-MariaDB\0"), Some("MariaDB/11.4.2".into()));
        assert_eq!(of(b"\xff\x10\x04Too many connections"), None);
        assert_eq!(of(b"\x0a5.5.5-10"), None);
        assert_eq!(of(b""), None);
    }
}
