//! Storage: what is read and written, where, and how.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos, Rate, Share};

use crate::model::load::ArrivalProcess;

/// Tests that are made one after the other in each trial, in the plan's order: a read needs what was written before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageWorkload {
    /// In the order in which they are made; at least one.
    pub tests: Vec<StorageTest>,
    /// An operation that takes longer has failed.
    #[serde(default = "usual_timeout", skip_serializing_if = "is_usual_timeout")]
    pub timeout: Nanos,
    /// How clients reach the files of a server; `None`: as is usual with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<StorageAccess>,
    /// Memory of the client's virtual machine, where it mounts; plans of before there were mounts have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_memory: Option<Bytes>,
}

/// What runs of older versions had: plans that say nothing else stay the same.
const fn usual_timeout() -> Nanos {
    Nanos::from_secs(30)
}

fn is_usual_timeout(timeout: &Nanos) -> bool {
    *timeout == usual_timeout()
}

/// How clients reach the files of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageAccess {
    /// By a client of vtax's own.
    Protocol,
    /// The kernel of the client, a virtual machine, has mounted them.
    Mounted,
}

/// One test: one operation on files of one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageTest {
    /// Unique in the workload, stable across runs, safe in file names: `write.file-16MiB.record-4KiB`.
    pub name: String,
    /// The options that vary within the workload: name to value as written.
    pub parameters: BTreeMap<String, String>,
    /// What is done.
    pub operation: StorageOperation,
    /// On which files, and how.
    pub shape: StorageShape,
    /// When operations start; `None`: closed loop.
    pub rate: Option<StorageRate>,
    /// What the caches hold before it.
    pub cache: StorageCache,
}

/// Operations at times that don't depend on how long they take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StorageRate {
    /// Operations per second, all processes together.
    pub rate: Rate,
    /// Gaps between them.
    pub arrivals: ArrivalProcess,
}

/// The files of a test and how they are accessed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageShape {
    /// Length of each process's file; of `create`, `list` and `remove` the length of each small file.
    pub file: Bytes,
    /// Bytes of one operation.
    pub record: Bytes,
    /// Processes, each with a file of its own. They are threads, bound to the generator's CPUs in turn.
    pub processes: u32,
    /// Operations that a process may have under way.
    pub depth: u16,
    /// How operations reach the kernel.
    pub engine: StorageEngine,
    /// Past the page cache of the system that the load runs on (`O_DIRECT`).
    pub direct: bool,
    /// When writes are made durable.
    pub sync: StorageSync,
    /// Every read is compared with what was written last.
    pub verify: bool,
    /// Share of the blocks that have the contents of others.
    pub dedupe: Share,
    /// Share of each block that is zeros.
    pub compressible: Share,
    /// Files of each process in `create`, `list` and `remove`.
    pub files: u32,
}

impl StorageShape {
    /// One process that has one operation at a time under way, through the page cache by io_uring, on a file of random blocks
    /// that are never made durable and always compared.
    #[must_use]
    pub const fn new(file: Bytes, record: Bytes) -> Self {
        Self {
            file,
            record,
            processes: 1,
            depth: 1,
            engine: StorageEngine::IoUring,
            direct: false,
            sync: StorageSync::None,
            verify: true,
            dedupe: Share(0.0),
            compressible: Share(0.0),
            files: 1,
        }
    }

    /// Whether a test of the one finds the files that a test of the other has left.
    #[must_use]
    pub fn has_files_of(&self, other: &Self) -> bool {
        (self.file, self.record, self.processes, self.files)
            == (other.file, other.record, other.processes, other.files)
            && (self.dedupe, self.compressible) == (other.dedupe, other.compressible)
    }
}

