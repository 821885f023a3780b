//! What the one who starts a guest and the guest's `/init` agree on.
//!
//! The other side is `vtax_agent::guest`. Both sides are the same binary, so there is no version.

/// Key on the kernel command line: what `/init` is to do.
pub const ROLE_KEY: &str = "vtax.role";
/// [`ROLE_KEY`]'s value: become the node's agent on the port [`AGENT_PORT`].
pub const ROLE_AGENT: &str = "agent";
/// [`ROLE_KEY`]'s value: serve a counter that is kept in memory only, on [`WITNESS_PORT`]. It is how
/// vtax finds out whether a guest, its memory and its connections survived.
pub const ROLE_WITNESS: &str = "witness";
/// Key on the kernel command line: the witness's address with prefix length, `10.97.0.2/16`.
pub const WITNESS_ADDRESS_KEY: &str = "vtax.address";
/// TCP port of the witness.
pub const WITNESS_PORT: u16 = 7000;
/// Key on the kernel command line: where the guest's files come from; without it [`ROOT_TAG`].
pub const ROOT_KEY: &str = "vtax.root";
/// [`ROOT_KEY`]'s value: a read-only file system on the disk [`ROOT_DISK`].
pub const ROOT_IMAGE: &str = "image";
/// [`ROOT_KEY`]'s value: nothing but what is in the initrd.
pub const ROOT_NOTHING: &str = "nothing";
/// [`ROOT_KEY`]'s value: the host's files, as a user-mode Linux sees them.
pub const ROOT_HOSTFS: &str = "hostfs";
/// Key on the kernel command line: the serial line that the agent talks through; without it [`AGENT_PORT`].
pub const PORT_KEY: &str = "vtax.port";
/// [`PORT_KEY`]'s value in a user-mode Linux.
pub const UML_PORT: &str = "ttyS0";
/// What the agent writes on a serial line when it listens.
pub const UML_READY: &[u8] = b"vtax: listening\n";
/// Serial number of the disk with the guest's files.
pub const ROOT_DISK: &str = "vtax-root";
/// Serial number of the disk whose content must survive.
pub const DATA_DISK: &str = "vtax-data";
/// Key on the kernel command line: the guest has a disk of its own, on which it makes a file system of this kind.
pub const DISK_KEY: &str = "vtax.disk";
/// Key on the kernel command line: its disks are members of a RAID-5, `4/3`: of so many, of which so many are there.
pub const RAID5_KEY: &str = "vtax.raid5";
/// Where the guest mounts it.
pub const DISK_PLACE: &str = "/run/vtax/disk";
/// Key on the kernel command line: how many files a process of the guest's may have open at most, the hard limit.
pub const FILES_KEY: &str = "vtax.files";
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
