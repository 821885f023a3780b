//! cgroup v2: making room under the rule that a group with processes has no controllers for its
//! children (cgroups(7), "no internal processes").

use std::fs;
use std::path::{Path, PathBuf};

use super::hierarchy::{Controller, Hierarchy};

/// Where this process goes while its own group serves as the parent of the run's.
const FRONT: &str = "front";

fn lists(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|w| w == word))
}

fn offers_any(dir: &Path) -> bool {
    [Controller::Cpuset, Controller::Memory].iter().any(|c| lists(&dir.join("cgroup.controllers"), c.name()))
}

/// Makes the run's group: in the hierarchy's root where that is ours to use, else in this
/// process's own group, which then is left for the time of the run. Returns the group, and the
/// one that was left. The keeper leaves it too.
pub(super) fn make_room(
    h: &Hierarchy,
    name: &str,
    keeper: Option<i32>,
) -> Result<(PathBuf, Option<PathBuf>), String> {
    if !offers_any(&h.mount) {
        return Err("the unified hierarchy offers neither cpuset nor memory here".to_owned());
    }
    let top = h.mount.join(name);
    if fs::create_dir(&top).is_ok() {
        if enable_all(&h.mount).is_ok() {
            return Ok((top, None));
        }
        let _ = fs::remove_dir(&top);
    }
    let delegated = "start vtax in a group of its own: `systemd-run --user --scope -p Delegate=yes vtax ...`";
    if !offers_any(&h.own) {
        return Err(format!("neither cpuset nor memory is delegated to {}; {delegated}", h.own.display()));
    }
    let dir = h.own.join(name);
    fs::create_dir(&dir).map_err(|e| format!("make a group in {}: {e}; {delegated}", h.own.display()))?;
    match move_in(&h.own, &dir, keeper) {
        Ok(()) => Ok((dir, Some(h.own.clone()))),
        Err(why) => {
            go_home(&h.own, name);
            if let Some(keeper) = keeper {
                let _ = fs::write(h.own.join("cgroup.procs"), keeper.to_string());
            }
            let _ = fs::remove_dir(dir.join(FRONT));
            let _ = fs::remove_dir(&dir);
            Err(format!("{why}; {delegated}"))
        }
    }
}

fn move_in(own: &Path, dir: &Path, keeper: Option<i32>) -> Result<(), String> {
    let front = dir.join(FRONT);
    fs::create_dir(&front).map_err(|e| format!("make a group in {}: {e}", own.display()))?;
    for process in keeper.into_iter().chain([0]) {
        let moved = fs::write(front.join("cgroup.procs"), process.to_string());
        moved.map_err(|e| format!("leave {}: {e}", own.display()))?;
    }
    enable_all(own).map_err(|e| format!("{} has other processes in it ({e})", own.display()))
}

/// Passes what is offered on to the children. Memory first: a group with processes refuses it,
/// but would accept cpuset and thereby make its children unusable for processes (cgroups(7),
/// "thread mode").
fn enable_all(dir: &Path) -> std::io::Result<()> {
    let control = dir.join("cgroup.subtree_control");
    for controller in ["memory", "cpuset", "cpu", "pids", "io"] {
        if lists(&dir.join("cgroup.controllers"), controller) && !lists(&control, controller) {
            let done = fs::write(&control, format!("+{controller}"));
            // The others are only what an OCI runtime would like to have.
            if matches!(controller, "memory" | "cpuset") {
                done?;
            }
        }
    }
    Ok(())
}

/// Has the run's group pass `controller` on to the groups of its nodes.
pub(super) fn offer(dir: &Path, controller: Controller) -> Result<(), String> {
    enable_all(dir).map_err(|e| format!("pass {} on to nodes: {e}", controller.name()))?;
    if lists(&dir.join("cgroup.subtree_control"), controller.name()) {
        Ok(())
    } else {
        Err("not delegated to the group vtax was started in".to_owned())
    }
}

/// Whether [`make_room`] left this group.
pub(super) fn was_left(own: &Path, name: &str) -> bool {
    own.join(name).join(FRONT).exists()
}

/// Undoes [`make_room`] for this process, as far as its own group is concerned.
pub(super) fn go_home(home: &Path, name: &str) {
    let dir = home.join(name);
    for at in [&dir, home] {
        for controller in ["cpuset", "memory", "cpu", "pids", "io"] {
            if lists(&at.join("cgroup.subtree_control"), controller) {
                // Refused while another run uses it; then the next line is too.
                let _ = fs::write(at.join("cgroup.subtree_control"), format!("-{controller}"));
            }
        }
    }
    let _ = fs::write(home.join("cgroup.procs"), "0");
}
