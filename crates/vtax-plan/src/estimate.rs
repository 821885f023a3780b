//! What a plan would take: time, things built, privileges. Pure arithmetic on the plan; nothing is probed.

mod ft;
mod leeway;
mod path;
mod requirement;

use std::collections::BTreeSet;

use serde::Serialize;
use vtax_units::{Nanos, counted};

pub use self::requirement::{Installed, Requirement};
pub use crate::assumptions::Assumptions;
use crate::family::{desktop, http};
use crate::model::{
    Cell, EnvironmentKind, Load, Measure, MeasureKind, NetPath, NetworkTestKind, PathKind, Plan, Split,
    Workload,
};

/// How long a plan would take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Trials where every cell needs only `repeat.min`.
    pub trials_min: u64,
    /// Trials where every cell needs `repeat.max` of the measures that are made more often than `repeat.min`.
    pub trials_max: u64,
    /// Time for `trials_min`.
    pub time_min: Nanos,
    /// Time for `trials_max`, or until the budget ends where that is sooner, but for `trials_min` at the least.
    pub time_max: Nanos,
    /// True where the budget may end before `trials_max`.
    pub budget_limits: bool,
    /// One trial of each cell and measure.
    pub trials: Vec<TrialEstimate>,
}

/// How long one trial takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialEstimate {
    /// Cell id.
    pub cell: String,
    /// Measure name.
    pub measure: String,
    /// From the start of the build to the end of the tear-down.
    pub time: Nanos,
}

/// Estimates the time a plan takes.
#[must_use]
pub fn estimate(plan: &Plan, assumptions: &Assumptions) -> Estimate {
    let mut trials = Vec::with_capacity(plan.cells.len() * plan.measures.len());
    // Time of a round beyond the least.
    let mut further = 0u64;
    for cell in &plan.cells {
        let measured =
            |m: &&Measure| plan.is_measured(cell, m) && (!plan.is_duet(m) || !plan.accompanies(cell));
        for measure in plan.measures.iter().filter(measured) {
            let measuring =
                cell.workload.model().measuring(&measure.kind, assumptions, &cell.environment.kind);
            // In a pair the testbeds are built one after the other and loaded at the same time.
            let partner = if plan.is_duet(measure) { plan.baseline_of(cell) } else { None };
            let builds = assumptions.build(cell) + partner.map_or(0, |c| assumptions.build(c));
            let time = builds.saturating_add(measuring.0);
            if is_judged(cell, measure) {
                further = further.saturating_add(time);
            }
            trials.push(TrialEstimate {
                cell: cell.id.clone(),
                measure: measure.name.clone(),
                time: Nanos(time),
            });
        }
    }
    let once = trials.iter().fold(0u64, |sum, t| sum.saturating_add(t.time.0));
    let longest = trials.iter().map(|t| t.time.0).max().unwrap_or(0);
    let min = u64::from(plan.repeat.min);
    let beyond = u64::from(plan.repeat.max).saturating_sub(min);
    let least = once.saturating_mul(min);
    let all = least.saturating_add(further.saturating_mul(beyond));
    // The least number is made all the same, and the trial that runs when the budget ends is finished.
    let within_budget = plan.repeat.budget.map_or(u64::MAX, |b| b.0.saturating_add(longest).max(least));
    let trials_min = min * trials_each_round(plan, |_, _| true);
    Estimate {
        trials_min,
        trials_max: trials_min + beyond * trials_each_round(plan, is_judged),
        time_min: Nanos(least),
        time_max: Nanos(all.min(within_budget)),
        budget_limits: plan.repeat.budget.is_some_and(|b| all > b.0),
        trials,
    }
}

/// Whether a tax is made of what is measured, so that rounds are added until it is known: none is of faults, nor of
/// datagrams alone. Those are measured `repeat.min` times.
fn is_judged(cell: &Cell, measure: &Measure) -> bool {
    match &measure.kind {
        MeasureKind::Failover(_) => false,
        MeasureKind::Network(_) => {
            let tests = cell.workload.model().tests();
            tests.iter().any(|test| !matches!(test.kind, NetworkTestKind::Udp(_)))
        }
        MeasureKind::Capacity(_)
        | MeasureKind::Latency(_)
        | MeasureKind::Throughput(_)
        | MeasureKind::Ims(_)
        | MeasureKind::Storage(_) => true,
    }
}

