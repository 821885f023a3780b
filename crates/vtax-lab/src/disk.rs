//! A node's disk: a directory on a disk of the host's, or the file that is a guest's disk.
//!
//! The lab's scratch space is memory, so tests of storage have a place of their own. A guest's disk is a file without a name, which goes
//! with its last descriptor however the run ends. A directory is removed with its node; what a killed run leaves is removed by
//! the next one that makes a disk in the same place.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fdatasync};
use vtax_plan::model::{DiskAio, DiskAllocation, DiskBus, DiskCache, DiskFormat, Raid5, VirtualDisk};
use vtax_sys::locked_dir::LockedDir;
use vtax_sys::residency::resident_bytes;
use vtax_units::Bytes;
use vtax_vm::contract::DISK_PLACE;
use vtax_vm::{VmDisk, VmDiskBus, VmDiskOptions};

use crate::error::{LabError, OnPath, Result, While};
use crate::spec::DiskSpec;

/// Names of directories of this kind.
const PREFIX: &str = "disk-";
/// Kept free beside a guest's disk.
const SPARE: u64 = 256 << 20;
/// What the kernel calls a file system in memory (`TMPFS_MAGIC` of `include/uapi/linux/magic.h`).
const TMPFS: i64 = 0x0102_1994;

/// What the file of a guest's disk is told as.
pub(crate) const A_DISK: &str = "a disk";

/// A node's disk; removed when dropped.
#[derive(Debug)]
pub struct Disk {
    /// Where the node sees it.
    inside: PathBuf,
    locked: Option<LockedDir>,
    image: Option<Image>,
}

/// The files of a guest's disk: one, or those of a RAID's members.
#[derive(Debug)]
struct Image {
    files: Vec<File>,
    shape: VirtualDisk,
}

impl Disk {
    /// A directory, for nodes that see the host's files.
    pub(crate) fn directory(spec: &DiskSpec) -> Result<Self> {
        let locked = locked(&spec.directory)?;
        let inside = locked.path().join("files");
        fs::create_dir(&inside).on("create", &inside)?;
        Ok(Self { inside, locked: Some(locked), image: None })
    }

    /// The file of a guest's disk, or of something else that is told as `what`.
    pub(crate) fn image(spec: &DiskSpec, what: &str) -> Result<Self> {
        let locked = locked(&spec.directory)?;
        let (files, each) = spec.shape.files();
        let room = rustix::fs::statvfs(locked.path()).on("look for free space in", locked.path())?;
        let needed = each.0.saturating_mul(files.into()).saturating_add(SPARE);
        let free = room.f_bavail * room.f_frsize;
        if needed > free {
            // Nothing else has a place of its own in plans.
            let own = if what == A_DISK { ", or a disk's own `directory`," } else { "" };
            let reason = format!(
                "{what} of {} needs {} there, {} are free: free some, or set VTAX_CACHE{own} to a directory with more room",
                spec.shape.size,
                Bytes(needed),
                Bytes(free)
            );
            return Err(LabError::Disk { place: spec.directory.display().to_string(), reason });
        }
        let shape = VirtualDisk { size: each, ..spec.shape };
        let make = |number: u32| -> Result<File> {
            let path = locked.path().join(format!("image-{number}"));
            make_image(&path, &shape)?;
            File::options().read(true).write(true).open(&path).on("open", &path)
        };
        let files = (0..files).map(make).collect::<Result<_>>()?;
        // They go with their last descriptors. The directory isn't needed any more.
        drop(locked);
        Ok(Self { inside: DISK_PLACE.into(), locked: None, image: Some(Image { files, shape: spec.shape }) })
    }

