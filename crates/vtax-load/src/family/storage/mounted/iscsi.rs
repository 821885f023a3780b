//! Units of an iSCSI target as disks of this system: open-iscsi's `iscsistart` logs in and leaves the session to the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use vtax_sys::mount::EXT4_ARGUMENTS;

use super::Mount;
use crate::family::storage::iscsi::IscsiSpec;
use crate::family::storage::target::StorageError;

/// Where programs of the system are.
const PLACES: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];
/// How long the kernel may take to find all units after the login.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of the target's portal group: tgt and LIO have one.
const GROUP: &str = "1";

/// Logs in; the disks that its units are, in their order (`sda`), and the numbers of all units that the target shows.
pub(super) fn log_in(spec: &IscsiSpec) -> Result<(Vec<String>, Vec<u16>), StorageError> {
    let (ip, port) = (spec.address.ip().to_string(), spec.address.port().to_string());
    let mut command = Command::new(program("iscsistart", "open-iscsi")?);
    command.args(["-i", &spec.initiator, "-t", &spec.target, "-g", GROUP, "-a", &ip, "-p", &port]);
    if let Some(chap) = &spec.chap {
        command.args(["-u", &chap.name, "-w", &chap.secret]);
    }
    if let Some(mutual) = &spec.mutual {
        command.args(["-U", &mutual.name, "-W", &mutual.secret]);
    }
    let names = format!("{} of {}", spec.target, spec.address);
    let output = command.output().map_err(|e| StorageError::system("run iscsistart", e))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        return Err(StorageError::Open {
            target: names,
            reason: format!("iscsistart: {}: {said}", output.status),
        });
    }
    find(spec, names)
}

/// Waits until the kernel has found all its units.
fn find(spec: &IscsiSpec, names: String) -> Result<(Vec<String>, Vec<u16>), StorageError> {
    let wanted = spec.lun..spec.lun.saturating_add(spec.units.max(1));
    let started = Instant::now();
    loop {
        let found = units(Path::new("/sys/block"));
        let disks =
            wanted.clone().map(|lun| found.iter().find(|(n, _)| *n == lun).map(|(_, name)| name.clone()));
        if let Some(disks) = disks.collect::<Option<Vec<String>>>() {
            return Ok((disks, found.into_iter().map(|(lun, _)| lun).collect()));
        }
        if started.elapsed() > PATIENCE {
            let seen: Vec<String> = found.iter().map(|(lun, _)| lun.to_string()).collect();
            let reason = format!(
                "it doesn't show the units {} to {}, but {}",
                wanted.start,
                wanted.end - 1,
                if seen.is_empty() { "none".to_owned() } else { seen.join(", ") }
            );
            return Err(StorageError::Open { target: names, reason });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The disks that come from an iSCSI session, each with its unit's number.
fn units(blocks: &Path) -> Vec<(u16, String)> {
    let entries = fs::read_dir(blocks).ok().into_iter().flatten().flatten();
    let unit = |entry: fs::DirEntry| {
        let device = fs::canonicalize(entry.path()).ok()?;
        let mut parts = device.components().map(|part| part.as_os_str().to_string_lossy());
        parts.find(|part| part.starts_with("session"))?;
        // HOST:CHANNEL:TARGET:UNIT
        let address = parts.find(|part| part.split(':').count() == 4)?;
        let lun = address.rsplit(':').next()?.parse().ok()?;
        Some((lun, entry.file_name().to_string_lossy().into_owned()))
    };
    let mut all: Vec<(u16, String)> = entries.filter_map(unit).collect();
    all.sort();
    all
}

/// Makes a file system on a disk.
pub(super) fn volume(disk: String, place: PathBuf) -> Result<Mount, StorageError> {
    let device = format!("/dev/{disk}");
    let made = Command::new(program("mkfs.ext4", "e2fsprogs")?)
        .args(EXT4_ARGUMENTS)
        .arg(&device)
        .output()
        .map_err(|e| StorageError::system("run mkfs.ext4", e))?;
    if !made.status.success() {
        let reason = format!("mkfs.ext4: {}: {}", made.status, String::from_utf8_lossy(&made.stderr).trim());
        return Err(StorageError::Open { target: device, reason });
    }
    Ok(Mount { source: device, place, kind: "ext4", options: String::new(), disk: Some(disk), stands: false })
}

fn program(name: &str, package: &str) -> Result<PathBuf, StorageError> {
    let found = PLACES.map(|place| Path::new(place).join(name)).into_iter().find(|path| path.is_file());
    let reason = format!("there is no {name} (package {package})");
    found.ok_or(StorageError::Open { target: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_by_their_number() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let blocks = directory.path().join("block");
        fs::create_dir(&blocks).unwrap();
        let disks = [
            ("sdb", "host2/session1/target2:0:0/2:0:0:2/block/sdb"),
            ("sda", "host0/target0:0:0/0:0:0:0/block/sda"),
        ];
        for (name, path) in disks {
            let device = directory.path().join("devices").join(path);
            fs::create_dir_all(&device).unwrap();
            symlink(&device, blocks.join(name)).unwrap();
        }
        assert_eq!(units(&blocks), [(2, "sdb".to_owned())]);
    }
}
