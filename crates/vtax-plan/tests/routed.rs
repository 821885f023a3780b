//! Routed paths: what a plan may say about them, which cells they make, and what is refused.

use proptest::prelude::*;
use vtax_plan::estimate::{Requirement, pieces, requirements};
use vtax_plan::model::Plan;
use vtax_plan::{PlanErrors, parse};
use vtax_topology::bfd::Bfd;
use vtax_topology::model::Link;
use vtax_topology::options::{Backdoor, Choice, RouterHost, Speaks};
use vtax_units::Nanos;

fn text(environments: &str, topology: &str) -> String {
    format!(
        "vtax: 1\nname: t\nbaseline: {{environment: native, path: direct}}\nenvironments: {environments}\nservices: \
         http\nworkload: {{http: {{target: /page/1}}}}\nmeasure: capacity\npaths:\n  - direct\n  - {topology}\n"
    )
}

fn ok(topology: &str) -> Plan {
    let text = text("[native, vm]", topology);
    parse("plan.yaml", text.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
}

/// Errors with their places and ways out.
fn errors(topology: &str) -> Vec<String> {
    match parse("plan.yaml", text("[native, vm]", topology).as_bytes(), &[] as &[&str]) {
        Ok(plan) => panic!("no error: {plan:?}"),
        Err(PlanErrors::Invalid(diagnostics)) => diagnostics
            .iter()
            .map(|d| format!("{}:{} {} [{}]", d.line, d.column, d.message, d.help.unwrap_or_default()))
            .collect(),
        Err(other) => panic!("{other}"),
    }
}

fn only(plan: &Plan) -> &Choice {
    let mut all = plan.cells.iter().filter_map(|cell| cell.path.kind.routed());
    &all.next().unwrap().topology
}

#[test]
fn a_word_is_the_studys_vpn() {
    let plan = ok("routed");
    assert_eq!(only(&plan), &Choice::MplsVpn(Default::default()));
    assert_eq!(only(&ok("routed: {topology: mpls-vpn}")), only(&plan));
    assert!(requirements(&plan).contains(&Requirement::Routers));
    let how = pieces(&plan).into_iter().find(|piece| piece.what == "path routed").unwrap().how;
    assert_eq!(
        how,
        "MPLS VPN with 1 P router in the core, a backdoor that the VPN is preferred to, from ce1 to pe2"
    );
}

#[test]
fn lists_make_cells() {
    let plan =
        ok("routed: {topology: {mpls-vpn: {core: [1, 10], backdoor: [sham-link, none]}}, place: guest}");
    let native = plan.cells.iter().filter(|cell| cell.environment.name == "native");
    let ids: Vec<&str> =
        native.filter(|cell| cell.path.kind.routed().is_some()).map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert!(ids.iter().any(|id| id.contains("core-10") && id.contains("backdoor-none")), "{ids:?}");
    let watched = ok("routed: {hops: [false, true]}");
    let ids: Vec<&str> = watched.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert!(ids.contains(&"native.routed.http.hops-true"), "captures are another path: {ids:?}");
    let options = plan.cells.iter().filter_map(|cell| cell.path.kind.routed());
    assert!(options.clone().all(|options| options.place == RouterHost::Guest));
    let backdoors =
        options.filter(|o| matches!(&o.topology, Choice::MplsVpn(v) if v.backdoor == Backdoor::None));
    assert_eq!(backdoors.count(), 4, "two cores in two environments");
}

#[test]
fn bfd_is_off_or_as_close_as_is_asked() {
    let plan = ok("routed: {topology: {mpls-vpn: {bfd: [false, true, 300ms]}}}");
    let native = plan.cells.iter().filter(|cell| cell.environment.name == "native");
    let all = native.filter_map(|cell| match &cell.path.kind.routed()?.topology {
        Choice::MplsVpn(vpn) => Some((cell.id.as_str(), vpn.bfd)),
        _ => None,
    });
    let slow = Bfd::every(Nanos::from_millis(300)).unwrap();
    assert_eq!(
        all.collect::<Vec<_>>(),
        [
            ("native.routed.http.bfd-false", Bfd::Off),
            ("native.routed.http.bfd-true", Bfd::USUAL),
            ("native.routed.http.bfd-300ms", slow)
        ]
    );
    assert!(pieces(&plan).iter().any(|piece| piece.how.ends_with("watched by BFD every 300ms")));
    let same = ok("routed: {topology: {leaf-spine: {bfd: 50ms}}}");
    assert!(matches!(only(&same), Choice::LeafSpine(fabric) if fabric.bfd == Bfd::USUAL));
    for (written, said) in [
        ("often", "`often` is not `true`, `false`, or the time between two packets such as `300ms`"),
        ("5ms", "BFD's packets are 10ms to 60s apart"),
        ("[true, 1.5ms]", "BFD's packets are 10ms to 60s apart"),
    ] {
        let found = errors(&format!("routed: {{topology: {{mpls-vpn: {{bfd: {written}}}}}}}")).join("\n");
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn a_topology_may_be_written_out() {
    let plan = ok(
        "routed: {topology: {custom: {routers: [{name: a, speaks: bgp, system: 65000}, {name: b, speaks: bgp, system: 65001}], \
         links: [{between: [a, b], rate: 10mbit}], client: a, sut: b}}}",
    );
    let Choice::Custom(custom) = only(&plan) else { panic!("{plan:?}") };
    assert_eq!((custom.links[0].delay, custom.links[0].loss), (None, None));
    assert_eq!(custom.routers[1].speaks, Speaks::Bgp(65_001));
    assert_eq!(custom.links[0].between, ["a".to_owned(), "b".to_owned()]);
}

#[test]
fn links_inside_may_be_long_and_lose_packets() {
    let plan = ok(
        "routed: {topology: {custom: {routers: [a, b], links: [{between: [a, b], delay: 5ms, loss: 0.1%}], client: a, \
         sut: b}}}",
    );
    let Choice::Custom(custom) = only(&plan) else { panic!("{plan:?}") };
    assert_eq!((custom.links[0].delay, custom.links[0].loss), (Some(Nanos::from_millis(5)), Some(1_000)));
    let plan = ok("routed: {topology: {mpls-vpn: {core_delay: [1ms, 10ms], core_loss: 1%}}}");
    let ids: Vec<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert!(ids.iter().any(|id| id.contains("10ms")), "{ids:?}");
    let topology = vtax_topology::builtin::topology(only(&plan));
    let emulated = |link: &&Link| link.wire.is_emulated();
    let names: Vec<String> = topology.links.iter().filter(emulated).map(Link::name).collect();
    assert_eq!(names, ["pe1-p1", "p1-pe2"]);
    let plan = ok("routed: {topology: {leaf-spine: {link_delay: 2ms}}}");
    let topology = vtax_topology::builtin::topology(only(&plan));
    assert!(topology.links.iter().all(|link| link.wire.words() == "2ms"));
    let lost = errors("routed: {topology: {mpls-vpn: {core_loss: 60%}}}").join("\n");
    assert!(lost.contains("at most 50%"), "{lost}");
}

#[test]
fn each_slip_is_told_with_its_place() {
    let custom = |rest: &str| errors(&format!("routed: {{topology: {{custom: {{{rest}}}}}}}")).join("\n");
    let slips = [
        (
            errors("routed: {topology: {mpls-vpn: {core: 11}}}").join("\n"),
            "P routers in the core are 1 to 10, not 11",
        ),
        (errors("routed: {topology: {mpls-vpn: {client: pe1, sut: pe1}}}").join("\n"), "at the same router"),
        (errors("routed: {topology: mpls-vpm}").join("\n"), "did you mean `mpls-vpn`?"),
        (errors("routed: {topology: {leaf-spine: {leaves: 1}}}").join("\n"), "leaves are 2 to 8, not 1"),
        (
            errors("routed: {topology: {mpls-vpn: {routes: 10001}}}").join("\n"),
            "routes of the VPN are 0 to 10000",
        ),
        (custom("routers: [a, b], links: [{between: [a, c]}], client: a, sut: b"), "there is no router `c`"),
        (custom("routers: [a, a], client: a, sut: a"), "router `a` is there twice"),
        (custom("routers: [a, b], links: [{between: [a]}], client: a, sut: b"), "a link has two routers"),
        (
            custom(
                "routers: [a, b], links: [{between: [a, b], addresses: [10.0.0.1/30]}], client: a, sut: b",
            ),
            "a link has two addresses, such as `[10.0.1.1/30, 10.0.1.2/30]`",
        ),
        (custom("routers: [a, b], client: a, sut: b"), "no link leads from `a`"),
        (
            custom("routers: [{name: a, speaks: bgp}, b], client: a, sut: b"),
            "needs the number of its autonomous system [such as `system: 65001`, a number of its own for each router; ",
        ),
        (
            custom(
                "routers: [a, b], links: [{between: [a, b], addresses: [10.0.0.1, 10.0.0.2/30]}], client: a, sut: b",
            ),
            "`10.0.0.1` is no IPv4 address with a prefix length",
        ),
        (
            custom(
                "routers: [a, b], links: [{between: [a, b], addresses: [10.96.1.3/24, 10.96.1.2/24]}], client: a, sut: b",
            ),
            "addresses clash",
        ),
    ];
    for (found, expected) in slips {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    let nowhere = custom("routers: [a, b], links: [{between: [a, b]}, {between: [b, z]}], client: a, sut: b");
    let column = text(
        "[native, vm]",
        "routed: {topology: {custom: {routers: [a, b], links: [{between: [a, b]}, {between: [b, z]}]",
    )
    .lines()
    .last()
    .and_then(|line| line.rfind("{between"))
    .unwrap();
    assert!(nowhere.starts_with(&format!("10:{} ", column + 1)), "{nowhere}");
}

#[test]
fn routers_and_links_that_could_not_work_are_refused() {
    let custom = |rest: &str| errors(&format!("routed: {{topology: {{custom: {{{rest}}}}}}}")).join("\n");
    let slips = [
        (
            custom(
                "routers: [a, {name: b, speaks: bgp, system: 65001}], links: [{between: [a, b]}], client: a, sut: b",
            ),
            "no links whose ends both speak OSPF, or both BGP, lead from `a`",
        ),
        (
            custom(
                "routers: [{name: a, loopback: 127.0.0.1}, b], links: [{between: [a, b]}], client: a, sut: b",
            ),
            "`127.0.0.1` is no IPv4 address of a router",
        ),
        (
            custom(
                "routers: [a, {name: b, loopback: 255.255.255.255}], links: [{between: [a, b]}], client: a, sut: b",
            ),
            "`255.255.255.255` is no IPv4 address of a router",
        ),
        (
            custom(
                "routers: [a, b], links: [{between: [a, b], addresses: [10.0.1.3/30, 10.0.1.2/30]}], client: a, sut: b",
            ),
            "`10.0.1.3/30` is its network's broadcast address; the two ends are 10.0.1.1 and 10.0.1.2",
        ),
    ];
    for (found, expected) in slips {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn ten_thousand_routers_are_refused_at_once() {
    let routers: Vec<String> = (0..10_000).map(|number| format!("r{number}")).collect();
    let found = errors(&format!(
        "routed: {{topology: {{custom: {{routers: [{}], client: r0, sut: r1}}}}}}",
        routers.join(", ")
    ));
    assert!(found.join("").contains("at most 64 routers"), "{found:?}");
}

fn with_faults(faults: &str) -> Result<Plan, String> {
    let text = text("native", "routed")
        .replace("measure: capacity", "measure: {failover: {load: 100/s, duration: 30s}}");
    let text = format!("{text}faults: [{faults}]\n");
    parse("plan.yaml", text.as_bytes(), &[] as &[&str]).map_err(|e| e.to_text(false))
}

#[test]
fn what_is_done_to_routers_is_checked_against_the_topology() {
    let plan =
        with_faults("{at: 1s, cut_link: p1-pe2}, {at: 9s, lossy_link: {link: p1-pe2, from: p1, share: 5%}}")
            .unwrap();
    let failover = plan.measures[0].kind.failover().unwrap();
    let routed = plan.cells.iter().find(|cell| cell.path.kind.routed().is_some()).unwrap();
    let words: Vec<String> = failover.faults_of(routed).map(|fault| fault.kind.words()).collect();
    assert_eq!(words, ["cut: p1-pe2", "lossy: p1-pe2 from p1, 5 %"]);
    let direct = plan.cells.iter().find(|cell| cell.path.kind.routed().is_none()).unwrap();
    assert!(!failover.applies_to(direct), "it has no routers");
    let flapping = with_faults(
        "{at: 1s, every: 8s, times: 3, cut_link: p1-pe2}, {at: 5s, every: 8s, times: 3, restore_link: p1-pe2}",
    );
    let flapping = flapping.unwrap();
    let faults = &flapping.measures[0].kind.failover().unwrap().faults;
    let told: Vec<String> = faults.iter().map(|f| format!("{} {}", f.at, f.kind.words())).collect();
    assert_eq!(told.len(), 6, "{told:?}");
    assert_eq!(told[..3], ["1s cut: p1-pe2", "5s restore: p1-pe2", "9s cut: p1-pe2"]);
    let text = serde_json::to_string(&failover.faults).unwrap();
    assert!(text.contains(r#""action":"topology","target":{"cut-link":"p1-pe2"}"#), "{text}");
    for (fault, expected) in [
        ("{at: 1s, cut_link: p1-p9}", "there is no link `p1-p9`"),
        ("{at: 1s, stop_daemon: {router: p1, daemon: bgp}}", "did you mean `bgpd`?"),
        ("{at: 1s, cut_link: p1-pe2, kill_router: p1}", "this fault does two things"),
        ("{at: 1s}", "this fault does nothing"),
        ("{at: 1s, lossy_link: {link: p1-pe2, share: 0%}}", "`share` must be above 0%"),
        ("{at: 1s, kill_router: ''}", "a name has 1 to 40 bytes"),
    ] {
        let found = with_faults(fault).unwrap_err();
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

proptest! {
    #[test]
    fn any_topology_is_read_or_refused(
        routers in prop::collection::vec("[a-c]{1,2}|\\PC{0,3}", 0..6),
        links in prop::collection::vec(("[a-c]", "[a-d]"), 0..6),
        client in "[a-d]",
    ) {
        let routers: Vec<String> = routers.iter().map(|name| serde_json::to_string(name).unwrap()).collect();
        let links: Vec<String> = links.iter().map(|(a, b)| format!("{{between: [{a}, {b}]}}")).collect();
        let text = text("[native]", &format!(
            "routed: {{topology: {{custom: {{routers: [{}], links: [{}], client: {client}, sut: b}}}}}}",
            routers.join(", "), links.join(", "),
        ));
        let _ = parse("plan.yaml", text.as_bytes(), &[] as &[&str]);
    }
}
