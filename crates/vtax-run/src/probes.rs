//! What watches a measurement: probes inside both nodes, and on the host outside of them.

use std::collections::BTreeMap;
use std::time::Duration;

use vtax_agent::Client;
use vtax_lab::{Node, Sut, Testbed};
use vtax_probe::delta::{Interval, counter};
use vtax_probe::layers::{CpuBreakdown, Hosting, break_down, break_down_shared, sum, time_of_tasks};
use vtax_probe::noise::{HostProbe, HostState};
use vtax_probe::others::Others;
use vtax_probe::{DiskCounters, FrequencyWatch, Probe, Sampler, Scope, Snapshot, Workers};
use vtax_sys::chain;
use vtax_sys::clock::unix_time;
use vtax_units::{CpuSet, Nanos};

/// Below this, CPU times counted in ticks of 10 ms are too coarse to draw.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(200);
const LONGEST_INTERVAL: Nanos = Nanos::from_secs(1);
/// Time that an agent has to show that it still answers, where not all could be looked at.
const STILL_THERE: Duration = Duration::from_secs(2);

/// How often nodes are sampled during a measurement: every second, more often where that would leave
/// fewer than eight samples to see a change in.
pub(crate) fn interval(duration: Nanos) -> Nanos {
    Nanos((duration.0 / 8).clamp(SHORTEST_INTERVAL.0, LONGEST_INTERVAL.0))
}

/// What a node is in its testbed, whichever of two that is: `client`, `sut`, `sut-2`.
pub(crate) fn role(name: &str) -> &str {
    name.strip_suffix("-b").unwrap_or(name)
}

/// Nanoseconds since 1970.
fn unix_ns() -> i64 {
    i64::try_from(unix_time().0).unwrap_or(i64::MAX)
}

/// The probes of one measurement: inside the nodes, and outside on the host.
pub(crate) struct Probes {
    host: HostProbe,
    pub(crate) host_start: HostState,
    /// One for each system under test, in the testbed's order.
    accounts: Vec<Account>,
    start: Marks,
    /// CPUs of all systems under test.
    pub(crate) sut_cpus: CpuSet,
    /// Where the generator is on these CPUs, too.
    run: Option<WholeRun>,
    clock: Option<FrequencyWatch>,
    pub(crate) frequencies: Vec<u64>,
    /// By node.
    pub(crate) series: Vec<(String, Vec<Snapshot>)>,
    /// By node: nanoseconds from its clock to the time since 1970.
    pub(crate) clocks: BTreeMap<String, i64>,
}

/// CPU time by layer of the systems under test.
pub(crate) struct CpuTime {
    /// Of those that the cell measures, together.
    pub(crate) whole: CpuBreakdown,
    /// Of each, those beside included, by its name; empty where there is but one.
    pub(crate) each: Vec<(String, CpuBreakdown)>,
    /// Of the tasks of each, in the testbed's order: without interrupts, but for those that were charged to them.
    tasks: Vec<Nanos>,
    /// Of all that the run does, where all of it is on the systems' CPUs.
    pub(crate) run: Option<Nanos>,
}

impl CpuTime {
    /// Of all systems, those beside included.
    pub(crate) fn of_all(&self) -> Nanos {
        let each = self.each.iter().map(|(_, cpu)| cpu.total().0).fold(0, u64::saturating_add);
        if self.each.is_empty() { self.whole.total() } else { Nanos(each) }
    }

    /// Of the tasks of the system with this number in the testbed, as clocks of processes have it.
    pub(crate) fn of_tasks(&self, number: usize) -> Nanos {
        self.tasks.get(number).copied().unwrap_or_default()
    }

    /// What of the systems' CPUs no stranger took; `systems` is what is known of the systems themselves, a partner's included.
    pub(crate) fn ours(&self, systems: Nanos) -> Nanos {
        self.run.map_or(systems, |run| run.max(systems))
    }
}

/// What was answered while probes watched, for CPU time per request.
pub(crate) struct Answered<'a> {
    /// By all systems that the cell measures.
    pub(crate) whole: u64,
    /// By each system that was asked, by its name; empty where there is but one.
    pub(crate) each: &'a [(String, u64)],
    /// How many systems the cell measures; those beside come after them.
    pub(crate) systems: usize,
}

