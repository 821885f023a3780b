//! Control groups: CPU set and memory limit of a node, on cgroup v2 or v1, whichever this host
//! has; what is enforced is read back rather than believed.
//!
//! The groups of a run are made below the group vtax was started in, so that limits set from
//! outside go on to hold. On cgroup v2 that group must be empty of other processes (the rule of
//! cgroups(7) against processes in inner groups); root takes the hierarchy's root instead.

mod hierarchy;
mod keeper;
mod tree;
mod v2;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use vtax_units::{Bytes, CpuSet};

use crate::error::{Context, Result, SysError};
use hierarchy::{Controller, Hierarchy};
pub use keeper::Keeper;
pub use tree::{start_time, sweep};

/// Between two attempts to take memory away from a group.
const RECLAIM_PAUSE: Duration = Duration::from_millis(100);

/// What limits memory and swap together (cgroup v1).
const SWAP_V1: &str = "memory.memsw.limit_in_bytes";
/// What limits swap (cgroup v2).
const SWAP_V2: &str = "memory.swap.max";
/// How gladly the kernel writes a group's memory to swap (cgroup v1); with 0 it doesn't where the group's limit is met.
const SWAPPINESS: &str = "memory.swappiness";

/// The groups of one run, owned by the front process.
#[derive(Debug, Clone)]
pub struct RunGroups {
    name: String,
    cpuset: Option<Place>,
    memory: Option<Place>,
    /// Every directory the run's name may appear in, also those only an OCI runtime writes to.
    trees: Vec<PathBuf>,
    /// The run's group in the unified hierarchy, once it was tried to make it; or why there is none.
    unified: Option<Result<PathBuf, String>>,
    /// This process's own group in the unified hierarchy.
    own: Option<PathBuf>,
    /// Group this process left to make room, and goes back to at the end (cgroup v2).
    home: Option<PathBuf>,
    /// The keeper's process id.
    keeper: Option<i32>,
    notes: Vec<String>,
}

/// Where the groups of one controller are made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    dir: PathBuf,
    unified: bool,
    /// Path in the hierarchy, as an OCI runtime wants it.
    oci: String,
}

impl Place {
    /// Whether its groups can limit swap.
    fn limits_swap(&self) -> bool {
        self.dir.join(if self.unified { SWAP_V2 } else { SWAP_V1 }).exists()
    }

    /// Whether what is in its groups and meets their limit isn't written to swap instead.
    fn keeps_out_of_swap(&self) -> bool {
        self.limits_swap() || read(&self.dir.join(SWAPPINESS)).is_ok_and(|now| now == "0")
    }
}

/// Whether this process's groups of cgroup v1 are the topmost ones that it sees. Then it is all one whether an OCI runtime takes
/// a relative path ([`RunGroups::oci_path`]) from the top or from its own group.
#[must_use]
pub fn is_at_top_of_v1() -> bool {
    hierarchy::is_at_top_of_v1(&hierarchy::find())
}

/// Whether this host has swap.
fn swaps() -> bool {
    // The first line is the table's head (proc(5)).
    fs::read_to_string("/proc/swaps").is_ok_and(|table| table.lines().count() > 1)
}

/// What a group may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// CPUs; `None`: all of the run's.
    pub cpus: Option<CpuSet>,
    /// Memory, swap included where this host can ([`RunGroups::limits_swap`]); `None`: no limit.
    pub memory: Option<Bytes>,
}

/// What is enforced, read back from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Enforced {
    /// CPUs, where a control group holds the processes to them.
    pub cpus: Option<CpuSet>,
    /// Memory, where a control group limits it.
    pub memory: Option<Bytes>,
}

/// What a group has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Memory in use now.
    pub memory: Option<Bytes>,
    /// The most that was in use.
    pub memory_peak: Option<Bytes>,
    /// Processes that were killed for exceeding the limit.
    pub killed: Option<u64>,
    /// How often the limit was met and something had to go.
    pub at_limit: Option<u64>,
}

/// The group of one node.
#[derive(Debug)]
pub struct NodeGroup {
    cpuset: Option<(PathBuf, bool)>,
    memory: Option<(PathBuf, bool)>,
}

