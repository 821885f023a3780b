//! Which export is used, and as whom.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use vtax_wire::nfs4::{NAME_BYTES_MAX, PORT};

use crate::family::storage::client::{decoded, resolve};

/// Directories above the files at most.
const DEPTH_MAX: usize = 32;

/// A directory of an NFS server, version 4.1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsSpec {
    /// The server.
    pub address: SocketAddr,
    /// The directory as the server's clients name it: `/export/directory`.
    pub path: String,
    /// User that the server is told (AUTH_SYS).
    #[serde(default)]
    pub uid: u32,
    /// Group that the server is told.
    #[serde(default)]
    pub gid: u32,
    /// Files that aren't vtax's own may be overwritten where they have the names of vtax's.
    #[serde(default)]
    pub overwrite: bool,
}

impl NfsSpec {
    /// A directory, as root.
    #[must_use]
    pub fn new(address: SocketAddr, path: impl Into<String>) -> Self {
        Self { address, path: path.into(), uid: 0, gid: 0, overwrite: false }
    }

    /// Reads `nfs://HOST[:PORT]/PATH[?OPTION&...]`. Options: `version=4.1`, `uid=N`, `gid=N`; without them, the
    /// user and group of this process.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn from_url(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("nfs://").ok_or("it does not begin with nfs://")?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = rest.split_once('/').ok_or("it has no path: nfs://HOST/PATH")?;
        let mut spec = Self::new(resolve(host, PORT)?, format!("/{}", decoded(path)?));
        spec.uid = rustix::process::geteuid().as_raw();
        spec.gid = rustix::process::getegid().as_raw();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
            match option.split_once('=') {
                Some(("version", "4.1")) => {}
                Some(("version", other)) => return Err(format!("version {other} is not spoken: 4.1 is")),
                Some(("uid", text)) => spec.uid = number(text)?,
                Some(("gid", text)) => spec.gid = number(text)?,
                _ => return Err(format!("there is no option `{option}`: version=4.1, uid=N, gid=N")),
            }
        }
        spec.check()?;
        Ok(spec)
    }

    /// Names of the directories on the way, from the root.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter(|name| !name.is_empty())
    }

    /// Looks for what no server would take.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.names().count() > DEPTH_MAX {
            return Err(format!("its path has more than {DEPTH_MAX} names"));
        }
        match self.names().find(|name| name.len() > NAME_BYTES_MAX || *name == "." || *name == "..") {
            Some(name) => Err(format!("`{}` is no name of a directory", name.escape_debug())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_server_and_directory() {
        let spec = NfsSpec::from_url("nfs://127.0.0.1/a%20b//c?version=4.1&uid=7&gid=8").unwrap();
        assert_eq!((spec.address.to_string().as_str(), spec.uid, spec.gid), ("127.0.0.1:2049", 7, 8));
        assert_eq!(spec.names().collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!(NfsSpec::from_url("nfs://[::1]:99/").unwrap().names().count(), 0);
        for (url, word) in [
            ("iscsi://x", "nfs://"),
            ("nfs://127.0.0.1", "no path"),
            ("nfs://127.0.0.1/a?version=3", "version 3"),
            ("nfs://127.0.0.1/a?uid=x", "`x`"),
            ("nfs://127.0.0.1/a?soft", "`soft`"),
            ("nfs://127.0.0.1/../a", "`..`"),
        ] {
            let error = NfsSpec::from_url(url).unwrap_err();
            assert!(error.contains(word), "{url}: {error}");
        }
    }
}
