//! The host's libraries that programs in a directory of their own are linked with.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::elf::Elf;
use crate::error::{Result, VmError};
use crate::tool::{Life, command, run};

/// The libraries outside of these directories that what is in them needs. What it doesn't find, it may have beside it.
///
/// # Errors
///
/// [`VmError::Io`] where a directory can't be read, [`VmError::Tool`] where the dynamic linker refuses a file.
pub(super) fn of_trees(trees: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut linked = Vec::new();
    for tree in trees {
        find_linked(tree, &mut linked)?;
    }
    if linked.is_empty() {
        return Ok(Vec::new());
    }
    let listed = run(command("ldd").args(&linked), Life::Bound)?;
    let outside = |path: &PathBuf| !trees.iter().any(|tree| path.starts_with(tree));
    Ok(resolved(&listed).into_iter().filter(outside).collect())
}

/// The dynamically linked files below a directory.
fn find_linked(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || VmError::path("list", directory);
    for entry in fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed())?);
        if kind.is_dir() {
            find_linked(&path, found)?;
        } else if kind.is_file() && is_linked(&path).map_err(VmError::path("read", &path))? {
            found.push(path);
        }
    }
    Ok(())
}

fn is_linked(path: &Path) -> std::io::Result<bool> {
    // Most files are none, and may be large.
    let mut magic = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut magic)?;
    if magic != *b"\x7fELF" {
        return Ok(false);
    }
    Ok(Elf::parse(&fs::read(path)?).and_then(Elf::is_linked).unwrap_or(false))
}

/// The libraries that `ldd` has found.
fn resolved(listed: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let line = line.trim();
        let (path, _) = line.split_once(" => ").map_or(line, |(_, path)| path).rsplit_once(" (")?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    listed.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ldd_says_is_read() {
        let listed = "/a/x:\n\tlinux-vdso.so.1 (0x00007ffd)\n\tlibhiredis.so.0.14 => not found\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\
                      /a/y:\n\tstatically linked\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(resolved(listed), expected.iter().map(PathBuf::from).collect());
    }
}