/// Trials of one round of the measures that count. A pair is two; the baselines it holds have none of their own.
fn trials_each_round(plan: &Plan, counts: impl Fn(&Cell, &Measure) -> bool) -> u64 {
    let of = |measure: &Measure| -> u64 {
        let cells = plan.cells.iter().filter(|cell| plan.is_measured(cell, measure) && counts(cell, measure));
        if !plan.is_duet(measure) {
            return cells.count() as u64;
        }
        let apart = cells.filter(|cell| !plan.accompanies(cell));
        apart.map(|cell| 1 + u64::from(cell.baseline.is_some())).sum()
    };
    plan.measures.iter().map(of).sum()
}

/// Something a trial of the plan would build, with the cells that need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// What, in a few words.
    pub what: String,
    /// How it is made.
    pub how: String,
}

/// What stands between the two ends of a path, in words.
#[must_use]
pub fn path_words(path: &NetPath) -> String {
    path::describe(path)
}

/// Where the load of a cell comes from.
fn client(cell: &Cell) -> String {
    let place = match (&cell.path.kind, cell.path.kind.generators().len()) {
        (PathKind::Nic(_), 0) => "this host's own network",
        (PathKind::Nic(_), 1) => "the network of a host of its own",
        (PathKind::Nic(_), hosts) => return format!("load generators on {hosts} hosts of their own"),
        _ if cell.has_client_vm() => "a virtual machine of its own",
        _ => "a network namespace of its own",
    };
    format!("load generator in {place}")
}

/// Everything the plan's trials would build, each kind once.
#[must_use]
pub fn pieces(plan: &Plan) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut add = |what: String, how: &str| {
        let piece = Piece { what, how: how.to_owned() };
        if !pieces.contains(&piece) {
            pieces.push(piece);
        }
    };
    for client in plan.cells.iter().map(client).collect::<BTreeSet<_>>() {
        add("client".into(), &client);
    }
    for path in plan.cells.iter().map(|c| &c.path) {
        add(format!("path {}", path.name), &path::describe(path));
    }
    for environment in plan.cells.iter().flat_map(Cell::environments) {
        let how = match &environment.kind {
            EnvironmentKind::Native => "processes in a network namespace, host binaries".to_owned(),
            EnvironmentKind::Container => "OCI container on the host's root, read-only".to_owned(),
            EnvironmentKind::Uml => {
                "user-mode Linux on the host's root, read-only; one CPU, system calls by ptrace".to_owned()
            }
            EnvironmentKind::Vm(vm) => {
                let vcpus = vm.vcpus.or(plan.budget.sut_cpus);
                let vcpus = vcpus.map_or("one vCPU per CPU".to_owned(), |n| format!("{n} vCPU"));
                let how = match vm.fault_tolerance.as_ref() {
                    None => format!("QEMU guest on the host's root, read-only; {vcpus}, {}", vm.memory),
                    Some(ft) => ft::piece(ft, &vcpus, vm.memory),
                };
                let tuning = vm.tuning.words();
                match (vm.nic.is_usual(), tuning.is_empty()) {
                    (true, true) => how,
                    (false, true) => format!("{how}; network card {}", vm.nic.word()),
                    (_, false) => format!("{how}; network card {}, {tuning}", vm.nic.word()),
                }
            }
        };
        add(format!("environment {}", environment.name), &how);
    }
    for cell in plan.cells.iter().filter(|cell| cell.is_several()) {
        let count = cell.system_count();
        add(format!("{count} systems in {}", cell.environment.name), &cell.promised(&plan.budget).words());
    }
    for service in plan.cells.iter().flat_map(Cell::services) {
        add(format!("service {}", service.name), &service.kind.facts().words);
        if let Some(access) = service.kind.access() {
            add(format!("{} of {}", access.of, service.name), &format!("{}: {}", access.what, access.who));
        }
    }
    pieces
}

