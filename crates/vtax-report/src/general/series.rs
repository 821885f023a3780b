//! What happened over time within trials: intervals, single requests, probes.
//!
//! Everything is streamed from the trials' files and reduced on the way, so that a run of any
//! length takes little memory.

use std::collections::{BTreeMap, BTreeSet};

use vtax_load::{Interval, LatencyHistogram, Sample};
use vtax_plan::model::EnvironmentKind;
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::{ProbeRow, RunDir, StoreError, TrialDir};

use super::memory::Footprint;
use super::trial::load;
use crate::data::RunData;
use crate::plot::panel::Heat;

/// Points of a line: seconds since the start of the recorded time, and value.
pub(crate) type Points = Vec<(f64, f64)>;

/// One trial over time.
#[derive(Debug, Default)]
pub(crate) struct TrialSeries {
    pub(crate) index: u32,
    pub(crate) cell: String,
    pub(crate) measure: String,
    pub(crate) valid: bool,
    pub(crate) seconds: f64,
    /// Successful answers per second.
    pub(crate) goodput: Points,
    /// Median latency in nanoseconds.
    pub(crate) p50: Points,
    /// 99th percentile.
    pub(crate) p99: Points,
}

/// Intervals of every trial that has them; what can't be read is told in `damage`.
pub(crate) fn intervals(run: &RunDir, data: &RunData, damage: &mut Vec<String>) -> Vec<TrialSeries> {
    let mut all = Vec::new();
    for record in &data.trials {
        let Some(load) = load(record) else { continue };
        let mut series = TrialSeries {
            index: record.index,
            cell: record.cell.clone(),
            measure: record.measure.clone(),
            valid: record.validity == Validity::Valid,
            // Intervals are of everything recorded, the load of what was kept.
            seconds: load.duration.as_secs_f64() + record.cut().as_secs_f64(),
            ..TrialSeries::default()
        };
        let mut found: Vec<Interval> = Vec::new();
        note(run.trial(record.index).for_each_interval(|i| found.push(i)), damage);
        stairs(&found, &mut series);
        if !series.p50.is_empty() {
            all.push(series);
        }
    }
    all
}

/// Answers that a point of a line is made of, about: of fewer, neighbours differ by chance alone.
const ANSWERS: f64 = 20.0;

/// So many intervals at once, with where they begin and end.
fn chunks(found: &[Interval], together: usize, end: f64) -> impl Iterator<Item = (&[Interval], f64, f64)> {
    let start = |chunk: &[Interval]| chunk[0].start.as_secs_f64();
    let ends = found.chunks(together).skip(1).map(start).chain([end]);
    found.chunks(together).zip(ends).map(move |(chunk, end)| (chunk, start(chunk), end))
}

/// The intervals that tell of a rate, and where they end: the last also has all answers that were waited for after its end, so that it
/// tells of none. Where it is the only one, it is the whole trial, whose answers all count.
fn with_rates(found: &[Interval], seconds: f64) -> (&[Interval], f64) {
    match found {
        [others @ .., last] if !others.is_empty() => (others, last.start.as_secs_f64()),
        only => (only, seconds),
    }
}

/// Draws intervals as stairs, as a value holds for its whole interval; where they have few answers, several at once.
/// Neighbours share a 99th percentile until it has a request beyond it: before, it would be the maximum.
fn stairs(found: &[Interval], series: &mut TrialSeries) {
    let answers: u64 = found.iter().map(|i| i.latency.len()).sum();
    let per_interval = answers as f64 / found.len().max(1) as f64;
    let together = if per_interval > 0.0 { (ANSWERS / per_interval).ceil() as usize } else { found.len() };
    let together = together.max(1);
    let mut tail: Option<(f64, LatencyHistogram)> = None;
    let stair =
        |points: &mut Points, from: f64, to: f64, value: f64| points.extend([(from, value), (to, value)]);
    let (rated, rated_until) = with_rates(found, series.seconds);
    for (chunk, start, end) in chunks(rated, together, rated_until) {
        let ok: u64 = chunk.iter().map(|i| i.counts.ok).sum();
        stair(&mut series.goodput, start, end, ok as f64 / (end - start));
    }
    for (chunk, start, end) in chunks(found, together, series.seconds) {
        let mut h = LatencyHistogram::new();
        chunk.iter().for_each(|i| h.add(&i.latency));
        let p50 = if h.len() > 1 { h.quantile(0.5).0 as f64 } else { f64::NAN };
        stair(&mut series.p50, start, end, p50);
        let (from, mut merged) = tail.take().unwrap_or_else(|| (start, LatencyHistogram::new()));
        merged.add(&h);
        if merged.len() >= 100 {
            stair(&mut series.p99, from, end, merged.quantile(0.99).0 as f64);
        } else {
            tail = Some((from, merged));
        }
    }
}

