//! Why a host refuses namespaces, and what would allow them.

use std::io;

use crate::error::SysError;

fn sysctl(path: &str) -> Option<i64> {
    std::fs::read_to_string(format!("/proc/sys/{path}")).ok()?.trim().parse().ok()
}

fn has_seccomp_filter() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter_map(|l| l.strip_prefix("Seccomp:")).any(|v| v.trim() == "2")
}

/// An error that says which of the known locks is closed.
pub(crate) fn explain(stage: &'static str, source: io::Error) -> SysError {
    let (reason, fix) = reason_and_fix(&source);
    SysError::NamespacesRefused { stage, reason, fix, source }
}

fn reason_and_fix(error: &io::Error) -> (String, String) {
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
    if sysctl("kernel/apparmor_restrict_unprivileged_userns").is_some_and(|v| v != 0) {
        return pair(
            "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "allow it with `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` or a profile \
             for vtax (docs/privileges.md), or run as root",
        );
    }
    if has_seccomp_filter() {
        return pair(
            "a seccomp filter forbids it, as in a container",
            "start the container with `--privileged`, or with `--security-opt seccomp=unconfined \
             --security-opt apparmor=unconfined`",
        );
    }
    pair(
        "the kernel or a security module forbids it",
        "run as root, or see what `vtax doctor` says about namespaces",
    )
}