/// The CPU account of one system under test.
struct Account {
    /// What the node is in its testbed: `sut`, `sut-2`. Its hypervisor is `hypervisor`, `sut-2.hypervisor`.
    name: String,
    cpus: CpuSet,
    hypervisor: Option<Hypervisor>,
    /// Of processes outside of it that carry its packets.
    carriers: Option<Probe>,
}

/// A system under test at one moment: as it sees itself and from outside.
pub(crate) struct Mark {
    inner: Snapshot,
    outside: Outside,
}

/// A system under test as the host sees it, where there is something to see: its hypervisor, and what carries its packets.
#[derive(Default)]
struct Outside {
    hypervisor: Option<Snapshot>,
    carriers: Option<Snapshot>,
}

impl Mark {
    /// Bytes that the system's disks read, and wrote, until a later mark. Natively and in a container these are the host's.
    pub(crate) fn disks_until(&self, end: &Self) -> (u64, u64) {
        let disks = || end.inner.disks.iter().filter(|disk| !disk.is_stacked());
        let before = |name: &str| self.inner.disks.iter().find(|disk| disk.name == name);
        let sum = |of: fn(&DiskCounters) -> u64| {
            let each = |disk: &DiskCounters| counter(before(&disk.name).map_or(0, of), of(disk));
            disks().map(each).fold(0, u64::saturating_add)
        };
        (sum(|disk| disk.read_bytes), sum(|disk| disk.write_bytes))
    }
}

/// The first system under test at one moment, and after it those that are on the same CPUs.
pub(crate) struct Marks(Vec<Mark>);

impl Marks {
    /// As [`Mark::disks_until`], of the first system.
    pub(crate) fn disks_until(&self, end: &Self) -> (u64, u64) {
        let first = self.0.first().zip(end.0.first());
        first.map_or((0, 0), |(start, end)| start.disks_until(end))
    }

    /// The first marks of all systems, from looks that have yet to be made: all from outside, then all from inside. A guest takes
    /// time to answer. What its hypervisor does meanwhile, and while other guests answer, would otherwise count as other processes'.
    fn first(
        outside: impl Iterator<Item = Result<Outside, String>>,
        inner: impl Iterator<Item = Result<Snapshot, String>>,
    ) -> Result<Self, String> {
        let outside: Vec<_> = outside.collect::<Result<_, _>>()?;
        let both = inner.zip(outside);
        both.map(|(inner, outside)| Ok(Mark { inner: inner?, outside })).collect::<Result<_, _>>().map(Self)
    }

    /// Later marks, for the same reason the other way round.
    fn later(
        inner: impl Iterator<Item = Result<Snapshot, String>>,
        outside: impl Iterator<Item = Result<Outside, String>>,
    ) -> Result<Self, String> {
        let inner: Vec<_> = inner.collect::<Result<_, _>>()?;
        let both = inner.into_iter().zip(outside);
        both.map(|(inner, outside)| Ok(Mark { inner, outside: outside? })).collect::<Result<_, _>>().map(Self)
    }
}

/// The run as a whole, where the generator is on the systems' CPUs: what any of it takes there is no stranger's.
struct WholeRun {
    workers: Workers,
    start: Snapshot,
}

impl WholeRun {
    fn start(workers: &Workers) -> Result<Self, String> {
        Ok(Self { start: Self::look(workers)?, workers: workers.clone() })
    }

    /// This process, the controller, with all that descends from it. A probe that is kept looks for new processes only now and then.
    fn look(workers: &Workers) -> Result<Snapshot, String> {
        let probe = Probe::new(Scope::Processes(vec![std::process::id()])).map_err(|e| chain(&e))?;
        probe.with_workers(workers).snapshot().map_err(|e| chain(&e))
    }

    /// CPU time that it has used since, with the interrupts of these CPUs.
    fn used_until(&self, end: &Snapshot, cpus: &CpuSet) -> Nanos {
        let node = Interval { start: &self.start, end };
        break_down(&Hosting::Processes { node, runtime: None }, cpus, 0).total()
    }
}

