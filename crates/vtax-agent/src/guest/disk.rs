//! The guest's own disk: a file system is made on it, and mounted. Several disks are made one before, a RAID-5.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use vtax_sys::mount::EXT4_ARGUMENTS;
use vtax_vm::contract::DISK_PLACE;

use super::error::GuestError;

/// How long the kernel may take to find it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where programs may be.
const PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];
/// The array.
pub(crate) const ARRAY: &str = "/dev/md0";
/// Members of an array.
const MEMBERS: std::ops::RangeInclusive<usize> = 3..=6;

/// Makes a file system of this kind on the guest's only disk, or on the RAID-5 of so many members that its disks are, and mounts it.
pub(super) fn prepare(kind: &str, members: Option<&str>) -> Result<(), GuestError> {
    let disk = match members {
        None => find(1)?.remove(0),
        Some(members) => array(members)?,
    };
    let failed = |reason: String| GuestError::FileSystem { disk: disk.display().to_string(), reason };
    if kind != "ext4" {
        return Err(failed(format!("`{kind}` is not known")));
    }
    run("mkfs.ext4", "e2fsprogs", &EXT4_ARGUMENTS, &[disk.as_path()]).map_err(failed)?;
    fs::create_dir_all(DISK_PLACE).map_err(GuestError::call("create directory", DISK_PLACE))?;
    mount(disk.as_path(), DISK_PLACE, kind, MountFlags::NOSUID | MountFlags::NODEV, None)
        .map_err(GuestError::call("mount", disk.display().to_string()))
}

/// Makes a RAID-5 of the guest's disks, of which one may be missing.
fn array(members: &str) -> Result<PathBuf, GuestError> {
    let failed = |reason: String| GuestError::Raid { reason };
    let (members, present) =
        numbers(members).ok_or_else(|| failed(format!("`{members}` are no numbers of members")))?;
    let mut disks = find(present)?;
    disks.truncate(present);
    disks.resize(members, PathBuf::from("missing"));
    // All that its disks hold is zeros, whose parity is right as it is: nothing has to be resynchronised.
    let count = format!("--raid-devices={members}");
    let arguments = [
        "--create",
        ARRAY,
        "--run",
        "--quiet",
        "--level=5",
        &count,
        "--metadata=1.2",
        "--data-offset=1M",
        "--chunk=64",
        "--bitmap=none",
        "--homehost=none",
        "--assume-clean",
    ];
    let disks: Vec<&Path> = disks.iter().map(PathBuf::as_path).collect();
    run("mdadm", "mdadm", &arguments, &disks).map_err(failed)?;
    Ok(PathBuf::from(ARRAY))
}

/// Members, and how many of them there are: at most one may be missing.
fn numbers(text: &str) -> Option<(usize, usize)> {
    let (members, present) = text.split_once('/')?;
    let (members, present): (usize, usize) = (members.parse().ok()?, present.parse().ok()?);
    (MEMBERS.contains(&members) && (members - 1..=members).contains(&present)).then_some((members, present))
}

/// Runs a program of the host's on these disks; what it said where it failed.
pub(crate) fn run(name: &str, package: &str, arguments: &[&str], disks: &[&Path]) -> Result<(), String> {
    let program = PLACES.map(|place| Path::new(place).join(name)).into_iter().find(|path| path.is_file());
    let program = program.ok_or_else(|| format!("there is no {name} (package {package})"))?;
    let made = Command::new(program)
        .args(arguments)
        .args(disks)
        // There is no udev in a guest; the kernel makes devices' files itself.
        .env("MDADM_NO_UDEV", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    if made.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", made.status, String::from_utf8_lossy(&made.stderr).trim()))
}

/// The disks there are, in the order of their names, once there are at least so many. They appear when their drivers have asked them.
fn find(least: usize) -> Result<Vec<PathBuf>, GuestError> {
    let started = Instant::now();
    loop {
        let blocks = fs::read_dir("/sys/block").ok().into_iter().flatten().flatten();
        let names = blocks.map(|block| block.file_name().to_string_lossy().into_owned());
        let disks = names.filter(|name| ["vd", "sd", "nvme"].iter().any(|kind| name.starts_with(kind)));
        let mut disks: Vec<PathBuf> =
            disks.map(|name| Path::new("/dev").join(name)).filter(|device| device.exists()).collect();
        if disks.len() >= least {
            disks.sort();
            return Ok(disks);
        }
        if started.elapsed() > PATIENCE {
            return Err(GuestError::NoOwnDisk { waited: PATIENCE });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_may_be_missing_and_no_more() {
        assert_eq!((numbers("4/4"), numbers("4/3")), (Some((4, 4)), Some((4, 3))));
        for wrong in ["4", "4/2", "3/4", "2/2", "7/7", "/", "a/b", "-4/3"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }
}
