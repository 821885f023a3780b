//! Volumes that this system's kernel mounts: what of a server is measured is then what programs see of it.
//!
//! Mounts belong to a load: they are made when it is opened and gone when it is closed. It takes root and a kernel with the client
//! in it, which is a virtual machine's: its own processes are the only ones there, so that the kernel's counters are the load's.

mod counters;
mod iscsi;

use std::ffi::CString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::{Deserialize, Serialize};

use super::iscsi::IscsiSpec;
use super::target::StorageError;
pub(super) use counters::Counters;

/// How often a volume that is still busy is tried to be unmounted.
const TRIES: u32 = 50;
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// A volume and where it is mounted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MountSpec {
    /// What is mounted.
    pub volume: Volume,
    /// The directory below which it is mounted; made where it isn't there.
    pub place: String,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Volume {
    /// A directory of an NFS server, version 4.1.
    Nfs {
        /// The server.
        address: SocketAddr,
        /// The directory as clients name it.
        path: String,
    },
    /// A share of an SMB server, version 3.1.1, as its guest.
    Smb {
        /// The server.
        address: SocketAddr,
        /// The share's name.
        share: String,
    },
    /// Units of an iSCSI target, each with an ext4 file system that is made anew.
    Iscsi(IscsiSpec),
}

impl MountSpec {
    /// Where a process's files are: units are used in turn.
    pub(super) fn directory(&self, worker: usize) -> PathBuf {
        Path::new(&self.place).join((worker % self.units()).to_string())
    }

    fn units(&self) -> usize {
        match &self.volume {
            Volume::Iscsi(spec) => usize::from(spec.units.max(1)),
            Volume::Nfs { .. } | Volume::Smb { .. } => 1,
        }
    }

    /// What is mounted, in a few words.
    const fn words(&self) -> &'static str {
        match self.volume {
            Volume::Nfs { .. } => "NFS 4.1, mounted",
            Volume::Smb { .. } => "SMB 3.1.1, mounted",
            Volume::Iscsi(_) => "ext4 on iSCSI, mounted",
        }
    }

    /// Whether there is room for what all processes together will have.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        let units = self.units();
        let each = bytes.div_ceil(units as u64);
        for unit in 0..units {
            let place = self.directory(unit);
            let room = rustix::fs::statvfs(&place).map_err(|e| {
                StorageError::system(format!("look for free space in {}", place.display()), e)
            })?;
            let held = super::local::own_bytes(&place);
            let free = (room.f_bavail * room.f_frsize).saturating_add(held);
            if each > free {
                let target = place.display().to_string();
                return Err(StorageError::TooSmall { target, needed: each, free });
            }
        }
        Ok(())
    }
}

/// A volume that is mounted; unmounted when dropped.
#[derive(Debug)]
pub(super) struct Mounted {
    spec: MountSpec,
    mounts: Vec<Mount>,
    /// What it is, in a few words.
    words: String,
}

/// One mount.
#[derive(Debug)]
struct Mount {
    source: String,
    place: PathBuf,
    kind: &'static str,
    options: String,
    /// The disk below it, where there is one: `sda`.
    disk: Option<String>,
    stands: bool,
}

impl Mounted {
    /// Mounts it.
    pub(super) fn new(spec: &MountSpec) -> Result<Self, StorageError> {
        let mut words = spec.words().to_owned();
        let mounts = match &spec.volume {
            Volume::Nfs { address, path } => vec![nfs(*address, path, spec.directory(0))],
            Volume::Smb { address, share } => vec![smb(*address, share, spec.directory(0))],
            Volume::Iscsi(iscsi) => {
                let (disks, seen) = iscsi::log_in(iscsi)?;
                let seen: Vec<String> = seen.iter().map(u16::to_string).collect();
                words.push_str(&format!(" (units seen: {})", seen.join(" ")));
                let each = disks.into_iter().enumerate();
                each.map(|(unit, disk)| iscsi::volume(disk, spec.directory(unit)))
                    .collect::<Result<_, _>>()?
            }
        };
        let mut mounted = Self { spec: spec.clone(), mounts, words };
        mounted.mounts.iter_mut().try_for_each(Mount::make)?;
        Ok(mounted)
    }

