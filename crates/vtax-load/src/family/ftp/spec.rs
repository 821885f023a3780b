//! What a load of FTP is.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use vtax_plan::model::{DataMode, FtpRequests, ftp_limits as limits};

/// What a server's certificate is checked for.
pub use crate::tls::Verify as FtpVerify;
use crate::{ConnectionPool, LoadError, Part};

/// What all steps of a load of FTP have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FtpSpec {
    /// Where the server listens; its connections are sessions, each with a data connection besides while it transfers. A transfer that
    /// takes longer than its timeout, counted from its intended start, has failed.
    pub pool: ConnectionPool,
    /// What clients do.
    pub requests: FtpRequests,
    /// Addresses that sessions come from, in turn; empty: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// The name that clients log in with.
    pub user: String,
    /// Their password.
    pub password: String,
    /// What the server's certificate is checked for.
    pub verify: FtpVerify,
    /// Seed of the choice of files.
    pub seed: u64,
    /// Which generator of several this is: its clients are numbered among those of all, and it stores its part of the files that all fetch.
    pub part: Part,
}

/// Longest name or password.
const WORD_MAX: usize = 200;

impl FtpSpec {
    /// Checks that the load makes sense; opening it does so too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        let requests = &self.requests;
        self.pool.check()?;
        let (clients, most) = (self.pool.connections, limits::CLIENTS.end());
        refuse_unless(clients <= *most, "clients", || format!("{clients} is more than {most}"))?;
        let part = self.part;
        refuse_unless(part.number < part.of && part.of <= *most, "part", || format!("{part:?} is none"))?;
        refuse_unless(limits::FILES.contains(&requests.files), "files", || {
            format!("{} is not between {} and {}", requests.files, limits::FILES.start(), limits::FILES.end())
        })?;
        let mix = [requests.mix.retr, requests.mix.stor, requests.mix.list];
        let weights = mix.iter().all(|w| limits::WEIGHT.contains(w)) && mix.iter().any(|w| *w > 0);
        refuse_unless(weights, "mix", || "it needs one weight above 0, none above 10000".to_owned())?;
        refuse_unless(
            requests.transfers.is_none_or(|n| limits::TRANSFERS.contains(&n)),
            "transfers",
            || "a session has between 1 and 1000000".to_owned(),
        )?;
        for (field, word) in [("user", &self.user), ("password", &self.password)] {
            let fits = word.len() <= WORD_MAX && !word.contains(['\r', '\n', '\0']);
            refuse_unless(fits, field, || "it has a line end, or more than 200 bytes".to_owned())?;
        }
        let same = |source: &IpAddr| source.is_ipv4() == self.pool.target.is_ipv4();
        refuse_unless(self.sources.iter().all(same), "sources", || {
            "addresses of clients are of the same kind as the server's".to_owned()
        })?;
        refuse_unless(requests.data != DataMode::Pasv || self.pool.target.is_ipv4(), "data", || {
            "PASV names IPv4 addresses only; use EPSV over IPv6".to_owned()
        })
    }

    /// How many of the files that all fetch this generator stores.
    pub(super) fn own_files(&self) -> u32 {
        // No more than there are.
        u32::try_from(self.part.amount(self.requests.files.into())).unwrap_or(self.requests.files)
    }
}

fn refuse_unless(right: bool, field: &'static str, reason: impl FnOnce() -> String) -> Result<(), LoadError> {
    if right { Ok(()) } else { Err(LoadError::Spec { field, reason: reason() }) }
}
