//! Targets as the command line has them: a host by its name or address, with or without a port.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::Context;

/// Host and port of `HOST`, `HOST:PORT`, `[IPV6]` and `[IPV6]:PORT`. An IPv6 address without a port needs no brackets.
pub(super) fn split(text: &str) -> (&str, Option<u16>) {
    if text.parse::<IpAddr>().is_ok() {
        return (text, None);
    }
    let with_port = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let (host, port) = with_port.map_or((text, None), |(host, port)| (host, Some(port)));
    (host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host), port)
}

/// The first address that a target stands for; where it names no port, with this one.
pub(super) fn resolve(text: &str, default_port: u16) -> Result<SocketAddr> {
    let (host, port) = split(text);
    first_address(host, port.unwrap_or(default_port))
}

/// The same, with an error that names the target.
pub(super) fn look_up(text: &str, default_port: u16) -> anyhow::Result<SocketAddr> {
    resolve(text, default_port).with_context(|| format!("looking up `{text}`"))
}

/// The first address that a host's name stands for.
pub(super) fn first_address(host: &str, port: u16) -> Result<SocketAddr> {
    let mut found = (host, port).to_socket_addrs()?;
    found.next().ok_or_else(|| Error::new(ErrorKind::NotFound, "it has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_with_and_without_port() {
        for (text, host, port) in [
            ("a.test", "a.test", None),
            ("a.test:80", "a.test", Some(80)),
            ("127.0.0.1", "127.0.0.1", None),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:80", "::1", Some(80)),
            ("a:x", "a:x", None),
            ("", "", None),
        ] {
            assert_eq!(split(text), (host, port), "{text}");
        }
        assert_eq!(resolve("127.0.0.1", 5202).unwrap(), "127.0.0.1:5202".parse().unwrap());
        assert_eq!(resolve("127.0.0.1:80", 5202).unwrap(), "127.0.0.1:80".parse().unwrap());
        assert_eq!(resolve("[::1]", 5202).unwrap(), "[::1]:5202".parse().unwrap());
        assert_eq!(resolve("[::1]:80", 5202).unwrap(), "[::1]:80".parse().unwrap());
        assert!(resolve("127.0.0.1:x", 5202).is_err());
        assert!(resolve("", 5202).is_err());
    }
}