    /// A file of this size without a name, to hold a guest's memory: what a limit leaves no room for is written to it.
    pub(crate) fn of_memory(directory: &Path, size: Bytes) -> Result<OwnedFd> {
        let shape = VirtualDisk { size, ..VirtualDisk::default() };
        let spec = DiskSpec { directory: directory.to_owned(), shape };
        let disk = Self::image(&spec, "a file for a guest's memory")?;
        let kind = rustix::fs::statfs(directory).on("look at the file system of", directory)?;
        if kind.f_type == TMPFS {
            let reason =
                "a file there is in memory itself, so a guest's memory can't go to it: set VTAX_CACHE to a \
                          directory on a disk"
                    .to_owned();
            return Err(LabError::Disk { place: directory.display().to_string(), reason });
        }
        let missing = || LabError::Disk {
            place: directory.display().to_string(),
            reason: "no file was made for a guest's memory".to_owned(),
        };
        disk.for_guest()?.files.pop().ok_or_else(missing)
    }

    /// Where the node sees it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inside
    }

    /// As QEMU is told of it.
    pub(crate) fn for_guest(&self) -> Result<VmDisk> {
        let Some(Image { files, shape }) = &self.image else {
            let reason = "it is a directory, not a guest's disk".to_owned();
            return Err(LabError::Disk { place: self.inside.display().to_string(), reason });
        };
        let what = Path::new("a guest's disk");
        let duplicate = |file: &File| file.try_clone().map(OwnedFd::from).on("duplicate", what);
        let files = files.iter().map(duplicate).collect::<Result<_>>()?;
        let bus = match shape.bus {
            DiskBus::Virtio => VmDiskBus::Virtio,
            DiskBus::Scsi => VmDiskBus::Scsi,
            DiskBus::Nvme => VmDiskBus::Nvme,
            DiskBus::Ide => VmDiskBus::Ide,
        };
        let format = match shape.format {
            DiskFormat::Raw => "raw",
            DiskFormat::Qcow2 => "qcow2",
        };
        let cache = match shape.cache {
            DiskCache::None => "none",
            DiskCache::Writeback => "writeback",
            DiskCache::Writethrough => "writethrough",
        };
        let aio = match shape.aio {
            DiskAio::Threads => "threads",
            DiskAio::Native => "native",
            DiskAio::IoUring => "io_uring",
        };
        let raid5 = shape.raid5.map(|raid| raid.members);
        Ok(VmDisk { files, options: VmDiskOptions { bus, format, cache, aio }, raid5 })
    }

    /// What it is, for reports.
    pub(crate) fn words(&self) -> String {
        match &self.image {
            None => self.inside.display().to_string(),
            Some(Image { shape, .. }) => {
                let raid = match shape.raid5 {
                    None => String::new(),
                    Some(Raid5 { members, degraded: false }) => format!(", RAID-5 of {members} such disks"),
                    Some(Raid5 { members, degraded: true }) => {
                        format!(", RAID-5 of {members} such disks, one of which is missing")
                    }
                };
                format!(
                    "{} {} {}, {}, cache {}, aio {}{raid}",
                    shape.size,
                    shape.bus.word(),
                    shape.format.word(),
                    shape.allocation.word(),
                    shape.cache.word(),
                    shape.aio.word()
                )
            }
        }
    }

    /// Makes the host's page cache forget a guest's disk; false where there is nothing to forget.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn drop_host_cache(&self) -> Result<bool> {
        let Some(Image { files, .. }) = &self.image else { return Ok(false) };
        let what = Path::new("a guest's disk");
        for file in files {
            fdatasync(file).on("sync", what)?;
            fadvise(file, 0, None, Advice::DontNeed).on("drop from the page cache", what)?;
        }
        Ok(true)
    }

    /// How many bytes of a guest's disk the host's page cache holds, and how many its file has; `None` where it is none, or it can't be told.
    #[must_use]
    pub fn host_cached(&self) -> Option<(u64, u64)> {
        let each = self.image.as_ref()?.files.iter().map(|file| {
            let metadata = file.metadata().ok()?;
            Some((resident_bytes(file, metadata.len()).ok()?, metadata.blocks() * 512))
        });
        each.reduce(|sum, one| sum.zip(one).map(|(sum, one)| (sum.0 + one.0, sum.1 + one.1)))?
    }

    /// Removes it.
    pub(crate) fn remove(mut self) -> Result<()> {
        let Some(locked) = self.locked.take() else { return Ok(()) };
        locked.remove().during(|| "remove the directory of a node's disk".to_owned())
    }
}