impl RunGroups {
    /// Names the groups of this process's run, and makes none.
    #[must_use]
    pub fn of_this_process() -> Self {
        let name = tree::run_name();
        let hierarchies = hierarchy::find();
        let unified = hierarchies.iter().find(|h| h.unified);
        let mut trees: Vec<PathBuf> = hierarchies.iter().map(|h| h.own.join(&name)).collect();
        trees.extend(unified.map(|h| h.mount.join(&name)).filter(|top| !trees.contains(top)));
        Self {
            cpuset: None,
            memory: None,
            trees,
            unified: None,
            own: unified.map(|h| h.own.clone()),
            home: None,
            keeper: None,
            notes: Vec::new(),
            name,
        }
    }

    /// Forks the process that removes these groups when this process and the controller are gone, and makes them: in this
    /// order, so that there is no moment at which nobody would. Where a controller can't be used, a note says why.
    ///
    /// # Errors
    ///
    /// Where this process has threads or can't fork.
    pub fn make(&mut self) -> Result<Keeper> {
        let keeper = Keeper::start(self)?;
        self.keeper = Some(keeper.pid());
        let hierarchies = hierarchy::find();
        self.cpuset = self.place(Controller::Cpuset, &hierarchies);
        self.memory = self.place(Controller::Memory, &hierarchies);
        if self.memory.as_ref().is_some_and(|place| !place.keeps_out_of_swap()) && swaps() {
            self.notes
                .push("memory limits don't include swap here: what exceeds one may go there".to_owned());
        }
        Ok(keeper)
    }

    fn place(&mut self, controller: Controller, hierarchies: &[Hierarchy]) -> Option<Place> {
        let name = controller.name();
        let made = match hierarchies.iter().find(|h| h.controllers.iter().any(|c| c == name)) {
            Some(v1) => self.place_v1(controller, v1),
            None => match hierarchies.iter().find(|h| h.unified) {
                Some(unified) => self.place_v2(controller, unified),
                None => Err("no hierarchy is mounted".to_owned()),
            },
        };
        made.map_err(|why| self.notes.push(format!("{name} control group: {why}"))).ok()
    }

    fn place_v1(&self, controller: Controller, h: &Hierarchy) -> Result<Place, String> {
        let dir = h.own.join(&self.name);
        // Where both controllers are mounted as one hierarchy, the group that was made for the other is this one's too.
        let is_there = [&self.cpuset, &self.memory].into_iter().flatten().any(|place| place.dir == dir);
        if !is_there {
            let made = fs::create_dir(&dir).context("make a group in", h.own.display().to_string());
            made.map_err(|e| crate::error::chain(&e))?;
            // In one hierarchy with memory, too, no process can be in a group without CPUs.
            let has_cpus = h.controllers.iter().any(|c| c == Controller::Cpuset.name());
            let ready = if has_cpus { inherit_cpuset(&h.own, &dir) } else { Ok(()) };
            ready.map_err(|e| {
                let _ = fs::remove_dir(&dir);
                crate::error::chain(&e)
            })?;
        }
        // Relative: below the group the runtime itself is in, in each hierarchy.
        let place = Place { dir, unified: false, oci: self.name.clone() };
        if controller == Controller::Memory && !place.limits_swap() {
            // Groups below it take this over. Where it is refused, a note says what that means.
            let _ = write_if_there(&place.dir.join(SWAPPINESS), "0");
        }
        Ok(place)
    }

    fn place_v2(&mut self, controller: Controller, h: &Hierarchy) -> Result<Place, String> {
        let dir = match &self.unified {
            Some(made) => made.clone()?,
            None => {
                let made = v2::make_room(h, &self.name, self.keeper);
                self.unified = Some(made.as_ref().map(|(dir, _)| dir.clone()).map_err(Clone::clone));
                let (dir, home) = made?;
                self.home = home;
                dir
            }
        };
        v2::offer(&dir, controller)?;
        let inside = dir.strip_prefix(&h.mount).unwrap_or(&dir);
        Ok(Place { oci: format!("/{}", inside.display()), dir, unified: true })
    }

    /// Name of the run's groups.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why a controller can't be used here.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Which controllers can be used, such as `cpuset and memory (cgroup v1)`.
    #[must_use]
    pub fn describe(&self) -> String {
        let version = |p: &Place| if p.unified { "cgroup v2" } else { "cgroup v1" };
        match (&self.cpuset, &self.memory) {
            (Some(c), Some(_)) => format!("cpuset and memory ({})", version(c)),
            (Some(c), None) => format!("cpuset ({})", version(c)),
            (None, Some(m)) => format!("memory ({})", version(m)),
            (None, None) => "none".to_owned(),
        }
    }

