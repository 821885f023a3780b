//! Who may see what of a server of storage, and where it can't serve.

use vtax_units::Bytes;

use super::ganesha::{GaneshaBackend, GaneshaOptions};
use super::lio::LioOptions;
use super::nfsd::NfsdOptions;
use super::samba::SambaOptions;
use super::tgt::{ChapMode, TgtOptions};
use crate::model::{EnvironmentKind, Protocol, ServiceKind};

/// Whom NFS servers let in.
const UNIX: &str = "every client, as the user that it says it is (AUTH_SYS), also as root";

/// What a server of storage shows, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The target, the export or the share.
    pub of: String,
    /// What is in it.
    pub what: String,
    /// Who may use it.
    pub who: String,
}

impl ServiceKind {
    /// What it shows to whom; `None` where it serves no storage.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        match self {
            Self::Tgt(options) => Some(of_target(
                &format!("{}, and LUN 0, tgt's own controller", units(1, options.luns, options.size)),
                &whose(&options.initiators),
                options.chap,
            )),
            Self::Lio(options) => Some(of_target(&of_lio(options), &whose_of_lio(options), options.chap)),
            Self::Ganesha(_) => Some(of_directory(format!("export {}", GaneshaOptions::EXPORT), UNIX)),
            Self::Nfsd(_) => Some(of_directory(format!("export {}", NfsdOptions::EXPORT), UNIX)),
            Self::Samba(_) => Some(of_directory(
                format!("share {}", SambaOptions::SHARE),
                "every client, as guest, who is root",
            )),
            _ => None,
        }
    }

    /// Why it can't serve in an environment; `None` where it can. `in_host_namespace`: vtax runs in the user namespace that the host
    /// was booted with.
    #[must_use]
    pub fn misfit(&self, environment: &EnvironmentKind, in_host_namespace: bool) -> Option<String> {
        let place = match environment {
            EnvironmentKind::Vm(_) => return None,
            EnvironmentKind::Uml => {
                let storage = self.facts().protocol == Some(Protocol::Storage);
                return storage.then(|| "storage can't be measured in user-mode Linux yet".to_owned());
            }
            EnvironmentKind::Container => "a container",
            EnvironmentKind::Native => "a user namespace",
        };
        match self {
            Self::Ganesha(GaneshaOptions {
                backend: GaneshaBackend::Files | GaneshaBackend::Disk,
                nfs_version,
                ..
            }) if *environment == EnvironmentKind::Container || !in_host_namespace =>
            {
                Some(format!(
                    "ganesha opens its files by handle, which the kernel allows to the host's root alone: in {place} every client \
                     would be told NFS{}ERR_PERM; `backend: memory` works there",
                    nfs_version.number()
                ))
            }
            Self::Samba(_) if !in_host_namespace => Some(
                "samba changes its groups when it starts, which the kernel doesn't allow in a user namespace: it takes root, or a \
                 virtual machine"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

fn of_directory(of: String, who: &str) -> Access {
    Access { of, what: "one directory".to_owned(), who: who.to_owned() }
}

/// Units by their numbers.
fn units(first: u32, last: u32, size: Bytes) -> String {
    if first == last { format!("LUN {last} of {size}") } else { format!("LUNs {first} to {last} of {size}") }
}

fn of_lio(options: &LioOptions) -> String {
    let seen = units(1, options.visible, options.size);
    if options.visible >= options.luns {
        return seen;
    }
    format!("{seen}; hidden from all: {}", units(options.visible + 1, options.luns, options.size))
}

fn whose_of_lio(options: &LioOptions) -> String {
    match &options.initiators[..] {
        [] => whose(&[LioOptions::INITIATOR.to_owned()]),
        names => whose(names),
    }
}

fn whose(initiators: &[String]) -> String {
    match initiators {
        [] => "every initiator".to_owned(),
        [one] => format!("the initiator {one} alone; others see no target"),
        several => format!("the initiators {}; others see no target", several.join(" and ")),
    }
}

fn of_target(what: &str, whose: &str, chap: ChapMode) -> Access {
    let (initiator, target) = (TgtOptions::INITIATOR_CHAP.0, TgtOptions::TARGET_CHAP.0);
    let secret = match chap {
        ChapMode::None => "no secret is asked for".to_owned(),
        ChapMode::OneWay => format!("with the secret of `{initiator}` (CHAP)"),
        ChapMode::Mutual => {
            format!(
                "with the secret of `{initiator}`; the target shows that it has that of `{target}` (mutual CHAP)"
            )
        }
    };
    Access {
        of: format!("target {}", TgtOptions::TARGET),
        what: what.to_owned(),
        who: format!("{whose}; {secret}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ganesha::NfsVersion;
    use super::super::volume::Backend;
    use super::*;

    #[test]
    fn names_and_secrets_are_listed_but_no_secret_is_shown() {
        let options = TgtOptions {
            port: 3260,
            luns: 1,
            size: Bytes::from_mib(1),
            chap: ChapMode::None,
            write_cache: true,
            initiators: Vec::new(),
            backend: Backend::Files,
        };
        let of = |options: &TgtOptions| ServiceKind::Tgt(options.clone()).access().unwrap();
        assert_eq!(of(&options).who, "every initiator; no secret is asked for");
        let names = vec!["iqn.a".to_owned(), "iqn.b".to_owned()];
        let closed = TgtOptions { luns: 3, chap: ChapMode::Mutual, initiators: names, ..options };
        let access = of(&closed);
        assert!(access.what.starts_with("LUNs 1 to 3 of 1MiB"), "{access:?}");
        assert!(access.who.starts_with("the initiators iqn.a and iqn.b; others see no target"), "{access:?}");
        for (_, secret) in [TgtOptions::INITIATOR_CHAP, TgtOptions::TARGET_CHAP] {
            assert!(!access.who.contains(secret), "{access:?}");
        }
    }

    #[test]
    fn hidden_units_are_told_and_the_kernels_target_has_no_guests() {
        let lio = LioOptions {
            port: 3260,
            luns: 3,
            visible: 1,
            size: Bytes::from_mib(1),
            chap: ChapMode::OneWay,
            write_cache: true,
            initiators: Vec::new(),
            backend: Backend::Files,
        };
        let access = ServiceKind::Lio(lio).access().unwrap();
        assert_eq!(access.what, "LUN 1 of 1MiB; hidden from all: LUNs 2 to 3 of 1MiB");
        assert!(access.who.starts_with("the initiator iqn.2026-11.vtax:client alone"), "{access:?}");
    }

    #[test]
    fn files_are_served_where_handles_can_be_opened() {
        let ganesha = |backend| {
            let mount_port = GaneshaOptions::MOUNT_PORT;
            let nfs_version = NfsVersion::V41;
            ServiceKind::Ganesha(GaneshaOptions { port: 2049, backend, nfs_version, mount_port })
        };
        for backend in [GaneshaBackend::Files, GaneshaBackend::Disk] {
            let files = ganesha(backend);
            assert!(files.misfit(&EnvironmentKind::Container, true).unwrap().contains("NFS4ERR_PERM"));
            assert!(files.misfit(&EnvironmentKind::Native, false).unwrap().contains("user namespace"));
            assert_eq!(files.misfit(&EnvironmentKind::Native, true), None);
        }
        assert_eq!(ganesha(GaneshaBackend::Memory).misfit(&EnvironmentKind::Container, false), None);
    }

    #[test]
    fn samba_takes_root() {
        let samba = ServiceKind::Samba(SambaOptions { port: 445, backend: Backend::Files });
        assert_eq!(samba.misfit(&EnvironmentKind::Native, true), None);
        for environment in [EnvironmentKind::Native, EnvironmentKind::Container] {
            assert!(samba.misfit(&environment, false).unwrap().contains("takes root"));
        }
    }
}
