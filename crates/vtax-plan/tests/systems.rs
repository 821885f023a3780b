//! Several systems under test: `count`, `consolidation`, `systems`, and what is refused.

use vtax_plan::estimate::{Assumptions, cautions, estimate};
use vtax_plan::model::{BesideLoad, EnvironmentKind, MemoryHold, Plan, Role, Split, StartOrder};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Bytes, Nanos, Rate};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [{native: {count: [1, 2, 3]}}, {vm: {count: [1, 2, 3]}}]
services: http
workload: {http: {target: /bytes/100}}
measure: [throughput]
budget: {sut_cpus: 2, sut_memory: 768MiB}
";

fn plan(text: &str, overrides: &[&str]) -> Plan {
    parse("p", text.as_bytes(), overrides).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
}

/// Messages and ways out of a plan that is wrong.
fn errors(text: &str, overrides: &[&str]) -> String {
    match parse("p", text.as_bytes(), overrides) {
        Ok(_) => panic!("no error in\n{text}{overrides:?}"),
        Err(PlanErrors::Invalid(diagnostics)) => {
            let one = |d: vtax_plan::Diagnostic<'_>| format!("{} [{}]", d.message, d.help.unwrap_or(""));
            diagnostics.iter().map(one).collect::<Vec<_>>().join("\n")
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn as_many_are_compared_with_as_many() {
    let plan = plan(PLAN, &[]);
    let baseline_of = |id: &str| {
        let cell = plan.cells.iter().find(|c| c.id == id).unwrap_or_else(|| panic!("{id}"));
        cell.baseline.clone()
    };
    assert_eq!(plan.cells.len(), 6);
    assert_eq!(baseline_of("vm.bridge.http.count-3").as_deref(), Some("native.bridge.http.count-3"));
    assert_eq!(baseline_of("native.bridge.http.count-3"), None);
}

#[test]
fn all_are_compared_with_one_where_that_is_said() {
    let plan = plan(PLAN, &["baseline={environment: native, count: 1}"]);
    let own = plan.cells.iter().filter(|c| c.baseline.is_none()).map(|c| c.id.as_str());
    assert_eq!(own.collect::<Vec<_>>(), ["native.bridge.http.count-1"]);
    assert!(
        plan.cells.iter().all(|c| c.baseline.as_deref().is_none_or(|b| b == "native.bridge.http.count-1"))
    );
    let never = errors(PLAN, &["baseline={environment: native, count: 7}"]);
    assert!(never.contains("never has 7 systems") && never.contains("1, 2, 3"), "{never}");
    let other = errors(PLAN, &["environments.vm.count=[1, 4]"]);
    assert!(other.contains("has 4 systems, which the baseline `native` never has"), "{other}");
}

#[test]
fn systems_share_the_budget_unless_each_has_one() {
    let memory = |plan: &Plan| {
        let vms = plan.cells.iter().filter_map(|cell| match &cell.environment.kind {
            EnvironmentKind::Vm(vm) => Some(vm.memory),
            _ => None,
        });
        vms.collect::<Vec<_>>()
    };
    let total = plan(PLAN, &[]);
    assert_eq!(memory(&total), [768, 384, 256].map(Bytes::from_mib));
    let native = &total.cells[2];
    assert_eq!((native.id.as_str(), native.system_count()), ("native.bridge.http.count-3", 3));
    assert_eq!(native.part_of_memory(&total.budget), Bytes::from_mib(256));
    let promised = total.cells[5].promised(&total.budget);
    assert_eq!((promised.memory, promised.vcpus, promised.cpus), (Bytes::from_mib(768), Some(6), Some(2)));
    let each = plan(PLAN, &["consolidation.budget=each"]);
    assert_eq!(memory(&each), [768; 3].map(Bytes::from_mib));
    assert!((each.cells[5].promised(&each.budget).memory_ratio() - 1.0).abs() < 1e-9);
}

#[test]
fn overcommitment_is_told_in_numbers() {
    let plan = plan(PLAN, &["environments.vm.memory=512MiB"]);
    let told = cautions(&plan, &estimate(&plan, &Assumptions::KVM)).join("\n");
    assert!(told.contains("1536MiB of memory promised of 768MiB (2.00 times)"), "{told}");
    assert!(told.contains("6 vCPUs of 2 CPUs (3.00 times)"), "{told}");
}

#[test]
fn more_systems_than_memory_are_refused_with_the_numbers() {
    let told = errors(PLAN, &["environments.vm.count=[1, 2, 7]", "environments.native.count=[1, 2, 7]"]);
    assert!(told.contains("7 systems of at least 192MiB need 1344MiB of memory"), "{told}");
    assert!(told.contains("`budget.sut_memory` is 768MiB") && told.contains("raise it to 1344MiB"), "{told}");
    plan(PLAN, &["environments.vm.count=[1, 2, 4]", "environments.native.count=[1, 2, 4]"]);
    let each = errors(PLAN, &["consolidation.budget=each", "budget.sut_memory=128MiB"]);
    let why = "a system needs at least 192MiB of memory, and `budget.sut_memory` is 128MiB for each";
    assert!(each.contains(why) && each.contains("[raise it to 192MiB, or give"), "{each}");
    let none = errors(PLAN, &["environments.vm.count=0"]);
    assert!(none.contains("a cell has a system under test"), "{none}");
    let many = errors(PLAN, &["environments.native.count=65", "budget.sut_memory=64GiB"]);
    assert!(many.contains("65 is too many"), "{many}");
}

#[test]
fn a_load_of_each_is_a_load_of_all() {
    let each = plan(PLAN, &["consolidation={load: each, start: one-by-one}"]);
    let three = &each.cells[2];
    assert_eq!(three.total_rate(Rate(100.0)), Rate(300.0));
    assert_eq!((three.systems.load, three.systems.start), (Split::Each, StartOrder::OneByOne));
    assert_eq!(plan(PLAN, &[]).cells[2].total_rate(Rate(100.0)), Rate(100.0));
    let gap = plan(PLAN, &["consolidation.start=2s"]);
    assert_eq!(gap.cells[0].systems.start, StartOrder::Gap(Nanos::from_secs(2)));
    let wrong = errors(PLAN, &["consolidation.start=togehter"]);
    assert!(wrong.contains("did you mean `together`?"), "{wrong}");
}

#[test]
fn machines_are_held_to_the_budget_together_where_that_is_asked_for() {
    let usual = plan(PLAN, &[]);
    assert_eq!(usual.cells[0].systems.memory, MemoryHold::Promised);
    assert!(usual.cells.iter().all(|cell| cell.memory_limit(&usual.budget).is_none()));
    let limited = plan(PLAN, &["consolidation.memory=limited", "environments.vm.memory=512MiB"]);
    for cell in &limited.cells {
        let guest = matches!(cell.environment.kind, EnvironmentKind::Vm(_));
        let limit = guest.then(|| Bytes::from_mib(768));
        assert_eq!(cell.memory_limit(&limited.budget), limit, "{}", cell.id);
    }
    let told = cautions(&limited, &estimate(&limited, &Assumptions::KVM)).join("\n");
    assert!(told.contains("; they are held to 768MiB together"), "{told}");
    let wrong = errors(PLAN, &["consolidation.memory=limit"]);
    assert!(wrong.contains("limited"), "{wrong}");
}

#[test]
fn balloons_leave_each_its_part_of_the_budget() {
    let set = &["consolidation.memory=ballooned", "environments.vm.memory=512MiB"];
    let ballooned = plan(PLAN, set);
    let left = |id: &str| {
        let cell = ballooned.cells.iter().find(|cell| cell.id == id).unwrap_or_else(|| panic!("{id}"));
        let left: Vec<_> =
            cell.environments().map(|one| cell.left_by_balloon(one, &ballooned.budget)).collect();
        assert_eq!(cell.has_balloons(), cell.kernel_modules().contains("virtio_balloon"), "{id}");
        (cell.memory_limit(&ballooned.budget), left)
    };
    let mib = |mib: u64| Some(Bytes::from_mib(mib));
    assert_eq!(left("vm.bridge.http.count-1"), (None, vec![mib(512)]), "it was promised less than there is");
    assert_eq!(left("vm.bridge.http.count-2"), (None, vec![mib(384); 2]));
    assert_eq!(left("vm.bridge.http.count-3"), (None, vec![mib(256); 3]));
    assert_eq!(left("native.bridge.http.count-3"), (None, vec![None; 3]));
    let told = cautions(&ballooned, &estimate(&ballooned, &Assumptions::KVM)).join("\n");
    assert!(told.contains("; balloons take what there is no room for"), "{told}");
    let little =
        errors(PLAN, &[set[0], set[1], "budget.sut_memory=256MiB", "environments.native.count=[1, 2, 3]"]);
    assert!(little.contains("balloons would leave a virtual machine 85MiB of memory"), "{little}");
    assert!(little.contains("1536MiB of memory promised of 256MiB"), "{little}");
}

#[test]
fn who_is_protected_does_not_ask_for_its_address() {
    let leased = "paths=[bridge, {bridge: {name: leased, addresses: dhcp}}]";
    let plan = plan(
        PLAN,
        &["environments=[native, {vm: {fault_tolerance: kemari}}]", leased, "consolidation.start=together"],
    );
    let ids: Vec<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids, ["native.bridge.http", "vm-kemari.bridge.http", "native.leased.http"]);
    let told = vtax_plan::estimate::left_out(&plan);
    assert!(told.iter().any(|why| why.contains("don't ask for their addresses")), "{told:?}");
}

#[test]
fn a_protected_machine_may_have_plain_neighbours() {
    let beside = |environment: &str| {
        let one = |n: u32| {
            format!(
                "{{name: n{n}, service: http, workload: {{http: {{target: /page/9}}}}, load: 5/s{environment}}}"
            )
        };
        format!("systems={{name: three, beside: [{}, {}, {}]}}", one(1), one(2), one(3))
    };
    let vms = "environments=[vm, {vm: {fault_tolerance: kemari}}]";
    let pair = plan(PLAN, &["baseline=vm", vms, &beside(", environment: vm"), "budget.sut_memory=1GiB"]);
    let ids: Vec<&str> = pair.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids, ["vm.bridge.http.three", "vm-kemari.bridge.http.three"]);
    for cell in &pair.cells {
        let all: Vec<_> = cell.environments().collect();
        assert_eq!((all.len(), all[0].kind.is_protected()), (4, cell.id.starts_with("vm-kemari")));
        // They are built as the protected one is.
        assert!(all[1..].iter().all(|one| one.kind.is_pair() && !one.kind.is_protected()), "{}", cell.id);
    }
    let alike = plan(PLAN, &["baseline=vm", vms, &beside(""), "budget.sut_memory=1GiB"]);
    assert!(alike.cells[1].environments().all(|one| one.kind.is_protected()), "as the cell's own is");
    let two =
        plan(PLAN, &["environments.1={vm: {fault_tolerance: kemari, count: 2}}", "budget.sut_memory=1GiB"]);
    assert!(two.cells.iter().any(|cell| cell.environment.kind.is_protected() && cell.environment.count == 2));
}

const NEIGHBOUR: &str = "\
vtax: 1
name: t
baseline: {environment: vm, systems: quiet}
environments: vm
services: nginx
workload: {http: {target: /bytes/100}}
measure: [{latency: {load: 100/s}}]
budget: {sut_memory: 512MiB}
systems:
  - name: quiet
    beside: {service: http, workload: {http: {target: /page/10}}, load: idle}
  - name: busy
    beside:
      - {name: burst, service: http, workload: {http: {target: /page/10}}, load: closed}
";

#[test]
fn a_neighbour_makes_cells_that_are_compared_with_the_quiet_one() {
    let plan = plan(NEIGHBOUR, &[]);
    let ids: Vec<&str> = plan.cells.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["vm.bridge.nginx.quiet", "vm.bridge.nginx.busy"]);
    assert_eq!(plan.cells[1].baseline.as_deref(), Some("vm.bridge.nginx.quiet"));
    let [quiet, busy] = [0, 1].map(|i| &plan.cells[i].systems.beside[0]);
    assert_eq!((quiet.name.as_str(), quiet.load), ("http", BesideLoad::Idle));
    assert_eq!((busy.name.as_str(), busy.load, busy.role), ("burst", BesideLoad::Closed, Role::Neighbour));
    assert_eq!(plan.cells[1].system_count(), 2);
    let EnvironmentKind::Vm(vm) = &plan.cells[0].environment.kind else { panic!("no vm") };
    assert_eq!(vm.memory, Bytes::from_mib(256), "both have half of the budget");
    let text = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("read"), plan);
}

