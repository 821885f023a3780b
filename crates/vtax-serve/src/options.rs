//! What a server is told, and what can keep it from serving.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use vtax_units::CpuSet;

use crate::token::Token;

/// What a server is told.
#[derive(Debug)]
pub struct Options {
    /// The directory whose runs are shown.
    pub root: PathBuf,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names that the `Host` header may have besides the address, with or without a port.
    pub names: Vec<String>,
    /// What every request needs.
    pub token: Token,
    /// Certificate and key; `None`: plain text.
    pub tls: Option<TlsFiles>,
    /// Whether plain text is accepted elsewhere than on loopback.
    pub plain_text: bool,
    /// What is needed to start runs; `None`: nothing can be started.
    pub start: Option<StartOptions>,
    /// CPUs that the calling thread is bound to, and with it all that serves; runs that are started get those that the
    /// thread had before. `None`: as it is.
    pub cpus: Option<CpuSet>,
    /// The directory that keeps the index and the output of started runs.
    pub cache: PathBuf,
}

/// Files in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What `vtax check` prints of a plan with these `--set`, or what is wrong with it.
pub type Check = fn(&Path, &[String]) -> Result<String, String>;

/// What is needed to start runs.
#[derive(Debug)]
pub struct StartOptions {
    /// The directory whose plans may be run.
    pub plans: PathBuf,
    /// The program that runs them: vtax itself.
    pub program: PathBuf,
    /// Looks at a plan before it is run.
    pub check: Check,
}

/// What to do where an address is taken.
fn way_out(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another server is there: give another port, as in --listen 127.0.0.1:8094, or --listen 127.0.0.1:0 for any that is free"
        }
        _ => "",
    }
}

/// What can keep a server from serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory can't be read.
    #[error("cannot read {}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Plain text elsewhere than on loopback was not asked for.
    #[error(
        "{address} can be reached from other machines: give --tls-cert and --tls-key, or --plain-text where everybody \
         on the way may read the token"
    )]
    PlainText {
        /// The address.
        address: SocketAddr,
    },
    /// The address can't be listened on.
    #[error("cannot listen on {address}{}", way_out(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Certificate or key can't be used.
    #[error("cannot use the certificate {}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file of the token can't be used.
    #[error("cannot use the token in {}: {reason}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refuses something else.
    #[error("cannot {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
}

impl ServeError {
    /// True where what was given is at fault, not the host.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Root { .. } | Self::PlainText { .. } | Self::Certificate { .. } | Self::TokenFile { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_taken_comes_with_the_way_out() {
        let refused = |kind: std::io::ErrorKind| {
            let address = SocketAddr::from(([127, 0, 0, 1], 8093));
            ServeError::Listen { address, source: kind.into() }.to_string()
        };
        assert!(refused(std::io::ErrorKind::AddrInUse).contains("--listen 127.0.0.1:0 for any that is free"));
        assert_eq!(refused(std::io::ErrorKind::PermissionDenied), "cannot listen on 127.0.0.1:8093");
    }
}
