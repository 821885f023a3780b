//! Which logical unit is used, and how its session is made.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use vtax_wire::iscsi::PORT;
use vtax_wire::scsi;

use crate::family::storage::client::{decoded, resolve};

/// Names of initiators and targets have at most so many bytes (RFC 7143 section 4.2.7.1).
const NAME_BYTES_MAX: usize = 223;
/// Where the secret may be instead of in the URL, which other users of the host can see.
const SECRET_VARIABLE: &str = "VTAX_CHAP_SECRET";
/// The initiator's name unless told otherwise.
pub const INITIATOR: &str = "iqn.2026-11.vtax:client";

/// A logical unit behind an iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IscsiSpec {
    /// The target's portal.
    pub address: SocketAddr,
    /// The target's name.
    pub target: String,
    /// Number of the unit.
    pub lun: u16,
    /// Units from this number on, which processes use in turn.
    #[serde(default = "one")]
    pub units: u16,
    /// The initiator's name.
    pub initiator: String,
    /// The initiator's name and secret for CHAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<ChapSecret>,
    /// The target's, where it is to prove itself as well (mutual CHAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<ChapSecret>,
    /// Headers are followed by their CRC32C.
    #[serde(default)]
    pub header_digest: bool,
    /// Data segments are followed by their CRC32C.
    #[serde(default)]
    pub data_digest: bool,
    /// Data goes with its command, as far as the target allows.
    #[serde(default = "yes")]
    pub immediate_data: bool,
    /// All other data waits for the target's R2T.
    #[serde(default)]
    pub initial_r2t: bool,
    /// It may be overwritten although it holds data that isn't vtax's own.
    #[serde(default)]
    pub overwrite: bool,
}

const fn one() -> u16 {
    1
}

const fn yes() -> bool {
    true
}

/// A name and a secret of CHAP.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChapSecret {
    /// Sent openly.
    pub name: String,
    /// Never shown.
    pub secret: String,
}

impl fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChapSecret {{ name: {:?}, .. }}", self.name)
    }
}

impl IscsiSpec {
    /// A unit of a target, with nothing but what is needed.
    #[must_use]
    pub fn new(address: SocketAddr, target: impl Into<String>, lun: u16) -> Self {
        Self {
            address,
            target: target.into(),
            lun,
            units: 1,
            initiator: INITIATOR.to_owned(),
            chap: None,
            mutual: None,
            header_digest: false,
            data_digest: false,
            immediate_data: true,
            initial_r2t: false,
            overwrite: false,
        }
    }

    /// Reads `iscsi://[USER[:SECRET]@]HOST[:PORT]/TARGET/LUN[?OPTION&...]`; a secret that isn't there is
    /// taken from `VTAX_CHAP_SECRET`. Options: `header-digest`, `data-digest`, `initial-r2t`,
    /// `no-immediate-data`, `initiator=NAME`. What stands for itself elsewhere is written `%40`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn from_url(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("iscsi://").ok_or("it does not begin with iscsi://")?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').ok_or("it has no target: iscsi://HOST/TARGET/LUN")?;
        let (target, lun) = path.rsplit_once('/').ok_or("it has no LUN: iscsi://HOST/TARGET/LUN")?;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let lun = lun.parse().map_err(|_| format!("`{lun}` is no number of a logical unit"))?;
        let mut spec = Self::new(resolve(host, PORT)?, decoded(target)?, lun);
        spec.chap = user.map(chap).transpose()?;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            spec.option(option)?;
        }
        spec.check()?;
        Ok(spec)
    }

    fn option(&mut self, option: &str) -> Result<(), String> {
        match option.split_once('=').unwrap_or((option, "")) {
            ("header-digest", "") => self.header_digest = true,
            ("data-digest", "") => self.data_digest = true,
            ("initial-r2t", "") => self.initial_r2t = true,
            ("no-immediate-data", "") => self.immediate_data = false,
            ("initiator", name) => self.initiator = decoded(name)?,
            _ => {
                return Err(format!(
                    "there is no option `{option}`: header-digest, data-digest, initial-r2t, \
                     no-immediate-data, initiator=NAME"
                ));
            }
        }
        Ok(())
    }

    /// Looks for what no target would take.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        for (what, name) in [("target", &self.target), ("initiator", &self.initiator)] {
            // RFC 3722's characters; a name is part of a text whose pairs end with zero bytes.
            let allowed = |c: char| c.is_alphanumeric() || "-.:_".contains(c);
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(allowed) {
                return Err(format!(
                    "`{}` is no name of a {what}: iqn.2026-11.org.example:disk",
                    name.escape_debug()
                ));
            }
        }
        for secret in [&self.chap, &self.mutual].into_iter().flatten() {
            if secret.name.is_empty() || secret.name.len() > NAME_BYTES_MAX || secret.name.contains('\0') {
                return Err("a name of CHAP has 1 to 223 bytes, none of them zero".to_owned());
            }
            if secret.secret.is_empty() || secret.secret.len() > 255 {
                return Err("a secret of CHAP has 1 to 255 bytes".to_owned());
            }
        }
        if self.mutual.is_some() && self.chap.is_none() {
            return Err("a target proves itself only to an initiator that does".to_owned());
        }
        if self.mutual.as_ref().map(|m| &m.secret) == self.chap.as_ref().map(|c| &c.secret)
            && self.mutual.is_some()
        {
            return Err(
                "initiator and target must not have the same secret (RFC 7143 section 9.2.1)".to_owned()
            );
        }
        let last = u32::from(self.lun) + u32::from(self.units.max(1)) - 1;
        if u16::try_from(last).ok().and_then(scsi::lun_address).is_none() {
            return Err(format!("LUN {last} is beyond 16383"));
        }
        Ok(())
    }
}

