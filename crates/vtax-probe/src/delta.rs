//! The difference of two snapshots: CPU times by category, and counters.

use vtax_units::Nanos;

use crate::types::{CpuTimes, Snapshot, TaskTimes};

/// Two snapshots of the same probe, the earlier first.
#[derive(Debug, Clone, Copy)]
pub struct Interval<'a> {
    /// The earlier.
    pub start: &'a Snapshot,
    /// The later.
    pub end: &'a Snapshot,
}

impl Interval<'_> {
    /// Time between the two.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.end.at.saturating_sub(self.start.at)
    }
}

/// CPU time in user mode and in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split {
    /// User mode; running a guest counts as user mode.
    pub user: Nanos,
    /// Kernel.
    pub system: Nanos,
}

impl Split {
    /// Both.
    #[must_use]
    pub fn total(&self) -> Nanos {
        Nanos(self.user.0.saturating_add(self.system.0))
    }

    /// The total is what is known well; how ticks fell on user and kernel may shift a little from
    /// one reading to the next.
    fn minus(self, earlier: Self) -> Self {
        let total = self.total().saturating_sub(earlier.total());
        let system = self.system.saturating_sub(earlier.system).min(total);
        Self { user: total.saturating_sub(system), system }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            user: Nanos(self.user.0.saturating_add(other.user.0)),
            system: Nanos(self.system.0.saturating_add(other.system.0)),
        }
    }

    fn own(task: &TaskTimes) -> Self {
        Self { user: Nanos(task.user.0.saturating_add(task.guest.0)), system: task.system }
    }

    fn reaped(task: &TaskTimes) -> Self {
        Self { user: task.reaped_user, system: task.reaped_system }
    }
}

fn sum<'a>(tasks: impl IntoIterator<Item = &'a TaskTimes>, of: impl Fn(&TaskTimes) -> Split) -> Split {
    tasks.into_iter().fold(Split::default(), |total, task| total.plus(of(task)))
}

/// CPU time of the tasks themselves, without children.
///
/// It is the difference of sums, not the sum of differences: a task that came counts from zero.
/// One that went takes its time along, so use it for threads, where the probe keeps the time of
/// those that ended, and for processes that stay.
#[must_use]
pub fn own_time<'a>(
    start: impl IntoIterator<Item = &'a TaskTimes>,
    end: impl IntoIterator<Item = &'a TaskTimes>,
) -> Split {
    sum(end, Split::own).minus(sum(start, Split::own))
}

/// CPU time of processes with all their descendants, those that ended in between included.
///
/// The kernel adds a child's time to its parent's `cutime` and `cstime` when it is waited for, so
/// the sum over the living of own and reaped time loses nothing when a child ends.
#[must_use]
pub fn family_time<'a>(
    start: impl IntoIterator<Item = &'a TaskTimes>,
    end: impl IntoIterator<Item = &'a TaskTimes>,
) -> Split {
    let family = |t: &TaskTimes| Split::own(t).plus(Split::reaped(t));
    sum(end, family).minus(sum(start, family))
}

/// CPU time of the service: every process in scope with its descendants, and the orphans that the
/// supervisors reaped.
#[must_use]
pub fn service_time(interval: Interval<'_>) -> Split {
    let all = |s: &Snapshot| {
        sum(&s.tasks, |t| Split::own(t).plus(Split::reaped(t))).plus(sum(&s.supervisors, Split::reaped))
    };
    all(interval.end).minus(all(interval.start))
}

/// Each CPU's time by category; a CPU that came or went in between is left out.
pub fn cpu_times(interval: Interval<'_>) -> impl Iterator<Item = CpuTimes> {
    interval.end.cpus.iter().filter_map(move |end| {
        let start = interval.start.cpus.iter().find(|c| c.cpu == end.cpu)?;
        Some(CpuTimes {
            cpu: end.cpu,
            user: end.user.saturating_sub(start.user),
            system: end.system.saturating_sub(start.system),
            irq: end.irq.saturating_sub(start.irq),
            softirq: end.softirq.saturating_sub(start.softirq),
            steal: end.steal.saturating_sub(start.steal),
            guest: end.guest.saturating_sub(start.guest),
            // iowait may run backwards (proc_stat(5)), and idle contains it.
            idle: end.idle.saturating_sub(start.idle),
        })
    })
}

/// The difference of two counters.
///
/// A counter that fell has wrapped at 32 bits where that is the smaller step (drivers with 32-bit
/// counters), and else has begun anew, as an interface made again under its old name does.
#[must_use]
pub fn counter(start: u64, end: u64) -> u64 {
    const TURN: u64 = 1 << 32;
    match end.checked_sub(start) {
        Some(difference) => difference,
        None if start < TURN && end + TURN - start < TURN / 2 => end + TURN - start,
        None => end,
    }
}
