//! What can be wrong with a topology before anything is built.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::Prefix;
use crate::model::{Link, Topology};

/// The longest name of a router: with a number behind it, it is also an interface's, which has 15 bytes (IFNAMSIZ).
const LONGEST_NAME: usize = 12;
/// The longest name of an interface.
const LONGEST_INTERFACE: usize = 15;
/// Names that interfaces of every router have.
const TAKEN: [&str; 6] = ["lo", "client", "sut", "sham", "all", "default"];

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The part that is wrong.
    pub part: TopologyPart,
    /// What, in words for the user.
    pub what: String,
}

/// A part of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyPart {
    /// All of it.
    Whole,
    /// The router with this number, from 0.
    Router(usize),
    /// The link with this number, from 0.
    Link(usize),
    /// Where the client is.
    Client,
    /// Where the system under test is.
    Sut,
}

/// Everything that is wrong with it; empty where it can be built.
#[must_use]
pub fn check(topology: &Topology) -> Vec<Problem> {
    let mut problems = Problems(Vec::new());
    routers(topology, &mut problems);
    links(topology, &mut problems);
    addresses(topology, &mut problems);
    if problems.0.is_empty() {
        reachable(topology, &mut problems);
    }
    problems.0
}

struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, part: TopologyPart, what: impl Into<String>) {
        self.0.push(Problem { part, what: what.into() });
    }
}

/// Why a name can't be a router's; `None` where it can.
#[must_use]
pub fn bad_name(name: &str) -> Option<String> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let letter = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    let shown: String = name.chars().take(40).collect();
    if !plain || !letter || name.len() > LONGEST_NAME {
        return Some(format!(
            "`{shown}` can't be a router's name: it is 1 to {LONGEST_NAME} lower-case letters, digits and hyphens, a letter first"
        ));
    }
    TAKEN.contains(&name).then(|| format!("`{shown}` is the name of an interface that routers have anyway"))
}

fn routers(topology: &Topology, problems: &mut Problems) {
    if topology.routers.is_empty() {
        problems.add(TopologyPart::Whole, "a topology has at least one router");
    }
    let (mut names, mut ids) = (BTreeMap::new(), BTreeMap::new());
    for (number, router) in topology.routers.iter().enumerate() {
        let part = TopologyPart::Router(number);
        if let Some(what) = bad_name(&router.name) {
            problems.add(part, what);
        }
        if names.insert(router.name.as_str(), number).is_some() {
            problems.add(part, format!("router `{}` is there twice", router.name));
        }
        if let Some(other) = ids.insert(router.id, router.name.as_str()) {
            problems.add(
                part,
                format!("routers `{other}` and `{}` have the same id, {}", router.name, router.id),
            );
        }
    }
}

fn links(topology: &Topology, problems: &mut Problems) {
    let (mut interfaces, mut names) = (BTreeSet::new(), BTreeMap::new());
    let leads = |link: &Link| format!("from `{}` to `{}`", link.ends[0].router, link.ends[1].router);
    for (number, link) in topology.links.iter().enumerate() {
        let part = TopologyPart::Link(number);
        let name = link.name();
        // From `pe` to `west-p`, and from `pe-west` to `p`: a fault goes by the name, and would meet the wrong one.
        if let Some(namesake) = names.insert(name.clone(), link) {
            let (first, second) = (leads(namesake), leads(link));
            problems.add(
                part,
                format!("the links {first} and {second} are both called `{name}`: rename a router"),
            );
        }
        let [one, other] = &link.ends;
        if one.router == other.router {
            problems.add(
                part,
                format!("a link joins two routers, and this one leads from `{0}` to `{0}`", one.router),
            );
        }
        for end in &link.ends {
            if topology.router(&end.router).is_none() {
                problems.add(part, format!("a link to nowhere: there is no router `{}`", end.router));
            }
            if end.interface.len() > LONGEST_INTERFACE {
                problems.add(part, format!("interface `{}` has a name of more than 15 bytes", end.interface));
            }
            if !interfaces.insert((end.router.as_str(), end.interface.as_str())) && one.router != other.router
            {
                problems.add(part, format!("router `{}` has two interfaces `{}`", end.router, end.interface));
            }
        }
        network(link, part, problems);
    }
}

