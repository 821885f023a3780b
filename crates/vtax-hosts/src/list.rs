//! Lists of hosts: what `--on` names. Whoever wrote a list may be anyone, so everything in it is bounded, and what becomes part
//! of a command line or of a path is made of plain characters.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::net::IpAddr;
use std::path::Path;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::HostsError;
use crate::inventory;

/// Most hosts of one run.
pub(crate) const MAX_HOSTS: usize = 1_000;

/// The most bytes that a list of hosts may have.
const MAX_BYTES: u64 = 1 << 20;

/// A host that ssh reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSpec {
    /// What it is called in reports, and what its directory is called.
    pub name: String,
    /// What ssh is told: a name, an address, or a host of the user's ssh configuration.
    pub address: String,
    /// Whom to log in as; `None`: as ssh is configured.
    pub user: Option<String>,
    /// Port; `None`: as ssh is configured.
    pub port: Option<u16>,
    /// File with the private key.
    pub key: Option<String>,
    /// Absolute path of vtax there; `None`: this program is copied.
    pub program: Option<String>,
    /// Its address for other hosts, where its name is none.
    pub network: Option<IpAddr>,
}

/// Where a plan is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// On these hosts.
    Ssh(Vec<HostSpec>),
    /// On hosts that Slurm gives, of this partition.
    Slurm {
        /// `None`: the default one.
        partition: Option<String>,
    },
    /// On nodes that Kubernetes gives, by this context of kubectl.
    Kubernetes {
        /// `None`: the current one.
        context: Option<String>,
    },
}

/// Reads `ssh:a,b`, `slurm`, `slurm:PARTITION`, `k8s`, `k8s:CONTEXT`, a file of hosts or `FILE:GROUP`.
///
/// # Errors
///
/// [`HostsError::List`] where it isn't understood, [`HostsError::File`] where the file can't be read.
pub fn parse_on(text: &str) -> Result<On, HostsError> {
    let wrong = |reason: String| HostsError::List { place: format!("--on {text}"), reason };
    if let Some(list) = text.strip_prefix("ssh:") {
        let hosts = list.split(',').map(named).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        return checked(hosts).map(On::Ssh).map_err(wrong);
    }
    match text.split_once(':') {
        None if text == "slurm" => return Ok(On::Slurm { partition: None }),
        Some(("slurm", partition)) if is_word(partition) => {
            return Ok(On::Slurm { partition: Some(partition.to_owned()) });
        }
        Some(("slurm", _)) => {
            return Err(wrong("a partition's name has letters, digits, `-`, `_`, `.`".into()));
        }
        None if text == "k8s" => return Ok(On::Kubernetes { context: None }),
        Some(("k8s", context)) if is_context(context) => {
            return Ok(On::Kubernetes { context: Some(context.to_owned()) });
        }
        Some(("k8s", _)) => {
            return Err(wrong("a context's name has no blanks and no control characters".into()));
        }
        _ => {}
    }
    let (file, group) = match text.rsplit_once(':') {
        Some((file, group)) if !Path::new(text).exists() => (file, Some(group)),
        _ => (text, None),
    };
    from_file(Path::new(file), group).map(On::Ssh).map_err(|error| match error {
        HostsError::File { source, .. } if source.kind() == ErrorKind::NotFound && may_be_hosts(text) => {
            wrong(format!("cannot read {file}: {source}; hosts are written `ssh:{text}`"))
        }
        other => other,
    })
}

/// Whether what isn't there as a file may be names of hosts, of which the `ssh:` was forgotten.
fn may_be_hosts(text: &str) -> bool {
    ![".yaml", ".yml", ".ini"].iter().any(|end| text.ends_with(end))
        && parse_on(&format!("ssh:{text}")).is_ok()
}

fn from_file(path: &Path, group: Option<&str>) -> Result<Vec<HostSpec>, HostsError> {
    let wrong = |reason| HostsError::List { place: path.display().to_string(), reason };
    let text = read(path)?;
    let yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
    from_text(&text, yaml, group).map_err(wrong)
}

fn read(path: &Path) -> Result<String, HostsError> {
    let failed = |source| HostsError::File { what: "cannot read", path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::other("it is not a regular file")));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(failed(std::io::Error::other("it is larger than 1 MiB")));
    }
    Ok(text)
}

/// Hosts of a file's text: vtax's own form, or an inventory of Ansible.
pub(crate) fn from_text(text: &str, yaml: bool, group: Option<&str>) -> Result<Vec<HostSpec>, String> {
    if yaml && serde_saphyr::from_str::<OwnForm>(text).is_ok() {
        let own: Own = serde_saphyr::from_str(text).map_err(|e| format!("no list of hosts: {e}"))?;
        if group.is_some() {
            return Err("this list of hosts has no groups".to_owned());
        }
        return checked(own.hosts.into_iter().map(OwnHost::spec).collect::<Result<_, _>>()?);
    }
    let groups = if yaml { inventory::yaml(text)? } else { inventory::ini(text)? };
    checked(groups.hosts(group)?)
}

