//! Which modules a guest needs, in the order they must be loaded.
//!
//! The modules' own `depends=` lines are read, so that no `modules.dep` is needed: a kernel
//! package doesn't contain one, and making it takes `depmod` and seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::decompress;
use crate::elf::Elf;
use crate::error::{Result, VmError};

/// What every guest needs: PCI transport, the agent's port, the host's root under an overlay, network.
pub const NEEDED: &[&str] = &["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "virtio_net"];

/// What a guest needs whose files are not the host's own, see [`crate::GuestRoot`].
pub(crate) const NEEDED_WITHOUT_HOST: &[&str] = &["virtio_pci", "virtio_console", "virtio_blk", "virtio_net"];
/// What a guest needs besides for its files on a disk. Linux's ext4 asks for its checksums by name, and there
/// is no modprobe in a guest; newer kernels have them built in under another one.
pub(crate) const NEEDED_FOR_IMAGE: &[&str] =
    &["virtio_pci", "virtio_console", "virtio_blk", "?crc32c_generic", "ext4", "overlay", "virtio_net"];

/// Directories below a kernel's `kernel/` that hold nothing a guest is asked for; skipping the
/// large ones makes the walk four times faster.
const SKIPPED: &[&str] = &["gpu", "media", "sound", "wireless", "infiniband", "iio", "hwmon"];

/// The modules of one kernel.
#[derive(Debug)]
pub(crate) struct ModuleTree {
    release: String,
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

/// A module, decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

impl ModuleTree {
    /// Reads the tree at `dir` (`/lib/modules/RELEASE`).
    pub(crate) fn read(release: &str, dir: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(&dir.join("kernel"), &mut files)?;
        let list = dir.join("modules.builtin");
        let builtin = fs::read_to_string(&list).map_err(VmError::path("read", &list))?;
        let builtin = builtin.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(Self { release: release.to_owned(), files, builtin })
    }

    /// Whether there is a module of that name, built in or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        let name = name.replace('-', "_");
        self.builtin.contains(&name) || self.files.contains_key(&name)
    }

    /// `wanted` and everything they depend on, dependencies first; what is built in is left out, and what has
    /// a `?` before its name where there is no such module.
    pub(crate) fn closure(&self, wanted: &[&str]) -> Result<Vec<Module>> {
        let mut order = Vec::new();
        let mut visited = BTreeSet::new();
        for name in wanted {
            let name = match name.strip_prefix('?') {
                Some(optional) if !self.files.contains_key(optional) => continue,
                Some(optional) => optional,
                None => name,
            };
            self.visit(name, None, &mut visited, &mut order)?;
        }
        Ok(order)
    }

    fn visit(
        &self,
        name: &str,
        of: Option<&str>,
        visited: &mut BTreeSet<String>,
        order: &mut Vec<Module>,
    ) -> Result<()> {
        let name = name.replace('-', "_");
        // Marking before the visit also ends a cycle, which no healthy tree has.
        if self.builtin.contains(&name) || !visited.insert(name.clone()) {
            return Ok(());
        }
        let path = self.files.get(&name).ok_or_else(|| VmError::NoModule {
            release: self.release.clone(),
            module: name.clone(),
            of: of.map(str::to_owned),
        })?;
        let compressed = fs::read(path).map_err(VmError::path("read", path))?;
        let content = decompress::elf(&compressed)
            .map_err(|e| VmError::bad_file(path, "a kernel module", e.to_string()))?;
        let depends = Elf::parse(&content)
            .and_then(Elf::module_depends)
            .map_err(|e| VmError::bad_file(path, "a kernel module", e.to_string()))?;
        for dependency in &depends {
            self.visit(dependency, Some(&name), visited, order)?;
        }
        order.push(Module { name, content });
        Ok(())
    }
}

/// `kernel/fs/9p/9p.ko.xz` -> `9p`; the kernel writes `_` where file names have `-`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (stem, extension) = file.split_once(".ko")?;
    matches!(extension, "" | ".gz" | ".xz" | ".zst").then(|| stem.replace('-', "_"))
}

