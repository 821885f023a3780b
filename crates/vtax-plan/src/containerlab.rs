//! containerlab's topology files, as far as vtax can build what they ask for.
//!
//! Read with the same bounded tree as plans, so that everything that can't be done is named with its line at once.
//! Keys that only describe (`labels`) change nothing here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use vtax_topology::containerlab::{Bind, Clab, ClabError, ClabLink, ClabNode, DAEMONS, Texts, build};

use crate::diagnose::{PlanErrors, Report, listed, nearest, shorten};
use crate::shell::words;
use crate::source::{Source, Span};
use crate::tree::{self, Key, Node, Value};

/// Most nodes of a file.
const MOST_NODES: usize = 256;
/// Most links of a file.
const MOST_LINKS: usize = 1_024;
/// The longest name of a node.
const LONGEST_NAME: usize = 32;
/// The longest name of an interface (IFNAMSIZ).
const LONGEST_INTERFACE: usize = 15;
/// The longest file that may be bound, in bytes.
const LONGEST_FILE: u64 = 1 << 20;
/// The longest path of a file in a node, in bytes (PATH_MAX, its end left out).
const LONGEST_PATH: usize = 4_095;

/// Reads a containerlab file, and what is in the files that it binds.
///
/// # Errors
/// [`PlanErrors::Read`] and [`PlanErrors::TooLarge`] for the file, [`PlanErrors::Invalid`] with everything in it that
/// is wrong or can't be built, each with its line.
pub fn load(path: &Path) -> Result<(Clab, Texts), PlanErrors> {
    let directory = Some(path.parent().unwrap_or(Path::new("")));
    let mut files = Files { directory, texts: Texts::new() };
    let clab = parse_with(&path.to_string_lossy(), &crate::read_file(path)?, &mut files)?;
    Ok((clab, files.texts))
}

/// Reads one from memory; `name` is what error messages call it. The files that it binds aren't read.
///
/// # Errors
/// [`PlanErrors::Invalid`] as of [`load`].
pub fn parse(name: &str, bytes: &[u8]) -> Result<Clab, PlanErrors> {
    parse_with(name, bytes, &mut Files::default())
}

fn parse_with(name: &str, bytes: &[u8], files: &mut Files<'_>) -> Result<Clab, PlanErrors> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut report = Report::new(vec![Source { name: name.to_owned(), text: text.clone() }]);
    if let Err(error) = std::str::from_utf8(bytes) {
        let at = error.valid_up_to();
        report.error(Span::new(0, at..at), "the file is not UTF-8 from here on").without_snippet();
        return Err(PlanErrors::Invalid(report.finish()));
    }
    let root = tree::parse(&text, 0, 0, &mut report);
    let clab = root.map(|root| file(&root, files, &mut report)).unwrap_or_default();
    if clab.nodes.is_empty() && !report.has_errors() {
        report
            .error(Span::default(), "the file has no nodes")
            .help("they are listed under `topology: nodes:`");
    }
    if report.has_errors() { Err(PlanErrors::Invalid(report.finish())) } else { Ok(clab) }
}

/// The files that nodes bind.
#[derive(Default)]
struct Files<'a> {
    /// From where their names count; without it none is read.
    directory: Option<&'a Path>,
    /// What was read.
    texts: Texts,
}

impl Files<'_> {
    /// Reads a file that is bound, unless it was read for another node; false where that can't be, which is reported.
    fn read(&mut self, bind: &Bind, span: Span, report: &mut Report) -> bool {
        let Some(directory) = self.directory else { return true };
        if self.texts.contains_key(bind) {
            return true;
        }
        let (shown, path, mut bytes) = (shorten(&bind.from), directory.join(&bind.from), Vec::new());
        // A FIFO that nobody writes would be opened for ever.
        let is_fifo = std::fs::metadata(&path).is_ok_and(|meta| meta.file_type().is_fifo());
        let mut read = || File::open(&path)?.take(LONGEST_FILE + 1).read_to_end(&mut bytes);
        let read = if is_fifo { Ok(0) } else { read() };
        let why = match (read, String::from_utf8(bytes)) {
            _ if is_fifo => format!("`{shown}` is a FIFO, which would be waited for"),
            (Err(error), _) => format!("cannot read `{shown}`: {error}"),
            (Ok(length), _) if length as u64 > LONGEST_FILE => {
                format!("`{shown}` is longer than {LONGEST_FILE} bytes, which is the most")
            }
            (Ok(_), Err(error)) => {
                format!("`{shown}` is not UTF-8 after {} bytes", error.utf8_error().valid_up_to())
            }
            (Ok(_), Ok(text)) => {
                self.texts.insert(bind.clone(), text);
                return true;
            }
        };
        report
            .error(span, why)
            .help("names of bound files count from the directory of the file that binds them");
        false
    }
}

