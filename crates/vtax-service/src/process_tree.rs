//! The tree of a service's processes, and their end.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use vtax_sys::PidFd;

/// Environment variable that marks a service's processes.
pub(crate) const MARK: &str = "VTAX_SERVICE";
/// Processes that are described, of a service that has many.
const DESCRIBED: usize = 8;
/// The kernel needs moments to end what was killed.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A service's processes: its leader, the leader's session and group, all descendants, and
/// everything that carries its mark, such as a daemon that left session and parent behind.
#[derive(Debug, Clone)]
pub(crate) struct ProcessTree {
    /// Process id of the leader, which leads a session and a process group of the same id.
    pub(crate) leader: i32,
    /// Start of the leader in ticks since boot: nothing older belongs to it.
    pub(crate) born: u64,
    /// Value of [`MARK`] in the environment of its processes.
    pub(crate) mark: String,
}

/// What `/proc/<pid>/stat` says about where a process belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    zombie: bool,
    parent: i32,
    group: i32,
    session: i32,
    born: u64,
}

impl ProcessTree {
    /// The tree of a leader just started.
    pub(crate) fn of(leader: i32, mark: String) -> Self {
        Self { leader, born: stat_of(leader).map_or(0, |stat| stat.born), mark }
    }

    /// Every living process of the tree.
    pub(crate) fn members(&self) -> Vec<i32> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let all: BTreeMap<i32, Stat> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != own)
            .filter_map(|pid| Some((pid, stat_of(pid)?)))
            .filter(|(_, stat)| stat.born >= self.born)
            .collect();
        all.iter()
            .filter(|(pid, stat)| !stat.zombie && self.owns(**pid, **stat, &all))
            .map(|(pid, _)| *pid)
            .collect()
    }

    fn owns(&self, pid: i32, stat: Stat, all: &BTreeMap<i32, Stat>) -> bool {
        if pid == self.leader || stat.group == self.leader || stat.session == self.leader {
            return true;
        }
        let mut parent = stat.parent;
        // A chain longer than there are processes would be a circle of ids given away again.
        for _ in 0..all.len() {
            if parent == self.leader {
                return true;
            }
            let Some(next) = all.get(&parent) else { break };
            parent = next.parent;
        }
        let mark = format!("{MARK}={}", self.mark);
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|b| *b == 0).any(|entry| entry == mark.as_bytes()))
    }

    /// What each of its living processes is doing, for people: its name, its state, where in the kernel it waits, and its CPU
    /// time so far. Of the first few.
    pub(crate) fn doing(&self) -> Vec<String> {
        let members = self.members();
        let described = members.iter().take(DESCRIBED).filter_map(|pid| doing(*pid));
        let more = members.len().saturating_sub(DESCRIBED);
        described.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }

    /// Kills every process of the tree; the ids of those that are still there after 5 s.
    pub(crate) fn kill(&self) -> Result<(), Vec<i32>> {
        let until = Instant::now() + END_WITHIN;
        loop {
            let members = self.members();
            if members.is_empty() {
                return Ok(());
            }
            for pid in &members {
                self.kill_one(*pid);
            }
            if Instant::now() > until {
                return Err(members);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn kill_one(&self, pid: i32) {
        // Held first and looked at again then, so that no process that got the id later is hit.
        let Ok(held) = PidFd::open(pid) else { return };
        if stat_of(pid).is_some_and(|stat| stat.born >= self.born) {
            // One that may not be killed is still a member at the next look, and reported then.
            let _ = held.kill();
        }
    }
}

fn stat_of(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// What a process is doing, in words; `None` where it is gone.
fn doing(pid: i32) -> Option<String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let stat = read("stat").ok()?;
    // Without the right to look, the kernel says `0`.
    let place = read("wchan").unwrap_or_default();
    describe(&stat, Some(place.trim()).filter(|place| !matches!(*place, "" | "0")))
}

/// What a process does, from its `stat` and the kernel function that it waits in.
fn describe(stat: &str, place: Option<&str>) -> Option<String> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let cpu = ticks(11)?.saturating_add(ticks(12)?) as f64 / rustix::param::clock_ticks_per_second() as f64;
    let state = match *fields.first()? {
        "R" => "is running".to_owned(),
        "S" => "is waiting".to_owned(),
        "D" => "is waiting and can't be interrupted".to_owned(),
        "T" | "t" => "is stopped".to_owned(),
        other => format!("is in the state {other}"),
    };
    let place = place.map_or_else(String::new, |place| format!(" ({place})"));
    Some(format!("{name} {state}{place} after {cpu:.2} s of CPU"))
}

/// Parses `/proc/<pid>/stat` (`proc_pid_stat(5)`); the name in parentheses may hold anything.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let id = |index: usize| fields.get(index)?.parse::<i32>().ok();
    Some(Stat {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: id(1)?,
        group: id(2)?,
        session: id(3)?,
        born: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_past_hostile_names() {
        let stat = "7 (a) Z 1) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0";
        assert_eq!(parse_stat(stat), Some(Stat { zombie: false, parent: 3, group: 4, session: 5, born: 99 }));
        assert_eq!(parse_stat("7 (a) Z 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn what_a_process_does_is_said_in_words() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a) Z 1) S 3 4 5 0 -1 0 0 0 0 0 {ticks} {ticks} 0 0 20 0 1 0 99 0");
        let words = describe(&stat, Some("do_epoll_wait"));
        assert_eq!(words.as_deref(), Some("a) Z 1 is waiting (do_epoll_wait) after 2.00 s of CPU"));
        assert_eq!(describe("7 (a", None), None);
        let own = doing(i32::try_from(std::process::id()).expect("small")).expect("it is there");
        assert!(own.contains(" s of CPU"), "{own}");
    }

    #[test]
    fn this_process_has_a_stat_line() {
        let own = i32::try_from(std::process::id()).expect("small");
        assert!(stat_of(own).is_some_and(|stat| stat.born > 0 && !stat.zombie));
    }
}
