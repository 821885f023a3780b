//! Ports for tests and benchmarks.
//!
//! A port that was found free and let go again can be taken before the service that is to have it is up: by another
//! test's service, or, among the ephemeral ports, by any connection that the kernel gives a source port. So ports
//! here come from below the ephemeral ones, and each is claimed until the process ends.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;

use crate::sync::lock;

/// Below the ephemeral ports of a stock kernel (32768 to 60999), above those that services usually have.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// The claims of this process. The kernel gives them up when it ends, however it ends.
static CLAIMS: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// A port that no socket of this network namespace has, neither for TCP nor for UDP, and that no other caller gets
/// while this process lives.
///
/// # Panics
///
/// Where not one of 12,000 ports is free.
#[must_use]
pub fn free_port() -> u16 {
    // Programs that run at the same time begin at different places: claims rarely meet.
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    let ports = (0..COUNT).map(|i| FIRST + (start + i) % COUNT);
    let mut claims = lock(&CLAIMS);
    for port in ports {
        if let Some(claim) = claim(port) {
            claims.push(claim);
            return port;
        }
    }
    panic!("none of the ports {FIRST} to {} is free", FIRST + COUNT - 1);
}

/// A claim is a name among the abstract sockets, which belong to the network namespace as ports do.
fn claim(port: u16) -> Option<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("vtax-free-port-{port}")).ok()?;
    let claim = UnixDatagram::bind_addr(&name).ok()?;
    let any = (Ipv4Addr::UNSPECIFIED, port);
    (TcpListener::bind(any).is_ok() && UdpSocket::bind(any).is_ok()).then_some(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_and_never_a_held_one() {
        let first = free_port();
        let _held = UdpSocket::bind((Ipv4Addr::LOCALHOST, first + 1));
        let others: Vec<u16> = (0..20).map(|_| free_port()).collect();
        assert!(!others.contains(&first) && !others.contains(&(first + 1)), "{first}: {others:?}");
        let mut distinct = others.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), others.len());
        assert!(claim(first).is_none(), "claimed until the end");
    }
}
