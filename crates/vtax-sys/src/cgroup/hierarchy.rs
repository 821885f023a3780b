//! Where control groups are mounted and which group of each hierarchy this process is in.

use std::path::{Path, PathBuf};

use crate::mountinfo::{Mounted, mounts};

/// A controller that vtax uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Cpuset,
    Memory,
}

impl Controller {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cpuset => "cpuset",
            Self::Memory => "memory",
        }
    }
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// The unified hierarchy of cgroup v2.
    pub(super) unified: bool,
    /// Controllers of a v1 hierarchy; a unified one says so in its own files.
    pub(super) controllers: Vec<String>,
    /// Where it is mounted.
    pub(super) mount: PathBuf,
    /// Directory of this process's own group.
    pub(super) own: PathBuf,
}

/// The hierarchies that this process sees.
pub(super) fn find() -> Vec<Hierarchy> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    among(mounts().unwrap_or_default(), &groups)
}

/// From the mounts there are and `/proc/self/cgroup` (cgroups(7)).
fn among(mounts: Vec<Mounted>, groups: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for Mounted { root, point: mount, kind, file_system_options, .. } in mounts {
        let unified = match kind.as_str() {
            "cgroup2" => true,
            "cgroup" => false,
            _ => continue,
        };
        let options = file_system_options.split(',').filter(|o| !matches!(*o, "rw" | "ro"));
        let controllers: Vec<String> =
            if unified { Vec::new() } else { options.map(str::to_owned).collect() };
        let Some(path) = own_path(groups, unified, &controllers) else { continue };
        // A container may see only a part of the hierarchy: its root is then not `/`.
        let inside = Path::new(&path).strip_prefix(root).unwrap_or(Path::new(""));
        let inside = if path.contains("..") { Path::new("") } else { inside };
        let own = mount.join(inside);
        found.retain(|h| h.mount != mount);
        found.push(Hierarchy { unified, controllers, mount, own });
    }
    found
}

/// Whether the groups that limit CPUs and memory, of those of cgroup v1, are where the hierarchies are mounted.
pub(super) fn is_at_top_of_v1(hierarchies: &[Hierarchy]) -> bool {
    let names = [Controller::Cpuset, Controller::Memory].map(Controller::name);
    let limits = |h: &&Hierarchy| h.controllers.iter().any(|name| names.contains(&name.as_str()));
    hierarchies.iter().filter(limits).all(|h| h.own == h.mount)
}

fn own_path(groups: &str, unified: bool, controllers: &[String]) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let same = if unified {
            names.is_empty()
        } else {
            !names.is_empty() && names.split(',').all(|n| controllers.iter().any(|c| c == n))
        };
        same.then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str, groups: &str) -> Vec<Hierarchy> {
        among(crate::mountinfo::parse(list.as_bytes()), groups)
    }

    const HYBRID: &str = "\
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw";

    #[test]
    fn hybrid_mode_has_all_kinds() {
        let found = parse(HYBRID, "9:name=systemd:/x\n4:memory:/box/one\n3:cpuset:/\n0::/\n");
        let own: Vec<_> = found.iter().map(|h| h.own.to_str().unwrap()).collect();
        assert_eq!(
            own,
            [
                "/sys/fs/cgroup/cpuset/",
                "/sys/fs/cgroup/memory/box/one",
                "/sys/fs/cgroup/systemd/x",
                "/sys/fs/cgroup/unified/"
            ]
        );
    }

    #[test]
    fn the_top_is_where_both_controllers_are_mounted() {
        for (groups, top) in [
            ("9:name=systemd:/x\n4:memory:/\n3:cpuset:/\n0::/y\n", true),
            ("9:name=systemd:/\n4:memory:/box\n3:cpuset:/\n0::/\n", false),
            ("9:name=systemd:/\n4:memory:/\n3:cpuset:/box\n0::/\n", false),
        ] {
            assert_eq!(is_at_top_of_v1(&parse(HYBRID, groups)), top, "{groups}");
        }
        // What is shown of a hierarchy begins at this process's group.
        let part = "1 2 0:3 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        assert!(is_at_top_of_v1(&parse(part, "4:memory:/docker/abc\n")));
    }

    #[test]
    fn a_part_of_a_hierarchy_is_enough() {
        let mounts = "1 2 0:3 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate";
        let inside = parse(mounts, "0::/docker/abc/child\n");
        assert_eq!(inside[0].own, Path::new("/sys/fs/cgroup/child"));
        let namespaced = parse("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/../other\n");
        assert_eq!(namespaced[0].own, Path::new("/sys/fs/cgroup/"));
        assert!(parse("nonsense\n1 2 - cgroup2\n", "").is_empty());
    }
}
