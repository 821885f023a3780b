//! The URL of a load's target.

use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use super::target::first_address;

/// An `http:` or `https:` URL (RFC 9110 sections 4.2.1 and 4.2.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    tls: bool,
    host: String,
    port: u16,
    /// Path and query, the request target.
    pub(super) path: String,
}

impl FromStr for Url {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            _ => bail!("it must begin with http:// or https://"),
        };
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        ensure!(!authority.contains('@'), "user names in URLs are not supported");
        ensure!(!path.contains('#'), "a fragment (#...) is never sent to a server; leave it away");
        ensure!(path.bytes().all(|b| b.is_ascii_graphic()), "spaces and non-ASCII must be %-encoded");
        // The colons of an IPv6 address are inside its brackets.
        let port_at = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
        let (host, port) = match port_at {
            Some(at) => {
                let port = &authority[at + 1..];
                (
                    &authority[..at],
                    port.parse()
                        .ok()
                        .filter(|p| *p > 0)
                        .with_context(|| format!("`{port}` is not a port"))?,
                )
            }
            None => (authority, default_port(tls)),
        };
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        ensure!(!host.is_empty(), "the host is missing");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, host: host.to_owned(), port, path })
    }
}

const fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.host_field(), self.path)
    }
}

impl Url {
    /// Whether it is an `https:` URL.
    pub(super) const fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host's name or address.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The first address the host's name stands for.
    pub(super) fn resolve(&self) -> Result<SocketAddr> {
        first_address(&self.host, self.port).with_context(|| format!("looking up `{}`", self.host))
    }

    /// The value of the Host field.
    pub(super) fn host_field(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == default_port(self.tls) { host } else { format!("{host}:{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, host, path) in [
            ("http://a", "a", "/"),
            ("HTTP://a:8080/b?c=d", "a:8080", "/b?c=d"),
            ("http://[::1]:81/x", "[::1]:81", "/x"),
            ("http://[::1]/x", "[::1]", "/x"),
            ("http://127.0.0.1?q", "127.0.0.1", "/?q"),
            ("https://a:443/x", "a", "/x"),
            ("HTTPS://a:80", "a:80", "/"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host_field().as_str(), url.path.as_str()), (host, path));
        }
        assert_eq!(
            "http://[::1]:81/".parse::<Url>().unwrap().resolve().unwrap(),
            "[::1]:81".parse().unwrap()
        );
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "a",
            "ftp://a",
            "wss://a",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:x",
            "http://u@a",
            "http://a/b c",
            "http://a/#f",
            "http://a:99999",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
