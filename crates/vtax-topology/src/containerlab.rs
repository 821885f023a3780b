//! What a containerlab file asks for, and what is built of it: FRR's images become private instances of FRR, other
//! images namespaces with the host's own programs, bridges the kernel's.

use std::collections::BTreeMap;

use crate::blueprint::{Blueprint, Cable, CableEnd, FRR_CONF, File, Interface, Node, NodeKind};
use crate::frr::Daemon;
use crate::options::Wire;

/// MTU of a link that names none: containerlab's own default.
pub const MTU: u32 = 9500;
/// Where an image of FRR's has the list of its daemons.
pub const DAEMONS: &str = "/etc/frr/daemons";
/// Characters of a daemon's name that an error shows.
const LONGEST_SHOWN: usize = 40;

/// What is in each file that is bound.
pub type Texts = BTreeMap<Bind, String>;

/// A file that was read and is sound as far as it can be told without its configuration files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clab {
    /// Its name.
    pub name: String,
    /// Its nodes, in the file's order.
    pub nodes: Vec<ClabNode>,
    /// Its links, in the file's order.
    pub links: Vec<ClabLink>,
}

/// A node as the file has it, its group's, its kind's and the defaults' keys included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClabNode {
    /// Its name.
    pub name: String,
    /// Whether it is of kind `bridge`; else it is of kind `linux`.
    pub bridge: bool,
    /// Its image; empty for a bridge.
    pub image: String,
    /// Files that are put into it.
    pub binds: Vec<Bind>,
    /// Commands that are run in it once it stands.
    pub exec: Vec<Vec<String>>,
}

impl ClabNode {
    /// Whether its image is FRR's.
    #[must_use]
    pub fn is_router(&self) -> bool {
        // A registry may have a port, so the tag is looked for behind the last slash.
        let last = self.image.rsplit('/').next().unwrap_or_default();
        let name = last.split(['@', ':']).next().unwrap_or_default();
        !self.bridge && (name == "frr" || name.starts_with("frr-"))
    }

    /// Whether a file can be put there.
    ///
    /// # Errors
    ///
    /// [`ClabError::Bind`] where it is no file of FRR's directory, or the node is no router.
    pub fn takes(&self, bind: &Bind) -> Result<(), ClabError> {
        let file = bind.to.strip_prefix("/etc/frr/").filter(|file| !file.contains('/'));
        if self.is_router() && file.is_some_and(|file| !["", ".", ".."].contains(&file)) {
            return Ok(());
        }
        Err(ClabError::Bind { node: self.name.clone(), to: bind.to.clone() })
    }
}

/// A file of the host's in a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bind {
    /// Where it is, as written: relative to the containerlab file's directory, or absolute.
    pub from: String,
    /// Where it is in the node.
    pub to: String,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClabLink {
    /// Node and interface of each end.
    pub ends: [(String, String); 2],
    /// MTU, where the file names one.
    pub mtu: Option<u32>,
}

/// Why nothing can be built of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClabError {
    /// A router has no configuration.
    #[error("node {node} has an image of FRR's but no file is bound to {FRR_CONF}")]
    NoConfiguration {
        /// The router.
        node: String,
    },
    /// A router wants a daemon that isn't started here.
    #[error("node {node}: its daemons file switches on `{daemon}`, which vtax doesn't start")]
    Daemon {
        /// The router.
        node: String,
        /// The daemon.
        daemon: String,
    },
    /// A file is to be where none can be put.
    #[error(
        "node {node}: nothing can be bound to {to}: in a router FRR's directory /etc/frr is its own, all else is the host's"
    )]
    Bind {
        /// The node.
        node: String,
        /// Where it was to be.
        to: String,
    },
}

/// What is built of a file; `texts` has what is in each file that it binds.
///
/// # Errors
///
/// Where a node asks for what can't be done.
pub fn blueprint(clab: &Clab, texts: &Texts) -> Result<Blueprint, ClabError> {
    let nodes = clab.nodes.iter().map(|node| build(node, texts)).collect::<Result<Vec<_>, _>>()?;
    let cables = clab.links.iter().map(cable).collect();
    Ok(Blueprint { nodes, cables, ..Blueprint::default() })
}

fn cable(link: &ClabLink) -> Cable {
    let [(one, a), (other, b)] = &link.ends;
    let ends = [(one, a), (other, b)].map(|(node, interface)| CableEnd {
        node: node.clone(),
        // The node gives it its addresses.
        interface: Interface { name: interface.clone(), addresses: Vec::new(), vrf: None, labels: false },
    });
    Cable {
        name: format!("{one}:{a}-{other}:{b}"),
        ends,
        mtu: link.mtu.unwrap_or(MTU),
        wire: Wire::default(),
    }
}

