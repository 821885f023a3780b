//! Several systems under test in one trial: what they are built from, the load of each, and what is kept of each.
//!
//! One system is the case that nothing here changes: its load is opened as it is, and its trial has one observation.

use std::net::SocketAddr;

use vtax_lab::{SharedMemorySpec, SutCpus, SutSpec, TestbedSpec};
use vtax_load::{BesideSpec, LoadSpec, PartPace, SpreadPart, SpreadSpec};
use vtax_plan::model::{BesideLoad, Budget, Cell, Environment, Service, Split};
use vtax_probe::{Snapshot, TaskTimes};
use vtax_units::{Rate, fact};
use vtax_vm::Cache;

use crate::family;
use crate::instrument::{Ends, Instrument};
use crate::member::name;
use crate::trial_request::TrialRequest;

/// The testbed of a cell, with all that its load and its services need: its systems, which share the budget's CPUs or have some
/// of their own.
pub(crate) fn testbed(cell: &Cell, budget: &Budget) -> TestbedSpec {
    let count = cell.system_count();
    let cpus = match (cell.systems.budget, budget.sut_cpus) {
        _ if count == 1 => SutCpus::Equal,
        (Split::Total, _) => SutCpus::All,
        (Split::Each, Some(each)) => SutCpus::Own(each),
        (Split::Each, None) => SutCpus::Equal,
    };
    let times = if cell.systems.budget == Split::Each { count } else { 1 };
    let sut = |(environment, service): (&Environment, &Service)| SutSpec {
        environment: environment.clone(),
        port: Some(service.kind.facts().port).filter(|port| *port > 0),
        cpus,
        memory: Some(cell.memory_of(environment, budget)),
    };
    let shared_memory = cell
        .memory_limit(budget)
        .map(|memory| SharedMemorySpec { memory, directory: Cache::of_user().dir().join("disks") });
    let budget =
        Budget { sut_cpus: budget.sut_cpus.map(|cpus| cpus.saturating_mul(times)), ..budget.clone() };
    let suts = cell.environments().zip(cell.services()).map(sut).collect();
    let one = TestbedSpec::of_one(cell.environment.clone(), cell.path.clone(), budget);
    TestbedSpec {
        suts,
        start: cell.systems.start,
        shared_memory,
        balloons: cell.has_balloons(),
        disk: cell.services().find_map(|service| family::storage_directory(&service.kind)),
        guest_client: cell.mounting_client(),
        ..one
    }
}

/// The load of a trial: that of its only system, or one for each with its part. `targets` are where the services
/// listen, in the testbed's order.
pub(crate) fn load(
    instrument: &dyn Instrument,
    request: &TrialRequest<'_>,
    targets: &[SocketAddr],
    ends: &Ends<'_>,
) -> LoadSpec {
    let cell = request.cell;
    if !cell.is_several() {
        return instrument.load(ends, request);
    }
    let to = |target: &SocketAddr| Ends { target: *target, sources: ends.sources, disk: ends.disk };
    let own = instrument.load(ends, request);
    if let LoadSpec::Storage(storage) = own {
        let others = beside(request, targets, &to);
        // Those that are asked for nothing have no load.
        return match others.is_empty() {
            true => LoadSpec::Storage(storage),
            false => LoadSpec::Beside(Box::new(BesideSpec { storage, others })),
        };
    }
    let count = cell.environment.count as usize;
    let mut parts = Vec::with_capacity(targets.len());
    for (number, target) in targets.iter().take(count).enumerate() {
        let mut load = instrument.load(&to(target), request);
        if cell.systems.load == Split::Total
            && let Some(pool) = load.pool_mut()
        {
            pool.connections = share_of(pool.connections, number, count);
        }
        parts.push(SpreadPart { member: name(number), load, pace: pace(request, number) });
    }
    parts.extend(beside(request, targets, &to));
    LoadSpec::Spread(SpreadSpec { parts })
}

