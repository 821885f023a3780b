//! Plans of the services `tgt` and `ganesha`: what their keys mean, and what is refused.

use vtax_plan::estimate::{Assumptions, cautions, estimate, pieces, requirements};
use vtax_plan::model::{ChapMode, GaneshaBackend, NfsVersion, Plan, ServiceKind, Workload};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Bytes, Nanos};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native]
services: tgt
workload: {storage: {size: 2MiB}}
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
fn defaults_are_what_the_documentation_says() {
    let plan = plan(&["services=[tgt, ganesha]"]);
    let ServiceKind::Tgt(tgt) = &plan.cells[0].service.kind else { panic!("{:?}", plan.cells[0]) };
    assert_eq!((tgt.port, tgt.luns, tgt.size), (3260, 1, Bytes::from_mib(96)));
    assert_eq!((tgt.chap, tgt.write_cache, tgt.initiators.len()), (ChapMode::None, true, 0));
    let ServiceKind::Ganesha(ganesha) = &plan.cells[1].service.kind else { panic!("{:?}", plan.cells[1]) };
    assert_eq!((ganesha.port, ganesha.backend), (2049, GaneshaBackend::Files));
    let needed: Vec<String> = requirements(&plan).into_iter().map(|r| r.text().to_string()).collect();
    for words in ["the service tgt: package tgt", "the service ganesha: packages nfs-ganesha"] {
        assert!(needed.iter().any(|text| text.starts_with(words)), "{needed:?}");
    }
}

#[test]
fn lists_make_cells() {
    let plan = plan(&[
        "services=[{tgt: {chap: [none, one-way, mutual], luns: [1, 2], write_cache: [true, false], initiators: [iqn.a, iqn.b]}}]",
    ]);
    assert_eq!(plan.cells.len(), 3 * 2 * 2);
    assert!(plan.cells.iter().any(|cell| cell.id.contains("chap-mutual") && cell.id.contains("luns-2")));
    let ServiceKind::Tgt(tgt) = &plan.cells[0].service.kind else { panic!("{:?}", plan.cells[0]) };
    assert_eq!(tgt.initiators, ["iqn.a", "iqn.b"]);
}

#[test]
fn versions_of_nfs_are_cells_of_which_the_mounted_are_of_4_1() {
    let versions = "services=[{ganesha: {nfs_version: [4.1, '3']}}]";
    let both = plan(&[versions]);
    let of = |plan: &Plan| -> Vec<NfsVersion> {
        let kinds = plan.cells.iter().map(|cell| &cell.service.kind);
        kinds
            .filter_map(|kind| if let ServiceKind::Ganesha(o) = kind { Some(o.nfs_version) } else { None })
            .collect()
    };
    assert_eq!(of(&both), [NfsVersion::V41, NfsVersion::V3]);
    assert!(both.cells[1].id.contains("nfs_version-3"), "{}", both.cells[1].id);
    assert!(pieces(&both).iter().any(|piece| format!("{piece:?}").contains("NFS-Ganesha, NFS 3")));
    let mounted = plan(&[versions, "workload.storage.access=[protocol, mounted]"]);
    assert_eq!(of(&mounted), [NfsVersion::V41, NfsVersion::V41, NfsVersion::V3]);
    let told = cautions(&mounted, &estimate(&mounted, &Assumptions::TCG));
    assert!(told.iter().any(|caution| caution.contains("clients mount version 4.1")), "{told:?}");
}

#[test]
fn what_can_not_be_is_refused_with_the_reason() {
    for (changes, reason) in [
        (&["services=[{tgt: {luns: 0}}]"][..], "0 is too few"),
        (&["services=[{tgt: {luns: 65}}]"], "65 is too many"),
        (&["services=[{tgt: {size: 512KiB}}]"], "is no size of a unit"),
        (&["services=[{tgt: {initiators: ['iqn a']}}]"], "`iqn a` is no name of an initiator"),
        (&["services=[{tgt: {chap: both}}]"], "chap"),
        (&["services=[{ganesha: {backend: tape}}]"], "backend"),
        (&["services=[{ganesha: {nfs_version: 4}}]"], "`4`"),
        (&["services=[{ganesha: {mount_port: 2049}}]"], "a port of its own"),
        (&["services=[{tgt: {size: 3MiB}}]", "workload.storage.processes=2"], "units of 3MiB"),
        (&["services=[{ganesha: {backend: memory}}]", "workload.storage.size=4MiB"], "the first 2MiB"),
        (&["workload.storage.cache=cold"], "which can't be cold"),
        (
            &["workload.storage.operations=[write, list]", "workload.storage.record=4MiB"],
            "no files can be created",
        ),
        (&["services=nginx"], "does not speak what the workload `storage` speaks"),
    ] {
        let text = refused(changes);
        assert!(text.contains(reason), "{changes:?}: {text}");
    }
    plan(&["services=[{tgt: {size: 3MiB, luns: 2}}]", "workload.storage.processes=2"]);
    plan(&["services=[{ganesha: {backend: memory}}]"]);
}

