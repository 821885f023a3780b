//! The `config.json` of a container.
//!
//! It is meant to be what a container usually is, because its cost is what is measured: the
//! capabilities, masked paths and refused system calls that container engines use by default.
//! docs/privileges.md lists where it differs: CAP_NET_ADMIN for the agent, which configures the
//! container's interfaces, and the host's root as the image.
//!
//! Not refused: `io_uring_*`, which Docker since 25 and containerd since 2.0 refuse. A service or storage test that uses it costs
//! here what it costs in a container that was allowed it. Nor `clone` with flags of namespaces, which Docker refuses, and `clone3`,
//! which it answers as unknown.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vtax_sys::NetNs;
use vtax_sys::launch::most_files;
use vtax_sys::mountinfo::{self, Mounted};

use super::spec::{AGENT, ContainerSpec};

/// What container engines grant by default, and NET_ADMIN.
const CAPABILITIES: [&str; 15] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_ADMIN",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

const MASKED: [&str; 11] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// System calls that container engines refuse. They list what they allow; for a call that is
/// allowed the kernel caches the answer (since 5.11), so that both ways cost the same. Both runtimes leave out names that their
/// libseccomp doesn't know.
const REFUSED: [&str; 45] = [
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_mempolicy",
    "init_module",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "set_mempolicy",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
];

/// Where a container sees its control group, by which runtimes such as Java's take their memory.
const CGROUPS: &str = "/sys/fs/cgroup";

/// What a configuration is made from.
pub(super) struct Bundle<'a> {
    pub(super) spec: &'a ContainerSpec<'a>,
    pub(super) rootfs: &'a Path,
    pub(super) agent: &'a Path,
    pub(super) netns: &'a NetNs,
    pub(super) seccomp: bool,
    /// Whether it sees its control group, where it has one.
    pub(super) cgroups: bool,
    /// Mounts of the host that the overlay of its root doesn't show, outer ones first.
    pub(super) binds: &'a [PathBuf],
}

impl Bundle<'_> {
    /// The control group that it sees.
    fn shown_group(&self) -> Option<&str> {
        self.spec.group.as_deref().filter(|_| self.cgroups)
    }
}

fn mount(target: &str, kind: &str, options: &[&str]) -> Value {
    json!({ "destination": target, "type": kind, "source": kind, "options": options })
}

/// Not `rbind`, under which `ro` holds for the outermost mount alone: what is mounted inside is bound by itself.
fn bind(source: &Path, target: &str) -> Value {
    json!({
        "destination": target,
        "type": "bind",
        "source": source.to_string_lossy(),
        "options": ["bind", "rprivate", "ro"],
    })
}

fn mounts(bundle: &Bundle<'_>) -> Vec<Value> {
    let tmpfs = ["nosuid", "nodev", "mode=1777"];
    let mut mounts: Vec<Value> = vec![
        mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
        mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
    ];
    if bundle.shown_group().is_some() {
        mounts.push(mount(CGROUPS, "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]));
    }
    mounts.push(mount("/tmp", "tmpfs", &tmpfs));
    mounts.push(mount("/run", "tmpfs", &["nosuid", "nodev", "mode=755"]));
    mounts.extend(bundle.binds.iter().map(|path| bind(path, &path.to_string_lossy())));
    mounts.push(bind(bundle.agent, AGENT));
    mounts.extend(bundle.spec.writable.map(|path| {
        let place = path.to_string_lossy();
        json!({ "destination": place, "type": "bind", "source": place, "options": ["rbind", "rprivate", "rw"] })
    }));
    mounts
}

fn resources(spec: &ContainerSpec<'_>) -> Value {
    let mut resources = json!({ "devices": [{ "allow": false, "access": "rwm" }] });
    if let Some(memory) = spec.memory {
        resources["memory"] = json!({ "limit": memory.0 });
        if spec.limits_swap {
            // It counts memory and swap together: none beyond the memory.
            resources["memory"]["swap"] = json!(memory.0);
        }
    }
    if !spec.cpus.is_empty() {
        resources["cpu"] = json!({ "cpus": spec.cpus.to_string() });
    }
    resources
}

fn seccomp() -> Value {
    let native = if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [native],
        "syscalls": [{ "names": REFUSED.as_slice(), "action": "SCMP_ACT_ERRNO", "errnoRet": 1 }],
    })
}

