//! What servers have in common: where their files or units lie.

use serde::{Deserialize, Serialize};

use crate::model::ServiceKind;

/// Where a server keeps its files or units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// In its private directory: the run's scratch space, in a virtual machine its memory.
    #[default]
    Files,
    /// On the system under test's own disk.
    Disk,
}

impl Backend {
    /// Whether it is that of plans of before there was a choice.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
    pub(crate) const fn is_files(&self) -> bool {
        matches!(self, Self::Files)
    }
}

words! {
    /// Where a server keeps its files or units.
    BackendRaw(Backend) = "backend", "kinds of backend" {
        "files": Files, "In the run's scratch space, which is memory.";
        "disk": Disk, "On the system's own disk.";
    }
}

impl ServiceKind {
    /// Whether it keeps files or units on the system under test's own disk, from where they can be read anew.
    #[must_use]
    pub const fn serves_disk(&self) -> bool {
        use crate::model::GaneshaBackend;
        match self {
            Self::Ganesha(options) => matches!(options.backend, GaneshaBackend::Disk),
            Self::Tgt(options) => matches!(options.backend, Backend::Disk),
            Self::Samba(options) => matches!(options.backend, Backend::Disk),
            Self::Nfsd(options) => matches!(options.backend, Backend::Disk),
            Self::Lio(options) => matches!(options.backend, Backend::Disk),
            Self::Ftp(options) | Self::Vsftpd(options) | Self::Proftpd(options) => {
                matches!(options.backend, Backend::Disk)
            }
            _ => false,
        }
    }
}