/// How much of a step is asked of one of those that a cell measures. While things break, which they do to the first, the others
/// are asked for as much and are no part of what clients saw of it.
fn pace(request: &TrialRequest<'_>, number: usize) -> PartPace {
    let part = 1.0 / f64::from(request.cell.environment.count);
    match request.rate() {
        Ok(rate) if number > 0 && request.measure.kind.is_failover() => PartPace::Rate(Rate(rate.0 * part)),
        _ => PartPace::Share(part),
    }
}

/// The loads of the systems beside those that a cell measures, in order.
fn beside<'e>(
    request: &TrialRequest<'_>,
    targets: &[SocketAddr],
    to: &dyn Fn(&SocketAddr) -> Ends<'e>,
) -> Vec<SpreadPart> {
    let cell = request.cell;
    let count = cell.environment.count as usize;
    let mut parts = Vec::with_capacity(cell.systems.beside.len());
    for (number, (target, beside)) in targets.iter().skip(count).zip(&cell.systems.beside).enumerate() {
        let pace = match beside.load {
            BesideLoad::Idle => continue,
            BesideLoad::Closed => PartPace::Closed,
            BesideLoad::Rate(rate) => PartPace::Rate(rate),
        };
        let load = family::instrument(&beside.workload, &beside.service.kind).load(&to(target), request);
        parts.push(SpreadPart { member: name(count + number), load, pace });
    }
    parts
}

/// Connections to one system of several that share so many. Each has one at least: where that makes more of them, `vtax check` says so.
fn share_of(connections: u32, number: usize, count: usize) -> u32 {
    let (number, count) = (number as u32, (count as u32).max(1));
    (connections / count + u32::from(number < connections % count)).max(1)
}

/// What samples say of a node beyond its CPU time: memory at its most, and of a virtual machine what was stolen from
/// it and swapped in it. Natively and in a container the node's kernel is the host's, so that is left out.
pub(crate) fn facts_of(samples: &[Snapshot], is_guest: bool) -> Vec<(String, String)> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Vec::new() };
    let memory = |at: &Snapshot| match is_guest {
        true => at.memory.total_bytes.saturating_sub(at.memory.available_bytes),
        false => {
            let own = |t: &TaskTimes| t.resident_bytes.saturating_sub(t.shared_bytes);
            let shared = at.tasks.iter().map(|task| task.shared_bytes).max().unwrap_or_default();
            at.tasks.iter().map(own).fold(shared, u64::saturating_add)
        }
    };
    let most = samples.iter().map(memory).max().unwrap_or_default();
    let mut facts = vec![(fact::MEMORY.to_owned(), most.to_string())];
    if is_guest {
        let stolen = |at: &Snapshot| at.cpus.iter().map(|cpu| cpu.steal.0).fold(0, u64::saturating_add);
        let wall = last.at.saturating_sub(first.at).0.saturating_mul(last.cpus.len() as u64).max(1);
        let share = stolen(last).saturating_sub(stolen(first)) as f64 / wall as f64;
        facts.push((fact::STEAL_SHARE.to_owned(), format!("{share:.4}")));
        let swapped = samples.iter().map(|at| at.memory.swap_used_bytes).max().unwrap_or_default();
        facts.push((fact::SWAP_USED.to_owned(), swapped.to_string()));
    }
    facts
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use vtax_plan::parse;
    use vtax_probe::CpuTimes;
    use vtax_units::{Bytes, Nanos};

    use super::*;

    /// Three systems and a neighbour.
    pub(crate) const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [{native: {count: 3}}]
services: http
workload: {http: {target: /bytes/100, connections: 64}}
measure: [{latency: {load: 90/s}}]
budget: {sut_cpus: 2, sut_memory: 300MiB}
systems:
  name: busy
  beside: {name: loud, service: http, workload: {http: {target: /page/9}}, load: 40/s}