impl Account {
    fn open(sut: &Sut, carriers: Vec<u32>, (every, workers): (Nanos, &Workers)) -> Result<Self, String> {
        let carriers = (!carriers.is_empty()).then(|| Probe::new(Scope::Processes(carriers)));
        Ok(Self {
            name: role(sut.node.name()).to_owned(),
            cpus: sut.cpus.clone(),
            hypervisor: Hypervisor::start(&sut.node, every, workers)?,
            carriers: carriers.transpose().map_err(|e| chain(&e))?,
        })
    }

    fn hypervisor_name(&self) -> String {
        match self.name.as_str() {
            "sut" => "hypervisor".to_owned(),
            other => format!("{other}.hypervisor"),
        }
    }

    fn look_from_outside(&mut self) -> Result<Outside, String> {
        let carriers = self.carriers.as_mut().map(|probe| probe.snapshot().map_err(|e| chain(&e)));
        let hypervisor = self.hypervisor.as_mut().map(Hypervisor::snapshot);
        Ok(Outside { carriers: carriers.transpose()?, hypervisor: hypervisor.transpose()? })
    }

    /// What was seen of it between two marks.
    fn hosting<'a>(&'a self, start: &'a Mark, end: &'a Mark) -> Hosting<'a> {
        let inner = Interval { start: &start.inner, end: &end.inner };
        let (start, end) = (&start.outside, &end.outside);
        let carriers = start.carriers.as_ref().zip(end.carriers.as_ref());
        let runtime = carriers.map(|(start, end)| Interval { start, end });
        match (&self.hypervisor, &start.hypervisor, &end.hypervisor) {
            // What a user-mode Linux accounts is a part of what its processes take of the host.
            (Some(Hypervisor { of_uml: true, .. }), Some(start), Some(end)) => {
                Hosting::Processes { node: Interval { start, end }, runtime }
            }
            (Some(hypervisor), Some(start), Some(end)) => {
                let vcpus = &hypervisor.vcpus;
                Hosting::Guest { guest: inner, hypervisor: Interval { start, end }, vcpus }
            }
            _ => Hosting::Processes { node: inner, runtime },
        }
    }

    /// Hands over the samples. Those from outside don't need the agent.
    fn close(&mut self, agent: &Client, series: &mut Vec<(String, Vec<Snapshot>)>) -> Result<(), String> {
        let inner = agent.stop_probes().map_err(|e| chain(&e));
        let inner = inner.map(|samples| series.push((self.name.clone(), samples)));
        self.close_outside(series);
        inner
    }

    /// Hands over the samples of its hypervisor.
    fn close_outside(&mut self, series: &mut Vec<(String, Vec<Snapshot>)>) {
        let name = self.hypervisor_name();
        let hypervisor = self.hypervisor.take();
        series.extend(hypervisor.map(|hypervisor| (name, hypervisor.sampler.stop().snapshots)));
    }
}

/// All these systems now.
fn marks(accounts: &mut [Account], agents: &[Client]) -> Result<Marks, String> {
    let inner = agents.iter().take(accounts.len()).map(|agent| agent.snapshot().map_err(|e| chain(&e)));
    Marks::later(inner, accounts.iter_mut().map(Account::look_from_outside))
}

/// QEMU, or a user-mode Linux, as the host sees it.
struct Hypervisor {
    probe: Probe,
    sampler: Sampler,
    vcpus: Vec<u32>,
    of_uml: bool,
}

impl Hypervisor {
    fn start(node: &Node, every: Nanos, workers: &Workers) -> Result<Option<Self>, String> {
        let Some(found) = node.hypervisor().map_err(|e| chain(&e))? else { return Ok(None) };
        let vtax_lab::Hypervisor { pid, vcpus } = found;
        let of_uml = node.kind() == "uml";
        let scope = || if of_uml { Scope::Processes(vec![pid]) } else { Scope::Threads(pid) };
        let workers = workers.of(pid);
        let probe = || Probe::new(scope()).map(|p| p.with_workers(&workers)).map_err(|e| chain(&e));
        let sampler = Sampler::start(probe()?, every).map_err(|e| chain(&e))?;
        Ok(Some(Self { probe: probe()?, sampler, vcpus, of_uml }))
    }

