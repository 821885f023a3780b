//! Which kernel a guest boots.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bzimage;
use crate::cache::Cache;
use crate::error::{Result, VmError};
use crate::modules::{Module, ModuleTree, NEEDED};

/// Where a guest's kernel comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The kernel the host itself runs.
    Host,
    /// A distribution's generic kernel that `vtax setup` unpacked into the cache.
    Cached,
}

/// A kernel that a guest can boot, with the modules it needs.
#[derive(Debug)]
pub struct GuestKernel {
    /// As `uname -r` says in the guest.
    pub release: String,
    /// Where it comes from.
    pub origin: Origin,
    /// What QEMU loads: the ELF kernel, or the bzImage where the kernel has no PVH entry.
    pub image: PathBuf,
    /// Whether `image` is the ELF kernel.
    pub pvh: bool,
    /// The packages it was unpacked from, `name version`; empty for the host's own.
    pub packages: Vec<String>,
    modules: Vec<Module>,
    /// What would have been welcome and isn't there, neither as a module nor built in.
    lacking: Vec<String>,
}

/// Name of the extracted ELF kernel in an unpacked kernel's directory.
pub(crate) const VMLINUX: &str = "vmlinux";
/// Name of the list of packages in an unpacked kernel's directory.
pub(crate) const PACKAGES: &str = "packages";

impl GuestKernel {
    /// The host's own kernel where a guest can boot it, else the newest usable one in the cache.
    ///
    /// # Errors
    ///
    /// [`VmError::NoKernel`] with every kernel that was tried and the reason why not.
    pub fn find(cache: &Cache) -> Result<Self> {
        Self::find_with(cache, NEEDED, &[])
    }

    /// As [`find`](Self::find), with other modules, and `welcome` ones where the kernel has them.
    pub(crate) fn find_with(cache: &Cache, wanted: &[&str], welcome: &[String]) -> Result<Self> {
        let running = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut tried = Vec::new();
        match Self::of_host(cache, Path::new("/"), &running, wanted, welcome) {
            Ok(kernel) => return Ok(kernel),
            Err(e) => tried.push(format!("the host's own {running}: {}", chain(&e))),
        }
        let mut releases = cached_releases(cache);
        releases.sort_by(|a, b| compare_releases(b, a));
        if releases.is_empty() {
            tried.push(format!("none in {}", cache.kernels().display()));
        }
        for release in releases {
            match Self::in_dir_with(&cache.kernels().join(&release), &release, wanted, welcome) {
                Ok(kernel) => return Ok(kernel),
                Err(e) => tried.push(format!("{release} in the cache: {}", chain(&e))),
            }
        }
        Err(VmError::NoKernel { tried })
    }

    /// The kernel `release` installed below `root`.
    fn of_host(
        cache: &Cache,
        root: &Path,
        release: &str,
        wanted: &[&str],
        welcome: &[String],
    ) -> Result<Self> {
        let bzimage = root.join(format!("boot/vmlinuz-{release}"));
        let (modules, lacking) = needed_modules(release, root, wanted, welcome)?;
        let facts = fs::metadata(&bzimage).map_err(VmError::path("look at", &bzimage))?;
        // Reading it proves the permission: Ubuntu keeps it from everyone but root.
        fs::File::open(&bzimage).map_err(VmError::path("open", &bzimage))?;
        let modified = facts.modified().ok().and_then(|m| m.duration_since(std::time::UNIX_EPOCH).ok());
        let stamp = modified.unwrap_or_default().as_secs();
        let name = format!("host-kernels/{release}-{}-{stamp}", facts.len());
        let extracted = match cache.entry(&name) {
            path if is_whole(&path) => Ok(path),
            _ => extract(&bzimage).and_then(|kernel| cache.write(&name, &kernel)),
        };
        // A bzImage boots too, only more slowly; so neither a kernel without PVH nor a read-only
        // cache is an error.
        let (image, pvh) = extracted.map_or((bzimage, false), |path| (path, true));
        let release = release.to_owned();
        Ok(Self { release, origin: Origin::Host, image, pvh, packages: Vec::new(), modules, lacking })
    }

