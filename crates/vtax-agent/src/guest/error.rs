//! Why a guest did not get as far as its agent.

use std::io;
use std::time::Duration;

use vtax_vm::contract::{ROLE_AGENT, ROLE_KEY, WITNESS_ADDRESS_KEY};

/// Why a guest did not get as far as its agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    /// The kernel refused something.
    #[error("{operation} {object}: {source}")]
    Call {
        operation: &'static str,
        object: String,
        #[source]
        source: io::Error,
    },
    /// The kernel command line asks for something else.
    #[error("{ROLE_KEY}={found:?} on the kernel command line, expected `{ROLE_AGENT}`")]
    Role { found: Option<String> },
    /// The witness has no usable address.
    #[error("{WITNESS_ADDRESS_KEY}={found:?} on the kernel command line is no address with a prefix length")]
    Address { found: Option<String> },
    /// The network could not be brought up.
    #[error("bring up the network: {reason}")]
    Network { reason: String },
    /// There is no disk with this serial number.
    #[error("no disk `{serial}` within {} s", waited.as_secs())]
    NoDisk { serial: &'static str, waited: Duration },
    /// There is no disk of the guest's own.
    #[error("no disk of its own within {} s: the guest's kernel has no driver for its bus?", waited.as_secs())]
    NoOwnDisk { waited: Duration },
    /// No file system could be made on the guest's disk.
    #[error("make a file system on {disk}: {reason}")]
    FileSystem { disk: String, reason: String },
    /// No array could be made of the guest's disks.
    #[error("make a RAID-5 of the disks: {reason}")]
    Raid { reason: String },
    /// The agent's port did not appear.
    #[error("no virtio-serial port `{name}` within {} s", waited.as_secs())]
    NoPort { name: &'static str, waited: Duration },
}

impl GuestError {
    pub(super) fn call<E: Into<io::Error>>(
        operation: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let object = object.into();
        move |source| Self::Call { operation, object, source: source.into() }
    }
}
