//! Network cards of virtual machines in plans.

use vtax_plan::estimate::{left_out, pieces};
use vtax_plan::model::{EnvironmentKind, NicModel, Plan};
use vtax_plan::{PlanErrors, parse};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, vm]
services: http
workload: {http: {target: /bytes/100}}
measure: {latency: {load: 100/s}}
";

const ALL: &str = "environments=[native, {vm: {nic: [virtio, e1000e, e1000, rtl8139]}}]";

fn plan(set: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), set).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(set: &[&str]) -> String {
    match parse("p", PLAN.as_bytes(), set) {
        Err(errors @ PlanErrors::Invalid(_)) => errors.to_string(),
        other => panic!("{set:?} is refused: {other:?}"),
    }
}

fn card(plan: &Plan, cell: usize) -> Option<NicModel> {
    plan.cells[cell].environment.kind.nic()
}

#[test]
fn a_card_is_virtio_unless_told_otherwise_and_a_list_makes_cells() {
    let usual = plan(&[]);
    assert_eq!((card(&usual, 0), card(&usual, 1)), (None, Some(NicModel::Virtio)));
    // Plans of before there was this key read the same, and new ones without it are written as those were.
    assert!(!serde_json::to_string(&usual).unwrap().contains("\"nic\""));
    assert!(usual.cells[1].kernel_modules().is_empty());

    let plan = plan(&[ALL]);
    let ids: Vec<&str> = plan.cells.iter().skip(1).map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids[1], "vm.bridge.http.nic-e1000e");
    assert_eq!(ids.len(), 4);
    let modules = plan.cells.iter().flat_map(|cell| cell.kernel_modules()).collect::<Vec<_>>();
    assert_eq!(modules, ["e1000e", "e1000", "8139cp"]);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    for (cell, model) in plan.cells.iter().skip(1).zip(["virtio", "e1000e", "e1000", "rtl8139"]) {
        let EnvironmentKind::Vm(vm) = &cell.environment.kind else { panic!("not a vm") };
        assert_eq!((vm.nic.word(), &cell.parameters["nic"]), (model, &model.to_owned()));
        assert_eq!(serde_json::to_string(&vm.nic).unwrap(), format!("\"{model}\""));
    }
}

#[test]
fn check_tells_which_card_a_guest_has() {
    let built = pieces(&plan(&[ALL]));
    let cards = built.iter().filter(|piece| piece.what == "environment vm").map(|piece| &piece.how);
    let named: Vec<&str> = cards.map(|how| how.rsplit(' ').next().unwrap()).collect();
    assert_eq!(named[1..], ["e1000e", "e1000", "rtl8139"], "{built:?}");
}

#[test]
fn protected_guests_have_the_card_they_are_given() {
    let plan =
        plan(&["environments=[native, {vm: {nic: e1000}}, {vm: {fault_tolerance: kemari, nic: e1000}}]"]);
    assert_eq!((card(&plan, 1), card(&plan, 2)), (Some(NicModel::E1000), Some(NicModel::E1000)));
    assert_eq!(plan.cells[2].id, "vm-kemari.bridge.http");
}

#[test]
fn packets_that_a_card_can_not_carry_make_no_cell() {
    let some = plan(&[ALL, "paths=[{bridge: {mtu: [1500, 9000, 16000]}}]"]);
    // rtl8139 at 1500; e1000e at 1500 and 9000; all others at each.
    assert_eq!(some.cells.len(), 3 + 3 + 2 + 3 + 1);
    let told = left_out(&some);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.contains(
        "`vm` on `bridge` is left out: the driver of its `rtl8139` takes an MTU of at most 4096 bytes, not 9000"
    ));
    // What counts is the service's own end.
    let narrow = plan(&[ALL, "paths=[{bridge: {mtu: 9000, sut_mtu: 1500}}]"]);
    assert!(left_out(&narrow).is_empty());

    let none = refused(&["environments=[native, {vm: {nic: rtl8139}}]", "paths=[{bridge: {mtu: 9000}}]"]);
    assert!(none.contains("`vm` can be on no path of this plan") && none.contains("at most 4096"), "{none}");
    let alone = refused(&[
        "baseline=vm",
        "environments=[native, {vm: {nic: rtl8139}}]",
        "paths=[{bridge: {mtu: [1500, 9000]}}]",
    ]);
    assert!(alone.contains("has nothing to be compared with") && alone.contains("at most 4096"), "{alone}");
    assert!(alone.contains("make `vm` able to be on `bridge`") && !alone.contains("`http` can't"), "{alone}");
    // A card that some other cell lacks is not why this one is alone.
    let other = refused(&[
        "environments=[native, {vm: {nic: [virtio, rtl8139]}}]",
        "paths=[{bridge: {mtu: 9000}}, bridged]",
    ]);
    let why = "the baseline environment can't be on the path `bridged`";
    assert!(other.contains(why) && !other.contains("at most 4096"), "{other}");
}