/// Columns of a heat map.
const COLUMNS: usize = 100;
/// Rows per doubling of latency.
const PER_OCTAVE: usize = 8;
/// Rows that an hour of nanoseconds fits into; longer latencies are in the last.
const ROWS: usize = 42 * PER_OCTAVE;

/// Requests of all valid trials of one cell and measure, by time and latency.
#[derive(Debug)]
pub(crate) struct Density {
    pub(crate) cell: String,
    pub(crate) measure: String,
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    cells: Vec<u64>,
}

impl Density {
    fn add(&mut self, s: Sample, column_per_ns: f64) {
        let column = ((s.start_ns as f64 * column_per_ns) as usize).min(COLUMNS - 1);
        self.cells[column * ROWS + row(s.latency_ns)] += 1;
    }

    /// Lowest and highest latency with a request, in nanoseconds.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let used = |r: &usize| (0..COLUMNS).any(|c| self.cells[c * ROWS + r] > 0);
        let low = (0..ROWS).find(used)?;
        let high = (0..ROWS).rev().find(used)?;
        Some((row_start(low), row_start(high + 1)))
    }

    /// The part between two latencies.
    pub(crate) fn heat(&self, low: f64, high: f64) -> Heat {
        let rows: Vec<usize> =
            (0..ROWS).filter(|r| row_start(*r) >= low * 0.999 && row_start(r + 1) <= high * 1.001).collect();
        let column = |c: usize| rows.iter().map(|r| self.cells[c * ROWS + r]).collect();
        Heat { counts: (0..COLUMNS).map(column).collect() }
    }
}

/// Row of a latency: its octave, and within it the three bits below the leading one.
fn row(latency_ns: u64) -> usize {
    let v = latency_ns.max(8);
    let octave = v.ilog2();
    let row = (octave as usize) * PER_OCTAVE + ((v >> (octave - 3)) & 7) as usize;
    row.min(ROWS - 1)
}

/// Lowest latency of a row, in nanoseconds.
fn row_start(row: usize) -> f64 {
    let (octave, part) = (row / PER_OCTAVE, row % PER_OCTAVE);
    2f64.powi(i32::try_from(octave).unwrap_or(i32::MAX)) * (1.0 + part as f64 / PER_OCTAVE as f64)
}

