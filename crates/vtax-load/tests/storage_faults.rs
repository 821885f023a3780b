//! Local storage that lets the generator down: volumes that are full or read-only, devices in use or of others.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use vtax_load::storage::{Failure, LocalSpec, StorageError, StorageSession, StorageSpec, TargetSpec};
use vtax_load::{Control, LoadError};
use vtax_plan::model::{StorageEngine, StorageOperation};
use vtax_sys::mount::{bind, tmpfs};
use vtax_sys::require::{Need, need, possible};
use vtax_units::Bytes;

#[path = "storage_support/local.rs"]
mod local;

use local::{RECORDS, directory, engines, run, session, spec, step};

/// Runs an ignored test of this program in a mount namespace of its own.
fn elsewhere(namespaces: &str, test: &str) {
    // A directory can't be removed while something is mounted on it, which there it is until the namespace ends.
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args([namespaces, "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("TMPDIR", directory.path())
        .output()
        .expect("unshare is there");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_full_volume_fails_each_write_and_says_why() {
    if need(&[Need::Ns]) {
        elsewhere("-Urm", "inside_a_full_volume");
    }
}

/// Takes all that is left of a volume.
fn fill(place: &Path) -> PathBuf {
    let path = place.join("others");
    let mut file = File::create(&path).unwrap();
    for size in [1 << 20, 4096] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

#[test]
#[ignore = "in a namespace of its own"]
fn inside_a_full_volume() {
    for engine in engines() {
        let place = tempfile::tempdir().unwrap();
        tmpfs(place.path(), "size=80m").unwrap();
        let mut session = session(place.path());
        run(&mut session, &step(engine, StorageOperation::Write));
        // Somebody else takes what was free, and what the files had.
        for process in 0..2 {
            let file = place.path().join(format!("vtax-{process}-0"));
            File::options().write(true).open(file).unwrap().set_len(0).unwrap();
        }
        let others = fill(place.path());
        let result = run(&mut session, &step(engine, StorageOperation::Rewrite));
        assert_eq!(result.load.counts.ok, 0, "{engine:?}");
        assert_eq!(result.failures, [(Failure::NoSpace, 2 * RECORDS)], "{engine:?}");
        let words = result.first_failure.unwrap();
        assert!(words.contains("No space left"), "{words}");
        // Once there is room again it goes on, and nothing of before is believed to be there.
        fs::remove_file(others).unwrap();
        for operation in [StorageOperation::Rewrite, StorageOperation::Read] {
            let result = run(&mut session, &step(engine, operation));
            assert_eq!(
                (result.load.counts.ok, result.trouble()),
                (2 * RECORDS, None),
                "{engine:?} {operation:?}"
            );
        }
    }
}

#[test]
fn a_read_only_mount_is_told_before_anything_is_measured() {
    if need(&[Need::Ns]) {
        elsewhere("-Urm", "inside_a_read_only_mount");
    }
}

#[test]
#[ignore = "in a namespace of its own"]
fn inside_a_read_only_mount() {
    let place = tempfile::tempdir().unwrap();
    tmpfs(place.path(), "size=80m").unwrap();
    let mut before = session(place.path());
    let write = step(StorageEngine::Psync, StorageOperation::Write);
    run(&mut before, &write);
    bind(place.path(), place.path(), true).unwrap();
    let is_told = |session: &mut StorageSession| {
        let error = session.run_step(&write, &Control::new()).unwrap_err();
        assert!(matches!(error, LoadError::Storage(_)), "{error}");
        let words = vtax_sys::chain(&error);
        assert!(words.contains("Read-only file system"), "{words}");
    };
    // Also where it has become so between two tests.
    is_told(&mut before);
    drop(before);
    is_told(&mut session(place.path()));
}

/// A device that is a file.
struct Device {
    path: PathBuf,
}

impl Device {
    /// `None` where this kernel has no such devices.
    fn of(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        output.status.success().then_some(Self { path })
    }

    fn session(&self, overwrite: bool) -> StorageSession {
        let path = self.path.to_string_lossy().into_owned();
        let target = TargetSpec::Local(LocalSpec { path, overwrite });
        StorageSession::open(&StorageSpec { target, ..spec(&self.path) }).unwrap()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

#[test]
fn a_device_of_others_or_in_use_is_left_alone() {
    if need(&[Need::Root]) {
        elsewhere("-m", "inside_a_device");
    }
}

#[test]
#[ignore = "in a namespace of its own"]
fn inside_a_device() {
    let directory = directory();
    let file = directory.path().join("image");
    File::create(&file).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&file).status().expect("mkfs.ext4 is there");
    assert!(made.success());
    let device = Device::of(&file);
    let lack = device.is_none().then_some("this kernel has no loop devices, or losetup is missing");
    let (true, Some(device)) = (possible(lack), device) else { return };
    let write = step(StorageEngine::Psync, StorageOperation::Write);
    let refused = |overwrite, step| device.session(overwrite).run_step(step, &Control::new()).unwrap_err();
    let holds = || {
        let mut magic = [0; 2];
        File::open(&file).unwrap().read_exact_at(&mut magic, 1024 + 56).unwrap();
        u16::from_le_bytes(magic)
    };

    // It is too small, whoever it belongs to.
    let mut large = write.clone();
    large.shape.file = Bytes(1 << 30);
    assert!(matches!(refused(true, &large), LoadError::Storage(StorageError::TooSmall { .. })));
    // It holds something that vtax didn't write, and was named once.
    let error = refused(false, &write);
    assert!(matches!(error, LoadError::Storage(StorageError::Foreign { .. })), "{error}");
    // It is mounted, and was named twice.
    let place = directory.path().join("mounted");
    fs::create_dir(&place).unwrap();
    let mounted = Command::new("mount").args([&device.path, &place]).status().expect("mount is there");
    assert!(mounted.success());
    let error = refused(true, &write);
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(Command::new("umount").arg(&place).status().expect("umount is there").success());
    assert_eq!(holds(), 0xef53, "the file system is untouched");
    // It isn't any more, and was named twice.
    let mut session = device.session(true);
    assert_eq!(run(&mut session, &write).load.counts.ok, 2 * RECORDS);
}
