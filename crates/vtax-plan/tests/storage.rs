//! Plans of the family `storage`: what their keys mean, and what is refused.

use vtax_plan::model::{
    DiskAllocation, DiskBus, EnvironmentKind, MeasureKind, Plan, ServiceKind, StorageCache, StorageEngine,
    StorageOperation, StorageSync, StorageTest,
};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Bytes, Nanos, Rate};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, vm]
workload: {storage: {}}
measure: storage
";

fn plan(overrides: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn tests(plan: &Plan) -> &[StorageTest] {
    plan.cells[0].workload.model().storage_tests()
}

fn refused(overrides: &[&str]) -> String {
    match parse("p", PLAN.as_bytes(), overrides) {
        Err(errors @ PlanErrors::Invalid(_)) => errors.to_string(),
        other => panic!("{overrides:?} is refused: {other:?}"),
    }
}

#[test]
fn defaults_are_what_the_documentation_says() {
    let plan = plan(&[]);
    assert!(matches!(plan.cells[0].service.kind, ServiceKind::Disk(_)), "the disk needs no naming");
    let names: Vec<&str> = tests(&plan).iter().map(|test| test.name.as_str()).collect();
    assert_eq!(names, ["write", "rewrite", "read", "re-read", "random-read", "random-write"]);
    let shape = &tests(&plan)[0].shape;
    assert_eq!((shape.file, shape.record), (Bytes::from_mib(64), Bytes(4096)));
    assert_eq!((shape.processes, shape.depth, shape.engine), (1, 1, StorageEngine::IoUring));
    assert_eq!((shape.direct, shape.sync, shape.verify), (false, StorageSync::End, true));
    assert_eq!(tests(&plan)[0].cache, StorageCache::AsIs);
    let MeasureKind::Storage(measure) = &plan.measures[0].kind else { panic!("{:?}", plan.measures) };
    assert_eq!((measure.duration, measure.longest), (Nanos::from_secs(5), Nanos::from_secs(120)));
}

#[test]
fn steady_state_is_the_specifications_own_unless_told_otherwise() {
    let measure = |overrides: &[&str]| match plan(overrides).measures.remove(0).kind {
        MeasureKind::Storage(measure) => measure,
        other => panic!("{other:?}"),
    };
    assert_eq!(measure(&[]).steady_state, None);
    let rule = measure(&["measure={storage: {steady_state: {}}}"]).steady_state.unwrap();
    assert_eq!((rule.rounds, rule.window, rule.excursion.0, rule.slope.0), (25, 5, 0.2, 0.1));
    let rounds = measure(&["measure={storage: {steady_state: {rounds: 9}}}"]);
    let of = |overrides: &[&str]| rounds.rounds(&tests(&plan(overrides))[0]).map(|rule| rule.rounds);
    assert_eq!(of(&[]), Some(9));
    // A rate is the same in every round, and files are made once.
    assert_eq!(of(&["workload.storage.rate=100/s"]), None);
    assert_eq!(of(&["workload.storage={operations: create, size: 4KiB}"]), None);
}

#[test]
fn lists_make_tests_in_an_order_in_which_they_can_be_made() {
    let plan = plan(&[
        "workload.storage.size=[64KiB, 16MiB]",
        "workload.storage.record=[4KiB, 1MiB]",
        "workload.storage.operations=[write, read, mix-30]",
    ]);
    let names: Vec<&str> = tests(&plan).iter().map(|test| test.name.as_str()).collect();
    // No record of 1 MiB fits into 64 KiB.
    assert_eq!(names.len(), 9, "{names:?}");
    assert_eq!(names[0], "write.size-64KiB.record-4KiB");
    assert_eq!(names[8], "mix-30.size-16MiB.record-1MiB");
    assert_eq!(tests(&plan)[8].operation, StorageOperation::Mix { reads: 30 });
    assert_eq!(plan.cells.len(), 2, "no cells of their own");
}

#[test]
fn a_rate_makes_an_open_loop() {
    let plan = plan(&["workload.storage.rate=[100/s, 1000/s]", "workload.storage.operations=random-read"]);
    let rates: Vec<Option<Rate>> = tests(&plan).iter().map(|test| test.rate.map(|at| at.rate)).collect();
    assert_eq!(rates, [Some(Rate(100.0)), Some(Rate(1000.0))]);
}

#[test]
fn words_of_disks_are_those_of_plans() {
    let disk = |words: &str| {
        let plan = plan(&[&format!("environments=[native, {{vm: {{disk: {{{words}}}}}}}]")]);
        let found = plan.cells.iter().find_map(|cell| match &cell.environment.kind {
            EnvironmentKind::Vm(vm) => vm.disk,
            _ => None,
        });
        found.expect("a disk")
    };
    for word in ["virtio", "scsi", "nvme", "ide"] {
        assert_eq!(disk(&format!("bus: {word}")).bus.word(), word);
    }
    for word in ["raw", "qcow2"] {
        assert_eq!(disk(&format!("format: {word}")).format.word(), word);
    }
    for word in ["full", "sparse"] {
        assert_eq!(disk(&format!("allocation: {word}")).allocation.word(), word);
    }
    for word in ["none", "writeback", "writethrough"] {
        assert_eq!(disk(&format!("cache: {word}")).cache.word(), word);
    }
    for word in ["threads", "native", "io-uring"] {
        assert_eq!(disk(&format!("aio: {word}")).aio.word(), word);
    }
}

#[test]
fn disks_of_guests_are_cells() {
    let plan =
        plan(&["environments=[native, {vm: {disk: {bus: [virtio, ide], allocation: [full, sparse]}}}]"]);
    let disks: Vec<_> = plan
        .cells
        .iter()
        .filter_map(|cell| match &cell.environment.kind {
            EnvironmentKind::Vm(vm) => vm.disk.map(|disk| (disk.bus, disk.allocation)),
            _ => None,
        })
        .collect();
    assert_eq!(disks.len(), 4);
    assert_eq!(disks[3], (DiskBus::Ide, DiskAllocation::Sparse));
    assert!(plan.cells.iter().any(|cell| cell.id.contains("bus-ide")), "{:?}", plan.cells[1].id);
}

#[test]
fn a_warm_cache_is_left_out_where_it_is_passed_by() {
    let plan =
        plan(&["workload.storage={operations: [write, read], direct: [false, true], cache: [cold, warm]}"]);
    let names: Vec<&str> = tests(&plan).iter().map(|test| test.name.as_str()).collect();
    assert!(!names.contains(&"read.direct-true.cache-warm"), "{names:?}");
    assert_eq!(names.len(), 7, "{names:?}");
}

#[test]
fn names_that_were_to_be_cold_are_left_out() {
    let plan = plan(&[
        "workload.storage={operations: [create, list, read], size: 4KiB, record: 4KiB, cache: [cold, warm]}",
    ]);
    let names: Vec<&str> = tests(&plan).iter().map(|test| test.name.as_str()).collect();
    assert_eq!(names, ["read.cache-cold", "create.cache-warm", "list.cache-warm", "read.cache-warm"]);
}

#[test]
fn what_can_not_be_is_refused_with_the_reason() {
    for (change, reason) in [
        ("workload.storage.size=100", "`size` is a multiple of 512B from 512B to 1024GiB"),
        ("workload.storage.record=32MiB", "`record` is a multiple of 512B"),
        ("workload.storage.operations=[fly]", "`fly` is no operation"),
        ("workload.storage.operations=mix-101", "`mix-101` is no operation"),
        ("workload.storage={size: 4KiB, record: 1MiB}", "no test is left"),
        ("workload.storage={engine: psync, depth: 4}", "`psync` has one operation under way"),
        ("workload.storage={record: 16MiB, size: 16MiB, depth: 1000}", "of buffers, at most 1GiB"),
        ("workload.storage={direct: true, cache: warm}", "it can't be `warm` for it"),
        ("workload.storage={operations: [create, list], size: 4KiB, cache: cold}", "it can't be `cold` for"),
        ("workload.storage.processes=0", "a load needs a process"),
        ("workload.storage.rate=0/s", "a rate is above 0/s"),
        ("workload.storage.dedupe=200%", "a share of the data"),
        ("measure={storage: {steady_state: {rounds: 2}}}", "`rounds` is a number of rounds from 3 to 1000"),
        ("measure={storage: {steady_state: {rounds: 4}}}", "4 rounds never fill a window of 5"),
        ("measure={storage: {steady_state: {slope: 0%}}}", "`slope` is a share of the average"),
        ("measure=capacity", "tests of storage have rates and times of their own"),
        ("services=http", "does not speak what the workload `storage` speaks"),
        ("services={disk: {directory: here}}", "an absolute path"),
        (
            "environments=[native, {vm: {disk: {aio: native, cache: writeback}}}]",
            "works only past the host's page cache",
        ),
        (
            "environments=[native, {vm: {fault_tolerance: remus}}]",
            "the storage of `vm-remus` can't be measured yet",
        ),
        ("environments=[native, {vm: {disk: {size: 1MiB}}}]", "a disk is a multiple of 4KiB"),
        ("environments=[native, {vm: {disk: {raid5: {members: 2}}}}]", "3 to 6 members"),
        ("workload.storage={size: 2GiB, record: 1MiB}", "the disk of `vm` has 1GiB"),
        ("workload.storage={size: 100MiB, processes: 16}", "the disk of `vm` has 1GiB"),
        (
            "workload.storage={operations: create, size: 1MiB, record: 1MiB, files: 2000}",
            "the disk of `vm` has 1GiB",
        ),
    ] {
        let told = refused(&[change]);
        assert!(told.contains(reason), "{change}: {told}");
    }
}

#[test]
fn a_raid_has_a_share_of_the_data_on_each_member() {
    let plan = plan(&[
        "environments=[native, {vm: {disk: {size: 96MiB, raid5: {degraded: [false, true]}}}}]",
        "workload.storage.size=8MiB",
    ]);
    let files = |cell: &vtax_plan::model::Cell| match &cell.environment.kind {
        EnvironmentKind::Vm(vm) => vm.disk.map(|disk| disk.files()),
        _ => None,
    };
    let found: Vec<_> = plan.cells.iter().map(files).collect();
    let each = Bytes::from_mib(96 / 3 + 2);
    assert_eq!(found, [None, Some((4, each)), Some((3, each))]);
    let faults = "faults=[{at: 1s, fail: disk}, {at: 2s, replace: disk}]";
    let failover = "measure=[{failover: {load: 40/s, duration: 5s}}]";
    let services = "services=[{tgt: {size: 16MiB, backend: disk}}]";
    let workload = "workload={storage: {operations: random-write, size: 8MiB}}";
    let whole = "environments=[{vm: {disk: {raid5: {}}}}]";
    let broken = self::plan(&[whole, "baseline=vm", services, workload, failover, faults]);
    assert!(broken.is_measured(&broken.cells[0], &broken.measures[0]));
    let plain = refused(&["environments=[vm]", "baseline=vm", services, workload, failover, faults]);
    assert!(plain.contains("no whole RAID-5"), "{plain}");
    let memory = "services=[{tgt: {size: 16MiB}}]";
    let spared = refused(&[whole, "baseline=vm", memory, workload, failover, faults]);
    assert!(spared.contains("nobody sees that a disk fails"), "{spared}");
    for (faults, reason) in [
        ("faults=[{at: 1s, replace: disk}]", "no disk of the RAID has failed"),
        ("faults=[{at: 1s, fail: disk}, {at: 2s, fail: disk}]", "has failed already"),
    ] {
        let told = refused(&[whole, "baseline=vm", services, workload, failover, faults]);
        assert!(told.contains(reason), "{faults}: {told}");
    }
    let modules: Vec<bool> =
        plan.cells.iter().map(|cell| cell.kernel_modules().contains("raid456")).collect();
    assert_eq!(modules, [false, true, true]);
}
