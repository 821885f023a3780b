//! What this process may do.

/// CAP_NET_ADMIN of capabilities(7).
pub const NET_ADMIN: u32 = 12;
/// CAP_SYS_ADMIN of capabilities(7).
pub const SYS_ADMIN: u32 = 21;

/// Whether the effective set of this process has the capability with this number.
#[must_use]
pub fn has(capability: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let set = set.and_then(|s| u64::from_str_radix(s.trim(), 16).ok()).unwrap_or(0);
    set >> capability & 1 == 1
}

/// Whether this process is in the user namespace the host was booted with.
#[must_use]
pub fn in_initial_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let fields: Vec<&str> = map.split_whitespace().collect();
    fields == ["0", "0", "4294967295"]
}
