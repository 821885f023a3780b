//! SIPp as the other end.

use std::thread;
use std::time::{Duration, Instant};

use vtax_plan::model::SipTransport;

/// Longest time until SIPp is there, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until somebody takes at a port of loopback what comes over this transport.
pub(crate) fn until_there(port: u16, transport: SipTransport) {
    let (table, state) = if transport == SipTransport::Udp { ("udp", "07") } else { ("tcp", "0A") };
    // As the kernel writes 127.0.0.1.
    let address = format!("0100007F:{port:04X}");
    let is_there = || {
        let sockets = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap();
        // A number, both ends' addresses, and a state: of UDP without another end, or of a TCP listener.
        let fits = |words: &[&str]| words.get(1) == Some(&address.as_str()) && words.get(3) == Some(&state);
        sockets.lines().any(|line| fits(&line.split_whitespace().collect::<Vec<_>>()))
    };
    let until = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < until, "nobody is at port {port} of {table}");
        thread::sleep(Duration::from_millis(20));
    }
}