/// A key that containerlab has and vtax can't do anything with, and why.
struct Refused(&'static str, &'static str);

const OF_THE_FILE: [&str; 2] = ["name", "topology"];
const NOT_OF_THE_FILE: [Refused; 3] = [
    Refused("prefix", "nothing of a lab has a name outside of it"),
    Refused("mgmt", "there is no management network: `vtax lab exec NODE -- COMMAND` reaches every node"),
    Refused("settings", "no certificates are made"),
];
const OF_A_TOPOLOGY: [&str; 5] = ["defaults", "kinds", "groups", "nodes", "links"];
const OF_A_NODE: [&str; 6] = ["kind", "group", "image", "binds", "exec", "labels"];
const NO_CONTAINER: &str = "nodes are namespaces on the host's own files, not containers";
const NOT_OF_A_NODE: [Refused; 24] = [
    Refused("type", "it chooses among variants of a vendor's image"),
    Refused("startup-config", "bind an FRR configuration to /etc/frr/frr.conf"),
    Refused("enforce-startup-config", "bind an FRR configuration to /etc/frr/frr.conf"),
    Refused("license", "no vendor's image is run"),
    Refused("cmd", NO_CONTAINER),
    Refused("entrypoint", NO_CONTAINER),
    Refused("env", NO_CONTAINER),
    Refused("env-files", NO_CONTAINER),
    Refused("user", NO_CONTAINER),
    Refused("runtime", NO_CONTAINER),
    Refused("network-mode", NO_CONTAINER),
    Refused("ports", "there is no management network through which they could be reached"),
    Refused("mgmt-ipv4", "there is no management network"),
    Refused("mgmt-ipv6", "there is no management network"),
    Refused("dns", "there is no management network"),
    Refused("cpu", "a plan's `budget` limits CPUs"),
    Refused("cpu-set", "a plan's `budget` limits CPUs"),
    Refused("memory", "a plan's `budget` limits memory"),
    Refused("sysctls", "write the command that sets it under `exec`"),
    Refused("cap-add", NO_CONTAINER),
    Refused("devices", NO_CONTAINER),
    Refused("stages", "nodes are started at once and proven before they are used"),
    Refused("startup-delay", "nodes are started at once and proven before they are used"),
    Refused("healthcheck", "nodes are proven before they are used"),
];
const OF_A_LINK: [&str; 4] = ["endpoints", "mtu", "type", "labels"];
const NOT_OF_A_LINK: [Refused; 3] = [
    Refused("vars", "they are for configuration templates"),
    Refused("host-interface", "no interface of the host's is in a lab"),
    Refused("mode", "no interface of the host's is in a lab"),
];

/// The entries of a mapping; what can't be done is reported.
fn entries<'a>(
    node: &'a Node,
    title: &str,
    known: &[&'static str],
    refused: &[Refused],
    report: &mut Report,
) -> &'a [(Key, Node)] {
    let entries = match &node.value {
        Value::Mapping(entries) => entries.as_slice(),
        _ if node.is_null() => &[],
        _ => {
            report.error(node.span, format!("{title} must be a mapping, not {}", node.describe()));
            &[]
        }
    };
    for (key, _) in entries {
        if known.contains(&&*key.value) {
            continue;
        }
        if let Some(Refused(word, why)) = refused.iter().find(|Refused(word, _)| **word == *key.value) {
            report.error(key.span, format!("containerlab's `{word}` can't be done here")).help(*why);
            continue;
        }
        let word = shorten(&key.value);
        let guess = nearest(&key.value, known.iter().copied());
        let guess = guess.map_or(String::new(), |guess| format!("did you mean `{guess}`? "));
        let keys = listed(known.iter().copied());
        report
            .error(key.span, format!("unknown key in {title}: `{word}`"))
            .help(format!("{guess}keys: {keys}"));
    }
    entries
}

fn find<'a>(entries: &'a [(Key, Node)], key: &str) -> Option<&'a Node> {
    entries.iter().find(|(k, _)| &*k.value == key).map(|(_, node)| node)
}

/// The text of a scalar.
fn word<'a>(node: &'a Node, what: &str, report: &mut Report) -> Option<&'a str> {
    match node.text() {
        Some(text) if !node.is_null() => Some(text),
        _ => {
            report.error(node.span, format!("{what} is a text, not {}", node.describe()));
            None
        }
    }
}