fn namespaces(bundle: &Bundle<'_>) -> Vec<Value> {
    let netns = format!("/proc/{}/fd/{}", std::process::id(), bundle.netns.as_fd().as_raw_fd());
    let mut namespaces: Vec<Value> =
        ["pid", "ipc", "uts", "mount"].iter().map(|kind| json!({ "type": kind })).collect();
    namespaces.push(json!({ "type": "network", "path": netns }));
    // On cgroup v2, whose paths are absolute, its group is the top of what it sees; on v1 the runtime shows only that anyway.
    if bundle.shown_group().is_some_and(|group| group.starts_with('/')) {
        namespaces.push(json!({ "type": "cgroup" }));
    }
    namespaces
}

/// The configuration.
pub(super) fn config(bundle: &Bundle<'_>) -> Value {
    let spec = bundle.spec;
    // What container engines allow, as far as this process may.
    let open_files = most_files();
    let mut linux = json!({
        "namespaces": namespaces(bundle),
        "resources": resources(spec),
        "maskedPaths": MASKED,
        "readonlyPaths": READ_ONLY,
        "rootfsPropagation": "private",
    });
    if let Some(group) = &spec.group {
        linux["cgroupsPath"] = json!(group);
    }
    if bundle.seccomp {
        linux["seccomp"] = seccomp();
    }
    json!({
        "ociVersion": "1.0.2",
        "hostname": spec.name,
        "root": { "path": bundle.rootfs.to_string_lossy(), "readonly": false },
        "mounts": mounts(bundle),
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": spec.args,
            "env": crate::process_io::ENVIRONMENT.map(|(name, value)| format!("{name}={value}")),
            "cwd": "/",
            "noNewPrivileges": false,
            "capabilities": {
                "bounding": CAPABILITIES,
                "effective": CAPABILITIES,
                "permitted": CAPABILITIES,
            },
            "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": open_files, "soft": open_files }],
        },
        "linux": linux,
    })
}

/// Mounts of the host that hold files a service may need: an overlay of `/` shows only the file
/// system of `/` itself. Outer ones come first. What is mounted below `scratch` is the lab's own.
pub(super) fn host_mounts(scratch: &Path) -> Vec<PathBuf> {
    let mut found = real_mounts(&mountinfo::mounts().unwrap_or_default());
    found.retain(|path| !path.starts_with(scratch));
    found
}