    /// A volume of tests, whose directories stand for mounts.
    #[cfg(test)]
    pub(super) fn of_directories(spec: &MountSpec) -> Self {
        Self { spec: spec.clone(), mounts: Vec::new(), words: spec.words().to_owned() }
    }

    /// What it is, in a few words.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// Who is at the other end.
    pub(super) const fn server(&self) -> &'static str {
        match self.spec.volume {
            Volume::Nfs { .. } => "the NFS server",
            Volume::Smb { .. } => "the SMB server",
            Volume::Iscsi(_) => "the iSCSI target",
        }
    }

    /// Unmounts it, has the kernel forget all that it caches, and mounts it again: nothing of it is left on this side.
    pub(super) fn renew(&mut self) -> Result<(), StorageError> {
        rustix::fs::sync();
        self.mounts.iter_mut().try_for_each(Mount::end)?;
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| StorageError::system("drop the caches", e))?;
        self.mounts.iter_mut().try_for_each(Mount::make)
    }

    /// What the kernel has sent and fetched so far.
    pub(super) fn counters(&self) -> Counters {
        match self.spec.volume {
            Volume::Nfs { .. } => {
                let text = fs::read_to_string("/proc/self/mountstats").unwrap_or_default();
                counters::of_nfs(&text, &self.spec.directory(0).to_string_lossy())
            }
            Volume::Smb { .. } => {
                counters::of_smb(&fs::read_to_string("/proc/fs/cifs/Stats").unwrap_or_default())
            }
            Volume::Iscsi(_) => {
                let disks = self.mounts.iter().filter_map(|mount| mount.disk.as_ref());
                let stats = disks.map(|disk| fs::read_to_string(format!("/sys/block/{disk}/stat")));
                counters::of_disks(stats.map(Result::unwrap_or_default))
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for mount in &mut self.mounts {
            // What stays mounted goes with the virtual machine.
            let _ = mount.end();
        }
    }
}

impl Mount {
    fn make(&mut self) -> Result<(), StorageError> {
        let shown = format!("mount {} ({}) on {}", self.source, self.kind, self.place.display());
        fs::create_dir_all(&self.place).map_err(|e| StorageError::system(shown.clone(), e))?;
        let options = CString::new(self.options.as_str()).unwrap_or_default();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount(self.source.as_str(), &self.place, self.kind, flags, Some(options.as_c_str()))
            .map_err(|e| StorageError::system(shown, e))?;
        self.stands = true;
        Ok(())
    }

    fn end(&mut self) -> Result<(), StorageError> {
        if !self.stands {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            match unmount(&self.place, UnmountFlags::empty()) {
                Ok(()) => break,
                // The last of a ring's files is closed behind its owner's back.
                Err(rustix::io::Errno::BUSY) if tries < TRIES => std::thread::sleep(PAUSE),
                Err(e) => return Err(StorageError::system(format!("unmount {}", self.place.display()), e)),
            }
            tries += 1;
        }
        self.stands = false;
        Ok(())
    }
}

/// Host and address as they are in a mount's source.
fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Version 4.1 as vtax's own client speaks it. A server that is gone costs an operation its time, not the load: a minute, as each of two
/// tries after the first adds 20 s. One that is slow may take longer: the kernel waits for as long as the connection stands.
fn nfs(address: SocketAddr, path: &str, place: PathBuf) -> Mount {
    let (ip, port) = (address.ip(), address.port());
    let options = format!(
        "vers=4.1,proto=tcp,addr={ip},port={port},sec=sys,rsize=1048576,wsize=1048576,softerr,timeo=200,retrans=2"
    );
    Mount {
        source: format!("{}:{path}", host(address)),
        place,
        kind: "nfs4",
        options,
        disk: None,
        stands: false,
    }
}

/// Version 3.1.1 as guest, without encryption; what the server allows to be cached is.
fn smb(address: SocketAddr, share: &str, place: PathBuf) -> Mount {
    let (ip, port) = (address.ip(), address.port());
    let source = format!("//{ip}/{share}");
    let options = format!("ip={ip},port={port},unc=\\\\{ip}\\{share},vers=3.1.1,sec=none,cache=strict");
    Mount { source, place, kind: "cifs", options, disk: None, stands: false }
}
