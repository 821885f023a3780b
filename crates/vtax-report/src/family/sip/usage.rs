//! CPU and memory of both sides over time, from a trial's probes.

use std::collections::BTreeMap;

use vtax_store::{ProbeRow, StoreError, TrialDir};
use vtax_units::CpuSet;

use super::detail::Samples;
use super::what::What;
use crate::general::memory::Footprint;

const MIB: f64 = 1_048_576.0;

/// What is known of the two sides of a trial besides its probes.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The system under test has a kernel of its own.
    pub(crate) guest: bool,
    /// The host's CPUs that the system under test was given, where known.
    pub(crate) sut_cpus: Option<CpuSet>,
    /// How many they are.
    pub(crate) sut_count: f64,
    /// The host's CPUs that the generator was given, where known.
    pub(crate) client_cpus: Option<CpuSet>,
    /// By node: nanoseconds from its clock to 1970.
    pub(crate) clocks: BTreeMap<String, i64>,
    /// Start of the first phase, in milliseconds since 1970.
    pub(crate) first_unix_ms: u64,
}

/// Sums of one node at one moment; times are cumulative.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    /// CPU time of the node's CPUs.
    cpus_ns: f64,
    /// Of that, interrupts.
    interrupts_ns: f64,
    /// How many these are.
    cpus: f64,
    /// CPU time of the node's own processes or threads.
    tasks_ns: f64,
    /// CPU time of its agent, where it was told apart; in the client's node that is the generator.
    agent_ns: Option<f64>,
    /// Memory of its own processes.
    processes: Footprint,
    total: f64,
    available: f64,
}

