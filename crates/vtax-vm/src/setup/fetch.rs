//! A distribution's generic kernel, unpacked into the cache.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::apt::{self, Archive};
use crate::cache::Cache;
use crate::error::{Result, VmError};
use crate::kernel::{self, GuestKernel, PACKAGES, VMLINUX};

/// Packages that depend on the archive's present kernel: Debian's, then Ubuntu's. The flavours for
/// clouds lack 9p.
const NEWEST: [&str; 2] = ["linux-image-amd64", "linux-image-generic"];
/// What is followed and fetched of a kernel's dependencies; the rest belongs to an installed system.
const FETCHED: [&str; 2] = ["linux-image-", "linux-modules-"];

/// Fetches the archive's newest generic kernel and unpacks it. The kernel appears in the cache
/// complete or not at all.
pub(super) fn kernel(
    cache: &Cache,
    archive: &mut Archive,
    progress: &mut dyn FnMut(&str),
) -> Result<GuestKernel> {
    if !apt::is_there() {
        return Err(VmError::NoApt { what: "it".to_owned() });
    }
    let stage = cache.stage()?;
    let downloads = stage.dir().join("packages");
    create(&downloads)?;
    let packages = match resolve(archive).and_then(|p| download(archive, p, &downloads, progress)) {
        // An old index names packages that the archive has no more.
        Err(_) if archive.update()? => download(archive, resolve(archive)?, &downloads, progress)?,
        other => other?,
    };
    let root = stage.dir().join("root");
    create(&root)?;
    for file in list(&downloads)? {
        progress(&format!("unpacking {}", file.file_name().unwrap_or_default().to_string_lossy()));
        apt::unpack(&file, &root)?;
    }
    let release = release_in(&root)?;
    let mut lines = String::new();
    for package in &packages {
        lines.push_str(&format!("{package} {}\n", archive.version(package)?));
    }
    write(&root.join(PACKAGES), lines.as_bytes())?;
    // A kernel without a direct entry still boots as it is, only more slowly.
    if let Ok(vmlinux) = kernel::extract(&root.join(format!("boot/vmlinuz-{release}"))) {
        write(&root.join(VMLINUX), &vmlinux)?;
    }
    // Proves that it can be used before it is put into its place.
    GuestKernel::in_dir(&root, &release)?;
    stage.put(&root, &cache.kernels().join(&release))?;
    GuestKernel::of_cache(cache, &release)
}

/// The packages of the newest kernel.
fn resolve(archive: &Archive) -> Result<Vec<String>> {
    for meta in NEWEST {
        let Some(first) = archive.depends(meta)? else { continue };
        let mut found = BTreeSet::new();
        let mut open = first;
        while let Some(package) = open.pop() {
            if !FETCHED.iter().any(|prefix| package.starts_with(prefix)) || !found.insert(package.clone()) {
                continue;
            }
            open.extend(archive.depends(&package)?.unwrap_or_default());
        }
        if !found.is_empty() {
            return Ok(found.into_iter().collect());
        }
    }
    let reason =
        format!("apt knows neither {}; is its index there (`sudo apt-get update`)?", NEWEST.join(" nor "));
    Err(VmError::NoArchive { reason })
}

fn download(
    archive: &Archive,
    packages: Vec<String>,
    dir: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<String>> {
    progress(&format!("fetching {}", packages.join(" ")));
    archive.download(&packages, dir)?;
    Ok(packages)
}

/// The one kernel release whose modules are below `root`.
fn release_in(root: &Path) -> Result<String> {
    let places = ["lib/modules", "usr/lib/modules"].map(|dir| root.join(dir));
    let dir = places.iter().find(|dir| dir.is_dir()).unwrap_or(&places[0]);
    let releases = list(dir)?;
    match releases.as_slice() {
        [one] => Ok(one.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        other => {
            let reason = format!("modules of {} kernels in it", other.len());
            Err(VmError::bad_file(dir, "one kernel's packages", reason))
        }
    }
}

fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(VmError::path("list", dir))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn create(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(VmError::path("create directory", dir))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).map_err(VmError::path("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_found_in_old_and_merged_layouts() {
        for layout in ["lib/modules", "usr/lib/modules"] {
            let dir = tempfile::tempdir().unwrap();
            create(&dir.path().join(layout).join("6.1.0-56-amd64")).unwrap();
            assert_eq!(release_in(dir.path()).unwrap(), "6.1.0-56-amd64");
            create(&dir.path().join(layout).join("6.1.0-57-amd64")).unwrap();
            assert!(release_in(dir.path()).is_err());
        }
    }
}