/// Makes a directory below `parent` that is locked while it is in use, and removes those that killed runs left there.
fn locked(parent: &Path) -> Result<LockedDir> {
    fs::create_dir_all(parent).on("create", parent)?;
    LockedDir::create(parent, PREFIX).during(|| "make a directory for a node's disk".to_owned())
}

/// Makes the file of a disk.
fn make_image(path: &Path, shape: &VirtualDisk) -> Result<()> {
    let full = shape.allocation == DiskAllocation::Full;
    if shape.format == DiskFormat::Raw {
        let file = File::create(path).on("create", path)?;
        file.set_len(shape.size.0).on("size", path)?;
        return match full {
            true => fallocate(&file, FallocateFlags::empty(), 0, shape.size.0).on("allocate", path),
            false => Ok(()),
        };
    }
    let mut command = Command::new("qemu-img");
    command.args(["create", "-q", "-f", "qcow2"]);
    if full {
        command.args(["-o", "preallocation=falloc"]);
    }
    command.arg(path).arg(shape.size.0.to_string());
    let failed = |reason: String| LabError::Disk { place: path.display().to_string(), reason };
    let made = command.output().map_err(|e| failed(format!("qemu-img (package qemu-utils): {e}")))?;
    if made.status.success() {
        return Ok(());
    }
    Err(failed(format!("qemu-img: {}", String::from_utf8_lossy(&made.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(directory: &Path) -> DiskSpec {
        let shape = VirtualDisk { size: Bytes::from_mib(64), ..VirtualDisk::default() };
        DiskSpec { directory: directory.to_owned(), shape }
    }

    #[test]
    fn what_a_killed_run_left_is_removed_by_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("disk-left");
        fs::create_dir(&left).unwrap();
        fs::write(parent.path().join("disk-left.lock"), "").unwrap();
        let own = Disk::directory(&spec(parent.path())).unwrap();
        assert!(!left.exists() && own.path().is_dir());
        let beside = Disk::directory(&spec(parent.path())).unwrap();
        assert!(own.path().is_dir(), "one in use stays");
        drop(own);
        beside.remove().unwrap();
        assert_eq!(parent.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_guests_disk_has_no_name_and_what_of_it_is_cached_is_known() {
        let parent = tempfile::tempdir().unwrap();
        let disk = Disk::image(&spec(parent.path()), A_DISK).unwrap();
        assert_eq!(parent.path().read_dir().unwrap().count(), 0);
        let (_, allocated) = disk.host_cached().unwrap();
        assert!(allocated >= 64 << 20, "{allocated}");
        assert!(disk.drop_host_cache().unwrap());
        assert_eq!(disk.words(), "64MiB virtio raw, full, cache none, aio threads");
        let raid5 = Some(Raid5 { members: 4, degraded: true });
        let shape = VirtualDisk { raid5, size: Bytes::from_mib(64), ..VirtualDisk::default() };
        let raid = Disk::image(&DiskSpec { shape, ..spec(parent.path()) }, A_DISK).unwrap();
        let for_guest = raid.for_guest().unwrap();
        assert_eq!((for_guest.files.len(), for_guest.raid5), (3, Some(4)));
        let (_, allocated) = raid.host_cached().unwrap();
        assert!(allocated >= 64 << 20, "three shares of a third each: {allocated}");
        assert!(raid.words().ends_with("one of which is missing"), "{}", raid.words());
        let large = VirtualDisk { size: Bytes(1 << 40), ..VirtualDisk::default() };
        let error = Disk::image(&DiskSpec { shape: large, ..spec(parent.path()) }, A_DISK).unwrap_err();
        assert!(error.to_string().contains("a disk of 1024GiB needs "), "{error}");
        let way_out = "are free: free some, or set VTAX_CACHE, or a disk's own `directory`, to a ";
        assert!(error.to_string().contains(way_out), "{error}");
        let error = Disk::of_memory(parent.path(), Bytes(1 << 40)).unwrap_err();
        assert!(error.to_string().contains("a file for a guest's memory of 1024GiB needs "), "{error}");
        assert!(error.to_string().ends_with("or set VTAX_CACHE to a directory with more room"), "{error}");
    }
}