    fn snapshot(&mut self) -> Result<Snapshot, String> {
        self.probe.snapshot().map_err(|e| chain(&e))
    }
}

impl Probes {
    /// Takes the first snapshots and starts sampling at this interval. `others` sees the host's kernel threads.
    pub(crate) fn start(
        (client, suts): (&Client, &[Client]),
        testbed: &Testbed,
        every: Nanos,
        others: Option<&Others>,
    ) -> Result<Self, String> {
        for agent in suts.iter().chain([client]) {
            agent.start_probes(every).map_err(|e| chain(&e))?;
        }
        let sut_cpus = CpuSet::of(testbed.suts.iter().flat_map(|sut| sut.cpus.iter()));
        let guests = testbed.nodes().any(|node| node.vm().is_some());
        let workers = others.filter(|_| guests).map(Others::workers).unwrap_or_default();
        let mut host = HostProbe::new(sut_cpus.clone()).map_err(|e| chain(&e))?;
        let (_, client_clock) = with_clock(client)?;
        let mut clocks = BTreeMap::from([(role(testbed.client.name()).to_owned(), client_clock)]);
        // Only the first system can have any.
        let mut carriers = testbed.path_processes();
        let open = |sut| Account::open(sut, std::mem::take(&mut carriers), (every, &workers));
        let mut accounts = testbed.suts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let host_start = host.read().map_err(|e| chain(&e))?;
        let everything_is_there = testbed.allocation.client.overlaps(&sut_cpus);
        let run = everything_is_there.then(|| WholeRun::start(&workers)).transpose()?;
        let start = first_marks(&mut accounts, suts, &mut clocks)?;
        let clock = FrequencyWatch::start(&sut_cpus);
        let (frequencies, series) = (Vec::new(), Vec::new());
        Ok(Self { host, host_start, accounts, start, sut_cpus, run, clock, frequencies, series, clocks })
    }

    /// The first system under test now; `suts` are the agents of all.
    pub(crate) fn mark(&mut self, suts: &[Client]) -> Result<Marks, String> {
        // Of those on other CPUs nothing has to be known.
        let count = if share_cpus(&self.accounts) { self.accounts.len() } else { 1 };
        marks(&mut self.accounts[..count], suts)
    }

    /// CPU time of the first system between two marks by layer, spent on that many requests.
    pub(crate) fn between(&self, start: &Marks, end: &Marks, requests: u64) -> CpuBreakdown {
        of_first(&self.accounts, start, end, requests)
    }

    /// CPU time by layer, and the host as it is now. `others` is told what the systems' tasks took, and tells what those of another
    /// testbed on the same CPUs did; `None` where there is none. Samples are kept also where a system can't be looked at any more.
    pub(crate) fn stop(
        &mut self,
        client: &Client,
        suts: &[Client],
        answered: &Answered<'_>,
        others: impl FnOnce(Nanos) -> Option<Nanos>,
    ) -> Result<(CpuTime, HostState), String> {
        match self.look_back(suts, answered, others) {
            Ok(found) => self.close(client, suts, |_| true).map(|()| found),
            Err(error) => {
                // One that was silent just now isn't waited for as long again. Of what else is missing the first is told.
                let _ = self.close(client, suts, |agent| agent.hello(STILL_THERE).is_ok());
                Err(error)
            }
        }
    }

    /// The host as it is now. Its clock frequency isn't watched any longer.
    pub(crate) fn host_now(&mut self) -> Result<HostState, String> {
        if let Some(clock) = self.clock.take() {
            self.frequencies = clock.stop();
        }
        self.host.read().map_err(|e| chain(&e))
    }

