//! Sending an export to a receiver: one POST over plain HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::ExportError;

/// How long a receiver may take to be reached, and to take or give anything.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest line of an answer that is read, in bytes.
const LINE: u64 = 8 << 10;

/// The address of a receiver: `http://HOST:PORT/BASE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Host and port as they go into the `Host` header.
    authority: String,
    /// What is connected to.
    target: String,
    /// The path that those of the protocol follow.
    base: String,
}

impl Receiver {
    /// Understands an address; without a port 4318 is meant, the protocol's own.
    ///
    /// # Errors
    ///
    /// [`ExportError::Address`], or [`ExportError::NoScheme`].
    pub fn parse(url: &str) -> Result<Self, ExportError> {
        let wrong = |reason| ExportError::Address { url: url.to_owned(), reason };
        if !url.contains("://") {
            return Err(ExportError::NoScheme { url: url.to_owned() });
        }
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(wrong("only http:// is understood; a collector on this host can send on over TLS"));
        };
        if rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(wrong("it has blanks or control characters in it"));
        }
        let (authority, base) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || authority.contains(['@', '?', '#']) || base.contains(['?', '#']) {
            return Err(wrong("HOST, HOST:PORT or HOST:PORT/PATH is expected after http://"));
        }
        // The colons of an IPv6 address are within brackets.
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let target = if has_port { authority.to_owned() } else { format!("{authority}:4318") };
        let base = base.trim_end_matches('/');
        let base = if base.is_empty() { String::new() } else { format!("/{base}") };
        Ok(Self { authority: authority.to_owned(), target, base })
    }

    /// Sends JSON to a path below the address, such as `/v1/metrics`.
    ///
    /// # Errors
    ///
    /// [`ExportError::Unreachable`], or [`ExportError::Refused`] where the answer's status is not one of success.
    pub fn post(&self, path: &str, body: &[u8]) -> Result<(), ExportError> {
        let path = format!("{}{path}", self.base);
        let url = format!("http://{}{path}", self.target);
        let status = self
            .exchange(&path, body)
            .map_err(|source| ExportError::Unreachable { url: url.clone(), source })?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
        match code {
            Some(200..=299) => Ok(()),
            _ => Err(ExportError::Refused { url, answer: status }),
        }
    }

    /// Sends a request and gives the first line of its answer.
    fn exchange(&self, path: &str, body: &[u8]) -> std::io::Result<String> {
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        for address in self.target.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return self.ask(&stream, path, body),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn ask(&self, mut stream: &TcpStream, path: &str, body: &[u8]) -> std::io::Result<String> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             User-Agent: vtax/{}\r\nConnection: close\r\n\r\n",
            self.authority,
            body.len(),
            env!("CARGO_PKG_VERSION")
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut line = String::new();
        BufReader::new(stream.take(LINE)).read_line(&mut line)?;
        if line.starts_with("HTTP/1.") {
            return Ok(line.trim_end().to_owned());
        }
        Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "the answer is no HTTP"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood() {
        let parts = |url: &str| Receiver::parse(url).map(|r| (r.target, r.base)).map_err(|e| e.to_string());
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(parts("http://localhost"), pair("localhost:4318", ""));
        assert_eq!(parts("http://localhost:80/"), pair("localhost:80", ""));
        assert_eq!(parts("http://[::1]/otlp/"), pair("[::1]:4318", "/otlp"));
        assert_eq!(parts("http://[::1]:9/a/b"), pair("[::1]:9", "/a/b"));
        for wrong in
            ["https://x", "x", "http://", "http://u@h", "http://h\r\nX: y", "http://h/?q", "http://a b"]
        {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
        let bare = parts("localhost:4318").unwrap_err();
        assert!(bare.ends_with("write http://localhost:4318"), "{bare}");
    }
}
