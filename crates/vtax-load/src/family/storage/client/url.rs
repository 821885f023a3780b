//! Parts of URLs.

use std::net::{SocketAddr, ToSocketAddrs};

/// The address of `HOST[:PORT]`, where an IPv6 address stands in brackets.
pub(in crate::family::storage) fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    if host.is_empty() {
        return Err("it has no host".to_owned());
    }
    let bare = match host.strip_prefix('[') {
        Some(rest) => !rest.contains("]:"),
        None => !host.contains(':'),
    };
    let with_port = if bare { format!("{host}:{port}") } else { host.to_owned() };
    let mut found = with_port.to_socket_addrs().map_err(|e| format!("{host}: {e}"))?;
    found.next().ok_or_else(|| format!("{host} has no address"))
}

/// A part of a URL with its `%40`s read.
pub(in crate::family::storage) fn decoded(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err("`%` is followed by two hexadecimal digits in a URL".to_owned());
        };
        out.push((high << 4 | low) as u8);
    }
    String::from_utf8(out).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports_and_brackets() {
        let of = |host: &str| resolve(host, 7).map(|address| address.to_string());
        assert_eq!(of("127.0.0.1").as_deref(), Ok("127.0.0.1:7"));
        assert_eq!(of("127.0.0.1:9").as_deref(), Ok("127.0.0.1:9"));
        assert_eq!(of("[::1]").as_deref(), Ok("[::1]:7"));
        assert_eq!(of("[::1]:9").as_deref(), Ok("[::1]:9"));
        assert!(of("").is_err() && of("::1").is_err() && of("127.0.0.1:x").is_err());
    }
}
