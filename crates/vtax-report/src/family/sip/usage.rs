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
        // Packets are received in interrupts, which no process is charged for.
        (false, Some(_)) => percent(&sut, |s| s.tasks_ns + s.interrupts_ns, |_| site.sut_count),
        (false, None) => percent(&sut, |s| s.tasks_ns, |_| site.sut_count),
    };
    // The generator's own time and that of its packets; of an old run, all that its CPUs did.
    let generator = |s: &Sums| s.agent_ns.map_or(s.cpus_ns, |own| own + s.tasks_ns + s.interrupts_ns);
    let used = |s: &Sums| if site.guest { s.total - s.available } else { s.processes.total() };
    let all = [
        (What::SutCpu, sut_cpu),
        (What::HypervisorCpu, percent(&hypervisor, |s| s.tasks_ns, |_| site.sut_count)),
        (What::SutMemory, level(&sut, |s| s.available)),
        (What::SutUsed, level(&sut, used)),
        (What::GeneratorCpu, percent(&client, generator, |s| s.cpus.max(1.0))),
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

/// Growth of a time in percent of what `cpus` could have spent.
fn percent(course: &Timed, time: impl Fn(&Sums) -> f64, cpus: impl Fn(&Sums) -> f64) -> Samples {
    let of = |w: &[(f64, Sums)]| {
        let (from, to) = (&w[0], &w[1]);
        let wall = (to.0 - from.0) * cpus(&to.1) * 1e9;
        let share = (time(&to.1) - time(&from.1)) / wall * 100.0;
        // Two clocks read one after the other may give a little more than there is; a process that
        // ended takes its time with it.
        (share.is_finite() && wall > 0.0).then(|| (to.0, share.clamp(0.0, 100.0)))
    };
    course.windows(2).filter_map(of).collect()
}

fn level(course: &Timed, of: impl Fn(&Sums) -> f64) -> Samples {
    course.iter().map(|(at, sums)| (*at, (of(sums) / MIB).max(0.0))).collect()
}
