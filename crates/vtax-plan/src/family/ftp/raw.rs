//! FTP as written: servers and workloads.

use vtax_units::{Bytes, Nanos};

use super::model;
use crate::decode::Many;
use crate::family::storage::volume::BackendRaw;
use crate::source::Spanned;
use crate::tls::TlsVersion;

services! {
    /// Options of `ftp`, `vsftpd` and `proftpd`.
    struct FtpServerRaw = "this FTP server", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "2121",
        /// `true`: TLS begins with the connection, as the workload must have it too; `false`: it begins with AUTH, where a client asks for it.
        default implicit: Many<bool> = "false",
        /// `true`: protected data connections must resume the session of their control connection.
        default require_reuse: Many<bool> = "false",
        /// Where its files are: `files` (in the service's private directory, which is memory) or `disk` (on the system's own disk).
        default backend: Many<BackendRaw> = "files",
    }
}

raw! {
    /// Options of the `ftp` workload. A list of values makes a cell for each.
    struct FtpWorkloadRaw = "`ftp`" {
        /// How often files are fetched (RETR), in relation to `stor` and `list`.
        default retr: Many<u32> = "1",
        /// How often files are stored (STOR).
        default stor: Many<u32> = "0",
        /// How often the directory is listed (LIST).
        default list: Many<u32> = "0",
        /// Files there are to be fetched; they are stored on the server before the load begins.
        default files: Many<u32> = "20",
        /// Length of a file; of `uniform` the least, of `log-normal` the median.
        default size: Many<Bytes> = "100KiB",
        /// How lengths are distributed: `fixed`, `uniform` or `log-normal`.
        default distribution: Many<FtpDistributionRaw> = "fixed",
        /// Of `uniform` the greatest length, of `log-normal` what 10 % of the files are longer than; without it, ten times `size`.
        optional large: Many<Bytes>,
        /// Transfers of a session; 0: it goes on as long as the load.
        default transfers: Many<u32> = "10",
        /// Mean pause between the transfers of a session; pauses are exponential.
        default think: Many<Nanos> = "0s",
        /// How data connections are made: `epsv`, `pasv` or `active`.
        default data: Many<FtpDataRaw> = "epsv",
        /// When TLS begins: `none` (never), `explicit` (by AUTH TLS) or `implicit` (with the connection).
        default tls: Many<FtpTlsRaw> = "none",
        /// With TLS, what it protects: `control` (PROT C) or `all` (PROT P).
        default protect: Many<FtpProtectRaw> = "all",
        /// With TLS, whether data connections resume the session of their control connection.
        default resume: Many<bool> = "true",
        /// The version of TLS: `any`, `tls12` or `tls13`.
        default version: Many<FtpVersionRaw> = "any",
        /// The only cipher suite that is offered, as IANA names it; without it, all that are safe.
        optional cipher: Many<String>,
        /// What a rate is of: `transfers` or `sessions`.
        default arrivals_of: Many<FtpArrivalsRaw> = "transfers",
        /// Every so many uploads of a client, it fetches what it stored last and compares it; 0: never.
        default read_back: Many<u32> = "16",
        /// `true`: a fetch whose session breaks doesn't fail, the client logs in again and asks for the rest (REST); for `failover`.
        default rest: Many<bool> = "false",
        /// A closed loop (`throughput`) ends once it has moved so many bytes of files, if its time isn't over before; without it, with its time.
        optional bytes: Many<Bytes>,
        /// Sessions at once; in an open loop the most that may be.
        default clients: Many<u32> = "16",
        /// Addresses that clients come from, in turn.
        default addresses: u32 = "1",
        /// A transfer that takes longer, counted from its intended start, has failed.
        default timeout: Many<Nanos> = "30s",
    }
}

words! {
    /// How lengths of files are distributed.
    FtpDistributionRaw(Distribution) = "distribution", "distributions" {
        "fixed": Fixed, "All the same.";
        "uniform": Uniform, "Evenly between the least and the greatest.";
        "log-normal": LogNormal, "Many short ones and a few long ones.";
    }
    /// How data connections are made.
    FtpDataRaw(model::DataMode) = "data", "ways to make data connections" {
        "epsv": Epsv, "The client connects, EPSV.";
        "pasv": Pasv, "The client connects, PASV.";
        "active": Active, "The server connects, EPRT or PORT.";
    }
    /// When TLS begins.
    FtpTlsRaw(Tls) = "tls", "beginnings of TLS" {
        "none": None, "Never: everything is sent in the clear.";
        "explicit": Explicit, "By AUTH TLS.";
        "implicit": Implicit, "With the connection.";
    }
    /// What TLS protects.
    FtpProtectRaw(Protect) = "protect", "levels of protection" {
        "control": Control, "Control connections: names, passwords, commands (PROT C).";
        "all": All, "Data connections, too (PROT P).";
    }
    /// A version of TLS.
    FtpVersionRaw(Version) = "version", "versions of TLS" {
        "any": Any, "The newest that both ends have.";
        "tls12": V12, "TLS 1.2.";
        "tls13": V13, "TLS 1.3.";
    }
    /// What a rate is of.
    FtpArrivalsRaw(model::FtpArrivals) = "arrivals_of", "kinds of arrivals" {
        "transfers": Transfers, "Transfers, which take a session that waits, or a new one.";
        "sessions": Sessions, "Sessions with all their transfers.";
    }
}

/// How lengths of files are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// All the same.
    Fixed,
    /// Evenly between two.
    Uniform,
    /// Log-normally.
    LogNormal,
}

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tls {
    /// Never.
    None,
    /// By AUTH TLS.
    Explicit,
    /// With the connection.
    Implicit,
}

/// What TLS protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protect {
    /// Control connections.
    Control,
    /// Data connections, too.
    All,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// The newest that both ends have.
    Any,
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

impl Version {
    /// The only version that is spoken; `None` for any.
    pub(crate) const fn only(self) -> Option<TlsVersion> {
        match self {
            Self::Any => None,
            Self::V12 => Some(TlsVersion::V12),
            Self::V13 => Some(TlsVersion::V13),
        }
    }
}
