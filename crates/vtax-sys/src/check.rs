//! What `vtax doctor` finds out about a host.

/// Names of points, which several crates check and `vtax doctor` sums up. Hosts tell each other of them, so that none may change.
pub mod name {
    /// Network, PID, mount, IPC and UTS namespaces; where they are refused, much is never tried.
    pub const NAMESPACES: &str = "namespaces";
    /// A user namespace, for root.
    pub const USER_NAMESPACE: &str = "user namespace";
    /// A network namespace made and entered.
    pub const NETWORK_NAMESPACE: &str = "network namespace";
    /// Requests to the kernel's network.
    pub const NETLINK: &str = "netlink";
    /// Virtual cables.
    pub const VETH: &str = "veth";
    /// The kernel's bridges.
    pub const BRIDGE: &str = "bridge";
    /// Cables that are held to a rate.
    pub const RATE_LIMIT: &str = "rate limit";
    /// What virtual machines are plugged in by.
    pub const TAP: &str = "tap";
    /// CPUs that may be used.
    pub const CPUS: &str = "CPUs";
    /// Signs of noise that the host shows.
    pub const NOISE: &str = "noise";
    /// Groups that hold CPUs and memory.
    pub const CONTROL_GROUPS: &str = "control groups";
    /// A private layer over the host's files.
    pub const OVERLAY: &str = "overlay";
    /// A container runtime.
    pub const CONTAINERS: &str = "containers";
    /// A usable QEMU.
    pub const QEMU: &str = "QEMU";
    /// A kernel that guests boot.
    pub const GUEST_KERNEL: &str = "guest kernel";
    /// What guests run on.
    pub const ACCELERATOR: &str = "accelerator";
    /// Whether the host's kernel moves guests' packets.
    pub const VHOST_NET: &str = "vhost-net";
    /// A QEMU that keeps pairs.
    pub const FAULT_TOLERANT_PAIRS: &str = "fault-tolerant pairs";
    /// A usable `linux.uml`.
    pub const USER_MODE_LINUX: &str = "user-mode Linux";
    /// The host's clock.
    pub const CLOCK: &str = "clock";
    /// What sockets begin with.
    pub const SOCKETS: &str = "sockets";
    /// What the name of a path begins with.
    pub const PATH: &str = "path ";
    /// What the name of a service begins with.
    pub const SERVICE: &str = "service ";

    /// The name of a path, by its word in plans.
    #[must_use]
    pub fn path(word: &str) -> String {
        format!("{PATH}{word}")
    }

    /// The name of a service, by its word in plans.
    #[must_use]
    pub fn service(word: &str) -> String {
        format!("{SERVICE}{word}")
    }
}

/// How a host stands on one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Proved by doing it.
    Ok,
    /// vtax works, but less strictly or with a note in the report.
    Degraded,
    /// What needs this is refused.
    Missing,
}

impl State {
    /// The state in a word, as printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
        }
    }
}

/// One point that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked, such as `user namespace`.
    pub name: String,
    /// How it came out.
    pub state: State,
    /// What was found, in one line.
    pub found: String,
    /// The command or the step that would fix it; `None` where nothing needs to be fixed.
    pub fix: Option<String>,
}

impl Check {
    /// A point that was proved.
    pub fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, found: found.into(), fix: None }
    }

    /// A point where vtax works, but less strictly.
    pub fn degraded(name: impl Into<String>, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Degraded, found: found.into(), fix: Some(fix.into()) }
    }

    /// A point without which something is refused.
    pub fn missing(name: impl Into<String>, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Missing, found: found.into(), fix: Some(fix.into()) }
    }
}
