//! What versions 3 and 4.1 of NFS have in common: handles, verifiers, statuses.

/// The port of servers.
pub const PORT: u16 = 2049;
/// Longest file handle.
pub const HANDLE_BYTES_MAX: usize = 128;
/// Longest name in a directory that is read.
pub const NAME_BYTES_MAX: usize = 255;

/// A file's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    bytes: [u8; HANDLE_BYTES_MAX],
    length: u8,
}

impl Handle {
    /// From its bytes; `None` where they are too many.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut handle = Self { bytes: [0; HANDLE_BYTES_MAX], length: bytes.len() as u8 };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Changes when a server forgot what wasn't committed.
pub type Verifier = [u8; 8];

/// When written data is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stability {
    /// After COMMIT.
    Unstable = 0,
    /// With the data, before the answer.
    DataSync = 1,
    /// With data and metadata, before the answer.
    FileSync = 2,
}

/// What WRITE gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes.
    pub count: u32,
    /// 2: they are on stable storage with all that belongs to them; 1: they are; 0: not before COMMIT.
    pub committed: u32,
    /// Changes when the server forgot what wasn't committed.
    pub verifier: Verifier,
}

/// What READDIR or READDIRPLUS gave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries {
    /// How many names, without `.` and `..`.
    pub count: u32,
    /// There was an entry, whatever its name.
    pub any: bool,
    /// Where the last one is; for the next call.
    pub cookie: u64,
    /// For the next call.
    pub verifier: Verifier,
    /// There are no more.
    pub end: bool,
}

/// Statuses that mean something to a client.
pub mod status {
    /// Done.
    pub const OK: u32 = 0;
    /// The caller may not.
    pub const PERM: u32 = 1;
    /// There is no such file.
    pub const NOENT: u32 = 2;
    /// The device failed.
    pub const IO: u32 = 5;
    /// The caller may not.
    pub const ACCESS: u32 = 13;
    /// It is there already.
    pub const EXIST: u32 = 17;
    /// A value that makes no sense.
    pub const INVAL: u32 = 22;
    /// Beyond the largest size.
    pub const FBIG: u32 = 27;
    /// No space is left.
    pub const NOSPC: u32 = 28;
    /// The file system may only be read.
    pub const ROFS: u32 = 30;
    /// The caller's share of space is used up.
    pub const DQUOT: u32 = 69;
    /// The handle is of a file that is gone.
    pub const STALE: u32 = 70;
    /// The handle is none.
    pub const BADHANDLE: u32 = 10001;
    /// The server needs more time.
    pub const DELAY: u32 = 10008;
    /// The server waits for clients of its former life.
    pub const GRACE: u32 = 10013;
    /// The client isn't known any more.
    pub const STALE_CLIENTID: u32 = 10022;
    /// The state isn't known any more.
    pub const STALE_STATEID: u32 = 10023;
    /// The state isn't known.
    pub const BAD_STATEID: u32 = 10025;
    /// The state was given up by the server.
    pub const EXPIRED: u32 = 10011;
    /// The session isn't known any more.
    pub const BADSESSION: u32 = 10052;
    /// Reclaims are over already.
    pub const COMPLETE_ALREADY: u32 = 10054;
    /// The session is gone.
    pub const DEADSESSION: u32 = 10078;
}

/// The words of a status and its name, with what names of its protocol begin with: `NFS4`, `NFS3` or `MNT3`.
#[must_use]
pub fn words(protocol: &str, status: u32) -> String {
    let (words, name) = match status {
        status::OK => return "done".to_owned(),
        status::PERM => ("not permitted", "PERM"),
        status::NOENT => ("there is no such file", "NOENT"),
        status::IO => ("the device failed", "IO"),
        status::ACCESS if protocol == "NFS4" => ("access denied", "ACCESS"),
        status::ACCESS => ("access denied", "ACCES"),
        status::EXIST => ("it is there already", "EXIST"),
        20 => ("it is no directory", "NOTDIR"),
        21 => ("it is a directory", "ISDIR"),
        status::INVAL => ("an invalid argument", "INVAL"),
        status::FBIG => ("beyond the largest size", "FBIG"),
        status::NOSPC => ("no space is left", "NOSPC"),
        status::ROFS => ("the file system is read-only", "ROFS"),
        63 => ("the name is too long", "NAMETOOLONG"),
        66 => ("the directory is not empty", "NOTEMPTY"),
        status::DQUOT => ("the quota is used up", "DQUOT"),
        status::STALE => ("the file is gone", "STALE"),
        status::BADHANDLE => ("a bad file handle", "BADHANDLE"),
        10003 => ("a bad place in a directory", "BAD_COOKIE"),
        10004 => ("not supported", "NOTSUPP"),
        10005 => ("the answer has no room", "TOOSMALL"),
        10006 => ("the server failed", "SERVERFAULT"),
        status::DELAY if protocol == "NFS4" => ("the server needs more time", "DELAY"),
        status::DELAY => ("the server needs more time", "JUKEBOX"),
        status::EXPIRED => ("the lease has expired", "EXPIRED"),
        status::GRACE => ("the server is in its grace period", "GRACE"),
        10016 => ("another security is wanted", "WRONGSEC"),
        10018 => ("out of resources", "RESOURCE"),
        10021 => ("the minor version is not served", "MINOR_VERS_MISMATCH"),
        status::STALE_CLIENTID => ("the client is not known", "STALE_CLIENTID"),
        status::STALE_STATEID => ("the open file is not known", "STALE_STATEID"),
        status::BAD_STATEID => ("a bad state", "BAD_STATEID"),
        10036 => ("bad XDR", "BADXDR"),
        status::BADSESSION => ("the session is not known", "BADSESSION"),
        10053 => ("a bad slot", "BADSLOT"),
        10063 => ("out of sequence", "SEQ_MISORDERED"),
        status::DEADSESSION => ("the session is gone", "DEADSESSION"),
        other => return format!("an error of another kind, {other}"),
    };
    format!("{words} ({protocol}ERR_{name})")
}

/// Why an answer can't be used, or what it says instead of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NfsError {
    /// Malformed.
    #[error("an answer makes no sense: {0}")]
    Xdr(#[from] crate::xdr::XdrError),
    /// Not what was asked for.
    #[error("the answer is to other operations than were asked for")]
    Order,
    /// An operation failed.
    #[error("{} ({operation})", words(protocol, *status))]
    Status {
        /// What names of its statuses begin with.
        protocol: &'static str,
        /// Its name.
        operation: &'static str,
        /// Its status.
        status: u32,
    },
}

impl NfsError {
    /// The status that an operation ended with.
    #[must_use]
    pub const fn status(&self) -> Option<u32> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Xdr(_) | Self::Order => None,
        }
    }
}