/// What a storage test does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageOperation {
    /// A new file from its beginning to its end.
    Write,
    /// A file that is there, overwritten from its beginning to its end.
    Rewrite,
    /// From the beginning to the end.
    Read,
    /// A file that was just read, from the beginning to the end: what caches hold shows.
    ReRead,
    /// Records drawn evenly.
    RandomRead,
    /// Records drawn evenly, written.
    RandomWrite,
    /// From the end to the beginning.
    BackwardRead,
    /// Every 17th record, as iozone has it, in as many passes.
    StridedRead,
    /// Records drawn evenly, so many of them read.
    Mix {
        /// Share of the operations that read, in whole percents, so that it can be compared and be part of a name.
        reads: u8,
    },
    /// New small files.
    Create,
    /// All names of the directory.
    List,
    /// Removes them.
    Remove,
}

impl StorageOperation {
    /// The word in plans, on the command line and in names of tests.
    #[must_use]
    pub fn word(self) -> String {
        match self {
            Self::Mix { reads } => format!("mix-{reads}"),
            other => other.plain_word().to_owned(),
        }
    }

    /// The word without what it has of its own.
    #[must_use]
    pub const fn plain_word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Rewrite => "rewrite",
            Self::Read => "read",
            Self::ReRead => "re-read",
            Self::RandomRead => "random-read",
            Self::RandomWrite => "random-write",
            Self::BackwardRead => "backward-read",
            Self::StridedRead => "strided-read",
            Self::Mix { .. } => "mix",
            Self::Create => "create",
            Self::List => "list",
            Self::Remove => "remove",
        }
    }

    /// From its word; `mix` may be followed by a percentage (`mix-70`), else it is 70.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        if let Some(reads) = word.strip_prefix("mix") {
            let reads = if reads.is_empty() { 70 } else { reads.strip_prefix('-')?.parse().ok()? };
            return (reads <= 100).then_some(Self::Mix { reads });
        }
        Self::PLAIN.into_iter().find(|operation| operation.plain_word() == word)
    }

    /// All but `mix`.
    pub const PLAIN: [Self; 11] = [
        Self::Write,
        Self::Rewrite,
        Self::Read,
        Self::ReRead,
        Self::RandomRead,
        Self::RandomWrite,
        Self::BackwardRead,
        Self::StridedRead,
        Self::Create,
        Self::List,
        Self::Remove,
    ];

    /// It only reads data.
    #[must_use]
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::ReRead | Self::RandomRead | Self::BackwardRead | Self::StridedRead)
    }

    /// It writes data, at least at times.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Rewrite | Self::RandomWrite | Self::Mix { .. } | Self::Create)
    }

    /// It is about names rather than about data.
    #[must_use]
    pub const fn of_names(self) -> bool {
        matches!(self, Self::Create | Self::List | Self::Remove)
    }

    /// It is about files with data that are there before it.
    #[must_use]
    pub const fn needs_data(self) -> bool {
        !self.of_names() && !matches!(self, Self::Write)
    }
}

/// How operations reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageEngine {
    /// io_uring, many at once.
    IoUring,
    /// pread(2) and pwrite(2), one at a time.
    Psync,
}

/// When writes are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageSync {
    /// Never asked for.
    None,
    /// Each write is done only when its data is durable (`O_DSYNC`).
    Data,
    /// Each write is followed by a sync of its file, which is part of it.
    Each,
    /// The file is synced at the end of the test, which is part of it.
    End,
}

/// What the caches hold before a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageCache {
    /// Nothing of its files: they are synced and dropped.
    Cold,
    /// All of its files, as far as they fit.
    Warm,
    /// Whatever earlier tests left.
    AsIs,
}

/// The disk of the system under test: no server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskOptions {
    /// Directory for the files; `None`: the run's scratch space on the host, in a guest its disk.
    pub directory: Option<String>,
}

/// The virtual disk of a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualDisk {
    /// What the guest sees it on.
    pub bus: DiskBus,
    /// Format of its file on the host.
    pub format: DiskFormat,
    /// Whether its file has all its blocks from the start.
    pub allocation: DiskAllocation,
    /// What the host's page cache does for it.
    pub cache: DiskCache,
    /// How QEMU reads and writes its file.
    pub aio: DiskAio,
    /// Its length.
    pub size: Bytes,
    /// It is a RAID-5 of disks like this, which the guest's kernel makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid5: Option<Raid5>,
}

