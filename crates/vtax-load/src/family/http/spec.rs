//! What is asked of an HTTP service.

use serde::{Deserialize, Serialize};
use vtax_plan::model::{HttpScript, HttpTls, MOST_STREAMS, MOST_STREAMS_OF_ALL};

use crate::{ConnectionPool, LoadError, Verify};

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

/// Requests: GET, all alike, or those of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpRequests {
    /// Request target in origin form.
    pub target: String,
    /// Value of the Host field.
    pub host: String,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
    /// HTTP/2 with so many streams of a connection at once; `None`: HTTP/1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2_streams: Option<u32>,
    /// TLS; `None`: everything is sent in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<HttpTls>,
    /// What the server's certificate is checked for.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub verify: Verify,
    /// What is asked instead of a GET of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Box<HttpScript>>,
}

fn is_nothing(verify: &Verify) -> bool {
    *verify == Verify::Nothing
}

impl HttpSpec {
    /// Checks that the specification makes sense; opening a session does so too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        self.pool.check()?;
        self.requests.check()?;
        let streams = self.requests.http2_streams.unwrap_or(1);
        if u64::from(self.pool.connections) * u64::from(streams) > MOST_STREAMS_OF_ALL {
            let reason = format!("with all connections there would be over {MOST_STREAMS_OF_ALL} at once");
            return Err(LoadError::Spec { field: "streams", reason });
        }
        Ok(())
    }
}

impl HttpRequests {
    /// GET requests of a target, all alike, in the clear and over connections that stay.
    #[must_use]
    pub fn get(target: &str, host: &str) -> Self {
        Self {
            target: target.to_owned(),
            host: host.to_owned(),
            requests_per_connection: None,
            http2_streams: None,
            tls: None,
            verify: Verify::Nothing,
            script: None,
        }
    }

    /// Whether they are GET requests of HTTP/1.1 in the clear, all alike.
    pub(super) fn are_plain(&self) -> bool {
        self.tls.is_none() && self.script.is_none() && self.http2_streams.is_none()
    }

    fn check(&self) -> Result<(), LoadError> {
        let refuse = |field, reason: &str| Err(LoadError::Spec { field, reason: reason.to_owned() });
        let graphic = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if let Some(script) = &self.script {
            if script.has_websockets() && self.requests_per_connection.is_some() {
                return refuse(
                    "requests_per_connection",
                    "can't be given with WebSockets, which have connections for themselves",
                );
            }
            script.check().map_err(|(session, step, key, reason)| LoadError::Spec {
                field: "requests",
                reason: format!("request {}, step {}: {key}: {reason}", session + 1, step + 1),
            })?;
        } else if !self.target.starts_with('/') || !graphic(&self.target) {
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
        self.check_http2()
    }

    /// What HTTP/2 doesn't do here.
    fn check_http2(&self) -> Result<(), LoadError> {
        let Some(streams) = self.http2_streams else { return Ok(()) };
        let refuse = |field, reason| Err(LoadError::Spec { field, reason });
        if streams == 0 || streams > MOST_STREAMS {
            return refuse("streams", format!("{streams} is not between 1 and {MOST_STREAMS}"));
        }
        if self.tls.as_ref().is_some_and(|tls| !tls.alpn) {
            return refuse("alpn", "HTTP/2 over TLS is agreed on by ALPN (RFC 9113 section 3.2)".to_owned());
        }
        if let Some(Err((request, key, reason))) = self.script.as_ref().map(|script| script.check_http2()) {
            return refuse("requests", format!("request {}: {key}: {reason}", request + 1));
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
