//! Reaping orphans, as the first process of a PID namespace must.
//!
//! `waitpid(-1)` would also take children that another thread waits for by pid, and that thread
//! would then wait for ever. A child that some thread waits for stays a zombie for moments only,
//! so the reaper takes just those zombies that it meets in two scans a second apart.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};

const SCAN_EVERY: Duration = Duration::from_secs(1);

/// Starts the reaper.
pub(crate) fn start() -> io::Result<()> {
    std::thread::Builder::new().name("reaper".into()).spawn(|| {
        let mut seen = BTreeSet::new();
        loop {
            std::thread::sleep(SCAN_EVERY);
            let zombies = zombie_children();
            for pid in zombies.intersection(&seen).filter_map(|pid| Pid::from_raw(*pid)) {
                // Where another thread was quicker there is nothing left to reap.
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            seen = zombies;
        }
    })?;
    Ok(())
}

fn zombie_children() -> BTreeSet<i32> {
    let me = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_zombie_of(&stat, &me))
        })
        .collect()
}

/// `proc_pid_stat(5)`: the name is in parentheses and may hold anything, state and parent follow it.
fn is_zombie_of(stat: &str, parent: &str) -> bool {
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_whitespace();
    fields.next() == Some("Z") && fields.next() == Some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read_past_hostile_names() {
        assert!(is_zombie_of("12 (x) Z 1 12 12 0", "1"));
        assert!(is_zombie_of("12 (a) R 7 (b)) Z 1 12", "1"));
        assert!(!is_zombie_of("12 (x) Z 2 12", "1"));
        assert!(!is_zombie_of("12 (x) S 1 12", "1"));
        assert!(!is_zombie_of("", "1"));
    }
}