#[test]
fn a_server_of_storage_may_have_a_neighbour() {
    let plan =
        plan(NEIGHBOUR, &["services=ganesha", "workload={storage: {size: 1MiB}}", "measure=[storage]"]);
    let ids: Vec<&str> = plan.cells.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["vm.bridge.ganesha.quiet", "vm.bridge.ganesha.busy"]);
    assert!(plan.is_measured(&plan.cells[1], &plan.measures[0]));
}

/// Makes a neighbour's workload the shortest scenario.
const CALLS: &str = "systems.1.beside.0.workload={sip: {scenario: \
    \"<scenario><send><![CDATA[OPTIONS sip:a SIP/2.0\\nCall-ID: [call_id]\\n\\n]]></send></scenario>\"}}";

#[test]
fn calls_are_made_to_several_systems_and_beside_others() {
    let workload = CALLS.trim_start_matches("systems.1.beside.0.");
    let calls = plan(PLAN, &["services=uas", workload, "measure=[{latency: {load: 20/s}}]"]);
    assert_eq!(calls.cells.iter().map(|cell| cell.environment.count).max(), Some(3));
    let phone = ["systems.1.beside.0.service=uas", CALLS, "systems.1.beside.0.load=5/s"];
    let beside = plan(NEIGHBOUR, &phone);
    assert_eq!(beside.cells[1].systems.beside[0].load, BesideLoad::Rate(Rate(5.0)));
}