    /// The kernel `release` that `vtax setup` put into the cache.
    pub(crate) fn of_cache(cache: &Cache, release: &str) -> Result<Self> {
        Self::in_dir(&cache.kernels().join(release), release)
    }

    /// The kernel `release` whose packages are unpacked below `root`.
    pub(crate) fn in_dir(root: &Path, release: &str) -> Result<Self> {
        Self::in_dir_with(root, release, NEEDED, &[])
    }

    fn in_dir_with(root: &Path, release: &str, wanted: &[&str], welcome: &[String]) -> Result<Self> {
        let (modules, lacking) = needed_modules(release, root, wanted, welcome)?;
        let packages = fs::read_to_string(root.join(PACKAGES)).unwrap_or_default();
        let packages = packages.lines().map(str::to_owned).collect();
        let vmlinux = root.join(VMLINUX);
        let pvh = is_whole(&vmlinux);
        let image = if pvh { vmlinux } else { root.join(format!("boot/vmlinuz-{release}")) };
        fs::File::open(&image).map_err(VmError::path("open", &image))?;
        let release = release.to_owned();
        Ok(Self { release, origin: Origin::Cached, image, pvh, packages, modules, lacking })
    }

    /// The modules a guest loads, in order.
    pub(crate) fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The names of the modules a guest loads, in order.
    pub fn module_names(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(|module| module.name.as_str())
    }

    /// Whether it lacks a module that was asked for, and hasn't built it in either.
    #[must_use]
    pub fn lacks(&self, module: &str) -> bool {
        self.lacking.iter().any(|name| name == module)
    }
}

/// Whether there is a kernel in that file. One of no length is what a power failure leaves.
fn is_whole(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.len() > 0)
}

/// The ELF kernel in the bzImage at `path`.
pub(crate) fn extract(path: &Path) -> Result<Vec<u8>> {
    let image = fs::read(path).map_err(VmError::path("read", path))?;
    bzimage::vmlinux(&image)
        .map_err(|e| VmError::bad_file(path, "a kernel with a direct entry", e.to_string()))
}

/// The modules to load, in order, and what of the welcome ones there isn't.
fn needed_modules(
    release: &str,
    root: &Path,
    wanted: &[&str],
    welcome: &[String],
) -> Result<(Vec<Module>, Vec<String>)> {
    // Where /lib is no link to /usr/lib (an unpacked package), either may be the place.
    let places = ["lib/modules", "usr/lib/modules"].map(|dir| root.join(dir).join(release));
    let dir = places.iter().find(|dir| dir.is_dir()).unwrap_or(&places[0]);
    let tree = ModuleTree::read(release, dir)?;
    let (present, lacking): (Vec<&String>, Vec<&String>) = welcome.iter().partition(|name| tree.has(name));
    let present = present.into_iter().map(String::as_str);
    let modules = tree.closure(&wanted.iter().copied().chain(present).collect::<Vec<_>>())?;
    Ok((modules, lacking.into_iter().cloned().collect()))
}