/// Heat maps of every cell and measure whose requests were kept, in plan order.
pub(crate) fn densities(run: &RunDir, data: &RunData, damage: &mut Vec<String>) -> Vec<Density> {
    let mut jobs: BTreeMap<(usize, &str), Vec<(&TrialRecord, TrialDir)>> = BTreeMap::new();
    for record in data.trials.iter().filter(|t| t.validity == Validity::Valid) {
        let trial = run.trial(record.index);
        let cell = data.plan.cells.iter().position(|c| c.id == record.cell);
        if let Some(cell) = cell.filter(|_| load(record).is_some() && trial.has_samples()) {
            jobs.entry((cell, &record.measure)).or_default().push((record, trial));
        }
    }
    // Decoding is all there is to do, and trials are independent.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let queue = std::sync::Mutex::new(jobs.values().flatten());
    let results = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let next = queue.lock().map_or(None, |mut q| q.next());
                let Some((record, trial)) = next else { return done };
                done.push((*record, density(record, trial)));
            }
        };
        // This thread works, too: a host that is short of memory gives no others.
        let other = || std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).map_while(|_| other()).collect();
        let own = work();
        others.into_iter().filter_map(|other| other.join().ok()).flatten().chain(own).collect::<Vec<_>>()
    });
    let mut merged: BTreeMap<(usize, String), Density> = BTreeMap::new();
    for (record, result) in results {
        let Some(one) = note(result, damage) else { continue };
        let cell = data.plan.cells.iter().position(|c| c.id == record.cell).unwrap_or(usize::MAX);
        match merged.entry((cell, record.measure.clone())) {
            std::collections::btree_map::Entry::Vacant(e) => {
                e.insert(one);
            }
            std::collections::btree_map::Entry::Occupied(mut e) => {
                let all = e.get_mut();
                all.requests += one.requests;
                all.seconds = all.seconds.max(one.seconds);
                all.cells.iter_mut().zip(one.cells).for_each(|(a, b)| *a += b);
            }
        }
    }
    merged.into_values().collect()
}

fn density(record: &TrialRecord, trial: &TrialDir) -> Result<Density, StoreError> {
    let kept = load(record).map_or(0.0, |l| l.duration.as_secs_f64());
    let seconds = (kept + record.cut().as_secs_f64()).max(1e-3);
    let mut density = Density {
        cell: record.cell.clone(),
        measure: record.measure.clone(),
        seconds,
        requests: 0,
        cells: vec![0; COLUMNS * ROWS],
    };
    let column_per_ns = COLUMNS as f64 / (seconds * 1e9);
    let mut answered = 0;
    trial.for_each_sample(|s| {
        if s.outcome == 0 {
            answered += 1;
            density.add(s, column_per_ns);
        }
    })?;
    density.requests = answered;
    Ok(density)
}

/// What probes saw of one cell in one of its trials.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) cell: String,
    pub(crate) trial: u32,
    pub(crate) seconds: f64,
    /// CPUs busy: whole kernels, and nodes' own processes.
    pub(crate) cpu: Vec<(String, Points)>,
    /// Memory in MiB: in use in a guest, resident in nodes' own processes.
    pub(crate) memory: Vec<(String, Points)>,
    /// Bits per second over all interfaces but loopback, by node and direction.
    pub(crate) network: Vec<(String, Points)>,
}

/// Probes of one trial of each cell: the first valid one with a load, else the first valid one.
pub(crate) fn probes(run: &RunDir, data: &RunData, damage: &mut Vec<String>) -> Vec<Probed> {
    let mut all = Vec::new();
    for cell in &data.plan.cells {
        let valid = || data.trials.iter().filter(|t| t.cell == cell.id && t.validity == Validity::Valid);
        let Some(record) = valid().find(|t| load(t).is_some()).or_else(|| valid().next()) else { continue };
        let Some(nodes) = note(moments(&run.trial(record.index)), damage) else { continue };
        let probed = probed(record, &cell.environment.kind, nodes);
        if !probed.cpu.is_empty() {
            all.push(probed);
        }
    }
    all
}

/// The node that watches the process of the first system's VM from outside, as the runner names it; those of others have the
/// system's name and a dot before that.
const HYPERVISOR: &str = "hypervisor";
/// The first system under test; in a VM cell a guest with a kernel of its own.
const SUT: &str = "sut";

/// The system whose VM's process this node watches from outside; `None` where it is no such node.
fn watched(node: &str) -> Option<&str> {
    if node == HYPERVISOR { Some(SUT) } else { node.strip_suffix(HYPERVISOR)?.strip_suffix('.') }
}

/// Sums of one node at one moment; counters are cumulative.
#[derive(Debug, Default, Clone, Copy)]
struct Moment {
    /// All CPUs of the node's kernel.
    cpu_ns: f64,
    /// The node's own processes or threads.
    tasks_ns: f64,
    /// Theirs.
    processes: Footprint,
    memory: f64,
    received: f64,
    sent: f64,
}