/// By what vtax's own form is known, whatever else is wrong with it: below `hosts` an inventory has no list.
#[derive(Deserialize)]
struct OwnForm {
    #[serde(rename = "hosts")]
    _hosts: Vec<IgnoredAny>,
}

/// vtax's own form: a list under `hosts`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    hosts: Vec<OwnHost>,
}

#[derive(Debug)]
enum OwnHost {
    Short(String),
    Long(OwnLong),
}

/// By hand, so that what is wrong with a field is said with its name: of an untagged form it would only be said that none fits.
impl<'de> Deserialize<'de> for OwnHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = OwnHost;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a host's name, or `{name, address, user, port, key, program}`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OwnHost, E> {
                Ok(OwnHost::Short(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OwnHost, A::Error> {
                OwnLong::deserialize(MapAccessDeserializer::new(map)).map(OwnHost::Long)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnLong {
    name: String,
    address: Option<String>,
    user: Option<String>,
    port: Option<u16>,
    key: Option<String>,
    program: Option<String>,
}

impl OwnHost {
    fn spec(self) -> Result<HostSpec, String> {
        match self {
            Self::Short(text) => named(&text),
            Self::Long(OwnLong { name, address, user, port, key, program }) => Ok(HostSpec {
                address: address.unwrap_or_else(|| name.clone()),
                name,
                user,
                port,
                key,
                program,
                network: None,
            }),
        }
    }
}

/// `[user@]host[:port]`; an IPv6 address with a port stands in brackets.
pub(crate) fn named(text: &str) -> Result<HostSpec, String> {
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(user.to_owned()), rest),
        None => (None, text),
    };
    let (address, port) = match rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, port)) => (address, Some(port.strip_prefix(':').unwrap_or(port))),
        // More than one colon is an IPv6 address.
        None if rest.matches(':').count() == 1 => {
            rest.split_once(':').map_or((rest, None), |(address, port)| (address, Some(port)))
        }
        None => (rest, None),
    };
    let port = port.map(|p| p.parse::<u16>().map_err(|_| format!("`{}` is no port", p.escape_debug())));
    Ok(HostSpec {
        name: address.replace(':', "_"),
        address: address.to_owned(),
        user,
        port: port.transpose()?,
        ..HostSpec::default()
    })
}

/// A word that may stand in a command line: it is no option, and no shell gives it a meaning.
pub(crate) fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=200).contains(&text.len()) && !text.starts_with(['-', '.']) && text.chars().all(plain)
}

/// The name of a context, which stands in one word behind `--context=`: clouds give them colons and slashes.
fn is_context(text: &str) -> bool {
    (1..=500).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

fn is_address(text: &str) -> bool {
    is_word(&text.replace([':', '%'], "_"))
}

/// A path that may stand in a command line and in a script between double quotes.
fn is_plain_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/~+@".contains(c);
    (1..=1000).contains(&text.len()) && !text.starts_with('-') && text.chars().all(plain)
}

