//! NFS version 3 (RFC 1813) as a client speaks it that reads and writes files, with what it takes to find an export: the
//! MOUNT protocol version 3 (its appendix I) and the port mapper version 2 (RFC 1833).
//!
//! [`Call`] is appended as a call; [`results`] has a function for the results of each. Locks (NLM) are not spoken.

mod call;
pub mod results;

pub use call::Call;
pub use results::{Attributes, Limits, Space};

use crate::rpc::Procedure;

/// The number of the program NFS.
pub const PROGRAM: u32 = 100_003;
/// The number of the program MOUNT.
pub const MOUNT_PROGRAM: u32 = 100_005;
/// The number of the port mapper.
pub const PORT_MAPPER: u32 = 100_000;
/// The port mapper's port.
pub const PORT_MAPPER_PORT: u16 = 111;
/// Version of NFS and MOUNT.
pub const VERSION: u32 = 3;
/// Longest file handle.
pub const HANDLE_BYTES_MAX: usize = 64;
/// Longest path of an export.
pub const PATH_BYTES_MAX: usize = 1024;
/// The procedure that does nothing.
pub const NULL: Procedure = Procedure { program: PROGRAM, version: VERSION, number: 0 };