/// What the host must allow or have for the whole plan.
#[must_use]
pub fn requirements(plan: &Plan) -> Vec<Requirement> {
    let mut needed = BTreeSet::from([Requirement::Namespaces, Requirement::Cgroups]);
    for cell in &plan.cells {
        for environment in cell.environments() {
            match environment.kind {
                EnvironmentKind::Native => {}
                EnvironmentKind::Container => _ = needed.insert(Requirement::Container),
                EnvironmentKind::Uml => _ = needed.insert(Requirement::Uml),
                EnvironmentKind::Vm(_) => needed.extend([Requirement::Vm, Requirement::Kvm]),
            }
        }
        path::require(&cell.path, &mut needed);
        if cell.has_client_vm() {
            needed.extend([Requirement::Vm, Requirement::Kvm]);
        }
        for service in cell.services() {
            needed.extend(Installed::of(&service.kind.facts()).map(Requirement::Service));
        }
    }
    needed.into_iter().collect()
}

/// Cells that there can't be, each in a sentence with the reason.
#[must_use]
pub fn left_out(plan: &Plan) -> BTreeSet<String> {
    let mut all = crate::family::storage::mounted::left_out(plan);
    all.extend(crate::cards::left_out(plan));
    all
}

/// What is allowed but probably not meant, one sentence each.
#[must_use]
pub fn cautions(plan: &Plan, estimate: &Estimate) -> Vec<String> {
    let mut cautions = unequal(plan);
    cautions.extend(overcommitted(plan).into_iter().chain(left_out(plan)));
    cautions.extend(plan.cells.iter().filter_map(more_than_asked));
    let misfits = plan.cells.iter().filter_map(|cell| {
        let why = cell.service.kind.misfit(&cell.environment.kind, true)?;
        Some(format!("`{}` is not measured: {why}", cell.id))
    });
    cautions.extend(misfits);
    let waiting = plan.cells.iter().filter_map(|cell| http::estimate::waiting(cell, &plan.budget));
    let lacking = plan.cells.iter().filter_map(|cell| desktop::too_little_memory(cell, &plan.budget));
    cautions.extend(waiting.chain(lacking).collect::<BTreeSet<_>>());
    let of_workloads = plan
        .cells
        .iter()
        .flat_map(|cell| plan.measures.iter().filter_map(|measure| cell.workload.model().caution(measure)));
    cautions.extend(of_workloads.collect::<BTreeSet<_>>());
    if plan.cells.iter().any(|cell| cell.workload.model().is_of_requests()) {
        cautions.extend(plan.measures.iter().filter_map(too_few_for_p99));
        cautions.extend(plan.measures.iter().filter_map(leeway::too_short_for_its_limit));
    }
    if plan.cells.iter().all(|c| c.baseline.is_none()) {
        let names: BTreeSet<&str> = plan.cells.iter().map(|c| c.service.name.as_str()).collect();
        let way_out = match names.first() {
            Some(first) if names.len() > 1 => {
                format!("; `baseline: {{environment: ..., service: {first}}}` compares services")
            }
            _ => String::new(),
        };
        cautions.push(format!("there is nothing but the baseline: figures, but no comparison{way_out}"));
    }
    if plan.repeat.max < 3 {
        cautions
            .push("fewer than 3 trials make no interval: every comparison will be inconclusive".to_owned());
    }
    if let Some(budget) = plan.repeat.budget.filter(|budget| estimate.time_min > *budget) {
        let (budget, least) = (budget.about(), counted(plan.repeat.min, "trial"));
        cautions.push(format!(
            "the budget of {budget} is shorter than {least} of every cell; they are made all the same"
        ));
    }
    cautions
}

/// Virtual machines that have more or less than the budget says, each once.
fn unequal(plan: &Plan) -> Vec<String> {
    let mut unequal = Vec::new();
    let mut seen = BTreeSet::new();
    for cell in &plan.cells {
        let EnvironmentKind::Vm(vm) = &cell.environment.kind else { continue };
        let name = &cell.environment.name;
        let memory = cell.part_of_memory(&plan.budget);
        if vm.memory != memory && seen.insert((name, vm.memory.0, 0)) {
            unequal.push(format!(
                "`{name}` has {} of memory, its part of `budget.sut_memory` is {memory}",
                vm.memory
            ));
        }
        if let (Some(vcpus), Some(cpus)) = (vm.vcpus, plan.budget.sut_cpus)
            && vcpus != cpus
            && seen.insert((name, u64::from(vcpus), 1))
        {
            unequal.push(format!("`{name}` has {}, `budget.sut_cpus` is {cpus}", counted(vcpus, "vCPU")));
        }
    }
    unequal
}

