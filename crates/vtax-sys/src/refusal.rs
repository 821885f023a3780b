//! Why a host refuses namespaces, and what would allow them.

use std::io;
use std::path::Path;

use crate::error::SysError;
use crate::mountinfo::{self, Mounted};

fn sysctl(path: &str) -> Option<i64> {
    std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?.trim().parse().ok()
}

fn has_seccomp_filter() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter_map(|l| l.strip_prefix("Seccomp:")).any(|v| v.trim() == "2")
}

/// Root without this capability may not become root in a user namespace (`verify_root_map` in the kernel, since 5.12).
const CAP_SETFCAP: u32 = 31;

/// Whether a text of /proc/self/status is that of root without CAP_SETFCAP.
fn is_root_without_setfcap(status: &str) -> bool {
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let effective = value("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let user = value("Uid:").and_then(|ids| ids.split_whitespace().nth(1));
    user == Some("0") && effective.is_some_and(|mask| mask & (1 << CAP_SETFCAP) == 0)
}

/// Whether these mounts are seen from a chroot: nothing is mounted at its root. The kernel lets nobody make a user namespace in one
/// (`current_chrooted`, user_namespaces(7)). A chroot to the root of a mount isn't recognized.
fn is_chroot(mounts: &[Mounted]) -> bool {
    !mounts.is_empty() && mounts.iter().all(|mount| mount.point != Path::new("/"))
}

/// The first step in a user namespace that could be made.
pub(crate) const MAP: &str = "becoming root in a user namespace";

/// The step that containers refuse where all others are allowed.
pub(crate) const PROC: &str = "a /proc of its own";

/// An error that says which of the known locks is closed.
pub(crate) fn explain(stage: &'static str, source: io::Error) -> SysError {
    let (reason, fix) = match stage {
        PROC => (
            "parts of /proc are masked here, as in a container, and then the kernel lets a user namespace have none of its own".to_owned(),
            "start the container with `--privileged`, or with `--security-opt systempaths=unconfined`".to_owned(),
        ),
        _ => reason_and_fix(stage, &source),
    };
    SysError::NamespacesRefused { stage, reason, fix, source }
}

fn reason_and_fix(stage: &str, error: &io::Error) -> (String, String) {
    let (reason, fix) = closed_lock(stage, error);
    let is_root = rustix::process::geteuid().is_root();
    (reason, if is_root { for_root(&fix).to_owned() } else { fix })
}

/// A way out for who is root already.
fn for_root(fix: &str) -> &str {
    let fix = fix.strip_suffix(", or run as root").unwrap_or(fix);
    fix.strip_prefix("run as root, or ").unwrap_or(fix)
}

/// Whether a seccomp filter is what refused. One that forbids namespaces lets none be made; AppArmor lets them be made, and nobody
/// become root in them.
fn is_the_filter(stage: &str, has_filter: bool, restricts_apparmor: bool) -> bool {
    has_filter && !(stage == MAP && restricts_apparmor)
}

/// The filter that containers have. The host's AppArmor may refuse too what the filter allows then.
fn seccomp_filter(restricts_apparmor: bool) -> (String, String) {
    let mut fix = "start the container with `--privileged`, or with `--security-opt seccomp=unconfined \
                   --security-opt apparmor=unconfined`"
        .to_owned();
    if restricts_apparmor {
        fix += "; if that isn't enough, on the host `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` too";
    }
    ("a seccomp filter forbids it, as in a container".to_owned(), fix)
}

fn closed_lock(stage: &str, error: &io::Error) -> (String, String) {
    let pair = |reason: &str, fix: &str| (reason.to_owned(), fix.to_owned());
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EUSERS) => {
            return pair(
                "a limit on namespaces is reached (user.max_user_namespaces and its siblings)",
                "raise it with `sudo sysctl user.max_user_namespaces=15000`",
            );
        }
        Some(libc::EINVAL | libc::ENOSYS) => {
            return pair(
                "the kernel was built without this kind of namespace",
                "use a kernel with CONFIG_USER_NS, CONFIG_PID_NS and CONFIG_NET_NS, or run as root",
            );
        }
        Some(libc::ENOMEM) => return pair("memory is short or the PID namespace is ending", "try again"),
        _ => {}
    }
    if sysctl("kernel/unprivileged_userns_clone") == Some(0) {
        return pair(
            "kernel.unprivileged_userns_clone is 0",
            "allow it with `sudo sysctl kernel.unprivileged_userns_clone=1`, or run as root",
        );
    }
    if sysctl("user/max_user_namespaces") == Some(0) {
        return pair(
            "user.max_user_namespaces is 0",
            "allow it with `sudo sysctl user.max_user_namespaces=15000`, or run as root",
        );
    }
    // Containers see the host's sysctl, but it is their filter that refuses first.
    let restricts_apparmor = sysctl("kernel/apparmor_restrict_unprivileged_userns").is_some_and(|v| v != 0);
    if is_the_filter(stage, has_seccomp_filter(), restricts_apparmor) {
        return seccomp_filter(restricts_apparmor);
    }
    if restricts_apparmor {
        return pair(
            "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "allow it with `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` or a profile \
             for vtax (docs/privileges.md), or run as root",
        );
    }
    if is_root_without_setfcap(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        return pair(
            "root lacks the capability SETFCAP, as in a container without capabilities",
            "run as another user than root, or give the container that capability",
        );
    }
    if mountinfo::mounts().is_ok_and(|mounts| is_chroot(&mounts)) {
        return pair(
            "the kernel lets nobody make a user namespace in a chroot",
            "make the directory the root of a mount namespace (pivot_root, systemd-nspawn, a container), or run as root",
        );
    }
    pair(
        "the kernel or a security module forbids it",
        "run as root, or see what `vtax doctor` says about namespaces",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chroot_is_known_by_its_mounts() {
        let seen = |places: &[&str]| {
            let line = |place: &&str| format!("36 35 98:0 / {place} rw - ext4 /dev/vda rw\n");
            is_chroot(&mountinfo::parse(places.iter().map(line).collect::<String>().as_bytes()))
        };
        assert!(seen(&["/proc", "/sys"]));
        assert!(!seen(&["/", "/proc"]));
        // Nothing is known where /proc isn't there.
        assert!(!seen(&[]));
    }

    #[test]
    fn a_containers_filter_is_opened_before_the_hosts_rule() {
        let (reason, fix) = seccomp_filter(false);
        assert!(reason.contains("seccomp") && fix.ends_with("apparmor=unconfined`"), "{reason}: {fix}");
        let (reason, fix) = seccomp_filter(true);
        assert!(!reason.contains("AppArmor"), "{reason}");
        assert!(fix.starts_with("start the container") && fix.contains("userns=0` too"), "{fix}");
    }

    /// A service manager's filter, which allows namespaces, was blamed for what AppArmor refused.
    #[test]
    fn a_filter_is_not_blamed_for_a_namespace_that_was_made() {
        assert!(is_the_filter("new namespaces", true, true) && is_the_filter("new namespaces", true, false));
        assert!(is_the_filter(MAP, true, false) && !is_the_filter(MAP, true, true));
        assert!(!is_the_filter("new namespaces", false, true) && !is_the_filter(MAP, false, false));
    }

    #[test]
    fn root_is_not_told_to_run_as_root() {
        assert_eq!(for_root("raise it, or run as root"), "raise it");
        assert_eq!(for_root("run as root, or see more"), "see more");
        assert_eq!(for_root("try again"), "try again");
    }

    #[test]
    fn root_without_setfcap_is_known() {
        let status = |uid: &str, mask: &str| {
            format!("Name:\tvtax\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapInh:\t0\nCapEff:\t{mask}\n")
        };
        assert!(is_root_without_setfcap(&status("0", "0000000000000000")));
        assert!(!is_root_without_setfcap(&status("0", "0000000080000000")));
        assert!(!is_root_without_setfcap(&status("65534", "0000000000000000")));
        assert!(!is_root_without_setfcap("") && !is_root_without_setfcap(&status("0", "?")));
    }
}
