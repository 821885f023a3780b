//! FTP: servers and workloads.

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos};

use crate::family::storage::volume::Backend;
use crate::tls::TlsVersion;

/// Options of an FTP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FtpServerOptions {
    /// TCP port.
    pub port: u16,
    /// TLS begins with the connection instead of with AUTH; nobody is served without.
    pub implicit: bool,
    /// Protected data connections must resume the session of their control connection.
    pub require_reuse: bool,
    /// Where its files are.
    #[serde(default, skip_serializing_if = "Backend::is_files")]
    pub backend: Backend,
}

impl FtpServerOptions {
    /// The name that clients log in with.
    pub const USER: &str = "anonymous";
    /// Their password. It is no secret: the server is reached from the testbed alone.
    pub const PASSWORD: &str = "vtax@";
}

/// An FTP workload: clients who log in, move files and leave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FtpWorkload {
    /// What is moved, and how.
    pub requests: FtpRequests,
    /// Sessions at once; in an open loop the most that may be.
    pub clients: u32,
    /// Addresses that they come from, in turn.
    pub addresses: u32,
    /// A transfer that takes longer, counted from its intended start, has failed.
    pub timeout: Nanos,
}

/// What clients do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FtpRequests {
    /// What a session does.
    pub mix: FtpMix,
    /// Files there are to be fetched.
    pub files: u32,
    /// How long files are, those that are fetched and those that are stored.
    pub size: FileSizes,
    /// Transfers of a session; `None`: it goes on as long as the load.
    pub transfers: Option<u32>,
    /// Mean pause between the transfers of a session; pauses are exponential.
    pub think: Nanos,
    /// How data connections are made.
    pub data: DataMode,
    /// TLS; `None`: everything is sent in the clear.
    pub tls: Option<FtpTls>,
    /// What a rate is of.
    pub arrivals_of: FtpArrivals,
    /// Every so many uploads of a client, it fetches what it stored last and compares it; 0: never.
    pub read_back: u32,
    /// A fetch whose session breaks doesn't fail: the client logs in again and asks for the rest (REST).
    #[serde(default)]
    pub rest: bool,
    /// A closed loop ends once it has moved so much, if its time isn't over before; `None`: with its time.
    #[serde(default)]
    pub bytes: Option<Bytes>,
}

/// How often each kind of transfer comes, in relation to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FtpMix {
    /// RETR: files are fetched.
    pub retr: u32,
    /// STOR: files are stored.
    pub stor: u32,
    /// LIST: the directory is listed.
    pub list: u32,
}

/// How long files are. Which file has which length depends on nothing but its number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSizes {
    /// All the same.
    Fixed(Bytes),
    /// Evenly distributed between the two.
    Uniform(Bytes, Bytes),
    /// Log-normal: half of the files are shorter than the first, and 10 % longer than the second.
    LogNormal(Bytes, Bytes),
}

/// How data connections are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataMode {
    /// The client connects, EPSV (RFC 2428).
    Epsv,
    /// The client connects, PASV (RFC 959).
    Pasv,
    /// The server connects: EPRT over IPv6, PORT over IPv4.
    Active,
}

/// TLS of an FTP workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FtpTls {
    /// When it begins.
    pub mode: FtpTlsMode,
    /// Data connections are protected, too (PROT P); otherwise only the control connection is (PROT C).
    pub protect: bool,
    /// Data connections resume the session of their control connection.
    pub resume: bool,
    /// The version, where only one is wanted.
    pub version: Option<TlsVersion>,
    /// The cipher suite, where only one is wanted, as IANA names it.
    pub cipher: Option<String>,
}

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FtpTlsMode {
    /// By AUTH TLS (RFC 4217).
    Explicit,
    /// With the connection.
    Implicit,
}

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FtpArrivals {
    /// Transfers, which take a session that waits, or a new one.
    Transfers,
    /// Sessions with all their transfers.
    Sessions,
}
