//! Who may see what of a server of storage, and where it can't serve.

use super::ganesha::{GaneshaBackend, GaneshaOptions};
use super::tgt::{ChapMode, TgtOptions};
use crate::model::{EnvironmentKind, ServiceKind};

/// What a server of storage shows, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The target or the export.
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
            Self::Tgt(options) => Some(of_target(options)),
            Self::Ganesha(_) => Some(Access {
                of: format!("export {}", GaneshaOptions::EXPORT),
                what: "one directory".to_owned(),
                who: "every client, as the user that it says it is (AUTH_SYS), also as root".to_owned(),
            }),
            _ => None,
        }
    }

    /// Why it can't serve in an environment; `None` where it can. `in_host_namespace`: vtax runs in the user namespace that the host
    /// was booted with.
    #[must_use]
    pub fn misfit(&self, environment: &EnvironmentKind, in_host_namespace: bool) -> Option<String> {
        let Self::Ganesha(GaneshaOptions { backend: GaneshaBackend::Files, .. }) = self else { return None };
        let place = match environment {
            EnvironmentKind::Container => "a container",
            EnvironmentKind::Native if !in_host_namespace => "a user namespace",
            EnvironmentKind::Native | EnvironmentKind::Vm(_) => return None,
        };
        Some(format!(
            "ganesha opens its files by handle, which the kernel allows to the host's root alone: in {place} every client would \
             be told NFS4ERR_PERM; `backend: memory` works there"
        ))
    }
}

fn of_target(options: &TgtOptions) -> Access {
    let units = match options.luns {
        1 => "LUN 1".to_owned(),
        last => format!("LUNs 1 to {last}"),
    };
    let whose = match &options.initiators[..] {
        [] => "every initiator".to_owned(),
        [one] => format!("the initiator {one} alone; others see no target"),
        several => format!("the initiators {}; others see no target", several.join(" and ")),
    };
    let (initiator, target) = (TgtOptions::INITIATOR_CHAP.0, TgtOptions::TARGET_CHAP.0);
    let secret = match options.chap {
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
        what: format!("{units} of {}, and LUN 0, tgt's own controller", options.size),
        who: format!("{whose}; {secret}"),
    }
}

#[cfg(test)]
mod tests {
    use vtax_units::Bytes;

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
    fn files_are_served_where_handles_can_be_opened() {
        let ganesha = |backend| ServiceKind::Ganesha(GaneshaOptions { port: 2049, backend });
        let files = ganesha(GaneshaBackend::Files);
        assert!(files.misfit(&EnvironmentKind::Container, true).unwrap().contains("NFS4ERR_PERM"));
        assert!(files.misfit(&EnvironmentKind::Native, false).unwrap().contains("user namespace"));
        assert_eq!(files.misfit(&EnvironmentKind::Native, true), None);
        assert_eq!(ganesha(GaneshaBackend::Memory).misfit(&EnvironmentKind::Container, false), None);
    }
}