/// Whether both ends are in one network, with addresses of their own.
fn network(link: &Link, part: TopologyPart, problems: &mut Problems) {
    let [one, other] = link.ends.each_ref().map(|end| end.address);
    if one.network() != other.network() {
        problems.add(part, format!("{one} and {other} are not in the same network"));
    } else if one.address == other.address {
        problems.add(part, format!("both ends have the address {one}"));
    } else if !(8..=31).contains(&one.length) {
        problems.add(part, format!("a link's network has a prefix length of 8 to 31, not {}", one.length));
    } else {
        for end in [one, other] {
            if let Some(what) = not_an_end(end) {
                problems.add(part, what);
            }
        }
    }
}

/// Why an address can't be an end's: a network of more than two addresses has one of its own, and one for all its ends.
fn not_an_end(end: Prefix) -> Option<String> {
    // Networks of two addresses have neither (RFC 3021).
    let last = 1_u32.checked_shl(32 - u32::from(end.length)).filter(|count| *count > 2)? - 1;
    let what = match u32::from(end.address) - u32::from(end.network().address) {
        0 => "own address",
        number if number == last => "broadcast address",
        _ => return None,
    };
    let [first, last] = [1, last - 1].map(|number| end.nth(number).address);
    let which = if end.length == 30 {
        format!("the two ends are {first} and {last}")
    } else {
        format!("an end has one of {first} to {last}")
    };
    Some(format!("`{end}` is its network's {what}; {which}"))
}

/// Networks of all links and both edges, and every router's id, must not overlap. VRFs don't matter: no table of
/// what comes with vtax has the same network for two customers.
fn addresses(topology: &Topology, problems: &mut Problems) {
    let link =
        |(number, link): (usize, &Link)| (TopologyPart::Link(number), link.ends[0].address, link.name());
    let edge =
        |part, edge: &crate::model::Edge| (part, edge.address, format!("the {}'s network", edge.interface));
    let router = |(number, router): (usize, &crate::model::Router)| {
        (TopologyPart::Router(number), Prefix::host(router.id), format!("router {}", router.name))
    };
    let mut all = vec![edge(TopologyPart::Client, &topology.client), edge(TopologyPart::Sut, &topology.sut)];
    all.extend(topology.links.iter().enumerate().map(link));
    all.extend(topology.routers.iter().enumerate().map(router));
    for (number, (part, prefix, name)) in all.iter().enumerate() {
        let clash = all[..number].iter().find(|(other, taken, _)| {
            // Two routers with one id are told already.
            taken.overlaps(*prefix)
                && !matches!((other, part), (TopologyPart::Router(_), TopologyPart::Router(_)))
        });
        if let Some((_, taken, holder)) = clash {
            let (prefix, taken) = (prefix.network(), taken.network());
            problems.add(*part, format!("addresses clash: {prefix} of {name} and {taken} of {holder}"));
        }
    }
}

/// Whether there is any way from the client to the system under test.
fn reachable(topology: &Topology, problems: &mut Problems) {
    for (part, edge) in [(TopologyPart::Client, &topology.client), (TopologyPart::Sut, &topology.sut)] {
        if topology.router(&edge.router).is_none() {
            problems.add(
                part,
                format!("the {} is at router `{}`, which there isn't", edge.interface, edge.router),
            );
            return;
        }
    }
    let why = if !reaches(topology, |_, _| true) {
        "no link leads"
    } else if !reaches(topology, |link, _| speaks(topology, link).is_some()) {
        "no links whose ends both speak OSPF, or both BGP, lead"
    } else if !reaches(topology, |link, is_internal| passes_on(topology, link, is_internal)) {
        "routers of one autonomous system don't pass on to each other what they heard from a third of it, so nothing leads"
    } else {
        return;
    };
    let (from, to) = (&topology.client.router, &topology.sut.router);
    problems.add(
        TopologyPart::Whole,
        format!("{why} from `{from}`, where the client is, to `{to}`, where the system under test is"),
    );
}

/// How the ends of a link tell each other of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Ospf,
    ExternalBgp,
    InternalBgp,
}