/// Refuses what can't be part of a command line, names that come twice, and lists without a host or with too many.
fn checked(hosts: Vec<HostSpec>) -> Result<Vec<HostSpec>, String> {
    let mut names = BTreeSet::new();
    for host in &hosts {
        let shown = host.name.escape_debug();
        if !is_word(&host.name) {
            return Err(format!("`{shown}` is no name of a host: it has letters, digits, `-`, `_`, `.`"));
        }
        if !is_address(&host.address) {
            return Err(format!("{shown}: `{}` is no address", host.address.escape_debug()));
        }
        if let Some(user) = host.user.as_deref().filter(|u| !is_word(u)) {
            return Err(format!("{shown}: `{}` is no user's name", user.escape_debug()));
        }
        if let Some(key) = host.key.as_deref().filter(|k| !is_plain_path(k)) {
            return Err(format!("{shown}: `{}` is no path of a key", key.escape_debug()));
        }
        if let Some(program) = host.program.as_deref().filter(|p| !p.starts_with('/') || !is_plain_path(p)) {
            return Err(format!("{shown}: `{}` is no absolute path of vtax", program.escape_debug()));
        }
        if host.port == Some(0) {
            return Err(format!("{shown}: 0 is no port"));
        }
        if !names.insert(&host.name) {
            return Err(format!("{shown} is named twice"));
        }
    }
    match hosts.len() {
        0 => Err("it names no host".to_owned()),
        n if n > MAX_HOSTS => Err(format!("it names {n} hosts, and at most {MAX_HOSTS} are taken")),
        _ => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ssh(text: &str) -> Vec<HostSpec> {
        match parse_on(text).unwrap() {
            On::Ssh(hosts) => hosts,
            other => panic!("{other:?}"),
        }
    }

    fn refused(text: &str) -> String {
        parse_on(text).unwrap_err().to_string()
    }

    #[test]
    fn hosts_on_the_command_line() {
        let hosts = ssh("ssh:a,root@b.example.org:2222,[fe80::1]:22,::1");
        let names: Vec<&str> = hosts.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, ["a", "b.example.org", "fe80__1", "__1"]);
        assert_eq!((hosts[1].user.as_deref(), hosts[1].port), (Some("root"), Some(2222)));
        assert_eq!((hosts[2].address.as_str(), hosts[2].port), ("fe80::1", Some(22)));
        assert_eq!((hosts[3].address.as_str(), hosts[3].port), ("::1", None));
        assert_eq!(parse_on("slurm").unwrap(), On::Slurm { partition: None });
        let context = Some("arn:aws:eks:x/lab".to_owned());
        assert_eq!(parse_on("k8s:arn:aws:eks:x/lab").unwrap(), On::Kubernetes { context });
        assert_eq!(parse_on("k8s").unwrap(), On::Kubernetes { context: None });
        assert_eq!(parse_on("slurm:gpu-2").unwrap(), On::Slurm { partition: Some("gpu-2".to_owned()) });
    }

    #[test]
    fn names_without_ssh_are_told_how_they_are_written() {
        for hosts in ["vtax-no-such-host", "vtax-no-such-host,root@b", "vtax-no-such-host:22"] {
            let told = refused(hosts);
            assert!(told.contains("cannot read vtax-no-such-host"), "{told}");
            assert!(told.ends_with(&format!("hosts are written `ssh:{hosts}`")), "{told}");
        }
        for file in ["/nowhere/hosts", "vtax-no-such-list.yaml"] {
            let told = refused(file);
            assert!(told.contains("cannot read") && !told.contains("ssh:"), "{told}");
        }
    }

    #[test]
    fn nothing_becomes_an_option_or_a_script() {
        for (text, words) in [
            ("ssh:", "no name of a host"),
            ("ssh:-oProxyCommand=x", "no name of a host"),
            ("ssh:a;reboot", "no name of a host"),
            ("ssh:$(x)@a", "no user's name"),
            ("ssh:a:70000", "no port"),
            ("ssh:a,a", "named twice"),
            ("ssh:..", "no name of a host"),
            ("slurm:-p x", "a partition's name"),
            ("k8s:a b", "a context's name"),
            ("/nowhere/hosts.yaml", "cannot read"),
        ] {
            let found = refused(text);
            assert!(found.contains(words), "{text}: {found}");
        }
        let many: Vec<String> = (0..=MAX_HOSTS).map(|i| format!("h{i}")).collect();
        assert!(refused(&format!("ssh:{}", many.join(","))).contains("at most 1000"));
    }

    #[test]
    fn a_list_of_ones_own() {
        let text = "hosts:\n  - a\n  - {name: b, address: 10.0.0.2, user: lab, port: 2222, key: ~/.ssh/lab, program: /opt/vtax}\n";
        let hosts = from_text(text, true, None).unwrap();
        assert_eq!((hosts[0].name.as_str(), hosts[0].address.as_str()), ("a", "a"));
        assert_eq!((hosts[1].address.as_str(), hosts[1].program.as_deref()), ("10.0.0.2", Some("/opt/vtax")));
        assert!(from_text(text, true, Some("web")).unwrap_err().contains("no groups"));
        for (text, words) in [
            ("hosts: [{name: b, program: vtax}]", "no absolute path"),
            ("hosts: [{name: b, key: 'a b'}]", "no path of a key"),
            ("hosts: [{name: b, address: '-x'}]", "no address"),
            ("hosts: []", "names no host"),
            // Of what can only be a list of one's own it is said what is wrong with that.
            ("hosts: [{name: b, adress: x}]", "unknown field `adress`"),
            ("hosts: [{name: b, port: many}]", "port"),
            ("hosts: [{address: b}]", "missing field `name`"),
            ("hosts: [[a]]", "a host's name, or `{name"),
            ("hosts: [a]\nhost: [b]", "unknown field `host`"),
            ("hosts: {hosts: [b]}", "neither a list of hosts nor an inventory"),
        ] {
            let found = from_text(text, true, None).unwrap_err();
            assert!(found.contains(words), "{text}: {found}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_taken_is_harmless(text in any::<String>(), yaml in any::<bool>()) {
            if let Ok(hosts) = from_text(&text, yaml, None) {
                prop_assert!(hosts.iter().all(|h| is_word(&h.name) && is_address(&h.address)));
            }
            if let Ok(On::Ssh(hosts)) = parse_on(&format!("ssh:{text}")) {
                prop_assert!(hosts.iter().all(|h| is_word(&h.name) && is_address(&h.address)));
            }
        }
    }
}
