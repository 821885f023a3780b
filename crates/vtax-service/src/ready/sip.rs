//! A SIP server is ready when it answers OPTIONS.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::http::parse_head;
use super::left::left;
use super::unheard;
use crate::port::reach;

/// A server that listens answers a request without an effect at once; one that doesn't is asked again.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// Asks for the server's abilities (RFC 3261 section 11); ready is 200, once its main process has
/// written its process id, which Kamailio does after all others run. Gives its name and version.
pub(super) fn ready(address: SocketAddr, pid_file: &Path, until: Instant) -> Result<Option<String>, String> {
    let written = std::fs::metadata(pid_file).is_ok_and(|m| m.len() > 0);
    if !written {
        return Err(format!("{} is not written", pid_file.display()));
    }
    let address = reach(address);
    let failed = |e: std::io::Error| format!("OPTIONS to {address}: {}", unheard(&e));
    let local: SocketAddr =
        SocketAddr::new(if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() }, 0);
    let socket = UdpSocket::bind(local).map_err(failed)?;
    socket.connect(address).map_err(failed)?;
    socket.set_read_timeout(Some(left(until).min(ANSWERS_WITHIN))).map_err(failed)?;
    let local = socket.local_addr().map_err(failed)?;
    socket.send(request(address, local).as_bytes()).map_err(failed)?;
    let mut buffer = [0; 4096];
    let received = socket.recv(&mut buffer).map_err(failed)?;
    let answer = String::from_utf8_lossy(&buffer[..received]);
    match parse_head(&answer) {
        ("200", server) => Ok(server.as_deref().and_then(name_and_version)),
        (status, _) => Err(format!("OPTIONS was answered with status `{status}`")),
    }
}

/// The request; port and address make its branch and tags unique among those asked before.
fn request(to: SocketAddr, from: SocketAddr) -> String {
    let port = from.port();
    format!(
        "OPTIONS sip:{to} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {from};branch=z9hG4bKready{port};rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:ready@{from}>;tag={port}\r\n\
         To: <sip:{to}>\r\n\
         Call-ID: ready-{port}@{from}\r\n\
         CSeq: 1 OPTIONS\r\n\
         Contact: <sip:ready@{from}>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// `kamailio (5.6.3 (x86_64/linux))`, as Kamailio writes it, is `kamailio/5.6.3`; anything else is
/// left as it is.
fn name_and_version(server: &str) -> Option<String> {
    let text = match server.split_once(" (") {
        Some((name, rest)) => {
            let version = rest.split([' ', ')']).next().unwrap_or("");
            format!("{name}/{version}")
        }
        None => server.to_owned(),
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_tell_their_version() {
        assert_eq!(name_and_version("kamailio (5.6.3 (x86_64/linux))"), Some("kamailio/5.6.3".into()));
        assert_eq!(name_and_version("vtax/0.1.0"), Some("vtax/0.1.0".into()));
        assert_eq!(name_and_version("x ("), Some("x/".into()));
        assert_eq!(name_and_version(""), None);
    }

    #[test]
    fn a_server_that_is_silent_or_refuses_is_not_ready() {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = silent.local_addr().expect("bound");
        let until = Instant::now() + Duration::from_millis(20);
        let reason = ready(address, Path::new("/proc/self/comm"), until).expect_err("nothing written");
        assert!(reason.contains("not written") || reason.contains("OPTIONS"), "{reason}");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "1\n").expect("its own");
        let reason = ready(address, file.path(), until).expect_err("it is silent");
        assert_eq!(reason, format!("OPTIONS to {address}: no answer in time"));
        // It ends with the test's process. The first request is that of who gave up above.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((_, from)) = silent.recv_from(&mut buffer) {
                let _ = silent.send_to(b"SIP/2.0 503 Not yet\r\n\r\n", from);
            }
        });
        // Who isn't answered in time asks again, as `until_ready` does.
        let until = Instant::now() + Duration::from_secs(60);
        let reason = loop {
            let reason = ready(address, file.path(), until).expect_err("503");
            if !reason.ends_with("no answer in time") || Instant::now() >= until {
                break reason;
            }
        };
        assert!(reason.contains("`503`"), "{reason}");
    }
}
