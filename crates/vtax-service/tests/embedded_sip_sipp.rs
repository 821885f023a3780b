//! The embedded SIP server between sipp's own caller and callee.

mod sip_client;

use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sip_client::{Client, Server};

/// Calls of one run: enough for retransmissions and reordering to happen, over in seconds.
const CALLS: &str = "200";

/// Runs sipp; it ends after [`CALLS`] calls, or after 30 s.
fn sipp(directory: &std::path::Path, arguments: &[&str]) -> Child {
    let limits = ["-nostdin", "-m", CALLS, "-timeout", "30s", "-timeout_error"];
    Command::new("sipp")
        .args(arguments)
        .args(limits)
        .current_dir(directory)
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sipp starts")
}

fn text(output: &Output) -> String {
    let tail = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text[text.len().saturating_sub(2_000)..].to_owned()
    };
    format!("{}\n{}", tail(&output.stdout), tail(&output.stderr))
}

/// Waits until sipp listens on a port of 127.0.0.1. Over TCP nothing is sent again: a first call that comes before would be lost.
fn until_listening(transport: &str, port: &str) {
    let (table, state) = if transport == "t1" { ("tcp", "0A") } else { ("udp", "07") };
    let own = format!(":{:04X} 00000000:0000 {state} ", port.parse::<u16>().unwrap());
    let until = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(format!("/proc/net/{table}")).unwrap().contains(&own) {
        assert!(Instant::now() < until, "sipp doesn't listen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Calls from sipp's built-in caller to its built-in callee through the proxy.
fn calls(transport: &str) {
    if !vtax_sys::require::installed(&["sipp"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(2);
    let [callee_port, caller_port] =
        [vtax_sys::free_port(), vtax_sys::free_port()].map(|port| port.to_string());
    let mut callee =
        sipp(directory.path(), &["-sn", "uas", "-i", "127.0.0.1", "-p", &callee_port, "-t", transport]);
    // Registered for where sipp listens, by a client of the test's own.
    let client = Client::new(&server);
    let parameter = if transport == "t1" { ";transport=tcp" } else { "" };
    let contact = format!("Contact: <sip:subs000007@127.0.0.1:{callee_port}{parameter}>\r\n");
    client.register_contact(7, &contact);
    until_listening(transport, &callee_port);
    let target: SocketAddr = server.address;
    let target = target.to_string();
    let mut arguments =
        vec!["-sn", "uac", &target, "-s", "subs000007", "-i", "127.0.0.1", "-p", &caller_port];
    arguments.extend(["-r", "100", "-d", "10", "-t", transport]);
    let caller = sipp(directory.path(), &arguments).wait_with_output().unwrap();
    if !caller.status.success() {
        let _ = callee.kill();
    }
    let callee = callee.wait_with_output().unwrap();
    assert!(caller.status.success(), "caller: {}\ncallee: {}", text(&caller), text(&callee));
    assert!(callee.status.success(), "callee: {}", text(&callee));
}

#[test]
fn calls_of_sipp_over_udp() {
    calls("u1");
}

#[test]
fn calls_of_sipp_over_tcp() {
    calls("t1");
}