fn real_mounts(all: &[Mounted]) -> Vec<PathBuf> {
    let real = |kind: &str| {
        matches!(kind, "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "zfs" | "f2fs" | "overlay" | "squashfs")
            || matches!(kind, "nfs" | "nfs4" | "9p" | "virtiofs" | "erofs" | "bcachefs")
    };
    let own = ["/boot", "/dev", "/proc", "/run", "/sys", "/tmp"];
    let kept = |target: &Path| target != Path::new("/") && !own.iter().any(|own| target.starts_with(own));
    let mut mounts = BTreeMap::new();
    for Mounted { point, kind, .. } in all {
        // What the bundle can't name, which is UTF-8, is left out.
        let wanted = real(kind) && kept(point) && point.to_str().is_some();
        // A file that is mounted, as containers do with /etc/hosts, is part of no service. Of several at one place the last
        // hides the others.
        mounts.insert(point.as_path(), wanted && (cfg!(test) || point.is_dir()));
    }
    let (mut shown, mut empty): (Vec<PathBuf>, Vec<&Path>) = (Vec::new(), Vec::new());
    for (target, wanted) in mounts {
        // In a place that stays empty there is nothing to mount on, and what it is in is read-only.
        if wanted && !empty.iter().any(|outer| target.starts_with(outer)) {
            shown.push(target.to_owned());
        } else if shown.iter().any(|outer| target.starts_with(outer)) {
            empty.push(target);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_limited_only_where_it_is_counted() {
        let cpus: vtax_units::CpuSet = "1-2".parse().unwrap();
        let limited = |limits_swap| {
            let spec = ContainerSpec {
                name: "sut",
                args: Vec::new(),
                cpus: &cpus,
                memory: Some(vtax_units::Bytes(4096)),
                limits_swap,
                group: None,
                writable: None,
            };
            resources(&spec)
        };
        assert_eq!(limited(true)["memory"], json!({ "limit": 4096, "swap": 4096 }));
        assert_eq!(limited(false)["memory"], json!({ "limit": 4096 }));
        assert_eq!(limited(false)["cpu"], json!({ "cpus": "1-2" }));
    }

    #[test]
    fn a_container_sees_the_group_that_it_has() {
        let cpus = vtax_units::CpuSet::default();
        let netns = NetNs::of_process(i32::try_from(std::process::id()).unwrap()).unwrap();
        let shown = |group: Option<&str>, cgroups| {
            let spec = ContainerSpec {
                name: "sut",
                args: Vec::new(),
                cpus: &cpus,
                memory: None,
                limits_swap: false,
                group: group.map(str::to_owned),
                writable: None,
            };
            let (rootfs, agent) = (Path::new("/rootfs"), Path::new("/agent"));
            let bundle =
                Bundle { spec: &spec, rootfs, agent, netns: &netns, seccomp: true, cgroups, binds: &[] };
            let made = config(&bundle);
            let has = |list: &Value, key: &str, wanted: &str| {
                list.as_array().unwrap().iter().any(|entry| entry[key] == wanted)
            };
            let mounted = has(&made["mounts"], "destination", CGROUPS);
            (mounted, has(&made["linux"]["namespaces"], "type", "cgroup"))
        };
        assert_eq!(shown(None, true), (false, false));
        assert_eq!(shown(Some("/run/sut"), false), (false, false));
        assert_eq!(shown(Some("/run/sut"), true), (true, true), "cgroup v2");
        assert_eq!(shown(Some("run/sut"), true), (true, false), "cgroup v1");
    }

    #[test]
    fn only_file_systems_with_files_are_shown() {
        let info = "\
27 1 254:0 / / rw - ext4 /dev/vda rw
22 27 0:21 / /proc rw - proc proc rw
30 27 8:1 / /home rw - xfs /dev/sda1 rw
31 30 8:2 / /home/data rw - ext4 /dev/sda2 rw
32 27 8:3 / /usr ro - squashfs /dev/loop0 ro
33 27 8:4 / /boot/efi rw - vfat /dev/sda3 rw
34 27 0:44 / /srv/lab rw - tmpfs tmpfs rw
35 27 8:5 / /opt/with\\040space rw - ext4 /dev/sdb rw
36 27 8:6 / /tmp/x rw - ext4 /dev/sdc rw
37 27 8:6 / /runner rw - ext4 /dev/sdc rw";
        let shown = ["/home", "/home/data", "/opt/with space", "/runner", "/usr"];
        assert_eq!(real_mounts(&mountinfo::parse(info.as_bytes())), shown.map(PathBuf::from));
    }

    #[test]
    fn what_is_shown_has_a_place_to_be_mounted_on() {
        let info = "\
30 27 8:1 / /home rw - ext4 /dev/sda1 rw
31 30 0:44 / /home/ram rw - tmpfs tmpfs rw
32 31 8:2 / /home/ram/disk rw - ext4 /dev/sda2 rw
33 27 0:45 / /net rw - autofs net rw
34 33 0:46 / /net/disk rw - nfs4 server:/disk rw
35 27 8:3 / /srv rw - ext4 /dev/sda3 rw
36 35 0:47 / /srv rw - tmpfs tmpfs rw";
        let shown = real_mounts(&mountinfo::parse(info.as_bytes()));
        assert_eq!(shown, ["/home", "/net/disk"].map(PathBuf::from));
    }

    #[test]
    fn what_is_mounted_in_a_read_only_mount_does_not_come_along_writable() {
        let shown = bind(Path::new("/home"), "/home");
        assert_eq!(shown["options"], json!(["bind", "rprivate", "ro"]));
    }

    #[test]
    fn refused_calls_are_sorted_and_once() {
        let sorted = |list: &[&str]| list.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(sorted(&REFUSED) && sorted(&CAPABILITIES) && sorted(&MASKED) && sorted(&READ_ONLY));
    }

    #[test]
    fn what_docker_keeps_for_administrators_is_refused_and_masked() {
        let filter = seccomp();
        let names = filter["syscalls"][0]["names"].as_array().unwrap();
        for call in ["fanotify_init", "quotactl", "quotactl_fd", "syslog"] {
            assert!(names.iter().any(|name| name == call), "{call}");
        }
        assert!(MASKED.contains(&"/sys/devices/virtual/powercap"));
    }
}