    /// Removes the groups in the ordinary course; the controller must have ended.
    ///
    /// # Errors
    ///
    /// Where something could not be removed.
    pub fn finish(self, keeper: Keeper) -> Result<()> {
        if let Some(home) = &self.home {
            v2::go_home(home, &self.name);
        }
        keeper.finish(&self)
    }

    /// Kills what is left in the groups and removes them.
    ///
    /// # Errors
    ///
    /// Where something is still there after `timeout`.
    pub(crate) fn remove(&self, timeout: Duration) -> Result<()> {
        let mut first_error = None;
        // The keeper was forked before it was known whether this process's own group would be left.
        if let Some(own) = self.own.as_ref().filter(|own| v2::was_left(own, &self.name)) {
            v2::go_home(own, &self.name);
        }
        for tree in self.trees.iter().filter(|t| t.exists()) {
            first_error = tree::remove(tree, timeout).err().or(first_error);
        }
        first_error.map_or(Ok(()), Err)
    }

    /// The path for an OCI runtime's `linux.cgroupsPath`, where it makes the group of `node`
    /// itself; `None` where no controller can be used. It is relative on cgroup v1, where it begins at the group that this
    /// process is in, and absolute on cgroup v2.
    #[must_use]
    pub fn oci_path(&self, node: &str) -> Option<String> {
        let place = self.cpuset.as_ref().or(self.memory.as_ref())?;
        Some(format!("{}/{node}", place.oci))
    }

    /// Whether groups can hold nodes to CPUs.
    #[must_use]
    pub const fn holds_cpus(&self) -> bool {
        self.cpuset.is_some()
    }

    /// Whether groups can limit nodes' memory.
    #[must_use]
    pub const fn holds_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Whether a limit of memory counts swap too. On cgroup v1 that is so only where the kernel was started to count it
    /// (`swapaccount=1`); an OCI runtime refuses to limit what isn't counted.
    #[must_use]
    pub fn limits_swap(&self) -> bool {
        self.memory.as_ref().is_some_and(Place::limits_swap)
    }

    /// The group an OCI runtime has made at [`oci_path`](Self::oci_path), to read from.
    #[must_use]
    pub fn made_by_runtime(&self, node: &str) -> NodeGroup {
        let of = |place: &Option<Place>| place.as_ref().map(|p| (p.dir.join(node), p.unified));
        NodeGroup { cpuset: of(&self.cpuset), memory: of(&self.memory) }
    }

    /// Groups below a group of this name, which holds all of them together to so much memory. It goes with the run's; until
    /// then it can be had again, with another limit.
    ///
    /// # Errors
    ///
    /// Where memory can't be limited here, or the limit is refused.
    pub fn with_shared_memory(&self, name: &str, memory: Bytes) -> Result<Self> {
        let group = self.made_by_runtime(name);
        let Some((dir, unified)) = &group.memory else {
            let what = "no memory control group can be used here".to_owned();
            return Err(SysError::Unexpected { operation: "limit memory", what });
        };
        group.make(&Limits::default())?;
        if *unified {
            for controller in [Controller::Memory, Controller::Cpuset] {
                let offered = self.place_of(controller).map_or(Ok(()), |_| v2::offer(dir, controller));
                offered.map_err(|what| SysError::Unexpected { operation: "limit memory", what })?;
            }
        } else {
            // Refused where it is so already, and where groups are below it, which then have it from before.
            let _ = write_if_there(&dir.join("memory.use_hierarchy"), "1");
        }
        // Nothing runs in it yet, so that nothing is killed: what it may hold is what files left there.
        group.limit_memory(memory, Duration::ZERO)?;
        let below = |place: &Option<Place>| {
            let inside = |p: &Place| Place {
                dir: p.dir.join(name),
                unified: p.unified,
                oci: format!("{}/{name}", p.oci),
            };
            place.as_ref().map(inside)
        };
        let (cpuset, memory) = (below(&self.cpuset), below(&self.memory));
        Ok(Self { cpuset, memory, trees: Vec::new(), unified: None, own: None, home: None, ..self.clone() })
    }

    const fn place_of(&self, controller: Controller) -> Option<&Place> {
        match controller {
            Controller::Cpuset => self.cpuset.as_ref(),
            Controller::Memory => self.memory.as_ref(),
        }
    }

