//! Settings of the network of this thread's namespace: files below `/proc/sys/net` (the kernel's
//! `Documentation/networking/ip-sysctl.rst`).

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use vtax_units::fact;

use crate::error::{Context, Result};

/// What stands for the interfaces there are, and for those to come.
pub(crate) const EVERYWHERE: [&str; 2] = ["all", "default"];

/// What sockets begin with, by the names of the settings.
pub type Sockets = BTreeMap<String, String>;

/// What a new network namespace takes over from the host's first one, and all nodes on a host have in common (`tcp_sk_init` of
/// the kernel's net/ipv4/tcp_ipv4.c, `net_defaults_init_net` of net/core/net_namespace.c). A guest has its own kernel's.
const SOCKETS: [&str; 7] = [
    fact::CONGESTION_CONTROL,
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "core/rmem_default",
    "core/wmem_default",
    "core/rmem_max",
    "core/wmem_max",
];

/// What the names of those begin with that are the same in all network namespaces of a kernel. Before Linux 6.11 (its commit
/// 19249c0724f2) only the first namespace shows them.
const COMMON: &str = "core/";

/// What [`remember`] found. A fork has it too; a program that is started anew hasn't.
static HOST: OnceLock<Sockets> = OnceLock::new();

/// Keeps what sockets of this thread's network namespace begin with, for [`of_host`] and [`add_common`] in this process and its
/// forks. [`start_controller`](crate::controller::start_controller) calls it while it is still in the host's namespace; what was
/// kept first stays.
pub fn remember() {
    HOST.get_or_init(sockets);
}

/// What sockets begin with on this host: as [`sockets`], and where this namespace doesn't show what all have in common, as it was
/// [remembered](remember).
#[must_use]
pub fn of_host() -> Sockets {
    let mut known = sockets();
    add_common(&mut known);
    known
}

/// Adds what all network namespaces of this host have in common to what one of them shows. It is no business of a kernel of its
/// own, as a guest's; that one shows its first namespace everything, so nothing is added.
pub fn add_common(shown: &mut Sockets) {
    if let Some(host) = HOST.get() {
        fill_in(shown, host);
    }
}

fn fill_in(shown: &mut Sockets, host: &Sockets) {
    for (setting, value) in host.iter().filter(|(setting, _)| setting.starts_with(COMMON)) {
        shown.entry(setting.clone()).or_insert_with(|| value.clone());
    }
}

/// What sockets of this thread's network namespace begin with, as far as it can be read.
#[must_use]
pub fn sockets() -> Sockets {
    let read = |setting: &str| {
        let text = std::fs::read_to_string(path(setting)).ok()?;
        Some((setting.to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    SOCKETS.into_iter().filter_map(read).collect()
}

/// Has sockets of this thread's network namespace begin with these. What the kernel refuses, as an algorithm that it has no module for,
/// stays as it is: [`sockets`] tells.
pub fn take_over(sockets: &Sockets) {
    for setting in SOCKETS {
        if let Some(value) = sockets.get(setting) {
            let _ = set(setting, value);
        }
    }
}

/// The file of a setting, which is named without its directory, such as `ipv4/ip_forward`.
#[must_use]
pub fn path(setting: &str) -> String {
    format!("/proc/sys/net/{setting}")
}

/// Sets a setting.
///
/// # Errors
///
/// Where the kernel has no such setting, or refuses.
pub fn set(setting: &str, value: &str) -> Result<()> {
    let path = path(setting);
    std::fs::write(&path, value).context("write", path)
}

/// Sets a setting that the kernel may not have; then there is nothing to set.
///
/// # Errors
///
/// Where the kernel has it and refuses.
pub fn set_if_there(setting: &str, value: &str) -> Result<()> {
    let path = path(setting);
    match std::fs::write(&path, value) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.context("write", path),
    }
}

/// The setting that switches IPv6 off for an interface, or for one of [`EVERYWHERE`].
pub(crate) fn ipv6_switch(interface: &str) -> String {
    format!("ipv6/conf/{interface}/disable_ipv6")
}

/// Switches IPv6 off for an interface: its neighbour and router discovery would be packets that no workload sent.
/// A kernel without IPv6 has nothing to switch off.
///
/// # Errors
///
/// Where the kernel has IPv6 and refuses.
pub fn disable_ipv6(interface: &str) -> Result<()> {
    set_if_there(&ipv6_switch(interface), "1")
}

/// Switches IPv6 off for all interfaces, those to come as well, for the reason that [`disable_ipv6`] has. Where the kernel
/// refuses, it stays on: a testbed can be used with it.
pub fn disable_ipv6_everywhere() {
    for interface in EVERYWHERE {
        let _ = disable_ipv6(interface);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sockets_begin_with_is_read_and_nothing_else_is_set() {
        let now = sockets();
        assert!(now.contains_key(fact::CONGESTION_CONTROL), "{now:?}");
        let window = now["ipv4/tcp_rmem"].split(' ').map(str::parse::<u64>);
        assert_eq!(window.filter(Result::is_ok).count(), 3, "least, usual and most: {now:?}");
        // What isn't among them is no business of a node's.
        take_over(&BTreeMap::from([("ipv4/ip_forward".to_owned(), "no number".to_owned())]));
        assert_eq!(sockets(), now);
    }

    fn settings(of: &[(&str, &str)]) -> Sockets {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Before Linux 6.11 a namespace shows nothing below `core`; its sockets begin with the host's all the same.
    #[test]
    fn what_a_namespace_does_not_show_is_the_hosts() {
        let host = settings(&[
            ("core/rmem_max", "212992"),
            ("core/wmem_max", "4194304"),
            ("ipv4/tcp_rmem", "1 2 3"),
        ]);
        let mut shown = settings(&[("ipv4/tcp_rmem", "4 5 6")]);
        fill_in(&mut shown, &host);
        let expected =
            [("core/rmem_max", "212992"), ("core/wmem_max", "4194304"), ("ipv4/tcp_rmem", "4 5 6")];
        assert_eq!(shown, settings(&expected));
    }

    #[test]
    fn what_a_kernel_shows_stays_and_what_is_each_namespaces_own_is_not_added() {
        let host = settings(&[("core/rmem_max", "212992"), (fact::CONGESTION_CONTROL, "bbr")]);
        let guest = settings(&[("core/rmem_max", "1048576")]);
        let mut shown = guest.clone();
        fill_in(&mut shown, &host);
        assert_eq!(shown, guest);
    }

    #[test]
    fn what_is_remembered_first_stays() {
        remember();
        let first = HOST.get().cloned();
        assert!(first.is_some());
        remember();
        assert_eq!(HOST.get().cloned(), first);
        let mut nothing = Sockets::new();
        add_common(&mut nothing);
        assert!(nothing.keys().all(|setting| setting.starts_with(COMMON)), "{nothing:?}");
        let common = first.unwrap_or_default().into_keys().filter(|setting| setting.starts_with(COMMON));
        assert_eq!(nothing.into_keys().collect::<Vec<_>>(), common.collect::<Vec<_>>());
    }

    #[test]
    fn a_setting_that_the_kernel_lacks_may_be_missing_or_not() {
        const MISSING: &str = "ipv4/vtax_has_no_such_setting";
        set_if_there(MISSING, "1").unwrap();
        let refused = set(MISSING, "1").unwrap_err().to_string();
        assert_eq!(refused, "write /proc/sys/net/ipv4/vtax_has_no_such_setting");
    }
}