/// A guest's `/run` is half of its memory: each trial failed that had units larger than that.
#[test]
fn units_that_a_guest_has_no_memory_for_are_refused() {
    for (environment, service, reason) in [
        ("vm", "{tgt: {size: 225MiB}}", "need 225MiB of the memory of `vm`, which has 224MiB for them"),
        ("vm", "{tgt: {size: 32MiB, luns: 8}}", "need 256MiB of the memory of `vm`"),
        ("vm", "{lio: {size: 64MiB, luns: 4, visible: 1}}", "need 256MiB of the memory of `vm`"),
        ("{vm: {memory: 192MiB}}", "tgt", "need 96MiB of the memory of `vm`, which has 64MiB"),
        ("{vm: {fault_tolerance: kemari}}", "{tgt: {size: 1GiB}}", "the memory of `vm-kemari`"),
    ] {
        let environments = format!("environments=[{environment}]");
        let baseline = if environment.contains("kemari") { "baseline=vm-kemari" } else { "baseline=vm" };
        let changes = [environments.as_str(), baseline, &format!("services=[{service}]")];
        let text = refused(&changes);
        assert!(text.contains(reason) && text.contains("raise `budget.sut_memory`"), "{changes:?}: {text}");
        assert_eq!(text.contains("`backend: disk`"), !environment.contains("kemari"), "{changes:?}: {text}");
    }
    for service in ["tgt", "lio", "{tgt: {size: 56MiB, luns: 4}}", "{tgt: {size: 256MiB, backend: disk}}"] {
        plan(&["environments=[vm]", "baseline=vm", &format!("services=[{service}]")]);
    }
    plan(&["services=[{tgt: {size: 1GiB}}]"]);
}

/// A plan whose guest is protected.
const PROTECTED: &[&str] =
    &["environments=[native, {vm: {fault_tolerance: kemari}}]", "faults=[{at: 1s, kill: primary-host}]"];
const FAILOVER: &str = "measure=[{failover: {load: 40/s, duration: 5s}}]";

#[test]
fn a_volume_of_a_protected_guest_may_lose_its_host() {
    let changes =
        [PROTECTED, &[FAILOVER, "workload.storage.operations=mix-30", "workload.storage.timeout=5s"]];
    let plan = plan(&changes.concat());
    assert!(plan.measures[0].kind.is_failover());
    let Workload::Storage(storage) = &plan.cells[0].workload else { panic!("{:?}", plan.cells[0]) };
    assert_eq!(storage.timeout, Nanos::from_secs(5));
    // Natively nothing fails over, so nothing is measured there.
    let measured: Vec<bool> =
        plan.cells.iter().map(|cell| plan.is_measured(cell, &plan.measures[0])).collect();
    assert_eq!(measured, [false, true]);
}

#[test]
fn a_load_whose_losses_would_not_be_seen_is_refused() {
    for (change, reason) in [
        ("workload.storage.operations=[mix-30, random-write]", "is one test"),
        ("workload.storage.operations=random-read", "writes at random places"),
        ("workload.storage.operations=mix-100", "writes at random places"),
        ("workload.storage.operations=write", "writes at random places"),
        ("workload.storage={operations: mix-30, size: 2MiB, rate: 5/s}", "says the rate"),
        ("workload.storage={operations: mix-30, size: 2MiB, dedupe: 10%}", "which write they are of"),
        ("workload.storage={operations: mix-30, size: 2MiB, timeout: 0s}", "`timeout` must be"),
    ] {
        let text = refused(&[PROTECTED, &[FAILOVER, change]].concat());
        assert!(text.contains(reason), "{change}: {text}");
    }
    let disk = ["services=disk", "environments=[native]", "faults=[{at: 1s, kill: sut}]", FAILOVER];
    let text = refused(&[&disk[..], &["workload.storage.operations=mix-30"]].concat());
    assert!(text.contains("would break the load as well"), "{text}");
    let text = refused(&["services=disk", "environments=[native, {vm: {fault_tolerance: kemari}}]"]);
    assert!(text.contains("can't be measured yet"), "{text}");
}

/// Each trial failed, as such guests have no disk of their own.
#[test]
fn what_is_on_a_disk_is_not_served_by_protected_guests_and_those_compared_with_them() {
    let protected = "environments=[native, vm, {vm: {fault_tolerance: kemari}}]";
    for service in ["{tgt: {backend: disk}}", "{ganesha: {backend: [files, disk]}}"] {
        let text = refused(&[protected, &format!("services=[{service}]")]);
        let why = "`vm` is protected, or compared with protected ones, and has no disk of its own";
        assert!(text.contains(why) && text.contains("write `backend: files`"), "{service}: {text}");
    }
    let ftp = ["services=[{ftp: {backend: disk}}]", "workload={ftp: {}}", "measure=throughput"];
    let text = refused(&[&ftp[..], &[protected]].concat());
    assert!(text.contains("that `ftp` could serve from"), "{text}");
    plan(&[&ftp[..], &["environments=[native, vm]"]].concat());
    plan(&[protected, "services=[tgt, ganesha]"]);
}

#[test]
fn a_check_says_who_may_use_what_and_what_can_not_serve() {
    let plan = plan(&[
        "services=[{tgt: {chap: one-way, initiators: [iqn.a]}}, ganesha]",
        "environments=[native, container]",
    ]);
    let pieces = pieces(&plan);
    let of = |what: &str| &pieces.iter().find(|piece| piece.what.starts_with(what)).expect(what).how;
    assert!(of("target iqn.2026-11.vtax:storage of tgt").contains("the initiator iqn.a alone"), "{pieces:?}");
    assert!(of("export /vtax of ganesha").contains("every client"), "{pieces:?}");
    let told = cautions(&plan, &estimate(&plan, &Assumptions::TCG));
    let refused: Vec<&String> = told.iter().filter(|caution| caution.contains("NFS4ERR_PERM")).collect();
    assert!(refused.len() == 1 && refused[0].contains("in a container"), "{told:?}");
}