fn cached_releases(cache: &Cache) -> Vec<String> {
    let Ok(entries) = fs::read_dir(cache.kernels()) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Compares `6.1.0-9-amd64` and `6.1.0-10-amd64` as people do: numbers by value.
fn compare_releases(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(u64, String)> {
        text.split(['.', '-', '+', '~']).map(|p| (p.parse().unwrap_or(0), p.to_owned())).collect()
    };
    parts(a).cmp(&parts(b))
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |&e| e.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::tree;

    const ALL: [(&str, &str); 6] = [
        ("virtio_pci.ko", ""),
        ("virtio_console.ko", ""),
        ("9pnet_virtio.ko", ""),
        ("9p.ko", ""),
        ("overlay.ko", ""),
        ("virtio_net.ko", ""),
    ];

    fn cached(cache: &Cache, release: &str, modules: &[(&str, &str)]) {
        let root = cache.kernels().join(release);
        let dir = root.join("usr/lib/modules").join(release);
        fs::create_dir_all(dir.join("kernel")).unwrap();
        tree(&dir, modules, "");
        fs::write(root.join(VMLINUX), "kernel").unwrap();
        fs::write(root.join(PACKAGES), "linux-image-x 1\n").unwrap();
    }

    #[test]
    fn releases_compare_by_number() {
        let mut releases = ["6.1.0-9-amd64", "6.12.1-1-amd64", "6.1.0-10-amd64", "6.8.0-31-generic"];
        releases.sort_by(|a, b| compare_releases(a, b));
        assert_eq!(releases, ["6.1.0-9-amd64", "6.1.0-10-amd64", "6.8.0-31-generic", "6.12.1-1-amd64"]);
    }

    #[test]
    fn a_kernel_without_9p_is_passed_over_and_named_when_there_is_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        cached(&cache, "6.1.0-99-cloud", &ALL[..3]);
        let tree = |release| GuestKernel::of_cache(&cache, release).map(|k| k.release);
        let error = tree("6.1.0-99-cloud").unwrap_err().to_string();
        assert_eq!(error, "kernel 6.1.0-99-cloud has no module `9p`");
        cached(&cache, "6.1.0-10-amd64", &ALL);
        assert_eq!(tree("6.1.0-10-amd64").unwrap(), "6.1.0-10-amd64");
    }

    #[test]
    fn an_empty_kernel_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        cached(&cache, "6.1", &ALL);
        let root = cache.kernels().join("6.1");
        fs::write(root.join(VMLINUX), "").unwrap();
        assert!(GuestKernel::of_cache(&cache, "6.1").unwrap_err().to_string().contains("vmlinuz-6.1"));
        fs::create_dir_all(root.join("boot")).unwrap();
        fs::write(root.join("boot/vmlinuz-6.1"), "kernel").unwrap();
        assert!(!GuestKernel::of_cache(&cache, "6.1").unwrap().pvh);
    }

    #[test]
    fn a_host_kernel_that_is_no_bzimage_is_booted_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (root, cache) = (dir.path().join("root"), Cache::at(dir.path().join("cache")));
        let modules = root.join("lib/modules/6.9");
        fs::create_dir_all(modules.join("kernel")).unwrap();
        tree(&modules, &ALL, "");
        fs::create_dir_all(root.join("boot")).unwrap();
        fs::write(root.join("boot/vmlinuz-6.9"), "strange").unwrap();
        let kernel = GuestKernel::of_host(&cache, &root, "6.9", NEEDED, &["tcp_none".to_owned()]).unwrap();
        assert!(!kernel.pvh);
        assert_eq!(kernel.image, root.join("boot/vmlinuz-6.9"));
        assert_eq!(kernel.module_names().count(), ALL.len());
        assert!(kernel.lacks("tcp_none") && !kernel.lacks("9p"));
    }

    #[test]
    fn a_distributions_kernel_is_extracted_with_its_direct_entry() {
        use vtax_sys::require::{Need, need};
        if !need(&[Need::Vm]) {
            return;
        }
        let cache = Cache::of_user();
        let kernel = GuestKernel::find(&cache).unwrap();
        let name = format!("boot/vmlinuz-{}", kernel.release);
        let bzimage = match kernel.origin {
            Origin::Host => Path::new("/").join(name),
            Origin::Cached => cache.kernels().join(&kernel.release).join(name),
        };
        let extracted = extract(&bzimage).unwrap();
        assert!(kernel.pvh);
        assert!(extracted == fs::read(&kernel.image).unwrap(), "what set-up left is what is extracted");
    }
}