    /// Makes the group of `node` with these limits, on the controllers that can be used.
    ///
    /// # Errors
    ///
    /// Where a controller that could be used refuses a limit.
    pub fn node(&self, node: &str, limits: &Limits) -> Result<NodeGroup> {
        let group = self.made_by_runtime(node);
        let made = group.make(limits);
        if made.is_err() {
            let _ = group.remove();
        }
        made.map(|()| group)
    }
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).context("read", path.display().to_string())?;
    Ok(text.trim().to_owned())
}

fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).context("write", format!("`{value}` to {}", path.display()))
}

/// A v1 cpuset is born empty, and takes no process until it has CPUs and memory nodes.
fn inherit_cpuset(from: &Path, to: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        write(&to.join(file), &read(&from.join(file))?)?;
    }
    Ok(())
}

impl NodeGroup {
    fn make(&self, limits: &Limits) -> Result<()> {
        for (dir, _) in [&self.cpuset, &self.memory].into_iter().flatten() {
            match fs::create_dir(dir) {
                // On cgroup v2 both controllers share a directory.
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(e).context("create", dir.display().to_string());
                }
                _ => {}
            }
        }
        if let Some((dir, unified)) = &self.cpuset {
            if !unified && let Some(parent) = dir.parent() {
                inherit_cpuset(parent, dir)?;
            }
            if let Some(cpus) = &limits.cpus {
                write(&dir.join("cpuset.cpus"), &cpus.to_string())?;
            }
        }
        if let (Some((dir, unified)), Some(memory)) = (&self.memory, limits.memory) {
            let bytes = memory.0.to_string();
            if *unified {
                write(&dir.join("memory.max"), &bytes)?;
                write_if_there(&dir.join(SWAP_V2), "0")?;
            } else {
                write(&dir.join("memory.limit_in_bytes"), &bytes)?;
                write_if_there(&dir.join(SWAP_V1), &bytes)?;
            }
        }
        Ok(())
    }

    fn directories(&self) -> Vec<&Path> {
        let mut dirs: Vec<&Path> =
            [&self.cpuset, &self.memory].into_iter().flatten().map(|(d, _)| d.as_path()).collect();
        dirs.dedup();
        dirs
    }

    /// Puts a process, with what it starts from now on, into the group.
    ///
    /// # Errors
    ///
    /// Where the process is gone or may not be moved.
    pub fn attach(&self, pid: i32) -> Result<()> {
        for dir in self.directories() {
            write(&dir.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// The open `cgroup.procs` files: a process that writes `0` to each is in the group.
    ///
    /// # Errors
    ///
    /// Where they may not be opened.
    pub fn procs_files(&self) -> Result<Vec<OwnedFd>> {
        let open = |dir: &Path| {
            let path = dir.join("cgroup.procs");
            let file = fs::File::options().write(true).open(&path);
            file.map(OwnedFd::from).context("open", path.display().to_string())
        };
        self.directories().into_iter().map(open).collect()
    }

    /// Whether its CPUs are those of a group of cgroup v2.
    #[must_use]
    pub fn holds_cpus_by_v2(&self) -> bool {
        self.cpuset.as_ref().is_some_and(|(_, unified)| *unified)
    }

    /// What the kernel says is enforced.
    ///
    /// # Errors
    ///
    /// Where the kernel's answer can't be read.
    pub fn enforced(&self) -> Result<Enforced> {
        let mut enforced = Enforced::default();
        if let Some((dir, unified)) = &self.cpuset {
            let file = if *unified { "cpuset.cpus.effective" } else { "cpuset.cpus" };
            let text = read(&dir.join(file))?;
            let cpus: CpuSet = text
                .parse()
                .map_err(|e| SysError::Unexpected { operation: "read CPU set", what: format!("{e}") })?;
            enforced.cpus = Some(cpus);
        }
        if let Some((dir, unified)) = &self.memory {
            let file = if *unified { "memory.max" } else { "memory.limit_in_bytes" };
            // `max`, or in v1 a number near 2^63, stands for no limit.
            let limit = read(&dir.join(file))?.parse().ok().filter(|n| *n < 1 << 60);
            enforced.memory = limit.map(Bytes);
        }
        Ok(enforced)
    }

    /// What the group has used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let Some((dir, unified)) = &self.memory else { return Usage::default() };
        let [now, peak, events] = if *unified {
            ["memory.current", "memory.peak", "memory.events"]
        } else {
            ["memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"]
        };
        let number = |file: &str| read(&dir.join(file)).ok()?.parse().ok().map(Bytes);
        let event = |name: &str| -> Option<u64> {
            let text = read(&dir.join(events)).ok()?;
            text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        let at_limit = match *unified {
            true => event("max "),
            false => read(&dir.join("memory.failcnt")).ok().and_then(|count| count.parse().ok()),
        };
        Usage { memory: number(now), memory_peak: number(peak), killed: event("oom_kill "), at_limit }
    }

    /// Holds it to these CPUs from now on, where CPUs can be limited.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses them.
    pub fn limit_cpus(&self, cpus: &CpuSet) -> Result<()> {
        let Some((dir, _)) = &self.cpuset else { return Ok(()) };
        write(&dir.join("cpuset.cpus"), &cpus.to_string())
    }

    /// Memory of its processes that no file is behind, which only swap could take from them; `None` where the kernel doesn't tell.
    #[must_use]
    pub fn anonymous(&self) -> Option<Bytes> {
        let (dir, unified) = self.memory.as_ref()?;
        let key = if *unified { "anon " } else { "total_rss " };
        let text = read(&dir.join("memory.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok().map(Bytes)
    }

    /// Holds it to so much memory. What it has beyond that has to go first, within this time: that takes some where it is
    /// written to a disk. Without any time the limit holds at once, and what runs in the group may be killed for it.
    ///
    /// # Errors
    ///
    /// Where memory can't be limited here, or what has to go doesn't; then it has the limit that it had.
    pub fn limit_memory(&self, memory: Bytes, within: Duration) -> Result<()> {
        let Some((dir, unified)) = &self.memory else {
            let what = "no memory control group can be used here".to_owned();
            return Err(SysError::Unexpected { operation: "limit memory", what });
        };
        let bytes = memory.0.to_string();
        let until = Instant::now() + within;
        if !unified {
            let file = dir.join("memory.limit_in_bytes");
            return loop {
                match fs::write(&file, &bytes) {
                    Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy && Instant::now() < until => {
                        thread::sleep(RECLAIM_PAUSE);
                    }
                    result => break result.context("write", format!("`{bytes}` to {}", file.display())),
                }
            };
        }
        // The limit itself would kill where taking memory away is slow; this one only takes it away.
        let high = dir.join("memory.high");
        while !within.is_zero() && self.usage().memory.is_some_and(|now| now > memory) {
            if Instant::now() >= until {
                // The timeout tells more than that this is refused.
                let _ = write_if_there(&high, "max");
                let (object, seconds) = (dir.display().to_string(), within.as_secs_f64());
                return Err(SysError::TimedOut { operation: "take memory from", object, seconds });
            }
            write_if_there(&high, &bytes)?;
            thread::sleep(RECLAIM_PAUSE);
        }
        write(&dir.join("memory.max"), &bytes)?;
        write_if_there(&high, "max")
    }

    /// Kills what is left in the group and removes it.
    ///
    /// # Errors
    ///
    /// Where something is still there after a few seconds.
    pub fn remove(&self) -> Result<()> {
        let mut first_error = None;
        for dir in self.directories().into_iter().filter(|d| d.exists()) {
            first_error = tree::remove(dir, Duration::from_secs(5)).err().or(first_error);
        }
        first_error.map_or(Ok(()), Err)
    }
}

fn write_if_there(path: &Path, value: &str) -> Result<()> {
    if path.exists() { write(path, value) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy of cgroup v1 in a directory of this test's own: the kernel makes the files, the test its stand-ins.
    struct Stage(Hierarchy);

    impl Stage {
        fn new(name: &str, controllers: &[&str]) -> Self {
            let own = std::env::temp_dir().join(format!("vtax-cgroup-{name}-{}", std::process::id()));
            fs::create_dir_all(&own).unwrap();
            for (file, value) in [("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")] {
                fs::write(own.join(file), value).unwrap();
            }
            let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
            Self(Hierarchy { unified: false, controllers, mount: own.clone(), own })
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.own);
        }
    }

    #[test]
    fn controllers_that_are_mounted_together_share_the_runs_group() {
        let stage = Stage::new("together", &["cpuset", "memory"]);
        let hierarchies = [stage.0.clone()];
        let mut groups = RunGroups::of_this_process();
        groups.cpuset = groups.place(Controller::Cpuset, &hierarchies);
        groups.memory = groups.place(Controller::Memory, &hierarchies);
        assert_eq!(groups.notes(), &[] as &[String]);
        assert!(groups.cpuset.is_some() && groups.cpuset == groups.memory, "{groups:?}");
        let dir = stage.0.own.join(groups.name());
        assert_eq!(read(&dir.join("cpuset.cpus")).unwrap(), "0-1");
        let node = groups.node("sut", &Limits { cpus: Some(CpuSet::of([1])), memory: None }).unwrap();
        assert_eq!(read(&dir.join("sut/cpuset.cpus")).unwrap(), "1");
        assert_eq!(node.directories().len(), 1);
    }

    #[test]
    fn a_group_that_was_not_made_here_is_left_alone() {
        let stage = Stage::new("foreign", &["memory"]);
        let mut groups = RunGroups::of_this_process();
        let foreign = stage.0.own.join(groups.name());
        fs::create_dir(&foreign).unwrap();
        assert_eq!(groups.place(Controller::Memory, std::slice::from_ref(&stage.0)), None);
        assert!(foreign.is_dir());
        assert!(
            groups.notes()[0].starts_with("memory control group: make a group in"),
            "{:?}",
            groups.notes()
        );
    }

    #[test]
    fn a_group_that_gets_no_cpus_is_removed() {
        let stage = Stage::new("bare", &["cpuset", "memory"]);
        fs::remove_file(stage.0.own.join("cpuset.cpus")).unwrap();
        let mut groups = RunGroups::of_this_process();
        for controller in [Controller::Cpuset, Controller::Memory] {
            assert_eq!(groups.place(controller, std::slice::from_ref(&stage.0)), None);
        }
        assert!(!stage.0.own.join(groups.name()).exists());
        assert_eq!(groups.notes().len(), 2);
    }

    #[test]
    fn a_group_keeps_its_limit_where_its_memory_does_not_go() {
        let stage = Stage::new("high", &[]);
        let dir = stage.0.own.join("v2");
        fs::create_dir(&dir).unwrap();
        let now = |file: &str| read(&dir.join(file)).unwrap();
        let set = |file: &str, value: &str| fs::write(dir.join(file), value).unwrap();
        for (file, value) in [("memory.current", "8192"), ("memory.max", "max"), ("memory.high", "max")] {
            set(file, value);
        }
        let group = NodeGroup { cpuset: None, memory: Some((dir.clone(), true)) };
        let limits = || [now("memory.max"), now("memory.high")];
        let error = group.limit_memory(Bytes(4096), Duration::from_millis(1)).unwrap_err();
        assert!(matches!(error, SysError::TimedOut { operation: "take memory from", .. }), "{error}");
        assert_eq!(limits(), ["max", "max"]);
        group.limit_memory(Bytes(6144), Duration::ZERO).unwrap();
        assert_eq!(limits(), ["6144", "max"], "a group that nothing runs in");
        set("memory.current", "4096");
        group.limit_memory(Bytes(4096), Duration::from_millis(1)).unwrap();
        assert_eq!(limits(), ["4096", "max"]);
    }

    #[test]
    fn swap_is_limited_where_the_kernel_counts_it_and_kept_out_of_otherwise() {
        let stage = Stage::new("swap", &[]);
        let own = stage.0.own.clone();
        let at = |dir: &str, unified| {
            let dir = own.join(dir);
            fs::create_dir(&dir).unwrap();
            Place { dir, unified, oci: String::new() }
        };
        let limits = |place: &Place| {
            let groups = RunGroups { memory: Some(place.clone()), ..RunGroups::of_this_process() };
            (groups.limits_swap(), place.keeps_out_of_swap())
        };
        for (dir, unified, file) in [("v1", false, SWAP_V1), ("v2", true, SWAP_V2)] {
            let place = at(dir, unified);
            assert_eq!(limits(&place), (false, false), "{dir}");
            fs::write(place.dir.join(file), "").unwrap();
            assert_eq!(limits(&place), (true, true), "{dir}");
        }
        let uncounted = at("uncounted", false);
        for (value, out) in [("60\n", false), ("0\n", true)] {
            fs::write(uncounted.dir.join(SWAPPINESS), value).unwrap();
            assert_eq!(limits(&uncounted), (false, out), "{value}");
        }
        assert!(!RunGroups::of_this_process().limits_swap(), "no group, no limit");
    }
}
