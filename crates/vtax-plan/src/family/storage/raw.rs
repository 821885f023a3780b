//! Storage as written: the disk, its tests, their measure.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::{Bytes, Nanos, Rate, Share};

use crate::decode::{Decode, Many, scalar};
use crate::diagnose::{Report, listed, shorten};
use crate::model;
use crate::raw::load::ArrivalsRaw;
use crate::source::Spanned;
use crate::tree::Node;

services! {
    /// Options of `disk`, the system under test's own disk.
    struct DiskRaw = "`disk`", ready "30s", stop "5s" {
        /// Directory on the host in whose file system the files are made, in a directory of their own that is removed; a
        /// virtual machine's disk is a file there. Without it, vtax's cache.
        optional directory: String,
    }
}

raw! {
    /// Options of the `storage` workload. A list of values makes a test for each.
    struct StorageRaw = "`storage`" {
        /// What is done, in this order for each combination of the other lists: `write`, `rewrite`, `read`, `re-read`,
        /// `random-read`, `random-write`, `backward-read`, `strided-read`, `mix` (`mix-70`: 70 % reads), `create`, `list`,
        /// `remove`. Without it, the first six.
        optional operations: Many<OperationRaw>,
        /// Length of each process's file; with `create`, `list` and `remove` that of each small file.
        default size: Many<Bytes> = "64MiB",
        /// Bytes of one operation.
        default record: Many<Bytes> = "4KiB",
        /// Processes, each with a file of its own.
        default processes: Many<u32> = "1",
        /// Operations that each process may have under way.
        default depth: Many<u32> = "1",
        /// How operations reach the kernel: `io-uring` or `psync` (pread and pwrite, one at a time).
        default engine: Many<EngineRaw> = "io-uring",
        /// Past the page cache of the system that the load runs on (`O_DIRECT`).
        default direct: Many<bool> = "false",
        /// When writes are made durable: `none`, `data` (each write), `each` (a sync after each write), `end` (one sync).
        default sync: Many<SyncRaw> = "end",
        /// What caches hold before each test: `cold`, `warm` or `as-is`.
        default cache: Many<CacheRaw> = "as-is",
        /// Operations per second of all processes together, whatever earlier ones do; without it, closed loop.
        optional rate: Many<Rate>,
        /// Gaps between the starts of an open loop.
        default arrivals: ArrivalsRaw = "poisson",
        /// Compare every read with what was written last.
        default verify: bool = "true",
        /// Share of the blocks that have the contents of others.
        default dedupe: Share = "0%",
        /// Share of each block that is zeros.
        default compressible: Share = "0%",
        /// Small files of each process, with `create`, `list` and `remove`.
        default files: u32 = "1000",
        /// An operation that takes longer has failed.
        default timeout: Nanos = "30s",
        /// How clients reach the files of a server: `protocol` (a client of vtax's own) or `mounted` (a file system that the
        /// kernel of a virtual machine has mounted). Without it, `protocol` where vtax speaks it. A list makes a cell for each.
        optional access: Many<AccessRaw>,
        /// Memory of the client's virtual machine, with `access: mounted`.
        default client_memory: Bytes = "512MiB",
    }

    /// Options of the measure `storage`.
    struct StorageMeasureRaw = "`storage`" {
        /// Name in reports.
        optional name: String,
        /// How long random tests go on, and all with a rate. Others end when they have been over all records once.
        default duration: Nanos = "5s",
        /// The longest that a test goes on.
        default longest: Nanos = "2m",
        /// Make tests in rounds until these are steady, as the SNIA's performance test specification has it; `{}` takes its own
        /// figures. Without it, each test is made once.
        optional steady_state: SteadyStateRaw,
    }

    /// When rounds of a test are steady.
    struct SteadyStateRaw = "`steady_state`" {
        /// Most rounds of a test; one that isn't steady by then has no figure.
        default rounds: u32 = "25",
        /// Rounds in a row that have to be alike.
        default window: u32 = "5",
        /// Most that the largest of them may be above the smallest, as a share of their average.
        default excursion: Share = "20%",
        /// Most that their best linear fit may rise or fall, as a share of their average.
        default slope: Share = "10%",
    }

    /// The disk of a virtual machine, for the workload `storage`. A list of values makes a cell for each.
    struct VirtualDiskRaw = "`disk`" {
        /// Its length.
        default size: Bytes = "1GiB",
        /// What the guest sees it on: `virtio`, `scsi` (virtio-scsi), `nvme` or `ide` (AHCI).
        default bus: Many<BusRaw> = "virtio",
        /// Format of its file: `raw` or `qcow2`.
        default format: Many<FormatRaw> = "raw",
        /// Whether its file has all blocks from the start: `full` or `sparse`.
        default allocation: Many<AllocationRaw> = "full",
        /// What the host's page cache does for it: `none`, `writeback` or `writethrough`.
        default cache: Many<DiskCacheRaw> = "none",
        /// How QEMU reads and writes its file: `threads`, `native` (Linux AIO, with `cache: none`) or `io-uring`.
        default aio: Many<AioRaw> = "threads",
        /// It is a RAID-5 that the guest's kernel makes of several such disks.
        optional raid5: Raid5Raw,
    }

    /// A RAID-5 of virtual disks.
    struct Raid5Raw = "`raid5`" {
        /// Its disks, each with its share of the data; 3 to 6.
        default members: u32 = "4",
        /// `true`: one of them is missing.
        default degraded: Many<bool> = "false",
    }
}