    /// CPU time by layer, and the host as it is now; `others` is as in [`stop`](Self::stop).
    fn look_back(
        &mut self,
        suts: &[Client],
        answered: &Answered<'_>,
        others: impl FnOnce(Nanos) -> Option<Nanos>,
    ) -> Result<(CpuTime, HostState), String> {
        let ends = marks(&mut self.accounts, suts)?;
        let run_end = self.run.as_ref().map(|run| WholeRun::look(&run.workers)).transpose()?;
        let host_end = self.host_now()?;
        let mut cpu = self.account(&ends, answered, others);
        cpu.run = self.run.as_ref().zip(run_end).map(|(run, end)| run.used_until(&end, &self.sut_cpus));
        Ok((cpu, host_end))
    }

    /// Hands over the samples of all, of systems from inside where the agent `answers`; what went wrong first.
    fn close(
        &mut self,
        client: &Client,
        suts: &[Client],
        answers: impl Fn(&Client) -> bool,
    ) -> Result<(), String> {
        let mut closed = Ok(());
        for (account, agent) in self.accounts.iter_mut().zip(suts) {
            if answers(agent) {
                closed = closed.and(account.close(agent, &mut self.series));
            } else {
                account.close_outside(&mut self.series);
            }
        }
        let of_client = client.stop_probes().map_err(|e| chain(&e));
        closed.and(of_client.map(|samples| self.series.push(("client".into(), samples))))
    }

    /// What each system used from the first snapshots to these, and all that the cell measures together.
    fn account(
        &self,
        ends: &Marks,
        answered: &Answered<'_>,
        others: impl FnOnce(Nanos) -> Option<Nanos>,
    ) -> CpuTime {
        let marks = self.accounts.iter().zip(self.start.0.iter().zip(&ends.0));
        let is_alone = self.accounts.len() == 1;
        let requests = |name: &str| match is_alone {
            true => answered.whole,
            false => answered.each.iter().find(|(of, _)| of == name).map_or(0, |(_, n)| *n),
        };
        let seen = marks.map(|(own, (start, end))| (own.hosting(start, end), requests(&own.name)));
        let seen: Vec<_> = seen.collect();
        let tasks = seen.iter().map(|one| time_of_tasks(std::slice::from_ref(one))).collect();
        let others = others(time_of_tasks(&seen));
        let mut found = if others.is_some() || (!is_alone && share_cpus(&self.accounts)) {
            break_down_shared(&seen, &self.sut_cpus, others.unwrap_or_default())
        } else {
            let own = |(account, (hosting, requests)): (&Account, &_)| {
                break_down(hosting, &account.cpus, *requests)
            };
            self.accounts.iter().zip(&seen).map(own).collect()
        };
        if is_alone {
            return CpuTime { whole: found.pop().unwrap_or_default(), each: Vec::new(), tasks, run: None };
        }
        let own: Vec<&CpuBreakdown> = found.iter().take(answered.systems).collect();
        let whole = CpuBreakdown { requests: answered.whole, ..sum(&own) };
        let names = self.accounts.iter().map(|account| account.name.clone());
        CpuTime { whole, each: names.zip(found).collect(), tasks, run: None }
    }
}

/// Whether all are on the same CPUs, so that they divide the interrupts of these.
fn share_cpus(accounts: &[Account]) -> bool {
    accounts.windows(2).all(|pair| pair[0].cpus == pair[1].cpus)
}

/// CPU time of the first system between two marks.
fn of_first(accounts: &[Account], start: &Marks, end: &Marks, requests: u64) -> CpuBreakdown {
    let marks = accounts.iter().zip(start.0.iter().zip(&end.0));
    let seen: Vec<_> = marks.map(|(account, (start, end))| (account.hosting(start, end), requests)).collect();
    // There is one in every testbed.
    let cpus = &accounts[0].cpus;
    match seen.as_slice() {
        [(only, _)] => break_down(only, cpus, requests),
        several => break_down_shared(several, cpus, Nanos::ZERO).into_iter().next().unwrap_or_default(),
    }
}