fn chap(user: &str) -> Result<ChapSecret, String> {
    let (name, secret) = match user.split_once(':') {
        Some((name, secret)) => (name, decoded(secret)?),
        None => {
            let secret = std::env::var(SECRET_VARIABLE);
            (user, secret.map_err(|_| format!("there is no secret for `{user}`: set {SECRET_VARIABLE}"))?)
        }
    };
    Ok(ChapSecret { name: decoded(name)?, secret })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_portal_target_and_unit() {
        let spec = IscsiSpec::from_url("iscsi://127.0.0.1/iqn.2026-11.a:b/3").unwrap();
        assert_eq!(spec, IscsiSpec::new("127.0.0.1:3260".parse().unwrap(), "iqn.2026-11.a:b", 3));
        let spec = IscsiSpec::from_url(
            "iscsi://jo%40e:se:cret@[::1]:99/iqn.a/0?header-digest&data-digest&initial-r2t&no-immediate-data\
             &initiator=iqn.me",
        )
        .unwrap();
        assert_eq!(spec.address.to_string(), "[::1]:99");
        let chap = spec.chap.as_ref().unwrap();
        assert_eq!((chap.name.as_str(), chap.secret.as_str()), ("jo@e", "se:cret"));
        assert!(spec.header_digest && spec.data_digest && spec.initial_r2t && !spec.immediate_data);
        assert_eq!(spec.initiator, "iqn.me");
        assert!(!format!("{spec:?}").contains("se:cret"), "secrets are not shown");
    }

    #[test]
    fn wrong_urls_are_refused_with_words() {
        for (url, word) in [
            ("http://x", "iscsi://"),
            ("iscsi://127.0.0.1", "no target"),
            ("iscsi://127.0.0.1/iqn.a", "no LUN"),
            ("iscsi://127.0.0.1/iqn.a/x", "`x`"),
            ("iscsi://127.0.0.1/iqn.a/16384", "16383"),
            ("iscsi://127.0.0.1/iqn a/0", "no name of a target"),
            ("iscsi:///iqn.a/0", "no host"),
            ("iscsi://127.0.0.1/iqn.%zz/0", "hexadecimal"),
            ("iscsi://127.0.0.1/iqn.%00a/0", "no name of a target"),
            ("iscsi://127.0.0.1/iqn.a/0?fast", "`fast`"),
            ("iscsi://joe:@127.0.0.1/iqn.a/0", "secret"),
        ] {
            let error = IscsiSpec::from_url(url).unwrap_err();
            assert!(error.contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn a_spec_comes_back_from_what_travels() {
        let mut spec = IscsiSpec::new("127.0.0.1:3260".parse().unwrap(), "iqn.a", 1);
        spec.chap = Some(ChapSecret { name: "joe".into(), secret: "s".into() });
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<IscsiSpec>(&text).unwrap(), spec);
        let short = r#"{"address":"127.0.0.1:1","target":"iqn.a","lun":0,"initiator":"iqn.b"}"#;
        assert!(serde_json::from_str::<IscsiSpec>(short).unwrap().immediate_data);
    }
}
