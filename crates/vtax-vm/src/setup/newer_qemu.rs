//! A private copy of a newer QEMU, for fault-tolerant pairs.
//!
//! Debian's releases before 14 have a QEMU whose checkpoints deadlock or damage memory under
//! emulation. Debian's backports have one that works, as ordinary packages; they are unpacked into
//! the cache and run from there with their own libraries, so that nothing of the host changes.

use std::fs;
use std::path::Path;

use super::apt::{self, PrivateApt};
use crate::cache::Cache;
use crate::error::{Result, VmError};
use crate::qemu::Qemu;

/// Who publishes it.
const ORIGIN: &str = "Debian";
/// Where QEMU's libraries come from, and where QEMU itself does.
const SUITES: [&str; 2] = ["trixie", "trixie-backports"];
/// The public keys of the publisher, from the package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What is fetched, with everything that it depends on.
const PACKAGE: &str = "qemu-system-x86";

/// Fetches and unpacks it. It appears in the cache complete or not at all.
pub(super) fn fetch(cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<Qemu> {
    let none = |reason: String| VmError::NoNewerQemu { reason };
    if !apt::is_there() {
        return Err(none("this host has no apt-get".to_owned()));
    }
    let address =
        apt::archive_of(ORIGIN)?.ok_or_else(|| none(format!("this host's apt knows no {ORIGIN} archive")))?;
    if !Path::new(KEYRING).is_file() {
        return Err(none(format!(
            "no {KEYRING} to check the packages with (package `debian-archive-keyring`)"
        )));
    }
    let stage = cache.stage()?;
    let suite = SUITES[1];
    progress(&format!("fetching {PACKAGE} of {suite} for fault-tolerant pairs (some 40 MB)"));
    let apt = PrivateApt::new(&stage.dir().join("apt"), &address, &SUITES, Path::new(KEYRING))?;
    let files = apt.fetch(PACKAGE, suite)?;
    progress(&format!("unpacking {} packages", files.len()));
    let root = stage.dir().join("root");
    fs::create_dir_all(&root).map_err(VmError::path("create directory", &root))?;
    for file in &files {
        apt::unpack(file, &root)?;
    }
    drop_what_only_people_read(&root);
    let list = root.join(Qemu::PACKAGES);
    let version = apt.version(PACKAGE, suite)?;
    fs::write(&list, format!("{PACKAGE} {version}\n")).map_err(VmError::path("write", &list))?;
    // Proves that it starts before it is put into its place.
    Qemu::unpacked(&root)?;
    stage.put(&root, &Qemu::place(cache))?;
    Qemu::unpacked(&Qemu::place(cache))
}

/// Documents and translations are half of what is unpacked.
pub(super) fn drop_what_only_people_read(root: &Path) {
    for dir in ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info"] {
        // What stays only takes room.
        let _ = fs::remove_dir_all(root.join(dir));
    }
}