#[test]
fn what_several_systems_cannot_be_is_refused() {
    let cases: &[(&str, &[&str], &str)] = &[
        (PLAN, &["paths=direct"], "a `direct` path joins one system under test"),
        (PLAN, &["paths=direct"], "for others `macvlan` or `ipvlan`"),
        (PLAN, &["repeat={min: 3, trials: duet}"], "the sides of a duet have one system each"),
        (
            PLAN,
            &["services=sip", "workload={sip: {subscribers: 100}}", "measure=[ims]"],
            "the workload `sip` is measured on one system at a time",
        ),
        (
            NEIGHBOUR,
            &["systems.1.beside.0.service=uas", CALLS, "systems.1.beside.0.load=closed"],
            "there is no closed loop of them",
        ),
        (
            NEIGHBOUR,
            &["services=disk", "workload={storage: {size: 1MiB}}", "measure=[storage]"],
            "the load of `storage` is on the system itself",
        ),
        (
            PLAN,
            &["services=tgt", "workload={storage: {size: 1MiB}}", "measure=[storage]"],
            "the workload `storage` is measured on one system at a time",
        ),
        (
            PLAN,
            &["environments.1={vm: {fault_tolerance: {mode: kemari, cards: shared}}}"],
            "`cards: shared` says nothing where the card has no rate",
        ),
        (NEIGHBOUR, &["systems.1.beside.0.load=often"], "is not `idle`, `closed`, or a rate"),
        (NEIGHBOUR, &["systems.1.name=quiet"], "set of systems `quiet` is in the plan twice"),
        (NEIGHBOUR, &["systems.1.beside.0.workload={http: {target: [/a, /b]}}"], "2 of different options"),
        (NEIGHBOUR, &["systems.1.beside.0.service=redis"], "does not speak"),
        (NEIGHBOUR, &["baseline.systems=none"], "is no set of systems of this plan"),
        (NEIGHBOUR, &["baseline.systems=none"], "sets of systems: `quiet` and `busy`"),
    ];
    for (text, overrides, expected) in cases {
        let told = errors(text, overrides);
        assert!(told.contains(expected), "{overrides:?}: {told}");
    }
}