/// What is built of a node; a file that isn't in `texts` is taken to be empty.
///
/// # Errors
///
/// Where the node asks for what can't be done.
pub fn build(node: &ClabNode, texts: &Texts) -> Result<Node, ClabError> {
    let mut built = Node {
        name: node.name.clone(),
        kind: if node.bridge { NodeKind::Bridge } else { NodeKind::Host },
        loopback: Vec::new(),
        vrfs: Vec::new(),
        tunnels: Vec::new(),
        labels: false,
        files: Vec::new(),
        commands: node.exec.clone(),
    };
    for bind in &node.binds {
        node.takes(bind)?;
        let text = texts.get(bind).cloned().unwrap_or_default();
        built.files.push(File { path: bind.to.clone(), text });
    }
    if node.is_router() {
        if !built.files.iter().any(|file| file.path == FRR_CONF) {
            return Err(ClabError::NoConfiguration { node: node.name.clone() });
        }
        let list = built.files.iter().find(|file| file.path == DAEMONS);
        let daemons = list.map_or_else(|| Ok(vec![Daemon::Zebra]), |list| daemons(&node.name, &list.text))?;
        // LDP needs a kernel that switches labels.
        built.labels = daemons.contains(&Daemon::Ldpd) && labels_anything(&built.files);
        built.kind = NodeKind::Router(daemons);
    }
    Ok(built)
}

/// Whether a router's configuration has LDP at all: example files switch its daemon on without using it.
fn labels_anything(files: &[File]) -> bool {
    let mut lines = files.iter().filter(|file| file.path == FRR_CONF).flat_map(|file| file.text.lines());
    lines.any(|line| line.trim() == "mpls ldp")
}

/// The daemons that a `daemons` file switches on. Those of FRR's that only watch others are left out.
fn daemons(node: &str, text: &str) -> Result<Vec<Daemon>, ClabError> {
    let mut found = vec![Daemon::Zebra];
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let on = value.trim().trim_matches('"') == "yes";
        if !on || !name.ends_with('d') && name != "zebra" {
            continue;
        }
        match Daemon::of(name) {
            Some(daemon) if found.contains(&daemon) => {}
            Some(daemon) => found.push(daemon),
            None if ["watchfrr", "mgmtd"].contains(&name) => {}
            None => {
                // The file may hold anything.
                let daemon = name.chars().take(LONGEST_SHOWN).collect();
                return Err(ClabError::Daemon { node: node.to_owned(), daemon });
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(file: &str) -> Bind {
        Bind { from: format!("r/{file}"), to: format!("/etc/frr/{file}") }
    }

    fn router() -> (Clab, Texts) {
        let node = ClabNode {
            name: "router1".to_owned(),
            image: "quay.io/frrouting/frr:10.5.1".to_owned(),
            binds: vec![bind("daemons"), bind("frr.conf")],
            ..ClabNode::default()
        };
        let daemons =
            "zebra=yes\nbgpd=no\nospfd=yes\nldpd=yes\nvtysh_enable=yes\nzebra_options=\" -s 90000000\"\n";
        let texts = [(bind("daemons"), daemons), (bind("frr.conf"), "router ospf\n")];
        let texts = texts.into_iter().map(|(bind, text)| (bind, text.to_owned())).collect();
        (Clab { name: "lab".to_owned(), nodes: vec![node], links: Vec::new() }, texts)
    }

    #[test]
    fn images_of_frr_are_routers() {
        for (image, is) in [
            ("quay.io/frrouting/frr:10.5.1", true),
            ("frrouting/frr@sha256:00", true),
            ("localhost:5000/frr:v1", true),
            ("wbitt/network-multitool:3.22.2", false),
            ("", false),
        ] {
            let node = ClabNode { image: image.to_owned(), ..ClabNode::default() };
            assert_eq!(node.is_router(), is, "{image}");
        }
    }

    #[test]
    fn a_router_has_the_daemons_of_its_file() {
        let (clab, texts) = router();
        let built = blueprint(&clab, &texts).unwrap();
        let daemons = vec![Daemon::Zebra, Daemon::Ospfd, Daemon::Ldpd];
        assert_eq!(built.nodes[0].kind, NodeKind::Router(daemons));
        assert!(!built.nodes[0].labels, "no line of its configuration has LDP");
        assert_eq!(built.nodes[0].files.len(), 2);
    }

    #[test]
    fn only_files_of_frrs_directory_can_be_bound() {
        let (clab, _) = router();
        let router = &clab.nodes[0];
        let host = ClabNode { image: "alpine".to_owned(), ..router.clone() };
        let to = |to: &str| Bind { from: "x".to_owned(), to: to.to_owned() };
        assert!(router.takes(&to("/etc/frr/vtysh.conf")).is_ok());
        for place in ["/etc/frr/", "/etc/frr/.", "/etc/frr/..", "/etc/frr/a/b", "/etc/frr", "/etc/passwd"] {
            assert!(router.takes(&to(place)).is_err(), "{place}");
        }
        assert!(host.takes(&to("/etc/frr/frr.conf")).is_err());
    }

    #[test]
    fn what_can_t_be_done_is_named() {
        let (clab, mut texts) = router();
        texts.insert(bind("daemons"), "pimd=yes\n".to_owned());
        assert!(blueprint(&clab, &texts).unwrap_err().to_string().contains("`pimd`"));
        let (mut clab, texts) = router();
        clab.nodes[0].binds.push(Bind { from: "x".to_owned(), to: "/etc/passwd".to_owned() });
        assert!(blueprint(&clab, &texts).unwrap_err().to_string().contains("/etc/passwd"));
        let (mut clab, texts) = router();
        clab.nodes[0].binds.pop();
        assert!(blueprint(&clab, &texts).unwrap_err().to_string().contains("router1"));
    }
}