impl Moment {
    fn add(&mut self, r: ProbeRow<'_>) {
        match (r.source.split_once(':').map_or(r.source, |s| s.0), r.metric) {
            (s, "user" | "system" | "irq" | "softirq" | "guest") if s.starts_with("cpu") => {
                self.cpu_ns += r.value;
            }
            ("task", "user" | "system" | "guest") => self.tasks_ns += r.value,
            ("task", metric) => self.processes.add(metric, r.value),
            ("memory", "total") => self.memory += r.value,
            ("memory", "available") => self.memory -= r.value,
            ("if", "rx_bytes") if r.source != "if:lo" => self.received += r.value,
            ("if", "tx_bytes") if r.source != "if:lo" => self.sent += r.value,
            _ => {}
        }
    }
}

type Moments = Vec<(f64, Moment)>;

/// What was seen of each node, by its own clock.
type Nodes = BTreeMap<String, BTreeMap<u64, Moment>>;

fn moments(trial: &TrialDir) -> Result<Nodes, StoreError> {
    let mut nodes = Nodes::new();
    trial.for_each_probe_row(|r| {
        if !nodes.contains_key(r.node) {
            nodes.insert(r.node.to_owned(), BTreeMap::new());
        }
        if let Some(node) = nodes.get_mut(r.node) {
            node.entry(r.at_ns).or_default().add(r);
        }
    })?;
    Ok(nodes)
}

/// Who of the nodes has which kernel.
struct Kernels {
    /// Systems with a kernel of their own, whose process somebody watches from outside.
    guests: BTreeSet<String>,
    /// Who sees the host's kernel.
    host: Option<String>,
}

impl Kernels {
    /// `beside_guest`: the system under test is on the host's kernel, but another node is a guest.
    fn of(nodes: &Nodes, beside_guest: bool) -> Self {
        let guests = nodes.keys().filter_map(|node| watched(node));
        let guests = guests.filter(|guest| nodes.contains_key(*guest)).map(str::to_owned).collect();
        let first = |is: &dyn Fn(&str) -> bool| nodes.keys().find(|node| is(node));
        // Who watches a guest from outside sees the host's. Else the client does, as the system under test may be on another machine;
        // but where the client is in a guest, the system does.
        let host = first(&|node| watched(node).is_some())
            .or_else(|| first(&|node| (node == SUT) == beside_guest))
            .or_else(|| nodes.keys().next());
        Self { guests, host: host.cloned() }
    }

    /// What a guest's figures are called, or those of its machine: by its name too where there are several.
    fn named(&self, what: &str, between: &str, guest: &str) -> String {
        if self.guests.len() > 1 { format!("{what}{between}{guest}") } else { what.to_owned() }
    }
}

