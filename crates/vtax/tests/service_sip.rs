//! The embedded SIP server as a service of the catalogue, and on the command line.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use vtax_plan::model::{Service, ServiceKind, SipOptions, Subscribers};
use vtax_service::{RunningService, StartContext};
use vtax_testkit::programs::Killed;
use vtax_units::Nanos;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

fn subscribers() -> Subscribers {
    Subscribers {
        count: 1_000,
        public: "subs%06d".into(),
        private: "private%d@ims.test".into(),
        // What a command line might take for an option.
        password: "--workers=%d".into(),
        realm: "realm.test".into(),
        domain: "ims.test".into(),
    }
}

/// Asks over a datagram; gives the status line.
fn ask(to: SocketAddr, request: &str) -> String {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let local = socket.local_addr().unwrap();
    let text = request.replace("{local}", &local.to_string());
    socket.send_to(text.as_bytes(), to).unwrap();
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).lines().next().unwrap_or_default().to_owned()
}

fn request(method: &str, user: &str) -> String {
    format!(
        "{method} sip:{user}ims.test SIP/2.0\r\nVia: SIP/2.0/UDP {{local}};branch=z9hG4bK{method};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@ims.test>;tag=a\r\nTo: <sip:{user}ims.test>\r\nCall-ID: {method}\r\n\
         CSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn the_catalogue_starts_and_stops_it() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service {
        name: "sip".into(),
        kind: ServiceKind::Sip(SipOptions { port: vtax_sys::free_port(), workers: Some(2), tls: false }),
        ready_timeout: Nanos(10_000_000_000),
        stop_timeout: Nanos(5_000_000_000),
    };
    let context = StartContext {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        directory: directory.path().join("service"),
        cpus: 2,
        vtax: PathBuf::from(VTAX),
        die_with_starter: false,
        prepared: None,
        disk: None,
        call_off: None,
    };
    let running = RunningService::start(&service, Some(&subscribers()), &context, |_| ()).unwrap();
    assert!(running.version().starts_with("vtax/"), "{}", running.version());
    assert_eq!(ask(running.address(), &request("OPTIONS", "")), "SIP/2.0 200 OK");
    assert_eq!(ask(running.address(), &request("REGISTER", "subs000999@")), "SIP/2.0 401 Unauthorized");
    assert_eq!(ask(running.address(), &request("MESSAGE", "subs001000@")), "SIP/2.0 404 Not Found");
    let stopped = running.stop().unwrap();
    assert!(!stopped.killed, "SIGTERM is enough");
    let without = RunningService::start(&service, None, &context, |_| ()).map(|_| ()).unwrap_err();
    assert!(without.to_string().contains("subscribers"), "{without}");
}

#[test]
fn the_command_line_says_where_it_listens() {
    let mut child = Command::new(VTAX)
        .args(["service", "sip", "--listen", "127.0.0.1:0", "--domain", "ims.test"])
        .stdout(Stdio::piped())
        .spawn()
        .map(Killed::new)
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on sip:").unwrap_or_else(|| panic!("{line}"));
    let answer = ask(address.parse().unwrap(), &request("OPTIONS", ""));
    drop(child);
    assert_eq!(answer, "SIP/2.0 200 OK");
    let refused = Command::new(VTAX).args(["service", "sip", "--public-format", "same"]).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("%06d"), "{text}");
}