/// How the ends of a link tell each other of networks; `None` where they have no language in common.
fn speaks(topology: &Topology, link: &Link) -> Option<Told> {
    if link.ends.iter().all(|end| end.ospf_cost.is_some()) {
        return Some(Told::Ospf);
    }
    let [one, other] =
        link.ends.each_ref().map(|end| topology.router(&end.router).and_then(|router| router.bgp.as_ref()));
    let (one, other) = one.zip(other)?;
    Some(if one.system == other.system { Told::InternalBgp } else { Told::ExternalBgp })
}

/// Whether a link tells of a network that was heard by internal BGP, or wasn't: internal BGP passes nothing on that it brought itself
/// (RFC 4271, section 9.2).
fn passes_on(topology: &Topology, link: &Link, is_internal: bool) -> bool {
    match speaks(topology, link) {
        None => false,
        Some(Told::InternalBgp) => !is_internal,
        Some(Told::Ospf | Told::ExternalBgp) => true,
    }
}

/// Whether links that are of use lead from the client's router to that of the system under test. Each is asked about with whether
/// internal BGP brought what it is to pass on.
fn reaches(topology: &Topology, is_of_use: impl Fn(&Link, bool) -> bool) -> bool {
    let start = (topology.client.router.as_str(), false);
    let (mut reached, mut next) = (BTreeSet::from([start]), vec![start]);
    while let Some((at, is_internal)) = next.pop() {
        if at == topology.sut.router {
            return true;
        }
        for (_, there, link) in topology.ends_of(at) {
            if is_of_use(link, is_internal) {
                let place = (there.router.as_str(), speaks(topology, link) == Some(Told::InternalBgp));
                if reached.insert(place) {
                    next.push(place);
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::topology;
    use crate::options::{Choice, Custom, CustomLink, CustomRouter, Speaks};

    fn custom(routers: &[&str], links: &[(&str, &str, Option<[&str; 2]>)]) -> Topology {
        speaking(&routers.iter().map(|name| (*name, Speaks::Ospf)).collect::<Vec<_>>(), links)
    }

    /// Routers by name and what they speak, with the client at the first and the service at the last.
    fn speaking(routers: &[(&str, Speaks)], links: &[(&str, &str, Option<[&str; 2]>)]) -> Topology {
        let router = |(name, speaks): &(&str, Speaks)| CustomRouter {
            name: (*name).to_owned(),
            loopback: None,
            speaks: *speaks,
            mpls: false,
        };
        let link = |(a, b, addresses): &(&str, &str, Option<[&str; 2]>)| CustomLink {
            between: [(*a).to_owned(), (*b).to_owned()],
            addresses: addresses.map(|pair| pair.map(|text| text.parse().unwrap())),
            rate: None,
            delay: None,
            loss: None,
            mtu: 1500,
            cost: None,
        };
        topology(&Choice::Custom(Custom {
            routers: routers.iter().map(router).collect(),
            links: links.iter().map(link).collect(),
            client: routers.first().map_or("a", |(name, _)| name).to_owned(),
            sut: routers.last().map_or("b", |(name, _)| name).to_owned(),
            bfd: Default::default(),
            timers: Default::default(),
        }))
    }

    /// Routers in a row that speak this.
    fn row(all: &[Speaks]) -> Topology {
        let names: Vec<String> = (0..all.len()).map(|number| format!("r{number}")).collect();
        let routers: Vec<_> = names.iter().map(String::as_str).zip(all.iter().copied()).collect();
        let links: Vec<_> = names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str(), None)).collect();
        speaking(&routers, &links)
    }

    #[test]
    fn links_lead_on_where_both_ends_tell_each_other() {
        use Speaks::{Bgp, Ospf};
        for sound in [
            &[Ospf, Ospf, Ospf][..],
            &[Bgp(1), Bgp(2), Bgp(3)],
            &[Bgp(1), Bgp(1)],
            &[Bgp(1), Bgp(2), Bgp(2), Bgp(3)],
        ] {
            assert_eq!(words(&row(sound)), "", "{sound:?}");
        }
        for mixed in [&[Ospf, Bgp(1)][..], &[Ospf, Bgp(1), Ospf], &[Bgp(1), Bgp(2), Ospf]] {
            let found = words(&row(mixed));
            let expected = "Whole: no links whose ends both speak OSPF, or both BGP, lead from `r0`, where the client is, to";
            assert!(found.starts_with(expected), "{mixed:?}: {found}");
        }
        for internal in [&[Bgp(1), Bgp(1), Bgp(1)][..], &[Bgp(1), Bgp(2), Bgp(2), Bgp(2)]] {
            let found = words(&row(internal));
            assert!(found.contains("what they heard from a third of it"), "{internal:?}: {found}");
        }
    }

    #[test]
    fn internal_neighbours_that_are_all_joined_are_sound() {
        let mut triangle = row(&[Speaks::Bgp(1); 3]);
        let Topology { links, .. } = row(&[Speaks::Bgp(1); 2]);
        let [mut direct] = <[Link; 1]>::try_from(links).unwrap();
        for (end, (router, interface, last)) in direct.ends.iter_mut().zip([("r0", "r2", 1), ("r2", "r0", 2)])
        {
            (end.router, end.interface) = (router.to_owned(), interface.to_owned());
            end.address = Prefix::new([10, 250, 0, last], 30);
        }
        triangle.links.push(direct);
        assert_eq!(words(&triangle), "");
    }

    fn words(topology: &Topology) -> String {
        check(topology).into_iter().map(|p| format!("{:?}: {}\n", p.part, p.what)).collect()
    }

    #[test]
    fn what_is_sound_has_no_problem() {
        assert_eq!(
            words(&custom(&["a", "b", "c"], &[("a", "b", None), ("b", "c", None), ("a", "c", None)])),
            ""
        );
        assert_eq!(
            words(&custom(&["a", "b"], &[("a", "b", None), ("a", "b", None)])),
            "",
            "two links in parallel"
        );
        assert_eq!(words(&custom(&["a"], &[])), "", "one router is a path too");
        let two = Some(["10.0.1.0/31", "10.0.1.1/31"]);
        assert_eq!(words(&custom(&["a", "b"], &[("a", "b", two)])), "", "a network of two addresses");
    }

    #[test]
    fn each_slip_is_named() {
        let slips = [
            (custom(&["a", "b", "a"], &[("a", "b", None)]), "router `a` is there twice"),
            (custom(&["a", "b"], &[("a", "a", None)]), "from `a` to `a`"),
            (custom(&["a", "b"], &[("a", "z", None)]), "a link to nowhere: there is no router `z`"),
            (custom(&["a", "b"], &[]), "no link leads from `a`"),
            (custom(&["a", "client"], &[("a", "client", None)]), "`client` is the name of an interface"),
            (custom(&["a", "B c"], &[("a", "B c", None)]), "can't be a router's name"),
            (
                custom(&["a", "b"], &[("a", "b", Some(["10.0.0.1/30", "10.0.0.9/30"]))]),
                "10.0.0.1/30 and 10.0.0.9/30 are not in the same network",
            ),
            (
                custom(
                    &["a", "b", "c"],
                    &[("a", "b", Some(["10.96.1.9/24", "10.96.1.8/24"])), ("b", "c", None)],
                ),
                "addresses clash",
            ),
            (
                custom(&["a", "b"], &[("a", "b", Some(["10.0.0.1/30", "10.0.0.1/30"]))]),
                "both ends have the address",
            ),
            (
                custom(&["a", "b"], &[("a", "b", Some(["10.0.1.1/30", "10.0.1.3/30"]))]),
                "`10.0.1.3/30` is its network's broadcast address; the two ends are 10.0.1.1 and 10.0.1.2",
            ),
            (
                custom(&["a", "b"], &[("a", "b", Some(["10.0.1.0/24", "10.0.1.9/24"]))]),
                "`10.0.1.0/24` is its network's own address; an end has one of 10.0.1.1 to 10.0.1.254",
            ),
            (
                custom(
                    &["pe", "pe-west", "west-p", "p"],
                    &[("pe", "west-p", None), ("pe", "pe-west", None), ("pe-west", "p", None)],
                ),
                "Link(2): the links from `pe` to `west-p` and from `pe-west` to `p` are both called",
            ),
        ];
        for (topology, expected) in slips {
            assert!(words(&topology).contains(expected), "{expected}: {}", words(&topology));
        }
    }
}
