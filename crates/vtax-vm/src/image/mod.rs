//! The files of a protected guest: a read-only image of what its services need.
//!
//! A guest whose root is the host's own can't be copied to another QEMU. So its programs, the packages
//! they come from and all that these depend on are put into an ext4 image, which every guest of a plan
//! opens read-only. It is made once for each content and kept in the cache.

mod libraries;
mod packages;
mod tree;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use rustix::fs::FlockOperation;
use vtax_units::{Bytes, Nanos};

use crate::cache::Cache;
use crate::error::{Result, VmError};
use crate::tool::{Life, command, run};
use tree::Tree;

/// What an image holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageContents {
    /// Programs, libraries or modules, absolute; the packages they belong to come along with everything
    /// these depend on.
    pub programs: Vec<PathBuf>,
    /// Directories that come along with all that is in them, under the same path; and with the host's libraries
    /// that their programs need.
    pub trees: Vec<PathBuf>,
}

/// An image. It is kept for as long as this lives; afterwards it may be removed to make room.
#[derive(Debug)]
pub struct RootImage {
    /// The file: an ext4 file system.
    pub path: PathBuf,
    /// Its size; much of it is a hole.
    pub bytes: Bytes,
    /// The packages in it, `name=version`.
    pub packages: Vec<String>,
    /// How long it took to make; `None`: it was there.
    pub taken: Option<Nanos>,
    /// Shared by everyone who uses it.
    _used: File,
}

/// What programs read that no package lists: accounts, names, the linker's cache.
const HOST_FILES: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/services",
    "/etc/protocols",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    // Links of a Debian system whose `/bin` and `/lib` have moved.
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
];
/// Where a guest's own file systems are mounted.
const MOUNT_POINTS: &[&str] = &["proc", "sys", "dev", "run", "tmp", "root"];
/// Part of every key: raised whenever the same files are to give another image.
const LAYOUT: &str = "vtax root image 1";
/// So many images are kept, most of them 300 MB.
const KEPT: usize = 3;
const IMAGE: &str = "root.ext4";
/// Modified whenever the image is used, and locked while it is.
const USED: &str = "used";

/// Makes an image with these files or finds it in the cache. Two at a time wait for each other.
///
/// # Errors
///
/// [`VmError::NoImage`] where this host doesn't know its files' packages or has no `mke2fs`,
/// [`VmError::Tool`] and [`VmError::Io`] where it can't be made.
pub fn root_image(cache: &Cache, contents: &ImageContents) -> Result<RootImage> {
    let mut programs = contents.programs.clone();
    programs.extend(libraries::of_trees(&contents.trees)?);
    let closure = packages::closure(&programs)?;
    let mut tree = Tree::default();
    for path in closure.paths.iter().map(PathBuf::as_path).chain(HOST_FILES.iter().map(Path::new)) {
        tree.add(path)?;
    }
    for directory in &contents.trees {
        tree.add_all(directory)?;
    }
    let images = cache.entry("images");
    fs::create_dir_all(&images).map_err(VmError::path("create directory", &images))?;
    // Waits for another process that makes one at the moment.
    let _lock = locked(&images.join("lock"), FlockOperation::LockExclusive)?;
    let entry = images.join(tree.fingerprint(LAYOUT));
    let path = entry.join(IMAGE);
    let begun = Instant::now();
    let made = !path.is_file();
    if made {
        make(cache, &tree, &entry)?;
    }
    let taken = made.then(|| begun.elapsed().into());
    let used = locked(&entry.join(USED), FlockOperation::LockShared)?;
    used.set_modified(SystemTime::now()).map_err(VmError::path("date", &entry))?;
    sweep(&images);
    let bytes = Bytes(fs::metadata(&path).map_err(VmError::path("look at", &path))?.len());
    Ok(RootImage { path, bytes, packages: closure.packages, taken, _used: used })
}

fn locked(path: &Path, how: FlockOperation) -> Result<File> {
    let file = File::create(path).map_err(VmError::path("create", path))?;
    rustix::fs::flock(&file, how).map_err(|e| VmError::path("lock", path)(e.into()))?;
    Ok(file)
}

/// The program that makes file systems; in `sbin`, which an ordinary user's `PATH` often lacks.
fn mke2fs() -> Result<&'static str> {
    let found = ["/usr/sbin/mke2fs", "/sbin/mke2fs"].into_iter().find(|path| Path::new(path).is_file());
    found.ok_or_else(|| {
        let reason = "mke2fs is not installed; install it with `apt-get install e2fsprogs`";
        VmError::NoImage { reason: reason.to_owned() }
    })
}

