//! Plans with `access: mounted` and with the kernel's own servers: which cells there are, which there can't be.

use vtax_plan::estimate::{left_out, requirements};
use vtax_plan::model::{Backend, Plan, ServiceKind, StorageAccess};
use vtax_plan::{PlanErrors, parse};
use vtax_units::Bytes;

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, vm]
services: [ganesha]
workload: {storage: {size: 2MiB, access: mounted}}
measure: storage
";

fn plan(overrides: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(overrides: &[&str]) -> String {
    match parse("p", PLAN.as_bytes(), overrides) {
        Err(errors @ PlanErrors::Invalid(_)) => errors.to_string(),
        other => panic!("{overrides:?} is refused: {other:?}"),
    }
}

#[test]
fn a_client_that_mounts_is_a_virtual_machine_whatever_serves() {
    let mounted = plan(&[]);
    assert!(mounted.cells.iter().all(|cell| cell.has_client_vm()));
    assert_eq!(mounted.cells[0].mounting_client(), Some(Bytes::from_mib(512)));
    let modules = mounted.cells[0].kernel_modules();
    assert!(modules.contains("nfsv4") && !modules.contains("cifs"), "{modules:?}");
    let needed: Vec<String> = requirements(&mounted).into_iter().map(|r| r.text().to_string()).collect();
    assert!(needed.iter().any(|text| text.starts_with("guests: qemu")), "{needed:?}");
    let smaller = plan(&["workload.storage.client_memory=256MiB"]);
    assert_eq!(smaller.cells[0].mounting_client(), Some(Bytes::from_mib(256)));
    let protocol = plan(&["workload.storage.access=protocol"]);
    assert!(protocol.cells.iter().all(|cell| cell.mounting_client().is_none()));
}

#[test]
fn a_list_makes_a_cell_for_each_kind_of_access() {
    let plan = plan(&["workload.storage.access=[protocol, mounted]"]);
    assert_eq!(plan.cells.len(), 4);
    assert!(plan.cells.iter().any(|cell| cell.id.contains("access-mounted") && cell.is_mounted()));
    assert!(plan.cells.iter().any(|cell| cell.id.contains("access-protocol") && !cell.is_mounted()));
}

#[test]
fn cells_that_can_not_be_are_left_out_and_told() {
    let plan = plan(&["services=[samba, ganesha]", "workload.storage.access=[protocol, mounted]"]);
    assert_eq!(plan.cells.len(), 6);
    let told = left_out(&plan);
    assert!(
        told.iter().all(|text| text.contains("`samba`") && text.contains("no client of SMB")),
        "{told:?}"
    );
    assert_eq!(told.len(), 2);
    let kernel = &["services=[ganesha, nfsd, lio]", "baseline={environment: native, service: ganesha}"];
    let plan = parse("p", PLAN.as_bytes(), kernel).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.cells.len(), 4);
    assert_eq!(left_out(&plan).len(), 2);
    let ServiceKind::Lio(lio) = &plan.cells[3].service.kind else { panic!("{:?}", plan.cells[3].service) };
    assert_eq!((lio.luns, lio.visible, lio.backend), (1, 1, Backend::Files));
    assert!(plan.cells[2].kernel_modules().contains("nfsd"));
}

#[test]
fn samba_is_mounted_without_being_told_and_the_disk_needs_no_access() {
    let plain = "workload={storage: {size: 2MiB}}";
    let samba = plan(&["services=[samba]", plain]);
    assert!(samba.cells.iter().all(|cell| cell.is_mounted()));
    let disk = plan(&["services=[disk]"]);
    assert!(disk.cells.iter().all(|cell| !cell.is_mounted()));
    let vtax_plan::model::Workload::Storage(storage) = &plan(&[plain]).cells[0].workload else { panic!() };
    let ganesha = &plan(&[]).cells[0].service.kind;
    assert_eq!(storage.access_to(ganesha), Some(StorageAccess::Protocol));
    assert_eq!(storage.access_to(&disk.cells[0].service.kind), None);
}

#[test]
fn what_can_not_be_is_refused_with_the_reason() {
    for (changes, reason) in [
        (&["services=[nfsd]"][..], "has nothing to be compared with"),
        (&["services=[nfsd]", "environments=[native]"], "no cell is left"),
        (&["services=[disk]", "workload.storage.access=protocol"], "reached by no protocol"),
        (&["services=[samba]", "workload.storage.access=protocol"], "no client of SMB"),
        (&["workload.storage.access=local"], "`local`"),
        (
            &[
                "workload.storage.operations=random-write",
                "measure=[{failover: {load: 40/s, duration: 5s}}]",
                "faults=[{at: 1s, kill: sut}]",
            ],
            "can't be told through a mount",
        ),
        (
            &[
                "services=[lio]",
                "environments=[vm]",
                "baseline=vm",
                "workload={storage: {size: 2MiB, operations: random-write}}",
                "measure=[{failover: {load: 40/s, duration: 5s}}]",
                "faults=[{at: 1s, kill: sut}]",
            ],
            "can't be measured yet",
        ),
        (&["workload.storage.client_memory=64MiB"], "doesn't boot"),
        (&["workload.storage.cache=cold"], "which can't be cold"),
        (&["services=[{tgt: {size: 16MiB}}]"], "units of 16MiB"),
        (&["services=[{lio: {luns: 2, visible: 3}}]", "baseline=vm", "environments=[vm]"], "1 to 2 units"),
    ] {
        let text = refused(changes);
        assert!(text.contains(reason), "{changes:?}: {text}");
    }
    plan(&["services=[{ganesha: {backend: disk}}, {samba: {backend: disk}}]", "workload.storage.cache=cold"]);
    // A volume that is mounted anew has none of its names in a cache; a disk of the system's own isn't.
    let tests = |services: &str| {
        let services = format!("services=[{services}]");
        let workload =
            "workload.storage={operations: [list, write], size: 4KiB, access: mounted, cache: cold}";
        plan(&[&services, workload]).cells[0].workload.model().storage_tests().len()
    };
    assert_eq!(tests("{ganesha: {backend: disk}}, {samba: {backend: disk}}"), 2);
    assert_eq!(tests("{ganesha: {backend: disk}}, disk"), 1);
    plan(&[
        "services=[{tgt: {size: 32MiB}}]",
        "workload.storage.operations=[create, list]",
        "workload.storage.record=2MiB",
    ]);
}