/// The first marks of all systems, and the clocks that they were taken by.
fn first_marks(
    accounts: &mut [Account],
    agents: &[Client],
    clocks: &mut BTreeMap<String, i64>,
) -> Result<Marks, String> {
    let names: Vec<_> = accounts.iter().map(|account| account.name.clone()).collect();
    let mut of_hypervisors = BTreeMap::new();
    let outside = accounts.iter_mut().map(|account| {
        let seen = account.look_from_outside()?;
        let clock = seen.hypervisor.as_ref().map(|seen| unix_ns() - seen.at.0.cast_signed());
        of_hypervisors.extend(clock.map(|clock| (account.hypervisor_name(), clock)));
        Ok(seen)
    });
    let inner = agents.iter().zip(names).map(|(agent, name)| {
        let (inner, clock) = with_clock(agent)?;
        clocks.insert(name, clock);
        Ok(inner)
    });
    let marks = Marks::first(outside, inner)?;
    clocks.extend(of_hypervisors);
    Ok(marks)
}

/// A node's snapshot and its clock: a guest has one of its own, and its answer is as old as half of the time
/// it took.
fn with_clock(node: &Client) -> Result<(Snapshot, i64), String> {
    let asked = unix_ns();
    let snapshot = node.snapshot().map_err(|e| chain(&e))?;
    let clock = asked + (unix_ns() - asked) / 2 - snapshot.at.0.cast_signed();
    Ok((snapshot, clock))
}

#[cfg(test)]
mod tests {
    use vtax_probe::noise::disturbance;
    use vtax_probe::{CpuTimes, TaskTimes};

    use super::*;
    use crate::noise::is_too_much;

    const MS: u64 = 1_000_000;

    /// CPU 1 after a second, of which tasks took so much, interrupts so much, and it was idle the rest.
    fn seen(tasks: &[u64], busy: u64, interrupts: u64) -> Snapshot {
        let cpu = CpuTimes {
            cpu: 1,
            user: Nanos(busy * MS),
            softirq: Nanos(interrupts * MS),
            idle: Nanos((1_000 - busy - interrupts) * MS),
            ..CpuTimes::default()
        };
        let task = |(id, used): (u32, &u64)| TaskTimes { id, user: Nanos(used * MS), ..TaskTimes::default() };
        let tasks = (1..).zip(tasks).map(task).collect();
        Snapshot { at: Nanos(1_000 * MS), cpus: vec![cpu], tasks, ..Snapshot::default() }
    }

    fn nothing() -> Snapshot {
        Snapshot { cpus: vec![CpuTimes { cpu: 1, ..CpuTimes::default() }], ..Snapshot::default() }
    }

    fn mark(inner: Snapshot) -> Mark {
        Mark { inner, outside: Outside::default() }
    }

    fn account(name: &str) -> Account {
        let cpus = CpuSet::of([1]);
        Account { name: name.to_owned(), cpus, hypervisor: None, carriers: None }
    }

    #[test]
    fn with_one_cpu_the_generator_is_no_stranger() {
        let cpus = CpuSet::of([1]);
        // The service took 300 ms, the generator 400, the controller 20; interrupts 60.
        let (start, end) = (nothing(), seen(&[300, 400, 20], 720, 60));
        let state = |snapshot: &Snapshot| HostState { snapshot: snapshot.clone(), ..HostState::default() };
        let found = |cpu: &CpuTime, end: &Snapshot| {
            let ours = cpu.ours(cpu.of_all());
            disturbance(&state(&start), &state(end), &cpus, ours)
        };
        let (sut, from, to) = (account("sut"), mark(nothing()), mark(seen(&[300], 720, 60)));
        let whole = break_down(&sut.hosting(&from, &to), &cpus, 1);
        let apart = CpuTime { whole, each: Vec::new(), tasks: Vec::new(), run: None };
        assert!(is_too_much(&found(&apart, &end), false), "on CPUs of the system's own it would be one");
        let run = WholeRun { workers: Workers::default(), start: nothing() };
        let together = CpuTime { run: Some(run.used_until(&end, &cpus)), ..apart };
        assert_eq!(found(&together, &end).reasons, Vec::<String>::new());
        // A stranger's 150 ms are told beside.
        let noise = found(&together, &seen(&[], 870, 60));
        assert!((noise.foreign - 0.15).abs() < 1e-9 && is_too_much(&noise, false), "{noise:?}");
    }