/// Copies the files, and makes the file system from the copy.
fn make(cache: &Cache, tree: &Tree, entry: &Path) -> Result<()> {
    let program = mke2fs()?;
    let stage = cache.stage()?;
    let (root, part) = (stage.dir().join("root"), stage.dir().join("entry"));
    for directory in [&root, &part] {
        fs::create_dir(directory).map_err(VmError::path("create directory", directory))?;
    }
    tree.copy_to(&root)?;
    for name in MOUNT_POINTS {
        let place = root.join(name);
        fs::create_dir_all(&place).map_err(VmError::path("create directory", &place))?;
    }
    let inodes = tree.len() + 1024;
    // Blocks of the files, inodes, and a twentieth for what describes them.
    let bytes = (tree.bytes() + inodes * 256) * 21 / 20 + (8 << 20);
    let image = part.join(IMAGE);
    let mut mke2fs = command(program);
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal,^resize_inode", "-m", "0", "-b"]);
    mke2fs.arg(tree::BLOCK.to_string()).args(["-N", &inodes.to_string(), "-d"]).arg(&root).arg(&image);
    mke2fs.arg(bytes.div_ceil(tree::BLOCK).to_string());
    run(&mut mke2fs, Life::Bound)?;
    stage.put(&part, entry)
}

/// Removes the images that were used longest ago, except those in use.
fn sweep(images: &Path) {
    let Ok(entries) = fs::read_dir(images) else { return };
    let date = |path: &Path| fs::metadata(path.join(USED)).and_then(|m| m.modified()).ok();
    let mut dated: Vec<(SystemTime, PathBuf)> =
        entries.flatten().filter_map(|entry| Some((date(&entry.path())?, entry.path()))).collect();
    dated.sort();
    let surplus = dated.len().saturating_sub(KEPT);
    for (_, path) in dated.into_iter().take(surplus) {
        let free = File::open(path.join(USED))
            .is_ok_and(|used| rustix::fs::flock(&used, FlockOperation::NonBlockingLockExclusive).is_ok());
        if free {
            // What can't be removed now is looked at again next time.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtax_sys::require::installed;

    /// By their paths: those of administrators are not in everybody's `PATH`.
    const TOOLS: [&str; 3] = ["/usr/bin/dpkg-query", "/usr/sbin/mke2fs", "/usr/sbin/debugfs"];

    #[test]
    fn the_shell_with_all_it_needs_is_an_image_that_is_made_once() {
        if !installed(&TOOLS) {
            return;
        }
        let (dir, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(tree.path().join("prepared"), "x").unwrap();
        let cache = Cache::at(dir.path());
        let contents =
            ImageContents { programs: vec!["/bin/sh".into()], trees: vec![tree.path().to_owned()] };
        let made = root_image(&cache, &contents).unwrap();
        assert!(made.taken.is_some() && made.packages.iter().any(|p| p.starts_with("libc6:")), "{made:?}");
        let listed = command(TOOLS[2]).args(["-R", "ls -l /etc"]).arg(&made.path).output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("passwd"), "{listed:?}");
        let again = root_image(&cache, &contents).unwrap();
        assert_eq!((again.taken, &again.path), (None, &made.path));
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["images"], "no stage is left");
    }

    #[test]
    fn a_program_in_a_directory_of_its_own_finds_the_hosts_libraries() {
        if !installed(&TOOLS) {
            return;
        }
        let (dir, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let private = tree.path().join("bin");
        fs::create_dir(&private).unwrap();
        fs::copy("/bin/sh", private.join("sh")).unwrap();
        let contents = ImageContents { programs: Vec::new(), trees: vec![tree.path().to_owned()] };
        let made = root_image(&Cache::at(dir.path()), &contents).unwrap();
        assert!(made.packages.iter().any(|p| p.starts_with("libc6:")), "{made:?}");
    }

    #[test]
    fn what_was_used_longest_ago_goes_unless_it_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let mut held = Vec::new();
        for age in 0..6_u64 {
            let entry = dir.path().join(age.to_string());
            fs::create_dir(&entry).unwrap();
            let used = locked(&entry.join(USED), FlockOperation::LockShared).unwrap();
            used.set_modified(SystemTime::now() - std::time::Duration::from_secs(age * 60)).unwrap();
            if age == 4 {
                held.push(used);
            }
        }
        sweep(dir.path());
        let there: Vec<bool> = (0..6).map(|age| dir.path().join(age.to_string()).exists()).collect();
        assert_eq!(there, [true, true, true, false, true, false]);
    }
}