/// What there is to draw of a trial in an environment of this kind.
fn probed(record: &TrialRecord, kind: &EnvironmentKind, nodes: Nodes) -> Probed {
    let mut probed = Probed {
        cell: record.cell.clone(),
        trial: record.index,
        seconds: 0.0,
        cpu: Vec::new(),
        memory: Vec::new(),
        network: Vec::new(),
    };
    let (machine, is_guest) = match kind {
        EnvironmentKind::Uml => ("user-mode Linux", true),
        EnvironmentKind::Vm(_) => ("QEMU", true),
        EnvironmentKind::Native | EnvironmentKind::Container => ("QEMU", false),
    };
    let kernels = Kernels::of(&nodes, !is_guest && record.accelerator.is_some());
    for (node, moments) in nodes {
        // Each kernel has a clock of its own: what they share is the start of the trial.
        let Some((&first, _)) = moments.first_key_value() else { continue };
        let moments: Moments =
            moments.into_iter().map(|(at, m)| ((at.saturating_sub(first)) as f64 / 1e9, m)).collect();
        probed.seconds = probed.seconds.max(moments.last().map_or(0.0, |m| m.0));
        // A node without a kernel of its own sees the host's figures: they are shown once.
        if kernels.guests.contains(&node) {
            let whole = kernels.named("whole guest", " ", &node);
            probed.cpu.push((whole.clone(), rate(&moments, |m| m.cpu_ns, 1e-9)));
            probed.memory.push((whole, level(&moments, |m| m.memory)));
        } else if kernels.host.as_ref() == Some(&node) {
            probed.cpu.push(("whole host".to_owned(), rate(&moments, |m| m.cpu_ns, 1e-9)));
        }
        let guest = watched(&node);
        let own = match guest {
            Some(guest) => kernels.named(machine, " of ", guest),
            None => format!("{node}'s own"),
        };
        if moments.iter().any(|m| m.1.tasks_ns > 0.0) {
            probed.cpu.push((own.clone(), rate(&moments, |m| m.tasks_ns, 1e-9)));
        }
        if moments.iter().any(|m| m.1.processes.total() > 0.0) {
            probed.memory.push((own, level(&moments, |m| m.processes.total())));
        }
        // A hypervisor's interfaces are the switch's ports, which say the same again.
        if guest.is_none() {
            probed.network.push((format!("{node} receives"), rate(&moments, |m| m.received, 8.0)));
            probed.network.push((format!("{node} sends"), rate(&moments, |m| m.sent, 8.0)));
        }
    }
    probed
}

/// A counter's growth per second, times `factor`.
fn rate(moments: &Moments, of: fn(&Moment) -> f64, factor: f64) -> Points {
    let growth = |w: &[(f64, Moment)]| (of(&w[1].1) - of(&w[0].1)).max(0.0) / (w[1].0 - w[0].0) * factor;
    moments.windows(2).map(|w| (w[1].0, growth(w))).collect()
}

/// A level in MiB.
fn level(moments: &Moments, of: fn(&Moment) -> f64) -> Points {
    moments.iter().map(|(t, m)| (*t, of(m) / 1_048_576.0)).collect()
}