    /// Probes of one system whose hypervisor has ended, on CPU 1.
    fn probes_of_the_dead(sys: &std::path::Path) -> Probes {
        let cpus = CpuSet::of([1]);
        let mut host = HostProbe::new(cpus.clone()).unwrap();
        let host_start = host.read().unwrap();
        let mut qemu = std::process::Command::new("true").spawn().unwrap();
        let probe = Probe::new(Scope::Threads(qemu.id())).unwrap();
        qemu.wait().unwrap();
        let own = Probe::new(Scope::Threads(std::process::id())).unwrap();
        let sampler = Sampler::start(own, LONGEST_INTERVAL).unwrap();
        let hypervisor = Some(Hypervisor { probe, sampler, vcpus: Vec::new(), of_uml: false });
        Probes {
            host,
            host_start,
            accounts: vec![Account { hypervisor, ..account("sut") }],
            start: Marks(vec![mark(nothing())]),
            clock: FrequencyWatch::with_root(&cpus, sys),
            sut_cpus: cpus,
            run: None,
            frequencies: Vec::new(),
            series: Vec::new(),
            clocks: BTreeMap::new(),
        }
    }

    #[test]
    fn where_a_hypervisor_died_the_host_is_known_and_samples_are_kept() {
        let sys = tempfile::tempdir().unwrap();
        let cpu = sys.path().join("devices/system/cpu/cpu1/cpufreq");
        std::fs::create_dir_all(&cpu).unwrap();
        std::fs::write(cpu.join("scaling_cur_freq"), "2400000\n").unwrap();
        let mut probes = probes_of_the_dead(sys.path());
        let outside = probes.accounts[0].look_from_outside().err().unwrap();
        assert!(outside.contains("has ended"), "{outside}");
        // Their agents are gone, too.
        let agent = |name| {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            drop(theirs);
            let write = ours.try_clone().unwrap();
            Client::start(name, ours.into(), write.into(), Box::new(|_| {})).unwrap()
        };
        let answered = Answered { whole: 1, each: &[], systems: 1 };
        assert!(probes.stop(&agent("client"), &[agent("sut")], &answered, |_| None).is_err());
        let kept: Vec<_> = probes.series.iter().map(|(of, kept)| (of.as_str(), kept.is_empty())).collect();
        assert_eq!(kept, [("hypervisor", false)]);
        let now = probes.host_now().unwrap();
        assert!(now.snapshot.at >= probes.host_start.snapshot.at && !now.snapshot.cpus.is_empty());
        assert!(probes.frequencies.iter().all(|khz| *khz == 2_400_000) && !probes.frequencies.is_empty());
    }

    /// One of two QEMUs took 300 ms beside interrupts of 60, the other, which is on no account, 200.
    #[test]
    fn interrupts_are_no_time_of_a_pairs_tasks() {
        let guest = |snapshot: Snapshot| Mark {
            outside: Outside { hypervisor: Some(snapshot), ..Outside::default() },
            inner: Snapshot::default(),
        };
        let (start, end) = (guest(nothing()), guest(seen(&[300], 500, 60)));
        let [from, to] = [&start, &end].map(|mark| mark.outside.hypervisor.as_ref().unwrap());
        let (inner, outer) =
            (Interval { start: &start.inner, end: &end.inner }, Interval { start: from, end: to });
        let hosting = Hosting::Guest { guest: inner, hypervisor: outer, vcpus: &[1] };
        let tasks = vec![time_of_tasks(&[(hosting, 1)])];
        let whole = break_down(&hosting, &CpuSet::of([1]), 1);
        let cpu = CpuTime { whole, each: Vec::new(), tasks, run: None };
        assert_eq!((cpu.of_all(), cpu.of_tasks(0)), (Nanos(360 * MS), Nanos(300 * MS)));
        let beyond = 500 * MS - cpu.of_tasks(0).0;
        let ours = cpu.ours(Nanos(cpu.of_all().0 + beyond));
        let state = |snapshot: &Snapshot| HostState { snapshot: snapshot.clone(), ..HostState::default() };
        let noise = disturbance(&state(from), &state(to), &CpuSet::of([1]), ours);
        assert_eq!((noise.foreign, noise.reasons), (0.0, Vec::new()));
    }

