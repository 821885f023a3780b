//! A disk that both QEMUs of a pair have: what the primary writes reaches the secondary's copy with the
//! checkpoint that contains it (QEMU, `docs/block-replication.txt`).
//!
//! Images are files in memory without a name, so that nothing stays behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;
use vtax_units::Bytes;

use crate::error::{Result, VmError};

/// Name of the disk in QEMU.
pub(super) const DISK: &str = "data";
/// Name of the secondary's copy, as its NBD server calls it.
pub(super) const COPY: &str = "parent0";
/// Cluster of a qcow2 image, in bytes.
const CLUSTER: u64 = 64 << 10;
/// What one entry of a qcow2 image's first-level table covers: 8192 clusters.
const PER_ENTRY: u64 = CLUSTER * (CLUSTER / 8);

/// How a QEMU comes to its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It boots it.
    Boot,
    /// It waits for the other's checkpoints.
    AwaitCheckpoints,
    /// It waits for a whole state, that of a snapshot or of a guest that moves.
    AwaitState,
}

/// One side's images.
#[derive(Debug)]
pub struct ReplicatedDisk {
    size: Bytes,
    image: File,
    /// What was written since the last checkpoint, and what it overwrote; of the secondary only.
    layers: [File; 2],
}

impl ReplicatedDisk {
    /// An empty disk. Its size is rounded up to 64 KiB.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where there is no memory for it.
    pub fn create(size: Bytes) -> Result<Self> {
        let size = Bytes(size.0.next_multiple_of(CLUSTER));
        let failed = || VmError::io("create", "disk image in memory");
        let make = || -> io::Result<Self> {
            let image = memory("disk")?;
            image.set_len(size.0)?;
            Ok(Self { size, image, layers: [empty_qcow2("active", size.0)?, empty_qcow2("hidden", size.0)?] })
        };
        make().map_err(failed())
    }

    /// The bytes at `offset` of this side's image, as they would be found after the loss of everything
    /// but it. Of a secondary they are what the last checkpoint left.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] outside the disk.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.image.read_exact_at(buffer, offset).map_err(VmError::io("read", "disk image in memory"))
    }

    /// Makes this side's content that of `other`, whose guest must stand still.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where there is no memory for it.
    pub fn copy_from(&self, other: &Self) -> Result<()> {
        let mut chunk = vec![0; 1 << 20];
        let mut at = 0;
        let mut copy = || -> io::Result<()> {
            while at < self.size.0.min(other.size.0) {
                let length = chunk.len().min((other.size.0 - at) as usize);
                other.image.read_exact_at(&mut chunk[..length], at)?;
                // What was never written stays a hole.
                if chunk[..length].iter().any(|byte| *byte != 0) {
                    self.image.write_all_at(&chunk[..length], at)?;
                }
                at += length as u64;
            }
            Ok(())
        };
        copy().map_err(VmError::io("copy", "disk image in memory"))
    }

    /// Its size.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// QEMU's options for it, and the descriptors that they name and QEMU must inherit.
    pub(super) fn arguments(&self, start: Start) -> Result<(Vec<String>, Vec<OwnedFd>)> {
        let copy =
            |file: &File| file.try_clone().map(OwnedFd::from).map_err(VmError::io("duplicate", "disk image"));
        let descriptors = [copy(&self.image)?, copy(&self.layers[0])?, copy(&self.layers[1])?];
        let [image, active, hidden] =
            [0, 1, 2].map(|index: usize| format!("/proc/self/fd/{}", descriptors[index].as_raw_fd()));
        let quorum = "driver=quorum,read-pattern=fifo,vote-threshold=1";
        if start != Start::AwaitCheckpoints {
            let disk = format!(
                "if=none,id={DISK},{quorum},children.0.driver=raw,children.0.file.driver=file,\
                 children.0.file.filename={image}"
            );
            return Ok((vec![disk], descriptors.into()));
        }
        let drives = vec![
            format!("if=none,id={COPY},driver=raw,file.driver=file,file.filename={image}"),
            format!(
                "if=none,id=childs0,driver=replication,mode=secondary,top-id={DISK},file.driver=qcow2,\
                 file.file.filename={active},file.backing.driver=qcow2,file.backing.file.filename={hidden},\
                 file.backing.backing={COPY}"
            ),
            format!("if=none,id={DISK},{quorum},children.0=childs0"),
        ];
        Ok((drives, descriptors.into()))
    }
}

