//! What is asked of an HTTP service.

use serde::{Deserialize, Serialize};

use crate::{ConnectionPool, LoadError};

/// Target and Host together; a request is sent in one piece.
const REQUEST_BYTES_MAX: usize = 32 * 1024;

/// A load of HTTP requests: where to and what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpSpec {
    /// The connections.
    pub pool: ConnectionPool,
    /// What is sent on them.
    pub requests: HttpRequests,
}

/// HTTP/1.1 GET requests, all alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpRequests {
    /// Request target in origin form.
    pub target: String,
    /// Value of the Host field.
    pub host: String,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
}

impl HttpSpec {
    /// Checks that the specification makes sense; opening a session does so too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        self.pool.check()?;
        self.requests.check()
    }
}

impl HttpRequests {
    fn check(&self) -> Result<(), LoadError> {
        let refuse = |field, reason: &str| Err(LoadError::Spec { field, reason: reason.to_owned() });
        let graphic = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if !self.target.starts_with('/') || !graphic(&self.target) {
            return refuse("target", "must start with `/` and hold no spaces or other than ASCII characters");
        }
        if self.host.is_empty() || !graphic(&self.host) {
            return refuse("host", "must be a name or address without spaces");
        }
        if self.target.len() + self.host.len() > REQUEST_BYTES_MAX {
            return refuse("target", "is longer than 32 KiB together with the host");
        }
        if self.requests_per_connection == Some(0) {
            return refuse("requests_per_connection", "must be at least 1");
        }
        Ok(())
    }

    /// The request as bytes; `last` is the last one on its connection.
    pub(crate) fn bytes(&self, last: bool) -> Vec<u8> {
        // RFC 9112 section 9.6: a client that will send no more on a connection says so.
        let close = if last { "Connection: close\r\n" } else { "" };
        format!("GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: vtax\r\n{close}\r\n", self.target, self.host)
            .into_bytes()
    }
}
