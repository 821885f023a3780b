//! The RAID that is a guest's own disk: one of its disks fails and is replaced while others use it.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use vtax_sys::sync::lock;
use vtax_units::Nanos;

use crate::guest::disk::{ARRAY, run};

/// What the kernel says of it (kernel document `admin-guide/md`).
const STATE: &str = "/sys/block/md0/md";
/// A disk that has just failed is still busy for a moment.
const BUSY: Duration = Duration::from_secs(2);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest that a rebuild is watched.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// What was done to the array.
#[derive(Debug, Default)]
pub(crate) struct Array {
    /// The disk that has failed.
    failed: Mutex<Option<String>>,
    /// How long each rebuild took, once it is over, in the order in which disks were replaced.
    rebuilds: Mutex<Vec<Arc<OnceLock<Duration>>>>,
}

impl Array {
    /// Has its last disk fail, and takes that out.
    pub(crate) fn fail(&self) -> Result<(), String> {
        let mut failed = lock(&self.failed);
        if let Some(disk) = &*failed {
            return Err(format!("{disk} has failed already, and with two of its disks a RAID-5 is lost"));
        }
        if missing()? > 0 {
            return Err("one of its disks is missing, and with two of them a RAID-5 is lost".to_owned());
        }
        let disk = last(Path::new(STATE)).ok_or("it has no disks")?;
        take_out(&mut failed, &disk, mdadm)
    }

    /// Puts the disk that has failed in again as a new one, so that all of it is made anew, and sees how long that takes.
    pub(crate) fn replace(&self) -> Result<(), String> {
        let started = put_in(&mut lock(&self.failed), mdadm)?;
        let took = Arc::new(OnceLock::new());
        lock(&self.rebuilds).push(Arc::clone(&took));
        std::thread::spawn(move || {
            while started.elapsed() < PATIENCE {
                match missing() {
                    Ok(0) => {
                        // It is set once.
                        let _ = took.set(started.elapsed());
                        return;
                    }
                    Ok(_) => std::thread::sleep(PAUSE),
                    Err(_) => return,
                }
            }
        });
        Ok(())
    }

    /// How long each rebuild took, in the order in which disks were replaced; `None` where it isn't over.
    pub(crate) fn rebuilds(&self) -> Vec<Option<Nanos>> {
        lock(&self.rebuilds).iter().map(|took| took.get().copied().map(Nanos::from)).collect()
    }
}

/// Has a disk fail, and takes it out. It has failed, too, where it can't be taken out.
fn take_out(
    failed: &mut Option<String>,
    disk: &str,
    mdadm: impl Fn(&[&str]) -> Result<(), String>,
) -> Result<(), String> {
    mdadm(&[ARRAY, "--fail", disk])?;
    *failed = Some(disk.to_owned());
    let started = Instant::now();
    while let Err(why) = mdadm(&[ARRAY, "--remove", disk]) {
        if started.elapsed() > BUSY {
            return Err(why);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Puts the disk that has failed in again as a new one; when its rebuild began. Where it can't be put in, it is still out.
fn put_in(
    failed: &mut Option<String>,
    mdadm: impl Fn(&[&str]) -> Result<(), String>,
) -> Result<Instant, String> {
    let disk = failed.clone().ok_or("none of its disks has failed")?;
    mdadm(&["--zero-superblock", &disk])?;
    let started = Instant::now();
    mdadm(&[ARRAY, "--add", &disk])?;
    *failed = None;
    Ok(started)
}

/// Disks that the array lacks.
fn missing() -> Result<u32, String> {
    let path = Path::new(STATE).join("degraded");
    let text = fs::read_to_string(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
    text.trim().parse().map_err(|_| format!("{} holds `{}`", path.display(), text.trim()))
}

/// The last of the array's disks by name.
fn last(state: &Path) -> Option<String> {
    let entries = fs::read_dir(state).ok()?.flatten();
    let names =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("dev-").map(str::to_owned));
    names.max().map(|name| format!("/dev/{name}"))
}

fn mdadm(arguments: &[&str]) -> Result<(), String> {
    run("mdadm", "mdadm", arguments, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_disk_is_the_one_that_fails() {
        let state = tempfile::tempdir().unwrap();
        for name in ["dev-vdb", "dev-vdd", "dev-vdc", "degraded", "rd0"] {
            fs::create_dir(state.path().join(name)).unwrap();
        }
        assert_eq!(last(state.path()).as_deref(), Some("/dev/vdd"));
        assert_eq!(last(&state.path().join("none")), None);
    }

    /// mdadm, which refuses to do this.
    fn refusing(what: &str) -> impl Fn(&[&str]) -> Result<(), String> {
        move |arguments: &[&str]| if arguments.contains(&what) { Err("busy".to_owned()) } else { Ok(()) }
    }

    #[test]
    fn what_went_wrong_half_way_is_known_and_tried_again() {
        let mut failed = None;
        take_out(&mut failed, "/dev/vdd", refusing("--fail")).unwrap_err();
        assert_eq!(failed, None);
        take_out(&mut failed, "/dev/vdd", refusing("--remove")).unwrap_err();
        assert_eq!(failed.as_deref(), Some("/dev/vdd"), "it takes no other with it");
        for step in ["--zero-superblock", "--add"] {
            assert_eq!(put_in(&mut failed, refusing(step)).unwrap_err(), "busy");
            assert_eq!(failed.as_deref(), Some("/dev/vdd"), "{step}");
        }
        put_in(&mut failed, refusing("nothing")).unwrap();
        assert_eq!(failed, None);
    }

    #[test]
    fn what_has_not_failed_is_not_replaced() {
        let array = Array::default();
        assert_eq!(array.replace().unwrap_err(), "none of its disks has failed");
        assert_eq!(array.rebuilds(), []);
    }
}
