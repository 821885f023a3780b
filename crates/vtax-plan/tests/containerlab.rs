//! containerlab files: what is read of them, and what is refused with its line.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use vtax_plan::PlanErrors;
use vtax_plan::containerlab::{load, parse};

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
        Err(errors) => told(&errors),
    }
}

fn told(errors: &PlanErrors) -> Vec<String> {
    match errors {
        PlanErrors::Invalid(diagnostics) => diagnostics
            .iter()
            .map(|d| format!("{} {} [{}]", d.line, d.message, d.help.unwrap_or_default()))
            .collect(),
        other => panic!("{other}"),
    }
}

/// The example in a directory, with files for its router.
fn written(directory: &Path) -> PathBuf {
    let (own, file) = (directory.join("router1"), directory.join("lab.clab.yml"));
    fs::create_dir(&own).unwrap();
    fs::write(own.join("daemons"), "ospfd=yes\n").unwrap();
    fs::write(own.join("frr.conf"), "router ospf\n").unwrap();
    fs::write(&file, EXAMPLE).unwrap();
    file
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
        (
            "\"PC1:eth1\"",
            "\"PC1:lo\"",
            "25 `lo` can't be an interface's name: it is 1 to 15 letters, digits, `-`, `_` and `.`, and not `lo`, which every node has",
        ),
        ("type: veth", "type: vxlan", "25 links of type `vxlan` can't be built here"),
        ("    PC1:", "    PC.1:", "18 `PC.1` can't be the name of a node"),
        ("router1/daemons:", "__clabNodeDir__/daemons:", "14 `__clabNodeDir__/daemons`: variables"),
        (
            "daemons:/etc/frr/daemons",
            "daemons:/etc/daemons",
            "14 node router1: nothing can be bound to /etc/daemons",
        ),
        (
            "      kind: bridge",
            "      kind: bridge\n      binds: [a:/b]",
            "18 node sw: nothing can be bound to /b",
        ),
        (
            "/etc/frr/frr.conf:ro",
            "/etc/frr/zebra.conf",
            "11 node router1 has an image of FRR's but no file is bound",
        ),
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
fn bound_files_are_read_or_refused_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = written(directory.path());
    let (clab, texts) = load(&file).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
    let binds = &clab.nodes[0].binds;
    assert_eq!((texts.len(), texts[&binds[1]].as_str()), (2, "router ospf\n"));
    let own = directory.path().join("router1");
    let found = |name: &str, bytes: &[u8]| {
        fs::write(own.join(name), bytes).unwrap();
        told(&load(&file).unwrap_err())
    };
    let refused = found("daemons", b"ospfd=yes\npimd=yes\n");
    assert!(refused.len() == 1 && refused[0].starts_with("14 node router1: its daemons file"), "{refused:?}");
    let refused = found("daemons", b"zebra=yes\n\xff");
    assert!(refused[0].starts_with("14 `router1/daemons` is not UTF-8 after 10 bytes"), "{refused:?}");
    // Both files are at fault, and both are told.
    let refused = found("frr.conf", "!".repeat((1 << 20) + 1).as_bytes());
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[1].starts_with("15 `router1/frr.conf` is longer than 1048576 bytes"), "{refused:?}");
    fs::remove_file(own.join("frr.conf")).unwrap();
    let refused = found("daemons", b"");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("15 cannot read `router1/frr.conf`: "), "{refused:?}");
    // One that nobody writes would be waited for.
    assert!(std::process::Command::new("mkfifo").arg(own.join("frr.conf")).status().unwrap().success());
    let refused = told(&load(&file).unwrap_err());
    assert!(
        refused[0].starts_with("15 `router1/frr.conf` is a FIFO, which would be waited for"),
        "{refused:?}"
    );
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