/// The items of a list.
fn list<'a>(node: &'a Node, what: &str, report: &mut Report) -> &'a [Node] {
    match &node.value {
        Value::Sequence(items) => items,
        _ if node.is_null() => &[],
        _ => {
            report.error(node.span, format!("{what} is a list, not {}", node.describe()));
            &[]
        }
    }
}

fn file(root: &Node, files: &mut Files<'_>, report: &mut Report) -> Clab {
    let top = entries(root, "a containerlab file", &OF_THE_FILE, &NOT_OF_THE_FILE, report);
    let name = find(top, "name").and_then(|node| word(node, "`name`", report)).unwrap_or("lab").to_owned();
    let Some(topology) = find(top, "topology") else {
        report.error(root.span.at_start(), "a containerlab file needs the key `topology`");
        return Clab::default();
    };
    let parts = entries(topology, "`topology`", &OF_A_TOPOLOGY, &[], report);
    let groups = Groups::read(parts, report);
    let nodes = find(parts, "nodes").map_or(&[][..], |node| any_mapping(node, "`nodes`", report));
    if nodes.len() > MOST_NODES {
        let span = nodes[MOST_NODES].0.span;
        report.error(span, format!("a lab has at most {MOST_NODES} nodes, and this one has {}", nodes.len()));
        return Clab::default();
    }
    let nodes: Vec<ClabNode> =
        nodes.iter().map(|(key, node)| groups.node(key, node, files, report)).collect();
    let links = find(parts, "links").map_or(&[][..], |node| list(node, "`links`", report));
    if links.len() > MOST_LINKS {
        report.error(links[MOST_LINKS].span, format!("a lab has at most {MOST_LINKS} links"));
        return Clab::default();
    }
    let mut taken = BTreeSet::new();
    let links = links.iter().filter_map(|link| one_link(link, &nodes, &mut taken, report)).collect();
    Clab { name, nodes, links }
}

/// The entries of a mapping whose keys are names.
fn any_mapping<'a>(node: &'a Node, what: &str, report: &mut Report) -> &'a [(Key, Node)] {
    match &node.value {
        Value::Mapping(entries) => entries,
        _ if node.is_null() => &[],
        _ => {
            report.error(node.span, format!("{what} is a mapping of names, not {}", node.describe()));
            &[]
        }
    }
}

/// What nodes have in common.
struct Groups<'a> {
    defaults: Option<&'a Node>,
    kinds: BTreeMap<&'a str, &'a Node>,
    groups: BTreeMap<&'a str, &'a Node>,
}

