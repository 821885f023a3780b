//! The guest's root: the host's own file system, an image, or nothing but vtax.
//!
//! The host's files come read-only over 9p; what the guest writes stays in memory, in an overlay's
//! upper layer. So the very binaries and libraries run that run on the host, and nothing has to be
//! built or cleaned up.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use vtax_vm::contract::{
    BINARY_IN_GUEST, NINE_P_MESSAGE_BYTES, ROOT_DISK, ROOT_HOSTFS, ROOT_IMAGE, ROOT_NOTHING, ROOT_TAG,
};

use super::error::GuestError;

/// What one `mount` needs.
struct Mount {
    source: &'static str,
    target: &'static str,
    kind: &'static str,
    flags: MountFlags,
    data: String,
}

impl Mount {
    fn new(source: &'static str, target: &'static str, kind: &'static str) -> Self {
        Self { source, target, kind, flags: MountFlags::empty(), data: String::new() }
    }

    fn data(self, data: impl Into<String>) -> Self {
        Self { data: data.into(), ..self }
    }

    fn flags(self, flags: MountFlags) -> Self {
        Self { flags, ..self }
    }

    fn mount(self) -> Result<(), GuestError> {
        create(self.target)?;
        let data = CString::new(self.data).unwrap_or_default();
        mount(self.source, self.target, self.kind, self.flags, Some(data.as_c_str()))
            .map_err(GuestError::call("mount", format!("{} ({}) on {}", self.source, self.kind, self.target)))
    }
}

fn create(dir: &str) -> Result<(), GuestError> {
    fs::create_dir_all(dir).map_err(GuestError::call("create directory", dir))
}

/// Where the future root is assembled.
const NEW_ROOT: &str = "/newroot";

/// What everything else needs: `/proc`, `/sys`, `/dev`.
pub(super) fn mount_kernel_interfaces() -> Result<(), GuestError> {
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Mount::new("proc", "/proc", "proc").flags(safe).mount()?;
    Mount::new("sys", "/sys", "sysfs").flags(safe).mount()?;
    Mount::new("dev", "/dev", "devtmpfs").flags(MountFlags::NOSUID).mount()
}

/// Puts the guest's files (the kernel command line's `kind`) together with private layers and makes
/// them this process's root.
pub(super) fn switch_to_root(kind: Option<&str>) -> Result<(), GuestError> {
    match kind {
        Some(ROOT_NOTHING) => {
            Mount::new("tmpfs", NEW_ROOT, "tmpfs").data("size=75%,mode=755").mount()?;
            // A service that asks who it is finds at least itself.
            create("/newroot/etc")?;
            let users =
                "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
            fs::write("/newroot/etc/passwd", users).map_err(GuestError::call("write", "/etc/passwd"))?;
        }
        Some(ROOT_IMAGE) => {
            let disk = disk(ROOT_DISK)?;
            create("/lower")?;
            mount(disk.as_path(), "/lower", "ext4", MountFlags::RDONLY, None)
                .map_err(GuestError::call("mount", disk.display().to_string()))?;
            layered()?;
        }
        Some(ROOT_HOSTFS) => {
            Mount::new("none", "/lower", "hostfs").flags(MountFlags::RDONLY).data("/").mount()?;
            layered()?;
        }
        _ => {
            // `loose`: the host's files don't change while a guest runs, so what was read once is kept.
            let nine_p = format!("trans=virtio,version=9p2000.L,msize={NINE_P_MESSAGE_BYTES},cache=loose");
            Mount::new(ROOT_TAG, "/lower", "9p").flags(MountFlags::RDONLY).data(nine_p).mount()?;
            layered()?;
        }
    }
    switch_to_new_root()
}

/// What the guest writes stays in memory, over the files in `/lower`.
fn layered() -> Result<(), GuestError> {
    Mount::new("tmpfs", "/layer", "tmpfs").data("size=75%,mode=755").mount()?;
    for dir in ["/layer/upper", "/layer/work"] {
        create(dir)?;
    }
    let layers = "lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work";
    Mount::new("overlay", NEW_ROOT, "overlay").data(layers).mount()
}

/// The device of the disk with this serial number. It appears when its driver has asked it.
pub(super) fn disk(serial: &'static str) -> Result<PathBuf, GuestError> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let started = Instant::now();
    loop {
        let found = fs::read_dir("/sys/block").ok().into_iter().flatten().flatten().find(|block| {
            fs::read_to_string(block.path().join("serial")).is_ok_and(|found| found.trim_end() == serial)
        });
        if let Some(block) = found {
            return Ok(Path::new("/dev").join(block.file_name()));
        }
        if started.elapsed() > PATIENCE {
            return Err(GuestError::NoDisk { serial, waited: PATIENCE });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn switch_to_new_root() -> Result<(), GuestError> {
    for (place, target) in [("/proc", "/newroot/proc"), ("/sys", "/newroot/sys"), ("/dev", "/newroot/dev")] {
        create(target)?;
        mount_move(place, target).map_err(GuestError::call("move mount", place))?;
    }
    mount_private_places()?;
    keep_binary()?;
    rustix::process::chdir(NEW_ROOT).map_err(GuestError::call("enter", NEW_ROOT))?;
    mount_move(".", "/").map_err(GuestError::call("move mount", NEW_ROOT))?;
    rustix::process::chroot(".").map_err(GuestError::call("change root to", NEW_ROOT))?;
    rustix::process::chdir("/").map_err(GuestError::call("enter", "/"))
}

/// What must not be the host's: temporary places, terminals, control groups.
fn mount_private_places() -> Result<(), GuestError> {
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    Mount::new("tmpfs", "/newroot/tmp", "tmpfs").flags(safe).data("mode=1777").mount()?;
    Mount::new("tmpfs", "/newroot/run", "tmpfs").flags(safe).data("mode=755").mount()?;
    Mount::new("tmpfs", "/newroot/dev/shm", "tmpfs").flags(safe).data("mode=1777").mount()?;
    let terminals = "gid=5,mode=620,ptmxmode=666";
    Mount::new("devpts", "/newroot/dev/pts", "devpts").flags(MountFlags::NOSUID).data(terminals).mount()?;
    let no_exec = safe | MountFlags::NOEXEC;
    Mount::new("cgroup2", "/newroot/sys/fs/cgroup", "cgroup2").flags(no_exec).mount()?;
    create("/newroot/run/lock")?;
    // Devtmpfs has only devices; these links are user space's part (kernel document `devices`).
    let links = [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")];
    for (name, target) in links {
        let link = Path::new("/newroot/dev").join(name);
        symlink(target, &link).map_err(GuestError::call("create link", link.display().to_string()))?;
    }
    Ok(())
}

/// The running program stays reachable by a name: services that are part of vtax are started by it.
fn keep_binary() -> Result<(), GuestError> {
    let place = format!("{NEW_ROOT}{BINARY_IN_GUEST}");
    let parent = Path::new(&place).parent().map(|p| p.display().to_string()).unwrap_or_default();
    create(&parent)?;
    fs::File::create(&place).map_err(GuestError::call("create", place.as_str()))?;
    mount_bind("/init", place.as_str()).map_err(GuestError::call("bind", place.as_str()))
}
