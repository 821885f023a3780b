//! What the one who starts a guest and the guest's `/init` agree on.
//!
//! The other side is `vtax_agent::guest`. Both sides are the same binary, so there is no version.

/// Key on the kernel command line: what `/init` is to do.
pub const ROLE_KEY: &str = "vtax.role";
/// [`ROLE_KEY`]'s value: become the node's agent on the port [`AGENT_PORT`].
pub const ROLE_AGENT: &str = "agent";
/// Key on the kernel command line: the guest's host name.
pub const HOSTNAME_KEY: &str = "vtax.hostname";
/// Name of the virtio-serial port the agent talks through.
pub const AGENT_PORT: &str = "vtax.agent";
/// 9p mount tag of the host's root, exported read-only.
pub const ROOT_TAG: &str = "vtax.root";
/// Directory in the initrd with the modules; they are loaded in the order of their names.
pub const MODULE_DIR: &str = "/modules";
/// Where a guest finds the vtax binary once the host's root is its root.
pub const BINARY_IN_GUEST: &str = "/run/vtax/vtax";
/// Largest 9p message, in bytes; the transport allows 125 pages of 4 KiB (Linux `net/9p/trans_virtio.c`).
pub const NINE_P_MESSAGE_BYTES: u32 = 512_000;