impl Sums {
    fn add(&mut self, row: &ProbeRow<'_>, cpus: Option<&CpuSet>) {
        let (kind, id) = row.source.split_once(':').unwrap_or((row.source, ""));
        match (kind, row.metric) {
            ("task", "user" | "system" | "guest") => self.tasks_ns += row.value,
            ("agent", "user" | "system" | "guest") => *self.agent_ns.get_or_insert(0.0) += row.value,
            ("task", metric) => self.processes.add(metric, row.value),
            ("memory", "total") => self.total = row.value,
            ("memory", "available") => self.available = row.value,
            (cpu, metric) if id.is_empty() => {
                let Some(number) = cpu.strip_prefix("cpu").and_then(|n| n.parse::<usize>().ok()) else {
                    return;
                };
                if cpus.is_none_or(|set| set.contains(number)) {
                    match metric {
                        "user" | "system" | "guest" => self.cpus_ns += row.value,
                        "irq" | "softirq" => {
                            self.cpus_ns += row.value;
                            self.interrupts_ns += row.value;
                        }
                        "idle" => self.cpus += 1.0,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// What was spent since an earlier moment; all that is no time is as it is now.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            cpus_ns: self.cpus_ns - earlier.cpus_ns,
            interrupts_ns: self.interrupts_ns - earlier.interrupts_ns,
            tasks_ns: self.tasks_ns - earlier.tasks_ns,
            agent_ns: self.agent_ns.zip(earlier.agent_ns).map(|(now, then)| now - then),
            ..*self
        }
    }

    /// This much time of tasks with the interrupts of their CPUs, in which packets are received. Kernels without
    /// `CONFIG_IRQ_TIME_ACCOUNTING` charge an interrupt to the task that it met as well: there both together exceed what
    /// the CPUs were busy, and the excess counts once (docs/probes.md). For times between two moments.
    fn with_interrupts(&self, tasks_ns: f64) -> f64 {
        let both = tasks_ns + self.interrupts_ns;
        // Of what anybody may have written the interrupts may be below 0, where `clamp` would panic.
        both - (both - self.cpus_ns).min(self.interrupts_ns).max(0.0)
    }

    /// The generator's own time and that of its packets; of an old run, all that its CPUs did. For times between two moments.
    fn of_generator(&self) -> f64 {
        self.agent_ns.map_or(self.cpus_ns, |own| self.with_interrupts(own + self.tasks_ns))
    }
}

type Snapshots = BTreeMap<u64, Sums>;

/// CPU in percent and memory in MiB of both sides, times in seconds since the first phase.
pub(crate) fn read(trial: &TrialDir, site: &Site) -> Result<Vec<(What, Samples)>, StoreError> {
    let mut nodes: BTreeMap<String, Snapshots> = BTreeMap::new();
    trial.for_each_probe_row(|row| {
        if !nodes.contains_key(row.node) {
            nodes.insert(row.node.to_owned(), Snapshots::new());
        }
        let own = match row.node {
            "sut" if !site.guest => site.sut_cpus.as_ref(),
            "client" => site.client_cpus.as_ref(),
            _ => None,
        };
        if let Some(course) = nodes.get_mut(row.node) {
            course.entry(row.at_ns).or_default().add(&row, own);
        }
    })?;
    let course = |node: &str| {
        let empty = Snapshots::new();
        let course = nodes.get(node).unwrap_or(&empty);
        course.iter().map(|(at, sums)| (site.seconds(node, *at, course), *sums)).collect::<Vec<_>>()
    };
    let (sut, client, hypervisor) = (course("sut"), course("client"), course("hypervisor"));
    let sut_cpu = match (site.guest, &site.sut_cpus) {
        (true, _) => percent(&sut, |s| s.cpus_ns, |s| s.cpus.max(1.0)),
        (false, Some(_)) => percent(&sut, |s| s.with_interrupts(s.tasks_ns), |_| site.sut_count),
        (false, None) => percent(&sut, |s| s.tasks_ns, |_| site.sut_count),
    };
    let used = |s: &Sums| if site.guest { s.total - s.available } else { s.processes.total() };
    let all = [
        (What::SutCpu, sut_cpu),
        (What::HypervisorCpu, percent(&hypervisor, |s| s.tasks_ns, |_| site.sut_count)),
        (What::SutMemory, level(&sut, |s| s.available)),
        (What::SutUsed, level(&sut, used)),
        (What::GeneratorCpu, percent(&client, Sums::of_generator, |s| s.cpus.max(1.0))),
        (What::GeneratorMemory, level(&client, |s| s.available)),
    ];
    Ok(all.into_iter().filter(|(_, samples)| samples.iter().any(|s| s.1 > 0.0)).collect())
}

impl Site {
    /// Seconds since the first phase; without a known clock a node's first snapshot is its start.
    fn seconds(&self, node: &str, at_ns: u64, course: &Snapshots) -> f64 {
        let at = i128::from(at_ns);
        let ns = match self.clocks.get(node) {
            Some(offset) => at + i128::from(*offset) - i128::from(self.first_unix_ms) * 1_000_000,
            None => at - course.first_key_value().map_or(0, |(first, _)| i128::from(*first)),
        };
        ns as f64 / 1e9
    }
}

type Timed = [(f64, Sums)];

/// A time in percent of what `cpus` could have spent; both are asked of what was [spent](Sums::since) between two moments.
fn percent(course: &Timed, time: impl Fn(&Sums) -> f64, cpus: impl Fn(&Sums) -> f64) -> Samples {
    let of = |w: &[(f64, Sums)]| {
        let (from, to) = (&w[0], &w[1]);
        let spent = to.1.since(&from.1);
        let wall = (to.0 - from.0) * cpus(&spent) * 1e9;
        let share = time(&spent) / wall * 100.0;
        // Two clocks read one after the other may give a little more than there is; a process that
        // ended takes its time with it.
        (share.is_finite() && wall > 0.0).then(|| (to.0, share.clamp(0.0, 100.0)))
    };
    course.windows(2).filter_map(of).collect()
}

fn level(course: &Timed, of: impl Fn(&Sums) -> f64) -> Samples {
    course.iter().map(|(at, sums)| (*at, (of(sums) / MIB).max(0.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One second of tasks on a CPU that was busy for `busy` of it, of which the tasks took `tasks` and interrupts `interrupts`.
    fn second(tasks: f64, interrupts: f64, busy: f64) -> [(f64, Sums); 2] {
        let (mut from, mut to) = (Sums::default(), Sums::default());
        for (sums, factor) in [(&mut from, 5e9), (&mut to, 6e9)] {
            sums.tasks_ns = tasks * factor;
            sums.interrupts_ns = interrupts * factor;
            sums.cpus_ns = busy * factor;
        }
        [(5.0, from), (6.0, to)]
    }

    fn used(course: &Timed) -> f64 {
        percent(course, |s| s.with_interrupts(s.tasks_ns), |_| 1.0)[0].1
    }

    /// Natively such a kernel's figure was above a virtual machine's by all that its interrupts took.
    #[test]
    fn interrupts_count_once() {
        let is = |course: &Timed, percent: f64| {
            let found = used(course);
            assert!((found - percent).abs() < 1e-6, "{found} instead of {percent}");
        };
        // The kernel tells them apart; charges all of them to the tasks; charges half of them.
        is(&second(0.5, 0.2, 0.7), 70.0);
        is(&second(0.5, 0.2, 0.5), 50.0);
        is(&second(0.5, 0.2, 0.6), 60.0);
        // Others were busy there, too, and tasks were busy elsewhere.
        is(&second(0.3, 0.2, 0.9), 50.0);
        is(&second(0.9, 0.2, 0.4), 90.0);
        // No clock shows this.
        is(&second(0.5, -0.2, 0.1), 30.0);
    }

    #[test]
    fn a_generator_that_is_not_told_apart_used_all_of_its_cpus() {
        let of = |agents: [Option<f64>; 2]| {
            let mut course = second(0.1, 0.2, 0.6);
            for ((_, sums), agent) in course.iter_mut().zip(agents) {
                sums.agent_ns = agent;
            }
            percent(&course, Sums::of_generator, |_| 1.0)[0].1
        };
        // 0.4 s of its own, 0.1 s of other tasks, 0.2 s of interrupts, of which 0.1 s are in the others.
        assert!((of([Some(1e9), Some(1.4e9)]) - 60.0).abs() < 1e-6);
        for agents in [[None, None], [None, Some(1.4e9)]] {
            assert!((of(agents) - 60.0).abs() < 1e-6);
        }
        assert!((of([Some(1e9), Some(1.1e9)]) - 40.0).abs() < 1e-6, "nothing of it is in both");
    }
}
