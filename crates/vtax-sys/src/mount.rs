//! Mounts inside a private mount namespace.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::error::{Context, Result};
use crate::mountinfo::{Mounted, mounts};

/// What `mkfs.ext4` is told, in a guest and on a client alike: a file system is whole from the start, so that nothing is left to be
/// done behind a measurement's back.
pub const EXT4_ARGUMENTS: [&str; 6] =
    ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];

/// Makes every mount private: what is mounted from now on in this mount namespace is seen
/// nowhere else, and the other way round.
///
/// # Errors
///
/// Where this isn't a mount namespace of our own.
pub fn make_private() -> Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("make private", "/")
}

fn mount(
    what: &'static str,
    fs: &str,
    target: &Path,
    flags: MountFlags,
    options: Option<&str>,
) -> Result<()> {
    let data = options.map(|o| CString::new(o).unwrap_or_default());
    rustix::mount::mount(fs, target, fs, flags, data.as_deref())
        .context(what, format!("on {}", target.display()))
}

/// Mounts the processes of this PID namespace.
///
/// # Errors
///
/// EPERM in a user namespace whose host masks parts of `/proc`, as containers do.
pub fn proc(target: &Path) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("mount proc", "proc", target, flags, None)
}

/// Mounts an empty tmpfs with these options, such as `mode=755,size=64m`.
///
/// # Errors
///
/// Where the kernel refuses.
pub fn tmpfs(target: &Path, options: &str) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("mount tmpfs", "tmpfs", target, flags, Some(options))
}

/// Shows `source` at `target`, with all that is mounted in it; with `read_only` nothing of that can be changed there.
///
/// # Errors
///
/// Where either is missing or the kernel refuses; nothing is shown then.
pub fn bind(source: &Path, target: &Path, read_only: bool) -> Result<()> {
    let object = || format!("{} on {}", source.display(), target.display());
    rustix::mount::mount_bind_recursive(source, target).context("bind", object())?;
    if read_only && let Err(e) = protect(target) {
        // Better not there than there to be changed.
        let _ = detach(target);
        return Err(e).context("make read-only", object());
    }
    Ok(())
}

/// Makes the mount at `target` read-only, and each that is below it.
fn protect(target: &Path) -> io::Result<()> {
    match add_read_only(target) {
        // The kernel (before 5.12) doesn't have the call, or a container engine's filter doesn't know it.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => remount_all(target),
        done => done,
    }
}

/// By mount_setattr(2), which takes no flag away: a remount that doesn't name all of them is refused in a user namespace,
/// where `nosuid` and the like of the host's mounts are locked.
fn add_read_only(target: &Path) -> io::Result<()> {
    let path = CString::new(target.as_os_str().as_bytes())?;
    let attr =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: `path` ends with a zero byte, `attr` is a readable mount_attr of the size that is told, both are there until
    // the call is over, and the kernel only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// By what every kernel has: one mount after the other, each with the flags that it has.
fn remount_all(target: &Path) -> io::Result<()> {
    let target = std::fs::canonicalize(target)?;
    for (place, flags) in at_or_below(&target, mounts()?) {
        let flags = flags | MountFlags::BIND | MountFlags::RDONLY;
        rustix::mount::mount_remount(place.as_path(), flags, c"")?;
    }
    Ok(())
}

/// The mounts at `target` and below it, outer ones first, with the flags that a remount must name to keep them.
fn at_or_below(target: &Path, mounts: Vec<Mounted>) -> BTreeMap<PathBuf, MountFlags> {
    let below = mounts.into_iter().filter(|mount| mount.point.starts_with(target));
    below.map(|mount| (mount.point, mount.options.split(',').map(flag).collect())).collect()
}

fn flag(option: &str) -> MountFlags {
    match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "nosymfollow" => MountFlags::NOSYMFOLLOW,
        // What is said of access times stays where a remount says nothing of them (mount(2)).
        _ => MountFlags::empty(),
    }
}

/// The directories of an overlay.
#[derive(Debug, Clone, Copy)]
pub struct Overlay<'a> {
    /// What is seen where nothing was changed; never written.
    pub lower: &'a Path,
    /// Where changes go; on another file system than `lower`.
    pub upper: &'a Path,
    /// An empty directory on the file system of `upper`.
    pub work: &'a Path,
}

/// Mounts an overlay.
///
/// # Errors
///
/// EPERM or EINVAL in a user namespace on kernels before 5.11 and some later ones.
pub fn overlay(directories: Overlay<'_>, target: &Path) -> Result<()> {
    let Overlay { lower, upper, work } = directories;
    // userxattr: trusted.* attributes are refused outside the initial user namespace.
    let user = if crate::caps::in_initial_user_namespace() { "" } else { ",userxattr" };
    let options =
        format!("lowerdir={},upperdir={},workdir={}{user}", lower.display(), upper.display(), work.display());
    mount("mount overlay", "overlay", target, MountFlags::empty(), Some(&options))
}

/// Unmounts; what is still in use goes when it is let go.
///
/// # Errors
///
/// Where nothing is mounted there.
pub fn detach(target: &Path) -> Result<()> {
    rustix::mount::unmount(target, UnmountFlags::DETACH).context("unmount", target.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::mountinfo::parse;
    use crate::require::{Need, need};

    #[test]
    fn mounts_below_are_known_with_their_flags() {
        let info = b"\
27 1 254:0 / / rw - ext4 /dev/vda rw
30 27 8:1 / /a rw,nosuid,relatime shared:3 - xfs /dev/sda1 rw
31 30 8:2 / /a/b\\040c rw,nosuid,nodev,noexec,noatime - ext4 /dev/sda2 rw
32 27 8:3 / /ab rw,nodev - ext4 /dev/sda3 rw
33 30 8:4 / /a ro,nodev - ext4 /dev/sda4 rw
";
        let found: Vec<_> = at_or_below(Path::new("/a"), parse(info)).into_iter().collect();
        let all = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        assert_eq!(found, [(PathBuf::from("/a"), MountFlags::NODEV), (PathBuf::from("/a/b c"), all)]);
    }

    #[test]
    fn kernels_without_the_call_protect_each_mount() {
        if !need(&[Need::Ns]) {
            return;
        }
        // A thread of the test harness can't have a namespace of its own.
        let output = Command::new("unshare")
            .args(["-Urm", "--propagation", "private"])
            .arg(std::env::current_exe().unwrap())
            .args(["mount::tests::inside_mounts_are_remounted", "--exact", "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    #[ignore = "in a namespace of its own"]
    fn inside_mounts_are_remounted() {
        let (inner, target) = (Path::new("/mnt/source/in it"), Path::new("/mnt/target"));
        tmpfs(Path::new("/mnt"), "mode=755").unwrap();
        for dir in [inner, target] {
            std::fs::create_dir_all(dir).unwrap();
        }
        tmpfs(inner, "mode=755").unwrap();
        bind(Path::new("/mnt/source"), target, false).unwrap();
        remount_all(target).unwrap();
        for file in ["/mnt/target/x", "/mnt/target/in it/x"] {
            let refused = std::fs::write(file, "x").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ReadOnlyFilesystem, "{file}");
        }
        // Only what is shown is protected, not what it is shown of.
        std::fs::write(inner.join("x"), "x").unwrap();
    }
}
