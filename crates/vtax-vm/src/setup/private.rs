//! Programs whose packages exclude others': unpacked into the cache with the libraries that this host lacks, so that nothing of the host
//! changes.

use std::fs;
use std::path::Path;

use super::apt::{self, Archive};
use super::newer_qemu::drop_what_only_people_read;
use crate::cache::Cache;
use crate::error::{Result, VmError};

/// A program that is unpacked instead of installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateProgram {
    /// The packages that it comes from.
    pub packages: Vec<String>,
    /// Paths of it; any of them makes unpacking unnecessary.
    pub programs: Vec<String>,
    /// The directory in the cache that they are unpacked in.
    pub place: String,
    /// The file in its place that names what was unpacked.
    pub list: String,
}

impl PrivateProgram {
    fn is_missing(&self, cache: &Cache) -> bool {
        let installed = self.programs.iter().any(|program| Path::new(program).is_file());
        !installed && !cache.entry(&self.place).join(&self.list).is_file()
    }
}

/// Fetches and unpacks a program where it is missing: what it was unpacked from. It appears in the cache complete or not at all.
pub(super) fn fetch(
    cache: &Cache,
    program: &PrivateProgram,
    archive: &mut Archive,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<String>> {
    if !program.is_missing(cache) {
        return Ok(None);
    }
    if !apt::is_there() {
        return Err(VmError::NoApt { what: program.packages.join(" ") });
    }
    archive.update()?;
    let needed = archive.needed(&program.packages)?;
    progress(&format!("unpacking {} into the cache", program.packages.join(" ")));
    let stage = cache.stage()?;
    let [files, root] = ["files", "root"].map(|dir| stage.dir().join(dir));
    for dir in [&files, &root] {
        fs::create_dir_all(dir).map_err(VmError::path("create directory", dir))?;
    }
    let names: Vec<String> = needed.iter().map(|(name, _)| name.clone()).collect();
    archive.download(&names, &files)?;
    for file in fs::read_dir(&files).map_err(VmError::path("list", &files))?.flatten() {
        apt::unpack(&file.path(), &root)?;
    }
    drop_what_only_people_read(&root);
    let own = needed.iter().filter(|(name, _)| program.packages.contains(name));
    let lines: String = own.map(|(name, version)| format!("{name} {version}\n")).collect();
    let list = root.join(&program.list);
    fs::write(&list, &lines).map_err(VmError::path("write", &list))?;
    stage.put(&root, &cache.entry(&program.place))?;
    Ok(Some(lines.lines().collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_or_unpacked_is_not_missing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let of = |program: &str| PrivateProgram {
            packages: vec!["x".to_owned()],
            programs: vec![program.to_owned()],
            place: "programs/x".to_owned(),
            list: "list".to_owned(),
        };
        assert!(!of("/bin/sh").is_missing(&cache));
        assert!(of("/no/such/program").is_missing(&cache));
        fs::create_dir_all(dir.path().join("programs/x")).unwrap();
        assert!(of("/no/such/program").is_missing(&cache));
        fs::write(dir.path().join("programs/x/list"), "").unwrap();
        assert!(!of("/no/such/program").is_missing(&cache));
    }
}