";

    fn cell(overrides: &[&str]) -> (Cell, Budget) {
        let plan = parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        (plan.cells[0].clone(), plan.budget)
    }

    #[test]
    fn systems_share_cpus_or_have_their_own() {
        let (cell, budget) = cell(&[]);
        let spec = testbed(&cell, &budget);
        assert_eq!((spec.suts.len(), spec.budget.sut_cpus), (4, Some(2)));
        let memory = Some(Bytes::from_mib(75));
        assert!(spec.suts.iter().all(|sut| sut.cpus == SutCpus::All && sut.memory == memory));
        let (cell, budget) = self::cell(&["consolidation.budget=each"]);
        let spec = testbed(&cell, &budget);
        assert_eq!((spec.suts[3].cpus, spec.budget.sut_cpus), (SutCpus::Own(2), Some(8)));
        assert_eq!(spec.suts[0].memory, Some(Bytes::from_mib(300)));
        assert_eq!(spec.shared_memory, None);
    }

    #[test]
    fn a_testbed_has_what_its_services_need() {
        let beside = "{name: files, service: {ftp: {backend: disk}}, workload: {ftp: {}}, load: idle}";
        let (cell, budget) = cell(&[&format!("systems.beside={beside}")]);
        let spec = testbed(&cell, &budget);
        let published: Vec<bool> =
            spec.suts.iter().map(|sut| sut.port.is_some_and(|port| port > 0)).collect();
        assert_eq!(published, [true; 4], "paths in user space publish a port");
        assert!(spec.disk.is_some(), "files that are on a disk need one");
        assert!(testbed(&self::cell(&[]).0, &budget).disk.is_none());
    }

    #[test]
    fn while_the_first_breaks_the_others_are_no_part_of_the_whole() {
        let changes =
            ["measure=[{latency: {load: 90/s}}, {failover: {load: 90/s}}]", "faults=[{at: 10s, kill: sut}]"];
        let plan = parse("p", PLAN.as_bytes(), &changes).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        let paces = |measure: usize| {
            let request = TrialRequest {
                cell: &plan.cells[0],
                measure: &plan.measures[measure],
                repetition: 0,
                round: 0,
                seed: 1,
                round_seed: 1,
                offered: Some(Rate(90.0)),
                capacity_hint: None,
                tolerance: vtax_units::Share(0.05),
            };
            [pace(&request, 0), pace(&request, 2)]
        };
        let third = PartPace::Share(1.0 / 3.0);
        assert_eq!((paces(0), paces(1)), ([third, third], [third, PartPace::Rate(Rate(30.0))]));
    }

    #[test]
    fn machines_have_the_budgets_memory_together_where_the_plan_limits_it() {
        let machines = "environments=[{vm: {count: 3, memory: 200MiB}}]";
        let (cell, budget) = cell(&["baseline=vm", machines, "consolidation.memory=limited"]);
        let spec = testbed(&cell, &budget);
        assert_eq!(spec.shared_memory.map(|shared| shared.memory), Some(Bytes::from_mib(300)));
        assert_eq!(
            spec.suts[0].memory,
            Some(Bytes::from_mib(200)),
            "each still believes that it has what it was promised"
        );
    }

    #[test]
    fn connections_are_divided_and_none_is_lost() {
        let shares: Vec<u32> = (0..3).map(|number| share_of(64, number, 3)).collect();
        assert_eq!((shares.iter().sum::<u32>(), shares[0], shares[2]), (64, 22, 21));
        assert_eq!(share_of(2, 5, 6), 1, "each has one");
    }

    #[test]
    fn a_guests_steal_and_memory_are_told() {
        let at = |second: u64, steal: u64, available: u64| {
            let mut snapshot = Snapshot { at: Nanos::from_secs(second), ..Snapshot::default() };
            snapshot.cpus = vec![CpuTimes { steal: Nanos::from_millis(steal), ..Default::default() }];
            snapshot.memory.total_bytes = 100;
            snapshot.memory.available_bytes = available;
            snapshot
        };
        let facts: BTreeMap<String, String> =
            facts_of(&[at(1, 0, 90), at(2, 100, 40), at(3, 500, 60)], true).into_iter().collect();
        assert_eq!((facts["memory_bytes"].as_str(), facts["steal_share"].as_str()), ("60", "0.2500"));
        assert!(facts_of(&[], true).is_empty());
    }
}
