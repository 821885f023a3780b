//! HTTP: web servers and workloads.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

use super::script::HttpScript;
use crate::tls::TlsVersion;

/// Options of the web servers of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebOptions {
    /// TCP port.
    pub port: u16,
    /// Worker threads or processes; `None`: one per CPU of the environment.
    pub workers: Option<u32>,
    /// It speaks TLS, and nothing else, with a certificate made at its start. The workload says so: see
    /// [`ServiceKind::for_workload`](crate::model::ServiceKind::for_workload).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// It speaks HTTP/2; over TLS by ALPN, else with prior knowledge. The workload says so too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// Of Apache httpd: what becomes of its connections.
    #[serde(default, skip_serializing_if = "Mpm::is_event")]
    pub mpm: Mpm,
    /// It also serves `/page/ROWS`, rendered by PHP-FPM at each request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub php: bool,
}

impl WebOptions {
    /// As plans have them without options, on this port.
    #[must_use]
    pub const fn on(port: u16) -> Self {
        Self { port, workers: None, tls: false, http2: false, mpm: Mpm::Event, php: false }
    }

    /// Connections that Apache httpd serves at once with so many CPUs, where each holds a thread or a process; `None` where none
    /// does, or it isn't known.
    #[must_use]
    pub fn most_held(&self, cpus: Option<u32>) -> Option<u32> {
        match self.mpm {
            Mpm::Event => None,
            Mpm::Worker => Some(self.workers.or(cpus)?.saturating_mul(APACHE_THREADS)),
            Mpm::Prefork => Some(self.workers.unwrap_or(PREFORK_PROCESSES)),
        }
    }

    /// Apache httpd in a few words.
    pub(crate) fn apache_words(&self) -> String {
        self.words(&format!("Apache httpd, {} MPM", self.mpm.word()))
    }

    /// A server of this name in a few words.
    pub(crate) fn words(&self, name: &str) -> String {
        let php = if self.php { ", PHP-FPM" } else { "" };
        format!("{name}{php}, private configuration")
    }

    /// Debian's packages of a server of which this is the first; PHP's is the last.
    pub(crate) fn packages(&self, all: &'static [&'static str]) -> &'static [&'static str] {
        match all {
            [without @ .., _] if !self.php => without,
            _ => all,
        }
    }
}

/// Processes of Apache's prefork MPM where a plan doesn't say: as many as Debian's configuration allows.
pub const PREFORK_PROCESSES: u32 = 150;
/// Threads of each process of its other MPMs.
pub const APACHE_THREADS: u32 = 128;

/// What becomes of the connections of Apache httpd: its multi-processing module (MPM).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mpm {
    /// A few processes of many threads; a connection without a request holds none of them.
    #[default]
    Event,
    /// The same, and a connection holds a thread until it ends.
    Worker,
    /// A process for each connection.
    Prefork,
}

impl Mpm {
    /// Its name in plans and in Apache's own modules.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Worker => "worker",
            Self::Prefork => "prefork",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_event(&self) -> bool {
        *self == Self::Event
    }
}

/// Most connections of one load: they go from one address to one other, and of the 65,535 ports some are
/// taken or kept.
pub const MOST_CONNECTIONS: u32 = 60_000;

/// Most streams of a connection at once.
pub const MOST_STREAMS: u32 = 1000;
/// Most streams of a load's connections together.
pub const MOST_STREAMS_OF_ALL: u64 = 1_000_000;

/// An HTTP workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpWorkload {
    /// Request target in origin form, `/bytes/100` (RFC 9112 section 3.2.1).
    pub target: String,
    /// Connections; in an open loop the most that may be open at once.
    pub connections: u32,
    /// Requests on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
    /// HTTP/2 with so many streams of a connection at once; `None`: HTTP/1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2_streams: Option<u32>,
    /// A request not answered within this time, counted from its intended start, has failed.
    pub timeout: Nanos,
    /// TLS; `None`: everything is sent in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<HttpTls>,
    /// What is asked instead of a GET of `target`, which is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Box<HttpScript>>,
}

/// TLS of an HTTP workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpTls {
    /// The version, where only one is wanted.
    pub version: Option<TlsVersion>,
    /// The cipher suite, where only one is wanted, as IANA names it.
    pub cipher: Option<String>,
    /// The group of the key exchange, where only one is wanted, as IANA names it.
    pub group: Option<String>,
    /// Connections resume sessions of earlier ones.
    pub resume: bool,
    /// The name of the server that is asked for (SNI); `None`: none is.
    pub sni: Option<String>,
    /// `http/1.1` is offered as the protocol of the next layer (ALPN).
    pub alpn: bool,
}

impl Default for HttpTls {
    fn default() -> Self {
        Self { version: None, cipher: None, group: None, resume: true, sni: None, alpn: true }
    }
}
