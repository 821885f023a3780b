//! Which export is used, and as whom.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
pub use vtax_plan::model::NfsVersion;
use vtax_wire::nfs::{NAME_BYTES_MAX, PORT};
use vtax_wire::nfs3::{PATH_BYTES_MAX, PORT_MAPPER_PORT};

use crate::family::storage::client::{decoded, resolve};

/// What a URL may say.
const OPTIONS: &str = "version=4.1, version=3, mount-port=N, port-mapper=N, uid=N, gid=N";
/// Directories above the files at most.
const DEPTH_MAX: usize = 32;

/// A directory of an NFS server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsSpec {
    /// The server.
    pub address: SocketAddr,
    /// The directory as the server's clients name it: `/export/directory`.
    pub path: String,
    /// What is spoken.
    #[serde(default)]
    pub version: NfsVersion,
    /// Of version 3: the port of MOUNT; `None`: the port mapper is asked.
    #[serde(default)]
    pub mount_port: Option<u16>,
    /// Of version 3: the port of the port mapper.
    #[serde(default = "usual_port_mapper")]
    pub port_mapper: u16,
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

const fn usual_port_mapper() -> u16 {
    PORT_MAPPER_PORT
}

impl NfsSpec {
    /// A directory, in version 4.1 as root.
    #[must_use]
    pub fn new(address: SocketAddr, path: impl Into<String>) -> Self {
        let (version, port_mapper) = (NfsVersion::V41, PORT_MAPPER_PORT);
        let path = path.into();
        Self { address, path, version, mount_port: None, port_mapper, uid: 0, gid: 0, overwrite: false }
    }

    /// Reads `nfs://HOST[:PORT]/PATH[?OPTION&...]`. Options: `version=4.1` or `version=3`; of version 3 `mount-port=N`
    /// and `port-mapper=N`; `uid=N`, `gid=N`, without which they are those of this process.
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
            match option.split_once('=') {
                Some(("version", "4.1")) => spec.version = NfsVersion::V41,
                Some(("version", "3")) => spec.version = NfsVersion::V3,
                Some(("version", other)) => {
                    return Err(format!("version {other} is not spoken: 4.1 and 3 are"));
                }
                Some(("mount-port", text)) => spec.mount_port = Some(port(text)?),
                Some(("port-mapper", text)) => spec.port_mapper = port(text)?,
                Some(("uid", text)) => spec.uid = number(text)?,
                Some(("gid", text)) => spec.gid = number(text)?,
                _ => return Err(format!("there is no option `{option}`: {OPTIONS}")),
            }
        }
        let of_version_3 = spec.mount_port.is_some() || spec.port_mapper != PORT_MAPPER_PORT;
        if of_version_3 && spec.version != NfsVersion::V3 {
            return Err("MOUNT and the port mapper are of version 3: write version=3 as well".to_owned());
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
        if self.path.len() > PATH_BYTES_MAX {
            return Err(format!("its path has more than {PATH_BYTES_MAX} bytes"));
        }
        match self.names().find(|name| name.len() > NAME_BYTES_MAX || *name == "." || *name == "..") {
            Some(name) => Err(format!("`{}` is no name of a directory", name.escape_debug())),
            None => Ok(()),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn port(text: &str) -> Result<u16, String> {
    number(text).and_then(|port| if port == 0 { Err("0 is no port".to_owned()) } else { Ok(port) })
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
        let spec = NfsSpec::from_url("nfs://127.0.0.1/a?version=3").unwrap();
        assert_eq!((spec.version, spec.mount_port, spec.port_mapper), (NfsVersion::V3, None, 111));
        let spec = NfsSpec::from_url("nfs://127.0.0.1/a?version=3&mount-port=5&port-mapper=6").unwrap();
        assert_eq!((spec.mount_port, spec.port_mapper), (Some(5), 6));
        for (url, word) in [
            ("iscsi://x", "nfs://"),
            ("nfs://127.0.0.1", "no path"),
            ("nfs://127.0.0.1/a?version=4.0", "version 4.0"),
            ("nfs://127.0.0.1/a?mount-port=7", "version=3"),
            ("nfs://127.0.0.1/a?version=3&mount-port=0", "no port"),
            ("nfs://127.0.0.1/a?version=3&mount-port=65536", "no number"),
            ("nfs://127.0.0.1/a?uid=x", "`x`"),
            ("nfs://127.0.0.1/a?soft", "`soft`"),
            ("nfs://127.0.0.1/../a", "`..`"),
        ] {
            let error = NfsSpec::from_url(url).unwrap_err();
            assert!(error.contains(word), "{url}: {error}");
        }
    }
}
