//! What FRR is told, whole: golden files, written anew by `VTAX_BLESS=1 cargo test -p vtax-topology`.

use std::path::Path;

use vtax_topology::bfd::Bfd;
use vtax_topology::builtin::topology;
use vtax_topology::frr::configuration;
use vtax_topology::options::{Choice, LeafSpine, MplsVpn};

fn check(choice: &Choice, router: &str) {
    let topology = topology(choice);
    let router = topology.router(router).unwrap();
    let found = configuration(&topology, router);
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{}.conf", router.name));
    if std::env::var_os("VTAX_BLESS").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(found, expected, "{}", file.display());
}

#[test]
fn an_mpls_vpns_routers_are_told_what_they_were() {
    let vpn = Choice::MplsVpn(MplsVpn { bfd: Bfd::USUAL, routes: 2, ..MplsVpn::default() });
    for router in ["ce1", "p1", "pe2"] {
        check(&vpn, router);
    }
}

#[test]
fn a_leaf_is_told_what_it_was() {
    check(&Choice::LeafSpine(LeafSpine::default()), "leaf1");
}