/// What cells' systems are promised, where that is more memory than there is in the budget.
fn overcommitted(plan: &Plan) -> BTreeSet<String> {
    let of = |cell: &Cell| {
        let promised = cell.promised(&plan.budget);
        (cell.is_several() && promised.memory > promised.memory_budget).then(|| {
            let (name, count) = (&cell.environment.name, cell.system_count());
            let held = cell.memory_limit(&plan.budget);
            let held = match held {
                Some(limit) => format!("; they are held to {limit} together"),
                None if cell.has_balloons() => "; balloons take what there is no room for".to_owned(),
                None => String::new(),
            };
            format!("`{name}`, {count} systems: memory is overcommitted, {}{held}", promised.words())
        })
    };
    plan.cells.iter().filter_map(of).collect()
}

/// Where fewer connections than a cell has systems are for all of them together: none is left without, so that there are more.
fn more_than_asked(cell: &Cell) -> Option<String> {
    let (asked, what) = match &cell.workload {
        Workload::Http(http) => (http.connections, "connection"),
        Workload::Redis(redis) => (redis.connections, "connection"),
        Workload::Ftp(ftp) => (ftp.clients, "client"),
        Workload::Script(script) => (script.calls, "call"),
        Workload::Sip(_) | Workload::Network(_) | Workload::Storage(_) | Workload::Desktop(_) => return None,
    };
    let systems = cell.environment.count;
    (cell.systems.load == Split::Total && asked < systems).then(|| {
        let asked = counted(asked, what);
        format!("`{}`: {asked} for {systems} systems: each has at least one, so there are {systems}", cell.id)
    })
}

/// Requests in a trial that tell its 99th percentile: ten are beyond it.
const FOR_P99: f64 = 1000.0;

