//! Mounts inside a private mount namespace.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::error::{Context, Result};

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

/// Shows `source` at `target`; with `read_only` nothing can be changed there.
///
/// # Errors
///
/// Where either is missing or the kernel refuses.
pub fn bind(source: &Path, target: &Path, read_only: bool) -> Result<()> {
    let object = || format!("{} on {}", source.display(), target.display());
    rustix::mount::mount_bind_recursive(source, target).context("bind", object())?;
    if read_only {
        let flags = MountFlags::BIND | MountFlags::RDONLY;
        rustix::mount::mount_remount(target, flags, c"").context("make read-only", object())?;
    }
    Ok(())
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
