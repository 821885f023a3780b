//! Ports: whether one is free, and who has it where it isn't.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use crate::error::ServiceError;
use crate::identity::Identity;

/// No more processes are looked through for the owner of a port.
const MOST_PROCESSES: usize = 10_000;

/// Sees that `address` can be listened on, by listening there for a moment.
///
/// Without this a start that finds its port taken looks like a success: the other server
/// would answer the readiness check.
pub(crate) fn check_free(service: &str, address: SocketAddr, datagrams: bool) -> Result<(), ServiceError> {
    let service = service.to_owned();
    let bound = TcpListener::bind(address).and_then(|_| match datagrams {
        true => UdpSocket::bind(address).map(drop),
        false => Ok(()),
    });
    match bound {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            Err(ServiceError::PortInUse { service, address, by: listener_on(address.port()) })
        }
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            Err(ServiceError::PortForbidden { service, address, source })
        }
        Err(source) => Err(ServiceError::NoAddress { service, address, source }),
    }
}

/// Makes a port below 1024 usable for a server without privileges.
///
/// A server in a nested user namespace has no capability over this network namespace, so the
/// namespace must let everybody listen there. It is a setting of the network namespace alone, and
/// writable only where that is our own.
pub(crate) fn allow(service: &str, address: SocketAddr, identity: &Identity) -> Result<(), ServiceError> {
    const FIRST_FREE_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    if identity.appear_as().is_none() {
        return Ok(());
    }
    let first = fs::read_to_string(FIRST_FREE_PORT).ok().and_then(|t| t.trim().parse::<u16>().ok());
    if first.is_some_and(|first| address.port() >= first) {
        return Ok(());
    }
    fs::write(FIRST_FREE_PORT, address.port().to_string()).map_err(|source| ServiceError::PortForbidden {
        service: service.to_owned(),
        address,
        source,
    })
}

/// Name and id of a process that listens on a TCP or UDP port of this network namespace.
fn listener_on(port: u16) -> Option<String> {
    // State of a TCP socket that listens, and of a UDP socket that is not connected.
    let tables = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|(name, state)| Some((fs::read_to_string(format!("/proc/net/{name}")).ok()?, state)))
        .flat_map(|(table, state)| listening_inodes(&table, port, state))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten().take(MOST_PROCESSES);
    for process in processes {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) else { continue };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        let holds = descriptors.flatten().any(|d| {
            fs::read_link(d.path()).is_ok_and(|l| inodes.iter().any(|i| l.as_os_str() == i.as_str()))
        });
        if holds {
            let comm = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (process {pid})", comm.trim()));
        }
    }
    None
}

/// Inodes of the sockets on `port` in a state, from a table such as `/proc/net/tcp` (`proc_net(5)`).
fn listening_inodes(table: &str, port: u16, listening: &str) -> Vec<u64> {
    let suffix = format!(":{port:04X}");
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let local = fields.nth(1)?;
            let state = fields.nth(1)?;
            let inode = fields.nth(5)?.parse().ok()?;
            (local.ends_with(&suffix) && state == listening).then_some(inode)
        })
        .collect()
}

/// Where a client on this node reaches a server that listens on `address`.
pub(crate) fn reach(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    match address {
        SocketAddr::V4(a) if a.ip().is_unspecified() => address.set_ip([127, 0, 0, 1].into()),
        SocketAddr::V6(a) if a.ip().is_unspecified() => address.set_ip([0, 0, 0, 0, 0, 0, 0, 1].into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_its_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let error = check_free("web", address, false).expect_err("it is taken");
        let text = error.to_string();
        assert!(text.contains(&format!("port {} is in use by ", address.port())), "{text}");
        assert!(text.contains(&format!("(process {})", std::process::id())), "{text}");
        drop(listener);
        check_free("web", address, false).expect("it is free again");
    }

    #[test]
    fn an_address_of_nobody_is_refused() {
        let address = "203.0.113.7:8080".parse().expect("an address");
        assert!(matches!(check_free("web", address, false), Err(ServiceError::NoAddress { .. })));
    }

    #[test]
    fn odd_tables_name_no_socket() {
        let table =
            "head\n 0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 4711 1\n 1: x:1F90 y 01\n :1F90\n";
        assert_eq!(listening_inodes(table, 8080, "0A"), [4711]);
        assert!(listening_inodes(table, 80, "0A").is_empty());
    }
}
