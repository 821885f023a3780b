//! containerlab files: what is read of them, and what is refused with its line.

use proptest::prelude::*;
use vtax_plan::PlanErrors;
use vtax_plan::containerlab::parse;

/// As containerlab's own example `frr01` is written: groups with kinds and images, binds, commands, links.
const EXAMPLE: &str = "\
name: ring
topology:
  groups:
    routers:
      kind: linux
      image: quay.io/frrouting/frr:10.5.1
    hosts:
      kind: linux
      image: wbitt/network-multitool:3.22.2
  nodes:
    router1:
      group: routers
      binds:
        - router1/daemons:/etc/frr/daemons
        - router1/frr.conf:/etc/frr/frr.conf:ro
    sw:
      kind: bridge
    PC1:
      group: hosts
      exec:
        - ip link set eth1 up
        - ip route add 192.168.0.0/16 via 192.168.11.1 dev eth1
  links:
    - endpoints: [\"router1:eth1\", \"sw:p1\"]
    - {type: veth, mtu: 1500, endpoints: [{node: sw, interface: p2}, \"PC1:eth1\"]}
";

fn errors(text: &str) -> Vec<String> {
    match parse("lab.clab.yml", text.as_bytes()) {
        Ok(clab) => panic!("no error: {clab:?}"),
        Err(PlanErrors::Invalid(diagnostics)) => diagnostics
            .iter()
            .map(|d| format!("{} {} [{}]", d.line, d.message, d.help.unwrap_or_default()))
            .collect(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn an_example_is_read() {
    let clab = parse("lab.clab.yml", EXAMPLE.as_bytes()).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
    assert_eq!(clab.name, "ring");
    let [router, bridge, host] = clab.nodes.as_slice() else { panic!("{clab:?}") };
    assert!(router.is_router() && bridge.bridge && !host.is_router());
    assert_eq!((router.binds.len(), router.binds[1].to.as_str()), (2, "/etc/frr/frr.conf"));
    assert_eq!(host.exec[1], ["ip", "route", "add", "192.168.0.0/16", "via", "192.168.11.1", "dev", "eth1"]);
    let [first, second] = clab.links.as_slice() else { panic!("{clab:?}") };
    assert_eq!(first.ends, [("router1".into(), "eth1".into()), ("sw".into(), "p1".into())]);
    assert_eq!((second.mtu, second.ends[1].0.as_str()), (Some(1500), "PC1"));
}

#[test]
fn what_can_t_be_done_is_named_with_its_line() {
    let slips = [
        ("name: ring", "mgmt: {network: x}\nname: ring", "1 containerlab's `mgmt` can't be done here"),
        ("      kind: bridge", "      kind: bridge\n      ports: [80:80]", "18 containerlab's `ports`"),
        (
            "      kind: bridge",
            "      kind: nokia_srlinux",
            "17 nodes of kind `nokia_srlinux` can't be built here",
        ),
        ("      kind: bridge", "      image: x", "16 node `sw` has no kind"),
        (
            "      kind: bridge",
            "      kind: bridge\n      imgae: x",
            "18 unknown key in a node: `imgae` [did you mean `image`?",
        ),
        ("group: hosts", "group: guests", "19 there is no group `guests`"),
        ("sw:p1", "switch:p1", "24 a link to nowhere: there is no node `switch`"),
        ("sw:p1", "host:p1", "24 a link to `host` leads out of the lab"),
        ("sw:p1", "sw", "24 an endpoint is `NODE:INTERFACE`"),
        ("\"PC1:eth1\"", "\"router1:eth1\"", "25 interface `eth1` of node `router1` is at two links"),
        ("type: veth", "type: vxlan", "25 links of type `vxlan` can't be built here"),
        ("    PC1:", "    PC.1:", "18 `PC.1` can't be the name of a node"),
        ("router1/daemons:", "__clabNodeDir__/daemons:", "14 `__clabNodeDir__/daemons`: variables"),
        ("- ip link set eth1 up", "- ip link set 'eth1 up", "21 a quote in this command does not end"),
    ];
    for (from, to, expected) in slips {
        let found = errors(&EXAMPLE.replacen(from, to, 1));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{expected}: {found:#?}");
    }
    assert!(errors("topology: {nodes: {}}")[0].contains("no nodes"));
    assert!(errors("a: 1").iter().any(|line| line.contains("needs the key `topology`")));
}

#[test]
fn ten_thousand_nodes_are_refused_at_once() {
    let nodes: String = (0..999).map(|number| format!("    n{number}: {{kind: linux}}\n")).collect();
    let found = errors(&format!("name: x\ntopology:\n  nodes:\n{nodes}"));
    assert!(found.join("").contains("at most 256 nodes"), "{found:?}");
}

proptest! {
    #[test]
    fn any_change_of_an_example_is_read_or_refused(at in 0..EXAMPLE.len(), length in 0_usize..20, text in "\\PC{0,8}") {
        let end = (at + length).min(EXAMPLE.len());
        if EXAMPLE.is_char_boundary(at) && EXAMPLE.is_char_boundary(end) {
            let changed = format!("{}{text}{}", &EXAMPLE[..at], &EXAMPLE[end..]);
            let _ = parse("lab.clab.yml", changed.as_bytes());
        }
    }
}
