//! Commands, as a client writes them.

use std::io::Write;
use std::net::SocketAddr;

/// Appends a command. Line ends in the argument, which would begin another command, are left out.
pub fn command(out: &mut Vec<u8>, verb: &str, argument: &str) {
    out.extend_from_slice(verb.as_bytes());
    if !argument.is_empty() {
        out.push(b' ');
        out.extend(argument.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `EPRT |1|127.0.0.1|6275|` (RFC 2428 section 2).
pub fn eprt(out: &mut Vec<u8>, address: SocketAddr) {
    let family = if address.is_ipv4() { 1 } else { 2 };
    // Writing to a vector doesn't fail.
    let _ = write!(out, "EPRT |{family}|{}|{}|\r\n", address.ip(), address.port());
}

/// Appends `PORT 127,0,0,1,24,131`; false for an address that it can't name, where nothing is appended.
pub fn port(out: &mut Vec<u8>, address: SocketAddr) -> bool {
    let SocketAddr::V4(v4) = address else { return false };
    let ([a, b, c, d], [high, low]) = (v4.ip().octets(), v4.port().to_be_bytes());
    let _ = write!(out, "PORT {a},{b},{c},{d},{high},{low}\r\n");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_single_lines() {
        let mut out = Vec::new();
        command(&mut out, "USER", "a b\r\nDELE x\0");
        command(&mut out, "EPSV", "");
        eprt(&mut out, "127.0.0.1:6275".parse().unwrap());
        eprt(&mut out, "[::1]:1".parse().unwrap());
        assert!(port(&mut out, "127.0.0.1:6275".parse().unwrap()));
        assert!(!port(&mut out, "[::1]:1".parse().unwrap()));
        let expected = "USER a bDELE x\r\nEPSV\r\nEPRT |1|127.0.0.1|6275|\r\nEPRT |2|::1|1|\r\nPORT 127,0,0,1,24,131\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
