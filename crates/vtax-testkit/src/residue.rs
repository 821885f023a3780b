//! What a run could leave behind, as a list that can be compared: the proof of "no residue".
//!
//! Taken by tests before and after a run that was killed. On a machine that others use too, things
//! come and go that have nothing to do with the run; those who compare choose what is theirs.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use vtax_sys::mountinfo;
use vtax_sys::netlink::Netlink;

use crate::programs::goes_on;

/// Where temporary files would be.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];
const DEEPEST: usize = 8;

/// Everything on this host that a run could have made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// `kind what`, one of each thing.
    things: BTreeSet<(&'static str, String)>,
}

/// What is there now and wasn't before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue(Vec<(&'static str, String)>);

impl Residue {
    /// True where nothing was left behind.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Kind and name of each thing.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(kind, what)| (*kind, what.as_str()))
    }
}

impl fmt::Display for Residue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, what) in &self.0 {
            writeln!(f, "{kind}: {what}")?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// What is on this host now: processes whose program or name is vtax, QEMU, an OCI runtime's
    /// container, Open vSwitch or Mininet; network, PID and mount namespaces; mounts and interfaces seen from here; control
    /// groups of vtax; temporary files of vtax.
    #[must_use]
    pub fn take() -> Self {
        Self::of(None)
    }

    /// The same, and processes whose program has the name of this one's file: a test program that is also its nodes' agent has a
    /// name of its own.
    #[must_use]
    pub fn take_with(program: &Path) -> Self {
        Self::of(program.file_name().map(|name| name.to_string_lossy().into_owned()).as_deref())
    }

    fn of(own: Option<&str>) -> Self {
        let mut snapshot = Self::default();
        snapshot.processes(own);
        snapshot.mounts();
        snapshot.interfaces();
        snapshot.groups(Path::new("/sys/fs/cgroup"), 0);
        snapshot.files();
        snapshot
    }

    /// What `self` has and `before` had not.
    #[must_use]
    pub fn since(&self, before: &Self) -> Residue {
        Residue(self.things.difference(&before.things).cloned().collect())
    }

    fn add(&mut self, kind: &'static str, what: impl Into<String>) {
        self.things.insert((kind, what.into()));
    }

    fn processes(&mut self, own: Option<&str>) {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            let dir = entry.path();
            for kind in ["net", "pid", "mnt", "user"] {
                // Kernel threads and processes that end meanwhile have none to show.
                if let Ok(target) = fs::read_link(dir.join("ns").join(kind)) {
                    self.add("namespace", target.to_string_lossy());
                }
            }
            let comm = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            let program = fs::read_link(dir.join("exe")).unwrap_or_default();
            let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let ours = |name: &str| {
                let programs =
                    ["vtax", "qemu-system", "rungroup-keep", "ovs-", "ovsdb-", "mnexec", "mininet"];
                programs.iter().any(|p| name.trim().starts_with(p))
            };
            let is_own = own == Some(program.as_str());
            // One that is over holds nothing any more, and the first process of many a container never asks how its orphans ended.
            if (is_own || ours(&comm) || ours(&program)) && goes_on(pid) {
                self.add("process", format!("{pid} {program} ({})", comm.trim()));
            }
        }
    }

    fn mounts(&mut self) {
        for mount in mountinfo::mounts().unwrap_or_default() {
            self.add("mount", format!("{} {}", mount.root.display(), mount.point.display()));
        }
    }

    fn interfaces(&mut self) {
        let links = Netlink::open().and_then(|mut netlink| netlink.links()).unwrap_or_default();
        for link in links {
            self.add("interface", format!("{} {}", link.index, link.name));
        }
    }

    fn groups(&mut self, dir: &Path, depth: usize) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with("vtax") {
                self.add("control group", path.display().to_string());
            }
            if depth < DEEPEST {
                self.groups(&path, depth + 1);
            }
        }
    }

    fn files(&mut self) {
        for dir in TEMPORARY {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().contains("vtax") {
                    self.add("file", entry.path().display().to_string());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::programs::Killed;

    #[test]
    fn a_program_of_any_name_is_found() {
        let process = Killed::new(Command::new("sleep").arg("600").spawn().unwrap());
        let number = format!("{} ", process.id());
        let program = fs::read_link(format!("/proc/{}/exe", process.id())).unwrap();
        let is_in = |snapshot: Snapshot| {
            let all = snapshot.since(&Snapshot::default());
            all.iter().any(|(kind, what)| kind == "process" && what.starts_with(&number))
        };
        assert!(is_in(Snapshot::take_with(&program)));
        assert!(!is_in(Snapshot::take()));
        drop(process);
        assert!(!is_in(Snapshot::take_with(&program)));
    }

    #[test]
    fn what_is_new_is_found() {
        let before = Snapshot::take();
        let dir = std::env::temp_dir().join(format!("vtax-residue-test-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let found = Snapshot::take().since(&before);
        fs::remove_dir(&dir).unwrap();
        // What others do on this machine meanwhile is none of it.
        let is_it = |(kind, what): (&str, &str)| kind == "file" && what == dir.display().to_string();
        assert!(found.iter().any(is_it));
        assert!(!Snapshot::take().since(&before).iter().any(is_it));
    }
}
