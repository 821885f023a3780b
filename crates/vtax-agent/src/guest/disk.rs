//! The guest's own disk: a file system is made on it, and mounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use vtax_vm::contract::DISK_PLACE;

use super::error::GuestError;

/// How long the kernel may take to find it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where the program that makes a file system may be.
const PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];

/// Makes a file system of this kind on the guest's only disk and mounts it.
pub(super) fn prepare(kind: &str) -> Result<(), GuestError> {
    let disk = find()?;
    let failed = |reason: String| GuestError::FileSystem { disk: disk.display().to_string(), reason };
    if kind != "ext4" {
        return Err(failed(format!("`{kind}` is not known")));
    }
    let program =
        PLACES.map(|place| Path::new(place).join("mkfs.ext4")).into_iter().find(|path| path.is_file());
    let program = program.ok_or_else(|| failed("there is no mkfs.ext4 (package e2fsprogs)".to_owned()))?;
    // Nothing is left to be done later, behind the back of a measurement.
    let whole = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
    let made = Command::new(program)
        .args(["-q", "-F", "-m", "0", "-E", whole])
        .arg(&disk)
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !made.status.success() {
        return Err(failed(format!("{}: {}", made.status, String::from_utf8_lossy(&made.stderr).trim())));
    }
    fs::create_dir_all(DISK_PLACE).map_err(GuestError::call("create directory", DISK_PLACE))?;
    mount(disk.as_path(), DISK_PLACE, kind, MountFlags::NOSUID | MountFlags::NODEV, None)
        .map_err(GuestError::call("mount", disk.display().to_string()))
}

/// The only disk there is. It appears when its driver has asked it.
fn find() -> Result<PathBuf, GuestError> {
    let started = Instant::now();
    loop {
        let blocks = fs::read_dir("/sys/block").ok().into_iter().flatten().flatten();
        let names = blocks.map(|block| block.file_name().to_string_lossy().into_owned());
        let mut disks = names.filter(|name| ["vd", "sd", "nvme"].iter().any(|kind| name.starts_with(kind)));
        if let Some(name) = disks.next() {
            let device = Path::new("/dev").join(name);
            if device.exists() {
                return Ok(device);
            }
        }
        if started.elapsed() > PATIENCE {
            return Err(GuestError::NoOwnDisk { waited: PATIENCE });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