fn memory(name: &str) -> io::Result<File> {
    Ok(rustix::fs::memfd_create(format!("vtax-{name}"), MemfdFlags::CLOEXEC)?.into())
}

/// An image in the format QCOW version 2 (QEMU, `docs/interop/qcow2`) in which nothing is written yet:
/// header, reference counts, first-level table.
fn empty_qcow2(name: &str, size: u64) -> io::Result<File> {
    let file = memory(name)?;
    let entries = size.div_ceil(PER_ENTRY).max(1);
    let table_clusters = (entries * 8).div_ceil(CLUSTER);
    let (counts_table, counts, table) = (CLUSTER, 2 * CLUSTER, 3 * CLUSTER);
    let mut header = b"QFI\xfb".to_vec();
    header.extend(2_u32.to_be_bytes()); // version
    header.extend([0; 12]); // no backing file in the image itself
    header.extend(CLUSTER.trailing_zeros().to_be_bytes());
    header.extend(size.to_be_bytes());
    header.extend(0_u32.to_be_bytes()); // not encrypted
    header.extend(u32::try_from(entries).unwrap_or(u32::MAX).to_be_bytes());
    header.extend(table.to_be_bytes());
    header.extend(counts_table.to_be_bytes());
    header.extend(1_u32.to_be_bytes()); // clusters of the table of reference counts
    header.extend([0; 12]); // no snapshots
    file.set_len(table + table_clusters * CLUSTER)?;
    file.write_all_at(&header, 0)?;
    file.write_all_at(&counts.to_be_bytes(), counts_table)?;
    for cluster in 0..3 + table_clusters {
        file.write_all_at(&1_u16.to_be_bytes(), counts + cluster * 2)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_have_the_same_disk_name_and_different_nodes() {
        let disk = ReplicatedDisk::create(Bytes(100_000)).unwrap();
        assert_eq!(disk.size(), Bytes(131_072));
        let (primary, secondary) =
            (disk.arguments(Start::Boot).unwrap().0, disk.arguments(Start::AwaitCheckpoints).unwrap().0);
        assert_eq!((primary.len(), secondary.len()), (1, 3));
        assert!(primary[0].contains("id=data,driver=quorum") && secondary[2].contains("children.0=childs0"));
        let mut bytes = [1; 8];
        disk.read_at(131_064, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 8]);
        assert!(disk.read_at(131_065, &mut bytes).is_err());
    }

    #[test]
    fn a_copy_has_the_content() {
        let size = Bytes(3 << 20 | CLUSTER);
        let (one, other) = (ReplicatedDisk::create(size).unwrap(), ReplicatedDisk::create(size).unwrap());
        one.image.write_all_at(b"last", size.0 - 4).unwrap();
        other.copy_from(&one).unwrap();
        let mut bytes = [0; 4];
        other.read_at(size.0 - 4, &mut bytes).unwrap();
        assert_eq!(&bytes, b"last");
    }

    #[test]
    fn an_empty_layer_has_its_tables_counted() {
        let file = empty_qcow2("x", 3 * PER_ENTRY).unwrap();
        let mut header = [0; 72];
        file.read_exact_at(&mut header, 0).unwrap();
        assert_eq!(&header[..8], b"QFI\xfb\0\0\0\x02");
        assert_eq!(header[36..40], 3_u32.to_be_bytes());
        let mut counts = [0; 10];
        file.read_exact_at(&mut counts, 2 * CLUSTER).unwrap();
        assert_eq!(counts, [0, 1, 0, 1, 0, 1, 0, 1, 0, 0]);
    }
}