fn collect(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(VmError::path("list", dir))? {
        let entry = entry.map_err(VmError::path("list", dir))?;
        // A link (`build`, `source`) is neither a directory nor a file here, so no loop is possible.
        let kind = entry.file_type().map_err(VmError::path("look at", &entry.path()))?;
        if kind.is_dir() {
            if !entry.file_name().to_str().is_some_and(|name| SKIPPED.contains(&name)) {
                collect(&entry.path(), files)?;
            }
        } else if let Some(name) = module_name(&entry.path()) {
            files.insert(name, entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The smallest ELF file with a `.modinfo` section.
    pub(crate) fn module_file(depends: &str) -> Vec<u8> {
        let info = format!("license=GPL\0depends={depends}\0name=x\0");
        let names = b"\0.modinfo\0.shstrtab\0";
        let (info_at, names_at) = (64_u64, 64 + info.len() as u64);
        let table = names_at + names.len() as u64;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(64, 0);
        file[40..48].copy_from_slice(&table.to_le_bytes());
        file[58..60].copy_from_slice(&64_u16.to_le_bytes());
        file[60..62].copy_from_slice(&3_u16.to_le_bytes());
        file[62..64].copy_from_slice(&2_u16.to_le_bytes());
        file.extend(info.as_bytes());
        file.extend(names);
        let sections = [(0_u32, 0, 0), (1, info_at, info.len() as u64), (10, names_at, names.len() as u64)];
        for (name, offset, size) in sections {
            let mut header = vec![0_u8; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[24..32].copy_from_slice(&u64::to_le_bytes(offset));
            header[32..40].copy_from_slice(&u64::to_le_bytes(size));
            file.extend(header);
        }
        file
    }

    /// A kernel's module directory with these modules and built-ins.
    pub(crate) fn tree(dir: &Path, modules: &[(&str, &str)], builtin: &str) {
        for (path, depends) in modules {
            let path = dir.join("kernel").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, module_file(depends)).unwrap();
        }
        fs::write(dir.join("modules.builtin"), builtin).unwrap();
    }

    fn names(modules: &[Module]) -> Vec<&str> {
        modules.iter().map(|m| m.name.as_str()).collect()
    }

    #[test]
    fn dependencies_come_first_once_and_builtins_never() {
        let dir = tempfile::tempdir().unwrap();
        let modules = [
            ("fs/9p/9p.ko", "9pnet,netfs"),
            ("net/9p/9pnet.ko", ""),
            ("net/9p/9pnet_virtio.ko", "9pnet,virtio_ring"),
            ("drivers/net/virtio-net.ko", "net-failover"),
            ("drivers/net/net_failover.ko", "virtio_net"),
        ];
        tree(dir.path(), &modules, "kernel/fs/netfs/netfs.ko\nkernel/drivers/virtio/virtio_ring.ko\n");
        let tree = ModuleTree::read("6.1", dir.path()).unwrap();
        let wanted = ["9pnet_virtio", "?gone", "?9p", "virtio_net", "virtio_ring"];
        let order = tree.closure(&wanted).unwrap();
        assert_eq!(names(&order), ["9pnet", "9pnet_virtio", "9p", "net_failover", "virtio_net"]);
    }

    #[test]
    fn a_missing_dependency_names_who_asked() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path(), &[("fs/9p.ko", "9pnet")], "");
        let tree = ModuleTree::read("6.1", dir.path()).unwrap();
        let error = tree.closure(&["9p"]).unwrap_err().to_string();
        assert_eq!(error, "kernel 6.1 has no module `9pnet` (needed by `9p`)");
    }

    #[test]
    fn a_damaged_module_is_named() {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path(), &[("a.ko", "")], "");
        fs::write(dir.path().join("kernel/a.ko"), b"\x7fELF\x02\x01damaged").unwrap();
        let error = ModuleTree::read("6.1", dir.path()).unwrap().closure(&["a"]).unwrap_err().to_string();
        assert!(error.contains("a.ko: not a kernel module"), "{error}");
    }

    #[test]
    fn compressed_modules_have_the_same_name() {
        let name = |path| module_name(Path::new(path));
        assert_eq!(name("kernel/drivers/char/hw_random/virtio-rng.ko.zst").as_deref(), Some("virtio_rng"));
        assert_eq!(name("a/b.ko").as_deref(), Some("b"));
        assert_eq!(name("a/b.ko.bak"), None);
        assert_eq!(name("modules.order"), None);
    }
}
