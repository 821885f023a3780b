//! Paths: what a plan may say about them, which cells they make, and what is refused.

use proptest::prelude::*;
use vtax_plan::estimate::{Requirement, pieces, requirements};
use vtax_plan::model::{
    Addressing, CardSharing, Controller, Datapath, EnvironmentKind, NatOptions, PathKind, Plan, SdnMode,
    UserNetwork, VirtualSwitch, Wiring,
};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{BitRate, Nanos, Share};

fn text(baseline: &str, environments: &str, paths: &str) -> String {
    let paths =
        if paths.contains(": ") && !paths.starts_with('[') { format!("{{{paths}}}") } else { paths.into() };
    format!(
        "vtax: 1\nname: t\nbaseline: {baseline}\nenvironments: {environments}\nservices: http\nworkload: \
         {{http: {{target: /page/1}}}}\nmeasure: capacity\npaths: {paths}\n"
    )
}

fn ok(baseline: &str, environments: &str, paths: &str) -> Plan {
    let text = text(baseline, environments, paths);
    parse("plan.yaml", text.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
}

/// Errors with their places and ways out.
fn errors(baseline: &str, environments: &str, paths: &str) -> Vec<String> {
    match parse("plan.yaml", text(baseline, environments, paths).as_bytes(), &[] as &[&str]) {
        Ok(plan) => panic!("no error: {plan:?}"),
        Err(PlanErrors::Invalid(diagnostics)) => diagnostics
            .iter()
            .map(|d| format!("{}:{} {} [{}]", d.line, d.column, d.message, d.help.unwrap_or_default()))
            .collect(),
        Err(other) => panic!("{other}"),
    }
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.cells.iter().map(|c| c.id.as_str()).collect()
}

#[test]
fn a_path_meets_the_environments_that_suit_it() {
    let all = "[direct, gigabit, ovs, sdn, bridged, vm-vm, mininet, {nic: {host: a@192.0.2.7}}]";
    let plan = ok("{environment: native, path: direct}", "[native, container, vm]", all);
    let on = |path: &str| {
        let cells = plan.cells.iter().filter(|c| c.path.name == path);
        cells.map(|c| c.environment.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(on("sdn"), ["native", "container", "vm"]);
    assert_eq!(on("bridged"), ["vm"]);
    assert_eq!(on("vm-vm"), ["vm"]);
    assert_eq!(on("mininet"), ["native"]);
    assert_eq!(on("nic"), ["native"]);
    let lonely: Vec<_> = plan.cells.iter().filter(|c| c.baseline.is_none()).map(|c| &c.id).collect();
    assert_eq!(lonely, ["native.direct.http"], "everything is compared with the baseline path");
    assert!(plan.cells.iter().all(|c| c.path.kind.suits(&c.environment.kind)));
}

#[test]
fn combinations_that_cannot_be_are_told_with_the_way_out() {
    assert_eq!(
        errors("native", "native", "[direct, vm-vm]"),
        [
            "8:17 no environment of this plan can be on a `vm-vm` path: the service must be in a virtual machine \
          [add `vm` to the environments, or leave this path out]"
        ]
    );
    assert_eq!(
        errors("vm", "[vm]", "mininet"),
        [
            "8:8 no environment of this plan can be on a `mininet` path: its hosts are network namespaces [add \
          `native` to the environments, or leave this path out]"
        ]
    );
    assert_eq!(
        errors("native", "[native, vm]", "[direct, bridged]"),
        [
            "3:11 the baseline environment can't be on the path `bridged`, so `vm.bridged.http` has nothing to be \
          compared with [name a path that all are compared with: `baseline: {environment: ..., path: direct}`]"
        ]
    );
    assert_eq!(errors("{environment: native, path: vm-vm}", "[native, vm]", "[direct, vm-vm]").len(), 1);
    let like_pairs = "a plan with protected virtual machines builds all its virtual machines like them";
    for path in ["ovs", "sdn", "vxlan"] {
        let found = errors("vm-kemari", "[vm: {fault_tolerance: kemari}]", path);
        let way_out = "[add `native` or `container`, measure this path in a plan without `fault_tolerance`";
        assert!(found[0].contains(like_pairs) && found[0].contains(way_out), "{found:?}");
    }
    // What is beside it doesn't help, a plain virtual machine either: it is built like the protected one.
    for plain in ["native", "native, vm"] {
        let environments = format!("[{plain}, vm: {{fault_tolerance: kemari}}]");
        for path in ["vm-vm", "bridged: {switch: ovs}"] {
            let found = errors("native", &environments, path);
            let way_out = "[measure this path in a plan without `fault_tolerance`, or leave this path out]";
            assert!(found.iter().any(|e| e.contains(like_pairs) && e.contains(way_out)), "{found:?}");
        }
    }
    // Of two switches the one that none can be on isn't left out in silence, whichever comes first.
    for switches in ["[bridge, ovs]", "[ovs, bridge]"] {
        let path = format!("bridged: {{switch: {switches}}}");
        let found = errors("vm-kemari", "[vm: {fault_tolerance: kemari}]", &path);
        let what = "no environment of this plan can be on a `bridged` path with `switch: ovs`";
        assert!(found[0].contains(what) && found[0].contains(like_pairs), "{found:?}");
        let way_out =
            "[leave `ovs` out of `switch`, measure it in a plan without `fault_tolerance`, or leave";
        assert!(found[0].contains(way_out), "{found:?}");
        assert_eq!(ids(&ok("vm", "vm", &path)).len(), 2);
    }
}

#[test]
fn paths_that_stand_once_are_no_duets() {
    let measured = |path: &str| {
        let text = text("native", "[native, container]", path)
            .replace("measure: capacity", "measure: {latency: {load: 10/s}}\nrepeat: {trials: duet}");
        parse("plan.yaml", text.as_bytes(), &[] as &[&str]).map_err(|e| e.to_text(false))
    };
    assert!(measured("gigabit").is_ok());
    for path in ["ovs", "sdn"] {
        let refused = measured(path).unwrap_err();
        assert!(refused.contains(&format!("path `{path}` can't be part of a duet")), "{refused}");
    }
}

#[test]
fn options_become_cells() {
    let plan =
        ok("native", "native", "sdn: {controller: [testcontroller, os-ken], mode: [reactive, every-packet]}");
    assert_eq!(
        ids(&plan),
        [
            "native.sdn.http.controller-testcontroller.mode-reactive",
            "native.sdn.http.controller-testcontroller.mode-every-packet",
            "native.sdn.http.controller-os-ken.mode-reactive",
            "native.sdn.http.controller-os-ken.mode-every-packet",
        ]
    );
    let PathKind::Sdn(last) = &plan.cells[3].path.kind else { panic!("not sdn") };
    assert_eq!((last.controller, last.mode), (Controller::OsKen, SdnMode::EveryPacket));
    assert_eq!(last.ovs.datapath, Datapath::Auto);

    let plan =
        ok("native", "native", "bridge: {rate: 16mbit, delay: [1ms, 20ms], loss: 0.5%, sut_mtu: 1400}");
    let path = &plan.cells[1].path;
    assert_eq!((path.rate, path.delay), (Some(BitRate(16_000_000)), Nanos::from_millis(20)));
    assert_eq!((path.loss, path.sut_mtu, path.mtu, path.offloads), (Share(0.005), Some(1400), 1500, true));
    assert!(path.is_emulated() && !ok("native", "native", "ovs").cells[0].path.is_emulated());

    let plan = ok("native", "native", "gigabit: {wires: [shared, own]}");
    assert_eq!(ids(&plan), ["native.gigabit.http.wires-shared", "native.gigabit.http.wires-own"]);
    assert_eq!([0, 1].map(|i| plan.cells[i].path.wires), [Wiring::Shared, Wiring::Own]);

    let plan = ok("vm", "vm", "bridged: {wires: own, cards: [1, 4]}");
    assert_eq!(ids(&plan), ["vm.bridged.http.cards-1", "vm.bridged.http.cards-4"]);
    assert_eq!([0, 1].map(|i| plan.cells[i].path.cards.get()), [1, 4]);
    let told =
        pieces(&plan).into_iter().filter(|piece| piece.how.ends_with("4 cards in each system")).count();
    assert_eq!(told, 1);

    let plan = ok("native", "native", "bridge: {addresses: [static, dhcp]}");
    assert_eq!(ids(&plan), ["native.bridge.http.addresses-static", "native.bridge.http.addresses-dhcp"]);
    assert_eq!([0, 1].map(|i| plan.cells[i].path.addresses), [Addressing::Static, Addressing::Dhcp]);
    assert!(requirements(&plan).contains(&Requirement::Dhcp));
    let told =
        pieces(&plan).into_iter().filter(|piece| piece.how.ends_with("bridge, addresses by DHCP")).count();
    assert_eq!(told, 1);

    let plan = ok("vm", "vm", "[bridged: {switch: ovs}, vm-vm]");
    assert_eq!(plan.cells[0].path.kind, PathKind::Bridged(VirtualSwitch::Ovs));
    assert_eq!(plan.cells[0].path.rate, Some(BitRate(1_000_000_000)), "its physical side is a gigabit");
    assert_eq!(plan.cells[1].path.rate, None);
    assert!(plan.cells[0].path.kind.ovs().is_some() && plan.cells[1].path.kind.has_client_vm());
}

#[test]
fn values_that_make_no_sense_are_refused_where_they_stand() {
    for (path, expected) in [
        ("bridge: {rate: 10bit}", "8:24 "),
        ("direct: {delay: 5s}", "8:25 `delay` must be more than 0s and at most 2s"),
        ("direct: {loss: 0%}", "8:24 `loss` must be above 0% and at most 50%"),
        ("direct: {loss: 60%}", "8:24 `loss` must be above 0%"),
        ("bridge: {queue: 5ms}", "8:25 a `queue` forms only where there is a `rate`"),
        ("bridge: {wires: own}", "8:25 `wires: own` says nothing where there is no `rate`"),
        ("bridge: {cards: 0}", "8:25 "),
        ("bridge: {cards: 9}", "8:25 "),
        ("vm-vm: {cards: 2}", "8:17 unknown key in `vm-vm`: `cards`"),
        (
            "bridge: {cards: 2, addresses: dhcp}",
            "4:16 `native` can be on no path of this plan: a DHCP server gives each",
        ),
        ("direct: {addresses: dhcp}", "8:18 unknown key in `direct`: `addresses`"),
        ("bridge: {addresses: bootp}", "8:29 unknown choice: `bootp`"),
        ("bridge: {mtu: 68}", "8:23 68 is no MTU"),
        ("bridge: {sut_mtu: 70000}", "8:27 70000 is no MTU"),
        ("sdn: {controller: ryu}", "8:27 unknown controller: `ryu`"),
        ("ovs: {datapath: dpdk}", "8:25 unknown datapath: `dpdk`"),
        ("mininet: {rate: 1gbit}", "8:19 unknown key in `mininet`: `rate`"),
        ("vm_vm", "8:8 unknown path: `vm_vm` [did you mean `vm-vm`?"),
        ("nic", "8:8 `nic` needs the key `host`"),
        ("nic: {hosts: 1}", "8:22 1 hosts: one has the service, and 1 to 64 make the load"),
        ("nic: {hosts: 66}", "8:22 66 hosts"),
        ("nic: {hosts: 3, host: a}", "8:31 with `hosts` those that `vtax run --on` gives have the service"),
        ("nic: {hosts: 3, generators: a}", "8:37 with `hosts` those that `vtax run --on` gives"),
        ("nic: {hosts: 3, address: a}", "8:34 `address` is that of one host"),
        ("nic: {hosts: 3, address: \"{host};id\"}", "8:34 `x;id` can't be the address of a path"),
        ("nic: {hosts: 3, interface: eth0}", "8:36 `interface` is one of this host"),
        ("nic: {host: -oProxyCommand=x}", "8:21 `-oProxyCommand=x` can't be the host of a path"),
        ("nic: {host: \"a b\"}", "8:21 `a b` can't be the host of a path"),
        ("nic: {host: a, vtax: \"/bin/v;id\"}", "8:30 `/bin/v;id` can't be the vtax of a path"),
        ("nic: {host: a, interface: averyverylongname}", "8:35 an interface's name has at most 15 bytes"),
        (
            "nic: {host: a, generators: [a]}",
            "8:37 `a` has the service: a generator there would take its CPUs",
        ),
        ("nic: {host: a, generators: [b, c, b]}", "8:43 `b` is named twice"),
        ("nic: {host: a, generators: [\"b c\"]}", "8:37 `b c` can't be the generator of a path"),
        ("nic: {host: a, draw: true}", "8:30 there is nothing to draw"),
        (
            "nic: {host: a, address: 192.0.2.1, generators: b, draw: true}",
            "8:33 `address` is that of one host",
        ),
        ("nic: {host: a, generators: b, interface: eth0}", "8:50 `interface` is one of this host"),
    ] {
        let all = errors("native", "[native, vm]", path);
        assert!(all.iter().any(|e| e.starts_with(expected)), "{path}: {all:#?}");
    }
}

#[test]
fn what_a_path_is_and_needs_is_told_before_anything_is_built() {
    let plan = ok(
        "{environment: native, path: direct}",
        "[native, vm]",
        "[direct, gigabit: {delay: 20ms, loss: 1%, queue: 50ms, offloads: false}, sdn: {controller: os-ken}, mininet]",
    );
    let told: Vec<String> = pieces(&plan).into_iter().map(|p| format!("{}: {}", p.what, p.how)).collect();
    for expected in [
        "path gigabit: software bridge, 1gbit per port, 20ms of delay each way, 1% lost each way, queues of \
         50ms, no offloads",
        "path sdn: Open vSwitch with os-ken, which installs flows",
        "path mininet: Mininet with a Linux bridge",
    ] {
        assert!(told.iter().any(|t| t == expected), "{expected}\n{told:#?}");
    }
    let needed = requirements(&plan);
    for need in [Requirement::Tbf, Requirement::OpenVSwitch, Requirement::OsKen, Requirement::Mininet] {
        assert!(needed.contains(&need) && !need.text().is_empty(), "{need:?}");
    }
    let client = ok("vm", "vm", "vm-vm");
    assert!(pieces(&client).iter().any(|p| p.what == "client" && p.how.contains("virtual machine")));
}

#[test]
fn roles_of_hosts_may_be_drawn_for_each_round() {
    let nic = |draw: bool, seed, round| {
        let plan =
            ok("native", "native", &format!("nic: {{host: root@a, generators: [b, c], draw: {draw}}}"));
        let PathKind::Nic(nic) = plan.cells[0].path.kind.in_round(seed, round) else { panic!("not nic") };
        (nic.host, nic.address, nic.generators)
    };
    let pinned = ("root@a".to_owned(), "a".to_owned(), vec!["b".to_owned(), "c".to_owned()]);
    assert!((0..9).all(|round| nic(false, 1, round) == pinned));
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..20 {
        for block in 0..3 {
            let drawn: Vec<_> = (0..3).map(|round| nic(true, seed, block * 3 + round)).collect();
            let services: Vec<&str> = drawn.iter().map(|(host, ..)| host.as_str()).collect();
            orders.insert(services.join(" "));
            let mut sorted = services.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, ["b", "c", "root@a"], "each has the service once");
            for (host, address, generators) in &drawn {
                assert_eq!((address.as_str(), generators.len()), (host.trim_start_matches("root@"), 2));
                assert!(!generators.contains(host));
            }
            assert_eq!(nic(true, seed, block * 3), drawn[0], "the same seed draws the same");
        }
    }
    assert_eq!(orders.len(), 6, "every order comes up");
    let plan = ok("native", "native", "nic: {host: a, generators: b, draw: true}");
    assert!(
        pieces(&plan).iter().any(|piece| piece.how.starts_with("network between a, b; each round draws"))
    );
}

#[test]
fn hosts_may_be_given_when_it_is_run() {
    let plan = ok("native", "native", "nic: {hosts: 3, draw: true, address: \"{host}-ib\"}");
    assert_eq!(plan.hosts_asked(), 3);
    assert!(!requirements(&plan).contains(&Requirement::Ssh), "it is the engine's matter");
    let told = pieces(&plan).into_iter().any(|piece| {
        piece.how == "network between 3 hosts that --on gives; each round draws which of them has the service"
    });
    assert!(told);
    let names = [("user@n1", "user@n1"), ("n2", "n2"), ("n3", "192.0.2.3")];
    let mut services = std::collections::BTreeSet::new();
    for round in 0..3 {
        let PathKind::Nic(nic) = plan.cells[0].path.kind.in_round(7, round).on_hosts(&names) else {
            panic!("not nic")
        };
        let mut all: Vec<&String> = nic.hosts().collect();
        all.sort_unstable();
        assert_eq!(all, ["n2", "n3", "user@n1"]);
        let called = if nic.host == "n3" { "192.0.2.3" } else { nic.host.trim_start_matches("user@") };
        assert_eq!(nic.address, format!("{called}-ib"));
        assert_eq!(nic.on_hosts(&names).address, nic.address, "it is there already");
        services.insert(nic.host);
    }
    assert_eq!(services.len(), 3, "each has the service once");
    let plan = ok("native", "native", "nic: {hosts: 2}");
    let PathKind::Nic(nic) = plan.cells[0].path.kind.on_hosts(&names) else { panic!("not nic") };
    assert_eq!((nic.host.as_str(), nic.address.as_str(), nic.generators.len()), ("user@n1", "n1", 1));
    // A place for which there is no host stays one.
    let PathKind::Nic(nic) = plan.cells[0].path.kind.on_hosts(&names[..1]) else { panic!("not nic") };
    assert_eq!(nic.generators, ["host-2"]);
    // Names that are known are put in.
    let plan = ok("native", "native", "nic: {host: root@a, address: \"{host}.lan\", generators: b}");
    let PathKind::Nic(nic) = &plan.cells[0].path.kind else { panic!("not nic") };
    assert_eq!((nic.address.as_str(), plan.hosts_asked()), ("a.lan", 0));
    let plan = ok("native", "native", "nic: {host: a, address: \"{host}.lan\", generators: b, draw: true}");
    let of = |round| match plan.cells[0].path.kind.in_round(7, round) {
        PathKind::Nic(nic) => nic.address,
        other => panic!("{other:?}"),
    };
    let mut both = [of(0), of(1)];
    both.sort_unstable();
    assert_eq!(both, ["a.lan", "b.lan"]);
}

/// A plan whose load comes from these generators, with this workload and these measures.
fn from_afar(generators: &str, workload: &str, measure: &str) -> Result<Plan, String> {
    let of = ["ftp", "redis", "sip"].into_iter().find(|name| workload.contains(name));
    let service = of.unwrap_or(if workload.contains("desktop") { "tigervnc" } else { "http" });
    let text = format!(
        "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: [{service}]\nworkload: {workload}\nmeasure: \
         [{measure}]\npaths: {{nic: {{host: sut, generators: {generators}}}}}\n"
    );
    parse("plan.yaml", text.as_bytes(), &[] as &[&str]).map_err(|e| e.to_text(false))
}

#[test]
fn a_load_may_come_from_hosts_of_its_own() {
    let http = "{http: {target: /page/1, connections: 4}}";
    let open = "latency: {load: 10/s}";
    let plan = from_afar("[root@g1, g2]", http, &format!("capacity, {open}, throughput")).unwrap();
    assert_eq!(plan.cells[0].path.kind.generators(), ["root@g1", "g2"]);
    assert!(
        pieces(&plan).iter().any(|piece| piece.how.ends_with("(agent by ssh sut), load from root@g1, g2"))
    );
    assert!(requirements(&plan).contains(&Requirement::Ssh));
    for workload in ["{redis: {}}", "{ftp: {}}", "{ftp: {bytes: 1MiB}}"] {
        from_afar("[g1, g2]", workload, "throughput").unwrap();
    }
    // One alone keeps any distances.
    from_afar("g1", http, "latency: {load: 10/s, arrivals: constant}").unwrap();
    for (generators, workload, measure, expected) in [
        (
            "[g1, g2]",
            http,
            "latency: {load: 10/s, arrivals: constant}",
            "can't keep the even distances that `latency@10` asks for",
        ),
        ("[g1, g2, g3, g4, g5]", http, open, "has 5 generators, and the workload 4 connections"),
        ("[g1, g2, g3]", "{redis: {keys: 2}}", "throughput", "has 3 generators, and the workload 2 keys"),
        ("[g1, g2, g3]", "{redis: {connections: 2}}", "throughput", "and the workload 2 connections"),
        ("[g1, g2, g3]", "{ftp: {clients: 2}}", "throughput", "has 3 generators, and the workload 2 clients"),
        ("g1", "{ftp: {addresses: 3}}", "throughput", "`addresses: 3` are made on a network of the lab"),
        (
            "g1",
            "{desktop: {}}",
            "throughput",
            "the load of `desktop`: what users of desktops see doesn't add up",
        ),
        ("g1", "{sip: {}}", "throughput", "the load of `sip`: one generator has all subscribers"),
    ] {
        let told = from_afar(generators, workload, measure).unwrap_err();
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let many: Vec<String> = (0..65).map(|n| format!("g{n}")).collect();
    let told = from_afar(&format!("[{}]", many.join(", ")), http, open).unwrap_err();
    assert!(told.contains("65 generators are too many: at most 64"), "{told}");
}

/// A plan that asks for hosts names no generators that could be left out.
#[test]
fn the_way_out_of_hosts_that_are_given_is_one_that_is_named() {
    let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: [sip]\nworkload: {sip: {}}\nmeasure: ims\n\
                paths: {nic: {hosts: 3}}\n";
    let told = parse("plan.yaml", text.as_bytes(), &[] as &[&str]).unwrap_err().to_text(false);
    for part in [
        "path `nic` has hosts that make the load, and these can't make that of `sip`: one generator",
        "name one `host` in place of `hosts`, and the load comes from this one",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    assert!(!told.contains("leave `generators` out"), "{told}");
}

#[test]
fn paths_of_containers_suit_what_they_can_join() {
    let plan = ok("native", "[native, vm]", "nat: {masquerade: [false, true]}");
    assert_eq!(plan.cells.len(), 4, "virtual machines are published too");
    assert_eq!(ids(&plan)[2], "native.nat.http.masquerade-true");
    assert_eq!(plan.cells[2].path.kind, PathKind::Nat(NatOptions { masquerade: true }));
    assert!(requirements(&plan).contains(&Requirement::Nat));

    let plan = ok(
        "native",
        "[native, container, vm]",
        "[vxlan: {mtu: [1500, 9000]}, macvlan, ipvlan, pasta, slirp4netns, wireguard]",
    );
    let of = |kind: PathKind| plan.cells.iter().filter(|cell| cell.path.kind == kind).count();
    assert_eq!(of(PathKind::Vxlan), 6, "virtual machines have ports on a bridge");
    for kind in [
        PathKind::Shared(CardSharing::Macvlan),
        PathKind::Shared(CardSharing::Ipvlan),
        PathKind::Rootless(UserNetwork::Pasta),
        PathKind::Rootless(UserNetwork::Slirp4netns),
        PathKind::Wireguard,
    ] {
        assert_eq!(of(kind.clone()), 2, "{kind:?} is for systems with a network of the host's kernel");
    }
    let inside: Vec<u32> = plan.cells[..4].iter().map(|cell| cell.path.inner_mtu()).collect();
    assert!(inside.contains(&1450) && inside.contains(&8950), "{inside:?}");
    let needed = requirements(&plan);
    use Requirement::{Ipvlan, Macvlan, Pasta, Slirp4netns, Vxlan, Wireguard};
    assert!([Vxlan, Macvlan, Ipvlan, Pasta, Slirp4netns, Wireguard].iter().all(|need| needed.contains(need)));
    let inside = ok("native", "native", "[pasta, slirp4netns: {sut_mtu: 1400}]");
    assert_eq!([0, 1].map(|i| inside.cells[i].path.sut_mtu), [Some(UserNetwork::MTU), Some(1400)]);
    // Of the outer packets' length, which is not what the ends of these have.
    let outer =
        ok("native", "native", "[pasta: {sut_mtu: 1500}, vxlan: {sut_mtu: 1500}, bridge: {sut_mtu: 1500}]");
    assert_eq!([0, 1, 2].map(|i| outer.cells[i].path.sut_mtu), [Some(1500), Some(1500), None]);
}

#[test]
fn user_mode_linux_has_a_port_on_a_bridge() {
    let plan = ok("native", "[native, uml]", "[direct, bridge, nat, vxlan, macvlan, pasta, wireguard]");
    let on = |plan: &Plan| -> Vec<String> {
        let cells = plan.cells.iter().filter(|cell| cell.environment.kind == EnvironmentKind::Uml);
        cells.map(|cell| cell.path.name.clone()).collect()
    };
    assert_eq!(on(&plan), ["direct", "bridge", "nat", "vxlan"]);
    assert!(requirements(&plan).contains(&Requirement::Uml));
    let told = errors("native", "uml", "macvlan");
    assert!(told.iter().any(|told| told.contains("user-mode Linux has a card of its own")), "{told:?}");
}

#[test]
fn what_names_addresses_cannot_cross_a_translation() {
    let over = |path: &str, service: &str, workload: &str, measure: &str| {
        let text = format!(
            "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: {service}\nworkload: {workload}\n\
             measure: {measure}\npaths: {path}\n"
        );
        parse("plan.yaml", text.as_bytes(), &[] as &[&str])
    };
    let plan = |service: &str, workload: &str, measure: &str| over("nat", service, workload, measure);
    assert!(plan("redis", "redis", "capacity").is_ok());
    assert!(plan("peer", "[tcp, {ping: {probe: icmp}}]", "network").is_ok());
    let Err(PlanErrors::Invalid(told)) = over("pasta", "peer", "[tcp, udp]", "network") else {
        panic!("udp is taken")
    };
    assert!(over("pasta", "peer", "[tcp, rr]", "network").is_ok());
    let why = "by which of the network tests only `tcp` and `rr` go";
    assert!(told.iter().any(|d| d.message.contains(why)), "{told:?}");
    for (service, workload, measure, what) in [
        ("sip", "sip", "ims", "SIP names addresses in its messages"),
        ("ftp", "ftp", "capacity", "FTP names addresses in its replies"),
        ("tgt", "storage", "storage", "storage hasn't been tried behind such a host"),
    ] {
        let Err(PlanErrors::Invalid(told)) = plan(service, workload, measure) else {
            panic!("{service} is taken")
        };
        let found = told.iter().any(|d| d.message == format!("path `nat` translates addresses, and {what}"));
        assert!(found, "{told:?}");
    }
}

proptest! {
    /// Whatever stands for a remote host can't become an option of ssh or a second word.
    #[test]
    fn hosts_are_single_plain_words(host in "\\PC{1,40}") {
        let quoted = serde_json::to_string(&host).unwrap();
        let text = text("native", "native", &format!("nic: {{host: {quoted}}}"));
        if let Ok(plan) = parse("plan.yaml", text.as_bytes(), &[] as &[&str]) {
            let PathKind::Nic(nic) = &plan.cells[0].path.kind else { panic!("not nic") };
            prop_assert!(!nic.host.starts_with('-') && !nic.host.contains(|c: char| c.is_whitespace()));
            prop_assert!(nic.host.is_ascii() && !nic.host.contains(['\'', '"', ';', '$', '`', '|', '&']));
            prop_assert!(matches!(plan.cells[0].environment.kind, EnvironmentKind::Native));
        }
    }
}

#[test]
fn a_capture_needs_ethernet_at_its_end() {
    let over = |path: &str, capture: bool| {
        let text = format!(
            "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: peer\nworkload: [tcp]\n\
             measure: {{network: {{capture: {capture}}}}}\npaths: {path}\n"
        );
        parse("plan.yaml", text.as_bytes(), &[] as &[&str])
    };
    assert!(over("wireguard", false).is_ok() && over("vxlan", true).is_ok());
    let Err(PlanErrors::Invalid(told)) = over("wireguard", true) else { panic!("it is taken") };
    let why = "`capture` can't count on path `wireguard`: the ends of its tunnel have no Ethernet headers";
    assert!(told.iter().any(|d| d.message == why), "{told:?}");
}