/// A trial's file that can't be read must not keep the rest of the run from its report.
fn note<T>(result: Result<T, StoreError>, damage: &mut Vec<String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            damage.push(error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vtax_load::Counts;
    use vtax_units::Nanos;

    /// Two seconds of `n` answers in each interval of 50 ms, every fifth of them slow.
    fn course(n: u64) -> TrialSeries {
        drained(40, n, n)
    }

    /// So many such intervals, the last of which has another number of answers.
    fn drained(intervals: u64, n: u64, last: u64) -> TrialSeries {
        let interval = |i: u64| {
            let n = if i + 1 == intervals { last } else { n };
            let mut latency = LatencyHistogram::new();
            (0..n).for_each(|k| {
                latency.record(Nanos::from_millis(if (i * n + k).is_multiple_of(5) { 9 } else { 1 }))
            });
            Interval {
                start: Nanos::from_millis(i * 50),
                counts: Counts { ok: n, ..Counts::default() },
                latency,
                begun: None,
            }
        };
        let found: Vec<Interval> = (0..intervals).map(interval).collect();
        let mut series = TrialSeries { seconds: intervals as f64 * 0.05, ..TrialSeries::default() };
        stairs(&found, &mut series);
        series
    }

    #[test]
    fn few_answers_are_drawn_together() {
        let slow = course(1);
        // One second each: two points for each end of a stair.
        assert_eq!((slow.p50.len(), slow.goodput.len()), (4, 4));
        assert!(slow.goodput.iter().all(|p| (p.1 - 20.0).abs() < 1e-9), "{:?}", slow.goodput);
        assert!(slow.p50.iter().all(|p| p.1 < 2e6), "{:?}", slow.p50);
        assert_eq!(course(20).p50.len(), 80);
    }

    #[test]
    fn answers_that_were_waited_for_after_the_end_are_no_spike() {
        // One interval a stair, and several.
        for n in [20, 1] {
            let goodput = drained(40, n, 10 * n).goodput;
            let rate = n as f64 * 20.0;
            assert!(goodput.iter().all(|p| (p.1 - rate).abs() < 1e-9), "{goodput:?}");
            assert!(goodput.last().is_some_and(|p| (p.0 - 1.95).abs() < 1e-9), "{goodput:?}");
        }
        // Their latency is as any other's.
        assert_eq!(drained(40, 20, 200).p50.last().map(|p| p.0), Some(2.0));
        // All answers of a trial of one interval.
        assert_eq!(drained(1, 0, 20).goodput, [(0.0, 400.0), (0.05, 400.0)]);
    }

    /// What these nodes' probes are called in the pictures: of CPUs, of memory, and who has a network.
    fn drawn(names: &[&str], kind: &EnvironmentKind, accelerator: Option<&str>) -> [Vec<String>; 3] {
        let moment = |n: f64| Moment { cpu_ns: n, tasks_ns: n, received: n, sent: n, ..Moment::default() };
        let course = || BTreeMap::from([(0, moment(1e9)), (1_000_000_000, moment(2e9))]);
        let nodes: Nodes = names.iter().map(|name| ((*name).to_owned(), course())).collect();
        let record = TrialRecord { accelerator: accelerator.map(str::to_owned), ..TrialRecord::default() };
        let found = probed(&record, kind, nodes);
        let labels =
            |lines: &[(String, Points)]| lines.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>();
        let receives = |label: String| label.strip_suffix(" receives").map(str::to_owned);
        let network = labels(&found.network).into_iter().filter_map(receives).collect();
        [labels(&found.cpu), labels(&found.memory), network]
    }

    #[test]
    fn every_guest_and_every_hypervisor_is_told_as_one() {
        let [cpu, memory, network] =
            drawn(&["client", "hypervisor", "sut"], &EnvironmentKind::Uml, Some("tcg"));
        assert_eq!(cpu, ["client's own", "whole host", "user-mode Linux", "whole guest", "sut's own"]);
        assert_eq!(memory, ["whole guest"]);
        assert_eq!(network, ["client", "sut"]);
        let nodes = ["client", "hypervisor", "sut", "sut-2", "sut-2.hypervisor"];
        let [cpu, memory, network] = drawn(&nodes, &EnvironmentKind::Uml, None);
        let expected = [
            "client's own",
            "whole host",
            "user-mode Linux of sut",
            "whole guest sut",
            "sut's own",
            "whole guest sut-2",
            "sut-2's own",
            "user-mode Linux of sut-2",
        ];
        assert_eq!(cpu, expected);
        assert_eq!(memory, ["whole guest sut", "whole guest sut-2"]);
        assert_eq!(network, ["client", "sut", "sut-2"], "a hypervisor's interfaces are the switch's ports");
    }

    #[test]
    fn a_client_in_a_guest_is_not_the_host() {
        for kind in [EnvironmentKind::Native, EnvironmentKind::Container] {
            let [cpu, ..] = drawn(&["client", "sut"], &kind, Some("tcg"));
            assert_eq!(cpu, ["client's own", "whole host", "sut's own"]);
            // The system may be on another machine.
            let [cpu, ..] = drawn(&["client", "sut"], &kind, None);
            assert_eq!(cpu, ["whole host", "client's own", "sut's own"]);
        }
        // A guest whose machine nobody watches from here is no host either.
        let [cpu, ..] = drawn(&["client", "sut"], &EnvironmentKind::Uml, Some("tcg"));
        assert_eq!(cpu, ["whole host", "client's own", "sut's own"]);
        let [cpu, ..] = drawn(&["sut"], &EnvironmentKind::Native, None);
        assert_eq!(cpu, ["whole host", "sut's own"]);
    }

    proptest! {
        #[test]
        fn a_latency_lies_in_its_row(ns in 8u64..1 << 42) {
            let r = row(ns);
            prop_assert!(r < ROWS);
            prop_assert!(row_start(r) <= ns as f64 && (ns as f64) < row_start(r + 1));
        }
    }
}
