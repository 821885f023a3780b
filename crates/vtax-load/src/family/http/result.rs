//! What a load of HTTP found besides what all loads of requests do.

use serde::{Deserialize, Serialize};

use super::http2_found::Http2Details;
use crate::LatencyHistogram;
pub use crate::tls::TlsDetails as HttpTlsDetails;

/// What a load of HTTP found besides what all loads of requests do; what happened in the warm-up is left out. Loads of
/// GET requests in the clear, all alike, have none: nothing but what all loads count is looked at there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpDetails {
    /// From the beginning of connecting until a TCP connection is there.
    pub connect: LatencyHistogram,
    /// From the same beginning until the connection is closed, of those that are before the end.
    #[serde(default)]
    pub lifetime: LatencyHistogram,
    /// TLS; `None` in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<HttpTlsDetails>,
    /// Requests as they are; `None` where all are one GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<HttpExchanges>,
    /// HTTP/2; `None` where HTTP/1.1 is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Details>,
    /// Words for the first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    /// Answers of any status that came within the recorded time, whenever their requests began; `None` in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies_in_time: Option<u64>,
}

/// Requests as they are, and sessions of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpExchanges {
    /// From the last byte of the request's first piece until the first byte of the answer; where that was there before, from the
    /// request's first byte.
    pub response: LatencyHistogram,
    /// From the first byte of the answer until its last.
    pub transfer: LatencyHistogram,
    /// Bytes of bodies that came, as they came.
    pub body_bytes: u64,
    /// Bytes of heads that came, chunks' sizes and trailers included.
    pub head_bytes: u64,
    /// Bodies that were decoded.
    pub decoded: u64,
    /// Messages on WebSockets that came back as they were sent.
    #[serde(default)]
    pub messages: u64,
    /// Pings of servers on WebSockets, each of which is answered.
    #[serde(default)]
    pub pings: u64,
    /// Sessions that came to their end.
    pub sessions: u64,
    /// Sessions that ended before, as a request of theirs failed.
    pub broken_sessions: u64,
    /// By request of the plan, in its order; empty where there are more than are told apart.
    pub requests: Vec<HttpRequestDetails>,
}

/// One of the requests that a load is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpRequestDetails {
    /// Method and target, as written.
    pub name: String,
    /// Answers that were as expected.
    pub ok: u64,
    /// Answers that weren't.
    pub failed: u64,
    /// From the request's sending until its answer's last byte, of those that were as expected.
    pub times: LatencyHistogram,
}

impl HttpDetails {
    /// Adds what another worker found.
    pub(crate) fn add(&mut self, other: Self) {
        self.connect.add(&other.connect);
        self.lifetime.add(&other.lifetime);
        if let Some(more) = other.tls {
            self.tls.get_or_insert_default().add(more);
        }
        if let Some(more) = other.exchanges {
            self.exchanges.get_or_insert_default().add(more);
        }
        if let Some(more) = other.http2 {
            self.http2.get_or_insert_default().add(more);
        }
        self.first_failure = self.first_failure.take().or(other.first_failure);
        let replies = self.replies_in_time.into_iter().chain(other.replies_in_time);
        self.replies_in_time = replies.reduce(|sum, more| sum + more);
    }
}

impl HttpExchanges {
    fn add(&mut self, other: Self) {
        self.response.add(&other.response);
        self.transfer.add(&other.transfer);
        self.body_bytes += other.body_bytes;
        self.head_bytes += other.head_bytes;
        self.decoded += other.decoded;
        self.messages += other.messages;
        self.pings += other.pings;
        self.sessions += other.sessions;
        self.broken_sessions += other.broken_sessions;
        if self.requests.is_empty() {
            self.requests = other.requests;
            return;
        }
        for (own, more) in self.requests.iter_mut().zip(other.requests) {
            own.ok += more.ok;
            own.failed += more.failed;
            own.times.add(&more.times);
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn workers_add_up_and_come_back_as_they_were() {
        let of = |ms: u64| {
            let mut tls = HttpTlsDetails { failed: 1, ..HttpTlsDetails::default() };
            tls.full.record(Nanos::from_millis(ms));
            let request = HttpRequestDetails { name: "GET /".to_owned(), ok: ms, ..Default::default() };
            let exchanges = HttpExchanges { requests: vec![request], ..HttpExchanges::default() };
            HttpDetails {
                tls: Some(tls),
                exchanges: Some(exchanges),
                replies_in_time: Some(ms),
                ..HttpDetails::default()
            }
        };
        let mut sum = HttpDetails::default();
        sum.add(of(3));
        sum.add(of(5));
        let tls = sum.tls.as_ref().unwrap();
        assert_eq!((tls.done(), tls.failed), (2, 2));
        assert_eq!(sum.exchanges.as_ref().unwrap().requests[0].ok, 8);
        assert_eq!(sum.replies_in_time, Some(8));
        let text = serde_json::to_string(&sum).unwrap();
        assert_eq!(serde_json::from_str::<HttpDetails>(&text).unwrap(), sum);
    }
}