    /// A host with one CPU, on which guests that answer slowly are all that runs, each for an equal part of the time.
    #[test]
    fn what_guests_take_to_answer_is_no_strangers() {
        let (guests, answer) = (6, Nanos(20 * MS));
        let clock = std::cell::Cell::new(Nanos::ZERO);
        let host = || {
            let cpu = CpuTimes { cpu: 1, user: clock.get(), ..CpuTimes::default() };
            HostState {
                snapshot: Snapshot { at: clock.get(), cpus: vec![cpu], ..Snapshot::default() },
                ..HostState::default()
            }
        };
        let inner = || {
            (0..guests).map(|_| {
                clock.set(Nanos(clock.get().0 + answer.0));
                Ok(Snapshot::default())
            })
        };
        let outside = || {
            (0..guests).map(|_| {
                let task = TaskTimes { id: 1, user: Nanos(clock.get().0 / guests), ..TaskTimes::default() };
                Ok(Outside {
                    hypervisor: Some(Snapshot { tasks: vec![task], ..host().snapshot }),
                    ..Outside::default()
                })
            })
        };
        let (host_start, start) = (host(), Marks::first(outside(), inner()).unwrap());
        clock.set(Nanos(clock.get().0 + 300 * MS));
        let (end, host_end) = (Marks::later(inner(), outside()).unwrap(), host());
        let of = |(start, end): (&Mark, &Mark)| {
            let [start, end] = [start, end].map(|mark| mark.outside.hypervisor.as_ref().unwrap());
            let node = Interval { start, end };
            break_down(&Hosting::Processes { node, runtime: None }, &CpuSet::default(), 0).total().0
        };
        let ours = start.0.iter().zip(&end.0).map(of).sum();
        let noise = disturbance(&host_start, &host_end, &CpuSet::of([1]), Nanos(ours));
        assert_eq!((noise.foreign, noise.reasons), (0.0, Vec::new()), "{ours} ns of {:?}", noise.time);
    }

    #[test]
    fn a_test_beside_neighbours_on_its_cpus_has_its_part_of_the_interrupts() {
        let accounts = [account("sut"), account("sut-2")];
        let start = Marks(vec![mark(nothing()), mark(nothing())]);
        let end = Marks(vec![mark(seen(&[100], 400, 80)), mark(seen(&[300], 400, 80))]);
        assert!(share_cpus(&accounts));
        let found = of_first(&accounts, &start, &end, 7);
        assert_eq!((found.total(), found.requests), (Nanos(120 * MS), 7), "{found:?}");
        // Alone on its CPUs, all of theirs are its own.
        let alone = [account("sut"), Account { cpus: CpuSet::of([2]), ..account("sut-2") }];
        assert!(!share_cpus(&alone));
        let only = |marks: Marks| Marks(marks.0.into_iter().take(1).collect());
        assert_eq!(of_first(&alone, &only(start), &only(end), 7).total(), Nanos(180 * MS));
    }

    #[test]
    fn bytes_of_disks_are_counted_at_the_lowest() {
        let disk = |name: &str, read_bytes, write_bytes| DiskCounters {
            name: name.to_owned(),
            read_bytes,
            write_bytes,
            ..DiskCounters::default()
        };
        let at = |times: u64| {
            let physical = [disk("sda", 10, 20), disk("nvme0n1", 1, 2), disk("vda", 100, 200)];
            let made = ["md127", "dm-0", "dm-12", "bcache0", "drbd1", "zd16", "loop7", "zram0"];
            let made = made.map(|name| disk(name, 1_000, 2_000));
            let all = physical.into_iter().chain(made).map(|disk| DiskCounters {
                read_bytes: disk.read_bytes * times,
                write_bytes: disk.write_bytes * times,
                ..disk
            });
            Marks(vec![mark(Snapshot { disks: all.collect(), ..Snapshot::default() })])
        };
        assert_eq!(at(1).disks_until(&at(3)), (222, 444));
    }
}
