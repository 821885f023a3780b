//! Settings of the network of this thread's namespace: files below `/proc/sys/net` (the kernel's
//! `Documentation/networking/ip-sysctl.rst`).

use std::io;

use crate::error::{Context, Result};

/// What stands for the interfaces there are, and for those to come.
pub(crate) const EVERYWHERE: [&str; 2] = ["all", "default"];

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
    fn a_setting_that_the_kernel_lacks_may_be_missing_or_not() {
        const MISSING: &str = "ipv4/vtax_has_no_such_setting";
        set_if_there(MISSING, "1").unwrap();
        let refused = set(MISSING, "1").unwrap_err().to_string();
        assert_eq!(refused, "write /proc/sys/net/ipv4/vtax_has_no_such_setting");
    }
}
