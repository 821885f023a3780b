//! The software under test and the workloads, and what is known of each kind: the families' part of a resolved plan.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

pub use crate::family::desktop::limits as desktop_limits;
pub use crate::family::desktop::model::*;
pub use crate::family::ftp::limits as ftp_limits;
pub use crate::family::ftp::model::*;
pub use crate::family::http::model::*;
pub use crate::family::http::script::*;
pub use crate::family::network::limits as network_limits;
pub use crate::family::network::model::*;
pub use crate::family::redis::limits as redis_limits;
pub use crate::family::redis::model::*;
pub use crate::family::sip::identity::*;
pub use crate::family::sip::model::*;
pub use crate::family::sip::script::model::*;
pub use crate::family::storage::access::Access;
pub use crate::family::storage::ganesha::{GaneshaBackend, GaneshaOptions, NfsVersion};
pub use crate::family::storage::limits as storage_limits;
pub use crate::family::storage::lio::LioOptions;
pub use crate::family::storage::model::*;
pub use crate::family::storage::nfsd::NfsdOptions;
pub use crate::family::storage::samba::SambaOptions;
pub use crate::family::storage::tgt::{ChapMode, TgtOptions};
pub use crate::family::storage::volume::Backend;
pub use crate::tls::{TLS_CIPHERS, TLS_GROUPS, TlsVersion};

/// The software under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Name in the plan.
    pub name: String,
    /// Which software, with its options.
    pub kind: ServiceKind,
    /// How long it may take to become ready.
    pub ready_timeout: Nanos,
    /// How long it may take to stop before it is killed.
    pub stop_timeout: Nanos,
}

/// The kinds of service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ServiceKind {
    /// vtax's own HTTP server: `/bytes/N` (static) and `/page/ROWS` (rendered at each request).
    Http(WebOptions),
    /// Apache httpd.
    Apache(WebOptions),
    /// nginx.
    Nginx(WebOptions),
    /// vtax's own SIP registrar and proxy.
    Sip(SipOptions),
    /// vtax's own SIP user agent that answers calls.
    Uas(UasOptions),
    /// Kamailio with MariaDB.
    Kamailio(KamailioOptions),
    /// Redis.
    Redis(RedisOptions),
    /// The embedded network server: the far end of network tests.
    Peer(PeerOptions),
    /// The system under test's own disk: no server.
    Disk(DiskOptions),
    /// tgt: an iSCSI target in user space.
    Tgt(TgtOptions),
    /// NFS-Ganesha: an NFS server in user space.
    Ganesha(GaneshaOptions),
    /// Samba: an SMB server.
    Samba(SambaOptions),
    /// The kernel's own NFS server.
    Nfsd(NfsdOptions),
    /// LIO: the kernel's own iSCSI target.
    Lio(LioOptions),
    /// vtax's own FTP server.
    Ftp(FtpServerOptions),
    /// vsftpd.
    Vsftpd(FtpServerOptions),
    /// ProFTPD.
    Proftpd(FtpServerOptions),
    /// TigerVNC: X servers that are servers of RFB themselves.
    Tigervnc(DesktopOptions),
    /// x11vnc: shows X servers without a screen (Xvfb) by RFB.
    X11vnc(DesktopOptions),
    /// A service of the user's own.
    Command(CommandService),
}

/// A service of the user's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandService {
    /// Program and arguments; no shell is involved. `{address}`, `{port}` and `{dir}` are replaced,
    /// as in `ready`, `env` and `files`.
    pub command: Vec<String>,
    /// TCP or UDP port the workload talks to.
    pub port: u16,
    /// When it is ready.
    pub ready: Ready,
    /// Environment variables added to a minimal set.
    pub env: BTreeMap<String, String>,
    /// Files written into `{dir}` before the start: relative path to content.
    pub files: BTreeMap<String, String>,
}

/// When a service of the user's own is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ready {
    /// The port accepts a TCP connection.
    Port,
    /// A line of its output contains this text.
    Log(String),
    /// This command exits with 0.
    Command(Vec<String>),
}

/// What the generator does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// HTTP/1.1 requests.
    Http(HttpWorkload),
    /// SIP subscribers who register, call and write to each other.
    Sip(Box<SipWorkload>),
    /// Calls after a scenario of SIPp's.
    Script(Box<ScriptWorkload>),
    /// Network tests between the two ends of the path.
    #[serde(alias = "net")]
    Network(NetworkWorkload),
    /// Reads and writes of Redis's keys.
    Redis(RedisWorkload),
    /// Files that are written and read.
    Storage(StorageWorkload),
    /// Clients who log in, move files and leave.
    Ftp(Box<FtpWorkload>),
    /// Users of remote desktops.
    Desktop(DesktopWorkload),
}

/// What a service speaks and a workload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// SIP.
    Sip,
    /// That of vtax's network tests.
    Network,
    /// RESP2, Redis's.
    Redis,
    /// Files, through whatever holds them.
    Storage,
    /// FTP.
    Ftp,
    /// RFB, of remote desktops.
    Desktop,
}

impl Protocol {
    /// The workloads of plans that need it.
    #[must_use]
    pub const fn workloads(self) -> &'static [&'static str] {
        match self {
            Self::Http => &["http"],
            Self::Sip => &["sip"],
            Self::Network => &["tcp", "udp", "ping", "rr", "voice"],
            Self::Redis => &["redis"],
            Self::Storage => &["storage"],
            Self::Ftp => &["ftp"],
            Self::Desktop => &["desktop"],
        }
    }
}