words! {
    /// How operations reach the kernel.
    EngineRaw(model::StorageEngine) = "engine", "engines" {
        "io-uring": IoUring, "Many at once.";
        "psync": Psync, "pread and pwrite, one at a time.";
    }
    /// When writes are made durable.
    SyncRaw(model::StorageSync) = "sync", "kinds of sync" {
        "none": None, "Never asked for.";
        "data": Data, "Each write is done only when it is durable (O_DSYNC).";
        "each": Each, "Each write is followed by a sync.";
        "end": End, "One sync at the end of the test.";
    }
    /// What caches hold before a test.
    CacheRaw(model::StorageCache) = "cache", "states" {
        "cold": Cold, "Nothing of the files.";
        "warm": Warm, "All of the files.";
        "as-is": AsIs, "Whatever earlier tests left.";
    }
    /// How clients reach the files of a server.
    AccessRaw(model::StorageAccess) = "access", "kinds of access" {
        "protocol": Protocol, "A client of vtax's own: no mount, no cache.";
        "mounted": Mounted, "A file system that the kernel of the client, a virtual machine, has mounted.";
    }
    /// What a guest sees a disk on.
    BusRaw(model::DiskBus) = "bus", "buses" {
        "virtio": Virtio, "virtio-blk, made for guests.";
        "scsi": Scsi, "virtio-scsi.";
        "nvme": Nvme, "An emulated NVMe controller.";
        "ide": Ide, "An emulated AHCI controller.";
    }
    /// Format of a virtual disk's file.
    FormatRaw(model::DiskFormat) = "format", "formats" {
        "raw": Raw, "Blocks as they are.";
        "qcow2": Qcow2, "QEMU's own, which grows.";
    }
    /// Whether a virtual disk's file has all its blocks from the start.
    AllocationRaw(model::DiskAllocation) = "allocation", "allocations" {
        "full": Full, "It has: a disk of fixed size.";
        "sparse": Sparse, "It grows as it is written.";
    }
    /// What the host's page cache does for a virtual disk.
    DiskCacheRaw(model::DiskCache) = "cache", "caches" {
        "none": None, "Nothing.";
        "writeback": Writeback, "It holds reads and writes.";
        "writethrough": Writethrough, "It holds reads; each write reaches the disk.";
    }
    /// How QEMU reads and writes a virtual disk's file.
    AioRaw(model::DiskAio) = "aio", "kinds" {
        "threads": Threads, "A pool of threads.";
        "native": Native, "Linux AIO.";
        "io-uring": IoUring, "io_uring.";
    }
}

/// What a test does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OperationRaw(pub(crate) model::StorageOperation);

impl Decode for OperationRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let words = model::StorageOperation::PLAIN.map(model::StorageOperation::plain_word);
        let text = scalar(node, "an operation such as `read`", report)?;
        let operation = model::StorageOperation::from_word(text);
        if operation.is_none() {
            report.error(node.span, format!("`{}` is no operation", shorten(text))).help(format!(
                "there are {}, and `mix` with its share of reads, such as `mix-70`",
                listed(words)
            ));
        }
        operation.map(Self)
    }
}

impl JsonSchema for OperationRaw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StorageOperation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = model::StorageOperation::PLAIN.map(model::StorageOperation::plain_word);
        let about = format!("One of {}, or `mix` with its share of reads, such as `mix-70`.", listed(words));
        json_schema!({ "type": "string", "description": about })
    }
}