/// What is said of a node at one place, or at several together.
#[derive(Default)]
struct Said<'a> {
    kind: Option<(&'a str, Span)>,
    group: Option<(&'a str, Span)>,
    image: Option<&'a str>,
    /// `None` for one that can't be read, which is reported.
    binds: Vec<(Option<Bind>, Span)>,
    exec: Vec<Vec<String>>,
}

impl<'a> Said<'a> {
    fn read(node: &'a Node, title: &str, report: &mut Report) -> Self {
        let entries = entries(node, title, &OF_A_NODE, &NOT_OF_A_NODE, report);
        let mut text = |key: &str| {
            let node = find(entries, key)?;
            Some((word(node, &format!("`{key}`"), report)?, node.span))
        };
        let (kind, group, image) = (text("kind"), text("group"), text("image"));
        let binds = find(entries, "binds").map_or(&[][..], |node| list(node, "`binds`", report));
        let exec = find(entries, "exec").map_or(&[][..], |node| list(node, "`exec`", report));
        Self {
            kind,
            group,
            image: image.map(|(image, _)| image),
            binds: binds.iter().map(|node| (bind(node, report), node.span)).collect(),
            exec: exec.iter().filter_map(|node| command(node, report)).collect(),
        }
    }

    /// With what is said at a more special place, which counts where both say something; lists come together.
    fn over(mut self, special: Self) -> Self {
        self.binds.extend(special.binds);
        self.exec.extend(special.exec);
        Self {
            kind: special.kind.or(self.kind),
            group: special.group.or(self.group),
            image: special.image.or(self.image),
            ..self
        }
    }
}

impl<'a> Groups<'a> {
    fn read(parts: &'a [(Key, Node)], report: &mut Report) -> Self {
        let mut named = |key: &str| -> BTreeMap<&'a str, &'a Node> {
            let all = find(parts, key).map_or(&[][..], |node| any_mapping(node, &format!("`{key}`"), report));
            all.iter().map(|(name, node)| (&*name.value, node)).collect()
        };
        let (kinds, groups) = (named("kinds"), named("groups"));
        Self { defaults: find(parts, "defaults"), kinds, groups }
    }

    /// A node with all that is said of it.
    fn node(&self, key: &Key, node: &Node, files: &mut Files<'_>, report: &mut Report) -> ClabNode {
        let is_named = check_name(key, report);
        let own = Said::read(node, "a node", report);
        let defaults = self.defaults.map(|d| Said::read(d, "`defaults`", report)).unwrap_or_default();
        let group = match own.group.or(defaults.group) {
            None => Said::default(),
            Some((name, span)) => match self.groups.get(name) {
                Some(group) => Said::read(group, "a group", report),
                None => {
                    report.error(span, format!("there is no group `{}`", shorten(name)));
                    Said::default()
                }
            },
        };
        let kind = own.kind.or(group.kind).or(defaults.kind);
        let of_kind = kind.and_then(|(name, _)| self.kinds.get(name));
        let of_kind = of_kind.map(|node| Said::read(node, "a kind", report)).unwrap_or_default();
        let all = defaults.over(of_kind).over(group).over(own);
        let bridge = is_bridge(key, kind, report);
        let node = ClabNode {
            name: key.value.to_string(),
            bridge: bridge == Some(true),
            image: all.image.unwrap_or_default().to_owned(),
            binds: all.binds.iter().filter_map(|(bind, _)| bind.clone()).collect(),
            exec: all.exec,
        };
        // Of a node that isn't known as a whole nothing more can be said.
        if is_named && bridge.is_some() {
            check_binds(&node, key, &all.binds, files, report);
        }
        node
    }
}

/// Whether a node is a bridge; `None` where it can't be built, which is reported.
fn is_bridge(key: &Key, kind: Option<(&str, Span)>, report: &mut Report) -> Option<bool> {
    match kind {
        Some(("bridge", _)) => Some(true),
        Some(("linux", _)) => Some(false),
        Some((other, span)) => {
            let what = format!("nodes of kind `{}` can't be built here", shorten(other));
            report.error(span, what).help("vtax builds `linux`, FRR's images as routers, and `bridge`");
            None
        }
        None => {
            report
                .error(key.span, format!("node `{}` has no kind", shorten(&key.value)))
                .help("such as `kind: linux`");
            None
        }
    }
}

/// Reads what is bound into a node, and reports what can't be done of it where it is written.
fn check_binds(
    node: &ClabNode,
    key: &Key,
    binds: &[(Option<Bind>, Span)],
    files: &mut Files<'_>,
    report: &mut Report,
) {
    let mut sound = true;
    for (bind, span) in binds {
        sound &= match bind.as_ref().map(|bind| (bind, node.takes(bind))) {
            None => false,
            Some((bind, Ok(()))) => files.read(bind, *span, report),
            Some((bind, Err(_))) => {
                // The place may be long.
                let error = ClabError::Bind { node: node.name.clone(), to: shorten(&bind.to) };
                report.error(*span, error.to_string());
                false
            }
        };
    }
    if !sound {
        // A file that isn't known may be the one that is missed.
        return;
    }
    let Err(error) = build(node, &files.texts) else { return };
    let list = binds.iter().find(|(bind, _)| bind.as_ref().is_some_and(|bind| bind.to == DAEMONS));
    let span = match (&error, list) {
        (ClabError::Daemon { .. }, Some((_, span))) => *span,
        _ => key.span,
    };
    report.error(span, error.to_string());
}

/// Whether a node can have its name; where not, that is reported.
fn check_name(key: &Key, report: &mut Report) -> bool {
    let name = &*key.value;
    // It is a directory of FRR's, which takes neither slashes nor dots.
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let sound = plain && first && name.len() <= LONGEST_NAME;
    if !sound {
        report
            .error(key.span, format!("`{}` can't be the name of a node", shorten(name)))
            .help(format!("it is 1 to {LONGEST_NAME} letters, digits, `-` and `_`, a letter or digit first"));
    }
    sound
}

/// `FROM:TO`, with `:ro` or `:rw` behind it.
fn bind(node: &Node, report: &mut Report) -> Option<Bind> {
    let text = word(node, "a bind", report)?;
    let parts: Vec<&str> = text.split(':').collect();
    let (from, to) = match parts.as_slice() {
        [from, to] | [from, to, "ro" | "rw"]
            if !from.is_empty() && to.starts_with('/') && to.len() <= LONGEST_PATH =>
        {
            (*from, *to)
        }
        _ => {
            report.error(node.span, format!("`{}` is no bind: it is `FROM:TO`, TO absolute", shorten(text)));
            return None;
        }
    };
    if from.contains("__clab") || from.contains('$') || from.starts_with('~') {
        report.error(
            node.span,
            format!("`{}`: variables in the place of a file are not filled in", shorten(from)),
        );
        return None;
    }
    Some(Bind { from: from.to_owned(), to: to.to_owned() })
}

/// The words of a command as a shell would take them apart, which is all of a shell that containerlab has.
fn command(node: &Node, report: &mut Report) -> Option<Vec<String>> {
    let text = word(node, "a command", report)?;
    let words = words(text).ok();
    if words.is_none() {
        report.error(node.span, "a quote in this command does not end, or it is empty");
    }
    words
}

fn one_link(
    node: &Node,
    nodes: &[ClabNode],
    taken: &mut BTreeSet<(String, String)>,
    report: &mut Report,
) -> Option<ClabLink> {
    let entries = entries(node, "a link", &OF_A_LINK, &NOT_OF_A_LINK, report);
    if let Some(kind) = find(entries, "type") {
        let word = word(kind, "`type`", report)?;
        if word != "veth" {
            let what = format!("links of type `{}` can't be built here", shorten(word));
            report.error(kind.span, what).help("a link is a virtual cable between two nodes, `veth`");
            return None;
        }
    }
    let Some(endpoints) = find(entries, "endpoints") else {
        report.error(node.span.at_start(), "a link needs the key `endpoints`");
        return None;
    };
    let both = list(endpoints, "`endpoints`", report);
    let [one, other] = both else {
        report.error(endpoints.span, format!("a link has two endpoints, not {}", both.len()));
        return None;
    };
    let (one, other) = (endpoint(one, nodes, taken, report), endpoint(other, nodes, taken, report));
    let mtu = find(entries, "mtu").and_then(|node| mtu(node, report));
    Some(ClabLink { ends: [one?, other?], mtu })
}

fn mtu(node: &Node, report: &mut Report) -> Option<u32> {
    let parsed = word(node, "`mtu`", report)?.parse().ok().filter(|mtu| (576..=65_535).contains(mtu));
    if parsed.is_none() {
        report.error(node.span, format!("{} is no MTU: it is 576 to 65535 bytes", node.describe()));
    }
    parsed
}

/// `NODE:INTERFACE`, or a mapping of both.
fn endpoint(
    node: &Node,
    nodes: &[ClabNode],
    taken: &mut BTreeSet<(String, String)>,
    report: &mut Report,
) -> Option<(String, String)> {
    let (name, interface) = match &node.value {
        Value::Mapping(_) => {
            let known = ["node", "interface"];
            let refused = [Refused("mac", "addresses of cards are the kernel's choice")];
            let entries = entries(node, "an endpoint", &known, &refused, report);
            let mut part =
                |key: &str| word(find(entries, key)?, &format!("`{key}`"), report).map(str::to_owned);
            (part("node"), part("interface"))
        }
        _ => {
            let text = word(node, "an endpoint", report)?;
            let (name, interface) = text.split_once(':').unzip();
            (name.map(str::to_owned), interface.map(str::to_owned))
        }
    };
    let Some((name, interface)) = name.zip(interface) else {
        report.error(node.span, "an endpoint is `NODE:INTERFACE`, such as `router1:eth1`");
        return None;
    };
    if ["host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch"].contains(&name.as_str()) {
        let what = format!("a link to `{name}` leads out of the lab, which has no way out");
        report.error(node.span, what).help("every link is between two of the file's nodes");
        return None;
    }
    if !nodes.iter().any(|node| node.name == name) {
        report.error(node.span, format!("a link to nowhere: there is no node `{}`", shorten(&name)));
        return None;
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if interface.is_empty()
        || interface.len() > LONGEST_INTERFACE
        || !interface.bytes().all(plain)
        || interface == "lo"
    {
        let shown = shorten(&interface);
        let own = if interface == "lo" { ", and not `lo`, which every node has" } else { "" };
        report.error(
            node.span,
            format!(
                "`{shown}` can't be an interface's name: it is 1 to 15 letters, digits, `-`, `_` and `.`{own}"
            ),
        );
        return None;
    }
    if !taken.insert((name.clone(), interface.clone())) {
        report.error(node.span, format!("interface `{interface}` of node `{name}` is at two links"));
        return None;
    }
    Some((name, interface))
}