/// What is known of a kind of service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFacts<'a> {
    /// The kind's name in plans: `nginx`.
    pub word: &'static str,
    /// What it is, in a few words.
    pub words: Cow<'a, str>,
    /// What it speaks; `None` for a service of the user's own.
    pub protocol: Option<Protocol>,
    /// The port that clients use.
    pub port: u16,
    /// Worker threads or processes that the plan asks for; `None`: one per CPU, or the service's own choice.
    pub workers: Option<u32>,
    /// Debian's packages that hold its programs; empty where it is part of vtax, or the user's own.
    pub packages: &'static [&'static str],
}

impl ServiceFacts<'static> {
    /// Of a service that is part of vtax and has as many workers as it likes.
    fn of(word: &'static str, words: &'static str, protocol: Protocol, port: u16) -> Self {
        let words = Cow::Borrowed(words);
        Self { word, words, protocol: Some(protocol), port, workers: None, packages: &[] }
    }

    /// The service as one that comes from these packages.
    fn packaged(self, packages: &'static [&'static str]) -> Self {
        Self { packages, ..self }
    }
}

impl ServiceKind {
    /// The service as this workload needs it: a web server speaks TLS and HTTP/2 where its clients do, a SIP server TLS.
    #[must_use]
    pub fn for_workload(mut self, workload: &Workload) -> Self {
        if let (Self::Http(web) | Self::Apache(web) | Self::Nginx(web), Workload::Http(http)) =
            (&mut self, workload)
        {
            web.tls = http.tls.is_some();
            web.http2 = http.http2_streams.is_some();
        }
        let sip = match workload {
            Workload::Sip(sip) => Some(sip.transport),
            Workload::Script(script) => Some(script.transport),
            _ => None,
        };
        let secure = sip == Some(SipTransport::Tls);
        match &mut self {
            Self::Sip(options) => options.tls = secure,
            Self::Kamailio(options) => options.tls = secure,
            _ => {}
        }
        self
    }

    /// What is known of it. Nothing else in vtax says so again.
    #[must_use]
    pub fn facts(&self) -> ServiceFacts<'_> {
        let of = ServiceFacts::of;
        let http = |word, words: Cow<'static, str>, web: &WebOptions| ServiceFacts {
            words,
            workers: web.workers,
            ..of(word, "", Protocol::Http, web.port)
        };
        match self {
            Self::Http(web) => http("http", "embedded HTTP server".into(), web),
            Self::Apache(web) => http("apache", web.apache_words().into(), web)
                .packaged(web.packages(&["apache2-bin", "php-fpm"])),
            Self::Nginx(web) => {
                http("nginx", web.words("nginx").into(), web).packaged(web.packages(&["nginx", "php-fpm"]))
            }
            Self::Sip(sip) => ServiceFacts {
                workers: sip.workers,
                ..of("sip", "embedded SIP registrar and proxy", Protocol::Sip, sip.port)
            },
            Self::Uas(uas) => {
                of("uas", "embedded SIP user agent that answers calls", Protocol::Sip, uas.port)
            }
            Self::Kamailio(kamailio) => {
                let (words, packages) = kamailio.described();
                of("kamailio", words, Protocol::Sip, kamailio.port).packaged(packages)
            }
            Self::Redis(redis) => of("redis", "Redis, private configuration", Protocol::Redis, redis.port)
                .packaged(&["redis-server"]),
            Self::Peer(peer) => of("peer", "embedded network server", Protocol::Network, peer.port),
            Self::Disk(_) => of("disk", "the system's own disk", Protocol::Storage, 0),
            Self::Tgt(tgt) => of("tgt", "tgt, iSCSI target", Protocol::Storage, tgt.port).packaged(&["tgt"]),
            Self::Ganesha(ganesha) => of("ganesha", ganesha.title(), Protocol::Storage, ganesha.port)
                .packaged(&["nfs-ganesha", "nfs-ganesha-vfs", "nfs-ganesha-mem"]),
            Self::Samba(samba) => {
                of("samba", "Samba, SMB 3", Protocol::Storage, samba.port).packaged(&["samba"])
            }
            Self::Nfsd(nfsd) => of("nfsd", "the kernel's NFS server", Protocol::Storage, nfsd.port),
            Self::Lio(lio) => of("lio", "LIO, the kernel's iSCSI target", Protocol::Storage, lio.port),
            Self::Ftp(ftp) => of("ftp", "embedded FTP server", Protocol::Ftp, ftp.port),
            Self::Vsftpd(ftp) => {
                of("vsftpd", "vsftpd, private configuration", Protocol::Ftp, ftp.port).packaged(&["vsftpd"])
            }
            Self::Proftpd(ftp) => of("proftpd", "ProFTPD, private configuration", Protocol::Ftp, ftp.port)
                .packaged(&["proftpd-core", "proftpd-mod-crypto"]),
            Self::Tigervnc(desktop) => {
                of("tigervnc", "TigerVNC, an X server for each desktop", Protocol::Desktop, desktop.port)
                    .packaged(desktop.packages(&["tigervnc-standalone-server", "stunnel4"]))
            }
            Self::X11vnc(desktop) => {
                of("x11vnc", "x11vnc on Xvfb, both for each desktop", Protocol::Desktop, desktop.port)
                    .packaged(desktop.packages(&["x11vnc", "xvfb", "stunnel4"]))
            }
            Self::Command(command) => ServiceFacts {
                word: "command",
                words: command.command.join(" ").into(),
                protocol: None,
                port: command.port,
                workers: None,
                packages: &[],
            },
        }
    }
}