#[test]
fn mistakes_are_pointed_at() {
    let told = refused(&["environments=[native, {vm: {nic: e100}}]"]);
    assert!(told.contains("unknown network card: `e100`") && told.contains("`e1000`"), "{told}");
    let told = refused(&["environments=[native, {vm: {nic: [e1000, e1000]}}]"]);
    assert!(told.contains("in the list twice"), "{told}");
    let told = refused(&["environments=[native, {container: {nic: e1000}}]"]);
    assert!(told.contains("unknown key") && told.contains("nic"), "{told}");
    let told = refused(&["baseline=vm", "environments=[native, {vm: {nic: [virtio, e1000]}}]"]);
    assert!(told.contains("is 2 cells of different options"), "{told}");
}

#[test]
fn a_virtio_card_is_tuned_and_each_value_is_a_cell() {
    let tuned = plan(&[
        "environments=[native, {vm: {vcpus: 2, nic_queues: [1, 2], nic_vhost: [auto, off], nic_moderation: [0us, 50us]}}]",
    ]);
    let ids: Vec<&str> = tuned.cells.iter().skip(1).map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids.len(), 8);
    assert_eq!(ids[0], "vm.bridge.http.nic-queues-1.nic-vhost-auto.nic-moderation-0us");
    let tunings: Vec<String> =
        tuned.cells.iter().map(|cell| cell.environment.kind.tuning().words()).collect();
    assert_eq!(tunings[8], "2 queues, no vhost, interrupts 50us apart");
    assert_eq!(tunings[1], "interrupts not moderated");
    let text = serde_json::to_string(&tuned).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), tuned);
    assert!(!serde_json::to_string(&plan(&[])).unwrap().contains("tuning"), "what is usual takes no room");
    let built = pieces(&tuned);
    assert!(
        built.iter().any(|piece| piece.how.ends_with("virtio, 2 queues, no vhost, interrupts 50us apart")),
        "{built:?}"
    );
}

#[test]
fn what_a_card_has_not_is_refused() {
    for (set, expected) in [
        ("nic: [virtio, e1000], nic_ring: 1024", "are those of a `virtio` card, and it has `e1000`"),
        ("nic: rtl8139, nic_vhost: off", "are those of a `virtio` card, and it has `rtl8139`"),
        ("vcpus: 2, nic_queues: [2, 4]", "4 pairs of queues would need as many virtual CPUs, and it has 2"),
        ("fault_tolerance: kemari, nic_moderation: 50us", "one compared with such, can't be tuned"),
        ("nic_ring: 100", "256, 512 or 1024 entries, not 100"),
        ("nic_moderation: 5us", "interrupts are 10us to 10ms apart"),
        ("nic_queues: 17", "17 is too many"),
        ("nic_queues: 0", "a card has a pair of queues"),
        ("nic_vhost: user", "unknown choice: `user`"),
    ] {
        let told = refused(&[&format!("environments=[native, {{vm: {{{set}}}}}]")]);
        assert!(told.contains(expected), "{set}: {told}");
    }
    // What every card can be told, and queues for as many CPUs as there are.
    let some = plan(&[
        "environments=[native, {vm: {nic: [e1000, rtl8139], nic_moderation: 50us}}, {vm: {name: many, nic_queues: 8}}]",
    ]);
    assert_eq!(some.cells.len(), 4);
}