/// Where a trial of latency has so few requests that its 99th percentile would be left out.
fn too_few_for_p99(measure: &Measure) -> Option<String> {
    let MeasureKind::Latency(latency) = &measure.kind else { return None };
    let Load::Rate(rate) = &latency.load else { return None };
    let requests = rate.0 * latency.duration.as_secs_f64();
    (requests < FOR_P99).then(|| {
        format!(
            "`{}`: there is no 99th percentile of {requests:.0} requests in a trial, it takes {FOR_P99} or more: a longer \
             duration or a higher load",
            measure.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, container, {vm: {memory: 1GiB}}]
paths: gigabit
services: nginx
workload: {http: {target: /bytes/100}}
measure:
  - capacity: {start: 1000/s, precision: 10%, step: 1s, settle: 0s}
  - latency: {warmup: 1s, duration: 9s}
repeat: {min: 2, max: 4}
";

    fn plan(overrides: &[&str]) -> Plan {
        parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn time_is_build_and_measurement() {
        let estimate = estimate(&plan(&[]), &Assumptions::TCG);
        assert_eq!((estimate.trials_min, estimate.trials_max), (12, 24));
        // 20,000/s: 1 + 5 doublings + 4 halvings of a second each, and the build.
        assert_eq!(estimate.trials[0].time, Nanos::from_millis(10_150));
        // In an emulated VM the first step fails at 1,000/s.
        assert_eq!(estimate.trials[4].time, Nanos::from_millis(9_500));
        assert_eq!(estimate.trials[5].time, Nanos::from_millis(14_500));
        let once: u64 = estimate.trials.iter().map(|t| t.time.0).sum();
        assert_eq!((estimate.time_min, estimate.time_max), (Nanos(2 * once), Nanos(4 * once)));
        assert!(!estimate.budget_limits);
    }

    #[test]
    fn a_budget_limits_the_time() {
        let of = |budget: &str| {
            let plan = plan(&[budget]);
            let estimate = estimate(&plan, &Assumptions::TCG);
            let told = cautions(&plan, &estimate).iter().any(|c| c.contains("they are made all the same"));
            (estimate.budget_limits, estimate.time_min, estimate.time_max, told)
        };
        let (_, least, most, _) = of("repeat.budget=1h");
        let between = Nanos(least.0 + 1_000_000_000);
        assert!(most > between);
        let longest = Nanos::from_millis(14_500);
        let limited = of(&format!("repeat.budget={}ms", between.0 / 1_000_000));
        assert_eq!(limited, (true, least, Nanos(between.0 / 1_000_000 * 1_000_000 + longest.0), false));
        // What the plan asks for at the least takes longer, and is made.
        assert_eq!(of("repeat.budget=1m"), (true, least, least, true));
    }

    /// No tax is made of faults, nor of datagrams alone: what is measured of them is measured `min` times.
    #[test]
    fn what_no_tax_is_made_of_has_no_further_rounds() {
        let of = |overrides: &[&str]| estimate(&plan(overrides), &Assumptions::KVM);
        let failover = "{failover: {load: 100/s, faults: [{at: 2s, cut: path}]}}";
        let failovers = of(&[&format!("measure=[{failover}]")]);
        assert_eq!((failovers.trials_min, failovers.trials_max), (6, 6));
        assert_eq!(failovers.time_min, failovers.time_max);
        let both = of(&[&format!("measure=[{{latency: {{load: 1000/s}}}}, {failover}]")]);
        assert_eq!((both.trials_min, both.trials_max), (12, 18));
        let of_measure = |name: &str| -> u64 {
            both.trials.iter().filter(|trial| trial.measure.starts_with(name)).map(|trial| trial.time.0).sum()
        };
        assert_eq!(both.time_max.0 - both.time_min.0, 2 * of_measure("latency"));
        let network = |workload: &str| of(&["services=peer", workload, "measure=network"]);
        let datagrams = network("workload={udp: {rate: 10mbit}}");
        assert_eq!((datagrams.trials_min, datagrams.trials_max), (6, 6));
        let with_others = network("workload=[{udp: {rate: 10mbit}}, {tcp: {}}]");
        assert_eq!((with_others.trials_min, with_others.trials_max), (6, 12));
    }

    #[test]
    fn a_duet_is_two_trials_in_the_time_of_one() {
        let alone = plan(&["measure=[{latency: {load: 100/s, duration: 9s}}]"]);
        let duet = plan(&["measure=[{latency: {load: 100/s, duration: 9s}}]", "repeat.trials=duet"]);
        let [alone, duet] = [alone, duet].map(|p| estimate(&p, &Assumptions::KVM));
        // The baseline once more for the second candidate.
        assert_eq!((alone.trials_min, duet.trials_min), (6, 8));
        assert_eq!((alone.trials.len(), duet.trials.len()), (3, 2));
        assert!(duet.time_min < alone.time_min);
    }

    #[test]
    fn unequal_budgets_are_pointed_out() {
        let plan = plan(&[]);
        let cautions = cautions(&plan, &estimate(&plan, &Assumptions::KVM));
        assert_eq!(cautions, ["`vm` has 1GiB of memory, its part of `budget.sut_memory` is 512MiB"]);
        let plan = self::plan(&["environments=[native, {vm: {vcpus: 2}}]", "budget={sut_cpus: 1}"]);
        let cautions = self::cautions(&plan, &estimate(&plan, &Assumptions::KVM));
        assert!(cautions.iter().any(|c| c == "`vm` has 2 vCPUs, `budget.sut_cpus` is 1"), "{cautions:?}");
    }

    /// A load that was said to be of all together was more than that, and nothing said so.
    #[test]
    fn connections_that_are_fewer_than_systems_are_pointed_out() {
        let said = |workload: &str, load: &str| {
            let environments = "environments=[native, {container: {count: [2, 4]}}]";
            let service = if workload.contains("ftp") { "services=ftp" } else { "services=nginx" };
            let (workload, load) = (format!("workload={{{workload}}}"), format!("consolidation.load={load}"));
            let plan = plan(&[environments, service, &workload, &load, "measure=throughput"]);
            let all = cautions(&plan, &estimate(&plan, &Assumptions::KVM));
            all.into_iter().filter(|caution| caution.contains("at least one")).collect::<Vec<_>>()
        };
        let of_three = "http: {target: /bytes/100, connections: 3}";
        let found = said(of_three, "total");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("`container.") && found[0].contains("count-4`: "), "{found:?}");
        assert!(
            found[0].ends_with(": 3 connections for 4 systems: each has at least one, so there are 4"),
            "{found:?}"
        );
        let found = said("ftp: {clients: 1}", "total");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains(": 1 client for 2 systems: "), "{found:?}");
        for (workload, load) in [(of_three, "each"), ("http: {target: /bytes/100, connections: 4}", "total")]
        {
            assert_eq!(said(workload, load), [""; 0]);
        }
    }

    #[test]
    fn a_missing_99th_percentile_is_announced() {
        let said = |load: &str| {
            let plan = plan(&[&format!("measure=[{{latency: {{load: {load}, duration: 9s}}}}]")]);
            cautions(&plan, &estimate(&plan, &Assumptions::KVM)).join("; ")
        };
        assert!(said("100/s").contains("no 99th percentile of 900 requests"), "{}", said("100/s"));
        assert!(!said("112/s").contains("percentile"), "{}", said("112/s"));
    }

    /// In a step of 1.2 s, latency has to reach 200 ms before a rate fails that is 17 % above what the service carries.
    #[test]
    fn a_limit_that_is_wide_beside_the_steps_is_pointed_out() {
        let said = |capacity: &str| {
            let plan = plan(&[&format!("measure=[{{capacity: {{{capacity}}}}}]")]);
            cautions(&plan, &estimate(&plan, &Assumptions::KVM)).join("; ")
        };
        // Steps of 1 s take 2 s at the rate that a search begins with.
        let wide = said("limits: {p99: 250ms}");
        assert!(wide.contains("up to 11 % above what the service carries"), "{wide}");
        assert!(wide.contains("a precision of 5%: a longer `step`"), "{wide}");
        // The narrower of two limits is the one that fails first.
        for narrow in [
            "limits: {p99: 250ms}, step: 4s",
            "limits: {p99: 250ms}, start: 200/s",
            "limits: {p99: 250ms}, precision: 10%",
            "limits: {p99: 1s, p95: 50ms}",
            "limits: {p99: 100ms}",
        ] {
            assert!(!said(narrow).contains("a longer `step`"), "{narrow}: {}", said(narrow));
        }
    }

    /// Calls after a scenario are requests; the scenarios of subscribers have times of their own.
    #[test]
    fn calls_after_a_scenario_have_a_99th_percentile() {
        let said = |service: &str, sip: &str| {
            let (service, workload) = (format!("services={service}"), format!("workload={{sip: {sip}}}"));
            let plan = plan(&[&service, &workload, "measure=[{latency: {load: 100/s, duration: 9s}}]"]);
            cautions(&plan, &estimate(&plan, &Assumptions::KVM)).join("; ")
        };
        let call = "<scenario name=\"t\">\n<send><![CDATA[\nINVITE sip:[service]@[remote_ip] SIP/2.0\n\
                    Call-ID: [call_id]\nCSeq: 1 INVITE\n\n]]></send>\n<recv response=\"200\"/>\n\
                    </scenario>\n";
        let calls = said("uas", &format!("{{scenario: {call:?}}}"));
        assert!(calls.contains("no 99th percentile of 900 requests"), "{calls}");
        let subscribers = said("sip", "{}");
        assert!(!subscribers.contains("percentile"), "{subscribers}");
    }

    #[test]
    fn requirements_follow_from_the_cells() {
        use Requirement as R;
        assert_eq!(
            requirements(&plan(&[])),
            [
                R::Namespaces,
                R::Container,
                R::Vm,
                R::Kvm,
                R::Tbf,
                R::Cgroups,
                R::Service(Installed { word: "nginx", packages: &["nginx"] })
            ]
        );
        let native = plan(&["environments=native", "paths=direct", "services=http"]);
        assert_eq!(requirements(&native), [R::Namespaces, R::Cgroups]);
    }

    #[test]
    fn pieces_come_once() {
        let pieces = pieces(&plan(&[]));
        assert_eq!(pieces.iter().filter(|p| p.what == "path gigabit").count(), 1);
        assert!(pieces.iter().any(|p| p.how.contains("1gbit per port")), "{pieces:?}");
    }
}