/// A RAID-5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raid5 {
    /// Its disks, that which is missing included.
    pub members: u32,
    /// One of them is missing: what was on it is made of the others for each read.
    pub degraded: bool,
}

impl Raid5 {
    /// Disks that there are.
    #[must_use]
    pub const fn present(self) -> u32 {
        if self.degraded { self.members.saturating_sub(1) } else { self.members }
    }
}

impl VirtualDisk {
    /// Beyond a member's share of the data: where the kernel keeps what it knows of the array.
    const MEMBERS_OWN: u64 = 2 << 20;
    /// Members have whole chunks of data.
    const CHUNK: u64 = 64 << 10;

    /// Number and length of the files that it is made of.
    #[must_use]
    pub fn files(&self) -> (u32, Bytes) {
        let Some(raid) = self.raid5 else { return (1, self.size) };
        let share = self.size.0.div_ceil(u64::from(raid.members.max(2) - 1)).next_multiple_of(Self::CHUNK);
        (raid.present(), Bytes(share + Self::MEMBERS_OWN))
    }
}

impl Default for VirtualDisk {
    /// What a plan that says nothing of it gets.
    fn default() -> Self {
        Self {
            bus: DiskBus::Virtio,
            format: DiskFormat::Raw,
            allocation: DiskAllocation::Full,
            cache: DiskCache::None,
            aio: DiskAio::Threads,
            size: Bytes::from_mib(1024),
            raid5: None,
        }
    }
}

/// What the guest sees a disk on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskBus {
    /// virtio-blk: made for guests.
    Virtio,
    /// virtio-scsi.
    Scsi,
    /// An emulated NVMe controller.
    Nvme,
    /// An emulated AHCI controller.
    Ide,
}

impl DiskBus {
    /// The word in plans.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Scsi => "scsi",
            Self::Nvme => "nvme",
            Self::Ide => "ide",
        }
    }
}

/// Format of a virtual disk's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskFormat {
    /// Blocks as they are.
    Raw,
    /// QEMU's own, which grows.
    Qcow2,
}

impl DiskFormat {
    /// The word in plans.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// Whether a virtual disk's file has all its blocks from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskAllocation {
    /// It has: a disk of fixed size.
    Full,
    /// It gets them as they are written: a growing disk.
    Sparse,
}

impl DiskAllocation {
    /// The word in plans.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Sparse => "sparse",
        }
    }
}

/// What the host's page cache does for a virtual disk (QEMU's `cache=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskCache {
    /// Nothing (`O_DIRECT`).
    None,
    /// It holds reads and writes.
    Writeback,
    /// It holds reads; each write reaches the disk.
    Writethrough,
}

impl DiskCache {
    /// The word in plans.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Writeback => "writeback",
            Self::Writethrough => "writethrough",
        }
    }
}

/// How QEMU reads and writes a virtual disk's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskAio {
    /// A pool of threads.
    Threads,
    /// Linux AIO; needs `cache: none`.
    Native,
    /// io_uring.
    IoUring,
}

impl DiskAio {
    /// The word in plans.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Native => "native",
            Self::IoUring => "io-uring",
        }
    }
}

/// Every test of a storage workload, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageMeasure {
    /// The longest that a test goes on; one that went over all its records ends before.
    pub longest: Nanos,
    /// How long tests that have no end of their own go on: random ones, and all with a rate.
    pub duration: Nanos,
    /// Tests are made in rounds until these are steady; `None`: each once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_state: Option<SteadyState>,
}

/// When rounds of a test are steady (SNIA, Solid State Storage Performance Test Specification 2.0.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Most rounds of a test.
    pub rounds: u32,
    /// Rounds in a row that have to be alike.
    pub window: u32,
    /// Most that the largest of them may be above the smallest, as a share of their average.
    pub excursion: Share,
    /// Most that their best linear fit may rise or fall, as a share of their average.
    pub slope: Share,
}
